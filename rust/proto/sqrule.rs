// SPDX-License-Identifier: GPL-2.0

//! The rule of send queues, and consumers that break it.
//!
//! A request may be posted only into space that a completion has proven to be free, and a completion proves
//! something only when it has been polled: that its own request and all before it are done. A device
//! may still take a request that was posted without such a proof, because it knows what is done; one that
//! takes its time with releasing would refuse it. So such a post is no error, but it is worth a word.

#![forbid(unsafe_code)]

/// What a consumer was seen to do when it broke the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The size of the queue.
    pub depth: u32,
    /// Requests posted so far.
    pub posted: u64,
    /// Those of them that ask for a completion.
    pub signaled: u64,
    /// The most requests in a row that do not.
    pub longest_unsignaled: u32,
}

/// Watches one send queue. Counts of requests run freely.
#[derive(Clone, Debug)]
pub struct PostRule {
    depth: u32,
    posted: u64,
    signaled: u64,
    run: u32,
    longest: u32,
    told: bool,
}

impl PostRule {
    /// Makes the watch of a queue with room for `depth` requests.
    pub const fn new(depth: u32) -> Self {
        Self {
            depth,
            posted: 0,
            signaled: 0,
            run: 0,
            longest: 0,
            told: false,
        }
    }

    /// Notes that a request is posted, before which `posted` had been, and polled completions had proven that
    /// `proven` of those were done. Returns whether it is posted into space that is not proven to be free.
    pub fn post(&mut self, posted: u32, proven: u32, signaled: bool) -> bool {
        self.posted = self.posted.wrapping_add(1);
        if signaled {
            self.signaled = self.signaled.wrapping_add(1);
            self.run = 0;
        } else {
            self.run = self.run.saturating_add(1);
            self.longest = self.longest.max(self.run);
        }
        posted.wrapping_sub(proven) >= self.depth
    }

    /// Returns what is to be told about a consumer that has broken the rule: once.
    pub fn tell(&mut self) -> Option<Pattern> {
        if self.told {
            return None;
        }
        self.told = true;
        Some(Pattern {
            depth: self.depth,
            posted: self.posted,
            signaled: self.signaled,
            longest_unsignaled: self.longest,
        })
    }
}

/// Returns whether count `new` is ahead of count `old`.
pub const fn is_ahead(new: u32, old: u32) -> bool {
    let ahead = new.wrapping_sub(old);
    ahead != 0 && ahead < 1 << 31
}
