// SPDX-License-Identifier: GPL-2.0

//! SEND over RC: placement, completions, acknowledgements, sequence, receiver not ready.

use super::*;

#[test]
fn single_packet_send_takes_the_short_way() {
    let mut rig = Rig::new(Service::Rc);
    rig.post(7, 64);
    let data = pattern(64, 1);
    assert_eq!(rig.send(Service::Rc, 100, SendTail::None, &data), EXECUTED);
    assert!(matches!(
        rig.log[..],
        [
            Effect::TakeRecv,
            Effect::StoreRecv { offset: 0, len: 64 },
            Effect::Complete(_),
            Effect::Send(_),
            Effect::Done(Disposition::Executed),
        ]
    ));
    rig.assert_ack(100, 1);
    assert_eq!(rig.received, [data]);
    let done = rig.completions[0];
    assert_eq!((done.wr_id, done.byte_len), (7, 64));
    assert_eq!(done.status, WcStatus::Success);
    assert_eq!(done.opcode, WcOpcode::Recv);
    assert_eq!((done.imm, done.inv), (None, None));
    assert_eq!(rig.resp.take_counts().received, 1);
}

#[test]
fn send_is_cut_and_joined_at_every_mtu() {
    for mtu in [Mtu::B256, Mtu::B512, Mtu::B1024, Mtu::B2048, Mtu::B4096] {
        let n = mtu.bytes();
        for len in [0, 1, n - 1, n, n + 1, 2 * n, 3 * n - 1, 3 * n + 5] {
            let mut rig = Rig::with(config(Service::Rc, mtu), 1);
            rig.post(1, len);
            let data = pattern(len, n);
            assert_eq!(rig.send(Service::Rc, 100, SendTail::None, &data), EXECUTED);
            assert_eq!(rig.received, [data]);
            assert_eq!(rig.completions[0].byte_len, len);
            rig.assert_ack(100 + mtu.packets(len) - 1, 1);
            assert_eq!(
                rig.resp.expected_psn(),
                Psn::new(100 + mtu.packets(len)),
                "{len} bytes at {n}"
            );
        }
    }
}

/// A SEND without data consumes a receive.
#[test]
fn empty_send_completes_with_length_zero() {
    let mut rig = Rig::new(Service::Rc);
    rig.post(1, 0);
    assert_eq!(rig.send(Service::Rc, 100, SendTail::None, &[]), EXECUTED);
    assert_eq!(rig.completions[0].byte_len, 0);
    assert_eq!(rig.completions[0].status, WcStatus::Success);
}

#[test]
fn immediate_and_solicited_bit_are_passed_on() {
    let mut rig = Rig::new(Service::Rc);
    rig.post(1, 8);
    let mut info = packet(Opcode::RcSendOnlyImm, 100);
    info.imm = Imm([1, 2, 3, 4]);
    info.solicited = true;
    info.set_payload_len(8);
    assert_eq!(rig.give(info), EXECUTED);
    assert_eq!(rig.completions[0].imm, Some(Imm([1, 2, 3, 4])));
    assert!(rig.completions[0].solicited);
}

/// Only packets that ask for it are acknowledged.
#[test]
fn no_ack_unless_requested() {
    let mut rig = Rig::new(Service::Rc);
    rig.post(1, 4096);
    let data = pattern(2500, 3);
    for (mut info, payload) in send_packets(Service::Rc, 1024, 100, SendTail::None, &data) {
        info.ack_req = info.opcode.position() == Position::Middle;
        assert_eq!(rig.give_with(info, &payload), EXECUTED);
    }
    // The message is not complete at the middle packet, so it does not count yet.
    rig.assert_ack(101, 0);
}

#[test]
fn every_opcode_that_starts_a_message_is_answered() {
    // One opcode that did not count as a start was never acknowledged.
    for &opcode in Opcode::ALL {
        if opcode.service() != Service::Rc || !opcode.is_request() {
            continue;
        }
        let mut rig = Rig::new(Service::Rc);
        rig.region(Key::new(0x7700), 0, 64, Access::NONE);
        rig.post(1, 4096);
        let mut info = packet(opcode, 100);
        info.ack_req = true;
        info.ieth = Key::new(0x7700);
        info.reth.va = VA;
        info.reth.key = KEY;
        info.atomic.va = VA;
        info.atomic.key = KEY;
        info.feth.placement = 1;
        match opcode.position() {
            Position::Only => {
                if opcode.may_have_payload() {
                    info.set_payload_len(8);
                }
                info.reth.len = 8;
            }
            _ => {
                info.set_payload_len(1024);
                info.reth.len = 2048;
            }
        }
        let end = rig.give(info);
        if opcode.position().starts() {
            assert_eq!(end, EXECUTED, "{opcode:?}");
        } else {
            assert_eq!(end, End::Fatal(QpFault::InvalidRequest), "{opcode:?}");
        }
        assert_eq!(rig.sent.len(), 1, "{opcode:?}");
    }
}

