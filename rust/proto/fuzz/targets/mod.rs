// SPDX-License-Identifier: GPL-2.0

//! What the fuzz targets do with their input. A target fails by panicking.

// Each user of this file runs some of the targets.
#![allow(dead_code, unused_imports)]

mod parsers;
mod responder;
mod sender;

pub use parsers::{
    packet,
    wr, //
};
pub use responder::responder_ops;
pub use sender::sender_ops;

/// Numbers off the front of an input; zeros when it has come to its end.
struct Numbers<'d>(&'d [u8]);

impl Numbers<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        let (front, rest) = self.0.split_at(N.min(self.0.len()));
        out[..front.len()].copy_from_slice(front);
        self.0 = rest;
        out
    }

    fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.take())
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    /// A length: mostly small or about the MTU, sometimes anything.
    fn len(&mut self, mtu: u32) -> u32 {
        match self.u8() {
            n @ 0..=63 => u32::from(n),
            n @ 64..=127 => mtu - 32 + u32::from(n - 64),
            128..=159 => mtu,
            n @ 160..=223 => mtu * u32::from(n - 160) / 8,
            224..=239 => 8,
            240..=254 => u32::from(self.u16()),
            255 => self.u32(),
        }
    }
}
