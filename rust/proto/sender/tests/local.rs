// SPDX-License-Identifier: GPL-2.0

//! Order inside the queue: fences, local operations, draining, failures and flush.

use super::*;

const REG: SendOp = SendOp::RegMr {
    key: Key::new(0x301),
    access: 7,
};
const INV: SendOp = SendOp::LocalInv(Key::new(0x301));

fn local(r: &Rig) -> Option<Slot> {
    match r.s.poll_tx(r.now) {
        TxStep::Local { slot, .. } => Some(slot),
        TxStep::Packet(_) | TxStep::Idle => None,
    }
}

#[test]
fn a_fence_waits_for_reads_and_atomics_only() {
    let mut r = Rig::rc();
    r.post(SendOp::Send, 1);
    r.post_with(SendOp::Send, 1, fenced());
    assert_eq!(r.send_all(), [100, 101]);

    r.post(read(0), 2 * MTU);
    r.post(fetch_add(), 8);
    r.post_with(SendOp::Send, 1, fenced());
    r.post(SendOp::Send, 1);
    assert_eq!(r.send_all(), [102, 104]);
    r.read_data(102, Position::First, 0, MTU);
    r.read_data(103, Position::Last, MTU, MTU);
    assert!(r.is_idle());
    let mut packet = PacketInfo::new(Opcode::RcAtomicAck);
    packet.psn = Psn::new(104);
    packet.orig = 77;
    assert!(matches!(
        r.respond(&packet),
        RespStep::StoreAtomic { value: 77, .. }
    ));
    assert!(r.is_idle());
    r.s.stored(Ok(()));
    assert_eq!(r.send_all(), [105, 106]);
}

#[test]
fn a_fenced_read_is_not_stopped_by_itself_when_it_is_sent_again() {
    let mut r = Rig::rc();
    r.post_with(read(0), 10, fenced());
    assert_eq!(r.send_all(), [100]);
    assert!(r.time_out());
    assert_eq!(r.send_all(), [100]);
}

#[test]
fn only_max_rd_atomic_reads_are_outstanding() {
    let mut cfg = config(Service::Rc);
    cfg.max_rd_atomic = 1;
    let mut r = Rig::new(cfg);
    for _ in 0..64 {
        r.post(read(0), 100);
    }
    for i in 0..64 {
        assert_eq!(r.send_all(), [100 + i]);
        r.read_data(100 + i, Position::Only, 0, 100);
        assert_eq!(r.done(), [(i.into(), OK)]);
    }
    assert!(r.s.is_empty());
}

#[test]
fn the_limit_holds_over_retries() {
    let mut cfg = config(Service::Rc);
    cfg.max_rd_atomic = 2;
    let mut r = Rig::new(cfg);
    for _ in 0..4 {
        r.post(read(0), 100);
    }
    for _ in 0..3 {
        assert_eq!(r.send_all(), [100, 101]);
        assert!(r.time_out());
    }
    assert_eq!(r.send_all(), [100, 101]);
    r.read_data(100, Position::Only, 0, 100);
    assert_eq!(r.send_all(), [102]);
}

#[test]
fn a_read_without_resources_fails_instead_of_waiting() {
    let mut cfg = config(Service::Rc);
    cfg.max_rd_atomic = 0;
    let mut r = Rig::new(cfg);
    r.post(read(0), 100);
    assert_eq!(r.done(), [(0, WcStatus::LocQpOpErr)]);
}

#[test]
fn a_registration_is_executed_in_its_turn() {
    let mut r = Rig::rc();
    r.post(write(0), MTU + 1);
    let slot = r.post(REG, 0);
    r.post(SendOp::Send, 1);
    r.send();
    assert_eq!(local(&r), None);
    r.send();
    // All packets of what is before are sent, not all are acknowledged.
    assert_eq!(local(&r), Some(slot));
    assert_eq!(local(&r), Some(slot));
    r.s.local_done(slot, Ok(()));
    assert_eq!(r.send_all(), [102]);
    assert_eq!(r.done(), []);
    r.ack(102);
    assert_eq!(r.done(), [(0, OK), (1, OK), (2, OK)]);
}

