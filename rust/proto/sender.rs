// SPDX-License-Identifier: GPL-2.0

//! The send queue of a queue pair: its window of work requests, shared by requester and completer.
//!
//! All calls are made by one worker at a time, under the send lock of the queue pair. This file
//! holds the state; `requester.rs` selects what to send next, `completer.rs` takes responses.
//!
//! # The window
//!
//! Work requests enter at the tail and leave at the head as completions, strictly in order. In
//! between, two cursors move over them:
//!
//! ```text
//!     head          ack               tx             tail
//!      |             |                 |               |
//!      v             v                 v               v
//!      [ Done | Done | Active | Active | Posted | ...  ]
//!        completed     on the wire       waiting
//!
//!   PSNs:             una       nxt        top
//!                      |         |          |
//!                      v         v          v
//!                      unacked, (re)sent    never sent
//! ```
//!
//! - Everything before `ack` is over; its completion waits to be taken.
//! - `tx` is the request that is sent next. A retry moves `tx` back to `ack` and `nxt` to `una`.
//! - `una` is the oldest packet that is not acknowledged, `nxt` the next one to (re)send, `top` the
//!   next one that has never been sent. Always `una <= nxt <= top` in circular order.
//!
//! A packet is a pure function of its request and its PSN: offset, opcode and addresses are
//! computed from the distance to the first PSN of the request. Nothing has to be rolled back when a
//! packet is sent again, and it carries the same bytes.
//!
//! The states of a request are listed in [`super::window`]. When a request that failed becomes the
//! oldest one the queue breaks: the request completes with its status, all others with a flush
//! error, and a fault tells the owner to move the queue pair to the error state.

#![forbid(unsafe_code)]

use super::completer::Pending;
use super::num::{
    Mtu,
    Qpn,
    Slot, //
};
use super::opcode::Service;
use super::psn::Psn;
use super::status::{
    QpFault,
    WcOpcode,
    WcStatus, //
};
use super::time::{
    Duration,
    Instant, //
};
use super::window::{
    Class,
    EntryState,
    SendCompletion,
    SendEntry, //
};
use super::wire::GSI_QKEY;
use super::wr::{
    SendOp,
    SendWr,
    UdTarget, //
};
use core::ops::DerefMut;

/// The number of packets that may be unacknowledged before a reliable sender waits.
///
/// One READ may reserve more sequence numbers than that, and is sent while the number before it is
/// below the limit.
pub const MAX_UNACKED_PSNS: u32 = 128;

/// The largest useful number of entries of a window.
///
/// Every request that is sent takes at least one sequence number, so more entries than
/// [`MAX_UNACKED_PSNS`] only hold requests that wait.
pub const MAX_WINDOW: usize = 256;

/// The longest message: IBA limits a message to 2^31 bytes.
const MAX_MESSAGE: u32 = 1 << 31;

/// The bit of a work request's queue key that stands for "use the queue pair's own".
const QKEY_OF_QP: u32 = 0x8000_0000;

/// The value of an RNR retry count that stands for "for ever".
const RNR_INFINITE: u8 = 7;

/// What a sender has to know about its queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderConfig {
    /// Transport service. The general services queue pair is a datagram one.
    pub service: Service,
    /// Path MTU; for datagrams that of the port.
    pub mtu: Mtu,
    /// Sequence number of the first packet.
    pub psn: Psn,
    /// Number of this queue pair.
    pub qpn: Qpn,
    /// Number of the connected peer; not used for datagrams.
    pub dest_qpn: Qpn,
    /// Partition key.
    pub pkey: u16,
    /// Queue key of this queue pair, for datagrams.
    pub qkey: u32,
    /// How many READs and atomics may be outstanding.
    pub max_rd_atomic: u8,
    /// How often a request is sent again without an answer, 0 to 7. Seven is no special value.
    pub retry_cnt: u8,
    /// How often a request is sent again after an RNR NAK, 0 to 6; 7 means without limit.
    pub rnr_retry: u8,
    /// How long an acknowledgement is waited for; `None` for ever.
    pub ack_timeout: Option<Duration>,
}

