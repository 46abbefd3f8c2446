// SPDX-License-Identifier: GPL-2.0

//! The rings that a user process and the driver share.
//!
//! The layout is `struct rxe_queue_buf` of the user ABI. What the process can write is never trusted:
//! of the header only the process's index is read, once per use, and masked; geometry and our own
//! indices are private. So a process that scribbles over a ring gets its own requests wrong, and
//! nothing else.

#![forbid(unsafe_code)]

use crate::{
    abstractions::mm::UserBuf,
    proto::{
        num::usize_from,
        ring::Ring,
        uabi::{
            DmaInfo,
            CONSUMER_OFFSET,
            DATA_OFFSET,
            PRODUCER_OFFSET,
            SGE_SIZE, //
        },
    },
};
use core::mem::{
    offset_of,
    size_of, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    }, //
};

/// Memory with the geometry of a ring.
struct Memory {
    buf: Arc<UserBuf>,
    ring: Ring,
}

impl Memory {
    /// Allocates an empty ring for at least `entries` elements of `elem_size` bytes. May sleep.
    fn new(entries: u32, elem_size: u32) -> Result<Self> {
        let ring = Ring::for_entries(entries, elem_size).ok_or(EINVAL)?;
        let size = DATA_OFFSET.checked_add(ring.data_size()).ok_or(EINVAL)?;
        let buf = UserBuf::new(size)?;
        // The header begins with `log2_elem_size` and `index_mask`.
        let mut header = [0u8; size_of::<u64>()];
        let (log2, mask) = header.split_at_mut(size_of::<u32>());
        log2.copy_from_slice(&ring.log2_elem().to_ne_bytes());
        mask.copy_from_slice(&ring.mask().to_ne_bytes());
        buf.copy_out(0, &header)?;
        Ok(Self {
            buf: Arc::new(buf, GFP_KERNEL)?,
            ring,
        })
    }

    /// Returns where in the memory `len` bytes from `at` of the element at `index` are, if they are in
    /// one element.
    #[inline]
    fn locate(&self, index: u32, at: usize, len: usize) -> Result<usize> {
        match self.ring.elem_size().checked_sub(at) {
            Some(room) if len <= room => Ok(DATA_OFFSET
                .wrapping_add(self.ring.offset(index))
                .wrapping_add(at)),
            _ => Err(EINVAL),
        }
    }

    /// Copies `count` elements from index `first` on to the start of `to`, whose elements must not be
    /// smaller.
    fn copy_to(&self, first: u32, count: u32, to: &Self) -> Result {
        if count > to.ring.capacity() || self.ring.elem_size() > to.ring.elem_size() {
            return Err(EINVAL);
        }
        // An element is a power of two of bytes, and at least as long as a line.
        const LINE: usize = 64;
        let mut line = [0u8; LINE];
        for i in 0..count {
            let from = self.ring.advance(first, i);
            for at in (0..self.ring.elem_size()).step_by(LINE) {
                self.buf.copy_in(self.locate(from, at, LINE)?, &mut line)?;
                to.buf.copy_out(to.locate(i, at, LINE)?, &line)?;
            }
        }
        Ok(())
    }
}

/// The driver's end of a ring that the process fills: a send, receive or shared receive queue.
///
/// Requests are fetched in order, and released in order too, when the process may use their place
/// again. The callers see to it that one of them fetches at a time, and one releases.
pub struct ConsumerRing {
    memory: Memory,
    /// The length of what comes before the buffer list in an element; it ends with a [`DmaInfo`].
    head: usize,
    fetched: Atomic<u32>,
    released: Atomic<u32>,
}

impl ConsumerRing {
    /// Allocates an empty ring for at least `entries` requests of `elem_size` bytes. May sleep.
    ///
    /// `head` is the offset of the buffer list in a request.
    pub fn new(entries: u32, elem_size: u32, head: usize) -> Result<Self> {
        let memory = Memory::new(entries, elem_size)?;
        memory.locate(0, 0, head)?;
        head.checked_sub(size_of::<DmaInfo>()).ok_or(EINVAL)?;
        Ok(Self {
            memory,
            head,
            fetched: Atomic::new(0),
            released: Atomic::new(0),
        })
    }

    /// Returns the memory, to be mapped by the process.
    pub fn buf(&self) -> &Arc<UserBuf> {
        &self.memory.buf
    }

    /// Returns how many requests fit.
    pub fn capacity(&self) -> u32 {
        self.memory.ring.capacity()
    }

    /// Returns the size of an element in bytes.
    pub fn elem_size(&self) -> usize {
        self.memory.ring.elem_size()
    }

    /// Returns the index of the process. What it wrote before it set the index is seen by later reads.
    #[inline]
    fn theirs(&self) -> u32 {
        // The header is in every ring.
        let theirs = self.memory.buf.load_acquire_u32(PRODUCER_OFFSET);
        theirs.unwrap_or(0) & self.memory.ring.mask()
    }

    /// Returns how many requests can be fetched.
    pub fn available(&self) -> u32 {
        let fetched = self.fetched.load(Relaxed);
        self.memory.ring.count(self.theirs(), fetched)
    }

