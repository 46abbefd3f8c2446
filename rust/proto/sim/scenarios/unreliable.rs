// SPDX-License-Identifier: GPL-2.0

//! Datagrams and unreliable connections.

use super::*;

/// Sends numbered messages over a bad network and returns the numbers that arrived.
fn unreliable(service: Service, length: u32, seed: u64) -> (Vec<u32>, usize) {
    const N: u32 = 100;
    let mut pair = Pair::new(
        Setup {
            service,
            run: 4,
            ..Setup::RC
        },
        Weather {
            drop: 30,
            duplicate: 0,
            reorder: 0,
            damage: 30,
            delay: 10_000,
        },
        seed,
    );
    for end in &mut pair.ends {
        end.memory.add(SOURCE, pattern(), Access::NONE);
        let inbox = vec![0; 4096 * N as usize];
        end.memory.add(TARGET, inbox, Access::LOCAL_WRITE);
    }
    for i in 0..N {
        let imm = Imm(i.to_be_bytes());
        let offset = u64::from(i) * 10;
        pair.post(Side::A, post(SendOp::SendImm(imm), length, SOURCE, offset));
        pair.recv(Side::B, recv(i.into(), 4096));
    }
    pair.run();
    assert_eq!(statuses(&mut pair, Side::A), vec![OK; N as usize]);
    assert_eq!(pair.retries, [0, 0]);

    let header = if service == Service::Ud { 40 } else { 0 };
    let end = pair.end(Side::B);
    let inbox = end.memory.bytes(TARGET);
    let mut arrived = Vec::new();
    for completion in &end.received {
        let number = u32::from_be_bytes(completion.imm.unwrap().0);
        let at = completion.wr_id as usize * 4096 + header;
        let from = number as usize * 10;
        assert!(inbox[at..at + length as usize] == pattern()[from..from + length as usize]);
        arrived.push(number);
    }
    (arrived, end.recvs.len())
}

/// C10-93.1.1.
#[test]
fn an_oversize_datagram_disappears_without_a_trace() {
    let mut pair = pair(Setup {
        service: Service::Ud,
        ..Setup::RC
    });
    for length in [10, MTU + 1, 20] {
        pair.post(Side::A, send(length));
    }
    for i in 0..3 {
        pair.recv(Side::B, recv(i, 4096));
    }
    pair.run();
    assert_eq!(statuses(&mut pair, Side::A), [OK; 3]);
    let received = &pair.end(Side::B).received;
    let lengths: Vec<_> = received.iter().map(|c| c.byte_len).collect();
    assert_eq!(lengths, [50, 60]);
}

#[test]
fn a_datagram_longer_than_the_receive_is_dropped_alone() {
    let mut pair = pair(Setup {
        service: Service::Ud,
        ..Setup::RC
    });
    pair.post(Side::A, send(512));
    pair.post(Side::A, send(16));
    pair.recv(Side::B, recv(0, 104));
    pair.run();
    assert_eq!(statuses(&mut pair, Side::A), [OK; 2]);
    let received = &pair.end(Side::B).received;
    assert_eq!(received.len(), 1);
    assert_eq!((received[0].wr_id, received[0].byte_len), (0, 56));
    assert_eq!(pair.end(Side::B).fault, None);
}

#[test]
fn unreliable_messages_arrive_whole_and_in_order_or_not_at_all() {
    for seed in 0..20 {
        for (service, length) in [(Service::Uc, 3 * MTU), (Service::Ud, MTU)] {
            let (arrived, left) = unreliable(service, length, seed);
            assert!(arrived.windows(2).all(|pair| pair[0] < pair[1]));
            assert!(arrived.len() > 50 && arrived.len() < 100);
            // A receive that was taken for a message of which the rest was lost serves the next.
            let taken = 100 - left;
            assert!(taken - arrived.len() <= 1);
        }
    }
}
