// SPDX-License-Identifier: GPL-2.0

//! The driver shell: objects, locks, workers. It runs the engines of [`crate::proto`].

pub(crate) mod ah;
mod counters;
pub(crate) mod cq;
pub(crate) mod device;
pub(crate) mod keys;
pub(crate) mod link;
mod mad;
mod mcast;
pub(crate) mod mem;
pub(crate) mod mr;
pub(crate) mod mr_verbs;
pub(crate) mod mw;
pub(crate) mod netdev;
mod param;
pub(crate) mod pd;
pub(crate) mod queue;
pub(crate) mod verbs;
pub(crate) mod workers;
