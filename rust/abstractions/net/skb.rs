// SPDX-License-Identifier: GPL-2.0

//! Packet buffers.
//!
//! Upstream home: rust/kernel/net/skb.rs
//!
//! C header: [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h)

use super::{Dst, NetDev};
use crate::abstractions::bindings;
use core::{mem::ManuallyDrop, ptr::NonNull};
use kernel::{prelude::*, sync::rcu};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A version of the Internet Protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Why the local network stack did not take a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A queue is full. There will be room for it later.
    Full,
    /// A packet filter, a device that is down, or a lack of memory.
    Dropped,
}

/// Returns the part of a buffer with the offsets of headers, which bindgen wraps in anonymous types.
///
/// # Safety
///
/// `skb` is valid.
#[inline]
unsafe fn fields(
    skb: *mut bindings::sk_buff,
) -> *mut bindings::sk_buff__bindgen_ty_4__bindgen_ty_1 {
    // CAST: Both members of the union begin where the union does.
    // SAFETY: By the requirements of this function.
    unsafe { (&raw mut (*skb).__bindgen_anon_4).cast() }
}

/// The largest buffer that the cache for small ones has room for, at least.
const SMALL: u32 = 384;

/// The size of the private area of a buffer.
const CB_LEN: usize = 48;

/// An owned buffer with a received packet; dropping it frees the packet as dropped.
///
/// # Invariants
///
/// `ptr` is a valid buffer that this value owns a reference to.
#[repr(transparent)]
pub struct RxSkb {
    ptr: NonNull<bindings::sk_buff>,
}

// SAFETY: Buffers may be used and freed on any thread.
unsafe impl Send for RxSkb {}

// SAFETY: Shared references only read.
unsafe impl Sync for RxSkb {}

impl RxSkb {
    /// Takes a buffer over.
    ///
    /// # Safety
    ///
    /// `ptr` is valid, and the caller gives up its reference.
    #[inline]
    pub(super) unsafe fn from_raw(ptr: *mut bindings::sk_buff) -> Self {
        Self {
            // SAFETY: By the requirements of this function.
            ptr: unsafe { NonNull::new_unchecked(ptr) },
        }
    }

    /// Gives the buffer up.
    #[inline]
    pub(super) fn into_raw(self) -> *mut bindings::sk_buff {
        ManuallyDrop::new(self).ptr.as_ptr()
    }

    /// Returns the part of the packet that is in one piece, from the data pointer on.
    #[inline]
    pub fn linear(&self) -> &[u8] {
        let skb = self.ptr.as_ptr();
        // SAFETY: The linear part is `len - data_len` bytes from `data` on, and is not written to
        // while others may refer to it.
        unsafe {
            let len = (*skb).len.wrapping_sub((*skb).data_len) as usize;
            core::slice::from_raw_parts((*skb).data, len)
        }
    }

    /// Brings the whole packet into one piece.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    #[inline]
    pub fn linearize(&mut self) -> Result {
        // SAFETY: The buffer is valid.
        if unsafe { (*self.ptr.as_ptr()).data_len } == 0 {
            return Ok(());
        }
        // SAFETY: The buffer is valid and not shared.
        match unsafe { bindings::skb_linearize(self.ptr.as_ptr()) } {
            0 => Ok(()),
            _ => Err(ENOMEM),
        }
    }

    /// Returns the packet from its network header to the end of the linear part; empty if the packet
    /// has none.
    #[inline]
    pub fn network_header(&self) -> &[u8] {
        let skb = self.ptr.as_ptr();
        // SAFETY: Header offsets are from `head` on; the slice ends where the linear part does, and
        // the comparison makes sure that it begins before.
        unsafe {
            let start = usize::from((*fields(skb)).network_header);
            let data = (*skb).data.offset_from((*skb).head) as usize;
            let end = data.wrapping_add(self.linear().len());
            match end.checked_sub(start) {
                Some(len) => core::slice::from_raw_parts((*skb).head.add(start), len),
                None => &[],
            }
        }
    }

