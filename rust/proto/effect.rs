// SPDX-License-Identifier: GPL-2.0

//! What a responder asks its caller to do, and what the caller answers.
//!
//! The caller gives the responder one [`Input`] and gets one [`Effect`]. It performs the effect and
//! gives its outcome back as the next input, until the effect is [`Effect::Done`] or
//! [`Effect::Fatal`]. Between two steps it may drop locks, sleep, or stop and go on later.
//!
//! | effect | answered by |
//! |---|---|
//! | `TakeRecv` | `Recv` |
//! | `Check`, `StoreRecv`, `StoreGrh`, `StoreRemote`, `AtomicWrite`, `Flush`, `Invalidate` | `Access` |
//! | `Atomic` | `AtomicValue` |
//! | `Send` | `Sent`, or `Access(Err(_))` when payload could not be read and nothing was sent |
//! | `Complete` | `Completed` |
//! | `Event` | `Sent` |
//! | `Fatal`, `Done` | nothing: the packet is finished with |

#![forbid(unsafe_code)]

use super::{
    memkey::Access,
    num::{
        Key,
        Mtu,
        Qpn, //
    },
    opcode::Opcode,
    packet::PacketInfo,
    psn::{
        Msn,
        Psn, //
    },
    status::{
        AccessFault,
        CqOverflow,
        QpEvent,
        QpFault,
        WcOpcode,
        WcStatus, //
    },
    wire::Imm, //
};

/// A packet, or what came of the last effect.
#[derive(Clone, Copy, Debug)]
pub enum Input<'p> {
    /// The next request packet. Given only when the one before is finished with.
    Packet(&'p PacketInfo),
    /// Consecutive packets of one SEND or RDMA WRITE message at once, each but the message's last as
    /// long as the path MTU.
    ///
    /// What cannot simply be executed is answered with [`Disposition::Split`], with nothing changed:
    /// the packets are then to be given one by one.
    // The driver gives single packets so far.
    #[allow(dead_code)]
    Run {
        /// The headers of one packet that would carry all of it. The opcode has the position of the
        /// whole in the message, `psn` is that of the first packet, `ack_req` is set if it is set in
        /// any; the rest is from the packet that has it.
        packet: &'p PacketInfo,
        /// The number of packets.
        packets: u32,
    },
    /// What the receive queue had to offer.
    Recv(Result<RecvTaken, RecvFault>),
    /// Whether memory could be accessed as asked.
    Access(Result<(), AccessFault>),
    /// The value that an atomic operation found.
    AtomicValue(Result<u64, AccessFault>),
    /// The packet was sent, or lost as the network may lose it; or the event was reported.
    Sent,
    /// Whether the completion queue took the completion.
    Completed(Result<(), CqOverflow>),
}

/// A receive work request that was taken off its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvTaken {
    /// The consumer's name for the work request.
    pub wr_id: u64,
    /// The bytes that its scatter list has room for.
    pub length: u32,
}

/// Why no receive work request could be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvFault {
    /// None is posted.
    Empty,
    /// The next one was taken but makes no sense, such as one with more elements than allowed.
    Malformed {
        /// The consumer's name for the work request.
        wr_id: u64,
    },
}

/// A range of memory that a peer names by key, and what is to be done there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteSpan {
    /// The address of the first byte, as the key's region or window counts.
    pub va: u64,
    /// The key, unchecked.
    pub key: Key,
    /// The number of bytes.
    pub len: u32,
    /// The rights that the key has to grant.
    pub access: Access,
}

/// An atomic operation on 8 bytes of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOp {
    /// Store `swap` if the value equals `compare`.
    CompareSwap {
        /// The value that is expected.
        compare: u64,
        /// The value that replaces it.
        swap: u64,
    },
    /// Add to the value, modulo 2^64.
    FetchAdd {
        /// The number that is added.
        add: u64,
    },
}

/// What a FLUSH covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushLevel {
    /// The range that the request names, which may be empty.
    Range,
    /// All of the region.
    Region,
}

