// SPDX-License-Identifier: GPL-2.0

//! Key checks, against a truth table and a model in wide arithmetic.

use proptest::prelude::*;
use rxe_proto::memkey::{check, check_window, Access, AccessReq, MrState, RegView, WindowView};
use rxe_proto::num::{Key, PdId, Qpn};
use rxe_proto::status::AccessFault;

const REGION: RegView = RegView {
    key: Key::new(0x1234_5678),
    state: MrState::Valid,
    pd: PdId(3),
    access: Access::REMOTE
        .union(Access::LOCAL_WRITE)
        .union(Access::MW_BIND),
    iova: 0x1000,
    len: 0x100,
};

const REQUEST: AccessReq = AccessReq {
    key: REGION.key,
    pd: REGION.pd,
    va: 0x1080,
    len: 0x40,
    access: Access::REMOTE_READ,
};

/// Values around the ends of small and very large ranges.
const EDGES: [u64; 15] = [
    0,
    1,
    2,
    7,
    8,
    0xfff,
    0x1000,
    0x1001,
    1 << 31,
    (1 << 32) - 1,
    1 << 63,
    u64::MAX - 0x1000,
    u64::MAX - 8,
    u64::MAX - 1,
    u64::MAX,
];

/// Where the range is in the region, if it is: arithmetic that cannot overflow.
fn model(iova: u64, total: u64, va: u64, len: u64) -> Option<u64> {
    let (iova, total, va, len) = (
        u128::from(iova),
        u128::from(total),
        u128::from(va),
        u128::from(len),
    );
    (va >= iova && va + len <= iova + total).then(|| (va - iova) as u64)
}

#[test]
fn bounds_at_every_edge() {
    for iova in EDGES {
        for total in EDGES {
            let region = RegView {
                iova,
                len: total,
                ..REGION
            };
            for va in EDGES {
                for len in EDGES {
                    let req = AccessReq { va, len, ..REQUEST };
                    assert_eq!(
                        check(&region, &req),
                        model(iova, total, va, len).ok_or(AccessFault::Bounds),
                        "region {iova:#x}+{total:#x}, access {va:#x}+{len:#x}"
                    );
                }
            }
        }
    }
}

/// All combinations of what can be wrong: the first in the order of the checks is reported.
#[test]
fn truth_table() {
    for wrong in 0..32 {
        let is = |bit: u32| (wrong >> bit) & 1 != 0;
        for state in [MrState::Invalid, MrState::Free] {
            let mut region = REGION;
            let mut req = REQUEST;
            if is(0) {
                req.key = Key::new(REQUEST.key.get() ^ 1);
            }
            if is(1) {
                region.state = state;
            }
            if is(2) {
                req.pd = PdId(4);
            }
            if is(3) {
                region.access = Access::LOCAL_WRITE;
            }
            if is(4) {
                req.len = 0x81;
            }
            let faults = [
                AccessFault::Key,
                AccessFault::State,
                AccessFault::Pd,
                AccessFault::Rights,
                AccessFault::Bounds,
            ];
            let expected = (0..5)
                .find(|bit| is(*bit))
                .map_or(Ok(0x80), |bit| Err(faults[bit as usize]));
            assert_eq!(check(&region, &req), expected, "{wrong:#07b} {state:?}");
        }
    }
}

#[test]
fn all_rights_must_be_granted() {
    for granted in 0..1 << 10 {
        let region = RegView {
            access: Access::from_bits(granted),
            ..REGION
        };
        for needed in 0..1 << 5 {
            let req = AccessReq {
                access: Access::from_bits(needed),
                ..REQUEST
            };
            assert_eq!(check(&region, &req).is_ok(), granted & needed == needed);
        }
    }
    assert_eq!(Access::REMOTE.bits(), 0b1110);
}

const WINDOW: WindowView = WindowView {
    key: Key::new(0x0800_0142),
    state: MrState::Valid,
    pd: REGION.pd,
    qpn: Some(Qpn::new(17)),
    access: Access::REMOTE_READ.union(Access::REMOTE_WRITE),
    addr: 0x1020,
    len: 0x40,
};

fn through_window(va: u64, len: u64) -> AccessReq {
    AccessReq {
        key: WINDOW.key,
        va,
        len,
        ..REQUEST
    }
}

