// SPDX-License-Identifier: GPL-2.0

//! The facts of the opcodes, in tables that are computed at compile time.

#![forbid(unsafe_code)]

use super::{
    Kind,
    Opcode,
    Position,
    Service, //
};

/// What is known of an opcode. In a table, because it is asked for several times for each packet and
/// the kernel's compiler may not make tables of its own.
#[derive(Clone, Copy)]
pub(super) struct Facts {
    pub(super) service: Service,
    pub(super) kind: Kind,
    pub(super) position: Position,
    pub(super) header_len: u16,
    bits: u16,
}

impl Facts {
    pub(super) const fn has(&self, bit: u16) -> bool {
        self.bits & bit != 0
    }
}

pub(super) const IMM: u16 = 1 << 0;
pub(super) const IETH: u16 = 1 << 1;
pub(super) const RETH: u16 = 1 << 2;
pub(super) const AETH: u16 = 1 << 3;
pub(super) const ATOMIC_ETH: u16 = 1 << 4;
pub(super) const ATOMIC_ACK_ETH: u16 = 1 << 5;
pub(super) const DETH: u16 = 1 << 6;
pub(super) const FETH: u16 = 1 << 7;
pub(super) const EXTENDED: u16 = 0xff;
pub(super) const REQUEST: u16 = 1 << 8;
pub(super) const RESPONSE: u16 = 1 << 9;
pub(super) const PAYLOAD: u16 = 1 << 10;

/// The opcode of each byte on the wire.
pub(super) const OPCODES: &[Option<Opcode>; 256] = &{
    let mut table = [None; 256];
    let mut rest = Opcode::ALL;
    while let [opcode, tail @ ..] = rest {
        // Computed at compile time.
        #[allow(clippy::indexing_slicing)]
        {
            table[*opcode as usize] = Some(*opcode);
        }
        rest = tail;
    }
    table
};

/// The facts of each opcode, by its byte on the wire.
pub(super) const FACTS: &[Facts; 256] = &{
    let mut table = [Opcode::Cnp.derive(); 256];
    let mut rest = Opcode::ALL;
    while let [opcode, tail @ ..] = rest {
        // Computed at compile time.
        #[allow(clippy::indexing_slicing)]
        {
            table[*opcode as usize] = opcode.derive();
        }
        rest = tail;
    }
    table
};

/// Where the table comes from.
impl Opcode {
    const fn derive(self) -> Facts {
        const fn bit(condition: bool, bit: u16) -> u16 {
            if condition {
                bit
            } else {
                0
            }
        }

        Facts {
            service: self.service_fact(),
            kind: self.kind_fact(),
            position: self.position_fact(),
            header_len: self.header_len_fact(),
            bits: bit(self.has_imm_fact(), IMM)
                | bit(self.has_ieth_fact(), IETH)
                | bit(self.has_reth_fact(), RETH)
                | bit(self.has_aeth_fact(), AETH)
                | bit(self.has_atomic_eth_fact(), ATOMIC_ETH)
                | bit(self.has_atomic_ack_eth_fact(), ATOMIC_ACK_ETH)
                | bit(self.has_deth_fact(), DETH)
                | bit(self.has_feth_fact(), FETH)
                | bit(self.is_request_fact(), REQUEST)
                | bit(self.is_response_fact(), RESPONSE)
                | bit(self.may_have_payload_fact(), PAYLOAD),
        }
    }

    const fn service_fact(self) -> Service {
        match self.byte() {
            0x00..=0x1f => Service::Rc,
            0x20..=0x3f => Service::Uc,
            0x40..=0x7f => Service::Ud,
            _ => Service::Cnp,
        }
    }