#[test]
fn send_with_invalidate_invalidates_before_it_completes() {
    let mut rig = Rig::new(Service::Rc);
    rig.region(Key::new(0x7701), 0, 64, Access::REMOTE);
    rig.post(1, 16);
    let mut info = packet(Opcode::RcSendOnlyInv, 100);
    info.ieth = Key::new(0x7701);
    info.set_payload_len(16);
    assert_eq!(rig.give(info), EXECUTED);
    assert!(matches!(
        rig.log[..],
        [
            Effect::TakeRecv,
            Effect::StoreRecv { .. },
            Effect::Invalidate(_),
            Effect::Complete(_),
            Effect::Send(_),
            Effect::Done(_),
        ]
    ));
    assert_eq!(rig.completions[0].inv, Some(Key::new(0x7701)));
    assert_eq!(rig.regions[1].view.state, MrState::Free);
    rig.assert_ack(100, 1);
}

/// C9-105: a duplicate is acknowledged and neither stored nor completed again.
#[test]
fn duplicate_send_is_acknowledged_again() {
    let mut rig = Rig::new(Service::Rc);
    rig.post(1, 4096);
    rig.post(2, 4096);
    let data = pattern(2500, 4);
    let packets = send_packets(Service::Rc, 1024, 100, SendTail::None, &data);
    for (info, payload) in &packets {
        rig.give_with(*info, payload);
    }
    rig.take_sent();
    for (info, payload) in &packets {
        assert_eq!(rig.give_with(*info, payload), DUPLICATE);
        rig.assert_ack(102, 1);
    }
    assert_eq!(rig.completions.len(), 1);
    assert_eq!(rig.posted.len(), 1);
    assert_eq!(rig.resp.take_counts().duplicates, 3);
}

#[test]
fn duplicate_within_a_message_does_not_disturb_it() {
    let mut rig = Rig::new(Service::Rc);
    rig.post(1, 4096);
    let data = pattern(2500, 4);
    let packets = send_packets(Service::Rc, 1024, 100, SendTail::None, &data);
    rig.give_with(packets[0].0, &packets[0].1);
    rig.give_with(packets[1].0, &packets[1].1);
    assert_eq!(rig.give_with(packets[0].0, &[0; 1024]), DUPLICATE);
    assert_eq!(rig.give_with(packets[2].0, &packets[2].1), EXECUTED);
    assert_eq!(rig.received, [data]);
}

/// A missing packet is reported once, with the PSN that is missing, until it arrives.
#[test]
fn sequence_error_gives_exactly_one_nak() {
    let mut rig = Rig::new(Service::Rc);
    for id in 0..8 {
        rig.post(id, 16);
    }
    for psn in [102, 103, 101, 150] {
        rig.send(Service::Rc, psn, SendTail::None, &[1]);
    }
    rig.assert_nak(NakCode::PsnSequence, 100, 0);
    assert_eq!(rig.resp.take_counts().out_of_sequence, 1);
    assert_eq!(rig.completions.len(), 0);

    assert_eq!(rig.send(Service::Rc, 100, SendTail::None, &[1]), EXECUTED);
    rig.assert_ack(100, 1);
    assert_eq!(rig.send(Service::Rc, 105, SendTail::None, &[1]), REFUSED);
    rig.assert_nak(NakCode::PsnSequence, 101, 1);
    assert_eq!(rig.resp.take_counts().out_of_sequence, 1);
}

#[test]
fn duplicate_does_not_rearm_the_sequence_nak() {
    let mut rig = Rig::new(Service::Rc);
    rig.post(1, 16);
    rig.post(2, 16);
    rig.send(Service::Rc, 100, SendTail::None, &[1]);
    rig.send(Service::Rc, 102, SendTail::None, &[1]);
    rig.take_sent();
    assert_eq!(rig.send(Service::Rc, 100, SendTail::None, &[1]), DUPLICATE);
    rig.assert_ack(100, 1);
    assert_eq!(rig.send(Service::Rc, 103, SendTail::None, &[1]), DROPPED);
    assert_eq!(rig.sent.len(), 0);
}

