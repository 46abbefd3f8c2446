// SPDX-License-Identifier: GPL-2.0

//! Gathers consecutive packets of one message, for engines that take them at once.
//!
//! A [`Run`] begins with any packet. It grows by the packet that continues the message, up to the
//! end of the message. The engines take its headers as those of one packet that would carry all of
//! the payload; the payload itself is kept by the caller, in order.

#![forbid(unsafe_code)]

use super::aeth::AethKind;
use super::num::Mtu;
use super::opcode::{
    Kind,
    Opcode,
    Position,
    SendTail, //
};
use super::packet::PacketInfo;

/// Consecutive packets of one SEND, RDMA WRITE or answer to an RDMA READ; or any one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    packet: PacketInfo,
    packets: u32,
}

// The driver gives and takes single packets so far.
#[allow(dead_code)]
impl Run {
    /// Begins a run with its first packet.
    pub const fn new(packet: &PacketInfo) -> Self {
        Self {
            packet: *packet,
            packets: 1,
        }
    }

    /// Returns the headers of one packet that would carry all of it.
    ///
    /// The opcode has the position of the whole in its message, the sequence number is that of the
    /// first packet, an acknowledgement is asked for if any packet does, and everything else is
    /// from the packet that has it.
    pub const fn packet(&self) -> &PacketInfo {
        &self.packet
    }

    /// Returns the number of packets: at least one.
    pub const fn packets(&self) -> u32 {
        self.packets
    }

    /// Tells whether the run cannot grow any more, whatever follows.
    pub fn is_complete(&self) -> bool {
        self.packet.opcode.position().ends()
    }

    /// Adds the next packet that has arrived. Returns false, with nothing changed, if it does not
    /// continue the message, or if the packets before it are not as long as `mtu`.
    pub fn push(&mut self, next: &PacketInfo, mtu: Mtu) -> bool {
        let run = &self.packet;
        let (here, there) = (run.opcode.position(), next.opcode.position());
        let continues = !here.ends()
            && !there.starts()
            && next.psn == run.psn.wrapping_add(self.packets)
            && next.opcode.kind() == run.opcode.kind()
            && next.opcode.service() == run.opcode.service()
            && next.dest_qpn == run.dest_qpn
            && next.pkey == run.pkey;
        // Only the last packet of a message may be shorter, and none is longer.
        let lengths = Some(run.payload_len) == mtu.bytes().checked_mul(self.packets)
            && (next.payload_len == mtu.bytes() || there.ends() && next.payload_len <= mtu.bytes());
        if !continues || !lengths {
            return false;
        }

        let position = Position::of(here.starts(), there.ends());
        let service = run.opcode.service();
        let opcode = match run.opcode.kind() {
            Kind::Send if next.opcode.has_imm() => Opcode::send(service, position, SendTail::Imm),
            Kind::Send if next.opcode.has_ieth() => Opcode::send(service, position, SendTail::Inv),
            Kind::Send => Opcode::send(service, position, SendTail::None),
            Kind::Write => Opcode::write(service, position, next.opcode.has_imm()),
            Kind::ReadResponse if is_positive(run) && is_positive(next) => {
                Some(Opcode::read_response(position))
            }
            Kind::ReadResponse
            | Kind::ReadRequest
            | Kind::Ack
            | Kind::AtomicAck
            | Kind::CompareSwap
            | Kind::FetchAdd
            | Kind::Flush
            | Kind::AtomicWrite
            | Kind::Cnp => None,
        };
        let (Some(opcode), Some(len)) = (opcode, run.payload_len.checked_add(next.payload_len))
        else {
            return false;
        };

        let run = &mut self.packet;
        run.opcode = opcode;
        run.header_len = opcode.header_len();
        run.set_payload_len(len);
        run.ack_req |= next.ack_req;
        run.solicited |= next.solicited;
        run.fecn |= next.fecn;
        run.becn |= next.becn;
        if next.opcode.has_imm() {
            run.imm = next.imm;
        }
        if next.opcode.has_ieth() {
            run.ieth = next.ieth;
        }
        if next.opcode.has_aeth() {
            run.aeth = next.aeth;
        }
        self.packets = self.packets.wrapping_add(1);
        true
    }
}

/// Tells whether a response with data does not refuse the request. Middle responses cannot.
pub(super) fn is_positive(packet: &PacketInfo) -> bool {
    !packet.opcode.has_aeth()
        || matches!(AethKind::decode(packet.aeth.syndrome), AethKind::Ack { .. })
}

#[cfg(test)]
mod tests {
    use super::super::{
        aeth::NakCode,
        num::{
            Key,
            Qpn, //
        },
        opcode::Service,
        packet::Reth,
        psn::Psn,
        wire::Imm, //
    };
    use super::*;
    use std::vec::Vec;

    const MTU: Mtu = Mtu::B256;

