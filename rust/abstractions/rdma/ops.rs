// SPDX-License-Identifier: GPL-2.0

//! The operations table of a driver, and the verbs of the device itself.
//!
//! A verb that the driver does not implement is NULL in the table; the core answers for it.

use super::{
    ah,
    cq,
    device::{
        self,
        Device,
        Driver,
        Modify,
        ModifyPort, //
    },
    hw_stats,
    mad,
    mr,
    mw,
    pd,
    qp,
    srq,
    ucontext,
    udata::UserData,
    umem_odp, //
};
use crate::abstractions::{
    bindings,
    net::Rtnl, //
};
use core::{
    marker::PhantomData,
    mem::size_of,
    ptr, //
};
use kernel::{
    error::from_result,
    prelude::*,
    str::as_char_ptr_in_const_context,
    ModuleMetadata, //
};

/// Defines the shell of an object kind: the C structure with the driver's value behind it.
///
/// With `target` at the end, the shell also has the object's [`super::callback::Target`], which is
/// closed before the value is dropped.
macro_rules! shell {
    (@common $name:ident, $c:ident) => {
        // SAFETY: The C part is used by the core only; the rest is `Send`.
        unsafe impl<T: Operations> Send for $name<T> {}
        // SAFETY: The C part is used by the core only; the rest is `Sync`.
        unsafe impl<T: Operations> Sync for $name<T> {}

        impl<T: Operations> $name<T> {
            /// Borrows the shell around a C structure.
            ///
            /// # Safety
            ///
            /// `ptr` must belong to a shell of this type that has been created and not destroyed,
            /// for `'a`.
            pub(super) unsafe fn from_raw<'a>(ptr: *mut $crate::abstractions::bindings::$c) -> &'a Self {
                const { assert!(core::mem::offset_of!(Self, ib) == 0) };
                // SAFETY: `ib` is the first field; the rest is the safety requirement.
                unsafe { &*ptr.cast() }
            }
        }

        impl<T: Operations> core::ops::Deref for $name<T> {
            type Target = T;

            fn deref(&self) -> &T {
                // SAFETY: Initialised by the type invariant.
                unsafe { self.data.assume_init_ref() }
            }
        }
    };
    ($(#[$meta:meta])* $name:ident, $c:ident) => {
        $(#[$meta])*
        ///
        /// # Invariants
        ///
        /// A reference to a shell exists only after a successful create and before the end of
        /// destroy, when all fields are initialised.
        #[repr(C)]
        pub struct $name<T: Operations> {
            ib: kernel::types::Opaque<$crate::abstractions::bindings::$c>,
            data: core::mem::MaybeUninit<T>,
        }

        $crate::abstractions::rdma::ops::shell!(@common $name, $c);

        impl<T: Operations> $name<T> {
            /// Completes a shell.
            ///
            /// # Safety
            ///
            /// `ptr` must be a structure in the memory of a shell that is being created.
            unsafe fn init(ptr: *mut $crate::abstractions::bindings::$c, data: T) {
                let shell: *mut Self = ptr.cast();
                // SAFETY: By the safety requirement the memory is valid and ours.
                unsafe { (&raw mut (*shell).data).write(core::mem::MaybeUninit::new(data)) };
            }

            /// Drops what the driver has in a shell.
            ///
            /// # Safety
            ///
            /// `ptr` must belong to a shell that was created, and that nobody uses any more.
            unsafe fn drop_data(ptr: *mut $crate::abstractions::bindings::$c) {
                let shell: *mut Self = ptr.cast();
                // SAFETY: Initialised by the type invariant, and not used any more.
                unsafe { (*shell).data.assume_init_drop() };
            }
        }
    };
    ($(#[$meta:meta])* $name:ident, $c:ident, target) => {
        $(#[$meta])*
        ///
        /// # Invariants
        ///
        /// A reference to a shell exists only after a successful create and before the end of
        /// destroy, when all fields are initialised.
        #[repr(C)]
        pub struct $name<T: Operations> {
            ib: kernel::types::Opaque<$crate::abstractions::bindings::$c>,
            target: core::mem::MaybeUninit<
                kernel::sync::Arc<
                    $crate::abstractions::rdma::callback::Target<$crate::abstractions::bindings::$c>,
                >,
            >,
            data: core::mem::MaybeUninit<T>,
        }

        $crate::abstractions::rdma::ops::shell!(@common $name, $c);

        impl<T: Operations> $name<T> {
            /// Makes the callback target of a structure that is being created.
            ///
            /// # Safety
            ///
            /// The target must be closed before the structure is freed: by [`Self::drop_data`] if
            /// create succeeds, by the caller if not.
            unsafe fn new_target(
                ptr: *mut $crate::abstractions::bindings::$c,
            ) -> kernel::error::Result<
                kernel::sync::Arc<
                    $crate::abstractions::rdma::callback::Target<$crate::abstractions::bindings::$c>,
                >,
            > {
                let raw = core::ptr::NonNull::new(ptr).ok_or(kernel::error::code::EINVAL)?;
                // SAFETY: By the safety requirement.
                let target = unsafe { $crate::abstractions::rdma::callback::Target::new(raw) };
                Ok(kernel::sync::Arc::new(target, kernel::alloc::flags::GFP_KERNEL)?)
            }

            /// Completes a shell.
            ///
            /// # Safety
            ///
            /// `ptr` must be a structure in the memory of a shell that is being created, `target`
            /// its target.
            unsafe fn init(
                ptr: *mut $crate::abstractions::bindings::$c,
                data: T,
                target: kernel::sync::Arc<
                    $crate::abstractions::rdma::callback::Target<$crate::abstractions::bindings::$c>,
                >,
            ) {
                let shell: *mut Self = ptr.cast();
                // SAFETY: By the safety requirement the memory is valid and ours.
                unsafe {
                    (&raw mut (*shell).target).write(core::mem::MaybeUninit::new(target));
                    (&raw mut (*shell).data).write(core::mem::MaybeUninit::new(data));
                }
            }

            /// Ends callbacks and drops what the driver has in a shell. Sleeps.
            ///
            /// # Safety
            ///
            /// `ptr` must belong to a shell that was created, and that nobody uses any more.
            unsafe fn drop_data(ptr: *mut $crate::abstractions::bindings::$c) {
                let shell: *mut Self = ptr.cast();
                // SAFETY: Initialised by the type invariant, and not used any more but by
                // callbacks, which are waited for.
                unsafe {
                    (*shell).target.assume_init_ref().close();
                    (*shell).data.assume_init_drop();
                    (*shell).target.assume_init_drop();
                }
            }
        }
    };
}
pub(super) use shell;

/// [`Some`] trampoline if the driver has the verb.
macro_rules! verb {
    ($has:expr, $trampoline:expr) => {
        if $has {
            Some($trampoline)
        } else {
            None
        }
    };
}

/// The tables of a driver.
pub(super) struct VTable<T: Driver>(PhantomData<T>);

impl<T: Driver> VTable<T> {
    /// `struct ib_device_ops`.
    ///
    /// Kept as a constant and promoted to a static by taking its address.
    pub(super) const OPS: bindings::ib_device_ops = Self::ops();

    const fn ops() -> bindings::ib_device_ops {
        // SAFETY: NULL function pointers, numbers and bit fields: all zeros are good.
        let mut ops: bindings::ib_device_ops = unsafe { core::mem::zeroed() };
        ops.owner = <T as Driver>::OwnerModule::THIS_MODULE.as_ptr();
        ops.driver_id = T::DRIVER_ID;
        ops.uverbs_abi_ver = T::UVERBS_ABI_VERSION;

        // The device and its port.
        ops.device_group = if T::HAS_PARENT {
            ptr::from_ref(Self::ATTR_GROUP)
        } else {
            ptr::null()
        };
        ops.query_device = Some(query_device::<T>);
        ops.modify_device = verb!(T::HAS_MODIFY_DEVICE, modify_device::<T>);
        ops.query_port = Some(query_port::<T>);
        ops.modify_port = verb!(T::HAS_MODIFY_PORT, modify_port::<T>);
        ops.get_port_immutable = Some(port_immutable::<T>);
        ops.get_link_layer = Some(link_layer);
        ops.query_pkey = Some(query_pkey::<T>);
        ops.enable_driver = verb!(T::HAS_ENABLE, enable::<T>);
        ops.dealloc_driver = Some(device::dealloc_driver::<T>);
        if T::HAS_READ_COUNTERS {
            ops.alloc_hw_port_stats = Some(hw_stats::alloc::<T>);
            ops.get_hw_stats = Some(hw_stats::read::<T>);
        }
        ops.process_mad = verb!(T::HAS_PROCESS_MAD, mad::process::<T>);

        // Contexts.
        ops.alloc_ucontext = Some(ucontext::alloc::<T::Ucontext>);
        ops.dealloc_ucontext = Some(ucontext::dealloc::<T::Ucontext>);
        ops.disassociate_ucontext = Some(ucontext::disassociate::<T::Ucontext>);
        ops.mmap = Some(ucontext::mmap::<T::Ucontext>);
        ops.size_ib_ucontext = size_of::<ucontext::Shell<T::Ucontext>>();

        // Protection domains.
        ops.alloc_pd = Some(pd::alloc::<T::Pd>);
        ops.dealloc_pd = Some(pd::dealloc::<T::Pd>);
        ops.size_ib_pd = size_of::<pd::Shell<T::Pd>>();

        // Address handles.
        use ah::Operations as _;
        if T::Ah::HAS_CREATE {
            ops.create_ah = Some(ah::create::<T::Ah>);
            ops.create_user_ah = Some(ah::create::<T::Ah>);
            ops.destroy_ah = Some(ah::destroy::<T::Ah>);
        }
        ops.modify_ah = verb!(T::Ah::HAS_MODIFY, ah::modify::<T::Ah>);
        ops.query_ah = verb!(T::Ah::HAS_QUERY, ah::query::<T::Ah>);
        ops.size_ib_ah = size_of::<ah::Shell<T::Ah>>();

        // Completion queues.
        use cq::Operations as _;
        if T::Cq::HAS_CREATE {
            ops.create_cq = Some(cq::create::<T::Cq>);
            ops.destroy_cq = Some(cq::destroy::<T::Cq>);
        }
        ops.resize_user_cq = verb!(T::Cq::HAS_RESIZE, cq::resize::<T::Cq>);
        ops.poll_cq = verb!(T::Cq::HAS_POLL, cq::poll::<T::Cq>);
        ops.peek_cq = verb!(T::Cq::HAS_PEEK, cq::peek::<T::Cq>);
        ops.req_notify_cq = verb!(T::Cq::HAS_REQ_NOTIFY, cq::req_notify::<T::Cq>);
        ops.size_ib_cq = size_of::<cq::Shell<T::Cq>>();

        // Shared receive queues.
        use srq::Operations as _;
        if T::Srq::HAS_CREATE {
            ops.create_srq = Some(srq::create::<T::Srq>);
            ops.destroy_srq = Some(srq::destroy::<T::Srq>);
        }
        ops.modify_srq = verb!(T::Srq::HAS_MODIFY, srq::modify::<T::Srq>);
        ops.query_srq = verb!(T::Srq::HAS_QUERY, srq::query::<T::Srq>);
        ops.post_srq_recv = verb!(T::Srq::HAS_POST_RECV, srq::post_recv::<T::Srq>);
        ops.size_ib_srq = size_of::<srq::Shell<T::Srq>>();

        // Queue pairs.
        use qp::Operations as _;
        if T::Qp::HAS_CREATE {
            ops.create_qp = Some(qp::create::<T::Qp>);
            ops.destroy_qp = Some(qp::destroy::<T::Qp>);
        }
        ops.modify_qp = verb!(T::Qp::HAS_MODIFY, qp::modify::<T::Qp>);
        ops.query_qp = verb!(T::Qp::HAS_QUERY, qp::query::<T::Qp>);
        ops.post_send = verb!(T::Qp::HAS_POST_SEND, qp::post_send::<T::Qp>);
        ops.post_recv = verb!(T::Qp::HAS_POST_RECV, qp::post_recv::<T::Qp>);
        ops.attach_mcast = verb!(T::Qp::HAS_ATTACH_MCAST, qp::attach_mcast::<T::Qp>);
        ops.detach_mcast = verb!(T::Qp::HAS_DETACH_MCAST, qp::detach_mcast::<T::Qp>);
        ops.size_ib_qp = size_of::<qp::Shell<T::Qp>>();

        // Memory regions.
        ops.get_dma_mr = Some(mr::get_dma_mr::<T::Mr>);
        ops.reg_user_mr = Some(mr::reg_user_mr::<T::Mr>);
        ops.rereg_user_mr = Some(mr::rereg_user_mr::<T::Mr>);
        ops.advise_mr = verb!(umem_odp::SUPPORTED, mr::advise_mr::<T::Mr>);
        ops.alloc_mr = Some(mr::alloc_mr::<T::Mr>);
        ops.map_mr_sg = Some(mr::map_mr_sg::<T::Mr>);
        ops.dereg_mr = Some(mr::dereg_mr::<T::Mr>);

        // Memory windows.
        use mw::Operations as _;
        if T::Mw::HAS_ALLOC {
            ops.alloc_mw = Some(mw::alloc::<T::Mw>);
            ops.dealloc_mw = Some(mw::dealloc::<T::Mw>);
        }
        ops.size_ib_mw = size_of::<mw::Shell<T::Mw>>();
        ops
    }

    /// The sysfs attribute `parent`.
    const PARENT: &'static bindings::device_attribute = &{
        // SAFETY: NULL pointers and numbers: all zeros are good.
        let mut parent: bindings::device_attribute = unsafe { core::mem::zeroed() };
        parent.attr.name = as_char_ptr_in_const_context(c"parent");
        parent.attr.mode = 0o444;
        parent.__bindgen_anon_1.show = Some(parent_show::<T>);
        parent
    };

    /// The driver's sysfs attributes, and the NULL at their end.
    const ATTRS: &'static [*const bindings::attribute; 2] =
        &[ptr::from_ref(Self::PARENT).cast(), ptr::null()];

    /// The driver's sysfs attributes as a group.
    const ATTR_GROUP: &'static bindings::attribute_group = &{
        // SAFETY: NULL pointers are good for all fields.
        let mut group: bindings::attribute_group = unsafe { core::mem::zeroed() };
        group.__bindgen_anon_2.attrs = ptr::from_ref(Self::ATTRS).cast_mut().cast();
        group
    };
}

/// Refuses ports other than 1.
fn check_port(port: u32) -> Result {
    if port == 1 {
        Ok(())
    } else {
        Err(EINVAL)
    }
}

/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`].
unsafe extern "C" fn query_device<T: Driver>(
    ib: *mut bindings::ib_device,
    out: *mut bindings::ib_device_attr,
    udata: *mut bindings::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: `udata` is valid for this call and ours alone. The verb may be used without a
        // context.
        if let Some(mut udata) = unsafe { UserData::without_context(udata) } {
            udata.no_input()?;
        }
        // SAFETY: A device of this driver.
        let attr = T::query_device(unsafe { Device::from_raw(ib) })?;
        // SAFETY: Valid for this call, and ours to fill in.
        attr.write_raw(unsafe { &mut *out });
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`].
unsafe extern "C" fn modify_device<T: Driver>(
    ib: *mut bindings::ib_device,
    mask: c_int,
    change: *mut bindings::ib_device_modify,
) -> c_int {
    const GUID: u32 = bindings::ib_device_modify_flags_IB_DEVICE_MODIFY_SYS_IMAGE_GUID;
    const DESC: u32 = bindings::ib_device_modify_flags_IB_DEVICE_MODIFY_NODE_DESC;
    from_result(|| {
        let mask = mask as u32;
        if mask & !(GUID | DESC) != 0 {
            return Err(EOPNOTSUPP);
        }
        // SAFETY: A device of this driver; the change is valid during the call.
        let (device, change) = unsafe { (Device::<T>::from_raw(ib), &*change) };
        T::modify_device(
            device,
            &Modify {
                sys_image_guid: (mask & GUID != 0).then(|| change.sys_image_guid.to_be_bytes()),
            },
        )?;
        if mask & DESC != 0 {
            device.set_node_desc(&change.node_desc);
        }
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`].
unsafe extern "C" fn query_port<T: Driver>(
    ib: *mut bindings::ib_device,
    port: u32,
    out: *mut bindings::ib_port_attr,
) -> c_int {
    from_result(|| {
        check_port(port)?;
        // SAFETY: A device of this driver.
        let attr = T::query_port(unsafe { Device::from_raw(ib) })?;
        // SAFETY: Valid for this call, and ours to fill in.
        attr.write_raw(unsafe { &mut *out });
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`].
unsafe extern "C" fn modify_port<T: Driver>(
    ib: *mut bindings::ib_device,
    port: u32,
    mask: c_int,
    change: *mut bindings::ib_port_modify,
) -> c_int {
    const RESET: u32 = bindings::ib_port_modify_flags_IB_PORT_RESET_QKEY_CNTR;
    from_result(|| {
        check_port(port)?;
        let mask = mask as u32;
        if mask & !RESET != 0 {
            return Err(EOPNOTSUPP);
        }
        // SAFETY: A device of this driver; the change is valid during the call.
        let (device, change) = unsafe { (Device::<T>::from_raw(ib), &*change) };
        T::modify_port(
            device,
            &ModifyPort {
                set_caps: change.set_port_cap_mask,
                clear_caps: change.clr_port_cap_mask,
                reset_qkey_counter: mask & RESET != 0,
            },
        )?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`].
unsafe extern "C" fn port_immutable<T: Driver>(
    ib: *mut bindings::ib_device,
    port: u32,
    out: *mut bindings::ib_port_immutable,
) -> c_int {
    from_result(|| {
        check_port(port)?;
        // SAFETY: A device of this driver.
        let attr = T::query_port(unsafe { Device::from_raw(ib) })?;
        // SAFETY: Valid for this call, and ours to fill in.
        let out = unsafe { &mut *out };
        out.core_cap_flags = bindings::RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
        out.pkey_tbl_len = attr.pkey_table_len.into();
        out.gid_tbl_len = c_int::try_from(attr.gid_table_len)?;
        out.max_mad_size = T::MAX_MAD_SIZE;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`].
unsafe extern "C" fn link_layer(
    _ib: *mut bindings::ib_device,
    _port: u32,
) -> bindings::rdma_link_layer {
    bindings::rdma_link_layer_IB_LINK_LAYER_ETHERNET
}

/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`].
unsafe extern "C" fn query_pkey<T: Driver>(
    ib: *mut bindings::ib_device,
    port: u32,
    index: u16,
    out: *mut u16,
) -> c_int {
    from_result(|| {
        check_port(port)?;
        // SAFETY: A device of this driver.
        let pkey = T::query_pkey(unsafe { Device::from_raw(ib) }, index)?;
        // SAFETY: Valid for this call, and ours to fill in.
        unsafe { out.write(pkey) };
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`].
unsafe extern "C" fn enable<T: Driver>(ib: *mut bindings::ib_device) -> c_int {
    from_result(|| {
        // SAFETY: A device of this driver.
        T::enable(unsafe { Device::from_raw(ib) })?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by sysfs for a device of this driver, which exists at least until its attributes have
/// been removed. `buf` is a page.
unsafe extern "C" fn parent_show<T: Driver>(
    device: *mut bindings::device,
    _attr: *mut bindings::device_attribute,
    buf: *mut c_char,
) -> isize {
    // SAFETY: `device` is that of an RDMA device of this driver, or of its representation in
    // another namespace.
    let device = unsafe { Device::<T>::from_raw(bindings::rdma_device_to_ibdev(device)) };
    let ndev = match T::parent(device) {
        Ok(ndev) => ndev,
        Err(e) => return e.to_errno() as isize,
    };
    let rtnl = Rtnl::lock();
    let name = ndev.name(&rtnl);
    let bytes = name.to_bytes();
    // SAFETY: `buf` is a page, and the name is shorter.
    unsafe {
        ptr::copy_nonoverlapping(bytes.as_ptr(), buf.cast(), bytes.len());
        buf.add(bytes.len()).write(b'\n');
    }
    // CAST: A page is not longer than `isize::MAX`.
    bytes.len().wrapping_add(1) as isize
}
