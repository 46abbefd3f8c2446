// SPDX-License-Identifier: GPL-2.0

//! Copies between packets and the memory that keys name.
//!
//! Every access finds its region by the key, checks it against the registration that is live at this
//! moment, and holds the registration until the bytes are copied. So nothing is accessed after an
//! invalidation or deregistration has returned. An access is at most as long as the slice that it is
//! given, which is one packet's payload.
//!
//! Accesses are made by the workers of queue pairs, which may sleep. An access sleeps only if its region is one whose
//! pages are brought in on demand; all others are made under RCU, and would do in any context.

#![forbid(unsafe_code)]

use super::{
    device::RxeDev,
    keys::Keys,
    mr::{
        Mr,
        Registration, //
    },
    mw::Binding, //
};
use crate::{
    abstractions::{
        mm::direct,
        sync::RcuArc, //
    },
    proto::{
        effect::{
            AtomicOp,
            FlushLevel,
            RemoteSpan, //
        },
        memkey::{
            self,
            Access,
            AccessReq, //
        },
        num::{
            u64_from,
            usize_from,
            Key,
            PdId,
            Qpn, //
        },
        sge::SgeCursor,
        status::AccessFault,
        wr::Sge, //
    },
};
use core::mem::take;
use kernel::sync::{
    atomic::Atomic,
    rcu, //
};

/// Remembers the region of a stream of accesses, to save the lookup for the packets of one message.
///
/// It holds a reference to the region's description, not to its memory: deregistration does not wait
/// for it. The owner must [`clear`](Self::clear) it in process context before it goes away, because a
/// description must not be let go of by the destructor of another object that RCU frees.
pub struct Cursor {
    region: Option<RcuArc<Mr>>,
    /// The index that was looked up last. A region is remembered when it is used twice in a row.
    last: u32,
}

impl Cursor {
    /// Makes one that remembers nothing.
    pub const fn new() -> Self {
        Self {
            region: None,
            last: 0,
        }
    }

    /// Forgets the region.
    pub fn clear(&mut self) {
        self.region = None;
        self.last = 0;
    }
}

/// An access with a key: what is asked for, and by whom.
struct Request<'a> {
    keys: &'a Keys,
    /// The queue pair of an access by a peer. Local buffers cannot be named by windows.
    qpn: Option<Qpn>,
    req: AccessReq,
}

impl<'a> Request<'a> {
    /// Describes an access by a peer to `len` bytes from the start of the span.
    #[inline]
    fn remote(dev: &'a RxeDev, pd: PdId, qpn: Qpn, span: &RemoteSpan, len: usize) -> Self {
        Self {
            keys: &dev.keys,
            qpn: Some(qpn),
            req: AccessReq {
                key: span.key,
                pd,
                va: span.va,
                len: u64_from(len),
                access: span.access,
            },
        }
    }

    /// Checks the access and calls `run` with the registration and the offset in it.
    #[inline]
    fn perform<R>(
        &self,
        run: impl FnOnce(&Registration, u64) -> Result<R, AccessFault>,
    ) -> Result<R, AccessFault> {
        if Keys::is_window(self.req.key) {
            return self.perform_in_window(run);
        }
        let guard = rcu::read_lock();
        let region = self
            .keys
            .regions
            .get(self.req.key.index(), &guard)
            .ok_or(AccessFault::Key)?;
        if region.is_on_demand() {
            let region = region.upgrade().ok_or(AccessFault::Key)?;
            drop(guard);
            return self.perform_in_region(&region, run);
        }
        self.perform_in_region(&region, run)
    }

    #[inline]
    fn perform_in_region<R>(
        &self,
        region: &Mr,
        run: impl FnOnce(&Registration, u64) -> Result<R, AccessFault>,
    ) -> Result<R, AccessFault> {
        let live = region.enter().ok_or(AccessFault::State)?;
        let offset = memkey::check(live.view(), &self.req)?;
        run(&live, offset)
    }

    fn perform_in_window<R>(
        &self,
        run: impl FnOnce(&Registration, u64) -> Result<R, AccessFault>,
    ) -> Result<R, AccessFault> {
        let qpn = self.qpn.ok_or(AccessFault::Key)?;
        let guard = rcu::read_lock();
        let window = self
            .keys
            .windows
            .get(self.req.key.index(), &guard)
            .ok_or(AccessFault::Key)?;
        let bound = window.enter().ok_or(AccessFault::State)?;
        let region = bound.region().ok_or(AccessFault::State)?;
        if region.is_on_demand() {
            let window = window.upgrade().ok_or(AccessFault::Key)?;
            drop(bound);
            drop(guard);
            let bound = window.enter().ok_or(AccessFault::State)?;
            return self.perform_in_binding(&bound, qpn, run);
        }
        self.perform_in_binding(&bound, qpn, run)
    }

