// SPDX-License-Identifier: GPL-2.0

//! Send queues: where the send work requests of a queue pair come from.
//!
//! The send queue of a user process is the ring that `rdma_user_rxe.h` describes: the process writes slots and
//! the producer index, and the send worker copies each slot once. The send queue of a kernel consumer is
//! private memory ([`KernelSq`]): `ib_post_send` copies the request there, in whatever context it was called,
//! under a lock that disables interrupts, and does nothing else.
//!
//! From both the send worker moves requests to the window of the send engine. A slot of the send queue is free
//! again when its request has completed, not when it was fetched: inline data stays in the slot until then,
//! and a consumer that counts completions finds its count to be right.
//!
//! Two counts of a kernel send queue are kept apart: requests that have completed, whose slots are free, and
//! requests that completions have proven to be done that the consumer has polled ([`Proof`]). A consumer may post
//! only as far as the latter reach. One that does not keep to that is served and reported.

#![forbid(unsafe_code)]

use super::{
    device::RxeDev,
    mr::FastReg,
    queue::ConsumerRing,
    sq_window::{
        none_vec,
        Window, //
    }, //
    verbs::Rxe,
};
use crate::{
    abstractions::rdma::wr,
    proto::{
        num::{
            usize_from,
            Key,
            PdId,
            Qpn,
            Slot, //
        },
        qpstate::QpType,
        sender::Sender,
        sqrule::{
            self,
            Pattern,
            PostRule, //
        },
        uabi::{
            Av,
            SEND_DATA_OFFSET, //
        },
        window::SendEntry,
        wire::Imm,
        wr::{
            self as proto_wr,
            SendFlags,
            SendLimits,
            SendOp,
            SendWr,
            Sge,
            UdTarget,
            ATOMIC_LEN,
            MAX_MESSAGE, //
        }, //
    },
};
use kernel::{
    alloc::KVVec,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        new_spinlock_irq,
        Arc,
        SpinLockIrq, //
    }, //
};
use zerocopy::FromZeros;

/// The send engine of a queue pair.
pub(crate) type Engine = Sender<KVVec<SendEntry>>;

/// What is the same for all requests of a queue pair.
#[derive(Clone, Copy)]
pub(crate) struct SqParam {
    /// The type of the queue pair.
    pub(crate) qp_type: QpType,
    /// Every request is signaled, whatever its flags say.
    pub(crate) signal_all: bool,
    /// What a request may have.
    pub(crate) limits: SendLimits,
}

/// The address handles that the requests of a queue pair may name.
#[derive(Clone, Copy)]
pub(crate) struct Handles<'a> {
    /// The device.
    pub(crate) dev: &'a RxeDev,
    /// The protection domain of the queue pair.
    pub(crate) pd: PdId,
    /// Whether requests name handles at all.
    pub(crate) datagram: bool,
}

impl Handles<'_> {
    /// Finds where a user datagram goes to. None if that is nowhere: then the request fails.
    fn av(&self, number: u32, wqe: &[u8]) -> Option<Av> {
        if number != 0 {
            return Some(self.dev.address_handle(number, self.pd)?.av());
        }
        // A provider that does not know of handles in the kernel sends the address along.
        proto_wr::parse_av(wqe)
    }
}

/// A send queue.
pub(crate) enum SendQueue {
    /// Of a user process.
    User(UserSq),
    /// Of a kernel consumer.
    Kernel(Pin<KBox<KernelSq>>),
}

/// The send queue of a user process.
pub(crate) struct UserSq {
    /// The ring that the process writes to.
    pub(crate) ring: ConsumerRing,
}

/// The send queue of a kernel consumer.
#[pin_data]
pub(crate) struct KernelSq {
    depth: u32,
    #[pin]
    ring: SpinLockIrq<KernelRing>,
    /// Requests completed since the queue was made; written by the send worker alone.
    completed: Atomic<u32>,
    /// Requests that are proven to have completed.
    proven: Arc<Atomic<u32>>,
    /// The consumer has posted without proof, and nobody has been told.
    untold: Atomic<bool>,
}

/// What a completion proves to a consumer that polls it: that its request, and all before it, have completed.
pub(crate) struct Proof {
    proven: Arc<Atomic<u32>>,
    count: u32,
}

impl Proof {
    /// The consumer polls the completion. Completions of a queue pair are polled one at a time.
    pub(crate) fn polled(self) {
        // A completion from before a reset may be polled long after.
        if sqrule::is_ahead(self.count, self.proven.load(Relaxed)) {
            self.proven.store(self.count, Release);
        }
    }
}

