// SPDX-License-Identifier: GPL-2.0

//! The responder: what a queue pair does with the requests of its peer.
//!
//! [`Responder::step`] takes a request packet through the checks of the specification in their
//! order, asks for what must be done, and answers. [`super::effect`] has the vocabulary. One packet
//! is worked on at a time, and each is finished with before the next is given, so requests are
//! executed in the order of their packets.
//!
//! ```text
//! packet ─► sequence ─► message order ─► rights of the QP ─► receive WQE ─► length ─► key ─► execute
//!              │              │                 │                 │           │        │        │
//!        NAK, duplicate       └── invalid ──────┘              RNR NAK     invalid   access     ▼
//!                                                                                      complete, ACK
//! ```
//!
//! Faults of a peer are treated by service. RC answers with a NAK, once, and goes to the error state
//! if the fault cannot be repaired by sending again. UC drops the rest of the message, UD the
//! datagram, without a word; a receive work request that was taken already stays the current one
//! and serves the next message. Faults of a posted receive buffer are the consumer's: they complete
//! the work request in error and end the queue pair whatever its service.
//!
//! Packets may be given, and answers to READ be taken, in runs. That is a shorter way to the same
//! result: a run that would not be executed to its end is given back to be treated packet by packet,
//! so faults are those of single packets.
//!
//! The engine holds no memory and no lock. It is called under the queue pair's receive mutex.

#![forbid(unsafe_code)]

mod check;
mod duplicate;
mod execute;
mod fail;
mod read;
#[cfg(test)]
mod tests;

use core::ops::DerefMut;

use super::{
    aeth::{
        AethKind,
        NakCode, //
    },
    effect::{
        Disposition,
        Effect,
        Input,
        RecvTaken,
        Reply, //
    },
    memkey::Access,
    num::{
        Key,
        Mtu,
        Qpn, //
    },
    opcode::{
        Kind,
        Opcode,
        Service, //
    },
    packet::PacketInfo,
    psn::{
        Msn,
        Psn, //
    },
    resources::{
        ReplayRing,
        Resource, //
    },
    status::QpEvent,
};
use fail::Refusal;
use read::ReadAnswer;

/// What a responder needs to know of its queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponderConfig {
    /// The transport service.
    pub service: Service,
    /// The path MTU. Datagrams are not held to it.
    pub mtu: Mtu,
    /// The sequence number of the first packet.
    pub psn: Psn,
    /// The peer's queue pair. Without meaning for datagrams.
    pub dest_qpn: Qpn,
    /// The partition key of answers.
    pub pkey: u16,
    /// The remote operations that the queue pair grants.
    pub access: Access,
    /// The delay that a peer is asked for when no receive is posted: the five-bit code.
    pub min_rnr_timer: u8,
    /// Whether the first request raises [`QpEvent::CommEst`], as it does until the queue pair is
    /// ready to send.
    pub announce: bool,
}

/// Events to add to the device's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponderCounts {
    /// Requests that had been executed before.
    pub duplicates: u32,
    /// Sequence errors: runs of requests ahead of the expected one.
    pub out_of_sequence: u32,
    /// Answers that the receiver is not ready.
    pub rnr_naks: u32,
    /// Receives that completed successfully.
    pub received: u32,
    /// Requests dropped because one before them has been refused and is to be sent again.
    pub after_nak: u32,
    /// Packets of unreliable services dropped because no receive was posted.
    pub no_receive: u32,
    /// Packets of unreliable services dropped because their message does not fit the receive.
    pub too_long: u32,
    /// Packets of an unreliable connection dropped because one before them in their message is missing.
    pub gaps: u32,
    /// Packets of unreliable services dropped because their request is not one that they may make.
    pub not_allowed: u32,
}

/// The message that is being received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    /// None: the next packet starts one.
    None,
    /// A SEND of which at least one packet has arrived.
    Send,
    /// An RDMA WRITE of which at least one packet has arrived.
    Write,
}

/// The range of an RDMA WRITE.
#[derive(Clone, Copy, Debug)]
struct WriteRange {
    key: Key,
    /// The address that the next packet writes to.
    va: u64,
    /// The length of the message.
    len: u32,
    /// The part that has not arrived.
    left: u32,
}