    /// Returns the IP version of the packet, if it is one.
    #[inline]
    pub fn ip_version(&self) -> Option<IpVersion> {
        // SAFETY: The buffer is valid.
        let protocol = u16::from_be(unsafe { (*fields(self.ptr.as_ptr())).protocol });
        if u32::from(protocol) == bindings::ETH_P_IP {
            Some(IpVersion::V4)
        } else if u32::from(protocol) == bindings::ETH_P_IPV6 {
            Some(IpVersion::V6)
        } else {
            None
        }
    }

    /// Returns the device that the packet was received on.
    ///
    /// Only in the receive path: a packet that is kept for later does not keep its device.
    #[inline]
    pub fn device<'g>(&self, _guard: &'g rcu::Guard) -> Option<&'g NetDev> {
        // SAFETY: The buffer is valid.
        let dev = unsafe {
            (*self.ptr.as_ptr())
                .__bindgen_anon_1
                .__bindgen_anon_1
                .__bindgen_anon_1
                .dev
        };
        // SAFETY: The device of a packet that is being received is valid under RCU. Packets that
        // leave the receive path lose it, see `detach_device`.
        (!dev.is_null()).then(|| unsafe { NetDev::from_raw(dev.cast()) })
    }

    /// Forgets the device, which the packet does not keep from going away.
    #[inline]
    pub(super) fn detach_device(&mut self) {
        // SAFETY: The buffer is valid and ours.
        unsafe {
            (*self.ptr.as_ptr())
                .__bindgen_anon_1
                .__bindgen_anon_1
                .__bindgen_anon_1
                .dev = core::ptr::null_mut();
        }
    }

    /// Stores a value in the private area of the buffer.
    #[inline]
    pub fn set_meta<M: IntoBytes + Immutable>(&mut self, meta: &M) {
        const { assert!(size_of::<M>() <= CB_LEN) };
        // SAFETY: The private area belongs to whoever owns the buffer; the size was checked.
        unsafe {
            core::ptr::copy_nonoverlapping(
                meta.as_bytes().as_ptr(),
                (&raw mut (*self.ptr.as_ptr()).cb).cast::<u8>(),
                size_of::<M>(),
            )
        };
    }

    /// Reads a value from the private area: what was stored there, or other bytes if nothing was.
    #[inline]
    pub fn meta<M: FromBytes>(&self) -> M {
        const { assert!(size_of::<M>() <= CB_LEN) };
        // SAFETY: The private area is initialised memory and large enough, and any bytes are a
        // valid `M`.
        unsafe {
            (&raw const (*self.ptr.as_ptr()).cb)
                .cast::<M>()
                .read_unaligned()
        }
    }

    /// Makes another buffer that shares the data. Any context.
    pub fn try_clone(&self) -> Option<Self> {
        // SAFETY: The buffer is valid.
        let ptr = unsafe { bindings::skb_clone(self.ptr.as_ptr(), bindings::GFP_ATOMIC) };
        // INVARIANT: The clone is ours.
        NonNull::new(ptr).map(|ptr| Self { ptr })
    }

    /// Frees the packet as used, not as dropped.
    #[inline]
    pub fn consume(self) {
        // SAFETY: The buffer is valid and ours.
        unsafe { bindings::consume_skb(self.into_raw()) };
    }
}

impl Drop for RxSkb {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: The buffer is valid and ours.
        unsafe {
            bindings::sk_skb_reason_drop(
                core::ptr::null(),
                self.ptr.as_ptr(),
                bindings::skb_drop_reason_SKB_DROP_REASON_NOT_SPECIFIED,
            )
        };
    }
}

