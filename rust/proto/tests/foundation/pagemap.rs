// SPDX-License-Identifier: GPL-2.0

//! Page maps, against a list of all bytes and against wide arithmetic.

use proptest::prelude::*;
use rxe_proto::pagemap::PageMap;

/// Every byte of a region in order: page, offset in the page.
fn naive(shift: u32, first: u32, len: usize) -> Vec<(u64, u32)> {
    let mut bytes = Vec::with_capacity(len);
    let (mut page, mut offset) = (0, first);
    for _ in 0..len {
        bytes.push((page, offset));
        offset += 1;
        if offset == 1 << shift {
            page += 1;
            offset = 0;
        }
    }
    bytes
}

#[test]
fn every_byte_of_small_pages() {
    for shift in [10, 11, 12, 13] {
        let size = 1u32 << shift;
        for first in [0, 1, 7, size / 2, size - 1] {
            let map = PageMap::new(shift, first).unwrap();
            let bytes = naive(shift, first, 3 * size as usize + 5);
            for (offset, expected) in bytes.iter().enumerate() {
                assert_eq!(map.locate(offset as u64), Some(*expected));
            }
        }
    }
}

#[test]
fn page_sizes() {
    for shift in 0..64 {
        let legal = (10..=31).contains(&shift);
        assert_eq!(PageMap::new(shift, 0).is_some(), legal, "{shift}");
        assert_eq!(
            PageMap::for_address(shift, u64::MAX).is_some(),
            legal,
            "{shift}"
        );
        if legal {
            let size = 1u32 << shift;
            assert_eq!(PageMap::new(shift, size - 1).unwrap().page_size(), size);
            assert_eq!(PageMap::new(shift, size), None);
            let map = PageMap::for_address(shift, 0xffff_ffff_ffff_f123).unwrap();
            assert_eq!(map.page_size(), size);
            assert_eq!(map.locate(0), Some((0, 0xffff_f123 & (size - 1))));
        }
    }
}

#[test]
fn positions_that_cannot_be_expressed() {
    let map = PageMap::new(12, 4095).unwrap();
    assert_eq!(map.locate(u64::MAX), None);
    assert_eq!(map.span(0, 0), None);
}

proptest! {
    #[test]
    fn positions_agree_with_division(
        shift in 10u32..=31, first in any::<u32>(), offset in any::<u64>(), len in any::<u32>(),
    ) {
        let size = 1u64 << shift;
        let first = (u64::from(first) % size) as u32;
        let map = PageMap::new(shift, first).unwrap();
        let position = u128::from(offset) + u128::from(first);
        match map.locate(offset) {
            None => prop_assert!(position > u128::from(u64::MAX)),
            Some((page, in_page)) => {
                prop_assert_eq!(u128::from(page), position / u128::from(size));
                prop_assert_eq!(u128::from(in_page), position % u128::from(size));
                let span = map.span(offset, len);
                prop_assert_eq!(span.is_some(), len != 0);
                if let Some(span) = span {
                    prop_assert_eq!((span.index, span.offset), (page, in_page));
                    let left = size - u64::from(in_page);
                    prop_assert_eq!(u64::from(span.len), left.min(len.into()));
                }
            }
        }
    }

    /// Walking by spans visits every byte of a range once and in order.
    #[test]
    fn spans_cover_a_range(
        shift in 10u32..=14, first in 0u32..1024, start in 0u64..40_000, len in 0u32..40_000,
    ) {
        let map = PageMap::new(shift, first).unwrap();
        let bytes = naive(shift, first, start as usize + len as usize);
        let mut done = 0;
        while let Some(span) = map.span(start + u64::from(done), len - done) {
            for i in 0..span.len {
                let expected = bytes[start as usize + (done + i) as usize];
                prop_assert_eq!((span.index, span.offset + i), expected);
            }
            done += span.len;
        }
        prop_assert_eq!(done, len);
    }
}
