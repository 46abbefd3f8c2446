// SPDX-License-Identifier: GPL-2.0

//! The requester: what a send queue sends next.
//!
//! ```text
//!              poll_run()                                 commit_tx()
//!   tx cursor ------------> Packet(PreparedTx) --build--> cursors move, timer starts
//!              |                     |
//!              |                     '- dropped: offered again, nothing happened
//!              |----------> Local{..} ----execute----> local_done()
//!              '----------> Idle: nothing may be sent now
//! ```
//!
//! Idle are: an empty or broken queue; an RNR wait; a full window ([`MAX_UNACKED_PSNS`]); a fence
//! with READs or atomics outstanding; no resource left for a READ or atomic; a local invalidate
//! that is not the oldest request; a new request while draining; a failed request.
//!
//! A [`PreparedTx`] describes a run of consecutive packets of one message, so that the caller may
//! build many packets in one go. [`Sender::poll_tx`] asks for runs of one.

#![forbid(unsafe_code)]

use super::num::Slot;
use super::opcode::{
    Opcode,
    Position,
    SendTail,
    Service, //
};
use super::packet::{
    AtomicEth,
    Deth,
    Feth,
    PacketInfo,
    Reth, //
};
use super::psn::Psn;
use super::sender::{
    Mode,
    Sender,
    MAX_UNACKED_PSNS, //
};
use super::status::WcStatus;
use super::time::Instant;
use super::window::{
    gap,
    Class,
    EntryState,
    SendEntry, //
};
use super::wr::SendOp;
use core::ops::DerefMut;

/// An acknowledgement is asked for with at least one of this many consecutive packets.
const ACK_INTERVAL: u32 = 64;

/// Length of the operand of an ATOMIC WRITE.
const ATOMIC_WRITE_LEN: u32 = 8;

/// What a send queue wants done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxStep {
    /// Send packets, then call [`Sender::commit_tx`].
    Packet(PreparedTx),
    /// Execute a request without packets, then call [`Sender::local_done`].
    Local {
        /// The request.
        slot: Slot,
        /// What it asks for.
        op: SendOp,
    },
    /// Nothing can be done before a response arrives, a deadline passes or a request is posted.
    Idle,
}

/// A run of consecutive packets of one message that may be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreparedTx {
    /// The request.
    pub slot: Slot,
    /// Sequence number of the first packet of the run.
    pub psn: Psn,
    /// Number of packets: at least 1.
    pub packets: u32,
    /// Number of bytes of the message before the payload of the run.
    pub offset: u32,
    /// Length of the payload of the whole run. All packets but the last carry one MTU each.
    pub len: u32,
    /// First and last sequence number of the request.
    first: Psn,
    last: Psn,
    /// Packets sent before the run and after the last one that asked for an acknowledgement.
    unrequested: u32,
}

impl PreparedTx {
    /// Tells whether packet `i` of the run shall ask for an acknowledgement.
    fn asks_ack(&self, i: u32, psn: Psn) -> bool {
        let before = self.unrequested.wrapping_add(i);
        psn == self.last || before % ACK_INTERVAL == ACK_INTERVAL - 1
    }

    /// Tells whether the run ends its request.
    fn ends(&self) -> bool {
        self.psn.wrapping_add(self.packets.wrapping_sub(1)) == self.last
    }
}

impl<E: DerefMut<Target = [SendEntry]>> Sender<E> {
    /// Selects the next packet to send. Nothing changes until it is committed.
    pub fn poll_tx(&self, now: Instant) -> TxStep {
        self.poll_run(now, 1)
    }

