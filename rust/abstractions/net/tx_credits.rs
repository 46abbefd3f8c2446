// SPDX-License-Identifier: GPL-2.0

//! Limits on the packets that one sender has in the network stack.
//!
//! Upstream home: rust/kernel/net/skb.rs

use super::TxSkb;
use crate::abstractions::{bindings, sync::RcuArc};
use core::ptr::NonNull;
use kernel::{
    prelude::*,
    sync::{
        atomic::{Atomic, Full, Relaxed, Release},
        new_spinlock_irq,
        rcu,
        SpinLockIrq, //
    },
    types::Opaque, //
};

/// Above this number of packets a sender has to stop.
const HIGH: i32 = 64;
/// Below this number a sender that had to stop is woken.
const LOW: i32 = 16;

/// The number of accounts that exist in this module. Changes when accounts come and go only.
static ACCOUNTS: Atomic<usize> = Atomic::new(0);

/// A sender that can be woken.
pub trait TxWake: Send + Sync + Sized + 'static {
    /// There is room again. `who` is the set of bits that were passed to [`TxCredits::may_send`].
    ///
    /// Called in any context but hard interrupts, with interrupts disabled.
    fn wake(this: &RcuArc<Self>, who: u32);
}

#[pin_data]
#[repr(C)]
struct Inner<T: TxWake> {
    /// The number of packets, and one for the sender while it is there.
    count: Atomic<i32>,
    /// Who had to stop.
    waiting: Atomic<u32>,
    #[pin]
    sender: SpinLockIrq<Option<RcuArc<T>>>,
    rcu: Opaque<bindings::callback_head>,
}

/// A sender's account of the packets that it has in the network stack.
///
/// Packets may stay there long, in the queue of a device, and do not keep the sender alive: the
/// account outlives it. The sender registers itself with [`TxCredits::attach`] and must call
/// [`TxCredits::detach`] before it goes, as the two refer to each other.
///
/// The function that is called when a packet is freed is part of this module: before its text goes,
/// [`wait_for_accounts`] must have returned.
///
/// # Invariants
///
/// `inner` is valid, and the account owns one of `count`.
pub struct TxCredits<T: TxWake> {
    inner: NonNull<Inner<T>>,
}

// SAFETY: All parts may be used from any thread.
unsafe impl<T: TxWake> Send for TxCredits<T> {}

// SAFETY: As for `Send`.
unsafe impl<T: TxWake> Sync for TxCredits<T> {}

impl<T: TxWake> TxCredits<T> {
    /// Opens an account. Sleeps.
    pub fn new() -> Result<Self> {
        let inner = KBox::pin_init(
            pin_init!(Inner {
                count: Atomic::new(1),
                waiting: Atomic::new(0),
                sender <- new_spinlock_irq!(None, "TxCredits::sender"),
                rcu: Opaque::zeroed(),
            }),
            GFP_KERNEL,
        )?;
        ACCOUNTS.add(1, Relaxed);
        // SAFETY: The value stays where it is until it is freed.
        let inner = KBox::into_raw(unsafe { Pin::into_inner_unchecked(inner) });
        Ok(Self {
            // SAFETY: A pointer from a box is not null.
            inner: unsafe { NonNull::new_unchecked(inner) },
        })
    }

    #[inline]
    fn inner(&self) -> &Inner<T> {
        // SAFETY: By the type invariants.
        unsafe { self.inner.as_ref() }
    }

    /// Says whom to wake.
    pub fn attach(&self, sender: RcuArc<T>) {
        let old = self.inner().sender.lock().replace(sender);
        drop(old);
    }

    /// Forgets whom to wake.
    pub fn detach(&self) {
        let old = self.inner().sender.lock().take();
        drop(old);
    }

    /// Returns the number of packets.
    #[inline]
    pub fn in_flight(&self) -> i32 {
        self.inner().count.load(Relaxed).wrapping_sub(1)
    }

    /// Tells whether one more packet may be sent. If not, the sender will be woken with the bit `who`.
    #[inline]
    pub fn may_send(&self, who: u32) -> bool {
        self.in_flight() <= HIGH || self.wait(who)
    }

    #[cold]
    fn wait(&self, who: u32) -> bool {
        let waiting = &self.inner().waiting;
        let mut bits = waiting.load(Relaxed);
        while let Err(now) = waiting.cmpxchg(bits, bits | who, Full) {
            bits = now;
        }
        // Packets that were freed before the bit was seen did not wake anybody.
        self.in_flight() < LOW
    }

    /// Counts a packet until it is freed.
    #[inline]
    pub fn charge(&self, skb: &mut TxSkb) {
        self.inner().count.add(1, Relaxed);
        // SAFETY: `freed` gives back the count that was just taken, which keeps the account.
        unsafe { skb.set_destructor(Self::freed, self.inner.as_ptr().cast()) };
    }

    /// The destructor of packets.
    ///
    /// # Safety
    ///
    /// Called once for each packet that was charged.
    unsafe extern "C" fn freed(skb: *mut bindings::sk_buff) {
        // SAFETY: `charge` stored the account there.
        let inner = unsafe {
            (*bindings::skb_shinfo(skb))
                .__bindgen_anon_2
                .destructor_arg
                .cast::<Inner<T>>()
        };
        // SAFETY: The packet owns a count.
        unsafe { Self::put(inner) };
    }

    /// Gives back a count.
    ///
    /// # Safety
    ///
    /// The caller owns one.
    #[inline]
    unsafe fn put(inner: *mut Inner<T>) {
        // The account is freed a grace period after its last count, which another may give back as
        // soon as this one is.
        let _guard = rcu::read_lock();
        // SAFETY: Valid, by the requirements of this function and the guard.
        let this = unsafe { &*inner };
        let left = this.count.fetch_sub(1, Full).wrapping_sub(1);

        if left == 0 {
            // SAFETY: Nobody has a count any more, so nobody uses the field.
            unsafe { bindings::call_rcu(this.rcu.get(), Some(Self::free)) };
        } else if left <= LOW && this.waiting.load(Relaxed) != 0 {
            Self::wake(this);
        }
    }

    #[cold]
    fn wake(this: &Inner<T>) {
        let who = this.waiting.xchg(0, Full);
        if who == 0 {
            return;
        }
        if let Some(sender) = &*this.sender.lock() {
            T::wake(sender, who);
        }
    }

    /// Frees an account.
    ///
    /// # Safety
    ///
    /// Called by RCU once, after the last count was given back.
    unsafe extern "C" fn free(head: *mut bindings::callback_head) {
        // SAFETY: `head` is the `rcu` field of an account; `Opaque` is transparent.
        let inner = unsafe {
            kernel::container_of!(
                head.cast::<Opaque<bindings::callback_head>>(),
                Inner<T>,
                rcu
            )
        };
        // SAFETY: The pointer came from a box, and nobody has the account any more.
        drop(unsafe { Pin::new_unchecked(KBox::from_raw(inner)) });
        ACCOUNTS.fetch_sub(1, Release);
    }
}

impl<T: TxWake> Drop for TxCredits<T> {
    fn drop(&mut self) {
        // SAFETY: The account owns a count by the type invariants.
        unsafe { Self::put(self.inner.as_ptr()) };
    }
}

/// Waits until there are no accounts any more, so that no packet refers to this module. Sleeps.
///
/// Nobody may open an account meanwhile. Must be followed by `rcu_barrier()`.
pub fn wait_for_accounts() {
    while ACCOUNTS.load(kernel::sync::atomic::Acquire) != 0 {
        kernel::time::delay::fsleep(kernel::time::Delta::from_millis(5));
    }
}
