// SPDX-License-Identifier: GPL-2.0

//! User contexts: one per process that has opened the device.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    device::{
        Device,
        Driver, //
    },
    mmap,
    udata::UserData, //
};
use crate::abstractions::bindings;
use core::mem::{
    offset_of,
    MaybeUninit, //
};
use kernel::{
    error::from_result,
    mm::virt::VmaNew,
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc,
    types::Opaque, //
};

/// What a driver keeps per context, and how it makes it.
#[vtable]
pub trait Operations: Sized + Send + Sync + 'static {
    /// The driver.
    type Driver: Driver<Ucontext = Self>;

    /// Makes the driver's part of a new context. May sleep.
    fn alloc(device: &Device<Self::Driver>, udata: &mut UserData<'_>) -> Result<Self>;

    /// The device is going away while the process lives on. May sleep; the context's objects are
    /// destroyed after it.
    fn disassociate(_context: &Shell<Self>) {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }
}

/// An `ib_ucontext` with the driver's part behind it.
///
/// # Invariants
///
/// A reference to a `Shell` exists only between a successful `alloc_ucontext` and
/// `dealloc_ucontext`, when all fields are initialised.
#[repr(C)]
pub struct Shell<T: Operations> {
    ib: Opaque<bindings::ib_ucontext>,
    mmaps: MaybeUninit<Arc<mmap::Table>>,
    data: MaybeUninit<T>,
}

// SAFETY: The C part is used by the core only; the rest is `Send`.
unsafe impl<T: Operations> Send for Shell<T> {}
// SAFETY: The C part is used by the core only; the rest is `Sync`.
unsafe impl<T: Operations> Sync for Shell<T> {}

impl<T: Operations> Shell<T> {
    /// Borrows the shell around a C context.
    ///
    /// # Safety
    ///
    /// `ptr` must belong to a shell of this type that has been allocated and not deallocated, for
    /// `'a`.
    pub(super) unsafe fn from_raw<'a>(ptr: *mut bindings::ib_ucontext) -> &'a Self {
        const { assert!(offset_of!(Self, ib) == 0) };
        // SAFETY: `ib` is the first field; the rest is the safety requirement.
        unsafe { &*ptr.cast() }
    }

    /// The memory that can be mapped through this context.
    pub fn mmaps(&self) -> Arc<mmap::Table> {
        // SAFETY: Initialised by the type invariant.
        unsafe { self.mmaps.assume_init_ref() }.clone()
    }
}

impl<T: Operations> core::ops::Deref for Shell<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: Initialised by the type invariant.
        unsafe { self.data.assume_init_ref() }
    }
}

/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`].
pub(super) unsafe extern "C" fn alloc<T: Operations>(
    context: *mut bindings::ib_ucontext,
    udata: *mut bindings::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: The core sets `device` before the call; it is a device of this driver.
        let device = unsafe { Device::<T::Driver>::from_raw((*context).device) };
        // SAFETY: `udata` is valid for this call and ours alone.
        let mut udata = unsafe { UserData::without_context(udata) }.ok_or(EINVAL)?;
        let mmaps = mmap::Table::new()?;
        let data = T::alloc(device, &mut udata)?;
        let shell = context.cast::<Shell<T>>();
        // SAFETY: The core allocated `size_ib_ucontext` bytes, the size of the shell, and calls
        // this once.
        unsafe {
            (&raw mut (*shell).mmaps).write(MaybeUninit::new(mmaps));
            (&raw mut (*shell).data).write(MaybeUninit::new(data));
        }
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`].
pub(super) unsafe extern "C" fn dealloc<T: Operations>(context: *mut bindings::ib_ucontext) {
    let shell = context.cast::<Shell<T>>();
    // SAFETY: `alloc` succeeded for this context, and the core calls nothing for it any more.
    unsafe {
        (*shell).data.assume_init_drop();
        (*shell).mmaps.assume_init_drop();
    }
}

/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`].
pub(super) unsafe extern "C" fn disassociate<T: Operations>(context: *mut bindings::ib_ucontext) {
    if T::HAS_DISASSOCIATE {
        // SAFETY: A context of this driver between alloc and dealloc.
        T::disassociate(unsafe { Shell::from_raw(context) });
    }
}

/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`], with an area that is being
/// set up.
pub(super) unsafe extern "C" fn mmap<T: Operations>(
    context: *mut bindings::ib_ucontext,
    vma: *mut bindings::vm_area_struct,
) -> c_int {
    from_result(|| {
        // SAFETY: A context of this driver between alloc and dealloc.
        let shell = unsafe { Shell::<T>::from_raw(context) };
        // SAFETY: The area is valid during this call.
        let (pgoff, size) = unsafe {
            (
                (*vma).vm_pgoff,
                VmaNew::from_raw(vma)
                    .end()
                    .wrapping_sub(VmaNew::from_raw(vma).start()),
            )
        };
        let offset = u64::try_from(pgoff)?
            .checked_mul(PAGE_SIZE as u64)
            .ok_or(EINVAL)?;
        let buf = shell.mmaps().find(offset, u64::try_from(size)?)?;
        // SAFETY: The area is being set up by `mmap(2)`.
        buf.map(unsafe { VmaNew::from_raw(vma) })?;
        Ok(0)
    })
}
