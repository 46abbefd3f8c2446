// SPDX-License-Identifier: GPL-2.0

//! Limits on the packets that one sender has in the network stack.
//!
//! Upstream home: rust/kernel/net/sock.rs
//!
//! C header: [`include/net/sock.h`](srctree/include/net/sock.h)

use super::TxSkb;
use crate::abstractions::{bindings, sync::RcuArc};
use core::{ffi::c_void, ptr::NonNull};
use kernel::{
    prelude::*,
    static_lock_class,
    sync::{
        atomic::{Atomic, Full, Relaxed},
        barrier::{smp_mb, Full as FullBarrier},
        new_spinlock_irq,
        SpinLockIrq, //
    },
    types::Opaque, //
};

/// A sender with more memory than this in its packets has to stop; one that had to stop is woken at less
/// than half of it. In bytes, with what the buffers need beside their data: about 50 packets of 4 KiB.
const LIMIT: i32 = 256 << 10;

/// Set in [`Inner::waiting`] by whoever puts the entry on the queue of waiters.
const QUEUED: u32 = 1 << 31;

/// A sender that can be woken.
pub trait TxWake: Send + Sync + Sized + 'static {
    /// There is room again. `who` is the set of bits that were passed to [`TxCredits::may_send`].
    ///
    /// Called in any context but hard interrupts, with interrupts disabled.
    fn wake(this: &RcuArc<Self>, who: u32);
}

/// Where a sender waits.
#[pin_data]
struct Inner<T: TxWake> {
    /// The queue of waiters of the socket.
    #[pin]
    queue: Opaque<bindings::socket_wq>,
    /// The only entry that is ever put on it, when somebody has to stop.
    #[pin]
    entry: Opaque<bindings::wait_queue_entry>,
    /// Who had to stop, and [`QUEUED`].
    waiting: Atomic<u32>,
    /// Taken with the lock of the queue held.
    #[pin]
    sender: SpinLockIrq<Option<RcuArc<T>>>,
}

// SAFETY: The queue has its own lock, and the entry is changed under it.
unsafe impl<T: TxWake> Send for Inner<T> {}

// SAFETY: As for `Send`.
unsafe impl<T: TxWake> Sync for Inner<T> {}

/// A sender's account of the packets that it has in the network stack.
///
/// The account is the one of a socket, which does nothing else: it is not bound and has no file. Packets belong to
/// it as those of other sockets do, so all that they refer to is the kernel's: when one is freed, however late,
/// the kernel's function for it runs, and the socket goes with the last of them. Nobody has to wait for a packet,
/// neither the sender nor the module.
///
/// The sender registers itself with [`TxCredits::attach`] and must call [`TxCredits::detach`] before it goes, as the
/// two refer to each other.
///
/// # Invariants
///
/// `sk` is valid, and a reference to it is owned. Until the account is dropped, `sk_wq` of it is the queue in `inner`.
pub struct TxCredits<T: TxWake> {
    sk: NonNull<bindings::sock>,
    inner: RcuArc<Inner<T>>,
}

// SAFETY: All parts may be used from any thread.
unsafe impl<T: TxWake> Send for TxCredits<T> {}

// SAFETY: As for `Send`.
unsafe impl<T: TxWake> Sync for TxCredits<T> {}

