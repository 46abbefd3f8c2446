// SPDX-License-Identifier: GPL-2.0

//! Whatever arrives: no panic, no access out of bounds, exactly once.

use super::*;
use proptest::prelude::*;

/// Values at which lengths go wrong.
fn lengths() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => 0u32..40,
        2 => 250u32..260,
        2 => (0u32..5).prop_map(|n| n * 256),
        1 => Just(SPACE),
        1 => Just(1 << 31),
        1 => any::<u32>(),
    ]
}

fn addresses() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => (0u64..64).prop_map(|n| VA + n * 8),
        2 => (0u64..u64::from(SPACE) + 64).prop_map(|n| VA + n),
        1 => (0u64..64).prop_map(|n| VA - n),
        1 => (0u64..600).prop_map(|n| u64::MAX - n),
        1 => any::<u64>(),
    ]
}

fn keys() -> impl Strategy<Value = Key> {
    prop_oneof![
        8 => Just(KEY),
        1 => Just(Key::new(0x4300)),
        1 => any::<u32>().prop_map(Key::new),
    ]
}

/// A packet with a PSN relative to the expected one.
fn packets() -> impl Strategy<Value = (i32, PacketInfo)> {
    let psn = prop_oneof![8 => Just(0), 2 => -4..4i32, 1 => any::<i32>()];
    (
        (0..Opcode::ALL.len(), psn, lengths(), any::<[bool; 3]>()),
        (addresses(), keys(), lengths(), keys()),
        (0u8..6, 0u8..4, 0u8..5),
    )
        .prop_map(
            |((opcode, psn, payload, flags), (va, key, len, ieth), (placement, level, pad))| {
                let mut info = PacketInfo::new(Opcode::ALL[opcode]);
                info.solicited = flags[0];
                info.ack_req = flags[1];
                // Mostly what fits the opcode, sometimes anything.
                let payload = match (flags[2], info.opcode.position()) {
                    (true, Position::First | Position::Middle) => 256,
                    (true, Position::Last | Position::Only) => payload % 257,
                    (false, _) => payload,
                };
                info.set_payload_len(if info.opcode.may_have_payload() {
                    payload
                } else {
                    0
                });
                if pad < 4 && !flags[2] {
                    info.pad = pad;
                }
                info.reth.va = va;
                info.reth.key = key;
                info.reth.len = if flags[2] && info.opcode.position() == Position::Only {
                    info.payload_len
                } else {
                    len
                };
                info.atomic.va = va;
                info.atomic.key = key;
                info.feth.placement = placement;
                info.feth.level = level;
                info.ieth = ieth;
                (psn, info)
            },
        )
}