    /// The packets of a message that ends with a packet of `last` bytes.
    fn message(count: u32, last: u32, opcode: impl Fn(Position) -> Opcode) -> Vec<PacketInfo> {
        (0..count)
            .map(|i| {
                let ends = i == count - 1;
                let mut packet = PacketInfo::new(opcode(Position::of(i == 0, ends)));
                packet.psn = Psn::new(0xff_fffe).wrapping_add(i);
                packet.dest_qpn = Qpn::new(7);
                packet.set_payload_len(if ends { last } else { MTU.bytes() });
                packet.ack_req = ends;
                packet.solicited = ends;
                if packet.opcode.has_imm() {
                    packet.imm = Imm([1, 2, 3, 4]);
                }
                if packet.opcode.has_ieth() {
                    packet.ieth = Key::new(9);
                }
                if packet.opcode.has_reth() {
                    packet.reth = Reth {
                        va: 1,
                        key: Key::new(2),
                        len: (count - 1) * MTU.bytes() + last,
                    };
                }
                if packet.opcode.has_aeth() {
                    packet.aeth.syndrome = AethKind::ACK.encode();
                }
                packet
            })
            .collect()
    }

    fn send(tail: SendTail) -> impl Fn(Position) -> Opcode {
        move |position| {
            let tail = if position.ends() {
                tail
            } else {
                SendTail::None
            };
            Opcode::send(Service::Rc, position, tail).unwrap()
        }
    }

    fn write(imm: bool) -> impl Fn(Position) -> Opcode {
        move |position| Opcode::write(Service::Uc, position, imm && position.ends()).unwrap()
    }

    #[test]
    fn a_whole_message_becomes_its_only_packet() {
        for (count, last) in [(2, 1), (2, 256), (9, 0), (100, 77)] {
            let opcodes: [&dyn Fn(Position) -> Opcode; 6] = [
                &send(SendTail::None),
                &send(SendTail::Imm),
                &send(SendTail::Inv),
                &write(false),
                &write(true),
                &Opcode::read_response,
            ];
            for opcode in opcodes {
                let packets = message(count, last, opcode);
                let mut run = Run::new(&packets[0]);
                for packet in &packets[1..] {
                    assert!(!run.is_complete());
                    assert!(run.push(packet, MTU));
                }
                assert!(run.is_complete());
                assert_eq!(run.packets(), count);

                let mut only = message(1, 0, opcode)[0];
                only.set_payload_len((count - 1) * MTU.bytes() + last);
                if only.opcode.has_reth() {
                    only.reth.len = only.payload_len;
                }
                assert_eq!(*run.packet(), only);
            }
        }
    }

    #[test]
    fn parts_of_a_message_keep_their_position() {
        let packets = message(6, 5, send(SendTail::Imm));
        let run = |range: core::ops::Range<usize>| {
            let mut run = Run::new(&packets[range.start]);
            for packet in &packets[range.start + 1..range.end] {
                assert!(run.push(packet, MTU));
            }
            run.packet().opcode
        };
        assert_eq!(run(0..3), Opcode::RcSendFirst);
        assert_eq!(run(1..4), Opcode::RcSendMiddle);
        assert_eq!(run(3..6), Opcode::RcSendLastImm);
    }

    #[test]
    fn what_does_not_continue_the_message_is_refused() {
        let packets = message(4, 5, send(SendTail::None));
        let start = Run::new(&packets[0]);
        let refused = |mut run: Run, next: &PacketInfo| {
            let before = run;
            assert!(!run.push(next, MTU));
            assert_eq!(run, before);
        };

        refused(start, &packets[0]);
        refused(start, &packets[2]);
        for change in [
            |p: &mut PacketInfo| p.opcode = Opcode::RcWriteMiddle,
            |p: &mut PacketInfo| p.opcode = Opcode::UcSendMiddle,
            |p: &mut PacketInfo| p.opcode = Opcode::RcSendOnly,
            |p: &mut PacketInfo| p.payload_len = 255,
            |p: &mut PacketInfo| p.payload_len = 260,
            |p: &mut PacketInfo| p.dest_qpn = Qpn::new(8),
            |p: &mut PacketInfo| p.pkey = 1,
        ] {
            let mut next = packets[1];
            change(&mut next);
            refused(start, &next);
        }

        // A short packet before the end, and a run that has ended.
        let mut short = packets[0];
        short.set_payload_len(100);
        refused(Run::new(&short), &packets[1]);
        refused(Run::new(&packets[3]), &packets[0]);
    }

    #[test]
    fn a_refusing_read_response_is_not_hidden() {
        let mut packets = message(2, 5, Opcode::read_response);
        packets[0].aeth.syndrome = AethKind::Nak(NakCode::RemoteAccess).encode();
        assert!(!Run::new(&packets[0]).push(&packets[1], MTU));
    }

    #[test]
    fn requests_of_one_packet_do_not_grow() {
        let mut next = PacketInfo::new(Opcode::RcFetchAdd);
        next.psn = Psn::new(1);
        for opcode in [Opcode::RcReadRequest, Opcode::RcAck, Opcode::RcSendOnly] {
            assert!(!Run::new(&PacketInfo::new(opcode)).push(&next, MTU));
        }
    }
}