/// An owned buffer with a packet to send, of one piece, not shared with anybody.
///
/// # Invariants
///
/// `ptr` is a valid buffer of which this value owns the only reference, without fragments, and its
/// data is not shared.
#[repr(transparent)]
pub struct TxSkb {
    ptr: NonNull<bindings::sk_buff>,
}

// SAFETY: Buffers may be used and freed on any thread.
unsafe impl Send for TxSkb {}

// SAFETY: Shared references only read.
unsafe impl Sync for TxSkb {}

impl TxSkb {
    /// Allocates a packet of `len` bytes with `headroom` bytes in front of it. Called in process context.
    ///
    /// The contents are whatever the memory held; all of them are to be written before the packet
    /// is sent.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    #[inline]
    pub fn new(headroom: usize, len: usize) -> Result<Self> {
        let size = headroom.checked_add(len).ok_or(ENOMEM)?;
        let size = u32::try_from(size).map_err(|_| ENOMEM)?;
        let skb = if size > SMALL {
            Self::from_task_frag(size).or_else(|| Self::from_slab(size))
        } else {
            Self::from_slab(size)
        };
        // INVARIANT: The buffer was just allocated.
        let ptr = skb.ok_or(ENOMEM)?;
        let skb = ptr.as_ptr();
        // SAFETY: The buffer is new, empty and has room for `size` bytes, so that the data may begin
        // `headroom` bytes later and extend over `len` bytes.
        unsafe {
            (*skb).data = (*skb).data.add(headroom);
            (*skb).tail = (*skb).tail.wrapping_add(size);
            (*skb).len = len as u32;
        }
        Ok(Self { ptr })
    }

    /// Allocates a buffer in a slab, which rounds its size up to a power of two.
    #[inline]
    fn from_slab(size: u32) -> Option<NonNull<bindings::sk_buff>> {
        // SAFETY: All sizes are allowed; too large ones fail.
        NonNull::new(unsafe {
            bindings::__alloc_skb(
                size,
                bindings::GFP_ATOMIC | bindings::__GFP_NOWARN,
                0,
                bindings::NUMA_NO_NODE,
            )
        })
    }

    /// Allocates a buffer in the page fragment of the task, which is used again without being
    /// cleared when the packets in it are gone.
    fn from_task_frag(size: u32) -> Option<NonNull<bindings::sk_buff>> {
        // What follows the data of a buffer, and the alignment of both.
        const INFO: u32 = size_of::<bindings::skb_shared_info>() as u32;
        const ALIGN: u32 = bindings::SMP_CACHE_BYTES;

        let total = size
            .checked_next_multiple_of(ALIGN)?
            .checked_add(INFO.next_multiple_of(ALIGN))?;
        // SAFETY: The caller is in process context, where the fragment is the task's own.
        unsafe {
            let frag = bindings::current_task_frag();
            if !bindings::skb_page_frag_refill(
                total,
                frag,
                bindings::GFP_ATOMIC | bindings::__GFP_NOWARN,
            ) {
                return None;
            }
            let offset = (*frag).offset.checked_next_multiple_of(ALIGN)?;
            // The fragment may be a single page, or not have room for the alignment.
            let end = offset
                .checked_add(total)
                .filter(|&end| end <= (*frag).size)?;
            (*frag).offset = offset;
            let skb = NonNull::new(bindings::build_skb(
                bindings::page_frag_address(frag),
                total,
            ))?;
            // The buffer gives this reference to the page back when it is freed.
            bindings::page_frag_get(frag);
            (*frag).offset = end;
            Some(skb)
        }
    }

    /// Returns the packet.
    #[inline]
    pub fn data(&self) -> &[u8] {
        // SAFETY: The packet is in one piece, `len` bytes from `data` on.
        unsafe {
            core::slice::from_raw_parts(
                (*self.ptr.as_ptr()).data,
                (*self.ptr.as_ptr()).len as usize,
            )
        }
    }

