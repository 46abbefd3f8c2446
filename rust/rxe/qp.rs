// SPDX-License-Identifier: GPL-2.0

//! Queue pairs.
//!
//! The verbs see a [`Handle`], which lives in the core's `ib_qp`; everything else sees the body, [`Qp`], which
//! is reference-counted and freed after a grace period. Each body has two engines with a lock and a worker of
//! its own: the send side ([`super::send`]) and the receive side ([`super::recv`]).
//!
//! # Locks
//!
//! `attr`, then `send`, then `recv`; the workers take their own side's lock only. The state is changed with
//! the send or the receive lock held, or both: a worker moves its queue pair to an error state, modify takes both
//! locks and so sees neither engine in the middle of a step. Handlers of the consumer are called without locks.

#![forbid(unsafe_code)]

mod modify;

use super::{
    cq::Cq,
    device::RxeDev,
    hop::{
        self,
        Side, //
    },
    pd::Pd,
    qp_attr,
    qpio::{
        Endpoint,
        QpIo,
        RECV_WORK,
        SEND_WORK, //
    },
    recv::RecvSide,
    rq::{
        RecvQueue,
        Taken, //
    },
    send::SendSide,
    sq::{
        Handles,
        SendQueue,
        SqParam, //
    },
    sq_window::Window,
    verbs::Rxe, //
};
use crate::{
    abstractions::{
        rdma::{
            event,
            mmap,
            qp::{
                Attr,
                Cap,
                Handler,
                Token, //
            },
            wr, //
        },
        sync::RcuArc, //
    },
    proto::{
        counters::Misuse,
        num::{
            PdId,
            Qpn, //
        },
        qpstate::{
            QpState,
            QpType, //
        },
        responder::Responder,
        sender::{
            Sender,
            MAX_WINDOW, //
        },
        status::QpEvent,
        time::Duration,
        window::SendEntry, //
    }, //
};
use kernel::{
    alloc::KVVec,
    impl_has_work,
    new_mutex,
    new_work,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed,
            Release, //
        },
        Arc,
        Mutex, //
    },
    workqueue::{
        Queue,
        Work,
        WorkItem, //
    }, //
};

/// A queue pair.
#[pin_data]
pub struct Qp {
    #[pin]
    send_work: Work<Self, SEND_WORK>,
    #[pin]
    recv_work: Work<Self, RECV_WORK>,
    dev: Arc<RxeDev>,
    pd: RcuArc<Pd>,
    send_cq: RcuArc<Cq>,
    recv_cq: RcuArc<Cq>,
    qpn: Qpn,
    param: SqParam,
    token: Token,
    handler: Handler,
    /// A [`QpState`]; written with the send or receive lock held.
    state: Atomic<u32>,
    /// The peer's number, for completions.
    peer_qpn: Atomic<u32>,
    sq: SendQueue,
    rq: RecvQueue,
    #[pin]
    io: QpIo<Qp>,
    #[pin]
    attr: Mutex<Attr>,
    #[pin]
    send: Mutex<SendSide>,
    #[pin]
    recv: Mutex<RecvSide>,
}

impl_has_work! {
    impl HasWork<Self, SEND_WORK> for Qp { self.send_work }
    impl HasWork<Self, RECV_WORK> for Qp { self.recv_work }
}

impl WorkItem<SEND_WORK> for Qp {
    type Pointer = RcuArc<Self>;

    fn run(this: RcuArc<Self>) {
        hop::run(this, Side::Send);
    }
}

impl WorkItem<RECV_WORK> for Qp {
    type Pointer = RcuArc<Self>;

    fn run(this: RcuArc<Self>) {
        hop::run(this, Side::Recv);
    }
}

impl Endpoint for Qp {
    fn io(&self) -> &QpIo<Self> {
        &self.io
    }

    fn queue(&self) -> &Queue {
        self.dev.workers()
    }
}

