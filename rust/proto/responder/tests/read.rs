// SPDX-License-Identifier: GPL-2.0

//! RDMA READ: segmentation, replays and what is remembered.

use super::*;

/// Checks the packets of an answer and returns its bytes.
#[track_caller]
fn join(sent: &[Sent], psn: u32, mtu: u32, msn: u32) -> Vec<u8> {
    let last = sent.len() - 1;
    let mut bytes = Vec::new();
    for (i, one) in sent.iter().enumerate() {
        let header = one.header;
        let position = Position::of(i == 0, i == last);
        assert_eq!(header.opcode, Opcode::read_response(position));
        assert_eq!(header.psn, Psn::new(psn.wrapping_add(i as u32)));
        assert!(!header.ack_req);
        if header.opcode.has_aeth() {
            assert_eq!(header.aeth.syndrome, 0x1f);
            assert_eq!(header.aeth.msn, Msn::new(msn));
        }
        if i < last {
            assert_eq!(header.payload_len, mtu);
        }
        bytes.extend_from_slice(&one.payload);
    }
    bytes
}

#[test]
fn answer_is_cut_at_every_mtu() {
    for mtu in [Mtu::B256, Mtu::B512, Mtu::B1024, Mtu::B2048, Mtu::B4096] {
        let n = mtu.bytes();
        for len in [1, 2, 3, 4, n - 1, n, n + 1, 2 * n, 3 * n - 1, 3 * n + 5] {
            let mut rig = Rig::with(config(Service::Rc, mtu), 1);
            rig.fill_memory();
            let va = VA + 5;
            assert_eq!(rig.give(read_request(100, va, KEY, len)), EXECUTED);
            let sent = rig.take_sent();
            assert_eq!(sent.len() as u32, mtu.packets(len));
            assert_eq!(join(&sent, 100, n, 1), rig.memory(va, len));
            assert_eq!(rig.resp.expected_psn(), Psn::new(100 + mtu.packets(len)));
        }
    }
}

#[test]
fn single_packet_answer_takes_the_short_way() {
    let mut rig = Rig::new(Service::Rc);
    rig.give(read_request(100, VA, KEY, 1024));
    assert!(matches!(rig.log[..], [Effect::Send(_), Effect::Done(_)]));
}

/// C9-88.
#[test]
fn empty_read_does_not_look_at_the_key() {
    let mut rig = Rig::new(Service::Rc);
    let request = read_request(100, u64::MAX, Key::new(0xdead_beef), 0);
    assert_eq!(rig.give(request), EXECUTED);
    let answer = rig.the_answer();
    assert_eq!(answer.opcode, Opcode::RcReadResponseOnly);
    assert_eq!((answer.payload_len, answer.aeth.msn), (0, Msn::new(1)));
    // Again, whatever the key is now.
    assert_eq!(rig.give(read_request(100, 1, Key::new(2), 0)), DUPLICATE);
    assert_eq!(rig.the_answer().opcode, Opcode::RcReadResponseOnly);
}

#[test]
fn answer_wraps_around_the_psn_space() {
    let mut cfg = config(Service::Rc, Mtu::B256);
    cfg.psn = Psn::new(0xff_fffd);
    let mut rig = Rig::with(cfg, 1);
    rig.fill_memory();
    for (round, end) in [EXECUTED, DUPLICATE].into_iter().enumerate() {
        assert_eq!(
            rig.give(read_request(0xff_fffd, VA, KEY, 1500)),
            end,
            "{round}"
        );
        let sent = rig.take_sent();
        assert_eq!(join(&sent, 0xff_fffd, 256, 1), rig.memory(VA, 1500));
        assert_eq!(rig.resp.expected_psn(), Psn::new(3));
    }
}

#[test]
fn refused_read_sends_no_data() {
    for len in [10, 2500] {
        let mut rig = Rig::new(Service::Rc);
        assert_eq!(
            rig.give(read_request(100, VA, Key::new(0x9900), len)),
            End::Fatal(QpFault::RemoteAccess)
        );
        rig.assert_nak(NakCode::RemoteAccess, 100, 0);
        assert_eq!(rig.events, [QpEvent::AccessErr]);
    }
}

