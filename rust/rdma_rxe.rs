// SPDX-License-Identifier: GPL-2.0

//! Soft RoCE: RDMA over Converged Ethernet in software.

use kernel::prelude::*;

mod abstractions;

module! {
    type: RdmaRxe,
    name: "rdma_rxe",
    authors: ["The rdma_rxe authors"],
    description: "Software RDMA over Converged Ethernet",
    license: "Dual BSD/GPL",
    alias: ["rdma-link-rxe"],
}

pub struct RdmaRxe;

impl kernel::Module for RdmaRxe {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}
