// SPDX-License-Identifier: GPL-2.0

//! Parsing and emission of packets.

use proptest::prelude::*;
use rxe_proto::counters::DropReason;
use rxe_proto::num::{Key, Qpn};
use rxe_proto::opcode::{Kind, Opcode};
use rxe_proto::packet::{pad_of, peek, Aeth, AtomicEth, Deth, Feth, PacketInfo, Reth};
use rxe_proto::psn::{Msn, Psn};
use rxe_proto::wire::Imm;

pub fn opcode() -> impl Strategy<Value = Opcode> {
    prop::sample::select(Opcode::ALL)
}

/// A packet of an opcode, with random values in the headers that it has.
pub fn packet_of(op: Opcode) -> impl Strategy<Value = PacketInfo> {
    let bth = (
        any::<[bool; 5]>(),
        any::<u16>(),
        any::<u32>(),
        any::<u32>(),
        0u32..5000,
    );
    let rest = (
        any::<[u64; 4]>(),
        any::<[u32; 5]>(),
        any::<[u8; 4]>(),
        any::<u8>(),
    );
    (bth, rest).prop_map(move |((bits, pkey, qpn, psn, len), (q, d, imm, b))| {
        let mut p = PacketInfo::new(op);
        [p.solicited, p.mig_req, p.ack_req, p.fecn, p.becn] = bits;
        p.pkey = pkey;
        p.dest_qpn = Qpn::new(qpn);
        p.psn = Psn::new(psn);
        if op.may_have_payload() {
            p.set_payload_len(len);
        }
        if op.has_reth() {
            p.reth = Reth {
                va: q[0],
                key: Key::new(d[0]),
                len: d[1],
            };
        }
        if op.has_aeth() {
            p.aeth = Aeth {
                syndrome: b,
                msn: Msn::new(d[2]),
            };
        }
        if op.has_atomic_eth() {
            p.atomic = AtomicEth {
                va: q[0],
                key: Key::new(d[0]),
                swap_add: q[1],
                compare: q[2],
            };
        }
        if op.has_atomic_ack_eth() {
            p.orig = q[3];
        }
        if op.has_deth() {
            p.deth = Deth {
                qkey: d[3],
                src_qpn: Qpn::new(d[4]),
            };
        }
        if op.has_imm() {
            p.imm = Imm(imm);
        }
        if op.has_ieth() {
            p.ieth = Key::new(d[0]);
        }
        if op.has_feth() {
            p.feth = Feth {
                placement: b & 15,
                level: (b >> 4) & 3,
            };
        }
        p
    })
}

fn packet() -> impl Strategy<Value = PacketInfo> {
    opcode().prop_flat_map(packet_of)
}

/// Emits a packet with its payload, pad and room for the ICRC.
fn bytes_of(p: &PacketInfo) -> Vec<u8> {
    let mut bytes = vec![0xa5; p.packet_len().unwrap()];
    assert_eq!(p.emit(&mut bytes), Some(usize::from(p.header_len)));
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn parse_gives_back_what_was_emitted(p in packet()) {
        let bytes = bytes_of(&p);
        prop_assert_eq!(bytes.len() % 4, 0);
        prop_assert_eq!(PacketInfo::parse(&bytes), Ok(p));
        let peeked = peek(&bytes).unwrap();
        prop_assert_eq!(
            (peeked.opcode, peeked.dest_qpn, peeked.psn, peeked.pkey),
            (p.opcode, p.dest_qpn, p.psn, p.pkey)
        );
    }

    #[test]
    fn emission_touches_its_headers_only(p in packet(), extra in 0usize..50) {
        let len = usize::from(p.header_len);
        let mut bytes = vec![0x5a; len + extra];
        prop_assert_eq!(p.emit(&mut bytes), Some(len));
        prop_assert!(bytes[len..].iter().all(|b| *b == 0x5a));
        for short in 0..len {
            prop_assert_eq!(p.emit(&mut bytes[..short]), None);
        }
    }

    #[test]
    fn any_bytes_parse_or_are_dropped(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200),
        op in prop::option::of(opcode()),
    ) {
        // Half of the time, of a known opcode and version.
        if let (Some(op), [first, flags, ..]) = (op, &mut bytes[..]) {
            *first = op.byte();
            *flags &= 0xf0;
        }
        let parsed = PacketInfo::parse(&bytes);
        if let Ok(p) = parsed {
            let end = usize::from(p.header_len) + p.payload_len as usize + usize::from(p.pad);
            prop_assert_eq!(end + 4, bytes.len());
            prop_assert!(p.pad < 4);
            prop_assert_eq!(Opcode::from_byte(bytes[0]), Some(p.opcode));
            prop_assert!(p.payload_len == 0 || p.opcode.may_have_payload());

            // Emitting it again gives the same headers, but for the reserved bits.
            let mut again = bytes.clone();
            prop_assert_eq!(p.emit(&mut again), Some(usize::from(p.header_len)));
            prop_assert_eq!(PacketInfo::parse(&again), Ok(p));
            for (i, (a, b)) in bytes.iter().zip(&again).enumerate() {
                let reserved = match i {
                    4 => 0x3f,
                    8 => 0x7f,
                    12 if p.opcode.has_feth() => 0xff,
                    13 | 14 if p.opcode.has_feth() => 0xff,
                    15 if p.opcode.has_feth() => 0xc0,
                    16 if p.opcode.has_deth() => 0xff,
                    _ => 0,
                };
                prop_assert_eq!(a & !reserved, *b, "byte {}", i);
            }
        }
        prop_assert_eq!(peek(&bytes).map(|p| p.opcode), parsed.map(|p| p.opcode));
    }
}