    #[inline]
    fn perform_in_binding<R>(
        &self,
        bound: &Binding,
        qpn: Qpn,
        run: impl FnOnce(&Registration, u64) -> Result<R, AccessFault>,
    ) -> Result<R, AccessFault> {
        let region = bound.region().ok_or(AccessFault::State)?;
        let live = region.enter().ok_or(AccessFault::State)?;
        let offset = memkey::check_window(bound.view(), live.view(), qpn, &self.req)?;
        run(&live, offset)
    }

    /// As [`perform`](Self::perform), for an access that probably is to the region of the last one.
    #[inline]
    fn perform_next<R>(
        &self,
        cursor: &mut Cursor,
        run: impl FnOnce(&Registration, u64) -> Result<R, AccessFault>,
    ) -> Result<R, AccessFault> {
        let index = self.req.key.index();
        if cursor.last != index {
            cursor.last = index;
            cursor.region = None;
            return self.perform(run);
        }
        if let Some(region) = &cursor.region {
            if let Some(live) = region.enter() {
                let offset = memkey::check(live.view(), &self.req)?;
                return run(&live, offset);
            }
            // It is not registered any more, or not the region of this index.
        }
        cursor.region = self.keys.region(self.req.key);
        match &cursor.region {
            Some(region) => self.perform_in_region(region, run),
            None => self.perform(run),
        }
    }
}

/// Calls `copy` for each piece of the local buffers from byte `offset` of the message that they hold,
/// with the registration, the offset in it and the length, until `len` bytes are done.
#[inline]
fn walk(
    (dev, pd): (&RxeDev, PdId),
    (list, offset): (&[Sge], u32),
    len: usize,
    access: Access,
    cursor: &mut Cursor,
    mut copy: impl FnMut(&Registration, u64, usize) -> Result<(), AccessFault>,
) -> Result<(), AccessFault> {
    let mut place = SgeCursor::seek(list, u64::from(offset));
    let mut left = u32::try_from(len).map_err(|_| AccessFault::Bounds)?;
    while left > 0 {
        let chunk = place.next_chunk(list, left).ok_or(AccessFault::Bounds)?;
        let request = Request {
            keys: &dev.keys,
            qpn: None,
            req: AccessReq {
                key: chunk.lkey,
                pd,
                va: chunk.addr,
                len: u64::from(chunk.len),
                access,
            },
        };
        request.perform_next(cursor, |live, at| copy(live, at, usize_from(chunk.len)))?;
        left = left.saturating_sub(chunk.len);
    }
    Ok(())
}

/// Copies `src` to the local buffers `list`, from byte `offset` of the message that they hold.
///
/// # Errors
///
/// `Bounds` if the message does not fit, or what is wrong with a buffer. The buffers before it may have
/// been written.
pub fn copy_to_sges(
    dev: &RxeDev,
    pd: PdId,
    list: &[Sge],
    offset: u32,
    src: &[u8],
    cursor: &mut Cursor,
) -> Result<(), AccessFault> {
    let (len, mut left) = (src.len(), src);
    let access = Access::LOCAL_WRITE;
    walk(
        (dev, pd),
        (list, offset),
        len,
        access,
        cursor,
        |live, at, n| {
            let (now, rest) = left.split_at_checked(n).ok_or(AccessFault::Bounds)?;
            left = rest;
            live.write(at, now)
        },
    )
}

/// Fills `dst` from the local buffers `list`, from byte `offset` of the message that they hold.
///
/// # Errors
///
/// `Bounds` if the message is shorter, or what is wrong with a buffer.
pub fn copy_from_sges(
    dev: &RxeDev,
    pd: PdId,
    list: &[Sge],
    offset: u32,
    dst: &mut [u8],
    cursor: &mut Cursor,
) -> Result<(), AccessFault> {
    let (len, mut left) = (dst.len(), dst);
    let access = Access::NONE;
    walk(
        (dev, pd),
        (list, offset),
        len,
        access,
        cursor,
        |live, at, n| {
            let (now, rest) = take(&mut left)
                .split_at_mut_checked(n)
                .ok_or(AccessFault::Bounds)?;
            left = rest;
            live.read(at, now)
        },
    )
}

/// Finds out whether all of the span may be accessed, without accessing it.
pub fn check_remote(
    dev: &RxeDev,
    pd: PdId,
    qpn: Qpn,
    span: &RemoteSpan,
) -> Result<(), AccessFault> {
    Request::remote(dev, pd, qpn, span, usize_from(span.len)).perform(|_, _| Ok(()))
}

