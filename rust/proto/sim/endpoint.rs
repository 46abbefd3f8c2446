// SPDX-License-Identifier: GPL-2.0

//! One queue pair: both engines, and what the driver does around them.

use super::{
    super::{
        completer::RespStep,
        effect::{
            AtomicOp,
            Disposition,
            Effect,
            Input,
            RecvCompletion,
            RecvFault,
            RecvTaken,
            Reply, //
        },
        memkey::Access,
        num::{
            Key,
            Mtu,
            Qpn,
            Slot, //
        },
        opcode::Service,
        packet::PacketInfo,
        psn::Psn,
        requester::{
            PreparedTx,
            TxStep, //
        },
        resources::Resource,
        responder::{
            Responder,
            ResponderConfig, //
        },
        run::Run,
        sender::{
            Sender,
            SenderConfig, //
        },
        status::{
            AccessFault,
            QpFault,
            WcStatus, //
        },
        time::{
            Duration,
            Instant, //
        },
        window::{
            SendCompletion,
            SendEntry, //
        },
        wr::{
            SendFlags,
            SendOp,
            SendWr,
            UdTarget, //
        },
    },
    memory::Memory,
    network::{
        open,
        Network,
        Side, //
    },
    rng::Rng, //
};
use std::{
    collections::VecDeque,
    vec,
    vec::Vec, //
};

/// Packets that are sent at once.
const BURST: usize = 16;

/// What a pair of endpoints is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) service: Service,
    pub(super) mtu: Mtu,
    /// First PSN of each direction.
    pub(super) psn: [Psn; 2],
    pub(super) max_rd_atomic: u8,
    pub(super) retry_cnt: u8,
    pub(super) rnr_retry: u8,
    pub(super) ack_timeout: Option<Duration>,
    pub(super) min_rnr_timer: u8,
    /// Entries of the send window.
    pub(super) window: usize,
    /// How often, per thousand, the driver has no memory for a packet.
    pub(super) balk: u32,
    /// How often, per thousand, the local host has no room for what is sent, from some packet on.
    pub(super) refuse: u32,
    /// The longest run of packets that is built at once, of requests and of answers.
    pub(super) run: u64,
    /// Packets that arrive within this time, in nanoseconds, are taken in at once.
    pub(super) burst: u64,
}

impl Setup {
    pub(super) const RC: Self = Self {
        service: Service::Rc,
        mtu: Mtu::B1024,
        psn: [Psn::new(100), Psn::new(5000)],
        max_rd_atomic: 4,
        retry_cnt: 7,
        rnr_retry: 7,
        ack_timeout: Some(Duration::from_millis(1)),
        min_rnr_timer: 12,
        window: 64,
        balk: 0,
        refuse: 0,
        run: 1,
        burst: 0,
    };

    pub(super) fn qpn(side: Side) -> Qpn {
        match side {
            Side::A => Qpn::new(0x11),
            Side::B => Qpn::new(0x22),
        }
    }
}

/// A send work request as the consumer posts it, with one buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Post {
    pub(super) op: SendOp,
    pub(super) flags: SendFlags,
    pub(super) length: u32,
    pub(super) key: Key,
    pub(super) addr: u64,
}

/// A receive work request, with one buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recv {
    pub(super) wr_id: u64,
    pub(super) key: Key,
    pub(super) addr: u64,
    pub(super) length: u32,
}

pub(super) struct Endpoint {
    side: Side,
    setup: Setup,
    rng: Rng,
    pub(super) memory: Memory,
    pub(super) sender: Sender<Vec<SendEntry>>,
    responder: Responder<Vec<Resource>>,
    /// Posted, and not yet in the window.
    ring: VecDeque<Post>,
    fetched: u64,
    /// Buffers of what is in the window, by slot.
    buffers: Vec<(Key, u64)>,
    /// Packets that were built and not sent yet.
    gathered: Vec<(PacketInfo, Vec<u8>)>,
    pub(super) recvs: VecDeque<Recv>,
    current: Option<Recv>,
    pub(super) sent: Vec<SendCompletion>,
    pub(super) received: Vec<RecvCompletion>,
    pub(super) fault: Option<QpFault>,
    /// When to try again after there was no memory for a packet.
    pub(super) retry_at: Option<Instant>,
    /// Runs that the engines took, and did not take, at once.
    pub(super) runs: [u32; 2],
}

