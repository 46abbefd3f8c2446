// SPDX-License-Identifier: GPL-2.0

//! Memory regions as packets and work requests see them.
//!
//! A region has two sides. The consumer sees the C object (`ib_mr`), and changes its key and its pages
//! whenever it likes; nothing here reads that. What accesses are checked against is the registration
//! of the body, which changes only when a request that says so executes, in its order.
//!
//! | state | gate | leaves it by |
//! |---|---|---|
//! | free | closed, nobody inside | REG_MR, deregistration |
//! | valid | open | LOCAL_INV or invalidation by the peer (fast registration only), deregistration |
//! | ended | closed | - |
//!
//! A region for fast registration has several page lists: the live one, and others that `map_mr_sg`
//! fills at any time. A REG_MR request is for the list that was mapped last when it was posted. When it
//! executes, that list and the live one are exchanged, while the gate is closed and nobody is inside. So
//! an access never sees a list that is being changed, and whoever still holds the old key finds the old
//! pages until the invalidation has executed.

#![forbid(unsafe_code)]

mod fast_reg;
mod odp;
mod registration;

pub use self::{
    fast_reg::FastReg,
    registration::Registration, //
};

use self::registration::Memory;
use crate::{
    abstractions::{
        mm::direct::{
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
    sync::SpinLockIrq,
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
    .union(Access::ON_DEMAND)
    .union(Access::OPTIONAL);

/// Rights that REG_MR may give. Flushing to persistence is left out: whether the pages are persistent
/// cannot be found out in the contexts in which consumers map scatter lists.
const FAST_ACCESS: Access = Access::REMOTE
    .union(Access::LOCAL_WRITE)
    .union(Access::MW_BIND)
    .union(Access::FLUSH_GLOBAL)
    .union(Access::OPTIONAL);

/// How a region came to be, which decides what may be done to it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Dma,
    User,
    OnDemand,
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
    /// The label of the list in the registration.
    live: Label,
    /// The lists that are not in the registration. The consumer may map one while requests for the
    /// others wait in send queues; then there is one more than such requests, at most.
    spare: KVec<(Label, Blocks)>,
    /// The number of the mapping that was made last.
    mapped: u64,
}

/// How many page lists a fast registration has beside the live one when it is made. A consumer that
/// waits for one request before it posts the next needs no more.
const SPARE: usize = 2;

/// Tells page lists apart.
#[derive(Clone, Copy, Default)]
struct Label {
    /// The number of the mapping that is in the list.
    mapping: u64,
    /// How many REG_MR requests for it are posted and not executed.
    posted: u32,
}

impl Label {
    /// Of a list that nothing has been mapped to. 0 is the mapping that was never made, which the live list
    /// has first.
    const UNUSED: Self = Self {
        mapping: u64::MAX,
        posted: 0,
    };
}

impl Control {
    /// Returns the index of the list that the next mapping replaces: the one that was mapped and not
    /// posted, so that there is a list for the others, or else any that no request waits for.
    fn free_list(&self) -> Option<usize> {
        let is_free = |at: &usize| {
            self.spare
                .get(*at)
                .is_some_and(|(label, _)| label.posted == 0)
        };
        let mut free = (0..self.spare.len()).filter(is_free);
        let first = free.next()?;
        let is_last = |at: &usize| {
            self.spare
                .get(*at)
                .is_some_and(|(label, _)| label.mapping == self.mapped)
        };
        Some(free.find(is_last).unwrap_or(first))
    }

    /// Finds the label of the list that has mapping `number`.
    fn label(&mut self, number: u64) -> Option<&mut Label> {
        if self.live.mapping == number {
            return Some(&mut self.live);
        }
        self.spare
            .iter_mut()
            .map(|(label, _)| label)
            .find(|label| label.mapping == number)
    }
}

/// A memory region. Its index in the table of regions is part of its keys.
#[pin_data]
pub struct Mr {
    index: u32,
    kind: Kind,
    /// How many pages each list of a fast registration has room for.
    max_pages: u32,
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
        spare: KVec<(Label, Blocks)>,
        max_pages: u32,
    ) -> impl PinInit<Self> {
        let live = Registration { view, map, memory };
        let live = match view.state {
            MrState::Valid => Gated::new_open(live),
            MrState::Free | MrState::Invalid => Gated::new_closed(live),
        };
        pin_init!(Self {
            index: view.key.index(),
            kind,
            max_pages,
            live,
            control <- new_spinlock_irq!(Control {
                view,
                closing: false,
                ended: false,
                windows: 0,
                live: Label::default(),
                spare,
                mapped: 0,
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
            KVec::new(),
            0,
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
        let (kind, memory, map) = take(memory, iova, access)?;
        let view = RegView {
            key: first_key(index),
            state: MrState::Valid,
            pd,
            access,
            iova,
            len: memory.length(),
        };
        Ok(Self::new(kind, view, map, memory, KVec::new(), 0))
    }

    /// Makes the free region `index` for fast registration of at most `max_pages` pages.
    ///
    /// The page lists are allocated here. Mapping allocates one only if requests for all the others wait.
    pub fn fast(index: u32, pd: PdId, max_pages: u32) -> Result<impl PinInit<Self>> {
        if max_pages > MAX_FAST_PAGES {
            return Err(EINVAL);
        }
        let list = || Blocks::with_capacity(usize_from(max_pages), GFP_KERNEL);
        let mut spare = KVec::with_capacity(SPARE, GFP_KERNEL)?;
        for _ in 0..SPARE {
            spare.push((Label::UNUSED, list()?), GFP_KERNEL)?;
        }
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
            spare,
            max_pages,
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
    ///
    /// # Errors
    ///
    /// `EINVAL` for another kind of region or a bad page size or list, `ENOMEM` if requests for all lists
    /// wait in send queues and there is no memory for another. Then there are no pages to register, rather
    /// than those from before.
    pub fn map(&self, map: ScatterMap<'_>) -> Result<usize> {
        let shift = map.page_size().trailing_zeros();
        if self.kind != Kind::Fast || PageMap::new(shift, 0).is_none() {
            return Err(EINVAL);
        }
        let mut guard = self.control.lock();
        let control = &mut *guard;
        let free = control.free_list();
        control.mapped = control.mapped.wrapping_add(1);
        let (label, blocks) = match free {
            Some(at) => control.spare.get_mut(at),
            None => {
                let list = Blocks::with_capacity(usize_from(self.max_pages), GFP_ATOMIC)?;
                control.spare.push((Label::UNUSED, list), GFP_ATOMIC)?;
                control.spare.last_mut()
            }
        }
        .ok_or(ENOMEM)?;
        label.mapping = control.mapped;
        map.list(blocks)
    }

    /// Executes REG_MR: makes the pages of a mapping accessible.
    fn register(
        &self,
        pd: PdId,
        key: Key,
        access: Access,
        mapping: u64,
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
            // The pages may be those of the registration before, to be registered again.
            if control.live.mapping != mapping {
                let (label, blocks) = control
                    .spare
                    .iter_mut()
                    .find(|(label, _)| label.mapping == mapping)
                    .ok_or(AccessFault::Memory)?;
                mem::swap(label, &mut control.live);
                mem::swap(blocks, pages);
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
        if !matches!(self.kind, Kind::User | Kind::OnDemand) {
            return Err(EINVAL);
        }
        // The core lets no other verb touch the region meanwhile, so this stays true.
        let old = self.control.lock().view;
        let access = access.unwrap_or(old.access);
        let pd = pd.unwrap_or(old.pd);
        check_user_access(access)?;
        if access.contains(Access::ON_DEMAND) != self.is_on_demand() {
            return Err(EOPNOTSUPP);
        }
        let new = match &memory {
            Some((memory, iova)) => {
                let (_, memory, map) = take(memory, *iova, access)?;
                Some((memory, map, *iova))
            }
            None => {
                let live = self.live.enter().ok_or(EINVAL)?;
                match &live.memory {
                    Memory::Pinned(umem) => {
                        umem.check_access(access.bits())?;
                        check_persistence(umem, access)?;
                    }
                    Memory::OnDemand(umem) => umem.check_access(access.bits())?,
                    Memory::None | Memory::All(_) | Memory::Fast(_) => return Err(EINVAL),
                }
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
            let before = new.map(|(memory, map, iova)| {
                live.view.iova = iova;
                live.view.len = memory.length();
                live.map = map;
                mem::replace(&mut live.memory, memory)
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
        let mut control = self.control.lock();
        let spare = mem::replace(&mut control.spare, KVec::new());
        drop(control);
        drop((memory, spare));
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

/// Takes hold of user memory, and finds how the region lies in its blocks if it has blocks.
fn take(memory: &UserMemory<'_>, iova: u64, access: Access) -> Result<(Kind, Memory, PageMap)> {
    check_user_access(access)?;
    if access.contains(Access::ON_DEMAND) {
        let umem = memory.on_demand(access.bits())?;
        return Ok((Kind::OnDemand, Memory::OnDemand(umem), PageMap::default()));
    }
    let umem = memory.pin(iova, access.bits())?;
    check_persistence(&umem, access)?;
    let map = PageMap::for_address(umem.blocks().shift(), iova).ok_or(EINVAL)?;
    Ok((Kind::User, Memory::Pinned(umem), map))
}

/// Refuses rights that user regions cannot have.
fn check_user_access(access: Access) -> Result {
    if USER_ACCESS.contains(access) {
        Ok(())
    } else {
        Err(EOPNOTSUPP)
    }
}

/// Refuses the right to flush to persistence unless all the memory is persistent. Memory that is not pinned has no pages to
/// ask about; whether they are persistent is found out when they are flushed.
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
