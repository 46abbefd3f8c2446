// SPDX-License-Identifier: GPL-2.0

//! From an accepted request to its completion and acknowledgement.

#![forbid(unsafe_code)]

use core::ops::DerefMut;

use super::{
    super::{
        aeth::AethKind,
        effect::{
            AtomicOp,
            Disposition,
            Effect,
            RecvCompletion,
            RecvFault,
            RecvTaken,
            RemoteSpan, //
        },
        memkey::Access,
        opcode::{
            Kind,
            Opcode,
            Position,
            Service, //
        },
        resources::{
            Replay,
            Resource, //
        },
        status::{
            AccessFault,
            WcOpcode,
            WcStatus, //
        },
        wire::GRH_LEN,
    },
    check,
    fail::Refusal,
    Message,
    Responder,
    Stage,
    WriteRange, //
};

impl<R: DerefMut<Target = [Resource]>> Responder<R> {
    /// Provides what the request needs before it can be executed: a receive work request, or a place
    /// to remember its answer.
    pub(super) fn provide(&mut self) -> Effect {
        let opcode = self.packet.opcode;
        match opcode.kind() {
            Kind::Send if opcode.position().starts() => self.take_recv(),
            Kind::Write if opcode.has_imm() => self.take_recv(),
            Kind::Send | Kind::Write => self.check_length(),
            Kind::ReadRequest
            | Kind::CompareSwap
            | Kind::FetchAdd
            | Kind::Flush
            | Kind::AtomicWrite => {
                if self.replay.is_disabled() {
                    return self.refuse(Refusal::InvalidRequest);
                }
                self.check_length()
            }
            Kind::ReadResponse | Kind::Ack | Kind::AtomicAck | Kind::Cnp => {
                self.done(Disposition::Dropped)
            }
        }
    }

    fn take_recv(&mut self) -> Effect {
        self.filled = 0;
        if self.recv.is_some() {
            // Left by a message that was dropped.
            return self.check_length();
        }
        self.stage = Stage::TakeRecv;
        Effect::TakeRecv
    }

    pub(super) fn on_recv(&mut self, recv: Result<RecvTaken, RecvFault>) -> Effect {
        match recv {
            Ok(recv) => {
                self.recv = Some(recv);
                self.check_length()
            }
            Err(RecvFault::Empty) => self.not_ready(),
            Err(RecvFault::Malformed { wr_id }) => {
                self.recv = Some(RecvTaken { wr_id, length: 0 });
                self.refuse(Refusal::Malformed)
            }
        }
    }

    fn not_ready(&mut self) -> Effect {
        if self.packets > 1 {
            return self.done(Disposition::Split);
        }
        if self.cfg.service != Service::Rc {
            self.counts.no_receive = self.counts.no_receive.wrapping_add(1);
            return self.skip();
        }
        self.counts.rnr_naks = self.counts.rnr_naks.wrapping_add(1);
        // What follows the packet is out of sequence now, and the peer knows why.
        self.nak_sent = true;
        self.answer_nak(AethKind::RnrNak(self.cfg.min_rnr_timer), self.packet.psn)
    }

    /// Checks the length and starts the execution.
    fn check_length(&mut self) -> Effect {
        if self.cfg.service != Service::Ud
            && !check::length(&self.packet, self.packets, self.cfg.mtu)
        {
            return self.refuse(Refusal::InvalidRequest);
        }
        let packet = self.packet;
        match packet.opcode.kind() {
            Kind::Send if self.cfg.service == Service::Ud => self.start_datagram(),
            Kind::Send => self.store_recv(),
            Kind::Write => self.start_write(),
            Kind::ReadRequest => self.check_read(),
            Kind::CompareSwap => self.start_atomic(AtomicOp::CompareSwap {
                compare: packet.atomic.compare,
                swap: packet.atomic.swap_add,
            }),
            Kind::FetchAdd => self.start_atomic(AtomicOp::FetchAdd {
                add: packet.atomic.swap_add,
            }),
            Kind::AtomicWrite => self.start_atomic_write(),
            Kind::Flush => self.start_flush(),
            Kind::ReadResponse | Kind::Ack | Kind::AtomicAck | Kind::Cnp => {
                self.done(Disposition::Dropped)
            }
        }
    }

