// SPDX-License-Identifier: GPL-2.0

//! When a key grants access to memory.
//!
//! The decisions are functions of a snapshot of a region or window; who keeps the snapshot, and how
//! it is protected, is the driver's affair.

#![forbid(unsafe_code)]

use super::num::{
    Key,
    PdId,
    Qpn, //
};
use super::status::AccessFault;

/// A set of access rights and attributes (`enum ib_access_flags`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Access(u32);

impl Access {
    /// No rights: enough to read through a local key.
    pub const NONE: Self = Self(0);
    /// The device may write for its own work requests.
    pub const LOCAL_WRITE: Self = Self(1 << 0);
    /// Peers may write.
    pub const REMOTE_WRITE: Self = Self(1 << 1);
    /// Peers may read.
    pub const REMOTE_READ: Self = Self(1 << 2);
    /// Peers may perform atomic operations.
    pub const REMOTE_ATOMIC: Self = Self(1 << 3);
    /// Windows may be bound to the region.
    pub const MW_BIND: Self = Self(1 << 4);
    /// Addresses begin at zero.
    pub const ZERO_BASED: Self = Self(1 << 5);
    /// Pages are brought in when they are accessed.
    pub const ON_DEMAND: Self = Self(1 << 6);
    /// Peers may flush to global visibility.
    pub const FLUSH_GLOBAL: Self = Self(1 << 8);
    /// Peers may flush to persistence.
    pub const FLUSH_PERSISTENT: Self = Self(1 << 9);
    /// Attributes that a device may ignore.
    pub const OPTIONAL: Self = Self(0x3ff0_0000);

    /// All rights of peers to data.
    pub const REMOTE: Self =
        Self(Self::REMOTE_WRITE.0 | Self::REMOTE_READ.0 | Self::REMOTE_ATOMIC.0);
    /// Both rights to flush.
    pub const FLUSH: Self = Self(Self::FLUSH_GLOBAL.0 | Self::FLUSH_PERSISTENT.0);

    /// Makes a set of the bits that verbs use.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Returns the bits that verbs use.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Tells whether all of `other` is in `self`.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Tells whether `self` and `other` have something in common.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns what is in either set.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns what is in `self` and not in `other`.
    #[cfg(not(MODULE))]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Tells whether the set is empty.
    #[cfg(not(MODULE))]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The state of a region or window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MrState {
    /// It has no memory.
    #[default]
    Invalid,
    /// It can be registered or bound.
    Free,
    /// It grants access.
    Valid,
}

/// What a check needs to know of a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegView {
    /// The key that names the region now. Local and remote key are the same.
    pub key: Key,
    /// State.
    pub state: MrState,
    /// Protection domain.
    pub pd: PdId,
    /// Rights.
    pub access: Access,
    /// Address of the first byte.
    pub iova: u64,
    /// Length in bytes.
    pub len: u64,
}

/// What a check needs to know of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowView {
    /// The key that names the window now.
    pub key: Key,
    /// State.
    pub state: MrState,
    /// Protection domain.
    pub pd: PdId,
    /// The only queue pair that may use the window; for windows of type 2.
    pub qpn: Option<Qpn>,
    /// Rights.
    pub access: Access,
    /// Address, in the region the window is bound to, of the window's first byte.
    pub addr: u64,
    /// Length in bytes.
    pub len: u64,
}

/// An access to be checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessReq {
    /// Key that the request presents.
    pub key: Key,
    /// Protection domain of the queue pair.
    pub pd: PdId,
    /// Address of the first byte.
    pub va: u64,
    /// Length in bytes.
    pub len: u64,
    /// Rights that the access needs.
    pub access: Access,
}

/// Returns the offset of `va` from `start` if `len` bytes from there are within `total` bytes.
const fn offset_within(start: u64, total: u64, va: u64, len: u64) -> Result<u64, AccessFault> {
    // Neither end is computed as an address: a region may reach the end of the address space.
    let Some(offset) = va.checked_sub(start) else {
        return Err(AccessFault::Bounds);
    };
    match total.checked_sub(offset) {
        Some(left) if len <= left => Ok(offset),
        _ => Err(AccessFault::Bounds),
    }
}

/// Checks an access against a region and returns the offset of the access in the region.
///
/// # Errors
///
/// The first thing that is wrong, in the order key, state, protection domain, rights, bounds.
pub const fn check(region: &RegView, req: &AccessReq) -> Result<u64, AccessFault> {
    if region.key.get() != req.key.get() {
        return Err(AccessFault::Key);
    }
    if !matches!(region.state, MrState::Valid) {
        return Err(AccessFault::State);
    }
    if region.pd.0 != req.pd.0 {
        return Err(AccessFault::Pd);
    }
    if !region.access.contains(req.access) {
        return Err(AccessFault::Rights);
    }

    offset_within(region.iova, region.len, req.va, req.len)
}

/// Checks an access by queue pair `qpn` against a window and the region it is bound to.
///
/// Returns the offset of the access in the region. The range must be within the window and within
/// the region. The rights are the window's alone: they were compared with the region's when the
/// window was bound.
///
/// # Errors
///
/// The first thing that is wrong, in the order key, state, protection domain and queue pair,
/// rights, bounds.
pub const fn check_window(
    window: &WindowView,
    region: &RegView,
    qpn: Qpn,
    req: &AccessReq,
) -> Result<u64, AccessFault> {
    if window.key.get() != req.key.get() {
        return Err(AccessFault::Key);
    }
    if !matches!(window.state, MrState::Valid) || !matches!(region.state, MrState::Valid) {
        return Err(AccessFault::State);
    }
    if window.pd.0 != req.pd.0 || region.pd.0 != req.pd.0 {
        return Err(AccessFault::Pd);
    }
    if let Some(owner) = window.qpn {
        if owner.get() != qpn.get() {
            return Err(AccessFault::Pd);
        }
    }
    if !window.access.contains(req.access) {
        return Err(AccessFault::Rights);
    }

    // A zero-based window is addressed from its own first byte.
    let base = if window.access.contains(Access::ZERO_BASED) {
        0
    } else {
        window.addr
    };
    let in_window = match offset_within(base, window.len, req.va, req.len) {
        Ok(offset) => offset,
        Err(fault) => return Err(fault),
    };
    let Some(va) = window.addr.checked_add(in_window) else {
        return Err(AccessFault::Bounds);
    };

    offset_within(region.iova, region.len, va, req.len)
}
