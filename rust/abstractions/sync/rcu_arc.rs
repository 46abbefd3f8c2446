// SPDX-License-Identifier: GPL-2.0

//! Reference counted values that readers may look at under RCU.
//!
//! Upstream home: rust/kernel/sync/rcu_arc.rs

use crate::abstractions::bindings;
use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::Deref,
    ptr::NonNull, //
};
use kernel::{
    alloc::{AllocError, Flags},
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        rcu,
        Refcount, //
    },
    types::Opaque,
    workqueue::{HasWork, RawWorkItem, Work, WorkItem, WorkItemPointer}, //
};

#[pin_data]
#[repr(C)]
struct Inner<T> {
    refs: Refcount,
    rcu: Opaque<bindings::callback_head>,
    #[pin]
    value: T,
}

/// The number of values that exist in this module.
static VALUES: Atomic<usize> = Atomic::new(0);

/// Waits until the values of this module whose last reference is gone are freed. Sleeps.
///
/// The destructor of a value may give up the last reference to another, so one round of callbacks
/// does not do. Returns the number of values that are still referred to: zero, or there is a leak.
pub fn wait_for_rcu_arcs() -> usize {
    // Chains of values are as long as the types refer to each other.
    const ROUNDS: u32 = 8;

    for _ in 0..ROUNDS {
        rcu::rcu_barrier();
        if VALUES.load(Relaxed) == 0 {
            break;
        }
    }
    // The callback that brought the number to zero may still be on its way out.
    rcu::rcu_barrier();
    VALUES.load(Relaxed)
}

/// A reference counted, pinned value that is destroyed a grace period after its last reference went.
///
/// Tables hand out [`Borrowed`] references under an RCU guard without touching the count. The value
/// is dropped in an RCU callback, that is in softirq context: its destructor must not sleep. What
/// has to be released with sleeping must be taken out before the last reference goes.
///
/// A module that creates such values must call [`wait_for_rcu_arcs`] before its text goes away.
///
/// # Invariants
///
/// `ptr` is valid, and the reference owns one count of `refs`.
pub struct RcuArc<T> {
    ptr: NonNull<Inner<T>>,
    _p: PhantomData<Inner<T>>,
}

// SAFETY: Sending a reference shares `T` and may move its destruction, so `T` must be both. The
// destructor runs on whatever CPU invokes the RCU callback, which `T: Send` allows.
unsafe impl<T: Send + Sync> Send for RcuArc<T> {}

// SAFETY: As for `Send`, since a shared reference can be cloned.
unsafe impl<T: Send + Sync> Sync for RcuArc<T> {}

impl<T> Unpin for RcuArc<T> {}

impl<T: Send + Sync + 'static> RcuArc<T> {
    /// Allocates a value and initialises it in place.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or what the initialiser answers.
    pub fn pin_init<E>(init: impl PinInit<T, E>, flags: Flags) -> Result<Self>
    where
        Error: From<E>,
    {
        let inner = KBox::try_pin_init(
            try_pin_init!(Inner {
                refs: Refcount::new(1),
                rcu: Opaque::zeroed(),
                value <- init,
            }? Error),
            flags,
        )?;
        // SAFETY: The value stays where it is until it is dropped.
        let ptr = KBox::into_raw(unsafe { Pin::into_inner_unchecked(inner) });
        VALUES.add(1, Relaxed);
        // INVARIANT: The count was initialised to one, which is this reference's.
        Ok(Self {
            // SAFETY: A pointer from a box is not null.
            ptr: unsafe { NonNull::new_unchecked(ptr) },
            _p: PhantomData,
        })
    }

    /// Allocates a value that needs no pinned initialisation.
    pub fn new(value: T, flags: Flags) -> Result<Self, AllocError> {
        Self::pin_init::<core::convert::Infallible>(value, flags).map_err(|_| AllocError)
    }
}

