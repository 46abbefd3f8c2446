// SPDX-License-Identifier: GPL-2.0

//! What follows when a request cannot be executed.

#![forbid(unsafe_code)]

use core::ops::DerefMut;

use super::{
    super::{
        aeth::{
            AethKind,
            NakCode, //
        },
        effect::{
            Disposition,
            Effect,
            RecvCompletion, //
        },
        num::Qpn,
        opcode::{
            Kind,
            Opcode,
            Service, //
        },
        resources::Resource,
        status::{
            AccessFault,
            QpEvent,
            QpFault,
            WcOpcode,
            WcStatus, //
        },
    },
    Message,
    Responder,
    Stage, //
};

/// Why a request is not executed.
///
/// | | NAK | receive completion, if one was taken | else event |
/// |---|---|---|---|
/// | `InvalidRequest` | invalid request | REM_INV_REQ_ERR | QP_REQ_ERR |
/// | `TooLong` | invalid request | LOC_LEN_ERR | |
/// | `Access` | remote access | REM_ACCESS_ERR | QP_ACCESS_ERR |
/// | `ReceiveBuffer` | remote operation | LOC_PROT_ERR | |
/// | `Malformed` | remote operation | LOC_QP_OP_ERR | |
/// | `Invalidate` | none: acknowledged | REM_INV_REQ_ERR | |
/// | `CqOverflow` | none | | QP_FATAL |
/// | `Caller` | none | | |
///
/// The first three are the peer's faults, which UC and UD pass over in silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The request is none that this queue pair can execute.
    InvalidRequest,
    /// The message does not fit the receive work request.
    TooLong,
    /// The key, its rights or its range do not allow the access.
    Access,
    /// The scatter list of the receive work request names memory that cannot be written.
    ReceiveBuffer,
    /// The receive work request makes no sense.
    Malformed,
    /// The key that came with a SEND could not be invalidated. The message has been delivered.
    Invalidate,
    /// The completion of a receive was lost.
    CqOverflow,
    /// The responder was given something else than it had asked for.
    Caller,
}

impl Refusal {
    /// Returns the reason not to execute an operation on an operand.
    pub(super) fn of_operand(fault: AccessFault) -> Self {
        match fault {
            AccessFault::Alignment => Self::InvalidRequest,
            AccessFault::Key
            | AccessFault::Pd
            | AccessFault::Rights
            | AccessFault::Bounds
            | AccessFault::State
            | AccessFault::Memory => Self::Access,
        }
    }

    /// Tells whether the request comes to the same end if it is given again, in other pieces.
    fn is_before_execution(self) -> bool {
        match self {
            Self::InvalidRequest | Self::TooLong | Self::Access | Self::ReceiveBuffer => true,
            Self::Malformed | Self::Invalidate | Self::CqOverflow | Self::Caller => false,
        }
    }

    /// Tells whether the peer is to blame, and not the consumer here.
    fn is_peers(self) -> bool {
        match self {
            Self::InvalidRequest | Self::TooLong | Self::Access => true,
            Self::ReceiveBuffer
            | Self::Malformed
            | Self::Invalidate
            | Self::CqOverflow
            | Self::Caller => false,
        }
    }

    fn status(self) -> WcStatus {
        match self {
            Self::InvalidRequest | Self::Invalidate => WcStatus::RemInvReqErr,
            Self::TooLong => WcStatus::LocLenErr,
            Self::Access => WcStatus::RemAccessErr,
            Self::ReceiveBuffer => WcStatus::LocProtErr,
            Self::Malformed => WcStatus::LocQpOpErr,
            Self::CqOverflow | Self::Caller => WcStatus::FatalErr,
        }
    }

