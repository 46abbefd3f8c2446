// SPDX-License-Identifier: GPL-2.0

//! The send worker of a queue pair: carries out what the requester and the completer decide.
//!
//! Runs in the device's workqueue only. Posting requests, responses that arrive, the timer and the network
//! device that gives transmit credits back kick it; none of them does any of its work.

#![forbid(unsafe_code)]

use super::{
    cq::Cq,
    hop::Hop,
    mem::{
        self,
        Cursor, //
    },
    qp::Qp,
    rx,
    sq::Engine,
    sq_window::Window,
    task::Progress,
    tx::{
        self,
        Destination,
        LastDatagram,
        Refused, //
    }, //
};
use crate::{
    abstractions::{
        net::{
            RxSkb,
            SkbList, //
        },
        rdma::wc::WorkCompletion,
        sync::RcuArc, //
    },
    proto::{
        bind::BindReq,
        completer::RespStep,
        counters::{
            Counter,
            DropReason, //
        },
        memkey::Access,
        num::{
            Key,
            Slot, //
        },
        packet::PacketInfo,
        qpstate::{
            Engine as EngineState,
            QpState, //
        },
        requester::{
            PreparedTx,
            TxStep, //
        },
        sqrule::Pattern,
        status::{
            AccessFault,
            QpEvent,
            WcStatus, //
        },
        time::{
            Duration,
            Instant, //
        },
        window::SendCompletion,
        wr::SendOp, //
    }, //
};
use kernel::{
    alloc::KVVec,
    prelude::*, //
};

/// Packets, responses and completions that one run of the worker handles before it lets others run.
const BUDGET: u32 = 1024;

/// Packets that are sent between two looks at the clock and at the responses.
const BATCH: u32 = 16;

/// How long to wait when there is no memory for a packet, or no room for it in a queue of the host.
const NO_ROOM_DELAY: Duration = Duration::from_millis(1);

/// What the send worker owns.
pub(crate) struct SendSide {
    /// Requester and completer.
    pub(crate) engine: Engine,
    /// The driver's side of the window.
    pub(crate) window: Window,
    /// Where packets go to; none before the queue pair has an address.
    pub(crate) destination: Option<Destination>,
    /// Where the last datagram went to.
    last_datagram: Option<LastDatagram>,
    /// Responses that were taken from the queue of packets.
    responses: SkbList<RxSkb>,
    /// Room for one slot of a user send queue.
    scratch: KVVec<u8>,
    /// Where the last packet of a message ended in its list of buffers.
    cursor: Cursor,
    /// The same for responses.
    store_cursor: Cursor,
    /// Tell the consumer when the send queue has drained.
    pub(crate) notify_drained: bool,
    /// When to look again although nobody kicks.
    retry_at: Option<Instant>,
}

impl SendSide {
    /// Allocates a send side around an engine.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(engine: Engine, window: Window, slot_size: usize) -> Result<Self> {
        Ok(Self {
            engine,
            window,
            destination: None,
            last_datagram: None,
            responses: SkbList::new(),
            scratch: KVVec::from_elem(0, slot_size, GFP_KERNEL)?,
            cursor: Cursor::new(),
            store_cursor: Cursor::new(),
            notify_drained: false,
            retry_at: None,
        })
    }

    /// Frees the responses that wait.
    fn drop_responses(&mut self, qp: &Qp) {
        self.responses = SkbList::new();
        drop(qp.io().responses.drain());
    }

    /// Forgets all requests, as a queue pair in the reset state does.
    pub(crate) fn reset(&mut self, qp: &Qp) {
        while let Some(done) = self.engine.pop_completion() {
            self.window.clear(done.slot);
        }
        self.engine.enter_error();
        while let Some(done) = self.engine.pop_completion() {
            self.window.clear(done.slot);
        }
        self.drop_responses(qp);
        qp.sq().clear();
        self.engine.reset();
        self.destination = None;
        self.last_datagram = None;
        self.cursor.clear();
        self.store_cursor.clear();
        self.notify_drained = false;
        self.retry_at = None;
    }
}

/// What is left to do when the lock has been released.
#[derive(Default)]
struct After {
    notify: bool,
    event: Option<QpEvent>,
    kick_receiver: bool,
}

