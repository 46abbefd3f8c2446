// SPDX-License-Identifier: GPL-2.0

//! The receive worker of a queue pair: carries out what the responder decides.
//!
//! Runs in the device's workqueue only; request packets that arrive kick it.

#![forbid(unsafe_code)]

use super::{
    hop::Hop,
    mem::{
        self,
        Cursor, //
    },
    qp::Qp,
    rq::{
        RecvQueue,
        Taken, //
    },
    rx,
    task::Progress,
    tx::{
        self,
        Destination,
        Refused, //
    }, //
};
use crate::{
    abstractions::{
        net::{
            RxSkb,
            SkbList, //
        },
        rdma::wc::{
            Extra,
            WorkCompletion, //
        },
        sync::RcuArc, //
    },
    proto::{
        counters::{
            Counter,
            DropReason, //
        },
        effect::{
            Disposition,
            Effect,
            Input,
            RecvCompletion,
            RecvFault,
            Reply, //
        },
        opcode::Opcode,
        packet::PacketInfo,
        qpstate::{
            Engine as EngineState,
            QpState, //
        },
        resources::Resource,
        responder::Responder,
        status::{
            AccessFault,
            CqOverflow,
            QpEvent,
            WcOpcode,
            WcStatus, //
        }, //
    }, //
};
use kernel::{
    alloc::KVVec,
    prelude::*, //
};

/// Steps that one run of the worker takes before it lets others run.
const BUDGET: u32 = 4096;

/// The engine of the receive side.
pub(crate) type Engine = Responder<KVVec<Resource>>;

/// What the receive worker owns.
pub(crate) struct RecvSide {
    /// The responder.
    pub(crate) engine: Engine,
    /// The buffers of the current receive request.
    pub(crate) taken: Taken,
    /// The region of the receive buffers.
    cursor: Cursor,
    /// Where answers go to; none before the queue pair has an address.
    pub(crate) destination: Option<Destination>,
    /// Requests that were taken from the queue of packets.
    requests: SkbList<RxSkb>,
    /// The consumer has been told that no request of a shared queue will complete any more.
    told_last: bool,
    /// The packet that is being worked on.
    current: Option<RxSkb>,
    /// Its headers.
    packet: PacketInfo,
    /// An answer that waits for a transmit credit or for memory.
    waiting: Option<Reply>,
}

impl RecvSide {
    /// Makes a receive side around an engine.
    pub(crate) fn new(engine: Engine, taken: Taken) -> Self {
        Self {
            engine,
            taken,
            cursor: Cursor::new(),
            destination: None,
            requests: SkbList::new(),
            told_last: false,
            current: None,
            packet: PacketInfo::new(Opcode::RcSendOnly),
            waiting: None,
        }
    }

    /// Frees the packets that wait.
    fn drop_requests(&mut self, qp: &Qp) {
        self.current = None;
        self.waiting = None;
        self.requests = SkbList::new();
        drop(qp.io().requests.drain());
    }

    /// Forgets all packets and requests, as a queue pair in the reset state does.
    pub(crate) fn reset(&mut self, qp: &Qp) {
        self.engine.enter_error();
        let _ = self.engine.flush();
        self.cursor.clear();
        self.drop_requests(qp);
        self.destination = None;
        self.told_last = false;
        qp.rq().clear();
    }
}

/// What is left to do when the lock has been released.
#[derive(Default)]
struct After {
    notify: bool,
    kick_sender: bool,
    events: [Option<QpEvent>; 3],
}

impl After {
    fn event(&mut self, event: QpEvent) {
        if let Some(place) = self.events.iter_mut().find(|place| place.is_none()) {
            *place = Some(event);
        }
    }
}

/// One run of the worker. `hop` takes a worker of this device that is to run next.
pub(crate) fn run(qp: &RcuArc<Qp>, hop: &mut Hop) -> Progress {
    let mut after = After::default();
    let progress = {
        let mut side = qp.recv_side().lock();
        if qp.io().is_closed() {
            return Progress::Done;
        }
        let progress = work(qp, &mut side, hop, &mut after);
        if let Some(to) = side.destination.as_mut() {
            tx::flush(qp, to, hop);
        }
        take_counts(qp, &mut side);
        progress
    };
    if after.notify {
        qp.recv_cq().notify();
    }
    if after.kick_sender {
        Qp::kick_send(qp);
    }
    for event in after.events.into_iter().flatten() {
        qp.event(event);
    }
    progress
}

