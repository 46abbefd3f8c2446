// SPDX-License-Identifier: GPL-2.0

//! RDMA devices: the driver trait, and a device from allocation to the end of its registration.
//!
//! ```text
//! UnregisteredDevice::new ─► register ─► (the core owns it: verbs, DeviceRef)
//!          │                                │
//!         drop                          unregister
//!          └─────────► dealloc_driver ◄─────┘        drops T::Data
//! ```
//!
//! A registered device is unregistered by its users (`rdma link del`), by
//! [`DeviceRef::unregister_queued`] and by the drop of [`DriverRegistration`]. All end in the
//! `dealloc_driver` trampoline, which drops the driver's data; the memory of the device itself is
//! freed by the core after that.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    ah,
    cq,
    gid::GidAttr,
    hw_stats,
    mad,
    mr,
    mw,
    ops::VTable,
    pd,
    port::PortState,
    qp,
    srq,
    ucontext, //
};
use crate::abstractions::{
    bindings,
    net::NetDev, //
};
use core::{
    marker::PhantomData,
    mem::{
        align_of,
        offset_of,
        size_of,
        MaybeUninit, //
    },
    ptr::{
        self,
        NonNull, //
    }, //
};
use kernel::{
    error::to_result,
    prelude::*,
    str::CStr,
    sync::{
        aref::ARef,
        atomic::{
            Acquire,
            Atomic,
            Release, //
        },
        rcu,
        Arc, //
    },
    types::Opaque,
    ModuleMetadata, //
};

pub use super::port::{
    DeviceAttr,
    PortAttr, //
};

/// Changes that a modify verb of a device asks for. What is [`None`] stays as it is.
pub struct Modify {
    /// The GUID of the system, in network byte order.
    pub sys_image_guid: Option<[u8; 8]>,
}

/// Changes that a modify verb of the port asks for.
#[derive(Clone, Copy, Debug)]
pub struct ModifyPort {
    /// Capabilities to announce (`enum ib_port_capability_mask_bits`).
    pub set_caps: u32,
    /// Capabilities not to announce any more.
    pub clear_caps: u32,
    /// Whether to set the queue key violation counter to 0.
    pub reset_qkey_counter: bool,
}

