// SPDX-License-Identifier: GPL-2.0

//! The fuzz targets on inputs that are the same each time, without a fuzzer.

use proptest::{
    collection::vec,
    prelude::*,
    test_runner::RngSeed, //
};
use rxe_proto::{
    opcode::Opcode,
    uabi::SEND_DATA_OFFSET, //
};

#[path = "../fuzz/targets/mod.rs"]
mod targets;

fn fixed(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(fixed(20_000))]

    #[test]
    fn packet_of_any_bytes(data in vec(any::<u8>(), 0..80)) {
        targets::packet(&data);
    }

    /// The version and the opcode are right, so that the rest is looked at.
    #[test]
    fn packet_of_a_known_opcode(
        opcode in 0..Opcode::ALL.len(),
        mut data in vec(any::<u8>(), 2..80),
    ) {
        data[0] = Opcode::ALL[opcode].byte();
        data[1] &= 0xf0;
        targets::packet(&data);
    }

    #[test]
    fn wr_of_any_bytes(data in vec(any::<u8>(), 0..300)) {
        targets::wr(&data);
    }

    /// The operation and the number of buffers are small.
    #[test]
    fn wr_of_a_known_operation(
        opcode in 0u8..16,
        buffers in 0u8..4,
        length in any::<u16>(),
        mut data in vec(any::<u8>(), 4 + SEND_DATA_OFFSET..400),
    ) {
        let slot = &mut data[4..];
        slot[12..16].copy_from_slice(&[opcode, 0, 0, 0]);
        let dma = &mut slot[SEND_DATA_OFFSET - 24..];
        dma[0..4].copy_from_slice(&u32::from(length % 200).to_le_bytes());
        dma[12..16].copy_from_slice(&[buffers, 0, 0, 0]);
        targets::wr(&data);
    }
}

proptest! {
    #![proptest_config(fixed(5_000))]

    #[test]
    fn responder_of_any_operations(data in vec(any::<u8>(), 0..800)) {
        targets::responder_ops(&data);
    }

    #[test]
    fn sender_of_any_operations(data in vec(any::<u8>(), 0..800)) {
        targets::sender_ops(&data);
    }
}
