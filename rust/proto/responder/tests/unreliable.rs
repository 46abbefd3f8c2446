// SPDX-License-Identifier: GPL-2.0

//! UC and UD: what cannot be executed is dropped in silence.

use super::*;

fn datagram(psn: u32, len: u32) -> PacketInfo {
    let mut info = packet(Opcode::UdSendOnly, psn);
    info.deth.src_qpn = Qpn::new(0x77);
    info.set_payload_len(len);
    info
}

#[test]
fn uc_send_and_write() {
    let mut rig = Rig::new(Service::Uc);
    rig.post(1, 4096);
    let data = pattern(2500, 1);
    assert_eq!(rig.send(Service::Uc, 100, SendTail::None, &data), EXECUTED);
    assert_eq!(rig.received.last(), Some(&data));
    assert_eq!(rig.write(Service::Uc, 103, VA, KEY, &data), EXECUTED);
    assert_eq!(rig.memory(VA, 2500), data);
    assert_eq!(rig.sent.len(), 0, "nothing is acknowledged");
}

#[test]
fn uc_message_with_a_lost_packet_is_dropped_and_the_receive_kept() {
    for lost in 0..3 {
        let mut rig = Rig::new(Service::Uc);
        rig.post(1, 4096);
        let data = pattern(2500, 1);
        for (i, (info, payload)) in send_packets(Service::Uc, 1024, 100, SendTail::None, &data)
            .into_iter()
            .enumerate()
        {
            if i != lost {
                let end = rig.give_with(info, &payload);
                assert_eq!(end == DROPPED, i > lost, "{lost} {i}");
            }
        }
        assert_eq!(rig.completions.len(), 0);
        // The next message is received into the same work request, from its start.
        let data = pattern(3000, 5);
        assert_eq!(rig.send(Service::Uc, 103, SendTail::None, &data), EXECUTED);
        assert_eq!(rig.received, [data]);
        assert_eq!(rig.posted.len(), 0);
    }
}

/// A message that was dropped at one packet does not go on at a better one.
#[test]
fn uc_refused_packet_ends_its_message() {
    let mut rig = Rig::new(Service::Uc);
    rig.post(1, 4096);
    let packets = send_packets(Service::Uc, 1024, 100, SendTail::None, &pattern(2500, 1));
    rig.give_with(packets[0].0, &packets[0].1);
    let mut bad = packets[1].0;
    bad.set_payload_len(1000);
    assert_eq!(rig.give(bad), DROPPED);
    assert_eq!(rig.give_with(packets[1].0, &packets[1].1), DROPPED);
    assert_eq!(rig.give_with(packets[2].0, &packets[2].1), DROPPED);
    assert_eq!(rig.completions.len(), 0);
}

/// A message starts at any PSN: the peer may have been reset meanwhile, to one that is long past.
#[test]
fn uc_start_of_a_message_sets_the_expected_psn() {
    let mut rig = Rig::new(Service::Uc);
    let mut delivered = Vec::new();
    for psn in [101, 7, 0xff_ffff, 0, 0x7f_ffff, 0x80_0002, 100] {
        rig.post(psn.into(), 4096);
        let data = pattern(2500, psn);
        let end = rig.send(Service::Uc, psn, SendTail::None, &data);
        assert_eq!(end, EXECUTED, "{psn:#x}");
        delivered.push(data);
    }
    assert_eq!(rig.received, delivered);
}

/// A packet that comes again in the middle of a message ends it: the rest is not of its sequence.
#[test]
fn uc_message_is_never_put_together_of_two() {
    for again in 1..3 {
        let mut rig = Rig::new(Service::Uc);
        rig.post(1, 4096);
        let packets = send_packets(Service::Uc, 1024, 100, SendTail::None, &pattern(3500, 1));
        for (i, (info, payload)) in packets.iter().enumerate() {
            rig.give_with(*info, payload);
            if i == again {
                assert_eq!(rig.give_with(*info, payload), DROPPED);
            }
        }
        assert_eq!(rig.completions.len(), 0);
        // An old middle and an old end start nothing.
        assert_eq!(rig.give_with(packets[1].0, &packets[1].1), DROPPED);
        assert_eq!(rig.give_with(packets[3].0, &packets[3].1), DROPPED);
        let data = pattern(2500, 5);
        assert_eq!(rig.send(Service::Uc, 104, SendTail::None, &data), EXECUTED);
        assert_eq!(rig.received, [data]);
    }
}

#[test]
fn uc_message_that_is_not_ended_gives_way_to_the_next() {
    let mut rig = Rig::new(Service::Uc);
    rig.post(1, 4096);
    let old = send_packets(Service::Uc, 1024, 100, SendTail::None, &pattern(2500, 1));
    rig.give_with(old[0].0, &old[0].1);
    // In sequence by its number, but another message.
    let data = pattern(20, 7);
    assert_eq!(rig.send(Service::Uc, 101, SendTail::None, &data), EXECUTED);
    assert_eq!(rig.received, [data]);
}

