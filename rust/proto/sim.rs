// SPDX-License-Identifier: GPL-2.0

//! Two queue pairs, a network with weather, and a clock that is a number.
//!
//! Each [`endpoint::Endpoint`] does with the two engines what the driver does, over plain vectors:
//! it fetches requests, builds packets from memory that keys name, carries out effects, completes.
//! [`network::Network`] carries packets as bytes and may lose, copy, delay, reorder or damage them.
//! [`pair::Pair`] runs both until nothing is left to happen and checks after every event what must
//! hold at all times. [`plan`] makes random work lists together with what they must result in.
//!
//! Everything random comes from a seed. A test that fails prints it; seeds that failed once are kept
//! in [`weather`].

mod endpoint;
mod memory;
mod network;
mod pair;
mod plan;
mod rng;
mod scenarios;
mod weather;
