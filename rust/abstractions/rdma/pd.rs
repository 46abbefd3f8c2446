// SPDX-License-Identifier: GPL-2.0

//! Protection domains.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    device::{
        Device,
        Driver, //
    },
    mr::IbPd,
    ops::shell,
    udata::UserData, //
};
use crate::abstractions::bindings;
use kernel::{
    error::from_result,
    prelude::*, //
};

/// What a driver keeps per protection domain, and how it makes it.
#[vtable]
pub trait Operations: Sized + Send + Sync + 'static {
    /// The driver.
    type Driver: Driver<Pd = Self>;

    /// Makes the driver's part of a new protection domain. May sleep.
    ///
    /// `udata` is [`None`] for a kernel user. Dropping the result is the destroy verb.
    fn alloc(device: &Device<Self::Driver>, udata: Option<&mut UserData<'_>>) -> Result<Self>;
}

shell! {
    /// An `ib_pd` with the driver's part behind it.
    Shell, ib_pd
}

// SAFETY: `from_raw` returns the shell around the structure.
unsafe impl<T: Operations> IbPd for Shell<T> {
    unsafe fn from_ib_pd<'a>(pd: *mut bindings::ib_pd) -> &'a Self {
        // SAFETY: A protection domain of this driver has this shell; the rest is the same
        // requirement.
        unsafe { Self::from_raw(pd) }
    }
}

/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`].
pub(super) unsafe extern "C" fn alloc<T: Operations>(
    pd: *mut bindings::ib_pd,
    udata: *mut bindings::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: The core sets `device` before the call; it is a device of this driver.
        let device = unsafe { Device::<T::Driver>::from_raw((*pd).device) };
        // SAFETY: `udata` is valid for this call and ours alone.
        let mut udata = unsafe { UserData::from_raw(udata) };
        let data = T::alloc(device, udata.as_mut())?;
        // SAFETY: The core allocated the size of the shell and calls this once.
        unsafe { Shell::<T>::init(pd, data) };
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`].
pub(super) unsafe extern "C" fn dealloc<T: Operations>(
    pd: *mut bindings::ib_pd,
    _udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: `alloc` succeeded for this PD, and the core calls nothing for it any more.
    unsafe { Shell::<T>::drop_data(pd) };
    0
}
