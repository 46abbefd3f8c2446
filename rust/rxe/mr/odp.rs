// SPDX-License-Identifier: GPL-2.0

//! Regions whose memory is not pinned: on-demand paging, explicit regions only.
//!
//! An access to such a region sleeps where a page has to be brought in. So it is not made under RCU, unlike those to other
//! regions ([`super::super::mem`]), and a region that ends waits for it.

#![forbid(unsafe_code)]

use super::{
    Kind,
    Memory,
    Mr, //
};
use crate::{
    abstractions::rdma::umem_odp::Want,
    proto::{
        memkey::{
            self,
            AccessReq, //
        },
        num::usize_from,
        status::AccessFault, //
    }, //
};
use kernel::prelude::*;

/// How much is brought in before a region that ends is let go, in bytes.
const PIECE: u32 = 1 << 17;

impl Mr {
    /// Tells whether accesses to the memory sleep.
    #[inline]
    pub fn is_on_demand(&self) -> bool {
        self.kind == Kind::OnDemand
    }

    /// Finds out whether the pages of an access can be asked for.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the region does not serve the request, or if its memory is pinned; `EPERM` if it does not grant the rights;
    /// `EFAULT` if the range is not in the region.
    pub fn check_prefetch(&self, req: &AccessReq) -> Result {
        if !self.is_on_demand() {
            return Err(EINVAL);
        }
        let live = self.enter().ok_or(EINVAL)?;
        match memkey::check(live.view(), req) {
            Ok(_) => Ok(()),
            Err(AccessFault::Rights) => Err(EPERM),
            Err(AccessFault::Bounds) => Err(EFAULT),
            Err(_) => Err(EINVAL),
        }
    }

    /// Brings in the pages of an access. Sleeps.
    ///
    /// # Errors
    ///
    /// As [`check_prefetch`](Self::check_prefetch), and why there is no such page. What comes before has been brought
    /// in.
    pub fn prefetch(&self, req: &AccessReq, len: u32, want: Want) -> Result {
        let mut done = 0u32;
        while done < len {
            let now = PIECE.min(len.saturating_sub(done));
            let live = self.enter().ok_or(EINVAL)?;
            let piece = AccessReq {
                va: req.va.wrapping_add(done.into()),
                len: now.into(),
                ..*req
            };
            let offset = memkey::check(live.view(), &piece).map_err(|_| EFAULT)?;
            let Memory::OnDemand(umem) = &live.memory else {
                return Err(EINVAL);
            };
            umem.prefetch(offset, usize_from(now), want)?;
            done = done.saturating_add(now);
        }
        Ok(())
    }
}
