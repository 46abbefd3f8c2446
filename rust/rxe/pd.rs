// SPDX-License-Identifier: GPL-2.0

//! Protection domains.

#![forbid(unsafe_code)]

use super::{
    device::RxeDev,
    verbs::Rxe, //
};
use crate::{
    abstractions::{
        rdma::{
            pd::Operations,
            Device,
            UserData, //
        },
        sync::RcuArc, //
    },
    proto::num::PdId, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A protection domain.
pub struct Pd {
    dev: Arc<RxeDev>,
    id: PdId,
}

impl Pd {
    /// The device.
    pub(crate) fn dev(&self) -> &Arc<RxeDev> {
        &self.dev
    }

    /// The number, which no other protection domain of the device has.
    pub(crate) fn id(&self) -> PdId {
        self.id
    }
}

/// What the core's `ib_pd` owns.
pub struct Handle {
    body: RcuArc<Pd>,
}

impl Handle {
    /// The body.
    pub(crate) fn body(&self) -> &RcuArc<Pd> {
        &self.body
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.body.dev.pds.remove(self.body.id.0);
    }
}

#[vtable]
impl Operations for Handle {
    type Driver = Rxe;

    fn alloc(device: &Device<Rxe>, mut udata: Option<&mut UserData<'_>>) -> Result<Self> {
        if let Some(udata) = &mut udata {
            udata.no_input()?;
        }
        let dev: &Arc<RxeDev> = device;
        let id = dev.pds.reserve(GFP_KERNEL)?;
        let body = RcuArc::new(
            Pd {
                dev: dev.clone(),
                id: PdId(id.id()),
            },
            GFP_KERNEL,
        )?;
        id.publish(body.clone());
        Ok(Self { body })
    }
}