#[test]
fn uc_without_a_receive_drops_the_message() {
    let mut rig = Rig::new(Service::Uc);
    let data = pattern(2500, 1);
    for (info, payload) in send_packets(Service::Uc, 1024, 100, SendTail::None, &data) {
        assert_eq!(rig.give_with(info, &payload), DROPPED);
    }
    assert_eq!(rig.resp.take_counts().rnr_naks, 0);
    rig.post(1, 4096);
    assert_eq!(rig.send(Service::Uc, 103, SendTail::None, &data), EXECUTED);
}

#[test]
fn uc_refused_access_drops_the_message() {
    let mut rig = Rig::new(Service::Uc);
    let data = pattern(2500, 1);
    for (info, payload) in write_packets(Service::Uc, 1024, 100, VA, Key::new(0x9900), None, &data)
    {
        assert_eq!(rig.give_with(info, &payload), DROPPED);
    }
    assert_eq!(rig.events, []);
    assert_eq!(rig.write(Service::Uc, 103, VA, KEY, &data), EXECUTED);
    assert_eq!(rig.memory(VA, 2500), data);
}

#[test]
fn uc_operation_that_is_not_granted_is_dropped() {
    let mut cfg = config(Service::Uc, Mtu::B1024);
    cfg.access = Access::NONE;
    let mut rig = Rig::with(cfg, 0);
    rig.post(1, 16);
    assert_eq!(rig.write(Service::Uc, 100, VA, KEY, &[1; 8]), DROPPED);
    assert_eq!(
        rig.send(Service::Uc, 101, SendTail::None, &[1; 8]),
        EXECUTED
    );
}

#[test]
fn uc_message_longer_than_the_receive_is_dropped_and_the_receive_kept() {
    let mut rig = Rig::new(Service::Uc);
    rig.post(1, 1500);
    assert_eq!(
        rig.send(Service::Uc, 100, SendTail::None, &pattern(2500, 1)),
        DROPPED
    );
    assert_eq!(
        rig.send(Service::Uc, 103, SendTail::None, &pattern(1500, 1)),
        EXECUTED
    );
    assert_eq!(rig.completions.len(), 1);
    assert_eq!(rig.completions[0].byte_len, 1500);
}

#[test]
fn uc_write_with_immediate_that_is_refused_keeps_its_receive() {
    let mut rig = Rig::new(Service::Uc);
    rig.post(1, 16);
    let bad = Key::new(0x9900);
    let imm = Some(Imm([1; 4]));
    for (info, payload) in write_packets(Service::Uc, 1024, 100, VA, bad, imm, &[1; 8]) {
        assert_eq!(rig.give_with(info, &payload), DROPPED);
    }
    assert_eq!(
        rig.send(Service::Uc, 101, SendTail::None, &[1; 16]),
        EXECUTED
    );
    assert_eq!(rig.completions[0].wr_id, 1);
}

/// A fault of the consumer's own ends the queue pair, whatever its service.
#[test]
fn faulty_receive_buffers_end_unreliable_queue_pairs() {
    for (service, psn) in [(Service::Uc, 100), (Service::Ud, 0)] {
        let mut rig = Rig::new(service);
        rig.post(1, 64);
        rig.recv_fault = Some(AccessFault::Key);
        assert_eq!(
            rig.send(service, psn, SendTail::None, &[1; 8]),
            End::Fatal(QpFault::ReceiveBuffer)
        );
        assert_eq!(rig.completions[0].status, WcStatus::LocProtErr);
        assert_eq!(rig.sent.len(), 0);

        let mut rig = Rig::new(service);
        rig.post(1, 64);
        rig.recv_malformed = true;
        assert_eq!(
            rig.send(service, psn, SendTail::None, &[1; 8]),
            End::Fatal(QpFault::ReceiveBuffer)
        );
        assert_eq!(rig.completions[0].status, WcStatus::LocQpOpErr);
    }
}

#[test]
fn uc_sequence_wraps() {
    let mut cfg = config(Service::Uc, Mtu::B256);
    cfg.psn = Psn::new(0xff_fffe);
    let mut rig = Rig::with(cfg, 0);
    rig.post(1, 2048);
    let data = pattern(1200, 3);
    assert_eq!(
        rig.send(Service::Uc, 0xff_fffe, SendTail::None, &data),
        EXECUTED
    );
    assert_eq!(rig.received, [data]);
    assert_eq!(rig.resp.expected_psn(), Psn::new(3));
}

#[test]
fn uc_first_message_raises_comm_est() {
    let mut cfg = config(Service::Uc, Mtu::B1024);
    cfg.announce = true;
    let mut rig = Rig::with(cfg, 0);
    rig.post(1, 16);
    rig.send(Service::Uc, 100, SendTail::None, &[1]);
    assert_eq!(rig.events, [QpEvent::CommEst]);
    assert_eq!(rig.completions.len(), 1);
}

