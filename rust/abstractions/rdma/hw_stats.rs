// SPDX-License-Identifier: GPL-2.0

//! Counters of a port, as `rdma statistic` and sysfs show them.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::device::{
    Device,
    Driver, //
};
use crate::abstractions::bindings;
use core::{
    ptr,
    slice, //
};
use kernel::{
    prelude::*,
    str::{
        as_char_ptr_in_const_context,
        CStr, //
    }, //
};

/// The name of a counter.
#[repr(transparent)]
pub struct Descriptor(bindings::rdma_stat_desc);

// SAFETY: The pointer in it is to a static string.
unsafe impl Sync for Descriptor {}

impl Descriptor {
    /// Describes a counter.
    pub const fn new(name: &'static CStr) -> Self {
        Self(bindings::rdma_stat_desc {
            name: as_char_ptr_in_const_context(name),
            flags: 0,
            priv_: ptr::null(),
        })
    }
}

/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`].
pub(super) unsafe extern "C" fn alloc<T: Driver>(
    _device: *mut bindings::ib_device,
    _port: u32,
) -> *mut bindings::rdma_hw_stats {
    // SAFETY: `COUNTERS` is a static array of transparent wrappers of the C structure. The core
    // frees the result.
    unsafe {
        bindings::rdma_alloc_hw_stats_struct(
            T::COUNTERS.as_ptr().cast(),
            c_int::try_from(T::COUNTERS.len()).unwrap_or(0),
            bindings::RDMA_HW_STATS_DEFAULT_LIFESPAN as c_ulong,
        )
    }
}

/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`], with what `alloc` returned.
pub(super) unsafe extern "C" fn read<T: Driver>(
    device: *mut bindings::ib_device,
    stats: *mut bindings::rdma_hw_stats,
    port: u32,
    _index: c_int,
) -> c_int {
    if port != 1 || stats.is_null() {
        return EINVAL.to_errno();
    }
    // SAFETY: The core allocated `num_counters` values, and holds the lock that protects them.
    let (values, num) = unsafe {
        let num = (*stats).num_counters;
        let values = (&raw mut (*stats).value).cast::<u64>();
        (
            slice::from_raw_parts_mut(values, usize::try_from(num).unwrap_or(0)),
            num,
        )
    };
    // SAFETY: A device of this driver.
    T::read_counters(unsafe { Device::from_raw(device) }, values);
    num
}
