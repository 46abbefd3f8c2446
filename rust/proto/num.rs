// SPDX-License-Identifier: GPL-2.0

//! Small numbers with a meaning: queue pair numbers, keys, MTUs, indices.

#![forbid(unsafe_code)]

/// Converts a 32-bit number to a size.
pub const fn usize_from(value: u32) -> usize {
    const { assert!(usize::BITS >= u32::BITS) };
    value as usize
}

/// Converts a size to 64 bits.
pub const fn u64_from(value: usize) -> u64 {
    const { assert!(usize::BITS <= u64::BITS) };
    value as u64
}

/// A queue pair number: 24 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Qpn(u32);

impl Qpn {
    /// The bits that a queue pair number may have set.
    pub const MASK: u32 = 0x00ff_ffff;

    /// The general services queue pair.
    pub const GSI: Self = Self(1);

    /// The destination of multicast packets.
    pub const MULTICAST: Self = Self(Self::MASK);

    /// Makes a queue pair number of the low 24 bits of `value`.
    pub const fn new(value: u32) -> Self {
        Self(value & Self::MASK)
    }

    /// Returns the number as an integer below 2^24.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// A local or remote memory key: a 24-bit index and an 8-bit variant that its owner may change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Key(u32);

impl Key {
    /// Makes a key of its 32-bit form.
    pub const fn new(value: u32) -> Self {
        Self(value)
    }

    /// Makes a key of an index, of which the low 24 bits count, and a variant.
    pub const fn from_parts(index: u32, variant: u8) -> Self {
        Self((index << 8) | variant as u32)
    }

    /// Returns the 32-bit form.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Returns the index of the region or window that the key names.
    pub const fn index(self) -> u32 {
        self.0 >> 8
    }

    /// Returns the variant, which tells successive uses of one index apart.
    pub const fn variant(self) -> u8 {
        self.0.to_le_bytes()[0]
    }
}

/// The size of the largest payload of one packet.
///
/// The values are the binary logarithms of the sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Mtu {
    /// 256 bytes.
    B256 = 8,
    /// 512 bytes.
    B512 = 9,
    /// 1024 bytes.
    B1024 = 10,
    /// 2048 bytes.
    B2048 = 11,
    /// 4096 bytes.
    B4096 = 12,
}

impl Mtu {
    /// Makes an MTU of the number that verbs use for it (`enum ib_mtu`, 1 to 5).
    pub const fn from_ib_enum(value: u32) -> Option<Self> {
        match value {
            1 => Some(Self::B256),
            2 => Some(Self::B512),
            3 => Some(Self::B1024),
            4 => Some(Self::B2048),
            5 => Some(Self::B4096),
            _ => None,
        }
    }

    /// Returns the number that verbs use for this MTU.
    pub const fn ib_enum(self) -> u32 {
        match self {
            Self::B256 => 1,
            Self::B512 => 2,
            Self::B1024 => 3,
            Self::B2048 => 4,
            Self::B4096 => 5,
        }
    }

    /// Returns the largest MTU whose payload fits in `bytes`, or `None` below 256.
    pub const fn fitting(bytes: u32) -> Option<Self> {
        match bytes {
            0..=255 => None,
            256..=511 => Some(Self::B256),
            512..=1023 => Some(Self::B512),
            1024..=2047 => Some(Self::B1024),
            2048..=4095 => Some(Self::B2048),
            4096.. => Some(Self::B4096),
        }
    }

    /// Returns the binary logarithm of the size.
    pub const fn shift(self) -> u32 {
        self as u32
    }

    /// Returns the size in bytes.
    pub const fn bytes(self) -> u32 {
        1u32.wrapping_shl(self.shift())
    }

    /// Returns the number of packets of a message of `length` bytes; an empty message is one packet.
    pub const fn packets(self, length: u32) -> u32 {
        match length.checked_sub(1) {
            None => 1,
            // At most (2^32 - 1) >> 8, so adding one cannot wrap.
            Some(last) => (last >> self.shift()).wrapping_add(1),
        }
    }
}

/// Identifies a protection domain within its device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PdId(pub u32);

/// The place of a work request in the private send window of its queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Slot(pub u16);

impl Slot {
    /// Returns the place as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
