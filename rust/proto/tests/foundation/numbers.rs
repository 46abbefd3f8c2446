// SPDX-License-Identifier: GPL-2.0

//! Sequence numbers, MTUs, keys, times, syndromes.

use proptest::prelude::*;
use rxe_proto::aeth::{AethKind, NakCode, UNLIMITED};
use rxe_proto::num::{Key, Mtu, Qpn};
use rxe_proto::psn::{Msn, Psn};
use rxe_proto::status::WcStatus;
use rxe_proto::time::{ack_timeout, rnr_delay, Duration, Instant};

const HALF: i64 = 1 << 23;
const FULL: i64 = 1 << 24;

/// Circular distance by the book, in wide arithmetic.
fn model_distance(a: u32, b: u32) -> i64 {
    let d = (i64::from(a) - i64::from(b)).rem_euclid(FULL);
    if d >= HALF {
        d - FULL
    } else {
        d
    }
}

/// Numbers near the places where something can go wrong.
fn sequence() -> impl Strategy<Value = u32> {
    prop_oneof![
        0u32..=0xff_ffff,
        Just(0),
        Just(1),
        0x7f_fff0u32..=0x80_0010,
        0xff_fff0u32..=0xff_ffff,
    ]
}

proptest! {
    #[test]
    fn distance_is_circular(a in sequence(), b in sequence()) {
        let d = Psn::new(a).distance(Psn::new(b));
        prop_assert_eq!(i64::from(d), model_distance(a, b));
        prop_assert_eq!(Psn::new(b).wrapping_add(d as u32), Psn::new(a));
        prop_assert_eq!(i64::from(Msn::new(a).distance(Msn::new(b))), model_distance(a, b));
    }

    #[test]
    fn add_then_distance(a in sequence(), n in 0u32..0x80_0000) {
        let later = Psn::new(a).wrapping_add(n);
        prop_assert_eq!(later.distance(Psn::new(a)), n as i32);
        prop_assert_eq!(later.wrapping_sub_n(n), Psn::new(a));
        prop_assert_eq!(later.is_after(Psn::new(a)), n != 0);
        prop_assert_eq!(Psn::new(a).is_before(later), n != 0);
        prop_assert!(!later.is_before(Psn::new(a)));
    }

    #[test]
    fn order_is_antisymmetric(a in sequence(), b in sequence()) {
        let (a, b) = (Psn::new(a), Psn::new(b));
        // Exactly half a circle away, either is before the other: there is no positive 2^23.
        if a.distance(b) == -(HALF as i32) {
            prop_assert_eq!(b.distance(a), -(HALF as i32));
        } else {
            prop_assert_eq!(a.distance(b), -b.distance(a));
            prop_assert_eq!(a.is_after(b), b.is_before(a));
        }
    }

    #[test]
    fn add_is_a_group_action(a in any::<u32>(), m in any::<u32>(), n in any::<u32>()) {
        let a = Psn::new(a);
        prop_assert_eq!(a.wrapping_add(m).wrapping_add(n), a.wrapping_add(m.wrapping_add(n)));
        prop_assert!(a.wrapping_add(n).get() <= Psn::MASK);
    }

    #[test]
    fn packets_of_a_message(length in any::<u32>(), code in 1u32..=5) {
        let mtu = Mtu::from_ib_enum(code).unwrap();
        let expected = length.div_ceil(mtu.bytes()).max(1);
        prop_assert_eq!(mtu.packets(length), expected);
    }

    #[test]
    fn keys_have_two_parts(key in any::<u32>()) {
        let k = Key::new(key);
        prop_assert_eq!(k.get(), key);
        prop_assert_eq!(k.index(), key / 256);
        prop_assert_eq!(u32::from(k.variant()), key % 256);
        prop_assert_eq!(Key::from_parts(k.index(), k.variant()), k);
    }

    #[test]
    fn time_saturates(a in any::<u64>(), b in any::<u64>()) {
        let later = Instant(a).after(Duration(b));
        prop_assert!(later >= Instant(a));
        prop_assert_eq!(u128::from(later.0), (u128::from(a) + u128::from(b)).min(u64::MAX.into()));
        prop_assert_eq!(Instant(a).since(later), Duration::ZERO);
        prop_assert_eq!(Duration(a).saturating_add(Duration(b)).as_nanos(), later.0);
    }
}