impl<T> RcuArc<T> {
    /// Gives the reference up for a pointer to the value, to be passed to [`RcuArc::from_raw`].
    pub fn into_raw(this: Self) -> *const T {
        let ptr = ManuallyDrop::new(this).ptr.as_ptr();
        // SAFETY: The pointer is valid by the type invariants.
        unsafe { &raw const (*ptr).value }
    }

    /// Takes back a reference that [`RcuArc::into_raw`] gave up.
    ///
    /// # Safety
    ///
    /// `ptr` comes from [`RcuArc::into_raw`], and each such pointer is taken back at most once.
    pub unsafe fn from_raw(ptr: *const T) -> Self {
        // SAFETY: The value is embedded in an `Inner` by the requirements of this function.
        let inner = unsafe { kernel::container_of!(ptr.cast_mut(), Inner<T>, value) };
        // INVARIANT: The caller passes the count on.
        Self {
            // SAFETY: A pointer to an allocated value is not null.
            ptr: unsafe { NonNull::new_unchecked(inner) },
            _p: PhantomData,
        }
    }

    /// Borrows the value for as long as this reference is held.
    #[inline]
    pub fn borrow(&self) -> Borrowed<'_, T> {
        Borrowed {
            ptr: self.ptr,
            _p: PhantomData,
        }
    }
}

/// Drops a value whose grace period is over.
///
/// # Safety
///
/// Called once by RCU for the `rcu` field of an `Inner<T>` whose count reached zero.
unsafe extern "C" fn free<T>(head: *mut bindings::callback_head) {
    // SAFETY: `head` is the `rcu` field of an `Inner<T>`; `Opaque` is transparent.
    let inner = unsafe {
        kernel::container_of!(
            head.cast::<Opaque<bindings::callback_head>>(),
            Inner<T>,
            rcu
        )
    };
    // SAFETY: The pointer came from a box in `pin_init`, and nobody can reach the value any more:
    // the count is zero and the readers that were there then are gone.
    drop(unsafe { Pin::new_unchecked(KBox::from_raw(inner)) });
    VALUES.fetch_sub(1, Relaxed);
}

impl<T> Drop for RcuArc<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariants the pointer is valid.
        let inner = unsafe { self.ptr.as_ref() };

        if inner.refs.dec_and_test() {
            // SAFETY: The `rcu` field is used by nobody else, and the value stays until `free`.
            unsafe { bindings::call_rcu(inner.rcu.get(), Some(free::<T>)) };
        }
    }
}

impl<T> Clone for RcuArc<T> {
    #[inline]
    fn clone(&self) -> Self {
        // SAFETY: By the type invariants the pointer is valid.
        unsafe { self.ptr.as_ref() }.refs.inc();
        // INVARIANT: The count was just incremented.
        Self {
            ptr: self.ptr,
            _p: PhantomData,
        }
    }
}

impl<T> Deref for RcuArc<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: By the type invariants the value is valid while the reference is.
        unsafe { &self.ptr.as_ref().value }
    }
}

/// A reference to the value of an [`RcuArc`] that owns no count.
///
/// # Invariants
///
/// The value is not freed during `'a`, by an RCU guard or by a count that is held elsewhere. Its
/// count may have reached zero.
pub struct Borrowed<'a, T> {
    ptr: NonNull<Inner<T>>,
    _p: PhantomData<&'a T>,
}

impl<T> Clone for Borrowed<'_, T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Borrowed<'_, T> {}

impl<'a, T> Borrowed<'a, T> {
    /// Makes a borrow of a pointer to the value.
    ///
    /// # Safety
    ///
    /// `ptr` is to the value of an [`RcuArc`], which is not freed during `'a`.
    #[inline]
    pub unsafe fn from_raw(ptr: *const T) -> Self {
        // SAFETY: The value is embedded in an `Inner` by the requirements of this function.
        let inner = unsafe { kernel::container_of!(ptr.cast_mut(), Inner<T>, value) };
        // INVARIANT: By the requirements of this function.
        Self {
            // SAFETY: A pointer to an allocated value is not null.
            ptr: unsafe { NonNull::new_unchecked(inner) },
            _p: PhantomData,
        }
    }

