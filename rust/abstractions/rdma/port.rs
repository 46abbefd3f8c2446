// SPDX-License-Identifier: GPL-2.0

//! What ports and devices say about themselves.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::abstractions::bindings;

/// The logical state of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum PortState {
    /// No link.
    #[default]
    Down = bindings::ib_port_state_IB_PORT_DOWN,
    /// Ready for traffic.
    Active = bindings::ib_port_state_IB_PORT_ACTIVE,
}

/// The physical state of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum PhysState {
    /// Looking for a link.
    #[default]
    Polling = bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_POLLING as u8,
    /// Switched off.
    Disabled = bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_DISABLED as u8,
    /// There is a link.
    LinkUp = bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_LINK_UP as u8,
}

/// The attributes of a port. Those that have no field here are 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct PortAttr {
    /// Logical state.
    pub state: PortState,
    /// Physical state.
    pub phys_state: PhysState,
    /// The largest possible MTU (`enum ib_mtu`).
    pub max_mtu: u32,
    /// The MTU in use (`enum ib_mtu`).
    pub active_mtu: u32,
    /// Entries of the GID table.
    pub gid_table_len: u32,
    /// Capabilities (`enum ib_port_capability_mask_bits`).
    pub cap_flags: u32,
    /// The longest message in bytes.
    pub max_msg_size: u32,
    /// Packets dropped because of their partition key.
    pub bad_pkey_counter: u32,
    /// Packets dropped because of their queue key.
    pub qkey_violation_counter: u32,
    /// Entries of the partition key table.
    pub pkey_table_len: u16,
    /// Virtual lanes.
    pub max_vl_num: u8,
    /// Width of the link (`enum ib_port_width`).
    pub active_width: u8,
    /// Speed of the link (`enum ib_port_speed`).
    pub active_speed: u16,
}

impl PortAttr {
    /// The core has zeroed `raw` and filled in what it knows itself.
    pub(super) fn write_raw(&self, raw: &mut bindings::ib_port_attr) {
        raw.state = self.state as u32;
        raw.phys_state = self.phys_state as u8;
        raw.max_mtu = self.max_mtu;
        raw.active_mtu = self.active_mtu;
        raw.gid_tbl_len = i32::try_from(self.gid_table_len).unwrap_or(i32::MAX);
        raw.port_cap_flags = self.cap_flags;
        raw.max_msg_sz = self.max_msg_size;
        raw.bad_pkey_cntr = self.bad_pkey_counter;
        raw.qkey_viol_cntr = self.qkey_violation_counter;
        raw.pkey_tbl_len = self.pkey_table_len;
        raw.max_vl_num = self.max_vl_num;
        raw.active_width = self.active_width;
        raw.active_speed = self.active_speed;
    }
}

