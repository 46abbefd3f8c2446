// SPDX-License-Identifier: GPL-2.0

//! Work requests: what consumers post, in the form the engines work on.
//!
//! Kernel consumers' requests are put into this form by the driver, those of user processes by
//! [`super::wqe`].

#![forbid(unsafe_code)]

use super::num::{
    Key,
    Qpn, //
};
use super::qpstate::QpType;
use super::status::{
    WcOpcode,
    WcStatus, //
};
use super::wire::Imm;

// The parser of users' requests belongs to what it makes.
pub use super::wqe::*;

/// The length of the longest message.
pub const MAX_MESSAGE: u32 = 1 << 31;

/// The length of the operand of an atomic operation.
pub const ATOMIC_LEN: u32 = 8;

/// What a send work request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOp {
    /// SEND.
    Send,
    /// SEND with immediate.
    SendImm(Imm),
    /// SEND that invalidates a key of the receiver.
    SendInv(Key),
    /// RDMA WRITE.
    Write {
        /// Address in the remote region.
        va: u64,
        /// Remote key.
        key: Key,
    },
    /// RDMA WRITE with immediate.
    WriteImm {
        /// Address in the remote region.
        va: u64,
        /// Remote key.
        key: Key,
        /// Immediate value.
        imm: Imm,
    },
    /// RDMA READ.
    Read {
        /// Address in the remote region.
        va: u64,
        /// Remote key.
        key: Key,
    },
    /// Compare and swap of eight bytes.
    CompareSwap {
        /// Address in the remote region.
        va: u64,
        /// Remote key.
        key: Key,
        /// Value to compare with.
        compare: u64,
        /// Value to store if equal.
        swap: u64,
    },
    /// Addition to eight bytes.
    FetchAdd {
        /// Address in the remote region.
        va: u64,
        /// Remote key.
        key: Key,
        /// Value to add.
        add: u64,
    },
    /// Write of eight bytes in one access.
    AtomicWrite {
        /// Address in the remote region.
        va: u64,
        /// Remote key.
        key: Key,
    },
    /// FLUSH of a range or region.
    Flush {
        /// Address in the remote region.
        va: u64,
        /// Remote key.
        key: Key,
        /// Length of the range.
        len: u32,
        /// Selectivity level (`enum ib_flush_level`).
        level: u8,
        /// Placement type (`enum ib_flush_type`).
        placement: u8,
    },
    /// Fast registration of a memory region. No user request becomes this.
    RegMr {
        /// Key that the region gets.
        key: Key,
        /// Rights that the region gets.
        access: u32,
    },
    /// Invalidation of a local region or window.
    LocalInv(Key),
    /// Bind of a memory window.
    BindMw {
        /// Key of the window.
        mw: Key,
        /// Key of the region.
        mr: Key,
        /// New key of the window, of which the variant counts.
        new_key: Key,
        /// Address of the window in the region.
        addr: u64,
        /// Length of the window.
        len: u64,
        /// Rights that the window gets.
        access: u32,
    },
}

impl SendOp {
    /// Returns the opcode of the request's completion.
    pub const fn wc_opcode(self) -> WcOpcode {
        match self {
            Self::Send | Self::SendImm(_) | Self::SendInv(_) => WcOpcode::Send,
            Self::Write { .. } | Self::WriteImm { .. } => WcOpcode::RdmaWrite,
            Self::Read { .. } => WcOpcode::RdmaRead,
            Self::CompareSwap { .. } => WcOpcode::CompSwap,
            Self::FetchAdd { .. } => WcOpcode::FetchAdd,
            Self::AtomicWrite { .. } => WcOpcode::AtomicWrite,
            Self::Flush { .. } => WcOpcode::Flush,
            Self::RegMr { .. } => WcOpcode::RegMr,
            Self::LocalInv(_) => WcOpcode::LocalInv,
            Self::BindMw { .. } => WcOpcode::BindMw,
        }
    }

    /// Tells whether the request is executed without the network.
    pub const fn is_local(self) -> bool {
        matches!(
            self,
            Self::RegMr { .. } | Self::LocalInv(_) | Self::BindMw { .. }
        )
    }

    /// Tells whether the request takes one of the responder's resources for READs and atomics.
    pub const fn needs_rd_atomic(self) -> bool {
        matches!(
            self,
            Self::Read { .. }
                | Self::CompareSwap { .. }
                | Self::FetchAdd { .. }
                | Self::AtomicWrite { .. }
                | Self::Flush { .. }
        )
    }

