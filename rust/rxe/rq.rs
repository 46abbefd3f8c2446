// SPDX-License-Identifier: GPL-2.0

//! Receive queues: where the receive work requests of a queue pair come from.
//!
//! The ring of a process, private memory of a kernel consumer, or a queue that is shared. A request is copied out whole when it is taken ([`Taken`]); nobody looks at the slot again.

#![forbid(unsafe_code)]

use super::{
    queue::ConsumerRing,
    srq::Srq, //
};
use crate::{
    abstractions::{
        rdma::wr,
        sync::RcuArc, //
    },
    proto::{
        effect::{
            RecvFault,
            RecvTaken, //
        },
        num::{
            usize_from,
            Key, //
        },
        wr::{
            self as proto_wr,
            Sge,
            MAX_MESSAGE, //
        }, //
    },
};
use kernel::{
    alloc::KVVec,
    prelude::*,
    sync::{
        new_spinlock_irq,
        SpinLockIrq, //
    }, //
};

/// A receive queue.
pub(crate) enum RecvQueue {
    /// Of a user process.
    User(UserRq),
    /// Of a kernel consumer.
    Kernel(Pin<KBox<KernelRq>>),
    /// Shared with other queue pairs.
    Shared(RcuArc<Srq>),
}

/// The receive queue of a user process.
pub(crate) struct UserRq {
    /// The ring that the process writes to.
    pub(crate) ring: ConsumerRing,
    /// The largest number of buffers of a request.
    pub(crate) max_sge: u8,
}

/// The receive queue of a kernel consumer.
#[pin_data]
pub(crate) struct KernelRq {
    #[pin]
    ring: SpinLockIrq<KernelRing>,
}

struct KernelRing {
    posted: u32,
    taken: u32,
    depth: u32,
    mask: u32,
    max_sge: usize,
    wrs: KVVec<proto_wr::RecvWr>,
    sges: KVVec<Sge>,
}

/// The buffers of the request that was taken last.
pub(crate) struct Taken {
    sges: KVVec<Sge>,
    count: usize,
    scratch: KVVec<u8>,
}

impl Taken {
    /// Makes room for a request with `max_sge` buffers, in a slot of at most `slot` bytes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(max_sge: u8, slot: usize) -> Result<Self> {
        Ok(Self {
            sges: KVVec::from_elem(Sge::default(), max_sge.into(), GFP_KERNEL)?,
            count: 0,
            scratch: KVVec::from_elem(0, slot, GFP_KERNEL)?,
        })
    }

    /// Returns the buffers.
    pub(crate) fn sges(&self) -> &[Sge] {
        self.sges.get(..self.count).unwrap_or(&[])
    }

    /// Copies the request in a slot of a user ring.
    pub(crate) fn take_user(
        &mut self,
        ring: &ConsumerRing,
        max_sge: u8,
    ) -> Result<RecvTaken, RecvFault> {
        self.count = 0;
        let (_, bytes) = ring.fetch(&mut self.scratch).ok_or(RecvFault::Empty)?;
        let result = proto_wr::parse_recv(bytes, max_sge);
        let taken = match result {
            Ok(wr) => {
                for (i, sge) in (0..wr.num_sge).zip(self.sges.iter_mut()) {
                    *sge = proto_wr::parse_recv_sge(bytes, i)
                        .ok_or(RecvFault::Malformed { wr_id: wr.wr_id })?;
                }
                self.count = wr.num_sge.into();
                Ok(RecvTaken {
                    wr_id: wr.wr_id,
                    length: wr.length,
                })
            }
            Err(bad) => Err(RecvFault::Malformed { wr_id: bad.wr_id }),
        };
        ring.release(1);
        taken
    }
}

impl RecvQueue {
    /// Takes the next request; its buffers go to `to`.
    pub(crate) fn take(&self, to: &mut Taken) -> Result<RecvTaken, RecvFault> {
        match self {
            Self::User(rq) => to.take_user(&rq.ring, rq.max_sge),
            Self::Kernel(rq) => rq.take(to),
            Self::Shared(srq) => srq.take(to),
        }
    }

    /// Forgets all requests, as a queue pair in the reset state does.
    pub(crate) fn clear(&self) {
        match self {
            Self::User(rq) => rq.ring.reset(),
            Self::Kernel(rq) => rq.clear(),
            // The requests are not of this queue pair.
            Self::Shared(_) => {}
        }
    }
}

