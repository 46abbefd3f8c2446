// SPDX-License-Identifier: GPL-2.0

//! Between the bytes of a packet and its meaning.
//!
//! A packet here begins at the base transport header (the UDP payload) and ends with the ICRC.

#![forbid(unsafe_code)]

use super::counters::DropReason;
use super::num::{
    Key,
    Qpn, //
};
use super::opcode::Opcode;
use super::psn::{
    Msn,
    Psn, //
};
use super::wire::{
    AethHdr,
    AtomicAckEthHdr,
    AtomicEthHdr,
    Bth,
    DethHdr,
    FethHdr,
    IethHdr,
    Imm,
    RethHdr,
    BTH_LEN,
    DEFAULT_PKEY,
    ICRC_LEN, //
};
use zerocopy::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned, //
};

/// What an RDMA request refers to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reth {
    /// Address in the remote region.
    pub va: u64,
    /// Remote key.
    pub key: Key,
    /// Length of the message in bytes.
    pub len: u32,
}

/// An acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aeth {
    /// Positive, negative or not ready; see [`super::aeth`].
    pub syndrome: u8,
    /// Number of messages the responder has completed.
    pub msn: Msn,
}

/// The operands of an atomic request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtomicEth {
    /// Address in the remote region.
    pub va: u64,
    /// Remote key.
    pub key: Key,
    /// Value to store or to add.
    pub swap_add: u64,
    /// Value to compare with.
    pub compare: u64,
}

/// The addressing of a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deth {
    /// Queue key that the destination must have.
    pub qkey: u32,
    /// Queue pair that sent the datagram.
    pub src_qpn: Qpn,
}

/// The parameters of a FLUSH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feth {
    /// Placement type, four bits (`enum ib_flush_type`).
    pub placement: u8,
    /// Selectivity level, two bits (`enum ib_flush_level`).
    pub level: u8,
}

/// Everything the headers of a packet say.
///
/// Fields of headers that the opcode does not have are zero in a parsed packet and are ignored when
/// a packet is emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketInfo {
    /// Opcode.
    pub opcode: Opcode,
    /// The responder should raise a solicited event.
    pub solicited: bool,
    /// Migration state.
    pub mig_req: bool,
    /// The responder shall acknowledge.
    pub ack_req: bool,
    /// Forward congestion notification.
    pub fecn: bool,
    /// Backward congestion notification.
    pub becn: bool,
    /// Number of bytes that fill the payload up to a multiple of four: 0 to 3.
    pub pad: u8,
    /// Partition key.
    pub pkey: u16,
    /// Destination queue pair.
    pub dest_qpn: Qpn,
    /// Sequence number.
    pub psn: Psn,
    /// RDMA header.
    pub reth: Reth,
    /// Acknowledge header.
    pub aeth: Aeth,
    /// Atomic header.
    pub atomic: AtomicEth,
    /// Value before an atomic operation.
    pub orig: u64,
    /// Datagram header.
    pub deth: Deth,
    /// Immediate value.
    pub imm: Imm,
    /// Key to invalidate.
    pub ieth: Key,
    /// FLUSH header.
    pub feth: Feth,
    /// Length of the payload without pad, in bytes.
    pub payload_len: u32,
    /// Length of all headers, in bytes; always that of `opcode`.
    pub header_len: u16,
}

/// What the first look at a packet tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peek {
    /// Opcode.
    pub opcode: Opcode,
    /// Destination queue pair.
    pub dest_qpn: Qpn,
    /// Sequence number.
    pub psn: Psn,
    /// Partition key.
    pub pkey: u16,
}

/// Takes a header off the front of `rest`.
fn take<'a, T>(rest: &mut &'a [u8]) -> Result<&'a T, DropReason>
where
    T: FromBytes + Immutable + KnownLayout + Unaligned,
{
    let (header, tail) = T::ref_from_prefix(rest).map_err(|_| DropReason::Truncated)?;
    *rest = tail;
    Ok(header)
}

/// Room for the headers of a packet, filled from the front.
struct Output<'a> {
    rest: &'a mut [u8],
}

impl Output<'_> {
    /// Adds a header, or returns `None` if there is no room for it.
    fn put<T: IntoBytes + Immutable>(&mut self, header: &T) -> Option<()> {
        let bytes = header.as_bytes();
        let (front, tail) = core::mem::take(&mut self.rest).split_at_mut_checked(bytes.len())?;
        front.copy_from_slice(bytes);
        self.rest = tail;
        Some(())
    }
}

