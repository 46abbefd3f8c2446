// SPDX-License-Identifier: GPL-2.0

//! Workers that take over from one another.
//!
//! A packet that a device sends to itself makes the worker of another queue pair, or the other worker of the same one,
//! have something to do. To queue it costs a wakeup and a switch between threads, several times what it then does for a
//! short message. So the worker that sent the packet remembers it, as a [`Hop`], and it runs in the same work item when
//! the first one has released its locks. The answer takes the same way back.
//!
//! The same goes for packets to another device of this host, which its softirq receives on top of the sending worker: the
//! softirq leaves the worker that it kicks to the one below it, if that waits for one ([`Hop::gather`]).
//!
//! What is long is left to the workqueue: two CPUs copy faster than one.

#![forbid(unsafe_code)]

use super::{
    qp::Qp,
    qpio::{
        Endpoint,
        RECV_WORK,
        SEND_WORK, //
    },
    recv,
    send,
    task::Task, //
};
use crate::abstractions::sync::{
    BhDisabled,
    Borrowed,
    Handoff,
    RcuArc,
    Waiting, //
};

/// Workers that run one after another in one work item, before others get their turn.
const HOPS: u32 = 64;

/// How much may be sent, in bytes and so, before the receiver is better off with a thread of its own.
const LOAD: usize = 16384;

/// What a packet counts besides its bytes.
const PACKET: usize = 256;

/// Where softirqs leave a worker for the one that they run on top of.
static HANDOFF: Handoff<Qp> = Handoff::new();

/// One of the two workers of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The worker of requester and completer.
    Send,
    /// The worker of the responder.
    Recv,
}

/// A worker that has been kicked and will run when the current one has ended.
pub(crate) struct Hop {
    next: Option<(RcuArc<Qp>, Side)>,
    /// What the current worker has sent.
    load: usize,
}

impl Hop {
    const fn new() -> Self {
        Self {
            next: None,
            load: 0,
        }
    }

    /// Takes on a worker that has been kicked.
    fn take(&mut self, next: (RcuArc<Qp>, Side)) {
        // There is more than one receiver of datagrams only.
        if let Some(earlier) = self.next.replace(next) {
            enqueue(earlier);
        }
    }

    /// Adds to what the current worker has sent, and queues the one that waits for it to end if that takes too long.
    #[inline]
    fn weigh(&mut self, load: usize) {
        self.load = self.load.saturating_add(load);
        if self.load >= LOAD {
            if let Some(next) = self.next.take() {
                enqueue(next);
            }
        }
    }

    /// Kicks a worker that `len` bytes have been queued for.
    #[inline]
    pub(crate) fn kick(&mut self, qp: Borrowed<'_, Qp>, side: Side, len: usize) {
        if let Some(qp) = kick_later(qp, side) {
            self.take((qp, side));
        }
        self.weigh(len.saturating_add(PACKET));
    }

    /// Runs `transmit`, which sends `packets` with `len` bytes to the network stack, and takes a worker that is kicked
    /// by their being received meanwhile, or by others that are.
    ///
    /// Bottom halves are disabled while it runs, so that what it causes happens at once, at its end.
    #[inline]
    pub(crate) fn gather(&mut self, packets: usize, len: usize, transmit: impl FnOnce()) {
        self.weigh(len.saturating_add(packets.saturating_mul(PACKET)));
        let waiting = {
            let _bh = BhDisabled::new();
            let waiting = if self.next.is_none() && self.load < LOAD {
                HANDOFF.wait()
            } else {
                None
            };
            transmit();
            waiting
        };
        if let Some((qp, recv)) = waiting.and_then(Waiting::take) {
            self.take((qp, if recv { Side::Recv } else { Side::Send }));
        }
    }
}

#[inline]
fn kick_later(qp: Borrowed<'_, Qp>, side: Side) -> Option<RcuArc<Qp>> {
    match side {
        Side::Send => qp.io().send_task.kick_later(qp),
        Side::Recv => qp.io().recv_task.kick_later(qp),
    }
}

/// Kicks a worker from a softirq: the worker that this interrupts may run it, or it is queued.
#[inline]
pub(crate) fn kick_from_softirq(qp: Borrowed<'_, Qp>, side: Side) {
    if let Some(qp) = kick_later(qp, side) {
        if let Err(qp) = HANDOFF.offer(qp, side == Side::Recv) {
            enqueue((qp, side));
        }
    }
}

fn enqueue((qp, side): (RcuArc<Qp>, Side)) {
    // Keeps the queue until the object is passed on.
    let keep = qp.clone();
    match side {
        Side::Send => Task::<SEND_WORK>::enqueue(qp, keep.queue()),
        Side::Recv => Task::<RECV_WORK>::enqueue(qp, keep.queue()),
    }
}

/// Runs a worker, and those that take over from it. Called by the work items.
pub(crate) fn run(qp: RcuArc<Qp>, side: Side) {
    let mut next = Some((qp, side));
    for _ in 0..HOPS {
        let Some((qp, side)) = next else { return };
        let mut hop = Hop::new();
        match side {
            Side::Send => Task::run(
                qp,
                |qp| &qp.io().send_task,
                Qp::queue,
                |qp| send::run(qp, &mut hop),
            ),
            Side::Recv => Task::run(
                qp,
                |qp| &qp.io().recv_task,
                Qp::queue,
                |qp| recv::run(qp, &mut hop),
            ),
        }
        next = hop.next;
    }
    if let Some(next) = next {
        enqueue(next);
    }
}
