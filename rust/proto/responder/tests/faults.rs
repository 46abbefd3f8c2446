// SPDX-License-Identifier: GPL-2.0

//! What RC does when a request cannot be executed: NAK, completion or event, error state.

use super::*;

/// Each operation needs its right on the queue pair.
#[test]
fn operation_that_the_queue_pair_does_not_grant_is_invalid() {
    for (opcode, right) in [
        (Opcode::RcWriteFirst, Access::REMOTE_WRITE),
        (Opcode::RcWriteOnly, Access::REMOTE_WRITE),
        (Opcode::RcWriteOnlyImm, Access::REMOTE_WRITE),
        (Opcode::RcAtomicWrite, Access::REMOTE_WRITE),
        (Opcode::RcReadRequest, Access::REMOTE_READ),
        (Opcode::RcCompareSwap, Access::REMOTE_ATOMIC),
        (Opcode::RcFetchAdd, Access::REMOTE_ATOMIC),
        (Opcode::RcFlush, Access::FLUSH_GLOBAL),
    ] {
        let mut cfg = config(Service::Rc, Mtu::B1024);
        cfg.access = Access::REMOTE.union(Access::FLUSH).without(right);
        let mut rig = Rig::with(cfg, 1);
        rig.post(1, 16);
        let mut info = packet(opcode, 100);
        info.feth.placement = 1;
        assert_eq!(
            rig.give(info),
            End::Fatal(QpFault::InvalidRequest),
            "{opcode:?}"
        );
        rig.assert_nak(NakCode::InvalidRequest, 100, 0);
        assert_eq!(rig.events, [QpEvent::ReqErr]);
        assert_eq!(rig.posted.len(), 1, "no receive is taken");
    }
}

/// Every order of two packets that no requester sends is refused, and every other accepted.
#[test]
fn order_of_opcodes_within_and_between_messages() {
    let requests: Vec<Opcode> = Opcode::ALL
        .iter()
        .copied()
        .filter(|opcode| opcode.service() == Service::Rc && opcode.is_request())
        .collect();
    for &first in &requests {
        if !first.position().starts() {
            continue;
        }
        for &second in &requests {
            let mut rig = Rig::new(Service::Rc);
            rig.region(Key::new(0x7700), 0, 64, Access::NONE);
            rig.post(1, 8192);
            rig.post(2, 8192);
            let make = |opcode: Opcode, psn: u32| {
                let mut info = packet(opcode, psn);
                info.ieth = Key::new(0x7700);
                info.reth.va = VA;
                info.reth.key = KEY;
                info.atomic.va = VA;
                info.atomic.key = KEY;
                info.feth.placement = 1;
                if opcode.position() == Position::Only {
                    info.reth.len = 8;
                    if opcode.may_have_payload() {
                        info.set_payload_len(8);
                    }
                } else if opcode.position() == Position::Last {
                    info.set_payload_len(1024);
                } else {
                    info.reth.len = if second.position() == Position::Middle {
                        3072
                    } else {
                        2048
                    };
                    info.set_payload_len(1024);
                }
                info
            };
            assert_eq!(rig.give(make(first, 100)), EXECUTED, "{first:?}");
            rig.take_sent();
            let end = rig.give(make(second, 101));
            let within = first.position() == Position::First;
            let legal = if within {
                second.kind() == first.kind() && !second.position().starts()
            } else {
                second.position().starts()
            };
            let want = if legal {
                EXECUTED
            } else {
                End::Fatal(QpFault::InvalidRequest)
            };
            assert_eq!(end, want, "{first:?} {second:?}");
            if !legal {
                let msn = u32::from(!within);
                rig.assert_nak(NakCode::InvalidRequest, 101, msn);
            }
        }
    }
}

/// A fault within a SEND is reported with the receive that the SEND has taken, not by an event.
#[test]
fn fault_within_a_send_completes_its_receive() {
    let mut rig = Rig::new(Service::Rc);
    rig.post(9, 4096);
    let packets = send_packets(Service::Rc, 1024, 100, SendTail::None, &pattern(2500, 1));
    rig.give_with(packets[0].0, &packets[0].1);
    assert_eq!(
        rig.give(read_request(101, VA, KEY, 8)),
        End::Fatal(QpFault::InvalidRequest)
    );
    rig.assert_nak(NakCode::InvalidRequest, 101, 0);
    assert_eq!(rig.events, []);
    assert_eq!(rig.completions.len(), 1);
    assert_eq!(rig.completions[0].wr_id, 9);
    assert_eq!(rig.completions[0].status, WcStatus::RemInvReqErr);
    assert!(rig.completions[0].solicited);
    assert_eq!(rig.resp.flush(), None);
}

