// SPDX-License-Identifier: GPL-2.0

//! Outcomes: of work requests, of memory accesses, of queue pairs.

#![forbid(unsafe_code)]

use super::aeth::NakCode;

/// How a work request ended (`enum ib_wc_status`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
// All of them, whether or not they arise here.
#[allow(dead_code)]
pub enum WcStatus {
    /// It was executed.
    Success = 0,
    /// A local buffer is too short, or a message too long.
    LocLenErr = 1,
    /// The request is not consistent or cannot be executed on this queue pair.
    LocQpOpErr = 2,
    /// Not used by RoCE.
    LocEecOpErr = 3,
    /// A local buffer is not within a valid region with sufficient rights.
    LocProtErr = 4,
    /// The queue pair went to the error state before the request was executed.
    WrFlushErr = 5,
    /// A window could not be bound.
    MwBindErr = 6,
    /// A response was not what the request called for.
    BadRespErr = 7,
    /// A local buffer was refused while a message was received.
    LocAccessErr = 8,
    /// The responder found the request invalid.
    RemInvReqErr = 9,
    /// The responder refused access to its memory.
    RemAccessErr = 10,
    /// The responder could not execute the request.
    RemOpErr = 11,
    /// No acknowledgement after the last transport retry.
    RetryExcErr = 12,
    /// The responder was not ready after the last RNR retry.
    RnrRetryExcErr = 13,
    /// Not used by RoCE.
    LocRddViolErr = 14,
    /// Not used by RoCE.
    RemInvRdReqErr = 15,
    /// The responder aborted the operation.
    RemAbortErr = 16,
    /// Not used by RoCE.
    InvEecnErr = 17,
    /// Not used by RoCE.
    InvEecStateErr = 18,
    /// A fatal error of the device.
    FatalErr = 19,
    /// Not used by RoCE.
    RespTimeoutErr = 20,
    /// Any other error.
    GeneralErr = 21,
}

impl WcStatus {
    /// Returns the number that verbs use.
    pub const fn get(self) -> u32 {
        self as u32
    }

    /// Returns the status of a request that the responder refused with `code`.
    pub const fn from_nak(code: NakCode) -> Option<Self> {
        match code {
            // Not an end: the request is sent again.
            NakCode::PsnSequence => None,
            NakCode::InvalidRequest => Some(Self::RemInvReqErr),
            NakCode::RemoteAccess => Some(Self::RemAccessErr),
            NakCode::RemoteOperation => Some(Self::RemOpErr),
            NakCode::InvalidRd => Some(Self::RemInvRdReqErr),
        }
    }
}

/// What kind of request completed (`enum ib_wc_opcode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum WcOpcode {
    /// SEND, with or without immediate or invalidate.
    Send = 0,
    /// RDMA WRITE, with or without immediate.
    RdmaWrite = 1,
    /// RDMA READ.
    RdmaRead = 2,
    /// Compare and swap.
    CompSwap = 3,
    /// Fetch and add.
    FetchAdd = 4,
    /// Bind of a memory window.
    BindMw = 5,
    /// Local invalidate.
    LocalInv = 6,
    /// FLUSH.
    Flush = 8,
    /// ATOMIC WRITE.
    AtomicWrite = 9,
    /// Fast registration of a memory region; kernel only.
    RegMr = 10,
    /// Receive of a SEND.
    Recv = 128,
    /// Receive of the immediate of an RDMA WRITE.
    RecvRdmaWithImm = 129,
}

impl WcOpcode {
    /// Returns the number that kernel consumers use.
    pub const fn get(self) -> u32 {
        self as u32
    }
}

/// Why an access to memory was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessFault {
    /// No region or window has the key.
    Key,
    /// The region or window is in another protection domain.
    Pd,
    /// The region, the window or the queue pair does not grant the rights.
    Rights,
    /// The range is not within the region or window.
    Bounds,
    /// The region or window is not valid now.
    State,
    /// The memory itself could not be accessed.
    Memory,
    /// The address is not a multiple of the size of the operand.
    Alignment,
}

/// Why a queue pair must go to the error state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QpFault {
    /// Send side: a work request is not consistent, or a local operation failed.
    LocalOp,
    /// Send side: a local buffer was refused.
    LocalProtection,
    /// Send side: a message does not fit its buffers.
    LocalLength,
    /// Send side: the peer refused a request.
    Remote,
    /// Send side: the peer does not answer, or is never ready.
    RetryExceeded,
    /// Send side: the peer's response does not fit the request.
    BadResponse,
    /// Receive side: the peer's request is invalid.
    InvalidRequest,
    /// Receive side: the peer's request is refused access.
    RemoteAccess,
    /// Receive side: a posted receive buffer was refused, or is malformed.
    ReceiveBuffer,
    /// Receive side: the operation failed here.
    RemoteOperation,
    /// The completion queue has no room.
    CqOverflow,
}

/// Something that a queue pair's owner is told outside its completion queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QpEvent {
    /// The first request has arrived while the queue pair was ready to receive only.
    CommEst,
    /// The send queue has drained.
    SqDrained,
    /// The queue pair failed and no work request tells why.
    Fatal,
    /// A peer's request was invalid.
    ReqErr,
    /// A peer's request was refused access.
    AccessErr,
    /// The last receive of a shared receive queue that this queue pair took has completed.
    LastWqe,
}

/// The completion queue has no room for a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CqOverflow;
