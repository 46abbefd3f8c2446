// SPDX-License-Identifier: GPL-2.0

//! The driver shell: objects, locks, workers. It runs the engines of [`crate::proto`].

// What implements the traits of the abstractions is `pub` as they are; nothing leaves this crate.
#![allow(unreachable_pub)]

pub(crate) mod ah;
mod counters;
pub(crate) mod cq;
pub(crate) mod device;
mod hop;
pub(crate) mod keys;
pub(crate) mod link;
mod mad;
mod mapping;
mod mcast;
pub(crate) mod mem;
pub(crate) mod mr;
pub(crate) mod mr_verbs;
pub(crate) mod mw;
pub(crate) mod netdev;
pub(crate) mod netns;
mod param;
pub(crate) mod pd;
pub(crate) mod qp;
mod qp_attr;
mod qp_verbs;
pub(crate) mod qpio;
pub(crate) mod queue;
mod recv;
mod rq;
pub(crate) mod rx;
mod send;
mod sq;
mod sq_window;
pub(crate) mod srq;
pub(crate) mod task;
pub(crate) mod tx;
pub(crate) mod verbs;
pub(crate) mod workers;
