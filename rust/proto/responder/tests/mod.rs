// SPDX-License-Identifier: GPL-2.0

//! Tests of the responder against fake memory, a fake receive queue and a fake network.
//!
//! [`Rig`] performs the effects as the driver does and checks each of them against what the packet
//! and the posted buffers allow, so every test is also one of the bounds.

mod atomic;
mod faults;
mod packets;
mod property;
mod read;
mod runs;
mod send;
mod unreliable;
mod write;

use std::collections::VecDeque;

use super::{
    super::{
        aeth::{
            AethKind,
            NakCode, //
        },
        effect::{
            AtomicOp,
            Disposition,
            Effect,
            FlushLevel,
            Input,
            RecvCompletion,
            RecvFault,
            RecvTaken,
            RemoteSpan, //
        },
        memkey::{
            self,
            Access,
            AccessReq,
            MrState,
            RegView, //
        },
        num::{
            Key,
            Mtu,
            PdId,
            Qpn, //
        },
        opcode::{
            Kind,
            Opcode,
            Position,
            SendTail,
            Service, //
        },
        packet::{
            pad_of,
            PacketInfo, //
        },
        psn::{
            Msn,
            Psn, //
        },
        resources::Resource,
        status::{
            AccessFault,
            CqOverflow,
            QpEvent,
            QpFault,
            WcOpcode,
            WcStatus, //
        },
        wire::Imm,
    },
    Responder,
    ResponderConfig, //
};
use packets::*;

/// The peer's queue pair.
const PEER: Qpn = Qpn::new(0x12_3456);
/// Where the region of most tests begins and what names it.
const VA: u64 = 0x1_0000;
const KEY: Key = Key::new(0x4200);
/// The length of that region.
const SPACE: u32 = 0x1_0000;

/// A region of fake memory.
struct Region {
    view: RegView,
    bytes: Vec<u8>,
}

/// A receive work request and its buffer.
struct Posted {
    wr_id: u64,
    bytes: Vec<u8>,
}

/// A packet as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sent {
    header: PacketInfo,
    payload: Vec<u8>,
}

/// What ended the work on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Done(Disposition),
    Fatal(QpFault),
}

/// A responder and a world for it.
struct Rig {
    resp: Responder<Vec<Resource>>,
    mtu: u32,
    regions: Vec<Region>,
    posted: VecDeque<Posted>,
    taken: Option<Posted>,
    /// What of the taken buffer has been filled, without gaps.
    filled: u32,
    /// The buffers of successful completions.
    received: Vec<Vec<u8>>,
    completions: Vec<RecvCompletion>,
    sent: Vec<Sent>,
    events: Vec<QpEvent>,
    /// Effects of the packet that was given last.
    log: Vec<Effect>,
    /// The range that the RDMA WRITE in progress may touch, from its first packet.
    write: Option<RemoteSpan>,
    // Faults to inject.
    recv_malformed: bool,
    recv_fault: Option<AccessFault>,
    /// How much of a receive buffer is good, when `recv_fault` is set.
    recv_good: u32,
    cq_full: bool,
    /// Answers of which sending fails after this many packets.
    read_fault_after: Option<u32>,
}

fn config(service: Service, mtu: Mtu) -> ResponderConfig {
    ResponderConfig {
        service,
        mtu,
        psn: Psn::new(100),
        dest_qpn: PEER,
        pkey: 0xffff,
        access: Access::REMOTE.union(Access::FLUSH),
        min_rnr_timer: 12,
        announce: false,
    }
}

impl Rig {
    fn new(service: Service) -> Self {
        Self::with(config(service, Mtu::B1024), 4)
    }

    fn with(cfg: ResponderConfig, depth: usize) -> Self {
        let mut rig = Self {
            resp: Responder::new(cfg, vec![Resource::UNUSED; depth]),
            mtu: cfg.mtu.bytes(),
            regions: Vec::new(),
            posted: VecDeque::new(),
            taken: None,
            filled: 0,
            received: Vec::new(),
            completions: Vec::new(),
            sent: Vec::new(),
            events: Vec::new(),
            log: Vec::new(),
            write: None,
            recv_malformed: false,
            recv_fault: None,
            recv_good: 0,
            cq_full: false,
            read_fault_after: None,
        };
        rig.region(KEY, VA, SPACE, Access::REMOTE.union(Access::FLUSH));
        rig
    }

    fn region(&mut self, key: Key, iova: u64, len: u32, access: Access) {
        self.regions.push(Region {
            view: RegView {
                key,
                state: MrState::Valid,
                pd: PdId(1),
                access,
                iova,
                len: u64::from(len),
            },
            bytes: vec![0; len as usize],
        });
    }

