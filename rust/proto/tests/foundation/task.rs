// SPDX-License-Identifier: GPL-2.0

//! The worker's states: every interleaving of a few producers, a worker and a close.

use rxe_proto::task::{Finish, Kick, Start, TaskState};
use std::collections::HashSet;

/// What the worker is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Worker {
    /// None runs; this many are queued.
    Queued(u8),
    /// Take all work there is.
    Take,
    /// Having found work, go on or give up the processor.
    Loop,
    /// Having found none, end.
    End,
}

/// The whole system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct World {
    state: TaskState,
    worker: Worker,
    /// There is something to do.
    work: bool,
    /// Things still to be produced.
    left: u8,
    /// Producers between making work and kicking.
    kicking: u8,
    /// The close has not happened.
    open: bool,
    closes: bool,
}

impl World {
    fn enqueue(&mut self) {
        self.worker = match self.worker {
            Worker::Queued(0) => Worker::Queued(1),
            other => panic!("queued while {other:?}"),
        };
    }

    /// Every world that one step leads to.
    fn next(self) -> Vec<World> {
        let mut worlds = Vec::new();
        if self.left > 0 {
            let mut w = self;
            w.left -= 1;
            w.work = true;
            w.kicking += 1;
            worlds.push(w);
        }
        if self.kicking > 0 {
            let mut w = self;
            w.kicking -= 1;
            let (state, verdict) = w.state.kick();
            w.state = state;
            match verdict {
                Kick::Enqueue => w.enqueue(),
                Kick::Pending => {
                    assert!(w.worker != Worker::Queued(0), "nobody will look: {self:?}")
                }
                Kick::Refused => assert!(!w.open),
            }
            worlds.push(w);
        }
        if self.open && self.closes {
            let mut w = self;
            w.open = false;
            let (state, busy) = w.state.close();
            w.state = state;
            assert_eq!(busy, w.worker != Worker::Queued(0));
            worlds.push(w);
        }
        match self.worker {
            Worker::Queued(0) => {}
            Worker::Queued(n) => {
                assert_eq!(n, 1);
                let mut w = self;
                let (state, verdict) = w.state.start();
                w.state = state;
                w.worker = match verdict {
                    Start::Run => Worker::Take,
                    Start::Stop => {
                        assert!(!w.open);
                        Worker::Queued(0)
                    }
                };
                worlds.push(w);
            }
            Worker::Take => {
                let mut w = self;
                w.worker = if w.work { Worker::Loop } else { Worker::End };
                w.work = false;
                worlds.push(w);
            }
            Worker::Loop => {
                let mut w = self;
                w.worker = Worker::Take;
                worlds.push(w);
                worlds.push(self.finish(true));
            }
            Worker::End => worlds.push(self.finish(false)),
        }
        worlds
    }

    fn finish(mut self, more: bool) -> World {
        let (state, verdict) = self.state.finish(more);
        self.state = state;
        self.worker = Worker::Queued(0);
        match verdict {
            Finish::Done => {}
            Finish::Again => self.worker = Worker::Take,
            Finish::Requeue => self.enqueue(),
        }
        self
    }
}

fn explore(start: World) -> usize {
    let mut seen = HashSet::from([start]);
    let mut todo = vec![start];
    while let Some(world) = todo.pop() {
        let next = world.next();
        if next.is_empty() {
            // At rest, work is left only if the worker was told to stop.
            assert!(!world.work || !world.open, "lost: {world:?}");
            assert_eq!(world.worker, Worker::Queued(0));
            let rest = if world.open {
                TaskState::Idle
            } else {
                TaskState::Closed
            };
            assert_eq!(world.state, rest);
        }
        // One worker at most, and the state says which.
        if world.open {
            let expected = match world.worker {
                Worker::Queued(0) => world.state == TaskState::Idle,
                Worker::Queued(_) => world.state == TaskState::Queued,
                Worker::Take | Worker::Loop | Worker::End => {
                    matches!(world.state, TaskState::Running | TaskState::Rerun)
                }
            };
            assert!(expected, "{world:?}");
        } else {
            assert!(world.state.is_closed());
        }
        for world in next {
            if seen.insert(world) {
                todo.push(world);
            }
        }
    }
    seen.len()
}

#[test]
fn no_kick_is_lost_and_one_worker_runs() {
    for closes in [false, true] {
        let worlds = explore(World {
            state: TaskState::Idle,
            worker: Worker::Queued(0),
            work: false,
            left: 5,
            kicking: 0,
            open: true,
            closes,
        });
        assert!(worlds > 100, "{worlds}");
    }
}

#[test]
fn stored_numbers() {
    for value in 0..5 {
        assert_eq!(TaskState::from_u32(value).get(), value);
    }
    assert_eq!(TaskState::from_u32(u32::MAX), TaskState::Closed);
    assert_eq!(TaskState::Idle.get(), 0);
}