/// What the responder waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// A packet.
    Idle,
    /// The report that communication is established.
    Announce,
    /// A receive work request.
    TakeRecv,
    /// The verdict on the range of an RDMA WRITE of several packets.
    CheckWrite,
    /// The verdict on the range of an RDMA READ of several packets.
    CheckRead,
    /// The network header in the receive buffer.
    StoreGrh,
    /// The payload in the receive buffer.
    StoreRecv,
    /// The payload in remotely accessible memory.
    StoreRemote,
    /// The invalidation that came with a SEND.
    Invalidate,
    /// The completion of a receive.
    Complete,
    /// The value that an atomic operation found.
    Atomic,
    /// An ATOMIC WRITE or a FLUSH.
    Single,
    /// The next packet of an answer to a READ on its way.
    Read,
    /// The one and last answer to the packet on its way.
    Answer(Disposition),
    /// The consumer's knowledge of a failure.
    Report(Refusal),
    /// The peer's knowledge of a failure.
    Refuse(Refusal),
    /// Nothing any more: the queue pair is in the error state.
    Failed,
}

/// The responder of one queue pair; see the [module](self).
///
/// `R` is the storage for requests whose answers can be repeated. Its length is the number of READ
/// and atomic requests that the peer may have outstanding.
pub struct Responder<R> {
    cfg: ResponderConfig,
    replay: ReplayRing<R>,
    /// The PSN of the next packet in sequence.
    expected: Psn,
    /// The PSN that acknowledges everything executed that has no answer of its own.
    ack_psn: Psn,
    /// The number of messages executed.
    msn: Msn,
    message: Message,
    /// The receive work request that the current or the next SEND goes to.
    recv: Option<RecvTaken>,
    /// How much of it is filled. At most its length.
    filled: u32,
    write: WriteRange,
    read: ReadAnswer,
    /// RC: the peer knows which packet is missing or not accepted; no need to say it again.
    nak_sent: bool,
    /// The packet that is being worked on.
    packet: PacketInfo,
    /// How many it stands for.
    packets: u32,
    /// The largest number of response packets that are sent at once.
    response_run: u32,
    stage: Stage,
    counts: ResponderCounts,
}

impl<R: DerefMut<Target = [Resource]>> Responder<R> {
    /// Makes the responder of a queue pair that becomes ready to receive.
    pub fn new(cfg: ResponderConfig, storage: R) -> Self {
        Self {
            cfg,
            replay: ReplayRing::new(storage),
            expected: cfg.psn,
            ack_psn: cfg.psn.wrapping_sub_n(1),
            msn: Msn::new(0),
            message: Message::None,
            recv: None,
            filled: 0,
            write: WriteRange {
                key: Key::new(0),
                va: 0,
                len: 0,
                left: 0,
            },
            read: ReadAnswer::NONE,
            nak_sent: false,
            packet: PacketInfo::new(Opcode::RcSendOnly),
            packets: 1,
            response_run: 1,
            stage: Stage::Idle,
            counts: ResponderCounts::default(),
        }
    }

    /// Starts anew with another configuration, as [`new`](Self::new) but in the same storage.
    ///
    /// Counts that were not taken are lost, and so is a receive work request that was not
    /// [flushed](Self::flush).
    pub fn reset(&mut self, cfg: ResponderConfig) {
        self.replay.clear();
        self.cfg = cfg;
        self.expected = cfg.psn;
        self.ack_psn = cfg.psn.wrapping_sub_n(1);
        self.msn = Msn::new(0);
        self.message = Message::None;
        self.recv = None;
        self.filled = 0;
        self.read = ReadAnswer::NONE;
        self.nak_sent = false;
        self.stage = Stage::Idle;
        self.counts = ResponderCounts::default();
    }

    /// Changes the configuration of a queue pair in use. The state of the connection stays; `psn`
    /// is not looked at.
    pub fn reconfigure(&mut self, cfg: ResponderConfig) {
        self.cfg = cfg;
    }

    /// Moves to other storage for the requests whose answers can be repeated, and returns the old.
    ///
    /// The latest entries are kept. An answer that is being sent is not affected.
    pub fn replace_storage(&mut self, storage: R) -> R {
        self.replay.replace(storage)
    }

    /// Lets answers to READ be sent in runs of up to `packets` packets. Without this call each
    /// packet is sent by itself.
    // The driver gives and takes single packets so far.
    #[allow(dead_code)]
    pub fn set_response_run(&mut self, packets: u32) {
        self.response_run = packets.max(1);
    }

