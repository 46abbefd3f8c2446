// SPDX-License-Identifier: GPL-2.0

//! User memory whose pages are brought in when they are accessed.
//!
//! Upstream home: `rust/kernel/rdma/umem_odp.rs`.
//!
//! Nothing is pinned. The C object has a list of pages, which its mutex guards:
//!
//! - An access takes the mutex and copies, if the page is in the list.
//! - Otherwise the page tables are asked for the page, and the process's fault handler if it is not there. The answer goes
//!   to a buffer of the caller. It is confirmed with the mutex held: if no invalidation has begun meanwhile, it is put into
//!   the list, and the access is made before the mutex is released.
//! - An invalidation takes the mutex and strikes pages off the list. So it waits for the accesses under way, and a
//!   page that it was told of is not touched after it has returned.
//!
//! `ib_umem_odp_map_dma_and_lock` is not used: it has the page tables' answer written to the list itself and without the
//! mutex, where another access may come across pages that are not confirmed.
//!
//! C header: [`include/rdma/ib_umem_odp.h`](srctree/include/rdma/ib_umem_odp.h)

use super::{
    super::{
        bindings,
        mm::direct::{
            self,
            AccessError, //
        }, //
    },
    umem::UserMemory, //
};
use core::{
    ops::Range,
    ptr::NonNull, //
};
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    mm::{
        Mm,
        MmWithUser,
        MmWithUserAsync, //
    },
    page::{
        PAGE_SHIFT,
        PAGE_SIZE, //
    },
    prelude::*,
    sync::{
        aref::ARef,
        atomic::Atomic, //
    },
    time::msecs_to_jiffies,
    types::NotThreadSafe, //
};

/// The kernel has on-demand paging.
pub const SUPPORTED: bool = true;

/// How many pages are asked for at once.
const BATCH: usize = 32;

/// How long to ask while invalidations come in between, in milliseconds.
const PATIENCE: u32 = bindings::HMM_RANGE_DEFAULT_TIMEOUT;

/// How often to ask again because an invalidation came after the answer. A process that does nothing but
/// invalidate must not hold whoever waits for an access to end.
const TRIES: u32 = 100;

/// The entry of the list is a page that may be read.
const VALID: c_ulong = bindings::hmm_pfn_flags_HMM_PFN_VALID as c_ulong;

/// The entry of the list is a page that may be written.
const WRITE: c_ulong = bindings::hmm_pfn_flags_HMM_PFN_WRITE as c_ulong;

/// What is to be done with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Use it if it is there.
    Present,
    /// Read it.
    Read,
    /// Write it.
    Write,
}

impl Want {
    /// What the entry of a page must have, and what the page tables are asked for.
    const fn flags(self) -> c_ulong {
        match self {
            Self::Present => 0,
            Self::Read => VALID,
            Self::Write => VALID | WRITE,
        }
    }
}

impl UserMemory<'_> {
    /// Makes the range accessible page by page. `access` are `IB_ACCESS_*` flags; they decide whether pages may be
    /// written. None of the range need be mapped, now or later. Sleeps; in the context of the process.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for all of the address space, `EOVERFLOW` if the range wraps round, `ENOMEM`.
    pub fn on_demand(&self, access: u32) -> Result<OdpUmem> {
        if self.start() == 0 && self.length() == u64::MAX {
            return Err(EOPNOTSUPP);
        }
        let start = usize::try_from(self.start()).map_err(|_| EINVAL)?;
        let length = usize::try_from(self.length()).map_err(|_| EINVAL)?;
        // Huge pages are served like others. The list is to have one entry for each page of the machine.
        let access = access & !bindings::ib_access_flags_IB_ACCESS_HUGETLB
            | bindings::ib_access_flags_IB_ACCESS_ON_DEMAND;
        // SAFETY: The device is valid, the range is checked by the callee. `OPS` lives for ever.
        let ptr = from_err_ptr(unsafe {
            bindings::ib_umem_odp_get(self.device(), start, length, access as c_int, &OPS)
        })?;
        let ptr = NonNull::new(ptr).ok_or(EINVAL)?;
        // SAFETY: The umem is valid; these fields do not change, unlike those beside them.
        let (first, last) = unsafe {
            let tree = &raw const (*ptr.as_ptr()).notifier.interval_tree;
            ((*tree).start, (*tree).last)
        };
        let pages = last.wrapping_sub(first) / PAGE_SIZE;
        // INVARIANT: The umem is ours. `ib_umem_odp_get` has checked that the end does not wrap round, and
        // has made the list as long as the range has pages, of which `last` is the last byte.
        Ok(OdpUmem {
            ptr,
            first,
            pages: pages.wrapping_add(1),
            start,
            length,
        })
    }
}