/// One run of the worker. `hop` takes a worker of this device that is to run next.
pub(crate) fn run(qp: &RcuArc<Qp>, hop: &mut Hop) -> Progress {
    let mut after = After::default();
    let progress = {
        let mut side = qp.send_side().lock();
        if qp.io().is_closed() {
            return Progress::Done;
        }
        let progress = work(qp, &mut side, hop, &mut after);
        arm_timer(qp, &side);
        progress
    };
    if after.notify {
        qp.send_cq().notify();
    }
    if after.kick_receiver {
        Qp::kick_recv(qp);
    }
    if let Some(event) = after.event {
        qp.event(event);
    }
    progress
}

fn work(qp: &Qp, side: &mut SendSide, hop: &mut Hop, after: &mut After) -> Progress {
    let mut budget = BUDGET;
    side.retry_at = None;
    loop {
        let now = tx::now();
        let state = qp.state();
        match state.send_engine() {
            EngineState::Stopped => {
                side.drop_responses(qp);
                return Progress::Done;
            }
            EngineState::Flush => {
                side.drop_responses(qp);
                side.engine.enter_error();
            }
            EngineState::Run | EngineState::Drain => {}
        }
        if side.engine.next_deadline().is_some_and(|at| at <= now) {
            side.engine.on_timeout(now);
        }

        let taken = take_responses(qp, side, now);
        complete(qp, side, after);
        fetch(qp, side);
        let full = side.engine.room() == 0;
        let (sent, mut blocked) = transmit(qp, side, hop, now);
        blocked |= !flush(qp, side, hop, now);
        let completed = complete(qp, side, after);
        settle_state(qp, side, state, after);
        take_counts(qp, side);

        // Whatever comes from outside kicks the worker. What this pass has left undone does not.
        let more = taken == BATCH
            || (sent == BATCH && !blocked)
            || (full && completed != 0)
            || qp.state() != state;
        if !more {
            return Progress::Done;
        }
        let done = taken.wrapping_add(sent).wrapping_add(completed).max(1);
        budget = match budget.checked_sub(done) {
            Some(rest) if !qp.io().is_wanted() => rest,
            _ => return Progress::More,
        };
    }
}

/// Moves requests from the send queue to the window, as far as there is room.
fn fetch(qp: &Qp, side: &mut SendSide) {
    if let Some(pattern) = qp.sq().broken_rule() {
        warn_of_broken_rule(qp, &pattern);
    }
    if side.engine.room() == 0 {
        return;
    }
    qp.sq().fetch(
        qp.param(),
        &mut side.engine,
        &mut side.window,
        &mut side.scratch,
        qp.handles(),
    );
}

/// Says that a consumer posts into space that no polled completion has proven to be free. Here it works; with a device that
/// frees space later the queue runs over, or the consumer waits for ever.
fn warn_of_broken_rule(qp: &Qp, seen: &Pattern) {
    pr_warn!(
        "queue pair {}: its consumer posts to the send queue ({} entries) without a polled completion that proves space: \
         {} of {} requests signaled, at most {} in a row not\n",
        qp.qpn().get(),
        seen.depth,
        seen.signaled,
        seen.posted,
        seen.longest_unsignaled,
    );
}

/// Gives the responses that have arrived to the completer.
fn take_responses(qp: &Qp, side: &mut SendSide, now: Instant) -> u32 {
    let mut taken = 0u32;
    while taken < BATCH {
        if side.responses.is_empty() {
            side.responses = qp.io().responses.drain();
        }
        let Some(skb) = side.responses.pop() else {
            break;
        };
        taken = taken.wrapping_add(1);
        let (packet, payload) = match rx::parsed(&skb) {
            Ok(parsed) => parsed,
            Err(reason) => {
                qp.dev().count_drop(reason);
                continue;
            }
        };
        let mut step = side.engine.on_response(&packet, now);
        loop {
            let result = match step {
                RespStep::Store { slot, offset, .. } => store(qp, side, slot, offset, payload),
                RespStep::StoreAtomic { slot, value } => {
                    store(qp, side, slot, 0, &value.to_ne_bytes())
                }
                RespStep::Done => break,
            };
            step = side.engine.stored(result);
        }
        skb.consume();
    }
    taken
}

/// Copies data of a response to the buffers of its request.
fn store(
    qp: &Qp,
    side: &mut SendSide,
    slot: Slot,
    offset: u32,
    data: &[u8],
) -> Result<(), AccessFault> {
    let Some(wr) = side.engine.request(slot) else {
        return Err(AccessFault::Key);
    };
    mem::copy_to_sges(
        qp.dev(),
        qp.pd_id(),
        side.window.sges(slot, wr.num_sge),
        offset,
        data,
        &mut side.store_cursor,
    )
}