/// The window has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// What happened since the counts were last taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendCounts {
    /// SEND requests completed.
    pub sends: u32,
    /// RNR NAKs received.
    pub rnr_naks: u32,
    /// Sequence error NAKs received.
    pub seq_naks: u32,
    /// Transport retries started.
    pub retries: u32,
    /// Requests given up after the last transport retry.
    pub retry_exceeded: u32,
    /// Requests given up after the last RNR retry.
    pub rnr_exceeded: u32,
    /// Responses that answer nothing outstanding.
    pub unexpected: u32,
}

/// Whether the queue works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Running,
    /// Everything that is not done completes with a flush error.
    Broken,
}

/// The send queue of one queue pair: requester and completer.
pub struct Sender<E> {
    /// The window; a power of two of it is used.
    pub(super) entries: E,
    /// Index mask of the window.
    mask: u32,
    /// Cursors: free-running, masked to index the window.
    pub(super) head: u32,
    pub(super) ack: u32,
    pub(super) tx: u32,
    pub(super) tail: u32,
    /// Oldest unacknowledged, next to send, next never sent.
    pub(super) una: Psn,
    pub(super) nxt: Psn,
    pub(super) top: Psn,
    pub(super) mode: Mode,
    /// No new request is started.
    pub(super) draining: bool,
    /// READs, atomics and their like that are outstanding.
    pub(super) rd_out: u8,
    /// Transport retries left until there is progress.
    pub(super) retries_left: u8,
    /// RNR retries left until there is progress.
    pub(super) rnr_left: u8,
    /// A NAK, or a gap in the responses, has caused a retry since the last progress or timeout.
    pub(super) nak_retried: bool,
    /// A packet that asks for an acknowledgement is on its way.
    pub(super) ack_expected: bool,
    /// Packets sent since the last one that asked for an acknowledgement.
    pub(super) unrequested: u32,
    /// When the lack of an answer becomes a timeout.
    pub(super) ack_deadline: Option<Instant>,
    /// Until when nothing is sent after an RNR NAK.
    pub(super) rnr_until: Option<Instant>,
    /// The response whose data is being stored.
    pub(super) pending: Option<Pending>,
    pub(super) fault: Option<QpFault>,
    pub(super) counts: SendCounts,
    pub(super) cfg: SenderConfig,
}

impl<E: DerefMut<Target = [SendEntry]>> Sender<E> {
    /// Makes an empty send queue.
    ///
    /// The largest power of two of `entries` is used, see [`Sender::capacity`].
    pub fn new(cfg: SenderConfig, entries: E) -> Self {
        let capacity = match entries.len().min(MAX_WINDOW) {
            0 => 0,
            len => 1u32.wrapping_shl(len.ilog2()),
        };

        Self {
            entries,
            mask: capacity.wrapping_sub(1),
            head: 0,
            ack: 0,
            tx: 0,
            tail: 0,
            una: cfg.psn,
            nxt: cfg.psn,
            top: cfg.psn,
            mode: Mode::Running,
            draining: false,
            rd_out: 0,
            retries_left: cfg.retry_cnt,
            rnr_left: cfg.rnr_retry,
            nak_retried: false,
            ack_expected: false,
            unrequested: 0,
            ack_deadline: None,
            rnr_until: None,
            pending: None,
            fault: None,
            counts: SendCounts::default(),
            cfg,
        }
    }

    /// Takes over new attributes.
    ///
    /// Retry counts start anew. The sequence numbers change if `cfg.psn` differs from the one known
    /// so far, which verbs only permit before the first request.
    pub fn reconfigure(&mut self, cfg: SenderConfig) {
        if cfg.psn != self.cfg.psn && self.is_empty() {
            self.start_at(cfg.psn);
        }
        self.retries_left = cfg.retry_cnt;
        self.rnr_left = cfg.rnr_retry;
        self.cfg = cfg;
    }

