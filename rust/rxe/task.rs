// SPDX-License-Identifier: GPL-2.0

//! The workers of queue pairs.
//!
//! A [`Task`] is the scheduling state of one worker; the work item itself is a field of the queue pair. Kicking
//! costs one atomic operation unless the worker is idle.

#![forbid(unsafe_code)]

use crate::{
    abstractions::sync::{
        Borrowed,
        RcuArc, //
    },
    proto::task::{
        Finish,
        Kick,
        Start,
        TaskState, //
    }, //
};
use kernel::{
    sync::atomic::{
        Atomic,
        Full,
        Relaxed, //
    },
    workqueue::{
        HasWork,
        Queue,
        WorkItem, //
    }, //
};

/// What one run of a worker came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// There is nothing more to do.
    Done,
    /// There is more to do, but others should run in between.
    More,
}

/// How often a worker that is kicked while it runs starts anew before others, such as the one that it leaves its work
/// item to, get their turn.
const TURNS: u32 = 16;

/// The state of the worker whose work item has the number `ID`.
pub(crate) struct Task<const ID: u64> {
    state: Atomic<u32>,
}

impl<const ID: u64> Task<ID> {
    /// Makes a worker that is idle.
    pub(crate) const fn new() -> Self {
        Self {
            state: Atomic::new(TaskState::Idle.get()),
        }
    }

    /// Changes the state by a function of `proto::task` and returns its verdict.
    #[inline]
    fn apply<V>(&self, change: impl Fn(TaskState) -> (TaskState, V)) -> V {
        let mut seen = self.state.load(Relaxed);
        loop {
            let (next, verdict) = change(TaskState::from_u32(seen));
            // The exchange is made even if nothing changes: it orders what was there to do before the
            // kick with the worker's look at it.
            match self.state.cmpxchg(seen, next.get(), Full) {
                Ok(_) => return verdict,
                Err(now) => seen = now,
            }
        }
    }

    /// Says that there is something to do. Any context.
    #[inline]
    pub(crate) fn kick<T>(&self, object: Borrowed<'_, T>, queue: &Queue)
    where
        T: WorkItem<ID, Pointer = RcuArc<T>> + HasWork<T, ID> + Send + Sync + 'static,
    {
        if let Some(object) = self.kick_later(object) {
            Self::enqueue(object, queue);
        }
    }

    /// Says that there is something to do. If that makes the worker leave the idle state, its object is returned: the
    /// caller must either [`enqueue`](Self::enqueue) or [`run`](Self::run) it. Any context.
    #[inline]
    #[must_use]
    pub(crate) fn kick_later<T>(&self, object: Borrowed<'_, T>) -> Option<RcuArc<T>> {
        match self.apply(TaskState::kick) {
            // An object whose last reference is gone has nobody to work for.
            Kick::Enqueue => object.upgrade(),
            Kick::Pending | Kick::Refused => None,
        }
    }

    /// Queues the worker of an object that [`kick_later`](Self::kick_later) returned. Any context.
    #[inline]
    pub(crate) fn enqueue<T>(object: RcuArc<T>, queue: &Queue)
    where
        T: WorkItem<ID, Pointer = RcuArc<T>> + HasWork<T, ID> + Send + Sync + 'static,
    {
        // Cannot fail: the item is queued by whoever made the worker leave the idle state, once.
        let _ = queue.enqueue::<_, ID>(object);
    }

    /// No run of the worker shall begin from now on. One that runs finds out by itself.
    pub(crate) fn close(&self) {
        self.apply(TaskState::close);
    }

    /// Runs `work` until it has nothing more to do or wants others to run. Called by the work item, or in its place.
    pub(crate) fn run<T>(
        object: RcuArc<T>,
        task: impl Fn(&T) -> &Self,
        queue: impl Fn(&T) -> &Queue,
        mut work: impl FnMut(&RcuArc<T>) -> Progress,
    ) where
        T: WorkItem<ID, Pointer = RcuArc<T>> + HasWork<T, ID> + Send + Sync + 'static,
    {
        if task(&object).apply(TaskState::start) == Start::Stop {
            return;
        }
        let mut turns = TURNS;
        loop {
            turns = turns.saturating_sub(1);
            let more = work(&object) == Progress::More || turns == 0;
            match task(&object).apply(|state| state.finish(more)) {
                Finish::Done => return,
                Finish::Again => {}
                Finish::Requeue => {
                    // Keeps the queue until the object is passed on.
                    let keep = object.clone();
                    let _ = queue(&keep).enqueue::<_, ID>(object);
                    return;
                }
            }
        }
    }
}
