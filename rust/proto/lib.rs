// SPDX-License-Identifier: GPL-2.0

//! Host library root of the protocol core.
//!
//! The kernel module declares the core as `mod proto;` in its own root, so here, too, the core is a
//! module called `proto`: every path inside it resolves alike in both builds.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

#[path = "mod.rs"]
mod proto;

pub use proto::*;
