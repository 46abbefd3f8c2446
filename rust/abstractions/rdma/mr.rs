// SPDX-License-Identifier: GPL-2.0

//! Memory regions.
//!
//! Upstream home: `rust/kernel/rdma/mr.rs`.
//!
//! Unlike the other objects, a memory region's C object is allocated and freed by the driver. Here it
//! is the first member of a [`Shell`], with the driver's own part behind it.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    super::{
        bindings,
        mm::direct::{
            AllMemory,
            Blocks, //
        }, //
    },
    umem::UserMemory,
    wr::{
        self,
        Sge, //
    }, //
};
use core::{
    cell::UnsafeCell,
    marker::PhantomData,
    mem::offset_of,
    ptr::{
        self,
        NonNull, //
    },
};
use kernel::{
    error::{
        from_result,
        to_result, //
    },
    page::PAGE_SIZE,
    prelude::*,
    sync::atomic::{
        Acquire,
        Atomic,
        Release, //
    },
    types::Opaque, //
};

/// The driver's protection domain object, of which the core knows the C part.
///
/// # Safety
///
/// `from_ib_pd` must return the object that the C part belongs to.
pub unsafe trait IbPd: Sized {
    /// Finds the driver's object.
    ///
    /// # Safety
    ///
    /// `pd` must be a protection domain of this driver, kept for `'a`.
    unsafe fn from_ib_pd<'a>(pd: *mut bindings::ib_pd) -> &'a Self;
}

/// Changes that `rereg_user_mr` asks for. What is `None` stays as it is.
pub struct Rereg<'a, P> {
    /// The new memory, and its I/O address.
    pub memory: Option<(UserMemory<'a>, u64)>,
    /// The new protection domain.
    pub pd: Option<&'a P>,
    /// The new access flags.
    pub access: Option<u32>,
}

/// What a process says of memory that is accessible page by page (`enum ib_uverbs_advise_mr_advice`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// It will be read.
    Prefetch,
    /// It will be written.
    PrefetchWrite,
    /// It will be used, as far as it is there.
    PrefetchNoFault,
}

