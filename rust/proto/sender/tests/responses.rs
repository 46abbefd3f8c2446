// SPDX-License-Identifier: GPL-2.0

//! What responses do: acknowledgement, implied NAKs, data, refusals, nonsense.

use super::*;

#[test]
fn one_acknowledgement_covers_all_before_it() {
    let mut r = Rig::rc();
    for _ in 0..5 {
        r.post(SendOp::Send, MTU + 1);
    }
    r.send_all();
    r.ack(105);
    assert_eq!(r.done(), [(0, OK), (1, OK), (2, OK)]);
    r.ack(108);
    assert_eq!(r.done(), [(3, OK)]);
    r.ack(109);
    assert_eq!(r.done(), [(4, OK)]);
    assert_eq!(r.s.next_deadline(), None);
}

#[test]
fn duplicate_acknowledgements_change_nothing() {
    let mut r = Rig::rc();
    r.post(SendOp::Send, 1);
    r.post(SendOp::Send, 1);
    r.send_all();
    r.ack(100);
    let deadline = r.s.next_deadline();
    r.now = Instant(r.now.0 + MS);
    for _ in 0..3 {
        r.ack(100);
        r.ack(99);
        r.ack(0x80_0000);
    }
    assert_eq!(r.done(), [(0, OK)]);
    assert_eq!(r.s.next_deadline(), deadline);
    assert_eq!(r.s.take_counts().unexpected, 9);
}

#[test]
fn an_acknowledgement_of_what_was_never_sent_is_ignored() {
    let mut r = Rig::rc();
    r.post(write(0), 3 * MTU);
    r.post(SendOp::Send, 1);
    r.ack(100);
    r.send();
    for psn in [101, 102, 103, 104, 500] {
        r.ack(psn);
        r.nak(psn, NakCode::RemoteAccess);
        r.rnr(psn, 1);
    }
    assert_eq!(r.done(), []);
    assert_eq!(r.s.take_fault(), None);
    assert_eq!(r.send_all(), [101, 102, 103]);
    r.ack(103);
    assert_eq!(r.done(), [(0, OK), (1, OK)]);
}

#[test]
fn an_acknowledgement_that_comes_while_going_back_skips_ahead() {
    let mut r = Rig::rc();
    for _ in 0..4 {
        r.post(SendOp::Send, MTU + 1);
    }
    r.send_all();
    assert!(r.time_out());
    // In the middle of the second message.
    r.ack(102);
    assert_eq!(r.done(), [(0, OK)]);
    let next = r.send().unwrap();
    assert_eq!((next.psn.get(), next.opcode), (103, Opcode::RcSendLast));
    // All of it, while half of it waits to be sent again.
    r.ack(107);
    assert_eq!(r.done().len(), 3);
    assert!(r.is_idle());
    assert_eq!(r.s.next_deadline(), None);
    r.post(SendOp::Send, 1);
    assert_eq!(r.send_all(), [108]);
}

#[test]
fn a_read_response_acknowledges_what_is_before_it() {
    let mut r = Rig::rc();
    r.post(SendOp::Send, MTU + 1);
    r.post(read(0), 10);
    r.send_all();
    r.read_data(102, Position::Only, 0, 10);
    assert_eq!(r.done(), [(0, OK), (1, OK)]);
}

#[test]
fn an_acknowledgement_does_not_complete_a_read() {
    let mut r = Rig::rc();
    r.post(SendOp::Send, 1);
    r.post(read(0), 10);
    r.post(SendOp::Send, 1);
    r.send_all();
    r.ack(101);
    assert_eq!(r.done(), [(0, OK)]);
    // The response was lost: the READ and what follows are sent again, once.
    assert_eq!(r.send_all(), [101, 102]);
    r.ack(101);
    r.ack(102);
    assert!(r.is_idle());
    r.read_data(101, Position::Only, 0, 10);
    r.ack(102);
    assert_eq!(r.done(), [(1, OK), (2, OK)]);
}

#[test]
fn a_later_acknowledgement_implies_a_nak_for_an_atomic() {
    for op in [
        fetch_add(),
        SendOp::AtomicWrite {
            va: 0,
            key: Key::new(1),
        },
        SendOp::Flush {
            va: 0,
            key: Key::new(1),
            len: 0,
            level: 0,
            placement: 1,
        },
    ] {
        let mut r = Rig::rc();
        r.post(op, 8);
        r.post(SendOp::Send, 1);
        r.send_all();
        r.ack(101);
        assert_eq!(r.done(), []);
        assert_eq!(r.send_all(), [100, 101]);
        assert_eq!(r.s.take_counts().retries, 1);
    }
}

#[test]
fn a_missing_read_response_is_asked_for_with_what_follows() {
    const N: u32 = 16;
    for missing in 0..N {
        let mut r = Rig::rc();
        r.post(read(0x1000), N * MTU);
        r.send_all();
        for i in 0..missing {
            r.read_data(100 + i, Position::of(i == 0, i == N - 1), i * MTU, MTU);
        }
        for i in missing + 1..N {
            let step = r.read_response(100 + i, Position::of(i == 0, i == N - 1), MTU);
            assert_eq!(step, RespStep::Done);
        }
        if missing == N - 1 {
            // Nothing after it tells that it was lost.
            assert!(r.is_idle() && r.time_out());
        }
        let again = r.send().unwrap();
        assert_eq!(again.psn.get(), 100 + missing);
        assert_eq!(again.reth.va, u64::from(0x1000 + missing * MTU));
        assert_eq!(again.reth.len, (N - missing) * MTU);
        assert!(r.is_idle());
        for i in missing..N {
            let position = Position::of(i == missing, i == N - 1);
            r.read_data(100 + i, position, i * MTU, MTU);
        }
        assert_eq!(r.done(), [(0, OK)]);
        assert_eq!(r.s.take_counts().retries, 1);
    }
}

