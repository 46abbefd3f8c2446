// SPDX-License-Identifier: GPL-2.0

//! Kernel memory that user processes can map.
//!
//! Upstream home: `rust/kernel/mm/user_buf.rs`.
//!
//! User space may write every byte at every moment. So there is no way here to get a reference into
//! the buffer, and nothing is ever read twice: bytes are copied out with volatile reads, word by word,
//! and what has been copied is the only thing that may be checked and used. As with
//! [`kernel::uaccess`], such a race is not one inside the Rust program: the other side is not part of
//! it.
//!
//! C headers: [`include/linux/vmalloc.h`](srctree/include/linux/vmalloc.h)

use super::super::bindings;
use core::ptr::NonNull;
use kernel::{
    mm::virt::VmaNew,
    prelude::*,
    sync::atomic::{
        Acquire,
        Atomic,
        Release, //
    }, //
};

/// The size of the words in which the buffer is copied.
const WORD: usize = size_of::<u64>();

/// A zeroed buffer that can be mapped by user processes. Its pages outlive it as long as they are
/// mapped.
///
/// # Invariants
///
/// `ptr` is the start of a `vmalloc_user` allocation of at least `len` bytes that this value owns. It
/// is page-aligned.
pub struct UserBuf {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: The memory is not tied to a thread, and all access is by volatile or atomic operations.
unsafe impl Send for UserBuf {}
// SAFETY: As above.
unsafe impl Sync for UserBuf {}

impl UserBuf {
    /// Allocates a buffer of `len` bytes, which must not be zero. May sleep.
    pub fn new(len: usize) -> Result<Self> {
        if len == 0 {
            return Err(EINVAL);
        }
        // SAFETY: No requirements.
        let ptr = unsafe { bindings::vmalloc_user_noprof(len as c_ulong) };
        let ptr = NonNull::new(ptr.cast()).ok_or(ENOMEM)?;
        // INVARIANT: It was allocated just now; vmalloc memory is page-aligned.
        Ok(Self { ptr, len })
    }

    /// Returns the size in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the address of `len` bytes from `offset`, if they are in the buffer.
    #[inline]
    fn at(&self, offset: usize, len: usize) -> Result<*mut u8> {
        let room = self.len.checked_sub(offset).ok_or(EINVAL)?;
        if len > room {
            return Err(EINVAL);
        }
        // SAFETY: `offset <= self.len`, so this is in the allocation or just behind it.
        Ok(unsafe { self.ptr.as_ptr().add(offset) })
    }

    /// Returns the address of the `words` words from `offset`, if they are in the buffer and aligned.
    #[inline]
    fn words_at(&self, offset: usize, words: usize) -> Result<*mut u64> {
        let len = words.checked_mul(WORD).ok_or(EINVAL)?;
        let ptr: *mut u64 = self.at(offset, len)?.cast();
        if !ptr.is_aligned() {
            return Err(EINVAL);
        }
        Ok(ptr)
    }

    /// Copies the bytes from `offset`, a multiple of 8, to `dst`.
    #[inline]
    pub fn copy_in(&self, offset: usize, dst: &mut [u8]) -> Result {
        let words = dst.len() / WORD;
        let src = self.words_at(offset, words)?;
        self.at(offset, dst.len())?;
        let mut chunks = dst.chunks_exact_mut(WORD);
        for (i, chunk) in (&mut chunks).enumerate() {
            // SAFETY: `words_at` checked that `words` aligned words from `src` are in the buffer.
            let word = unsafe { src.add(i).read_volatile() };
            chunk.copy_from_slice(&word.to_ne_bytes());
        }
        // SAFETY: At most the end of the bytes that were checked.
        let tail: *mut u8 = unsafe { src.add(words) }.cast();
        for (i, byte) in chunks.into_remainder().iter_mut().enumerate() {
            // SAFETY: `at` checked that all `dst.len()` bytes from `offset` are in the buffer.
            *byte = unsafe { tail.add(i).read_volatile() };
        }
        Ok(())
    }

    /// Copies `src` to the bytes from `offset`, a multiple of 8.
    #[inline]
    pub fn copy_out(&self, offset: usize, src: &[u8]) -> Result {
        let words = src.len() / WORD;
        let dst = self.words_at(offset, words)?;
        self.at(offset, src.len())?;
        let mut chunks = src.chunks_exact(WORD);
        for (i, chunk) in (&mut chunks).enumerate() {
            let mut word = [0; WORD];
            word.copy_from_slice(chunk);
            // SAFETY: `words_at` checked that `words` aligned words from `dst` are in the buffer.
            unsafe { dst.add(i).write_volatile(u64::from_ne_bytes(word)) };
        }
        // SAFETY: At most the end of the bytes that were checked.
        let tail: *mut u8 = unsafe { dst.add(words) }.cast();
        for (i, byte) in chunks.remainder().iter().enumerate() {
            // SAFETY: `at` checked that all `src.len()` bytes from `offset` are in the buffer.
            unsafe { tail.add(i).write_volatile(*byte) };
        }
        Ok(())
    }

    /// Calls `access` with the aligned 32-bit word at `offset` as an atomic.
    #[inline]
    fn with_u32<R>(&self, offset: usize, access: impl FnOnce(&Atomic<u32>) -> R) -> Result<R> {
        let ptr: *mut u32 = self.at(offset, size_of::<u32>())?.cast();
        if !ptr.is_aligned() {
            return Err(EINVAL);
        }
        // SAFETY: The word is in the buffer and aligned, all its values are good, and the kernel accesses
        // the buffer by volatile and atomic operations only.
        Ok(access(unsafe { Atomic::from_ptr(ptr) }))
    }

    /// Reads the 32-bit word at `offset`, a multiple of 4, before anything that is read later.
    #[inline]
    pub fn load_acquire_u32(&self, offset: usize) -> Result<u32> {
        self.with_u32(offset, |word| word.load(Acquire))
    }

    /// Writes the 32-bit word at `offset`, a multiple of 4, after all that was written before.
    #[inline]
    pub fn store_release_u32(&self, offset: usize, value: u32) -> Result {
        self.with_u32(offset, |word| word.store(value, Release))
    }

    /// Maps the buffer, from its start, over the whole of `vma`, which must not be longer than the
    /// buffer is, rounded up to pages.
    pub fn map(&self, vma: &VmaNew) -> Result {
        // SAFETY: `vma` is a valid area that is being set up, `ptr` is `vmalloc_user` memory. The length
        // is checked by the callee, and each mapped page is referenced by the mapping.
        let ret =
            unsafe { bindings::remap_vmalloc_range(vma.as_ptr(), self.ptr.as_ptr().cast(), 0) };
        kernel::error::to_result(ret)
    }
}

impl Drop for UserBuf {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the allocation is ours. `vfree` may be called in softirq.
        unsafe { bindings::vfree(self.ptr.as_ptr().cast()) };
    }
}
