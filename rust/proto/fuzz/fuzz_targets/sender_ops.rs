// SPDX-License-Identifier: GPL-2.0

#![no_main]

#[path = "../targets/mod.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::sender_ops(data));
