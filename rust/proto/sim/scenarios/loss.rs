// SPDX-License-Identifier: GPL-2.0

//! Packets lost, and how little it takes to recover them.

use super::*;

#[test]
fn a_dead_peer_is_given_up_after_the_last_retry() {
    for (retry_cnt, sent) in [(0, 1), (1, 2), (6, 7), (7, 8)] {
        let mut pair = pair(Setup {
            retry_cnt,
            ..Setup::RC
        });
        lose_everything(&mut pair);
        pair.post(Side::A, write(0, 100));
        pair.post(Side::A, write(0, 100));
        pair.run();
        assert_eq!(
            statuses(&mut pair, Side::A),
            [WcStatus::RetryExcErr, FLUSHED]
        );
        assert_eq!(pair.end(Side::A).fault, Some(QpFault::RetryExceeded));
        assert_eq!(transmissions(&pair, Side::A, 100), sent);
        let timeout = Setup::RC.ack_timeout.unwrap();
        assert_eq!(pair.now.0 - 1, sent as u64 * timeout.0);
    }
}

#[test]
fn each_lost_packet_of_a_message_is_recovered_by_one_retry() {
    const N: u32 = 10;
    for missing in 0..N {
        let mut pair = pair(Setup::RC);
        lose_once(&mut pair, move |sent| {
            sent.from == Side::A && sent.info.psn == Psn::new(100 + missing)
        });
        pair.post(Side::A, write(0, N * MTU));
        pair.run();
        assert_eq!(statuses(&mut pair, Side::A), [OK]);
        assert_eq!(pair.retries, [1, 0]);
        // Go-back-N: what came before it is not sent again. After the loss of the last packet
        // nothing tells that the others arrived.
        for i in 0..N {
            let expected = if i < missing && missing != N - 1 {
                1
            } else {
                2
            };
            assert_eq!(transmissions(&pair, Side::A, 100 + i), expected);
        }
        let length = (N * MTU) as usize;
        assert!(pair.end(Side::B).memory.bytes(TARGET)[..length] == pattern()[..length]);
    }
}

#[test]
fn a_lost_read_response_is_asked_for_with_the_tail_only() {
    const N: u32 = 16;
    for missing in 0..N {
        let mut pair = pair(Setup::RC);
        lose_once(&mut pair, move |sent| {
            sent.from == Side::B && sent.info.psn == Psn::new(100 + missing)
        });
        pair.post(Side::A, read(0, N * MTU));
        pair.run();
        assert_eq!(statuses(&mut pair, Side::A), [OK]);
        assert_eq!(pair.retries, [1, 0]);
        let again = requests(&pair, Side::A).nth(1).unwrap().info;
        assert_eq!(again.psn, Psn::new(100 + missing));
        assert_eq!(again.reth.va, base(SOURCE) + u64::from(missing * MTU));
        assert_eq!(again.reth.len, (N - missing) * MTU);
        assert_eq!(requests(&pair, Side::A).count(), 2);
        let length = (N * MTU) as usize;
        assert!(pair.end(Side::A).memory.bytes(TARGET)[..length] == pattern()[..length]);
    }
}

#[test]
fn pipelined_reads_and_a_write_survive_the_loss_of_any_packet() {
    // 4 + 4 READ responses, one acknowledgement, three requests of the first transmission.
    for missing in 0..12 {
        let mut pair = pair(Setup::RC);
        let mut seen = 0;
        pair.net.script = Some(Box::new(move |_| {
            seen += 1;
            seen != missing + 1
        }));
        pair.post(Side::A, read(0, 4 * MTU));
        pair.post(Side::A, read(4 * u64::from(MTU), 4 * MTU));
        pair.post(Side::A, write(1 << 15, 10));
        pair.run();
        assert_eq!(statuses(&mut pair, Side::A), [OK; 3]);
        assert_eq!(pair.retries, [1, 0], "packet {missing} lost");
        let length = 8 * MTU as usize;
        assert!(pair.end(Side::A).memory.bytes(TARGET)[..length] == pattern()[..length]);
    }
}

#[test]
fn a_lost_acknowledgement_does_not_repeat_the_work() {
    let mut pair = pair(Setup::RC);
    lose_once(&mut pair, |sent| sent.from == Side::B);
    pair.post(Side::A, send(100));
    pair.recv(Side::B, recv(0, 100));
    pair.recv(Side::B, recv(1, 100));
    pair.run();
    assert_eq!(statuses(&mut pair, Side::A), [OK]);
    assert_eq!(transmissions(&pair, Side::A, 100), 2);
    assert_eq!(pair.end(Side::B).received.len(), 1);
}

