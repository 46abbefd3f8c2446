// SPDX-License-Identifier: GPL-2.0

//! Asynchronous events.
//!
//! Those of an object are raised through the handler that its create verb got
//! ([`super::cq::Handler`], [`super::qp::Handler`], [`super::srq::Handler`]); those of a port
//! through [`super::DeviceRef::port_event`].
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::abstractions::bindings;

/// What can happen to a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpEvent {
    /// The first request arrived while the QP was in RTR.
    CommEstablished,
    /// The send queue has drained after a move to SQD.
    SqDrained,
    /// The QP cannot go on; it is in the error state.
    Fatal,
    /// The peer sent an invalid request that belongs to no receive request.
    RequestError,
    /// The peer tried an access that it has no right to.
    AccessError,
    /// No receive request of the shared receive queue will complete any more.
    LastWqeReached,
}

impl QpEvent {
    pub(super) fn as_raw(self) -> bindings::ib_event_type {
        match self {
            Self::CommEstablished => bindings::ib_event_type_IB_EVENT_COMM_EST,
            Self::SqDrained => bindings::ib_event_type_IB_EVENT_SQ_DRAINED,
            Self::Fatal => bindings::ib_event_type_IB_EVENT_QP_FATAL,
            Self::RequestError => bindings::ib_event_type_IB_EVENT_QP_REQ_ERR,
            Self::AccessError => bindings::ib_event_type_IB_EVENT_QP_ACCESS_ERR,
            Self::LastWqeReached => bindings::ib_event_type_IB_EVENT_QP_LAST_WQE_REACHED,
        }
    }
}

/// An event of `device` whose element has still to be filled in.
pub(super) fn raw(
    device: *mut bindings::ib_device,
    event: bindings::ib_event_type,
) -> bindings::ib_event {
    bindings::ib_event {
        device,
        event,
        ..Default::default()
    }
}
