// SPDX-License-Identifier: GPL-2.0

//! Random work lists, and what they must result in.
//!
//! The expected result comes from executing the list one request after the other, which is what the
//! order rules of a reliable connection promise. Where they promise less, the list has a fence: a
//! request that changes what an earlier READ returns waits for it, because a READ may be executed
//! again.

use super::{
    super::{
        effect::AtomicOp,
        memkey::Access,
        num::{
            Key,
            Mtu, //
        },
        opcode::Service,
        status::{
            WcOpcode,
            WcStatus, //
        },
        time::Instant,
        wire::Imm,
        wr::{
            SendFlags,
            SendOp, //
        },
    },
    endpoint::{
        apply,
        Post,
        Recv, //
    },
    memory::base,
    network::Side,
    pair::Pair,
    rng::Rng, //
};
use std::{
    ops::Range,
    vec,
    vec::Vec, //
};

/// Regions that each endpoint has, by index.
const SOURCE: u32 = 1;
const LANDING: u32 = 2;
const FAST: u32 = 3;
const REMOTE: u32 = 4;
const INBOX: u32 = 5;
const VICTIM: u32 = 16;

const SOURCE_LEN: usize = 1 << 16;
const LANDING_LEN: usize = 4 << 20;
const FAST_LEN: usize = 1 << 15;
const REMOTE_LEN: usize = 1 << 16;
const INBOX_LEN: usize = 4 << 20;
const VICTIMS: u32 = 16;

/// Length of the network header in front of a datagram.
const GRH: u32 = 40;

/// What a receive must complete with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Arrival {
    wr_id: u64,
    status: WcStatus,
    opcode: WcOpcode,
    byte_len: u32,
    imm: Option<Imm>,
    inv: Option<Key>,
    solicited: bool,
}

/// A work list of one side and its result.
pub(super) struct Plan {
    posts: Vec<Post>,
    recvs: Vec<Recv>,
    /// For each request the part of the landing region that it fills.
    landed: Vec<Range<usize>>,
    arrivals: Vec<Arrival>,
    source: Vec<u8>,
    fast: Vec<u8>,
    first_remote: Vec<u8>,
    remote: Vec<u8>,
    landing: Vec<u8>,
    inbox: Vec<u8>,
    victims_used: u32,
}

struct Maker {
    plan: Plan,
    rng: Rng,
    service: Service,
    mtu: Mtu,
    /// Targets of READs since the last fence.
    reads: Vec<Range<usize>>,
    /// Parts of the landing region that READs and atomics fill.
    results: Vec<Range<usize>>,
    landing_used: usize,
    inbox_used: usize,
    registered: Option<u8>,
    registrations: u8,
}

fn random(rng: &mut Rng, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    rng.fill(&mut bytes);
    bytes
}

impl Plan {
    pub(super) fn new(seed: u64, service: Service, mtu: Mtu, requests: usize) -> Self {
        let mut rng = Rng::new(seed);
        let remote = random(&mut rng, REMOTE_LEN);
        let plan = Self {
            posts: Vec::new(),
            recvs: Vec::new(),
            landed: Vec::new(),
            arrivals: Vec::new(),
            source: random(&mut rng, SOURCE_LEN),
            fast: random(&mut rng, FAST_LEN),
            first_remote: remote.clone(),
            remote,
            landing: vec![0; LANDING_LEN],
            inbox: vec![0; INBOX_LEN],
            victims_used: 0,
        };
        let mut maker = Maker {
            plan,
            rng,
            service,
            mtu,
            reads: Vec::new(),
            results: Vec::new(),
            landing_used: 0,
            inbox_used: 0,
            registered: None,
            registrations: 0,
        };
        while maker.plan.posts.len() < requests {
            maker.request();
        }
        maker.plan
    }

    pub(super) fn len(&self) -> usize {
        self.posts.len()
    }