#[test]
fn an_atomic_whose_answer_is_lost_is_executed_once() {
    let mut pair = pair(Setup::RC);
    lose_once(&mut pair, |sent| sent.info.opcode == Opcode::RcAtomicAck);
    for i in 0..10 {
        pair.post(Side::A, fetch_add(1000 + i * 8));
    }
    pair.run();
    assert_eq!(statuses(&mut pair, Side::A), [OK; 10]);
    let counter = &pair.end(Side::B).memory.bytes(TARGET)[8..16];
    assert_eq!(counter, 10u64.to_ne_bytes());
    let brought = &pair.end(Side::A).memory.bytes(TARGET)[1000..1080];
    let expected: Vec<u8> = (0..10u64).flat_map(|i| i.to_ne_bytes()).collect();
    assert_eq!(brought, expected);
}

#[test]
fn a_lost_sequence_nak_costs_a_timeout() {
    let mut pair = pair(Setup::RC);
    let mut lost = (false, false);
    pair.net.script = Some(Box::new(move |sent| {
        let nak = sent.from == Side::B && sent.info.aeth.syndrome == 0x60;
        let first = sent.from == Side::A && sent.info.psn == Psn::new(101);
        if nak && !lost.0 {
            lost.0 = true;
            return false;
        }
        if first && !lost.1 {
            lost.1 = true;
            return false;
        }
        true
    }));
    pair.post(Side::A, write(0, 4 * MTU));
    pair.run();
    assert_eq!(statuses(&mut pair, Side::A), [OK]);
    assert_eq!(pair.retries, [1, 0]);
    // Nothing was acknowledged, so all of it is sent again.
    assert_eq!(transmissions(&pair, Side::A, 100), 2);
}

#[test]
fn psns_wrap_under_loss() {
    let setup = Setup {
        psn: [Psn::new(0xff_fff0); 2],
        ..Setup::RC
    };
    let mut pair = pair(setup);
    pair.net.weather = Weather {
        drop: 10,
        duplicate: 20,
        reorder: 100,
        damage: 0,
        delay: 10_000,
    };
    const N: u64 = 200;
    for side in Side::BOTH {
        for i in 0..N {
            pair.post(side, fetch_add(1 << 15));
            let imm = Imm((i as u32).to_be_bytes());
            pair.post(side, post(SendOp::SendImm(imm), 0, SOURCE, 0));
            pair.recv(side.other(), recv(i, 0));
        }
    }
    pair.run();
    for side in Side::BOTH {
        assert_eq!(statuses(&mut pair, side), vec![OK; 2 * N as usize]);
        let end = pair.end(side);
        assert_eq!(end.memory.bytes(TARGET)[8..16], N.to_ne_bytes());
        let imms: Vec<_> = end.received.iter().map(|c| c.imm.unwrap().0).collect();
        let expected: Vec<_> = (0..N as u32).map(u32::to_be_bytes).collect();
        assert_eq!(imms, expected);
    }
    assert!(pair.retries[0] + pair.retries[1] > 0);
}

#[test]
fn a_message_of_many_windows_arrives() {
    let mut pair = pair(Setup {
        run: 16,
        ..Setup::RC
    });
    pair.net.weather.drop = 10;
    for _ in 0..8 {
        pair.post(Side::A, write(0, LEN as u32));
        pair.post(Side::A, read(0, LEN as u32));
    }
    pair.run();
    assert_eq!(statuses(&mut pair, Side::A), [OK; 16]);
    assert!(pair.end(Side::A).memory.bytes(TARGET) == pattern());
    assert!(pair.end(Side::B).memory.bytes(TARGET) == pattern());
}

#[test]
fn without_a_timeout_a_lost_last_packet_waits_for_the_next_request() {
    let mut pair = pair(Setup {
        ack_timeout: None,
        ..Setup::RC
    });
    lose_once(&mut pair, |sent| {
        sent.from == Side::A && sent.info.psn == Psn::new(100)
    });
    pair.post(Side::A, write(0, 10));
    pair.run();
    assert!(statuses(&mut pair, Side::A).is_empty());
    // The next request shows the gap.
    pair.post(Side::A, write(0, 10));
    pair.run();
    assert_eq!(statuses(&mut pair, Side::A), [OK; 2]);
}

#[test]
fn the_first_retry_is_after_the_timeout() {
    let mut pair = pair(Setup {
        ack_timeout: Some(Duration::from_millis(5)),
        ..Setup::RC
    });
    lose_once(&mut pair, |sent| sent.from == Side::A);
    pair.post(Side::A, write(0, 10));
    pair.run();
    let times: Vec<_> = requests(&pair, Side::A).map(|sent| sent.at.0).collect();
    assert_eq!(times, [1, 1 + 5 * MS]);
}
