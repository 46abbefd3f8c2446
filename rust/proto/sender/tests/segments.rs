// SPDX-License-Identifier: GPL-2.0

//! What is sent: segmentation, headers, the window.

use super::*;

#[test]
fn a_message_is_cut_at_the_mtu() {
    let mut r = Rig::rc();
    r.post(write(0x1000), 2 * MTU + 10);

    let first = r.send().unwrap();
    assert_eq!(first.opcode, Opcode::RcWriteFirst);
    assert_eq!((first.reth.va, first.reth.len), (0x1000, 2 * MTU + 10));
    assert_eq!(
        (first.psn.get(), first.payload_len, first.pad),
        (100, MTU, 0)
    );
    assert!(!first.ack_req);

    let middle = r.send().unwrap();
    assert_eq!(middle.opcode, Opcode::RcWriteMiddle);
    assert_eq!((middle.psn.get(), middle.payload_len), (101, MTU));
    assert!(!middle.ack_req);

    let last = r.send().unwrap();
    assert_eq!(last.opcode, Opcode::RcWriteLast);
    assert_eq!((last.psn.get(), last.payload_len, last.pad), (102, 10, 2));
    assert!(last.ack_req);
    assert_eq!(last.dest_qpn, Qpn::new(33));

    assert!(r.is_idle());
    r.ack(102);
    assert_eq!(r.done(), [(0, OK)]);
}

#[test]
fn opcodes_follow_the_request() {
    let imm = Imm([1, 2, 3, 4]);
    let key = Key::new(0x901);
    let va = 64;
    let cases: &[(SendOp, u32, Opcode)] = &[
        (SendOp::Send, 8, Opcode::RcSendOnly),
        (SendOp::SendImm(imm), 8, Opcode::RcSendOnlyImm),
        (SendOp::SendInv(key), 8, Opcode::RcSendOnlyInv),
        (SendOp::Write { va, key }, 8, Opcode::RcWriteOnly),
        (SendOp::WriteImm { va, key, imm }, 8, Opcode::RcWriteOnlyImm),
        (SendOp::Read { va, key }, 5000, Opcode::RcReadRequest),
        (
            SendOp::CompareSwap {
                va,
                key,
                compare: 1,
                swap: 2,
            },
            8,
            Opcode::RcCompareSwap,
        ),
        (SendOp::FetchAdd { va, key, add: 3 }, 8, Opcode::RcFetchAdd),
        (SendOp::AtomicWrite { va, key }, 8, Opcode::RcAtomicWrite),
        (
            SendOp::Flush {
                va,
                key,
                len: 4096,
                level: 1,
                placement: 2,
            },
            0,
            Opcode::RcFlush,
        ),
    ];

    for &(op, length, opcode) in cases {
        let mut r = Rig::rc();
        r.post(op, length);
        let packet = r.send().unwrap();
        assert_eq!(packet.opcode, opcode);
        assert!(packet.ack_req, "{opcode:?}");
        match op {
            SendOp::SendImm(_) => assert_eq!(packet.imm, imm),
            SendOp::SendInv(_) => assert_eq!(packet.ieth, key),
            SendOp::CompareSwap { .. } => {
                assert_eq!((packet.atomic.swap_add, packet.atomic.compare), (2, 1))
            }
            SendOp::FetchAdd { .. } => assert_eq!(packet.atomic.swap_add, 3),
            SendOp::AtomicWrite { .. } => assert_eq!((packet.reth.len, packet.payload_len), (8, 8)),
            SendOp::Flush { .. } => {
                assert_eq!(packet.reth.len, 4096);
                assert_eq!((packet.feth.level, packet.feth.placement), (1, 2));
                assert_eq!(packet.payload_len, 0);
            }
            SendOp::Read { .. } => assert_eq!((packet.reth.len, packet.payload_len), (5000, 0)),
            _ => {}
        }
        // Whatever it is, its headers are those of its opcode.
        let mut bytes = [0; 96];
        assert_eq!(packet.emit(&mut bytes), Some(opcode.header_len().into()));
    }
}

#[test]
fn zero_length_operations_take_one_packet() {
    for op in [SendOp::Send, write(0), read(0)] {
        let mut r = Rig::rc();
        r.post(op, 0);
        let packet = r.send().unwrap();
        assert_eq!((packet.payload_len, packet.psn.get()), (0, 100));
        assert!(packet.opcode.position().starts() && packet.opcode.position().ends());
        assert!(r.is_idle());
        assert_eq!(r.s.sq_psn(), Psn::new(101));
        match op {
            SendOp::Read { .. } => {
                assert_eq!(r.read_response(100, Position::Only, 0), RespStep::Done)
            }
            _ => r.ack(100),
        }
        assert_eq!(r.done(), [(0, OK)]);
    }
}