impl Qp {
    /// The device.
    pub(crate) fn dev(&self) -> &Arc<RxeDev> {
        &self.dev
    }

    /// The protection domain.
    pub(crate) fn pd_id(&self) -> PdId {
        self.pd.id()
    }

    /// The completion queue of the send queue.
    pub(crate) fn send_cq(&self) -> &RcuArc<Cq> {
        &self.send_cq
    }

    /// The completion queue of the receive queue.
    pub(crate) fn recv_cq(&self) -> &RcuArc<Cq> {
        &self.recv_cq
    }

    /// The number on the wire.
    pub(crate) fn qpn(&self) -> Qpn {
        self.qpn
    }

    /// The type.
    pub(crate) fn qp_type(&self) -> QpType {
        self.param.qp_type
    }

    /// What all send requests have in common.
    pub(crate) fn param(&self) -> &SqParam {
        &self.param
    }

    /// The name of the queue pair in completions of kernel consumers.
    pub(crate) fn token(&self) -> Token {
        self.token
    }

    /// The number of the connected peer.
    pub(crate) fn peer_qpn(&self) -> u32 {
        self.peer_qpn.load(Relaxed)
    }

    /// The state.
    pub(crate) fn state(&self) -> QpState {
        // Only values of `QpState` are stored.
        QpState::from_ib_enum(self.state.load(Acquire)).unwrap_or(QpState::Err)
    }

    /// The send queue.
    pub(crate) fn sq(&self) -> &SendQueue {
        &self.sq
    }

    /// The receive queue.
    pub(crate) fn rq(&self) -> &RecvQueue {
        &self.rq
    }

    /// Packets, workers, credits: what the network side sees.
    pub(crate) fn io(&self) -> &QpIo<Qp> {
        &self.io
    }

    /// The address handles that send requests may name.
    pub(crate) fn handles(&self) -> Handles<'_> {
        Handles {
            dev: &self.dev,
            pd: self.pd.id(),
            datagram: matches!(self.param.qp_type, QpType::Ud | QpType::Gsi),
        }
    }

    /// The send side.
    pub(crate) fn send_side(&self) -> &Mutex<SendSide> {
        &self.send
    }

    /// The receive side.
    pub(crate) fn recv_side(&self) -> &Mutex<RecvSide> {
        &self.recv
    }

    /// Tells the consumer. To be called without locks.
    pub(crate) fn event(&self, what: QpEvent) {
        self.handler.event(match what {
            QpEvent::CommEst => event::QpEvent::CommEstablished,
            QpEvent::SqDrained => event::QpEvent::SqDrained,
            QpEvent::Fatal => event::QpEvent::Fatal,
            QpEvent::ReqErr => event::QpEvent::RequestError,
            QpEvent::AccessErr => event::QpEvent::AccessError,
            QpEvent::LastWqe => event::QpEvent::LastWqeReached,
        });
    }

    /// Moves the queue pair to an error state, from one of its workers, which holds its side's lock.
    ///
    /// Returns whether this changed anything.
    pub(crate) fn fail(&self, to: QpState) -> bool {
        let from = self.state();
        if from == QpState::Err || from == to || from == QpState::Reset {
            return false;
        }
        // The other worker may do the same at the same time; the error state wins.
        match self.state.cmpxchg(from.ib_enum(), to.ib_enum(), Full) {
            Ok(_) => {
                self.io.set_state(to);
                true
            }
            Err(_) => {
                to == QpState::Err && {
                    self.state.store(to.ib_enum(), Release);
                    self.io.set_state(to);
                    true
                }
            }
        }
    }

    /// Makes the send worker run. Any context.
    pub(crate) fn kick_send(this: &RcuArc<Self>) {
        this.io.kick_send(this.borrow());
    }

    /// Makes the receive worker run. Any context.
    pub(crate) fn kick_recv(this: &RcuArc<Self>) {
        this.io.kick_recv(this.borrow());
    }

    /// Makes the send worker run after a delay.
    pub(crate) fn arm_timer(this: &RcuArc<Self>, delay: Duration) {
        this.io.arm_timer(this.borrow(), delay);
    }

    fn set_state(&self, to: QpState) {
        self.state.store(to.ib_enum(), Release);
        self.io.set_state(to);
    }
}

