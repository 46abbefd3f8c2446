// SPDX-License-Identifier: GPL-2.0

//! What a responder remembers of the requests whose answers it may have to repeat.
//!
//! READ, atomic, ATOMIC WRITE and FLUSH requests have answers of their own, and an answer that was
//! lost is asked for again. The last few requests are kept in a ring, whose size is the number that
//! the peer may have outstanding (`max_dest_rd_atomic`). A peer that has more outstanding loses the
//! oldest: it is the requester's duty to count.

#![forbid(unsafe_code)]

use core::ops::DerefMut;

use super::{
    num::Key,
    opcode::Opcode,
    psn::Psn, //
};

/// One request whose answer can be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    first: Psn,
    /// The number of PSNs that the answer takes; zero for an unused entry.
    packets: u32,
    replay: Replay,
}

/// How an answer is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// Memory is read again.
    Read {
        /// The address that the request named.
        va: u64,
        /// The key that the request named.
        key: Key,
        /// The length of the whole answer.
        len: u32,
    },
    /// The value that an atomic operation found is sent again.
    Atomic {
        /// The operation.
        opcode: Opcode,
        /// The value.
        orig: u64,
    },
    /// An answer without content is sent again: ATOMIC WRITE or FLUSH.
    Empty {
        /// The operation.
        opcode: Opcode,
    },
}

impl Resource {
    /// An entry that answers nothing, to fill new storage with.
    pub const UNUSED: Self = Self {
        first: Psn::new(0),
        packets: 0,
        replay: Replay::Empty {
            opcode: Opcode::RcFlush,
        },
    };

    /// Returns how the answer is repeated.
    pub const fn replay(&self) -> Replay {
        self.replay
    }

    /// Returns how many packets of the answer begin at `psn`: at least one, if `psn` belongs to it.
    pub const fn packets_from(&self, psn: Psn) -> Option<u32> {
        let skipped = psn.wrapping_sub_n(self.first.get()).get();
        match self.packets.checked_sub(skipped) {
            None | Some(0) => None,
            rest => rest,
        }
    }
}

/// The ring of entries, in storage of the caller's.
pub(super) struct ReplayRing<R> {
    entries: R,
    /// The entry that is overwritten next. At most the length of the storage.
    next: usize,
}

impl<R: DerefMut<Target = [Resource]>> ReplayRing<R> {
    /// Makes an empty ring.
    pub(super) fn new(mut entries: R) -> Self {
        entries.fill(Resource::UNUSED);
        Self { entries, next: 0 }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.entries.fill(Resource::UNUSED);
        self.next = 0;
    }

    /// Tells whether nothing can be remembered, so that requests with answers cannot be accepted.
    pub(super) fn is_disabled(&self) -> bool {
        self.entries.is_empty()
    }

    /// Remembers a request, in place of the oldest one.
    pub(super) fn record(&mut self, first: Psn, packets: u32, replay: Replay) {
        self.push(Resource {
            first,
            packets,
            replay,
        });
    }

    fn push(&mut self, resource: Resource) {
        if let Some(entry) = self.entries.get_mut(self.next) {
            *entry = resource;
        }
        self.next = self.next.wrapping_add(1);
        if self.next >= self.entries.len() {
            self.next = 0;
        }
    }

    /// Returns the latest request whose answer includes `psn`.
    pub(super) fn find(&self, psn: Psn) -> Option<Resource> {
        self.newest_first()
            .find(|resource| resource.packets_from(psn).is_some())
    }

    /// Moves to other storage, keeps the latest entries, and returns the old storage.
    pub(super) fn replace(&mut self, mut entries: R) -> R {
        entries.fill(Resource::UNUSED);
        let mut ring = Self { entries, next: 0 };
        let keep = ring.entries.len().min(self.entries.len());
        for age in (0..keep).rev() {
            if let Some(resource) = self.newest_first().nth(age) {
                ring.push(resource);
            }
        }
        core::mem::swap(self, &mut ring);
        ring.entries
    }

    fn newest_first(&self) -> impl Iterator<Item = Resource> + '_ {
        let (newer, older) = self
            .entries
            .split_at_checked(self.next)
            .unwrap_or((&self.entries, &[]));
        newer.iter().rev().chain(older.iter().rev()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{
        collections::VecDeque,
        vec,
        vec::Vec, //
    };

    fn atomic(orig: u64) -> Replay {
        Replay::Atomic {
            opcode: Opcode::RcFetchAdd,
            orig,
        }
    }

    fn ring(len: usize) -> ReplayRing<Vec<Resource>> {
        ReplayRing::new(vec![Resource::UNUSED; len])
    }

    #[test]
    fn unused_entries_answer_nothing() {
        let ring = ring(4);
        for psn in [0, 1, 0x7f_ffff, 0xff_ffff] {
            assert_eq!(ring.find(Psn::new(psn)), None);
        }
    }

    #[test]
    fn answer_may_wrap_around_the_psn_space() {
        let mut ring = ring(2);
        let read = Replay::Read {
            va: 0,
            key: Key::new(7),
            len: 4096,
        };
        ring.record(Psn::new(0xff_fffe), 4, read);
        let left = |psn| {
            ring.find(Psn::new(psn))
                .and_then(|resource| resource.packets_from(Psn::new(psn)))
        };
        assert_eq!(left(0xff_fffd), None);
        assert_eq!(left(0xff_fffe), Some(4));
        assert_eq!(left(0xff_ffff), Some(3));
        assert_eq!(left(0), Some(2));
        assert_eq!(left(1), Some(1));
        assert_eq!(left(2), None);
    }

    proptest! {
        /// The ring against a queue that forgets the oldest entry, also when its storage changes.
        #[test]
        fn behaves_like_a_bounded_queue(
            len in 0usize..6,
            ops in proptest::collection::vec((0u32..40, 0usize..12), 0..60),
        ) {
            let mut ring = ring(len);
            let mut model: VecDeque<(u32, u64)> = VecDeque::new();
            let mut len = len;
            for (value, (psn, resize)) in ops.into_iter().enumerate() {
                if resize < 6 {
                    let old = ring.replace(vec![Resource::UNUSED; resize]);
                    prop_assert_eq!(old.len(), len);
                    len = resize;
                }
                while model.len() > len {
                    model.pop_front();
                }
                ring.record(Psn::new(psn), 1, atomic(value as u64));
                model.push_back((psn, value as u64));
                while model.len() > len {
                    model.pop_front();
                }
                for psn in 0..40 {
                    let want = model.iter().rev().find(|entry| entry.0 == psn);
                    let got = ring.find(Psn::new(psn)).map(|found| found.replay());
                    prop_assert_eq!(got, want.map(|entry| atomic(entry.1)));
                }
            }
        }
    }
}