/// IBA 10.6.5.1.
#[test]
fn a_local_invalidate_waits_for_all_earlier_requests() {
    let mut r = Rig::rc();
    r.post(SendOp::Send, 1);
    r.post(read(0), 1);
    let reg = r.post(REG, 0);
    let inv = r.post(INV, 0);
    r.send_all();
    assert_eq!(local(&r), Some(reg));
    r.s.local_done(reg, Ok(()));
    assert!(r.is_idle());
    r.ack(100);
    assert!(r.is_idle());
    r.read_data(101, Position::Only, 0, 1);
    assert_eq!(local(&r), Some(inv));
    r.s.local_done(inv, Ok(()));
    assert_eq!(r.done(), [(0, OK), (1, OK), (2, OK), (3, OK)]);
}

#[test]
fn a_retry_does_not_execute_a_local_operation_again() {
    let mut r = Rig::rc();
    r.post(SendOp::Send, 1);
    let reg = r.post(REG, 0);
    r.post(SendOp::Send, 1);
    assert_eq!(r.send_all(), [100]);
    r.s.local_done(reg, Ok(()));
    assert_eq!(r.send_all(), [101]);
    assert!(r.time_out());
    assert_eq!(r.send_all(), [100, 101]);
    r.ack(101);
    assert_eq!(r.done(), [(0, OK), (1, OK), (2, OK)]);
}

#[test]
fn a_local_operation_that_fails_fails_in_its_turn() {
    let mut r = Rig::rc();
    r.post(SendOp::Send, 1);
    let reg = r.post(REG, 0);
    r.post(SendOp::Send, 1);
    r.send_all();
    r.s.local_done(reg, Err(WcStatus::LocQpOpErr));
    assert!(r.is_idle());
    assert_eq!(r.s.take_fault(), None);
    assert_eq!(r.done(), []);
    // What was sent before still succeeds.
    r.ack(100);
    assert_eq!(r.done(), [(0, OK), (1, WcStatus::LocQpOpErr), (2, FLUSHED)]);
    assert_eq!(r.s.take_fault(), Some(QpFault::LocalOp));
    assert_eq!(r.s.take_fault(), None);
}

#[test]
fn a_gather_that_fails_fails_in_its_turn() {
    let mut r = Rig::rc();
    r.post(SendOp::Send, 1);
    let bad = r.post(SendOp::Send, 3 * MTU);
    r.post(SendOp::Send, 1);
    assert_eq!(r.send().unwrap().psn.get(), 100);
    assert_eq!(r.send().unwrap().psn.get(), 101);
    r.s.tx_fault(bad, WcStatus::LocProtErr);
    assert!(r.is_idle());
    // The one before is sent again as long as it takes.
    assert!(r.time_out());
    assert_eq!(r.send_all(), [100]);
    r.ack(100);
    assert_eq!(r.done(), [(0, OK), (1, WcStatus::LocProtErr), (2, FLUSHED)]);
    assert_eq!(r.s.take_fault(), Some(QpFault::LocalProtection));
}

#[test]
fn a_fault_of_a_request_that_is_not_offered_is_ignored() {
    let mut r = Rig::rc();
    let first = r.post(SendOp::Send, 1);
    let second = r.post(SendOp::Send, 1);
    r.s.tx_fault(second, WcStatus::LocProtErr);
    r.s.local_done(first, Ok(()));
    assert_eq!(r.send_all(), [100, 101]);
    r.s.tx_fault(second, WcStatus::LocProtErr);
    r.ack(101);
    assert_eq!(r.done(), [(0, OK), (1, OK)]);
}

