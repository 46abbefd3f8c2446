// SPDX-License-Identifier: GPL-2.0

//! Runs of packets: the same results as packet by packet.

use super::*;
use proptest::prelude::*;

const SPLIT: End = End::Done(Disposition::Split);

#[test]
fn message_in_one_run_is_one_store() {
    let data = pattern(5000, 1);
    let mut rig = Rig::new(Service::Rc);
    rig.post(1, 5000);
    let packets = send_packets(Service::Rc, 1024, 100, SendTail::None, &data);
    assert_eq!(rig.give_run(&packets), EXECUTED);
    assert!(matches!(
        rig.log[..],
        [
            Effect::TakeRecv,
            Effect::StoreRecv {
                offset: 0,
                len: 5000
            },
            Effect::Complete(_),
            Effect::Send(_),
            Effect::Done(_),
        ]
    ));
    assert_eq!(rig.received.last(), Some(&data));
    rig.assert_ack(104, 1);

    let packets = write_packets(Service::Rc, 1024, 105, VA, KEY, None, &data);
    assert_eq!(rig.give_run(&packets), EXECUTED);
    assert!(matches!(
        rig.log[..],
        [Effect::StoreRemote { .. }, Effect::Send(_), Effect::Done(_),]
    ));
    assert_eq!(rig.memory(VA, 5000), data);
    rig.assert_ack(109, 2);
}

#[test]
fn message_in_several_runs() {
    let data = pattern(5000, 1);
    for cut in 1..5 {
        let mut rig = Rig::new(Service::Rc);
        rig.post(1, 5000);
        let packets = send_packets(Service::Rc, 1024, 100, SendTail::None, &data);
        assert_eq!(rig.give_run(&packets[..cut]), EXECUTED);
        assert_eq!(rig.give_run(&packets[cut..]), EXECUTED);
        assert_eq!(rig.received.last(), Some(&data));
        rig.assert_ack(104, 1);
        let packets = write_packets(Service::Rc, 1024, 105, VA, KEY, None, &data);
        assert_eq!(rig.give_run(&packets[..cut]), EXECUTED);
        assert!(matches!(rig.log[0], Effect::Check { .. }));
        assert_eq!(rig.give_run(&packets[cut..]), EXECUTED);
        assert_eq!(rig.memory(VA, 5000), data);
        rig.assert_ack(109, 2);
    }
}

/// A packet within a run that asks for an acknowledgement gets it with the last of the run.
#[test]
fn acknowledgement_within_a_run() {
    let mut rig = Rig::new(Service::Rc);
    rig.post(1, 5000);
    let mut packets = send_packets(Service::Rc, 1024, 100, SendTail::None, &pattern(5000, 1));
    packets[1].0.ack_req = true;
    assert_eq!(rig.give_run(&packets[..3]), EXECUTED);
    rig.assert_ack(102, 0);
}

#[test]
fn run_that_is_not_in_sequence_is_split() {
    for service in [Service::Rc, Service::Uc] {
        let mut rig = Rig::new(service);
        let packets = send_packets(service, 1024, 100, SendTail::None, &pattern(5000, 1));
        for psn in [99, 101, 90] {
            let (mut packet, _) = merge(&packets);
            packet.psn = Psn::new(psn);
            let input = Input::Run {
                packet: &packet,
                packets: 5,
            };
            assert_eq!(rig.perform_all(&packet, &[], input), SPLIT);
            assert_eq!(rig.log.len(), 1);
        }
    }
}

/// Only SENDs and RDMA WRITEs of connections come in runs.
#[test]
fn run_of_anything_else_is_split() {
    for service in [Service::Rc, Service::Ud] {
        for &opcode in Opcode::ALL {
            if service == Service::Rc && matches!(opcode.kind(), Kind::Send | Kind::Write) {
                continue;
            }
            let mut rig = Rig::new(service);
            let info = packet(opcode, 100);
            let input = Input::Run {
                packet: &info,
                packets: 2,
            };
            assert_eq!(rig.perform_all(&info, &[], input), SPLIT, "{opcode:?}");
        }
    }
}