#[test]
fn flush_and_atomic_write_end_with_an_empty_read_response() {
    let key = Key::new(1);
    let flush = SendOp::Flush {
        va: 0,
        key,
        len: 100,
        level: 0,
        placement: 1,
    };
    for op in [flush, SendOp::AtomicWrite { va: 0, key }] {
        let mut r = Rig::rc();
        r.post(op, 8);
        r.send_all();
        assert_eq!(r.read_response(100, Position::Only, 0), RespStep::Done);
        assert_eq!(r.done(), [(0, OK)]);

        let mut r = Rig::rc();
        r.post(op, 8);
        r.send_all();
        assert_eq!(r.read_response(100, Position::Only, 8), RespStep::Done);
        assert_eq!(r.done(), [(0, WcStatus::BadRespErr)]);
    }
}

#[test]
fn a_response_that_does_not_fit_breaks_the_queue() {
    // Length, position, kind.
    let cases: &[(u32, Position, bool)] = &[
        (MTU - 1, Position::First, true),
        (MTU, Position::Only, true),
        (MTU, Position::Last, true),
        (0, Position::Middle, true),
        (MTU, Position::First, false),
    ];
    for &(len, position, is_read) in cases {
        let mut r = Rig::rc();
        r.post(if is_read { read(0) } else { SendOp::Send }, 2 * MTU);
        r.post(SendOp::Send, 1);
        r.send_all();
        assert_eq!(r.read_response(100, position, len), RespStep::Done);
        assert_eq!(r.done(), [(0, WcStatus::BadRespErr), (1, FLUSHED)]);
        assert_eq!(r.s.take_fault(), Some(QpFault::BadResponse));
    }

    let mut r = Rig::rc();
    r.post(read(0), 8);
    r.send_all();
    let mut packet = PacketInfo::new(Opcode::RcAtomicAck);
    packet.psn = Psn::new(100);
    assert_eq!(r.respond(&packet), RespStep::Done);
    assert_eq!(r.done(), [(0, WcStatus::BadRespErr)]);
}

#[test]
fn buffers_that_are_refused_are_the_consumers_fault() {
    let mut r = Rig::rc();
    r.post(read(0), 2 * MTU);
    r.post(SendOp::Send, 1);
    r.send_all();
    assert!(matches!(
        r.read_response(100, Position::First, MTU),
        RespStep::Store { .. }
    ));
    r.s.stored(Err(AccessFault::Rights));
    assert_eq!(r.done(), [(0, WcStatus::LocProtErr), (1, FLUSHED)]);
    assert_eq!(r.s.take_fault(), Some(QpFault::LocalProtection));
}

#[test]
fn a_refused_request_fails_and_those_before_it_do_not() {
    let codes = [
        (NakCode::InvalidRequest, WcStatus::RemInvReqErr),
        (NakCode::RemoteAccess, WcStatus::RemAccessErr),
        (NakCode::RemoteOperation, WcStatus::RemOpErr),
    ];
    for (code, status) in codes {
        let mut r = Rig::rc();
        for _ in 0..3 {
            r.post(write(0), 2 * MTU);
        }
        r.send_all();
        r.nak(102, code);
        assert_eq!(r.done(), [(0, OK), (1, status), (2, FLUSHED)]);
        assert_eq!(r.s.take_fault(), Some(QpFault::Remote));
        assert!(r.is_idle());
    }
}

#[test]
fn a_read_given_up_half_way_fails_with_the_reason() {
    let mut r = Rig::rc();
    r.post(read(0), 4 * MTU);
    r.send_all();
    r.read_data(100, Position::First, 0, MTU);
    r.read_data(101, Position::Middle, MTU, MTU);
    // The responder names the PSN of the request.
    r.nak(100, NakCode::RemoteAccess);
    assert_eq!(r.done(), [(0, WcStatus::RemAccessErr)]);
}

#[test]
fn reserved_syndromes_are_ignored() {
    let mut r = Rig::rc();
    r.post(SendOp::Send, 1);
    r.send_all();
    for syndrome in [0x40, 0x5f, 0x65, 0x7f, 0x80, 0xff] {
        let mut packet = PacketInfo::new(Opcode::RcAck);
        packet.psn = Psn::new(100);
        packet.aeth.syndrome = syndrome;
        r.respond(&packet);
    }
    assert!(r.is_idle());
    r.ack(100);
    assert_eq!(r.done(), [(0, OK)]);
}

#[test]
fn responses_to_an_unreliable_queue_are_ignored() {
    let mut r = Rig::new(config(Service::Uc));
    r.post(SendOp::Send, 2 * MTU);
    r.send();
    r.nak(100, NakCode::RemoteAccess);
    assert_eq!(r.send_all(), [101]);
    assert_eq!(r.done(), [(0, OK)]);
}

#[test]
fn an_outcome_without_a_response_is_ignored() {
    let mut r = Rig::rc();
    r.post(read(0), 10);
    r.send_all();
    r.s.stored(Ok(()));
    r.s.stored(Err(AccessFault::Key));
    assert_eq!(r.done(), []);
    // And one that comes after the queue pair was moved to the error state.
    assert!(matches!(
        r.read_response(100, Position::Only, 10),
        RespStep::Store { .. }
    ));
    r.s.enter_error();
    r.s.stored(Ok(()));
    assert_eq!(r.done(), [(0, FLUSHED)]);
}
