// SPDX-License-Identifier: GPL-2.0

//! Address handles, and the address attributes that queue pairs have too.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    device::Driver,
    gid::{
        Gid,
        GidAttr, //
    },
    ops::shell,
    pd,
    udata::UserData, //
};
use crate::abstractions::bindings;
use kernel::{
    error::from_result,
    prelude::*, //
};

/// Where to send to, and as whom.
#[derive(Clone, Default)]
pub struct AhAttr {
    /// The local address; [`None`] if the attributes have no global route.
    pub sgid: Option<GidAttr>,
    /// Index of the local address in the GID table.
    pub sgid_index: u8,
    /// The remote address.
    pub dgid: Gid,
    /// IPv6 flow label; RoCE derives the UDP source port from it.
    pub flow_label: u32,
    /// IPv6 hop limit or IPv4 time to live.
    pub hop_limit: u8,
    /// IPv6 traffic class or IPv4 type of service.
    pub traffic_class: u8,
    /// Service level.
    pub sl: u8,
    /// Static rate.
    pub static_rate: u8,
    /// The local port.
    pub port: u32,
    /// Ethernet address of the next hop.
    pub dmac: [u8; 6],
    /// Whether there is a global route: always so on RoCE.
    pub has_grh: bool,
}

impl AhAttr {
    /// Copies C attributes, with a reference of its own to the local address.
    pub(super) fn from_raw(raw: &bindings::rdma_ah_attr) -> Self {
        let has_grh = raw.ah_flags & bindings::ib_ah_flags_IB_AH_GRH as u8 != 0;
        let roce = raw.type_ == bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_ROCE;
        Self {
            // SAFETY: The core holds the local address while the attributes are in use.
            sgid: unsafe { GidAttr::hold(raw.grh.sgid_attr) },
            sgid_index: raw.grh.sgid_index,
            dgid: Gid::from_raw(&raw.grh.dgid),
            flow_label: raw.grh.flow_label,
            hop_limit: raw.grh.hop_limit,
            traffic_class: raw.grh.traffic_class,
            sl: raw.sl,
            static_rate: raw.static_rate,
            port: raw.port_num,
            dmac: if roce {
                // SAFETY: This is the member of the union that the type says.
                unsafe { raw.__bindgen_anon_1.roce.as_ref() }.dmac
            } else {
                [0; 6]
            },
            has_grh,
        }
    }

    /// Writes RoCE attributes to C ones, without the reference to the local address, as query verbs
    /// do.
    pub(super) fn write_raw(&self, raw: &mut bindings::rdma_ah_attr) {
        *raw = bindings::rdma_ah_attr {
            sl: self.sl,
            static_rate: self.static_rate,
            port_num: self.port,
            // CAST: The value is 1.
            ah_flags: bindings::ib_ah_flags_IB_AH_GRH as u8,
            type_: bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_ROCE,
            ..Default::default()
        };
        raw.grh.dgid = self.dgid.to_raw();
        raw.grh.flow_label = self.flow_label;
        raw.grh.sgid_index = self.sgid_index;
        raw.grh.hop_limit = self.hop_limit;
        raw.grh.traffic_class = self.traffic_class;
        // SAFETY: This is the member of the union that the type says.
        unsafe { raw.__bindgen_anon_1.roce.as_mut() }.dmac = self.dmac;
    }
}

/// Whether a verb may sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// It may.
    Sleepable,
    /// It may not: the caller may hold a spinlock or be in an interrupt.
    Atomic,
}

impl Context {
    /// The allocation flags for this context.
    pub fn flags(self) -> kernel::alloc::Flags {
        match self {
            Self::Sleepable => GFP_KERNEL,
            Self::Atomic => GFP_ATOMIC,
        }
    }
}

/// An address handle as its verbs give it to the driver.
#[vtable]
pub trait Operations: Sized + Send + Sync + 'static {
    /// The driver.
    type Driver: Driver<Ah = Self>;

    /// Makes the driver's part of a new address handle. Sleeps only if `context` allows it.
    ///
    /// `udata` is [`None`] for a kernel user.
    fn create(
        _pd: &pd::Shell<<Self::Driver as Driver>::Pd>,
        _attr: &AhAttr,
        _context: Context,
        _udata: Option<&mut UserData<'_>>,
    ) -> Result<Self> {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// Ends the use of the handle; the value is dropped after it. Sleeps only if `context` allows
    /// it; so does the drop.
    fn destroy(_ah: &Shell<Self>, _context: Context) {}

    /// Changes where the handle leads to.
    fn modify(_ah: &Shell<Self>, _attr: &AhAttr) -> Result {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// Where the handle leads to.
    fn query(_ah: &Shell<Self>) -> Result<AhAttr> {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }
}

shell! {
    /// An `ib_ah` with the driver's part behind it.
    Shell, ib_ah
}

/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`].
pub(super) unsafe extern "C" fn create<T: Operations>(
    ah: *mut bindings::ib_ah,
    init: *mut bindings::rdma_ah_init_attr,
    udata: *mut bindings::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: The core sets `pd` before the call; it is a PD of this driver.
        let pd = unsafe { pd::Shell::from_raw((*ah).pd) };
        // SAFETY: `udata` is valid for this call and ours alone.
        let mut udata = unsafe { UserData::from_raw(udata) };
        // SAFETY: Valid for this call.
        let (attr, flags) = unsafe { (AhAttr::from_raw(&*(*init).ah_attr), (*init).flags) };
        let context = if flags & bindings::rdma_create_ah_flags_RDMA_CREATE_AH_SLEEPABLE != 0 {
            Context::Sleepable
        } else {
            Context::Atomic
        };
        let data = T::create(pd, &attr, context, udata.as_mut())?;
        // SAFETY: The core allocated the size of the shell and calls this once.
        unsafe { Shell::<T>::init(ah, data) };
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`].
pub(super) unsafe extern "C" fn destroy<T: Operations>(
    ah: *mut bindings::ib_ah,
    flags: u32,
) -> c_int {
    let context = if flags & bindings::rdma_destroy_ah_flags_RDMA_DESTROY_AH_SLEEPABLE != 0 {
        Context::Sleepable
    } else {
        Context::Atomic
    };
    // SAFETY: A handle of this driver that was created.
    T::destroy(unsafe { Shell::from_raw(ah) }, context);
    // SAFETY: The core calls nothing for this handle any more.
    unsafe { Shell::<T>::drop_data(ah) };
    0
}

/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`].
pub(super) unsafe extern "C" fn modify<T: Operations>(
    ah: *mut bindings::ib_ah,
    attr: *mut bindings::rdma_ah_attr,
) -> c_int {
    from_result(|| {
        // SAFETY: Valid for this call.
        let attr = AhAttr::from_raw(unsafe { &*attr });
        // SAFETY: A handle of this driver that was created.
        T::modify(unsafe { Shell::from_raw(ah) }, &attr)?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`].
pub(super) unsafe extern "C" fn query<T: Operations>(
    ah: *mut bindings::ib_ah,
    out: *mut bindings::rdma_ah_attr,
) -> c_int {
    from_result(|| {
        // SAFETY: A handle of this driver that was created.
        let attr = T::query(unsafe { Shell::from_raw(ah) })?;
        // SAFETY: Valid for this call, and ours to fill in.
        attr.write_raw(unsafe { &mut *out });
        Ok(0)
    })
}