/// Copies `src`, whose length counts and not the span's, to the start of the span.
pub fn write_remote(
    dev: &RxeDev,
    pd: PdId,
    qpn: Qpn,
    span: &RemoteSpan,
    src: &[u8],
) -> Result<(), AccessFault> {
    Request::remote(dev, pd, qpn, span, src.len()).perform(|live, at| live.write(at, src))
}

/// Fills `dst`, whose length counts and not the span's, from the start of the span.
pub fn read_remote(
    dev: &RxeDev,
    pd: PdId,
    qpn: Qpn,
    span: &RemoteSpan,
    dst: &mut [u8],
) -> Result<(), AccessFault> {
    Request::remote(dev, pd, qpn, span, dst.len()).perform(|live, at| live.read(at, dst))
}

/// Calls `run` with the 8-byte word at the start of the span.
fn with_word<R>(
    dev: &RxeDev,
    pd: PdId,
    qpn: Qpn,
    span: &RemoteSpan,
    run: impl FnOnce(&Atomic<u64>) -> R,
) -> Result<R, AccessFault> {
    if span.va % u64_from(size_of::<u64>()) != 0 {
        return Err(AccessFault::Alignment);
    }
    Request::remote(dev, pd, qpn, span, size_of::<u64>())
        .perform(|live, at| live.with_word(at, run))
}

/// Performs an atomic operation on the 8 bytes at the start of the span and returns what they were, in
/// the byte order of this machine. It is atomic to all of the machine, processes included.
pub fn atomic(
    dev: &RxeDev,
    pd: PdId,
    qpn: Qpn,
    span: &RemoteSpan,
    op: AtomicOp,
) -> Result<u64, AccessFault> {
    with_word(dev, pd, qpn, span, |word| match op {
        AtomicOp::CompareSwap { compare, swap } => direct::compare_swap(word, compare, swap),
        AtomicOp::FetchAdd { add } => direct::fetch_add(word, add),
    })
}

/// Writes `payload`, which must be 8 bytes, at once to the start of the span, after all that was written
/// before.
///
/// # Errors
///
/// `Bounds` if the payload is not 8 bytes, or why the span is not accessible.
pub fn atomic_write(
    dev: &RxeDev,
    pd: PdId,
    qpn: Qpn,
    span: &RemoteSpan,
    payload: &[u8],
) -> Result<(), AccessFault> {
    let payload = <[u8; 8]>::try_from(payload).map_err(|_| AccessFault::Bounds)?;
    with_word(dev, pd, qpn, span, |word| {
        direct::store_release(word, u64::from_ne_bytes(payload));
    })
}

/// Flushes the span, or all that its key names, as far as the rights that the span asks for say.
///
/// To be visible to all, bytes only have to be written, which they are: the machine is coherent. To
/// persist, they are written back from the caches.
pub fn flush(
    dev: &RxeDev,
    pd: PdId,
    qpn: Qpn,
    span: &RemoteSpan,
    level: FlushLevel,
) -> Result<(), AccessFault> {
    let mut request = Request::remote(dev, pd, qpn, span, usize_from(span.len));
    if level == FlushLevel::Region {
        // The address of the span does not count.
        let (va, len) = extent(&dev.keys, span.key).ok_or(AccessFault::Key)?;
        request.req.va = va;
        request.req.len = len;
    }
    let persist = span.access.contains(Access::FLUSH_PERSISTENT);
    let len = request.req.len;
    request.perform(|live, at| {
        if persist {
            live.write_back(at, len)?;
        }
        Ok(())
    })
}

/// Returns the address, as users of the key count, and the length of all that the key names now.
fn extent(keys: &Keys, key: Key) -> Option<(u64, u64)> {
    let guard = rcu::read_lock();
    if Keys::is_window(key) {
        let window = keys.windows.get(key.index(), &guard)?;
        let bound = window.enter()?;
        let view = bound.view();
        let zero_based = view.access.contains(Access::ZERO_BASED);
        Some((if zero_based { 0 } else { view.addr }, view.len))
    } else {
        let region = keys.regions.get(key.index(), &guard)?;
        let live = region.enter()?;
        Some((live.view().iova, live.view().len))
    }
}

/// Executes LOCAL_INV, or the invalidation that a peer asked for. May sleep.
///
/// When it returns, accesses with the key are refused and those under way have finished.
///
/// # Errors
///
/// Why the key stays valid.
pub fn invalidate(dev: &RxeDev, pd: PdId, qpn: Qpn, key: Key) -> Result<(), AccessFault> {
    dev.keys.invalidate(pd, qpn, key)
}
