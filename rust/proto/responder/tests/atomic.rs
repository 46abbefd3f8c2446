// SPDX-License-Identifier: GPL-2.0

//! Atomics, ATOMIC WRITE and FLUSH.

use super::*;

fn fetch_add(psn: u32, va: u64, add: u64) -> PacketInfo {
    let mut info = packet(Opcode::RcFetchAdd, psn);
    info.atomic.va = va;
    info.atomic.key = KEY;
    info.atomic.swap_add = add;
    info
}

fn compare_swap(psn: u32, va: u64, compare: u64, swap: u64) -> PacketInfo {
    let mut info = packet(Opcode::RcCompareSwap, psn);
    info.atomic.va = va;
    info.atomic.key = KEY;
    info.atomic.compare = compare;
    info.atomic.swap_add = swap;
    info
}

fn atomic_write(psn: u32, va: u64, len: u32) -> PacketInfo {
    let mut info = packet(Opcode::RcAtomicWrite, psn);
    info.reth.va = va;
    info.reth.key = KEY;
    info.reth.len = len;
    info.set_payload_len(len);
    info
}

fn flush(psn: u32, va: u64, len: u32, placement: u8, level: u8) -> PacketInfo {
    let mut info = packet(Opcode::RcFlush, psn);
    info.reth.va = va;
    info.reth.key = KEY;
    info.reth.len = len;
    info.feth.placement = placement;
    info.feth.level = level;
    info
}

fn word(rig: &Rig, va: u64) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(rig.memory(va, 8));
    u64::from_ne_bytes(bytes)
}

#[track_caller]
fn assert_atomic_ack(rig: &mut Rig, psn: u32, msn: u32, orig: u64) {
    let answer = rig.the_answer();
    assert_eq!(answer.opcode, Opcode::RcAtomicAck);
    assert_eq!((answer.psn, answer.orig), (Psn::new(psn), orig));
    assert_eq!(answer.aeth.syndrome, 0x1f);
    assert_eq!(answer.aeth.msn, Msn::new(msn));
}

#[track_caller]
fn assert_empty_response(rig: &mut Rig, psn: u32, msn: u32) {
    let answer = rig.the_answer();
    assert_eq!(answer.opcode, Opcode::RcReadResponseOnly);
    assert_eq!((answer.psn, answer.payload_len), (Psn::new(psn), 0));
    assert_eq!(answer.aeth.syndrome, 0x1f);
    assert_eq!(answer.aeth.msn, Msn::new(msn));
}

#[test]
fn atomics_return_the_value_they_found() {
    let mut rig = Rig::new(Service::Rc);
    assert_eq!(rig.give(fetch_add(100, VA + 8, 5)), EXECUTED);
    assert_atomic_ack(&mut rig, 100, 1, 0);
    assert_eq!(rig.give(fetch_add(101, VA + 8, u64::MAX)), EXECUTED);
    assert_atomic_ack(&mut rig, 101, 2, 5);
    assert_eq!(rig.give(compare_swap(102, VA + 8, 4, 77)), EXECUTED);
    assert_atomic_ack(&mut rig, 102, 3, 4);
    assert_eq!(rig.give(compare_swap(103, VA + 8, 4, 99)), EXECUTED);
    assert_atomic_ack(&mut rig, 103, 4, 77);
    assert_eq!(word(&rig, VA + 8), 77);
}

/// An atomic has an answer of its own, whether or not it asks for an acknowledgement.
#[test]
fn requests_with_answers_are_answered_without_ack_req() {
    let mut rig = Rig::new(Service::Rc);
    for (i, info) in [
        fetch_add(100, VA, 1),
        compare_swap(101, VA, 1, 2),
        atomic_write(102, VA, 8),
        flush(103, VA, 8, 1, 0),
        read_request(104, VA, KEY, 8),
    ]
    .into_iter()
    .enumerate()
    {
        let mut info = info;
        info.ack_req = false;
        assert_eq!(rig.give(info), EXECUTED);
        assert_eq!(rig.the_answer().aeth.msn, Msn::new(i as u32 + 1));
    }
}