    /// Selects up to `max` consecutive packets of one message to send.
    ///
    /// Nothing changes until they are committed. Requests that are answered are one packet each.
    pub fn poll_run(&self, now: Instant, max: u32) -> TxStep {
        if self.mode != Mode::Running || self.rnr_until.is_some_and(|until| now < until) {
            return TxStep::Idle;
        }
        let Some(entry) = self.entry(self.tx) else {
            return TxStep::Idle;
        };

        let (first, last) = match entry.state {
            EntryState::Active => (entry.first, entry.last),
            EntryState::Posted => {
                if self.draining || (entry.wr.flags.fence && self.rd_out != 0) {
                    return TxStep::Idle;
                }
                match entry.class {
                    Class::Local => return self.poll_local(entry),
                    Class::Answered if self.rd_out >= self.cfg.max_rd_atomic => {
                        return TxStep::Idle
                    }
                    Class::Answered | Class::Acked => {}
                }
                let more = self.cfg.mtu.packets(self.length_on_wire(entry));
                (self.nxt, self.nxt.wrapping_add(more.wrapping_sub(1)))
            }
            EntryState::Done | EntryState::Failed => return TxStep::Idle,
        };

        let unacked = gap(self.nxt, self.una);
        let Some(room @ 1..) = MAX_UNACKED_PSNS.checked_sub(unacked) else {
            return TxStep::Idle;
        };

        let offset = gap(self.nxt, first).wrapping_shl(self.cfg.mtu.shift());
        let (packets, len) = match entry.class {
            Class::Answered => match entry.wr.op {
                SendOp::AtomicWrite { .. } => (1, ATOMIC_WRITE_LEN),
                _ => (1, 0),
            },
            Class::Acked | Class::Local => {
                let left = gap(last, self.nxt).wrapping_add(1);
                let packets = left.min(room).min(max.max(1));
                let len = if packets == left {
                    entry.wr.length.saturating_sub(offset)
                } else {
                    packets.wrapping_shl(self.cfg.mtu.shift())
                };
                (packets, len)
            }
        };

        TxStep::Packet(PreparedTx {
            slot: self.slot_of(self.tx),
            psn: self.nxt,
            packets,
            offset,
            len,
            first,
            last,
            unrequested: self.unrequested,
        })
    }

    /// Selects a request that needs no packets.
    fn poll_local(&self, entry: &SendEntry) -> TxStep {
        // IBA 10.6.5.1: a local invalidate waits for all earlier requests. It is mandatory here.
        if matches!(entry.wr.op, SendOp::LocalInv(_)) && self.tx != self.ack {
            return TxStep::Idle;
        }
        TxStep::Local {
            slot: self.slot_of(self.tx),
            op: entry.wr.op,
        }
    }

    /// Returns the length that decides how many sequence numbers a request takes.
    fn length_on_wire(&self, entry: &SendEntry) -> u32 {
        match entry.class {
            Class::Acked => entry.wr.length,
            Class::Answered => match entry.wr.op {
                SendOp::Read { .. } => entry.wr.length,
                _ => 0,
            },
            Class::Local => 0,
        }
    }

    /// Returns the headers of packet `i` of a run.
    ///
    /// `None` if the run is not one of what is in the window now, or has no such packet.
    pub fn header(&self, tx: &PreparedTx, i: u32) -> Option<PacketInfo> {
        let entry = self.entries.get(tx.slot.index())?;
        let op = &entry.wr.op;
        let service = self.cfg.service;
        let mtu = self.cfg.mtu;
        if i >= tx.packets {
            return None;
        }

        let psn = tx.psn.wrapping_add(i);
        let position = Position::of(psn == tx.first, psn == tx.last);
        let opcode = match *op {
            SendOp::Send => Opcode::send(service, position, SendTail::None)?,
            SendOp::SendImm(_) => Opcode::send(service, position, SendTail::Imm)?,
            SendOp::SendInv(_) => Opcode::send(service, position, SendTail::Inv)?,
            SendOp::Write { .. } => Opcode::write(service, position, false)?,
            SendOp::WriteImm { .. } => Opcode::write(service, position, true)?,
            SendOp::Read { .. } => Opcode::RcReadRequest,
            SendOp::CompareSwap { .. } => Opcode::RcCompareSwap,
            SendOp::FetchAdd { .. } => Opcode::RcFetchAdd,
            SendOp::AtomicWrite { .. } => Opcode::RcAtomicWrite,
            SendOp::Flush { .. } => Opcode::RcFlush,
            SendOp::RegMr { .. } | SendOp::LocalInv(_) | SendOp::BindMw { .. } => return None,
        };

        let mut header = PacketInfo::new(opcode);
        header.psn = psn;
        header.pkey = self.cfg.pkey;
        header.dest_qpn = self.cfg.dest_qpn;
        match service {
            Service::Rc => {
                header.ack_req = entry.class == Class::Answered || tx.asks_ack(i, psn);
            }
            Service::Ud => header.dest_qpn = entry.wr.ud.qpn,
            Service::Uc | Service::Cnp => {}
        }

        // Bytes of the run before this packet; all its packets but the last are full.
        let before = i.wrapping_shl(mtu.shift());
        let left = tx.len.saturating_sub(before);
        header.set_payload_len(if left > mtu.bytes() {
            mtu.bytes()
        } else {
            left
        });

        header.solicited = entry.wr.flags.solicited
            && psn == tx.last
            && matches!(
                op,
                SendOp::Send | SendOp::SendImm(_) | SendOp::SendInv(_) | SendOp::WriteImm { .. }
            );
        if opcode.has_extended() {
            self.extend_header(&mut header, entry, tx.offset)?;
        }
        Some(header)
    }

