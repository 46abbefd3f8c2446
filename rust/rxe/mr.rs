// SPDX-License-Identifier: GPL-2.0

//! Memory regions as packets and work requests see them.
//!
//! A region has two sides. The consumer sees the C object (`ib_mr`), and changes its key and its pages
//! whenever it likes; nothing here reads that. What accesses are checked against is the registration
//! in this file, which changes only when a request that says so executes, in its order.
//!
//! | state | gate | leaves it by |
//! |---|---|---|
//! | free | closed, nobody inside | REG_MR, deregistration |
//! | valid | open | LOCAL_INV or invalidation by the peer (fast registration only), deregistration |
//! | ended | closed | - |
//!
//! A region for fast registration has two page lists. `map_mr_sg` fills the one in staging, at any
//! time. REG_MR exchanges the two, which it does while the gate is closed and nobody is inside, so an
//! access never sees a list that is being changed, and a request that still holds the old key finds the
//! old pages until the invalidation has executed.

#![forbid(unsafe_code)]

use crate::{
    abstractions::{
        mm::direct::{
            self,
            AllMemory,
            Blocks, //
        },
        random,
        rdma::{
            mr::ScatterMap,
            umem::{
                Umem,
                UserMemory, //
            },
        },
        sync::{
            Entered,
            Gated, //
        }, //
    },
    proto::{
        memkey::{
            Access,
            MrState,
            RegView, //
        },
        num::{
            usize_from,
            Key,
            PdId, //
        },
        pagemap::PageMap,
        status::AccessFault, //
    },
};
use core::mem;
use kernel::{
    new_spinlock_irq,
    prelude::*,
    sync::{
        atomic::Atomic,
        SpinLockIrq, //
    },
    time::{
        delay::fsleep,
        Delta, //
    }, //
};

/// The most pages of a fast registration.
pub const MAX_FAST_PAGES: u32 = 512;

/// Rights that may be asked for when a user region is registered, or changed.
const USER_ACCESS: Access = Access::REMOTE
    .union(Access::LOCAL_WRITE)
    .union(Access::MW_BIND)
    .union(Access::FLUSH)
    .union(Access::OPTIONAL);

/// Rights that REG_MR may give. Flushing to persistence is left out: whether the pages are persistent
/// cannot be found out in the contexts in which consumers map scatter lists.
const FAST_ACCESS: Access = Access::REMOTE
    .union(Access::LOCAL_WRITE)
    .union(Access::MW_BIND)
    .union(Access::FLUSH_GLOBAL)
    .union(Access::OPTIONAL);

/// The memory of a registration.
enum Memory {
    /// None: the region has ended.
    None,
    /// All that the kernel can address; a region for kernel consumers.
    All(AllMemory),
    /// Pinned pages of a process.
    Pinned(Umem),
    /// Pages that a kernel consumer registered.
    Fast(Blocks),
}

/// What keys grant access to: the hardware's view of a region.
pub struct Registration {
    view: RegView,
    map: PageMap,
    memory: Memory,
}

impl Registration {
    /// Returns what a check needs to know.
    #[inline]
    pub fn view(&self) -> &RegView {
        &self.view
    }

    /// Returns the list of the memory, unless it is all memory.
    #[inline]
    fn blocks(&self) -> Option<&Blocks> {
        match &self.memory {
            Memory::None | Memory::All(_) => None,
            Memory::Pinned(umem) => Some(umem.blocks()),
            Memory::Fast(blocks) => Some(blocks),
        }
    }

    /// Calls `visit` for each piece of the range that lies in one block, with the block's index, the
    /// offset in it and the length.
    #[inline]
    fn walk(
        &self,
        mut offset: u64,
        mut len: usize,
        mut visit: impl FnMut(&Blocks, u64, u64, usize) -> Result<(), AccessFault>,
    ) -> Result<(), AccessFault> {
        let blocks = self.blocks().ok_or(AccessFault::Memory)?;
        while len > 0 {
            let most = u32::try_from(len).unwrap_or(u32::MAX);
            let span = self.map.span(offset, most).ok_or(AccessFault::Bounds)?;
            let n = usize_from(span.len);
            visit(blocks, span.index, u64::from(span.offset), n)?;
            offset = offset.wrapping_add(u64::from(span.len));
            len = len.saturating_sub(n);
        }
        Ok(())
    }

