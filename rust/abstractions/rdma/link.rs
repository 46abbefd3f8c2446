// SPDX-License-Identifier: GPL-2.0

//! Links: devices that users make with `rdma link add` and delete with `rdma link del`.
//!
//! The deletion needs no operation: the core unregisters the device, and the driver's data is
//! dropped with it, before the command returns.
//!
//! C header: [`include/rdma/rdma_netlink.h`](srctree/include/rdma/rdma_netlink.h)

use crate::abstractions::{
    bindings,
    net::NetDev, //
};
use core::marker::PhantomData;
use kernel::{
    error::from_result,
    prelude::*,
    str::CStr,
    types::Opaque, //
};

/// A type of link.
pub trait Operations: Sized + 'static {
    /// Its name, as users write it; at most 15 bytes.
    const TYPE: &'static CStr;

    /// Makes and registers the device `name` on `ndev`. May sleep.
    ///
    /// The core has checked that the caller may administer the network. It gives drivers no way to
    /// explain an error to the caller, so the number has to do.
    fn newlink(name: &CStr, ndev: &NetDev) -> Result;
}

/// Keeps a type of link registered. Dropping it waits for users that are making one.
#[pin_data(PinnedDrop)]
pub struct Registration<T: Operations> {
    #[pin]
    ops: Opaque<bindings::rdma_link_ops>,
    _ops: PhantomData<T>,
}

// SAFETY: The C part is used by the core only, under its lock.
unsafe impl<T: Operations> Send for Registration<T> {}
// SAFETY: As above.
unsafe impl<T: Operations> Sync for Registration<T> {}

impl<T: Operations> Registration<T> {
    /// Registers the type. The core allows one of a name only; others of the same name are not
    /// registered, with a warning.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            ops <- Opaque::ffi_init(|ops: *mut bindings::rdma_link_ops| {
                // SAFETY: The memory is valid, pinned, and unregistered before it goes.
                unsafe {
                    ops.write(bindings::rdma_link_ops {
                        type_: T::TYPE.as_char_ptr(),
                        newlink: Some(newlink::<T>),
                        ..Default::default()
                    });
                    bindings::rdma_link_register(ops);
                }
            }),
            _ops: PhantomData,
        })
    }
}

#[pinned_drop]
impl<T: Operations> PinnedDrop for Registration<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: Registered by `new`.
        unsafe { bindings::rdma_link_unregister(self.ops.get()) };
    }
}

/// # Safety
///
/// Called by the core with a name and a network device that are valid during the call.
unsafe extern "C" fn newlink<T: Operations>(
    name: *const c_char,
    ndev: *mut bindings::net_device,
) -> c_int {
    from_result(|| {
        // SAFETY: Valid during the call; the core holds a reference to the network device.
        let (name, ndev) = unsafe { (CStr::from_char_ptr(name), NetDev::from_raw(ndev)) };
        T::newlink(name, ndev)?;
        Ok(0)
    })
}