    /// Adds what the headers after the base header say. `offset` is that of the run.
    fn extend_header(&self, header: &mut PacketInfo, entry: &SendEntry, offset: u32) -> Option<()> {
        if self.cfg.service == Service::Ud {
            header.deth = Deth {
                qkey: self.qkey_for(&entry.wr.ud),
                src_qpn: self.cfg.qpn,
            };
        }
        match entry.wr.op {
            SendOp::Send => {}
            SendOp::SendImm(imm) => header.imm = imm,
            SendOp::SendInv(key) => header.ieth = key,
            SendOp::Write { va, key } => {
                header.reth = Reth {
                    va,
                    key,
                    len: entry.wr.length,
                }
            }
            SendOp::WriteImm { va, key, imm } => {
                header.imm = imm;
                header.reth = Reth {
                    va,
                    key,
                    len: entry.wr.length,
                }
            }
            // A READ that is sent again asks for what is missing only.
            SendOp::Read { va, key } => {
                header.reth = Reth {
                    va: va.wrapping_add(u64::from(offset)),
                    key,
                    len: entry.wr.length.saturating_sub(offset),
                }
            }
            SendOp::CompareSwap {
                va,
                key,
                compare,
                swap,
            } => {
                header.atomic = AtomicEth {
                    va,
                    key,
                    swap_add: swap,
                    compare,
                }
            }
            SendOp::FetchAdd { va, key, add } => {
                header.atomic = AtomicEth {
                    va,
                    key,
                    swap_add: add,
                    compare: 0,
                }
            }
            SendOp::AtomicWrite { va, key } => {
                header.reth = Reth {
                    va,
                    key,
                    len: ATOMIC_WRITE_LEN,
                }
            }
            SendOp::Flush {
                va,
                key,
                len,
                level,
                placement,
            } => {
                header.reth = Reth { va, key, len };
                header.feth = Feth { placement, level };
            }
            SendOp::RegMr { .. } | SendOp::LocalInv(_) | SendOp::BindMw { .. } => return None,
        }
        Some(())
    }