/// Sends what may be sent. Returns how much was, and whether the network device must free credits first.
fn transmit(qp: &Qp, side: &mut SendSide, hop: &mut Hop, now: Instant) -> (u32, bool) {
    let mut sent = 0u32;
    while sent < BATCH {
        match side.engine.poll_tx(now) {
            TxStep::Idle => break,
            TxStep::Local { slot, op } => {
                let result = execute(qp, side, slot, op);
                side.engine.local_done(slot, result);
            }
            TxStep::Packet(prepared) => {
                if !qp.io().sender_may_send() {
                    return (sent, true);
                }
                if !send_packet(qp, side, &prepared, hop, now) {
                    side.retry_at = Some(now.after(NO_ROOM_DELAY));
                    return (sent, true);
                }
            }
        }
        sent = sent.wrapping_add(1);
    }
    (sent, false)
}

/// Hands the packets that were gathered to the network stack. Returns whether there was room for all that are to arrive.
fn flush(qp: &Qp, side: &mut SendSide, hop: &mut Hop, now: Instant) -> bool {
    tx::flush_datagrams(qp, &mut side.last_datagram, hop);
    let Some(to) = side.destination.as_mut() else {
        return true;
    };
    tx::flush(qp, to, hop);
    match to.take_refused() {
        Some(psn) => {
            side.engine.on_refused(psn);
            side.retry_at = Some(now.after(NO_ROOM_DELAY));
            false
        }
        None => true,
    }
}

/// Builds and sends one packet. False if there is no memory for it now.
fn send_packet(
    qp: &Qp,
    side: &mut SendSide,
    prepared: &PreparedTx,
    hop: &mut Hop,
    now: Instant,
) -> bool {
    let slot = prepared.slot;
    let Some(header) = side.engine.header(prepared, 0) else {
        side.engine.tx_fault(slot, WcStatus::LocQpOpErr);
        return true;
    };
    let built = destination(qp, side, slot, hop).and_then(|to| tx::build(qp, to, &header));
    match built {
        Ok(mut packet) => {
            let gathered = gather(qp, side, prepared, &header, packet.payload_mut());
            match (gathered, destination(qp, side, slot, hop)) {
                (Ok(()), Ok(to)) => {
                    tx::send(qp, to, packet, hop);
                    side.engine.commit_tx(prepared, now);
                }
                (Ok(()), Err(_)) => side.engine.tx_fault(slot, WcStatus::LocQpOpErr),
                (Err(status), _) => side.engine.tx_fault(slot, status),
            }
            true
        }
        // For the peer this is a packet that was lost: the retries recover it, or find out that they cannot.
        Err(Refused::NoRoute) => {
            qp.dev().count(Counter::SendErr);
            side.engine.commit_tx(prepared, now);
            true
        }
        Err(Refused::BadAddress) => {
            side.engine.tx_fault(slot, WcStatus::LocQpOpErr);
            true
        }
        Err(Refused::NoMemory) => false,
    }
}

/// Returns where the packets of a request go to.
fn destination<'a>(
    qp: &Qp,
    side: &'a mut SendSide,
    slot: Slot,
    hop: &mut Hop,
) -> Result<&'a mut Destination, Refused> {
    match side.window.av(slot) {
        Some(av) if av.network_type == 0 => Err(Refused::BadAddress),
        Some(av) => tx::datagram(qp, &mut side.last_datagram, av, hop),
        None => side.destination.as_mut().ok_or(Refused::NoRoute),
    }
}

/// Copies the payload of a packet from the buffers of its request.
fn gather(
    qp: &Qp,
    side: &mut SendSide,
    prepared: &PreparedTx,
    header: &PacketInfo,
    to: &mut [u8],
) -> Result<(), WcStatus> {
    if header.payload_len == 0 {
        return Ok(());
    }
    let Some(wr) = side.engine.request(prepared.slot) else {
        return Err(WcStatus::LocQpOpErr);
    };
    if wr.flags.inline {
        let ring_slot = side.window.ring_slot(prepared.slot);
        return if qp.sq().copy_inline(ring_slot, prepared.offset, to) {
            Ok(())
        } else {
            Err(WcStatus::LocQpOpErr)
        };
    }
    mem::copy_from_sges(
        qp.dev(),
        qp.pd_id(),
        side.window.sges(prepared.slot, wr.num_sge),
        prepared.offset,
        to,
        &mut side.cursor,
    )
    .map_err(|_| WcStatus::LocProtErr)
}

