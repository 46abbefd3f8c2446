// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues.
//!
//! The queue pairs of one shared queue take requests from it under its lock, each into memory of
//! its own. When fewer requests are left than the limit says, the consumer is told, once, by a
//! worker: the queue pair that took the last one holds locks.

#![forbid(unsafe_code)]

use super::{
    device::RxeDev,
    mapping::{
        offer,
        Mapping, //
    },
    param,
    pd::{
        self,
        Pd, //
    },
    queue::ConsumerRing,
    rq::{
        KernelRq,
        Taken, //
    },
    verbs::Rxe, //
};
use crate::{
    abstractions::{
        rdma::{
            pd::Shell as PdShell,
            srq::{
                Attr,
                AttrMask,
                Handler,
                Kind,
                Operations,
                Shell, //
            },
            wr::RecvWrs,
            UserData, //
        },
        sync::RcuArc, //
    },
    proto::{
        effect::{
            RecvFault,
            RecvTaken, //
        },
        uabi::{
            CreateSrqResp,
            MmInfo,
            ModifySrqCmd,
            RECV_DATA_OFFSET,
            SGE_SIZE, //
        }, //
    }, //
};
use core::mem::size_of;
use kernel::{
    impl_has_work,
    new_work,
    prelude::*,
    sync::{
        new_spinlock_irq,
        Arc,
        SpinLockIrq, //
    },
    uaccess::{
        UserPtr,
        UserSlice, //
    },
    workqueue::{
        Work,
        WorkItem, //
    }, //
};
use zerocopy::IntoBytes;

/// A shared receive queue.
#[pin_data]
pub struct Srq {
    dev: Arc<RxeDev>,
    pd: RcuArc<Pd>,
    number: u32,
    handler: Handler,
    max_sge: u8,
    /// The size of a request in the ring of a process.
    slot_size: usize,
    #[pin]
    queue: SpinLockIrq<Queue>,
    #[pin]
    mapping: Mapping,
    #[pin]
    limit_reached: Work<Srq>,
}

impl_has_work! {
    impl HasWork<Self> for Srq { self.limit_reached }
}

struct Queue {
    requests: Requests,
    /// Tell the consumer when fewer are left; 0: do not.
    limit: u32,
}

enum Requests {
    User(ConsumerRing),
    Kernel(Pin<KBox<KernelRq>>),
}

impl Requests {
    fn len(&self) -> u32 {
        match self {
            Self::User(ring) => ring.available(),
            Self::Kernel(rq) => rq.len(),
        }
    }

    fn capacity(&self) -> u32 {
        match self {
            Self::User(ring) => ring.capacity(),
            Self::Kernel(rq) => rq.capacity(),
        }
    }
}

impl Srq {
    /// The largest number of buffers of a request.
    pub(crate) fn max_sge(&self) -> u8 {
        self.max_sge
    }

    /// The size of a request in the ring of a process; 0 if a kernel consumer posts.
    pub(crate) fn slot_size(&self) -> usize {
        self.slot_size
    }

    /// Takes the next request; its buffers go to `to`. Any context; other locks may be held.
    pub(crate) fn take(self: &RcuArc<Self>, to: &mut Taken) -> Result<RecvTaken, RecvFault> {
        let mut queue = self.queue.lock();
        let taken = match &queue.requests {
            Requests::User(ring) => to.take_user(ring, self.max_sge),
            Requests::Kernel(rq) => rq.take(to),
        };
        let tell = taken.is_ok() && queue.requests.len() < queue.limit;
        if tell {
            queue.limit = 0;
        }
        drop(queue);
        if tell {
            let _ = self.dev.workers().enqueue(self.clone());
        }
        taken
    }
}

impl WorkItem for Srq {
    type Pointer = RcuArc<Self>;

    fn run(this: RcuArc<Self>) {
        this.handler.limit_reached();
    }
}

/// What the core's `ib_srq` owns.
pub struct Handle {
    body: RcuArc<Srq>,
}

impl Handle {
    /// The body.
    pub(crate) fn body(&self) -> &RcuArc<Srq> {
        &self.body
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.body.dev.srqs.remove(self.body.number);
        self.body.mapping.close();
    }
}

/// Checks the number of requests a queue is to have.
fn check_max_wr(max_wr: u32) -> Result {
    if (1..=param::MAX_SRQ_WR).contains(&max_wr) {
        Ok(())
    } else {
        Err(EINVAL)
    }
}

/// Makes the ring of a process.
fn user_ring(max_wr: u32, max_sge: u8) -> Result<ConsumerRing> {
    let size = RECV_DATA_OFFSET + usize::from(max_sge) * SGE_SIZE;
    ConsumerRing::new(max_wr, u32::try_from(size)?, RECV_DATA_OFFSET)
}

#[vtable]
impl Operations for Handle {
    type Driver = Rxe;