impl Endpoint {
    pub(super) fn new(side: Side, setup: Setup, seed: u64) -> Self {
        let sender = SenderConfig {
            service: setup.service,
            mtu: setup.mtu,
            psn: setup.psn[side as usize],
            qpn: Setup::qpn(side),
            dest_qpn: Setup::qpn(side.other()),
            pkey: 0xffff,
            qkey: 0x1111,
            max_rd_atomic: setup.max_rd_atomic,
            retry_cnt: setup.retry_cnt,
            rnr_retry: setup.rnr_retry,
            ack_timeout: setup.ack_timeout,
        };
        let responder = ResponderConfig {
            service: setup.service,
            mtu: setup.mtu,
            psn: setup.psn[side.other() as usize],
            dest_qpn: Setup::qpn(side.other()),
            pkey: 0xffff,
            access: Access::REMOTE.union(Access::FLUSH),
            min_rnr_timer: setup.min_rnr_timer,
            announce: true,
        };
        let resources = vec![Resource::UNUSED; setup.max_rd_atomic.into()];
        let sender = Sender::new(sender, vec![SendEntry::EMPTY; setup.window]);
        let mut responder = Responder::new(responder, resources);
        responder.set_response_run(setup.run as u32);
        Self {
            side,
            setup,
            rng: Rng::new(seed),
            memory: Memory::default(),
            buffers: vec![(Key::new(0), 0); sender.capacity() as usize],
            gathered: Vec::new(),
            sender,
            responder,
            ring: VecDeque::new(),
            fetched: 0,
            recvs: VecDeque::new(),
            current: None,
            sent: Vec::new(),
            received: Vec::new(),
            fault: None,
            retry_at: None,
            runs: [0; 2],
        }
    }

    pub(super) fn post(&mut self, post: Post) {
        self.ring.push_back(post);
    }

    /// Tells whether every posted request has completed.
    pub(super) fn is_finished(&self) -> bool {
        self.ring.is_empty() && self.sender.is_empty()
    }

    /// Moves requests from the ring into the window, as room permits.
    fn fetch(&mut self) {
        while self.sender.room() != 0 {
            let Some(post) = self.ring.pop_front() else {
                return;
            };
            let wr = SendWr {
                wr_id: self.fetched,
                op: post.op,
                flags: post.flags,
                length: post.length,
                num_sge: 1,
                ud: UdTarget {
                    qpn: Setup::qpn(self.side.other()),
                    qkey: 0x1111,
                    pkey_index: 0,
                    ah_num: 1,
                },
            };
            self.fetched += 1;
            let slot = self.sender.push(wr).expect("there is room");
            self.buffers[slot.index()] = (post.key, post.addr);
        }
    }

    /// Sends and completes what can be sent and completed now.
    pub(super) fn work(&mut self, net: &mut Network, now: Instant) {
        self.retry_at = None;
        loop {
            self.fetch();
            let run = 1 + self.rng.below(self.setup.run) as u32;
            match self.sender.poll_run(now, run) {
                TxStep::Packet(tx) => {
                    if self.rng.chance(self.setup.balk) {
                        self.retry_at = Some(Instant(now.0 + 1000));
                        break;
                    }
                    self.build(&tx, now);
                    if self.gathered.len() >= BURST && !self.transmit(net, now) {
                        break;
                    }
                }
                TxStep::Local { slot, op } => {
                    let result = self.execute_local(op);
                    self.sender
                        .local_done(slot, result.map_err(|_| WcStatus::LocQpOpErr));
                }
                TxStep::Idle => {
                    if !self.complete() {
                        break;
                    }
                }
            }
        }
        self.transmit(net, now);
        self.complete();
    }

    /// Takes completions. Returns whether there were any.
    fn complete(&mut self) -> bool {
        let before = self.sent.len();
        while let Some(completion) = self.sender.pop_completion() {
            self.sent.push(completion);
        }
        if let Some(fault) = self.sender.take_fault() {
            self.fail(fault);
        }
        self.sent.len() != before
    }