    /// Copies the next request to `scratch`, which must be as long as an element. Returns its place and
    /// the element, or `None` if there is no request.
    ///
    /// The element is complete as far as its buffer list. Inline data is left to
    /// [`copy_slot`](Self::copy_slot): what is in its place are old bytes of `scratch`.
    #[inline]
    pub fn fetch<'s>(&self, scratch: &'s mut [u8]) -> Option<(u32, &'s [u8])> {
        let place = self.fetched.load(Relaxed);
        if self.memory.ring.is_empty(self.theirs(), place) {
            return None;
        }
        let element = scratch.get_mut(..self.elem_size())?;
        let (head, list) = element.split_at_mut_checked(self.head)?;
        self.copy_in(place, 0, head)?;
        // Of the list only as much as the copy of the head says, and as fits.
        let most = list.len();
        let list = list.get_mut(..Self::list_len(head)?.min(most))?;
        self.copy_in(place, self.head, list)?;
        self.fetched.store(self.memory.ring.next(place), Relaxed);
        Some((place, element))
    }

    #[inline]
    fn copy_in(&self, place: u32, at: usize, to: &mut [u8]) -> Option<()> {
        let offset = self.memory.locate(place, at, to.len()).ok()?;
        self.memory.buf.copy_in(offset, to).ok()
    }

    /// Returns the length of the buffer list that the head of an element states.
    #[inline]
    fn list_len(head: &[u8]) -> Option<usize> {
        let info = head.len().checked_sub(size_of::<DmaInfo>())?;
        let at = info.checked_add(offset_of!(DmaInfo, num_sge))?;
        let bytes = head.get(at..)?.first_chunk()?;
        Some(usize_from(u32::from_ne_bytes(*bytes)).saturating_mul(SGE_SIZE))
    }

    /// Copies bytes from `at`, a multiple of 8, of the element at `place` to `to`. Returns false if they
    /// are not within it.
    ///
    /// This is for inline data, which is not looked at but sent.
    pub fn copy_slot(&self, place: u32, at: usize, to: &mut [u8]) -> bool {
        self.copy_in(place, at, to).is_some()
    }

    /// Gives the places of the `n` oldest requests back to the process.
    #[inline]
    pub fn release(&self, n: u32) {
        let index = self.memory.ring.advance(self.released.load(Relaxed), n);
        self.set_released(index);
    }

    #[inline]
    fn set_released(&self, index: u32) {
        self.released.store(index, Relaxed);
        // The header is in every ring.
        let _ = self.memory.buf.store_release_u32(CONSUMER_OFFSET, index);
    }

    /// Forgets all requests that are there, as a queue pair that is reset does.
    pub fn reset(&self) {
        let index = self.theirs();
        self.fetched.store(index, Relaxed);
        self.set_released(index);
    }

    /// Moves to the memory of `new`, with all requests that have not been fetched, in order. Returns
    /// the ring with the memory from before. All requests that were fetched must have been released.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the requests do not fit. Then nothing has changed, and `new` comes back.
    pub fn resize(&mut self, new: Self) -> Result<Self, (Error, Self)> {
        let count = self.available();
        let first = self.fetched.load(Relaxed);
        if let Err(error) = self.memory.copy_to(first, count, &new.memory) {
            return Err((error, new));
        }
        // The process goes on from these when it has mapped the new ring.
        let _ = new.memory.buf.store_release_u32(PRODUCER_OFFSET, count);
        new.fetched.store(0, Relaxed);
        new.set_released(0);
        Ok(core::mem::replace(self, new))
    }
}

/// The driver's end of a ring that the process empties: a completion queue.
pub struct ProducerRing {
    memory: Memory,
    /// The index of the next element.
    next: u32,
}

impl ProducerRing {
    /// Allocates an empty ring for at least `entries` elements of `elem_size` bytes. May sleep.
    pub fn new(entries: u32, elem_size: u32) -> Result<Self> {
        Ok(Self {
            memory: Memory::new(entries, elem_size)?,
            next: 0,
        })
    }

    /// Returns the memory, to be mapped by the process.
    pub fn buf(&self) -> &Arc<UserBuf> {
        &self.memory.buf
    }

    /// Returns how many elements fit.
    pub fn capacity(&self) -> u32 {
        self.memory.ring.capacity()
    }

    /// Returns the index of the process, whatever it is. What it read before it set the index it has
    /// read.
    #[inline]
    fn theirs(&self) -> u32 {
        // The header is in every ring.
        let theirs = self.memory.buf.load_acquire_u32(CONSUMER_OFFSET);
        theirs.unwrap_or(0) & self.memory.ring.mask()
    }

    /// Returns how many elements the process has not taken yet.
    pub fn count(&self) -> u32 {
        self.memory.ring.count(self.next, self.theirs())
    }

    /// Tells whether nothing can be added.
    pub fn is_full(&self) -> bool {
        self.memory.ring.is_full(self.next, self.theirs())
    }

    /// Adds an element, which the process sees when all of it is written.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if the ring is full, `EINVAL` if the element is too long. Then nothing is added.
    #[inline]
    pub fn push(&mut self, element: &[u8]) -> Result {
        if self.is_full() {
            return Err(ENOSPC);
        }
        let at = self.memory.locate(self.next, 0, element.len())?;
        self.memory.buf.copy_out(at, element)?;
        self.next = self.memory.ring.next(self.next);
        self.memory
            .buf
            .store_release_u32(PRODUCER_OFFSET, self.next)
    }

    /// Moves to the memory of `new`, with all elements that were not taken, in order. Returns the ring
    /// with the memory from before.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the elements do not fit. Then nothing has changed, and `new` comes back.
    pub fn resize(&mut self, mut new: Self) -> Result<Self, (Error, Self)> {
        let theirs = self.theirs();
        let count = self.memory.ring.count(self.next, theirs);
        if let Err(error) = self.memory.copy_to(theirs, count, &new.memory) {
            return Err((error, new));
        }
        let _ = new.memory.buf.store_release_u32(PRODUCER_OFFSET, count);
        new.next = count;
        Ok(core::mem::replace(self, new))
    }
}
