// SPDX-License-Identifier: GPL-2.0

//! Users of something that can be shut.
//!
//! Upstream home: rust/kernel/sync/inflight.rs

use kernel::{
    prelude::*,
    sync::{
        atomic::{Acquire, Atomic, Relaxed, Release},
        new_condvar, new_spinlock_irq, CondVar, SpinLockIrq, //
    }, //
};

/// Set in the state when no more users may enter.
const CLOSED: u32 = 1 << 30;

/// Counts the present users of something, refuses new ones once it is closed, and waits for those
/// that are there to leave.
///
/// Meant for short uses: whoever closes sleeps until the last user has left. Entering and leaving
/// is possible in any context.
#[pin_data]
pub(crate) struct Inflight {
    /// The number of users, and [`CLOSED`].
    state: Atomic<u32>,
    #[pin]
    lock: SpinLockIrq<()>,
    #[pin]
    empty: CondVar,
}

impl Inflight {
    /// Makes one that is open.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            state: Atomic::new(0),
            lock <- new_spinlock_irq!((), "Inflight::lock"),
            empty <- new_condvar!("Inflight::empty"),
        })
    }

    /// Enters, or returns `None` if closed.
    #[inline]
    pub(crate) fn enter(&self) -> Option<InflightGuard<'_>> {
        let before = self.state.fetch_add(1, Acquire);
        let guard = InflightGuard(self);
        (before & CLOSED == 0).then_some(guard)
    }

    /// Refuses new users and sleeps until those that are there have left. Closing twice is allowed.
    pub(crate) fn close_and_wait(&self) {
        let mut guard = self.lock.lock();
        if self.state.load(Relaxed) & CLOSED == 0 {
            self.state.fetch_add(CLOSED, Acquire);
        }
        // The last user makes the final change under the lock, so that once it is seen under the
        // lock that user does not touch `self` any more.
        while self.state.load(Acquire) != CLOSED {
            self.empty.wait(&mut guard);
        }
    }

    /// Admits users again. Called by the one who closed, after it returned from closing.
    pub(crate) fn reopen(&self) {
        let _guard = self.lock.lock();
        if self.state.load(Relaxed) & CLOSED != 0 {
            self.state.fetch_sub(CLOSED, Release);
        }
    }

    #[inline]
    fn leave(&self) {
        let mut state = self.state.load(Relaxed);
        while state & CLOSED == 0 {
            match self.state.cmpxchg(state, state.wrapping_sub(1), Release) {
                Ok(_) => return,
                Err(now) => state = now,
            }
        }
        self.leave_closed();
    }

    #[cold]
    fn leave_closed(&self) {
        let _guard = self.lock.lock();
        if self.state.fetch_sub(1, Release).wrapping_sub(1) == CLOSED {
            self.empty.notify_all();
        }
    }
}

/// A user that has entered; dropping it leaves.
#[must_use = "the user leaves at once when the guard is unused"]
pub(crate) struct InflightGuard<'a>(&'a Inflight);

impl Drop for InflightGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.leave();
    }
}
