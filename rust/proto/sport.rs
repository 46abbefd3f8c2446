// SPDX-License-Identifier: GPL-2.0

//! UDP source ports, by which routers spread the packets of different queue pairs over paths.

#![forbid(unsafe_code)]

/// The first of the ports that RoCEv2 senders use; they are the upper quarter of all.
const FIRST: u16 = 0xc000;

/// The bits of a port above [`FIRST`].
const BITS: u32 = 14;

/// The bits of a flow label.
const FLOW_LABEL_BITS: u32 = 20;

/// Folds a flow label into a port.
pub const fn of_flow_label(flow_label: u32) -> u16 {
    let label = flow_label & ((1 << FLOW_LABEL_BITS) - 1);
    let folded = (label ^ (label >> BITS)) & ((1 << BITS) - 1);
    FIRST | folded as u16
}

/// Returns the port of a connection: that of its flow label, or if it has none, one that both ends
/// derive from the numbers of their queue pairs.
pub const fn of_connection(flow_label: u32, qpn: u32, peer_qpn: u32) -> u16 {
    if flow_label != 0 {
        return of_flow_label(flow_label);
    }
    // Queue pair numbers have 24 bits, so the product has 48.
    let product = (qpn as u64).wrapping_mul(peer_qpn as u64);
    let folded = product ^ (product >> FLOW_LABEL_BITS);
    of_flow_label((folded ^ (folded >> (2 * FLOW_LABEL_BITS))) as u32)
}

/// Returns the port of a datagram queue pair, which is the same for all its destinations.
pub const fn of_datagrams(qpn: u32) -> u16 {
    // Multiplicative hashing by the golden ratio.
    FIRST | (qpn.wrapping_mul(0x61c8_8647) >> (u32::BITS - BITS)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_in_the_range_of_rocev2() {
        for n in [0, 1, 16, 0x3fff, 0x4000, 0xf_ffff, 0xff_ffff, u32::MAX] {
            assert!(of_flow_label(n) >= FIRST);
            assert!(of_connection(n, 17, 0xff_ffff) >= FIRST);
            assert!(of_datagrams(n) >= FIRST);
        }
    }

    #[test]
    fn both_ends_use_the_same_port() {
        assert_eq!(of_connection(0, 17, 0x1234), of_connection(0, 0x1234, 17));
    }

    #[test]
    fn the_upper_bits_of_a_label_count() {
        assert_eq!(of_flow_label(0), 0xc000);
        assert_eq!(of_flow_label(0x1_4000), 0xc005);
        assert_eq!(of_flow_label(0x3fff), 0xffff);
    }

    #[test]
    fn a_label_decides_alone() {
        assert_eq!(of_connection(0x123, 1, 2), of_connection(0x123, 3, 4));
    }
}