macro_rules! device_attr {
    ($($(#[$meta:meta])* $field:ident: $ty:ty,)*) => {
        /// The attributes of a device. Those that have no field here are 0.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct DeviceAttr {
            $($(#[$meta])* pub $field: $ty,)*
            /// The GUID of the system, in network byte order.
            pub sys_image_guid: [u8; 8],
            /// Atomic operations that are atomic towards those of this device.
            pub atomic: bool,
            /// On-demand paging (`enum ib_odp_general_cap_bits`), 0 for none.
            pub odp_general: u64,
            /// On-demand paging for RC (`enum ib_odp_transport_cap_bits`).
            pub odp_rc: u32,
            /// On-demand paging for UC.
            pub odp_uc: u32,
            /// On-demand paging for UD.
            pub odp_ud: u32,
        }

        impl DeviceAttr {
            pub(super) fn write_raw(&self, raw: &mut bindings::ib_device_attr) {
                *raw = bindings::ib_device_attr {
                    $($field: self.$field,)*
                    sys_image_guid: u64::from_ne_bytes(self.sys_image_guid),
                    atomic_cap: if self.atomic {
                        bindings::ib_atomic_cap_IB_ATOMIC_HCA
                    } else {
                        bindings::ib_atomic_cap_IB_ATOMIC_NONE
                    },
                    ..Default::default()
                };
                raw.odp_caps.general_caps = self.odp_general;
                raw.odp_caps.per_transport_caps.rc_odp_caps = self.odp_rc;
                raw.odp_caps.per_transport_caps.uc_odp_caps = self.odp_uc;
                raw.odp_caps.per_transport_caps.ud_odp_caps = self.odp_ud;
            }
        }
    };
}

device_attr! {
    /// Longest memory region in bytes.
    max_mr_size: u64,
    /// Supported page sizes, one bit each.
    page_size_cap: u64,
    /// Vendor.
    vendor_id: u32,
    /// Queue pairs.
    max_qp: u32,
    /// Requests of one queue.
    max_qp_wr: u32,
    /// Capabilities ([`device_cap`]).
    device_cap_flags: u64,
    /// Capabilities towards the kernel ([`kernel_cap`]).
    kernel_cap_flags: u64,
    /// Gather entries of a send request.
    max_send_sge: u32,
    /// Scatter entries of a receive request.
    max_recv_sge: u32,
    /// Scatter entries of a READ request.
    max_sge_rd: u32,
    /// Completion queues.
    max_cq: u32,
    /// Entries of a completion queue.
    max_cqe: u32,
    /// Memory regions.
    max_mr: u32,
    /// Protection domains.
    max_pd: u32,
    /// READ and atomic requests of a peer that one queue pair answers at the same time.
    max_qp_rd_atom: u32,
    /// The same for the whole device.
    max_res_rd_atom: u32,
    /// READ and atomic requests that one queue pair makes at the same time.
    max_qp_init_rd_atom: u32,
    /// Memory windows.
    max_mw: u32,
    /// Multicast groups.
    max_mcast_grp: u32,
    /// Queue pairs of one multicast group.
    max_mcast_qp_attach: u32,
    /// Queue pairs of all multicast groups.
    max_total_mcast_qp_attach: u32,
    /// Address handles.
    max_ah: u32,
    /// Shared receive queues.
    max_srq: u32,
    /// Requests of a shared receive queue.
    max_srq_wr: u32,
    /// Scatter entries of such a request.
    max_srq_sge: u32,
    /// Pages of a fast registration.
    max_fast_reg_page_list_len: u32,
    /// Partition keys.
    max_pkeys: u16,
    /// How long the device delays an acknowledge (code: 4.096 µs × 2^n).
    local_ca_ack_delay: u8,
}

/// Device capabilities (`enum ib_device_cap_flags`).
pub mod device_cap {
    use crate::abstractions::bindings;

    macro_rules! caps {
        ($($(#[$meta:meta])* $name:ident = $raw:ident;)*) => {
            $($(#[$meta])* pub const $name: u64 = bindings::$raw as u64;)*
        };
    }

    caps! {
        /// Packets with a bad partition key are counted.
        BAD_PKEY_CNTR = ib_device_cap_flags_IB_DEVICE_BAD_PKEY_CNTR;
        /// Packets with a bad queue key are counted.
        BAD_QKEY_CNTR = ib_device_cap_flags_IB_DEVICE_BAD_QKEY_CNTR;
        /// The port of a queue pair can be changed by a move from SQD to SQD.
        CHANGE_PHY_PORT = ib_device_cap_flags_IB_DEVICE_CHANGE_PHY_PORT;
        /// The port of an address handle is checked.
        UD_AV_PORT_ENFORCE = ib_device_cap_flags_IB_DEVICE_UD_AV_PORT_ENFORCE;
        /// An event is raised when the port comes up.
        PORT_ACTIVE_EVENT = ib_device_cap_flags_IB_DEVICE_PORT_ACTIVE_EVENT;
        /// The system image GUID means something.
        SYS_IMAGE_GUID = ib_device_cap_flags_IB_DEVICE_SYS_IMAGE_GUID;
        /// RC queue pairs generate RNR NAKs.
        RC_RNR_NAK_GEN = ib_device_cap_flags_IB_DEVICE_RC_RNR_NAK_GEN;
        /// Shared receive queues can be resized.
        SRQ_RESIZE = ib_device_cap_flags_IB_DEVICE_SRQ_RESIZE;
        /// Fast registration, local invalidate, send with invalidate.
        MEM_MGT_EXTENSIONS = ib_device_cap_flags_IB_DEVICE_MEM_MGT_EXTENSIONS;
        /// Memory windows of type 1.
        MEM_WINDOW = ib_device_cap_flags_IB_DEVICE_MEM_WINDOW;
        /// Memory windows of type 2B.
        MEM_WINDOW_TYPE_2B = ib_device_cap_flags_IB_DEVICE_MEM_WINDOW_TYPE_2B;
        /// FLUSH for global visibility.
        FLUSH_GLOBAL = ib_device_cap_flags_IB_DEVICE_FLUSH_GLOBAL;
        /// FLUSH for persistence.
        FLUSH_PERSISTENT = ib_device_cap_flags_IB_DEVICE_FLUSH_PERSISTENT;
        /// ATOMIC WRITE.
        ATOMIC_WRITE = ib_device_cap_flags_IB_DEVICE_ATOMIC_WRITE;
    }
}

/// On-demand paging for a transport (`enum ib_odp_transport_cap_bits`).
pub mod odp_cap {
    use crate::abstractions::bindings;

    /// `enum ib_odp_general_cap_bits`: there is on-demand paging.
    pub const SUPPORT: u64 = bindings::ib_odp_general_cap_bits_IB_ODP_SUPPORT as u64;

    macro_rules! caps {
        ($($(#[$meta:meta])* $name:ident = $raw:ident;)*) => {
            $($(#[$meta])* pub const $name: u32 = bindings::$raw;)*
        };
    }

    caps! {
        /// Buffers of SEND.
        SEND = ib_odp_transport_cap_bits_IB_ODP_SUPPORT_SEND;
        /// Buffers of receive requests.
        RECV = ib_odp_transport_cap_bits_IB_ODP_SUPPORT_RECV;
        /// RDMA WRITE.
        WRITE = ib_odp_transport_cap_bits_IB_ODP_SUPPORT_WRITE;
        /// RDMA READ.
        READ = ib_odp_transport_cap_bits_IB_ODP_SUPPORT_READ;
        /// Atomic operations.
        ATOMIC = ib_odp_transport_cap_bits_IB_ODP_SUPPORT_ATOMIC;
        /// Buffers of receive requests of a shared receive queue.
        SRQ_RECV = ib_odp_transport_cap_bits_IB_ODP_SUPPORT_SRQ_RECV;
        /// FLUSH.
        FLUSH = ib_odp_transport_cap_bits_IB_ODP_SUPPORT_FLUSH;
        /// ATOMIC WRITE.
        ATOMIC_WRITE = ib_odp_transport_cap_bits_IB_ODP_SUPPORT_ATOMIC_WRITE;
    }
}

/// Device capabilities towards the kernel (`enum ib_kernel_cap_flags`).
pub mod kernel_cap {
    use crate::abstractions::bindings;

    /// Users may delete the device.
    pub const ALLOW_USER_UNREG: u64 = bindings::ib_kernel_cap_flags_IBK_ALLOW_USER_UNREG as u64;
    /// Memory regions may be accessible page by page.
    pub const ON_DEMAND_PAGING: u64 = bindings::ib_kernel_cap_flags_IBK_ON_DEMAND_PAGING as u64;
}