#[test]
fn every_opcode_length_and_pad() {
    for byte in 0..=255u8 {
        for pad in 0..4u8 {
            for len in 0..=200usize {
                let mut bytes = vec![0; len];
                if let [first, flags, ..] = &mut bytes[..] {
                    *first = byte;
                    *flags = pad << 4;
                }
                let parsed = PacketInfo::parse(&bytes);
                assert_eq!(peek(&bytes).map(|p| p.opcode), parsed.map(|p| p.opcode));
                let expected = match Opcode::from_byte(byte) {
                    _ if len < 16 => Err(DropReason::Truncated),
                    None => Err(DropReason::UnknownOpcode),
                    Some(op) => {
                        let head = usize::from(op.header_len()) + 4;
                        let body = head + usize::from(pad);
                        if len < head {
                            Err(DropReason::Truncated)
                        } else if len < body || (len > body && !op.may_have_payload()) {
                            Err(DropReason::BadLength)
                        } else {
                            Ok((len - body) as u32)
                        }
                    }
                };
                assert_eq!(
                    parsed.map(|p| p.payload_len),
                    expected,
                    "opcode {byte:#x}, pad {pad}, {len} bytes"
                );
            }
        }
    }
}

#[test]
fn other_versions_are_dropped() {
    for version in 1..16 {
        let mut bytes = bytes_of(&PacketInfo::new(Opcode::RcAck));
        bytes[1] |= version;
        assert_eq!(PacketInfo::parse(&bytes), Err(DropReason::BadVersion));
        assert_eq!(peek(&bytes), Err(DropReason::BadVersion));
    }
}

#[test]
fn pad_fills_words() {
    for len in 0..100u32 {
        assert_eq!((len + u32::from(pad_of(len))) % 4, 0);
        assert!(pad_of(len) < 4);
    }
    assert_eq!(pad_of(u32::MAX), 1);
}

/// One packet of each header, byte by byte.
#[test]
fn golden_packets() {
    let mut p = PacketInfo::new(Opcode::RcWriteOnlyImm);
    p.solicited = true;
    p.ack_req = true;
    p.pkey = 0x8001;
    p.dest_qpn = Qpn::new(0x010203);
    p.psn = Psn::new(0x0a0b0c);
    p.reth = Reth {
        va: 0x1122_3344_5566_7788,
        key: Key::new(0x99aa_bbcc),
        len: 0x0000_1001,
    };
    p.imm = Imm([0xde, 0xad, 0xbe, 0xef]);
    p.set_payload_len(0x1001);
    let expected = [
        0x0b, 0xb0, 0x80, 0x01, 0x00, 0x01, 0x02, 0x03, 0x80, 0x0a, 0x0b, 0x0c, // BTH
        0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, // RETH: address
        0x99, 0xaa, 0xbb, 0xcc, 0x00, 0x00, 0x10, 0x01, // RETH: key, length
        0xde, 0xad, 0xbe, 0xef, // immediate
    ];
    assert_eq!(bytes_of(&p)[..32], expected);

    let mut p = PacketInfo::new(Opcode::RcAtomicAck);
    p.mig_req = true;
    p.becn = true;
    p.aeth = Aeth {
        syndrome: 0x1f,
        msn: Msn::new(0x123456),
    };
    p.orig = 0x0102_0304_0506_0708;
    let expected = [
        0x12, 0x40, 0xff, 0xff, 0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // BTH
        0x1f, 0x12, 0x34, 0x56, // AETH
        0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, // AtomicAckETH
    ];
    assert_eq!(bytes_of(&p)[..24], expected);

    let mut p = PacketInfo::new(Opcode::RcCompareSwap);
    p.fecn = true;
    p.atomic = AtomicEth {
        va: 1,
        key: Key::new(2),
        swap_add: 3,
        compare: 4,
    };
    let expected = [
        0x13, 0x00, 0xff, 0xff, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // BTH
        0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, // address, key
        0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, // swap, compare
    ];
    assert_eq!(bytes_of(&p)[..40], expected);

    let mut p = PacketInfo::new(Opcode::UdSendOnlyImm);
    p.deth = Deth {
        qkey: 0x8001_0000,
        src_qpn: Qpn::GSI,
    };
    p.imm = Imm([1, 2, 3, 4]);
    let expected = [
        0x65, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // BTH
        0x80, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, // DETH
        0x01, 0x02, 0x03, 0x04, // immediate
    ];
    assert_eq!(bytes_of(&p)[..24], expected);

    let mut p = PacketInfo::new(Opcode::RcFlush);
    p.feth = Feth {
        placement: 2,
        level: 1,
    };
    p.reth.len = 7;
    let expected = [
        0x1c, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // BTH
        0x00, 0x00, 0x00, 0x12, // FETH
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, // RETH
    ];
    assert_eq!(bytes_of(&p)[..32], expected);

    let mut p = PacketInfo::new(Opcode::RcSendOnlyInv);
    p.ieth = Key::new(0x1234_5678);
    assert_eq!(bytes_of(&p)[12..16], [0x12, 0x34, 0x56, 0x78]);
    assert_eq!(p.opcode.kind(), Kind::Send);
}
