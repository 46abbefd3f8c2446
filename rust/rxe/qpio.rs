// SPDX-License-Identifier: GPL-2.0

//! What the packet paths see of a queue pair.
//!
//! Receiving packets (softirq) reads it without locks: which packets are admitted, from whom, and where they go to.

#![forbid(unsafe_code)]

use super::{
    task::Task,
    tx::Addresses, //
};
use crate::{
    abstractions::{
        net::{
            PushError,
            RxSkb,
            SkbQueue,
            TxCredits,
            TxWake, //
        },
        sync::{
            Borrowed,
            RcuArc, //
        },
        work::{
            Timer,
            TimerCallback, //
        }, //
    },
    proto::{
        counters::DropReason,
        opcode::{
            Opcode,
            Service, //
        },
        qpstate::{
            QpState,
            QpType, //
        },
        time::Duration, //
    }, //
};
use kernel::{
    prelude::*,
    sync::atomic::{
        Acquire,
        Atomic,
        Full,
        Relaxed,
        Release, //
    },
    workqueue::{
        HasWork,
        Queue,
        WorkItem, //
    }, //
};

/// The work item of the send worker.
pub(crate) const SEND_WORK: u64 = 0;

/// The work item of the receive worker.
pub(crate) const RECV_WORK: u64 = 1;

/// Packets that a queue pair keeps for its workers; more are dropped.
const QUEUE_LIMIT: i32 = 4096;

/// The send worker, among those that wait for packets to leave the network stack.
const SENDER: u32 = 1 << SEND_WORK;

/// The receive worker, among those.
const RECEIVER: u32 = 1 << RECV_WORK;

/// Requests are admitted.
const REQUESTS: u32 = 1 << 0;
/// Responses are admitted.
const RESPONSES: u32 = 1 << 1;
/// Nothing is admitted ever again.
const CLOSED: u32 = 1 << 2;

/// A queue pair, as the packet paths see it.
pub(crate) trait Endpoint:
    Sized
    + Send
    + Sync
    + 'static
    + HasWork<Self, SEND_WORK>
    + HasWork<Self, RECV_WORK>
    + WorkItem<SEND_WORK, Pointer = RcuArc<Self>>
    + WorkItem<RECV_WORK, Pointer = RcuArc<Self>>
{
    /// Returns its packet side.
    fn io(&self) -> &QpIo<Self>;

    /// Returns the queue that its workers run in.
    fn queue(&self) -> &Queue;
}

impl<T: Endpoint> TxWake for T {
    fn wake(this: &RcuArc<Self>, who: u32) {
        if who & SENDER != 0 {
            this.io().kick_send(this.borrow());
        }
        if who & RECEIVER != 0 {
            this.io().kick_recv(this.borrow());
        }
    }
}

impl<T: Endpoint> TimerCallback for T {
    fn expired(this: RcuArc<Self>) {
        this.io().kick_send(this.borrow());
    }
}

/// The packet side of a queue pair.
#[pin_data]
pub(crate) struct QpIo<T: Endpoint> {
    /// Which packets are admitted: [`REQUESTS`], [`RESPONSES`], [`CLOSED`].
    gate: Atomic<u32>,
    /// How many verbs want the locks that the workers hold.
    wanted: Atomic<u32>,
    qp_type: QpType,
    /// The queue key of a datagram queue pair.
    qkey: Atomic<u32>,
    /// Whom a connected queue pair is connected to.
    peer: Peer,
    /// Packets for the responder.
    pub(crate) requests: SkbQueue,
    /// Packets for the requester.
    pub(crate) responses: SkbQueue,
    /// The worker of requester and completer.
    pub(crate) send_task: Task<SEND_WORK>,
    /// The worker of the responder.
    pub(crate) recv_task: Task<RECV_WORK>,
    /// Packets in the network stack.
    pub(crate) credits: TxCredits<T>,
    #[pin]
    timer: Timer<T>,
}