/// User memory that is accessible page by page, as far as it is mapped at the time. Dropping sleeps.
///
/// Accesses sleep. They fail with [`AccessError::Absent`] if there is no page that the process itself could access in
/// that way, or if the process is gone.
///
/// # Invariants
///
/// `ptr` is a umem that this value owns, made with [`OPS`]. It spans `pages` pages from the address `first`,
/// and its list has an entry for each. The `length` bytes from `start` are in these pages.
///
/// The list is accessed with the mutex only. An entry that has [`VALID`] is a page of the direct map that the process
/// has at the place, and whose invalidation waits for the mutex; if it has [`WRITE`] the process may write the
/// page.
pub struct OdpUmem {
    ptr: NonNull<bindings::ib_umem_odp>,
    first: usize,
    pages: usize,
    start: usize,
    length: usize,
}

// SAFETY: A umem can be released by another thread than the one that made it.
unsafe impl Send for OdpUmem {}
// SAFETY: What changes is guarded by the mutex.
unsafe impl Sync for OdpUmem {}

impl OdpUmem {
    /// Returns the length in bytes.
    pub fn length(&self) -> u64 {
        self.length as u64
    }

    /// Returns an error unless the pages may be used for the access flags `access`.
    pub fn check_access(&self, access: u32) -> Result {
        // SAFETY: The umem is valid and only read.
        to_result(unsafe {
            bindings::ib_umem_check_rereg(
                &raw mut (*self.ptr.as_ptr()).umem,
                bindings::ib_mr_rereg_flags_IB_MR_REREG_ACCESS as c_int,
                access as c_int,
            )
        })
    }

    /// Copies from byte `offset` to `dst`. On error a part may have been copied.
    pub fn read(&self, offset: u64, mut dst: &mut [u8]) -> Result<(), AccessError> {
        let mut place = self.locate(offset, dst.len())?;
        while !dst.is_empty() {
            let (now, rest) = split_at_page(place, dst.len());
            let (to, left) = dst
                .split_at_mut_checked(now)
                .ok_or(AccessError::OutOfRange)?;
            self.with_page(place, Want::Read, |src| {
                // SAFETY: The bytes up to the end of the page are in the direct map, of which there is no Rust
                // reference. `to` ends there or before.
                unsafe { direct::copy(to.as_mut_ptr(), src, to.len()) }
            })?;
            (place, dst) = (rest, left);
        }
        Ok(())
    }

    /// Copies `src` to byte `offset`. On error a part may have been copied.
    pub fn write(&self, offset: u64, mut src: &[u8]) -> Result<(), AccessError> {
        let mut place = self.locate(offset, src.len())?;
        while !src.is_empty() {
            let (now, rest) = split_at_page(place, src.len());
            let (from, left) = src.split_at_checked(now).ok_or(AccessError::OutOfRange)?;
            self.with_page(place, Want::Write, |dst| {
                // SAFETY: As in `read`, in the other direction.
                unsafe { direct::copy(dst, from.as_ptr(), from.len()) }
            })?;
            (place, src) = (rest, left);
        }
        Ok(())
    }

    /// Calls `access`, which must not sleep long, with the aligned 8-byte word at byte `offset`, to be read and written.
    pub fn with_word<R>(
        &self,
        offset: u64,
        access: impl FnOnce(&Atomic<u64>) -> R,
    ) -> Result<R, AccessError> {
        let place = self.locate(offset, size_of::<u64>())?;
        if place % align_of::<u64>() != 0 {
            return Err(AccessError::Misaligned);
        }
        self.with_page(place, Want::Write, |word| {
            // SAFETY: An aligned word does not reach beyond the page, and the page stays.
            unsafe { direct::with_word(word, access) }
        })?
    }

