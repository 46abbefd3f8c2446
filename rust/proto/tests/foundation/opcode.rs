// SPDX-License-Identifier: GPL-2.0

//! The opcode table, against one written from the specification.

use rxe_proto::opcode::{Kind, Opcode, Position, SendTail, Service};

use Kind::*;
use Position::*;
use Service::{Rc, Uc, Ud};

/// Opcode, service, kind, position, extended headers in their order, payload allowed.
type Row = (u8, Service, Kind, Position, &'static [&'static str], bool);

/// IBA volume 1, opcodes of the base transport header, and annexes A17 (CNP) and A19 (FLUSH, ATOMIC
/// WRITE). Opcodes of the services that RoCE or this device lacks (RD, XRC) are not in it.
const TABLE: &[Row] = &[
    (0b000_00000, Rc, Send, First, &[], true),
    (0b000_00001, Rc, Send, Middle, &[], true),
    (0b000_00010, Rc, Send, Last, &[], true),
    (0b000_00011, Rc, Send, Last, &["ImmDt"], true),
    (0b000_00100, Rc, Send, Only, &[], true),
    (0b000_00101, Rc, Send, Only, &["ImmDt"], true),
    (0b000_00110, Rc, Write, First, &["RETH"], true),
    (0b000_00111, Rc, Write, Middle, &[], true),
    (0b000_01000, Rc, Write, Last, &[], true),
    (0b000_01001, Rc, Write, Last, &["ImmDt"], true),
    (0b000_01010, Rc, Write, Only, &["RETH"], true),
    (0b000_01011, Rc, Write, Only, &["RETH", "ImmDt"], true),
    (0b000_01100, Rc, ReadRequest, Only, &["RETH"], false),
    (0b000_01101, Rc, ReadResponse, First, &["AETH"], true),
    (0b000_01110, Rc, ReadResponse, Middle, &[], true),
    (0b000_01111, Rc, ReadResponse, Last, &["AETH"], true),
    (0b000_10000, Rc, ReadResponse, Only, &["AETH"], true),
    (0b000_10001, Rc, Ack, Only, &["AETH"], false),
    (
        0b000_10010,
        Rc,
        AtomicAck,
        Only,
        &["AETH", "AtomicAckETH"],
        false,
    ),
    (0b000_10011, Rc, CompareSwap, Only, &["AtomicETH"], false),
    (0b000_10100, Rc, FetchAdd, Only, &["AtomicETH"], false),
    (0b000_10110, Rc, Send, Last, &["IETH"], true),
    (0b000_10111, Rc, Send, Only, &["IETH"], true),
    (0b000_11100, Rc, Flush, Only, &["FETH", "RETH"], false),
    (0b000_11101, Rc, AtomicWrite, Only, &["RETH"], true),
    (0b001_00000, Uc, Send, First, &[], true),
    (0b001_00001, Uc, Send, Middle, &[], true),
    (0b001_00010, Uc, Send, Last, &[], true),
    (0b001_00011, Uc, Send, Last, &["ImmDt"], true),
    (0b001_00100, Uc, Send, Only, &[], true),
    (0b001_00101, Uc, Send, Only, &["ImmDt"], true),
    (0b001_00110, Uc, Write, First, &["RETH"], true),
    (0b001_00111, Uc, Write, Middle, &[], true),
    (0b001_01000, Uc, Write, Last, &[], true),
    (0b001_01001, Uc, Write, Last, &["ImmDt"], true),
    (0b001_01010, Uc, Write, Only, &["RETH"], true),
    (0b001_01011, Uc, Write, Only, &["RETH", "ImmDt"], true),
    (0b011_00100, Ud, Send, Only, &["DETH"], true),
    (0b011_00101, Ud, Send, Only, &["DETH", "ImmDt"], true),
    (0b100_00001, Service::Cnp, Kind::Cnp, Only, &[], true),
];

/// The length of an extended header.
fn length(header: &str) -> u16 {
    match header {
        "RETH" => 16,
        "AETH" | "ImmDt" | "IETH" | "FETH" => 4,
        "AtomicETH" => 28,
        "AtomicAckETH" | "DETH" => 8,
        _ => unreachable!(),
    }
}