    fn create(
        pd: &PdShell<pd::Handle>,
        handler: Handler,
        kind: Kind,
        attr: &mut Attr,
        mut udata: Option<&mut UserData<'_>>,
    ) -> Result<Self> {
        if let Some(udata) = &mut udata {
            udata.no_input()?;
            udata.require_output(size_of::<CreateSrqResp>())?;
        }
        if kind != Kind::Basic {
            return Err(EOPNOTSUPP);
        }
        check_max_wr(attr.max_wr)?;
        if attr.max_sge > param::MAX_SRQ_SGE || attr.limit > attr.max_wr {
            return Err(EINVAL);
        }
        let max_sge = u8::try_from(attr.max_sge.max(1))?;
        let pd = pd.body();
        let dev = pd.dev();
        let reserved = dev.srqs.reserve(GFP_KERNEL)?;
        let number = reserved.id();
        let (requests, slot_size, mapping) = match udata {
            Some(udata) => {
                let ring = user_ring(attr.max_wr, max_sge)?;
                let (mapping, mi) = offer(&udata.mmaps::<Rxe>()?, ring.buf())?;
                udata.respond(&CreateSrqResp {
                    mi,
                    srq_num: number.into(),
                    reserved: 0.into(),
                })?;
                let slot_size = ring.elem_size();
                (Requests::User(ring), slot_size, Some(mapping))
            }
            None => {
                let rq = KernelRq::new(attr.max_wr, max_sge)?;
                (Requests::Kernel(rq), 0, None)
            }
        };
        attr.max_wr = requests.capacity();
        attr.max_sge = max_sge.into();
        let queue = Queue {
            requests,
            limit: attr.limit,
        };
        let body = RcuArc::pin_init(
            pin_init!(Srq {
                dev: dev.clone(),
                pd: pd.clone(),
                number,
                handler,
                max_sge,
                slot_size,
                queue <- new_spinlock_irq!(queue, "rxe::Srq::queue"),
                mapping <- Mapping::new(mapping),
                limit_reached <- new_work!("rxe::Srq::limit_reached"),
            }),
            GFP_KERNEL,
        )?;
        reserved.publish(body.clone());
        Ok(Self { body })
    }

    fn modify(
        srq: &Shell<Self>,
        attr: &Attr,
        mask: AttrMask,
        udata: Option<&mut UserData<'_>>,
    ) -> Result {
        let body = &srq.body;
        let resize = mask.contains(AttrMask::MAX_WR);
        let limit = mask.contains(AttrMask::LIMIT).then_some(attr.limit);
        if !resize {
            if let Some(udata) = udata {
                // Processes send the command whatever they want to change.
                udata.read::<ModifySrqCmd>(size_of::<ModifySrqCmd>())?;
            }
            if let Some(limit) = limit {
                let mut queue = body.queue.lock();
                if limit > queue.requests.capacity() {
                    return Err(EINVAL);
                }
                queue.limit = limit;
            }
            return Ok(());
        }

        // Only the ring of a process can be exchanged. All that can fail comes first.
        let udata = udata.ok_or(EOPNOTSUPP)?;
        let command: ModifySrqCmd = udata.read(size_of::<ModifySrqCmd>())?;
        check_max_wr(attr.max_wr)?;
        let new = user_ring(attr.max_wr, body.max_sge)?;
        if limit.is_some_and(|limit| limit > new.capacity()) {
            return Err(EINVAL);
        }
        let (mapping, info) = offer(&udata.mmaps::<Rxe>()?, new.buf())?;
        // The process names the place for the answer in its command; it is part of the interface.
        let to = UserPtr::from_addr(usize::try_from(command.mmap_info_addr.get())?);
        UserSlice::new(to, size_of::<MmInfo>())
            .writer()
            .write_slice(info.as_bytes())?;

        let mut queue = body.queue.lock();
        let keeps_limit = limit.is_some() || queue.limit <= new.capacity();
        let result = match &mut queue.requests {
            Requests::User(ring) if keeps_limit => ring.resize(new),
            _ => Err((EINVAL, new)),
        };
        if let (Ok(_), Some(limit)) = (&result, limit) {
            queue.limit = limit;
        }
        drop(queue);
        // The memory of either ring is freed without the lock.
        let _old = result.map_err(|(e, _unused)| e)?;
        body.mapping.replace(mapping);
        Ok(())
    }

    fn query(srq: &Shell<Self>) -> Result<Attr> {
        let queue = srq.body.queue.lock();
        Ok(Attr {
            max_wr: queue.requests.capacity(),
            max_sge: srq.body.max_sge.into(),
            limit: queue.limit,
        })
    }

    fn post_recv(srq: &Shell<Self>, wrs: &mut RecvWrs<'_>) -> Result {
        match &srq.body.queue.lock().requests {
            Requests::Kernel(rq) => rq.post(wrs),
            // A process posts to its ring by itself.
            Requests::User(_) => Err(EINVAL),
        }
    }
}
