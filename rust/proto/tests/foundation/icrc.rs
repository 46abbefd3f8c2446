// SPDX-License-Identifier: GPL-2.0

//! The invariant CRC, against known answers and a bitwise reference.

use super::packet::{opcode, packet_of};
use proptest::prelude::*;
use rxe_proto::icrc::{finish, icrc_header_state, Crc32, SEED};
use rxe_proto::opcode::Opcode;
use rxe_proto::packet::PacketInfo;

/// CRC-32 by table.
struct Table;

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut value = i as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 != 0 {
                0xedb8_8320 ^ (value >> 1)
            } else {
                value >> 1
            };
            bit += 1;
        }
        table[i] = value;
        i += 1;
    }
    table
}

const TABLE: [u32; 256] = table();

impl Crc32 for Table {
    fn update(state: u32, bytes: &[u8]) -> u32 {
        bytes.iter().fold(state, |state, byte| {
            TABLE[usize::from(state as u8 ^ byte)] ^ (state >> 8)
        })
    }
}

/// CRC-32 as the specification draws it: a shift register that takes the bits of each byte from the
/// least significant on, feeds back at the terms of the polynomial, and is sent from its highest term
/// on.
fn register_crc(bytes: impl IntoIterator<Item = u8>) -> [u8; 4] {
    let mut register = u32::MAX; // Bit 31 is the highest term.
    for byte in bytes {
        for bit in 0..8 {
            let feedback = (register >> 31) ^ u32::from((byte >> bit) & 1);
            register <<= 1;
            if feedback != 0 {
                register ^= 0x04c1_1db7;
            }
        }
    }
    let complement = !register;
    let mut sent = [0u8; 4];
    for term in 0..32 {
        let value = (complement >> (31 - term)) as u8 & 1;
        sent[term / 8] |= value << (term % 8);
    }
    sent
}

/// The ICRC of a whole packet from the IP header on, by the specification: a masked copy, a link
/// header of ones, the register.
fn reference(packet: &[u8]) -> [u8; 4] {
    let mut masked = packet[..packet.len() - 4].to_vec();
    let ip = if packet[0] >> 4 == 4 {
        for i in [1, 8, 10, 11] {
            masked[i] = 0xff;
        }
        20
    } else {
        masked[0] |= 0x0f;
        for i in [1, 2, 3, 7] {
            masked[i] = 0xff;
        }
        40
    };
    masked[ip + 6] = 0xff;
    masked[ip + 7] = 0xff;
    masked[ip + 8 + 4] = 0xff;
    register_crc([0xff; 8].into_iter().chain(masked))
}

/// The ICRC of a whole packet from the IP header on, by the code under test.
fn icrc<C: Crc32>(packet: &[u8]) -> [u8; 4] {
    let (ip, rest) = packet.split_at(if packet[0] >> 4 == 4 { 20 } else { 40 });
    let (udp, transport) = rest.split_at(8);
    let info = PacketInfo::parse(transport).unwrap();
    let (headers, payload) = transport.split_at(usize::from(info.header_len));
    let state = icrc_header_state::<C>(ip, udp.try_into().unwrap(), headers).unwrap();
    finish(C::update(state, &payload[..payload.len() - 4]))
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex
        .bytes()
        .filter(|c| !c.is_ascii_whitespace())
        .map(|c| (c as char).to_digit(16).unwrap() as u8)
        .collect();
    digits.chunks(2).map(|d| (d[0] << 4) | d[1]).collect()
}

/// Packets from the IP header to the ICRC.
const PACKETS: &[(&str, &str)] = &[
    (
        "CNP captured from a ConnectX-4 Lx",
        "45c2003c718c40004011 9161 0a001101 0a001201 000012b700280000
         8100ffff4000011800000000 00000000000000000000000000000000 82fd002a",
    ),
    (
        "UC SEND ONLY, captured",
        "450100400478400040 11 b4d5 c0a80007 c0a80007 c00012b7002caca2
         2460ffff000000d300cf1710 4630818be28935d90e9a95505401be885e500000 78f353f3",
    ),
    (
        "RC SEND ONLY, IPv4, made with scapy",
        "45020034123440004011389e c0a80701 0a141e28 c12312b700200000
         04b0ffff4000001280abcdef 48656c6c6f000000 1341a8a2",
    ),
    (
        "RC ACKNOWLEDGE, IPv4, made with scapy",
        "4500003000004000011169aa 01020304 05060708 ffff12b7001c0000
         11007fff00fffffe00000000 1f000042 4df237cd",
    ),
    (
        "RC WRITE ONLY, IPv6, made with scapy",
        "66a1234500381103 fe800000000000000000000000010002 20010db8000000000000000000000009
         d00012b700383a80 0a00ffff0000000100ffffff 00112233445566778899aabb00000010
         000102030405060708090a0b0c0d0e0f ce5ba3ee",
    ),
];