#[test]
fn sequence_numbers_have_24_bits() {
    assert_eq!(Psn::new(u32::MAX).get(), 0xff_ffff);
    assert_eq!(Psn::new(0xff_ffff).next(), Psn::new(0));
    assert_eq!(Psn::new(0).wrapping_sub_n(1), Psn::new(0xff_ffff));
    assert!(Psn::new(0).is_after(Psn::new(0xff_ffff)));
    assert_eq!(Psn::new(0).distance(Psn::new(0x80_0000)), -0x80_0000);
    assert_eq!(Psn::new(0x7f_ffff).distance(Psn::new(0)), 0x7f_ffff);
    assert_eq!(Qpn::new(u32::MAX), Qpn::MULTICAST);
}

#[test]
fn mtu_numbers() {
    let sizes = [256, 512, 1024, 2048, 4096];
    for (code, size) in (1u32..).zip(sizes) {
        let mtu = Mtu::from_ib_enum(code).unwrap();
        assert_eq!(
            (mtu.bytes(), 1 << mtu.shift(), mtu.ib_enum()),
            (size, size, code)
        );
        assert_eq!(Mtu::fitting(size), Some(mtu));
        assert_eq!(Mtu::fitting(size * 2 - 1), Some(mtu));
        assert_ne!(Mtu::fitting(size - 1), Some(mtu));
    }
    for code in [0, 6, 7, 8, u32::MAX] {
        assert_eq!(Mtu::from_ib_enum(code), None);
    }
    assert_eq!(Mtu::fitting(255), None);
    assert_eq!(Mtu::fitting(u32::MAX), Some(Mtu::B4096));
}

/// The delays of the specification, in milliseconds.
const RNR_MS: [f64; 32] = [
    655.36, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.24, 0.32, 0.48, 0.64, 0.96, 1.28,
    1.92, 2.56, 3.84, 5.12, 7.68, 10.24, 15.36, 20.48, 30.72, 40.96, 61.44, 81.92, 122.88, 163.84,
    245.76, 327.68, 491.52,
];

#[test]
fn rnr_delays() {
    for code in 0..=255u8 {
        let expected = RNR_MS[usize::from(code % 32)];
        let actual = rnr_delay(code).as_nanos() as f64 / 1e6;
        assert!(
            (actual - expected).abs() < 1e-6,
            "{code}: {actual} {expected}"
        );
    }
}

#[test]
fn ack_timeouts() {
    assert_eq!(ack_timeout(0), None);
    for code in 1..32u8 {
        let expected = 4096.0 * 2f64.powi(code.into());
        assert_eq!(ack_timeout(code).unwrap().as_nanos() as f64, expected);
        assert_eq!(ack_timeout(code + 32), ack_timeout(code));
    }
}

#[test]
fn syndromes() {
    for byte in 0..=255u8 {
        let expected = match (byte >> 5, byte & 31) {
            (0b000, credits) => AethKind::Ack { credits },
            (0b001, code) => AethKind::RnrNak(code),
            (0b011, 0) => AethKind::Nak(NakCode::PsnSequence),
            (0b011, 1) => AethKind::Nak(NakCode::InvalidRequest),
            (0b011, 2) => AethKind::Nak(NakCode::RemoteAccess),
            (0b011, 3) => AethKind::Nak(NakCode::RemoteOperation),
            (0b011, 4) => AethKind::Nak(NakCode::InvalidRd),
            _ => AethKind::Reserved,
        };
        let kind = AethKind::decode(byte);
        assert_eq!(kind, expected, "{byte:#x}");
        if kind == AethKind::Reserved {
            assert_eq!(AethKind::decode(kind.encode()), AethKind::Reserved);
        } else {
            assert_eq!(kind.encode(), byte);
        }
    }
    assert_eq!(AethKind::ACK.encode(), UNLIMITED);
    // What is out of range does not change the type.
    assert_eq!(AethKind::RnrNak(0xff).encode(), 0x3f);
    assert_eq!(AethKind::Ack { credits: 0xff }.encode(), 0x1f);
}

#[test]
fn naks_become_statuses() {
    assert_eq!(WcStatus::from_nak(NakCode::PsnSequence), None);
    let fatal = [
        (NakCode::InvalidRequest, 9),
        (NakCode::RemoteAccess, 10),
        (NakCode::RemoteOperation, 11),
        (NakCode::InvalidRd, 15),
    ];
    for (code, number) in fatal {
        assert_eq!(WcStatus::from_nak(code).unwrap().get(), number);
    }
}
