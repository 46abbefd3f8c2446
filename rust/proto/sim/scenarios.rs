// SPDX-License-Identifier: GPL-2.0

//! Scenarios for both engines.

mod loss;
mod unreliable;

use super::{
    super::{
        aeth::AethKind,
        memkey::Access,
        num::Key,
        opcode::{
            Opcode,
            Service, //
        },
        psn::Psn,
        status::{
            QpFault,
            WcOpcode,
            WcStatus, //
        },
        time::{
            rnr_delay,
            Duration,
            Instant, //
        },
        wire::Imm,
        wr::{
            SendFlags,
            SendOp, //
        },
    },
    endpoint::{
        Post,
        Recv,
        Setup, //
    },
    memory::base,
    network::{
        Sent,
        Side,
        Weather, //
    },
    pair::Pair, //
};
use std::{
    boxed::Box,
    vec,
    vec::Vec, //
};

/// Regions of both endpoints: data to send, and memory for everything else.
const SOURCE: u32 = 1;
const TARGET: u32 = 2;
const LEN: usize = 1 << 16;
const MTU: u32 = 1024;
const MS: u64 = 1_000_000;

const OK: WcStatus = WcStatus::Success;
const FLUSHED: WcStatus = WcStatus::WrFlushErr;

fn pattern() -> Vec<u8> {
    (0..LEN).map(|i| (i * 7 + i / 251) as u8).collect()
}

fn all_rights() -> Access {
    Access::REMOTE
        .union(Access::FLUSH)
        .union(Access::LOCAL_WRITE)
}

fn pair(setup: Setup) -> Pair {
    let mut pair = Pair::new(setup, Weather::FINE, 1);
    for end in &mut pair.ends {
        end.memory.add(SOURCE, pattern(), Access::REMOTE_READ);
        end.memory.add(TARGET, vec![0; LEN], all_rights());
    }
    pair
}

fn key(index: u32) -> Key {
    Key::from_parts(index, 1)
}

/// A request whose local buffer begins at `offset` of a region.
fn post(op: SendOp, length: u32, index: u32, offset: u64) -> Post {
    Post {
        op,
        flags: SendFlags::default(),
        length,
        key: key(index),
        addr: base(index) + offset,
    }
}

fn send(length: u32) -> Post {
    post(SendOp::Send, length, SOURCE, 0)
}

fn write(va_offset: u64, length: u32) -> Post {
    let op = SendOp::Write {
        va: base(TARGET) + va_offset,
        key: key(TARGET),
    };
    post(op, length, SOURCE, va_offset)
}

/// A READ of the peer's source into the target here, at the same offset.
fn read(offset: u64, length: u32) -> Post {
    let op = SendOp::Read {
        va: base(SOURCE) + offset,
        key: key(SOURCE),
    };
    post(op, length, TARGET, offset)
}

fn fetch_add(offset: u64) -> Post {
    let op = SendOp::FetchAdd {
        va: base(TARGET) + 8,
        key: key(TARGET),
        add: 1,
    };
    post(op, 8, TARGET, offset)
}

fn recv(wr_id: u64, length: u32) -> Recv {
    Recv {
        wr_id,
        key: key(TARGET),
        addr: base(TARGET) + wr_id * 4096,
        length,
    }
}

fn statuses(pair: &mut Pair, side: Side) -> Vec<WcStatus> {
    pair.end(side).sent.iter().map(|c| c.status).collect()
}

/// The requests of one side that were sent, lost or not.
fn requests(pair: &Pair, side: Side) -> impl Iterator<Item = &Sent> {
    let log = pair.net.log.iter();
    log.filter(move |sent| sent.from == side && sent.info.opcode.is_request())
}

/// How often each PSN was sent by one side.
fn transmissions(pair: &Pair, side: Side, psn: u32) -> usize {
    requests(pair, side)
        .filter(|sent| sent.info.psn == Psn::new(psn))
        .count()
}

/// Loses the packets that `which` chooses, each for the first time only.
fn lose_once(pair: &mut Pair, which: impl Fn(&Sent) -> bool + 'static) {
    let mut lost = Vec::new();
    pair.net.script = Some(Box::new(move |sent| {
        let id = (sent.from, sent.info.psn);
        if which(sent) && !lost.contains(&id) {
            lost.push(id);
            return false;
        }
        true
    }));
}

fn lose_everything(pair: &mut Pair) {
    pair.net.script = Some(Box::new(|_| false));
}

#[test]
fn a_receive_posted_within_the_rnr_wait_is_used() {
    // Acknowledgement timeout 1 ms, wait after an RNR NAK 82 ms.
    let mut pair = pair(Setup {
        rnr_retry: 1,
        retry_cnt: 0,
        min_rnr_timer: 26,
        ..Setup::RC
    });
    pair.post(Side::A, send(100));
    pair.recv_at(Instant(60 * MS), Side::B, recv(0, 100));
    pair.run();
    assert_eq!(statuses(&mut pair, Side::A), [OK]);
    assert_eq!(pair.end(Side::B).received.len(), 1);
    let times: Vec<_> = requests(&pair, Side::A).map(|sent| sent.at).collect();
    assert_eq!(times.len(), 2);
    assert!(times[1].since(times[0]) >= rnr_delay(26));
}

#[test]
fn rnr_retries_end_exactly() {
    for rnr_retry in 0..=6 {
        let mut pair = pair(Setup {
            rnr_retry,
            ..Setup::RC
        });
        pair.post(Side::A, send(3 * MTU));
        pair.post(Side::A, write(0, 1));
        pair.run();
        assert_eq!(
            statuses(&mut pair, Side::A),
            [WcStatus::RnrRetryExcErr, FLUSHED]
        );
        let expected = usize::from(rnr_retry) + 1;
        assert_eq!(transmissions(&pair, Side::A, 100), expected);
        assert_eq!(pair.rnr_naks[0], u32::from(rnr_retry) + 1);
        assert_eq!(pair.retries, [0, 0]);
    }
}

