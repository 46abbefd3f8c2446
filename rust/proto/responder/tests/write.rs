// SPDX-License-Identifier: GPL-2.0

//! RDMA WRITE over RC.

use super::*;

#[test]
fn single_packet_write_takes_the_short_way() {
    let mut rig = Rig::new(Service::Rc);
    let data = pattern(64, 1);
    assert_eq!(rig.write(Service::Rc, 100, VA + 3, KEY, &data), EXECUTED);
    assert!(matches!(
        rig.log[..],
        [
            Effect::StoreRemote { .. },
            Effect::Send(_),
            Effect::Done(Disposition::Executed),
        ]
    ));
    assert_eq!(rig.memory(VA + 3, 64), data);
    assert_eq!(rig.completions.len(), 0);
    rig.assert_ack(100, 1);
}

#[test]
fn write_is_cut_and_joined_at_every_mtu() {
    for mtu in [Mtu::B256, Mtu::B512, Mtu::B1024, Mtu::B2048, Mtu::B4096] {
        let n = mtu.bytes();
        for len in [0, 1, n - 1, n, n + 1, 2 * n, 3 * n - 1, 3 * n + 5] {
            let mut rig = Rig::with(config(Service::Rc, mtu), 1);
            let data = pattern(len, n);
            assert_eq!(rig.write(Service::Rc, 100, VA, KEY, &data), EXECUTED);
            assert_eq!(rig.memory(VA, len), data);
            assert!(rig.memory(VA + u64::from(len), 64).iter().all(|b| *b == 0));
            rig.assert_ack(100 + mtu.packets(len) - 1, 1);
        }
    }
}

#[test]
fn whole_range_is_checked_before_the_first_byte() {
    let mut rig = Rig::new(Service::Rc);
    // The first packet would fit, the message does not.
    let va = VA + u64::from(SPACE) - 2000;
    let packets = write_packets(Service::Rc, 1024, 100, va, KEY, None, &pattern(2500, 2));
    assert_eq!(
        rig.give_with(packets[0].0, &packets[0].1),
        End::Fatal(QpFault::RemoteAccess)
    );
    assert!(rig.memory(va, 2000).iter().all(|b| *b == 0));
    rig.assert_nak(NakCode::RemoteAccess, 100, 0);
    assert_eq!(rig.events, [QpEvent::AccessErr]);
}

/// The range is looked at again with each packet: a region may go away between two of them.
#[test]
fn region_withdrawn_within_a_message() {
    let mut rig = Rig::new(Service::Rc);
    let packets = write_packets(Service::Rc, 1024, 100, VA, KEY, None, &pattern(2500, 2));
    assert_eq!(rig.give_with(packets[0].0, &packets[0].1), EXECUTED);
    rig.regions[0].view.state = MrState::Free;
    assert_eq!(
        rig.give_with(packets[1].0, &packets[1].1),
        End::Fatal(QpFault::RemoteAccess)
    );
    rig.assert_nak(NakCode::RemoteAccess, 101, 0);
    assert_eq!(rig.memory(VA, 1024), &pattern(2500, 2)[..1024]);
    assert!(rig.memory(VA + 1024, 1024).iter().all(|b| *b == 0));
}

/// C9-88: an empty WRITE does not look at key and address.
#[test]
fn empty_write_does_not_look_at_the_key() {
    let mut rig = Rig::new(Service::Rc);
    assert_eq!(
        rig.write(Service::Rc, 100, u64::MAX, Key::new(0xdead_beef), &[]),
        EXECUTED
    );
    rig.assert_ack(100, 1);
}

#[test]
fn write_with_immediate_completes_a_receive_with_the_length_of_the_message() {
    for len in [0, 10, 1024, 2500] {
        let mut rig = Rig::new(Service::Rc);
        rig.post(5, 0);
        let data = pattern(len, 6);
        let imm = Imm([9, 8, 7, 6]);
        let mut end = DROPPED;
        for (info, payload) in write_packets(Service::Rc, 1024, 100, VA, KEY, Some(imm), &data) {
            end = rig.give_with(info, &payload);
        }
        assert_eq!(end, EXECUTED);
        assert_eq!(rig.memory(VA, len), data);
        let done = rig.completions[0];
        assert_eq!(done.opcode, WcOpcode::RecvRdmaWithImm);
        assert_eq!((done.byte_len, done.imm), (len, Some(imm)));
        assert_eq!((done.wr_id, done.status), (5, WcStatus::Success));
    }
}

#[test]
fn not_ready_for_the_immediate_then_retry_of_the_last_packet() {
    let mut rig = Rig::new(Service::Rc);
    let data = pattern(2500, 6);
    let imm = Some(Imm([0; 4]));
    let packets = write_packets(Service::Rc, 1024, 100, VA, KEY, imm, &data);
    rig.give_with(packets[0].0, &packets[0].1);
    rig.give_with(packets[1].0, &packets[1].1);
    assert_eq!(rig.give_with(packets[2].0, &packets[2].1), REFUSED);
    let answer = rig.the_answer();
    assert_eq!(AethKind::decode(answer.aeth.syndrome), AethKind::RnrNak(12));
    assert_eq!(answer.psn, Psn::new(102));
    // Nothing of the packet was stored.
    assert!(rig.memory(VA + 2048, 452).iter().all(|b| *b == 0));

    rig.post(1, 0);
    assert_eq!(rig.give_with(packets[2].0, &packets[2].1), EXECUTED);
    assert_eq!(rig.memory(VA, 2500), data);
    rig.assert_ack(102, 1);
}