    /// Returns the event that tells the consumer when no completion can (IBA C9-222.1).
    fn event(self) -> Option<QpEvent> {
        match self {
            Self::InvalidRequest => Some(QpEvent::ReqErr),
            Self::Access => Some(QpEvent::AccessErr),
            Self::CqOverflow => Some(QpEvent::Fatal),
            Self::TooLong
            | Self::ReceiveBuffer
            | Self::Malformed
            | Self::Invalidate
            | Self::Caller => None,
        }
    }

    fn nak(self) -> Option<NakCode> {
        match self {
            Self::InvalidRequest | Self::TooLong => Some(NakCode::InvalidRequest),
            Self::Access => Some(NakCode::RemoteAccess),
            Self::ReceiveBuffer | Self::Malformed => Some(NakCode::RemoteOperation),
            Self::Invalidate | Self::CqOverflow | Self::Caller => None,
        }
    }

    fn fault(self) -> QpFault {
        match self {
            Self::InvalidRequest | Self::TooLong | Self::Invalidate => QpFault::InvalidRequest,
            Self::Access => QpFault::RemoteAccess,
            Self::ReceiveBuffer | Self::Malformed => QpFault::ReceiveBuffer,
            Self::CqOverflow => QpFault::CqOverflow,
            Self::Caller => QpFault::RemoteOperation,
        }
    }
}

impl<R: DerefMut<Target = [Resource]>> Responder<R> {
    /// Drops the packet of an unreliable service, and with it the rest of its message.
    pub(super) fn skip(&mut self) -> Effect {
        self.message = Message::None;
        self.done(Disposition::Dropped)
    }

    /// Treats a request that cannot be executed as its service demands.
    pub(super) fn refuse(&mut self, refusal: Refusal) -> Effect {
        if self.packets > 1 && refusal.is_before_execution() {
            return self.done(Disposition::Split);
        }
        if refusal.is_peers() && self.cfg.service != Service::Rc {
            let count = match refusal {
                Refusal::TooLong => &mut self.counts.too_long,
                _ => &mut self.counts.not_allowed,
            };
            *count = count.wrapping_add(1);
            return self.skip();
        }
        self.stage = Stage::Report(refusal);
        // A receive may be at hand that this message has nothing to do with.
        let opcode = self.packet.opcode;
        let concerns_recv =
            self.message == Message::Send || opcode.kind() == Kind::Send || opcode.has_imm();
        if let Some(recv) = self.recv.take_if(|_| concerns_recv) {
            return Effect::Complete(RecvCompletion {
                wr_id: recv.wr_id,
                status: refusal.status(),
                opcode: WcOpcode::Recv,
                byte_len: 0,
                imm: None,
                inv: None,
                solicited: true,
                src_qpn: Qpn::new(0),
                grh: false,
                pkey_index: 0,
            });
        }
        match refusal.event() {
            Some(event) => Effect::Event(event),
            None => self.tell_peer(refusal),
        }
    }

    /// Sends the NAK, if there is one.
    pub(super) fn tell_peer(&mut self, refusal: Refusal) -> Effect {
        if self.cfg.service != Service::Rc {
            return self.end(refusal);
        }
        let kind = match refusal.nak() {
            Some(code) => AethKind::Nak(code),
            None if refusal == Refusal::Invalidate && self.packet.ack_req => {
                self.msn = self.msn.next();
                AethKind::ACK
            }
            None => return self.end(refusal),
        };
        self.stage = Stage::Refuse(refusal);
        let psn = match refusal {
            Refusal::Invalidate => self.last_psn(),
            Refusal::InvalidRequest
            | Refusal::TooLong
            | Refusal::Access
            | Refusal::ReceiveBuffer
            | Refusal::Malformed
            | Refusal::CqOverflow
            | Refusal::Caller => self.packet.psn,
        };
        self.send(Opcode::RcAck, kind, psn, 0)
    }

    /// Ends the queue pair.
    pub(super) fn end(&mut self, refusal: Refusal) -> Effect {
        self.stage = Stage::Failed;
        Effect::Fatal(refusal.fault())
    }
}