fn work(qp: &Qp, side: &mut RecvSide, hop: &mut Hop, after: &mut After) -> Progress {
    let mut budget = BUDGET;
    loop {
        match qp.state().recv_engine() {
            EngineState::Stopped => {
                side.drop_requests(qp);
                return Progress::Done;
            }
            EngineState::Flush => {
                return flush(qp, side, after);
            }
            EngineState::Run | EngineState::Drain => {}
        }

        // Take up where an answer could not be sent.
        let mut effect = match side.waiting.take() {
            Some(reply) => Effect::Send(reply),
            None => match next_packet(qp, side) {
                Some(Ok(packet)) => side.engine.step(Input::Packet(&packet)),
                Some(Err(reason)) => {
                    qp.dev().count_drop(reason);
                    Effect::Done(Disposition::Dropped)
                }
                None => return Progress::Done,
            },
        };
        // Packets that come to nothing count as well.
        budget = budget.saturating_sub(1);
        loop {
            let input = match carry_out(qp, side, effect, hop, after) {
                Outcome::Next(input) => input,
                Outcome::Finished => break,
                Outcome::Wait(reply, progress) => {
                    side.waiting = Some(reply);
                    return progress;
                }
            };
            effect = side.engine.step(input);
            budget = budget.saturating_sub(1);
            if budget == 0 || qp.io().is_wanted() {
                if let Effect::Send(reply) = effect {
                    // A long answer to a READ: let others run in between.
                    side.waiting = Some(reply);
                    return Progress::More;
                }
            }
        }
        if let Some(skb) = side.current.take() {
            skb.consume();
        }
        if budget == 0 || qp.io().is_wanted() {
            return Progress::More;
        }
    }
}

/// What came of an effect.
enum Outcome {
    /// The answer to give to the engine.
    Next(Input<'static>),
    /// The packet is finished with.
    Finished,
    /// The answer cannot be sent now.
    Wait(Reply, Progress),
}

/// Takes the next request off the queue of packets.
fn next_packet(qp: &Qp, side: &mut RecvSide) -> Option<Result<PacketInfo, DropReason>> {
    if side.requests.is_empty() {
        side.requests = qp.io().requests.drain();
    }
    let skb = side.requests.pop()?;
    Some(
        rx::parsed(&skb)
            .map(|(packet, _)| packet)
            .inspect(|packet| {
                side.current = Some(skb);
                side.packet = *packet;
            }),
    )
}

/// Returns the payload of the current packet.
fn payload<'a>(current: &'a Option<RxSkb>, packet: &PacketInfo) -> &'a [u8] {
    current.as_ref().map_or(&[], |skb| rx::payload(skb, packet))
}

fn carry_out(
    qp: &Qp,
    side: &mut RecvSide,
    effect: Effect,
    hop: &mut Hop,
    after: &mut After,
) -> Outcome {
    let dev = qp.dev();
    let pd = qp.pd_id();
    Outcome::Next(match effect {
        Effect::TakeRecv => Input::Recv(qp.rq().take(&mut side.taken)),
        Effect::Check { span } => Input::Access(mem::check_remote(dev, pd, qp.qpn(), &span)),
        Effect::StoreRecv { offset, .. } => Input::Access(mem::copy_to_sges(
            dev,
            pd,
            side.taken.sges(),
            offset,
            payload(&side.current, &side.packet),
            &mut side.cursor,
        )),
        Effect::StoreGrh => Input::Access(store_grh(qp, side)),
        Effect::StoreRemote { span } => Input::Access(mem::write_remote(
            dev,
            pd,
            qp.qpn(),
            &span,
            payload(&side.current, &side.packet),
        )),
        Effect::Atomic { span, op } => {
            Input::AtomicValue(mem::atomic(dev, pd, qp.qpn(), &span, op))
        }
        Effect::AtomicWrite { span } => Input::Access(mem::atomic_write(
            dev,
            pd,
            qp.qpn(),
            &span,
            payload(&side.current, &side.packet),
        )),
        Effect::Flush { span, level } => Input::Access(mem::flush(dev, pd, qp.qpn(), &span, level)),
        Effect::Invalidate(key) => Input::Access(mem::invalidate(dev, pd, qp.qpn(), key)),
        Effect::Send(reply) => return send(qp, side, reply, hop),
        Effect::Complete(completion) => Input::Completed(complete(qp, side, &completion, after)),
        Effect::Event(event) => {
            after.event(event);
            Input::Sent
        }
        Effect::Fatal(_) => {
            // The engine has had the consumer told, by a completion or an event.
            after.kick_sender |= qp.fail(QpState::Err);
            return Outcome::Finished;
        }
        Effect::Done(_) => return Outcome::Finished,
    })
}

/// Copies the network header of a datagram to the start of the receive buffers.
fn store_grh(qp: &Qp, side: &mut RecvSide) -> Result<(), AccessFault> {
    let grh = side.current.as_ref().map_or([0; 40], rx::network_header);
    mem::copy_to_sges(
        qp.dev(),
        qp.pd_id(),
        side.taken.sges(),
        0,
        &grh,
        &mut side.cursor,
    )
}

