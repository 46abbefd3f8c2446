// SPDX-License-Identifier: GPL-2.0

//! The invariant CRC: a checksum over everything that the network does not change.

#![forbid(unsafe_code)]

/// The CRC-32 of Ethernet, bit-reflected, as a bare state transition.
///
/// Neither the initial value nor the final value is inverted by `update`.
pub trait Crc32 {
    /// Returns the state after `bytes`.
    fn update(state: u32, bytes: &[u8]) -> u32;
}