    /// Returns to the state after [`Sender::new`]. What is in the window vanishes.
    pub fn reset(&mut self) {
        self.head = self.tail;
        self.start_at(self.cfg.psn);
        self.draining = false;
        self.fault = None;
    }

    /// Leaves the error state, as on the transition from SQE to RTS. Sequence numbers go on.
    ///
    /// Returns whether it did: all requests must have completed.
    pub fn recover(&mut self) -> bool {
        if !self.is_empty() {
            return false;
        }
        self.start_at(self.top);
        self.fault = None;
        true
    }

    /// Starts an empty window at `psn`.
    fn start_at(&mut self, psn: Psn) {
        self.ack = self.tail;
        self.tx = self.tail;
        self.una = psn;
        self.nxt = psn;
        self.top = psn;
        self.mode = Mode::Running;
        self.rd_out = 0;
        self.unrequested = 0;
        self.stop_waiting();
        self.reset_retries();
    }

    /// Returns how many requests the window can hold.
    pub fn capacity(&self) -> u32 {
        self.mask.wrapping_add(1)
    }

    /// Returns how many requests are in the window.
    pub fn len(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }

    /// Returns how many requests can be added.
    pub fn room(&self) -> u32 {
        self.capacity().saturating_sub(self.len())
    }

    /// Tells whether there are no requests, and no completions to take.
    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Returns a request in the window.
    pub fn request(&self, slot: Slot) -> Option<&SendWr> {
        self.entries.get(slot.index()).map(|entry| &entry.wr)
    }

    /// Returns the sequence number of the next packet that was never sent.
    pub fn sq_psn(&self) -> Psn {
        self.top
    }

    /// Takes what was counted since the last call.
    pub fn take_counts(&mut self) -> SendCounts {
        core::mem::take(&mut self.counts)
    }

    /// Takes the reason why the queue broke, once. The owner moves the queue pair to the error
    /// state, or to the send queue error state if it is not a reliable one.
    pub fn take_fault(&mut self) -> Option<QpFault> {
        self.fault.take()
    }

    /// Starts or ends draining (the SQD state): requests that were begun go on, others wait.
    pub fn set_draining(&mut self, draining: bool) {
        self.draining = draining;
    }

    /// Tells whether no request has been begun that is not over, and all completions were taken.
    pub fn is_drained(&self) -> bool {
        let begun = self
            .entry(self.tx)
            .is_some_and(|entry| entry.state == EntryState::Active);

        self.head == self.ack && self.ack == self.tx && !begun
    }

    /// Adds a request at the tail.
    ///
    /// A request that the transport service cannot execute is taken as well and fails in its turn.
    ///
    /// # Errors
    ///
    /// [`Full`] if there is no room.
    pub fn push(&mut self, wr: SendWr) -> Result<Slot, Full> {
        let (state, status) = match self.admit(&wr) {
            Ok(state) => (state, WcStatus::Success),
            Err(status) => (EntryState::Failed, status),
        };
        self.push_entry(SendEntry {
            wr,
            state,
            class: Class::of(wr.op),
            status,
            ..SendEntry::EMPTY
        })
    }

    /// Adds a request that could not be read. In its turn it fails with `status`.
    ///
    /// # Errors
    ///
    /// [`Full`] if there is no room.
    pub fn push_bad(&mut self, wr_id: u64, status: WcStatus) -> Result<Slot, Full> {
        let mut entry = SendEntry::EMPTY;
        entry.wr.wr_id = wr_id;
        entry.state = EntryState::Failed;
        entry.status = status;
        self.push_entry(entry)
    }

