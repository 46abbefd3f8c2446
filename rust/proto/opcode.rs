// SPDX-License-Identifier: GPL-2.0

//! The opcodes of the base transport header and what each of them implies.

#![forbid(unsafe_code)]

mod facts;

use facts::*;

/// The transport service that an opcode belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// Congestion notification, outside the transport services.
    Cnp,
}

/// What a packet is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Part of a SEND message.
    Send,
    /// Part of an RDMA WRITE message.
    Write,
    /// An RDMA READ request.
    ReadRequest,
    /// Part of the answer to an RDMA READ request.
    ReadResponse,
    /// A positive or negative acknowledgement.
    Ack,
    /// The answer to an atomic request.
    AtomicAck,
    /// A compare-and-swap request.
    CompareSwap,
    /// A fetch-and-add request.
    FetchAdd,
    /// A FLUSH request.
    Flush,
    /// An ATOMIC WRITE request.
    AtomicWrite,
    /// A congestion notification.
    Cnp,
}

/// The place of a packet in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Position {
    /// The first of several packets.
    First,
    /// Neither first nor last.
    Middle,
    /// The last of several packets.
    Last,
    /// The only packet.
    Only,
}

impl Position {
    /// Tells whether a message begins with this packet.
    pub const fn starts(self) -> bool {
        matches!(self, Self::First | Self::Only)
    }

    /// Tells whether a message ends with this packet.
    pub const fn ends(self) -> bool {
        matches!(self, Self::Last | Self::Only)
    }

    /// Returns the position of a packet from whether it is the first and whether it is the last.
    pub const fn of(first: bool, last: bool) -> Self {
        match (first, last) {
            (true, true) => Self::Only,
            (true, false) => Self::First,
            (false, true) => Self::Last,
            (false, false) => Self::Middle,
        }
    }
}

/// What the last packet of a SEND message carries besides data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SendTail {
    /// Nothing.
    None,
    /// An immediate value.
    Imm,
    /// A key to invalidate.
    Inv,
}

