// SPDX-License-Identifier: GPL-2.0

//! Attributes of queue pairs.

use crate::abstractions::{
    bindings,
    rdma::ah::AhAttr, //
};
use kernel::prelude::*;

/// The transport service of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// The general services interface, QP 1: datagrams of the management agents.
    Gsi,
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// A type that this abstraction has no name for.
    Other,
}

impl Type {
    pub(super) fn from_raw(raw: bindings::ib_qp_type) -> Self {
        match raw {
            bindings::ib_qp_type_IB_QPT_GSI => Self::Gsi,
            bindings::ib_qp_type_IB_QPT_RC => Self::Rc,
            bindings::ib_qp_type_IB_QPT_UC => Self::Uc,
            bindings::ib_qp_type_IB_QPT_UD => Self::Ud,
            _ => Self::Other,
        }
    }
}

/// The state of a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// Nothing can be posted.
    #[default]
    Reset = bindings::ib_qp_state_IB_QPS_RESET,
    /// Receive requests can be posted; packets are dropped.
    Init = bindings::ib_qp_state_IB_QPS_INIT,
    /// Packets are received.
    Rtr = bindings::ib_qp_state_IB_QPS_RTR,
    /// Packets are received and sent.
    Rts = bindings::ib_qp_state_IB_QPS_RTS,
    /// The send queue is draining or drained.
    Sqd = bindings::ib_qp_state_IB_QPS_SQD,
    /// The send queue has failed; packets are received.
    Sqe = bindings::ib_qp_state_IB_QPS_SQE,
    /// Everything is flushed.
    Err = bindings::ib_qp_state_IB_QPS_ERR,
}

impl State {
    pub(super) fn from_raw(raw: bindings::ib_qp_state) -> Option<Self> {
        Some(match raw {
            bindings::ib_qp_state_IB_QPS_RESET => Self::Reset,
            bindings::ib_qp_state_IB_QPS_INIT => Self::Init,
            bindings::ib_qp_state_IB_QPS_RTR => Self::Rtr,
            bindings::ib_qp_state_IB_QPS_RTS => Self::Rts,
            bindings::ib_qp_state_IB_QPS_SQD => Self::Sqd,
            bindings::ib_qp_state_IB_QPS_SQE => Self::Sqe,
            bindings::ib_qp_state_IB_QPS_ERR => Self::Err,
            _ => return None,
        })
    }
}

/// The sizes of the queues of a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cap {
    /// Send requests that must fit at the same time.
    pub max_send_wr: u32,
    /// Receive requests that must fit at the same time.
    pub max_recv_wr: u32,
    /// Gather entries of a send request.
    pub max_send_sge: u32,
    /// Scatter entries of a receive request.
    pub max_recv_sge: u32,
    /// Bytes that a send request may carry inline.
    pub max_inline_data: u32,
}

impl Cap {
    pub(super) fn from_raw(raw: &bindings::ib_qp_cap) -> Self {
        Self {
            max_send_wr: raw.max_send_wr,
            max_recv_wr: raw.max_recv_wr,
            max_send_sge: raw.max_send_sge,
            max_recv_sge: raw.max_recv_sge,
            max_inline_data: raw.max_inline_data,
        }
    }

    pub(super) fn write_raw(&self, raw: &mut bindings::ib_qp_cap) {
        raw.max_send_wr = self.max_send_wr;
        raw.max_recv_wr = self.max_recv_wr;
        raw.max_send_sge = self.max_send_sge;
        raw.max_recv_sge = self.max_recv_sge;
        raw.max_inline_data = self.max_inline_data;
    }
}

/// What was asked for when a queue pair is made.
#[derive(Clone, Copy, Debug)]
pub struct InitAttr {
    /// The transport service.
    pub qp_type: Type,
    /// The sizes of the queues. The create verb writes the granted ones back.
    pub cap: Cap,
    /// Whether every send request completes with a work completion, whatever its flags say.
    pub signal_all: bool,
    /// Creation flags (`enum ib_qp_create_flags`).
    pub create_flags: u32,
    /// The port, for a GSI queue pair.
    pub port: u32,
}

/// Which attributes a modify or query verb is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttrMask(pub(super) u32);

