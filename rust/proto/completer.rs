// SPDX-License-Identifier: GPL-2.0

//! The completer: what responses and the lack of them mean for a send queue.
//!
//! A response with a PSN acknowledges everything before that PSN, up to the first request that is
//! brought to its end by a response of its own (READ, atomics, FLUSH, ATOMIC WRITE) and has not
//! got it. If there is one, the response to it was lost: an *implied NAK*.
//!
//! | response to PSN p, `una <= p < top`  | then                                                   |
//! |---------------------------------------|--------------------------------------------------------|
//! | ACK                                   | p is acknowledged as well                              |
//! | READ response, p in the oldest READ   | store it at its offset; the last one ends the READ     |
//! | atomic ACK, p the oldest atomic       | store the old value; ends the atomic                   |
//! | NAK: sequence error                   | retry from p                                           |
//! | NAK: RNR                              | wait, then retry from p, on the account of RNR retries |
//! | NAK: anything else                    | the request of p fails                                 |
//! | any of them after an implied NAK      | retry from the missing response                        |
//! | no response before the deadline       | retry from `una`                                       |
//!
//! Responses outside `una <= p < top` answer nothing: they are duplicates, or forged, and change
//! nothing.
//!
//! A retry takes one of `retry_cnt` retries. Progress, that is, a later `una`, gives all of them
//! back. NAKs and gaps start at most one retry until there is progress or a timeout, so copies of a
//! NAK do not use up the retries.

#![forbid(unsafe_code)]

use super::aeth::{
    AethKind,
    NakCode, //
};
use super::num::Slot;
use super::opcode::{
    Kind,
    Service, //
};
use super::packet::PacketInfo;
use super::psn::Psn;
use super::run::is_positive;
use super::sender::{
    Mode,
    Sender, //
};
use super::status::{
    AccessFault,
    WcStatus, //
};
use super::time::{
    rnr_delay,
    Instant, //
};
use super::window::{
    gap,
    Class,
    EntryState,
    SendEntry, //
};
use super::wr::SendOp;
use core::ops::DerefMut;

/// What a response makes the caller do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RespStep {
    /// Copy the payload of the response into the buffers of a request, then call
    /// [`Sender::stored`].
    Store {
        /// The request.
        slot: Slot,
        /// Number of bytes of the message before the payload.
        offset: u32,
        /// Length of the payload.
        len: u32,
    },
    /// Store eight bytes, in host order, in the buffers of a request, then call
    /// [`Sender::stored`].
    StoreAtomic {
        /// The request.
        slot: Slot,
        /// The value.
        value: u64,
    },
    /// The response is finished with.
    Done,
}

/// A response, or a run of them, whose data is being stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pending {
    first: Psn,
    last: Psn,
    now: Instant,
}

/// Why requests are sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// A NAK, or a response after a missing one.
    Nak,
    /// Nothing was heard.
    Timeout,
}

impl<E: DerefMut<Target = [SendEntry]>> Sender<E> {
    /// Takes a response packet.
    pub fn on_response(&mut self, packet: &PacketInfo, now: Instant) -> RespStep {
        if self.mode != Mode::Running || self.cfg.service != Service::Rc {
            return RespStep::Done;
        }
        if gap(packet.psn, self.una) >= gap(self.top, self.una) {
            self.on_old_response(packet);
            return RespStep::Done;
        }

        match packet.opcode.kind() {
            Kind::Ack => {
                self.on_ack(packet, now);
                RespStep::Done
            }
            Kind::ReadResponse => self.on_read_response(packet, now),
            Kind::AtomicAck => self.on_atomic_ack(packet, now),
            Kind::Send
            | Kind::Write
            | Kind::ReadRequest
            | Kind::CompareSwap
            | Kind::FetchAdd
            | Kind::Flush
            | Kind::AtomicWrite
            | Kind::Cnp => RespStep::Done,
        }
    }

    /// Takes a response to a packet that is acknowledged, or was never sent.
    fn on_old_response(&mut self, packet: &PacketInfo) {
        self.counts.unexpected = self.counts.unexpected.wrapping_add(1);

        // A READ that the responder gives up half-way is refused with the PSN of its request, some
        // of whose responses have arrived.
        if packet.opcode.kind() != Kind::Ack {
            return;
        }
        let AethKind::Nak(code) = AethKind::decode(packet.aeth.syndrome) else {
            return;
        };
        let Some(status) = WcStatus::from_nak(code) else {
            return;
        };
        let una = self.una;
        let refused = self.entry(self.ack).is_some_and(|entry| {
            entry.state == EntryState::Active
                && entry.class == Class::Answered
                && gap(packet.psn, entry.first) < gap(una, entry.first)
        });
        if refused {
            self.fail(self.ack, status);
        }
    }

