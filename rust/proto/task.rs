// SPDX-License-Identifier: GPL-2.0

//! When the worker of a queue pair runs.
//!
//! ```text
//!            kick              start             finish
//!     Idle ───────► Queued ───────────► Running ───────► Idle
//!                     ▲                  │   ▲
//!                     │ finish(more)     │   │ finish: again
//!                     │             kick ▼   │
//!                     └───────────────  Rerun
//!
//!     any ── close ──► Closed
//! ```
//!
//! - *Idle*: no worker; a kick queues one.
//! - *Queued*: exactly one worker will start. Kicks need to do nothing.
//! - *Running*: exactly one worker runs and has seen everything that was there when it started.
//! - *Rerun*: as Running, and there has been a kick since: the worker will look again.
//! - *Closed*: a worker that is queued or running finds out and ends; none will start.
//!
//! The functions are pure: the driver keeps the state in an atomic variable and applies them with
//! compare-and-exchange, and acts on the verdict of the application that took effect.

#![forbid(unsafe_code)]

/// The state of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum TaskState {
    /// Not scheduled.
    Idle = 0,
    /// Scheduled, not started.
    Queued = 1,
    /// Running.
    Running = 2,
    /// Running, and kicked meanwhile.
    Rerun = 3,
    /// Not to run any more.
    Closed = 4,
}

/// What a kick has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kick {
    /// Queue the worker, and give it a reference to its object.
    Enqueue,
    /// Nothing: the worker will look.
    Pending,
    /// Nothing: there is no worker any more.
    Refused,
}

/// What a worker does when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Start {
    /// Work.
    Run,
    /// End at once.
    Stop,
}

/// What a worker does when it has no more to do, or has done enough for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Finish {
    /// End.
    Done,
    /// Look again.
    Again,
    /// Queue itself again, with the reference that it has, and end.
    Requeue,
}

impl TaskState {
    /// Returns the state that a stored number stands for; a number that none has means closed.
    pub const fn from_u32(value: u32) -> Self {
        match value {
            0 => Self::Idle,
            1 => Self::Queued,
            2 => Self::Running,
            3 => Self::Rerun,
            _ => Self::Closed,
        }
    }

    /// Returns the number to store.
    pub const fn get(self) -> u32 {
        self as u32
    }

    /// There is something to do.
    pub const fn kick(self) -> (Self, Kick) {
        match self {
            Self::Idle => (Self::Queued, Kick::Enqueue),
            Self::Queued => (Self::Queued, Kick::Pending),
            Self::Running | Self::Rerun => (Self::Rerun, Kick::Pending),
            Self::Closed => (Self::Closed, Kick::Refused),
        }
    }

    /// The worker has been started.
    ///
    /// Only a queued worker starts; a start in another state is not counted.
    pub const fn start(self) -> (Self, Start) {
        match self {
            Self::Queued => (Self::Running, Start::Run),
            Self::Idle | Self::Running | Self::Rerun | Self::Closed => (self, Start::Stop),
        }
    }

    /// The worker has found nothing more to do, or has more to do and used up its turn (`more`).
    pub const fn finish(self, more: bool) -> (Self, Finish) {
        match (self, more) {
            (Self::Running, false) => (Self::Idle, Finish::Done),
            (Self::Rerun, false) => (Self::Running, Finish::Again),
            (Self::Running | Self::Rerun, true) => (Self::Queued, Finish::Requeue),
            (Self::Idle | Self::Queued | Self::Closed, _) => (self, Finish::Done),
        }
    }

    /// No worker shall start from now on. Tells whether one is queued or running.
    pub const fn close(self) -> (Self, bool) {
        match self {
            Self::Idle | Self::Closed => (Self::Closed, false),
            Self::Queued | Self::Running | Self::Rerun => (Self::Closed, true),
        }
    }

    /// Tells whether no worker shall run.
    #[cfg(not(MODULE))]
    pub const fn is_closed(self) -> bool {
        matches!(self, Self::Closed)
    }
}