/// What a queue pair is made of.
pub(crate) struct Parts {
    pub(crate) pd: RcuArc<Pd>,
    pub(crate) send_cq: RcuArc<Cq>,
    pub(crate) recv_cq: RcuArc<Cq>,
    pub(crate) param: SqParam,
    /// The granted sizes of the queues.
    pub(crate) cap: Cap,
    pub(crate) token: Token,
    pub(crate) handler: Handler,
    pub(crate) sq: SendQueue,
    /// The size of a slot of a user send queue.
    pub(crate) sq_slot: usize,
    pub(crate) rq: RecvQueue,
    pub(crate) taken: Taken,
}

/// What the core's `ib_qp` owns.
pub struct Handle {
    body: RcuArc<Qp>,
    /// The rings, as the process may map them. Given back in process context, unlike the body.
    _rings: [Option<mmap::Entry>; 2],
}

impl Handle {
    /// Makes the handle of a queue pair whose rings are offered for mapping.
    pub(crate) fn new(body: RcuArc<Qp>, rings: [Option<mmap::Entry>; 2]) -> Self {
        Self {
            body,
            _rings: rings,
        }
    }

    /// The body.
    pub(crate) fn body(&self) -> &RcuArc<Qp> {
        &self.body
    }
}

impl Qp {
    /// Makes a queue pair in the reset state and lets packets find it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EBUSY` if there is a general services queue pair already and this is to be another one.
    pub(crate) fn new(dev: &Arc<RxeDev>, parts: Parts) -> Result<RcuArc<Self>> {
        let qp_type = parts.param.qp_type;
        let attr = Attr {
            cap: parts.cap,
            ..qp_attr::initial()
        };
        let reserved = match qp_type {
            QpType::Gsi => None,
            QpType::Rc | QpType::Uc | QpType::Ud => Some(dev.qps.reserve(GFP_KERNEL)?),
        };
        let qpn = reserved.as_ref().map_or(Qpn::GSI, |id| Qpn::new(id.id()));
        let mtu = dev.active_mtu();

        // A kernel send queue may be shorter than the window, a user one has its place in the window for
        // each request that was fetched.
        let entries = usize::try_from(parts.cap.max_send_wr.max(1))
            .unwrap_or(MAX_WINDOW)
            .checked_next_power_of_two()
            .unwrap_or(MAX_WINDOW)
            .min(MAX_WINDOW);
        let sender = Sender::new(
            qp_attr::sender_config(qp_type, qpn, mtu, &attr),
            KVVec::from_elem(SendEntry::EMPTY, entries, GFP_KERNEL)?,
        );
        let datagram = matches!(qp_type, QpType::Ud | QpType::Gsi);
        let kernel = matches!(parts.sq, SendQueue::Kernel(_));
        let window = Window::new(
            entries,
            parts.param.limits.max_sge.into(),
            datagram,
            kernel && qp_type == QpType::Rc,
        )?;
        let send = SendSide::new(sender, window, parts.sq_slot)?;
        let responder = Responder::new(
            qp_attr::responder_config(qp_type, mtu, &attr, true),
            KVVec::new(),
        );
        let recv = RecvSide::new(responder, parts.taken);

        let qp = RcuArc::pin_init(
            try_pin_init!(Self {
                send_work <- new_work!("rxe::Qp::send"),
                recv_work <- new_work!("rxe::Qp::recv"),
                dev: dev.clone(),
                pd: parts.pd,
                send_cq: parts.send_cq,
                recv_cq: parts.recv_cq,
                qpn,
                param: parts.param,
                token: parts.token,
                handler: parts.handler,
                state: Atomic::new(QpState::Reset.ib_enum()),
                peer_qpn: Atomic::new(0),
                sq: parts.sq,
                rq: parts.rq,
                io <- QpIo::new(qp_type),
                attr <- new_mutex!(attr, "rxe::Qp::attr"),
                send <- new_mutex!(send, "rxe::Qp::send"),
                recv <- new_mutex!(recv, "rxe::Qp::recv"),
            }? Error),
            GFP_KERNEL,
        )?;
        match reserved {
            Some(id) => id.publish(qp.clone()),
            None => dev
                .qps
                .insert_at(Qpn::GSI.get(), qp.clone(), GFP_KERNEL)
                .map_err(|_| EBUSY)?,
        }
        // A reference that ends with `end`: packets that leave the network stack wake the workers.
        qp.io.attach(qp.clone());
        Ok(qp)
    }