    /// Gives both sides their memory and their work. Late receives come one by one.
    pub(super) fn install(&self, pair: &mut Pair, side: Side, late: Option<u64>) {
        let near = &mut pair.end(side).memory;
        near.add(SOURCE, self.source.clone(), Access::NONE);
        near.add(LANDING, vec![0; LANDING_LEN], Access::LOCAL_WRITE);
        near.add_free(FAST, self.fast.clone());

        let far = &mut pair.end(side.other()).memory;
        let all = Access::REMOTE
            .union(Access::FLUSH)
            .union(Access::LOCAL_WRITE);
        far.add(REMOTE, self.first_remote.clone(), all);
        far.add(INBOX, vec![0; INBOX_LEN], Access::LOCAL_WRITE);
        for i in 0..VICTIMS {
            far.add(VICTIM + i, vec![0; 8], all);
        }

        for (i, recv) in self.recvs.iter().enumerate() {
            match late {
                None => pair.recv(side.other(), *recv),
                Some(every) => {
                    pair.recv_at(Instant(every * i as u64), side.other(), *recv);
                }
            }
        }
        for post in &self.posts {
            pair.post(side, *post);
        }
    }

    /// Checks that everything happened exactly once, in order, and with the right bytes.
    pub(super) fn check(&self, pair: &mut Pair, side: Side) {
        assert_eq!(pair.successes(side, self.len()), self.len());
        self.check_sent(pair, side, self.len());
        assert_eq!(arrivals(pair, side.other()), self.arrivals);

        let far = &mut pair.end(side.other()).memory;
        assert!(far.bytes(REMOTE) == self.remote, "remote memory differs");
        assert!(far.bytes(INBOX) == self.inbox, "received data differs");
        for i in 0..VICTIMS {
            let valid = far.is_valid(Key::from_parts(VICTIM + i, 1));
            assert_eq!(valid, i >= self.victims_used);
        }
    }

    /// Checks a list of which only the first `good` requests succeeded.
    pub(super) fn check_part(&self, pair: &mut Pair, side: Side, good: usize) {
        self.check_sent(pair, side, good);
        let arrived = arrivals(pair, side.other());
        assert!(self.arrivals.starts_with(&arrived));
        // What succeeded here has arrived there.
        let needed = self.posts[..good]
            .iter()
            .filter(|post| consumes_recv(post.op))
            .count();
        assert!(arrived.len() >= needed);
    }

    fn check_sent(&self, pair: &mut Pair, side: Side, good: usize) {
        let end = pair.end(side);
        for (i, completion) in end.sent[..good].iter().enumerate() {
            let post = &self.posts[i];
            assert_eq!(completion.opcode, post.op.wc_opcode());
            assert_eq!(completion.byte_len, post.length);
            assert_eq!(completion.report, post.flags.signaled);
            let range = self.landed[i].clone();
            assert!(
                end.memory.bytes(LANDING)[range.clone()] == self.landing[range],
                "request {i} brought other bytes"
            );
        }
    }
}

fn arrivals(pair: &mut Pair, side: Side) -> Vec<Arrival> {
    pair.end(side)
        .received
        .iter()
        .map(|c| Arrival {
            wr_id: c.wr_id,
            status: c.status,
            opcode: c.opcode,
            byte_len: c.byte_len,
            imm: c.imm,
            inv: c.inv,
            solicited: c.solicited,
        })
        .collect()
}

fn consumes_recv(op: SendOp) -> bool {
    matches!(
        op,
        SendOp::Send | SendOp::SendImm(_) | SendOp::SendInv(_) | SendOp::WriteImm { .. }
    )
}

impl Maker {
    /// Adds one request.
    fn request(&mut self) {
        match (self.service, self.rng.below(16)) {
            (Service::Ud, _) | (_, 0..=2) => self.send(),
            (_, 3..=4) => self.write(),
            (_, 5) => self.write_imm(),
            (Service::Uc, _) => self.write(),
            (_, 6..=8) => self.read(),
            (_, 9..=11) => self.atomic(),
            (_, 12) => self.atomic_write(),
            (_, 13) => self.flush(),
            (_, _) => self.local(),
        }
    }

    fn length(&mut self) -> u32 {
        let mtu = u64::from(self.mtu.bytes());
        let length = match self.rng.below(6) {
            _ if self.service == Service::Ud => self.rng.below(mtu + 1),
            0 => 0,
            1 => 1 + self.rng.below(16),
            2 => mtu - 2 + self.rng.below(5),
            3 => mtu * (1 + self.rng.below(5)),
            4 => self.rng.below(7 * mtu),
            _ => 64,
        };
        length as u32
    }

    fn imm(&mut self) -> Imm {
        Imm((self.rng.next() as u32).to_ne_bytes())
    }

    fn flags(&mut self) -> SendFlags {
        SendFlags {
            signaled: self.rng.chance(500),
            solicited: self.rng.chance(300),
            fence: self.rng.chance(100),
            inline: false,
        }
    }

