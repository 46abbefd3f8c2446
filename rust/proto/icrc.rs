// SPDX-License-Identifier: GPL-2.0

//! The invariant CRC: a checksum over everything in a packet that the network does not change.
//!
//! It covers the IP header, the UDP header and the packet up to the CRC itself. Fields that routers
//! may change count as if all their bits were set, and eight bytes of ones stand for the link header
//! that InfiniBand has and Ethernet has not.

#![forbid(unsafe_code)]

use super::wire::BTH_LEN;

/// The CRC-32 of Ethernet, bit-reflected, as a bare state transition.
///
/// Neither the initial value nor the final value is inverted by `update`.
pub trait Crc32 {
    /// Returns the state after `bytes`.
    fn update(state: u32, bytes: &[u8]) -> u32;
}

/// The state after eight bytes of ones, from an initial state of all ones.
pub const SEED: u32 = 0xdebb_20e3;

/// The length of an IPv4 header without options.
pub const IPV4_LEN: usize = 20;

/// The length of an IPv6 header.
pub const IPV6_LEN: usize = 40;

/// The length of a UDP header.
pub const UDP_LEN: usize = 8;

/// The offset of the eight reserved bits in the base transport header.
pub const RESV8A: usize = 4;

/// Sets the bits of `mask` in the byte at `offset`.
fn mask(header: &mut [u8], offset: usize, mask: u8) -> Option<()> {
    *header.get_mut(offset)? |= mask;
    Some(())
}

/// Sets the bits of the headers that the network may change, as the CRC wants to see them.
///
/// `ip` is an IPv4 header without options or an IPv6 header without extensions, `udp` a UDP header,
/// `bth` begins with a base transport header. Returns `None` if `ip` has another length than these
/// two or another header is too short, with the headers in an unspecified state.
pub fn mask_headers(ip: &mut [u8], udp: &mut [u8], bth: &mut [u8]) -> Option<()> {
    match ip.len() {
        IPV4_LEN => {
            // Type of service, time to live, header checksum.
            mask(ip, 1, 0xff)?;
            mask(ip, 8, 0xff)?;
            mask(ip, 10, 0xff)?;
            mask(ip, 11, 0xff)?;
        }
        IPV6_LEN => {
            // Traffic class and flow label, hop limit.
            mask(ip, 0, 0x0f)?;
            mask(ip, 1, 0xff)?;
            mask(ip, 2, 0xff)?;
            mask(ip, 3, 0xff)?;
            mask(ip, 7, 0xff)?;
        }
        _ => return None,
    }
    // Checksum.
    mask(udp, 6, 0xff)?;
    mask(udp, 7, 0xff)?;
    mask(bth, RESV8A, 0xff)
}

/// Returns the state after the headers of a packet.
///
/// `ip` is an IPv4 header without options or an IPv6 header without extensions, `udp` the UDP
/// header, `transport` the base header and any extended headers, to which payload and pad may be
/// appended. Returns `None` if `ip` has another length than these two or `transport` is shorter
/// than a base header.
pub fn icrc_header_state<C: Crc32>(
    ip: &[u8],
    udp: &[u8; UDP_LEN],
    transport: &[u8],
) -> Option<u32> {
    let mut buf = [0u8; IPV6_LEN + UDP_LEN + BTH_LEN];
    let (bth, rest) = transport.split_at_checked(BTH_LEN)?;

    let (ip_hdr, tail) = buf.split_at_mut_checked(ip.len())?;
    let (udp_hdr, tail) = tail.split_at_mut_checked(UDP_LEN)?;
    let (bth_hdr, _) = tail.split_at_mut_checked(BTH_LEN)?;
    ip_hdr.copy_from_slice(ip);
    udp_hdr.copy_from_slice(udp);
    bth_hdr.copy_from_slice(bth);
    mask_headers(ip_hdr, udp_hdr, bth_hdr)?;

    let len = ip
        .len()
        .checked_add(UDP_LEN)
        .and_then(|n| n.checked_add(BTH_LEN))?;
    let state = C::update(SEED, buf.get(..len)?);
    Some(if rest.is_empty() {
        state
    } else {
        C::update(state, rest)
    })
}

/// Returns the four bytes that end a packet, from the state after its payload and pad.
pub const fn finish(state: u32) -> [u8; 4] {
    (!state).to_le_bytes()
}
