// SPDX-License-Identifier: GPL-2.0

//! Copies to and from memory that someone else may write at the same time, through the direct map.
//!
//! Upstream home: `rust/kernel/mm/direct.rs`.
//!
//! Software devices without a DMA device (`ib_uses_virt_dma`) are given kernel virtual addresses in
//! place of DMA addresses. That exists only without highmem, so every page has its address in the
//! direct map for as long as it is allocated, and mapping it locally would be a no-op.
//!
//! The bytes behind these types belong to user processes or to other parts of the kernel, which may
//! read and write them at any time. So no Rust reference to them is ever made: they are copied with
//! the kernel's `memcpy`, an opaque call for which such a race only means that the copy may mix old
//! and new bytes, or they are accessed as atomic words.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::super::bindings;
use kernel::{
    alloc::Flags,
    page::PAGE_SIZE,
    prelude::*,
    sync::atomic::{
        Atomic,
        Full,
        Release, //
    },
};

/// Why memory was not accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessError {
    /// The range is not in the memory.
    OutOfRange,
    /// The word is not at a multiple of its size.
    Misaligned,
    /// The memory is not there, or not for this kind of access.
    Absent,
}

use AccessError::{
    Misaligned,
    OutOfRange, //
};

/// Lists memory by the addresses of blocks of one size, a power of two.
///
/// Positions count from the start of the first block. Only positions from `first` to `end` are
/// memory of the list; the first block may begin before it, the last may reach beyond it.
///
/// # Invariants
///
/// For every position `p` with `first <= p < end`, entry `p >> shift` exists and its address plus
/// `p` modulo the block size is a byte in the direct map that stays allocated while the list is not
/// empty. `shift < 64`.
pub struct Blocks {
    addrs: KVVec<usize>,
    shift: u32,
    first: u64,
    end: u64,
}

impl Blocks {
    /// Makes an empty list with room for `capacity` blocks.
    pub fn with_capacity(capacity: usize, flags: Flags) -> Result<Self> {
        // INVARIANT: There is no position with `0 <= p < 0`.
        Ok(Self {
            addrs: KVVec::with_capacity(capacity, flags)?,
            shift: 0,
            first: 0,
            end: 0,
        })
    }

    /// Makes an empty list without room.
    pub const fn empty() -> Self {
        // INVARIANT: There is no position with `0 <= p < 0`.
        Self {
            addrs: KVVec::new(),
            shift: 0,
            first: 0,
            end: 0,
        }
    }

    /// Empties the list and sets the block size for the blocks to come.
    pub(in super::super) fn restart(&mut self, shift: u32) -> Result {
        if shift >= u64::BITS {
            return Err(EINVAL);
        }
        // INVARIANT: There is no position with `0 <= p < 0`.
        self.first = 0;
        self.end = 0;
        self.shift = shift;
        self.addrs.clear();
        Ok(())
    }

    /// Adds a block, if there is room for it. It is not accessible before [`finish`](Self::finish).
    pub(in super::super) fn push(&mut self, addr: usize) -> Result {
        self.addrs.push_within_capacity(addr).map_err(|_| ENOMEM)
    }

    /// Makes `len` bytes from position `first`, which must lie in the first block, accessible.
    ///
    /// # Safety
    ///
    /// Each of these bytes must be in the direct map, at the address of its block plus its distance
    /// from the start of the block, and stay allocated until the list is emptied or dropped.
    pub(in super::super) unsafe fn finish(&mut self, first: u64, len: u64) -> Result {
        let end = first.checked_add(len).ok_or(EINVAL)?;
        let blocks = end
            .checked_next_multiple_of(self.block_size())
            .ok_or(EINVAL)?
            .wrapping_shr(self.shift);
        if first >= self.block_size() || blocks > self.addrs.len() as u64 {
            return Err(EINVAL);
        }
        // INVARIANT: The list is long enough for `end`, the rest is what the caller promises.
        self.first = first;
        self.end = end;
        Ok(())
    }

    /// Returns the binary logarithm of the block size.
    pub fn shift(&self) -> u32 {
        self.shift
    }

    /// Returns the position of the first byte of the memory, which lies in the first block.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Returns the length of the memory in bytes.
    pub fn length(&self) -> u64 {
        self.end.wrapping_sub(self.first)
    }

    #[inline]
    fn block_size(&self) -> u64 {
        // `shift < 64` by the type invariants.
        1u64.wrapping_shl(self.shift)
    }