macro_rules! opcodes {
    ($($(#[$meta:meta])* $name:ident = $value:literal,)*) => {
        /// An opcode of the base transport header that this device understands.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Opcode {
            $($(#[$meta])* $name = $value,)*
        }

        impl Opcode {
            /// All opcodes, in ascending order.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];
        }
    };
}

opcodes! {
    /// RC: first packet of a SEND.
    RcSendFirst = 0x00,
    /// RC: middle packet of a SEND.
    RcSendMiddle = 0x01,
    /// RC: last packet of a SEND.
    RcSendLast = 0x02,
    /// RC: last packet of a SEND with immediate.
    RcSendLastImm = 0x03,
    /// RC: only packet of a SEND.
    RcSendOnly = 0x04,
    /// RC: only packet of a SEND with immediate.
    RcSendOnlyImm = 0x05,
    /// RC: first packet of a WRITE.
    RcWriteFirst = 0x06,
    /// RC: middle packet of a WRITE.
    RcWriteMiddle = 0x07,
    /// RC: last packet of a WRITE.
    RcWriteLast = 0x08,
    /// RC: last packet of a WRITE with immediate.
    RcWriteLastImm = 0x09,
    /// RC: only packet of a WRITE.
    RcWriteOnly = 0x0a,
    /// RC: only packet of a WRITE with immediate.
    RcWriteOnlyImm = 0x0b,
    /// RC: READ request.
    RcReadRequest = 0x0c,
    /// RC: first packet of a READ response.
    RcReadResponseFirst = 0x0d,
    /// RC: middle packet of a READ response.
    RcReadResponseMiddle = 0x0e,
    /// RC: last packet of a READ response.
    RcReadResponseLast = 0x0f,
    /// RC: only packet of a READ response.
    RcReadResponseOnly = 0x10,
    /// RC: acknowledgement, positive or negative.
    RcAck = 0x11,
    /// RC: answer to an atomic request.
    RcAtomicAck = 0x12,
    /// RC: compare and swap.
    RcCompareSwap = 0x13,
    /// RC: fetch and add.
    RcFetchAdd = 0x14,
    /// RC: last packet of a SEND with invalidate.
    RcSendLastInv = 0x16,
    /// RC: only packet of a SEND with invalidate.
    RcSendOnlyInv = 0x17,
    /// RC: FLUSH.
    RcFlush = 0x1c,
    /// RC: ATOMIC WRITE.
    RcAtomicWrite = 0x1d,
    /// UC: first packet of a SEND.
    UcSendFirst = 0x20,
    /// UC: middle packet of a SEND.
    UcSendMiddle = 0x21,
    /// UC: last packet of a SEND.
    UcSendLast = 0x22,
    /// UC: last packet of a SEND with immediate.
    UcSendLastImm = 0x23,
    /// UC: only packet of a SEND.
    UcSendOnly = 0x24,
    /// UC: only packet of a SEND with immediate.
    UcSendOnlyImm = 0x25,
    /// UC: first packet of a WRITE.
    UcWriteFirst = 0x26,
    /// UC: middle packet of a WRITE.
    UcWriteMiddle = 0x27,
    /// UC: last packet of a WRITE.
    UcWriteLast = 0x28,
    /// UC: last packet of a WRITE with immediate.
    UcWriteLastImm = 0x29,
    /// UC: only packet of a WRITE.
    UcWriteOnly = 0x2a,
    /// UC: only packet of a WRITE with immediate.
    UcWriteOnlyImm = 0x2b,
    /// UD: SEND.
    UdSendOnly = 0x64,
    /// UD: SEND with immediate.
    UdSendOnlyImm = 0x65,
    /// Congestion notification packet.
    Cnp = 0x81,
}

impl Opcode {
    /// Returns the byte on the wire.
    pub const fn byte(self) -> u8 {
        self as u8
    }

    /// Returns the opcode of a byte on the wire, or `None` for one that is not understood.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        // There is an entry for every byte.
        #[allow(clippy::indexing_slicing)]
        OPCODES[byte as usize]
    }

    /// Returns what is known of the opcode.
    const fn facts(self) -> &'static Facts {
        // There is an entry for every byte.
        #[allow(clippy::indexing_slicing)]
        &FACTS[self as u8 as usize]
    }

    /// Returns the transport service of the opcode.
    pub const fn service(self) -> Service {
        self.facts().service
    }

    /// Returns what the packet is about.
    pub const fn kind(self) -> Kind {
        self.facts().kind
    }

    /// Returns the place of the packet in its message.
    pub const fn position(self) -> Position {
        self.facts().position
    }

    /// Returns the length of the base header and all extended headers, in bytes.
    pub const fn header_len(self) -> u16 {
        self.facts().header_len
    }

    /// Tells whether the packet is for a responder.
    pub const fn is_request(self) -> bool {
        self.facts().has(REQUEST)
    }

    /// Tells whether the packet is for a requester.
    #[cfg(not(MODULE))]
    pub const fn is_response(self) -> bool {
        self.facts().has(RESPONSE)
    }

    /// Tells whether bytes may stand between the headers and the ICRC.
    pub const fn may_have_payload(self) -> bool {
        self.facts().has(PAYLOAD)
    }

    /// Tells whether any header follows the base header.
    pub const fn has_extended(self) -> bool {
        self.facts().has(EXTENDED)
    }

    /// Tells whether an immediate value follows.
    pub const fn has_imm(self) -> bool {
        self.facts().has(IMM)
    }

    /// Tells whether a key to invalidate follows.
    pub const fn has_ieth(self) -> bool {
        self.facts().has(IETH)
    }

    /// Tells whether an address, key and length follow.
    pub const fn has_reth(self) -> bool {
        self.facts().has(RETH)
    }

    /// Tells whether a syndrome and message number follow.
    pub const fn has_aeth(self) -> bool {
        self.facts().has(AETH)
    }

    /// Tells whether the operands of an atomic request follow.
    pub const fn has_atomic_eth(self) -> bool {
        self.facts().has(ATOMIC_ETH)
    }

    /// Tells whether the original value of an atomic operation follows.
    pub const fn has_atomic_ack_eth(self) -> bool {
        self.facts().has(ATOMIC_ACK_ETH)
    }

    /// Tells whether a queue key and source queue pair follow.
    pub const fn has_deth(self) -> bool {
        self.facts().has(DETH)
    }

    /// Tells whether the parameters of a FLUSH follow.
    pub const fn has_feth(self) -> bool {
        self.facts().has(FETH)
    }

    /// Returns the opcode of a packet of a SEND message.
    ///
    /// `tail` counts for packets that end a message. There is none for datagrams of several packets
    /// or for an invalidation outside RC.
    pub const fn send(service: Service, position: Position, tail: SendTail) -> Option<Self> {
        use Position::{First, Last, Middle, Only};
        use SendTail::{Imm, Inv, None as Plain};

        Some(match (service, position, tail) {
            (Service::Rc, First, _) => Self::RcSendFirst,
            (Service::Rc, Middle, _) => Self::RcSendMiddle,
            (Service::Rc, Last, Plain) => Self::RcSendLast,
            (Service::Rc, Last, Imm) => Self::RcSendLastImm,
            (Service::Rc, Last, Inv) => Self::RcSendLastInv,
            (Service::Rc, Only, Plain) => Self::RcSendOnly,
            (Service::Rc, Only, Imm) => Self::RcSendOnlyImm,
            (Service::Rc, Only, Inv) => Self::RcSendOnlyInv,
            (Service::Uc, First, Plain | Imm) => Self::UcSendFirst,
            (Service::Uc, Middle, Plain | Imm) => Self::UcSendMiddle,
            (Service::Uc, Last, Plain) => Self::UcSendLast,
            (Service::Uc, Last, Imm) => Self::UcSendLastImm,
            (Service::Uc, Only, Plain) => Self::UcSendOnly,
            (Service::Uc, Only, Imm) => Self::UcSendOnlyImm,
            (Service::Ud, Only, Plain) => Self::UdSendOnly,
            (Service::Ud, Only, Imm) => Self::UdSendOnlyImm,
            (Service::Uc, _, Inv) | (Service::Ud, _, _) | (Service::Cnp, _, _) => return None,
        })
    }

    /// Returns the opcode of a packet of a WRITE message.
    ///
    /// `imm` counts for packets that end a message. There is none for datagrams.
    pub const fn write(service: Service, position: Position, imm: bool) -> Option<Self> {
        use Position::{First, Last, Middle, Only};

        Some(match (service, position, imm) {
            (Service::Rc, First, _) => Self::RcWriteFirst,
            (Service::Rc, Middle, _) => Self::RcWriteMiddle,
            (Service::Rc, Last, false) => Self::RcWriteLast,
            (Service::Rc, Last, true) => Self::RcWriteLastImm,
            (Service::Rc, Only, false) => Self::RcWriteOnly,
            (Service::Rc, Only, true) => Self::RcWriteOnlyImm,
            (Service::Uc, First, _) => Self::UcWriteFirst,
            (Service::Uc, Middle, _) => Self::UcWriteMiddle,
            (Service::Uc, Last, false) => Self::UcWriteLast,
            (Service::Uc, Last, true) => Self::UcWriteLastImm,
            (Service::Uc, Only, false) => Self::UcWriteOnly,
            (Service::Uc, Only, true) => Self::UcWriteOnlyImm,
            (Service::Ud | Service::Cnp, _, _) => return None,
        })
    }

    /// Returns the opcode of a packet of a READ response.
    pub const fn read_response(position: Position) -> Self {
        match position {
            Position::First => Self::RcReadResponseFirst,
            Position::Middle => Self::RcReadResponseMiddle,
            Position::Last => Self::RcReadResponseLast,
            Position::Only => Self::RcReadResponseOnly,
        }
    }
}
