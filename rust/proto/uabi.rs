// SPDX-License-Identifier: GPL-2.0

//! Memory that is shared with user space, byte by byte (`rdma_user_rxe.h`).
//!
//! Fields are in native byte order. The types have an alignment of one, so that they can be read
//! wherever a slot was copied to; their offsets and sizes are those of the C structures, which are
//! multiples of eight throughout. The build compares them with the kernel's header.

#![forbid(unsafe_code)]

use super::wire::Imm;
use zerocopy::native_endian::{
    U16,
    U32,
    U64, //
};
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned, //
};

/// The version of the interface.
pub const ABI_VERSION: u32 = 2;

/// Network type of an address: IPv4.
pub const NETWORK_TYPE_IPV4: u8 = 1;

/// Network type of an address: IPv6.
pub const NETWORK_TYPE_IPV6: u8 = 2;

/// Operations of send work requests (`enum ib_uverbs_wr_opcode`).
pub mod wr_opcode {
    /// RDMA WRITE.
    pub const RDMA_WRITE: u32 = 0;
    /// RDMA WRITE with immediate.
    pub const RDMA_WRITE_WITH_IMM: u32 = 1;
    /// SEND.
    pub const SEND: u32 = 2;
    /// SEND with immediate.
    pub const SEND_WITH_IMM: u32 = 3;
    /// RDMA READ.
    pub const RDMA_READ: u32 = 4;
    /// Compare and swap.
    pub const ATOMIC_CMP_AND_SWP: u32 = 5;
    /// Fetch and add.
    pub const ATOMIC_FETCH_AND_ADD: u32 = 6;
    /// Local invalidate.
    pub const LOCAL_INV: u32 = 7;
    /// Bind of a memory window.
    pub const BIND_MW: u32 = 8;
    /// SEND with invalidate.
    pub const SEND_WITH_INV: u32 = 9;
    /// FLUSH.
    pub const FLUSH: u32 = 14;
    /// ATOMIC WRITE.
    pub const ATOMIC_WRITE: u32 = 15;
}

/// Flags of send work requests (`enum ib_send_flags`).
pub mod send_flag {
    /// Wait for earlier READs and atomics.
    pub const FENCE: u32 = 1 << 0;
    /// Report successful completion.
    pub const SIGNALED: u32 = 1 << 1;
    /// Raise a solicited event at the receiver.
    pub const SOLICITED: u32 = 1 << 2;
    /// The data is in the request.
    pub const INLINE: u32 = 1 << 3;
}

/// Flags of completions (`enum ib_wc_flags`).
pub mod wc_flag {
    /// The first 40 bytes of the buffer are a global route header.
    pub const GRH: u32 = 1 << 0;
    /// There is an immediate value.
    pub const WITH_IMM: u32 = 1 << 1;
    /// A key was invalidated.
    pub const WITH_INVALIDATE: u32 = 1 << 2;
}

/// `struct rxe_global_route`.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct GlobalRoute {
    /// Destination GID.
    pub dgid: [u8; 16],
    /// Flow label.
    pub flow_label: U32,
    /// Index of the source GID.
    pub sgid_index: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Unused.
    pub pad: u8,
}

/// A `struct sockaddr_in` or `struct sockaddr_in6`.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SockAddr(pub [u8; 28]);

#[cfg(not(MODULE))]
impl SockAddr {
    /// Returns the address in a `struct sockaddr_in`.
    pub const fn ipv4(&self) -> [u8; 4] {
        let [_, _, _, _, a, b, c, d, ..] = self.0;
        [a, b, c, d]
    }

    /// Returns the address in a `struct sockaddr_in6`.
    pub fn ipv6(&self) -> [u8; 16] {
        let mut addr = [0; 16];
        for (to, from) in addr.iter_mut().zip(self.0.iter().skip(8)) {
            *to = *from;
        }
        addr
    }
}

/// `struct rxe_av`: an address vector.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Av {
    /// Port.
    pub port_num: u8,
    /// Network type.
    pub network_type: u8,
    /// Destination Ethernet address.
    pub dmac: [u8; 6],
    /// Route.
    pub grh: GlobalRoute,
    /// Source address.
    pub sgid_addr: SockAddr,
    /// Destination address.
    pub dgid_addr: SockAddr,
}

/// The operation-specific part of a request: RDMA.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RdmaWr {
    /// Address in the remote region.
    pub remote_addr: U64,
    /// Remote key.
    pub rkey: U32,
    /// Unused.
    pub reserved: U32,
}