/// The next thing to do for the current packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Effect {
    /// Take the next receive work request off the receive queue, shared or not. It stays the current
    /// one, over several packets if need be, until a completion names it or
    /// [`flush`](super::responder::Responder::flush) gives it back.
    TakeRecv,
    /// Find out whether all of the span may be accessed, without accessing it.
    Check {
        /// The whole range of the message.
        span: RemoteSpan,
    },
    /// Copy the packet's payload to the current receive work request.
    StoreRecv {
        /// The distance from the start of the scatter list, in bytes.
        offset: u32,
        /// The length of the payload. `offset + len` is within the work request.
        len: u32,
    },
    /// Copy the 40-byte network header of the packet to the start of the current receive work
    /// request, which is large enough.
    StoreGrh,
    /// Copy the packet's payload, as long as the span, to remotely accessible memory.
    StoreRemote {
        /// The part of the message's range that this packet fills.
        span: RemoteSpan,
    },
    /// Perform an atomic operation on 8 aligned bytes.
    Atomic {
        /// The 8 bytes.
        span: RemoteSpan,
        /// The operation.
        op: AtomicOp,
    },
    /// Store the packet's 8 bytes of payload in one access to 8 aligned bytes.
    AtomicWrite {
        /// The 8 bytes.
        span: RemoteSpan,
    },
    /// Make earlier writes visible, persistent or both; the rights of the span tell which.
    Flush {
        /// The range. At the level of a region only the key and the rights count.
        span: RemoteSpan,
        /// What the request covers.
        level: FlushLevel,
    },
    /// Invalidate the region or window that the peer names.
    Invalidate(Key),
    /// Send a packet, or a run of them if the caller has [asked] for runs.
    ///
    /// [asked]: super::responder::Responder::set_response_run
    Send(Reply),
    /// Give a completion to the receive completion queue.
    Complete(RecvCompletion),
    /// Report an asynchronous event of the queue pair.
    Event(QpEvent),
    /// Move the queue pair to the error state. The packet is finished with, and the responder
    /// accepts no more.
    Fatal(QpFault),
    /// The packet is finished with.
    Done(Disposition),
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// It was executed.
    Executed,
    /// It had been executed before; the answer was repeated.
    Duplicate,
    /// It was not executed and the peer was told so: out of sequence or receiver not ready.
    Refused,
    /// It was not executed and nobody was told.
    Dropped,
    /// It is a run, and its packets are to be given one by one.
    Split,
}

/// A packet to send in answer to a request, or consecutive packets of the answer to a READ.
///
/// Only what differs from answer to answer is kept, so that effects stay small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The opcode of the first packet.
    pub opcode: Opcode,
    /// The opcode of the last packet. Any in between are middle packets.
    pub last_opcode: Opcode,
    /// The number of packets: at least one.
    pub packets: u32,
    /// The payload of each packet but the last.
    pub mtu: Mtu,
    /// The syndrome, if the opcode has one.
    pub syndrome: u8,
    /// The partition key.
    pub pkey: u16,
    /// The peer's queue pair.
    pub dest_qpn: Qpn,
    /// The sequence number of the first packet.
    pub psn: Psn,
    /// The number of messages executed, if the opcode carries it.
    pub msn: Msn,
    /// The value that an atomic operation found, if the opcode carries it.
    pub orig: u64,
    /// Where the payload of all packets comes from. The memory is read when the packets are built,
    /// and the rights are checked then.
    pub payload: Option<RemoteSpan>,
}

impl Reply {
    /// Returns the headers of the packet, or of the first.
    pub fn header(&self) -> PacketInfo {
        self.header_of(0)
    }

    /// Returns the headers of packet number `index`, from zero.
    ///
    /// Its payload begins `index` times the MTU after that of the first.
    pub fn header_of(&self, index: u32) -> PacketInfo {
        let before = index.wrapping_shl(self.mtu.shift());
        let len = self.payload.map_or(0, |span| span.len);
        let is_last = index.wrapping_add(1) >= self.packets;
        let opcode = match (index, is_last) {
            (0, _) => self.opcode,
            (_, true) => self.last_opcode,
            (_, false) => Opcode::RcReadResponseMiddle,
        };

        let mut header = PacketInfo::new(opcode);
        header.dest_qpn = self.dest_qpn;
        header.psn = self.psn.wrapping_add(index);
        header.pkey = self.pkey;
        header.set_payload_len(len.saturating_sub(before).min(self.mtu.bytes()));
        if opcode.has_aeth() {
            header.aeth.syndrome = self.syndrome;
            header.aeth.msn = self.msn;
        }
        if opcode.has_atomic_ack_eth() {
            header.orig = self.orig;
        }
        header
    }
}

/// A completion of a receive work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvCompletion {
    /// The consumer's name for the work request.
    pub wr_id: u64,
    /// How the work request ended. The fields below count only for success.
    pub status: WcStatus,
    /// What completed it.
    pub opcode: WcOpcode,
    /// The length of the message. A datagram's includes the 40 bytes of network header.
    pub byte_len: u32,
    /// The immediate value, in network order.
    pub imm: Option<Imm>,
    /// The key that was invalidated.
    pub inv: Option<Key>,
    /// Whether a consumer that waits for solicited completions only is to be woken. Set for errors.
    pub solicited: bool,
    /// The queue pair that sent a datagram.
    pub src_qpn: Qpn,
    /// Whether the packet had a network header, which over UDP is always.
    pub grh: bool,
    /// The index of the partition key. There is only one.
    pub pkey_index: u16,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_are_small() {
        assert!(core::mem::size_of::<Effect>() <= 80);
        assert!(core::mem::size_of::<Input<'_>>() <= 32);
    }
}