    fn post(&mut self, wr_id: u64, len: u32) {
        self.posted.push_back(Posted {
            wr_id,
            bytes: vec![0; len as usize],
        });
    }

    /// Returns the bytes at `va` of the region with the usual key.
    fn memory(&self, va: u64, len: u32) -> &[u8] {
        let at = (va - VA) as usize;
        &self.regions[0].bytes[at..at + len as usize]
    }

    fn fill_memory(&mut self) {
        for (i, byte) in self.regions[0].bytes.iter_mut().enumerate() {
            *byte = (i * 7 + i / 251) as u8;
        }
    }

    fn resolve(&mut self, span: &RemoteSpan) -> Result<&mut [u8], AccessFault> {
        let req = AccessReq {
            key: span.key,
            pd: PdId(1),
            va: span.va,
            len: u64::from(span.len),
            access: span.access,
        };
        let mut fault = AccessFault::Key;
        for region in &mut self.regions {
            match memkey::check(&region.view, &req) {
                Ok(offset) => {
                    let at = offset as usize;
                    return Ok(&mut region.bytes[at..at + span.len as usize]);
                }
                Err(AccessFault::Key) => {}
                Err(other) => fault = other,
            }
        }
        Err(fault)
    }

    /// Gives a packet without payload, or with one that does not matter.
    fn give(&mut self, packet: PacketInfo) -> End {
        let payload = vec![0x5a; packet.payload_len.min(1 << 16) as usize];
        self.give_with(packet, &payload)
    }

    /// Gives a packet and performs what it asks for.
    fn give_with(&mut self, packet: PacketInfo, payload: &[u8]) -> End {
        self.perform_all(&packet, payload, Input::Packet(&packet))
    }

    /// Gives packets as a run and, if they are not executed as one, one by one. Returns how the last
    /// of them ended.
    fn give_run(&mut self, packets: &[(PacketInfo, Vec<u8>)]) -> End {
        let (packet, payload) = merge(packets);
        let input = Input::Run {
            packet: &packet,
            packets: packets.len() as u32,
        };
        let before = (self.sent.len(), self.completions.len(), self.filled);
        let mut end = self.perform_all(&packet, &payload, input);
        if end == End::Done(Disposition::Split) {
            assert_eq!(before.0, self.sent.len());
            assert_eq!(before.1, self.completions.len());
            for (packet, payload) in packets {
                end = self.give_with(*packet, payload);
            }
        }
        end
    }

    fn perform_all(&mut self, packet: &PacketInfo, payload: &[u8], input: Input<'_>) -> End {
        self.log.clear();
        let mut responses = 0;
        let mut effect = self.resp.step(input);
        loop {
            if self.log.len() < 64 {
                self.log.push(effect);
            }
            let input = match effect {
                Effect::Done(disposition) => {
                    assert!(!self.resp.is_busy());
                    return End::Done(disposition);
                }
                Effect::Fatal(fault) => {
                    assert!(!self.resp.is_busy());
                    return End::Fatal(fault);
                }
                other => self.perform(packet, payload, other, &mut responses),
            };
            assert!(self.resp.is_busy());
            effect = self.resp.step(input);
        }
    }