/// The operation-specific part of a request: FLUSH.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct FlushWr {
    /// Address in the remote region.
    pub remote_addr: U64,
    /// Length of the range.
    pub length: U32,
    /// Remote key.
    pub rkey: U32,
    /// Placement type.
    pub placement: u8,
    /// Selectivity level.
    pub level: u8,
}

/// The operation-specific part of a request: atomics.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct AtomicWr {
    /// Address in the remote region.
    pub remote_addr: U64,
    /// Value to compare with or to add.
    pub compare_add: U64,
    /// Value to store.
    pub swap: U64,
    /// Remote key.
    pub rkey: U32,
    /// Unused.
    pub reserved: U32,
}

/// The operation-specific part of a request: datagrams.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct UdWr {
    /// Destination queue pair.
    pub remote_qpn: U32,
    /// Queue key.
    pub remote_qkey: U32,
    /// Index of the partition key.
    pub pkey_index: U16,
    /// Unused.
    pub reserved: U16,
    /// Number of the address handle, or zero if `av` counts.
    pub ah_num: U32,
    /// Unused.
    pub pad: [U32; 4],
    /// Address of the destination.
    pub av: Av,
}

/// The operation-specific part of a request: memory windows.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct MwWr {
    /// Address of the window.
    pub addr: U64,
    /// Length of the window.
    pub length: U64,
    /// Key of the region.
    pub mr_lkey: U32,
    /// Key of the window.
    pub mw_rkey: U32,
    /// New key of the window.
    pub rkey: U32,
    /// Rights.
    pub access: U32,
}

/// `struct rxe_send_wr`.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawSendWr {
    /// The consumer's name for the request.
    pub wr_id: U64,
    /// Unused.
    pub reserved: U32,
    /// Operation; see [`wr_opcode`].
    pub opcode: U32,
    /// Flags; see [`send_flag`].
    pub send_flags: U32,
    /// Immediate value in network order, or key to invalidate in native order.
    pub ex: [u8; 4],
    /// The part that depends on the operation.
    pub wr: [u8; size_of::<UdWr>()],
}

/// `struct rxe_sge`.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawSge {
    /// Address.
    pub addr: U64,
    /// Length in bytes.
    pub length: U32,
    /// Local key.
    pub lkey: U32,
}

/// `struct rxe_dma_info`, up to the data.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct DmaInfo {
    /// Length of the message as user space computed it.
    pub length: U32,
    /// Not read by this device.
    pub resid: U32,
    /// Not read by this device.
    pub cur_sge: U32,
    /// Number of buffers.
    pub num_sge: U32,
    /// Not read by this device.
    pub sge_offset: U32,
    /// Unused.
    pub reserved: U32,
}

/// `struct rxe_send_wqe`, up to the data.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SendWqe {
    /// The request.
    pub wr: RawSendWr,
    /// Not read by this device.
    pub status: U32,
    /// Not read by this device.
    pub state: U32,
    /// Not read by this device.
    pub iova: U64,
    /// Not read by this device.
    pub mask: U32,
    /// Not read by this device.
    pub first_psn: U32,
    /// Not read by this device.
    pub last_psn: U32,
    /// Not read by this device.
    pub ack_length: U32,
    /// Not read by this device.
    pub ssn: U32,
    /// Not read by this device.
    pub has_rd_atomic: U32,
    /// The buffers.
    pub dma: DmaInfo,
}

/// `struct rxe_recv_wqe`, up to the data.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RecvWqe {
    /// The consumer's name for the request.
    pub wr_id: U64,
    /// Unused.
    pub reserved: U32,
    /// Unused.
    pub padding: U32,
    /// The buffers.
    pub dma: DmaInfo,
}

/// `struct mminfo`: what user space passes to `mmap` to get at a ring.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct MmInfo {
    /// Offset.
    pub offset: U64,
    /// Size in bytes.
    pub size: U32,
    /// Unused.
    pub pad: U32,
}

/// `struct rxe_create_ah_resp`.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct CreateAhResp {
    /// Number of the address handle.
    pub ah_num: U32,
    /// Unused.
    pub reserved: U32,
}

/// `struct rxe_create_cq_resp`.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct CreateCqResp {
    /// The ring.
    pub mi: MmInfo,
}

/// `struct rxe_resize_cq_resp`.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ResizeCqResp {
    /// The new ring.
    pub mi: MmInfo,
}

/// `struct rxe_create_qp_resp`.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct CreateQpResp {
    /// The ring of the receive queue.
    pub rq_mi: MmInfo,
    /// The ring of the send queue.
    pub sq_mi: MmInfo,
}

/// `struct rxe_create_srq_resp`.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct CreateSrqResp {
    /// The ring.
    pub mi: MmInfo,
    /// Number of the shared receive queue.
    pub srq_num: U32,
    /// Unused.
    pub reserved: U32,
}

