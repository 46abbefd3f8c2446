// SPDX-License-Identifier: GPL-2.0

//! Routes.
//!
//! Upstream home: rust/kernel/net/dst.rs
//!
//! C header: [`include/net/route.h`](srctree/include/net/route.h),
//! [`include/net/ip6_route.h`](srctree/include/net/ip6_route.h)

use super::{IpVersion, NetDev};
use crate::abstractions::bindings;
use core::ptr::NonNull;
use kernel::{error::from_err_ptr, prelude::*, sync::rcu};

/// A reference to a route for UDP packets to one destination.
///
/// A route may become outdated at any time, by a change of configuration or because its device goes.
/// Whoever keeps one asks [`Dst::is_valid`] before each use.
///
/// # Invariants
///
/// `ptr` is valid and a reference is owned.
pub struct Dst {
    ptr: NonNull<bindings::dst_entry>,
    cookie: u32,
    version: IpVersion,
}

// SAFETY: Routes may be used and released on any thread.
unsafe impl Send for Dst {}

// SAFETY: As for `Send`.
unsafe impl Sync for Dst {}

impl Dst {
    /// Looks up the route by which `dev` sends IPv4 packets between two addresses. May be called in
    /// process context and softirq.
    ///
    /// # Errors
    ///
    /// What the routing code answers, such as `ENETUNREACH`, or `EINVAL` if the source is not local.
    pub fn lookup4(dev: &NetDev, source: [u8; 4], destination: [u8; 4]) -> Result<Self> {
        let mut flow = bindings::flowi4::default();
        flow.__fl_common.flowic_oif = dev.ifindex() as i32;
        flow.__fl_common.flowic_proto = bindings::IPPROTO_UDP as u8;
        flow.saddr = u32::from_ne_bytes(source);
        flow.daddr = u32::from_ne_bytes(destination);
        // SAFETY: The flow is valid, and the namespace of a device that is referred to exists.
        let route = from_err_ptr(unsafe {
            bindings::ip_route_output_flow(
                dev.namespace().as_raw().cast(),
                &mut flow,
                core::ptr::null(),
            )
        })?;
        // CAST: A `dst_entry` is the first field of a route.
        // INVARIANT: The lookup answers with a reference.
        Ok(Self {
            ptr: NonNull::new(route.cast()).ok_or(ENETUNREACH)?,
            cookie: 0,
            version: IpVersion::V4,
        })
    }

    /// Looks up the route by which `dev` sends IPv6 packets between two addresses. May be called in
    /// process context and softirq.
    ///
    /// # Errors
    ///
    /// What the routing code answers.
    pub fn lookup6(dev: &NetDev, source: [u8; 16], destination: [u8; 16]) -> Result<Self> {
        let mut flow = bindings::flowi6::default();
        flow.__fl_common.flowic_oif = dev.ifindex() as i32;
        flow.__fl_common.flowic_proto = bindings::IPPROTO_UDP as u8;
        flow.saddr.in6_u.u6_addr8 = source;
        flow.daddr.in6_u.u6_addr8 = destination;
        // SAFETY: As in `lookup4`; a socket is not needed.
        let dst = from_err_ptr(unsafe {
            bindings::ip6_dst_lookup_flow(
                dev.namespace().as_raw().cast(),
                core::ptr::null(),
                &mut flow,
                core::ptr::null(),
            )
        })?;
        // INVARIANT: The lookup answers with a reference.
        let mut this = Self {
            ptr: NonNull::new(dst).ok_or(ENETUNREACH)?,
            cookie: 0,
            version: IpVersion::V6,
        };
        // A lookup that finds nothing answers with a route that only knows its error.
        // SAFETY: The route is valid.
        let error = unsafe { (*dst).error };
        if error != 0 {
            return Err(Error::from_errno(i32::from(error)));
        }
        // SAFETY: The route is an IPv6 route.
        this.cookie = unsafe { bindings::rt6_get_cookie(dst) };
        Ok(this)
    }

    /// Tells whether the route is still the one to use.
    #[inline]
    pub fn is_valid(&self) -> bool {
        // SAFETY: The route is valid, and a reference is owned.
        unsafe { bindings::dst_valid(self.ptr.as_ptr(), self.cookie) }
    }

    /// Returns the number of bytes that the device of the route wants in front of a packet.
    pub fn reserved_space(&self, _guard: &rcu::Guard) -> usize {
        // SAFETY: The device of a route is valid under RCU.
        unsafe { bindings::dst_reserved_space(self.ptr.as_ptr()) as usize }
    }

    /// Tells whether the route leads back to this host.
    pub fn is_loopback(&self, _guard: &rcu::Guard) -> bool {
        // SAFETY: The device of a route is valid under RCU.
        unsafe { bindings::dst_is_loopback(self.ptr.as_ptr()) }
    }

    /// Returns the protocol that the route is for.
    #[inline]
    pub fn version(&self) -> IpVersion {
        self.version
    }

    /// Returns the C route.
    #[inline]
    pub(super) fn as_raw(&self) -> *mut bindings::dst_entry {
        self.ptr.as_ptr()
    }
}

impl Drop for Dst {
    fn drop(&mut self) {
        // SAFETY: A reference is owned.
        unsafe { bindings::dst_release(self.ptr.as_ptr()) };
    }
}