impl KernelRq {
    /// Allocates a receive queue for `depth` requests of up to `max_sge` buffers.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` for a depth beyond 2^31.
    pub(crate) fn new(depth: u32, max_sge: u8) -> Result<Pin<KBox<Self>>> {
        let slots = depth.max(1).checked_next_power_of_two().ok_or(EINVAL)?;
        let count = usize_from(slots);
        let empty = proto_wr::RecvWr {
            wr_id: 0,
            num_sge: 0,
            length: 0,
        };
        let ring = KernelRing {
            posted: 0,
            taken: 0,
            depth,
            mask: slots.wrapping_sub(1),
            max_sge: max_sge.into(),
            wrs: KVVec::from_elem(empty, count, GFP_KERNEL)?,
            sges: KVVec::from_elem(
                Sge::default(),
                count.checked_mul(max_sge.into()).ok_or(ENOMEM)?,
                GFP_KERNEL,
            )?,
        };
        KBox::pin_init(
            pin_init!(Self {
                ring <- new_spinlock_irq!(ring, "KernelRq::ring"),
            }),
            GFP_KERNEL,
        )
    }

    /// Copies a list of requests to the queue, up to the first that cannot be taken. Any context.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if the queue is full, `EINVAL` if a request is not valid for it.
    pub(crate) fn post(&self, wrs: &mut wr::RecvWrs<'_>) -> Result {
        let mut ring = self.ring.lock();
        for wr in wrs {
            if ring.posted.wrapping_sub(ring.taken) >= ring.depth {
                return Err(ENOMEM);
            }
            ring.push(&wr)?;
        }
        Ok(())
    }

    /// Takes the next request; its buffers go to `to`.
    pub(crate) fn take(&self, to: &mut Taken) -> Result<RecvTaken, RecvFault> {
        to.count = 0;
        let mut ring = self.ring.lock();
        if ring.taken == ring.posted {
            return Err(RecvFault::Empty);
        }
        let at = usize_from(ring.taken & ring.mask);
        ring.taken = ring.taken.wrapping_add(1);
        let wr = *ring.wrs.get(at).ok_or(RecvFault::Empty)?;
        let start = at.wrapping_mul(ring.max_sge);
        let list = ring
            .sges
            .get(start..start.wrapping_add(usize::from(wr.num_sge)))
            .ok_or(RecvFault::Malformed { wr_id: wr.wr_id })?;
        for (to, from) in to.sges.iter_mut().zip(list) {
            *to = *from;
        }
        to.count = wr.num_sge.into();
        Ok(RecvTaken {
            wr_id: wr.wr_id,
            length: wr.length,
        })
    }

    /// Returns how many requests are in the queue.
    pub(crate) fn len(&self) -> u32 {
        let ring = self.ring.lock();
        ring.posted.wrapping_sub(ring.taken)
    }

    /// Returns how many requests fit.
    pub(crate) fn capacity(&self) -> u32 {
        self.ring.lock().depth
    }

    fn clear(&self) {
        let mut ring = self.ring.lock();
        ring.taken = ring.posted;
    }
}

impl KernelRing {
    fn push(&mut self, wr: &wr::RecvWr<'_>) -> Result {
        let sges = wr.sges();
        if sges.len() > self.max_sge {
            return Err(EINVAL);
        }
        let mut length = 0u64;
        for sge in sges {
            length = length.saturating_add(sge.length().into());
        }
        if length > MAX_MESSAGE.into() {
            return Err(EINVAL);
        }
        let at = usize_from(self.posted & self.mask);
        let start = at.wrapping_mul(self.max_sge);
        let list = self
            .sges
            .get_mut(start..start.wrapping_add(self.max_sge))
            .ok_or(EINVAL)?;
        for (to, from) in list.iter_mut().zip(sges) {
            *to = Sge {
                addr: from.addr(),
                length: from.length(),
                lkey: Key::new(from.lkey()),
            };
        }
        *self.wrs.get_mut(at).ok_or(EINVAL)? = proto_wr::RecvWr {
            wr_id: wr.wr_id(),
            num_sge: u8::try_from(sges.len()).map_err(|_| EINVAL)?,
            length: u32::try_from(length).map_err(|_| EINVAL)?,
        };
        self.posted = self.posted.wrapping_add(1);
        Ok(())
    }
}