/// Reads as much of a packet, ICRC included, as it takes to find its queue pair.
///
/// What this refuses [`PacketInfo::parse`] refuses too, for the same reason, and the other way round: a
/// packet that a queue pair is given has the lengths that its opcode calls for.
///
/// # Errors
///
/// The reason to count if the packet is too short for its headers, pad and ICRC, has a payload where
/// there is none, is of another version or of an unknown opcode.
#[inline]
pub fn peek(packet: &[u8]) -> Result<Peek, DropReason> {
    let after_headers = |header_len: u16| {
        packet
            .len()
            .checked_sub(usize::from(header_len).wrapping_add(ICRC_LEN))
            .ok_or(DropReason::Truncated)
    };
    after_headers(BTH_LEN as u16)?;
    let mut rest = packet;
    let bth: &Bth = take(&mut rest)?;

    if bth.flags & Bth::TVER != 0 {
        return Err(DropReason::BadVersion);
    }
    let opcode = Opcode::from_byte(bth.opcode).ok_or(DropReason::UnknownOpcode)?;
    let pad = (bth.flags & Bth::PAD) >> Bth::PAD_SHIFT;
    match after_headers(opcode.header_len())?.checked_sub(pad.into()) {
        Some(0) => {}
        Some(_) if opcode.may_have_payload() => {}
        _ => return Err(DropReason::BadLength),
    }

    Ok(Peek {
        opcode,
        dest_qpn: Qpn::new(bth.qpn.get()),
        psn: Psn::new(bth.apsn.get()),
        pkey: bth.pkey.get(),
    })
}

impl PacketInfo {
    /// Makes a description of a packet of which only the opcode is set.
    ///
    /// The partition key is the default one, everything else is zero.
    pub const fn new(opcode: Opcode) -> Self {
        Self {
            opcode,
            solicited: false,
            mig_req: false,
            ack_req: false,
            fecn: false,
            becn: false,
            pad: 0,
            pkey: DEFAULT_PKEY,
            dest_qpn: Qpn::new(0),
            psn: Psn::new(0),
            reth: Reth {
                va: 0,
                key: Key::new(0),
                len: 0,
            },
            aeth: Aeth {
                syndrome: 0,
                msn: Msn::new(0),
            },
            atomic: AtomicEth {
                va: 0,
                key: Key::new(0),
                swap_add: 0,
                compare: 0,
            },
            orig: 0,
            deth: Deth {
                qkey: 0,
                src_qpn: Qpn::new(0),
            },
            imm: Imm([0; 4]),
            ieth: Key::new(0),
            feth: Feth {
                placement: 0,
                level: 0,
            },
            payload_len: 0,
            header_len: opcode.header_len(),
        }
    }

    /// Sets the length of the payload and the pad that goes with it.
    pub const fn set_payload_len(&mut self, len: u32) {
        self.payload_len = len;
        self.pad = pad_of(len);
    }

    /// Parses a packet, ICRC included. The ICRC itself is not checked.
    ///
    /// The payload is at `header_len` and `payload_len` bytes long, and is within `packet`.
    ///
    /// # Errors
    ///
    /// The reason to count if the packet is too short for its headers, pad and ICRC, has a payload
    /// where there is none, is of another version or of an unknown opcode.
    pub fn parse(packet: &[u8]) -> Result<Self, DropReason> {
        let end = packet
            .len()
            .checked_sub(ICRC_LEN)
            .ok_or(DropReason::Truncated)?;
        let mut rest = packet.get(..end).ok_or(DropReason::Truncated)?;
        let bth: &Bth = take(&mut rest)?;

        if bth.flags & Bth::TVER != 0 {
            return Err(DropReason::BadVersion);
        }

        let opcode = Opcode::from_byte(bth.opcode).ok_or(DropReason::UnknownOpcode)?;
        let mut info = Self::new(opcode);
        info.solicited = bth.flags & Bth::SOLICITED != 0;
        info.mig_req = bth.flags & Bth::MIG_REQ != 0;
        info.pad = (bth.flags & Bth::PAD) >> Bth::PAD_SHIFT;
        info.pkey = bth.pkey.get();
        info.fecn = bth.qpn.get() & Bth::FECN != 0;
        info.becn = bth.qpn.get() & Bth::BECN != 0;
        info.dest_qpn = Qpn::new(bth.qpn.get());
        info.ack_req = bth.apsn.get() & Bth::ACK_REQ != 0;
        info.psn = Psn::new(bth.apsn.get());

        if opcode.has_extended() {
            info.parse_extended(&mut rest)?;
        }

        let payload = rest
            .len()
            .checked_sub(usize::from(info.pad))
            .ok_or(DropReason::BadLength)?;
        if payload != 0 && !opcode.may_have_payload() {
            return Err(DropReason::BadLength);
        }
        info.payload_len = u32::try_from(payload).map_err(|_| DropReason::BadLength)?;

        Ok(info)
    }

