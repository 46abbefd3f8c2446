// SPDX-License-Identifier: GPL-2.0

//! Timers of tick resolution, inside reference counted values.
//!
//! Upstream home: rust/kernel/time/timer.rs
//!
//! C header: [`include/linux/timer.h`](srctree/include/linux/timer.h)

use crate::abstractions::{
    bindings,
    sync::{Borrowed, RcuArc}, //
};
use core::marker::PhantomData;
use kernel::{
    prelude::*,
    static_lock_class,
    sync::{
        atomic::{Atomic, Relaxed},
        new_spinlock_irq,
        SpinLockIrq, //
    },
    types::Opaque, //
};

/// What happens when a [`Timer`] of the value fires.
pub trait TimerCallback: Send + Sync + Sized + 'static {
    /// Called in softirq, with the reference that the armed timer held.
    fn expired(this: RcuArc<Self>);
}

/// A timer that keeps the value it acts on alive while it is armed.
///
/// All calls must name the same value, the owner of the timer; others are ignored. Delays are
/// rounded up to ticks; the timer may still fire early, by the part of a tick that has passed and by what the
/// count of ticks lags behind the clock.
///
/// # Invariants
///
/// While the timer is pending it owns a count of the value at `owner`, which is then not null.
/// `owner` changes only from null to a value.
#[repr(C)]
#[pin_data(PinnedDrop)]
pub struct Timer<T: TimerCallback> {
    #[pin]
    timer: Opaque<bindings::timer_list>,
    owner: Atomic<*const T>,
    /// Whether the timer is shut down; held while it is set.
    #[pin]
    shut: SpinLockIrq<bool>,
    _p: PhantomData<RcuArc<T>>,
}

// SAFETY: Timers may be armed, shut down and fire on any CPU.
unsafe impl<T: TimerCallback> Send for Timer<T> {}

// SAFETY: The timer code takes its own locks.
unsafe impl<T: TimerCallback> Sync for Timer<T> {}

impl<T: TimerCallback> Timer<T> {
    /// Makes a timer that is not armed.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: The slot is valid; this initialises it. The name and the key live for ever.
            timer <- Opaque::ffi_init(|slot| unsafe {
                bindings::timer_init_key(
                    slot,
                    Some(Self::fire),
                    0,
                    c"Timer".as_char_ptr(),
                    static_lock_class!().as_ptr(),
                )
            }),
            owner: Atomic::new(core::ptr::null()),
            shut <- new_spinlock_irq!(false, "Timer::shut"),
            _p: PhantomData,
        })
    }

    /// Makes the timer fire after `delay_ns`, or when it would have fired before if that is earlier.
    ///
    /// Cheap when the timer is set early enough already. Nothing happens after the timer was shut down.
    /// Any context.
    #[inline]
    pub fn arm_before(&self, owner: Borrowed<'_, T>, delay_ns: u64) {
        let expires = Self::expiry(delay_ns);
        // SAFETY: The timer is initialised. The reads race with the timer code, as those of
        // `timer_pending` do: a stale answer sets the timer once more or is made good when it fires.
        let (pending, at) = unsafe {
            let timer = self.timer.get();
            (
                !(&raw const (*timer).entry.pprev).read_volatile().is_null(),
                (&raw const (*timer).expires).read_volatile(),
            )
        };
        if pending && (expires.wrapping_sub(at) as isize) >= 0 {
            return;
        }
        self.arm_with(owner, delay_ns, bindings::timer_reduce);
    }

    /// Stops the timer for good and waits until its callback does not run any more. Sleeps.
    pub fn shutdown_sync(&self) {
        *self.shut.lock() = true;
        // SAFETY: The timer is initialised, and the caller may sleep.
        if unsafe { bindings::timer_shutdown_sync(self.timer.get()) } != 0 {
            self.release();
        }
    }

    /// Returns the tick at which a timer with this delay is due.
    #[inline]
    fn expiry(delay_ns: u64) -> usize {
        // SAFETY: Reads a counter that the tick advances.
        let now = unsafe { (&raw const bindings::jiffies).read_volatile() };
        let tick = u64::from(bindings::TICK_NSEC);
        // Delays of more than half the range of ticks would be in the past.
        let ticks = delay_ns.div_ceil(tick).clamp(1, (isize::MAX as u64) >> 1);
        now.wrapping_add(ticks as usize)
    }

    fn arm_with(
        &self,
        owner: Borrowed<'_, T>,
        delay_ns: u64,
        set: unsafe extern "C" fn(*mut bindings::timer_list, usize) -> i32,
    ) {
        let Some(reference) = owner.upgrade() else {
            return;
        };
        let ptr = RcuArc::into_raw(reference);
        let known = self.owner.load(Relaxed);
        if known != ptr && self.owner.cmpxchg(core::ptr::null(), ptr, Relaxed).is_err() {
            // SAFETY: Takes back the reference from above.
            drop(unsafe { RcuArc::from_raw(ptr) });
            return;
        }
        let shut = self.shut.lock();
        // SAFETY: The timer is initialised. It is not shut down as long as the lock is held, so the
        // answer tells whether it was pending already.
        let needed = !*shut && unsafe { set(self.timer.get(), Self::expiry(delay_ns)) } == 0;
        drop(shut);
        if !needed {
            // SAFETY: Takes back the reference from above: the timer owned one before, or is off.
            drop(unsafe { RcuArc::from_raw(ptr) });
        }
        // INVARIANT: Otherwise the timer became pending with the count from above.
    }

    /// Drops the count that a pending timer owned.
    fn release(&self) {
        // SAFETY: By the type invariants, the timer having been pending until now.
        drop(unsafe { RcuArc::from_raw(self.owner.load(Relaxed)) });
    }

    /// The timer function.
    ///
    /// # Safety
    ///
    /// Called by the timer code for the timer of a `Timer<T>` that was pending.
    unsafe extern "C" fn fire(timer: *mut bindings::timer_list) {
        // CAST: The C timer is the first field of `Timer`, which is `repr(C)`.
        // SAFETY: The value that contains the timer is alive, the timer having been pending.
        let owner = unsafe { (*timer.cast::<Self>()).owner.load(Relaxed) };
        // SAFETY: The count that the pending timer owned passes to us.
        T::expired(unsafe { RcuArc::from_raw(owner) });
    }
}

#[pinned_drop]
impl<T: TimerCallback> PinnedDrop for Timer<T> {
    fn drop(self: Pin<&mut Self>) {
        // A pending timer owns a count of the value that contains it, so it is not pending here.
        // This only ends the life of the timer for debugging code.
        // SAFETY: The timer is initialised and cannot be armed any more.
        unsafe { bindings::timer_delete(self.timer.get()) };
    }
}