    /// Takes a reference, unless the last one is gone already.
    #[inline]
    pub fn upgrade(self) -> Option<RcuArc<T>> {
        // SAFETY: The memory is valid by the type invariants.
        let refs = unsafe { &raw const (*self.ptr.as_ptr()).refs };
        // SAFETY: `Refcount` is a transparent `refcount_t`.
        if unsafe { bindings::refcount_inc_not_zero(refs.cast_mut().cast()) } {
            // INVARIANT: The count was just incremented.
            Some(RcuArc {
                ptr: self.ptr,
                _p: PhantomData,
            })
        } else {
            None
        }
    }

    /// Tells whether this is a borrow of the value of `arc`.
    #[inline]
    pub fn is(self, arc: &RcuArc<T>) -> bool {
        self.ptr == arc.ptr
    }

    /// Returns the reference with the full lifetime of the borrow.
    #[inline]
    pub fn get(self) -> &'a T {
        // SAFETY: The value is valid during `'a` by the type invariants.
        unsafe { &(*self.ptr.as_ptr()).value }
    }
}

impl<T> Deref for Borrowed<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.get()
    }
}

impl<'a, T> Borrowed<'a, T> {
    /// Looks a pointer up that is null or published under RCU.
    ///
    /// # Safety
    ///
    /// A `ptr` that is not null comes from [`RcuArc::into_raw`] and was reachable for readers at
    /// some time since `_guard` was taken.
    #[inline]
    pub(super) unsafe fn from_rcu(ptr: *const T, _guard: &'a rcu::Guard) -> Option<Self> {
        // SAFETY: A value that was reachable is freed no earlier than a grace period later, which
        // cannot end while the guard exists.
        (!ptr.is_null()).then(|| unsafe { Self::from_raw(ptr) })
    }
}

// SAFETY: `__enqueue` gets the `work_struct` from the `Work<T, ID>` field by `T::raw_get_work`, and
// `Work::new`, the only safe way to make one, stores `T::Pointer::run`, which is this method.
unsafe impl<T, const ID: u64> WorkItemPointer<ID> for RcuArc<T>
where
    T: WorkItem<ID, Pointer = Self>,
    T: HasWork<T, ID>,
{
    unsafe extern "C" fn run(ptr: *mut kernel::bindings::work_struct) {
        // CAST: `__enqueue` always uses a `work_struct` inside a `Work<T, ID>`, which is transparent.
        let ptr = ptr.cast::<Work<T, ID>>();
        // SAFETY: This is the pointer that `__enqueue` got from `raw_get_work`.
        let ptr = unsafe { T::work_container_of(ptr) };
        // SAFETY: `__enqueue` gave the reference up to the work item, which now passes it on.
        T::run(unsafe { Self::from_raw(ptr) });
    }
}

// SAFETY: The `work_struct` is inside the value that `self` keeps alive. If the closure returns true
// the count stays with the work item until `run` takes it back.
unsafe impl<T, const ID: u64> RawWorkItem<ID> for RcuArc<T>
where
    T: WorkItem<ID, Pointer = Self>,
    T: HasWork<T, ID>,
{
    type EnqueueOutput = Result<(), Self>;

    unsafe fn __enqueue<F>(self, queue_work_on: F) -> Self::EnqueueOutput
    where
        F: FnOnce(*mut kernel::bindings::work_struct) -> bool,
    {
        let ptr = Self::into_raw(self).cast_mut();
        // SAFETY: The pointer is to a valid value.
        let work = unsafe { T::raw_get_work(ptr) };
        // SAFETY: `raw_get_work` answers with a pointer to a valid field.
        let work = unsafe { Work::raw_get(work) };

        if queue_work_on(work) {
            Ok(())
        } else {
            // SAFETY: The work queue has not taken the reference.
            Err(unsafe { Self::from_raw(ptr) })
        }
    }
}