    const fn kind_fact(self) -> Kind {
        match self {
            Self::RcSendFirst
            | Self::RcSendMiddle
            | Self::RcSendLast
            | Self::RcSendLastImm
            | Self::RcSendOnly
            | Self::RcSendOnlyImm
            | Self::RcSendLastInv
            | Self::RcSendOnlyInv
            | Self::UcSendFirst
            | Self::UcSendMiddle
            | Self::UcSendLast
            | Self::UcSendLastImm
            | Self::UcSendOnly
            | Self::UcSendOnlyImm
            | Self::UdSendOnly
            | Self::UdSendOnlyImm => Kind::Send,
            Self::RcWriteFirst
            | Self::RcWriteMiddle
            | Self::RcWriteLast
            | Self::RcWriteLastImm
            | Self::RcWriteOnly
            | Self::RcWriteOnlyImm
            | Self::UcWriteFirst
            | Self::UcWriteMiddle
            | Self::UcWriteLast
            | Self::UcWriteLastImm
            | Self::UcWriteOnly
            | Self::UcWriteOnlyImm => Kind::Write,
            Self::RcReadRequest => Kind::ReadRequest,
            Self::RcReadResponseFirst
            | Self::RcReadResponseMiddle
            | Self::RcReadResponseLast
            | Self::RcReadResponseOnly => Kind::ReadResponse,
            Self::RcAck => Kind::Ack,
            Self::RcAtomicAck => Kind::AtomicAck,
            Self::RcCompareSwap => Kind::CompareSwap,
            Self::RcFetchAdd => Kind::FetchAdd,
            Self::RcFlush => Kind::Flush,
            Self::RcAtomicWrite => Kind::AtomicWrite,
            Self::Cnp => Kind::Cnp,
        }
    }

    const fn position_fact(self) -> Position {
        match self {
            Self::RcSendFirst
            | Self::RcWriteFirst
            | Self::RcReadResponseFirst
            | Self::UcSendFirst
            | Self::UcWriteFirst => Position::First,
            Self::RcSendMiddle
            | Self::RcWriteMiddle
            | Self::RcReadResponseMiddle
            | Self::UcSendMiddle
            | Self::UcWriteMiddle => Position::Middle,
            Self::RcSendLast
            | Self::RcSendLastImm
            | Self::RcSendLastInv
            | Self::RcWriteLast
            | Self::RcWriteLastImm
            | Self::RcReadResponseLast
            | Self::UcSendLast
            | Self::UcSendLastImm
            | Self::UcWriteLast
            | Self::UcWriteLastImm => Position::Last,
            Self::RcSendOnly
            | Self::RcSendOnlyImm
            | Self::RcSendOnlyInv
            | Self::RcWriteOnly
            | Self::RcWriteOnlyImm
            | Self::RcReadRequest
            | Self::RcReadResponseOnly
            | Self::RcAck
            | Self::RcAtomicAck
            | Self::RcCompareSwap
            | Self::RcFetchAdd
            | Self::RcFlush
            | Self::RcAtomicWrite
            | Self::UcSendOnly
            | Self::UcSendOnlyImm
            | Self::UcWriteOnly
            | Self::UcWriteOnlyImm
            | Self::UdSendOnly
            | Self::UdSendOnlyImm
            | Self::Cnp => Position::Only,
        }
    }

    const fn is_request_fact(self) -> bool {
        match self.kind_fact() {
            Kind::Send
            | Kind::Write
            | Kind::ReadRequest
            | Kind::CompareSwap
            | Kind::FetchAdd
            | Kind::Flush
            | Kind::AtomicWrite => true,
            Kind::ReadResponse | Kind::Ack | Kind::AtomicAck | Kind::Cnp => false,
        }
    }

    const fn is_response_fact(self) -> bool {
        matches!(
            self.kind_fact(),
            Kind::ReadResponse | Kind::Ack | Kind::AtomicAck
        )
    }

    const fn has_imm_fact(self) -> bool {
        matches!(
            self,
            Self::RcSendLastImm
                | Self::RcSendOnlyImm
                | Self::RcWriteLastImm
                | Self::RcWriteOnlyImm
                | Self::UcSendLastImm
                | Self::UcSendOnlyImm
                | Self::UcWriteLastImm
                | Self::UcWriteOnlyImm
                | Self::UdSendOnlyImm
        )
    }

