// SPDX-License-Identifier: GPL-2.0

//! GIDs: the addresses of a port, and the references to table entries that keep one usable.
//!
//! C header: [`include/rdma/ib_cache.h`](srctree/include/rdma/ib_cache.h)

use crate::abstractions::{
    bindings,
    net::NetDev, //
};
use core::ptr::NonNull;
use kernel::{
    error::from_err_ptr,
    prelude::*,
    sync::rcu, //
};

/// A GID: an IPv6 address, or an IPv4 address mapped into one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// The IPv4 address in this GID, if it is one.
    pub fn ipv4(&self) -> Option<[u8; 4]> {
        match self.0 {
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d] => Some([a, b, c, d]),
            _ => None,
        }
    }

    pub(super) fn from_raw(raw: &bindings::ib_gid) -> Self {
        // SAFETY: All members of the union are 16 bytes of plain data.
        Self(unsafe { *raw.raw.as_ref() })
    }

    pub(super) fn to_raw(self) -> bindings::ib_gid {
        let mut raw = bindings::ib_gid::default();
        // SAFETY: All members of the union are 16 bytes of plain data.
        unsafe { *raw.raw.as_mut() = self.0 };
        raw
    }
}

/// How packets of a GID are encapsulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GidType {
    /// InfiniBand.
    Ib,
    /// RoCE, version 1.
    RoceV1,
    /// RoCE, version 2: in UDP.
    RoceV2,
}

/// The network protocol of a GID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkType {
    /// InfiniBand.
    Ib,
    /// RoCE, version 1.
    RoceV1,
    /// UDP over IPv4.
    Ipv4,
    /// UDP over IPv6.
    Ipv6,
}

/// A reference to an entry of a port's GID table.
///
/// While it is held, the entry keeps its contents and its index, even if the address has been
/// removed from the network device; only then its [`GidAttr::netdev`] is gone.
///
/// # Invariants
///
/// `raw` is a GID table entry and this value owns one reference to it.
pub struct GidAttr {
    raw: NonNull<bindings::ib_gid_attr>,
}

// SAFETY: Entries are reference-counted and may be used and released from any thread.
unsafe impl Send for GidAttr {}
// SAFETY: As above; nothing is written through a shared reference.
unsafe impl Sync for GidAttr {}

impl GidAttr {
    /// Takes over a reference that a function of the core returned.
    ///
    /// # Safety
    ///
    /// `raw` must be an error pointer, or an entry of which the caller owns one reference and gives
    /// it up.
    pub(super) unsafe fn from_raw(raw: *const bindings::ib_gid_attr) -> Result<Self> {
        let raw = from_err_ptr(raw.cast_mut())?;
        // INVARIANT: By the safety requirement.
        Ok(Self {
            raw: NonNull::new(raw).ok_or(ENOENT)?,
        })
    }

    /// Takes a reference of its own to an entry that somebody else holds; [`None`] for NULL.
    ///
    /// # Safety
    ///
    /// `raw` must be NULL or an entry to which somebody holds a reference during the call.
    pub(super) unsafe fn hold(raw: *const bindings::ib_gid_attr) -> Option<Self> {
        let raw = NonNull::new(raw.cast_mut())?;
        // SAFETY: By the safety requirement, the entry has a reference now.
        unsafe { bindings::rdma_hold_gid_attr(raw.as_ptr()) };
        // INVARIANT: The reference was just taken.
        Some(Self { raw })
    }

    fn raw(&self) -> &bindings::ib_gid_attr {
        // SAFETY: Valid by the type invariant; the fields read below do not change while it is
        // referenced.
        unsafe { self.raw.as_ref() }
    }

    pub(super) fn as_ptr(&self) -> *const bindings::ib_gid_attr {
        self.raw.as_ptr()
    }

    /// The GID.
    pub fn gid(&self) -> Gid {
        Gid::from_raw(&self.raw().gid)
    }

    /// How packets from this GID are encapsulated.
    pub fn gid_type(&self) -> GidType {
        match self.raw().gid_type {
            bindings::ib_gid_type_IB_GID_TYPE_ROCE => GidType::RoceV1,
            bindings::ib_gid_type_IB_GID_TYPE_ROCE_UDP_ENCAP => GidType::RoceV2,
            _ => GidType::Ib,
        }
    }

    /// The network protocol of packets from this GID.
    pub fn network_type(&self) -> NetworkType {
        match self.gid_type() {
            GidType::Ib => NetworkType::Ib,
            GidType::RoceV1 => NetworkType::RoceV1,
            GidType::RoceV2 if self.gid().ipv4().is_some() => NetworkType::Ipv4,
            GidType::RoceV2 => NetworkType::Ipv6,
        }
    }

    /// The network device that has the address; [`None`] once the address is gone. Any context.
    pub fn netdev<'g>(&self, _guard: &'g rcu::Guard) -> Option<&'g NetDev> {
        // SAFETY: The entry is valid, and the caller is in an RCU read-side critical section.
        let ndev = unsafe { bindings::rdma_read_gid_attr_ndev_rcu(self.as_ptr()) };
        let ndev = from_err_ptr(ndev).ok()?;
        // SAFETY: The device stays valid as long as the read-side critical section that `'g` stands
        // for.
        (!ndev.is_null()).then(|| unsafe { NetDev::from_raw(ndev) })
    }
}

impl Clone for GidAttr {
    fn clone(&self) -> Self {
        // SAFETY: This value holds a reference.
        unsafe { bindings::rdma_hold_gid_attr(self.as_ptr()) };
        // INVARIANT: The reference was just taken.
        Self { raw: self.raw }
    }
}

impl Drop for GidAttr {
    fn drop(&mut self) {
        // SAFETY: This value owns the reference that is given back.
        unsafe { bindings::rdma_put_gid_attr(self.as_ptr()) };
    }
}
