// SPDX-License-Identifier: GPL-2.0

//! Index arithmetic of the rings that are shared with user space.
//!
//! A ring has a power of two of slots. An index is a slot number; indices that come from the other
//! side are masked before use. The ring is empty when both indices are equal, so one slot always
//! stays free.

#![forbid(unsafe_code)]

use super::num::usize_from;

/// The geometry of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    mask: u32,
    log2_elem: u32,
}

/// The smallest element: a cache line, so that producer and consumer do not share one.
const MIN_ELEM: u32 = 64;

impl Ring {
    /// Returns the geometry of a ring that holds at least `entries` elements of `elem_size` bytes.
    ///
    /// Both are rounded up to powers of two. Returns `None` if the ring would have more than 2^31
    /// slots, an element more than 2^31 bytes, or the data more than 2^31 bytes.
    pub fn for_entries(entries: u32, elem_size: u32) -> Option<Self> {
        let slots = entries.checked_add(1)?.checked_next_power_of_two()?;
        let elem = elem_size.max(MIN_ELEM).checked_next_power_of_two()?;
        let bytes = u64::from(slots).checked_mul(u64::from(elem))?;
        if bytes > 1 << 31 {
            return None;
        }

        Some(Self {
            mask: slots.wrapping_sub(1),
            log2_elem: elem.trailing_zeros(),
        })
    }

    /// Returns the value with which an index is masked: the number of slots less one.
    pub const fn mask(self) -> u32 {
        self.mask
    }

    /// Returns how many elements the ring holds when it is full.
    pub const fn capacity(self) -> u32 {
        self.mask
    }

    /// Returns the binary logarithm of the size of an element.
    pub const fn log2_elem(self) -> u32 {
        self.log2_elem
    }

    /// Returns the size of an element in bytes.
    pub const fn elem_size(self) -> usize {
        1usize.wrapping_shl(self.log2_elem)
    }

    /// Returns the size of all slots in bytes.
    pub const fn data_size(self) -> usize {
        usize_from(self.mask)
            .wrapping_add(1)
            .wrapping_shl(self.log2_elem)
    }

    /// Returns the offset of the element at `index` from the first, whatever the index is.
    pub const fn offset(self, index: u32) -> usize {
        usize_from(index & self.mask).wrapping_shl(self.log2_elem)
    }

    /// Returns the index that follows `index`.
    pub const fn next(self, index: u32) -> u32 {
        self.advance(index, 1)
    }

    /// Returns the index `n` places after `index`.
    pub const fn advance(self, index: u32, n: u32) -> u32 {
        index.wrapping_add(n) & self.mask
    }

    /// Returns how many elements are in the ring.
    pub const fn count(self, producer: u32, consumer: u32) -> u32 {
        producer.wrapping_sub(consumer) & self.mask
    }

    /// Returns how many elements can be added.
    #[cfg(not(MODULE))]
    pub const fn free(self, producer: u32, consumer: u32) -> u32 {
        self.mask.wrapping_sub(self.count(producer, consumer))
    }

    /// Tells whether the ring is empty.
    pub const fn is_empty(self, producer: u32, consumer: u32) -> bool {
        self.count(producer, consumer) == 0
    }

    /// Tells whether nothing can be added.
    pub const fn is_full(self, producer: u32, consumer: u32) -> bool {
        self.count(producer, consumer) == self.mask
    }
}