    /// Returns the PSN of the next packet in sequence.
    pub fn expected_psn(&self) -> Psn {
        self.expected
    }

    /// Tells whether a packet is being worked on, so that an outcome is due and not a packet.
    #[cfg(not(MODULE))]
    pub fn is_busy(&self) -> bool {
        !matches!(self.stage, Stage::Idle | Stage::Failed)
    }

    /// Refuses all work from now on: the queue pair is in the error state.
    ///
    /// A packet that is being worked on is forgotten.
    pub fn enter_error(&mut self) {
        self.stage = Stage::Failed;
    }

    /// Gives back a receive work request that was taken and will not be completed, once. To be
    /// called when the queue pair is in the error state or on its way to reset.
    pub fn flush(&mut self) -> Option<u64> {
        self.recv.take().map(|recv| recv.wr_id)
    }

    /// Takes the counts since the last call.
    pub fn take_counts(&mut self) -> ResponderCounts {
        core::mem::take(&mut self.counts)
    }

    /// Takes a packet, or the outcome of the last effect, and returns what to do next.
    ///
    /// An outcome that does not belong to the last effect, or a packet while another is being
    /// worked on, is a fault of the caller and ends the queue pair.
    pub fn step(&mut self, input: Input<'_>) -> Effect {
        match (self.stage, input) {
            (Stage::Idle, Input::Packet(packet)) => {
                self.packet = *packet;
                self.packets = 1;
                self.admit()
            }
            (Stage::Idle, Input::Run { packet, packets }) => {
                self.packet = *packet;
                self.packets = packets.max(1);
                self.admit_run()
            }
            (Stage::Failed, _) => Effect::Done(Disposition::Dropped),
            (Stage::Announce, Input::Sent) => self.provide(),
            (Stage::TakeRecv, Input::Recv(recv)) => self.on_recv(recv),
            (Stage::CheckWrite, Input::Access(verdict)) => match verdict {
                Ok(()) => self.store_remote(),
                Err(_) => self.refuse(Refusal::Access),
            },
            (Stage::CheckRead, Input::Access(verdict)) => match verdict {
                Ok(()) => self.start_read(),
                Err(_) => self.refuse(Refusal::Access),
            },
            (Stage::StoreGrh, Input::Access(verdict)) => match verdict {
                Ok(()) => self.grh_stored(),
                Err(_) => self.refuse(Refusal::ReceiveBuffer),
            },
            (Stage::StoreRecv, Input::Access(verdict)) => match verdict {
                Ok(()) => self.recv_stored(),
                Err(_) => self.refuse(Refusal::ReceiveBuffer),
            },
            (Stage::StoreRemote, Input::Access(verdict)) => match verdict {
                Ok(()) => self.remote_stored(),
                Err(_) => self.refuse(Refusal::Access),
            },
            (Stage::Invalidate, Input::Access(verdict)) => match verdict {
                Ok(()) => self.executed(),
                Err(_) => self.refuse(Refusal::Invalidate),
            },
            (Stage::Complete, Input::Completed(posted)) => match posted {
                Ok(()) => self.acknowledge(),
                Err(_) => self.refuse(Refusal::CqOverflow),
            },
            (Stage::Atomic, Input::AtomicValue(value)) => self.on_atomic(value),
            (Stage::Single, Input::Access(verdict)) => self.on_single(verdict),
            (Stage::Read, Input::Sent) => self.response_sent(),
            (Stage::Read, Input::Access(Err(_))) => self.response_failed(),
            (Stage::Answer(disposition), Input::Sent) => self.done(disposition),
            // The consumer gets no better report if the completion queue is full as well.
            (Stage::Report(refusal), Input::Completed(_) | Input::Sent) => self.tell_peer(refusal),
            (Stage::Refuse(refusal), Input::Sent) => self.end(refusal),
            // None of the pairs above: the caller lost its place.
            (_, _) => self.end(Refusal::Caller),
        }
    }

    /// Admits a run that is the plain continuation of what was received.
    fn admit_run(&mut self) -> Effect {
        let plain = match self.packet.opcode.kind() {
            Kind::Send | Kind::Write => {
                self.cfg.service != Service::Ud && self.packet.psn == self.expected
            }
            Kind::ReadRequest
            | Kind::ReadResponse
            | Kind::Ack
            | Kind::AtomicAck
            | Kind::CompareSwap
            | Kind::FetchAdd
            | Kind::Flush
            | Kind::AtomicWrite
            | Kind::Cnp => false,
        };
        if self.packets > 1 && !plain {
            return self.done(Disposition::Split);
        }
        self.admit()
    }