    /// Returns the address of `len` bytes from offset `offset` in block `index`.
    #[inline]
    fn locate(&self, index: u64, offset: u64, len: usize) -> Result<*mut u8, AccessError> {
        let room = self.block_size().checked_sub(offset).ok_or(OutOfRange)?;
        if len as u64 > room {
            return Err(OutOfRange);
        }
        let start = index
            .checked_mul(self.block_size())
            .and_then(|start| start.checked_add(offset))
            .ok_or(OutOfRange)?;
        let end = start.checked_add(len as u64).ok_or(OutOfRange)?;
        if start < self.first || end > self.end {
            return Err(OutOfRange);
        }
        let index = usize::try_from(index).map_err(|_| OutOfRange)?;
        let addr = *self.addrs.get(index).ok_or(OutOfRange)?;
        // `offset` is at most the block size; no block wraps round the address space.
        Ok(core::ptr::with_exposed_provenance_mut(
            addr.wrapping_add(offset as usize),
        ))
    }

    /// Copies from block `index`, offset `offset`, to `dst`. The bytes must lie in this one block.
    #[inline]
    pub fn read(&self, index: u64, offset: u64, dst: &mut [u8]) -> Result<(), AccessError> {
        let src = self.locate(index, offset, dst.len())?;
        // SAFETY: `locate` returned the address of `dst.len()` bytes of the memory, allocated by the
        // type invariants. `dst` is a slice of that length, and not part of the memory: no Rust
        // reference to that is ever made.
        unsafe { copy(dst.as_mut_ptr(), src, dst.len()) };
        Ok(())
    }

    /// Copies `src` to block `index`, offset `offset`. The bytes must lie in this one block.
    #[inline]
    pub fn write(&self, index: u64, offset: u64, src: &[u8]) -> Result<(), AccessError> {
        let dst = self.locate(index, offset, src.len())?;
        // SAFETY: As in `read`, in the other direction.
        unsafe { copy(dst, src.as_ptr(), src.len()) };
        Ok(())
    }

    /// Calls `access` with the aligned 8-byte word at offset `offset` of block `index`.
    pub fn with_word<R>(
        &self,
        index: u64,
        offset: u64,
        access: impl FnOnce(&Atomic<u64>) -> R,
    ) -> Result<R, AccessError> {
        let word = self.locate(index, offset, size_of::<u64>())?;
        // SAFETY: `locate` returned the address of 8 bytes of the memory.
        unsafe { with_word(word, access) }
    }

    /// Writes back `len` bytes from offset `offset` of block `index` to persistent memory.
    pub fn write_back(&self, index: u64, offset: u64, len: usize) -> Result<(), AccessError> {
        let addr = self.locate(index, offset, len)?;
        // SAFETY: `locate` returned the address of `len` bytes of the memory.
        unsafe { bindings::arch_wb_cache_pmem(addr.cast(), len) };
        Ok(())
    }

    /// Returns whether all the memory is persistent memory. May take time in proportion to its size.
    pub fn is_persistent(&self) -> bool {
        let Ok(size) = usize::try_from(self.block_size()) else {
            return false;
        };
        let size = size.max(PAGE_SIZE);
        self.addrs
            .iter()
            .all(|&addr| is_persistent(core::ptr::with_exposed_provenance(addr), size))
    }
}

/// Returns whether `size` bytes from `addr` in the direct map are persistent memory.
pub(in super::super) fn is_persistent(addr: *const u8, size: usize) -> bool {
    // SAFETY: Just arithmetic on an address of the direct map.
    let start = unsafe { bindings::virt_to_phys(addr.cast_mut().cast()) };
    // SAFETY: No requirements; the resource tree is protected by its own lock.
    let found = unsafe {
        bindings::region_intersects(
            start as bindings::resource_size_t,
            size,
            bindings::IORESOURCE_MEM as c_ulong,
            bindings::IORES_DESC_PERSISTENT_MEMORY as c_ulong,
        )
    };
    found as u32 == bindings::REGION_INTERSECTS
}

/// The right to access all kernel memory by address, as DMA memory regions give it.
///
/// Addresses come from kernel code that was given the region's key, or from peers that it told the
/// key to, so any number can come in: each page is looked up before it is touched.
///
/// # Invariants
///
/// Made only when a kernel consumer asked for a DMA memory region.
pub struct AllMemory(());

impl AllMemory {
    /// Makes the right.
    ///
    /// # Safety
    ///
    /// A kernel consumer asked for a region of all memory, and so vouches for what is done with its
    /// key.
    pub(in super::super) unsafe fn new() -> Self {
        // INVARIANT: By the safety requirement.
        Self(())
    }