/// The peer has had packets by then, so the NAK names the first that it will not get.
#[test]
fn memory_lost_within_an_answer_is_a_nak_for_the_missing_packet() {
    let mut rig = Rig::new(Service::Rc);
    rig.fill_memory();
    rig.read_fault_after = Some(2);
    assert_eq!(
        rig.give(read_request(100, VA, KEY, 5000)),
        End::Fatal(QpFault::RemoteAccess)
    );
    let mut sent = rig.take_sent();
    rig.sent.push(sent.pop().expect("a NAK"));
    assert_eq!(sent.len(), 2);
    rig.assert_nak(NakCode::RemoteAccess, 102, 0);
}

/// Every tail of a READ can be asked for again.
#[test]
fn any_tail_can_be_repeated() {
    let mut rig = Rig::new(Service::Rc);
    rig.fill_memory();
    let len = 5 * 1024 + 100;
    rig.give(read_request(100, VA, KEY, len));
    rig.take_sent();
    for k in 0..6 {
        let (va, left) = (VA + u64::from(k * 1024), len - k * 1024);
        assert_eq!(rig.give(read_request(100 + k, va, KEY, left)), DUPLICATE);
        let sent = rig.take_sent();
        assert_eq!(join(&sent, 100 + k, 1024, 1), rig.memory(va, left));
    }
    // The original is not shortened by that.
    assert_eq!(rig.give(read_request(100, VA, KEY, len)), DUPLICATE);
    assert_eq!(rig.take_sent().len(), 6);
    assert_eq!(rig.resp.expected_psn(), Psn::new(106));
}

/// Memory is read again, so the repeated answer has what is there now.
#[test]
fn repeated_read_reads_memory_again() {
    let mut rig = Rig::new(Service::Rc);
    rig.give(read_request(100, VA, KEY, 16));
    rig.take_sent();
    rig.fill_memory();
    rig.give(read_request(100, VA, KEY, 16));
    assert_eq!(rig.take_sent()[0].payload, rig.memory(VA, 16));
}

/// A repeated READ must stay within the first, computed without overflow.
#[test]
fn repeated_read_outside_the_first_is_dropped() {
    let mut rig = Rig::new(Service::Rc);
    rig.region(Key::new(0x4300), 0, SPACE, Access::REMOTE);
    rig.give(read_request(100, VA + 1024, KEY, 4096));
    rig.take_sent();
    for (psn, va, key, len) in [
        (100, VA + 1023, KEY, 4096),
        (100, VA + 1024, KEY, 4097),
        (100, VA + 1025, KEY, 4096),
        (100, VA, KEY, 1),
        (100, VA + 1024 + 4096, KEY, 1),
        (100, VA + 1024, Key::new(0x4300), 4096),
        (100, u64::MAX, KEY, 2),
        (100, u64::MAX - 1, KEY, u32::MAX),
        (100, VA + 1024, KEY, u32::MAX),
        (100, VA + 1024, KEY, 0),
        // Within the range, but the answer would run into the next request's PSNs.
        (103, VA + 1024, KEY, 4096),
        (103, VA + 1024, KEY, 1025),
        // Before the first.
        (99, VA + 1024, KEY, 4096),
    ] {
        assert_eq!(
            rig.give(read_request(psn, va, key, len)),
            DROPPED,
            "{psn} {va:#x} {len}"
        );
        assert_eq!(rig.sent.len(), 0);
    }
    // A part of it is fine.
    assert_eq!(rig.give(read_request(103, VA + 4096, KEY, 1024)), DUPLICATE);
}

/// The network may deliver a request twice, the second time after the consumer withdrew the memory.
#[test]
fn repeated_read_of_withdrawn_memory_is_dropped() {
    for len in [16, 5000] {
        let mut rig = Rig::new(Service::Rc);
        rig.give(read_request(100, VA, KEY, len));
        rig.take_sent();
        rig.regions[0].view.state = MrState::Free;
        assert_eq!(rig.give(read_request(100, VA, KEY, len)), DROPPED);
        assert_eq!(rig.sent.len(), 0);
        rig.post(1, 16);
        let next = 100 + Mtu::B1024.packets(len);
        assert_eq!(rig.send(Service::Rc, next, SendTail::None, &[1]), EXECUTED);
    }
}

