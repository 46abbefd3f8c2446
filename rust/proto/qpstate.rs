// SPDX-License-Identifier: GPL-2.0

//! Types and states of queue pairs, and what may happen in which state.
//!
//! | state | requests in | responses in | send queue | receive queue | post send | post receive |
//! |-------|-------------|--------------|------------|---------------|-----------|--------------|
//! | Reset | no          | no           | stopped    | stopped       | no        | no           |
//! | Init  | no          | no           | stopped    | stopped       | no        | yes          |
//! | RTR   | yes         | no           | stopped    | runs          | no        | yes          |
//! | RTS   | yes         | yes          | runs       | runs          | yes       | yes          |
//! | SQD   | yes         | yes          | drains     | runs          | yes       | yes          |
//! | SQE   | yes         | no           | flushes    | runs          | yes       | yes          |
//! | Err   | no          | no           | flushes    | flushes       | yes       | yes          |

#![forbid(unsafe_code)]

use super::opcode::Service;

/// The type of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QpType {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// General services: a datagram queue pair with number 1.
    Gsi,
}

impl QpType {
    /// Returns the transport service of the type.
    pub const fn service(self) -> Service {
        match self {
            Self::Rc => Service::Rc,
            Self::Uc => Service::Uc,
            Self::Ud | Self::Gsi => Service::Ud,
        }
    }

    /// Returns the state a queue pair goes to when one of its send requests fails.
    ///
    /// The send queues of unreliable services fail alone: receiving goes on.
    pub const fn after_send_fault(self) -> QpState {
        match self {
            Self::Rc => QpState::Err,
            Self::Uc | Self::Ud | Self::Gsi => QpState::Sqe,
        }
    }
}

/// The state of a queue pair (`enum ib_qp_state`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum QpState {
    /// Nothing is set up.
    #[default]
    Reset = 0,
    /// Receives can be posted.
    Init = 1,
    /// Ready to receive.
    Rtr = 2,
    /// Ready to send.
    Rts = 3,
    /// Send queue drained: requests under way are completed, no new ones are started.
    Sqd = 4,
    /// Send queue error: sends complete as flushed, receiving goes on.
    Sqe = 5,
    /// Error: everything completes as flushed.
    Err = 6,
}

/// What is done with the requests of a work queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Engine {
    /// Nothing.
    Stopped,
    /// They are executed.
    Run,
    /// Those that were started are finished.
    Drain,
    /// They complete as flushed.
    Flush,
}

impl QpState {
    /// All states.
    #[cfg(not(MODULE))]
    pub const ALL: [Self; 7] = [
        Self::Reset,
        Self::Init,
        Self::Rtr,
        Self::Rts,
        Self::Sqd,
        Self::Sqe,
        Self::Err,
    ];

    /// Makes a state of the number that verbs use.
    pub const fn from_ib_enum(value: u32) -> Option<Self> {
        match value {
            0 => Some(Self::Reset),
            1 => Some(Self::Init),
            2 => Some(Self::Rtr),
            3 => Some(Self::Rts),
            4 => Some(Self::Sqd),
            5 => Some(Self::Sqe),
            6 => Some(Self::Err),
            _ => None,
        }
    }

    /// Returns the number that verbs use.
    pub const fn ib_enum(self) -> u32 {
        self as u32
    }

    /// Returns what is done with the send queue.
    pub const fn send_engine(self) -> Engine {
        match self {
            Self::Reset | Self::Init | Self::Rtr => Engine::Stopped,
            Self::Rts => Engine::Run,
            Self::Sqd => Engine::Drain,
            Self::Sqe | Self::Err => Engine::Flush,
        }
    }

    /// Returns what is done with the receive queue.
    pub const fn recv_engine(self) -> Engine {
        match self {
            Self::Reset | Self::Init => Engine::Stopped,
            Self::Rtr | Self::Rts | Self::Sqd | Self::Sqe => Engine::Run,
            Self::Err => Engine::Flush,
        }
    }

    /// Tells whether packets for the responder are accepted.
    pub const fn admits_requests(self) -> bool {
        matches!(self.recv_engine(), Engine::Run)
    }

    /// Tells whether packets for the requester are accepted.
    pub const fn admits_responses(self) -> bool {
        matches!(self.send_engine(), Engine::Run | Engine::Drain)
    }

    /// Tells whether send requests may be posted.
    pub const fn may_post_send(self) -> bool {
        !matches!(self.send_engine(), Engine::Stopped)
    }

    /// Tells whether receive requests may be posted.
    pub const fn may_post_recv(self) -> bool {
        !matches!(self, Self::Reset)
    }
}