    /// Writes back `len` bytes from byte `offset` to persistent memory.
    ///
    /// # Errors
    ///
    /// [`AccessError::Absent`] also if the memory is not persistent. What comes before has been written back.
    pub fn write_back(&self, offset: u64, mut len: usize) -> Result<(), AccessError> {
        let mut place = self.locate(offset, len)?;
        while len > 0 {
            let (now, rest) = split_at_page(place, len);
            let persistent = self.with_page(place, Want::Read, |addr| {
                let persistent = direct::is_persistent(addr, now);
                if persistent {
                    // SAFETY: The bytes up to the end of the page are in the direct map.
                    unsafe { bindings::arch_wb_cache_pmem(addr.cast(), now) };
                }
                persistent
            })?;
            if !persistent {
                return Err(AccessError::Absent);
            }
            (place, len) = (rest, len.saturating_sub(now));
        }
        Ok(())
    }

    /// Finds the pages of `len` bytes from byte `offset` ahead of accesses. With [`Want::Present`] what is not there is
    /// left alone.
    ///
    /// # Errors
    ///
    /// `EFAULT` if the range is not in the memory or not mapped, `EPERM` if it may not be written, `ESRCH` if the process is
    /// gone, `EBUSY` if it changes its mappings all the time, `ENOMEM`.
    pub fn prefetch(&self, offset: u64, len: usize, want: Want) -> Result {
        if len == 0 {
            return Ok(());
        }
        let place = self.locate(offset, len).map_err(|_| EFAULT)?;
        let mm = self.mm().ok_or(ESRCH)?;
        let mut at = self.index(place);
        let end = self.index(place.wrapping_add(len - 1)).wrapping_add(1);
        while at < end {
            let next = end.min(at.wrapping_add(BATCH));
            drop(self.find(&mm, at..next, want)?);
            at = next;
        }
        Ok(())
    }

    /// Returns the address in the process of byte `offset`, if there are `len` bytes.
    fn locate(&self, offset: u64, len: usize) -> Result<usize, AccessError> {
        let offset = usize::try_from(offset).map_err(|_| AccessError::OutOfRange)?;
        match self.length.checked_sub(offset) {
            // Does not wrap round by the type invariants.
            Some(room) if len <= room => Ok(self.start.wrapping_add(offset)),
            _ => Err(AccessError::OutOfRange),
        }
    }

    /// Returns the place in the list of the page that has the address `place` in the process.
    fn index(&self, place: usize) -> usize {
        place.wrapping_sub(self.first) >> PAGE_SHIFT
    }

    /// Keeps the address space of the process, if it is still there.
    fn mm(&self) -> Option<ARef<MmWithUserAsync>> {
        // SAFETY: The umem is valid, and its notifier keeps the structure of the address space.
        let mm = unsafe { Mm::from_raw((*self.ptr.as_ptr()).notifier.mm) };
        Some(MmWithUser::into_mmput_async(mm.mmget_not_zero()?))
    }

    /// Calls `access` with the address of the byte that has the address `place` in the process. Up to the end of its
    /// page, that is memory of the direct map, which stays until `access` returns.
    fn with_page<R>(
        &self,
        place: usize,
        want: Want,
        access: impl FnOnce(*mut u8) -> R,
    ) -> Result<R, AccessError> {
        let index = self.index(place);
        let mut pages = self.lock();
        if !pages.has(index, want) {
            drop(pages);
            pages = self.bring_in(index, want).ok_or(AccessError::Absent)?;
        }
        let page = pages
            .page(index)
            .filter(|_| pages.has(index, want))
            .ok_or(AccessError::Absent)?;
        // SAFETY: By the type invariants this is a page of the direct map, which stays as long as `pages`
        // holds the mutex.
        let addr: *mut u8 = unsafe { bindings::page_address(page) }.cast();
        let result = access(addr.wrapping_add(place % PAGE_SIZE));
        if want == Want::Write {
            // The process has not written the page, so only this tells that it is not what it was.
            // SAFETY: As above.
            unsafe {
                let folio = bindings::page_folio(page);
                if !bindings::folio_test_dirty(folio) {
                    bindings::folio_mark_dirty(folio);
                }
            }
        }
        Ok(result)
    }

