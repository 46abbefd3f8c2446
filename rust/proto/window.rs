// SPDX-License-Identifier: GPL-2.0

//! The entries of the send window: one for each work request between post and completion.
//!
//! # States of a request
//!
//! | state  | it means                                          | left by                          |
//! |--------|---------------------------------------------------|----------------------------------|
//! | Posted | nothing of it was sent or executed                | commit of its first packet       |
//! | Active | it has PSNs; some of its packets were sent        | last acknowledgement or response |
//! | Done   | it succeeded, maybe ahead of earlier requests     | completion taken                 |
//! | Failed | it has a status to fail with once all earlier ones are over; nothing behind it is sent | being the oldest |

#![forbid(unsafe_code)]

use super::num::{
    Mtu,
    Slot, //
};
use super::psn::Psn;
use super::status::{
    WcOpcode,
    WcStatus, //
};
use super::wr::{
    SendOp,
    SendWr, //
};

/// Returns how many packets `later` is after `earlier`, 0 to 2^24 - 1.
///
/// A READ of 2^31 bytes can reserve half of all sequence numbers, so the distances inside the
/// window are taken without sign.
pub(super) const fn gap(later: Psn, earlier: Psn) -> u32 {
    later.wrapping_sub_n(earlier.get()).get()
}

/// How a request is brought to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// By an acknowledgement: SEND and WRITE.
    Acked,
    /// By a response of its own, which no later acknowledgement replaces: READ, atomics, FLUSH.
    Answered,
    /// By the driver, without packets.
    Local,
}

impl Class {
    pub(super) const fn of(op: SendOp) -> Self {
        if op.is_local() {
            Self::Local
        } else if op.needs_rd_atomic() {
            Self::Answered
        } else {
            Self::Acked
        }
    }
}

/// The state of a request; see the table in the documentation of the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryState {
    Posted,
    Active,
    Done,
    Failed,
}

/// One work request in the window.
#[derive(Clone, Copy, Debug)]
pub struct SendEntry {
    pub(super) wr: SendWr,
    /// First sequence number, once active.
    pub(super) first: Psn,
    /// Last sequence number, once active.
    pub(super) last: Psn,
    pub(super) state: EntryState,
    pub(super) class: Class,
    /// Status of the completion, once done or failed.
    pub(super) status: WcStatus,
}

impl SendEntry {
    /// An unused entry, to fill a new window with.
    pub const EMPTY: Self = Self {
        wr: SendWr::EMPTY,
        first: Psn::new(0),
        last: Psn::new(0),
        state: EntryState::Posted,
        class: Class::Acked,
        status: WcStatus::Success,
    };

    /// Returns the number of bytes of the message that precede the packet `psn`.
    pub(super) fn offset_of(&self, psn: Psn, mtu: Mtu) -> u32 {
        gap(psn, self.first).wrapping_shl(mtu.shift())
    }
}

impl Default for SendEntry {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// The end of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendCompletion {
    /// Place that the request had in the window, free from now on.
    pub slot: Slot,
    /// The consumer's name for the request.
    pub wr_id: u64,
    /// How it ended.
    pub status: WcStatus,
    /// What it was.
    pub opcode: WcOpcode,
    /// Length of the message in bytes, zero if it failed.
    pub byte_len: u32,
    /// The consumer is to see a completion: the request was signaled, or failed (IBA 10.7.3.1).
    pub report: bool,
}
