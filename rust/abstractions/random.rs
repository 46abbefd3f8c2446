// SPDX-License-Identifier: GPL-2.0

//! Random numbers.
//!
//! Upstream home: `rust/kernel/random.rs`.
//!
//! C header: [`include/linux/random.h`](srctree/include/linux/random.h)

use super::bindings;

/// Returns a random byte. Any context.
pub fn byte() -> u8 {
    // SAFETY: No requirements.
    unsafe { bindings::get_random_u8() }
}