    fn fail(&mut self, fault: QpFault) {
        self.fault.get_or_insert(fault);
        self.sender.enter_error();
        self.responder.enter_error();
    }

    fn build(&mut self, tx: &PreparedTx, now: Instant) {
        let (key, addr) = self.buffers[tx.slot.index()];
        let mut at = addr + u64::from(tx.offset);
        for i in 0..tx.packets {
            let header = self
                .sender
                .header(tx, i)
                .expect("the run is the offered one");
            let Ok(payload) = self.memory.read(key, at, header.payload_len, Access::NONE) else {
                self.sender.tx_fault(tx.slot, WcStatus::LocProtErr);
                return;
            };
            at += u64::from(header.payload_len);
            self.gathered.push((header, payload.to_vec()));
        }
        self.sender.commit_tx(tx, now);
    }

    /// Sends what was built. Returns whether there was room for all of it.
    fn transmit(&mut self, net: &mut Network, now: Instant) -> bool {
        let built = core::mem::take(&mut self.gathered);
        let room = match self.rng.chance(self.setup.refuse) {
            true => self.rng.below(built.len() as u64 + 1) as usize,
            false => built.len(),
        };
        for (header, payload) in built.iter().take(room) {
            net.send(now, self.side, *header, payload);
        }
        let Some((refused, _)) = built.get(room) else {
            return true;
        };
        self.sender.on_refused(refused.psn);
        self.retry_at = Some(Instant(now.0 + 1000));
        false
    }

    fn execute_local(&mut self, op: SendOp) -> Result<(), AccessFault> {
        match op {
            SendOp::RegMr { key, access } => self.memory.register(key, access),
            SendOp::LocalInv(key) => self.memory.invalidate(key),
            other => panic!("not a local operation: {other:?}"),
        }
    }

    /// Takes packets off the wire that have arrived together.
    pub(super) fn receive(&mut self, net: &mut Network, burst: &[Vec<u8>], now: Instant) {
        let mut packets = burst.iter().filter_map(|bytes| open(bytes)).peekable();
        while let Some(first) = packets.next() {
            assert_eq!(first.0.dest_qpn, Setup::qpn(self.side));
            let mut run = Run::new(&first.0);
            let mut members = vec![first];
            while let Some(next) = packets.next_if(|next| run.push(&next.0, self.setup.mtu)) {
                members.push(next);
            }
            let payload: Vec<u8> = members
                .iter()
                .flat_map(|(_, data)| *data)
                .copied()
                .collect();
            if members.len() == 1 || !self.on_run(net, &run, &payload, now) {
                for (info, payload) in members {
                    self.on_packet(net, &info, payload, now);
                }
            }
        }
    }

    fn on_packet(&mut self, net: &mut Network, info: &PacketInfo, payload: &[u8], now: Instant) {
        if info.opcode.is_response() {
            let step = self.sender.on_response(info, now);
            self.on_response(step, payload);
        } else {
            self.on_request(net, Input::Packet(info), payload, now);
        }
    }

    /// Takes a run of packets at once, if the engine does.
    fn on_run(&mut self, net: &mut Network, run: &Run, payload: &[u8], now: Instant) -> bool {
        let (packet, packets) = (run.packet(), run.packets());
        let taken = if packet.opcode.is_response() {
            let step = self.sender.on_response_run(packet, packets, now);
            step.map(|step| self.on_response(step, payload)).is_some()
        } else {
            self.on_request(net, Input::Run { packet, packets }, payload, now)
        };
        self.runs[usize::from(!taken)] += 1;
        taken
    }

    fn on_response(&mut self, mut step: RespStep, payload: &[u8]) {
        loop {
            let result = match step {
                RespStep::Store { slot, offset, len } => {
                    assert_eq!(len as usize, payload.len());
                    self.store(slot, offset, payload)
                }
                RespStep::StoreAtomic { slot, value } => self.store(slot, 0, &value.to_ne_bytes()),
                RespStep::Done => break,
            };
            step = self.sender.stored(result);
        }
    }

