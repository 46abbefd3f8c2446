// SPDX-License-Identifier: GPL-2.0

//! Safe abstractions over the C interfaces that the driver uses and the `kernel` crate does not cover.

mod bindings;
