// SPDX-License-Identifier: GPL-2.0

//! A value that many may use at once until it is closed, and that may be changed while closed.
//!
//! Upstream home: `rust/kernel/sync/gated.rs`.
//!
//! Like a reader-writer lock whose writer side is held for long times: readers never wait, they are
//! refused; closing waits for the readers that are inside. Readers cost one atomic operation to enter
//! and one to leave, and may sleep inside if the closer may wait that long.

use core::{
    cell::UnsafeCell,
    ops::Deref, //
};
use kernel::{
    processor::cpu_relax,
    sync::atomic::{
        Acquire,
        Atomic,
        Full,
        Relaxed,
        Release, //
    },
    time::{
        delay::fsleep,
        Delta, //
    }, //
};

/// Nobody may enter.
const CLOSED: i32 = 1 << 30;
/// The value is being changed; set only together with [`CLOSED`].
const CHANGING: i32 = 1 << 29;
/// The bits that count the users inside.
const USERS: i32 = CHANGING - 1;

/// A value behind a gate.
///
/// # Invariants
///
/// A `&T` exists only while the user count in `state` is above zero. A `&mut T` exists only while
/// `state` is exactly `CLOSED | CHANGING`. The count rises only while [`CLOSED`] is clear.
pub struct Gated<T> {
    state: Atomic<i32>,
    value: UnsafeCell<T>,
}

// SAFETY: Sending a `Gated<T>` sends the `T`.
unsafe impl<T: Send> Send for Gated<T> {}

// SAFETY: Shared references to the value exist on several threads at once (needs `T: Sync`), and the
// value may be changed or replaced by any thread that finds the gate closed (needs `T: Send`).
unsafe impl<T: Send + Sync> Sync for Gated<T> {}

impl<T> Gated<T> {
    /// Makes a value that can be entered.
    pub const fn new_open(value: T) -> Self {
        Self {
            state: Atomic::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Makes a value that cannot be entered until [`open`](Self::open) is called.
    pub const fn new_closed(value: T) -> Self {
        Self {
            state: Atomic::new(CLOSED),
            value: UnsafeCell::new(value),
        }
    }

    /// Enters, unless the gate is closed. Never waits; callable in any context.
    #[inline]
    pub fn enter(&self) -> Option<Entered<'_, T>> {
        let mut seen = self.state.load(Relaxed);
        loop {
            if seen & CLOSED != 0 || seen & USERS == USERS {
                return None;
            }
            match self.state.cmpxchg(seen, seen.wrapping_add(1), Acquire) {
                // INVARIANT: The count was raised while `CLOSED` was clear.
                Ok(_) => return Some(Entered { gate: self }),
                Err(now) => seen = now,
            }
        }
    }

    /// Refuses new users from now on, without waiting for those inside. Callable in any context.
    pub fn close(&self) {
        let mut seen = self.state.load(Relaxed);
        while seen & CLOSED == 0 {
            match self.state.cmpxchg(seen, seen | CLOSED, Full) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// Refuses new users and waits until nobody is inside. May sleep.
    ///
    /// The wait is as long as the longest stay. The caller must not be inside itself.
    pub fn close_and_wait(&self) {
        self.close();
        let mut tries = 0u32;
        while self.state.load(Acquire) & USERS != 0 {
            // A stay is a copy of a few kilobytes: shorter than a sleep, unless it was preempted.
            if tries < 1000 {
                cpu_relax();
                tries = tries.saturating_add(1);
            } else {
                fsleep(Delta::from_micros(50));
            }
        }
    }

    /// Changes the value. Returns `None`, without calling `change`, unless the gate is closed, nobody
    /// is inside and no other change is going on. Callable in any context.
    pub fn with_closed<R>(&self, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.state
            .cmpxchg(CLOSED, CLOSED | CHANGING, Acquire)
            .ok()?;
        // SAFETY: The state went from `CLOSED`, with no users, to `CLOSED | CHANGING`. By the type
        // invariants there is no reference to the value, and none is made until the state changes,
        // which happens below, after the last use of this one.
        let result = change(unsafe { &mut *self.value.get() });
        // Nobody else changes the state while it is `CLOSED | CHANGING`: `enter` and `close` leave a
        // closed gate alone, `open` and `with_closed` expect exactly `CLOSED`.
        self.state.store(CLOSED, Release);
        Some(result)
    }

    /// Opens a closed gate again. Returns whether it did: `false` if it was open, if users from before
    /// the close are still inside, or if the value is being changed. Callable in any context.
    pub fn open(&self) -> bool {
        self.state.cmpxchg(CLOSED, 0, Release).is_ok()
    }
}

/// The right to use the value; leaving is dropping it.
///
/// # Invariants
///
/// Accounts for one user in the count of `gate`.
pub struct Entered<'a, T> {
    gate: &'a Gated<T>,
}

impl<T> Deref for Entered<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: By the type invariants this is one of the users inside, so there is no `&mut T`, and
        // none can be made before this user has left.
        unsafe { &*self.gate.value.get() }
    }
}

impl<T> Drop for Entered<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.gate.state.fetch_sub(1, Release);
    }
}