    /// Copies `src` to the region, from byte `offset` of it, which was checked.
    #[inline]
    pub fn write(&self, offset: u64, src: &[u8]) -> Result<(), AccessFault> {
        if let Memory::All(memory) = &self.memory {
            return memory.write(offset, src).map_err(memory_fault);
        }
        let mut left = src;
        self.walk(offset, src.len(), |blocks, index, at, len| {
            let (now, rest) = left.split_at_checked(len).ok_or(AccessFault::Memory)?;
            left = rest;
            blocks.write(index, at, now).map_err(memory_fault)
        })
    }

    /// Copies from byte `offset` of the region, which was checked, to `dst`.
    #[inline]
    pub fn read(&self, offset: u64, dst: &mut [u8]) -> Result<(), AccessFault> {
        if let Memory::All(memory) = &self.memory {
            return memory.read(offset, dst).map_err(memory_fault);
        }
        let len = dst.len();
        let mut left = dst;
        self.walk(offset, len, |blocks, index, at, len| {
            let (now, rest) = mem::take(&mut left)
                .split_at_mut_checked(len)
                .ok_or(AccessFault::Memory)?;
            left = rest;
            blocks.read(index, at, now).map_err(memory_fault)
        })
    }

    /// Calls `access` with the 8-byte word at byte `offset` of the region, which was checked.
    pub fn with_word<R>(
        &self,
        offset: u64,
        access: impl FnOnce(&Atomic<u64>) -> R,
    ) -> Result<R, AccessFault> {
        if let Memory::All(memory) = &self.memory {
            return memory.with_word(offset, access).map_err(memory_fault);
        }
        let blocks = self.blocks().ok_or(AccessFault::Memory)?;
        let (index, at) = self.map.locate(offset).ok_or(AccessFault::Bounds)?;
        blocks
            .with_word(index, u64::from(at), access)
            .map_err(memory_fault)
    }

    /// Writes `len` bytes from byte `offset` of the region, which were checked, back to persistent
    /// memory.
    pub fn write_back(&self, offset: u64, len: u64) -> Result<(), AccessFault> {
        let len = usize::try_from(len).map_err(|_| AccessFault::Bounds)?;
        self.walk(offset, len, |blocks, index, at, len| {
            blocks.write_back(index, at, len).map_err(memory_fault)
        })
    }
}

/// Turns what the memory says of an access into what the peer or the work request is told.
fn memory_fault(error: direct::AccessError) -> AccessFault {
    match error {
        // The range was checked against the registration, so it is the memory that is not there.
        direct::AccessError::OutOfRange => AccessFault::Memory,
        direct::AccessError::Misaligned => AccessFault::Alignment,
    }
}

/// How a region came to be, which decides what may be done to it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Dma,
    User,
    Fast,
}

/// What changes a region, and in which order.
struct Control {
    /// The registration as it is or, if the region is free, as it was. Changed together with the live
    /// one, but readable without entering.
    view: RegView,
    /// Somebody closes the gate and waits, to go on under the lock when it is closed.
    closing: bool,
    /// Deregistered: nothing else can happen.
    ended: bool,
    /// The number of windows that are bound.
    windows: u32,
    /// The pages that the consumer mapped last, or the list to put the next ones in.
    staging: Blocks,
    /// `staging` has pages that no REG_MR has taken.
    staged: bool,
}

/// A memory region. Its index in the table of regions is part of its keys.
#[pin_data]
pub struct Mr {
    index: u32,
    kind: Kind,
    live: Gated<Registration>,
    #[pin]
    control: SpinLockIrq<Control>,
}