#[test]
fn sample_packet_of_the_specification() {
    // The sample of IBA volume 1, section 7.8, table 29: link header to pad, already masked.
    let sample = bytes(
        "f012375c000e17d20a202487ff87b1b3000dec2a01710a1c015d400238f27a05
         0000000ebb884d85fd5cfba4728bc0690ed40000",
    );
    assert_eq!(sample.len(), 52);
    let expected = 0x9625_b75a_u32.to_be_bytes();
    assert_eq!(finish(Table::update(!0, &sample)), expected);
    assert_eq!(register_crc(sample), expected);
}

#[test]
fn seed_stands_for_the_link_header() {
    assert_eq!(Table::update(!0, &[0xff; 8]), SEED);
}

#[test]
fn known_packets() {
    for (name, hex) in PACKETS {
        let packet = bytes(hex);
        let expected = &packet[packet.len() - 4..];
        assert_eq!(icrc::<Table>(&packet), expected, "{name}");
        assert_eq!(reference(&packet), expected, "{name}: reference");
    }
}

/// What routers change does not count; every other bit does.
#[test]
fn every_single_bit() {
    for (name, hex) in PACKETS {
        let packet = bytes(hex);
        let good = icrc::<Table>(&packet);
        let v4 = packet[0] >> 4 == 4;
        let ip = if v4 { 20 } else { 40 };
        for bit in 0..(packet.len() - 4) * 8 {
            let mut flipped = packet.clone();
            let byte = bit / 8;
            flipped[byte] ^= 1 << (bit % 8);
            // A change of the IP version, opcode, pad or header version is another packet.
            if (byte == 0 && bit % 8 >= 4) || byte == ip + 8 || byte == ip + 9 {
                continue;
            }
            let invariant = match byte {
                0 => v4,
                1 => false,
                2 | 3 | 7 if !v4 => false,
                8 | 10 | 11 if v4 => false,
                b if b == ip + 6 || b == ip + 7 || b == ip + 12 => false,
                _ => true,
            };
            assert_eq!(
                icrc::<Table>(&flipped) != good,
                invariant,
                "{name}: bit {bit}"
            );
        }
    }
}

#[test]
fn headers_of_other_lengths_are_refused() {
    let bth = [0; 12];
    for len in 0..100 {
        let ip = vec![0x45; len];
        let state = icrc_header_state::<Table>(&ip, &[0; 8], &bth);
        assert_eq!(state.is_some(), len == 20 || len == 40, "{len}");
        assert_eq!(
            icrc_header_state::<Table>(&[0; 20], &[0; 8], &bth[..len.min(11)]),
            None
        );
    }
}

/// A random packet with random IP and UDP headers.
fn whole(op: Opcode) -> impl Strategy<Value = Vec<u8>> {
    (
        packet_of(op),
        any::<bool>(),
        prop::collection::vec(any::<u8>(), 48),
        any::<[u8; 4]>(),
    )
        .prop_map(|(info, v4, mut head, filler)| {
            if v4 {
                head.truncate(28);
                head[0] = 0x45;
            } else {
                head[0] = 0x60 | (head[0] & 15);
            }
            let mut transport: Vec<u8> = filler
                .iter()
                .copied()
                .cycle()
                .take(info.packet_len().unwrap())
                .collect();
            info.emit(&mut transport).unwrap();
            head.extend(transport);
            head
        })
}

proptest! {
    #[test]
    fn agrees_with_the_reference(packet in opcode().prop_flat_map(whole)) {
        prop_assert_eq!(icrc::<Table>(&packet), reference(&packet));
    }
}
