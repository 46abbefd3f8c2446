// SPDX-License-Identifier: GPL-2.0

//! Time: transport retries, RNR waits, and how often each happens.

use super::*;

/// Counts how often a SEND that nobody answers is sent.
fn transmissions(retry_cnt: u8) -> (u32, Duration) {
    let mut cfg = config(Service::Rc);
    cfg.retry_cnt = retry_cnt;
    let mut r = Rig::new(cfg);
    r.post(SendOp::Send, 1);
    r.post(SendOp::Send, 1);
    let start = r.now;
    let mut sent = 0;
    loop {
        sent += r.send_all().iter().filter(|psn| **psn == 100).count() as u32;
        if !r.time_out() {
            break;
        }
    }
    assert_eq!(r.done(), [(0, WcStatus::RetryExcErr), (1, FLUSHED)]);
    assert_eq!(r.s.take_fault(), Some(QpFault::RetryExceeded));
    let counts = r.s.take_counts();
    assert_eq!(counts.retries, u32::from(retry_cnt));
    assert_eq!(counts.retry_exceeded, 1);
    (sent, r.now.since(start))
}

#[test]
fn seven_transport_retries_are_seven() {
    for (retry_cnt, sent) in [(0, 1), (1, 2), (6, 7), (7, 8)] {
        let (count, time) = transmissions(retry_cnt);
        assert_eq!(count, sent);
        assert_eq!(time.0, u64::from(sent) * TIMEOUT.0);
    }
}

#[test]
fn progress_gives_the_retries_back() {
    let mut cfg = config(Service::Rc);
    cfg.retry_cnt = 1;
    let mut r = Rig::new(cfg);
    r.post(SendOp::Send, 10 * MTU);
    r.send_all();
    for i in 0..10 {
        assert!(r.time_out());
        assert_eq!(r.send_all().len(), 10 - i);
        r.ack(100 + i as u32);
    }
    assert_eq!(r.done(), [(0, OK)]);
}

#[test]
fn without_a_timeout_nothing_is_sent_again() {
    let mut cfg = config(Service::Rc);
    cfg.ack_timeout = None;
    let mut r = Rig::new(cfg);
    r.post(SendOp::Send, 1);
    r.send_all();
    assert_eq!(r.s.next_deadline(), None);
    r.s.on_timeout(Instant(u64::MAX));
    assert!(r.is_idle());
}

#[test]
fn the_timer_runs_from_the_first_request_for_an_acknowledgement() {
    let mut r = Rig::rc();
    r.post(SendOp::Send, 3 * MTU);
    r.send();
    r.now = Instant(r.now.0 + MS);
    r.send();
    r.now = Instant(r.now.0 + MS);
    r.send();
    let deadline = r.now.after(TIMEOUT);
    assert_eq!(r.s.next_deadline(), Some(deadline));
    // More requests do not move it.
    r.now = Instant(r.now.0 + MS);
    r.post(SendOp::Send, 1);
    r.send();
    assert_eq!(r.s.next_deadline(), Some(deadline));
    // Progress does.
    r.ack(102);
    assert_eq!(r.s.next_deadline(), Some(r.now.after(TIMEOUT)));
    r.ack(103);
    assert_eq!(r.s.next_deadline(), None);
}

#[test]
fn calls_before_the_deadline_have_no_effect() {
    let mut r = Rig::rc();
    r.post(SendOp::Send, 1);
    r.send_all();
    let deadline = r.s.next_deadline().unwrap();
    r.s.on_timeout(Instant(deadline.0 - 1));
    assert!(r.is_idle());
    r.s.on_timeout(deadline);
    assert!(!r.is_idle());
}

