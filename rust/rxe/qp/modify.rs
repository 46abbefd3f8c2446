// SPDX-License-Identifier: GPL-2.0

//! Changes of attributes and state, and queries.

#![forbid(unsafe_code)]

use super::{
    super::{
        qp_attr,
        tx::{
            Destination,
            OnRefusal,
            PathAttr, //
        }, //
    },
    Qp, //
};
use crate::{
    abstractions::{
        rdma::{
            ah::AhAttr,
            qp::{
                Attr,
                AttrMask, //
            }, //
        },
        sync::RcuArc, //
    },
    proto::{
        num::Qpn,
        qpstate::{
            QpState,
            QpType, //
        },
        resources::Resource,
        sport, //
    }, //
};
use kernel::{
    alloc::KVVec,
    prelude::*,
    sync::atomic::Relaxed, //
};

impl Qp {
    /// Changes attributes and state.
    ///
    /// # Errors
    ///
    /// `EINVAL` or `EOPNOTSUPP`, see [`qp_attr`]; `ENOMEM`. Then nothing has changed.
    pub(crate) fn modify(this: &RcuArc<Self>, new: &Attr, mask: AttrMask) -> Result {
        let qp = &**this;
        qp_attr::check(qp, new, mask)?;
        let mut attr = qp.attr.lock();

        // Everything that can fail comes before anything that changes.
        let mut storage = match mask.contains(AttrMask::MAX_DEST_RD_ATOMIC) {
            true => Some(KVVec::from_elem(
                Resource::UNUSED,
                new.max_dest_rd_atomic.into(),
                GFP_KERNEL,
            )?),
            false => None,
        };
        let peer = match mask.contains(AttrMask::DEST_QPN) {
            true => Qpn::new(new.dest_qpn),
            false => Qpn::new(attr.dest_qpn),
        };
        // Only a reliable queue pair sends again.
        let of_requests = match qp.param.qp_type {
            QpType::Rc => OnRefusal::Tell(None),
            QpType::Uc | QpType::Ud | QpType::Gsi => OnRefusal::Lose,
        };
        let mut paths = match mask.contains(AttrMask::AV) {
            true => Some((
                connected(&new.ah, qp.qpn, peer, of_requests)?,
                connected(&new.ah, qp.qpn, peer, OnRefusal::Lose)?,
            )),
            false => None,
        };

        let wanted = qp.io.want();
        let mut send = qp.send.lock();
        let mut recv = qp.recv.lock();
        drop(wanted);
        let from = qp.state();
        let to = qp_attr::transition(
            qp.param.qp_type,
            from,
            from == QpState::Sqd && !send.engine.is_drained(),
            new,
            mask,
        )?;

        if from == QpState::Sqe && to == QpState::Rts && !send.engine.is_empty() {
            // What was posted before the failure has not been flushed yet.
            return Err(EBUSY);
        }

        if to == QpState::Reset {
            let cap = attr.cap;
            *attr = Attr {
                cap,
                ..qp_attr::initial()
            };
        }
        qp_attr::merge(&mut attr, new, mask);
        let mtu = qp.dev.active_mtu();
        let qp_type = qp.param.qp_type;
        let sender = qp_attr::sender_config(qp_type, qp.qpn, mtu, &attr);
        let announce = matches!(to, QpState::Init | QpState::Rtr);
        let responder = qp_attr::responder_config(qp_type, mtu, &attr, announce);

        // The old storage is freed at the end, without the locks.
        let _old = storage
            .take()
            .map(|storage| recv.engine.replace_storage(storage));
        if let Some((for_requests, for_answers)) = paths.take() {
            qp.io
                .set_peer(for_requests.addresses(), for_requests.ifindex());
            send.destination = Some(for_requests);
            recv.destination = Some(for_answers);
        }
        if mask.contains(AttrMask::QKEY) {
            qp.io.set_qkey(attr.qkey);
        }
        qp.peer_qpn.store(attr.dest_qpn, Relaxed);

        match (from, to) {
            (_, QpState::Reset) => {
                send.reset(qp);
                recv.reset(qp);
                send.engine.reconfigure(sender);
                recv.engine.reset(responder);
            }
            (QpState::Init, QpState::Rtr) => {
                recv.engine.reset(responder);
                send.engine.reconfigure(sender);
            }
            (_, QpState::Err) => {
                send.engine.enter_error();
                recv.engine.enter_error();
            }
            (QpState::Sqe, QpState::Rts) => {
                send.engine.recover();
                send.engine.reconfigure(sender);
                recv.engine.reconfigure(responder);
            }
            (_, QpState::Sqd) => {
                send.engine.set_draining(true);
                send.notify_drained = from == QpState::Rts && attr.sqd_async_notify;
                send.engine.reconfigure(sender);
                recv.engine.reconfigure(responder);
            }
            (_, _) => {
                send.engine.set_draining(false);
                send.engine.reconfigure(sender);
                recv.engine.reconfigure(responder);
            }
        }
        // Last: from now on the workers and the receive path act on what was set above.
        qp.set_state(to);
        drop(recv);
        drop(send);
        drop(attr);
        if to != from || to == QpState::Err {
            Self::kick_send(this);
            Self::kick_recv(this);
        }
        Ok(())
    }

    /// Returns the attributes.
    pub(crate) fn query(&self) -> Attr {
        let mut attr = self.attr.lock().clone();
        let wanted = self.io.want();
        let send = self.send.lock();
        let recv = self.recv.lock();
        drop(wanted);
        let state = self.state();
        attr.state = qp_attr::verbs_state_of(state);
        attr.cur_state = attr.state;
        if state != QpState::Reset && state != QpState::Init {
            attr.rq_psn = recv.engine.expected_psn().get();
            attr.sq_psn = send.engine.sq_psn().get();
        }
        attr.sq_draining = state == QpState::Sqd && !send.engine.is_drained();
        attr
    }
}

/// Makes the destination of the packets of a connected queue pair.
///
/// # Errors
///
/// `EINVAL` if the two addresses are of different protocols.
fn connected(ah: &AhAttr, qpn: Qpn, peer: Qpn, on_refusal: OnRefusal) -> Result<Destination> {
    let source = ah.sgid.clone().ok_or(EINVAL)?;
    let attr = PathAttr {
        traffic_class: ah.traffic_class,
        hop_limit: ah.hop_limit,
        source_port: sport::of_connection(ah.flow_label, qpn.get(), peer.get()),
    };
    Destination::new(source, ah.dgid, attr, on_refusal).map_err(|_| EINVAL)
}
