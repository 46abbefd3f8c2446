// SPDX-License-Identifier: GPL-2.0

//! Points in time and delays, in nanoseconds, and the two encodings of delays in the protocol.
//!
//! The core has no clock: the caller passes the time in, from one monotonic source.

#![forbid(unsafe_code)]

/// A point in time: nanoseconds since an origin that the caller keeps to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

/// A delay in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(pub u64);

impl Instant {
    /// The origin of time.
    #[cfg(not(MODULE))]
    pub const ZERO: Self = Self(0);

    /// Returns the point `delay` later, or the last one that can be expressed.
    pub const fn after(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(delay.0))
    }

    /// Returns the time from `earlier` to `self`, or zero if `earlier` is not earlier.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Duration {
    /// No delay.
    #[cfg(not(MODULE))]
    pub const ZERO: Self = Self(0);

    /// Makes a delay of nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Makes a delay of microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// Makes a delay of milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Returns the delay in nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the sum of two delays, or the longest that can be expressed.
    #[cfg(not(MODULE))]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// Returns how long a requester must wait after an RNR NAK with timer code `code`.
///
/// Only the low five bits of `code` count. Code 0 is the longest delay, not none.
pub const fn rnr_delay(code: u8) -> Duration {
    // IBA table 45, in units of 10 us.
    let tens_of_micros: u64 = match code & 0x1f {
        0 => 65536,
        1 => 1,
        2 => 2,
        3 => 3,
        4 => 4,
        5 => 6,
        6 => 8,
        7 => 12,
        8 => 16,
        9 => 24,
        10 => 32,
        11 => 48,
        12 => 64,
        13 => 96,
        14 => 128,
        15 => 192,
        16 => 256,
        17 => 384,
        18 => 512,
        19 => 768,
        20 => 1024,
        21 => 1536,
        22 => 2048,
        23 => 3072,
        24 => 4096,
        25 => 6144,
        26 => 8192,
        27 => 12288,
        28 => 16384,
        29 => 24576,
        30 => 32768,
        _ => 49152,
    };

    Duration::from_micros(tens_of_micros.saturating_mul(10))
}

/// Returns the transport timeout that a queue pair's 5-bit attribute stands for.
///
/// It is 4.096 us times 2^`code`; code 0 stands for no timeout. Only the low five bits count.
pub const fn ack_timeout(code: u8) -> Option<Duration> {
    match code & 0x1f {
        0 => None,
        shift => Some(Duration::from_nanos(4096 << shift)),
    }
}