#[test]
fn run_whose_length_does_not_fit_its_packets_is_split() {
    for (opcode, packets, len) in [
        (Opcode::RcSendOnly, 2, 1024),
        (Opcode::RcSendOnly, 2, 2049),
        (Opcode::RcSendOnly, 3, 2048),
        (Opcode::RcSendFirst, 2, 2047),
        (Opcode::RcSendFirst, 2, 3072),
        (Opcode::RcSendOnly, u32::MAX, 1024),
        (Opcode::RcSendOnly, 1 << 22, u32::MAX),
        (Opcode::RcSendOnly, 2, 0),
    ] {
        let mut rig = Rig::new(Service::Rc);
        rig.post(1, 8192);
        let mut info = packet(opcode, 100);
        info.set_payload_len(len);
        let input = Input::Run {
            packet: &info,
            packets,
        };
        assert_eq!(rig.perform_all(&info, &[], input), SPLIT, "{packets} {len}");
    }
}

/// Without a receive the first packet of a SEND is refused, but the last of an RDMA WRITE.
#[test]
fn run_without_a_receive() {
    let data = pattern(5000, 1);
    let mut rig = Rig::new(Service::Rc);
    let packets = send_packets(Service::Rc, 1024, 100, SendTail::None, &data);
    rig.give_run(&packets);
    assert_eq!(rig.the_answer().psn, Psn::new(100));
    assert_eq!(rig.resp.take_counts().rnr_naks, 1);

    let packets = write_packets(Service::Rc, 1024, 100, VA, KEY, Some(Imm([0; 4])), &data);
    rig.give_run(&packets);
    assert_eq!(rig.the_answer().psn, Psn::new(104));
    assert_eq!(rig.memory(VA, 4096), &data[..4096]);
}

/// The packets of an answer are the same, however many are sent at once.
#[test]
fn answers_in_runs() {
    for mtu in [Mtu::B256, Mtu::B1024, Mtu::B4096] {
        let n = mtu.bytes();
        for len in [0, 1, n, n + 1, 2 * n, 3 * n - 1, 7 * n + 5, 8 * n] {
            let mut want = None;
            for run in [0, 1, 2, 3, 8, 64, u32::MAX] {
                let mut cfg = config(Service::Rc, mtu);
                cfg.psn = Psn::new(0xff_fffc);
                let mut rig = Rig::with(cfg, 1);
                rig.fill_memory();
                rig.resp.set_response_run(run);
                let request = read_request(0xff_fffc, VA + 1, KEY, len);
                assert_eq!(rig.give(request), EXECUTED);
                if run >= 8 {
                    assert!(rig.log.len() <= 3);
                }
                let sent = rig.take_sent();
                assert_eq!(&sent, want.get_or_insert(sent.clone()), "{n} {len} {run}");
            }
        }
    }
}

#[test]
fn fault_within_a_run_of_answers() {
    for after in 0..5 {
        let mut want = None;
        for run in [1, 2, 3, 16] {
            let mut rig = Rig::new(Service::Rc);
            rig.fill_memory();
            rig.read_fault_after = Some(after);
            rig.resp.set_response_run(run);
            assert_eq!(
                rig.give(read_request(100, VA, KEY, 5000)),
                End::Fatal(QpFault::RemoteAccess)
            );
            let sent = rig.take_sent();
            assert_eq!(sent.len() as u32, after + 1);
            assert_eq!(&sent, want.get_or_insert(sent.clone()));
        }
    }
}

/// One message, how it is cut into runs, and what happens before each.
#[derive(Clone, Debug)]
struct Message {
    kind: u8,
    len: u32,
    bad_key: bool,
    short: u32,
    cuts: Vec<(usize, World)>,
}

#[derive(Clone, Copy, Debug)]
enum World {
    Nothing,
    Post(u32),
    RecvFault(u32),
    Withdraw,
    Restore,
    CqFull,
}

