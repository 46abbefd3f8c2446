// SPDX-License-Identifier: GPL-2.0

//! RDMA subsystem abstractions: what a driver that offers verbs needs.
//!
//! Upstream home: `rust/kernel/rdma.rs` and `rust/kernel/rdma/`.
//!
//! C headers: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h),
//! [`include/rdma/uverbs_ioctl.h`](srctree/include/rdma/uverbs_ioctl.h).
//!
//! # Who owns what
//!
//! The RDMA core allocates the C structure of every object (`ib_pd`, `ib_cq`, …), with as many
//! bytes behind it as the driver asks for, and frees it with `kfree()` as soon as the destroy verb
//! has returned 0. Each object module here has a `#[repr(C)]` `Shell<T>`: the C structure at offset
//! 0 and the driver's value `T` behind it. `T` is made by the create verb and dropped when the
//! destroy verb succeeds. A shell is only ever borrowed by the code of a verb; whatever has to
//! outlive a verb (receive path, workers, timers) belongs to a reference-counted body that `T`
//! holds.
//!
//! # The calling discipline of the core
//!
//! Every trampoline in this directory relies on these rules of the core, and says so by naming this
//! section:
//!
//! 1. create is called once per structure, with zeroed memory of the size the driver declared; its
//!    C fields (`device`, `pd`, …) are set before. If it fails, the structure is freed without a
//!    destroy.
//! 2. destroy is called after create succeeded, never at the same time as another verb on the same
//!    object, and nothing uses the object after a destroy that succeeded.
//! 3. All other verbs run in between. The `post_*`, `poll_cq` and `req_notify_cq` verbs may run in
//!    any context and at the same time as other verbs of the same object, except create and
//!    destroy.
//! 4. An object is destroyed before the objects it was made from (a QP before its PD and CQs,
//!    everything before the device), and all user objects before their context.
//! 5. `dealloc_driver` is called once, when no verb of any kind can run any more.

pub mod ah;
mod callback;
pub mod cq;
pub mod device;
pub mod event;
pub mod gid;
pub mod hw_stats;
pub mod link;
pub mod mad;
pub mod mmap;
pub mod mr;
pub mod mw;
mod ops;
pub mod pd;
pub mod port;
pub mod qp;
pub mod srq;
pub mod ucontext;
pub mod udata;
pub mod umem;
#[cfg(CONFIG_INFINIBAND_ON_DEMAND_PAGING)]
pub mod umem_odp;
#[cfg(not(CONFIG_INFINIBAND_ON_DEMAND_PAGING))]
#[path = "umem_no_odp.rs"]
pub mod umem_odp;
pub mod wc;
pub mod wr;

pub use self::{
    device::{
        Device,
        DeviceAttr,
        DeviceRef,
        Driver,
        DriverRegistration,
        UnregisteredDevice,
        WeakDevice, //
    },
    gid::{
        Gid,
        GidAttr, //
    },
    port::PortAttr,
    udata::UserData, //
};
