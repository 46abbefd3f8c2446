// SPDX-License-Identifier: GPL-2.0

//! The verbs of queue pairs.

#![forbid(unsafe_code)]

use super::{
    device::RxeDev,
    mapping::offer,
    param,
    qp::{
        Handle,
        Parts,
        Qp, //
    },
    qp_attr,
    queue::ConsumerRing,
    rq::{
        KernelRq,
        RecvQueue,
        Taken,
        UserRq, //
    },
    sq::{
        KernelSq,
        SendQueue,
        SqParam,
        UserSq, //
    },
    verbs::Rxe, //
};
use crate::{
    abstractions::rdma::{
        qp::{
            Attr,
            AttrMask,
            Cap,
            InitAttr,
            New,
            Operations,
            Query,
            Shell, //
        },
        wr::{
            RecvWrs,
            SendWrs, //
        },
        Gid,
        UserData, //
    },
    proto::{
        num::usize_from,
        qpstate::QpType,
        uabi::{
            CreateQpResp,
            RECV_DATA_OFFSET,
            SEND_DATA_OFFSET,
            SGE_SIZE, //
        },
        wr::SendLimits, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use zerocopy::FromZeros;

#[vtable]
impl Operations for Handle {
    type Driver = Rxe;

    fn create(
        new: &New<'_, Self>,
        init: &mut InitAttr,
        mut udata: Option<&mut UserData<'_>>,
    ) -> Result<Self> {
        if init.create_flags != 0 {
            return Err(EOPNOTSUPP);
        }
        let qp_type = qp_attr::type_of(init.qp_type)?;
        let mmaps = match &mut udata {
            Some(udata) => {
                udata.no_input()?;
                udata.require_output(size_of::<CreateQpResp>())?;
                Some(udata.mmaps::<Rxe>()?)
            }
            None => None,
        };
        // A process cannot be the agent for general services.
        if qp_type == QpType::Gsi && (init.port != param::PORT || mmaps.is_some()) {
            return Err(EINVAL);
        }
        let dev: &Arc<RxeDev> = new.device();
        let srq = new.srq().map(|srq| srq.body());
        check_cap(&init.cap, srq.is_some())?;

        let param = send_param(qp_type, init, mmaps.is_some())?;
        init.cap.max_send_sge = param.limits.max_sge.into();
        init.cap.max_inline_data = param.limits.max_inline;
        let mut response = CreateQpResp::new_zeroed();
        let mut rings = [None, None];
        let [sq_entry, rq_entry] = &mut rings;

        let (sq, sq_slot) = match &mmaps {
            Some(mmaps) => {
                let slot = SEND_DATA_OFFSET.wrapping_add(usize_from(param.limits.max_inline));
                let depth = &mut init.cap.max_send_wr;
                let ring = user_ring(depth, slot, SEND_DATA_OFFSET)?;
                let (entry, mi) = offer(mmaps, ring.buf())?;
                (*sq_entry, response.sq_mi) = (Some(entry), mi);
                let size = ring.elem_size();
                (SendQueue::User(UserSq { ring }), size)
            }
            None => {
                let sq = KernelSq::new(init.cap.max_send_wr, &param)?;
                (SendQueue::Kernel(sq), 0)
            }
        };

        let max_recv_sge = match srq {
            Some(_) => 0,
            None => u8::try_from(init.cap.max_recv_sge).map_err(|_| EINVAL)?,
        };
        let (rq, taken) = match (srq, &mmaps) {
            (Some(srq), _) => {
                let taken = Taken::new(srq.max_sge(), srq.slot_size())?;
                (RecvQueue::Shared(srq.clone()), taken)
            }
            (None, Some(mmaps)) => {
                let list = usize::from(max_recv_sge).wrapping_mul(SGE_SIZE);
                let slot = RECV_DATA_OFFSET.wrapping_add(list);
                let depth = &mut init.cap.max_recv_wr;
                let ring = user_ring(depth, slot, RECV_DATA_OFFSET)?;
                let (entry, mi) = offer(mmaps, ring.buf())?;
                (*rq_entry, response.rq_mi) = (Some(entry), mi);
                let taken = Taken::new(max_recv_sge, ring.elem_size())?;
                let rq = UserRq {
                    ring,
                    max_sge: max_recv_sge,
                };
                (RecvQueue::User(rq), taken)
            }
            (None, None) => {
                let rq = KernelRq::new(init.cap.max_recv_wr, max_recv_sge)?;
                (RecvQueue::Kernel(rq), Taken::new(max_recv_sge, 0)?)
            }
        };

        let parts = Parts {
            pd: new.pd().ok_or(EINVAL)?.body().clone(),
            send_cq: new.send_cq().ok_or(EINVAL)?.body().clone(),
            recv_cq: new.recv_cq().ok_or(EINVAL)?.body().clone(),
            param,
            cap: init.cap,
            token: new.token(),
            handler: new.handler().clone(),
            sq,
            sq_slot,
            rq,
            taken,
        };
        if let Some(udata) = udata {
            udata.respond(&response)?;
        }
        let qp = Qp::new(dev, parts)?;
        new.set_number(qp.qpn().get());
        Ok(Self::new(qp, rings))
    }

    fn destroy(qp: &Shell<Self>) {
        Qp::end(qp.body());
    }

    fn modify(
        qp: &Shell<Self>,
        attr: &Attr,
        mask: AttrMask,
        _udata: Option<&mut UserData<'_>>,
    ) -> Result {
        Qp::modify(qp.body(), attr, mask)
    }

    fn query(qp: &Shell<Self>, _mask: AttrMask) -> Result<Query> {
        Ok(Query {
            attr: qp.body().query(),
            signal_all: qp.body().param().signal_all,
            create_flags: 0,
        })
    }

    fn attach_mcast(qp: &Shell<Self>, group: Gid) -> Result {
        let dev: &Arc<RxeDev> = qp.device();
        dev.groups.attach(qp.device(), qp.body().qpn(), group)
    }

    fn detach_mcast(qp: &Shell<Self>, group: Gid) -> Result {
        let dev: &Arc<RxeDev> = qp.device();
        dev.groups.detach(qp.device(), qp.body().qpn(), group)
    }

    fn post_send(qp: &Shell<Self>, wrs: &mut SendWrs<'_, Rxe>) -> Result {
        Qp::post_send(qp.body(), wrs)
    }

    fn post_recv(qp: &Shell<Self>, wrs: &mut RecvWrs<'_>) -> Result {
        Qp::post_recv(qp.body(), wrs)
    }
}

/// Checks sizes against the limits of the device; with a shared receive queue, those of a receive queue mean nothing.
///
/// # Errors
///
/// `EINVAL`.
fn check_cap(cap: &Cap, shared: bool) -> Result {
    let send = cap.max_send_wr <= param::MAX_QP_WR
        && cap.max_send_sge <= param::MAX_SGE
        && cap.max_inline_data <= param::MAX_INLINE;
    let recv = shared || cap.max_recv_wr <= param::MAX_QP_WR && cap.max_recv_sge <= param::MAX_SGE;
    if send && recv {
        Ok(())
    } else {
        Err(EINVAL)
    }
}

/// Finds out what a send request may have.
///
/// In the ring of a process, buffers and inline data share the same place, so the larger of the two that were
/// asked for makes room for both.
fn send_param(qp_type: QpType, init: &InitAttr, user: bool) -> Result<SqParam> {
    let list = usize_from(init.cap.max_send_sge).wrapping_mul(SGE_SIZE);
    let inline = usize_from(init.cap.max_inline_data);
    let (list, inline) = match user {
        true => (list.max(inline), list.max(inline)),
        false => (list, inline),
    };
    Ok(SqParam {
        qp_type,
        signal_all: init.signal_all,
        limits: SendLimits {
            max_sge: u8::try_from(list / SGE_SIZE).map_err(|_| EINVAL)?,
            max_inline: u32::try_from(inline).map_err(|_| EINVAL)?,
        },
    })
}

/// Allocates the ring of a process for at least `depth` requests; writes how many there are to `depth`.
fn user_ring(depth: &mut u32, slot: usize, head: usize) -> Result<ConsumerRing> {
    let slot = u32::try_from(slot).map_err(|_| EINVAL)?;
    let ring = ConsumerRing::new(*depth, slot, head)?;
    *depth = ring.capacity();
    Ok(ring)
}
