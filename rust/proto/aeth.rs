// SPDX-License-Identifier: GPL-2.0

//! The syndrome of an acknowledgement.

#![forbid(unsafe_code)]

/// Why a responder refuses a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NakCode {
    /// A packet is missing: the request is ahead of the expected sequence number.
    PsnSequence,
    /// The request is not one the responder can execute.
    InvalidRequest,
    /// The key, the rights or the range do not allow the access.
    RemoteAccess,
    /// The responder failed for a reason of its own.
    RemoteOperation,
    /// The reliable datagram request is invalid; RoCE peers do not send it.
    InvalidRd,
}

/// What an acknowledgement says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AethKind {
    /// Everything up to the packet's sequence number has been received.
    Ack {
        /// Encoded count of receive credits, five bits; [`UNLIMITED`] for no flow control.
        credits: u8,
    },
    /// The responder has no receive buffer; try again after a delay.
    RnrNak(
        /// Encoded delay, five bits; see [`super::time::rnr_delay`].
        u8,
    ),
    /// The request is refused.
    Nak(NakCode),
    /// A code without meaning; the packet is to be ignored.
    Reserved,
}

/// The credit count of a responder that does no end-to-end flow control.
pub const UNLIMITED: u8 = 0x1f;

const TYPE: u8 = 0xe0;
const VALUE: u8 = 0x1f;

const ACK: u8 = 0x00;
const RNR_NAK: u8 = 0x20;
const NAK: u8 = 0x60;

impl AethKind {
    /// An acknowledgement without flow control.
    pub const ACK: Self = Self::Ack { credits: UNLIMITED };

    /// Reads a syndrome.
    pub const fn decode(syndrome: u8) -> Self {
        let value = syndrome & VALUE;
        match syndrome & TYPE {
            ACK => Self::Ack { credits: value },
            RNR_NAK => Self::RnrNak(value),
            NAK => match value {
                0 => Self::Nak(NakCode::PsnSequence),
                1 => Self::Nak(NakCode::InvalidRequest),
                2 => Self::Nak(NakCode::RemoteAccess),
                3 => Self::Nak(NakCode::RemoteOperation),
                4 => Self::Nak(NakCode::InvalidRd),
                _ => Self::Reserved,
            },
            _ => Self::Reserved,
        }
    }

    /// Returns the syndrome. A reserved one becomes a type that peers ignore.
    pub const fn encode(self) -> u8 {
        match self {
            Self::Ack { credits } => ACK | (credits & VALUE),
            Self::RnrNak(code) => RNR_NAK | (code & VALUE),
            Self::Nak(NakCode::PsnSequence) => NAK,
            Self::Nak(NakCode::InvalidRequest) => NAK | 1,
            Self::Nak(NakCode::RemoteAccess) => NAK | 2,
            Self::Nak(NakCode::RemoteOperation) => NAK | 3,
            Self::Nak(NakCode::InvalidRd) => NAK | 4,
            Self::Reserved => 0x40,
        }
    }
}