#[test]
fn a_sequence_nak_goes_back_to_the_missing_packet() {
    let mut r = Rig::rc();
    for _ in 0..4 {
        r.post(write(0), 2 * MTU);
    }
    r.send_all();
    r.nak(103, NakCode::PsnSequence);
    assert_eq!(r.done(), [(0, OK)]);
    let again = r.send().unwrap();
    assert_eq!((again.psn.get(), again.opcode), (103, Opcode::RcWriteLast));
    assert_eq!(r.send_all(), [104, 105, 106, 107]);
    // Copies of the NAK do not start it again.
    r.nak(103, NakCode::PsnSequence);
    r.nak(103, NakCode::PsnSequence);
    assert!(r.is_idle());
    assert_eq!(r.s.take_counts().retries, 1);
    // A NAK for a later packet does.
    r.nak(105, NakCode::PsnSequence);
    assert_eq!(r.send_all(), [105, 106, 107]);
    r.ack(107);
    assert_eq!(r.done(), [(1, OK), (2, OK), (3, OK)]);
}

#[test]
fn a_sequence_nak_without_retries_ends_the_queue() {
    let mut cfg = config(Service::Rc);
    cfg.retry_cnt = 0;
    let mut r = Rig::new(cfg);
    r.post(SendOp::Send, 1);
    r.post(SendOp::Send, 1);
    r.send_all();
    r.nak(101, NakCode::PsnSequence);
    assert_eq!(r.done(), [(0, OK), (1, WcStatus::RetryExcErr)]);
}

#[test]
fn an_rnr_nak_makes_the_queue_wait_and_then_send_again() {
    let mut r = Rig::rc();
    r.post(SendOp::Send, 1);
    r.post(SendOp::Send, 1);
    r.post(SendOp::Send, 1);
    r.send_all();
    r.rnr(101, 20);
    assert_eq!(r.done(), [(0, OK)]);
    assert!(r.is_idle());
    let until = r.now.after(rnr_delay(20));
    assert_eq!(r.s.next_deadline(), Some(until));
    r.now = Instant(until.0 - 1);
    assert!(r.is_idle());
    r.now = until;
    assert_eq!(r.send_all(), [101, 102]);
    r.ack(102);
    assert_eq!(r.done(), [(1, OK), (2, OK)]);
    assert_eq!(r.s.take_counts().rnr_naks, 1);
}

#[test]
fn an_rnr_wait_is_not_cut_short_by_the_ack_timer() {
    let mut cfg = config(Service::Rc);
    cfg.retry_cnt = 0;
    cfg.rnr_retry = 1;
    let mut r = Rig::new(cfg);
    r.post(SendOp::Send, 1);
    r.send_all();
    // 82 ms, and an acknowledgement timeout of 10 ms.
    let until = r.now.after(rnr_delay(26));
    r.rnr(100, 26);
    for ms in 1..82 {
        r.now = Instant(1 + ms * MS);
        assert!(r.now >= until || r.is_idle());
        assert_eq!(r.s.next_deadline(), Some(until));
        r.s.on_timeout(r.now);
    }
    assert!(r.time_out());
    assert_eq!(r.send_all(), [100]);
    assert_eq!(r.s.next_deadline(), Some(r.now.after(TIMEOUT)));
    r.ack(100);
    assert_eq!(r.done(), [(0, OK)]);
    assert_eq!(r.s.take_counts().retries, 0);
}

#[test]
fn rnr_retries_are_counted_exactly() {
    for rnr_retry in 0..=6u8 {
        let mut cfg = config(Service::Rc);
        cfg.rnr_retry = rnr_retry;
        let mut r = Rig::new(cfg);
        r.post(SendOp::Send, 1);
        r.post(SendOp::Send, 1);
        let mut sent = 0;
        while r.s.take_fault().is_none() {
            sent += r.send_all().iter().filter(|psn| **psn == 100).count();
            r.rnr(100, 1);
            r.time_out();
        }
        assert_eq!(sent, usize::from(rnr_retry) + 1);
        assert_eq!(r.done(), [(0, WcStatus::RnrRetryExcErr), (1, FLUSHED)]);
        let counts = r.s.take_counts();
        assert_eq!((counts.rnr_exceeded, counts.retries), (1, 0));
        assert_eq!(counts.rnr_naks, u32::from(rnr_retry) + 1);
    }
}