    fn push_entry(&mut self, entry: SendEntry) -> Result<Slot, Full> {
        if self.room() == 0 {
            return Err(Full);
        }
        let slot = self.slot_of(self.tail);
        *self.entries.get_mut(slot.index()).ok_or(Full)? = entry;
        self.tail = self.tail.wrapping_add(1);
        if entry.state != EntryState::Posted {
            self.settle();
        }
        Ok(slot)
    }

    /// Decides what a new request begins as.
    fn admit(&self, wr: &SendWr) -> Result<EntryState, WcStatus> {
        let connected = match wr.op {
            SendOp::Send | SendOp::SendImm(_) => false,
            SendOp::Write { .. } | SendOp::WriteImm { .. } | SendOp::BindMw { .. } => true,
            SendOp::SendInv(_)
            | SendOp::Read { .. }
            | SendOp::CompareSwap { .. }
            | SendOp::FetchAdd { .. }
            | SendOp::AtomicWrite { .. }
            | SendOp::Flush { .. }
            | SendOp::RegMr { .. }
            | SendOp::LocalInv(_) => {
                if self.cfg.service != Service::Rc {
                    return Err(WcStatus::LocQpOpErr);
                }
                true
            }
        };

        match self.cfg.service {
            Service::Rc | Service::Uc => {}
            Service::Ud if connected => return Err(WcStatus::LocQpOpErr),
            // C10-93.1.1: no packet is emitted for a datagram longer than the MTU of the port, and
            // no error is generated for it.
            Service::Ud if wr.length > self.cfg.mtu.bytes() => return Ok(EntryState::Done),
            Service::Ud => {}
            Service::Cnp => return Err(WcStatus::LocQpOpErr),
        }

        if wr.length > MAX_MESSAGE {
            return Err(WcStatus::LocLenErr);
        }
        // Without a single resource at the peer the request would wait for ever.
        if wr.op.needs_rd_atomic() && self.cfg.max_rd_atomic == 0 {
            return Err(WcStatus::LocQpOpErr);
        }
        Ok(EntryState::Posted)
    }

    /// Takes the next completion. There is one for every request, in the order of posting.
    pub fn pop_completion(&mut self) -> Option<SendCompletion> {
        if self.head == self.tail {
            return None;
        }

        let over = self.head != self.ack;
        if !over && self.mode == Mode::Running {
            return None;
        }

        let slot = self.slot_of(self.head);
        let entry = self.entries.get(slot.index())?;
        let status = if over {
            entry.status
        } else {
            WcStatus::WrFlushErr
        };
        let success = status == WcStatus::Success;
        let completion = SendCompletion {
            slot,
            wr_id: entry.wr.wr_id,
            status,
            opcode: entry.wr.op.wc_opcode(),
            byte_len: if success { entry.wr.length } else { 0 },
            report: entry.wr.flags.signaled || !success,
        };

        self.head = self.head.wrapping_add(1);
        if !over {
            self.ack = self.head;
            self.tx = self.head;
        }
        if completion.opcode == WcOpcode::Send && success {
            self.counts.sends = self.counts.sends.wrapping_add(1);
        }
        Some(completion)
    }

    /// Enters the error state: what is not done completes with a flush error from now on.
    pub fn enter_error(&mut self) {
        self.mode = Mode::Broken;
        self.stop_waiting();
    }

    /// Tells whether the queue only flushes.
    #[cfg(not(MODULE))]
    pub fn is_broken(&self) -> bool {
        self.mode == Mode::Broken
    }

    /// Returns the place of a cursor in the window.
    pub(super) fn slot_of(&self, cursor: u32) -> Slot {
        // The mask is below `MAX_WINDOW`.
        Slot((cursor & self.mask) as u16)
    }

    pub(super) fn entry(&self, cursor: u32) -> Option<&SendEntry> {
        if cursor == self.tail {
            return None;
        }
        self.entries.get(self.slot_of(cursor).index())
    }

    pub(super) fn entry_mut(&mut self, cursor: u32) -> Option<&mut SendEntry> {
        if cursor == self.tail {
            return None;
        }
        let slot = self.slot_of(cursor);
        self.entries.get_mut(slot.index())
    }

