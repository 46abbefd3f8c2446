// SPDX-License-Identifier: GPL-2.0

//! From the slots of a user's ring to work requests.
//!
//! User space can write a slot at any time. The driver copies it once and parses the copy here;
//! after that nothing is read from the slot but inline data. This is the only parser of such
//! requests.

#![forbid(unsafe_code)]

use super::num::{
    usize_from,
    Key,
    Qpn, //
};
use super::qpstate::QpType;
use super::uabi::{
    send_flag,
    wr_opcode,
    AtomicWr,
    Av,
    FlushWr,
    MwWr,
    RawSendWr,
    RawSge,
    RdmaWr,
    RecvWqe,
    SendWqe,
    UdWr,
    RECV_DATA_OFFSET,
    SEND_DATA_OFFSET,
    SGE_SIZE, //
};
use super::wire::Imm;
use super::wr::{
    BadWqe,
    BadWqeKind,
    RecvWr,
    SendFlags,
    SendLimits,
    SendOp,
    SendWr,
    Sge,
    UdTarget,
    ATOMIC_LEN,
    MAX_MESSAGE, //
};
use core::ops::Range;
use zerocopy::{
    FromBytes,
    Immutable,
    KnownLayout,
    Unaligned, //
};

/// Reads the operation-specific part of a request.
fn part<T>(raw: &RawSendWr) -> Option<&T>
where
    T: FromBytes + Immutable + KnownLayout + Unaligned,
{
    T::ref_from_prefix(&raw.wr).ok().map(|(part, _)| part)
}

/// Reads the operation of a user's request, given the length of the message that it states.
fn parse_op(raw: &RawSendWr, stated: u32) -> Option<SendOp> {
    let imm = Imm(raw.ex);
    let inv = Key::new(u32::from_ne_bytes(raw.ex));

    Some(match raw.opcode.get() {
        wr_opcode::SEND => SendOp::Send,
        wr_opcode::SEND_WITH_IMM => SendOp::SendImm(imm),
        wr_opcode::SEND_WITH_INV => SendOp::SendInv(inv),
        wr_opcode::RDMA_WRITE => {
            let wr: &RdmaWr = part(raw)?;
            SendOp::Write {
                va: wr.remote_addr.get(),
                key: Key::new(wr.rkey.get()),
            }
        }
        wr_opcode::RDMA_WRITE_WITH_IMM => {
            let wr: &RdmaWr = part(raw)?;
            SendOp::WriteImm {
                va: wr.remote_addr.get(),
                key: Key::new(wr.rkey.get()),
                imm,
            }
        }
        wr_opcode::RDMA_READ => {
            let wr: &RdmaWr = part(raw)?;
            SendOp::Read {
                va: wr.remote_addr.get(),
                key: Key::new(wr.rkey.get()),
            }
        }
        wr_opcode::ATOMIC_CMP_AND_SWP => {
            let wr: &AtomicWr = part(raw)?;
            SendOp::CompareSwap {
                va: wr.remote_addr.get(),
                key: Key::new(wr.rkey.get()),
                compare: wr.compare_add.get(),
                swap: wr.swap.get(),
            }
        }
        wr_opcode::ATOMIC_FETCH_AND_ADD => {
            let wr: &AtomicWr = part(raw)?;
            SendOp::FetchAdd {
                va: wr.remote_addr.get(),
                key: Key::new(wr.rkey.get()),
                add: wr.compare_add.get(),
            }
        }
        wr_opcode::ATOMIC_WRITE => {
            let wr: &RdmaWr = part(raw)?;
            SendOp::AtomicWrite {
                va: wr.remote_addr.get(),
                key: Key::new(wr.rkey.get()),
            }
        }
        wr_opcode::FLUSH => {
            let wr: &FlushWr = part(raw)?;
            SendOp::Flush {
                va: wr.remote_addr.get(),
                key: Key::new(wr.rkey.get()),
                // The providers do not fill in the length in `wr`.
                len: stated,
                level: wr.level,
                placement: wr.placement,
            }
        }
        wr_opcode::LOCAL_INV => SendOp::LocalInv(inv),
        wr_opcode::BIND_MW => {
            let wr: &MwWr = part(raw)?;
            SendOp::BindMw {
                mw: Key::new(wr.mw_rkey.get()),
                mr: Key::new(wr.mr_lkey.get()),
                new_key: Key::new(wr.rkey.get()),
                addr: wr.addr.get(),
                len: wr.length.get(),
                access: wr.access.get(),
            }
        }
        // Among them the operations that only the kernel may ask for.
        _ => return None,
    })
}