#[test]
fn payload_that_does_not_fit_its_place_is_invalid() {
    for (opcode, len, pad) in [
        (Opcode::RcSendFirst, 1023, 1),
        (Opcode::RcSendFirst, 1025, 3),
        (Opcode::RcSendFirst, 0, 0),
        (Opcode::RcSendOnly, 1025, 3),
        (Opcode::RcSendOnly, 8, 1),
        (Opcode::RcSendOnly, 7, 0),
        (Opcode::RcSendOnlyImm, u32::MAX, 1),
        (Opcode::RcReadRequest, 4, 0),
        (Opcode::RcFetchAdd, 1, 3),
        (Opcode::RcFlush, 8, 0),
    ] {
        let mut rig = Rig::new(Service::Rc);
        rig.post(1, 8192);
        let mut info = packet(opcode, 100);
        info.payload_len = len;
        info.pad = pad;
        info.feth.placement = 1;
        assert_eq!(
            rig.give(info),
            End::Fatal(QpFault::InvalidRequest),
            "{opcode:?} {len}"
        );
        rig.assert_nak(NakCode::InvalidRequest, 100, 0);
    }
}

#[test]
fn last_and_middle_packets_have_payload() {
    for (opcode, len) in [
        (Opcode::RcSendLast, 0),
        (Opcode::RcSendLast, 1025),
        (Opcode::RcSendMiddle, 0),
        (Opcode::RcSendMiddle, 512),
        (Opcode::RcSendMiddle, 1028),
    ] {
        let mut rig = Rig::new(Service::Rc);
        rig.post(1, 8192);
        let mut info = packet(Opcode::RcSendFirst, 100);
        info.set_payload_len(1024);
        rig.give(info);
        let mut info = packet(opcode, 101);
        info.set_payload_len(len);
        assert_eq!(rig.give(info), End::Fatal(QpFault::InvalidRequest));
        rig.assert_nak(NakCode::InvalidRequest, 101, 0);
        assert_eq!(rig.completions[0].status, WcStatus::RemInvReqErr);
    }
}

/// The message is longer than the receive: nothing is written past its end.
#[test]
fn send_longer_than_the_receive() {
    for (room, len) in [(0, 1), (15, 16), (1024, 1025), (2000, 2500), (1500, 5000)] {
        let mut rig = Rig::new(Service::Rc);
        rig.post(3, room);
        let mut end = EXECUTED;
        for (info, payload) in
            send_packets(Service::Rc, 1024, 100, SendTail::None, &pattern(len, 1))
        {
            end = rig.give_with(info, &payload);
            if end != EXECUTED {
                break;
            }
        }
        assert_eq!(end, End::Fatal(QpFault::InvalidRequest), "{room} {len}");
        rig.assert_nak(NakCode::InvalidRequest, 100 + room / 1024, 0);
        assert_eq!(rig.completions.len(), 1);
        assert_eq!(rig.completions[0].status, WcStatus::LocLenErr);
    }
}

/// The receive's own memory is at fault, so the consumer here is told, and the peer that it
/// was not its request.
#[test]
fn faulty_receive_buffer() {
    for fault in [
        AccessFault::Key,
        AccessFault::Pd,
        AccessFault::Rights,
        AccessFault::Bounds,
        AccessFault::State,
        AccessFault::Memory,
    ] {
        let mut rig = Rig::new(Service::Rc);
        rig.post(3, 64);
        rig.recv_fault = Some(fault);
        assert_eq!(
            rig.send(Service::Rc, 100, SendTail::None, &[1; 64]),
            End::Fatal(QpFault::ReceiveBuffer)
        );
        rig.assert_nak(NakCode::RemoteOperation, 100, 0);
        assert_eq!(rig.completions.len(), 1);
        assert_eq!(rig.completions[0].status, WcStatus::LocProtErr);
    }
}

#[test]
fn malformed_receive() {
    let mut rig = Rig::new(Service::Rc);
    rig.post(3, 64);
    rig.recv_malformed = true;
    assert_eq!(
        rig.send(Service::Rc, 100, SendTail::None, &[1; 64]),
        End::Fatal(QpFault::ReceiveBuffer)
    );
    rig.assert_nak(NakCode::RemoteOperation, 100, 0);
    assert_eq!(rig.completions[0].wr_id, 3);
    assert_eq!(rig.completions[0].status, WcStatus::LocQpOpErr);
}

