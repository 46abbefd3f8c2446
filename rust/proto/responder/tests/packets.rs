// SPDX-License-Identifier: GPL-2.0

//! Request packets as a correct requester makes them.

use super::*;

/// Returns recognisable bytes.
pub(super) fn pattern(len: u32, seed: u32) -> Vec<u8> {
    (0..len)
        .map(|i| (i.wrapping_mul(31).wrapping_add(seed) >> 2) as u8)
        .collect()
}

/// Returns a packet with its sequence number, asking for an acknowledgement if it ends a message.
pub(super) fn packet(opcode: Opcode, psn: u32) -> PacketInfo {
    let mut packet = PacketInfo::new(opcode);
    packet.psn = Psn::new(psn);
    packet.ack_req = opcode.position().ends();
    packet
}

/// Cuts a message into the payloads of its packets.
fn segments(mtu: u32, data: &[u8]) -> Vec<(Position, &[u8])> {
    let chunks: Vec<&[u8]> = if data.is_empty() {
        vec![data]
    } else {
        data.chunks(mtu as usize).collect()
    };
    let last = chunks.len() - 1;
    let mut out = Vec::new();
    for (i, chunk) in chunks.into_iter().enumerate() {
        out.push((Position::of(i == 0, i == last), chunk));
    }
    out
}

pub(super) fn send_packets(
    service: Service,
    mtu: u32,
    psn: u32,
    tail: SendTail,
    data: &[u8],
) -> Vec<(PacketInfo, Vec<u8>)> {
    let mut out = Vec::new();
    for (i, (position, chunk)) in segments(mtu, data).into_iter().enumerate() {
        let opcode = Opcode::send(service, position, tail).expect("an opcode");
        let mut info = packet(opcode, psn.wrapping_add(i as u32));
        info.set_payload_len(chunk.len() as u32);
        out.push((info, chunk.to_vec()));
    }
    out
}

pub(super) fn write_packets(
    service: Service,
    mtu: u32,
    psn: u32,
    va: u64,
    key: Key,
    imm: Option<Imm>,
    data: &[u8],
) -> Vec<(PacketInfo, Vec<u8>)> {
    let mut out = Vec::new();
    for (i, (position, chunk)) in segments(mtu, data).into_iter().enumerate() {
        let opcode = Opcode::write(service, position, imm.is_some()).expect("an opcode");
        let mut info = packet(opcode, psn.wrapping_add(i as u32));
        info.set_payload_len(chunk.len() as u32);
        if opcode.has_reth() {
            info.reth.va = va;
            info.reth.key = key;
            info.reth.len = data.len() as u32;
        }
        if opcode.has_imm() {
            info.imm = imm.expect("an immediate");
        }
        out.push((info, chunk.to_vec()));
    }
    out
}

pub(super) fn read_request(psn: u32, va: u64, key: Key, len: u32) -> PacketInfo {
    let mut info = packet(Opcode::RcReadRequest, psn);
    info.reth.va = va;
    info.reth.key = key;
    info.reth.len = len;
    info
}

/// Puts consecutive packets of one message into one.
pub(super) fn merge(packets: &[(PacketInfo, Vec<u8>)]) -> (PacketInfo, Vec<u8>) {
    let first = &packets.first().expect("a packet").0;
    let last = &packets.last().expect("a packet").0;
    let service = first.opcode.service();
    let position = Position::of(
        first.opcode.position().starts(),
        last.opcode.position().ends(),
    );
    let opcode = if first.opcode.kind() == Kind::Write {
        Opcode::write(service, position, last.opcode.has_imm())
    } else if last.opcode.has_ieth() {
        Opcode::send(service, position, SendTail::Inv)
    } else if last.opcode.has_imm() {
        Opcode::send(service, position, SendTail::Imm)
    } else {
        Opcode::send(service, position, SendTail::None)
    };
    let payload: Vec<u8> = packets.iter().flat_map(|(_, one)| one.clone()).collect();
    let mut info = PacketInfo::new(opcode.expect("an opcode"));
    info.psn = first.psn;
    info.reth = first.reth;
    info.imm = last.imm;
    info.ieth = last.ieth;
    info.solicited = last.solicited;
    info.ack_req = packets.iter().any(|(one, _)| one.ack_req);
    info.set_payload_len(payload.len() as u32);
    (info, payload)
}
