// SPDX-License-Identifier: GPL-2.0

//! Bottom halves kept off the local CPU.
//!
//! Upstream home: rust/kernel/interrupt.rs
//!
//! C header: [`include/linux/bottom_half.h`](srctree/include/linux/bottom_half.h)

use crate::abstractions::bindings;
use kernel::types::NotThreadSafe;

/// Evidence that softirqs do not run on this CPU; dropping it lets pending ones run.
///
/// Work that raises a softirq several times, such as the transmission of a burst of packets, is
/// cheaper inside one such section: the softirq then runs once, at the end.
pub struct BhDisabled(NotThreadSafe);

impl BhDisabled {
    /// Disables bottom halves on this CPU. Called in process context or softirq.
    #[inline]
    pub fn new() -> Self {
        // SAFETY: May be called in any context but hard interrupts, where it would only warn.
        unsafe { bindings::local_bh_disable() };
        Self(NotThreadSafe)
    }
}

impl Drop for BhDisabled {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: Balances the call in `new`, on the same CPU, since the type is not `Send`.
        unsafe { bindings::local_bh_enable() };
    }
}