    /// Finds page `index` and puts it into the list, or [`None`].
    #[cold]
    fn bring_in(&self, index: usize, want: Want) -> Option<Locked<'_>> {
        let mm = self.mm()?;
        // Those that follow are mostly wanted next.
        let end = self.pages.min(index.wrapping_add(BATCH));
        let pages = self.find(&mm, index..end, Want::Present).ok()?;
        if pages.has(index, want) {
            return Some(pages);
        }
        drop(pages);
        self.find(&mm, index..index.wrapping_add(1), want).ok()
    }

    /// Asks the page tables for at most [`BATCH`] pages, has the process's fault handler bring in what is
    /// wanted and not there, and puts into the list what was found.
    fn find(&self, _mm: &MmWithUser, pages: Range<usize>, want: Want) -> Result<Locked<'_>> {
        let address = |index: usize| self.first.wrapping_add(index << PAGE_SHIFT);
        if pages.len() > BATCH || pages.end > self.pages {
            return Err(EFAULT);
        }
        for _ in 0..TRIES {
            let mut found = [0; BATCH];
            let mut range = bindings::hmm_range {
                // SAFETY: The umem is valid.
                notifier: unsafe { &raw mut (*self.ptr.as_ptr()).notifier },
                start: address(pages.start),
                end: address(pages.end),
                hmm_pfns: found.as_mut_ptr(),
                default_flags: want.flags(),
                ..Default::default()
            };
            // SAFETY: The range is in that of the notifier, whose address space has users as long as `_mm`.
            // `found` has room for all its pages.
            to_result(unsafe {
                bindings::hmm_range_fault_unlocked_timeout(&mut range, msecs_to_jiffies(PATIENCE))
            })?;
            let mut list = self.lock();
            if list.is_confirmed(range.notifier_seq) {
                for (index, entry) in pages.clone().zip(found) {
                    // SAFETY: It is what the page tables have, and no invalidation has begun since.
                    unsafe { list.set(index, entry) };
                }
                return Ok(list);
            }
        }
        Err(EBUSY)
    }

    /// Takes the mutex.
    fn lock(&self) -> Locked<'_> {
        // SAFETY: The umem is valid.
        unsafe { bindings::mutex_lock(&raw mut (*self.ptr.as_ptr()).umem_mutex) };
        // INVARIANT: Just taken.
        Locked {
            umem: self,
            _not_send: NotThreadSafe,
        }
    }
}

impl Drop for OdpUmem {
    fn drop(&mut self) {
        // SAFETY: The umem is ours by the type invariants, and there is no access any more.
        unsafe { bindings::ib_umem_odp_release(self.ptr.as_ptr()) };
    }
}

/// Splits `len` bytes from `place` at the end of the first page: returns how many are before, and the place behind it.
fn split_at_page(place: usize, len: usize) -> (usize, usize) {
    let now = len.min(PAGE_SIZE.wrapping_sub(place % PAGE_SIZE));
    (now, place.wrapping_add(now))
}

/// The list of pages of a umem.
///
/// # Invariants
///
/// Owns the mutex.
struct Locked<'a> {
    umem: &'a OdpUmem,
    _not_send: NotThreadSafe,
}

