// SPDX-License-Identifier: GPL-2.0

//! Work queues of one's own, and timers.

mod queue;
mod timer;

pub use self::{
    queue::OwnedQueue,
    timer::{Timer, TimerCallback}, //
};
