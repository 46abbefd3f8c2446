// SPDX-License-Identifier: GPL-2.0

//! Completion queues.
//!
//! A process maps the ring of its queue and takes completions out of it by itself; a kernel
//! consumer polls a ring that is private. Both are filled by [`Cq::push`], from the workers of
//! queue pairs.
//!
//! Nothing of the consumer is called with a lock held: `push` says whether the consumer is to be
//! told, and the worker calls [`Cq::notify`] when it holds no lock. A queue that is full reports
//! that by itself, from a worker of its own.

#![forbid(unsafe_code)]

use super::{
    device::RxeDev,
    mapping::{
        offer,
        Mapping, //
    },
    param,
    queue::ProducerRing,
    sq::Proof,
    sq_window::none_vec,
    verbs::Rxe, //
};
use crate::{
    abstractions::{
        rdma::{
            cq::{
                Completions,
                Handler,
                InitAttr,
                Notify,
                Operations,
                Shell, //
            },
            wc::{
                Extra,
                WorkCompletion, //
            },
            Device,
            UserData, //
        },
        sync::{
            BhDisabled,
            RcuArc, //
        }, //
    },
    proto::{
        num::{
            usize_from,
            Qpn, //
        },
        ring::Ring,
        status::CqOverflow,
        uabi::{
            wc_flag,
            CreateCqResp,
            ResizeCqResp,
            UserCqe, //
        }, //
    }, //
};
use core::mem::size_of;
use kernel::{
    alloc::KVVec,
    impl_has_work,
    new_work,
    prelude::*,
    sync::{
        new_spinlock_irq,
        Arc,
        SpinLockIrq, //
    },
    workqueue::{
        Work,
        WorkItem, //
    }, //
};

/// The size of an element of a process's ring, before it is rounded up: that of the stock driver,
/// which keeps kernel completions in the same place.
const USER_ELEMENT: u32 = 72;

/// A completion queue.
#[pin_data]
pub struct Cq {
    dev: Arc<RxeDev>,
    handler: Handler,
    #[pin]
    state: SpinLockIrq<State>,
    #[pin]
    mapping: Mapping,
    #[pin]
    overflow: Work<Cq>,
}

impl_has_work! {
    impl HasWork<Self> for Cq { self.overflow }
}

struct State {
    ring: Completed,
    armed: Option<Armed>,
    /// A completion was lost. Stays.
    overflowed: bool,
}

/// What the consumer waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Armed {
    /// A solicited completion or an error.
    Solicited,
    /// Any completion.
    Any,
}

/// The completions.
enum Completed {
    User(ProducerRing),
    Kernel(KernelRing),
}

/// Completions of a kernel consumer.
struct KernelRing {
    ring: Ring,
    producer: u32,
    consumer: u32,
    slots: KVVec<Option<Completion>>,
}

/// A completion that waits for a kernel consumer.
struct Completion {
    wc: WorkCompletion,
    /// What it proves about the send queue when it is polled.
    proof: Option<Proof>,
}

impl KernelRing {
    fn new(entries: u32) -> Result<Self> {
        let ring = Ring::for_entries(entries, size_of::<WorkCompletion>() as u32).ok_or(EINVAL)?;
        let places = usize_from(ring.capacity()).wrapping_add(1);
        let slots = none_vec(places)?;
        Ok(Self {
            ring,
            producer: 0,
            consumer: 0,
            slots,
        })
    }

    fn count(&self) -> u32 {
        self.ring.count(self.producer, self.consumer)
    }

    fn push(&mut self, completion: Completion) -> Result<(), CqOverflow> {
        if self.ring.is_full(self.producer, self.consumer) {
            return Err(CqOverflow);
        }
        let slot = self
            .slots
            .get_mut(self.producer as usize)
            .ok_or(CqOverflow)?;
        *slot = Some(completion);
        self.producer = self.ring.next(self.producer);
        Ok(())
    }