    fn store(&mut self, slot: Slot, offset: u32, data: &[u8]) -> Result<(), AccessFault> {
        let (key, addr) = self.buffers[slot.index()];
        self.memory
            .write(key, addr + u64::from(offset), data, Access::LOCAL_WRITE)
    }

    /// Carries out a request. Returns whether the engine took it.
    fn on_request(
        &mut self,
        net: &mut Network,
        mut input: Input<'_>,
        payload: &[u8],
        now: Instant,
    ) -> bool {
        loop {
            input = match self.responder.step(input) {
                Effect::TakeRecv => Input::Recv(self.take_recv()),
                Effect::Check { span } => Input::Access(
                    self.memory
                        .span(span.key, span.va, span.len, span.access)
                        .map(|_| ()),
                ),
                Effect::StoreRecv { offset, len } => {
                    assert_eq!(len as usize, payload.len());
                    Input::Access(self.fill(offset, payload))
                }
                Effect::StoreGrh => Input::Access(self.fill(0, &[0x60; 40])),
                Effect::StoreRemote { span } => {
                    assert_eq!(span.len as usize, payload.len());
                    Input::Access(self.memory.write(span.key, span.va, payload, span.access))
                }
                Effect::Atomic { span, op } => {
                    Input::AtomicValue(self.memory.span(span.key, span.va, 8, span.access).map(
                        |bytes| {
                            let word: &mut [u8; 8] = bytes.try_into().unwrap();
                            let old = u64::from_ne_bytes(*word);
                            *word = apply(op, old).to_ne_bytes();
                            old
                        },
                    ))
                }
                Effect::AtomicWrite { span } => {
                    assert_eq!(payload.len(), 8);
                    Input::Access(self.memory.write(span.key, span.va, payload, span.access))
                }
                Effect::Flush { span, .. } => Input::Access(
                    self.memory
                        .span(span.key, span.va, span.len, span.access)
                        .map(|_| ()),
                ),
                Effect::Invalidate(key) => Input::Access(self.memory.invalidate(key)),
                Effect::Send(reply) => {
                    let data = match reply.payload {
                        Some(s) => self.memory.read(s.key, s.va, s.len, s.access),
                        None => Ok(vec![]),
                    };
                    match data {
                        Ok(data) => {
                            self.answer(net, &reply, &data, now);
                            Input::Sent
                        }
                        Err(fault) => Input::Access(Err(fault)),
                    }
                }
                Effect::Complete(completion) => {
                    self.current = None;
                    self.received.push(completion);
                    Input::Completed(Ok(()))
                }
                Effect::Event(_) => Input::Sent,
                Effect::Fatal(fault) => {
                    self.fail(fault);
                    return true;
                }
                Effect::Done(disposition) => return disposition != Disposition::Split,
            };
        }
    }

    /// Sends an answer, which may be several packets.
    fn answer(&mut self, net: &mut Network, reply: &Reply, data: &[u8], now: Instant) {
        let mut rest = data;
        for i in 0..reply.packets {
            let header = reply.header_of(i);
            let (payload, after) = rest.split_at(header.payload_len as usize);
            net.send(now, self.side, header, payload);
            rest = after;
        }
        assert!(rest.is_empty());
    }

    fn take_recv(&mut self) -> Result<RecvTaken, RecvFault> {
        assert!(self.current.is_none(), "one receive at a time");
        let recv = self.recvs.pop_front().ok_or(RecvFault::Empty)?;
        self.current = Some(recv);
        Ok(RecvTaken {
            wr_id: recv.wr_id,
            length: recv.length,
        })
    }

    fn fill(&mut self, offset: u32, data: &[u8]) -> Result<(), AccessFault> {
        let recv = self.current.expect("a receive was taken");
        assert!(u64::from(offset) + data.len() as u64 <= u64::from(recv.length));
        self.memory.write(
            recv.key,
            recv.addr + u64::from(offset),
            data,
            Access::LOCAL_WRITE,
        )
    }
}

pub(super) fn apply(op: AtomicOp, old: u64) -> u64 {
    match op {
        AtomicOp::CompareSwap { compare, swap } if compare == old => swap,
        AtomicOp::CompareSwap { .. } => old,
        AtomicOp::FetchAdd { add } => old.wrapping_add(add),
    }
}
