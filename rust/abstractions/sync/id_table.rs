// SPDX-License-Identifier: GPL-2.0

//! Tables of objects by number, read under RCU.
//!
//! Upstream home: rust/kernel/xarray.rs
//!
//! C header: [`include/linux/xarray.h`](srctree/include/linux/xarray.h)

use super::{Borrowed, RcuArc};
use crate::abstractions::bindings;
use core::{cell::UnsafeCell, marker::PhantomData};
use kernel::{
    alloc::{flags::GFP_KERNEL, Flags},
    error::to_result,
    prelude::*,
    sync::rcu,
    types::Opaque, //
};

/// A table of [`RcuArc`] by number.
///
/// Numbers are given out cyclically from a range, so that one is not used again soon. Writers may
/// be in any context: they disable interrupts.
///
/// # Invariants
///
/// `xa` is an initialised xarray. Its entries are reservations or come from [`RcuArc::into_raw`], and
/// each such entry owns its count. `next` is accessed with the xarray's lock held only.
#[pin_data(PinnedDrop)]
pub struct IdTable<T: Send + Sync + 'static> {
    #[pin]
    xa: Opaque<bindings::xarray>,
    next: UnsafeCell<u32>,
    min: u32,
    max: u32,
    _p: PhantomData<RcuArc<T>>,
}

// SAFETY: The table owns references to `T`, which is `Send` and `Sync`.
unsafe impl<T: Send + Sync> Send for IdTable<T> {}

// SAFETY: The xarray's lock serialises changes, and lookups are under RCU.
unsafe impl<T: Send + Sync> Sync for IdTable<T> {}

/// Returns the C flags for an allocation that may sleep or not; nothing finer makes sense here.
fn gfp(flags: Flags) -> bindings::gfp_t {
    if flags == GFP_KERNEL {
        bindings::GFP_KERNEL
    } else {
        bindings::GFP_ATOMIC
    }
}

/// The lock of a table's xarray, with interrupts disabled.
struct Locked<'a> {
    xa: &'a Opaque<bindings::xarray>,
    flags: usize,
}

impl<'a> Locked<'a> {
    fn new(xa: &'a Opaque<bindings::xarray>) -> Self {
        // SAFETY: The xarray is initialised.
        let flags = unsafe { bindings::xa_lock_irqsave(xa.get()) };
        Self { xa, flags }
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // SAFETY: The lock is held, and the flags are those of the time it was taken.
        unsafe { bindings::xa_unlock_irqrestore(self.xa.get(), self.flags) };
    }
}

