// SPDX-License-Identifier: GPL-2.0

//! The protocol core: what a RoCEv2 device decides, without what it does.
//!
//! The core turns parsed packets, parsed work requests, the time and the outcome of earlier steps
//! into descriptions of what must happen next. It performs nothing itself. The driver (`rxe`)
//! carries the effects out; the host tests carry them out against plain vectors. The same source is
//! built by Kbuild as `mod proto` and by cargo as a library.
//!
//! # Contract
//!
//! 1. **No I/O, no clock, no memory access.** The core sees lengths, keys and offsets. The only
//!    payload bytes it ever holds are the 8-byte operands of atomics and 4-byte immediates.
//! 2. **Step functions.** An engine is given one input and answers with one effect; the outcome of
//!    the effect is the next input. Between two steps the caller may drop locks, sleep or stop.
//! 3. **Transmission is a transaction.** A packet that is offered changes nothing until it is
//!    committed. One that is not committed is offered again, unchanged.
//! 4. **Deadlines are data.** An engine says when it wants to be called again; the caller owns the
//!    timer.
//! 5. **Total functions.** Every input, whatever a peer or a user process made of it, has a defined
//!    result. No function here panics: no indexing, no unchecked arithmetic on outside values, no
//!    unbounded loops. The build checks the object code for that.
//!
//! # Rules for the source
//!
//! Only `core` and `zerocopy` are used, and paths inside the core are relative (`super::`), because
//! the core is at a different place in the two crates that contain it.

#![forbid(unsafe_code)]
#![warn(missing_docs)]
// Items are `pub` in a module that the kernel crate keeps private; the host crate exports them.
#![allow(unreachable_pub)]
// What is marked `cfg(not(MODULE))` is for the tests on the host.
#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unreachable,
        clippy::unwrap_used
    )
)]

pub mod aeth;
pub mod bind;
pub mod completer;
pub mod counters;
pub mod effect;
pub mod icrc;
pub mod mcast;
pub mod memkey;
pub mod num;
pub mod opcode;
pub mod packet;
pub mod pagemap;
pub mod psn;
pub mod qpstate;
pub mod requester;
pub mod resources;
pub mod responder;
pub mod ring;
pub mod run;
pub mod sender;
pub mod sge;
#[cfg(test)]
mod sim;
pub mod sport;
pub mod sqrule;
pub mod status;
pub mod task;
pub mod time;
pub mod uabi;
pub mod window;
pub mod wire;
pub mod wqe;
pub mod wr;
