// SPDX-License-Identifier: GPL-2.0

//! States of queue pairs, and addresses of groups.

use rxe_proto::mcast::{gid_from_ipv4, ipv4_from_gid, is_multicast, mac_of_group, pkey_match};
use rxe_proto::opcode::Service;
use rxe_proto::qpstate::{Engine, QpState, QpType};

use QpState::*;

#[test]
fn engines_by_state() {
    // Requests, responses, send queue, receive queue, post send, post receive.
    let table = [
        (
            Reset,
            false,
            false,
            Engine::Stopped,
            Engine::Stopped,
            false,
            false,
        ),
        (
            Init,
            false,
            false,
            Engine::Stopped,
            Engine::Stopped,
            false,
            true,
        ),
        (Rtr, true, false, Engine::Stopped, Engine::Run, false, true),
        (Rts, true, true, Engine::Run, Engine::Run, true, true),
        (Sqd, true, true, Engine::Drain, Engine::Run, true, true),
        (Sqe, true, false, Engine::Flush, Engine::Run, true, true),
        (Err, false, false, Engine::Flush, Engine::Flush, true, true),
    ];
    for (number, (state, requests, responses, send, recv, post_send, post_recv)) in
        (0u32..).zip(table)
    {
        assert_eq!(state.ib_enum(), number);
        assert_eq!(QpState::from_ib_enum(number), Some(state));
        assert_eq!(state.admits_requests(), requests, "{state:?}");
        assert_eq!(state.admits_responses(), responses, "{state:?}");
        assert_eq!(state.send_engine(), send, "{state:?}");
        assert_eq!(state.recv_engine(), recv, "{state:?}");
        assert_eq!(state.may_post_send(), post_send, "{state:?}");
        assert_eq!(state.may_post_recv(), post_recv, "{state:?}");
    }
    assert_eq!(QpState::from_ib_enum(7), None);
    assert_eq!(QpState::default(), Reset);
}

#[test]
fn failing_sends() {
    assert_eq!(QpType::Rc.after_send_fault(), Err);
    for qp_type in [QpType::Uc, QpType::Ud, QpType::Gsi] {
        assert_eq!(qp_type.after_send_fault(), Sqe);
    }
    assert_eq!(QpType::Gsi.service(), Service::Ud);
    assert_eq!(QpType::Uc.service(), Service::Uc);
}

#[test]
fn group_addresses() {
    let v4 = gid_from_ipv4([239, 129, 2, 3]);
    assert_eq!(
        v4,
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 129, 2, 3]
    );
    assert_eq!(ipv4_from_gid(&v4), Some([239, 129, 2, 3]));
    assert!(is_multicast(&v4));
    assert_eq!(mac_of_group(&v4), [0x01, 0x00, 0x5e, 0x01, 2, 3]);
    for first in 0..=255 {
        assert_eq!(
            is_multicast(&gid_from_ipv4([first, 1, 1, 1])),
            (224..240).contains(&first)
        );
    }
    let v6 = [0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 1, 2, 3, 4];
    assert!(is_multicast(&v6));
    assert_eq!(ipv4_from_gid(&v6), None);
    assert_eq!(mac_of_group(&v6), [0x33, 0x33, 1, 2, 3, 4]);
    let unicast = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    assert!(!is_multicast(&unicast));
}

#[test]
fn partition_keys() {
    let rows = [
        (0xffff, 0xffff, true),
        (0xffff, 0x7fff, true),
        (0x7fff, 0x7fff, false),
        (0x8001, 0x0001, true),
        (0x8001, 0x8002, false),
        (0x8000, 0x8000, false),
        (0x0000, 0x8000, false),
    ];
    for (a, b, matches) in rows {
        assert_eq!(pkey_match(a, b), matches, "{a:#x} {b:#x}");
        assert_eq!(pkey_match(b, a), matches, "{b:#x} {a:#x}");
    }
}