/// Sends one packet of an answer.
fn send(qp: &Qp, side: &mut RecvSide, reply: Reply, hop: &mut Hop) -> Outcome {
    // Answers with data come in long rows, which the network device may hold back.
    if reply.payload.is_some() && !qp.io().receiver_may_send() {
        return Outcome::Wait(reply, Progress::Done);
    }
    let Some(destination) = side.destination.as_mut() else {
        return Outcome::Next(Input::Sent);
    };
    match tx::build(qp, destination, &reply.header()) {
        Ok(mut packet) => {
            if let Some(span) = reply.payload {
                let read =
                    mem::read_remote(qp.dev(), qp.pd_id(), qp.qpn(), &span, packet.payload_mut());
                if let Err(fault) = read {
                    return Outcome::Next(Input::Access(Err(fault)));
                }
            }
            tx::send(qp, destination, packet, hop);
            Outcome::Next(Input::Sent)
        }
        // As good as lost on the wire; the peer asks again.
        Err(Refused::NoRoute | Refused::BadAddress) => {
            qp.dev().count(Counter::SendErr);
            Outcome::Next(Input::Sent)
        }
        Err(Refused::NoMemory) => {
            qp.dev().count(Counter::SendErr);
            Outcome::Next(Input::Sent)
        }
    }
}

fn complete(
    qp: &Qp,
    side: &RecvSide,
    completion: &RecvCompletion,
    after: &mut After,
) -> Result<(), CqOverflow> {
    let mut wc = WorkCompletion::new(
        qp.token(),
        completion.wr_id,
        completion.status.get(),
        completion.opcode.get(),
    );
    wc.byte_len = completion.byte_len;
    wc.extra = match (completion.imm, completion.inv) {
        (Some(imm), _) => Extra::Imm(imm.0),
        (None, Some(key)) => Extra::Invalidated(key.get()),
        (None, None) => Extra::None,
    };
    wc.grh = completion.grh;
    wc.pkey_index = completion.pkey_index;
    if completion.grh {
        wc.src_qp = completion.src_qpn.get();
        if let Some(skb) = &side.current {
            wc.network_header = rx::network_kind(skb);
            wc.vlan = rx::vlan(skb);
        }
    } else {
        wc.src_qp = qp.peer_qpn();
    }
    push(qp, &wc, completion.solicited, after)
}

fn push(
    qp: &Qp,
    wc: &WorkCompletion,
    solicited: bool,
    after: &mut After,
) -> Result<(), CqOverflow> {
    match qp.recv_cq().push(qp.qpn(), wc, solicited, None) {
        Ok(armed) => {
            after.notify |= armed;
            Ok(())
        }
        Err(overflow) => Err(overflow),
    }
}

/// Completes what is posted with a flush error.
fn flush(qp: &Qp, side: &mut RecvSide, after: &mut After) -> Progress {
    side.engine.enter_error();
    side.drop_requests(qp);
    let mut overflow = false;
    if let Some(wr_id) = side.engine.flush() {
        overflow |= flush_one(qp, wr_id, after).is_err();
    }
    if let RecvQueue::Shared(_) = qp.rq() {
        // The other requests wait for other queue pairs. The consumer, who cannot know which one was the
        // last of this queue pair, is told (IBA 11.6.3.2).
        if !core::mem::replace(&mut side.told_last, true) {
            after.event(QpEvent::LastWqe);
        }
        return Progress::Done;
    }
    // A process may post as fast as this completes.
    for _ in 0..BUDGET {
        if overflow {
            return Progress::Done;
        }
        let wr_id = match qp.rq().take(&mut side.taken) {
            Ok(taken) => taken.wr_id,
            Err(RecvFault::Malformed { wr_id }) => wr_id,
            Err(RecvFault::Empty) => return Progress::Done,
        };
        overflow = flush_one(qp, wr_id, after).is_err();
    }
    Progress::More
}

fn flush_one(qp: &Qp, wr_id: u64, after: &mut After) -> Result<(), CqOverflow> {
    let wc = WorkCompletion::new(
        qp.token(),
        wr_id,
        WcStatus::WrFlushErr.get(),
        WcOpcode::Recv.get(),
    );
    push(qp, &wc, true, after)
}

fn take_counts(qp: &Qp, side: &mut RecvSide) {
    let counts = side.engine.take_counts();
    let dev = qp.dev();
    dev.count_n(Counter::DuplicateRequest, counts.duplicates.into());
    dev.count_n(Counter::OutOfSeqRequest, counts.out_of_sequence.into());
    dev.count_n(Counter::SendRnrErr, counts.rnr_naks.into());
    dev.count_n(Counter::RdmaRecvs, counts.received.into());
    dev.count_drops(DropReason::AfterNak, counts.after_nak);
    dev.count_drops(DropReason::NoReceive, counts.no_receive);
    dev.count_drops(DropReason::DatagramTooLong, counts.too_long);
    dev.count_drops(DropReason::UnreliableGap, counts.gaps);
    dev.count_drops(DropReason::UnreliableRequest, counts.not_allowed);
}