#[test]
fn a_request_that_cannot_be_read_fails_in_its_turn() {
    let mut r = Rig::rc();
    r.post(SendOp::Send, 1);
    r.s.push_bad(99, WcStatus::LocQpOpErr).unwrap();
    r.post(SendOp::Send, 1);
    assert_eq!(r.send_all(), [100]);
    r.ack(100);
    let all: Vec<_> = core::iter::from_fn(|| r.s.pop_completion()).collect();
    assert_eq!(all.len(), 3);
    assert_eq!((all[0].status, all[0].report), (OK, false));
    assert_eq!((all[1].wr_id, all[1].status), (99, WcStatus::LocQpOpErr));
    // IBA 10.7.3.1: an error is always reported.
    assert!(all[1].report && all[2].report);
    assert_eq!(all[2].status, FLUSHED);
}

#[test]
fn a_flush_keeps_the_order_and_what_is_over() {
    let mut r = Rig::rc();
    for _ in 0..5 {
        r.post(SendOp::Send, 1);
    }
    r.send();
    r.send();
    r.ack(100);
    r.s.enter_error();
    r.ack(101);
    assert!(r.is_idle());
    assert_eq!(r.s.next_deadline(), None);
    assert_eq!(
        r.done(),
        [
            (0, OK),
            (1, FLUSHED),
            (2, FLUSHED),
            (3, FLUSHED),
            (4, FLUSHED)
        ]
    );
    assert_eq!(r.s.take_fault(), None);
    r.post(SendOp::Send, 1);
    assert_eq!(r.done(), [(5, FLUSHED)]);
}

#[test]
fn an_unreliable_queue_recovers_from_its_error() {
    let mut r = Rig::new(config(Service::Uc));
    let bad = r.post(SendOp::Send, 1);
    r.post(SendOp::Send, 1);
    r.s.tx_fault(bad, WcStatus::LocProtErr);
    assert!(!r.s.recover());
    assert_eq!(r.done(), [(0, WcStatus::LocProtErr), (1, FLUSHED)]);
    assert!(r.s.recover());
    r.post(SendOp::Send, 1);
    assert_eq!(r.send_all(), [100]);
    assert_eq!(r.done(), [(2, OK)]);
}

#[test]
fn reset_forgets_everything() {
    let mut r = Rig::rc();
    r.post(read(0), 10);
    r.post(SendOp::Send, 1);
    r.send_all();
    r.s.reset();
    assert!(r.s.is_empty() && r.is_idle());
    assert_eq!(r.s.next_deadline(), None);
    let mut cfg = config(Service::Rc);
    cfg.psn = Psn::new(7);
    r.s.reconfigure(cfg);
    r.post(read(0), 10);
    assert_eq!(r.send_all(), [7]);
    r.read_data(7, Position::Only, 0, 10);
    assert_eq!(r.done(), [(2, OK)]);
}

#[test]
fn draining_ends_what_was_begun_and_starts_nothing() {
    let mut r = Rig::rc();
    r.post(SendOp::Send, 1);
    r.post(SendOp::Send, 3 * MTU);
    r.post(SendOp::Send, 1);
    assert!(!r.s.is_drained() || !r.s.is_empty());
    r.send();
    r.send();
    r.s.set_draining(true);
    assert!(!r.s.is_drained());
    assert_eq!(r.send_all(), [102, 103]);
    // Retries belong to what was begun.
    assert!(r.time_out());
    assert_eq!(r.send_all(), [100, 101, 102, 103]);
    r.ack(103);
    assert!(!r.s.is_drained());
    assert_eq!(r.done(), [(0, OK), (1, OK)]);
    assert!(r.s.is_drained());
    assert!(r.is_idle());
    r.s.set_draining(false);
    assert_eq!(r.send_all(), [104]);
    assert!(!r.s.is_drained());
}

#[test]
fn draining_executes_no_local_operation() {
    let mut r = Rig::rc();
    r.post(REG, 0);
    r.s.set_draining(true);
    assert!(r.is_idle() && r.s.is_drained());
    r.s.set_draining(false);
    assert!(local(&r).is_some());
}