/// A driver for RDMA devices.
///
/// All devices have one port, number 1, an Ethernet link and RoCE version 2.
#[vtable]
pub trait Driver: Sized + Send + Sync + 'static {
    /// What the driver keeps per device. Dropped, in process context, when no verb can run any
    /// more.
    type Data: Send + Sync;
    /// User contexts.
    type Ucontext: ucontext::Operations<Driver = Self>;
    /// Protection domains.
    type Pd: pd::Operations<Driver = Self>;
    /// Address handles.
    type Ah: ah::Operations<Driver = Self>;
    /// Completion queues.
    type Cq: cq::Operations<Driver = Self>;
    /// Shared receive queues.
    type Srq: srq::Operations<Driver = Self>;
    /// Queue pairs.
    type Qp: qp::Operations<Driver = Self>;
    /// Memory regions.
    type Mr: mr::Operations<Pd = pd::Shell<Self::Pd>>;
    /// Memory windows.
    type Mw: mw::Operations<Driver = Self>;

    /// Identifies the driver to user space (`enum rdma_driver_id`).
    const DRIVER_ID: u32;
    /// The version of the driver's user interface.
    const UVERBS_ABI_VERSION: u32;
    /// Verbs that user processes call through the kernel in addition to those every driver has
    /// (bits of `enum ib_uverbs_write_cmds`).
    const EXTRA_USER_COMMANDS: u64;
    /// Names of the counters of the port, without duplicates.
    const COUNTERS: &'static [hw_stats::Descriptor];
    /// The management datagrams' size in bytes.
    const MAX_MAD_SIZE: u32 = bindings::IB_MGMT_MAD_SIZE;

    /// The attributes of the device.
    fn query_device(device: &Device<Self>) -> Result<DeviceAttr>;

    /// Changes attributes of the device. Its description is not one of them: the core has it.
    fn modify_device(_device: &Device<Self>, _change: &Modify) -> Result {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// The attributes of the port. May sleep.
    fn query_port(device: &Device<Self>) -> Result<PortAttr>;

    /// Changes attributes of the port. The connection manager calls it for every port.
    fn modify_port(_device: &Device<Self>, _change: &ModifyPort) -> Result {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// The partition key at `index`.
    fn query_pkey(device: &Device<Self>, index: u16) -> Result<u16>;

    /// The device has been registered, its users do not know it yet. An error undoes the
    /// registration.
    ///
    /// The device can be found by its network device from now on.
    fn enable(_device: &Device<Self>) -> Result {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// Reads the counters named by [`Driver::COUNTERS`] into `values`, which has as many.
    fn read_counters(_device: &Device<Self>, _values: &mut [u64]) {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// Answers a management datagram that came in, or that a local agent asks.
    fn process_mad(
        _device: &Device<Self>,
        _request: &mad::Request<'_>,
        _reply: &mut mad::Reply<'_>,
    ) -> mad::Verdict {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// The network device that the sysfs attribute `parent` names.
    fn parent(_device: &Device<Self>) -> Result<ARef<NetDev>> {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }
}

/// An `ib_device` with the driver's data behind it.
///
/// # Invariants
///
/// A reference to a `Device` exists only between the initialisation of its fields and
/// `dealloc_driver`.
#[repr(C)]
pub struct Device<T: Driver> {
    ib: Opaque<bindings::ib_device>,
    weak: MaybeUninit<Arc<WeakDevice>>,
    data: MaybeUninit<T::Data>,
}

// SAFETY: The C part may be used from all threads; the rest is `Send`.
unsafe impl<T: Driver> Send for Device<T> {}
// SAFETY: The C part may be used from all threads; the rest is `Sync`.
unsafe impl<T: Driver> Sync for Device<T> {}

impl<T: Driver> core::ops::Deref for Device<T> {
    type Target = T::Data;

    fn deref(&self) -> &T::Data {
        // SAFETY: Initialised by the type invariant.
        unsafe { self.data.assume_init_ref() }
    }
}

impl<T: Driver> Device<T> {
    /// Borrows the device around a C device.
    ///
    /// # Safety
    ///
    /// `ptr` must be a device that was made as a `Device<T>` and that has not been deallocated, for
    /// `'a`.
    pub(super) unsafe fn from_raw<'a>(ptr: *mut bindings::ib_device) -> &'a Self {
        const { assert!(offset_of!(Self, ib) == 0) };
        // SAFETY: `ib` is the first field; the rest is the safety requirement.
        unsafe { &*ptr.cast() }
    }

    /// The C device.
    pub(super) fn as_raw(&self) -> *mut bindings::ib_device {
        self.ib.get()
    }

    /// The network device of the port; [`None`] once the device is being unregistered.
    pub fn netdev(&self) -> Option<ARef<NetDev>> {
        // SAFETY: The device is valid. A reference to the network device is taken.
        let ndev = NonNull::new(unsafe { bindings::ib_device_get_netdev(self.as_raw(), 1) })?;
        // SAFETY: The reference that was just taken is given to the `ARef`. `NetDev` is a
        // transparent wrapper.
        Some(unsafe { ARef::from_raw(ndev.cast()) })
    }

    /// Whether the link of `ndev` is up.
    pub fn link_state(ndev: &NetDev) -> PortState {
        // SAFETY: The network device is valid.
        match unsafe { bindings::ib_get_curr_port_state(ndev.as_raw()) } {
            bindings::ib_port_state_IB_PORT_ACTIVE => PortState::Active,
            _ => PortState::Down,
        }
    }

    /// Speed (`enum ib_port_speed`) and width (`enum ib_port_width`) that come closest to those of
    /// the network device. Takes the RTNL lock.
    pub fn link_speed(&self) -> Result<(u16, u8)> {
        let (mut speed, mut width) = (0, 0);
        // SAFETY: The device and the places for the answers are valid.
        to_result(unsafe { bindings::ib_get_eth_speed(self.as_raw(), 1, &mut speed, &mut width) })?;
        Ok((speed, width))
    }

    /// Sets what the device is called in its node description.
    pub(super) fn set_node_desc(&self, desc: &[u8; 64]) {
        // SAFETY: The field is valid; readers tolerate seeing it change, as they do with every
        // driver.
        unsafe { (&raw mut (*self.as_raw()).node_desc).write(*desc) };
    }
}

/// A device that may be gone.
///
/// Kept by things that live longer than the device's verbs: it finds the device only as long as the
/// driver's data has not been dropped.
///
/// # Invariants
///
/// `ptr` is NULL, or a device whose memory is valid until a grace period after `ptr` has been set
/// to NULL.
pub struct WeakDevice {
    ptr: Atomic<*mut bindings::ib_device>,
}

// SAFETY: The pointer is used for calls only that the core allows from any thread.
unsafe impl Send for WeakDevice {}
// SAFETY: As above.
unsafe impl Sync for WeakDevice {}

impl WeakDevice {
    /// The C device, for use within the read-side critical section.
    fn raw<'g>(
        &self,
        _guard: &'g rcu::Guard,
    ) -> Option<(NonNull<bindings::ib_device>, PhantomData<&'g ()>)> {
        NonNull::new(self.ptr.load(Acquire)).map(|raw| (raw, PhantomData))
    }

    /// Takes a reference to the entry `index` of the port's GID table. Any context.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is gone, `ENODATA` or `EINVAL` if there is no such entry.
    pub fn gid_attr(&self, index: u16) -> Result<GidAttr> {
        let guard = rcu::read_lock();
        let (raw, _) = self.raw(&guard).ok_or(ENODEV)?;
        // SAFETY: The device is valid during the read-side critical section. The reference that the
        // function takes is given to `GidAttr`.
        unsafe { GidAttr::from_raw(bindings::rdma_get_gid_attr(raw.as_ptr(), 1, index.into())) }
    }

    /// Takes a reference to the entry of the port's GID table that has `gid`, RoCE version 2, on
    /// `ndev` or, with [`None`], on any network device. Any context.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is gone, `ENOENT` if there is no such entry.
    pub fn find_gid(&self, gid: super::Gid, ndev: Option<&NetDev>) -> Result<GidAttr> {
        let guard = rcu::read_lock();
        let (raw, _) = self.raw(&guard).ok_or(ENODEV)?;
        let gid = gid.to_raw();
        // SAFETY: The device is valid during the read-side critical section, the other arguments
        // during the call. The reference that the function takes is given to `GidAttr`.
        unsafe {
            GidAttr::from_raw(bindings::rdma_find_gid_by_port(
                raw.as_ptr(),
                &gid,
                bindings::ib_gid_type_IB_GID_TYPE_ROCE_UDP_ENCAP,
                1,
                ndev.map_or(ptr::null_mut(), NetDev::as_raw),
            ))
        }
    }

    /// Forgets the device and waits for those that are using it. Sleeps.
    fn clear(&self) {
        self.ptr.store(ptr::null_mut(), Release);
        rcu::synchronize_rcu();
    }
}

/// A device before its registration. Dropping it deallocates it.
///
/// # Invariants
///
/// `raw` is an initialised device that the core does not know yet, or does not know any more.
pub struct UnregisteredDevice<T: Driver> {
    raw: NonNull<Device<T>>,
}

impl<T: Driver> UnregisteredDevice<T> {
    /// Allocates a device that runs on `ndev`; `init` makes the driver's data.
    ///
    /// `guid` is in network byte order, `node_desc` at most 63 bytes long. May sleep.
    pub fn new(
        ndev: &NetDev,
        guid: [u8; 8],
        node_desc: &[u8],
        init: impl FnOnce(Arc<WeakDevice>) -> Result<T::Data>,
    ) -> Result<Self> {
        const { assert!(align_of::<Device<T>>() <= align_of::<u64>()) };
        // SAFETY: The size is at least that of `ib_device`. The initial namespace is always there.
        let ib = unsafe {
            bindings::_ib_alloc_device(size_of::<Device<T>>(), &raw mut bindings::init_net)
        };
        let raw = NonNull::new(ib.cast::<Device<T>>()).ok_or(ENOMEM)?;
        // On failure the core frees what it has allocated; there are no operations yet, so
        // `dealloc_driver` is not called.
        let undo = kernel::types::ScopeGuard::new(|| {
            // SAFETY: Allocated above, and not used after this.
            unsafe { bindings::ib_dealloc_device(ib) }
        });
        let weak = Arc::new(
            WeakDevice {
                // INVARIANT: The memory of a device is freed by `kfree_rcu()`, and `dealloc_driver`
                // clears the pointer.
                ptr: Atomic::new(ib),
            },
            GFP_KERNEL,
        )?;
        let data = match init(weak.clone()) {
            Ok(data) => data,
            Err(e) => {
                weak.clear();
                return Err(e);
            }
        };
        undo.dismiss();
        // SAFETY: The memory has the size and alignment of a `Device<T>` and is ours.
        unsafe {
            (&raw mut (*raw.as_ptr()).weak).write(MaybeUninit::new(weak));
            (&raw mut (*raw.as_ptr()).data).write(MaybeUninit::new(data));
            // CAST: The enumeration is small.
            (*ib).node_type = bindings::RDMA_NODE_IB_CA as u8;
            (*ib).phys_port_cnt = 1;
            (*ib).num_comp_vectors = c_int::try_from(bindings::num_possible_cpus()).unwrap_or(1);
            (*ib).node_guid = u64::from_ne_bytes(guid);
            (*ib).uverbs_cmd_mask |= T::EXTRA_USER_COMMANDS;
            let desc = &mut (*ib).node_desc;
            let room = desc.len() - 1;
            for (to, from) in desc[..room].iter_mut().zip(node_desc) {
                *to = *from;
            }
            bindings::ib_set_device_ops(ib, &VTable::<T>::OPS);
        }
        // INVARIANT: The fields were initialised above.
        let device = Self { raw };
        // SAFETY: The device is not registered; `ndev` is valid and the caller saw it registered.
        // If it goes away before the registration is complete, `enable` of the driver notices.
        to_result(unsafe { bindings::ib_device_set_netdev(ib, ndev.as_raw(), 1) })?;
        Ok(device)
    }

    /// Says that a user has chosen the name, so that it is not changed by renaming rules.
    pub fn mark_name_assigned_by_user(&self) {
        // SAFETY: The device is valid by the type invariant.
        unsafe { bindings::ib_mark_name_assigned_by_user(self.raw.as_ptr().cast()) };
    }

    /// Registers the device as `name`. May sleep; takes the RTNL lock.
    ///
    /// After success the device belongs to the core, and may even have been unregistered again.
    ///
    /// # Errors
    ///
    /// `ENFILE` if the name is in use, and those of the core and of [`Driver::enable`].
    pub fn register(self, name: &CStr) -> Result {
        // SAFETY: The device is complete and not registered. It has no DMA device: the core then
        // passes kernel virtual addresses in DMA addresses.
        to_result(unsafe {
            bindings::ib_register_device(
                self.raw.as_ptr().cast(),
                name.as_char_ptr(),
                ptr::null_mut(),
            )
        })?;
        core::mem::forget(self);
        Ok(())
    }
}

impl<T: Driver> core::ops::Deref for UnregisteredDevice<T> {
    type Target = Device<T>;

    fn deref(&self) -> &Device<T> {
        // SAFETY: Initialised by the type invariant.
        unsafe { self.raw.as_ref() }
    }
}

impl<T: Driver> Drop for UnregisteredDevice<T> {
    fn drop(&mut self) {
        // SAFETY: The core does not know the device, so this is its end. It calls `dealloc_driver`.
        unsafe { bindings::ib_dealloc_device(self.raw.as_ptr().cast()) };
    }
}

/// `dealloc_driver`: drops what the driver has behind the device.
///
/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`].
pub(super) unsafe extern "C" fn dealloc_driver<T: Driver>(ib: *mut bindings::ib_device) {
    let device: *mut Device<T> = ib.cast();
    // SAFETY: A device of this driver whose fields were initialised, for which no verb can run any
    // more.
    unsafe {
        (*device).weak.assume_init_ref().clear();
        (*device).data.assume_init_drop();
        // Bodies that were given up and wait for the end of a grace period may hold entries of the
        // GID table, which the core frees with the device.
        rcu::rcu_barrier();
        (*device).weak.assume_init_drop();
    }
}

/// A reference to a registered device: while it exists, the device is not unregistered.
///
/// Only to be held across a call, never to be stored: unregistering waits for it.
///
/// # Invariants
///
/// `raw` is registered and this value owns one registration reference to it.
pub struct DeviceRef<T: Driver> {
    raw: NonNull<Device<T>>,
}

impl<T: Driver> DeviceRef<T> {
    /// Finds the device of this driver that runs on `ndev`. Any context.
    pub fn by_netdev(ndev: &NetDev) -> Option<Self> {
        // SAFETY: The network device is valid. A registration reference is taken.
        let ib = NonNull::new(unsafe {
            bindings::ib_device_get_by_netdev(ndev.as_raw(), T::DRIVER_ID)
        })?;
        // INVARIANT: A registration reference was just taken.
        let found = Self { raw: ib.cast() };
        // SAFETY: The device is valid while the reference is held.
        let owner = unsafe { (*ib.as_ptr()).ops.owner };
        // A device with the same driver number but of another module would not be a `Device<T>`.
        (owner == <T as Driver>::OwnerModule::THIS_MODULE.as_ptr()).then_some(found)
    }

    /// Starts the unregistration of the device. Any context that may queue work; returns before it
    /// is done.
    pub fn unregister_queued(&self) {
        // SAFETY: The device is registered by the type invariant; the driver has a
        // `dealloc_driver`, and `DriverRegistration` waits for the work at the end.
        unsafe { bindings::ib_unregister_device_queued(self.raw.as_ptr().cast()) };
    }
}

impl<T: Driver> core::ops::Deref for DeviceRef<T> {
    type Target = Device<T>;

    fn deref(&self) -> &Device<T> {
        // SAFETY: A registered device has not been deallocated.
        unsafe { self.raw.as_ref() }
    }
}

impl<T: Driver> Drop for DeviceRef<T> {
    fn drop(&mut self) {
        // SAFETY: This value owns the reference that is given back.
        unsafe { bindings::ib_device_put(self.raw.as_ptr().cast()) };
    }
}

/// Keeps the driver registered. Dropping it unregisters all its devices and waits for them.
///
/// The module must keep it until nothing can register a device any more.
pub struct DriverRegistration<T: Driver>(PhantomData<T>);

impl<T: Driver> DriverRegistration<T> {
    /// Makes the registration. The core has none of its own: it knows drivers by their devices.
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T: Driver> Drop for DriverRegistration<T> {
    fn drop(&mut self) {
        // SAFETY: All devices of the driver have a `dealloc_driver`.
        unsafe { bindings::ib_unregister_driver(T::DRIVER_ID) };
    }
}
