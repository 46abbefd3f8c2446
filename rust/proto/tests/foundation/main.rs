// SPDX-License-Identifier: GPL-2.0

//! Tests of everything below the engines, against models and tables of their own.

mod counters;
mod icrc;
mod memkey;
mod numbers;
mod opcode;
mod packet;
mod pagemap;
mod qpstate;
mod ring;
mod sge;
mod sqrule;
mod task;
mod wqe;