/// What became of a list of requests.
pub(crate) struct Posted {
    /// How many were taken.
    pub(crate) taken: u32,
    /// How many of them into space that is not proven to be free.
    pub(crate) unproven: u32,
    /// What the one after them met.
    pub(crate) result: Result,
}

/// The slots of a kernel send queue. All counters run freely.
struct KernelRing {
    /// Requests posted.
    posted: u32,
    /// Requests taken by the send worker.
    fetched: u32,
    mask: u32,
    rule: PostRule,
    max_sge: usize,
    max_inline: usize,
    wrs: KVVec<SendWr>,
    sges: KVVec<Sge>,
    avs: KVVec<Av>,
    registrations: KVVec<Option<FastReg>>,
    inline: KVVec<u8>,
}

impl KernelSq {
    /// Allocates a send queue for `depth` requests.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` for a depth beyond 2^31.
    pub(crate) fn new(depth: u32, param: &SqParam) -> Result<Pin<KBox<Self>>> {
        let slots = depth.max(1).checked_next_power_of_two().ok_or(EINVAL)?;
        let count = usize_from(slots);
        let max_sge = usize::from(param.limits.max_sge);
        let max_inline = usize_from(param.limits.max_inline);
        let datagram = matches!(param.qp_type, QpType::Ud | QpType::Gsi);
        let reliable = param.qp_type == QpType::Rc;
        let ring = KernelRing {
            posted: 0,
            fetched: 0,
            mask: slots.wrapping_sub(1),
            rule: PostRule::new(depth),
            max_sge,
            max_inline,
            wrs: KVVec::from_elem(SendWr::EMPTY, count, GFP_KERNEL)?,
            sges: KVVec::from_elem(
                Sge::default(),
                count.checked_mul(max_sge).ok_or(ENOMEM)?,
                GFP_KERNEL,
            )?,
            avs: KVVec::from_elem(
                Av::new_zeroed(),
                if datagram { count } else { 0 },
                GFP_KERNEL,
            )?,
            registrations: none_vec(if reliable { count } else { 0 })?,
            inline: KVVec::from_elem(0, count.checked_mul(max_inline).ok_or(ENOMEM)?, GFP_KERNEL)?,
        };
        let proven = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        KBox::pin_init(
            pin_init!(Self {
                depth,
                ring <- new_spinlock_irq!(ring, "KernelSq::ring"),
                completed: Atomic::new(0),
                proven,
                untold: Atomic::new(false),
            }),
            GFP_KERNEL,
        )
    }

    /// Copies a list of requests to the queue, up to the first that cannot be taken. Any context.
    ///
    /// `watched` says whether the consumer has to keep to the rule: when everything is flushed, it does not.
    ///
    /// The error of one that cannot be taken is `ENOMEM` if the queue is full, `EINVAL` if it is not valid for
    /// the queue pair.
    pub(crate) fn post(
        &self,
        param: &SqParam,
        wrs: &mut wr::SendWrs<'_, Rxe>,
        watched: bool,
    ) -> Posted {
        let mut posted = Posted {
            taken: 0,
            unproven: 0,
            result: Ok(()),
        };
        let mut ring = self.ring.lock();
        let proven = self.proven.load(Acquire);
        for wr in wrs {
            // Only the send worker frees slots, so a slot that is free now stays free.
            let before = ring.posted;
            let used = before.wrapping_sub(self.completed.load(Acquire));
            posted.result = if used >= self.depth {
                Err(ENOMEM)
            } else {
                ring.push(param, &wr)
            };
            if posted.result.is_err() {
                break;
            }
            posted.taken = posted.taken.wrapping_add(1);
            let signaled = wr.flags().signaled || param.signal_all;
            if ring.rule.post(before, proven, signaled) && watched {
                posted.unproven = posted.unproven.wrapping_add(1);
            }
        }
        if posted.unproven != 0 {
            self.untold.store(true, Release);
        }
        posted
    }

    /// Forgets all requests, as a queue pair in the reset state does.
    fn clear(&self) {
        let mut dropped = 0u32;
        loop {
            // What the request holds is released without the lock.
            let held = {
                let mut ring = self.ring.lock();
                if ring.fetched == ring.posted {
                    self.completed.store(ring.posted, Release);
                    self.proven.store(ring.posted, Release);
                    break;
                }
                let at = usize_from(ring.fetched & ring.mask);
                ring.fetched = ring.fetched.wrapping_add(1);
                ring.registrations.get_mut(at).and_then(Option::take)
            };
            drop(held);
            dropped = dropped.wrapping_add(1);
            if dropped > self.depth {
                break;
            }
        }
    }
}

