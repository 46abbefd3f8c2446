// SPDX-License-Identifier: GPL-2.0

//! The lock of network configuration.
//!
//! Upstream home: rust/kernel/net/rtnl.rs
//!
//! C header: [`include/linux/rtnetlink.h`](srctree/include/linux/rtnetlink.h)

use crate::abstractions::bindings;
use kernel::types::NotThreadSafe;

/// Evidence that this task holds the RTNL mutex: network devices do not come, go or move.
pub struct Rtnl(NotThreadSafe);

impl Rtnl {
    /// Takes the mutex. Sleeps. The caller must not hold it already.
    pub fn lock() -> Self {
        // SAFETY: May be called in process context.
        unsafe { bindings::rtnl_lock() };
        Self(NotThreadSafe)
    }
}

impl Drop for Rtnl {
    fn drop(&mut self) {
        // SAFETY: The mutex was taken by `lock`.
        unsafe { bindings::rtnl_unlock() };
    }
}
