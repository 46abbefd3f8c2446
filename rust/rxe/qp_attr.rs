// SPDX-License-Identifier: GPL-2.0

//! Attributes of queue pairs: what modify checks and changes, and what query returns.

#![forbid(unsafe_code)]

use super::{
    param,
    qp::Qp, //
};
use crate::{
    abstractions::rdma::qp::{
        self as verbs_qp,
        Attr,
        AttrMask,
        State, //
    },
    proto::{
        memkey::Access,
        num::{
            Mtu,
            Qpn, //
        },
        psn::Psn,
        qpstate::{
            QpState,
            QpType, //
        },
        responder::ResponderConfig,
        sender::SenderConfig,
        time::ack_timeout, //
    }, //
};
use kernel::prelude::*;

/// The largest code of a 5-bit timer attribute.
const MAX_TIMER_CODE: u8 = 31;

/// The largest retry count.
const MAX_RETRY: u8 = 7;

/// The only partition key of the port.
const PKEY: u16 = 0xffff;

/// The access rights that a queue pair can grant its peer.
const QP_ACCESS: Access = Access::REMOTE
    .union(Access::LOCAL_WRITE)
    .union(Access::MW_BIND)
    .union(Access::ON_DEMAND)
    .union(Access::FLUSH)
    .union(Access::OPTIONAL);

/// Translates a state to the protocol's name for it.
pub(crate) fn state_of(state: State) -> QpState {
    match state {
        State::Reset => QpState::Reset,
        State::Init => QpState::Init,
        State::Rtr => QpState::Rtr,
        State::Rts => QpState::Rts,
        State::Sqd => QpState::Sqd,
        State::Sqe => QpState::Sqe,
        State::Err => QpState::Err,
    }
}

/// Translates a state to the verbs' name for it.
pub(crate) fn verbs_state_of(state: QpState) -> State {
    match state {
        QpState::Reset => State::Reset,
        QpState::Init => State::Init,
        QpState::Rtr => State::Rtr,
        QpState::Rts => State::Rts,
        QpState::Sqd => State::Sqd,
        QpState::Sqe => State::Sqe,
        QpState::Err => State::Err,
    }
}

/// Translates a type to the protocol's name for it.
///
/// # Errors
///
/// `EOPNOTSUPP` for types that this driver does not have.
pub(crate) fn type_of(qp_type: verbs_qp::Type) -> Result<QpType> {
    match qp_type {
        verbs_qp::Type::Rc => Ok(QpType::Rc),
        verbs_qp::Type::Uc => Ok(QpType::Uc),
        verbs_qp::Type::Ud => Ok(QpType::Ud),
        verbs_qp::Type::Gsi => Ok(QpType::Gsi),
        verbs_qp::Type::Other => Err(EOPNOTSUPP),
    }
}

/// Translates a type to the verbs' name for it.
fn verbs_type_of(qp_type: QpType) -> verbs_qp::Type {
    match qp_type {
        QpType::Rc => verbs_qp::Type::Rc,
        QpType::Uc => verbs_qp::Type::Uc,
        QpType::Ud => verbs_qp::Type::Ud,
        QpType::Gsi => verbs_qp::Type::Gsi,
    }
}

/// The attributes that a queue pair starts with, and has again after a reset.
pub(crate) fn initial() -> Attr {
    Attr {
        path_mtu: Mtu::B256.ib_enum(),
        port: param::PORT,
        ..Attr::default()
    }
}

/// Checks whether attributes are valid for the queue pair, without regard to its state.
///
/// # Errors
///
/// `EOPNOTSUPP` for attributes that are not of the InfiniBand specification, `EINVAL` for values out of
/// range.
pub(crate) fn check(qp: &Qp, attr: &Attr, mask: AttrMask) -> Result {
    if mask.exceeds(AttrMask::STANDARD) {
        return Err(EOPNOTSUPP);
    }
    let connected = matches!(qp.qp_type(), QpType::Rc | QpType::Uc);
    let has = |bit| mask.contains(bit);
    let valid = |ok: bool| if ok { Ok(()) } else { Err(EINVAL) };

    valid(!has(AttrMask::PORT) || attr.port == param::PORT)?;
    valid(!has(AttrMask::PKEY_INDEX) || attr.pkey_index == 0)?;
    // The size of the queues is fixed.
    valid(!has(AttrMask::CAP))?;
    if has(AttrMask::ACCESS_FLAGS) {
        valid(connected && QP_ACCESS.contains(Access::from_bits(attr.access)))?;
    }
    if has(AttrMask::AV) {
        valid(attr.ah.has_grh && attr.ah.port == param::PORT && attr.ah.sgid.is_some())?;
    }
    if has(AttrMask::ALT_PATH) {
        valid(attr.alt_ah.has_grh && attr.alt_port == param::PORT)?;
        valid(attr.alt_timeout <= MAX_TIMER_CODE)?;
    }
    if has(AttrMask::PATH_MTU) {
        let mtu = Mtu::from_ib_enum(attr.path_mtu).ok_or(EINVAL)?;
        // IBA 11.2.5.2: not more than the port can carry now, not just at best.
        valid(mtu.bytes() <= qp.dev().active_mtu().bytes())?;
    }
    if has(AttrMask::MAX_QP_RD_ATOMIC) {
        valid(u32::from(attr.max_rd_atomic) <= param::MAX_QP_RD_ATOM)?;
    }
    if has(AttrMask::MAX_DEST_RD_ATOMIC) {
        valid(u32::from(attr.max_dest_rd_atomic) <= param::MAX_QP_RD_ATOM)?;
    }
    valid(!has(AttrMask::TIMEOUT) || attr.timeout <= MAX_TIMER_CODE)?;
    valid(!has(AttrMask::MIN_RNR_TIMER) || attr.min_rnr_timer <= MAX_TIMER_CODE)?;
    valid(!has(AttrMask::RETRY_CNT) || attr.retry_cnt <= MAX_RETRY)?;
    valid(!has(AttrMask::RNR_RETRY) || attr.rnr_retry <= MAX_RETRY)
}