/// A repeated atomic returns the saved value and is not performed again.
#[test]
fn repeated_atomic_returns_the_saved_value() {
    let mut rig = Rig::new(Service::Rc);
    rig.give(fetch_add(100, VA, 1));
    rig.give(fetch_add(101, VA, 1));
    rig.give(compare_swap(102, VA, 2, 50));
    rig.take_sent();
    assert_eq!(rig.give(fetch_add(101, VA, 1)), DUPLICATE);
    assert_atomic_ack(&mut rig, 101, 3, 1);
    assert_eq!(rig.give(fetch_add(100, VA, 1)), DUPLICATE);
    assert_atomic_ack(&mut rig, 100, 3, 0);
    assert_eq!(rig.give(compare_swap(102, VA, 2, 50)), DUPLICATE);
    assert_atomic_ack(&mut rig, 102, 3, 2);
    assert_eq!(word(&rig, VA), 50);
}

#[test]
fn repeated_request_of_another_kind_is_dropped() {
    let mut rig = Rig::new(Service::Rc);
    rig.give(fetch_add(100, VA, 1));
    rig.give(atomic_write(101, VA, 8));
    rig.give(read_request(102, VA, KEY, 8));
    rig.take_sent();
    for info in [
        compare_swap(100, VA, 0, 1),
        atomic_write(100, VA, 8),
        read_request(100, VA, KEY, 8),
        flush(101, VA, 8, 1, 0),
        fetch_add(102, VA, 1),
        flush(99, VA, 8, 1, 0),
    ] {
        assert_eq!(rig.give(info), DROPPED);
        assert_eq!(rig.sent.len(), 0);
    }
}

#[test]
fn forgotten_atomic_is_not_performed_again() {
    let mut rig = Rig::with(config(Service::Rc, Mtu::B1024), 1);
    rig.give(fetch_add(100, VA, 1));
    rig.give(fetch_add(101, VA, 1));
    rig.take_sent();
    assert_eq!(rig.give(fetch_add(100, VA, 1)), DROPPED);
    assert_eq!(rig.sent.len(), 0);
    assert_eq!(word(&rig, VA), 2);
}

/// The NAK of an atomic is a plain acknowledge packet. Misaligned is an invalid request.
#[test]
fn nak_of_an_atomic_is_a_plain_acknowledge() {
    let mut bad_key = fetch_add(100, VA, 1);
    bad_key.atomic.key = Key::new(0x9900);
    for (info, code, fault) in [
        (bad_key, NakCode::RemoteAccess, QpFault::RemoteAccess),
        (
            fetch_add(100, VA + 4, 1),
            NakCode::InvalidRequest,
            QpFault::InvalidRequest,
        ),
        (
            compare_swap(100, VA + 1, 0, 0),
            NakCode::InvalidRequest,
            QpFault::InvalidRequest,
        ),
        (
            fetch_add(100, VA + u64::from(SPACE), 1),
            NakCode::RemoteAccess,
            QpFault::RemoteAccess,
        ),
        (
            fetch_add(100, u64::MAX - 7, 1),
            NakCode::RemoteAccess,
            QpFault::RemoteAccess,
        ),
    ] {
        let mut rig = Rig::new(Service::Rc);
        assert_eq!(rig.give(info), End::Fatal(fault));
        rig.assert_nak(code, 100, 0);
    }
}

#[test]
fn atomic_needs_the_right_to_atomics() {
    let mut rig = Rig::new(Service::Rc);
    rig.regions[0].view.access = Access::REMOTE_WRITE.union(Access::REMOTE_READ);
    assert_eq!(
        rig.give(fetch_add(100, VA, 1)),
        End::Fatal(QpFault::RemoteAccess)
    );
    rig.assert_nak(NakCode::RemoteAccess, 100, 0);
}