    /// Moves the cursors over requests that are over, and breaks the queue at one that failed.
    ///
    /// Called after the state of a request changed.
    pub(super) fn settle(&mut self) {
        while let Some(entry) = self.entry(self.ack) {
            match entry.state {
                EntryState::Done => self.ack = self.ack.wrapping_add(1),
                EntryState::Failed => {
                    let fault = fault_of(entry.status);
                    self.ack = self.ack.wrapping_add(1);
                    self.fault = Some(fault);
                    self.enter_error();
                    return;
                }
                EntryState::Posted | EntryState::Active => break,
            }
        }

        // Both are within the window, so their distance from the head tells which is first.
        if self.tx.wrapping_sub(self.head) < self.ack.wrapping_sub(self.head) {
            self.tx = self.ack;
        }
        while let Some(entry) = self.entry(self.tx) {
            if entry.state != EntryState::Done {
                break;
            }
            self.tx = self.tx.wrapping_add(1);
        }
    }

    /// Lets the request under a cursor fail once all earlier ones are over.
    pub(super) fn fail(&mut self, cursor: u32, status: WcStatus) {
        if self.mode != Mode::Running {
            return;
        }
        if let Some(entry) = self.entry_mut(cursor) {
            entry.state = EntryState::Failed;
            entry.status = status;
            self.settle();
        }
    }

    /// Returns the queue key to put in a datagram.
    pub(super) fn qkey_for(&self, ud: &UdTarget) -> u32 {
        if self.cfg.qpn == Qpn::GSI {
            GSI_QKEY
        } else if ud.qkey & QKEY_OF_QP != 0 {
            // A controlled queue key in a request stands for that of the queue pair, which only a
            // privileged consumer can have set.
            self.cfg.qkey
        } else {
            ud.qkey
        }
    }

    /// Starts the retry counts anew.
    pub(super) fn reset_retries(&mut self) {
        self.retries_left = self.cfg.retry_cnt;
        self.rnr_left = self.cfg.rnr_retry;
        self.nak_retried = false;
    }

    /// Takes one RNR retry. Returns whether there was one.
    pub(super) fn use_rnr_retry(&mut self) -> bool {
        if self.cfg.rnr_retry >= RNR_INFINITE {
            return true;
        }
        match self.rnr_left.checked_sub(1) {
            Some(left) => {
                self.rnr_left = left;
                true
            }
            None => false,
        }
    }

    /// Forgets deadlines and the response in progress.
    fn stop_waiting(&mut self) {
        self.ack_deadline = None;
        self.ack_expected = false;
        self.rnr_until = None;
        self.pending = None;
    }
}

/// Returns what a request that ended with `status` means for its queue pair.
const fn fault_of(status: WcStatus) -> QpFault {
    match status {
        WcStatus::LocLenErr => QpFault::LocalLength,
        WcStatus::LocProtErr | WcStatus::LocAccessErr => QpFault::LocalProtection,
        WcStatus::BadRespErr => QpFault::BadResponse,
        WcStatus::RemInvReqErr
        | WcStatus::RemAccessErr
        | WcStatus::RemOpErr
        | WcStatus::RemAbortErr
        | WcStatus::RemInvRdReqErr => QpFault::Remote,
        WcStatus::RetryExcErr | WcStatus::RnrRetryExcErr | WcStatus::RespTimeoutErr => {
            QpFault::RetryExceeded
        }
        WcStatus::Success
        | WcStatus::LocQpOpErr
        | WcStatus::LocEecOpErr
        | WcStatus::WrFlushErr
        | WcStatus::MwBindErr
        | WcStatus::LocRddViolErr
        | WcStatus::InvEecnErr
        | WcStatus::InvEecStateErr
        | WcStatus::FatalErr
        | WcStatus::GeneralErr => QpFault::LocalOp,
    }
}

#[cfg(test)]
mod tests;
