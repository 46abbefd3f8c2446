// SPDX-License-Identifier: GPL-2.0

//! Calling back into an object of the RDMA core that may be on its way out.

use crate::abstractions::sync::Gated;
use core::ptr::NonNull;

/// The C structure of an object, for callbacks that are made outside of its verbs.
///
/// Shared by the driver's value behind the structure and by whatever bodies raise events. The
/// destroy trampoline closes it, which waits for callbacks that are running, before the core may
/// free the structure.
///
/// # Invariants
///
/// The pointer is valid for as long as the gate has not been closed.
pub(super) struct Target<T>(Gated<NonNull<T>>);

// SAFETY: The pointer is only used by `with`, whose closure does what the C structure allows from
// any thread.
unsafe impl<T> Send for Target<T> {}
// SAFETY: As above.
unsafe impl<T> Sync for Target<T> {}

impl<T> Target<T> {
    /// Makes the target of `raw`.
    ///
    /// # Safety
    ///
    /// [`Target::close`] must be called, and have returned, before `raw` becomes invalid.
    pub(super) unsafe fn new(raw: NonNull<T>) -> Self {
        // INVARIANT: By the safety requirement `raw` is valid until the target is closed.
        Self(Gated::new_open(raw))
    }

    /// Calls `f` with the structure; [`None`] if the object is being destroyed.
    pub(super) fn with<R>(&self, f: impl FnOnce(NonNull<T>) -> R) -> Option<R> {
        let raw = self.0.enter()?;
        Some(f(*raw))
    }

    /// Refuses callbacks from now on and waits for those that are running. Sleeps.
    pub(super) fn close(&self) {
        self.0.close_and_wait();
    }
}