    /// Returns the packet for writing.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        // SAFETY: As in `data`; nobody else refers to the packet.
        unsafe {
            core::slice::from_raw_parts_mut(
                (*self.ptr.as_ptr()).data,
                (*self.ptr.as_ptr()).len as usize,
            )
        }
    }

    /// Says where the headers are: an IP header at the front of the packet, the transport header
    /// `ip_len` bytes later.
    #[inline]
    pub fn set_headers(&mut self, version: IpVersion, ip_len: u16) {
        let protocol = match version {
            IpVersion::V4 => bindings::ETH_P_IP,
            IpVersion::V6 => bindings::ETH_P_IPV6,
        };
        let skb = self.ptr.as_ptr();
        // SAFETY: The buffer is valid and ours.
        unsafe {
            // Buffers are smaller than 64 KiB in front of their data.
            let front = (*skb).data.offset_from((*skb).head) as u16;
            (*fields(skb)).network_header = front;
            (*fields(skb)).transport_header = front.wrapping_add(ip_len);
            (*fields(skb)).protocol = (protocol as u16).to_be();
        }
    }

    /// Hands the packet, which begins with an IP header, to the IP layer for output by a route.
    ///
    /// May be called in process context and softirq. Fields of the IP header that depend on the
    /// whole packet (total length, header checksum) are filled in.
    ///
    /// # Errors
    ///
    /// [`Refused`] if the packet was not sent: by a packet filter, a full queue, a device that is
    /// down, or for lack of memory. The packet is gone in any case.
    #[inline]
    pub fn output(self, dst: &Dst, _guard: &rcu::Guard) -> Result<(), Refused> {
        let skb = ManuallyDrop::new(self).ptr.as_ptr();
        // SAFETY: The packet is ours and passed on. The route is valid as long as it is borrowed and
        // its device as long as the guard exists; who keeps the packet longer takes a reference.
        let ret = unsafe {
            bindings::skb_dst_set_noref(skb, dst.as_raw());
            let net = bindings::dst_dev_net_rcu(dst.as_raw());
            match dst.version() {
                IpVersion::V4 => bindings::ip_local_out(net, core::ptr::null_mut(), skb),
                IpVersion::V6 => bindings::ip6_local_out(net, core::ptr::null_mut(), skb),
            }
        };
        // A congestion notice says that another packet was dropped in favour of this one.
        if ret == 0 || ret == bindings::NET_XMIT_CN as i32 {
            Ok(())
        } else if ret == bindings::NET_XMIT_DROP as i32 {
            Err(Refused::Full)
        } else {
            Err(Refused::Dropped)
        }
    }

    /// Turns the packet into one that has been received: its data begins at its IP header.
    #[inline]
    pub fn into_rx(self) -> RxSkb {
        RxSkb {
            ptr: ManuallyDrop::new(self).ptr,
        }
    }

    /// Returns the C buffer.
    #[inline]
    pub(super) fn as_raw(&mut self) -> *mut bindings::sk_buff {
        self.ptr.as_ptr()
    }

    /// Takes a buffer over.
    ///
    /// # Safety
    ///
    /// `ptr` comes from [`TxSkb::into_raw`], once.
    #[inline]
    pub(super) unsafe fn from_raw(ptr: *mut bindings::sk_buff) -> Self {
        Self {
            // SAFETY: By the requirements of this function.
            ptr: unsafe { NonNull::new_unchecked(ptr) },
        }
    }

    /// Gives the buffer up.
    #[inline]
    pub(super) fn into_raw(self) -> *mut bindings::sk_buff {
        ManuallyDrop::new(self).ptr.as_ptr()
    }
}

impl Drop for TxSkb {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: The buffer is valid and ours.
        unsafe {
            bindings::sk_skb_reason_drop(
                core::ptr::null(),
                self.ptr.as_ptr(),
                bindings::skb_drop_reason_SKB_DROP_REASON_NOT_SPECIFIED,
            )
        };
    }
}