fn messages() -> impl Strategy<Value = Message> {
    let world = prop_oneof![
        20 => Just(World::Nothing),
        6 => (0u32..3000).prop_map(World::Post),
        4 => Just(World::Post(3000)),
        1 => (0u32..3000).prop_map(World::RecvFault),
        1 => Just(World::Withdraw),
        1 => Just(World::Restore),
        1 => Just(World::CqFull),
    ];
    (
        0u8..5,
        0u32..3000,
        proptest::bool::weighted(0.1),
        prop_oneof![9 => Just(0u32), 1 => 1u32..4],
        proptest::collection::vec((1usize..9, world), 1..8),
    )
        .prop_map(|(kind, len, bad_key, short, cuts)| Message {
            kind,
            len,
            bad_key,
            short,
            cuts,
        })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn runs_and_single_packets_have_the_same_effect(
        service in prop_oneof![2 => Just(Service::Rc), 1 => Just(Service::Uc)],
        messages in proptest::collection::vec(messages(), 1..6),
        start in any::<u32>(),
    ) {
        let mut cfg = config(service, Mtu::B256);
        cfg.psn = Psn::new(start);
        let mut rigs = [Rig::with(cfg, 1), Rig::with(cfg, 1)];
        for rig in &mut rigs {
            rig.region(Key::new(0x7700), 0, 64, Access::NONE);
        }
        let mut id = 0;
        for message in messages {
            let psn = rigs[0].resp.expected_psn().get();
            let data = pattern(message.len, psn);
            let key = if message.bad_key { Key::new(0x9900) } else { KEY };
            let mut packets = match message.kind {
                0 => send_packets(service, 256, psn, SendTail::None, &data),
                1 => send_packets(service, 256, psn, SendTail::Imm, &data),
                2 if service == Service::Rc => {
                    send_packets(service, 256, psn, SendTail::Inv, &data)
                }
                3 => write_packets(service, 256, psn, VA, key, Some(Imm([3; 4])), &data),
                _ => write_packets(service, 256, psn, VA, key, None, &data),
            };
            for (one, _) in &mut packets {
                one.ieth = Key::new(if message.bad_key { 0x9901 } else { 0x7700 });
                // The message says that it is shorter than it is.
                one.reth.len = one.reth.len.saturating_sub(message.short);
            }
            let mut rest = &packets[..];
            for (cut, world) in message.cuts.into_iter().chain([(100, World::Nothing)]) {
                id += 1;
                for rig in &mut rigs {
                    match world {
                        World::Nothing => {}
                        World::Post(len) => rig.post(id, len),
                        World::RecvFault(good) => {
                            rig.recv_fault = Some(AccessFault::Key);
                            rig.recv_good = good;
                        }
                        World::Withdraw => rig.regions[0].view.state = MrState::Free,
                        World::Restore => rig.regions[0].view.state = MrState::Valid,
                        World::CqFull => rig.cq_full = true,
                    }
                }
                let (run, after) = rest.split_at(cut.min(rest.len()));
                rest = after;
                if run.is_empty() {
                    continue;
                }
                let [by_run, by_packet] = &mut rigs;
                let mut want = EXECUTED;
                for (packet, payload) in run {
                    want = by_packet.give_with(*packet, payload);
                }
                prop_assert_eq!(by_run.give_run(run), want);

                prop_assert_eq!(&by_run.sent, &by_packet.sent);
                prop_assert_eq!(&by_run.completions, &by_packet.completions);
                prop_assert_eq!(&by_run.received, &by_packet.received);
                prop_assert_eq!(&by_run.events, &by_packet.events);
                prop_assert_eq!(&by_run.regions[0].bytes, &by_packet.regions[0].bytes);
                // In the error state it has no meaning.
                if want == EXECUTED || want == REFUSED {
                    prop_assert_eq!(by_run.resp.expected_psn(), by_packet.resp.expected_psn());
                }
                let mut counts = [&mut *by_run, &mut *by_packet].map(|rig| rig.resp.take_counts());
                prop_assert_eq!(counts[0], core::mem::take(&mut counts[1]));
            }
        }
    }
}
