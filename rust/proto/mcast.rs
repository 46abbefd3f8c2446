// SPDX-License-Identifier: GPL-2.0

//! Multicast groups: how they are addressed and which members get a packet.

#![forbid(unsafe_code)]

use core::net::IpAddr;

/// A 128-bit address of a port or group.
pub type Gid = [u8; 16];

/// The first bytes of a GID that stands for an IPv4 address.
const V4_MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// Returns the GID of an IPv4 address.
pub const fn gid_from_ipv4(addr: [u8; 4]) -> Gid {
    let [p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11] = V4_MAPPED;
    let [a, b, c, d] = addr;
    [p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, a, b, c, d]
}

/// Returns the IPv4 address that a GID stands for, if it does.
pub const fn ipv4_from_gid(gid: &Gid) -> Option<[u8; 4]> {
    match gid {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d] => Some([*a, *b, *c, *d]),
        _ => None,
    }
}

/// Tells whether a GID is the address of a group, in IPv6 or in mapped IPv4 form.
pub const fn is_multicast(gid: &Gid) -> bool {
    match ipv4_from_gid(gid) {
        Some([first, ..]) => first & 0xf0 == 0xe0,
        None => {
            let [first, ..] = *gid;
            first == 0xff
        }
    }
}

/// Returns the IP address of a group.
pub fn ip_of_group(gid: &Gid) -> IpAddr {
    match ipv4_from_gid(gid) {
        Some(v4) => v4.into(),
        None => (*gid).into(),
    }
}

/// Returns the Ethernet address that packets to a group are sent to.
pub const fn mac_of_group(gid: &Gid) -> [u8; 6] {
    match ipv4_from_gid(gid) {
        Some([_, b, c, d]) => [0x01, 0x00, 0x5e, b & 0x7f, c, d],
        None => {
            let [.., a, b, c, d] = *gid;
            [0x33, 0x33, a, b, c, d]
        }
    }
}

/// Tells whether two partition keys let their owners talk to each other.
///
/// They must name the same partition, and at least one must have full membership.
pub const fn pkey_match(a: u16, b: u16) -> bool {
    const PARTITION: u16 = 0x7fff;
    const FULL: u16 = 0x8000;
    a & PARTITION != 0 && a & PARTITION == b & PARTITION && (a | b) & FULL != 0
}
