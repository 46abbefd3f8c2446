// SPDX-License-Identifier: GPL-2.0

//! Ring indices, against a queue.

use proptest::prelude::*;
use rxe_proto::ring::Ring;
use std::collections::VecDeque;

#[test]
fn geometry() {
    // Entries asked for, element size asked for; mask, element size.
    let rows = [
        (0, 1, 0, 64),
        (1, 64, 1, 64),
        (2, 65, 3, 128),
        (3, 128, 3, 128),
        (4, 720, 7, 1024),
        (511, 40, 511, 64),
        (512, 40, 1023, 64),
        (1 << 20, 720, (1 << 21) - 1, 1024),
    ];
    for (entries, elem, mask, size) in rows {
        let ring = Ring::for_entries(entries, elem).unwrap();
        assert_eq!(ring.mask(), mask);
        assert_eq!(ring.elem_size(), size);
        assert_eq!(1 << ring.log2_elem(), size);
        assert_eq!(ring.data_size(), (mask as usize + 1) * size);
        assert!(ring.capacity() >= entries);
    }
    for (entries, elem) in [
        (u32::MAX, 64),
        (1 << 31, 64),
        (1, u32::MAX),
        (1 << 20, 2048),
    ] {
        assert_eq!(Ring::for_entries(entries, elem), None, "{entries} {elem}");
    }
}

proptest! {
    /// A ring with its two indices behaves as a queue of limited length.
    #[test]
    fn behaves_as_a_queue(
        entries in 1u32..40, start in any::<u32>(), ops in prop::collection::vec(any::<bool>(), 0..300),
    ) {
        let ring = Ring::for_entries(entries, 64).unwrap();
        let mut slots = vec![0usize; ring.mask() as usize + 1];
        let mut model = VecDeque::new();
        let (mut producer, mut consumer) = (start & ring.mask(), start & ring.mask());
        for (value, push) in ops.into_iter().enumerate() {
            if push {
                prop_assert_eq!(ring.is_full(producer, consumer), model.len() == ring.capacity() as usize);
                if !ring.is_full(producer, consumer) {
                    slots[ring.offset(producer) / 64] = value;
                    producer = ring.next(producer);
                    model.push_back(value);
                }
            } else {
                prop_assert_eq!(ring.is_empty(producer, consumer), model.is_empty());
                if !ring.is_empty(producer, consumer) {
                    prop_assert_eq!(slots[ring.offset(consumer) / 64], model.pop_front().unwrap());
                    consumer = ring.next(consumer);
                }
            }
            prop_assert_eq!(ring.count(producer, consumer) as usize, model.len());
            prop_assert_eq!(ring.free(producer, consumer), ring.capacity() - model.len() as u32);
        }
    }

    /// Whatever the other side writes into its index, nothing leaves the ring.
    #[test]
    fn any_index_stays_within(entries in 0u32..5000, elem in 0u32..3000, a in any::<u32>(), b in any::<u32>()) {
        let ring = Ring::for_entries(entries, elem).unwrap();
        prop_assert!(ring.offset(a) + ring.elem_size() <= ring.data_size());
        prop_assert!(ring.next(a) <= ring.mask());
        prop_assert!(ring.advance(a, b) <= ring.mask());
        prop_assert!(ring.count(a, b) <= ring.capacity());
        prop_assert_eq!(ring.count(a, b) + ring.free(a, b), ring.capacity());
        prop_assert_eq!(ring.offset(ring.next(a)), ring.offset(a.wrapping_add(1)));
    }
}
