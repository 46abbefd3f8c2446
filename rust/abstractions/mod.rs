// SPDX-License-Identifier: GPL-2.0

//! Safe abstractions over the C interfaces that the driver uses and the `kernel` crate does not cover.

// Items are `pub` as they would be in the kernel crate; this crate exports nothing.
#![allow(unreachable_pub)]

mod bindings;
pub mod crc32;
pub mod mm;
pub mod net;
pub mod random;
pub mod rdma;
pub mod sync;
pub mod work;
