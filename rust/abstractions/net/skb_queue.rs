// SPDX-License-Identifier: GPL-2.0

//! Lists and queues of packet buffers.
//!
//! Upstream home: rust/kernel/net/skb_queue.rs

use super::{RxSkb, TxSkb};
use crate::abstractions::bindings;
use core::marker::PhantomData;
use kernel::sync::atomic::{Acquire, Atomic, Full, Relaxed, Release};

/// An owned buffer that can be linked into lists.
pub trait Linked: Sized + private::Raw {}

impl Linked for RxSkb {}
impl Linked for TxSkb {}

mod private {
    use super::*;

    /// Conversion to and from the C buffer.
    pub trait Raw {
        /// Gives the buffer up.
        fn give(self) -> *mut bindings::sk_buff;

        /// Takes a buffer over.
        ///
        /// # Safety
        ///
        /// `ptr` comes from `give` of the same type, once.
        unsafe fn take(ptr: *mut bindings::sk_buff) -> Self;
    }

    impl Raw for RxSkb {
        #[inline]
        fn give(self) -> *mut bindings::sk_buff {
            self.into_raw()
        }

        #[inline]
        unsafe fn take(ptr: *mut bindings::sk_buff) -> Self {
            // SAFETY: By the requirements of this function.
            unsafe { Self::from_raw(ptr) }
        }
    }

    impl Raw for TxSkb {
        #[inline]
        fn give(self) -> *mut bindings::sk_buff {
            self.into_raw()
        }

        #[inline]
        unsafe fn take(ptr: *mut bindings::sk_buff) -> Self {
            // SAFETY: By the requirements of this function.
            unsafe { Self::from_raw(ptr) }
        }
    }
}

/// Returns the place of a buffer's link to the next one.
///
/// # Safety
///
/// `skb` is valid.
#[inline]
unsafe fn next(skb: *mut bindings::sk_buff) -> *mut *mut bindings::sk_buff {
    // SAFETY: By the requirements of this function.
    unsafe { &raw mut (*skb).__bindgen_anon_1.__bindgen_anon_1.next }
}

/// A list of buffers, first in, first out; dropping it frees them.
///
/// # Invariants
///
/// `first` begins a list of owned buffers that ends with a null link. `last` is its last buffer if
/// the list is not empty.
pub struct SkbList<S: Linked> {
    first: *mut bindings::sk_buff,
    last: *mut bindings::sk_buff,
    _p: PhantomData<S>,
}

// SAFETY: The list owns its buffers.
unsafe impl<S: Linked + Send> Send for SkbList<S> {}

// SAFETY: Nothing can be done to the buffers with a shared reference.
unsafe impl<S: Linked + Sync> Sync for SkbList<S> {}

impl<S: Linked> SkbList<S> {
    /// Makes an empty list.
    #[inline]
    pub const fn new() -> Self {
        Self {
            first: core::ptr::null_mut(),
            last: core::ptr::null_mut(),
            _p: PhantomData,
        }
    }

    /// Tells whether the list is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// Appends a buffer.
    #[inline]
    pub fn push(&mut self, skb: S) {
        let skb = skb.give();
        // SAFETY: The buffers are valid and ours.
        unsafe {
            *next(skb) = core::ptr::null_mut();
            if self.first.is_null() {
                self.first = skb;
            } else {
                *next(self.last) = skb;
            }
        }
        self.last = skb;
    }

    /// Takes the first buffer.
    #[inline]
    pub fn pop(&mut self) -> Option<S> {
        let skb = self.first;
        if skb.is_null() {
            return None;
        }
        // SAFETY: The buffer is valid and ours; it leaves the list unlinked, as the network code
        // wants buffers to be.
        unsafe {
            self.first = *next(skb);
            *next(skb) = core::ptr::null_mut();
            Some(S::take(skb))
        }
    }
}

impl<S: Linked> Drop for SkbList<S> {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

/// Why a queue did not take a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushError {
    /// The queue is full.
    Full,
    /// The queue is closed.
    Closed,
}

/// Stands in for the first buffer of a queue that is closed. No buffer is at this address.
const CLOSED: *mut bindings::sk_buff = core::ptr::without_provenance_mut(1);

/// A queue of received packets that can be closed. Many may push at a time, in any context; whoever
/// takes out takes all.
///
/// No lock is taken: the packets are a list, newest first, whose head is changed atomically.
///
/// # Invariants
///
/// `head` is [`CLOSED`] or begins a list of owned buffers that ends with a null link.
pub struct SkbQueue {
    head: Atomic<*mut bindings::sk_buff>,
    /// The number of packets, which lags behind.
    len: Atomic<i32>,
    limit: i32,
}

// SAFETY: The queue owns its buffers.
unsafe impl Send for SkbQueue {}

// SAFETY: All changes are atomic.
unsafe impl Sync for SkbQueue {}

impl SkbQueue {
    /// Makes an open queue for about `limit` packets.
    pub const fn new(limit: i32) -> Self {
        Self {
            head: Atomic::new(core::ptr::null_mut()),
            len: Atomic::new(0),
            limit,
        }
    }

    /// Appends a packet, which loses its device.
    ///
    /// # Errors
    ///
    /// The packet is given back if the queue is full or closed.
    #[inline]
    pub fn push(&self, mut skb: RxSkb) -> Result<(), (PushError, RxSkb)> {
        if self.len.load(Relaxed) >= self.limit {
            return Err((PushError::Full, skb));
        }
        skb.detach_device();
        let skb = skb.into_raw();
        let mut head = self.head.load(Relaxed);
        loop {
            if head == CLOSED {
                // SAFETY: Takes back what was given up above.
                return Err((PushError::Closed, unsafe { RxSkb::from_raw(skb) }));
            }
            // SAFETY: The buffer is ours until the exchange.
            unsafe { *next(skb) = head };
            // INVARIANT: The new list is the buffer and the list before.
            match self.head.cmpxchg(head, skb, Release) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        self.len.add(1, Relaxed);
        Ok(())
    }

    /// Takes all packets out, oldest first.
    #[inline]
    pub fn drain(&self) -> SkbList<RxSkb> {
        let mut head = self.head.load(Relaxed);
        loop {
            if head.is_null() || head == CLOSED {
                return SkbList::new();
            }
            match self.head.cmpxchg(head, core::ptr::null_mut(), Acquire) {
                Ok(_) => return self.reversed(head),
                Err(now) => head = now,
            }
        }
    }

    /// Refuses packets from now on and frees those that are there.
    pub fn close(&self) {
        let head = self.head.xchg(CLOSED, Full);
        if head != CLOSED {
            drop(self.reversed(head));
        }
    }

    /// Turns a list that was taken from the queue round.
    #[inline]
    fn reversed(&self, mut skb: *mut bindings::sk_buff) -> SkbList<RxSkb> {
        let last = skb;
        let mut first = core::ptr::null_mut();
        let mut count = 0i32;
        while !skb.is_null() {
            // SAFETY: The buffer is valid and ours.
            unsafe {
                let after = *next(skb);
                *next(skb) = first;
                first = skb;
                skb = after;
            }
            count = count.wrapping_add(1);
        }
        self.len.fetch_sub(count, Relaxed);
        // INVARIANT: The list was owned by the queue and now is by the result.
        SkbList {
            first,
            last,
            _p: PhantomData,
        }
    }
}

impl Drop for SkbQueue {
    fn drop(&mut self) {
        self.close();
    }
}