/// Executes a request that needs no packets.
fn execute(qp: &Qp, side: &mut SendSide, slot: Slot, op: SendOp) -> Result<(), WcStatus> {
    match op {
        SendOp::RegMr { key, access } => match side.window.take_registration(slot) {
            Some(registration) => registration
                .register(qp.pd_id(), key, Access::from_bits(access))
                .map_err(|_| WcStatus::LocQpOpErr),
            None => Err(WcStatus::LocQpOpErr),
        },
        SendOp::LocalInv(key) => invalidate(qp, key),
        SendOp::BindMw {
            mw,
            mr,
            new_key,
            addr,
            len,
            access,
        } => {
            let req = BindReq {
                key: mw,
                variant: new_key.variant(),
                pd: qp.pd_id(),
                qpn: qp.qpn(),
                addr,
                len,
                access: Access::from_bits(access),
            };
            qp.dev()
                .keys
                .bind(mr, &req)
                .map_err(|_| WcStatus::MwBindErr)
        }
        _ => Err(WcStatus::LocQpOpErr),
    }
}

fn invalidate(qp: &Qp, key: Key) -> Result<(), WcStatus> {
    mem::invalidate(qp.dev(), qp.pd_id(), qp.qpn(), key).map_err(|_| WcStatus::LocQpOpErr)
}

/// Hands completions to the completion queue and frees what their requests held. Returns how many.
fn complete(qp: &Qp, side: &mut SendSide, after: &mut After) -> u32 {
    let mut done = 0u32;
    while let Some(completion) = side.engine.pop_completion() {
        done = done.wrapping_add(1);
        side.window.clear(completion.slot);
        // Before the completion is visible: whoever sees it may use the place at once.
        qp.sq().release();
        if completion.report {
            report(qp, qp.send_cq(), &completion, after);
        }
    }
    done
}

fn report(qp: &Qp, cq: &RcuArc<Cq>, completion: &SendCompletion, after: &mut After) {
    let mut wc = WorkCompletion::new(
        qp.token(),
        completion.wr_id,
        completion.status.get(),
        completion.opcode.get(),
    );
    wc.byte_len = completion.byte_len;
    let solicited = completion.status != WcStatus::Success;
    match cq.push(qp.qpn(), &wc, solicited, qp.sq().proof()) {
        Ok(armed) => after.notify |= armed,
        Err(_) => {
            // The queue itself has reported the overflow.
            if qp.fail(QpState::Err) {
                after.event = Some(QpEvent::Fatal);
                after.kick_receiver = true;
            }
        }
    }
}

/// Moves the queue pair to the state that a failure, or the end of draining, leads to.
fn settle_state(qp: &Qp, side: &mut SendSide, state: QpState, after: &mut After) {
    if side.engine.take_fault().is_some() {
        let next = qp.qp_type().after_send_fault();
        if qp.fail(next) && next == QpState::Err {
            after.kick_receiver = true;
        }
    }
    if state == QpState::Sqd && side.notify_drained && side.engine.is_drained() {
        side.notify_drained = false;
        after.event = Some(QpEvent::SqDrained);
    }
}

fn take_counts(qp: &Qp, side: &mut SendSide) {
    let counts = side.engine.take_counts();
    let dev = qp.dev();
    dev.count_n(Counter::RdmaSends, counts.sends.into());
    dev.count_n(Counter::RcvdRnrErr, counts.rnr_naks.into());
    dev.count_n(Counter::RcvdSeqErr, counts.seq_naks.into());
    dev.count_n(Counter::CompleterRetryErr, counts.retries.into());
    dev.count_n(Counter::RetryExceededErr, counts.retry_exceeded.into());
    dev.count_n(Counter::RetryRnrExceededErr, counts.rnr_exceeded.into());
    dev.count_drops(DropReason::UnexpectedResponse, counts.unexpected);
}

/// Makes sure that the worker runs at the next deadline, or a little before.
///
/// A timer that is set for an earlier time stays: most deadlines move away before they pass, and the worker
/// finds out when it runs too early. It does run too early: the timer counts ticks, which do not keep step with
/// the clock of the deadlines. So whether the timer has fired is asked of the timer, not of the clock.
fn arm_timer(qp: &RcuArc<Qp>, side: &SendSide) {
    let at = match (side.engine.next_deadline(), side.retry_at) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    if let Some(at) = at {
        Qp::arm_timer(qp, at.since(tx::now()));
    }
}