    /// Returns the room that is left in the current receive work request.
    fn room(&self) -> u32 {
        let length = self.recv.map_or(0, |recv| recv.length);
        length.saturating_sub(self.filled)
    }

    fn start_datagram(&mut self) -> Effect {
        match self.room().checked_sub(GRH_LEN) {
            Some(room) if self.packet.payload_len <= room => {
                self.stage = Stage::StoreGrh;
                Effect::StoreGrh
            }
            _ => self.refuse(Refusal::TooLong),
        }
    }

    pub(super) fn grh_stored(&mut self) -> Effect {
        self.filled = GRH_LEN;
        self.store_recv()
    }

    fn store_recv(&mut self) -> Effect {
        let len = self.packet.payload_len;
        if len > self.room() {
            return self.refuse(Refusal::TooLong);
        }
        if len == 0 {
            return self.recv_stored();
        }
        self.stage = Stage::StoreRecv;
        Effect::StoreRecv {
            offset: self.filled,
            len,
        }
    }

    pub(super) fn recv_stored(&mut self) -> Effect {
        self.filled = self.filled.saturating_add(self.packet.payload_len);
        if self.packet.opcode.has_ieth() {
            self.stage = Stage::Invalidate;
            return Effect::Invalidate(self.packet.ieth);
        }
        self.executed()
    }

    fn start_write(&mut self) -> Effect {
        let packet = self.packet;
        let position = packet.opcode.position();
        if position.starts() {
            self.write = WriteRange {
                key: packet.reth.key,
                va: packet.reth.va,
                len: packet.reth.len,
                left: packet.reth.len,
            };
        }
        if !check::write_length(&packet, self.write.left) {
            return self.refuse(Refusal::InvalidRequest);
        }
        // The only packet of a message covers its range, which is checked when it is stored.
        if position == Position::First {
            self.stage = Stage::CheckWrite;
            return Effect::Check {
                span: RemoteSpan {
                    va: self.write.va,
                    key: self.write.key,
                    len: self.write.len,
                    access: Access::REMOTE_WRITE,
                },
            };
        }
        self.store_remote()
    }

    pub(super) fn store_remote(&mut self) -> Effect {
        let len = self.packet.payload_len;
        if len == 0 {
            // IBA C9-88: the key of an empty message means nothing.
            return self.remote_stored();
        }
        self.stage = Stage::StoreRemote;
        Effect::StoreRemote {
            span: RemoteSpan {
                va: self.write.va,
                key: self.write.key,
                len,
                access: Access::REMOTE_WRITE,
            },
        }
    }

    pub(super) fn remote_stored(&mut self) -> Effect {
        let len = self.packet.payload_len;
        self.write.va = self.write.va.wrapping_add(u64::from(len));
        self.write.left = self.write.left.saturating_sub(len);
        self.executed()
    }

    fn start_atomic(&mut self, op: AtomicOp) -> Effect {
        let operands = self.packet.atomic;
        if !check::aligned(operands.va) {
            return self.refuse(Refusal::InvalidRequest);
        }
        self.stage = Stage::Atomic;
        Effect::Atomic {
            span: RemoteSpan {
                va: operands.va,
                key: operands.key,
                len: check::OPERAND,
                access: Access::REMOTE_ATOMIC,
            },
            op,
        }
    }

    pub(super) fn on_atomic(&mut self, value: Result<u64, AccessFault>) -> Effect {
        match value {
            Ok(orig) => {
                let opcode = self.packet.opcode;
                self.remember(1, Replay::Atomic { opcode, orig });
                self.answer_atomic(orig, Disposition::Executed)
            }
            Err(fault) => self.refuse(Refusal::of_operand(fault)),
        }
    }