/// Checks whether a queue pair in state `from` may be modified so, and returns the state it will be in.
///
/// # Errors
///
/// `EINVAL` if the transition does not exist, or attributes are missing or not allowed.
pub(crate) fn transition(
    qp_type: QpType,
    from: QpState,
    draining: bool,
    attr: &Attr,
    mask: AttrMask,
) -> Result<QpState> {
    // The consumer says which state it believes the queue pair to be in; it must be right.
    if mask.contains(AttrMask::CUR_STATE) && state_of(attr.cur_state) != from {
        return Err(EINVAL);
    }
    let to = if mask.contains(AttrMask::STATE) {
        state_of(attr.state)
    } else {
        from
    };
    let ok = verbs_qp::transition_is_ok(
        verbs_state_of(from),
        verbs_state_of(to),
        verbs_type_of(qp_type),
        mask,
    );
    if !ok {
        return Err(EINVAL);
    }
    // IBA 10.3.1.5: a send queue has to drain before it can be used again.
    if from == QpState::Sqd && draining && mask.contains(AttrMask::STATE) && to == QpState::Rts {
        return Err(EINVAL);
    }
    Ok(to)
}

/// Takes over the attributes in `mask`, which were checked.
pub(crate) fn merge(to: &mut Attr, from: &Attr, mask: AttrMask) {
    macro_rules! take {
        ($($bit:ident: $($field:ident),+;)*) => {
            $(if mask.contains(AttrMask::$bit) {
                $(to.$field = from.$field.clone();)+
            })*
        };
    }
    take! {
        EN_SQD_ASYNC_NOTIFY: sqd_async_notify;
        ACCESS_FLAGS: access;
        PKEY_INDEX: pkey_index;
        PORT: port;
        QKEY: qkey;
        AV: ah;
        PATH_MTU: path_mtu;
        TIMEOUT: timeout;
        RETRY_CNT: retry_cnt;
        RNR_RETRY: rnr_retry;
        MAX_QP_RD_ATOMIC: max_rd_atomic;
        ALT_PATH: alt_ah, alt_pkey_index, alt_port, alt_timeout;
        MIN_RNR_TIMER: min_rnr_timer;
        MAX_DEST_RD_ATOMIC: max_dest_rd_atomic;
        PATH_MIG_STATE: path_mig_state;
    }
    if mask.contains(AttrMask::RQ_PSN) {
        to.rq_psn = Psn::new(from.rq_psn).get();
    }
    if mask.contains(AttrMask::SQ_PSN) {
        to.sq_psn = Psn::new(from.sq_psn).get();
    }
    if mask.contains(AttrMask::DEST_QPN) {
        to.dest_qpn = Qpn::new(from.dest_qpn).get();
    }
}

/// Returns what the send engine has to know.
pub(crate) fn sender_config(qp_type: QpType, qpn: Qpn, port_mtu: Mtu, attr: &Attr) -> SenderConfig {
    SenderConfig {
        service: qp_type.service(),
        mtu: message_mtu(qp_type, port_mtu, attr),
        psn: Psn::new(attr.sq_psn),
        qpn,
        dest_qpn: Qpn::new(attr.dest_qpn),
        pkey: PKEY,
        qkey: attr.qkey,
        max_rd_atomic: attr.max_rd_atomic,
        retry_cnt: attr.retry_cnt,
        rnr_retry: attr.rnr_retry,
        ack_timeout: ack_timeout(attr.timeout),
    }
}

/// Returns what the responder has to know.
pub(crate) fn responder_config(
    qp_type: QpType,
    port_mtu: Mtu,
    attr: &Attr,
    announce: bool,
) -> ResponderConfig {
    ResponderConfig {
        service: qp_type.service(),
        mtu: message_mtu(qp_type, port_mtu, attr),
        psn: Psn::new(attr.rq_psn),
        dest_qpn: Qpn::new(attr.dest_qpn),
        pkey: PKEY,
        access: Access::from_bits(attr.access),
        min_rnr_timer: attr.min_rnr_timer,
        announce,
    }
}

/// Connected queue pairs have a path MTU; datagrams may be as large as the port can carry.
fn message_mtu(qp_type: QpType, port_mtu: Mtu, attr: &Attr) -> Mtu {
    match qp_type {
        QpType::Rc | QpType::Uc => Mtu::from_ib_enum(attr.path_mtu).unwrap_or(Mtu::B256),
        QpType::Ud | QpType::Gsi => port_mtu,
    }
}
