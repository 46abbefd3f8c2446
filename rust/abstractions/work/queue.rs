// SPDX-License-Identifier: GPL-2.0

//! Work queues that belong to a driver.
//!
//! Upstream home: rust/kernel/workqueue.rs
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

use crate::abstractions::bindings;
use core::{ops::Deref, ptr::NonNull};
use kernel::{alloc::AllocError, prelude::*, str::CStr, workqueue::Queue};

/// A work queue whose workers are not bound to CPUs; dropping it runs what is queued and frees it.
///
/// # Invariants
///
/// `ptr` is a valid work queue that nobody else destroys.
pub struct OwnedQueue {
    ptr: NonNull<bindings::workqueue_struct>,
}

// SAFETY: Work queues may be used and destroyed from any thread.
unsafe impl Send for OwnedQueue {}

// SAFETY: Work queues may be used from any thread at the same time.
unsafe impl Sync for OwnedQueue {}

impl OwnedQueue {
    /// Makes an unbound work queue that runs as many items at a time as a queue may. Sleeps.
    pub fn new_unbound(name: &'static CStr) -> Result<Self, AllocError> {
        // SAFETY: The format and its one argument are strings that live for ever.
        let ptr = unsafe {
            bindings::alloc_workqueue_noprof(
                c"%s".as_char_ptr(),
                bindings::wq_flags_WQ_UNBOUND,
                bindings::wq_consts_WQ_MAX_ACTIVE as i32,
                name.as_char_ptr(),
            )
        };
        // INVARIANT: The queue was just made and is passed to nobody.
        Ok(Self {
            ptr: NonNull::new(ptr).ok_or(AllocError)?,
        })
    }

    /// Waits for all items that are queued now. Sleeps.
    pub fn flush(&self) {
        // SAFETY: The work queue is valid.
        unsafe { bindings::__flush_workqueue(self.ptr.as_ptr()) };
    }
}

impl Deref for OwnedQueue {
    type Target = Queue;

    #[inline]
    fn deref(&self) -> &Queue {
        // SAFETY: The work queue is valid while `self` is.
        unsafe { Queue::from_raw(self.ptr.as_ptr()) }
    }
}

impl Drop for OwnedQueue {
    fn drop(&mut self) {
        // SAFETY: The work queue is valid and owned. Items that are queued run before this returns.
        unsafe { bindings::destroy_workqueue(self.ptr.as_ptr()) };
    }
}