#[test]
fn every_byte() {
    for byte in 0..=255u8 {
        let row = TABLE.iter().find(|row| row.0 == byte);
        let opcode = Opcode::from_byte(byte);
        assert_eq!(opcode.is_some(), row.is_some(), "{byte:#04x}");
        let (Some(op), Some(&(_, service, kind, position, headers, payload))) = (opcode, row)
        else {
            continue;
        };

        assert_eq!(op.byte(), byte);
        assert_eq!(op.service(), service, "{op:?}");
        assert_eq!(op.kind(), kind, "{op:?}");
        assert_eq!(op.position(), position, "{op:?}");
        assert_eq!(op.may_have_payload(), payload, "{op:?}");
        assert_eq!(
            op.header_len(),
            12 + headers.iter().map(|h| length(h)).sum::<u16>(),
            "{op:?}"
        );
        let has = |name| headers.contains(&name);
        assert_eq!(op.has_reth(), has("RETH"), "{op:?}");
        assert_eq!(op.has_aeth(), has("AETH"), "{op:?}");
        assert_eq!(op.has_imm(), has("ImmDt"), "{op:?}");
        assert_eq!(op.has_ieth(), has("IETH"), "{op:?}");
        assert_eq!(op.has_feth(), has("FETH"), "{op:?}");
        assert_eq!(op.has_atomic_eth(), has("AtomicETH"), "{op:?}");
        assert_eq!(op.has_atomic_ack_eth(), has("AtomicAckETH"), "{op:?}");
        assert_eq!(op.has_deth(), has("DETH"), "{op:?}");

        let response = matches!(kind, ReadResponse | Ack | AtomicAck);
        assert_eq!(op.is_response(), response, "{op:?}");
        assert_eq!(op.is_request(), !response && kind != Kind::Cnp, "{op:?}");
        assert_eq!(position.starts(), matches!(position, First | Only));
        assert_eq!(position.ends(), matches!(position, Last | Only));
    }
    assert_eq!(Opcode::ALL.len(), TABLE.len());
    assert!(Opcode::ALL
        .iter()
        .map(|o| o.byte())
        .eq(TABLE.iter().map(|r| r.0)));
}

/// Finds the row of the table that a constructor should have chosen.
fn find(service: Service, kind: Kind, position: Position, tail: &[&str]) -> Option<Opcode> {
    TABLE
        .iter()
        .find(|r| {
            let tails: Vec<_> =
                r.4.iter()
                    .filter(|h| ["ImmDt", "IETH"].contains(h))
                    .collect();
            (r.1, r.2, r.3) == (service, kind, position) && tails.iter().copied().eq(tail)
        })
        .and_then(|r| Opcode::from_byte(r.0))
}

#[test]
fn constructors_choose_from_the_table() {
    for service in [Rc, Uc, Ud, Service::Cnp] {
        for position in [First, Middle, Last, Only] {
            for (tail, header) in [
                (SendTail::None, &[][..]),
                (SendTail::Imm, &["ImmDt"]),
                (SendTail::Inv, &["IETH"]),
            ] {
                // Packets that end no message do not show what the last one will carry.
                let shown = if position.ends() { header } else { &[] };
                let mut expected = find(service, Send, position, shown);
                if service == Uc && tail == SendTail::Inv {
                    expected = None;
                }
                assert_eq!(Opcode::send(service, position, tail), expected);
            }
            for imm in [false, true] {
                let shown: &[_] = if imm && position.ends() {
                    &["ImmDt"]
                } else {
                    &[]
                };
                assert_eq!(
                    Opcode::write(service, position, imm),
                    find(service, Write, position, shown)
                );
            }
        }
    }
    for position in [First, Middle, Last, Only] {
        assert_eq!(
            Some(Opcode::read_response(position)),
            find(Rc, ReadResponse, position, &[])
        );
    }
    for (first, last) in [(true, true), (true, false), (false, true), (false, false)] {
        let position = Position::of(first, last);
        assert_eq!((position.starts(), position.ends()), (first, last));
    }
}
