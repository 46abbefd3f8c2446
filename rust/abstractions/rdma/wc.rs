// SPDX-License-Identifier: GPL-2.0

//! Work completions, as kernel users poll them.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::qp;
use crate::abstractions::bindings;

/// What came with the message besides its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extra {
    /// Nothing.
    #[default]
    None,
    /// Immediate data, in network byte order.
    Imm([u8; 4]),
    /// The key that the message invalidated.
    Invalidated(u32),
}

/// The kind of the network header in the first 40 bytes of a received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkHeader {
    /// IPv4, in the last 20 bytes.
    Ipv4,
    /// IPv6.
    Ipv6,
}

/// A work completion.
///
/// All numbers are those of the verbs interface: `status` is an `enum ib_wc_status`, `opcode` an
/// `enum ib_wc_opcode`.
#[derive(Clone, Copy, Debug)]
pub struct WorkCompletion {
    /// The consumer's cookie of the request.
    pub wr_id: u64,
    /// How it ended (`enum ib_wc_status`).
    pub status: u32,
    /// What it was (`enum ib_wc_opcode`); meaningless if `status` is not success.
    pub opcode: u32,
    /// Bytes received or read.
    pub byte_len: u32,
    /// The queue pair it belongs to.
    pub qp: qp::Token,
    /// Immediate data or invalidated key.
    pub extra: Extra,
    /// Queue pair number of the sender (datagrams).
    pub src_qp: u32,
    /// Whether the first 40 bytes of the buffer hold a network header (datagrams).
    pub grh: bool,
    /// The kind of that header, if it is known.
    pub network_header: Option<NetworkHeader>,
    /// The partition key index the message came with (GSI).
    pub pkey_index: u16,
    /// The port the message came in by.
    pub port: u32,
    /// The VLAN the message came in by, if any (datagrams).
    pub vlan: Option<u16>,
    /// The Ethernet address of the sender, if known (datagrams).
    pub smac: Option<[u8; 6]>,
}

impl WorkCompletion {
    /// A completion with nothing but what every completion has.
    pub fn new(qp: qp::Token, wr_id: u64, status: u32, opcode: u32) -> Self {
        Self {
            wr_id,
            status,
            opcode,
            byte_len: 0,
            qp,
            extra: Extra::None,
            src_qp: 0,
            grh: false,
            network_header: None,
            pkey_index: 0,
            port: 1,
            vlan: None,
            smac: None,
        }
    }

    /// The `wc_flags` of the verbs interface (`enum ib_wc_flags`; user space uses the same bits for
    /// the first four).
    pub fn flags(&self) -> u32 {
        let mut flags = 0;
        if self.grh {
            flags |= bindings::ib_wc_flags_IB_WC_GRH;
        }
        match self.extra {
            Extra::None => {}
            Extra::Imm(_) => flags |= bindings::ib_wc_flags_IB_WC_WITH_IMM,
            Extra::Invalidated(_) => flags |= bindings::ib_wc_flags_IB_WC_WITH_INVALIDATE,
        }
        if self.network_header.is_some() {
            flags |= bindings::ib_wc_flags_IB_WC_WITH_NETWORK_HDR_TYPE;
        }
        if self.vlan.is_some() {
            flags |= bindings::ib_wc_flags_IB_WC_WITH_VLAN;
        }
        if self.smac.is_some() {
            flags |= bindings::ib_wc_flags_IB_WC_WITH_SMAC;
        }
        flags
    }

    pub(super) fn into_raw(self) -> bindings::ib_wc {
        let mut wc = bindings::ib_wc {
            status: self.status,
            opcode: self.opcode,
            byte_len: self.byte_len,
            qp: self.qp.as_raw(),
            src_qp: self.src_qp,
            // CAST: A bit set.
            wc_flags: self.flags() as i32,
            pkey_index: self.pkey_index,
            port_num: self.port,
            vlan_id: self.vlan.unwrap_or(0),
            smac: self.smac.unwrap_or([0; 6]),
            network_hdr_type: match self.network_header {
                None => 0,
                // CAST: The values of the enumeration fit.
                Some(NetworkHeader::Ipv4) => bindings::rdma_network_type_RDMA_NETWORK_IPV4 as u8,
                Some(NetworkHeader::Ipv6) => bindings::rdma_network_type_RDMA_NETWORK_IPV6 as u8,
            },
            ..Default::default()
        };
        wc.__bindgen_anon_1.bindgen_union_field = self.wr_id;
        match self.extra {
            Extra::None => {}
            Extra::Imm(imm) => wc.ex.bindgen_union_field = u32::from_ne_bytes(imm),
            Extra::Invalidated(key) => wc.ex.bindgen_union_field = key,
        }
        wc
    }
}