#[test]
fn write_with_immediate_that_is_refused_completes_its_receive() {
    let mut rig = Rig::new(Service::Rc);
    rig.post(4, 0);
    let packets = write_packets(
        Service::Rc,
        1024,
        100,
        VA,
        Key::new(0x9900),
        Some(Imm([0; 4])),
        &[1; 8],
    );
    assert_eq!(
        rig.give_with(packets[0].0, &packets[0].1),
        End::Fatal(QpFault::RemoteAccess)
    );
    rig.assert_nak(NakCode::RemoteAccess, 100, 0);
    // C9-222.1: no event, the completion tells.
    assert_eq!(rig.events, []);
    assert_eq!(rig.completions[0].status, WcStatus::RemAccessErr);
}

/// Data were delivered, so the peer is not told; the consumer is.
#[test]
fn key_that_cannot_be_invalidated() {
    let mut rig = Rig::new(Service::Rc);
    rig.post(4, 16);
    let mut info = packet(Opcode::RcSendOnlyInv, 100);
    info.ieth = Key::new(0x9900);
    info.set_payload_len(16);
    assert_eq!(rig.give(info), End::Fatal(QpFault::InvalidRequest));
    rig.assert_ack(100, 1);
    assert_eq!(rig.completions.len(), 1);
    assert_eq!(rig.completions[0].status, WcStatus::RemInvReqErr);
}

/// A lost completion is fatal and raises an event.
#[test]
fn completion_queue_overflow() {
    let mut rig = Rig::new(Service::Rc);
    rig.post(4, 16);
    rig.cq_full = true;
    assert_eq!(
        rig.send(Service::Rc, 100, SendTail::None, &[1; 16]),
        End::Fatal(QpFault::CqOverflow)
    );
    assert_eq!(rig.events, [QpEvent::Fatal]);
    assert_eq!(rig.sent.len(), 0);
}

#[test]
fn completion_queue_overflow_while_failing() {
    let mut rig = Rig::new(Service::Rc);
    rig.post(4, 8);
    rig.cq_full = true;
    assert_eq!(
        rig.send(Service::Rc, 100, SendTail::None, &[1; 16]),
        End::Fatal(QpFault::InvalidRequest)
    );
    rig.assert_nak(NakCode::InvalidRequest, 100, 0);
}

/// After a failure nothing is executed or answered, until a reset.
#[test]
fn error_state_is_final_until_reset() {
    let mut rig = Rig::new(Service::Rc);
    rig.post(1, 16);
    rig.give(packet(Opcode::RcSendLast, 100));
    rig.take_sent();
    for &opcode in Opcode::ALL {
        assert_eq!(rig.give(packet(opcode, 100)), DROPPED);
    }
    assert_eq!(rig.sent.len(), 0);
    assert_eq!(rig.posted.len(), 1);

    let mut cfg = config(Service::Rc, Mtu::B1024);
    cfg.psn = Psn::new(7);
    rig.resp.reset(cfg);
    assert_eq!(rig.send(Service::Rc, 7, SendTail::None, &[1]), EXECUTED);
    rig.assert_ack(7, 1);
}

#[test]
fn receive_taken_by_an_unfinished_message_is_given_back_once() {
    let mut rig = Rig::new(Service::Rc);
    rig.post(9, 4096);
    let packets = send_packets(Service::Rc, 1024, 100, SendTail::None, &pattern(2500, 1));
    rig.give_with(packets[0].0, &packets[0].1);
    rig.resp.enter_error();
    assert_eq!(rig.resp.flush(), Some(9));
    assert_eq!(rig.resp.flush(), None);
    assert_eq!(rig.give_with(packets[1].0, &packets[1].1), DROPPED);
}

#[test]
fn error_state_between_two_steps_forgets_the_packet() {
    let mut rig = Rig::new(Service::Rc);
    let mut info = packet(Opcode::RcSendOnly, 100);
    info.set_payload_len(8);
    assert_eq!(rig.resp.step(Input::Packet(&info)), Effect::TakeRecv);
    assert!(rig.resp.is_busy());
    rig.resp.enter_error();
    assert!(!rig.resp.is_busy());
    assert_eq!(
        rig.resp.step(Input::Recv(Ok(RecvTaken {
            wr_id: 1,
            length: 8
        }))),
        Effect::Done(Disposition::Dropped)
    );
}

#[test]
fn outcome_that_nobody_asked_for_is_fatal() {
    let mut rig = Rig::new(Service::Rc);
    assert!(matches!(rig.resp.step(Input::Sent), Effect::Fatal(_)));
}