    /// Returns the PSN of the last of the packets in hand.
    fn last_psn(&self) -> Psn {
        self.packet.psn.wrapping_add(self.packets.wrapping_sub(1))
    }

    /// Gives a packet to the sequence checks of its service.
    fn admit(&mut self) -> Effect {
        let opcode = self.packet.opcode;
        if !opcode.is_request() || opcode.service() != self.cfg.service {
            return self.done(Disposition::Dropped);
        }
        match self.cfg.service {
            Service::Rc => self.admit_rc(),
            Service::Uc => self.admit_uc(),
            Service::Ud => self.provide(),
            Service::Cnp => self.done(Disposition::Dropped),
        }
    }

    fn admit_rc(&mut self) -> Effect {
        let ahead = self.packet.psn.distance(self.expected);
        if ahead > 0 {
            return self.out_of_sequence();
        }
        if ahead < 0 {
            return self.duplicate();
        }
        self.nak_sent = false;

        let opcode = self.packet.opcode;
        if !check::continues(self.message, opcode) || !check::granted(&self.packet, self.cfg.access)
        {
            return self.refuse(Refusal::InvalidRequest);
        }
        self.announce()
    }

    /// Admits a request of an unreliable connection.
    ///
    /// IBA 9.8.2: a packet whose PSN is not the expected one ends the message that is being received.
    /// The responder then waits for a packet that starts a message, whatever its PSN is, and expects
    /// the one after that from then on. So packets of two messages are never mixed, and nothing that
    /// the peer did (it may have been reset, and have started from a PSN of long ago) makes it deaf.
    /// An InfiniBand fabric neither doubles packets nor lets one overtake another; where Ethernet
    /// does, a message of one packet is delivered twice, or late. The kernel's C driver and hfi1 do
    /// the same.
    fn admit_uc(&mut self) -> Effect {
        let opcode = self.packet.opcode;
        // What was received of a message that does not go on is forgotten, and its receive work
        // request serves the next message.
        if self.packet.psn != self.expected || opcode.position().starts() {
            self.message = Message::None;
        }
        if !check::continues(self.message, opcode) && self.packets == 1 {
            self.counts.gaps = self.counts.gaps.wrapping_add(1);
            return self.skip();
        }
        if !check::continues(self.message, opcode) || !check::granted(&self.packet, self.cfg.access)
        {
            return self.refuse(Refusal::InvalidRequest);
        }
        self.announce()
    }

    /// Reports that communication is established, if this is the first request.
    fn announce(&mut self) -> Effect {
        if !self.cfg.announce {
            return self.provide();
        }
        self.cfg.announce = false;
        self.stage = Stage::Announce;
        Effect::Event(QpEvent::CommEst)
    }

    fn out_of_sequence(&mut self) -> Effect {
        if self.nak_sent {
            self.counts.after_nak = self.counts.after_nak.wrapping_add(1);
            return self.done(Disposition::Dropped);
        }
        self.nak_sent = true;
        self.counts.out_of_sequence = self.counts.out_of_sequence.wrapping_add(1);
        self.answer_nak(AethKind::Nak(NakCode::PsnSequence), self.expected)
    }

    /// Sends a NAK after which the peer is to send again.
    fn answer_nak(&mut self, kind: AethKind, psn: Psn) -> Effect {
        self.stage = Stage::Answer(Disposition::Refused);
        self.send(Opcode::RcAck, kind, psn, 0)
    }

    fn done(&mut self, disposition: Disposition) -> Effect {
        self.stage = Stage::Idle;
        Effect::Done(disposition)
    }

    /// Makes the effect that sends an answer without payload.
    fn send(&self, opcode: Opcode, kind: AethKind, psn: Psn, orig: u64) -> Effect {
        Effect::Send(Reply {
            opcode,
            last_opcode: opcode,
            packets: 1,
            mtu: self.cfg.mtu,
            syndrome: kind.encode(),
            pkey: self.cfg.pkey,
            dest_qpn: self.cfg.dest_qpn,
            psn,
            msn: self.msn,
            orig,
            payload: None,
        })
    }
}