    const fn has_ieth_fact(self) -> bool {
        matches!(self, Self::RcSendLastInv | Self::RcSendOnlyInv)
    }

    const fn has_reth_fact(self) -> bool {
        match self.kind_fact() {
            Kind::Write => self.position_fact().starts(),
            Kind::ReadRequest | Kind::Flush | Kind::AtomicWrite => true,
            Kind::Send
            | Kind::ReadResponse
            | Kind::Ack
            | Kind::AtomicAck
            | Kind::CompareSwap
            | Kind::FetchAdd
            | Kind::Cnp => false,
        }
    }

    const fn has_aeth_fact(self) -> bool {
        match self.kind_fact() {
            Kind::ReadResponse => !matches!(self.position_fact(), Position::Middle),
            Kind::Ack | Kind::AtomicAck => true,
            Kind::Send
            | Kind::Write
            | Kind::ReadRequest
            | Kind::CompareSwap
            | Kind::FetchAdd
            | Kind::Flush
            | Kind::AtomicWrite
            | Kind::Cnp => false,
        }
    }

    const fn has_atomic_eth_fact(self) -> bool {
        matches!(self, Self::RcCompareSwap | Self::RcFetchAdd)
    }

    const fn has_atomic_ack_eth_fact(self) -> bool {
        matches!(self, Self::RcAtomicAck)
    }

    const fn has_deth_fact(self) -> bool {
        matches!(self, Self::UdSendOnly | Self::UdSendOnlyImm)
    }

    const fn has_feth_fact(self) -> bool {
        matches!(self, Self::RcFlush)
    }

    const fn header_len_fact(self) -> u16 {
        const BTH: u16 = 12;
        match self {
            Self::RcSendFirst
            | Self::RcSendMiddle
            | Self::RcSendLast
            | Self::RcSendOnly
            | Self::UcSendFirst
            | Self::UcSendMiddle
            | Self::UcSendLast
            | Self::UcSendOnly
            | Self::RcWriteMiddle
            | Self::RcWriteLast
            | Self::UcWriteMiddle
            | Self::UcWriteLast
            | Self::RcReadResponseMiddle
            | Self::Cnp => BTH,
            Self::RcSendLastImm
            | Self::RcSendOnlyImm
            | Self::RcSendLastInv
            | Self::RcSendOnlyInv
            | Self::UcSendLastImm
            | Self::UcSendOnlyImm
            | Self::RcWriteLastImm
            | Self::UcWriteLastImm => BTH + 4,
            Self::RcWriteFirst
            | Self::RcWriteOnly
            | Self::UcWriteFirst
            | Self::UcWriteOnly
            | Self::RcReadRequest
            | Self::RcAtomicWrite => BTH + 16,
            Self::RcWriteOnlyImm | Self::UcWriteOnlyImm | Self::RcFlush => BTH + 16 + 4,
            Self::RcReadResponseFirst
            | Self::RcReadResponseLast
            | Self::RcReadResponseOnly
            | Self::RcAck => BTH + 4,
            Self::RcAtomicAck => BTH + 4 + 8,
            Self::RcCompareSwap | Self::RcFetchAdd => BTH + 28,
            Self::UdSendOnly => BTH + 8,
            Self::UdSendOnlyImm => BTH + 8 + 4,
        }
    }

    const fn may_have_payload_fact(self) -> bool {
        match self.kind_fact() {
            // A notification has 16 reserved bytes after its header.
            Kind::Send | Kind::Write | Kind::ReadResponse | Kind::AtomicWrite | Kind::Cnp => true,
            Kind::ReadRequest
            | Kind::Ack
            | Kind::AtomicAck
            | Kind::CompareSwap
            | Kind::FetchAdd
            | Kind::Flush => false,
        }
    }
}
