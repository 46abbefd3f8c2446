// SPDX-License-Identifier: GPL-2.0

//! Synchronisation that the `kernel` crate does not have yet.

mod bh;
mod gated;
mod handoff;
mod id_table;
mod percpu_counters;
mod rcu_arc;
mod static_mutex;

pub use self::{
    bh::BhDisabled,
    gated::{Entered, Gated},
    handoff::{Handoff, Waiting},
    id_table::IdTable,
    percpu_counters::PerCpuCounters,
    rcu_arc::{wait_for_rcu_arcs, Borrowed, RcuArc},
    static_mutex::StaticMutex, //
};
