// SPDX-License-Identifier: GPL-2.0

//! A mutex in a static that needs no initialisation call.
//!
//! Upstream home: rust/kernel/sync/lock/global.rs

use crate::abstractions::bindings;
use core::{
    cell::UnsafeCell,
    ops::{Deref, DerefMut},
    pin::Pin, //
};
use kernel::{
    str::CStrExt,
    sync::{
        atomic::{Acquire, Atomic, Relaxed, Release},
        LockClassKey, //
    },
    types::{NotThreadSafe, Opaque}, //
};

const RAW: u32 = 0;
const BUSY: u32 = 1;
const READY: u32 = 2;

/// A mutex that can be the initial value of a static.
///
/// The C mutex is initialised by whoever takes the lock first. The contents of a static are never
/// dropped, so they should own nothing any more when the module goes.
///
/// # Invariants
///
/// `mutex` is initialised once `state` is [`READY`]. `data` is accessed with the mutex held only.
pub struct StaticMutex<T> {
    state: Atomic<u32>,
    /// Each mutex is a class of its own for the lock checker.
    key: LockClassKey,
    mutex: Opaque<bindings::mutex>,
    data: UnsafeCell<T>,
}

// SAFETY: The mutex lets one thread at a time reach the data.
unsafe impl<T: Send> Sync for StaticMutex<T> {}

impl<T> StaticMutex<T> {
    /// Makes an unlocked mutex.
    pub const fn new(data: T) -> Self {
        Self {
            state: Atomic::new(RAW),
            // SAFETY: The key is used by `lock` only, for which the mutex must be in a static.
            key: unsafe { LockClassKey::new_static() },
            mutex: Opaque::uninit(),
            data: UnsafeCell::new(data),
        }
    }

    /// Takes the lock. Sleeps.
    pub fn lock(&'static self) -> StaticMutexGuard<T> {
        if self.state.load(Acquire) != READY {
            self.init();
        }
        // SAFETY: The mutex is initialised by the type invariants.
        unsafe { bindings::mutex_lock(self.mutex.get()) };
        StaticMutexGuard {
            lock: self,
            _not_send: NotThreadSafe,
        }
    }

    #[cold]
    fn init(&'static self) {
        if self.state.cmpxchg(RAW, BUSY, Relaxed).is_ok() {
            // SAFETY: Nobody else touches the mutex before the state is `READY`, and it is pinned,
            // being in a static.
            unsafe {
                bindings::__mutex_init(
                    self.mutex.get(),
                    c"static_mutex".as_char_ptr(),
                    Pin::static_ref(&self.key).as_ptr(),
                )
            };
            // INVARIANT: The mutex was just initialised.
            self.state.store(READY, Release);
            return;
        }
        while self.state.load(Acquire) != READY {
            // SAFETY: May be called in process context, where `lock` is called.
            unsafe { bindings::schedule() };
        }
    }
}

/// A locked [`StaticMutex`].
pub struct StaticMutexGuard<T: 'static> {
    lock: &'static StaticMutex<T>,
    _not_send: NotThreadSafe,
}

impl<T> Deref for StaticMutexGuard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: The guard owns the lock.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T> DerefMut for StaticMutexGuard<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: The guard owns the lock.
        unsafe { &mut *self.lock.data.get() }
    }
}

impl<T> Drop for StaticMutexGuard<T> {
    fn drop(&mut self) {
        // SAFETY: The guard owns the lock.
        unsafe { bindings::mutex_unlock(self.lock.mutex.get()) };
    }
}