/// `struct rxe_modify_srq_cmd`.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ModifySrqCmd {
    /// Where user space wants the [`MmInfo`] of the new ring.
    pub mmap_info_addr: U64,
}

/// `struct rxe_queue_buf`, up to the data: what comes before the elements of a ring.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct QueueBuf {
    /// Binary logarithm of the size of an element; written for user space, never read back.
    pub log2_elem_size: U32,
    /// Number of slots less one; written for user space, never read back.
    pub index_mask: U32,
    /// Unused.
    pub pad_1: [U32; 30],
    /// Index of the next element to be added.
    pub producer_index: U32,
    /// Unused.
    pub pad_2: [U32; 31],
    /// Index of the next element to be taken.
    pub consumer_index: U32,
    /// Unused.
    pub pad_3: [U32; 31],
}

/// A completion as user space reads it (`struct ib_uverbs_wc`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct UserCqe {
    /// The consumer's name for the request.
    pub wr_id: U64,
    /// How it ended; see [`super::status::WcStatus`].
    pub status: U32,
    /// What it was; see [`super::status::WcOpcode`].
    pub opcode: U32,
    /// Always zero.
    pub vendor_err: U32,
    /// Number of bytes received.
    pub byte_len: U32,
    /// Immediate value in network order, or invalidated key in native order.
    pub ex: [u8; 4],
    /// Queue pair of the request.
    pub qp_num: U32,
    /// Queue pair that sent the datagram.
    pub src_qp: U32,
    /// Flags; see [`wc_flag`].
    pub wc_flags: U32,
    /// Index of the partition key.
    pub pkey_index: U16,
    /// Not used by RoCE.
    pub slid: U16,
    /// Not used by RoCE.
    pub sl: u8,
    /// Not used by RoCE.
    pub dlid_path_bits: u8,
    /// Port.
    pub port_num: u8,
    /// Unused.
    pub reserved: u8,
}

impl UserCqe {
    /// The size in bytes.
    pub const SIZE: usize = size_of::<Self>();

    /// A completion of which every field is zero.
    pub const fn zeroed() -> Self {
        zerocopy::transmute!([0u8; size_of::<UserCqe>()])
    }

    /// Returns the bytes of the completion.
    pub fn to_bytes(self) -> [u8; Self::SIZE] {
        zerocopy::transmute!(self)
    }
}

/// The offset of the producer index from the start of a ring's memory.
pub const PRODUCER_OFFSET: usize = core::mem::offset_of!(QueueBuf, producer_index);

/// The offset of the consumer index from the start of a ring's memory.
pub const CONSUMER_OFFSET: usize = core::mem::offset_of!(QueueBuf, consumer_index);

/// The offset of the first element from the start of a ring's memory.
pub const DATA_OFFSET: usize = size_of::<QueueBuf>();

/// The offset of the buffers, or of inline data, in a send request's slot.
pub const SEND_DATA_OFFSET: usize = size_of::<SendWqe>();

/// The offset of the buffers in a receive request's slot.
pub const RECV_DATA_OFFSET: usize = size_of::<RecvWqe>();

/// The size of a buffer's description.
pub const SGE_SIZE: usize = size_of::<RawSge>();

const _: () = {
    assert!(size_of::<Imm>() == 4);
    assert!(size_of::<GlobalRoute>() == 24);
    assert!(size_of::<Av>() == 88);
    assert!(size_of::<RdmaWr>() == 16);
    assert!(size_of::<FlushWr>() == 18);
    assert!(size_of::<AtomicWr>() == 32);
    assert!(size_of::<UdWr>() == 120);
    assert!(size_of::<MwWr>() == 32);
    assert!(size_of::<RawSendWr>() == 144);
    assert!(size_of::<RawSge>() == 16);
    assert!(size_of::<SendWqe>() == 208);
    assert!(size_of::<RecvWqe>() == 40);
    assert!(size_of::<MmInfo>() == 16);
    assert!(size_of::<CreateAhResp>() == 8);
    assert!(size_of::<CreateCqResp>() == 16);
    assert!(size_of::<ResizeCqResp>() == 16);
    assert!(size_of::<CreateQpResp>() == 32);
    assert!(size_of::<CreateSrqResp>() == 24);
    assert!(size_of::<ModifySrqCmd>() == 8);
    assert!(size_of::<UserCqe>() == 48);
    assert!(PRODUCER_OFFSET == 128);
    assert!(CONSUMER_OFFSET == 256);
    assert!(DATA_OFFSET == 384);
};
