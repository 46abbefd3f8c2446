// SPDX-License-Identifier: GPL-2.0

//! Scenarios for a send queue whose peer is the test itself.

mod local;
mod responses;
mod retry;
mod segments;

use super::super::{
    aeth::{
        AethKind,
        NakCode, //
    },
    completer::RespStep,
    num::Key,
    opcode::{
        Opcode,
        Position, //
    },
    packet::PacketInfo,
    requester::{
        PreparedTx,
        TxStep, //
    },
    status::AccessFault,
    time::rnr_delay,
    wire::Imm,
    wr::SendFlags, //
};
use super::*;
use std::{
    vec,
    vec::Vec, //
};

const MS: u64 = 1_000_000;
const TIMEOUT: Duration = Duration(10 * MS);
const MTU: u32 = 1024;

pub(super) fn config(service: Service) -> SenderConfig {
    SenderConfig {
        service,
        mtu: Mtu::B1024,
        psn: Psn::new(100),
        qpn: Qpn::new(17),
        dest_qpn: Qpn::new(33),
        pkey: 0xffff,
        qkey: 0x1234,
        max_rd_atomic: 4,
        retry_cnt: 7,
        rnr_retry: 7,
        ack_timeout: Some(TIMEOUT),
    }
}

/// A send queue, a clock and a consumer that numbers its requests from zero.
struct Rig {
    s: Sender<Vec<SendEntry>>,
    now: Instant,
    posted: u64,
}

impl Rig {
    fn new(cfg: SenderConfig) -> Self {
        Self {
            s: Sender::new(cfg, vec![SendEntry::EMPTY; 256]),
            now: Instant(1),
            posted: 0,
        }
    }

    fn rc() -> Self {
        Self::new(config(Service::Rc))
    }

    fn post(&mut self, op: SendOp, length: u32) -> Slot {
        self.post_with(op, length, SendFlags::default())
    }

    fn post_with(&mut self, op: SendOp, length: u32, flags: SendFlags) -> Slot {
        let wr_id = self.posted;
        self.posted += 1;
        let wr = SendWr {
            wr_id,
            op,
            flags,
            length,
            num_sge: 1,
            ud: UdTarget {
                qpn: Qpn::new(5),
                qkey: 0x77,
                pkey_index: 0,
                ah_num: 1,
            },
        };
        self.s.push(wr).expect("the window has room")
    }

    /// Sends one packet, if one may be sent.
    fn send(&mut self) -> Option<PacketInfo> {
        match self.s.poll_tx(self.now) {
            TxStep::Packet(tx) => {
                let header = self.s.header(&tx, 0).expect("a run has a first packet");
                self.s.commit_tx(&tx, self.now);
                Some(header)
            }
            TxStep::Local { .. } | TxStep::Idle => None,
        }
    }

    /// Sends all that may be sent now and returns the PSNs.
    fn send_all(&mut self) -> Vec<u32> {
        let mut sent = Vec::new();
        while let Some(packet) = self.send() {
            sent.push(packet.psn.get());
        }
        sent
    }

    fn offered(&self) -> Option<PreparedTx> {
        match self.s.poll_tx(self.now) {
            TxStep::Packet(tx) => Some(tx),
            TxStep::Local { .. } | TxStep::Idle => None,
        }
    }

    fn is_idle(&self) -> bool {
        self.s.poll_tx(self.now) == TxStep::Idle
    }

    fn respond(&mut self, packet: &PacketInfo) -> RespStep {
        self.s.on_response(packet, self.now)
    }

    fn aeth(&mut self, psn: u32, kind: AethKind) {
        let mut packet = PacketInfo::new(Opcode::RcAck);
        packet.psn = Psn::new(psn);
        packet.aeth.syndrome = kind.encode();
        assert_eq!(self.respond(&packet), RespStep::Done);
    }

    fn ack(&mut self, psn: u32) {
        self.aeth(psn, AethKind::ACK);
    }

    fn nak(&mut self, psn: u32, code: NakCode) {
        self.aeth(psn, AethKind::Nak(code));
    }

    fn rnr(&mut self, psn: u32, code: u8) {
        self.aeth(psn, AethKind::RnrNak(code));
    }

    fn read_response(&mut self, psn: u32, position: Position, len: u32) -> RespStep {
        let mut packet = PacketInfo::new(Opcode::read_response(position));
        packet.psn = Psn::new(psn);
        packet.aeth.syndrome = AethKind::ACK.encode();
        packet.set_payload_len(len);
        self.respond(&packet)
    }

    /// Delivers the data of a READ response that has to be stored at `offset`.
    fn read_data(&mut self, psn: u32, position: Position, offset: u32, len: u32) {
        match self.read_response(psn, position, len) {
            RespStep::Store {
                offset: o, len: l, ..
            } => assert_eq!((o, l), (offset, len)),
            other => panic!("{psn}: {other:?}"),
        }
        assert_eq!(self.s.stored(Ok(())), RespStep::Done);
    }

    /// Lets the time pass up to the deadline. Returns whether there is one.
    fn time_out(&mut self) -> bool {
        match self.s.next_deadline() {
            Some(deadline) => {
                self.now = self.now.max(deadline);
                self.s.on_timeout(self.now);
                true
            }
            None => false,
        }
    }

    /// Takes the completions: the request's number and its status.
    fn done(&mut self) -> Vec<(u64, WcStatus)> {
        let mut all = Vec::new();
        while let Some(c) = self.s.pop_completion() {
            all.push((c.wr_id, c.status));
        }
        all
    }
}

fn write(va: u64) -> SendOp {
    SendOp::Write {
        va,
        key: Key::new(0x501),
    }
}

fn read(va: u64) -> SendOp {
    SendOp::Read {
        va,
        key: Key::new(0x501),
    }
}

fn fetch_add() -> SendOp {
    SendOp::FetchAdd {
        va: 8,
        key: Key::new(0x501),
        add: 1,
    }
}

fn fenced() -> SendFlags {
    SendFlags {
        fence: true,
        ..SendFlags::default()
    }
}

const OK: WcStatus = WcStatus::Success;
const FLUSHED: WcStatus = WcStatus::WrFlushErr;
