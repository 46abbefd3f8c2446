// SPDX-License-Identifier: GPL-2.0

//! Prints the layout of what is shared with user space, one `structure.field offset` or
//! `structure size` a line, with the names of the C header, to be compared with that header's.

use rxe_proto::uabi::{
    self, wr_opcode, AtomicWr, Av, CreateAhResp, CreateCqResp, CreateQpResp, CreateSrqResp,
    DmaInfo, FlushWr, GlobalRoute, MmInfo, ModifySrqCmd, MwWr, QueueBuf, RawSendWr, RawSge, RdmaWr,
    RecvWqe, ResizeCqResp, SendWqe, UdWr, UserCqe,
};
use std::mem::{offset_of, size_of};

/// Prints fields with `base` added to their offsets, for the variants of a union.
macro_rules! fields {
    ($name:literal, $base:expr, $type:ty, $($rust:tt => $c:literal),+ $(,)?) => {
        $(println!("{}.{} {}", $name, $c, $base + offset_of!($type, $rust));)+
    };
}

macro_rules! layout {
    ($name:literal, $type:ty, $($rust:tt => $c:literal),+ $(,)?) => {
        println!("{} {}", $name, size_of::<$type>());
        fields!($name, 0, $type, $($rust => $c),+);
    };
}

fn main() {
    layout!("rxe_global_route", GlobalRoute, dgid => "dgid", flow_label => "flow_label",
        sgid_index => "sgid_index", hop_limit => "hop_limit", traffic_class => "traffic_class");
    layout!("rxe_av", Av, port_num => "port_num", network_type => "network_type", dmac => "dmac",
        grh => "grh", sgid_addr => "sgid_addr", dgid_addr => "dgid_addr");

    layout!("rxe_send_wr", RawSendWr, wr_id => "wr_id", reserved => "reserved", opcode => "opcode",
        send_flags => "send_flags", ex => "ex", wr => "wr");
    let wr = offset_of!(RawSendWr, wr);
    fields!("rxe_send_wr", wr, FlushWr, remote_addr => "wr.flush.remote_addr",
        length => "wr.flush.length", rkey => "wr.flush.rkey", placement => "wr.flush.type",
        level => "wr.flush.level");
    fields!("rxe_send_wr", wr, RdmaWr, remote_addr => "wr.rdma.remote_addr",
        rkey => "wr.rdma.rkey");
    fields!("rxe_send_wr", wr, AtomicWr, remote_addr => "wr.atomic.remote_addr",
        compare_add => "wr.atomic.compare_add", swap => "wr.atomic.swap", rkey => "wr.atomic.rkey");
    fields!("rxe_send_wr", wr, UdWr, remote_qpn => "wr.ud.remote_qpn",
        remote_qkey => "wr.ud.remote_qkey", pkey_index => "wr.ud.pkey_index",
        ah_num => "wr.ud.ah_num", av => "wr.ud.av");
    fields!("rxe_send_wr", wr, MwWr, addr => "wr.mw.addr", length => "wr.mw.length",
        mr_lkey => "wr.mw.mr_lkey", mw_rkey => "wr.mw.mw_rkey", rkey => "wr.mw.rkey",
        access => "wr.mw.access");

    layout!("rxe_sge", RawSge, addr => "addr", length => "length", lkey => "lkey");
    layout!("rxe_dma_info", DmaInfo, length => "length", resid => "resid", cur_sge => "cur_sge",
        num_sge => "num_sge", sge_offset => "sge_offset");
    println!("rxe_dma_info.sge {}", size_of::<DmaInfo>());
    println!("rxe_dma_info.inline_data {}", size_of::<DmaInfo>());
    println!("rxe_dma_info.atomic_wr {}", size_of::<DmaInfo>());
    layout!("rxe_send_wqe", SendWqe, wr => "wr", status => "status", state => "state",
        iova => "iova", mask => "mask", first_psn => "first_psn", last_psn => "last_psn",
        ack_length => "ack_length", ssn => "ssn", has_rd_atomic => "has_rd_atomic", dma => "dma");
    layout!("rxe_recv_wqe", RecvWqe, wr_id => "wr_id", dma => "dma");

    layout!("mminfo", MmInfo, offset => "offset", size => "size");
    layout!("rxe_create_ah_resp", CreateAhResp, ah_num => "ah_num");
    layout!("rxe_create_cq_resp", CreateCqResp, mi => "mi");
    layout!("rxe_resize_cq_resp", ResizeCqResp, mi => "mi");
    layout!("rxe_create_qp_resp", CreateQpResp, rq_mi => "rq_mi", sq_mi => "sq_mi");
    layout!("rxe_create_srq_resp", CreateSrqResp, mi => "mi", srq_num => "srq_num");
    layout!("rxe_modify_srq_cmd", ModifySrqCmd, mmap_info_addr => "mmap_info_addr");
    layout!("rxe_queue_buf", QueueBuf, log2_elem_size => "log2_elem_size",
        index_mask => "index_mask", producer_index => "producer_index",
        consumer_index => "consumer_index");
    println!("rxe_queue_buf.data {}", uabi::DATA_OFFSET);
    layout!("ib_uverbs_wc", UserCqe, wr_id => "wr_id", status => "status", opcode => "opcode",
        vendor_err => "vendor_err", byte_len => "byte_len", ex => "ex", qp_num => "qp_num",
        src_qp => "src_qp", wc_flags => "wc_flags", pkey_index => "pkey_index", slid => "slid",
        sl => "sl", dlid_path_bits => "dlid_path_bits", port_num => "port_num");

    for (name, value) in [
        ("RXE_NETWORK_TYPE_IPV4", u32::from(uabi::NETWORK_TYPE_IPV4)),
        ("RXE_NETWORK_TYPE_IPV6", u32::from(uabi::NETWORK_TYPE_IPV6)),
        ("IB_UVERBS_WR_RDMA_WRITE", wr_opcode::RDMA_WRITE),
        (
            "IB_UVERBS_WR_RDMA_WRITE_WITH_IMM",
            wr_opcode::RDMA_WRITE_WITH_IMM,
        ),
        ("IB_UVERBS_WR_SEND", wr_opcode::SEND),
        ("IB_UVERBS_WR_SEND_WITH_IMM", wr_opcode::SEND_WITH_IMM),
        ("IB_UVERBS_WR_RDMA_READ", wr_opcode::RDMA_READ),
        (
            "IB_UVERBS_WR_ATOMIC_CMP_AND_SWP",
            wr_opcode::ATOMIC_CMP_AND_SWP,
        ),
        (
            "IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD",
            wr_opcode::ATOMIC_FETCH_AND_ADD,
        ),
        ("IB_UVERBS_WR_LOCAL_INV", wr_opcode::LOCAL_INV),
        ("IB_UVERBS_WR_BIND_MW", wr_opcode::BIND_MW),
        ("IB_UVERBS_WR_SEND_WITH_INV", wr_opcode::SEND_WITH_INV),
        ("IB_UVERBS_WR_FLUSH", wr_opcode::FLUSH),
        ("IB_UVERBS_WR_ATOMIC_WRITE", wr_opcode::ATOMIC_WRITE),
    ] {
        println!("{name} {value}");
    }
}