    /// Tells whether the data of the request may be in the request itself.
    pub const fn may_inline(self) -> bool {
        matches!(
            self,
            Self::Send
                | Self::SendImm(_)
                | Self::SendInv(_)
                | Self::Write { .. }
                | Self::WriteImm { .. }
                | Self::AtomicWrite { .. }
        )
    }

    /// Tells whether the operation exists for queue pairs of a type.
    pub const fn allowed_on(self, qp_type: QpType) -> bool {
        match self {
            Self::Send | Self::SendImm(_) => true,
            Self::Write { .. } | Self::WriteImm { .. } | Self::BindMw { .. } => {
                matches!(qp_type, QpType::Rc | QpType::Uc)
            }
            Self::SendInv(_)
            | Self::Read { .. }
            | Self::CompareSwap { .. }
            | Self::FetchAdd { .. }
            | Self::AtomicWrite { .. }
            | Self::Flush { .. }
            | Self::RegMr { .. }
            | Self::LocalInv(_) => matches!(qp_type, QpType::Rc),
        }
    }

    /// Tells whether the local buffers are written, not read.
    #[cfg(not(MODULE))]
    pub const fn writes_local(self) -> bool {
        matches!(
            self,
            Self::Read { .. } | Self::CompareSwap { .. } | Self::FetchAdd { .. }
        )
    }
}

/// How a send work request is to be executed (`enum ib_send_flags`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendFlags {
    /// A successful completion is reported.
    pub signaled: bool,
    /// The receiver is to raise a solicited event.
    pub solicited: bool,
    /// The request waits for all earlier READs and atomics.
    pub fence: bool,
    /// The data is in the request itself.
    pub inline: bool,
}

/// Where a datagram goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdTarget {
    /// Destination queue pair.
    pub qpn: Qpn,
    /// Queue key.
    pub qkey: u32,
    /// Index of the partition key.
    pub pkey_index: u16,
    /// Number of the address handle, or zero if the request carries the address.
    pub ah_num: u32,
}

/// A send work request, checked.
///
/// The buffers and addresses of the request are kept by the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendWr {
    /// The consumer's name for the request.
    pub wr_id: u64,
    /// What is asked for.
    pub op: SendOp,
    /// How it is to be executed.
    pub flags: SendFlags,
    /// Length of the message in bytes: at most 2^31.
    pub length: u32,
    /// Number of local buffers.
    pub num_sge: u8,
    /// Destination, for datagram queue pairs.
    pub ud: UdTarget,
}

impl SendWr {
    /// A SEND of nothing, to fill unused places with.
    pub const EMPTY: Self = Self {
        wr_id: 0,
        op: SendOp::Send,
        flags: SendFlags {
            signaled: false,
            solicited: false,
            fence: false,
            inline: false,
        },
        length: 0,
        num_sge: 0,
        ud: UdTarget {
            qpn: Qpn::new(0),
            qkey: 0,
            pkey_index: 0,
            ah_num: 0,
        },
    };
}

/// A receive work request, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvWr {
    /// The consumer's name for the request.
    pub wr_id: u64,
    /// Number of buffers.
    pub num_sge: u8,
    /// Length of all buffers together: at most 2^32 - 1.
    pub length: u32,
}

/// A local buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sge {
    /// Address.
    pub addr: u64,
    /// Length in bytes.
    pub length: u32,
    /// Local key.
    pub lkey: Key,
}

/// What is wrong with a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BadWqeKind {
    /// The slot is too short for a request.
    Slot,
    /// The operation does not exist, or not for this type of queue pair or consumer.
    Opcode,
    /// There are more buffers than the queue pair allows.
    SgeCount,
    /// There is more inline data than the queue pair allows, or the operation cannot have any.
    Inline,
    /// The message is too long, or not as long as its operation needs.
    Length,
}

/// A work request that cannot be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadWqe {
    /// The consumer's name for the request, for its completion.
    pub wr_id: u64,
    /// What is wrong.
    pub kind: BadWqeKind,
}

impl BadWqe {
    /// Returns the status that the request completes with.
    pub const fn status(&self) -> WcStatus {
        match self.kind {
            BadWqeKind::Slot | BadWqeKind::Opcode | BadWqeKind::SgeCount | BadWqeKind::Inline => {
                WcStatus::LocQpOpErr
            }
            BadWqeKind::Length => WcStatus::LocLenErr,
        }
    }
}

/// What a send queue allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendLimits {
    /// Largest number of buffers.
    pub max_sge: u8,
    /// Largest length of inline data in bytes.
    pub max_inline: u32,
}
