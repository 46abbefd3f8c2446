// SPDX-License-Identifier: GPL-2.0

//! Network devices and namespaces.
//!
//! Upstream home: rust/kernel/net/netdev.rs
//!
//! C header: [`include/linux/netdevice.h`](srctree/include/linux/netdevice.h)

use super::Rtnl;
use crate::abstractions::bindings;
use core::{
    net::{
        IpAddr,
        Ipv4Addr,
        Ipv6Addr, //
    },
    ptr::NonNull, //
};
use kernel::{
    error::{code::EINVAL, to_result, Result},
    str::{CStr, CStrExt},
    sync::{aref::AlwaysRefCounted, rcu},
    types::Opaque, //
};

/// A network device.
///
/// Borrowed under RCU, RTNL or a reference (`ARef<NetDev>`).
///
/// # Invariants
///
/// References are to a valid `struct net_device`.
#[repr(transparent)]
pub struct NetDev(Opaque<bindings::net_device>);

// SAFETY: Devices may be referred to from any thread; what is read here may change at any time and
// is read once.
unsafe impl Send for NetDev {}

// SAFETY: As for `Send`.
unsafe impl Sync for NetDev {}

// SAFETY: A device is not freed before its reference count is zero.
unsafe impl AlwaysRefCounted for NetDev {
    fn inc_ref(&self) {
        // SAFETY: The device is valid.
        unsafe { bindings::dev_hold(self.0.get()) };
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller gives up a reference.
        unsafe { bindings::dev_put(obj.as_ptr().cast()) };
    }
}

impl NetDev {
    /// Borrows a device.
    ///
    /// # Safety
    ///
    /// `ptr` is valid during `'a`.
    #[inline]
    pub(in crate::abstractions) unsafe fn from_raw<'a>(ptr: *mut bindings::net_device) -> &'a Self {
        // CAST: `NetDev` is transparent.
        // SAFETY: By the requirements of this function.
        unsafe { &*ptr.cast() }
    }

    /// Returns the C device.
    #[inline]
    pub(in crate::abstractions) fn as_raw(&self) -> *mut bindings::net_device {
        self.0.get()
    }

    /// Returns the number of the device in its namespace.
    #[inline]
    pub fn ifindex(&self) -> u32 {
        // SAFETY: The device is valid.
        let ifindex = unsafe { (&raw const (*self.0.get()).ifindex).read_volatile() };
        // Numbers are positive.
        ifindex.unsigned_abs()
    }

    /// Returns the size of the largest network layer packet.
    pub fn mtu(&self) -> u32 {
        // SAFETY: The device is valid.
        unsafe { (&raw const (*self.0.get()).mtu).read_volatile() }
    }

    /// Tells whether the device is a loopback device.
    #[inline]
    pub fn is_loopback(&self) -> bool {
        // SAFETY: The device is valid.
        let flags = unsafe { (&raw const (*self.0.get()).flags).read_volatile() };
        flags & bindings::net_device_flags_IFF_LOOPBACK != 0
    }

    /// Tells whether the device is registered: it exists for users and is not going away.
    ///
    /// The answer holds as long as RTNL does.
    pub fn is_registered(&self, _rtnl: &Rtnl) -> bool {
        // SAFETY: The device is valid.
        unsafe { bindings::netdev_is_registered(self.0.get()) }
    }

    /// Tells whether the device is set up by its administrator.
    pub fn is_up(&self) -> bool {
        // SAFETY: The device is valid.
        let flags = unsafe { (&raw const (*self.0.get()).flags).read_volatile() };
        flags & bindings::net_device_flags_IFF_UP != 0
    }

    /// Returns the link layer address of the device, or its first six bytes; `None` if it has none.
    pub fn address(&self) -> Option<[u8; 6]> {
        // SAFETY: The device is valid. Its address may change while it is read, which gives a mixture.
        let (len, from) = unsafe { ((*self.0.get()).addr_len, (*self.0.get()).dev_addr) };
        if len == 0 {
            return None;
        }
        let mut address = [0; 6];
        for (i, byte) in address.iter_mut().enumerate().take(len.into()) {
            // SAFETY: The device has `addr_len` bytes of address.
            *byte = unsafe { from.add(i).read_volatile() };
        }
        Some(address)
    }

    /// Makes a random Ethernet address: a unicast one, locally administered.
    pub fn random_address() -> [u8; 6] {
        let mut address = [0; 6];
        // SAFETY: There is room for an Ethernet address.
        unsafe { bindings::eth_random_addr(address.as_mut_ptr()) };
        address
    }

    /// Lets packets to a multicast Ethernet address in. Additions are counted. May sleep.
    pub fn add_multicast(&self, address: &[u8; 6]) -> Result {
        // SAFETY: The device is valid, and the address has the length of an Ethernet one.
        to_result(unsafe { bindings::dev_mc_add(self.0.get(), address.as_ptr()) })
    }

    /// Undoes one [`NetDev::add_multicast`]. May sleep.
    pub fn remove_multicast(&self, address: &[u8; 6]) {
        // SAFETY: The device is valid, and the address has the length of an Ethernet one. It fails only
        // if the address is not in the list, which is what is wanted.
        unsafe { bindings::dev_mc_del(self.0.get(), address.as_ptr()) };
    }

