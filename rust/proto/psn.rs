// SPDX-License-Identifier: GPL-2.0

//! 24-bit sequence numbers of packets and messages.
//!
//! Order is circular: a number is *after* another when it lies within the next 2^23. That is not a
//! total order, so the types do not implement `Ord`.

#![forbid(unsafe_code)]

/// The bits of a sequence number.
const MASK: u32 = 0x00ff_ffff;

macro_rules! sequence {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name(u32);

        // Both kinds have the same operations, whichever of them each needs.
        #[allow(dead_code)]
        impl $name {
            /// The bits that a sequence number may have set.
            pub const MASK: u32 = MASK;

            /// Makes a sequence number of the low 24 bits of `value`.
            pub const fn new(value: u32) -> Self {
                Self(value & MASK)
            }

            /// Returns the number as an integer below 2^24.
            pub const fn get(self) -> u32 {
                self.0
            }

            /// Returns the number that follows.
            pub const fn next(self) -> Self {
                self.wrapping_add(1)
            }

            /// Returns the number `n` places later.
            pub const fn wrapping_add(self, n: u32) -> Self {
                Self(self.0.wrapping_add(n) & MASK)
            }

            /// Returns the number `n` places earlier.
            pub const fn wrapping_sub_n(self, n: u32) -> Self {
                Self(self.0.wrapping_sub(n) & MASK)
            }

            /// Returns `self - other` as a signed distance, from -2^23 to 2^23 - 1.
            pub const fn distance(self, other: Self) -> i32 {
                // The shift drops what the subtraction borrowed and moves bit 23 to the sign.
                ((self.0.wrapping_sub(other.0) << 8) as i32) >> 8
            }

            /// Tells whether `self` is later than `other`.
            pub const fn is_after(self, other: Self) -> bool {
                self.distance(other) > 0
            }

            /// Tells whether `self` is earlier than `other`.
            pub const fn is_before(self, other: Self) -> bool {
                self.distance(other) < 0
            }
        }
    };
}

sequence! {
    /// A packet sequence number.
    Psn
}

sequence! {
    /// A message sequence number, as counted by a responder.
    Msn
}