impl Mr {
    fn new(
        kind: Kind,
        view: RegView,
        map: PageMap,
        memory: Memory,
        staging: Blocks,
    ) -> impl PinInit<Self> {
        let live = Registration { view, map, memory };
        let live = match view.state {
            MrState::Valid => Gated::new_open(live),
            MrState::Free | MrState::Invalid => Gated::new_closed(live),
        };
        pin_init!(Self {
            index: view.key.index(),
            kind,
            live,
            control <- new_spinlock_irq!(Control {
                view,
                closing: false,
                ended: false,
                windows: 0,
                staging,
                staged: false,
            }),
        })
    }

    /// Makes the region `index` of all memory.
    pub fn dma(index: u32, pd: PdId, access: Access, memory: AllMemory) -> impl PinInit<Self> {
        let view = RegView {
            key: first_key(index),
            state: MrState::Valid,
            pd,
            access,
            iova: 0,
            len: u64::MAX,
        };
        Self::new(
            Kind::Dma,
            view,
            PageMap::default(),
            Memory::All(memory),
            Blocks::empty(),
        )
    }

    /// Makes the region `index` of memory of the calling process. Sleeps.
    pub fn user(
        index: u32,
        pd: PdId,
        access: Access,
        memory: &UserMemory<'_>,
        iova: u64,
    ) -> Result<impl PinInit<Self>> {
        let (umem, map) = pin(memory, iova, access)?;
        let view = RegView {
            key: first_key(index),
            state: MrState::Valid,
            pd,
            access,
            iova,
            len: umem.blocks().length(),
        };
        Ok(Self::new(
            Kind::User,
            view,
            map,
            Memory::Pinned(umem),
            Blocks::empty(),
        ))
    }

    /// Makes the free region `index` for fast registration of at most `max_pages` pages.
    ///
    /// Both page lists are allocated here: mapping and registration allocate nothing.
    pub fn fast(index: u32, pd: PdId, max_pages: u32) -> Result<impl PinInit<Self>> {
        if max_pages > MAX_FAST_PAGES {
            return Err(EINVAL);
        }
        let list = || Blocks::with_capacity(usize_from(max_pages), GFP_KERNEL);
        let view = RegView {
            key: first_key(index),
            state: MrState::Free,
            pd,
            ..RegView::default()
        };
        Ok(Self::new(
            Kind::Fast,
            view,
            PageMap::default(),
            Memory::Fast(list()?),
            list()?,
        ))
    }

    /// Returns the region's index in the table of regions.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Returns the key that the registration has, or had last.
    pub fn key(&self) -> Key {
        self.control.lock().view.key
    }