    fn on_ack(&mut self, packet: &PacketInfo, now: Instant) {
        let psn = packet.psn;

        match AethKind::decode(packet.aeth.syndrome) {
            AethKind::Ack { .. } => {
                if !self.acknowledge(psn.next(), now) {
                    self.retry(Cause::Nak);
                }
            }
            AethKind::RnrNak(code) => {
                self.counts.rnr_naks = self.counts.rnr_naks.wrapping_add(1);
                // A copy of the NAK that the queue waits for already, or that it has just waited
                // for: the packet was not sent since.
                if psn == self.una && self.nxt == self.una {
                    return;
                }
                if self.acknowledge(psn, now) {
                    self.wait_for_receiver(code, now);
                } else {
                    self.retry(Cause::Nak);
                }
            }
            AethKind::Nak(NakCode::PsnSequence) => {
                self.counts.seq_naks = self.counts.seq_naks.wrapping_add(1);
                self.acknowledge(psn, now);
                self.retry(Cause::Nak);
            }
            AethKind::Nak(code) => {
                if !self.acknowledge(psn, now) {
                    self.retry(Cause::Nak);
                } else if let Some(status) = WcStatus::from_nak(code) {
                    self.fail(self.ack, status);
                }
            }
            AethKind::Reserved => {}
        }
    }

    fn on_read_response(&mut self, packet: &PacketInfo, now: Instant) -> RespStep {
        if !self.reach(packet.psn, now) {
            return RespStep::Done;
        }
        let slot = self.slot_of(self.ack);
        let Some(entry) = self.entry(self.ack) else {
            return RespStep::Done;
        };
        let last = packet.psn == entry.last;
        let offset = entry.offset_of(packet.psn, self.cfg.mtu);
        let expected = match entry.wr.op {
            SendOp::Read { .. } if last => entry.wr.length.saturating_sub(offset),
            SendOp::Read { .. } => self.cfg.mtu.bytes(),
            SendOp::AtomicWrite { .. } | SendOp::Flush { .. } => 0,
            _ => return self.bad_response(),
        };

        // Whether it is the first or a middle one is not looked at: it depends on where the
        // responder was asked to start again.
        if !(is_positive(packet)
            && packet.payload_len == expected
            && packet.opcode.position().ends() == last)
        {
            return self.bad_response();
        }
        if expected == 0 {
            self.answered(packet.psn, packet.psn, now);
            return RespStep::Done;
        }
        self.pending = Some(Pending {
            first: packet.psn,
            last: packet.psn,
            now,
        });
        RespStep::Store {
            slot,
            offset,
            len: expected,
        }
    }

    /// Takes consecutive responses to one READ at once, each but the READ's last as long as the MTU.
    ///
    /// `packet` has the headers of one packet that would carry all of it: the opcode has the
    /// position of the whole in the answer, `psn` is that of the first packet, `payload_len` that of
    /// all payload. `None` if they cannot simply be stored; then nothing has changed, and they are
    /// to be given one by one.
    // The driver gives and takes single packets so far.
    #[allow(dead_code)]
    pub fn on_response_run(
        &mut self,
        packet: &PacketInfo,
        packets: u32,
        now: Instant,
    ) -> Option<RespStep> {
        if self.mode != Mode::Running || packet.psn != self.una {
            return None;
        }
        let entry = self.entry(self.ack)?;
        let rest = match (entry.state, entry.wr.op) {
            (EntryState::Active, SendOp::Read { .. }) => gap(entry.last, self.una).wrapping_add(1),
            _ => return None,
        };
        let ends = packets == rest;
        let offset = entry.offset_of(packet.psn, self.cfg.mtu);
        let expected = if ends {
            entry.wr.length.saturating_sub(offset)
        } else {
            packets.wrapping_shl(self.cfg.mtu.shift())
        };
        let fits = (1..=rest).contains(&packets)
            && packet.opcode.kind() == Kind::ReadResponse
            && is_positive(packet)
            && packet.payload_len == expected
            && expected != 0
            && packet.opcode.position().ends() == ends;
        if !fits {
            return None;
        }

        self.pending = Some(Pending {
            first: packet.psn,
            last: packet.psn.wrapping_add(packets.wrapping_sub(1)),
            now,
        });
        Some(RespStep::Store {
            slot: self.slot_of(self.ack),
            offset,
            len: expected,
        })
    }

    fn on_atomic_ack(&mut self, packet: &PacketInfo, now: Instant) -> RespStep {
        if !self.reach(packet.psn, now) {
            return RespStep::Done;
        }
        let atomic = self.entry(self.ack).is_some_and(|entry| {
            matches!(
                entry.wr.op,
                SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. }
            )
        });
        if !atomic || !is_positive(packet) {
            return self.bad_response();
        }

