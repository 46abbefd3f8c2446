// SPDX-License-Identifier: GPL-2.0

//! Memory windows.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    device::Driver,
    ops::shell,
    pd,
    udata::UserData, //
};
use crate::abstractions::bindings;
use kernel::{
    error::from_result,
    prelude::*, //
};

/// The kind of a memory window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bound by a verb, usable through every QP of its protection domain.
    Type1,
    /// Bound by a work request, invalidated by one.
    Type2,
}

/// A memory window as its verbs give it to the driver.
#[vtable]
pub trait Operations: Sized + Send + Sync + 'static {
    /// The driver.
    type Driver: Driver<Mw = Self>;

    /// Makes the driver's part of a new window and returns it with its key. May sleep.
    ///
    /// `udata` is [`None`] for a kernel user.
    fn alloc(
        _pd: &pd::Shell<<Self::Driver as Driver>::Pd>,
        _kind: Kind,
        _udata: Option<&mut UserData<'_>>,
    ) -> Result<(Self, u32)> {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// Ends the use of the window; the value is dropped after it. May sleep.
    fn dealloc(_mw: &Shell<Self>) {}
}

shell! {
    /// An `ib_mw` with the driver's part behind it.
    Shell, ib_mw
}

/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`].
pub(super) unsafe extern "C" fn alloc<T: Operations>(
    mw: *mut bindings::ib_mw,
    udata: *mut bindings::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: The core sets `pd` and `type` before the call; the PD is one of this driver.
        let (pd, kind) = unsafe { (pd::Shell::from_raw((*mw).pd), (*mw).type_) };
        let kind = match kind {
            bindings::ib_mw_type_IB_MW_TYPE_1 => Kind::Type1,
            bindings::ib_mw_type_IB_MW_TYPE_2 => Kind::Type2,
            _ => return Err(EINVAL),
        };
        // SAFETY: `udata` is valid for this call and ours alone.
        let mut udata = unsafe { UserData::from_raw(udata) };
        let (data, rkey) = T::alloc(pd, kind, udata.as_mut())?;
        // SAFETY: The core allocated the size of the shell and calls this once; nobody else uses
        // the window yet.
        unsafe {
            (*mw).rkey = rkey;
            Shell::<T>::init(mw, data);
        }
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`].
pub(super) unsafe extern "C" fn dealloc<T: Operations>(mw: *mut bindings::ib_mw) -> c_int {
    // SAFETY: A window of this driver that was allocated.
    T::dealloc(unsafe { Shell::from_raw(mw) });
    // SAFETY: The core calls nothing for this window any more.
    unsafe { Shell::<T>::drop_data(mw) };
    0
}
