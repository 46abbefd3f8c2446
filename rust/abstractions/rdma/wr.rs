// SPDX-License-Identifier: GPL-2.0

//! Work requests of kernel users.
//!
//! User processes write their requests to the rings they have mapped, in a format that is the
//! driver's own; these types are about the C lists that kernel users post.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    ah,
    device::Driver,
    mr,
    qp, //
};
use crate::abstractions::bindings;
use core::{
    marker::PhantomData,
    slice, //
};

/// One scatter/gather entry.
#[repr(transparent)]
pub struct Sge(bindings::ib_sge);

impl Sge {
    /// The address: a virtual one of the kernel, or an offset of the memory region.
    pub fn addr(&self) -> u64 {
        self.0.addr
    }

    /// The length in bytes.
    pub fn length(&self) -> u32 {
        self.0.length
    }

    /// The key of the memory.
    pub fn lkey(&self) -> u32 {
        self.0.lkey
    }
}

/// Makes the slice of a request's entries.
///
/// # Safety
///
/// `num` entries must be valid for reading at `list`, and unchanged, for `'a`.
pub(super) unsafe fn sges<'a>(list: *const bindings::ib_sge, num: i32) -> &'a [Sge] {
    match usize::try_from(num) {
        // SAFETY: By the safety requirement; `Sge` is a transparent wrapper.
        Ok(num) if num > 0 && !list.is_null() => unsafe { slice::from_raw_parts(list.cast(), num) },
        _ => &[],
    }
}

/// How a send request is to be treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendFlags {
    /// Do not start before all earlier READ and atomic requests have completed.
    pub fence: bool,
    /// Complete with a work completion.
    pub signaled: bool,
    /// Let the peer's completion be a solicited one.
    pub solicited: bool,
    /// The entries are addresses to copy from at once, not memory of a region.
    pub inline: bool,
}

/// Where a datagram goes to.
pub struct UdTarget<'a, D: Driver> {
    /// The path; [`None`] if the user gave none.
    pub ah: Option<&'a ah::Shell<D::Ah>>,
    /// The peer's QP number.
    pub qpn: u32,
    /// The peer's queue key.
    pub qkey: u32,
    /// The partition key index (GSI).
    pub pkey_index: u16,
}

/// What a send request asks for.
pub enum SendOp<'a, D: Driver> {
    /// Send a message.
    Send,
    /// Send a message with immediate data, in network byte order.
    SendImm([u8; 4]),
    /// Send a message and invalidate the peer's key.
    SendInv(u32),
    /// Write to the peer's memory.
    Write {
        /// Where to.
        va: u64,
        /// The key of the memory.
        key: u32,
    },
    /// Write to the peer's memory and consume a receive request with immediate data.
    WriteImm {
        /// Where to.
        va: u64,
        /// The key of the memory.
        key: u32,
        /// Immediate data, in network byte order.
        imm: [u8; 4],
    },
    /// Read the peer's memory.
    Read {
        /// Where from.
        va: u64,
        /// The key of the memory.
        key: u32,
    },
    /// Atomically replace a value of the peer's memory if it is as expected.
    CompareSwap {
        /// Where.
        va: u64,
        /// The key of the memory.
        key: u32,
        /// The expected value.
        compare: u64,
        /// The new value.
        swap: u64,
    },
    /// Atomically add to a value of the peer's memory.
    FetchAdd {
        /// Where.
        va: u64,
        /// The key of the memory.
        key: u32,
        /// What to add.
        add: u64,
    },
    /// Invalidate a local key.
    LocalInv(u32),
    /// Register the memory that was mapped to a region.
    RegMr {
        /// The region.
        mr: &'a mr::Shell<D::Mr>,
        /// The key it gets.
        key: u32,
        /// What may be done with it (`enum ib_access_flags`).
        access: u32,
    },
    /// A request that kernel users cannot make through this interface.
    Other,
}

/// A send request of a kernel user.
pub struct SendWr<'a, D: Driver> {
    raw: &'a bindings::ib_send_wr,
    datagram: bool,
    _driver: PhantomData<fn() -> D>,
}

impl<'a, D: Driver> SendWr<'a, D> {
    /// The user's cookie.
    pub fn wr_id(&self) -> u64 {
        self.raw.__bindgen_anon_1.bindgen_union_field
    }

