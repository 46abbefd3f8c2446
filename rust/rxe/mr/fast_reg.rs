// SPDX-License-Identifier: GPL-2.0

//! Requests to register a region, between their post and their execution.

#![forbid(unsafe_code)]

use super::Mr;
use crate::{
    abstractions::sync::RcuArc,
    proto::{
        memkey::Access,
        num::{
            Key,
            PdId, //
        },
        status::AccessFault, //
    }, //
};

/// A REG_MR request between its post and its execution. It is for the pages that were mapped last when
/// it was posted, and for the address that the consumer chose by then.
pub struct FastReg {
    region: RcuArc<Mr>,
    mapping: u64,
    iova: u64,
}

impl FastReg {
    /// Takes what the post of a request for `region` refers to. Any context.
    pub fn new(region: RcuArc<Mr>, iova: u64) -> Self {
        let mut control = region.control.lock();
        let mapping = control.mapped;
        if let Some(label) = control.label(mapping) {
            label.posted = label.posted.saturating_add(1);
        }
        drop(control);
        Self {
            region,
            mapping,
            iova,
        }
    }

    /// Executes the request for a queue pair of protection domain `pd`. Any context.
    ///
    /// # Errors
    ///
    /// Why the region stays free. The request completes with `LOC_QP_OP_ERR`.
    pub fn register(&self, pd: PdId, key: Key, access: Access) -> Result<(), AccessFault> {
        self.region
            .register(pd, key, access, self.mapping, self.iova)
    }
}

impl Drop for FastReg {
    fn drop(&mut self) {
        let mut control = self.region.control.lock();
        if let Some(label) = control.label(self.mapping) {
            label.posted = label.posted.saturating_sub(1);
        }
    }
}