#[test]
fn solicited_is_set_where_a_receive_completes() {
    let flags = SendFlags {
        solicited: true,
        ..SendFlags::default()
    };
    let imm = Imm([0; 4]);
    let key = Key::new(1);
    let mut r = Rig::rc();
    r.post_with(SendOp::Send, MTU + 1, flags);
    r.post_with(write(0), 1, flags);
    r.post_with(SendOp::WriteImm { va: 0, key, imm }, 1, flags);
    r.post_with(SendOp::Send, 1, SendFlags::default());
    let bits: Vec<bool> = (0..5).map(|_| r.send().unwrap().solicited).collect();
    assert_eq!(bits, [false, true, false, true, false]);
}

#[test]
fn uncommitted_packet_is_offered_again() {
    let mut r = Rig::rc();
    r.post(write(0), 2500);
    let first = r.offered();
    assert!(first.is_some());
    assert_eq!(r.offered(), first);
    assert_eq!(r.s.next_deadline(), None);
    r.send();
    assert_ne!(r.offered(), first);
}

#[test]
fn committing_something_else_changes_nothing() {
    let mut r = Rig::rc();
    r.post(write(0), 2500);
    let first = r.offered().unwrap();
    r.s.commit_tx(&first, r.now);
    let second = r.offered();
    r.s.commit_tx(&first, r.now);
    assert_eq!(r.offered(), second);
}

#[test]
fn a_run_is_the_same_packets_as_one_by_one() {
    for length in [0, 1, MTU, 10 * MTU, 100 * MTU + 5] {
        let mut one = Rig::rc();
        one.post(SendOp::Send, length);
        let mut run = Rig::rc();
        run.post(SendOp::Send, length);

        while let TxStep::Packet(tx) = run.s.poll_run(run.now, 7) {
            let mut payload = 0;
            for i in 0..tx.packets {
                let packet = run.s.header(&tx, i).unwrap();
                payload += packet.payload_len;
                assert_eq!(one.send(), Some(packet));
            }
            assert_eq!(payload, tx.len);
            assert_eq!(run.s.header(&tx, tx.packets), None);
            run.s.commit_tx(&tx, run.now);
        }
        assert_eq!(one.send(), None);
        assert_eq!(one.s.sq_psn(), run.s.sq_psn());
    }
}

#[test]
fn the_window_stops_at_128_unacknowledged_packets() {
    let mut r = Rig::rc();
    r.post(write(0), 300 * MTU);
    assert_eq!(r.send_all().len(), 128);
    r.ack(100 + 63);
    assert_eq!(r.send_all().len(), 64);
    r.ack(100 + 191);
    assert_eq!(r.send_all().len(), 108);
    r.ack(100 + 299);
    assert_eq!(r.done(), [(0, OK)]);
}

#[test]
fn an_acknowledgement_is_asked_for_within_64_packets() {
    let mut r = Rig::rc();
    r.post(write(0), 1000 * MTU);
    let mut since = 0;
    let mut sent = 0;
    while let Some(packet) = r.send() {
        sent += 1;
        since += 1;
        assert!(since <= 64);
        if packet.ack_req {
            since = 0;
            r.ack(packet.psn.get());
        }
    }
    assert_eq!(sent, 1000);
    assert_eq!(r.done(), [(0, OK)]);
}

#[test]
fn a_read_longer_than_the_window_is_sent() {
    let mut r = Rig::rc();
    r.post(read(0), 1000 * MTU);
    r.post(SendOp::Send, 1);
    assert_eq!(r.send().unwrap().opcode, Opcode::RcReadRequest);
    assert_eq!(r.s.sq_psn(), Psn::new(1100));
    // The SEND waits until the READ is nearly over.
    assert!(r.is_idle());
    for i in 0..1000u32 {
        if i == 873 {
            assert_eq!(r.send_all(), [1100]);
        }
        r.read_data(100 + i, Position::of(i == 0, i == 999), i * MTU, MTU);
        if i < 872 {
            assert!(r.is_idle());
        }
    }
    r.ack(1100);
    assert_eq!(r.done(), [(0, OK), (1, OK)]);
}

#[test]
fn the_longest_read_takes_half_of_all_psns() {
    let mut cfg = config(Service::Rc);
    cfg.mtu = Mtu::B256;
    let mut r = Rig::new(cfg);
    r.post(read(0), 1 << 31);
    r.send().unwrap();
    assert_eq!(r.s.sq_psn(), Psn::new(100 + (1 << 23)));
    r.read_data(100, Position::First, 0, 256);
    // From here on the request would be sent again for the rest.
    assert!(r.time_out());
    let again = r.send().unwrap();
    assert_eq!((again.psn.get(), again.reth.va), (101, 256));
    assert_eq!(again.reth.len, (1 << 31) - 256);
}

#[test]
fn a_message_longer_than_2_to_31_fails() {
    let mut r = Rig::rc();
    r.post(write(0), (1 << 31) + 1);
    assert_eq!(r.done(), [(0, WcStatus::LocLenErr)]);
    assert_eq!(r.s.take_fault(), Some(QpFault::LocalLength));
}