/// Parses a user's send request from the copy of a slot.
///
/// Nothing that the request says about itself is believed unless it is within `limits` and within
/// the slot. The key, address and length of the remote side are the peer's to check, those of the
/// local buffers are checked when they are used.
///
/// # Errors
///
/// What is wrong, with the name of the request for its completion.
pub fn parse_send(slot: &[u8], qp_type: QpType, limits: &SendLimits) -> Result<SendWr, BadWqe> {
    let Ok((wqe, _)) = SendWqe::ref_from_prefix(slot) else {
        return Err(BadWqe {
            wr_id: 0,
            kind: BadWqeKind::Slot,
        });
    };
    let wr_id = wqe.wr.wr_id.get();
    let bad = |kind| BadWqe { wr_id, kind };

    let stated = wqe.dma.length.get();
    let op = parse_op(&wqe.wr, stated)
        .filter(|op| op.allowed_on(qp_type))
        .ok_or(bad(BadWqeKind::Opcode))?;

    let bits = wqe.wr.send_flags.get();
    let mut wr = SendWr {
        wr_id,
        op,
        flags: SendFlags {
            signaled: bits & send_flag::SIGNALED != 0,
            solicited: bits & send_flag::SOLICITED != 0,
            fence: bits & send_flag::FENCE != 0,
            inline: bits & send_flag::INLINE != 0,
        },
        length: 0,
        num_sge: 0,
        ud: UdTarget::default(),
    };

    match op {
        // No data, so nothing else in the slot counts.
        SendOp::LocalInv(_)
        | SendOp::BindMw { .. }
        | SendOp::RegMr { .. }
        | SendOp::Flush { .. } => {
            wr.flags.inline = false;
            return Ok(wr);
        }
        SendOp::AtomicWrite { .. } => {
            // The operand is in the request, whether or not that is said.
            wr.flags.inline = true;
            if stated != ATOMIC_LEN {
                return Err(bad(BadWqeKind::Length));
            }
        }
        SendOp::Read { .. } | SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. } => {}
        SendOp::Send
        | SendOp::SendImm(_)
        | SendOp::SendInv(_)
        | SendOp::Write { .. }
        | SendOp::WriteImm { .. } => {
            // The extended interface of the providers puts data in the request without the flag. It
            // can be told from an empty message by the length.
            if wqe.dma.num_sge.get() == 0 && stated != 0 {
                wr.flags.inline = true;
            }
        }
    }

    if wr.flags.inline {
        if !op.may_inline() {
            return Err(bad(BadWqeKind::Inline));
        }
        // An operand of an atomic write is there even if no inline data is allowed.
        let operand = matches!(op, SendOp::AtomicWrite { .. });
        if stated > limits.max_inline && !operand {
            return Err(bad(BadWqeKind::Inline));
        }
        wr.length = stated;
        if inline_range(&wr).end > slot.len() {
            return Err(bad(BadWqeKind::Slot));
        }
    } else {
        let count = wqe.dma.num_sge.get();
        if count > u32::from(limits.max_sge) {
            return Err(bad(BadWqeKind::SgeCount));
        }
        // Not more than `max_sge`, which is a byte.
        wr.num_sge = count as u8;

        let mut total = 0u64;
        for index in 0..wr.num_sge {
            let sge = parse_sge(slot, index).ok_or(bad(BadWqeKind::Slot))?;
            total = total.saturating_add(u64::from(sge.length));
        }
        wr.length = u32::try_from(total)
            .ok()
            .filter(|total| *total <= MAX_MESSAGE)
            .ok_or(bad(BadWqeKind::Length))?;
    }

    if matches!(op, SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. }) {
        // Longer buffers are accepted, as by the stock driver; eight bytes of them are written.
        if wr.length < ATOMIC_LEN {
            return Err(bad(BadWqeKind::Length));
        }
        wr.length = ATOMIC_LEN;
    }

    if matches!(qp_type, QpType::Ud | QpType::Gsi) {
        let ud: &UdWr = part(&wqe.wr).ok_or(bad(BadWqeKind::Slot))?;
        wr.ud = UdTarget {
            qpn: Qpn::new(ud.remote_qpn.get()),
            qkey: ud.remote_qkey.get(),
            pkey_index: ud.pkey_index.get(),
            ah_num: ud.ah_num.get(),
        };
    }

    Ok(wr)
}