    /// Finds the bytes from `addr` to the end of its page, at most `len`.
    #[inline]
    fn locate(&self, addr: u64, len: usize) -> Result<(*mut u8, usize), AccessError> {
        let addr = usize::try_from(addr).map_err(|_| OutOfRange)?;
        // SAFETY: Any number may be asked about.
        if !unsafe { bindings::virt_addr_valid(core::ptr::without_provenance(addr)) } {
            return Err(OutOfRange);
        }
        let room = PAGE_SIZE.wrapping_sub(addr % PAGE_SIZE);
        Ok((core::ptr::with_exposed_provenance_mut(addr), len.min(room)))
    }

    /// Copies from `addr` to `dst`. On error a part may have been copied.
    pub fn read(&self, mut addr: u64, mut dst: &mut [u8]) -> Result<(), AccessError> {
        while !dst.is_empty() {
            let (src, n) = self.locate(addr, dst.len())?;
            let (now, rest) = dst.split_at_mut_checked(n).ok_or(OutOfRange)?;
            // SAFETY: The `n` bytes at `src` are in one page of the direct map, and the owner of the
            // region vouches for their use. `now` has `n` bytes.
            unsafe { copy(now.as_mut_ptr(), src, n) };
            addr = addr.wrapping_add(n as u64);
            dst = rest;
        }
        Ok(())
    }

    /// Copies `src` to `addr`. On error a part may have been copied.
    pub fn write(&self, mut addr: u64, mut src: &[u8]) -> Result<(), AccessError> {
        while !src.is_empty() {
            let (dst, n) = self.locate(addr, src.len())?;
            let (now, rest) = src.split_at_checked(n).ok_or(OutOfRange)?;
            // SAFETY: As in `read`, in the other direction.
            unsafe { copy(dst, now.as_ptr(), n) };
            addr = addr.wrapping_add(n as u64);
            src = rest;
        }
        Ok(())
    }

    /// Calls `access` with the aligned 8-byte word at `addr`.
    pub fn with_word<R>(
        &self,
        addr: u64,
        access: impl FnOnce(&Atomic<u64>) -> R,
    ) -> Result<R, AccessError> {
        let (word, n) = self.locate(addr, size_of::<u64>())?;
        if n < size_of::<u64>() {
            // It runs over the end of the page.
            return Err(Misaligned);
        }
        // SAFETY: The 8 bytes at `word` are in one page of the direct map, and the owner of the region
        // vouches for their use.
        unsafe { with_word(word, access) }
    }
}

/// Atomically replaces the word by `swap` if it equals `compare`. Returns what it was.
pub fn compare_swap(word: &Atomic<u64>, compare: u64, swap: u64) -> u64 {
    word.cmpxchg(compare, swap, Full).unwrap_or_else(|was| was)
}

/// Atomically adds to the word, modulo 2^64. Returns what it was.
pub fn fetch_add(word: &Atomic<u64>, add: u64) -> u64 {
    word.fetch_add(add, Full)
}

/// Writes the word at once, after all that was written before.
pub fn store_release(word: &Atomic<u64>, value: u64) {
    word.store(value, Release);
}

/// Copies `len` bytes of which others may change one side meanwhile.
///
/// # Safety
///
/// `dst` must be valid for writes and `src` for reads of `len` bytes, and they must not overlap.
#[inline]
pub(in super::super) unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: By the safety requirements. The C function and not `copy_nonoverlapping`, because of the
    // concurrent access: see the head of this file.
    unsafe { bindings::memcpy(dst.cast(), src.cast(), len) };
}

/// Calls `access` with the word at `ptr`, if it is aligned.
///
/// # Safety
///
/// `ptr` must point to 8 bytes that are allocated until the call returns.
#[inline]
pub(in super::super) unsafe fn with_word<R>(
    ptr: *mut u8,
    access: impl FnOnce(&Atomic<u64>) -> R,
) -> Result<R, AccessError> {
    let ptr: *mut u64 = ptr.cast();
    if !ptr.is_aligned() {
        return Err(Misaligned);
    }
    // SAFETY: `ptr` is aligned and valid, all values of a `u64` are good, and inside the kernel the
    // word is accessed as an atomic only, or by `memcpy`, which does not count as a Rust access.
    Ok(access(unsafe { Atomic::from_ptr(ptr) }))
}
