// SPDX-License-Identifier: GPL-2.0

//! Objects that softirqs give to the thread that they run on top of.
//!
//! Upstream home: rust/kernel/sync

use super::RcuArc;
use core::{
    marker::PhantomData,
    mem::{align_of, ManuallyDrop}, //
};
use kernel::{
    cpu::CpuId,
    sync::atomic::{Atomic, Full, Relaxed}, //
};

/// The number of places; CPUs whose numbers differ by a multiple of it share one.
const PLACES: usize = 64;

/// Nobody waits for an object.
const EMPTY: usize = 0;
/// Somebody waits for one. All else is the address of an object, with the tag in its lowest bit.
const OPEN: usize = 1;

/// A place that does not share its cache line.
#[repr(align(64))]
struct Place(Atomic<usize>);

/// Places, one for each CPU, where a thread waits for an object that a softirq on its CPU may have for it.
///
/// Softirqs that a thread has caused often run on its CPU before it goes on, when it enables bottom halves. What they find
/// to be done could be left to another thread, which must be woken for it; or to this one, which is about to have time.
///
/// That it is the same CPU makes an answer likely, and nothing depends on it: an object that is offered is taken by exactly
/// one thread that waits, or is not accepted.
pub struct Handoff<T> {
    places: [Place; PLACES],
    _p: PhantomData<RcuArc<T>>,
}

// SAFETY: Objects are only passed from one thread to another.
unsafe impl<T: Send + Sync> Sync for Handoff<T> {}

impl<T> Handoff<T> {
    /// Makes one where nobody waits.
    pub const fn new() -> Self {
        // The tag needs a bit of the address.
        assert!(align_of::<T>() >= 2);
        Self {
            places: [const { Place(Atomic::new(EMPTY)) }; PLACES],
            _p: PhantomData,
        }
    }

    #[inline]
    fn place(&self) -> &Place {
        let cpu = CpuId::current().as_u32() as usize;
        // Cannot fail: the remainder is less than the length.
        self.places.get(cpu % PLACES).unwrap_or(&self.places[0])
    }

    /// Begins to wait. [`None`] if another thread does so on this CPU.
    #[inline]
    pub fn wait(&self) -> Option<Waiting<'_, T>> {
        let place = self.place();
        match place.0.cmpxchg(EMPTY, OPEN, Relaxed) {
            // INVARIANT: The place was empty, and is not any more until it is given back.
            Ok(_) => Some(Waiting {
                place,
                _p: PhantomData,
            }),
            Err(_) => None,
        }
    }

    /// Gives an object, and a bit that goes with it, to the thread that waits on this CPU.
    ///
    /// # Errors
    ///
    /// The object, if none waits or it has got another one.
    #[inline]
    pub fn offer(&self, object: RcuArc<T>, tag: bool) -> Result<(), RcuArc<T>> {
        let place = self.place();
        if place.0.load(Relaxed) != OPEN {
            return Err(object);
        }
        let address = RcuArc::into_raw(object) as usize;
        match place.0.cmpxchg(OPEN, address | usize::from(tag), Full) {
            Ok(_) => Ok(()),
            // SAFETY: The address comes from `into_raw` above and has not been stored.
            Err(_) => Err(unsafe { RcuArc::from_raw(address as *const T) }),
        }
    }
}

/// A thread that waits for an object until it asks for it.
///
/// # Invariants
///
/// `place` is not empty, and only the owner of this makes it empty.
pub struct Waiting<'a, T> {
    place: &'a Place,
    _p: PhantomData<RcuArc<T>>,
}

impl<T> Waiting<'_, T> {
    /// Ends the wait; returns what has been offered.
    #[inline]
    pub fn take(self) -> Option<(RcuArc<T>, bool)> {
        // Once only: the place may be another thread's as soon as it is empty.
        ManuallyDrop::new(self).end()
    }

    #[inline]
    fn end(&self) -> Option<(RcuArc<T>, bool)> {
        let value = self.place.0.xchg(EMPTY, Full);
        if value == EMPTY || value == OPEN {
            return None;
        }
        // SAFETY: `offer` has stored the address of an object that it gave up, and whoever makes the place empty
        // takes it.
        let object = unsafe { RcuArc::from_raw((value & !1) as *const T) };
        Some((object, value & 1 != 0))
    }
}

impl<T> Drop for Waiting<'_, T> {
    fn drop(&mut self) {
        drop(self.end());
    }
}