    /// Makes the host a member of an IP group on this device, as a socket's option does: switches and
    /// routers are told (IGMP, MLD), and datagrams to the group come in. Memberships are counted. Sleeps and
    /// takes RTNL.
    ///
    /// Returns false if the device does not speak this version of IP. Then there is nothing to leave.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENODEV` if the device is going away.
    pub fn join_group(&self, group: IpAddr) -> Result<bool> {
        match group {
            IpAddr::V4(group) => {
                let rtnl = Rtnl::lock();
                let Some(in_dev) = self.in_device(&rtnl) else {
                    return Ok(false);
                };
                // SAFETY: `in_dev` is valid while RTNL is held, which it is.
                unsafe { bindings::ip_mc_inc_group(in_dev.as_ptr(), be32(group)) };
            }
            IpAddr::V6(group) => {
                // SAFETY: The device and the address are valid.
                match to_result(unsafe { bindings::ipv6_dev_mc_inc(self.0.get(), &in6(group)) }) {
                    // It has no part for IPv6.
                    Err(EINVAL) => return Ok(false),
                    other => other?,
                }
            }
        }
        Ok(true)
    }

    /// Undoes one [`NetDev::join_group`] that returned true. Sleeps and takes RTNL.
    pub fn leave_group(&self, group: IpAddr) {
        match group {
            IpAddr::V4(group) => {
                let rtnl = Rtnl::lock();
                if let Some(in_dev) = self.in_device(&rtnl) {
                    // SAFETY: As in `join_group`. A group that is not there is nothing to it.
                    unsafe {
                        bindings::__ip_mc_dec_group(
                            in_dev.as_ptr(),
                            be32(group),
                            bindings::GFP_KERNEL,
                        )
                    };
                }
            }
            IpAddr::V6(group) => {
                // SAFETY: The device and the address are valid. It fails only if the device is no member,
                // which is what is wanted.
                unsafe { bindings::ipv6_dev_mc_dec(self.0.get(), &in6(group)) };
            }
        }
    }

    /// Returns the part of the device that speaks IPv4, valid while RTNL is held.
    fn in_device(&self, _rtnl: &Rtnl) -> Option<NonNull<bindings::in_device>> {
        // SAFETY: The device is valid, and RTNL is held.
        NonNull::new(unsafe { bindings::__in_dev_get_rtnl(self.0.get()) })
    }

    /// Returns the VLAN of a VLAN device.
    #[inline]
    pub fn vlan_id(&self) -> Option<u16> {
        // SAFETY: The device is valid.
        unsafe {
            bindings::is_vlan_dev(self.0.get()).then(|| bindings::vlan_dev_vlan_id(self.0.get()))
        }
    }

    /// Returns the device below a VLAN device.
    #[inline]
    pub fn vlan_real_device<'g>(&'g self, _guard: &'g rcu::Guard) -> Option<&'g Self> {
        // SAFETY: The device is valid.
        if !unsafe { bindings::is_vlan_dev(self.0.get()) } {
            return None;
        }
        // SAFETY: The lower device outlives a grace period after the upper one is unlinked.
        Some(unsafe { Self::from_raw(bindings::vlan_dev_real_dev(self.0.get())) })
    }

    /// Returns the network namespace of the device.
    ///
    /// A device may be moved; without RTNL or RCU the answer may be outdated at once.
    #[inline]
    pub fn namespace(&self) -> &NetNs {
        // SAFETY: A namespace is not freed while a device is in it.
        unsafe { NetNs::from_raw(bindings::dev_net(self.0.get())) }
    }

    /// Returns the name of the device, which may change unless RTNL is held.
    pub fn name(&self, _rtnl: &Rtnl) -> &CStr {
        // SAFETY: The name is a terminated string that changes under RTNL only.
        unsafe { CStr::from_char_ptr((&raw const (*self.0.get()).name).cast()) }
    }
}

/// A network namespace.
///
/// # Invariants
///
/// References are to a valid `struct net`.
#[repr(transparent)]
pub struct NetNs(Opaque<bindings::net>);

// SAFETY: Namespaces may be referred to from any thread.
unsafe impl Send for NetNs {}

// SAFETY: As for `Send`.
unsafe impl Sync for NetNs {}

impl NetNs {
    /// Borrows a namespace.
    ///
    /// # Safety
    ///
    /// `ptr` is valid during `'a`.
    #[inline]
    pub(in crate::abstractions) unsafe fn from_raw<'a>(ptr: *mut bindings::net) -> &'a Self {
        // CAST: `NetNs` is transparent.
        // SAFETY: By the requirements of this function.
        unsafe { &*ptr.cast() }
    }

    /// Returns the C namespace.
    #[inline]
    pub(in crate::abstractions) fn as_raw(&self) -> *mut bindings::net {
        self.0.get()
    }

    /// Returns a number that no other namespace has had or will have.
    pub fn cookie(&self) -> u64 {
        // SAFETY: The namespace is valid, and the number is never changed.
        unsafe { (*self.0.get()).net_cookie }
    }
}

/// Returns an address as C keeps it: in the order of the wire.
fn be32(address: Ipv4Addr) -> bindings::__be32 {
    u32::from_ne_bytes(address.octets())
}

/// Returns an address as C keeps it.
fn in6(address: Ipv6Addr) -> bindings::in6_addr {
    let mut c = bindings::in6_addr::default();
    c.in6_u.u6_addr8 = address.octets();
    c
}