#[test]
fn duplicate_write_does_not_write_again() {
    let mut rig = Rig::new(Service::Rc);
    rig.write(Service::Rc, 100, VA, KEY, &[1; 16]);
    rig.write(Service::Rc, 101, VA, KEY, &[2; 16]);
    rig.take_sent();
    assert_eq!(rig.write(Service::Rc, 100, VA, KEY, &[1; 16]), DUPLICATE);
    rig.assert_ack(101, 2);
    assert_eq!(rig.memory(VA, 16), [2; 16]);
}

/// The length in the header and the packets of the message must agree.
#[test]
fn length_of_the_message_and_its_packets_disagree() {
    // (payload and opcode of each packet, length in the header, which packet is refused)
    type Packets = &'static [(Opcode, u32)];
    let cases: &[(Packets, u32, usize)] = &[
        (&[(Opcode::RcWriteOnly, 16)], 15, 0),
        (&[(Opcode::RcWriteOnly, 16)], 17, 0),
        (&[(Opcode::RcWriteOnly, 16)], 0, 0),
        (&[(Opcode::RcWriteOnly, 0)], 1, 0),
        (&[(Opcode::RcWriteOnly, 1024)], 2048, 0),
        (&[(Opcode::RcWriteFirst, 1024)], 1024, 0),
        (&[(Opcode::RcWriteFirst, 1024)], 0, 0),
        (&[(Opcode::RcWriteFirst, 1000)], 2000, 0),
        (
            &[(Opcode::RcWriteFirst, 1024), (Opcode::RcWriteMiddle, 1024)],
            2048,
            1,
        ),
        (
            &[(Opcode::RcWriteFirst, 1024), (Opcode::RcWriteLast, 1024)],
            2047,
            1,
        ),
        (
            &[(Opcode::RcWriteFirst, 1024), (Opcode::RcWriteLast, 100)],
            1500,
            1,
        ),
        (
            &[(Opcode::RcWriteFirst, 1024), (Opcode::RcWriteLast, 1)],
            3000,
            1,
        ),
    ];
    for (packets, len, refused) in cases {
        let mut rig = Rig::new(Service::Rc);
        for (i, (opcode, payload)) in packets.iter().enumerate() {
            let mut info = packet(*opcode, 100 + i as u32);
            info.set_payload_len(*payload);
            if opcode.has_reth() {
                info.reth.va = VA;
                info.reth.key = KEY;
                info.reth.len = *len;
            }
            rig.take_sent();
            let end = rig.give(info);
            if i == *refused {
                assert_eq!(
                    end,
                    End::Fatal(QpFault::InvalidRequest),
                    "{packets:?} {len}"
                );
                rig.assert_nak(NakCode::InvalidRequest, 100 + i as u32, 0);
                assert_eq!(rig.events, [QpEvent::ReqErr]);
            } else {
                assert_eq!(end, EXECUTED, "{packets:?} {len}");
            }
        }
    }
}

/// C9-94: no message is longer than 2^31 bytes.
#[test]
fn message_longer_than_two_gigabytes_is_invalid() {
    for opcode in [Opcode::RcWriteFirst, Opcode::RcReadRequest, Opcode::RcFlush] {
        let mut rig = Rig::new(Service::Rc);
        let mut info = packet(opcode, 100);
        info.reth.va = VA;
        info.reth.key = KEY;
        info.reth.len = (1 << 31) + 1;
        info.feth.placement = 1;
        if opcode.may_have_payload() {
            info.set_payload_len(1024);
        }
        assert_eq!(rig.give(info), End::Fatal(QpFault::InvalidRequest));
        rig.assert_nak(NakCode::InvalidRequest, 100, 0);
    }
}

/// A range that would pass the end of the address space is refused, whoever computes it.
#[test]
fn range_that_wraps_around_the_address_space() {
    for (va, len) in [
        (u64::MAX - 7, 8),
        (u64::MAX - 7, 9),
        (u64::MAX, 1),
        (u64::MAX - 1023, 2048),
        (1 << 63, 1 << 31),
    ] {
        for opcode in [Opcode::RcWriteFirst, Opcode::RcWriteOnly] {
            if (opcode == Opcode::RcWriteOnly) != (len <= 1024) {
                continue;
            }
            let mut rig = Rig::new(Service::Rc);
            let mut info = packet(opcode, 100);
            info.reth.va = va;
            info.reth.key = KEY;
            info.reth.len = len;
            info.set_payload_len(len.min(1024));
            assert_eq!(rig.give(info), End::Fatal(QpFault::RemoteAccess));
            rig.assert_nak(NakCode::RemoteAccess, 100, 0);
        }
        let mut rig = Rig::new(Service::Rc);
        assert_eq!(
            rig.give(read_request(100, va, KEY, len)),
            End::Fatal(QpFault::RemoteAccess)
        );
    }
}
