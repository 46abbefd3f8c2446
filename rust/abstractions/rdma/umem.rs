// SPDX-License-Identifier: GPL-2.0

//! User memory pinned for a device.
//!
//! Upstream home: `rust/kernel/rdma/umem.rs`.
//!
//! C header: [`include/rdma/ib_umem.h`](srctree/include/rdma/ib_umem.h)

use super::super::{
    bindings,
    mm::direct::Blocks, //
};
use core::{
    marker::PhantomData,
    mem::MaybeUninit,
    ptr::NonNull, //
};
use kernel::{
    error::from_err_ptr,
    page::PAGE_SIZE,
    prelude::*, //
};

/// A range of the calling process's address space, as `reg_user_mr` is given it.
///
/// # Invariants
///
/// `device` is a registered device that is kept for `'a`.
pub struct UserMemory<'a> {
    device: NonNull<bindings::ib_device>,
    start: u64,
    length: u64,
    _device: PhantomData<&'a ()>,
}

impl UserMemory<'_> {
    /// Describes `length` bytes from `start`, both unchecked.
    ///
    /// # Safety
    ///
    /// `device` must be a registered device, and be kept for the life of the value.
    pub(in super::super) unsafe fn new(
        device: NonNull<bindings::ib_device>,
        start: u64,
        length: u64,
    ) -> Self {
        // INVARIANT: By the safety requirement.
        Self {
            device,
            start,
            length,
            _device: PhantomData,
        }
    }

    /// Returns the device.
    #[cfg(CONFIG_INFINIBAND_ON_DEMAND_PAGING)]
    pub(super) fn device(&self) -> *mut bindings::ib_device {
        self.device.as_ptr()
    }

    /// Returns the address that the range begins at, unchecked.
    #[cfg(CONFIG_INFINIBAND_ON_DEMAND_PAGING)]
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Returns the length of the range, unchecked.
    #[cfg(CONFIG_INFINIBAND_ON_DEMAND_PAGING)]
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Pins the range in memory and lists its blocks. `access` are `IB_ACCESS_*` flags; they decide
    /// whether the pages must be writable. Sleeps; in the context of the process.
    pub fn pin(&self, iova: u64, access: u32) -> Result<Umem> {
        let start = c_ulong::try_from(self.start).map_err(|_| EINVAL)?;
        let length = usize::try_from(self.length).map_err(|_| EINVAL)?;
        // SAFETY: The device is valid by the type invariants, the rest is checked by the callee.
        let ptr = from_err_ptr(unsafe {
            bindings::ib_umem_get_va(self.device.as_ptr(), start, length, access as c_int)
        })?;
        let ptr = NonNull::new(ptr).ok_or(EINVAL)?;
        // INVARIANT: The memory is pinned and mapped by `ib_umem_get_va`, and is ours.
        let mut umem = Umem {
            ptr,
            blocks: Blocks::empty(),
        };
        umem.list_blocks(iova)?;
        Ok(umem)
    }
}

/// Pinned user memory, which stays allocated until this is dropped. Dropping sleeps.
///
/// # Invariants
///
/// `ptr` is a umem that this value owns. `blocks` lists memory that it pins.
pub struct Umem {
    ptr: NonNull<bindings::ib_umem>,
    blocks: Blocks,
}

// SAFETY: A umem can be released by another thread than the one that pinned it.
unsafe impl Send for Umem {}
// SAFETY: Through a shared reference the umem is only read.
unsafe impl Sync for Umem {}

impl Umem {
    /// Lists the memory in the largest blocks that its contiguous pieces and `iova` allow.
    fn list_blocks(&mut self, iova: u64) -> Result {
        // From pages to the largest size that the iterator's 32-bit counters can take.
        let sizes = (1usize << 31).wrapping_sub(PAGE_SIZE) | (1 << 30);
        // SAFETY: The umem is valid by the type invariants, and not shared yet.
        let size =
            unsafe { bindings::ib_umem_find_best_pgsz(self.ptr.as_ptr(), sizes as c_ulong, iova) };
        if size == 0 {
            // `iova` and the address have different offsets in the page, or the range wraps.
            return Err(EINVAL);
        }
        // SAFETY: The umem is valid; `size` was computed for it.
        let count = unsafe { bindings::ib_umem_num_dma_blocks(self.ptr.as_ptr(), size) };
        self.blocks = Blocks::with_capacity(count, GFP_KERNEL_ACCOUNT)?;
        self.blocks.restart(size.trailing_zeros())?;

        let mut iter = MaybeUninit::<bindings::ib_block_iter>::uninit();
        let iter = iter.as_mut_ptr();
        // SAFETY: This initialises the iterator over the valid umem.
        unsafe { bindings::__rdma_umem_block_iter_start(iter, self.ptr.as_ptr(), size) };
        // SAFETY: The iterator is initialised, and the umem lives longer.
        while unsafe { bindings::__rdma_umem_block_iter_next(iter) } {
            // SAFETY: The iterator stands at a block.
            let addr = unsafe { bindings::rdma_block_iter_dma_address(iter) };
            self.blocks
                .push(usize::try_from(addr).map_err(|_| EINVAL)?)?;
        }
        // SAFETY: The umem is valid; nobody writes its length.
        let length = unsafe { (*self.ptr.as_ptr()).length } as u64;
        let first = iova & (size as u64).wrapping_sub(1);
        // SAFETY: The device has no DMA device (this driver sets none), so the block addresses are those
        // of the pages in the direct map. `find_best_pgsz` chose the size such that each block is
        // contiguous where the range covers it. The pages are pinned as long as `self` exists.
        unsafe { self.blocks.finish(first, length) }
    }

    /// Returns the list of the memory; position [`Blocks::first`] is the byte at the I/O address that
    /// [`UserMemory::pin`] was given.
    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// Returns an error unless the pinned pages serve as well for the access flags `access`.
    pub fn check_access(&self, access: u32) -> Result {
        // SAFETY: The umem is valid and only read.
        let ret = unsafe {
            bindings::ib_umem_check_rereg(
                self.ptr.as_ptr(),
                bindings::ib_mr_rereg_flags_IB_MR_REREG_ACCESS as c_int,
                access as c_int,
            )
        };
        kernel::error::to_result(ret)
    }
}

impl Drop for Umem {
    fn drop(&mut self) {
        self.blocks = Blocks::empty();
        // SAFETY: The umem is ours by the type invariants, and its blocks are listed nowhere any more.
        unsafe { bindings::ib_umem_release(self.ptr.as_ptr()) };
    }
}