#[test]
fn atomic_write_stores_eight_bytes() {
    let mut rig = Rig::new(Service::Rc);
    assert_eq!(
        rig.give_with(atomic_write(100, VA + 16, 8), &[1, 2, 3, 4, 5, 6, 7, 8]),
        EXECUTED
    );
    assert_eq!(rig.memory(VA + 16, 8), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_empty_response(&mut rig, 100, 1);
    // Repeated, it is answered but not stored again.
    assert_eq!(
        rig.give_with(atomic_write(100, VA + 16, 8), &[0; 8]),
        DUPLICATE
    );
    assert_empty_response(&mut rig, 100, 1);
    assert_eq!(rig.memory(VA + 16, 8), [1, 2, 3, 4, 5, 6, 7, 8]);
}

/// oA19-28: exactly eight bytes, in the header and on the wire, and no pad.
#[test]
fn atomic_write_of_any_other_length_is_invalid() {
    for len in 0..=16 {
        for payload in 0..=16 {
            for pad in 0..=3 {
                let mut info = atomic_write(100, VA, len);
                info.payload_len = payload;
                info.pad = pad;
                let mut rig = Rig::new(Service::Rc);
                let end = rig.give(info);
                if (len, payload, pad) == (8, 8, 0) {
                    assert_eq!(end, EXECUTED);
                } else {
                    assert_eq!(end, End::Fatal(QpFault::InvalidRequest));
                    rig.assert_nak(NakCode::InvalidRequest, 100, 0);
                    assert_eq!(word(&rig, VA), 0);
                }
            }
        }
    }
}

#[test]
fn misaligned_atomic_write_is_invalid() {
    for offset in 1..8 {
        let mut rig = Rig::new(Service::Rc);
        assert_eq!(
            rig.give(atomic_write(100, VA + offset, 8)),
            End::Fatal(QpFault::InvalidRequest)
        );
        rig.assert_nak(NakCode::InvalidRequest, 100, 0);
    }
}

#[test]
fn flush_is_answered_with_an_empty_read_response() {
    let mut rig = Rig::new(Service::Rc);
    for (i, (placement, level)) in [(1, 0), (2, 0), (3, 0), (1, 1), (2, 1), (3, 1)]
        .into_iter()
        .enumerate()
    {
        let psn = 100 + i as u32;
        assert_eq!(rig.give(flush(psn, VA, 64, placement, level)), EXECUTED);
        assert!(matches!(rig.log[0], Effect::Flush { .. }));
        assert_empty_response(&mut rig, psn, i as u32 + 1);
    }
    // oA19-14, oA19-15: repeated, it is answered and not performed again.
    assert_eq!(rig.give(flush(105, VA, 64, 3, 1)), DUPLICATE);
    assert!(matches!(rig.log[0], Effect::Send(_)));
    assert_empty_response(&mut rig, 105, 6);
}

/// An empty range is still named by a key.
#[test]
fn empty_flush_looks_at_the_key() {
    let mut rig = Rig::new(Service::Rc);
    assert_eq!(rig.give(flush(100, VA, 0, 1, 0)), EXECUTED);
    rig.take_sent();
    let mut info = flush(101, VA, 0, 1, 0);
    info.reth.key = Key::new(0x9900);
    assert_eq!(rig.give(info), End::Fatal(QpFault::RemoteAccess));
    rig.assert_nak(NakCode::RemoteAccess, 101, 1);
}

/// At the level of a region the range means nothing.
#[test]
fn flush_of_a_region_ignores_the_range() {
    let mut rig = Rig::new(Service::Rc);
    assert_eq!(rig.give(flush(100, u64::MAX, 1 << 31, 1, 1)), EXECUTED);
    let mut rig = Rig::new(Service::Rc);
    assert_eq!(
        rig.give(flush(100, u64::MAX, 1 << 31, 1, 0)),
        End::Fatal(QpFault::RemoteAccess)
    );
}

#[test]
fn flush_with_reserved_parameters_is_invalid() {
    for placement in 0..16 {
        for level in 0..4 {
            let mut rig = Rig::new(Service::Rc);
            let end = rig.give(flush(100, VA, 64, placement, level));
            if (1..=3).contains(&placement) && level < 2 {
                assert_eq!(end, EXECUTED);
            } else {
                assert_eq!(end, End::Fatal(QpFault::InvalidRequest));
                rig.assert_nak(NakCode::InvalidRequest, 100, 0);
            }
        }
    }
}

/// Queue pair and region must both grant each kind of flush that is asked for.
#[test]
fn flush_rights_of_queue_pair_and_region() {
    for placement in 1..=3u8 {
        for of_qp in 0..=3u8 {
            for of_region in 0..=3u8 {
                let rights = |bits: u8| {
                    let mut access = Access::REMOTE;
                    if bits & 1 != 0 {
                        access = access.union(Access::FLUSH_GLOBAL);
                    }
                    if bits & 2 != 0 {
                        access = access.union(Access::FLUSH_PERSISTENT);
                    }
                    access
                };
                let mut cfg = config(Service::Rc, Mtu::B1024);
                cfg.access = rights(of_qp);
                let mut rig = Rig::with(cfg, 1);
                rig.regions[0].view.access = rights(of_region);
                let end = rig.give(flush(100, VA, 64, placement, 0));
                let want = if placement & !of_qp != 0 {
                    End::Fatal(QpFault::InvalidRequest)
                } else if placement & !of_region != 0 {
                    End::Fatal(QpFault::RemoteAccess)
                } else {
                    EXECUTED
                };
                assert_eq!(end, want, "{placement} {of_qp} {of_region}");
            }
        }
    }
}