impl KernelRing {
    /// Copies one request to the next slot, which is free.
    fn push(&mut self, param: &SqParam, wr: &wr::SendWr<'_, Rxe>) -> Result {
        let at = usize_from(self.posted & self.mask);
        let sges = wr.sges();
        if sges.len() > self.max_sge && !wr.flags().inline {
            return Err(EINVAL);
        }
        let mut length = 0u64;
        for sge in sges {
            length = length.saturating_add(sge.length().into());
        }
        if length > MAX_MESSAGE.into() {
            return Err(EINVAL);
        }
        let length = u32::try_from(length).map_err(|_| EINVAL)?;

        let (op, registration) = operation(wr)?;
        if !op.allowed_on(param.qp_type) {
            return Err(EINVAL);
        }
        let ud = match wr.ud() {
            None => UdTarget::default(),
            Some(target) => {
                *self.avs.get_mut(at).ok_or(EINVAL)? = target.ah.ok_or(EINVAL)?.body().av();
                UdTarget {
                    qpn: Qpn::new(target.qpn),
                    qkey: target.qkey,
                    pkey_index: target.pkey_index,
                    ah_num: 0,
                }
            }
        };
        let (length, num_sge) = if op.is_local() {
            (0, 0)
        } else {
            (length, u8::try_from(sges.len()).map_err(|_| EINVAL)?)
        };
        let flags = wr.flags();
        match op {
            SendOp::CompareSwap { va, .. } | SendOp::FetchAdd { va, .. } => {
                if length != ATOMIC_LEN || va % 8 != 0 {
                    return Err(EINVAL);
                }
            }
            _ => {}
        }
        if flags.inline && !op.is_local() {
            if !op.may_inline() || usize_from(length) > self.max_inline {
                return Err(EINVAL);
            }
            let start = at.wrapping_mul(self.max_inline);
            let data = self
                .inline
                .get_mut(start..start.wrapping_add(self.max_inline))
                .ok_or(EINVAL)?;
            if !wr.copy_inline(data) {
                return Err(EINVAL);
            }
        } else {
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
        }
        if let Some(place) = self.registrations.get_mut(at) {
            *place = registration;
        }
        *self.wrs.get_mut(at).ok_or(EINVAL)? = SendWr {
            wr_id: wr.wr_id(),
            op,
            flags: SendFlags {
                signaled: flags.signaled || param.signal_all,
                solicited: flags.solicited,
                fence: flags.fence,
                inline: flags.inline,
            },
            length,
            num_sge,
            ud,
        };
        self.posted = self.posted.wrapping_add(1);
        Ok(())
    }
}

/// Translates what a kernel consumer asks for.
fn operation(wr: &wr::SendWr<'_, Rxe>) -> Result<(SendOp, Option<FastReg>)> {
    let op = match wr.op() {
        wr::SendOp::Send => SendOp::Send,
        wr::SendOp::SendImm(imm) => SendOp::SendImm(Imm(imm)),
        wr::SendOp::SendInv(key) => SendOp::SendInv(Key::new(key)),
        wr::SendOp::Write { va, key } => SendOp::Write {
            va,
            key: Key::new(key),
        },
        wr::SendOp::WriteImm { va, key, imm } => SendOp::WriteImm {
            va,
            key: Key::new(key),
            imm: Imm(imm),
        },
        wr::SendOp::Read { va, key } => SendOp::Read {
            va,
            key: Key::new(key),
        },
        wr::SendOp::CompareSwap {
            va,
            key,
            compare,
            swap,
        } => SendOp::CompareSwap {
            va,
            key: Key::new(key),
            compare,
            swap,
        },
        wr::SendOp::FetchAdd { va, key, add } => SendOp::FetchAdd {
            va,
            key: Key::new(key),
            add,
        },
        wr::SendOp::LocalInv(key) => SendOp::LocalInv(Key::new(key)),
        wr::SendOp::RegMr { mr, key, access } => {
            return Ok((
                SendOp::RegMr {
                    key: Key::new(key),
                    access,
                },
                Some(FastReg::capture(mr)),
            ))
        }
        wr::SendOp::Other => return Err(EINVAL),
    };
    Ok((op, None))
}

impl SendQueue {
    /// Moves requests to the window while both have some room and some requests. Returns how many.
    ///
    /// `handles` are those that user datagrams may name. `scratch` holds one slot of a user
    /// queue; what it contained before and contains after does not matter.
    pub(crate) fn fetch(
        &self,
        param: &SqParam,
        engine: &mut Engine,
        window: &mut Window,
        scratch: &mut [u8],
        handles: Handles<'_>,
    ) {
        match self {
            Self::User(sq) => sq.fetch(param, engine, window, scratch, handles),
            Self::Kernel(sq) => sq.fetch(engine, window),
        }
    }

