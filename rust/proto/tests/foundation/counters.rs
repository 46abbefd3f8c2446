// SPDX-License-Identifier: GPL-2.0

//! Names and places of the counters.

use rxe_proto::counters::{name, Counter, DropReason, Misuse, COUNT};
use std::collections::HashSet;

/// The names of the stock driver, in its order.
const STOCK: [&str; 17] = [
    "sent_pkts",
    "rcvd_pkts",
    "duplicate_request",
    "out_of_seq_request",
    "rcvd_rnr_err",
    "send_rnr_err",
    "rcvd_seq_err",
    "ack_deferred",
    "retry_exceeded_err",
    "retry_rnr_exceeded_err",
    "completer_retry_err",
    "send_err",
    "link_downed",
    "rdma_sends",
    "rdma_recvs",
    "sent_bytes",
    "rcvd_bytes",
];

#[test]
fn stock_counters_come_first() {
    for (index, text) in STOCK.iter().enumerate() {
        assert_eq!(name(index).unwrap().to_str().unwrap(), *text);
        assert_eq!(Counter::ALL[index].index(), index);
    }
    assert_eq!(Counter::ALL.len(), STOCK.len());
}

#[test]
fn every_drop_reason_has_its_own_counter() {
    let mut places = HashSet::new();
    for reason in DropReason::ALL {
        assert!(places.insert(reason.index()));
        assert_eq!(name(reason.index()), Some(reason.name()));
        assert!(reason.name().to_str().unwrap().starts_with("drop_"));
    }
    let names: HashSet<_> = (0..COUNT).map(|i| name(i).unwrap()).collect();
    assert_eq!(names.len(), COUNT);
    assert_eq!(name(COUNT), None);
    assert_eq!(name(usize::MAX), None);
}

#[test]
fn misuse_is_counted_after_everything_else() {
    for misuse in Misuse::ALL {
        assert_eq!(name(misuse.index()), Some(misuse.name()));
        assert!(misuse.index() >= Counter::ALL.len() + DropReason::ALL.len());
    }
}
