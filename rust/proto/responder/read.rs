// SPDX-License-Identifier: GPL-2.0

//! Answers to RDMA READ: one packet at a time.

#![forbid(unsafe_code)]

use core::ops::DerefMut;

use super::{
    super::{
        aeth::AethKind,
        effect::{
            Disposition,
            Effect,
            RemoteSpan,
            Reply, //
        },
        memkey::Access,
        num::Key,
        opcode::{
            Opcode,
            Position, //
        },
        psn::Psn,
        resources::{
            Replay,
            Resource, //
        },
    },
    fail::Refusal,
    Responder,
    Stage, //
};

/// How far an answer has got.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadAnswer {
    key: Key,
    /// The address of the next packet's payload.
    va: u64,
    /// The bytes that have not been sent.
    left: u32,
    /// The PSN of the next packet.
    psn: Psn,
    /// Whether the next packet is the first.
    first: bool,
    /// The largest number of packets to send next.
    run: u32,
    /// What becomes of the request when the answer is complete.
    disposition: Disposition,
}

impl ReadAnswer {
    /// No answer.
    pub(super) const NONE: Self = Self {
        key: Key::new(0),
        va: 0,
        left: 0,
        psn: Psn::new(0),
        first: true,
        run: 1,
        disposition: Disposition::Dropped,
    };
}

impl<R: DerefMut<Target = [Resource]>> Responder<R> {
    /// Makes sure that an answer of several packets can be given before the first is sent.
    pub(super) fn check_read(&mut self) -> Effect {
        let reth = self.packet.reth;
        // An answer of one packet is checked when the packet is built, and an empty one needs no
        // check (IBA C9-88).
        if reth.len <= self.cfg.mtu.bytes() {
            return self.start_read();
        }
        self.stage = Stage::CheckRead;
        Effect::Check {
            span: RemoteSpan {
                va: reth.va,
                key: reth.key,
                len: reth.len,
                access: Access::REMOTE_READ,
            },
        }
    }

    pub(super) fn start_read(&mut self) -> Effect {
        let reth = self.packet.reth;
        self.remember(
            self.cfg.mtu.packets(reth.len),
            Replay::Read {
                va: reth.va,
                key: reth.key,
                len: reth.len,
            },
        );
        self.answer_read(Disposition::Executed)
    }

    /// Answers the READ request in hand.
    pub(super) fn answer_read(&mut self, disposition: Disposition) -> Effect {
        let reth = self.packet.reth;
        self.read = ReadAnswer {
            key: reth.key,
            va: reth.va,
            left: reth.len,
            psn: self.packet.psn,
            first: true,
            run: self.response_run,
            disposition,
        };
        self.next_response()
    }

    /// Returns the length of the payload to send next.
    fn response_len(&self) -> u32 {
        let run = self.read.run.saturating_mul(self.cfg.mtu.bytes());
        self.read.left.min(run)
    }

    fn next_response(&mut self) -> Effect {
        let read = self.read;
        let len = self.response_len();
        let packets = self.cfg.mtu.packets(len);
        let ends = read.left == len;
        let last_opcode = Opcode::read_response(Position::of(read.first && packets == 1, ends));
        let payload = RemoteSpan {
            va: read.va,
            key: read.key,
            len,
            access: Access::REMOTE_READ,
        };
        self.stage = Stage::Read;
        Effect::Send(Reply {
            opcode: Opcode::read_response(Position::of(read.first, ends && packets == 1)),
            last_opcode,
            packets,
            mtu: self.cfg.mtu,
            syndrome: AethKind::ACK.encode(),
            pkey: self.cfg.pkey,
            dest_qpn: self.cfg.dest_qpn,
            psn: read.psn,
            msn: self.msn,
            orig: 0,
            payload: (len > 0).then_some(payload),
        })
    }

    pub(super) fn response_sent(&mut self) -> Effect {
        let len = self.response_len();
        let packets = self.cfg.mtu.packets(len);
        let read = &mut self.read;
        read.va = read.va.wrapping_add(u64::from(len));
        read.left = read.left.saturating_sub(len);
        read.psn = read.psn.wrapping_add(packets);
        read.first = false;
        if read.left > 0 {
            return self.next_response();
        }
        let disposition = read.disposition;
        self.done(disposition)
    }

    /// Gives up an answer whose payload could not be read.
    pub(super) fn response_failed(&mut self) -> Effect {
        if self.read.run > 1 {
            // Find the packet that cannot be sent.
            self.read.run = 1;
            return self.next_response();
        }
        if self.read.disposition == Disposition::Duplicate {
            // The request was answered once, and may have been delivered twice by the network after
            // the consumer withdrew the memory. A peer that still waits sends it again and fails.
            return self.done(Disposition::Dropped);
        }
        // The peer has seen the packets before this one: the NAK is about the one that is missing.
        self.packet.psn = self.read.psn;
        self.msn = self.msn.wrapping_sub_n(1);
        self.refuse(Refusal::Access)
    }
}