    fn post(&mut self, op: SendOp, flags: SendFlags, length: u32, index: u32, offset: usize) {
        if flags.fence {
            self.reads.clear();
        }
        let variant = match index {
            FAST => self.registered.unwrap_or(0),
            _ => 1,
        };
        let brings = op.writes_local();
        self.plan.posts.push(Post {
            op,
            flags,
            length,
            key: Key::from_parts(index, variant),
            addr: base(index) + offset as u64,
        });
        self.plan.landed.push(if brings {
            offset..offset + length as usize
        } else {
            0..0
        });
    }

    /// Chooses the data of a SEND or WRITE: where it is and what it is.
    fn data(&mut self, length: u32, flags: &mut SendFlags) -> (u32, usize, Vec<u8>) {
        let length = length as usize;
        let choice = self.rng.below(4);
        if choice == 0 && self.registered.is_some() {
            let offset = self.rng.below((FAST_LEN - length) as u64) as usize;
            let bytes = self.plan.fast[offset..offset + length].to_vec();
            return (FAST, offset, bytes);
        }
        if choice == 1 {
            // What an earlier READ or atomic has brought, which needs a fence.
            let found = self
                .results
                .iter()
                .rev()
                .take(4)
                .find(|r| r.len() >= length);
            if let Some(range) = found.cloned() {
                flags.fence = true;
                let bytes = self.plan.landing[range.start..range.start + length].to_vec();
                return (LANDING, range.start, bytes);
            }
        }
        let offset = self.rng.below((SOURCE_LEN - length) as u64) as usize;
        let bytes = self.plan.source[offset..offset + length].to_vec();
        (SOURCE, offset, bytes)
    }

    /// Lets a request that changes remote memory wait for READs of the same memory.
    fn order(&mut self, target: &Range<usize>, flags: &mut SendFlags) {
        if self
            .reads
            .iter()
            .any(|read| read.start < target.end && target.start < read.end)
        {
            flags.fence = true;
        }
    }

    /// Adds the receive that a message of `length` takes, and what arrives there.
    fn arrival(&mut self, data: &[u8], write: bool, arrival: Arrival) {
        let header = if self.service == Service::Ud { GRH } else { 0 };
        let need = if write {
            0
        } else {
            header as usize + data.len()
        };
        let room = need + self.rng.below(64) as usize;
        let at = self.inbox_used;
        self.inbox_used += room;
        assert!(self.inbox_used <= INBOX_LEN);
        self.plan.recvs.push(Recv {
            wr_id: arrival.wr_id,
            key: Key::from_parts(INBOX, 1),
            addr: base(INBOX) + at as u64,
            length: room as u32,
        });
        if !write {
            self.plan.inbox[at..at + header as usize].fill(0x60);
            self.plan.inbox[at + header as usize..at + need].copy_from_slice(data);
        }
        self.plan.arrivals.push(Arrival {
            byte_len: arrival.byte_len + header,
            ..arrival
        });
    }

    fn next_arrival(&self, length: u32, flags: SendFlags) -> Arrival {
        Arrival {
            wr_id: 1000 + self.plan.arrivals.len() as u64,
            status: WcStatus::Success,
            opcode: WcOpcode::Recv,
            byte_len: length,
            imm: None,
            inv: None,
            solicited: flags.solicited,
        }
    }

    fn send(&mut self) {
        let length = self.length();
        let mut flags = self.flags();
        let (index, offset, data) = self.data(length, &mut flags);
        let mut arrival = self.next_arrival(length, flags);
        let op = match self.rng.below(3) {
            0 => {
                let imm = self.imm();
                arrival.imm = Some(imm);
                SendOp::SendImm(imm)
            }
            1 if self.service == Service::Rc && self.plan.victims_used < VICTIMS => {
                let key = Key::from_parts(VICTIM + self.plan.victims_used, 1);
                self.plan.victims_used += 1;
                arrival.inv = Some(key);
                SendOp::SendInv(key)
            }
            _ => SendOp::Send,
        };
        self.post(op, flags, length, index, offset);
        self.arrival(&data, false, arrival);
    }

    /// Chooses a place in remote memory.
    fn target(&mut self, length: u32) -> Range<usize> {
        let start = self.rng.below((REMOTE_LEN - length as usize) as u64) as usize;
        start..start + length as usize
    }

