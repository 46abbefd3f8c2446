// SPDX-License-Identifier: GPL-2.0

//! Checks of a request that need no memory and no state but what they are given.

#![forbid(unsafe_code)]

use super::{
    super::{
        effect::FlushLevel,
        memkey::Access,
        num::Mtu,
        opcode::{
            Kind,
            Opcode,
            Position, //
        },
        packet::{
            pad_of,
            PacketInfo, //
        },
    },
    Message,
};

/// The longest message, in bytes.
const MAX_MESSAGE: u32 = 1 << 31;

/// The size of the operand of an atomic operation.
pub(super) const OPERAND: u32 = 8;

/// Placement types of a FLUSH (`enum ib_flush_type`).
const FLUSH_GLOBAL: u8 = 1;
const FLUSH_PERSISTENT: u8 = 2;

/// Tells whether a packet with this opcode may follow what was received of a message.
pub(super) fn continues(message: Message, opcode: Opcode) -> bool {
    match (message, opcode.position().starts()) {
        (Message::None, starts) => starts,
        (Message::Send | Message::Write, true) => false,
        (Message::Send, false) => opcode.kind() == Kind::Send,
        (Message::Write, false) => opcode.kind() == Kind::Write,
    }
}

/// Tells whether a queue pair with these rights accepts the operation.
pub(super) fn granted(packet: &PacketInfo, access: Access) -> bool {
    match packet.opcode.kind() {
        Kind::Send => true,
        Kind::Write | Kind::AtomicWrite => access.contains(Access::REMOTE_WRITE),
        Kind::ReadRequest => access.contains(Access::REMOTE_READ),
        Kind::CompareSwap | Kind::FetchAdd => access.contains(Access::REMOTE_ATOMIC),
        Kind::Flush => match flush_placement(packet) {
            Some(placement) => access.contains(placement),
            None => false,
        },
        Kind::ReadResponse | Kind::Ack | Kind::AtomicAck | Kind::Cnp => false,
    }
}

/// Returns the rights that a FLUSH needs, or `None` if it has a reserved placement type.
pub(super) fn flush_placement(packet: &PacketInfo) -> Option<Access> {
    match packet.feth.placement {
        FLUSH_GLOBAL => Some(Access::FLUSH_GLOBAL),
        FLUSH_PERSISTENT => Some(Access::FLUSH_PERSISTENT),
        both if both == FLUSH_GLOBAL | FLUSH_PERSISTENT => Some(Access::FLUSH),
        _ => None,
    }
}

/// Returns what a FLUSH covers, or `None` if it has a reserved selectivity level.
pub(super) fn flush_level(packet: &PacketInfo) -> Option<FlushLevel> {
    match packet.feth.level {
        0 => Some(FlushLevel::Range),
        1 => Some(FlushLevel::Region),
        _ => None,
    }
}

/// Tells whether the packet has the payload that its place in the message calls for, and whether the
/// length of the message is one there can be. The packet may stand for several.
///
/// For RC and UC. A datagram is only held to the size of the receive buffer (IBA C9-92).
pub(super) fn length(packet: &PacketInfo, packets: u32, mtu: Mtu) -> bool {
    let opcode = packet.opcode;
    let len = packet.payload_len;

    // IBA C9-94.
    if opcode.has_reth() && packet.reth.len > MAX_MESSAGE {
        return false;
    }
    if !opcode.may_have_payload() {
        return len == 0;
    }
    if packet.pad != pad_of(len) {
        return false;
    }
    // What all packets but the last carry.
    let Some(before) = packets.wrapping_sub(1).checked_mul(mtu.bytes()) else {
        return false;
    };
    let Some(of_last) = len.checked_sub(before) else {
        return false;
    };
    match opcode.position() {
        Position::First | Position::Middle => of_last == mtu.bytes(),
        Position::Last => 0 < of_last && of_last <= mtu.bytes(),
        Position::Only => (packets == 1 || 0 < of_last) && of_last <= mtu.bytes(),
    }
}

/// Tells whether the payload of an RDMA WRITE packet is what is left of the message, or of a packet
/// that is not the last one, less.
pub(super) fn write_length(packet: &PacketInfo, left: u32) -> bool {
    if packet.opcode.position().ends() {
        packet.payload_len == left
    } else {
        packet.payload_len < left
    }
}

/// Tells whether an ATOMIC WRITE has exactly its operand for payload (IBA oA19-28).
pub(super) fn atomic_write_length(packet: &PacketInfo) -> bool {
    packet.reth.len == OPERAND && packet.payload_len == OPERAND && packet.pad == 0
}

/// Tells whether an operand may be at this address.
pub(super) fn aligned(va: u64) -> bool {
    va % 8 == 0
}