#[test]
fn datagram_is_stored_behind_its_network_header() {
    let mut rig = Rig::new(Service::Ud);
    rig.post(1, 140);
    let data = pattern(100, 2);
    assert_eq!(rig.give_with(datagram(5, 100), &data), EXECUTED);
    assert!(matches!(
        rig.log[..],
        [
            Effect::TakeRecv,
            Effect::StoreGrh,
            Effect::StoreRecv {
                offset: 40,
                len: 100
            },
            Effect::Complete(_),
            Effect::Done(_),
        ]
    ));
    let done = rig.completions[0];
    assert_eq!((done.byte_len, done.grh), (140, true));
    assert_eq!((done.src_qpn, done.pkey_index), (Qpn::new(0x77), 0));
    assert_eq!(rig.received[0][..40], [0x99; 40]);
    assert_eq!(rig.received[0][40..], data);
}

/// C9-92: a datagram that does not fit is dropped, and the receive serves the next one.
#[test]
fn oversized_datagram_is_dropped_and_the_receive_kept() {
    for room in [0, 39, 40, 41, 64, 103, 104] {
        let mut rig = Rig::new(Service::Ud);
        rig.post(1, room);
        for len in [65, 512, 4096, u32::MAX, u32::MAX - 40] {
            assert_eq!(rig.give(datagram(0, len)), DROPPED, "{room} {len}");
        }
        assert_eq!(rig.completions.len(), 0);
        assert_eq!(rig.events, []);
        if room >= 40 {
            assert_eq!(rig.give(datagram(1, room - 40)), EXECUTED, "{room}");
            assert_eq!(rig.completions[0].wr_id, 1);
            assert_eq!(rig.completions[0].byte_len, room);
        }
    }
}

#[test]
fn datagram_has_no_sequence_and_no_mtu() {
    let mut cfg = config(Service::Ud, Mtu::B256);
    cfg.access = Access::NONE;
    let mut rig = Rig::with(cfg, 0);
    for (id, psn) in [100, 5, 0xff_ffff, 5].into_iter().enumerate() {
        rig.post(id as u64, 4200);
        assert_eq!(rig.give(datagram(psn, 4096)), EXECUTED);
    }
    assert_eq!(rig.completions.len(), 4);
    assert_eq!(rig.sent.len(), 0);
}

#[test]
fn datagram_without_a_receive_is_dropped() {
    let mut rig = Rig::new(Service::Ud);
    assert_eq!(rig.give(datagram(0, 8)), DROPPED);
    rig.post(1, 64);
    assert_eq!(rig.give(datagram(1, 8)), EXECUTED);
}

#[test]
fn empty_datagram_with_immediate() {
    let mut rig = Rig::new(Service::Ud);
    rig.post(1, 40);
    let mut info = packet(Opcode::UdSendOnlyImm, 0);
    info.imm = Imm([4, 3, 2, 1]);
    assert_eq!(rig.give(info), EXECUTED);
    assert_eq!(rig.completions[0].byte_len, 40);
    assert_eq!(rig.completions[0].imm, Some(Imm([4, 3, 2, 1])));
}

/// Each packet that is dropped is counted once, by its reason.
#[test]
fn drops_are_counted_by_reason() {
    let mut rig = Rig::new(Service::Ud);
    assert_eq!(rig.give(datagram(5, 100)), DROPPED);
    rig.post(1, 64);
    assert_eq!(rig.give(datagram(6, 100)), DROPPED);
    let counts = rig.resp.take_counts();
    assert_eq!((counts.no_receive, counts.too_long), (1, 1));
    assert_eq!(
        (counts.gaps, counts.not_allowed, counts.after_nak),
        (0, 0, 0)
    );

    let mut rig = Rig::new(Service::Uc);
    rig.post(1, 4096);
    let packets = send_packets(Service::Uc, 1024, 100, SendTail::None, &pattern(2500, 1));
    rig.give_with(packets[0].0, &packets[0].1);
    assert_eq!(rig.give_with(packets[2].0, &packets[2].1), DROPPED);
    let mut bad = packets[0].0;
    bad.set_payload_len(1000);
    assert_eq!(rig.give(bad), DROPPED);
    let counts = rig.resp.take_counts();
    assert_eq!((counts.gaps, counts.not_allowed), (1, 1));
    assert_eq!(
        (counts.no_receive, counts.too_long, counts.after_nak),
        (0, 0, 0)
    );

    let mut rig = Rig::new(Service::Rc);
    for psn in [103, 104, 105] {
        rig.give(packet(Opcode::RcSendOnly, psn));
    }
    let counts = rig.resp.take_counts();
    assert_eq!((counts.out_of_sequence, counts.after_nak), (1, 2));
}