    /// Parses the headers after the base header, in their order on the wire.
    fn parse_extended(&mut self, rest: &mut &[u8]) -> Result<(), DropReason> {
        let opcode = self.opcode;

        if opcode.has_deth() {
            let h: &DethHdr = take(rest)?;
            self.deth = Deth {
                qkey: h.qkey.get(),
                src_qpn: Qpn::new(h.src_qpn.get()),
            };
        }
        if opcode.has_feth() {
            let h: &FethHdr = take(rest)?;
            let bits = h.bits.get();
            self.feth = Feth {
                placement: (bits & FethHdr::PLACEMENT) as u8,
                level: ((bits & FethHdr::LEVEL) >> FethHdr::LEVEL_SHIFT) as u8,
            };
        }
        if opcode.has_reth() {
            let h: &RethHdr = take(rest)?;
            self.reth = Reth {
                va: h.va.get(),
                key: Key::new(h.rkey.get()),
                len: h.len.get(),
            };
        }
        if opcode.has_atomic_eth() {
            let h: &AtomicEthHdr = take(rest)?;
            self.atomic = AtomicEth {
                va: h.va.get(),
                key: Key::new(h.rkey.get()),
                swap_add: h.swap_add.get(),
                compare: h.compare.get(),
            };
        }
        if opcode.has_aeth() {
            let h: &AethHdr = take(rest)?;
            let [syndrome, ..] = h.smsn.to_bytes();
            self.aeth = Aeth {
                syndrome,
                msn: Msn::new(h.smsn.get()),
            };
        }
        if opcode.has_atomic_ack_eth() {
            let h: &AtomicAckEthHdr = take(rest)?;
            self.orig = h.orig.get();
        }
        if opcode.has_imm() {
            self.imm = *take(rest)?;
        }
        if opcode.has_ieth() {
            let h: &IethHdr = take(rest)?;
            self.ieth = Key::new(h.rkey.get());
        }

        Ok(())
    }

    /// Writes the headers to the front of `buf` and returns their length.
    ///
    /// Reserved bits are written as zero. Payload, pad and ICRC are for the caller to add. Returns
    /// `None`, with `buf` in an unspecified state, if `buf` is too short.
    pub fn emit(&self, buf: &mut [u8]) -> Option<usize> {
        let opcode = self.opcode;
        let mut out = Output { rest: buf };

        let mut flags = (self.pad << Bth::PAD_SHIFT) & Bth::PAD;
        if self.solicited {
            flags |= Bth::SOLICITED;
        }
        if self.mig_req {
            flags |= Bth::MIG_REQ;
        }
        let mut qpn = self.dest_qpn.get();
        if self.fecn {
            qpn |= Bth::FECN;
        }
        if self.becn {
            qpn |= Bth::BECN;
        }
        let mut apsn = self.psn.get();
        if self.ack_req {
            apsn |= Bth::ACK_REQ;
        }
        out.put(&Bth {
            opcode: opcode.byte(),
            flags,
            pkey: self.pkey.into(),
            qpn: qpn.into(),
            apsn: apsn.into(),
        })?;

        if opcode.has_deth() {
            out.put(&DethHdr {
                qkey: self.deth.qkey.into(),
                src_qpn: self.deth.src_qpn.get().into(),
            })?;
        }
        if opcode.has_feth() {
            let level = (u32::from(self.feth.level) << FethHdr::LEVEL_SHIFT) & FethHdr::LEVEL;
            let placement = u32::from(self.feth.placement) & FethHdr::PLACEMENT;
            out.put(&FethHdr {
                bits: (level | placement).into(),
            })?;
        }
        if opcode.has_reth() {
            out.put(&RethHdr {
                va: self.reth.va.into(),
                rkey: self.reth.key.get().into(),
                len: self.reth.len.into(),
            })?;
        }
        if opcode.has_atomic_eth() {
            out.put(&AtomicEthHdr {
                va: self.atomic.va.into(),
                rkey: self.atomic.key.get().into(),
                swap_add: self.atomic.swap_add.into(),
                compare: self.atomic.compare.into(),
            })?;
        }
        if opcode.has_aeth() {
            let smsn = (u32::from(self.aeth.syndrome) << 24) | self.aeth.msn.get();
            out.put(&AethHdr { smsn: smsn.into() })?;
        }
        if opcode.has_atomic_ack_eth() {
            out.put(&AtomicAckEthHdr {
                orig: self.orig.into(),
            })?;
        }
        if opcode.has_imm() {
            out.put(&self.imm)?;
        }
        if opcode.has_ieth() {
            out.put(&IethHdr {
                rkey: self.ieth.get().into(),
            })?;
        }

        Some(usize::from(opcode.header_len()))
    }

    /// Returns the length of the whole packet: headers, payload, pad and ICRC.
    ///
    /// Returns `None` if it cannot be expressed.
    pub fn packet_len(&self) -> Option<usize> {
        super::num::usize_from(self.payload_len)
            .checked_add(usize::from(self.header_len))?
            .checked_add(usize::from(self.pad))?
            .checked_add(ICRC_LEN)
    }
}

/// Returns the number of bytes that fill `len` up to a multiple of four.
pub const fn pad_of(len: u32) -> u8 {
    (len.wrapping_neg() & 3) as u8
}
