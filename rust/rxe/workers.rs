// SPDX-License-Identifier: GPL-2.0

//! The work queue of the module: the workers of all queue pairs, and what must not run where it is
//! noticed.

#![forbid(unsafe_code)]

use crate::abstractions::{
    sync::{
        wait_for_rcu_arcs,
        StaticMutex, //
    },
    work::OwnedQueue, //
};
use kernel::{
    prelude::*,
    sync::{
        rcu,
        Arc, //
    }, //
};

static SHARED: StaticMutex<Option<Arc<OwnedQueue>>> = StaticMutex::new(None);

/// Keeps the work queue. Dropping it, when no device exists any more, waits for all that was queued
/// and for all bodies that wait for the end of a grace period.
pub(crate) struct Workers(());

impl Workers {
    /// Makes the work queue. There is one per module.
    pub(crate) fn new() -> Result<Self> {
        let queue = Arc::new(OwnedQueue::new_unbound(c"rxe_wq")?, GFP_KERNEL)?;
        *SHARED.lock() = Some(queue);
        Ok(Self(()))
    }

    /// The work queue.
    ///
    /// # Errors
    ///
    /// `ENODEV` if it does not exist yet or any more.
    pub(crate) fn shared() -> Result<Arc<OwnedQueue>> {
        SHARED.lock().clone().ok_or(ENODEV)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let queue = SHARED.lock().take();
        if let Some(queue) = &queue {
            // Work items own references to bodies, ...
            queue.flush();
        }
        // ... which are freed after a grace period, and give up their references to the queue then.
        // Readers that came across one in between are waited for first.
        rcu::synchronize_rcu();
        let left = wait_for_rcu_arcs();
        if left != 0 {
            pr_err!("{left} objects are still referred to\n");
        }
        drop(queue);
    }
}
