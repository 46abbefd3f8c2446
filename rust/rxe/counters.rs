// SPDX-License-Identifier: GPL-2.0

//! The names of the counters, for the RDMA core.

#![forbid(unsafe_code)]

use crate::{
    abstractions::rdma::hw_stats::Descriptor,
    proto::counters::{
        Counter,
        DropReason,
        Misuse,
        COUNT, //
    }, //
};

/// Descriptions of all counters, in the order of their places.
pub(crate) static DESCRIPTORS: [Descriptor; COUNT] = descriptors();

const fn descriptors() -> [Descriptor; COUNT] {
    let mut all = [const { Descriptor::new(c"") }; COUNT];
    let mut i = 0;
    while i < Counter::ALL.len() {
        let counter = Counter::ALL[i];
        all[counter.index()] = Descriptor::new(counter.name());
        i += 1;
    }
    i = 0;
    while i < DropReason::ALL.len() {
        let reason = DropReason::ALL[i];
        all[reason.index()] = Descriptor::new(reason.name());
        i += 1;
    }
    i = 0;
    while i < Misuse::ALL.len() {
        let misuse = Misuse::ALL[i];
        all[misuse.index()] = Descriptor::new(misuse.name());
        i += 1;
    }
    all
}
