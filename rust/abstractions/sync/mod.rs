// SPDX-License-Identifier: GPL-2.0

//! Synchronisation that the `kernel` crate does not have yet.

mod bh;
mod id_table;
mod inflight;
mod percpu_counters;
mod rcu_arc;
mod static_mutex;

pub(crate) use self::{
    bh::BhDisabled,
    id_table::{IdTable, Reserved},
    inflight::{Inflight, InflightGuard},
    percpu_counters::PerCpuCounters,
    rcu_arc::{Borrowed, RcuArc},
    static_mutex::{StaticMutex, StaticMutexGuard}, //
};