/// The verbs of memory regions. The value is the driver's part of one region.
pub trait Operations: Sized + Send + Sync + 'static {
    /// The driver's protection domains.
    type Pd: IbPd;

    /// Makes a region of all memory, for kernel consumers (`get_dma_mr`).
    fn dma(pd: &Self::Pd, memory: AllMemory, access: u32) -> Result<Self>;

    /// Makes a region of memory of the calling process (`reg_user_mr`).
    fn user(pd: &Self::Pd, memory: UserMemory<'_>, iova: u64, access: u32) -> Result<Self>;

    /// Makes a region for fast registration of at most `max_sg` pages (`alloc_mr`).
    fn fast(pd: &Self::Pd, max_sg: u32) -> Result<Self>;

    /// Changes a user region, all or nothing (`rereg_user_mr`).
    fn rereg(&self, change: Rereg<'_, Self::Pd>) -> Result;

    /// Gets memory ready for what the process says (`advise_mr`): before this returns, if `wait` is set, or else at some
    /// time. Sleeps.
    fn advise(pd: &Self::Pd, advice: Advice, wait: bool, list: &[Sge]) -> Result;

    /// Takes over the pages of a scatter list (`map_mr_sg`), with [`ScatterMap::list`]. Returns the
    /// number of entries taken. Any context; only for regions made by [`fast`](Self::fast).
    fn map_sg(&self, map: ScatterMap<'_>) -> Result<usize>;

    /// Ends the region (`dereg_mr`): after this the value is dropped. On error it lives on.
    fn dereg(&self) -> Result;

    /// Returns the local and remote key that a new region starts with.
    fn key(&self) -> u32;
}

/// The C object of a memory region with the driver's part behind it.
#[repr(C)]
pub struct Shell<T> {
    ib: Opaque<bindings::ib_mr>,
    /// Where the pages of the scatter list go during a call of `map_mr_sg`, otherwise `None`.
    /// Accessed only by the owner of `mapping`.
    sink: UnsafeCell<Option<NonNull<Blocks>>>,
    /// Non-zero while a call of `map_mr_sg` is going on.
    mapping: Atomic<u32>,
    body: T,
}

impl<T: Operations> Shell<T> {
    /// Allocates a region and makes its driver part.
    fn allocate(
        pd: *mut bindings::ib_pd,
        kind: bindings::ib_mr_type,
        body: impl FnOnce() -> Result<T>,
    ) -> Result<*mut bindings::ib_mr> {
        const { assert!(offset_of!(Self, ib) == 0) };
        // First the memory, which can be given back without a trace.
        let shell = KBox::<Self>::new_uninit(GFP_KERNEL)?;
        let body = body()?;
        let shell = KBox::write(
            shell,
            Self {
                ib: Opaque::zeroed(),
                sink: UnsafeCell::new(None),
                mapping: Atomic::new(0),
                body,
            },
        );
        let key = shell.body.key();
        let ib = shell.ib.get();
        // SAFETY: `pd` is a valid protection domain by the core's contract for the callers, all of them
        // verbs that are given it. `ib` is zeroed memory that nobody else knows yet.
        unsafe {
            (*ib).device = (*pd).device;
            (*ib).pd = pd;
            (*ib).lkey = key;
            (*ib).rkey = key;
            (*ib).page_size = PAGE_SIZE as c_uint;
            (*ib).type_ = kind;
        }
        Ok(KBox::into_raw(shell).cast())
    }

    /// Finds the region of a C object.
    ///
    /// # Safety
    ///
    /// `mr` must be a region that this driver made with parts of type `T`, kept for `'a`.
    pub(in super::super) unsafe fn from_raw<'a>(mr: *mut bindings::ib_mr) -> &'a Self {
        // CAST: `ib` is the first member.
        // SAFETY: By the safety requirements.
        unsafe { &*mr.cast::<Self>() }
    }

    /// Returns the driver's part.
    pub fn body(&self) -> &T {
        &self.body
    }

    /// Returns the I/O address that the consumer sees in the C object at this moment. Consumers change
    /// it between `map_mr_sg` and the registration request.
    pub fn iova(&self) -> u64 {
        // SAFETY: `ib` is valid memory; a consumer may write it concurrently, hence volatile.
        unsafe { ptr::addr_of!((*self.ib.get()).iova).read_volatile() }
    }
}

/// A scatter list to be taken over by a region.
pub struct ScatterMap<'a> {
    mr: *mut bindings::ib_mr,
    sgl: *mut bindings::scatterlist,
    entries: c_int,
    offset: *mut c_uint,
    list: unsafe fn(&mut ScatterMap<'_>, &mut Blocks) -> c_int,
    _call: PhantomData<&'a mut ()>,
}

impl ScatterMap<'_> {
    /// Returns the size of the pages that the consumer thinks in, unchecked.
    pub fn page_size(&self) -> u32 {
        // SAFETY: The region is valid for the call; `ib_map_mr_sg` has just written the field.
        unsafe { (*self.mr).page_size }
    }

    /// Lists the pages of the longest prefix of the scatter list that can be registered at once, up to
    /// the capacity of `blocks`. Returns the number of entries that were taken. On error the list is left
    /// empty.
    pub fn list(mut self, blocks: &mut Blocks) -> Result<usize> {
        let size = self.page_size();
        if !size.is_power_of_two() {
            return Err(EINVAL);
        }
        blocks.restart(size.trailing_zeros())?;
        // SAFETY: `list` is `list_pages` for the type of the region.
        let entries = unsafe { (self.list)(&mut self, blocks) };
        let result = to_result(entries.min(0)).and_then(|()| {
            // SAFETY: The region is valid for the call; the fields were written by `ib_sg_to_pages`.
            let (iova, length) = unsafe { ((*self.mr).iova, (*self.mr).length) };
            let first = iova & u64::from(size).wrapping_sub(1);
            // SAFETY: The device has no DMA device (this driver sets none), so the entries are the
            // addresses of pages of the direct map. `ib_sg_to_pages` goes on to another page only where
            // the list is contiguous or page-aligned. The consumer keeps the memory while it is
            // registered: the contract of fast registration.
            unsafe { blocks.finish(first, length) }?;
            usize::try_from(entries).map_err(|_| EINVAL)
        });
        if result.is_err() {
            blocks.restart(size.trailing_zeros())?;
        }
        result
    }
}

/// Has the core turn the scatter list into pages, which go to `blocks`.
///
/// # Safety
///
/// `map.mr` must be a region with a driver part of type `T`.
unsafe fn list_pages<T: Operations>(map: &mut ScatterMap<'_>, blocks: &mut Blocks) -> c_int {
    // SAFETY: By the safety requirement.
    let shell = unsafe { Shell::<T>::from_raw(map.mr) };
    if shell.mapping.cmpxchg(0, 1, Acquire).is_err() {
        // The consumer maps the same region twice at once.
        return EBUSY.to_errno();
    }
    // SAFETY: `mapping` is ours.
    unsafe { *shell.sink.get() = Some(NonNull::from(blocks)) };
    // SAFETY: The arguments are those that the core gave to `map_mr_sg`. `set_page::<T>` may be called
    // for this region until the call returns: `sink` is set.
    let ret = unsafe {
        bindings::ib_sg_to_pages(
            map.mr,
            map.sgl,
            map.entries,
            map.offset,
            Some(set_page::<T>),
        )
    };
    // SAFETY: `mapping` is still ours.
    unsafe { *shell.sink.get() = None };
    shell.mapping.store(0, Release);
    ret
}

/// Takes one page of a scatter list.
///
/// # Safety
///
/// Called by `ib_sg_to_pages` only, called by `list_pages::<T>`.
unsafe extern "C" fn set_page<T: Operations>(mr: *mut bindings::ib_mr, addr: u64) -> c_int {
    // SAFETY: By the safety requirement this is a region with a driver part of type `T`.
    let shell = unsafe { Shell::<T>::from_raw(mr) };
    // SAFETY: `list_pages`, our caller's caller, owns `mapping`.
    let Some(mut blocks) = (unsafe { *shell.sink.get() }) else {
        return EINVAL.to_errno();
    };
    // SAFETY: `list_pages` was given the exclusive reference, and does not use it during the call.
    let blocks = unsafe { blocks.as_mut() };
    let Ok(addr) = usize::try_from(addr) else {
        return EINVAL.to_errno();
    };
    match blocks.push(addr) {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

fn to_ptr(result: Result<*mut bindings::ib_mr>) -> *mut bindings::ib_mr {
    result.unwrap_or_else(|error| error.to_ptr())
}

/// `ib_device_ops.get_dma_mr`.
///
/// # Safety
///
/// Called by the core only, for a driver whose protection domains are of type `T::Pd`.
pub(super) unsafe extern "C" fn get_dma_mr<T: Operations>(
    pd: *mut bindings::ib_pd,
    access: c_int,
) -> *mut bindings::ib_mr {
    to_ptr(Shell::<T>::allocate(
        pd,
        bindings::ib_mr_type_IB_MR_TYPE_DMA,
        || {
            // SAFETY: The core keeps the protection domain during the call.
            let pd = unsafe { T::Pd::from_ib_pd(pd) };
            // SAFETY: Only kernel code can ask for this verb.
            T::dma(pd, unsafe { AllMemory::new() }, access as u32)
        },
    ))
}

/// `ib_device_ops.reg_user_mr`.
///
/// # Safety
///
/// As [`get_dma_mr`].
pub(super) unsafe extern "C" fn reg_user_mr<T: Operations>(
    pd: *mut bindings::ib_pd,
    start: u64,
    length: u64,
    iova: u64,
    access: c_int,
    dmah: *mut bindings::ib_dmah,
    _udata: *mut bindings::ib_udata,
) -> *mut bindings::ib_mr {
    if !dmah.is_null() {
        return EOPNOTSUPP.to_ptr();
    }
    to_ptr(Shell::<T>::allocate(
        pd,
        bindings::ib_mr_type_IB_MR_TYPE_USER,
        || {
            // SAFETY: The core keeps the protection domain, and with it the device, during the call.
            let memory = unsafe { user_memory(pd, start, length) }?;
            // SAFETY: As above.
            let pd = unsafe { T::Pd::from_ib_pd(pd) };
            T::user(pd, memory, iova, access as u32)
        },
    ))
}

/// Describes user memory to be pinned for the device of `pd`.
///
/// # Safety
///
/// `pd` must be valid for `'a`.
unsafe fn user_memory<'a>(
    pd: *mut bindings::ib_pd,
    start: u64,
    length: u64,
) -> Result<UserMemory<'a>> {
    // SAFETY: By the safety requirement.
    let device = NonNull::new(unsafe { (*pd).device }).ok_or(EINVAL)?;
    // SAFETY: A protection domain keeps its device.
    Ok(unsafe { UserMemory::new(device, start, length) })
}

/// `ib_device_ops.rereg_user_mr`.
///
/// # Safety
///
/// As [`get_dma_mr`].
pub(super) unsafe extern "C" fn rereg_user_mr<T: Operations>(
    mr: *mut bindings::ib_mr,
    flags: c_int,
    start: u64,
    length: u64,
    iova: u64,
    access: c_int,
    pd: *mut bindings::ib_pd,
    _udata: *mut bindings::ib_udata,
) -> *mut bindings::ib_mr {
    let wants = |flag: bindings::ib_mr_rereg_flags| flags as u32 & flag != 0;
    let result = || -> Result {
        // SAFETY: The core keeps the region and the protection domain during the call.
        let (shell, memory) =
            unsafe { (Shell::<T>::from_raw(mr), user_memory(pd, start, length)?) };
        shell.body.rereg(Rereg {
            memory: wants(bindings::ib_mr_rereg_flags_IB_MR_REREG_TRANS).then_some((memory, iova)),
            pd: wants(bindings::ib_mr_rereg_flags_IB_MR_REREG_PD)
                // SAFETY: As above.
                .then(|| unsafe { T::Pd::from_ib_pd(pd) }),
            access: wants(bindings::ib_mr_rereg_flags_IB_MR_REREG_ACCESS).then_some(access as u32),
        })
    };
    match result() {
        // No new object: the core updates the old one.
        Ok(()) => ptr::null_mut(),
        Err(error) => error.to_ptr(),
    }
}

/// `ib_device_ops.advise_mr`.
///
/// # Safety
///
/// As [`get_dma_mr`].
pub(super) unsafe extern "C" fn advise_mr<T: Operations>(
    pd: *mut bindings::ib_pd,
    advice: bindings::ib_uverbs_advise_mr_advice,
    flags: u32,
    list: *mut bindings::ib_sge,
    entries: u32,
    _attrs: *mut bindings::uverbs_attr_bundle,
) -> c_int {
    from_result(|| {
        let advice = match advice {
            bindings::ib_uverbs_advise_mr_advice_IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH => {
                Advice::Prefetch
            }
            bindings::ib_uverbs_advise_mr_advice_IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE => {
                Advice::PrefetchWrite
            }
            bindings::ib_uverbs_advise_mr_advice_IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT => {
                Advice::PrefetchNoFault
            }
            _ => return Err(EOPNOTSUPP),
        };
        let wait = flags & bindings::ib_uverbs_advise_mr_flag_IB_UVERBS_ADVISE_MR_FLAG_FLUSH != 0;
        // SAFETY: The core has copied the list to kernel memory, and keeps it and the protection domain during
        // the call.
        let (pd, list) = unsafe {
            (
                T::Pd::from_ib_pd(pd),
                wr::sges(list, i32::try_from(entries)?),
            )
        };
        T::advise(pd, advice, wait, list)?;
        Ok(0)
    })
}

/// `ib_device_ops.alloc_mr`.
///
/// # Safety
///
/// As [`get_dma_mr`].
pub(super) unsafe extern "C" fn alloc_mr<T: Operations>(
    pd: *mut bindings::ib_pd,
    kind: bindings::ib_mr_type,
    max_sg: u32,
) -> *mut bindings::ib_mr {
    if kind != bindings::ib_mr_type_IB_MR_TYPE_MEM_REG {
        return EINVAL.to_ptr();
    }
    to_ptr(Shell::<T>::allocate(pd, kind, || {
        // SAFETY: The core keeps the protection domain during the call.
        T::fast(unsafe { T::Pd::from_ib_pd(pd) }, max_sg)
    }))
}

/// `ib_device_ops.map_mr_sg`.
///
/// # Safety
///
/// As [`get_dma_mr`].
pub(super) unsafe extern "C" fn map_mr_sg<T: Operations>(
    mr: *mut bindings::ib_mr,
    sgl: *mut bindings::scatterlist,
    entries: c_int,
    offset: *mut c_uint,
) -> c_int {
    // SAFETY: The core keeps the region during the call.
    let shell = unsafe { Shell::<T>::from_raw(mr) };
    let map = ScatterMap {
        mr,
        sgl,
        entries,
        offset,
        list: list_pages::<T>,
        _call: PhantomData,
    };
    match shell.body.map_sg(map) {
        Ok(taken) => c_int::try_from(taken).unwrap_or(c_int::MAX),
        Err(error) => error.to_errno(),
    }
}

/// `ib_device_ops.dereg_mr`.
///
/// # Safety
///
/// As [`get_dma_mr`].
pub(super) unsafe extern "C" fn dereg_mr<T: Operations>(
    mr: *mut bindings::ib_mr,
    _udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: The core keeps the region during the call.
    let shell = unsafe { Shell::<T>::from_raw(mr) };
    if let Err(error) = shell.body.dereg() {
        return error.to_errno();
    }
    // SAFETY: The pointer comes from `KBox::into_raw` in `Shell::allocate`, and the core does not use the
    // region after a successful call.
    drop(unsafe { KBox::<Shell<T>>::from_raw(mr.cast()) });
    0
}