    /// How the request is to be treated.
    pub fn flags(&self) -> SendFlags {
        let flags = self.raw.send_flags;
        SendFlags {
            fence: flags & bindings::ib_send_flags_IB_SEND_FENCE != 0,
            signaled: flags & bindings::ib_send_flags_IB_SEND_SIGNALED != 0,
            solicited: flags & bindings::ib_send_flags_IB_SEND_SOLICITED != 0,
            inline: flags & bindings::ib_send_flags_IB_SEND_INLINE != 0,
        }
    }

    /// The gather entries. If the request is inline, their addresses are kernel addresses to be
    /// read with [`SendWr::copy_inline`].
    pub fn sges(&self) -> &'a [Sge] {
        // SAFETY: The user of the queue pair keeps the list as it is during the call.
        unsafe { sges(self.raw.sg_list, self.raw.num_sge) }
    }

    /// Copies the bytes of an inline request to `dst`; false if they do not fit or the request is
    /// not inline.
    ///
    /// Bytes of `dst` behind them are left alone.
    pub fn copy_inline(&self, dst: &mut [u8]) -> bool {
        if !self.flags().inline {
            return false;
        }
        let mut dst = dst;
        for sge in self.sges() {
            let Some((here, rest)) = usize::try_from(sge.length())
                .ok()
                .and_then(|len| dst.split_at_mut_checked(len))
            else {
                return false;
            };
            if !here.is_empty() {
                // SAFETY: By the contract of inline requests, `length` bytes at `addr` are the
                // user's to read from during the call; `here` is that long and does not overlap
                // them, being the driver's own memory.
                unsafe {
                    core::ptr::copy_nonoverlapping(
                        sge.addr() as usize as *const u8,
                        here.as_mut_ptr(),
                        here.len(),
                    )
                };
            }
            dst = rest;
        }
        true
    }

    fn imm(&self) -> [u8; 4] {
        self.raw.ex.bindgen_union_field.to_ne_bytes()
    }

    /// What is asked for.
    pub fn op(&self) -> SendOp<'a, D> {
        let wr: *const bindings::ib_send_wr = self.raw;
        // The request is embedded, as first member, in a structure that depends on the operation. The
        // user of the queue pair keeps it as it is during the call.
        // SAFETY: Called for RDMA operations.
        let rdma = || unsafe { &*wr.cast::<bindings::ib_rdma_wr>() };
        // SAFETY: Called for atomic operations.
        let atomic = || unsafe { &*wr.cast::<bindings::ib_atomic_wr>() };
        // SAFETY: Called for registrations.
        let reg = || unsafe { &*wr.cast::<bindings::ib_reg_wr>() };
        match self.raw.opcode {
            bindings::ib_wr_opcode_IB_WR_SEND => SendOp::Send,
            bindings::ib_wr_opcode_IB_WR_SEND_WITH_IMM => SendOp::SendImm(self.imm()),
            bindings::ib_wr_opcode_IB_WR_SEND_WITH_INV => {
                SendOp::SendInv(self.raw.ex.bindgen_union_field)
            }
            bindings::ib_wr_opcode_IB_WR_RDMA_WRITE => SendOp::Write {
                va: rdma().remote_addr,
                key: rdma().rkey,
            },
            bindings::ib_wr_opcode_IB_WR_RDMA_WRITE_WITH_IMM => SendOp::WriteImm {
                va: rdma().remote_addr,
                key: rdma().rkey,
                imm: self.imm(),
            },
            bindings::ib_wr_opcode_IB_WR_RDMA_READ => SendOp::Read {
                va: rdma().remote_addr,
                key: rdma().rkey,
            },
            bindings::ib_wr_opcode_IB_WR_ATOMIC_CMP_AND_SWP => SendOp::CompareSwap {
                va: atomic().remote_addr,
                key: atomic().rkey,
                compare: atomic().compare_add,
                swap: atomic().swap,
            },
            bindings::ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD => SendOp::FetchAdd {
                va: atomic().remote_addr,
                key: atomic().rkey,
                add: atomic().compare_add,
            },
            bindings::ib_wr_opcode_IB_WR_LOCAL_INV => {
                SendOp::LocalInv(self.raw.ex.bindgen_union_field)
            }
            bindings::ib_wr_opcode_IB_WR_REG_MR => SendOp::RegMr {
                // SAFETY: The user registers a region of this device, which it keeps during the
                // call.
                mr: unsafe { mr::Shell::from_raw(reg().mr) },
                key: reg().key,
                access: reg().access as u32,
            },
            _ => SendOp::Other,
        }
    }

    /// Where a datagram goes to; [`None`] for connected queue pairs.
    pub fn ud(&self) -> Option<UdTarget<'a, D>> {
        if !self.datagram {
            return None;
        }
        let wr: *const bindings::ib_send_wr = self.raw;
        // SAFETY: Requests for datagram queue pairs are embedded, as first member, in this
        // structure.
        let ud = unsafe { &*wr.cast::<bindings::ib_ud_wr>() };
        Some(UdTarget {
            ah: if ud.ah.is_null() {
                None
            } else {
                // SAFETY: The handle is one of this device, which the user keeps during the call.
                Some(unsafe { ah::Shell::from_raw(ud.ah) })
            },
            qpn: ud.remote_qpn,
            qkey: ud.remote_qkey,
            pkey_index: ud.pkey_index,
        })
    }
}