    fn start_atomic_write(&mut self) -> Effect {
        let packet = self.packet;
        if !check::atomic_write_length(&packet) || !check::aligned(packet.reth.va) {
            return self.refuse(Refusal::InvalidRequest);
        }
        self.stage = Stage::Single;
        Effect::AtomicWrite {
            span: RemoteSpan {
                va: packet.reth.va,
                key: packet.reth.key,
                len: check::OPERAND,
                access: Access::REMOTE_WRITE,
            },
        }
    }

    fn start_flush(&mut self) -> Effect {
        let packet = self.packet;
        let (Some(access), Some(level)) =
            (check::flush_placement(&packet), check::flush_level(&packet))
        else {
            return self.refuse(Refusal::InvalidRequest);
        };
        self.stage = Stage::Single;
        Effect::Flush {
            span: RemoteSpan {
                va: packet.reth.va,
                key: packet.reth.key,
                len: packet.reth.len,
                access,
            },
            level,
        }
    }

    /// Takes the outcome of an ATOMIC WRITE or a FLUSH.
    pub(super) fn on_single(&mut self, verdict: Result<(), AccessFault>) -> Effect {
        match verdict {
            Ok(()) => {
                let opcode = self.packet.opcode;
                self.remember(1, Replay::Empty { opcode });
                self.answer_empty(Disposition::Executed)
            }
            Err(fault) => self.refuse(Refusal::of_operand(fault)),
        }
    }

    /// Notes that a request with an answer of its own was executed.
    pub(super) fn remember(&mut self, packets: u32, replay: Replay) {
        let first = self.packet.psn;
        self.replay.record(first, packets, replay);
        self.expected = first.wrapping_add(packets);
        self.msn = self.msn.next();
    }

    /// Sends the value that an atomic operation found.
    pub(super) fn answer_atomic(&mut self, orig: u64, disposition: Disposition) -> Effect {
        self.stage = Stage::Answer(disposition);
        self.send(Opcode::RcAtomicAck, AethKind::ACK, self.packet.psn, orig)
    }

    /// Sends the answer to an ATOMIC WRITE or a FLUSH: a READ response without payload.
    pub(super) fn answer_empty(&mut self, disposition: Disposition) -> Effect {
        self.stage = Stage::Answer(disposition);
        self.send(
            Opcode::RcReadResponseOnly,
            AethKind::ACK,
            self.packet.psn,
            0,
        )
    }

    /// Notes that a packet of a SEND or an RDMA WRITE was executed, and completes its message.
    pub(super) fn executed(&mut self) -> Effect {
        let last_psn = self.last_psn();
        let packet = &self.packet;
        let opcode = packet.opcode;
        let is_send = opcode.kind() == Kind::Send;
        self.ack_psn = last_psn;
        self.expected = last_psn.next();
        if !opcode.position().ends() {
            self.message = if is_send {
                Message::Send
            } else {
                Message::Write
            };
            return self.acknowledge();
        }
        self.message = Message::None;
        self.msn = self.msn.next();

        if !is_send && !opcode.has_imm() {
            return self.acknowledge();
        }
        let Some(recv) = self.recv.take() else {
            return self.end(Refusal::Caller);
        };
        self.counts.received = self.counts.received.wrapping_add(1);
        self.stage = Stage::Complete;
        let (wc_opcode, byte_len) = if is_send {
            (WcOpcode::Recv, self.filled)
        } else {
            (WcOpcode::RecvRdmaWithImm, self.write.len)
        };
        Effect::Complete(RecvCompletion {
            wr_id: recv.wr_id,
            status: WcStatus::Success,
            opcode: wc_opcode,
            byte_len,
            imm: opcode.has_imm().then_some(packet.imm),
            inv: opcode.has_ieth().then_some(packet.ieth),
            solicited: packet.solicited,
            src_qpn: packet.deth.src_qpn,
            grh: true,
            pkey_index: 0,
        })
    }

    /// Acknowledges the packet if the peer wants that, and finishes with it.
    pub(super) fn acknowledge(&mut self) -> Effect {
        if self.cfg.service != Service::Rc || !self.packet.ack_req {
            return self.done(Disposition::Executed);
        }
        self.stage = Stage::Answer(Disposition::Executed);
        self.send(Opcode::RcAck, AethKind::ACK, self.last_psn(), 0)
    }
}
