// SPDX-License-Identifier: GPL-2.0

//! Walks over buffer lists, against the list of all bytes.

use proptest::prelude::*;
use rxe_proto::num::Key;
use rxe_proto::sge::{total_length, SgeCursor};
use rxe_proto::wr::Sge;

/// Every byte of a message in order: address, key.
fn flatten(list: &[Sge]) -> Vec<(u64, Key)> {
    list.iter()
        .flat_map(|s| (0..u64::from(s.length)).map(move |i| (s.addr.wrapping_add(i), s.lkey)))
        .collect()
}

fn list() -> impl Strategy<Value = Vec<Sge>> {
    let sge = (
        any::<u64>(),
        prop_oneof![Just(0u32), 1u32..200],
        any::<u32>(),
    )
        .prop_map(|(addr, length, key)| Sge {
            addr,
            length,
            lkey: Key::new(key),
        });
    prop::collection::vec(sge, 0..8)
}

proptest! {
    #[test]
    fn chunks_are_the_message(
        list in list(), start in 0usize..1600, sizes in prop::collection::vec(1u32..300, 1..20),
    ) {
        let bytes = flatten(&list);
        prop_assert_eq!(total_length(&list), bytes.len() as u64);
        let mut cursor = SgeCursor::seek(&list, start as u64);
        let mut at = start.min(bytes.len());
        for max in sizes.iter().cycle() {
            let before = cursor;
            prop_assert_eq!(cursor.next_chunk(&list, 0), None);
            prop_assert_eq!(cursor, before);
            let Some(chunk) = cursor.next_chunk(&list, *max) else { break };
            prop_assert!(chunk.len >= 1 && chunk.len <= *max);
            for i in 0..chunk.len {
                let expected = bytes[at + i as usize];
                prop_assert_eq!((chunk.addr.wrapping_add(i.into()), chunk.lkey), expected);
            }
            at += chunk.len as usize;
        }
        prop_assert_eq!(at, bytes.len());
        prop_assert_eq!(cursor.next_chunk(&list, 1), None);
    }

    /// A position is the same whether it was walked to or sought.
    #[test]
    fn walking_equals_seeking(list in list(), n in 0u32..1600) {
        let mut walked = SgeCursor::START;
        let mut left = n;
        while left > 0 {
            let Some(chunk) = walked.next_chunk(&list, left) else { break };
            left -= chunk.len;
        }
        let mut sought = SgeCursor::seek(&list, n.into());
        loop {
            let (a, b) = (walked.next_chunk(&list, 7), sought.next_chunk(&list, 7));
            prop_assert_eq!(a, b);
            if a.is_none() {
                break;
            }
        }
    }

    /// Another list than the one the position was made for is no danger.
    #[test]
    fn any_list_will_do(one in list(), other in list(), at in any::<u64>(), max in any::<u32>()) {
        let mut cursor = SgeCursor::seek(&one, at);
        for _ in 0..20 {
            if let Some(chunk) = cursor.next_chunk(&other, max) {
                prop_assert!(chunk.len <= max);
            }
        }
    }
}

#[test]
fn longest_buffers() {
    let sge = Sge {
        addr: u64::MAX - 1,
        length: u32::MAX,
        lkey: Key::new(1),
    };
    let list = [sge; 3];
    assert_eq!(total_length(&list), 3 * u64::from(u32::MAX));
    let mut cursor = SgeCursor::seek(&list, 2 * u64::from(u32::MAX) + 5);
    let chunk = cursor.next_chunk(&list, u32::MAX).unwrap();
    assert_eq!((chunk.addr, chunk.len), (3, u32::MAX - 5));
    assert_eq!(cursor.next_chunk(&list, u32::MAX), None);
    assert_eq!(SgeCursor::seek(&list, u64::MAX).next_chunk(&list, 1), None);
}
