// SPDX-License-Identifier: GPL-2.0

//! The keys of a device: which region or window a key names.
//!
//! Regions and windows have indices from disjoint ranges, so a key tells what it names.

#![forbid(unsafe_code)]

use super::{
    mr::Mr,
    mw::Mw, //
};
use crate::{
    abstractions::sync::{
        IdTable,
        RcuArc, //
    },
    proto::{
        bind::BindReq,
        num::{
            Key,
            PdId,
            Qpn, //
        },
        status::AccessFault, //
    },
};
use kernel::{
    prelude::*,
    sync::rcu, //
};

/// The lowest and the highest index of a region.
pub const REGIONS: (u32, u32) = (1, 1 << 19);

/// The lowest and the highest index of a window.
pub const WINDOWS: (u32, u32) = ((1 << 19) + 1, 1 << 20);

/// The regions and windows of a device.
#[pin_data]
pub struct Keys {
    /// The regions, by index.
    #[pin]
    pub regions: IdTable<Mr>,
    /// The windows, by index.
    #[pin]
    pub windows: IdTable<Mw>,
}

impl Keys {
    /// Makes empty tables.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            regions <- IdTable::new(REGIONS.0, REGIONS.1),
            windows <- IdTable::new(WINDOWS.0, WINDOWS.1),
        })
    }

    /// Tells whether a key, if it is one, is that of a window.
    #[inline]
    pub fn is_window(key: Key) -> bool {
        key.index() >= WINDOWS.0
    }

    /// Finds a region by index. Whether the key is right must be checked.
    pub fn region(&self, key: Key) -> Option<RcuArc<Mr>> {
        self.regions.get(key.index(), &rcu::read_lock())?.upgrade()
    }

    /// Finds a window by index. Whether the key is right must be checked.
    pub fn window(&self, key: Key) -> Option<RcuArc<Mw>> {
        self.windows.get(key.index(), &rcu::read_lock())?.upgrade()
    }

    /// Executes LOCAL_INV, or the invalidation that a peer asked for, on behalf of queue pair `qpn` in
    /// protection domain `pd`. May sleep.
    ///
    /// When it returns, accesses with the key are refused and those under way have finished.
    ///
    /// # Errors
    ///
    /// Why the key stays valid.
    pub fn invalidate(&self, pd: PdId, qpn: Qpn, key: Key) -> Result<(), AccessFault> {
        if Self::is_window(key) {
            let window = self.window(key).ok_or(AccessFault::Key)?;
            window.invalidate(pd, qpn, key)
        } else {
            let region = self.region(key).ok_or(AccessFault::Key)?;
            region.invalidate(pd, key)
        }
    }

    /// Executes BIND_MW. May sleep.
    ///
    /// # Errors
    ///
    /// Why the window that `req` names stays as it is.
    pub fn bind(&self, region_key: Key, req: &BindReq) -> Result<(), AccessFault> {
        let window = self.window(req.key).ok_or(AccessFault::Key)?;
        window.bind(self, region_key, req)
    }
}