/// The ring of the replayable requests forgets the oldest; that is the peer's fault.
#[test]
fn more_requests_than_can_be_remembered() {
    let mut rig = Rig::with(config(Service::Rc, Mtu::B1024), 2);
    for k in 0..3 {
        assert_eq!(rig.give(read_request(100 + k, VA, KEY, 8)), EXECUTED);
    }
    rig.take_sent();
    assert_eq!(rig.give(read_request(100, VA, KEY, 8)), DROPPED);
    assert_eq!(rig.sent.len(), 0);
    assert_eq!(rig.give(read_request(101, VA, KEY, 8)), DUPLICATE);
    assert_eq!(rig.give(read_request(102, VA, KEY, 8)), DUPLICATE);
}

#[test]
fn no_place_to_remember_means_invalid_request() {
    for opcode in [
        Opcode::RcReadRequest,
        Opcode::RcCompareSwap,
        Opcode::RcFetchAdd,
        Opcode::RcAtomicWrite,
        Opcode::RcFlush,
    ] {
        let mut rig = Rig::with(config(Service::Rc, Mtu::B1024), 0);
        let mut info = packet(opcode, 100);
        info.feth.placement = 1;
        assert_eq!(
            rig.give(info),
            End::Fatal(QpFault::InvalidRequest),
            "{opcode:?}"
        );
        rig.assert_nak(NakCode::InvalidRequest, 100, 0);
    }
}

/// The depth may change while requests are in flight.
#[test]
fn change_of_depth_keeps_the_latest() {
    let mut rig = Rig::with(config(Service::Rc, Mtu::B1024), 4);
    for k in 0..4 {
        rig.give(read_request(100 + k, VA, KEY, 8));
    }
    assert_eq!(rig.resp.replace_storage(vec![Resource::UNUSED; 2]).len(), 4);
    assert_eq!(rig.give(read_request(101, VA, KEY, 8)), DROPPED);
    assert_eq!(rig.give(read_request(102, VA, KEY, 8)), DUPLICATE);
    rig.resp.replace_storage(vec![Resource::UNUSED; 8]);
    assert_eq!(rig.give(read_request(103, VA, KEY, 8)), DUPLICATE);
    assert_eq!(rig.give(read_request(104, VA, KEY, 8)), EXECUTED);
    assert_eq!(rig.give(read_request(102, VA, KEY, 8)), DUPLICATE);
}

/// A repeated SEND is not acknowledged with the PSN of a READ: that would tell the peer that its
/// answer was lost.
#[test]
fn acknowledgement_of_a_duplicate_does_not_cover_reads() {
    let mut rig = Rig::new(Service::Rc);
    rig.post(1, 16);
    rig.send(Service::Rc, 100, SendTail::None, &[1]);
    rig.give(read_request(101, VA, KEY, 5000));
    rig.take_sent();
    assert_eq!(rig.send(Service::Rc, 100, SendTail::None, &[1]), DUPLICATE);
    rig.assert_ack(100, 2);
}

/// A READ of 2^31 bytes takes half of the PSN space at the smallest MTU.
#[test]
fn longest_read_at_the_smallest_mtu() {
    let cfg = config(Service::Rc, Mtu::B256);
    let mut resp = Responder::new(cfg, vec![Resource::UNUSED; 1]);
    let request = read_request(100, 0, KEY, 1 << 31);
    assert!(matches!(
        resp.step(Input::Packet(&request)),
        Effect::Check { .. }
    ));
    let mut effect = resp.step(Input::Access(Ok(())));
    let mut packets = 0u32;
    while let Effect::Send(reply) = effect {
        assert_eq!(reply.psn, Psn::new(100).wrapping_add(packets));
        packets += 1;
        effect = resp.step(Input::Sent);
    }
    assert_eq!(packets, 1 << 23);
    assert_eq!(effect, Effect::Done(Disposition::Executed));
}