#[test]
fn a_fenced_send_carries_what_the_read_brought() {
    for fence in [false, true] {
        let mut pair = pair(Setup::RC);
        pair.post(Side::A, read(0, 16 * MTU));
        let mut echo = post(SendOp::Send, 1000, TARGET, 15 * u64::from(MTU));
        echo.flags.fence = fence;
        pair.post(Side::A, echo);
        pair.recv(Side::B, recv(0, 1000));
        pair.run();
        assert_eq!(statuses(&mut pair, Side::A), [OK; 2]);
        let start = 15 * MTU as usize;
        let right = pair.end(Side::B).memory.bytes(TARGET)[..1000] == pattern()[start..][..1000];
        assert_eq!(right, fence);
    }
}

#[test]
fn sixty_four_reads_with_one_outstanding_at_a_time() {
    let mut pair = pair(Setup {
        max_rd_atomic: 1,
        ..Setup::RC
    });
    for i in 0..64 {
        pair.post(Side::A, read(i * 1000, 1000));
    }
    pair.run();
    assert_eq!(statuses(&mut pair, Side::A), [OK; 64]);
    assert!(pair.end(Side::A).memory.bytes(TARGET)[..64_000] == pattern()[..64_000]);
}

#[test]
fn empty_operations_look_at_no_key() {
    let garbage = Key::new(0xdead_be00);
    let va = u64::MAX;
    let imm = Imm([1, 2, 3, 4]);
    let ops = [
        SendOp::Send,
        SendOp::SendImm(imm),
        SendOp::Write { va, key: garbage },
        SendOp::WriteImm {
            va,
            key: garbage,
            imm,
        },
        SendOp::Read { va, key: garbage },
    ];
    for local in [SOURCE, 999] {
        let mut pair = pair(Setup::RC);
        for op in ops {
            pair.post(Side::A, post(op, 0, local, 0));
        }
        for i in 0..3 {
            pair.recv(Side::B, recv(i, 0));
        }
        pair.run();
        assert_eq!(statuses(&mut pair, Side::A), [OK; 5]);
        let received = &pair.end(Side::B).received;
        assert_eq!(received.len(), 3);
        assert!(received.iter().all(|c| c.byte_len == 0 && c.status == OK));
        assert_eq!(received[2].opcode, WcOpcode::RecvRdmaWithImm);
    }
}

#[test]
fn a_refused_request_ends_both_sides() {
    let wrong = Key::new(0x9999_9901);
    let va = base(TARGET);
    for op in [
        SendOp::Write { va, key: wrong },
        SendOp::Read { va, key: wrong },
        SendOp::FetchAdd {
            va,
            key: wrong,
            add: 1,
        },
    ] {
        let mut pair = pair(Setup::RC);
        pair.post(Side::A, write(0, 10));
        pair.post(Side::A, post(op, 8, TARGET, 0));
        pair.post(Side::A, write(0, 10));
        pair.run();
        assert_eq!(
            statuses(&mut pair, Side::A),
            [OK, WcStatus::RemAccessErr, FLUSHED]
        );
        assert_eq!(pair.end(Side::A).fault, Some(QpFault::Remote));
        assert_eq!(pair.end(Side::B).fault, Some(QpFault::RemoteAccess));
        let nak = pair.net.log.iter().find(|sent| {
            let syndrome = AethKind::decode(sent.info.aeth.syndrome);
            sent.from == Side::B && matches!(syndrome, AethKind::Nak(_))
        });
        assert_eq!(nak.unwrap().info.opcode, Opcode::RcAck);
    }
}

#[test]
fn a_misaligned_atomic_is_an_invalid_request() {
    let mut pair = pair(Setup::RC);
    let op = SendOp::CompareSwap {
        va: base(TARGET) + 4,
        key: key(TARGET),
        compare: 0,
        swap: 1,
    };
    pair.post(Side::A, post(op, 8, TARGET, 0));
    pair.run();
    assert_eq!(statuses(&mut pair, Side::A), [WcStatus::RemInvReqErr]);
}

#[test]
fn bad_local_buffers_are_local_protection_errors() {
    let no_write = post(read(0, 100).op, 100, SOURCE, 0);
    let beyond = post(SendOp::Send, 100, SOURCE, LEN as u64 - 50);
    let no_key = post(write(0, 10).op, 10, 77, 0);
    let atomic = post(fetch_add(0).op, 8, SOURCE, 0);
    for bad in [no_write, beyond, no_key, atomic] {
        let mut pair = pair(Setup::RC);
        pair.post(Side::A, write(0, 10));
        pair.post(Side::A, bad);
        pair.post(Side::A, write(0, 10));
        pair.run();
        assert_eq!(
            statuses(&mut pair, Side::A),
            [OK, WcStatus::LocProtErr, FLUSHED]
        );
    }
}

#[test]
fn a_message_longer_than_its_receive_ends_both_sides() {
    let mut pair = pair(Setup::RC);
    pair.post(Side::A, send(2000));
    pair.recv(Side::B, recv(0, 1999));
    pair.run();
    assert_eq!(statuses(&mut pair, Side::A), [WcStatus::RemInvReqErr]);
    let received = &pair.end(Side::B).received;
    assert_eq!(received[0].status, WcStatus::LocLenErr);
}
