// SPDX-License-Identifier: GPL-2.0

//! The verbs of memory regions and windows.
//!
//! The core's object holds the primary reference to the body, which the table of keys names. It owns
//! the end of the body as well: dropping it takes the body out of the table, waits for accesses that are
//! under way and frees the memory, all of which needs process context.

#![forbid(unsafe_code)]

use super::{
    device::RxeDev,
    mr::{
        FastReg,
        Mr, //
    },
    mw::Mw,
    pd,
    verbs::Rxe, //
};
use crate::{
    abstractions::{
        mm::direct::AllMemory,
        rdma::{
            self,
            mr::{
                Advice,
                Rereg,
                ScatterMap, //
            },
            mw::Kind,
            umem::UserMemory,
            umem_odp::Want,
            wr::Sge,
            UserData, //
        },
        sync::RcuArc, //
    },
    proto::{
        bind::WindowType,
        memkey::{
            Access,
            AccessReq, //
        },
        num::Key, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

type Pd = rdma::pd::Shell<pd::Handle>;

/// The driver's part of an `ib_mr`.
pub struct Region {
    dev: Arc<RxeDev>,
    body: RcuArc<Mr>,
}

impl Region {
    /// Makes the body with `make`, which is given the index, and publishes it.
    fn new<I: PinInit<Mr>>(pd: &Pd, make: impl FnOnce(u32) -> Result<I>) -> Result<Self> {
        let dev = pd.body().dev().clone();
        let index = dev.keys.regions.reserve(GFP_KERNEL)?;
        let body = RcuArc::pin_init(make(index.id())?, GFP_KERNEL)?;
        index.publish(body.clone());
        Ok(Self { dev, body })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        drop(self.dev.keys.regions.remove(self.body.index()));
        self.body.free();
    }
}

impl rdma::mr::Operations for Region {
    type Pd = Pd;

    fn dma(pd: &Pd, memory: AllMemory, access: u32) -> Result<Self> {
        Self::new(pd, |index| {
            let access = Access::from_bits(access);
            Ok(Mr::dma(index, pd.body().id(), access, memory))
        })
    }

    fn user(pd: &Pd, memory: UserMemory<'_>, iova: u64, access: u32) -> Result<Self> {
        Self::new(pd, |index| {
            let access = Access::from_bits(access);
            Mr::user(index, pd.body().id(), access, &memory, iova)
        })
    }

    fn fast(pd: &Pd, max_sg: u32) -> Result<Self> {
        Self::new(pd, |index| Mr::fast(index, pd.body().id(), max_sg))
    }

    fn rereg(&self, change: Rereg<'_, Pd>) -> Result {
        let pd = change.pd.map(|pd| pd.body().id());
        let access = change.access.map(Access::from_bits);
        self.body.reregister(change.memory, pd, access)
    }

    fn advise(pd: &Pd, advice: Advice, wait: bool, list: &[Sge]) -> Result {
        let dev = pd.body().dev();
        let (access, want) = match advice {
            Advice::Prefetch => (Access::NONE, Want::Read),
            Advice::PrefetchWrite => (Access::LOCAL_WRITE, Want::Write),
            Advice::PrefetchNoFault => (Access::NONE, Want::Present),
        };
        let mut ranges = KVVec::with_capacity(list.len(), GFP_KERNEL_ACCOUNT)?;
        for sge in list {
            let key = Key::new(sge.lkey());
            let req = AccessReq {
                key,
                pd: pd.body().id(),
                va: sge.addr(),
                len: sge.length().into(),
                access,
            };
            let region = dev.keys.region(key).ok_or(EINVAL)?;
            region.check_prefetch(&req)?;
            ranges
                .push_within_capacity((region, req, sge.length()))
                .map_err(|_| ENOMEM)?;
        }
        let run = move || -> Result {
            for (region, req, len) in &ranges {
                region.prefetch(req, *len, want)?;
            }
            Ok(())
        };
        if wait {
            return run();
        }
        // The regions may end meanwhile; then there is nothing to do. Nobody asks for the result.
        dev.workers().try_spawn(GFP_KERNEL_ACCOUNT, move || {
            let _ = run();
        })?;
        Ok(())
    }

    fn map_sg(&self, map: ScatterMap<'_>) -> Result<usize> {
        self.body.map(map)
    }

    fn dereg(&self) -> Result {
        self.body.end()
    }

    fn key(&self) -> u32 {
        self.body.key().get()
    }
}

impl FastReg {
    /// Takes what the post of a REG_MR request for `mr` refers to. Any context.
    pub fn capture(mr: &rdma::mr::Shell<Region>) -> Self {
        Self::new(mr.body().body.clone(), mr.iova())
    }
}

/// The driver's part of an `ib_mw`.
pub struct Window {
    dev: Arc<RxeDev>,
    body: RcuArc<Mw>,
}

impl Drop for Window {
    fn drop(&mut self) {
        drop(self.dev.keys.windows.remove(self.body.index()));
        self.body.end();
    }
}

#[vtable]
impl rdma::mw::Operations for Window {
    type Driver = Rxe;

    fn alloc(pd: &Pd, kind: Kind, _udata: Option<&mut UserData<'_>>) -> Result<(Self, u32)> {
        let kind = match kind {
            Kind::Type1 => WindowType::One,
            Kind::Type2 => WindowType::Two,
        };
        let dev = pd.body().dev().clone();
        let index = dev.keys.windows.reserve(GFP_KERNEL)?;
        let body = RcuArc::pin_init(Mw::new(index.id(), pd.body().id(), kind), GFP_KERNEL)?;
        let key = body.key().get();
        index.publish(body.clone());
        Ok((Self { dev, body }, key))
    }
}