#[test]
fn sequence_numbers_wrap() {
    for start in [0xff_fffe, 0xff_ffff, 0, 0x7f_ffff, 0x80_0000] {
        let mut cfg = config(Service::Rc, Mtu::B256);
        cfg.psn = Psn::new(start);
        let mut rig = Rig::with(cfg, 1);
        for id in 0..3 {
            rig.post(id, 1024);
        }
        let data = pattern(1000, start);
        assert_eq!(
            rig.send(Service::Rc, start, SendTail::None, &data),
            EXECUTED
        );
        assert_eq!(rig.resp.expected_psn(), Psn::new(start.wrapping_add(4)));
        rig.take_sent();
        // The same packets again are behind, the one after the next is ahead.
        assert_eq!(
            rig.send(Service::Rc, start, SendTail::None, &data),
            DUPLICATE
        );
        rig.take_sent();
        assert_eq!(
            rig.send(Service::Rc, start.wrapping_add(5), SendTail::None, &[1]),
            REFUSED
        );
        rig.assert_nak(NakCode::PsnSequence, start.wrapping_add(4), 1);
    }
}

#[test]
fn receiver_not_ready_then_retry_succeeds() {
    let mut rig = Rig::new(Service::Rc);
    let data = pattern(100, 9);
    assert_eq!(rig.send(Service::Rc, 100, SendTail::None, &data), REFUSED);
    let answer = rig.the_answer();
    assert_eq!(AethKind::decode(answer.aeth.syndrome), AethKind::RnrNak(12));
    assert_eq!(answer.psn, Psn::new(100));
    assert_eq!(rig.resp.take_counts().rnr_naks, 1);

    // What the peer had sent behind it is passed over in silence.
    assert_eq!(rig.send(Service::Rc, 101, SendTail::None, &data), DROPPED);
    assert_eq!(rig.sent.len(), 0);

    // A second try that comes too early is answered again.
    assert_eq!(rig.send(Service::Rc, 100, SendTail::None, &data), REFUSED);
    assert_eq!(rig.take_sent().len(), 1);

    rig.post(1, 100);
    rig.post(2, 100);
    assert_eq!(rig.send(Service::Rc, 100, SendTail::None, &data), EXECUTED);
    rig.assert_ack(100, 1);
    assert_eq!(rig.send(Service::Rc, 101, SendTail::None, &data), EXECUTED);
    rig.assert_ack(101, 2);
    assert_eq!(rig.received, [data.clone(), data]);
}

#[test]
fn sequence_errors_are_reported_again_after_not_ready_is_over() {
    let mut rig = Rig::new(Service::Rc);
    rig.send(Service::Rc, 100, SendTail::None, &[1]);
    rig.post(1, 16);
    rig.send(Service::Rc, 100, SendTail::None, &[1]);
    rig.take_sent();
    assert_eq!(rig.send(Service::Rc, 102, SendTail::None, &[1]), REFUSED);
    rig.assert_nak(NakCode::PsnSequence, 101, 1);
}

/// The first request in RTR, and only that, reports that communication is established.
#[test]
fn first_request_in_rtr_raises_comm_est() {
    let mut cfg = config(Service::Rc, Mtu::B1024);
    cfg.announce = true;
    let mut rig = Rig::with(cfg, 1);
    for id in 0..3 {
        rig.post(id, 16);
    }
    // Not the packet that is expected: says nothing yet.
    rig.send(Service::Rc, 101, SendTail::None, &[1]);
    assert_eq!(rig.events, []);
    rig.send(Service::Rc, 100, SendTail::None, &[1]);
    assert_eq!(rig.events, [QpEvent::CommEst]);
    assert_eq!(rig.completions.len(), 1);
    rig.send(Service::Rc, 101, SendTail::None, &[1]);
    assert_eq!(rig.events, [QpEvent::CommEst]);
}

#[test]
fn no_comm_est_after_the_move_to_rts() {
    let mut cfg = config(Service::Rc, Mtu::B1024);
    cfg.announce = true;
    let mut rig = Rig::with(cfg, 1);
    rig.post(1, 16);
    cfg.announce = false;
    rig.resp.reconfigure(cfg);
    assert_eq!(rig.send(Service::Rc, 100, SendTail::None, &[1]), EXECUTED);
    assert_eq!(rig.events, []);
}

#[test]
fn packets_of_other_services_and_responses_are_dropped() {
    let mut rig = Rig::new(Service::Rc);
    rig.post(1, 4096);
    for &opcode in Opcode::ALL {
        if opcode.service() == Service::Rc && opcode.is_request() {
            continue;
        }
        assert_eq!(rig.give(packet(opcode, 100)), DROPPED, "{opcode:?}");
        assert_eq!(rig.log.len(), 1, "{opcode:?}");
    }
    assert_eq!(rig.resp.expected_psn(), Psn::new(100));
}
