// SPDX-License-Identifier: GPL-2.0

//! The rule of send queues: who keeps to it is never told off, who breaks it is told once.

use rxe_proto::sqrule::{is_ahead, PostRule};

const DEPTHS: [u32; 9] = [1, 2, 4, 16, 31, 32, 33, 512, 1024];

/// A consumer that signals every `every`-th request and polls as little as it may. Returns its broken posts.
fn obedient(depth: u32, every: u32, start: u32) -> u32 {
    let mut rule = PostRule::new(depth);
    let (mut posted, mut proven, mut broken) = (start, start, 0);
    for _ in 0..depth * 5 {
        if posted.wrapping_sub(proven) == depth {
            // All that was posted has been done; the last signaled one is polled.
            let unsignaled_tail = posted.wrapping_sub(start) % every;
            proven = posted.wrapping_sub(unsignaled_tail);
        }
        let signaled = posted.wrapping_sub(start).wrapping_add(1) % every == 0;
        broken += u32::from(rule.post(posted, proven, signaled));
        posted = posted.wrapping_add(1);
    }
    broken
}

#[test]
fn whoever_signals_once_per_queue_and_polls_is_in_its_rights() {
    for depth in DEPTHS {
        for every in [1, (depth / 2).max(1), depth] {
            for start in [0, u32::MAX - depth / 2, i32::MAX as u32] {
                assert_eq!(obedient(depth, every, start), 0, "{depth} {every} {start}");
            }
        }
    }
}

#[test]
fn whoever_never_signals_breaks_the_rule_with_the_first_request_beyond_the_queue() {
    for depth in DEPTHS {
        let mut rule = PostRule::new(depth);
        for n in 0..depth * 3 {
            assert_eq!(rule.post(n, 0, false), n >= depth);
        }
        let told = rule.tell().unwrap();
        assert_eq!(
            (
                told.depth,
                told.posted,
                told.signaled,
                told.longest_unsignaled
            ),
            (depth, u64::from(depth * 3), 0, depth * 3)
        );
        assert_eq!(rule.tell(), None);
    }
}

#[test]
fn a_completion_that_was_not_polled_proves_nothing() {
    let mut rule = PostRule::new(4);
    for n in 0..4 {
        assert!(!rule.post(n, 0, true));
    }
    assert!(rule.post(4, 0, true));
    assert!(!rule.post(5, 2, true));
    let told = rule.tell().unwrap();
    assert_eq!((told.signaled, told.longest_unsignaled), (6, 0));
}

#[test]
fn counts_run_freely() {
    assert!(is_ahead(1, 0));
    assert!(!is_ahead(0, 0));
    assert!(!is_ahead(0, 1));
    assert!(is_ahead(3, u32::MAX - 3));
    assert!(!is_ahead(u32::MAX - 3, 3));
}