impl Locked<'_> {
    /// Returns where entry `index` is.
    fn entry(&self, index: usize) -> Option<*mut c_ulong> {
        if index >= self.umem.pages {
            return None;
        }
        // SAFETY: The umem is valid and its list has an entry for each page.
        Some(unsafe { (*self.umem.ptr.as_ptr()).map.pfn_list.add(index) })
    }

    /// Returns entry `index`; 0 if there is none.
    fn get(&self, index: usize) -> c_ulong {
        // SAFETY: We own the mutex.
        self.entry(index).map_or(0, |entry| unsafe { entry.read() })
    }

    /// Tells whether page `index` is there and may be used as wanted.
    fn has(&self, index: usize, want: Want) -> bool {
        self.get(index) & want.flags() == want.flags()
    }

    /// Returns page `index` if it is there.
    fn page(&self, index: usize) -> Option<*mut bindings::page> {
        let entry = self.get(index);
        // SAFETY: By the type invariants of the umem there is such a page.
        (entry & VALID != 0).then(|| unsafe { bindings::hmm_pfn_to_page(entry) })
    }

    /// Tells whether no invalidation has begun since `seq` was the number of the last one.
    fn is_confirmed(&self, seq: c_ulong) -> bool {
        // SAFETY: The umem is valid, and we own the mutex that its invalidation takes.
        !unsafe {
            bindings::mmu_interval_read_retry(&raw mut (*self.umem.ptr.as_ptr()).notifier, seq)
        }
    }

    /// Sets entry `index` to what the page tables have. What is not in the direct map is left out.
    ///
    /// # Safety
    ///
    /// It must be what `hmm_range_fault` has found for the page, confirmed since the mutex was taken.
    unsafe fn set(&mut self, index: usize, entry: c_ulong) {
        // SAFETY: By the safety requirement, if it is valid.
        let usable = entry & VALID != 0 && unsafe { in_direct_map(entry) };
        if let Some(place) = self.entry(index) {
            // INVARIANT: A page that is not valid, or one that the process has, which is in the direct map.
            // SAFETY: We own the mutex.
            unsafe { place.write(if usable { entry } else { 0 }) };
        }
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // SAFETY: We own the mutex by the type invariants.
        unsafe { bindings::mutex_unlock(&raw mut (*self.umem.ptr.as_ptr()).umem_mutex) };
    }
}

/// Tells whether a page that a process has is in the direct map: all are but those of secret memory
/// (`memfd_secret(2)`).
///
/// # Safety
///
/// `entry` must be a page that a process has, and that stays during the call.
unsafe fn in_direct_map(entry: c_ulong) -> bool {
    // SAFETY: The page is there by the safety requirement, and so is the file that it belongs to, which cannot be
    // truncated while processes have pages of it.
    unsafe {
        let folio = bindings::page_folio(bindings::hmm_pfn_to_page(entry));
        let mapping = bindings::folio_mapping(folio);
        // Pages that wait to be swapped out belong to a mapping of no file.
        mapping.is_null()
            || (*mapping).host.is_null()
            || (*(*(*mapping).host).i_sb).s_magic != bindings::SECRETMEM_MAGIC as c_ulong
    }
}

/// What the address space tells of its changes.
static OPS: bindings::mmu_interval_notifier_ops = bindings::mmu_interval_notifier_ops {
    invalidate: Some(invalidate),
    invalidate_start: None,
    invalidate_finish: None,
};

/// Strikes the pages of a range off the list, after accesses under way.
///
/// # Safety
///
/// Called by the address space for the notifier of a umem that was made with [`OPS`].
unsafe extern "C" fn invalidate(
    notifier: *mut bindings::mmu_interval_notifier,
    range: *const bindings::mmu_notifier_range,
    seq: c_ulong,
) -> bool {
    // SAFETY: The range is valid for the call.
    if !unsafe { bindings::mmu_notifier_range_blockable(range) } {
        return false;
    }
    // SAFETY: The notifier is the field of a umem, which exists until the notifier is removed. The range is clamped to that
    // of the umem by the callee.
    unsafe {
        let umem = kernel::container_of!(notifier, bindings::ib_umem_odp, notifier);
        let mutex = &raw mut (*umem).umem_mutex;
        bindings::mutex_lock(mutex);
        bindings::mmu_interval_set_seq(notifier, seq);
        bindings::ib_umem_odp_unmap_dma_pages(umem, (*range).start as u64, (*range).end as u64);
        bindings::mutex_unlock(mutex);
    }
    true
}