    fn perform(
        &mut self,
        packet: &PacketInfo,
        payload: &[u8],
        effect: Effect,
        responses: &mut u32,
    ) -> Input<'static> {
        match effect {
            Effect::TakeRecv => Input::Recv(self.take_recv()),
            Effect::Check { span } => {
                assert_eq!(span.va, packet.reth.va);
                assert_eq!(span.key, packet.reth.key);
                assert_eq!(span.len, packet.reth.len);
                self.write = Some(span);
                Input::Access(self.resolve(&span).map(|_| ()))
            }
            Effect::StoreRecv { offset, len } => {
                Input::Access(self.store_recv(payload, offset, len))
            }
            Effect::StoreGrh => {
                assert_eq!(packet.opcode.service(), Service::Ud);
                Input::Access(self.store_recv(&[0x99; 40], 0, 40))
            }
            Effect::StoreRemote { span } => {
                assert_eq!(span.len, packet.payload_len);
                assert!(span.len > 0);
                self.check_write(packet, &span);
                Input::Access(
                    self.resolve(&span)
                        .map(|bytes| bytes.copy_from_slice(payload)),
                )
            }
            Effect::Atomic { span, op } => {
                assert_eq!(span.va, packet.atomic.va);
                assert_eq!((span.key, span.len), (packet.atomic.key, 8));
                Input::AtomicValue(self.resolve(&span).map(|bytes| atomic_on(bytes, op)))
            }
            Effect::AtomicWrite { span } => {
                assert_eq!(span.va, packet.reth.va);
                assert_eq!((span.key, span.len), (packet.reth.key, 8));
                assert_eq!(payload.len(), 8);
                Input::Access(
                    self.resolve(&span)
                        .map(|bytes| bytes.copy_from_slice(payload)),
                )
            }
            Effect::Flush { span, level } => Input::Access(self.flush(&span, level)),
            Effect::Invalidate(key) => {
                assert!(packet.opcode.has_ieth());
                assert_eq!(key, packet.ieth);
                let found = self.regions.iter_mut().find(|r| r.view.key == key);
                Input::Access(match found {
                    Some(region) => {
                        region.view.state = MrState::Free;
                        Ok(())
                    }
                    None => Err(AccessFault::Key),
                })
            }
            Effect::Send(reply) => {
                assert_eq!(reply.dest_qpn, PEER);
                let mut bytes = Vec::new();
                if let Some(span) = reply.payload {
                    self.check_response(packet, &span, reply.packets);
                    let last = *responses + reply.packets;
                    let failing = self.read_fault_after.is_some_and(|n| last > n);
                    match self.resolve(&span).map(|bytes| bytes.to_vec()) {
                        Ok(found) if !failing => bytes = found,
                        Ok(_) => return Input::Access(Err(AccessFault::Memory)),
                        Err(fault) => return Input::Access(Err(fault)),
                    }
                }
                *responses += reply.packets;
                let mut rest = &bytes[..];
                for index in 0..reply.packets {
                    let header = reply.header_of(index);
                    assert_eq!(header.pad, pad_of(header.payload_len));
                    let (payload, after) = rest.split_at(header.payload_len as usize);
                    rest = after;
                    self.sent.push(Sent {
                        header,
                        payload: payload.to_vec(),
                    });
                }
                assert!(rest.is_empty());
                Input::Sent
            }
            Effect::Complete(completion) => {
                let taken = self.taken.take().expect("a completion of a taken request");
                assert_eq!(completion.wr_id, taken.wr_id);
                if completion.status == WcStatus::Success {
                    let opcode = packet.opcode;
                    if packet.payload_len == 0 && opcode.service() != Service::Ud {
                        // In the place of a message that was not ended.
                        self.filled = 0;
                    }
                    if completion.opcode == WcOpcode::Recv {
                        assert_eq!(completion.byte_len, self.filled);
                    }
                    self.received
                        .push(taken.bytes[..self.filled as usize].to_vec());
                }
                self.completions.push(completion);
                Input::Completed(if self.cq_full {
                    Err(CqOverflow)
                } else {
                    Ok(())
                })
            }
            Effect::Event(event) => {
                self.events.push(event);
                Input::Sent
            }
            Effect::Fatal(_) | Effect::Done(_) => unreachable!("handled by the caller"),
        }
    }

    fn take_recv(&mut self) -> Result<RecvTaken, RecvFault> {
        assert!(self.taken.is_none(), "one work request at a time");
        let posted = self.posted.pop_front().ok_or(RecvFault::Empty)?;
        let (wr_id, length) = (posted.wr_id, posted.bytes.len() as u32);
        self.taken = Some(posted);
        self.filled = 0;
        if self.recv_malformed {
            return Err(RecvFault::Malformed { wr_id });
        }
        Ok(RecvTaken { wr_id, length })
    }

    fn store_recv(&mut self, payload: &[u8], offset: u32, len: u32) -> Result<(), AccessFault> {
        let taken = self.taken.as_mut().expect("a taken work request");
        assert_eq!(len as usize, payload.len());
        let end = offset.checked_add(len).expect("no overflow");
        assert!(end as usize <= taken.bytes.len(), "within the work request");
        assert!(offset == 0 || offset == self.filled, "no gaps");
        match self.recv_fault {
            Some(fault) if end > self.recv_good => return Err(fault),
            _ => {}
        }
        taken.bytes[offset as usize..end as usize].copy_from_slice(payload);
        self.filled = end;
        Ok(())
    }

    /// Checks that a packet writes within the range that its message named.
    fn check_write(&mut self, packet: &PacketInfo, span: &RemoteSpan) {
        let range = if packet.opcode.position() == Position::Only {
            RemoteSpan {
                va: packet.reth.va,
                key: packet.reth.key,
                len: packet.reth.len,
                access: Access::REMOTE_WRITE,
            }
        } else {
            self.write.expect("a checked range")
        };
        assert_within(span, &range);
    }

    /// Checks that an answer to a READ is within what this request names.
    fn check_response(&self, packet: &PacketInfo, span: &RemoteSpan, packets: u32) {
        assert_eq!(packet.opcode, Opcode::RcReadRequest);
        assert!(span.len > 0 && span.len <= self.mtu * packets);
        let range = RemoteSpan {
            va: packet.reth.va,
            key: packet.reth.key,
            len: packet.reth.len,
            access: Access::REMOTE_READ,
        };
        assert_within(span, &range);
    }

    fn flush(&mut self, span: &RemoteSpan, level: FlushLevel) -> Result<(), AccessFault> {
        assert!(Access::FLUSH.contains(span.access) && !span.access.is_empty());
        match level {
            FlushLevel::Range => self.resolve(span).map(|_| ()),
            FlushLevel::Region => {
                let region = self.regions.iter().find(|r| r.view.key == span.key);
                let region = region.ok_or(AccessFault::Key)?;
                if region.view.access.contains(span.access) {
                    Ok(())
                } else {
                    Err(AccessFault::Rights)
                }
            }
        }
    }

    /// Takes the packets that were sent.
    fn take_sent(&mut self) -> Vec<Sent> {
        core::mem::take(&mut self.sent)
    }

    /// Takes the one packet that was sent.
    #[track_caller]
    fn the_answer(&mut self) -> PacketInfo {
        let sent = self.take_sent();
        assert_eq!(sent.len(), 1, "one answer: {sent:?}");
        sent[0].header
    }

    #[track_caller]
    fn assert_ack(&mut self, psn: u32, msn: u32) {
        let answer = self.the_answer();
        assert_eq!(answer.opcode, Opcode::RcAck);
        assert_eq!(answer.aeth.syndrome, 0x1f);
        assert_eq!(answer.psn, Psn::new(psn));
        assert_eq!(answer.aeth.msn, Msn::new(msn));
    }

    #[track_caller]
    fn assert_nak(&mut self, code: NakCode, psn: u32, msn: u32) {
        let answer = self.the_answer();
        assert_eq!(answer.opcode, Opcode::RcAck);
        assert_eq!(
            AethKind::decode(answer.aeth.syndrome),
            AethKind::Nak(code),
            "syndrome"
        );
        assert_eq!(answer.psn, Psn::new(psn));
        assert_eq!(answer.aeth.msn, Msn::new(msn));
    }

    /// Gives the packets of a SEND and returns how the last of them ended.
    fn send(&mut self, service: Service, psn: u32, tail: SendTail, data: &[u8]) -> End {
        let mut end = End::Done(Disposition::Dropped);
        for (packet, payload) in send_packets(service, self.mtu, psn, tail, data) {
            end = self.give_with(packet, &payload);
        }
        end
    }

    /// Gives the packets of an RDMA WRITE and returns how the last of them ended.
    fn write(&mut self, service: Service, psn: u32, va: u64, key: Key, data: &[u8]) -> End {
        let mut end = End::Done(Disposition::Dropped);
        for (packet, payload) in write_packets(service, self.mtu, psn, va, key, None, data) {
            end = self.give_with(packet, &payload);
        }
        end
    }
}

#[track_caller]
fn assert_within(span: &RemoteSpan, range: &RemoteSpan) {
    assert_eq!(span.key, range.key);
    assert_eq!(span.access, range.access);
    let skipped = span.va.wrapping_sub(range.va);
    assert!(skipped <= u64::from(range.len), "{span:?} in {range:?}");
    assert!(
        u64::from(span.len) <= u64::from(range.len) - skipped,
        "{span:?} in {range:?}"
    );
}

fn atomic_on(bytes: &mut [u8], op: AtomicOp) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(bytes);
    let old = u64::from_ne_bytes(word);
    let new = match op {
        AtomicOp::CompareSwap { compare, swap } if compare == old => swap,
        AtomicOp::CompareSwap { .. } => old,
        AtomicOp::FetchAdd { add } => old.wrapping_add(add),
    };
    bytes.copy_from_slice(&new.to_ne_bytes());
    old
}

const EXECUTED: End = End::Done(Disposition::Executed);
const DUPLICATE: End = End::Done(Disposition::Duplicate);
const REFUSED: End = End::Done(Disposition::Refused);
const DROPPED: End = End::Done(Disposition::Dropped);