#[test]
fn seven_rnr_retries_are_without_limit() {
    let mut r = Rig::rc();
    r.post(SendOp::Send, 1);
    for _ in 0..1000 {
        assert_eq!(r.send_all(), [100]);
        r.rnr(100, 1);
        assert!(r.time_out());
    }
    assert_eq!(r.send_all(), [100]);
    r.ack(100);
    assert_eq!(r.done(), [(0, OK)]);
}

#[test]
fn copies_of_an_rnr_nak_do_not_use_up_retries() {
    let mut cfg = config(Service::Rc);
    cfg.rnr_retry = 1;
    let mut r = Rig::new(cfg);
    r.post(SendOp::Send, 1);
    r.send_all();
    r.rnr(100, 10);
    let until = r.s.next_deadline();
    for _ in 0..5 {
        r.rnr(100, 31);
    }
    assert_eq!(r.s.next_deadline(), until);
    assert_eq!(r.done(), []);
}

#[test]
fn an_acknowledgement_ends_an_rnr_wait_for_the_same_packet() {
    let mut r = Rig::rc();
    r.post(SendOp::Send, 1);
    r.post(SendOp::Send, 1);
    r.send_all();
    r.rnr(100, 26);
    r.ack(101);
    assert_eq!(r.done(), [(0, OK), (1, OK)]);
    assert_eq!(r.s.next_deadline(), None);
    r.post(SendOp::Send, 1);
    assert_eq!(r.send_all(), [102]);
}

#[test]
fn an_rnr_nak_behind_a_missing_read_response_retries_the_read() {
    let mut r = Rig::rc();
    r.post(read(0), 10);
    r.post(SendOp::Send, 1);
    r.send_all();
    r.rnr(101, 26);
    assert_eq!(r.send_all(), [100, 101]);
    r.read_data(100, Position::Only, 0, 10);
    r.rnr(101, 1);
    assert!(r.time_out());
    assert_eq!(r.send_all(), [101]);
    r.ack(101);
    assert_eq!(r.done(), [(0, OK), (1, OK)]);
}

#[test]
fn what_a_full_queue_refuses_is_sent_again_without_a_retry() {
    let mut r = Rig::rc();
    r.post(SendOp::Send, 4 * MTU);
    r.post(
        SendOp::Read {
            va: 0,
            key: Key::new(1),
        },
        3 * MTU,
    );
    r.post(SendOp::Send, 1);
    assert_eq!(r.send_all(), [100, 101, 102, 103, 104, 107]);
    let deadline = r.s.next_deadline();
    r.s.on_refused(Psn::new(104));
    assert_eq!(r.send_all(), [104, 107]);
    r.s.on_refused(Psn::new(102));
    assert_eq!(r.send_all(), [102, 103, 104, 107]);
    // The wait for an answer is the first one.
    assert_eq!(r.s.next_deadline(), deadline);
    r.ack(102);
    // Of what is acknowledged nothing is taken back, nor of what was never sent.
    r.s.on_refused(Psn::new(102));
    r.s.on_refused(Psn::new(108));
    assert!(r.is_idle());
    assert_eq!(r.s.take_counts().retries, 0);
}

#[test]
fn a_queue_that_stays_full_is_an_error_in_the_end() {
    let mut r = Rig::rc();
    r.post(SendOp::Send, 2 * MTU);
    let mut retries = 0;
    while r.s.take_fault().is_none() {
        for _ in 0..100 {
            assert_eq!(r.send_all(), [100, 101]);
            r.s.on_refused(Psn::new(100));
        }
        assert!(r.time_out());
        retries += 1;
    }
    assert_eq!(retries, 8);
    assert_eq!(r.done(), [(0, WcStatus::RetryExcErr)]);
}
