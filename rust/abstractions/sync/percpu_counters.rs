// SPDX-License-Identifier: GPL-2.0

//! Statistics counters without a shared cache line.
//!
//! Upstream home: rust/kernel/percpu.rs
//!
//! C header: [`include/linux/percpu.h`](srctree/include/linux/percpu.h)

use crate::abstractions::bindings;
use core::ptr::NonNull;
use kernel::{alloc::AllocError, prelude::*};

/// `N` counters of 64 bits, one copy of each for every CPU.
///
/// Adding may happen in any context and is not seen in any order by others. A sum that is taken
/// meanwhile holds some of the additions.
///
/// # Invariants
///
/// `base` is a per-CPU allocation of `N` zero-initialised 64-bit words.
pub struct PerCpuCounters<const N: usize> {
    base: NonNull<u64>,
}

// SAFETY: The counters are words in memory that only atomic per-CPU operations change.
unsafe impl<const N: usize> Send for PerCpuCounters<N> {}

// SAFETY: As for `Send`.
unsafe impl<const N: usize> Sync for PerCpuCounters<N> {}

impl<const N: usize> PerCpuCounters<N> {
    /// Allocates the counters, all zero. Sleeps.
    pub fn new() -> Result<Self, AllocError> {
        // SAFETY: May be called in process context; the alignment is a power of two.
        let base = unsafe {
            bindings::__alloc_percpu(size_of::<[u64; N]>(), core::mem::align_of::<u64>())
        };
        // INVARIANT: Per-CPU memory is zero when it is allocated.
        Ok(Self {
            base: NonNull::new(base.cast()).ok_or(AllocError)?,
        })
    }

    /// Adds to counter `index`; nothing happens if there is none.
    #[inline]
    pub fn add(&self, index: usize, n: u64) {
        if index < N {
            // SAFETY: The index is in bounds of the allocation.
            unsafe { bindings::this_cpu_add_u64(self.base.as_ptr().wrapping_add(index), n) };
        }
    }

    /// Returns the sum of counter `index` over all CPUs, zero if there is no such counter.
    pub fn sum(&self, index: usize) -> u64 {
        let mut sum = 0u64;

        if index < N {
            // SAFETY: Has no requirements.
            let cpus = unsafe { bindings::num_cpu_ids() };
            for cpu in 0..cpus {
                // SAFETY: The index is in bounds of the allocation; the helper answers zero for a
                // CPU that is not possible.
                let value = unsafe {
                    bindings::per_cpu_read_u64(self.base.as_ptr().wrapping_add(index), cpu)
                };
                sum = sum.wrapping_add(value);
            }
        }
        sum
    }
}

impl<const N: usize> Drop for PerCpuCounters<N> {
    fn drop(&mut self) {
        // SAFETY: The allocation is owned and nobody can add any more.
        unsafe { bindings::free_percpu(self.base.as_ptr().cast()) };
    }
}