        self.pending = Some(Pending {
            first: packet.psn,
            last: packet.psn,
            now,
        });
        RespStep::StoreAtomic {
            slot: self.slot_of(self.ack),
            value: packet.orig,
        }
    }

    /// Takes the result of storing the data of the last response, or run of them.
    pub fn stored(&mut self, result: Result<(), AccessFault>) -> RespStep {
        if let Some(pending) = self.pending.take() {
            match result {
                Ok(()) => self.answered(pending.first, pending.last, pending.now),
                Err(
                    AccessFault::Key
                    | AccessFault::Pd
                    | AccessFault::Rights
                    | AccessFault::Bounds
                    | AccessFault::State
                    | AccessFault::Memory
                    | AccessFault::Alignment,
                ) => self.fail(self.ack, WcStatus::LocProtErr),
            }
        }
        RespStep::Done
    }

    /// Acknowledges everything before the response `psn`.
    ///
    /// Returns whether the response belongs to the oldest request now. If not, an earlier response
    /// is missing, or the queue broke.
    fn reach(&mut self, psn: Psn, now: Instant) -> bool {
        let reached = self.acknowledge(psn, now);
        if !reached {
            self.retry(Cause::Nak);
        }
        reached
    }

    /// Records that responses of the oldest request, from `first` to `last`, have been taken in.
    fn answered(&mut self, first: Psn, last: Psn, now: Instant) {
        let before = self.una;
        if first != before {
            return;
        }
        let Some(entry) = self.entry_mut(self.ack) else {
            return;
        };
        if entry.state != EntryState::Active {
            return;
        }
        if last == entry.last {
            entry.state = EntryState::Done;
            self.rd_out = self.rd_out.saturating_sub(1);
        }
        self.una = last.next();
        self.settle();
        self.progress(before, now);
    }

    /// The oldest request got a response that does not fit it.
    fn bad_response(&mut self) -> RespStep {
        self.fail(self.ack, WcStatus::BadRespErr);
        RespStep::Done
    }

    /// Acknowledges all packets before `end`.
    ///
    /// Returns whether all of them are; if not, a response is missing, or an earlier request
    /// failed.
    fn acknowledge(&mut self, end: Psn, now: Instant) -> bool {
        let before = self.una;

        while self.una != end {
            let una = self.una;
            let Some(entry) = self.entry_mut(self.ack) else {
                break;
            };
            if entry.state != EntryState::Active || entry.class != Class::Acked {
                break;
            }
            // The last packet itself included: a message takes at most 2^23 packets.
            let rest = gap(entry.last, una).wrapping_add(1);
            if gap(end, una) < rest {
                self.una = end;
            } else {
                entry.state = EntryState::Done;
                self.una = entry.last.next();
                self.settle();
            }
        }

        self.progress(before, now);
        self.una == end && self.mode == Mode::Running
    }

    /// Draws the conclusions of a later `una`, if it is later than `before`.
    fn progress(&mut self, before: Psn, now: Instant) {
        let gained = gap(self.una, before);
        if gained == 0 || self.mode != Mode::Running {
            return;
        }

        self.reset_retries();
        self.rnr_until = None;
        // Acknowledged while it waited to be sent again.
        if gap(self.nxt, before) < gained {
            self.nxt = self.una;
            self.settle();
        }
        if self.nxt == self.una {
            self.ack_deadline = None;
            self.ack_expected = false;
        } else {
            self.ack_deadline = self.cfg.ack_timeout.map(|timeout| now.after(timeout));
        }
    }

    /// Sends everything again from the oldest unacknowledged packet, or gives up.
    fn retry(&mut self, cause: Cause) {
        if self.mode != Mode::Running {
            return;
        }
        match cause {
            // With nothing sent since the queue went back, the retry is still to come.
            Cause::Nak if self.nak_retried || self.nxt == self.una => return,
            Cause::Nak => self.nak_retried = true,
            Cause::Timeout => self.nak_retried = false,
        }

        match self.retries_left.checked_sub(1) {
            Some(left) => {
                self.retries_left = left;
                self.counts.retries = self.counts.retries.wrapping_add(1);
                self.go_back();
            }
            None => {
                self.counts.retry_exceeded = self.counts.retry_exceeded.wrapping_add(1);
                self.fail(self.ack, WcStatus::RetryExcErr);
            }
        }
    }

    /// Waits until the receiver may be ready, or gives up.
    ///
    /// No transport timeout runs meanwhile: nothing is outstanding that could be answered.
    fn wait_for_receiver(&mut self, code: u8, now: Instant) {
        if self.use_rnr_retry() {
            // The peer answers, so the count of unanswered transmissions starts anew.
            self.retries_left = self.cfg.retry_cnt;
            self.nak_retried = false;
            self.go_back();
            self.rnr_until = Some(now.after(rnr_delay(code)));
        } else {
            self.counts.rnr_exceeded = self.counts.rnr_exceeded.wrapping_add(1);
            self.fail(self.ack, WcStatus::RnrRetryExcErr);
        }
    }

    /// Returns when [`Sender::on_timeout`] wants to be called, if at all.
    ///
    /// It changes with every call that takes `&mut self`.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.rnr_until.or(self.ack_deadline)
    }

    /// Looks at the time. Calls before the deadline have no effect.
    ///
    /// Afterwards there may be something to send, or the queue may have broken.
    pub fn on_timeout(&mut self, now: Instant) {
        if self.mode != Mode::Running {
            return;
        }
        if let Some(until) = self.rnr_until {
            if now >= until {
                self.rnr_until = None;
            }
            return;
        }
        if self.ack_deadline.is_some_and(|deadline| now >= deadline) {
            self.ack_deadline = None;
            self.retry(Cause::Timeout);
        }
    }
}