    /// Returns the registration, which is held as it is until the result is dropped, or `None` if there
    /// is none. Any context.
    #[inline]
    pub fn enter(&self) -> Option<Entered<'_, Registration>> {
        self.live.enter()
    }

    /// Takes over the pages of a scatter list for the next REG_MR (`map_mr_sg`). Any context.
    pub fn map(&self, map: ScatterMap<'_>) -> Result<usize> {
        let shift = map.page_size().trailing_zeros();
        if self.kind != Kind::Fast || PageMap::new(shift, 0).is_none() {
            return Err(EINVAL);
        }
        let mut control = self.control.lock();
        // If mapping fails there are no pages to register, rather than those from before.
        control.staged = true;
        let mapped = map.list(&mut control.staging)?;
        Ok(mapped.entries)
    }

    /// Executes REG_MR: makes the pages that were mapped last accessible. Any context.
    ///
    /// # Errors
    ///
    /// The region stays free if it is not one for fast registration, was not free, is in another
    /// protection domain than the queue pair, or if key, rights or pages are not good.
    pub fn register(
        &self,
        pd: PdId,
        key: Key,
        access: Access,
        iova: u64,
    ) -> Result<(), AccessFault> {
        if self.kind != Kind::Fast {
            return Err(AccessFault::State);
        }
        if key.index() != self.index {
            return Err(AccessFault::Key);
        }
        if !FAST_ACCESS.contains(access) || !writes_are_local(access) {
            return Err(AccessFault::Rights);
        }
        let mut guard = self.control.lock();
        let control = &mut *guard;
        if control.ended || control.closing || control.view.state != MrState::Free {
            return Err(AccessFault::State);
        }
        if control.view.pd != pd {
            return Err(AccessFault::Pd);
        }
        let registered = self.live.with_closed(|live| {
            let Memory::Fast(pages) = &mut live.memory else {
                return Err(AccessFault::State);
            };
            // If none were mapped since, the old ones are registered again.
            if mem::take(&mut control.staged) {
                mem::swap::<Blocks>(pages, &mut control.staging);
            }
            let first = u32::try_from(pages.first()).map_err(|_| AccessFault::Memory)?;
            let map = PageMap::new(pages.shift(), first).ok_or(AccessFault::Memory)?;
            if pages.length() == 0 {
                return Err(AccessFault::Memory);
            }
            live.map = map;
            live.view = RegView {
                key,
                state: MrState::Valid,
                pd,
                access,
                iova,
                len: pages.length(),
            };
            Ok(live.view)
        });
        control.view = registered.ok_or(AccessFault::State)??;
        self.live.open();
        Ok(())
    }

    /// Ends a fast registration: LOCAL_INV, or the peer's SEND with invalidate. May sleep.
    ///
    /// When it returns, accesses are refused and those under way have finished.
    ///
    /// # Errors
    ///
    /// The registration stays if the key is not its own, if it is in another protection domain than the
    /// queue pair, if it is not a fast one, or if windows are bound to it.
    pub fn invalidate(&self, pd: PdId, key: Key) -> Result<(), AccessFault> {
        let closed = self.close_if(|control| {
            if control.view.key != key {
                return Err(AccessFault::Key);
            }
            if control.view.pd != pd {
                return Err(AccessFault::Pd);
            }
            if self.kind != Kind::Fast || control.windows > 0 {
                return Err(AccessFault::State);
            }
            Ok(control.view.state == MrState::Valid)
        })?;
        if closed {
            let mut control = self.control.lock();
            control.view.state = MrState::Free;
            control.closing = false;
        }
        Ok(())
    }

    /// Changes a user region, all or nothing (`rereg_user_mr`). Sleeps.
    ///
    /// Accesses are refused while it changes, which is short: new memory is pinned before.
    pub fn reregister(
        &self,
        memory: Option<(UserMemory<'_>, u64)>,
        pd: Option<PdId>,
        access: Option<Access>,
    ) -> Result {
        if self.kind != Kind::User {
            return Err(EINVAL);
        }
        // The core lets no other verb touch the region meanwhile, so this stays true.
        let old = self.control.lock().view;
        let access = access.unwrap_or(old.access);
        let pd = pd.unwrap_or(old.pd);
        check_user_access(access)?;
        let new = match &memory {
            Some((memory, iova)) => {
                let (umem, map) = pin(memory, *iova, access)?;
                Some((umem, map, *iova))
            }
            None => {
                let live = self.live.enter().ok_or(EINVAL)?;
                let Memory::Pinned(umem) = &live.memory else {
                    return Err(EINVAL);
                };
                umem.check_access(access.bits())?;
                check_persistence(umem, access)?;
                None
            }
        };
        match self.close_if(|control| Ok(control.windows == 0)) {
            Ok(true) => {}
            Ok(false) => return Err(EBUSY),
            Err(_) => return Err(EINVAL),
        }
        let changed = self.live.with_closed(|live| {
            live.view.pd = pd;
            live.view.access = access;
            let before = new.map(|(umem, map, iova)| {
                live.view.iova = iova;
                live.view.len = umem.blocks().length();
                live.map = map;
                mem::replace(&mut live.memory, Memory::Pinned(umem))
            });
            (live.view, before)
        });
        let mut control = self.control.lock();
        if let Some((view, _)) = &changed {
            control.view = *view;
        }
        control.closing = false;
        self.live.open();
        drop(control);
        // Here the old memory is unpinned, which sleeps. `None` cannot be: `closing` kept others away.
        changed.map(drop).ok_or(EBUSY)
    }

    /// Ends the region, unless windows are bound to it. Accesses are refused when it returns.
    pub fn end(&self) -> Result {
        let mut control = self.control.lock();
        if control.windows > 0 {
            return Err(EINVAL);
        }
        control.ended = true;
        self.live.close();
        Ok(())
    }

    /// Waits for the accesses under way in a region that [`end`](Self::end) has ended, and frees its
    /// memory. Sleeps.
    pub fn free(&self) {
        self.live.close_and_wait();
        let memory = self
            .live
            .with_closed(|live| mem::replace(&mut live.memory, Memory::None));
        let staging = mem::replace(&mut self.control.lock().staging, Blocks::empty());
        drop((memory, staging));
    }

    /// Counts a window that is bound to the registration, if `check` allows it, so that the
    /// registration stays.
    pub fn bind<E: From<AccessFault>>(
        &self,
        check: impl FnOnce(&RegView) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut control = self.control.lock();
        if control.ended || control.closing {
            return Err(AccessFault::State.into());
        }
        check(&control.view)?;
        control.windows = control.windows.checked_add(1).ok_or(AccessFault::State)?;
        Ok(())
    }

    /// Takes back what [`bind`](Self::bind) did.
    pub fn unbind(&self) {
        let mut control = self.control.lock();
        control.windows = control.windows.saturating_sub(1);
    }

    /// Closes the gate and waits until nobody is inside, if `check` says so. Then `closing` is set, to
    /// be cleared by the caller. May sleep.
    fn close_if(
        &self,
        check: impl Fn(&Control) -> Result<bool, AccessFault>,
    ) -> Result<bool, AccessFault> {
        loop {
            let mut control = self.control.lock();
            if control.ended {
                return Err(AccessFault::Key);
            }
            if !control.closing {
                let go = check(&control)?;
                control.closing = go;
                drop(control);
                if go {
                    self.live.close_and_wait();
                }
                return Ok(go);
            }
            drop(control);
            // Someone else is at it, and waits for accesses to finish only.
            fsleep(Delta::from_micros(50));
        }
    }
}