    fn pop(&mut self) -> Option<WorkCompletion> {
        if self.count() == 0 {
            return None;
        }
        let completion = self.slots.get_mut(self.consumer as usize)?.take();
        self.consumer = self.ring.next(self.consumer);
        let Completion { wc, proof } = completion?;
        if let Some(proof) = proof {
            proof.polled();
        }
        Some(wc)
    }
}

impl State {
    fn count(&self) -> u32 {
        match &self.ring {
            Completed::User(ring) => ring.count(),
            Completed::Kernel(ring) => ring.count(),
        }
    }
}

impl Cq {
    /// Adds a completion of queue pair `qpn`, and with it what it proves about its send queue. Any context; other
    /// locks may be held.
    ///
    /// Returns whether the consumer has to be told: then [`Cq::notify`] must be called.
    ///
    /// # Errors
    ///
    /// The queue is full: the completion is lost. The consumer hears of it.
    pub(crate) fn push(
        self: &RcuArc<Self>,
        qpn: Qpn,
        wc: &WorkCompletion,
        solicited: bool,
        proof: Option<Proof>,
    ) -> Result<bool, CqOverflow> {
        let mut state = self.state.lock();
        let pushed = match &mut state.ring {
            Completed::User(ring) => ring
                .push(&user_cqe(qpn, wc).to_bytes())
                .map_err(|_| CqOverflow),
            Completed::Kernel(ring) => ring.push(Completion { wc: *wc, proof }),
        };
        if let Err(overflow) = pushed {
            let first = !core::mem::replace(&mut state.overflowed, true);
            drop(state);
            if first {
                let _ = self.dev.workers().enqueue(self.clone());
            }
            return Err(overflow);
        }
        let tell = match state.armed {
            None => false,
            Some(Armed::Any) => true,
            Some(Armed::Solicited) => solicited,
        };
        if tell {
            state.armed = None;
        }
        Ok(tell)
    }

    /// Tells the consumer that there are completions. Process context; no lock may be held.
    ///
    /// A handler that raises a softirq, as those of `ib_alloc_cq` do, has it run at once, and not by a
    /// thread that has to be woken for it.
    pub(crate) fn notify(&self) {
        let _softirqs_after = BhDisabled::new();
        self.handler.completed();
    }
}

impl WorkItem for Cq {
    type Pointer = RcuArc<Self>;

    fn run(this: RcuArc<Self>) {
        this.handler.overflow();
    }
}

/// The completion as a process reads it.
fn user_cqe(qpn: Qpn, wc: &WorkCompletion) -> UserCqe {
    const FLAGS: u32 = wc_flag::GRH | wc_flag::WITH_IMM | wc_flag::WITH_INVALIDATE;
    let mut cqe = UserCqe::zeroed();
    cqe.wr_id = wc.wr_id.into();
    cqe.status = wc.status.into();
    cqe.opcode = wc.opcode.into();
    cqe.byte_len = wc.byte_len.into();
    cqe.ex = match wc.extra {
        Extra::None => [0; 4],
        Extra::Imm(imm) => imm,
        Extra::Invalidated(key) => key.to_ne_bytes(),
    };
    cqe.qp_num = qpn.get().into();
    cqe.src_qp = wc.src_qp.into();
    cqe.wc_flags = (wc.flags() & FLAGS).into();
    cqe.pkey_index = wc.pkey_index.into();
    // CAST: There is one port.
    cqe.port_num = wc.port as u8;
    cqe
}

/// What the core's `ib_cq` owns.
pub struct Handle {
    body: RcuArc<Cq>,
}

impl Handle {
    /// The body.
    pub(crate) fn body(&self) -> &RcuArc<Cq> {
        &self.body
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.body.mapping.close();
        self.body.dev.cqs.put();
    }
}