impl<T: Endpoint> QpIo<T> {
    /// Makes the packet side of a queue pair in the reset state.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(qp_type: QpType) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            gate: Atomic::new(0),
            wanted: Atomic::new(0),
            qp_type,
            qkey: Atomic::new(0),
            peer: Peer::new(),
            requests: SkbQueue::new(QUEUE_LIMIT),
            responses: SkbQueue::new(QUEUE_LIMIT),
            send_task: Task::new(),
            recv_task: Task::new(),
            credits: TxCredits::new()?,
            timer <- Timer::new(),
        }? Error)
    }

    /// Admits the packets that a queue pair in `state` takes.
    ///
    /// The addresses and the queue key must have been set before.
    pub(crate) fn set_state(&self, state: QpState) {
        let mut admitted = 0;
        if state.admits_requests() {
            admitted |= REQUESTS;
        }
        if state.admits_responses() {
            admitted |= RESPONSES;
        }
        let mut seen = self.gate.load(Relaxed);
        while seen & CLOSED == 0 {
            match self.gate.cmpxchg(seen, admitted, Release) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// Sets the queue key.
    pub(crate) fn set_qkey(&self, qkey: u32) {
        self.qkey.store(qkey, Relaxed);
    }

    /// Returns the queue key.
    #[inline]
    pub(crate) fn qkey(&self) -> u32 {
        self.qkey.load(Relaxed)
    }

    /// Returns the type of the queue pair.
    #[inline]
    pub(crate) fn qp_type(&self) -> QpType {
        self.qp_type
    }

    /// Sets whom the queue pair is connected to: our address, the peer's, and the number of the
    /// network device that has our address.
    ///
    /// To be called while no packets are admitted.
    pub(crate) fn set_peer(&self, addresses: &Addresses, ifindex: u32) {
        self.peer.set(addresses, ifindex);
    }

    /// Returns whom the queue pair is connected to.
    #[inline]
    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Tells whether the queue pair takes packets of this kind now.
    ///
    /// # Errors
    ///
    /// The reason to drop the packet.
    #[inline]
    pub(crate) fn admits(&self, opcode: Opcode) -> Result<(), DropReason> {
        let gate = self.gate.load(Acquire);
        if opcode.service() != self.qp_type.service() {
            return Err(match opcode.service() {
                Service::Cnp => DropReason::Congestion,
                Service::Rc | Service::Uc | Service::Ud => DropReason::WrongService,
            });
        }
        let wanted = if opcode.is_request() {
            REQUESTS
        } else {
            RESPONSES
        };
        if gate & wanted != 0 {
            Ok(())
        } else if gate & CLOSED != 0 {
            Err(DropReason::QpClosing)
        } else {
            Err(DropReason::QpState)
        }
    }

    /// Queues an admitted packet for the worker that it is for, and leaves it to the caller to kick that. Any context.
    #[inline]
    pub(crate) fn push(&self, request: bool, skb: RxSkb) -> Result<(), DropReason> {
        let queue = if request {
            &self.requests
        } else {
            &self.responses
        };
        queue.push(skb).map_err(|(error, _skb)| match error {
            PushError::Full => DropReason::QueueFull,
            PushError::Closed => DropReason::QpClosing,
        })
    }

    /// Says that the requester or completer has something to do. Any context.
    #[inline]
    pub(crate) fn kick_send(&self, this: Borrowed<'_, T>) {
        self.send_task.kick(this, this.queue());
    }

    /// Says that the responder has something to do. Any context.
    #[inline]
    pub(crate) fn kick_recv(&self, this: Borrowed<'_, T>) {
        self.recv_task.kick(this, this.queue());
    }

    /// Tells whether the requester may send one more packet; if not, its worker will be kicked.
    #[inline]
    pub(crate) fn sender_may_send(&self) -> bool {
        self.credits.may_send(SENDER)
    }

    /// Tells whether the responder may send one more packet; if not, its worker will be kicked.
    #[inline]
    pub(crate) fn receiver_may_send(&self) -> bool {
        self.credits.may_send(RECEIVER)
    }

    /// Has the send worker kicked after `delay` or before. Any context.
    #[inline]
    pub(crate) fn arm_timer(&self, this: Borrowed<'_, T>, delay: Duration) {
        self.timer.arm_before(this, delay.as_nanos());
    }

    /// Refuses everything from now on: packets, kicks, and whoever asks [`QpIo::is_closed`].
    ///
    /// Workers that run already are not waited for: take the locks of both sides afterwards.
    pub(crate) fn close(&self) {
        self.gate.xchg(CLOSED, Full);
        self.requests.close();
        self.responses.close();
        self.send_task.close();
        self.recv_task.close();
    }

    /// Tells whether the queue pair is being destroyed.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.gate.load(Acquire) & CLOSED != 0
    }

    /// Has the workers release their locks soon, until the result is dropped: verbs do not wait for all
    /// that a worker has to do.
    pub(crate) fn want(&self) -> Wanted<'_> {
        self.wanted.add(1, Relaxed);
        Wanted(&self.wanted)
    }

    /// Tells whether somebody waits for the locks that workers hold.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Relaxed) != 0
    }

    /// Says whom to wake when packets leave the network stack: the owner, which is kept alive by this until
    /// [`QpIo::shutdown`].
    pub(crate) fn attach(&self, this: RcuArc<T>) {
        self.credits.attach(this);
    }

    /// Ends the timer and forgets whom to wake when packets leave the network stack. Sleeps.
    ///
    /// To be called after [`QpIo::close`], without the locks of the two sides.
    pub(crate) fn shutdown(&self) {
        self.timer.shutdown_sync();
        self.credits.detach();
    }
}

