// SPDX-License-Identifier: GPL-2.0

//! News of network devices.
//!
//! Upstream home: rust/kernel/net/notifier.rs
//!
//! C header: [`include/linux/netdevice.h`](srctree/include/linux/netdevice.h)

use super::NetDev;
use crate::abstractions::bindings;
use core::{ffi::c_void, marker::PhantomData};
use kernel::{error::to_result, prelude::*, types::Opaque};

/// What has happened to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetdevEvent {
    /// It was set up.
    Up,
    /// It was set down.
    Down,
    /// Its state has changed, such as that of its carrier.
    Change,
    /// It is going away, from the system or from its namespace.
    Unregister,
    /// Its MTU has changed.
    ChangeMtu,
    /// Its address has changed.
    ChangeAddr,
    /// Its name has changed.
    ChangeName,
    /// Something else.
    Other,
}

impl NetdevEvent {
    fn from_raw(event: usize) -> Self {
        match u32::try_from(event) {
            Ok(bindings::netdev_cmd_NETDEV_UP) => Self::Up,
            Ok(bindings::netdev_cmd_NETDEV_DOWN) => Self::Down,
            Ok(bindings::netdev_cmd_NETDEV_CHANGE) => Self::Change,
            Ok(bindings::netdev_cmd_NETDEV_UNREGISTER) => Self::Unregister,
            Ok(bindings::netdev_cmd_NETDEV_CHANGEMTU) => Self::ChangeMtu,
            Ok(bindings::netdev_cmd_NETDEV_CHANGEADDR) => Self::ChangeAddr,
            Ok(bindings::netdev_cmd_NETDEV_CHANGENAME) => Self::ChangeName,
            _ => Self::Other,
        }
    }
}

/// Whoever wants to know.
pub trait NetdevNotify: 'static {
    /// Called in process context with RTNL held.
    ///
    /// The same event may be told twice; the events of devices that exist already are told at
    /// registration.
    fn event(event: NetdevEvent, dev: &NetDev);
}

/// A registration for the news of all devices in all namespaces; dropping it ends it.
#[pin_data(PinnedDrop)]
pub struct NetdevNotifier<T: NetdevNotify> {
    #[pin]
    block: Opaque<bindings::notifier_block>,
    _p: PhantomData<fn() -> T>,
}

// SAFETY: The registration may end on any thread.
unsafe impl<T: NetdevNotify> Send for NetdevNotifier<T> {}

// SAFETY: Nothing can be done with a shared reference.
unsafe impl<T: NetdevNotify> Sync for NetdevNotifier<T> {}

impl<T: NetdevNotify> NetdevNotifier<T> {
    /// Registers. Sleeps; RTNL must not be held.
    pub fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            block <- Opaque::try_ffi_init(|block: *mut bindings::notifier_block| {
                let value = bindings::notifier_block {
                    notifier_call: Some(Self::call),
                    ..Default::default()
                };
                // SAFETY: The slot is valid for writing.
                unsafe { block.write(value) };
                // SAFETY: The block is initialised and pinned, and is unregistered before it goes.
                to_result(unsafe { bindings::register_netdevice_notifier(block) })
            }),
            _p: PhantomData,
        }? Error)
    }

    /// The notifier function.
    ///
    /// # Safety
    ///
    /// Called by the notifier chain with the arguments of such calls.
    unsafe extern "C" fn call(
        _block: *mut bindings::notifier_block,
        event: usize,
        info: *mut c_void,
    ) -> i32 {
        // SAFETY: Chains of network devices pass a `netdev_notifier_info` or what begins with one,
        // and the device is valid during the call.
        let dev = unsafe {
            NetDev::from_raw((*info.cast::<bindings::netdev_notifier_info>()).dev.cast())
        };
        T::event(NetdevEvent::from_raw(event), dev);
        // NOTIFY_OK.
        1
    }
}

#[pinned_drop]
impl<T: NetdevNotify> PinnedDrop for NetdevNotifier<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The block is registered. The call waits until it is not used any more.
        unsafe { bindings::unregister_netdevice_notifier(self.block.get()) };
    }
}
