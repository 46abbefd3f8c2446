// SPDX-License-Identifier: GPL-2.0

//! Parsers of what peers and user processes write.

use super::Numbers;
use rxe_proto::{
    packet::{
        self,
        PacketInfo, //
    },
    qpstate::QpType,
    wire::ICRC_LEN,
    wqe,
    wr::{
        SendLimits,
        SendOp,
        MAX_MESSAGE, //
    },
};

/// A packet is parsed within its bounds, and comes out as it went in.
pub fn packet(data: &[u8]) {
    let (peek, info) = match (packet::peek(data), PacketInfo::parse(data)) {
        (Ok(peek), Ok(info)) => (peek, info),
        (peek, info) => return assert_eq!(peek.err(), info.err()),
    };
    assert_eq!(
        (peek.opcode, peek.dest_qpn, peek.psn, peek.pkey),
        (info.opcode, info.dest_qpn, info.psn, info.pkey)
    );
    assert_eq!(info.header_len, info.opcode.header_len());
    assert_eq!(info.packet_len(), Some(data.len()));

    let mut bytes = vec![0; data.len()];
    let header_len = usize::from(info.header_len);
    assert_eq!(info.emit(&mut bytes), Some(header_len));
    bytes[header_len..].copy_from_slice(&data[header_len..]);
    assert_eq!(PacketInfo::parse(&bytes), Ok(info));
    for short in 0..header_len {
        assert_eq!(info.emit(&mut bytes[..short]), None);
        assert!(PacketInfo::parse(&bytes[..short + ICRC_LEN]).is_err());
    }
}

/// A work request that is accepted is within the limits.
pub fn wr(data: &[u8]) {
    let mut numbers = Numbers(data);
    let qp_type = match numbers.u8() % 4 {
        0 => QpType::Rc,
        1 => QpType::Uc,
        2 => QpType::Ud,
        _ => QpType::Gsi,
    };
    let limits = SendLimits {
        max_sge: numbers.u8() % 33,
        max_inline: u32::from(numbers.u16() % 1025),
    };
    let slot = numbers.0;

    let _ = wqe::parse_av(slot);
    if let Ok(wr) = wqe::parse_send(slot, qp_type, &limits) {
        assert!(!matches!(wr.op, SendOp::RegMr { .. }));
        assert!(wr.num_sge <= limits.max_sge);
        assert!(wr.length <= MAX_MESSAGE);
        if wr.flags.inline {
            assert_eq!(wr.num_sge, 0);
            assert!(wr.length <= limits.max_inline.max(8));
            assert!(slot.get(wqe::inline_range(&wr)).is_some());
        }
        for index in 0..wr.num_sge {
            assert!(wqe::parse_sge(slot, index).is_some());
        }
    }
    if let Ok(wr) = wqe::parse_recv(slot, limits.max_sge) {
        assert!(wr.num_sge <= limits.max_sge);
        let lengths = (0..wr.num_sge).map(|index| {
            let sge = wqe::parse_recv_sge(slot, index).expect("within the slot");
            u64::from(sge.length)
        });
        assert!(u64::from(wr.length) <= lengths.sum());
    }
}