    fn write(&mut self) {
        let length = self.length();
        let mut flags = self.flags();
        let (index, offset, data) = self.data(length, &mut flags);
        let target = self.target(length);
        self.order(&target, &mut flags);
        let (va, key) = remote(target.start);
        self.post(SendOp::Write { va, key }, flags, length, index, offset);
        self.plan.remote[target].copy_from_slice(&data);
    }

    fn write_imm(&mut self) {
        let length = self.length();
        let mut flags = self.flags();
        let (index, offset, data) = self.data(length, &mut flags);
        let target = self.target(length);
        self.order(&target, &mut flags);
        let (va, key) = remote(target.start);
        let imm = self.imm();
        let op = SendOp::WriteImm { va, key, imm };
        let arrival = Arrival {
            opcode: WcOpcode::RecvRdmaWithImm,
            imm: Some(imm),
            ..self.next_arrival(length, flags)
        };
        self.post(op, flags, length, index, offset);
        self.plan.remote[target].copy_from_slice(&data);
        self.arrival(&data, true, arrival);
    }

    /// Makes room in the landing region.
    fn landing(&mut self, length: u32) -> usize {
        let at = self.landing_used;
        self.landing_used += length as usize;
        assert!(self.landing_used <= LANDING_LEN);
        self.results.push(at..at + length as usize);
        at
    }

    fn read(&mut self) {
        let length = self.length();
        let flags = self.flags();
        let target = self.target(length);
        let at = self.landing(length);
        let (va, key) = remote(target.start);
        self.post(SendOp::Read { va, key }, flags, length, LANDING, at);
        self.reads.push(target.clone());
        self.plan.landing[at..at + length as usize].copy_from_slice(&self.plan.remote[target]);
    }

    /// Chooses one of few words, so that atomics meet.
    fn word(&mut self) -> Range<usize> {
        let start = self.rng.below(16) as usize * 8;
        start..start + 8
    }

    fn atomic(&mut self) {
        let mut flags = self.flags();
        let target = self.word();
        self.order(&target, &mut flags);
        let at = self.landing(8);
        let (va, key) = remote(target.start);
        let word: &mut [u8; 8] = (&mut self.plan.remote[target]).try_into().unwrap();
        let old = u64::from_ne_bytes(*word);
        let value = self.rng.next();
        let (op, effect) = match self.rng.below(3) {
            0 => (
                SendOp::FetchAdd {
                    va,
                    key,
                    add: value,
                },
                AtomicOp::FetchAdd { add: value },
            ),
            n => {
                let compare = if n == 1 { old } else { value };
                let swap = value;
                (
                    SendOp::CompareSwap {
                        va,
                        key,
                        compare,
                        swap,
                    },
                    AtomicOp::CompareSwap { compare, swap },
                )
            }
        };
        *word = apply(effect, old).to_ne_bytes();
        self.plan.landing[at..at + 8].copy_from_slice(&old.to_ne_bytes());
        self.post(op, flags, 8, LANDING, at);
    }

    fn atomic_write(&mut self) {
        let mut flags = self.flags();
        let target = self.word();
        self.order(&target, &mut flags);
        let (index, offset, data) = self.data(8, &mut flags);
        let (va, key) = remote(target.start);
        self.post(SendOp::AtomicWrite { va, key }, flags, 8, index, offset);
        self.plan.remote[target].copy_from_slice(&data);
    }

    fn flush(&mut self) {
        let flags = self.flags();
        let (va, key) = remote(self.rng.below(1000) as usize);
        let op = SendOp::Flush {
            va,
            key,
            len: 100,
            level: 0,
            placement: 1,
        };
        self.post(op, flags, 0, SOURCE, 0);
    }

    /// Registers the fast region, or invalidates it again.
    fn local(&mut self) {
        let flags = self.flags();
        let op = match self.registered.take() {
            Some(variant) => SendOp::LocalInv(Key::from_parts(FAST, variant)),
            None => {
                self.registrations = self.registrations.wrapping_add(1);
                self.registered = Some(self.registrations);
                SendOp::RegMr {
                    key: Key::from_parts(FAST, self.registrations),
                    access: 0,
                }
            }
        };
        self.post(op, flags, 0, SOURCE, 0);
    }
}

fn remote(offset: usize) -> (u64, Key) {
    (base(REMOTE) + offset as u64, Key::from_parts(REMOTE, 1))
}