/// Reads a buffer of a list that begins at `start`.
fn sge_at(slot: &[u8], start: usize, index: u8) -> Option<Sge> {
    let offset = usize::from(index)
        .checked_mul(SGE_SIZE)?
        .checked_add(start)?;
    let (raw, _) = RawSge::ref_from_prefix(slot.get(offset..)?).ok()?;
    Some(Sge {
        addr: raw.addr.get(),
        length: raw.length.get(),
        lkey: Key::new(raw.lkey.get()),
    })
}

/// Reads buffer number `index` of a send request that [`parse_send`] has accepted.
///
/// Returns `None` if it is not within the slot.
pub fn parse_sge(slot: &[u8], index: u8) -> Option<Sge> {
    sge_at(slot, SEND_DATA_OFFSET, index)
}

/// Returns where in the slot the inline data of a request is.
///
/// For a request that [`parse_send`] has made of a slot and that has inline data, the range is
/// within that slot.
pub fn inline_range(wr: &SendWr) -> Range<usize> {
    SEND_DATA_OFFSET..SEND_DATA_OFFSET.saturating_add(usize_from(wr.length))
}

/// Reads the address vector of a datagram's send request.
///
/// Returns `None` if the slot is too short.
pub fn parse_av(slot: &[u8]) -> Option<Av> {
    let (wqe, _) = SendWqe::ref_from_prefix(slot).ok()?;
    let ud: &UdWr = part(&wqe.wr)?;
    Some(ud.av)
}

/// Parses a user's receive request from the copy of a slot.
///
/// # Errors
///
/// What is wrong, with the name of the request for its completion.
pub fn parse_recv(slot: &[u8], max_sge: u8) -> Result<RecvWr, BadWqe> {
    let Ok((wqe, _)) = RecvWqe::ref_from_prefix(slot) else {
        return Err(BadWqe {
            wr_id: 0,
            kind: BadWqeKind::Slot,
        });
    };
    let wr_id = wqe.wr_id.get();
    let bad = |kind| BadWqe { wr_id, kind };

    let count = wqe.dma.num_sge.get();
    if count > u32::from(max_sge) {
        return Err(bad(BadWqeKind::SgeCount));
    }
    // Not more than `max_sge`, which is a byte.
    let num_sge = count as u8;

    let mut length = 0u32;
    for index in 0..num_sge {
        let sge = parse_recv_sge(slot, index).ok_or(bad(BadWqeKind::Slot))?;
        // No message comes near to the largest length, so it may stand for all that are larger.
        length = length.saturating_add(sge.length);
    }

    Ok(RecvWr {
        wr_id,
        num_sge,
        length,
    })
}

/// Reads buffer number `index` of a receive request that [`parse_recv`] has accepted.
///
/// Returns `None` if it is not within the slot.
pub fn parse_recv_sge(slot: &[u8], index: u8) -> Option<Sge> {
    sge_at(slot, RECV_DATA_OFFSET, index)
}
