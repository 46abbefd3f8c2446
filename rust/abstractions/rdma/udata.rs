// SPDX-License-Identifier: GPL-2.0

//! The driver's private part of a verb that came from user space: a command in, a response out.
//!
//! Rules, the same for every verb (they are those of the kernel's `ib_udata` documentation):
//!
//! - A command that is shorter than its first published version fails with `EINVAL`; bytes behind
//!   the version we know must be zero, else `EOPNOTSUPP`; what a shorter one lacks reads as zero.
//! - A response is cut to the room the caller gave, and the room behind it is zeroed. A caller that
//!   cannot do without the response is checked for it with [`UserData::require_output`].
//!
//! C header: [`include/rdma/uverbs_ioctl.h`](srctree/include/rdma/uverbs_ioctl.h)

use super::{
    device::Driver,
    mmap,
    ucontext, //
};
use crate::abstractions::bindings;
use core::{
    marker::PhantomData,
    mem::size_of,
    ptr::{
        self,
        NonNull, //
    }, //
};
use kernel::{
    error::to_result,
    prelude::*,
    sync::Arc, //
};
use zerocopy::Immutable;

/// Input and output of a user's verb; kernel callers have none.
///
/// # Invariants
///
/// - `raw` points to the `driver_udata` of a `struct uverbs_attr_bundle` that is valid for `'a` and
///   not used by others.
/// - `context` is NULL or a context of the verb's device that `alloc_ucontext` has succeeded for,
///   valid for `'a`.
pub struct UserData<'a> {
    raw: NonNull<bindings::ib_udata>,
    context: *mut bindings::ib_ucontext,
    _bundle: PhantomData<&'a mut bindings::ib_udata>,
}

impl<'a> UserData<'a> {
    /// Wraps what the core passed to a verb. NULL, for a kernel caller, gives [`None`].
    ///
    /// # Safety
    ///
    /// `raw` must be NULL or the `driver_udata` of a bundle that stays valid, and is not used by
    /// others, for `'a`, and the verb must be one of an object that belongs to a context.
    pub(super) unsafe fn from_raw(raw: *mut bindings::ib_udata) -> Option<Self> {
        const {
            assert!(core::mem::offset_of!(Bundle, driver_udata) == 0);
        }
        let raw = NonNull::new(raw)?;
        // CAST: `driver_udata` is the first field of the bundle.
        let bundle: *mut bindings::uverbs_attr_bundle = raw.as_ptr().cast();
        // SAFETY: By the safety requirement the bundle is valid.
        let context = unsafe { (*bundle).__bindgen_anon_1.__bindgen_anon_1.context };
        // INVARIANT: By the safety requirement; the core sets `context` before it calls verbs of
        // objects.
        Some(Self {
            raw,
            context,
            _bundle: PhantomData,
        })
    }

    /// Like [`UserData::from_raw`], for the verb that makes the context.
    ///
    /// # Safety
    ///
    /// `raw` must be NULL or the `driver_udata` of a bundle that stays valid, and is not used by
    /// others, for `'a`.
    pub(super) unsafe fn without_context(raw: *mut bindings::ib_udata) -> Option<Self> {
        // INVARIANT: By the safety requirement.
        Some(Self {
            raw: NonNull::new(raw)?,
            context: ptr::null_mut(),
            _bundle: PhantomData,
        })
    }

    /// Room for the response in bytes.
    pub fn output_len(&self) -> usize {
        // SAFETY: Valid by the type invariant.
        unsafe { (*self.raw.as_ptr()).outlen }
    }

    /// Checks that the caller sent no command, or zeros only.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if a byte is not zero, `EFAULT` if it cannot be read.
    pub fn no_input(&mut self) -> Result {
        let mut nothing = 0u8;
        // SAFETY: `raw` is valid by the type invariant, and 0 bytes are written through the second
        // pointer.
        to_result(unsafe {
            bindings::_ib_copy_validate_udata_in(
                self.raw.as_ptr(),
                ptr::from_mut(&mut nothing).cast(),
                0,
                0,
            )
        })
    }

    /// Reads the command.
    ///
    /// `min` is the size of its first published version, in bytes.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is shorter than `min`, `EOPNOTSUPP` if bytes behind `T` are not zero,
    /// `EFAULT`.
    pub fn read<T: FromBytes>(&mut self, min: usize) -> Result<T> {
        let mut value = core::mem::MaybeUninit::<T>::zeroed();
        // SAFETY: `raw` is valid by the type invariant, and at most `size_of::<T>()` bytes are
        // written to `value`.
        to_result(unsafe {
            bindings::_ib_copy_validate_udata_in(
                self.raw.as_ptr(),
                value.as_mut_ptr().cast(),
                size_of::<T>(),
                min,
            )
        })?;
        // SAFETY: All bytes are initialised (zeros where nothing was copied), and any bytes make a
        // `T: FromBytes`.
        Ok(unsafe { value.assume_init() })
    }

    /// Checks that the caller gave room for a response of `len` bytes: `EINVAL` if not.
    pub fn require_output(&self, len: usize) -> Result {
        if self.output_len() < len {
            return Err(EINVAL);
        }
        Ok(())
    }

    /// Writes the response, as much of it as there is room for, and zeros behind it.
    pub fn respond<T: IntoBytes + Immutable>(&mut self, response: &T) -> Result {
        // SAFETY: `raw` is valid by the type invariant, and `response` for reading `size_of::<T>()`
        // bytes.
        to_result(unsafe {
            bindings::_ib_respond_udata(
                self.raw.as_ptr(),
                ptr::from_ref(response).cast(),
                size_of::<T>(),
            )
        })
    }

    /// The context of the calling process; [`None`] while it is being made.
    ///
    /// `D` must be the driver whose verb is running.
    pub(super) fn ucontext<D: Driver>(&self) -> Option<&ucontext::Shell<D::Ucontext>> {
        let context = NonNull::new(self.context)?;
        // SAFETY: A valid context by the type invariant. It belongs to a device of `D`, so that it
        // was made as this shell.
        Some(unsafe { ucontext::Shell::from_raw(context.as_ptr()) })
    }

    /// The table in which the caller finds memory to map.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no context.
    pub fn mmaps<D: Driver>(&self) -> Result<Arc<mmap::Table>> {
        Ok(self.ucontext::<D>().ok_or(EINVAL)?.mmaps())
    }
}

/// The named fields of `struct uverbs_attr_bundle`.
type Bundle = bindings::uverbs_attr_bundle__bindgen_ty_1__bindgen_ty_1;