    /// Ends the queue pair: when this returns, nothing uses what its consumer owns.
    ///
    /// Each step says what it ends and why it does not come back.
    pub(crate) fn end(this: &RcuArc<Self>) {
        let qp = &**this;
        // 1. Nothing is accepted any more: posts and packets are refused, packets that wait are freed, and workers
        //    that start, or wait for their lock, return at once.
        qp.io.close();
        // 2. Packets do not find the queue pair any more. Those that have are refused.
        qp.dev.qps.remove(qp.qpn.get());
        // 3. With each lock, the worker that held it has finished its step, and later ones see step 1. So no engine
        //    does anything any more, and what it holds can go: in process context, unlike the body.
        let wanted = qp.io.want();
        qp.send.lock().reset(qp);
        qp.recv.lock().reset(qp);
        drop(wanted);
        //    That goes for the addresses in the attributes too: they are entries of the GID table.
        *qp.attr.lock() = qp_attr::initial();
        // 4. The timer is armed by the send worker only, that is, not any more; packets that the network device
        //    keeps, for however long, forget the queue pair.
        qp.io.shutdown();
    }

    /// Posts send requests of a kernel consumer, or, with an empty list, says that a process has posted some. Any
    /// context: this queues and kicks, and does nothing else.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the state does not permit it or a request is not valid; `ENOMEM` if the queue is full.
    pub(crate) fn post_send(this: &RcuArc<Self>, wrs: &mut wr::SendWrs<'_, Rxe>) -> Result {
        let qp = &**this;
        let state = qp.state();
        if qp.io.is_closed() || !state.may_post_send() {
            // The request that the error is about.
            let _ = wrs.next();
            return Err(EINVAL);
        }
        match &qp.sq {
            SendQueue::User(_) => {
                Self::kick_send(this);
                Ok(())
            }
            SendQueue::Kernel(sq) => {
                let posted = sq.post(&qp.param, wrs, state == QpState::Rts);
                if posted.taken != 0 {
                    Self::kick_send(this);
                }
                if posted.unproven != 0 {
                    qp.dev
                        .count_misuse(Misuse::UnprovenPost, posted.unproven.into());
                }
                posted.result
            }
        }
    }

    /// Posts receive requests of a kernel consumer. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the state does not permit it, if the receive queue is shared or belongs to a process, or if a request
    /// is not valid; `ENOMEM` if the queue is full.
    pub(crate) fn post_recv(this: &RcuArc<Self>, wrs: &mut wr::RecvWrs<'_>) -> Result {
        let qp = &**this;
        let rq = match &qp.rq {
            RecvQueue::Kernel(rq) if !qp.io.is_closed() && qp.state().may_post_recv() => rq,
            _ => {
                let _ = wrs.next();
                return Err(EINVAL);
            }
        };
        let result = rq.post(wrs);
        // Otherwise a request is looked for when a packet arrives.
        if qp.state() == QpState::Err {
            Self::kick_recv(this);
        }
        result
    }
}
