// SPDX-License-Identifier: GPL-2.0

//! Walking over a list of buffers as over one message.

#![forbid(unsafe_code)]

use super::num::Key;
use super::wr::Sge;

/// A piece of one buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Address of the first byte.
    pub addr: u64,
    /// Length in bytes; never zero.
    pub len: u32,
    /// Local key of the buffer.
    pub lkey: Key,
}

/// A position in a message that is spread over a list of buffers.
///
/// The list is passed to each call, and must be the same one each time for the position to make
/// sense. With another list the position may be past the end, and nothing worse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SgeCursor {
    index: usize,
    offset: u32,
}

impl SgeCursor {
    /// The beginning of a message.
    #[cfg(not(MODULE))]
    pub const START: Self = Self {
        index: 0,
        offset: 0,
    };

    /// Returns the position `offset` bytes into the message, or its end if it is shorter.
    pub fn seek(list: &[Sge], offset: u64) -> Self {
        let mut left = offset;

        for (index, sge) in list.iter().enumerate() {
            let length = u64::from(sge.length);
            if left < length {
                // Less than a 32-bit length, so nothing is cut off.
                return Self {
                    index,
                    offset: left as u32,
                };
            }
            left = left.saturating_sub(length);
        }

        Self {
            index: list.len(),
            offset: 0,
        }
    }

    /// Takes the next piece of at most `max` bytes and moves past it.
    ///
    /// Returns `None` at the end of the message, or if `max` is zero.
    pub fn next_chunk(&mut self, list: &[Sge], max: u32) -> Option<Chunk> {
        if max == 0 {
            return None;
        }

        loop {
            let sge = list.get(self.index)?;
            let left = sge.length.saturating_sub(self.offset);
            if left == 0 {
                // An empty buffer, or one that is used up.
                self.index = self.index.checked_add(1)?;
                self.offset = 0;
                continue;
            }

            let len = left.min(max);
            let chunk = Chunk {
                // A buffer that runs over the end of the address space wraps; no key covers that.
                addr: sge.addr.wrapping_add(u64::from(self.offset)),
                len,
                lkey: sge.lkey,
            };
            self.offset = self.offset.saturating_add(len);
            return Some(chunk);
        }
    }
}

/// Returns the length of the message that a list of buffers holds.
#[cfg(not(MODULE))]
pub fn total_length(list: &[Sge]) -> u64 {
    list.iter()
        .fold(0u64, |sum, sge| sum.saturating_add(u64::from(sge.length)))
}