/// Pins user memory and finds how the region lies in its blocks.
fn pin(memory: &UserMemory<'_>, iova: u64, access: Access) -> Result<(Umem, PageMap)> {
    check_user_access(access)?;
    let umem = memory.pin(iova, access.bits())?;
    check_persistence(&umem, access)?;
    let map = PageMap::for_address(umem.blocks().shift(), iova).ok_or(EINVAL)?;
    Ok((umem, map))
}

/// Refuses rights that user regions cannot have.
fn check_user_access(access: Access) -> Result {
    if USER_ACCESS.contains(access) {
        Ok(())
    } else {
        Err(EOPNOTSUPP)
    }
}

/// Refuses the right to flush to persistence unless all the memory is persistent.
fn check_persistence(umem: &Umem, access: Access) -> Result {
    if access.contains(Access::FLUSH_PERSISTENT) && !umem.blocks().is_persistent() {
        return Err(EINVAL);
    }
    Ok(())
}

/// Tells whether the rights of peers to write come with the right of the device to write.
fn writes_are_local(access: Access) -> bool {
    let writes = Access::REMOTE_WRITE.union(Access::REMOTE_ATOMIC);
    !access.intersects(writes) || access.contains(Access::LOCAL_WRITE)
}

/// Returns the first key of region or window `index`. It is unlikely to be one that the index had
/// before.
pub fn first_key(index: u32) -> Key {
    Key::from_parts(index, random::byte())
}