impl<T: TxWake> TxCredits<T> {
    /// Opens an account. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new() -> Result<Self> {
        let inner = RcuArc::pin_init(
            pin_init!(Inner {
                // SAFETY: The slot is valid and zeroed before its lock is made. Name and key live for ever.
                queue <- Opaque::ffi_init(|slot: *mut bindings::socket_wq| unsafe {
                    slot.write_bytes(0, 1);
                    bindings::__init_waitqueue_head(
                        &raw mut (*slot).wait,
                        c"TxCredits::queue".as_char_ptr(),
                        static_lock_class!().as_ptr(),
                    );
                }),
                // SAFETY: The slot is valid; the entry is on no list.
                entry <- Opaque::ffi_init(|slot: *mut bindings::wait_queue_entry| unsafe {
                    slot.write_bytes(0, 1);
                    (*slot).func = Some(Self::woken);
                    (*slot).entry.next = &raw mut (*slot).entry;
                    (*slot).entry.prev = &raw mut (*slot).entry;
                }),
                waiting: Atomic::new(0),
                sender <- new_spinlock_irq!(None, "TxCredits::sender"),
            }),
            GFP_KERNEL,
        )?;
        // The socket sees no namespace: `init_net` is the one that never goes.
        // SAFETY: Namespace and protocol are the kernel's own and live for ever. The protocol stands for the size of the
        // socket and the cache it is from; none of its functions is called, since the socket is never opened.
        let sk = NonNull::new(unsafe {
            bindings::sk_alloc(
                (&raw mut bindings::init_net).cast(),
                bindings::AF_INET as i32,
                bindings::GFP_KERNEL,
                &raw mut bindings::udp_prot,
                1,
            )
        })
        .ok_or(ENOMEM)?;
        // SAFETY: The socket is new and ours alone. The queue stays until it is taken away in `drop`, and then for a grace
        // period. Sockets that are freed after a grace period are told of each packet with one atomic operation.
        unsafe {
            bindings::sock_init_data(core::ptr::null_mut(), sk.as_ptr());
            bindings::sock_set_flag(sk.as_ptr(), bindings::sock_flags_SOCK_RCU_FREE);
            (*sk.as_ptr()).sk_sndbuf = LIMIT;
            (*sk.as_ptr()).__bindgen_anon_1.sk_wq = inner.queue.get();
        }
        // INVARIANT: A new socket has one reference.
        Ok(Self { sk, inner })
    }

    /// Says whom to wake.
    pub fn attach(&self, sender: RcuArc<T>) {
        let old = self.inner.sender.lock().replace(sender);
        drop(old);
    }

    /// Forgets whom to wake. Nobody is waited for: packets may stay where they are.
    pub fn detach(&self) {
        let old = self.inner.sender.lock().take();
        drop(old);
    }

    /// Returns the memory in packets, in bytes.
    #[inline]
    fn in_flight(&self) -> i32 {
        // SAFETY: The socket is valid by the type invariants; the counter is atomic, and only looked at.
        unsafe { (&raw const (*self.sk.as_ptr()).sk_wmem_alloc.refs.counter).read_volatile() }
    }

    /// Tells whether one more packet may be sent. If not, the sender will be woken with the bit `who`,
    /// which is not the highest one.
    #[inline]
    pub fn may_send(&self, who: u32) -> bool {
        self.in_flight() <= LIMIT || self.wait(who)
    }

    #[cold]
    fn wait(&self, who: u32) -> bool {
        let inner = &*self.inner;
        let mut bits = inner.waiting.load(Relaxed);
        while let Err(now) = inner.waiting.cmpxchg(bits, bits | who | QUEUED, Full) {
            bits = now;
        }
        let queued = bits & QUEUED == 0;
        if queued {
            // SAFETY: Queue and entry are initialised. The entry is on no list: only who sets `QUEUED` puts it on one, and
            // `woken` takes it off before it clears the bit.
            unsafe {
                bindings::add_wait_queue(&raw mut (*inner.queue.get()).wait, inner.entry.get())
            };
        }
        // Packets that were freed before the entry was on the queue woke nobody.
        smp_mb(FullBarrier);
        if self.in_flight() >= LIMIT / 2 {
            return false;
        }
        if queued {
            // Others may have relied on the entry before it was there.
            let others = inner.waiting.load(Relaxed) & !QUEUED & !who;
            inner.wake(others);
        }
        true
    }

    /// Counts a packet until it is freed.
    #[inline]
    pub fn charge(&self, skb: &mut TxSkb) {
        // SAFETY: Both are valid. The packet keeps the socket.
        unsafe { bindings::skb_set_owner_w(skb.as_raw(), self.sk.as_ptr()) };
    }

    /// The function of the entry: there is room.
    ///
    /// # Safety
    ///
    /// Called by the queue that the entry is on, with its lock held.
    unsafe extern "C" fn woken(
        entry: *mut bindings::wait_queue_entry,
        _mode: u32,
        _flags: i32,
        _key: *mut c_void,
    ) -> i32 {
        // SAFETY: The entry is that of an `Inner`, which is valid while the entry is on the queue; `Opaque` is transparent.
        let inner = unsafe {
            let entry = entry.cast::<Opaque<bindings::wait_queue_entry>>();
            &*kernel::container_of!(entry, Inner<T>, entry)
        };
        // SAFETY: The entry is on the queue, whose lock is held.
        unsafe { bindings::list_del_init(&raw mut (*entry).entry) };
        inner.wake(inner.waiting.xchg(0, Full) & !QUEUED);
        1
    }
}

impl<T: TxWake> Inner<T> {
    #[cold]
    fn wake(&self, who: u32) {
        if who == 0 {
            return;
        }
        if let Some(sender) = &*self.sender.lock() {
            T::wake(sender, who);
        }
    }
}

impl<T: TxWake> Drop for TxCredits<T> {
    fn drop(&mut self) {
        let inner = &*self.inner;
        // SAFETY: The socket is valid, and a reference is owned. Packets that are freed from now on find no queue; those that
        // found it are done with it a grace period later, before which `inner` is not freed. The entry, if it is on the
        // queue, is taken off under the lock that `woken` is called with, so that is not called any more either; if
        // it is not, it is a list of its own.
        unsafe {
            (&raw mut (*self.sk.as_ptr()).__bindgen_anon_1.sk_wq)
                .write_volatile(core::ptr::null_mut());
            bindings::remove_wait_queue(&raw mut (*inner.queue.get()).wait, inner.entry.get());
            bindings::sock_put(self.sk.as_ptr());
        }
    }
}
