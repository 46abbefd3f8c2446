// SPDX-License-Identifier: GPL-2.0

//! Address handles.
//!
//! A handle has a number by which user processes name it in their requests. Kernel consumers name
//! it by its C structure.

#![forbid(unsafe_code)]

use super::{
    device::RxeDev,
    param,
    pd::{
        self,
        Pd, //
    },
    verbs::Rxe, //
};
use crate::{
    abstractions::{
        rdma::{
            ah::{
                AhAttr,
                Context,
                Operations,
                Shell, //
            },
            gid::NetworkType,
            pd::Shell as PdShell,
            UserData, //
        },
        sync::RcuArc, //
    },
    proto::{
        num::PdId,
        uabi::{
            Av,
            CreateAhResp,
            NETWORK_TYPE_IPV4,
            NETWORK_TYPE_IPV6, //
        }, //
    }, //
};
use kernel::{
    prelude::*,
    sync::{
        new_spinlock_irq,
        Arc,
        SpinLockIrq, //
    }, //
};
use zerocopy::FromZeros;

/// An address handle.
#[pin_data]
pub struct Ah {
    dev: Arc<RxeDev>,
    pd: RcuArc<Pd>,
    number: u32,
    #[pin]
    attr: SpinLockIrq<AhAttr>,
}

impl Ah {
    /// The protection domain.
    pub(crate) fn pd_id(&self) -> PdId {
        self.pd.id()
    }

    /// Where the handle leads to, as requests of processes say it. Any context.
    pub(crate) fn av(&self) -> Av {
        let attr = self.attr.lock();
        let mut av = Av::new_zeroed();
        av.network_type = match attr.sgid.as_ref().map(|sgid| sgid.network_type()) {
            Some(NetworkType::Ipv4) => NETWORK_TYPE_IPV4,
            Some(NetworkType::Ipv6) => NETWORK_TYPE_IPV6,
            _ => 0,
        };
        av.dmac = attr.dmac;
        av.grh.dgid = attr.dgid.0;
        av.grh.flow_label = attr.flow_label.into();
        av.grh.sgid_index = attr.sgid_index;
        av.grh.hop_limit = attr.hop_limit;
        av.grh.traffic_class = attr.traffic_class;
        av
    }

    /// Where the handle leads to. Any context.
    pub(crate) fn attr(&self) -> AhAttr {
        self.attr.lock().clone()
    }
}

/// Checks that attributes lead somewhere: a path from an IPv4 or IPv6 address of the port.
///
/// # Errors
///
/// `EINVAL`.
pub(crate) fn check(attr: &AhAttr) -> Result {
    let sgid = attr.sgid.as_ref().ok_or(EINVAL)?;
    let routed = matches!(sgid.network_type(), NetworkType::Ipv4 | NetworkType::Ipv6);
    if attr.has_grh && attr.port == param::PORT && routed {
        Ok(())
    } else {
        Err(EINVAL)
    }
}

/// What the core's `ib_ah` owns.
pub struct Handle {
    body: RcuArc<Ah>,
}

impl Handle {
    /// The body.
    pub(crate) fn body(&self) -> &RcuArc<Ah> {
        &self.body
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.body.dev.ahs.remove(self.body.number);
        // The body may live a little longer, the entry of the GID table must not.
        let _sgid = self.body.attr.lock().sgid.take();
    }
}

#[vtable]
impl Operations for Handle {
    type Driver = Rxe;

    fn create(
        pd: &PdShell<pd::Handle>,
        attr: &AhAttr,
        context: Context,
        mut udata: Option<&mut UserData<'_>>,
    ) -> Result<Self> {
        if let Some(udata) = &mut udata {
            udata.no_input()?;
        }
        check(attr)?;
        let pd = pd.body();
        let dev = pd.dev();
        let reserved = dev.ahs.reserve(context.flags())?;
        let number = reserved.id();
        let body = RcuArc::pin_init(
            pin_init!(Ah {
                dev: dev.clone(),
                pd: pd.clone(),
                number,
                attr <- new_spinlock_irq!(attr.clone(), "rxe::Ah::attr"),
            }),
            context.flags(),
        )?;
        if let Some(udata) = udata {
            // Providers that know no numbers give no room for one and put the address in each
            // request.
            udata.respond(&CreateAhResp {
                ah_num: number.into(),
                reserved: 0.into(),
            })?;
        }
        reserved.publish(body.clone());
        Ok(Self { body })
    }

    fn modify(ah: &Shell<Self>, attr: &AhAttr) -> Result {
        check(attr)?;
        // The old attributes are dropped without the lock.
        let new = attr.clone();
        let _old = core::mem::replace(&mut *ah.body.attr.lock(), new);
        Ok(())
    }

    fn query(ah: &Shell<Self>) -> Result<AhAttr> {
        Ok(ah.body.attr())
    }
}
