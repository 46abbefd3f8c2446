// SPDX-License-Identifier: GPL-2.0

//! The CRC of Ethernet.
//!
//! Upstream home: rust/kernel/crc32.rs
//!
//! C header: [`include/linux/crc32.h`](srctree/include/linux/crc32.h)

use crate::abstractions::bindings;

/// Returns the state of a bit-reflected CRC-32 after `bytes`, neither inverted before nor after.
///
/// May be called in any context.
#[inline]
pub fn crc32_le(state: u32, bytes: &[u8]) -> u32 {
    // SAFETY: The pointer is valid for the length.
    unsafe { bindings::crc32_le(state, bytes.as_ptr().cast(), bytes.len()) }
}