/// A list of send requests.
pub struct SendWrs<'a, D: Driver> {
    next: *const bindings::ib_send_wr,
    taken: *const bindings::ib_send_wr,
    datagram: bool,
    _list: PhantomData<&'a bindings::ib_send_wr>,
    _driver: PhantomData<fn() -> D>,
}

impl<D: Driver> SendWrs<'_, D> {
    /// Wraps a C list.
    ///
    /// # Safety
    ///
    /// `wr` must be NULL or the first request of a list that a kernel user posts to a queue pair of
    /// type `qp_type`, and that stays as it is while the result is used.
    pub(super) unsafe fn from_raw(wr: *const bindings::ib_send_wr, qp_type: qp::Type) -> Self {
        Self {
            next: wr,
            taken: wr,
            datagram: matches!(qp_type, qp::Type::Ud | qp::Type::Gsi),
            _list: PhantomData,
            _driver: PhantomData,
        }
    }

    /// The request that an error is about: the one that was taken last.
    pub(super) fn failed(&self) -> *const bindings::ib_send_wr {
        self.taken
    }
}

impl<'a, D: Driver> Iterator for SendWrs<'a, D> {
    type Item = SendWr<'a, D>;

    fn next(&mut self) -> Option<Self::Item> {
        // SAFETY: NULL or a valid request, by the requirement of `from_raw`.
        let raw = unsafe { self.next.as_ref() }?;
        self.taken = raw;
        self.next = raw.next;
        Some(SendWr {
            raw,
            datagram: self.datagram,
            _driver: PhantomData,
        })
    }
}

/// A receive request of a kernel user.
pub struct RecvWr<'a>(&'a bindings::ib_recv_wr);

impl<'a> RecvWr<'a> {
    /// The user's cookie.
    pub fn wr_id(&self) -> u64 {
        self.0.__bindgen_anon_1.bindgen_union_field
    }

    /// The scatter entries.
    pub fn sges(&self) -> &'a [Sge] {
        // SAFETY: The user of the queue keeps the list as it is during the call.
        unsafe { sges(self.0.sg_list, self.0.num_sge) }
    }
}

/// A list of receive requests.
pub struct RecvWrs<'a> {
    next: *const bindings::ib_recv_wr,
    taken: *const bindings::ib_recv_wr,
    _list: PhantomData<&'a bindings::ib_recv_wr>,
}

impl RecvWrs<'_> {
    /// Wraps a C list.
    ///
    /// # Safety
    ///
    /// `wr` must be NULL or the first request of a list that stays as it is while the result is
    /// used.
    pub(super) unsafe fn from_raw(wr: *const bindings::ib_recv_wr) -> Self {
        Self {
            next: wr,
            taken: wr,
            _list: PhantomData,
        }
    }

    /// The request that an error is about: the one that was taken last.
    pub(super) fn failed(&self) -> *const bindings::ib_recv_wr {
        self.taken
    }
}

impl<'a> Iterator for RecvWrs<'a> {
    type Item = RecvWr<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        // SAFETY: NULL or a valid request, by the requirement of `from_raw`.
        let raw = unsafe { self.next.as_ref() }?;
        self.taken = raw;
        self.next = raw.next;
        Some(RecvWr(raw))
    }
}
