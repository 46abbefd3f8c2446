// SPDX-License-Identifier: GPL-2.0

//! Requests that were executed before: the answer was lost, or the network delivered them twice.
//!
//! Nothing is executed again, except that memory is read again for a READ. A duplicate that is not
//! what was executed under its sequence number, or that is no longer remembered, is dropped.

#![forbid(unsafe_code)]

use core::ops::DerefMut;

use super::{
    super::{
        aeth::AethKind,
        effect::{
            Disposition,
            Effect, //
        },
        num::Key,
        opcode::{
            Kind,
            Opcode, //
        },
        packet::Reth,
        resources::{
            Replay,
            Resource, //
        },
    },
    Responder,
    Stage, //
};

impl<R: DerefMut<Target = [Resource]>> Responder<R> {
    pub(super) fn duplicate(&mut self) -> Effect {
        self.counts.duplicates = self.counts.duplicates.wrapping_add(1);
        let opcode = self.packet.opcode;
        match opcode.kind() {
            // IBA C9-105. The acknowledgement covers everything that the peer does not wait for a
            // particular answer to.
            Kind::Send | Kind::Write => {
                self.stage = Stage::Answer(Disposition::Duplicate);
                self.send(Opcode::RcAck, AethKind::ACK, self.ack_psn, 0)
            }
            Kind::ReadRequest => self.repeat_read(),
            Kind::CompareSwap | Kind::FetchAdd | Kind::Flush | Kind::AtomicWrite => {
                match self
                    .replay
                    .find(self.packet.psn)
                    .map(|found| found.replay())
                {
                    Some(Replay::Atomic { opcode: was, orig }) if was == opcode => {
                        self.answer_atomic(orig, Disposition::Duplicate)
                    }
                    // IBA oA19-14, oA19-15.
                    Some(Replay::Empty { opcode: was }) if was == opcode => {
                        self.answer_empty(Disposition::Duplicate)
                    }
                    Some(Replay::Atomic { .. } | Replay::Empty { .. } | Replay::Read { .. })
                    | None => self.done(Disposition::Dropped),
                }
            }
            Kind::ReadResponse | Kind::Ack | Kind::AtomicAck | Kind::Cnp => {
                self.done(Disposition::Dropped)
            }
        }
    }

    /// Answers a READ request that is the one executed before or its end.
    fn repeat_read(&mut self) -> Effect {
        let reth = self.packet.reth;
        let psn = self.packet.psn;
        let found = self.replay.find(psn).and_then(|resource| {
            let packets = resource.packets_from(psn)?;
            match resource.replay() {
                Replay::Read { va, key, len } => Some((packets, Reth { va, key, len })),
                Replay::Atomic { .. } | Replay::Empty { .. } => None,
            }
        });
        match found {
            // The answer must not run into the PSNs of the next request.
            Some((packets, was))
                if self.cfg.mtu.packets(reth.len) <= packets
                    && is_part(&was, reth.va, reth.key, reth.len) =>
            {
                self.answer_read(Disposition::Duplicate)
            }
            _ => self.done(Disposition::Dropped),
        }
    }
}

/// Tells whether a range is within the one that was requested before. What an empty one refers to
/// means nothing.
fn is_part(was: &Reth, va: u64, key: Key, len: u32) -> bool {
    if len == 0 {
        return was.len == 0;
    }
    let Some(skipped) = va.checked_sub(was.va) else {
        return false;
    };
    match u64::from(was.len).checked_sub(skipped) {
        Some(rest) => was.key == key && u64::from(len) <= rest,
        None => false,
    }
}