fn config_of(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn services() -> impl Strategy<Value = Service> {
    prop_oneof![3 => Just(Service::Rc), 1 => Just(Service::Uc), 1 => Just(Service::Ud)]
}

/// What the world does between two packets.
#[derive(Clone, Copy, Debug)]
enum World {
    Post(u32),
    Malformed(bool),
    RecvFault(bool),
    CqFull(bool),
    ReadFault(Option<u32>),
    Withdraw(bool),
    Depth(usize),
    Nothing,
}

fn worlds() -> impl Strategy<Value = World> {
    prop_oneof![
        12 => Just(World::Nothing),
        8 => lengths().prop_map(|len| World::Post(len.min(5000))),
        1 => any::<bool>().prop_map(World::Malformed),
        1 => any::<bool>().prop_map(World::RecvFault),
        1 => any::<bool>().prop_map(World::CqFull),
        1 => proptest::option::of(0u32..4).prop_map(World::ReadFault),
        1 => any::<bool>().prop_map(World::Withdraw),
        1 => (0usize..5).prop_map(World::Depth),
    ]
}

proptest! {
    #![proptest_config(config_of(2000))]

    /// The rig asserts the bounds of each effect.
    #[test]
    fn arbitrary_packets_stay_within_bounds(
        service in services(),
        steps in proptest::collection::vec((worlds(), packets()), 1..60),
        start in any::<u32>(),
    ) {
        let mut cfg = config(service, Mtu::B256);
        cfg.psn = Psn::new(start);
        let mut rig = Rig::with(cfg, 2);
        rig.region(Key::new(0x4300), VA, 64, Access::REMOTE_READ);
        let mut failed = false;
        for (id, (world, (psn, mut info))) in steps.into_iter().enumerate() {
            match world {
                World::Post(len) => rig.post(id as u64, len),
                World::Malformed(on) => rig.recv_malformed = on,
                World::RecvFault(on) => rig.recv_fault = on.then_some(AccessFault::Bounds),
                World::CqFull(on) => rig.cq_full = on,
                World::ReadFault(after) => rig.read_fault_after = after,
                World::Withdraw(on) => {
                    rig.regions[0].view.state = if on { MrState::Free } else { MrState::Valid };
                }
                World::Depth(depth) => {
                    rig.resp.replace_storage(vec![Resource::UNUSED; depth]);
                }
                World::Nothing => {}
            }
            info.psn = rig.resp.expected_psn().wrapping_add(psn as u32);
            let before = (rig.sent.len(), rig.completions.len(), rig.resp.expected_psn());
            match rig.give(info) {
                End::Fatal(_) => {
                    prop_assert!(!failed);
                    failed = true;
                }
                End::Done(disposition) => {
                    if failed {
                        prop_assert_eq!(disposition, Disposition::Dropped);
                    }
                    if disposition == Disposition::Dropped {
                        // Nothing but, at most, an answer that was given up.
                        prop_assert_eq!(rig.completions.len(), before.1);
                        prop_assert_eq!(rig.resp.expected_psn(), before.2);
                    }
                    if disposition != Disposition::Executed {
                        prop_assert_eq!(rig.resp.expected_psn(), before.2);
                    }
                }
            }
            if service != Service::Rc {
                prop_assert_eq!(rig.sent.len(), 0);
            }
        }
        // Every receive that was taken is completed, or given back once.
        prop_assert_eq!(rig.resp.flush(), rig.taken.as_ref().map(|taken| taken.wr_id));
    }

    /// Outcomes in any order, whether or not they were asked for.
    #[test]
    fn arbitrary_inputs_never_panic(
        service in services(),
        inputs in proptest::collection::vec((0u8..10, packets(), any::<u64>()), 1..40),
    ) {
        let mut resp = Responder::new(config(service, Mtu::B256), vec![Resource::UNUSED; 2]);
        for (kind, (psn, mut info), value) in inputs {
            info.psn = resp.expected_psn().wrapping_add(psn as u32);
            let effect = resp.step(match kind {
                0 | 1 => Input::Packet(&info),
                2 => Input::Recv(Ok(RecvTaken { wr_id: value, length: value as u32 })),
                3 => Input::Recv(Err(RecvFault::Empty)),
                4 => Input::Access(Ok(())),
                5 => Input::Access(Err(AccessFault::Memory)),
                6 => Input::AtomicValue(Ok(value)),
                7 => Input::Sent,
                8 => Input::Completed(Ok(())),
                _ => Input::Completed(Err(CqOverflow)),
            });
            if let Effect::Fatal(_) = effect {
                resp.flush();
                resp.reset(config(service, Mtu::B256));
            }
        }
    }
}

/// A message of an honest requester.
#[derive(Clone, Debug)]
enum Request {
    Send(u32),
    Write(u32),
    WriteImm(u32),
    Read(u32),
    Add,
    AtomicWrite,
    Flush,
}

fn requests() -> impl Strategy<Value = Request> {
    prop_oneof![
        (0u32..1100).prop_map(Request::Send),
        (0u32..1100).prop_map(Request::Write),
        (0u32..1100).prop_map(Request::WriteImm),
        (0u32..1100).prop_map(Request::Read),
        Just(Request::Add),
        Just(Request::AtomicWrite),
        Just(Request::Flush),
    ]
}

/// Returns the packets of a list of requests, and for each request packet how many PSNs it takes.
fn packets_of(requests: &[Request], start: u32) -> Vec<(PacketInfo, Vec<u8>, u32)> {
    let mut out = Vec::new();
    let mut psn = start;
    let mut take = |packet: PacketInfo, payload: Vec<u8>, psns: u32| {
        out.push((packet, payload, psns));
    };
    for (i, request) in requests.iter().enumerate() {
        let seed = i as u32;
        // Each message writes to a place of its own.
        let va = VA + 2048 * i as u64;
        match *request {
            Request::Send(len) => {
                let data = pattern(len, seed);
                for (info, payload) in send_packets(Service::Rc, 256, psn, SendTail::None, &data) {
                    take(info, payload, 1);
                    psn = psn.wrapping_add(1);
                }
            }
            Request::Write(len) | Request::WriteImm(len) => {
                let imm = matches!(request, Request::WriteImm(_)).then_some(Imm([i as u8; 4]));
                let data = pattern(len, seed);
                for (info, payload) in write_packets(Service::Rc, 256, psn, va, KEY, imm, &data) {
                    take(info, payload, 1);
                    psn = psn.wrapping_add(1);
                }
            }
            Request::Read(len) => {
                let psns = Mtu::B256.packets(len);
                take(read_request(psn, VA, KEY, len), Vec::new(), psns);
                psn = psn.wrapping_add(psns);
            }
            Request::Add => {
                let mut info = packet(Opcode::RcFetchAdd, psn);
                info.atomic.va = COUNTER;
                info.atomic.key = KEY;
                info.atomic.swap_add = 1;
                take(info, Vec::new(), 1);
                psn = psn.wrapping_add(1);
            }
            Request::AtomicWrite => {
                let mut info = packet(Opcode::RcAtomicWrite, psn);
                info.reth.va = va;
                info.reth.key = KEY;
                info.reth.len = 8;
                info.set_payload_len(8);
                take(info, pattern(8, seed), 1);
                psn = psn.wrapping_add(1);
            }
            Request::Flush => {
                let mut info = packet(Opcode::RcFlush, psn);
                info.reth.va = VA;
                info.reth.key = KEY;
                info.reth.len = 64;
                info.feth.placement = 1;
                take(info, Vec::new(), 1);
                psn = psn.wrapping_add(1);
            }
        }
    }
    out
}

/// Where the additions go.
const COUNTER: u64 = VA + SPACE as u64 - 8;

proptest! {
    #![proptest_config(config_of(500))]

    /// A network that loses, repeats and reorders, and receives that are posted late. Each
    /// request is executed once and in order, and each atomic has the same answer each time.
    #[test]
    fn each_request_is_executed_exactly_once(
        requests in proptest::collection::vec(requests(), 1..16),
        start in prop_oneof![Just(0xff_fff0u32), Just(0), any::<u32>()],
        weather in proptest::collection::vec((0u8..12, 0usize..64), 1..200),
    ) {
        let mut cfg = config(Service::Rc, Mtu::B256);
        cfg.psn = Psn::new(start);
        let mut rig = Rig::with(cfg, 16);
        let packets = packets_of(&requests, start);
        let mut next = 0;
        let mut adds: Vec<(Psn, u64)> = Vec::new();
        let mut executed = 0;
        let mut weather = weather.into_iter().chain(std::iter::repeat((11, 0)));
        while next < packets.len() {
            let (what, which) = weather.next().expect("endless");
            let index = match what {
                // An earlier packet once more.
                0 | 1 => which % (next + 1),
                // A later one, because what was before is lost.
                2 => next + which % (packets.len() - next),
                // The consumer posts a receive.
                3 | 4 => {
                    rig.post(which as u64, 2048);
                    continue;
                }
                _ => next,
            };
            let (info, payload, psns) = &packets[index];
            let end = rig.give_with(*info, payload);
            match end {
                End::Done(Disposition::Executed) => {
                    prop_assert_eq!(index, next);
                    prop_assert_eq!(
                        rig.resp.expected_psn(),
                        info.psn.wrapping_add(*psns)
                    );
                    next += 1;
                    executed += 1;
                }
                End::Done(Disposition::Duplicate) => prop_assert!(index < next),
                End::Done(Disposition::Refused) => {
                    prop_assert!(index >= next);
                    if index == next {
                        rig.post(77, 2048);
                    }
                }
                End::Done(Disposition::Dropped) => prop_assert!(index > next),
                End::Done(Disposition::Split) | End::Fatal(_) => {
                    prop_assert!(false, "{:?}", end);
                }
            }
            for sent in rig.take_sent() {
                if sent.header.opcode == Opcode::RcAtomicAck {
                    adds.push((sent.header.psn, sent.header.orig));
                }
            }
        }
        prop_assert_eq!(executed, packets.len());

        // What the messages should have left behind.
        let mut completions = Vec::new();
        let mut additions = 0u64;
        for (i, request) in requests.iter().enumerate() {
            let va = VA + 2048 * i as u64;
            match *request {
                Request::Send(len) => completions.push((WcOpcode::Recv, len)),
                Request::Write(len) => {
                    prop_assert_eq!(rig.memory(va, len), pattern(len, i as u32));
                }
                Request::WriteImm(len) => {
                    prop_assert_eq!(rig.memory(va, len), pattern(len, i as u32));
                    completions.push((WcOpcode::RecvRdmaWithImm, len));
                }
                Request::AtomicWrite => {
                    prop_assert_eq!(rig.memory(va, 8), pattern(8, i as u32));
                }
                Request::Add => additions += 1,
                Request::Read(_) | Request::Flush => {}
            }
        }
        let got: Vec<_> = rig
            .completions
            .iter()
            .map(|done| (done.opcode, done.byte_len))
            .collect();
        prop_assert_eq!(got, completions);
        let mut counter = [0; 8];
        counter.copy_from_slice(rig.memory(COUNTER, 8));
        prop_assert_eq!(u64::from_ne_bytes(counter), additions);
        // Answers to one PSN are all the same, and those to different ones differ.
        adds.sort_by_key(|(_, orig)| *orig);
        adds.dedup();
        prop_assert_eq!(adds.len() as u64, additions);
    }
}