#[test]
fn psns_wrap() {
    let mut cfg = config(Service::Rc);
    cfg.psn = Psn::new(0xff_fff0);
    let mut r = Rig::new(cfg);
    r.post(write(0), 20 * MTU);
    r.post(read(0), 20 * MTU);
    let sent = r.send_all();
    assert_eq!(sent.len(), 21);
    assert_eq!((sent[15], sent[16], sent[20]), (0xff_ffff, 0, 4));
    r.ack(3);
    for i in 0..20 {
        r.read_data(4 + i, Position::of(i == 0, i == 19), i * MTU, MTU);
    }
    assert_eq!(r.done(), [(0, OK), (1, OK)]);
    assert_eq!(r.s.sq_psn(), Psn::new(24));
}

#[test]
fn an_unreliable_request_is_over_when_its_last_packet_is_sent() {
    let mut r = Rig::new(config(Service::Uc));
    r.post(write(0), MTU + 1);
    assert_eq!(r.send().unwrap().opcode, Opcode::UcWriteFirst);
    assert_eq!(r.done(), []);
    let last = r.send().unwrap();
    assert_eq!(last.opcode, Opcode::UcWriteLast);
    assert!(!last.ack_req);
    assert_eq!(r.done(), [(0, OK)]);
    assert_eq!(r.s.next_deadline(), None);
    assert_eq!(r.s.sq_psn(), Psn::new(102));
}

#[test]
fn a_datagram_carries_its_own_address() {
    let mut r = Rig::new(config(Service::Ud));
    r.post(SendOp::Send, 10);
    let packet = r.send().unwrap();
    assert_eq!(packet.opcode, Opcode::UdSendOnly);
    assert_eq!(packet.dest_qpn, Qpn::new(5));
    assert_eq!(
        (packet.deth.qkey, packet.deth.src_qpn),
        (0x77, Qpn::new(17))
    );
    assert_eq!(r.done(), [(0, OK)]);
}

#[test]
fn a_controlled_qkey_is_that_of_the_queue_pair() {
    let ud = |qkey| UdTarget {
        qkey,
        ..UdTarget::default()
    };
    let mut cfg = config(Service::Ud);
    let s = Sender::new(cfg, vec![SendEntry::EMPTY; 4]);
    assert_eq!(s.qkey_for(&ud(0x8000_0001)), 0x1234);
    assert_eq!(s.qkey_for(&ud(0x7000_0001)), 0x7000_0001);
    cfg.qpn = Qpn::GSI;
    let s = Sender::new(cfg, vec![SendEntry::EMPTY; 4]);
    assert_eq!(s.qkey_for(&ud(5)), 0x8001_0000);
}

/// C10-93.1.1.
#[test]
fn a_datagram_longer_than_the_mtu_succeeds_and_is_not_sent() {
    let mut r = Rig::new(config(Service::Ud));
    r.post(SendOp::Send, MTU);
    r.post(SendOp::Send, MTU + 1);
    r.post(SendOp::Send, 1);
    // It does not overtake the one before.
    assert_eq!(r.done(), []);
    assert_eq!(r.send_all(), [100, 101]);
    assert_eq!(r.done(), [(0, OK), (1, OK), (2, OK)]);
}

#[test]
fn a_request_that_the_service_cannot_carry_fails() {
    for service in [Service::Uc, Service::Ud] {
        for op in [read(0), fetch_add(), SendOp::SendInv(Key::new(1))] {
            let mut r = Rig::new(config(service));
            r.post(op, 8);
            assert!(r.is_idle());
            assert_eq!(r.done(), [(0, WcStatus::LocQpOpErr)]);
        }
    }
    let mut r = Rig::new(config(Service::Ud));
    r.post(write(0), 8);
    assert_eq!(r.done(), [(0, WcStatus::LocQpOpErr)]);
}

#[test]
fn the_window_holds_what_fits_and_no_more() {
    let wr = SendEntry::EMPTY.wr;
    for (storage, capacity) in [(0, 0), (1, 1), (7, 4), (64, 64), (1000, 256)] {
        let mut s = Sender::new(config(Service::Rc), vec![SendEntry::EMPTY; storage]);
        assert_eq!((s.capacity(), s.room()), (capacity, capacity));
        for i in 0..capacity {
            assert_eq!(s.push(wr), Ok(Slot(i as u16)));
        }
        assert_eq!(s.push(wr), Err(Full));
        assert_eq!(s.push_bad(0, WcStatus::LocQpOpErr), Err(Full));
        assert_eq!(s.len(), capacity);
    }
}

#[test]
fn slots_are_used_again_only_after_their_completion() {
    let mut r = Rig::new(config(Service::Rc));
    r.s = Sender::new(config(Service::Rc), vec![SendEntry::EMPTY; 4]);
    for round in 0..1000u32 {
        let slot = r.post(SendOp::Send, 1);
        assert_eq!(u32::from(slot.0), round % 4);
        if r.s.room() == 0 {
            r.send_all();
            r.ack(100 + round);
            assert_eq!(r.s.room(), 0);
            assert_eq!(r.done().len(), 4);
            assert_eq!(r.s.room(), 4);
        }
    }
}

#[test]
fn entries_are_small() {
    assert!(core::mem::size_of::<SendEntry>() <= 104);
    assert!(core::mem::size_of::<PreparedTx>() <= 32);
    assert!(core::mem::size_of::<TxStep>() <= 48);
}