macro_rules! attr_mask {
    ($($(#[$meta:meta])* $name:ident = $raw:ident;)*) => {
        impl AttrMask {
            $($(#[$meta])* pub const $name: Self = Self(bindings::$raw);)*
        }
    };
}

attr_mask! {
    /// [`Attr::state`].
    STATE = ib_qp_attr_mask_IB_QP_STATE;
    /// [`Attr::cur_state`].
    CUR_STATE = ib_qp_attr_mask_IB_QP_CUR_STATE;
    /// [`Attr::sqd_async_notify`].
    EN_SQD_ASYNC_NOTIFY = ib_qp_attr_mask_IB_QP_EN_SQD_ASYNC_NOTIFY;
    /// [`Attr::access`].
    ACCESS_FLAGS = ib_qp_attr_mask_IB_QP_ACCESS_FLAGS;
    /// [`Attr::pkey_index`].
    PKEY_INDEX = ib_qp_attr_mask_IB_QP_PKEY_INDEX;
    /// [`Attr::port`].
    PORT = ib_qp_attr_mask_IB_QP_PORT;
    /// [`Attr::qkey`].
    QKEY = ib_qp_attr_mask_IB_QP_QKEY;
    /// [`Attr::ah`].
    AV = ib_qp_attr_mask_IB_QP_AV;
    /// [`Attr::path_mtu`].
    PATH_MTU = ib_qp_attr_mask_IB_QP_PATH_MTU;
    /// [`Attr::timeout`].
    TIMEOUT = ib_qp_attr_mask_IB_QP_TIMEOUT;
    /// [`Attr::retry_cnt`].
    RETRY_CNT = ib_qp_attr_mask_IB_QP_RETRY_CNT;
    /// [`Attr::rnr_retry`].
    RNR_RETRY = ib_qp_attr_mask_IB_QP_RNR_RETRY;
    /// [`Attr::rq_psn`].
    RQ_PSN = ib_qp_attr_mask_IB_QP_RQ_PSN;
    /// [`Attr::max_rd_atomic`].
    MAX_QP_RD_ATOMIC = ib_qp_attr_mask_IB_QP_MAX_QP_RD_ATOMIC;
    /// [`Attr::alt_ah`], [`Attr::alt_pkey_index`], [`Attr::alt_port`] and [`Attr::alt_timeout`].
    ALT_PATH = ib_qp_attr_mask_IB_QP_ALT_PATH;
    /// [`Attr::min_rnr_timer`].
    MIN_RNR_TIMER = ib_qp_attr_mask_IB_QP_MIN_RNR_TIMER;
    /// [`Attr::sq_psn`].
    SQ_PSN = ib_qp_attr_mask_IB_QP_SQ_PSN;
    /// [`Attr::max_dest_rd_atomic`].
    MAX_DEST_RD_ATOMIC = ib_qp_attr_mask_IB_QP_MAX_DEST_RD_ATOMIC;
    /// [`Attr::path_mig_state`].
    PATH_MIG_STATE = ib_qp_attr_mask_IB_QP_PATH_MIG_STATE;
    /// [`Attr::cap`].
    CAP = ib_qp_attr_mask_IB_QP_CAP;
    /// [`Attr::dest_qpn`].
    DEST_QPN = ib_qp_attr_mask_IB_QP_DEST_QPN;
    /// All attributes of the InfiniBand specification.
    STANDARD = ib_qp_attr_mask_IB_QP_ATTR_STANDARD_BITS;
}

impl AttrMask {
    /// Whether all of `other` is in this mask.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether there are bits in this mask that are not in `other`.
    pub const fn exceeds(self, other: Self) -> bool {
        self.0 & !other.0 != 0
    }
}

/// The attributes of a queue pair. Which of them mean something is in the [`AttrMask`] that comes
/// along.
#[derive(Clone, Default)]
pub struct Attr {
    /// The state to move to; by a query, the state.
    pub state: State,
    /// The state the QP is assumed to be in; by a query, the state.
    pub cur_state: State,
    /// Path MTU (`enum ib_mtu`: 1 is 256 bytes, 5 is 4096).
    pub path_mtu: u32,
    /// Path migration state (`enum ib_mig_state`).
    pub path_mig_state: u32,
    /// Queue key of a datagram QP.
    pub qkey: u32,
    /// First PSN to be received.
    pub rq_psn: u32,
    /// First PSN to be sent.
    pub sq_psn: u32,
    /// The peer's QP number.
    pub dest_qpn: u32,
    /// What the peer may do (`enum ib_access_flags`).
    pub access: u32,
    /// Queue sizes.
    pub cap: Cap,
    /// The path to the peer.
    pub ah: AhAttr,
    /// The alternate path to the peer.
    pub alt_ah: AhAttr,
    /// Partition key index.
    pub pkey_index: u16,
    /// Partition key index of the alternate path.
    pub alt_pkey_index: u16,
    /// Whether to raise an event when the send queue has drained.
    pub sqd_async_notify: bool,
    /// By a query: whether the send queue is still draining.
    pub sq_draining: bool,
    /// READ and atomic requests that may be outstanding.
    pub max_rd_atomic: u8,
    /// READ and atomic requests of the peer that may be outstanding.
    pub max_dest_rd_atomic: u8,
    /// The RNR timer code (0 to 31) to send when there is no receive request.
    pub min_rnr_timer: u8,
    /// The port.
    pub port: u32,
    /// The acknowledge timeout code (0: none, else 4.096 µs × 2^code).
    pub timeout: u8,
    /// Retries after a timeout (0 to 7).
    pub retry_cnt: u8,
    /// Retries after an RNR NAK (0 to 6, 7 for no limit).
    pub rnr_retry: u8,
    /// The port of the alternate path.
    pub alt_port: u32,
    /// The acknowledge timeout code of the alternate path.
    pub alt_timeout: u8,
}

impl Attr {
    pub(super) fn from_raw(raw: &bindings::ib_qp_attr, mask: AttrMask) -> Result<Self> {
        let state = |valid, raw| {
            if valid {
                State::from_raw(raw).ok_or(EINVAL)
            } else {
                Ok(State::Reset)
            }
        };
        let ah = |valid, raw| {
            if valid {
                AhAttr::from_raw(raw)
            } else {
                AhAttr::default()
            }
        };
        Ok(Self {
            state: state(mask.contains(AttrMask::STATE), raw.qp_state)?,
            cur_state: state(mask.contains(AttrMask::CUR_STATE), raw.cur_qp_state)?,
            path_mtu: raw.path_mtu,
            path_mig_state: raw.path_mig_state,
            qkey: raw.qkey,
            rq_psn: raw.rq_psn,
            sq_psn: raw.sq_psn,
            dest_qpn: raw.dest_qp_num,
            access: raw.qp_access_flags as u32,
            cap: Cap::from_raw(&raw.cap),
            ah: ah(mask.contains(AttrMask::AV), &raw.ah_attr),
            alt_ah: ah(mask.contains(AttrMask::ALT_PATH), &raw.alt_ah_attr),
            pkey_index: raw.pkey_index,
            alt_pkey_index: raw.alt_pkey_index,
            sqd_async_notify: raw.en_sqd_async_notify != 0,
            sq_draining: raw.sq_draining != 0,
            max_rd_atomic: raw.max_rd_atomic,
            max_dest_rd_atomic: raw.max_dest_rd_atomic,
            min_rnr_timer: raw.min_rnr_timer,
            port: raw.port_num,
            timeout: raw.timeout,
            retry_cnt: raw.retry_cnt,
            rnr_retry: raw.rnr_retry,
            alt_port: raw.alt_port_num,
            alt_timeout: raw.alt_timeout,
        })
    }

    pub(super) fn write_raw(&self, raw: &mut bindings::ib_qp_attr) {
        raw.qp_state = self.state as u32;
        raw.cur_qp_state = self.cur_state as u32;
        raw.path_mtu = self.path_mtu;
        raw.path_mig_state = self.path_mig_state;
        raw.qkey = self.qkey;
        raw.rq_psn = self.rq_psn;
        raw.sq_psn = self.sq_psn;
        raw.dest_qp_num = self.dest_qpn;
        raw.qp_access_flags = self.access as c_int;
        self.cap.write_raw(&mut raw.cap);
        self.ah.write_raw(&mut raw.ah_attr);
        self.alt_ah.write_raw(&mut raw.alt_ah_attr);
        raw.pkey_index = self.pkey_index;
        raw.alt_pkey_index = self.alt_pkey_index;
        raw.en_sqd_async_notify = self.sqd_async_notify.into();
        raw.sq_draining = self.sq_draining.into();
        raw.max_rd_atomic = self.max_rd_atomic;
        raw.max_dest_rd_atomic = self.max_dest_rd_atomic;
        raw.min_rnr_timer = self.min_rnr_timer;
        raw.port_num = self.port;
        raw.timeout = self.timeout;
        raw.retry_cnt = self.retry_cnt;
        raw.rnr_retry = self.rnr_retry;
        raw.alt_port_num = self.alt_port;
        raw.alt_timeout = self.alt_timeout;
    }
}

/// The answer to a query verb.
#[derive(Default)]
pub struct Query {
    /// The attributes.
    pub attr: Attr,
    /// Whether every send request is signaled.
    pub signal_all: bool,
    /// The creation flags.
    pub create_flags: u32,
}

/// Whether a QP of type `qp_type` may go from `from` to `to` with the attributes in `mask`.
pub fn transition_is_ok(from: State, to: State, qp_type: Type, mask: AttrMask) -> bool {
    let raw_type = match qp_type {
        Type::Gsi => bindings::ib_qp_type_IB_QPT_GSI,
        Type::Rc => bindings::ib_qp_type_IB_QPT_RC,
        Type::Uc => bindings::ib_qp_type_IB_QPT_UC,
        Type::Ud => bindings::ib_qp_type_IB_QPT_UD,
        Type::Other => return false,
    };
    // SAFETY: No requirements: a pure function of its arguments.
    unsafe { bindings::ib_modify_qp_is_ok(from as u32, to as u32, raw_type, mask.0) }
}