    /// Records that a run of packets was sent.
    ///
    /// A packet that the local network stack lost counts as sent: for the peer it is lost like any
    /// other, and the retries recover it. If it is known that a full queue had no room for it, see
    /// [`Sender::on_refused`]. A run that is not the one that is offered now is ignored.
    pub fn commit_tx(&mut self, tx: &PreparedTx, now: Instant) {
        let reliable = self.cfg.service == Service::Rc;
        let slot = self.slot_of(self.tx);
        if self.mode != Mode::Running || tx.slot != slot || tx.psn != self.nxt {
            return;
        }
        let Some(entry) = self.entry_mut(self.tx) else {
            return;
        };

        let answered = entry.class == Class::Answered;
        let begins = match entry.state {
            EntryState::Posted => true,
            EntryState::Active => false,
            EntryState::Done | EntryState::Failed => return,
        };
        let ends = answered || tx.ends();
        entry.first = tx.first;
        entry.last = tx.last;
        entry.state = if ends && !reliable {
            EntryState::Done
        } else {
            EntryState::Active
        };
        if begins && answered {
            self.rd_out = self.rd_out.wrapping_add(1);
        }

        // A READ reserves the sequence numbers of its responses.
        self.nxt = if ends {
            tx.last.next()
        } else {
            tx.psn.wrapping_add(tx.packets)
        };
        if gap(self.nxt, self.una) > gap(self.top, self.una) {
            self.top = self.nxt;
        }
        if ends {
            self.tx = self.tx.wrapping_add(1);
        }
        self.rnr_until = None;

        if reliable {
            let sent = tx.unrequested.wrapping_add(tx.packets);
            let asked = ends || sent >= ACK_INTERVAL;
            self.unrequested = if ends { 0 } else { sent % ACK_INTERVAL };
            self.start_ack_timer(asked, now);
        } else {
            self.una = self.nxt;
        }
        if ends {
            self.settle();
        }
    }

    /// Starts the wait for an answer to packets just sent.
    ///
    /// It runs from the first packet that asks for an acknowledgement. Later ones do not move it:
    /// a sender that keeps sending finds out in time that nobody answers.
    fn start_ack_timer(&mut self, asked: bool, now: Instant) {
        if self.ack_deadline.is_none() || !self.ack_expected {
            self.ack_deadline = self.cfg.ack_timeout.map(|timeout| now.after(timeout));
        }
        self.ack_expected |= asked;
    }

    /// Records how the execution of a local request ended.
    ///
    /// `result` is an error with the status of the completion. A request that is not the one that
    /// is offered now is ignored.
    pub fn local_done(&mut self, slot: Slot, result: Result<(), WcStatus>) {
        if self.mode != Mode::Running || slot != self.slot_of(self.tx) {
            return;
        }
        let cursor = self.tx;
        let Some(entry) = self.entry_mut(cursor) else {
            return;
        };
        if entry.class != Class::Local || entry.state != EntryState::Posted {
            return;
        }
        match result {
            Ok(()) => {
                entry.state = EntryState::Done;
                self.settle();
            }
            Err(status) => self.fail(cursor, status),
        }
    }

    /// Records that a packet of the request could not be built, for example because its buffers
    /// were refused. The request fails with `status` once all earlier ones are over.
    ///
    /// A request that is not the one that is offered now is ignored.
    pub fn tx_fault(&mut self, slot: Slot, status: WcStatus) {
        let offered = self
            .entry(self.tx)
            .is_some_and(|entry| matches!(entry.state, EntryState::Posted | EntryState::Active));
        if offered && slot == self.slot_of(self.tx) {
            self.fail(self.tx, status);
        }
    }

    /// Takes back that the packet with sequence number `psn`, and what was sent after it, was sent: a
    /// queue of the local host had no room for it.
    ///
    /// They are offered again, which is no retry: the wire did not lose them. The wait for an answer
    /// goes on, so that a queue that never has room again is an error in the end. A packet that is
    /// acknowledged, or offered again already, is ignored.
    pub fn on_refused(&mut self, psn: Psn) {
        if self.mode != Mode::Running
            || self.cfg.service != Service::Rc
            || gap(psn, self.una) >= gap(self.nxt, self.una)
        {
            return;
        }
        let mut cursor = self.ack;
        while let Some(entry) = self.entry(cursor) {
            if entry.state == EntryState::Active
                && gap(psn, entry.first) <= gap(entry.last, entry.first)
            {
                self.tx = cursor;
                self.nxt = psn;
                self.unrequested = 0;
                return;
            }
            if cursor == self.tx {
                return;
            }
            cursor = cursor.wrapping_add(1);
        }
    }

    /// Goes back to the oldest unacknowledged packet, to send it and what follows again.
    pub(super) fn go_back(&mut self) {
        self.nxt = self.una;
        self.tx = self.ack;
        self.unrequested = 0;
        self.ack_deadline = None;
        self.ack_expected = false;
        self.settle();
    }
}