    /// Frees the slot of the oldest request that was fetched.
    pub(crate) fn release(&self) {
        match self {
            Self::User(sq) => sq.ring.release(1),
            Self::Kernel(sq) => {
                // Only the send worker, our caller, writes the count.
                let done = sq.completed.load(Acquire);
                sq.completed.store(done.wrapping_add(1), Release);
            }
        }
    }

    /// Returns what a completion of the request that was released last proves when it is polled.
    pub(crate) fn proof(&self) -> Option<Proof> {
        match self {
            Self::User(_) => None,
            Self::Kernel(sq) => Some(Proof {
                proven: sq.proven.clone(),
                count: sq.completed.load(Relaxed),
            }),
        }
    }

    /// Returns what a consumer does that has posted without proof; once. Process context.
    pub(crate) fn broken_rule(&self) -> Option<Pattern> {
        match self {
            Self::Kernel(sq) if sq.untold.load(Relaxed) => {
                sq.untold.store(false, Relaxed);
                sq.ring.lock().rule.tell()
            }
            Self::User(_) | Self::Kernel(_) => None,
        }
    }

    /// Copies inline data of the request in a slot of the queue, from `offset` on. False if there is none.
    pub(crate) fn copy_inline(&self, ring_slot: u32, offset: u32, to: &mut [u8]) -> bool {
        match self {
            Self::User(sq) => {
                let at = SEND_DATA_OFFSET.wrapping_add(usize_from(offset));
                sq.ring.copy_slot(ring_slot, at, to)
            }
            Self::Kernel(sq) => {
                let ring = sq.ring.lock();
                let start = usize_from(ring_slot)
                    .wrapping_mul(ring.max_inline)
                    .wrapping_add(usize_from(offset));
                match ring.inline.get(start..start.wrapping_add(to.len())) {
                    Some(from) if from.len() == to.len() => {
                        to.copy_from_slice(from);
                        true
                    }
                    _ => false,
                }
            }
        }
    }

    /// Forgets all requests, as a queue pair in the reset state does.
    pub(crate) fn clear(&self) {
        match self {
            Self::User(sq) => sq.ring.reset(),
            Self::Kernel(sq) => sq.clear(),
        }
    }
}

impl KernelSq {
    fn fetch(&self, engine: &mut Engine, window: &mut Window) {
        let mut ring = self.ring.lock();
        let ring = &mut *ring;
        while ring.fetched != ring.posted && engine.room() != 0 {
            let at = ring.fetched & ring.mask;
            let index = usize_from(at);
            let Some(wr) = ring.wrs.get(index) else { break };
            let Ok(slot) = engine.push(*wr) else { break };
            let start = index.wrapping_mul(ring.max_sge);
            if let Some(list) = ring
                .sges
                .get(start..start.wrapping_add(usize::from(wr.num_sge)))
            {
                for (to, from) in window.sges_mut(slot).iter_mut().zip(list) {
                    *to = *from;
                }
            }
            if let Some(av) = ring.avs.get(index) {
                window.set_av(slot, Some(*av));
            }
            if let Some(registration) = ring.registrations.get_mut(index) {
                window.set_registration(slot, registration.take());
            }
            window.set_ring_slot(slot, at);
            ring.fetched = ring.fetched.wrapping_add(1);
        }
    }
}

impl UserSq {
    fn fetch(
        &self,
        param: &SqParam,
        engine: &mut Engine,
        window: &mut Window,
        scratch: &mut [u8],
        handles: Handles<'_>,
    ) {
        while engine.room() != 0 {
            let Some((ring_slot, bytes)) = self.ring.fetch(scratch) else {
                break;
            };
            let pushed = match proto_wr::parse_send(bytes, param.qp_type, &param.limits) {
                Ok(mut wr) => {
                    wr.flags.signaled |= param.signal_all;
                    self.accept(&wr, bytes, engine, window, handles)
                }
                Err(bad) => engine.push_bad(bad.wr_id, bad.status()).ok(),
            };
            match pushed {
                Some(slot) => window.set_ring_slot(slot, ring_slot),
                None => break,
            }
        }
    }

    fn accept(
        &self,
        wr: &SendWr,
        bytes: &[u8],
        engine: &mut Engine,
        window: &mut Window,
        handles: Handles<'_>,
    ) -> Option<Slot> {
        let slot = engine.push(*wr).ok()?;
        if !wr.flags.inline {
            for (i, sge) in (0..wr.num_sge).zip(window.sges_mut(slot).iter_mut()) {
                *sge = proto_wr::parse_sge(bytes, i)?;
            }
        }
        if handles.datagram {
            window.set_av(slot, handles.av(wr.ud.ah_num, bytes));
        }
        Some(slot)
    }
}
