// SPDX-License-Identifier: GPL-2.0

//! From offsets in a memory region to pages.
//!
//! A region is a list of pages of one size and begins somewhere in the first of them. The page size
//! of a region need not be the page size of the machine: it may be larger or smaller.

#![forbid(unsafe_code)]

/// How a region lies in its pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageMap {
    page_shift: u32,
    first_offset: u32,
}

/// A range of bytes within one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSpan {
    /// Place of the page in the list.
    pub index: u64,
    /// Offset of the first byte in the page.
    pub offset: u32,
    /// Length in bytes; never zero.
    pub len: u32,
}

impl PageMap {
    /// The binary logarithm of the smallest page size, 1 KiB.
    pub const MIN_SHIFT: u32 = 10;

    /// The binary logarithm of the largest page size, 2 GiB.
    pub const MAX_SHIFT: u32 = 31;

    /// Makes the map of a region that begins `first_offset` bytes into its first page.
    ///
    /// Returns `None` if the page size is not between the limits or the offset is not within a page.
    pub const fn new(page_shift: u32, first_offset: u32) -> Option<Self> {
        if page_shift < Self::MIN_SHIFT || page_shift > Self::MAX_SHIFT {
            return None;
        }
        let map = Self {
            page_shift,
            first_offset,
        };
        if first_offset >= map.page_size() {
            return None;
        }
        Some(map)
    }

    /// Makes the map of a region whose first byte has the address `iova`.
    pub const fn for_address(page_shift: u32, iova: u64) -> Option<Self> {
        if page_shift > Self::MAX_SHIFT {
            return None;
        }
        let mask = (1u64 << page_shift).wrapping_sub(1);
        // The mask has at most 31 bits.
        Self::new(page_shift, (iova & mask) as u32)
    }

    /// Returns the page size in bytes.
    pub const fn page_size(self) -> u32 {
        1u32.wrapping_shl(self.page_shift)
    }

    /// Returns the place of the page that holds the byte at `offset`, and the byte's offset in it.
    ///
    /// Returns `None` if the offset is so large that the position cannot be expressed.
    pub const fn locate(self, offset: u64) -> Option<(u64, u32)> {
        let Some(position) = offset.checked_add(self.first_offset as u64) else {
            return None;
        };
        let mask = self.page_size().wrapping_sub(1);
        // The mask has at most 31 bits, so what it leaves fits.
        Some((
            position.wrapping_shr(self.page_shift),
            (position & mask as u64) as u32,
        ))
    }

    /// Returns the part of the range of `len` bytes at `offset` that is in one page.
    ///
    /// Returns `None` if `len` is zero or the position cannot be expressed.
    pub fn span(self, offset: u64, len: u32) -> Option<PageSpan> {
        if len == 0 {
            return None;
        }
        let (index, in_page) = self.locate(offset)?;
        let left = self.page_size().checked_sub(in_page)?;
        Some(PageSpan {
            index,
            offset: in_page,
            len: len.min(left),
        })
    }
}