impl<T: Send + Sync + 'static> IdTable<T> {
    /// Makes an empty table whose numbers are given out from `min` to `max`, both included.
    pub fn new(min: u32, max: u32) -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: The slot is valid; this initialises it.
            xa <- Opaque::ffi_init(|xa| unsafe {
                bindings::xa_init_flags(
                    xa,
                    bindings::XA_FLAGS_ALLOC | bindings::xa_lock_type_XA_LOCK_IRQ,
                )
            }),
            next: UnsafeCell::new(min),
            min,
            max,
            _p: PhantomData,
        })
    }

    /// Reserves a number. Lookups do not find it before it is published.
    ///
    /// Sleeps with `GFP_KERNEL`; any other flags mean `GFP_ATOMIC`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also if all numbers are in use.
    pub fn reserve(&self, flags: Flags) -> Result<Reserved<'_, T>> {
        let limit = bindings::xa_limit {
            max: self.max,
            min: self.min,
        };
        let mut id = 0u32;
        let locked = Locked::new(&self.xa);
        // SAFETY: The lock is held, as a lock that disables interrupts, which is what the flags of
        // the xarray say; the pointers are valid. A null entry is a reservation.
        let ret = unsafe {
            bindings::__xa_alloc_cyclic(
                self.xa.get(),
                &mut id,
                core::ptr::null_mut(),
                limit,
                self.next.get(),
                gfp(flags),
            )
        };
        drop(locked);
        // A positive answer tells that the numbers have wrapped, `EBUSY` that none is left.
        if ret < 0 {
            to_result(ret).map_err(|error| if error == EBUSY { ENOMEM } else { error })?;
        }
        Ok(Reserved { table: self, id })
    }

    /// Stores a reference under a number of the caller's choice, which need not be in the range.
    ///
    /// Sleeps with `GFP_KERNEL`; any other flags mean `GFP_ATOMIC`.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the number is in use or reserved, `ENOMEM`. The reference is given back.
    pub fn insert_at(
        &self,
        id: u32,
        value: RcuArc<T>,
        flags: Flags,
    ) -> Result<(), (Error, RcuArc<T>)> {
        let ptr = RcuArc::into_raw(value).cast_mut();
        let locked = Locked::new(&self.xa);
        // SAFETY: As in `reserve`; the entry is an aligned pointer.
        // INVARIANT: The entry takes over the count.
        let ret =
            unsafe { bindings::__xa_insert(self.xa.get(), id as usize, ptr.cast(), gfp(flags)) };
        drop(locked);
        to_result(ret).map_err(|error| {
            // SAFETY: The table has not taken the reference.
            (error, unsafe { RcuArc::from_raw(ptr) })
        })
    }

    /// Removes an entry. Readers that found it before may still hold borrows.
    pub fn remove(&self, id: u32) -> Option<RcuArc<T>> {
        let locked = Locked::new(&self.xa);
        // SAFETY: The lock is held.
        let ptr = unsafe { bindings::__xa_erase(self.xa.get(), id as usize) };
        drop(locked);
        // SAFETY: Entries come from `into_raw`; a reservation is answered as null. The entry is not
        // in the table any more, so this is the only time it is taken back.
        (!ptr.is_null()).then(|| unsafe { RcuArc::from_raw(ptr.cast_const().cast()) })
    }

    /// Looks a number up.
    #[inline]
    pub fn get<'g>(&'g self, id: u32, guard: &'g rcu::Guard) -> Option<Borrowed<'g, T>> {
        // SAFETY: The xarray is initialised; a lookup takes no lock.
        let ptr = unsafe { bindings::xa_load(self.xa.get(), id as usize) };
        // SAFETY: Entries come from `into_raw`, and this one was just reachable.
        unsafe { Borrowed::from_rcu(ptr.cast_const().cast(), guard) }
    }

    /// Calls `f` for each entry, in the order of the numbers, until it answers `false`.
    ///
    /// Entries that come or go meanwhile may or may not be seen.
    pub fn for_each(&self, guard: &rcu::Guard, mut f: impl FnMut(u32, Borrowed<'_, T>) -> bool) {
        let mut index = 0usize;
        // SAFETY: The xarray is initialised.
        let mut ptr = unsafe {
            bindings::xa_find(self.xa.get(), &mut index, usize::MAX, bindings::XA_PRESENT)
        };
        // SAFETY: Entries come from `into_raw`, and this one was just reachable.
        while let Some(entry) = unsafe { Borrowed::from_rcu(ptr.cast_const().cast(), guard) } {
            // Numbers are 32 bits wide where they enter the table.
            if !f(index as u32, entry) {
                return;
            }
            // SAFETY: The xarray is initialised.
            ptr = unsafe {
                bindings::xa_find_after(self.xa.get(), &mut index, usize::MAX, bindings::XA_PRESENT)
            };
        }
    }

    /// Tells whether the table has no entries and no reservations.
    pub fn is_empty(&self) -> bool {
        // SAFETY: The xarray is initialised; the head is read once.
        unsafe { (&raw const (*self.xa.get()).xa_head).read_volatile() }.is_null()
    }
}

#[pinned_drop]
impl<T: Send + Sync + 'static> PinnedDrop for IdTable<T> {
    fn drop(self: Pin<&mut Self>) {
        let mut index = 0usize;
        loop {
            // SAFETY: The xarray is initialised.
            let ptr = unsafe {
                bindings::xa_find(self.xa.get(), &mut index, usize::MAX, bindings::XA_PRESENT)
            };
            if ptr.is_null() {
                break;
            }
            drop(self.remove(index as u32));
        }
        // SAFETY: Nobody uses the table any more.
        unsafe { bindings::xa_destroy(self.xa.get()) };
    }
}

/// A number that is taken but not visible; dropping it gives it back.
#[must_use = "the number is given back at once when the reservation is unused"]
pub struct Reserved<'a, T: Send + Sync + 'static> {
    table: &'a IdTable<T>,
    id: u32,
}

impl<T: Send + Sync + 'static> Reserved<'_, T> {
    /// Returns the number.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Makes the number visible to lookups.
    pub fn publish(self, value: RcuArc<T>) {
        let this = core::mem::ManuallyDrop::new(self);
        let ptr = RcuArc::into_raw(value).cast_mut();
        let locked = Locked::new(&this.table.xa);
        // SAFETY: The lock is held. The node that holds the reservation holds the entry as well, so
        // nothing is allocated and the call cannot fail.
        // INVARIANT: The entry takes over the count.
        unsafe {
            bindings::__xa_store(
                this.table.xa.get(),
                this.id as usize,
                ptr.cast(),
                bindings::GFP_ATOMIC,
            )
        };
        drop(locked);
    }
}

impl<T: Send + Sync + 'static> Drop for Reserved<'_, T> {
    fn drop(&mut self) {
        let locked = Locked::new(&self.table.xa);
        // SAFETY: The lock is held, and the entry is this reservation.
        unsafe { bindings::__xa_erase(self.table.xa.get(), self.id as usize) };
        drop(locked);
    }
}