/// A window gives access to its own bytes only, not to the rest of its region.
#[test]
fn window_bounds() {
    let qpn = Qpn::new(17);
    let ok = |va, len| check_window(&WINDOW, &REGION, qpn, &through_window(va, len));
    assert_eq!(ok(0x1020, 0x40), Ok(0x20));
    assert_eq!(ok(0x105f, 1), Ok(0x5f));
    assert_eq!(ok(0x1060, 0), Ok(0x60));
    for (va, len) in [
        (0x101f, 1),
        (0x1060, 1),
        (0x1020, 0x41),
        (0x1000, 0x100),
        (0, 1),
    ] {
        assert_eq!(ok(va, len), Err(AccessFault::Bounds), "{va:#x}+{len:#x}");
    }

    let zero_based = WindowView {
        access: WINDOW.access.union(Access::ZERO_BASED),
        ..WINDOW
    };
    let ok = |va, len| check_window(&zero_based, &REGION, qpn, &through_window(va, len));
    assert_eq!(ok(0, 0x40), Ok(0x20));
    assert_eq!(ok(0x3f, 1), Ok(0x5f));
    for (va, len) in [(0x40, 1), (0, 0x41), (0x1020, 1), (u64::MAX, 2)] {
        assert_eq!(ok(va, len), Err(AccessFault::Bounds), "{va:#x}+{len:#x}");
    }
}

#[test]
fn window_conditions() {
    let qpn = Qpn::new(17);
    let req = through_window(0x1020, 8);
    let check = |w: &WindowView, r: &RegView, q| check_window(w, r, q, &req);
    assert_eq!(check(&WINDOW, &REGION, qpn), Ok(0x20));
    assert_eq!(check(&WINDOW, &REGION, Qpn::new(18)), Err(AccessFault::Pd));
    let type_1 = WindowView {
        qpn: None,
        ..WINDOW
    };
    assert_eq!(check(&type_1, &REGION, Qpn::new(18)), Ok(0x20));
    let other_pd = PdId(9);
    assert_eq!(
        check(
            &WindowView {
                pd: other_pd,
                ..WINDOW
            },
            &REGION,
            qpn
        ),
        Err(AccessFault::Pd)
    );
    assert_eq!(
        check(
            &WINDOW,
            &RegView {
                pd: other_pd,
                ..REGION
            },
            qpn
        ),
        Err(AccessFault::Pd)
    );
    for state in [MrState::Free, MrState::Invalid] {
        assert_eq!(
            check(&WindowView { state, ..WINDOW }, &REGION, qpn),
            Err(AccessFault::State)
        );
        assert_eq!(
            check(&WINDOW, &RegView { state, ..REGION }, qpn),
            Err(AccessFault::State)
        );
    }
    let key = Key::new(WINDOW.key.get() ^ 0x80);
    assert_eq!(
        check(&WindowView { key, ..WINDOW }, &REGION, qpn),
        Err(AccessFault::Key)
    );
    let read_only = WindowView {
        access: Access::REMOTE_WRITE,
        ..WINDOW
    };
    assert_eq!(check(&read_only, &REGION, qpn), Err(AccessFault::Rights));
}

/// Any value, with a liking for small ones and for the ends.
fn value() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0u64..0x3000,
        (0u64..0x3000).prop_map(|v| u64::MAX - v),
    ]
}

proptest! {
    #[test]
    fn bounds_agree_with_the_model(
        iova in value(), total in value(), va in value(), len in value(),
    ) {
        let region = RegView { iova, len: total, ..REGION };
        let req = AccessReq { va, len, ..REQUEST };
        prop_assert_eq!(check(&region, &req).ok(), model(iova, total, va, len));
    }

    /// What a window grants is within the window and within the region.
    #[test]
    fn windows_never_reach_beyond(
        iova in value(), total in value(), addr in value(), size in value(),
        va in value(), len in value(), zero_based in any::<bool>(),
    ) {
        let region = RegView { iova, len: total, ..REGION };
        let mut access = WINDOW.access;
        if zero_based {
            access = access.union(Access::ZERO_BASED);
        }
        let window = WindowView { addr, len: size, access, ..WINDOW };
        let granted = check_window(&window, &region, Qpn::new(17), &through_window(va, len));
        let base = if zero_based { 0 } else { addr };
        let expected = model(base, size, va, len)
            .and_then(|offset| addr.checked_add(offset))
            .and_then(|va| model(iova, total, va, len));
        prop_assert_eq!(granted.ok(), expected);
    }
}