/// Makes a queue; the caller has taken its place in the quota.
fn make(
    dev: &Arc<RxeDev>,
    handler: Handler,
    entries: u32,
    udata: Option<&mut UserData<'_>>,
) -> Result<(RcuArc<Cq>, u32)> {
    let (ring, capacity, mapping) = match udata {
        Some(udata) => {
            udata.no_input()?;
            udata.require_output(size_of::<CreateCqResp>())?;
            let ring = ProducerRing::new(entries, USER_ELEMENT)?;
            let (mapping, mi) = offer(&udata.mmaps::<Rxe>()?, ring.buf())?;
            udata.respond(&CreateCqResp { mi })?;
            let capacity = ring.capacity();
            (Completed::User(ring), capacity, Some(mapping))
        }
        None => {
            let ring = KernelRing::new(entries)?;
            let capacity = ring.ring.capacity();
            (Completed::Kernel(ring), capacity, None)
        }
    };
    let state = State {
        ring,
        armed: None,
        overflowed: false,
    };
    let body = RcuArc::pin_init(
        pin_init!(Cq {
            dev: dev.clone(),
            handler,
            state <- new_spinlock_irq!(state, "rxe::Cq::state"),
            mapping <- Mapping::new(mapping),
            overflow <- new_work!("rxe::Cq::overflow"),
        }),
        GFP_KERNEL,
    )?;
    Ok((body, capacity))
}

#[vtable]
impl Operations for Handle {
    type Driver = Rxe;

    fn create(
        device: &Device<Rxe>,
        handler: Handler,
        attr: &InitAttr,
        udata: Option<&mut UserData<'_>>,
    ) -> Result<(Self, u32)> {
        if attr.flags != 0 {
            return Err(EOPNOTSUPP);
        }
        if attr.entries == 0 || attr.entries > param::MAX_CQE {
            return Err(EINVAL);
        }
        let dev: &Arc<RxeDev> = device;
        dev.cqs.take()?;
        match make(dev, handler, attr.entries, udata) {
            Ok((body, entries)) => Ok((Self { body }, entries)),
            Err(e) => {
                dev.cqs.put();
                Err(e)
            }
        }
    }

    fn resize(cq: &Shell<Self>, entries: u32, udata: Option<&mut UserData<'_>>) -> Result<u32> {
        let udata = udata.ok_or(EOPNOTSUPP)?;
        udata.no_input()?;
        udata.require_output(size_of::<ResizeCqResp>())?;
        if entries == 0 || entries > param::MAX_CQE {
            return Err(EINVAL);
        }
        // Everything that can fail comes first; then the rings are exchanged in one step.
        let new = ProducerRing::new(entries, USER_ELEMENT)?;
        let capacity = new.capacity();
        let (mapping, mi) = offer(&udata.mmaps::<Rxe>()?, new.buf())?;
        udata.respond(&ResizeCqResp { mi })?;
        let mut state = cq.body.state.lock();
        let result = match &mut state.ring {
            Completed::User(ring) if ring.count() <= entries => ring.resize(new),
            _ => Err((EINVAL, new)),
        };
        drop(state);
        // The memory of either ring is freed without the lock.
        let _old = result.map_err(|(e, _unused)| e)?;
        cq.body.mapping.replace(mapping);
        Ok(capacity)
    }

    fn poll(cq: &Shell<Self>, out: &mut Completions<'_>) {
        let mut state = cq.body.state.lock();
        if let Completed::Kernel(ring) = &mut state.ring {
            while out.room() != 0 {
                let Some(wc) = ring.pop() else { break };
                let _ = out.push(wc);
            }
        }
    }

    fn peek(cq: &Shell<Self>, max: u32) -> u32 {
        cq.body.state.lock().count().min(max)
    }

    fn req_notify(cq: &Shell<Self>, what: Notify) -> bool {
        let mut state = cq.body.state.lock();
        if !what.solicited_only {
            state.armed = Some(Armed::Any);
        } else if state.armed.is_none() {
            state.armed = Some(Armed::Solicited);
        }
        what.report_missed && state.count() != 0
    }
}
