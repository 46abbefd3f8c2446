// SPDX-License-Identifier: GPL-2.0

//! Limits and defaults. What the stock driver announces is announced here too, where it is true.

#![forbid(unsafe_code)]

use super::keys;
use crate::{
    abstractions::rdma::{
        port::{
            device_cap,
            kernel_cap,
            odp_cap, //
        },
        umem_odp, //
    },
    proto::num::Mtu, //
};

/// The only port.
pub(crate) const PORT: u32 = 1;

/// The only partition key: the default one, with full membership.
pub(crate) const PKEY: u16 = 0xffff;

/// Bytes that the headers of a packet need at most: Ethernet payload without RDMA payload.
pub(crate) const MAX_HEADERS: u32 = 80;

/// The largest MTU.
pub(crate) const MAX_MTU: Mtu = Mtu::B4096;

/// Vendor: none (IBA A3.3.1).
pub(crate) const VENDOR_ID: u32 = 0x00ff_ffff;

/// Protection domains.
pub(crate) const MAX_PD: u32 = 1 << 20;

/// User contexts.
pub(crate) const MAX_UCONTEXT: u32 = 1 << 20;

/// Address handles.
pub(crate) const MAX_AH: u32 = (1 << 15) - 1;

/// Completion queues.
pub(crate) const MAX_CQ: u32 = 1 << 20;

/// Entries of a completion queue. Programs size them by their peers: libfabric takes 262144 unless it is told
/// otherwise, eight times what the C driver has. Not more than can be copied with interrupts off, which a resize does.
pub(crate) const MAX_CQE: u32 = (1 << 19) - 1;

/// The lowest and the highest number of a queue pair other than QP 1.
pub(crate) const QPNS: (u32, u32) = (16, 1 << 20);

/// Queue pairs.
pub(crate) const MAX_QP: u32 = QPNS.1 - QPNS.0;

/// Requests of one queue of a queue pair.
pub(crate) const MAX_QP_WR: u32 = 1 << 20;

/// Buffers of a request.
pub(crate) const MAX_SGE: u32 = 32;

/// READ and atomic requests of one queue pair at the same time, in each direction.
pub(crate) const MAX_QP_RD_ATOM: u32 = 128;

/// READ and atomic requests that the device answers at the same time.
pub(crate) const MAX_RES_RD_ATOM: u32 = 0x3f000;

/// The lowest and the highest number of a shared receive queue.
pub(crate) const SRQNS: (u32, u32) = (0x20001, 1 << 20);

/// Shared receive queues.
pub(crate) const MAX_SRQ: u32 = SRQNS.1 - SRQNS.0;

/// Requests of a shared receive queue.
pub(crate) const MAX_SRQ_WR: u32 = 1 << 20;

/// Buffers of a request of a shared receive queue.
pub(crate) const MAX_SRQ_SGE: u32 = 27;

/// Pages of a fast registration.
pub(crate) const MAX_FAST_REG_PAGES: u32 = 512;

/// Memory regions.
pub(crate) const MAX_MR: u32 = keys::REGIONS.1 - keys::REGIONS.0;

/// Memory windows.
pub(crate) const MAX_MW: u32 = keys::WINDOWS.1 - keys::WINDOWS.0;

/// Entries of the GID table.
pub(crate) const GID_TABLE_LEN: u32 = 1024;

/// The longest message.
pub(crate) const MAX_MESSAGE: u32 = 1 << 31;

/// What the device can do.
pub(crate) const DEVICE_CAPS: u64 = device_cap::BAD_PKEY_CNTR
    | device_cap::BAD_QKEY_CNTR
    | device_cap::CHANGE_PHY_PORT
    | device_cap::UD_AV_PORT_ENFORCE
    | device_cap::PORT_ACTIVE_EVENT
    | device_cap::SYS_IMAGE_GUID
    | device_cap::RC_RNR_NAK_GEN
    | device_cap::SRQ_RESIZE
    | device_cap::MEM_MGT_EXTENSIONS
    | device_cap::MEM_WINDOW
    | device_cap::MEM_WINDOW_TYPE_2B
    | device_cap::FLUSH_GLOBAL
    | device_cap::FLUSH_PERSISTENT
    | device_cap::ATOMIC_WRITE;

/// What the port has at first: `IB_PORT_CM_SUP`, connection management.
pub(crate) const PORT_CAPS: u32 = 1 << 16;

/// What the device can do for the kernel.
pub(crate) const KERNEL_CAPS: u64 = if umem_odp::SUPPORTED {
    kernel_cap::ALLOW_USER_UNREG | kernel_cap::ON_DEMAND_PAGING
} else {
    kernel_cap::ALLOW_USER_UNREG
};

/// On-demand paging: that it is there, for explicit regions.
pub(crate) const ODP: u64 = if umem_odp::SUPPORTED {
    odp_cap::SUPPORT
} else {
    0
};

/// What RC queue pairs may use it for: all that they do.
pub(crate) const ODP_RC: u32 = if umem_odp::SUPPORTED {
    odp_cap::SEND
        | odp_cap::RECV
        | odp_cap::WRITE
        | odp_cap::READ
        | odp_cap::ATOMIC
        | odp_cap::SRQ_RECV
        | odp_cap::FLUSH
        | odp_cap::ATOMIC_WRITE
} else {
    0
};

/// What UD queue pairs may use it for.
pub(crate) const ODP_UD: u32 = if umem_odp::SUPPORTED {
    odp_cap::SEND | odp_cap::RECV | odp_cap::SRQ_RECV
} else {
    0
};

/// Page sizes of memory regions, one bit each.
pub(crate) const PAGE_SIZE_CAP: u64 = 0xffff_f000;

/// Entries of the partition key table.
pub(crate) const PKEY_TABLE_LEN: u16 = 1;

/// How long an acknowledge may be delayed here (code: 4.096 µs × 2^n).
pub(crate) const LOCAL_ACK_DELAY: u8 = 15;

/// Multicast groups.
pub(crate) const MAX_MCAST_GRP: u32 = 8192;

/// Queue pairs of one multicast group.
pub(crate) const MAX_MCAST_QP_ATTACH: u32 = 56;

/// Queue pairs of all multicast groups.
pub(crate) const MAX_TOTAL_MCAST_QP_ATTACH: u32 = 0x70000;

/// Bytes that a send request may carry inline: as many as the largest list of buffers takes.
pub(crate) const MAX_INLINE: u32 = MAX_SGE * 16;
