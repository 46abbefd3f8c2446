// SPDX-License-Identifier: GPL-2.0

//! The headers of a RoCEv2 packet as they are on the wire, from the base transport header on.
//!
//! Only [`super::packet`] reads and writes them. Fields are in network order and at any alignment.

#![forbid(unsafe_code)]

use zerocopy::network_endian::{
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

/// The length of the invariant CRC at the end of a packet.
pub const ICRC_LEN: usize = 4;

/// The length of the base transport header.
pub const BTH_LEN: usize = 12;

/// The length of a global route header, which precedes the payload in a datagram's receive buffer.
pub const GRH_LEN: u32 = 40;

/// The default partition key, with full membership.
pub const DEFAULT_PKEY: u16 = 0xffff;

/// The queue key of the general services queue pair.
pub const GSI_QKEY: u32 = 0x8001_0000;

/// An immediate value: four bytes that are passed on in the order they came in.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned,
)]
#[repr(transparent)]
pub struct Imm(pub [u8; 4]);

/// Base transport header.
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Bth {
    /// Opcode.
    pub opcode: u8,
    /// Solicited event, migration state, pad count and header version.
    pub flags: u8,
    /// Partition key.
    pub pkey: U16,
    /// FECN, BECN, six reserved bits and the destination queue pair.
    pub qpn: U32,
    /// Acknowledge request, seven reserved bits and the sequence number.
    pub apsn: U32,
}

impl Bth {
    /// Flag: the responder should raise a solicited event.
    pub const SOLICITED: u8 = 0x80;
    /// Flag: the connection has migrated.
    pub const MIG_REQ: u8 = 0x40;
    /// Flags: number of pad bytes after the payload.
    pub const PAD: u8 = 0x30;
    /// Position of the pad count.
    pub const PAD_SHIFT: u32 = 4;
    /// Flags: version of the transport headers; must be zero.
    pub const TVER: u8 = 0x0f;
    /// In `qpn`: forward congestion notification.
    pub const FECN: u32 = 0x8000_0000;
    /// In `qpn`: backward congestion notification.
    pub const BECN: u32 = 0x4000_0000;
    /// In `apsn`: the responder shall acknowledge.
    pub const ACK_REQ: u32 = 0x8000_0000;
}

/// RDMA extended transport header.
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RethHdr {
    /// Address in the remote region.
    pub va: U64,
    /// Remote key.
    pub rkey: U32,
    /// Length of the message.
    pub len: U32,
}

/// Acknowledge extended transport header.
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct AethHdr {
    /// Syndrome in the top byte, message sequence number below.
    pub smsn: U32,
}

/// Atomic extended transport header.
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct AtomicEthHdr {
    /// Address in the remote region.
    pub va: U64,
    /// Remote key.
    pub rkey: U32,
    /// Value to store or to add.
    pub swap_add: U64,
    /// Value to compare with.
    pub compare: U64,
}

/// Atomic acknowledge extended transport header.
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct AtomicAckEthHdr {
    /// Value before the operation.
    pub orig: U64,
}

/// Datagram extended transport header.
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct DethHdr {
    /// Queue key.
    pub qkey: U32,
    /// Eight reserved bits and the source queue pair.
    pub src_qpn: U32,
}

/// Invalidate extended transport header.
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct IethHdr {
    /// Key to invalidate.
    pub rkey: U32,
}

/// FLUSH extended transport header.
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct FethHdr {
    /// Placement type in bits 3..0, selectivity level in bits 5..4.
    pub bits: U32,
}

impl FethHdr {
    /// In `bits`: placement type.
    pub const PLACEMENT: u32 = 0x0f;
    /// In `bits`: selectivity level.
    pub const LEVEL: u32 = 0x30;
    /// Position of the selectivity level.
    pub const LEVEL_SHIFT: u32 = 4;
}

const _: () = {
    assert!(size_of::<Bth>() == BTH_LEN);
    assert!(size_of::<RethHdr>() == 16);
    assert!(size_of::<AethHdr>() == 4);
    assert!(size_of::<AtomicEthHdr>() == 28);
    assert!(size_of::<AtomicAckEthHdr>() == 8);
    assert!(size_of::<DethHdr>() == 8);
    assert!(size_of::<IethHdr>() == 4);
    assert!(size_of::<FethHdr>() == 4);
    assert!(size_of::<Imm>() == 4);
};
