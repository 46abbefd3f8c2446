// SPDX-License-Identifier: GPL-2.0

//! A wire between two endpoints, and its weather.

use super::{
    super::{
        icrc::{
            finish,
            Crc32,
            SEED, //
        },
        packet::PacketInfo,
        time::Instant, //
    },
    rng::Rng, //
};
use std::{
    boxed::Box,
    cmp::Reverse,
    collections::BinaryHeap,
    vec::Vec, //
};

/// Which of the two endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    A,
    B,
}

impl Side {
    pub(super) const BOTH: [Self; 2] = [Self::A, Self::B];

    pub(super) fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// What the network does to packets: per thousand of them, and nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weather {
    pub(super) drop: u32,
    pub(super) duplicate: u32,
    pub(super) reorder: u32,
    pub(super) damage: u32,
    pub(super) delay: u64,
}

impl Weather {
    /// Nothing happens to packets but a delay.
    pub(super) const FINE: Self = Self {
        drop: 0,
        duplicate: 0,
        reorder: 0,
        damage: 0,
        delay: 10_000,
    };
}

/// A packet that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) at: Instant,
    pub(super) from: Side,
    pub(super) info: PacketInfo,
}

/// Whether a packet arrives; for tests that choose which ones get lost.
pub(super) type Script = Box<dyn FnMut(&Sent) -> bool>;

/// When a packet arrives, its number, where, and its bytes.
type Flight = (Instant, u64, Side, Vec<u8>);

pub(super) struct Network {
    pub(super) weather: Weather,
    pub(super) script: Option<Script>,
    /// Everything that was sent, lost or not.
    pub(super) log: Vec<Sent>,
    rng: Rng,
    /// Packets on their way, the next to arrive on top.
    flying: BinaryHeap<Reverse<Flight>>,
    /// When the last packet in order arrives, for each destination.
    last: [Instant; 2],
    count: u64,
}

/// The CRC-32 of Ethernet, byte by byte.
struct Crc;

impl Crc {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut i = 0;
        while i < 256 {
            let mut state = i as u32;
            let mut bit = 0;
            while bit < 8 {
                state = (state >> 1) ^ (0xedb8_8320 & (state & 1).wrapping_neg());
                bit += 1;
            }
            table[i] = state;
            i += 1;
        }
        table
    };
}

impl Crc32 for Crc {
    fn update(state: u32, bytes: &[u8]) -> u32 {
        bytes.iter().fold(state, |state, byte| {
            (state >> 8) ^ Self::TABLE[usize::from(state as u8 ^ byte)]
        })
    }
}

/// Puts a packet into bytes. The checksum covers all of it, as there are no headers around it.
pub(super) fn seal(info: &PacketInfo, payload: &[u8]) -> Vec<u8> {
    assert_eq!(info.payload_len as usize, payload.len());
    let mut bytes = std::vec![0; info.packet_len().unwrap()];
    let at = info.emit(&mut bytes).unwrap();
    bytes[at..at + payload.len()].copy_from_slice(payload);
    let end = bytes.len() - 4;
    let icrc = finish(Crc::update(SEED, &bytes[..end]));
    bytes[end..].copy_from_slice(&icrc);
    bytes
}

/// Reads a packet, unless it is damaged.
pub(super) fn open(bytes: &[u8]) -> Option<(PacketInfo, &[u8])> {
    let (packet, icrc) = bytes.split_at(bytes.len() - 4);
    if finish(Crc::update(SEED, packet)) != icrc {
        return None;
    }
    let info = PacketInfo::parse(bytes).expect("an undamaged packet is one of ours");
    let start = usize::from(info.header_len);
    Some((info, &bytes[start..start + info.payload_len as usize]))
}

impl Network {
    pub(super) fn new(weather: Weather, seed: u64) -> Self {
        Self {
            weather,
            script: None,
            log: Vec::new(),
            rng: Rng::new(seed),
            flying: BinaryHeap::new(),
            last: [Instant::ZERO; 2],
            count: 0,
        }
    }

    /// Sends a packet from one side to the other.
    pub(super) fn send(&mut self, now: Instant, from: Side, info: PacketInfo, payload: &[u8]) {
        let sent = Sent {
            at: now,
            from,
            info,
        };
        self.log.push(sent);
        if let Some(script) = &mut self.script {
            if !script(&sent) {
                return;
            }
        }
        let bytes = seal(&info, payload);
        let copies = match &self.weather {
            w if self.rng.chance(w.drop) => 0,
            w if self.rng.chance(w.duplicate) => 2,
            _ => 1,
        };
        for _ in 0..copies {
            let mut bytes = bytes.clone();
            if self.rng.chance(self.weather.damage) {
                let bit = self.rng.below(bytes.len() as u64 * 8) as usize;
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            self.deliver(now, from.other(), bytes);
        }
    }

    fn deliver(&mut self, now: Instant, to: Side, bytes: Vec<u8>) {
        let delay = self.weather.delay;
        let last = &mut self.last[to as usize];
        let at = if self.rng.chance(self.weather.reorder) {
            Instant(now.0 + delay + self.rng.below(8 * delay))
        } else {
            *last = (*last).max(Instant(now.0 + delay + self.rng.below(delay / 4)));
            *last
        };
        self.count += 1;
        self.flying.push(Reverse((at, self.count, to, bytes)));
    }

    pub(super) fn next_arrival(&self) -> Option<Instant> {
        self.flying.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes a packet that has arrived.
    pub(super) fn arrive(&mut self, now: Instant) -> Option<(Side, Vec<u8>)> {
        if self.next_arrival()? > now {
            return None;
        }
        self.flying
            .pop()
            .map(|Reverse((_, _, to, bytes))| (to, bytes))
    }
}