/// A verb that wants the locks of a queue pair.
pub(crate) struct Wanted<'a>(&'a Atomic<u32>);

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Whom a connected queue pair is connected to.
///
/// Read without locks. A reader that races with a change may see a mixture and refuse a packet.
pub(crate) struct Peer {
    /// Our address and the peer's, as GIDs, in halves.
    local: [Atomic<u64>; 2],
    remote: [Atomic<u64>; 2],
    ifindex: Atomic<u32>,
}

impl Peer {
    const fn new() -> Self {
        Self {
            local: [Atomic::new(0), Atomic::new(0)],
            remote: [Atomic::new(0), Atomic::new(0)],
            ifindex: Atomic::new(0),
        }
    }

    fn set(&self, addresses: &Addresses, ifindex: u32) {
        let store = |to: &[Atomic<u64>; 2], gid: [u8; 16]| {
            let value = u128::from_ne_bytes(gid);
            let [low, high] = to;
            low.store(value as u64, Relaxed);
            high.store((value >> 64) as u64, Relaxed);
        };
        store(&self.local, addresses.local_gid());
        store(&self.remote, addresses.remote_gid());
        self.ifindex.store(ifindex, Relaxed);
    }

    /// Checks where a packet comes from and goes to; with `ifindex`, also that it came in by the
    /// network device that has our address.
    ///
    /// # Errors
    ///
    /// The reason to drop the packet.
    #[inline]
    pub(crate) fn check(
        &self,
        source: &[u8; 16],
        destination: &[u8; 16],
        ifindex: Option<u32>,
    ) -> Result<(), DropReason> {
        let load = |from: &[Atomic<u64>; 2]| {
            let [low, high] = from;
            u128::from(low.load(Relaxed)) | u128::from(high.load(Relaxed)) << 64
        };
        if load(&self.local) != u128::from_ne_bytes(*destination)
            || ifindex.is_some_and(|i| i != self.ifindex.load(Relaxed))
        {
            return Err(DropReason::BadDestination);
        }
        if load(&self.remote) != u128::from_ne_bytes(*source) {
            return Err(DropReason::BadSource);
        }
        Ok(())
    }
}
