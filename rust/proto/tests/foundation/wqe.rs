// SPDX-License-Identifier: GPL-2.0

//! Parsing of users' work requests.
//!
//! Slots are written here by offset, from the kernel's header, not through the types under test.

use proptest::prelude::*;
use rxe_proto::num::{Key, Qpn};
use rxe_proto::qpstate::QpType;
use rxe_proto::status::{WcOpcode, WcStatus};
use rxe_proto::uabi::{UserCqe, SEND_DATA_OFFSET};
use rxe_proto::wire::Imm;
use rxe_proto::wr::{
    inline_range, parse_av, parse_recv, parse_recv_sge, parse_send, parse_sge, BadWqeKind,
    SendLimits, SendOp, Sge,
};

const LIMITS: SendLimits = SendLimits {
    max_sge: 4,
    max_inline: 64,
};

const TYPES: [QpType; 4] = [QpType::Rc, QpType::Uc, QpType::Ud, QpType::Gsi];

/// A slot under construction.
#[derive(Clone)]
struct Slot(Vec<u8>);

impl Slot {
    fn new(opcode: u32) -> Self {
        let mut slot = Self(vec![0; 512]);
        slot.u64(0, 0x1111_2222_3333_4444);
        slot.u32(12, opcode);
        slot
    }

    fn u64(&mut self, at: usize, value: u64) -> &mut Self {
        self.0[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        self
    }

    fn u32(&mut self, at: usize, value: u32) -> &mut Self {
        self.0[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        self
    }

    fn u16(&mut self, at: usize, value: u16) -> &mut Self {
        self.0[at..at + 2].copy_from_slice(&value.to_ne_bytes());
        self
    }

    fn flags(&mut self, flags: u32) -> &mut Self {
        self.u32(16, flags)
    }

    /// Sets what the request says of its length and its buffers.
    fn dma(&mut self, length: u32, num_sge: u32) -> &mut Self {
        self.u32(184, length).u32(196, num_sge)
    }

    fn sges(&mut self, sges: &[(u64, u32, u32)]) -> &mut Self {
        for (i, (addr, length, lkey)) in sges.iter().enumerate() {
            let at = 208 + 16 * i;
            self.u64(at, *addr).u32(at + 8, *length).u32(at + 12, *lkey);
        }
        self.dma(0, sges.len() as u32)
    }

    fn parse(&self, qp_type: QpType) -> Result<rxe_proto::wr::SendWr, BadWqeKind> {
        parse_send(&self.0, qp_type, &LIMITS).map_err(|bad| {
            assert_eq!(bad.wr_id, 0x1111_2222_3333_4444);
            bad.kind
        })
    }
}

#[test]
fn operations() {
    let mut slot = Slot::new(0);
    slot.u64(24, 0xaaaa).sges(&[(1, 10, 2), (3, 20, 4)]);

    let key = Key::new(0xbbbb);
    let rdma = |opcode| {
        let mut s = slot.clone();
        s.u32(12, opcode).u32(32, key.get());
        s.0[20..24].copy_from_slice(&[1, 2, 3, 4]);
        s.parse(QpType::Rc).unwrap()
    };
    let imm = Imm([1, 2, 3, 4]);
    let inv = Key::new(u32::from_ne_bytes([1, 2, 3, 4]));
    let va = 0xaaaa;
    let rows = [
        (0, SendOp::Write { va, key }, WcOpcode::RdmaWrite),
        (1, SendOp::WriteImm { va, key, imm }, WcOpcode::RdmaWrite),
        (2, SendOp::Send, WcOpcode::Send),
        (3, SendOp::SendImm(imm), WcOpcode::Send),
        (4, SendOp::Read { va, key }, WcOpcode::RdmaRead),
        (9, SendOp::SendInv(inv), WcOpcode::Send),
    ];
    for (opcode, op, wc) in rows {
        let wr = rdma(opcode);
        assert_eq!(wr.op, op);
        assert_eq!(wr.op.wc_opcode(), wc);
        assert_eq!((wr.length, wr.num_sge, wr.flags.inline), (30, 2, false));
        assert_eq!(wr.wr_id, 0x1111_2222_3333_4444);
    }
    let sge = |addr, length, lkey| Sge {
        addr,
        length,
        lkey: Key::new(lkey),
    };
    assert_eq!(parse_sge(&slot.0, 0), Some(sge(1, 10, 2)));
    assert_eq!(parse_sge(&slot.0, 1), Some(sge(3, 20, 4)));
    assert_eq!(parse_sge(&slot.0[..239], 1), None);
    assert_eq!(parse_sge(&slot.0, 255), None);
}

#[test]
fn atomics() {
    let mut slot = Slot::new(5);
    slot.u64(24, 0x10).u64(32, 0x20).u64(40, 0x30).u32(48, 0x40);
    slot.sges(&[(1, 8, 2)]);
    let (va, key) = (0x10, Key::new(0x40));
    let (compare, swap, add) = (0x20, 0x30, 0x20);
    let cas = SendOp::CompareSwap {
        va,
        key,
        compare,
        swap,
    };
    assert_eq!(slot.parse(QpType::Rc).unwrap().op, cas);
    slot.u32(12, 6);
    assert_eq!(
        slot.parse(QpType::Rc).unwrap().op,
        SendOp::FetchAdd { va, key, add }
    );
    assert_eq!(slot.parse(QpType::Rc).unwrap().length, 8);
    // The stock driver takes longer buffers as well.
    slot.sges(&[(1, 4, 2), (5, 100, 2)]);
    assert_eq!(slot.parse(QpType::Rc).unwrap().length, 8);
    slot.sges(&[(1, 7, 2)]);
    assert_eq!(slot.parse(QpType::Rc), Err(BadWqeKind::Length));
    slot.sges(&[]);
    assert_eq!(slot.parse(QpType::Rc), Err(BadWqeKind::Length));
    slot.sges(&[(1, 8, 2)]).flags(8);
    assert_eq!(slot.parse(QpType::Rc), Err(BadWqeKind::Inline));
}

#[test]
fn atomic_write_and_flush() {
    let mut slot = Slot::new(15);
    slot.u64(24, 0x10).u32(32, 0x40).dma(8, 0);
    let (va, key) = (0x10, Key::new(0x40));
    let wr = slot.parse(QpType::Rc).unwrap();
    assert_eq!(wr.op, SendOp::AtomicWrite { va, key });
    assert!(wr.flags.inline);
    assert_eq!(inline_range(&wr), 208..216);
    let no_inline = SendLimits {
        max_inline: 0,
        ..LIMITS
    };
    assert!(parse_send(&slot.0, QpType::Rc, &no_inline).is_ok());
    for length in [0, 7, 9] {
        slot.dma(length, 0);
        assert_eq!(slot.parse(QpType::Rc), Err(BadWqeKind::Length));
    }

    let mut slot = Slot::new(14);
    slot.u64(24, 0x10).u32(36, 0x40).dma(0x1234, 77);
    slot.0[40] = 2;
    slot.0[41] = 1;
    let wr = slot.parse(QpType::Rc).unwrap();
    let expected = SendOp::Flush {
        va,
        key,
        len: 0x1234,
        level: 1,
        placement: 2,
    };
    assert_eq!((wr.op, wr.length, wr.num_sge), (expected, 0, 0));
}

#[test]
fn local_operations() {
    let mut slot = Slot::new(7);
    slot.u32(20, 0x99).dma(u32::MAX, u32::MAX).flags(8);
    let wr = slot.parse(QpType::Rc).unwrap();
    assert_eq!(wr.op, SendOp::LocalInv(Key::new(0x99)));
    assert_eq!((wr.length, wr.num_sge, wr.flags.inline), (0, 0, false));

    let mut slot = Slot::new(8);
    slot.u64(24, 1)
        .u64(32, 2)
        .u32(40, 3)
        .u32(44, 4)
        .u32(48, 5)
        .u32(52, 6);
    let expected = SendOp::BindMw {
        addr: 1,
        len: 2,
        mr: Key::new(3),
        mw: Key::new(4),
        new_key: Key::new(5),
        access: 6,
    };
    assert_eq!(slot.parse(QpType::Uc).unwrap().op, expected);
}

/// Which operation is for which type of queue pair; users never get those of the kernel.
#[test]
fn every_opcode_on_every_type() {
    for opcode in (0..0x200).chain([0xff00_0000, u32::MAX]) {
        let mut slot = Slot::new(opcode);
        slot.sges(&[(0, 8, 0)]).u32(184, 8);
        for qp_type in TYPES {
            let legal = matches!(
                (opcode, qp_type),
                (0..=9 | 14 | 15, QpType::Rc)
                    | (0..=3 | 8, QpType::Uc)
                    | (2 | 3, QpType::Ud | QpType::Gsi)
            );
            let wr = slot.parse(qp_type);
            assert_eq!(wr.is_ok(), legal, "{opcode:#x} {qp_type:?}: {wr:?}");
            if let Err(kind) = wr {
                assert_eq!(kind, BadWqeKind::Opcode);
            }
        }
    }
}

#[test]
fn flags_are_told_apart() {
    for bits in 0..16 {
        let mut slot = Slot::new(2);
        slot.flags(bits | 0xffff_0000);
        let flags = slot.parse(QpType::Rc).unwrap().flags;
        let set = [flags.fence, flags.signaled, flags.solicited, flags.inline];
        for (bit, set) in set.into_iter().enumerate() {
            assert_eq!(set, (bits >> bit) & 1 != 0);
        }
    }
}

#[test]
fn datagram_destination() {
    let mut slot = Slot::new(2);
    slot.u32(24, 0xff00_0011)
        .u32(28, 0x22)
        .u16(32, 0x33)
        .u32(36, 0x44);
    slot.0[56] = 1;
    slot.0[57] = 2;
    slot.0[64..80].copy_from_slice(&[7; 16]);
    slot.0[92] = 10;
    slot.0[96] = 11;
    slot.0[88..116].fill(5);
    slot.0[120..124].copy_from_slice(&[1, 2, 3, 4]);
    slot.0[124..140].fill(6);
    for qp_type in [QpType::Ud, QpType::Gsi] {
        let ud = slot.parse(qp_type).unwrap().ud;
        assert_eq!(ud.qpn, Qpn::new(0x11));
        assert_eq!((ud.qkey, ud.pkey_index, ud.ah_num), (0x22, 0x33, 0x44));
    }
    assert_eq!(slot.parse(QpType::Rc).unwrap().ud, Default::default());
    let av = parse_av(&slot.0).unwrap();
    assert_eq!((av.port_num, av.network_type), (1, 2));
    assert_eq!(av.grh.dgid, [7; 16]);
    assert_eq!(av.sgid_addr.ipv4(), [5; 4]);
    assert_eq!(av.dgid_addr.ipv4(), [1, 2, 3, 4]);
    assert_eq!(av.dgid_addr.ipv6(), [6; 16]);
    assert!(parse_av(&slot.0[..207]).is_none());
}

#[test]
fn too_many_buffers_and_too_long() {
    let mut slot = Slot::new(2);
    slot.sges(&[(0, 1, 0); 4]);
    assert_eq!(slot.parse(QpType::Rc).unwrap().num_sge, 4);
    for count in [5, 6, 255, 256, 260, u32::MAX] {
        slot.dma(0, count);
        assert_eq!(slot.parse(QpType::Rc), Err(BadWqeKind::SgeCount));
    }
    slot.sges(&[(0, 1 << 30, 0), (0, 1 << 30, 0)]);
    assert_eq!(slot.parse(QpType::Rc).unwrap().length, 1 << 31);
    slot.sges(&[(0, 1 << 30, 0), (0, 1 << 30, 0), (0, 1, 0)]);
    assert_eq!(slot.parse(QpType::Rc), Err(BadWqeKind::Length));
    // Four of the longest would wrap a 32-bit sum.
    slot.sges(&[(0, u32::MAX, 0); 4]);
    assert_eq!(slot.parse(QpType::Rc), Err(BadWqeKind::Length));
    slot.sges(&[(0, u32::MAX, 0), (0, 1, 0)]);
    assert_eq!(slot.parse(QpType::Rc), Err(BadWqeKind::Length));
    // Buffers that are not in the slot.
    slot.sges(&[(0, 1, 0); 4]);
    let short = &slot.0[..208 + 63];
    let bad = parse_send(short, QpType::Rc, &LIMITS).unwrap_err();
    assert_eq!(bad.kind, BadWqeKind::Slot);
    for len in 0..208 {
        assert!(parse_send(&slot.0[..len], QpType::Rc, &LIMITS).is_err());
    }
}

#[test]
fn inline_data() {
    for (opcode, legal) in [
        (0, true),
        (1, true),
        (2, true),
        (3, true),
        (9, true),
        (4, false),
    ] {
        let mut slot = Slot::new(opcode);
        // The count of buffers does not matter: their place is taken by the data.
        slot.flags(8).dma(64, 1000);
        match slot.parse(QpType::Rc) {
            Ok(wr) => {
                assert!(legal);
                assert_eq!((wr.length, wr.num_sge, wr.flags.inline), (64, 0, true));
                assert_eq!(inline_range(&wr), SEND_DATA_OFFSET..SEND_DATA_OFFSET + 64);
            }
            Err(kind) => {
                assert!(!legal);
                assert_eq!(kind, BadWqeKind::Inline);
            }
        }
        if legal {
            slot.dma(65, 0);
            assert_eq!(slot.parse(QpType::Rc), Err(BadWqeKind::Inline));
            // Without the flag, as by the providers' extended interface.
            slot.flags(0).dma(13, 0);
            let wr = slot.parse(QpType::Rc).unwrap();
            assert_eq!((wr.length, wr.flags.inline), (13, true));
            slot.dma(0, 0);
            let wr = slot.parse(QpType::Rc).unwrap();
            assert_eq!((wr.length, wr.flags.inline), (0, false));
        }
    }
    // Within the limit and outside the slot.
    let mut slot = Slot::new(2);
    slot.flags(8).dma(64, 0);
    let bad = parse_send(&slot.0[..271], QpType::Rc, &LIMITS).unwrap_err();
    assert_eq!(bad.kind, BadWqeKind::Slot);
    assert!(parse_send(&slot.0[..272], QpType::Rc, &LIMITS).is_ok());
}

#[test]
fn statuses_of_bad_requests() {
    let bad = |kind| rxe_proto::wr::BadWqe { wr_id: 0, kind }.status();
    assert_eq!(bad(BadWqeKind::Opcode), WcStatus::LocQpOpErr);
    assert_eq!(bad(BadWqeKind::Slot), WcStatus::LocQpOpErr);
    assert_eq!(bad(BadWqeKind::SgeCount), WcStatus::LocQpOpErr);
    assert_eq!(bad(BadWqeKind::Inline), WcStatus::LocQpOpErr);
    assert_eq!(bad(BadWqeKind::Length), WcStatus::LocLenErr);
}

#[test]
fn receives() {
    let mut slot = Slot(vec![0; 256]);
    slot.u64(0, 77).u32(28, 2);
    slot.u64(40, 1).u32(48, 10).u32(52, 2);
    slot.u64(56, 3).u32(64, 20).u32(68, 4);
    let wr = parse_recv(&slot.0, 2).unwrap();
    assert_eq!((wr.wr_id, wr.num_sge, wr.length), (77, 2, 30));
    let sge = parse_recv_sge(&slot.0, 1).unwrap();
    assert_eq!((sge.addr, sge.length, sge.lkey.get()), (3, 20, 4));
    let bad = parse_recv(&slot.0, 1).unwrap_err();
    assert_eq!((bad.wr_id, bad.kind), (77, BadWqeKind::SgeCount));
    slot.u32(48, u32::MAX);
    assert_eq!(parse_recv(&slot.0, 2).unwrap().length, u32::MAX);
    assert_eq!(
        parse_recv(&slot.0[..71], 2).unwrap_err().kind,
        BadWqeKind::Slot
    );
    assert_eq!(
        parse_recv(&slot.0[..39], 2).unwrap_err().kind,
        BadWqeKind::Slot
    );
}

#[test]
fn completion_bytes() {
    let mut cqe = UserCqe::zeroed();
    assert_eq!(cqe.to_bytes(), [0; 48]);
    cqe.wr_id = 0x0102_0304_0506_0708.into();
    cqe.opcode = WcOpcode::Recv.get().into();
    cqe.ex = [1, 2, 3, 4];
    cqe.pkey_index = 0x0102.into();
    cqe.port_num = 9;
    let bytes = cqe.to_bytes();
    assert_eq!(bytes[..8], 0x0102_0304_0506_0708_u64.to_ne_bytes());
    assert_eq!(bytes[12..16], 128u32.to_ne_bytes());
    assert_eq!(bytes[24..28], [1, 2, 3, 4]);
    assert_eq!(bytes[40..42], 0x0102u16.to_ne_bytes());
    assert_eq!(bytes[46], 9);
}

/// Random bytes, with a liking for opcodes and counts that mean something.
fn slot() -> impl Strategy<Value = Vec<u8>> {
    (
        prop::collection::vec(any::<u8>(), 0..700),
        prop::option::of(0u32..0x24),
        prop::option::of(0u32..40),
        prop::option::of(prop_oneof![0u32..600, Just(8)]),
        any::<bool>(),
    )
        .prop_map(|(mut bytes, opcode, num_sge, length, short_sges)| {
            let mut put = |at: usize, value: Option<u32>| {
                if let (Some(value), Some(to)) = (value, bytes.get_mut(at..at + 4)) {
                    to.copy_from_slice(&value.to_ne_bytes());
                }
            };
            put(12, opcode);
            put(196, num_sge);
            put(28, num_sge);
            put(184, length);
            if short_sges {
                for sge in bytes.get_mut(208..).unwrap_or_default().chunks_mut(16) {
                    if let Some(top) = sge.get_mut(10..12) {
                        top.fill(0);
                    }
                }
            }
            bytes
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    /// Whatever a slot holds, a request that comes out of it is within the limits and the slot.
    #[test]
    fn any_bytes_stay_within_limits(
        bytes in slot(),
        qp_type in prop::sample::select(&TYPES[..]),
        max_sge in any::<u8>(),
        max_inline in prop_oneof![0u32..600, any::<u32>()],
    ) {
        let limits = SendLimits { max_sge, max_inline };
        if let Ok(wr) = parse_send(&bytes, qp_type, &limits) {
            let kernel_only = matches!(wr.op, SendOp::RegMr { .. });
            prop_assert!(!kernel_only);
            prop_assert!(wr.op.allowed_on(qp_type));
            prop_assert!(wr.num_sge <= max_sge);
            prop_assert!(wr.length <= 1 << 31);
            let sges: Vec<_> = (0..wr.num_sge).map(|i| parse_sge(&bytes, i)).collect();
            prop_assert!(sges.iter().all(Option::is_some));
            if wr.flags.inline {
                prop_assert!(wr.op.may_inline());
                prop_assert_eq!(wr.num_sge, 0);
                prop_assert!(inline_range(&wr).end <= bytes.len());
                let operand = matches!(wr.op, SendOp::AtomicWrite { .. });
                prop_assert!(wr.length <= max_inline || operand);
            } else {
                let sum: u64 = sges.iter().flatten().map(|s| u64::from(s.length)).sum();
                let atomic = wr.op.wc_opcode() == WcOpcode::CompSwap
                    || wr.op.wc_opcode() == WcOpcode::FetchAdd;
                prop_assert_eq!(u64::from(wr.length), if atomic { 8 } else { sum });
                prop_assert!(!atomic || sum >= 8);
            }
            if wr.op.is_local() {
                prop_assert_eq!((wr.length, wr.num_sge), (0, 0));
            }
        }
        if let Ok(wr) = parse_recv(&bytes, max_sge) {
            prop_assert!(wr.num_sge <= max_sge);
            prop_assert!((0..wr.num_sge).all(|i| parse_recv_sge(&bytes, i).is_some()));
        }
        let _ = parse_av(&bytes);
    }
}
