// SPDX-License-Identifier: GPL-2.0
/*
 * Prints the layout of what the driver shares with user space, from the kernel's own headers, in the form of
 * rust/proto/examples/uabi_layout.rs.
 */
#include <stddef.h>
#include <stdio.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_rxe.h>

#define SIZE(s) printf("%s %zu\n", #s, sizeof(struct s))
#define FIELD(s, f) printf("%s.%s %zu\n", #s, #f, offsetof(struct s, f))
#define VALUE(v) printf("%s %u\n", #v, (unsigned int)v)

int main(void)
{
	SIZE(rxe_global_route);
	FIELD(rxe_global_route, dgid);
	FIELD(rxe_global_route, flow_label);
	FIELD(rxe_global_route, sgid_index);
	FIELD(rxe_global_route, hop_limit);
	FIELD(rxe_global_route, traffic_class);
	SIZE(rxe_av);
	FIELD(rxe_av, port_num);
	FIELD(rxe_av, network_type);
	FIELD(rxe_av, dmac);
	FIELD(rxe_av, grh);
	FIELD(rxe_av, sgid_addr);
	FIELD(rxe_av, dgid_addr);

	SIZE(rxe_send_wr);
	FIELD(rxe_send_wr, wr_id);
	FIELD(rxe_send_wr, reserved);
	FIELD(rxe_send_wr, opcode);
	FIELD(rxe_send_wr, send_flags);
	FIELD(rxe_send_wr, ex);
	FIELD(rxe_send_wr, wr);
	FIELD(rxe_send_wr, wr.flush.remote_addr);
	FIELD(rxe_send_wr, wr.flush.length);
	FIELD(rxe_send_wr, wr.flush.rkey);
	FIELD(rxe_send_wr, wr.flush.type);
	FIELD(rxe_send_wr, wr.flush.level);
	FIELD(rxe_send_wr, wr.rdma.remote_addr);
	FIELD(rxe_send_wr, wr.rdma.rkey);
	FIELD(rxe_send_wr, wr.atomic.remote_addr);
	FIELD(rxe_send_wr, wr.atomic.compare_add);
	FIELD(rxe_send_wr, wr.atomic.swap);
	FIELD(rxe_send_wr, wr.atomic.rkey);
	FIELD(rxe_send_wr, wr.ud.remote_qpn);
	FIELD(rxe_send_wr, wr.ud.remote_qkey);
	FIELD(rxe_send_wr, wr.ud.pkey_index);
	FIELD(rxe_send_wr, wr.ud.ah_num);
	FIELD(rxe_send_wr, wr.ud.av);
	FIELD(rxe_send_wr, wr.mw.addr);
	FIELD(rxe_send_wr, wr.mw.length);
	FIELD(rxe_send_wr, wr.mw.mr_lkey);
	FIELD(rxe_send_wr, wr.mw.mw_rkey);
	FIELD(rxe_send_wr, wr.mw.rkey);
	FIELD(rxe_send_wr, wr.mw.access);

	SIZE(rxe_sge);
	FIELD(rxe_sge, addr);
	FIELD(rxe_sge, length);
	FIELD(rxe_sge, lkey);
	SIZE(rxe_dma_info);
	FIELD(rxe_dma_info, length);
	FIELD(rxe_dma_info, resid);
	FIELD(rxe_dma_info, cur_sge);
	FIELD(rxe_dma_info, num_sge);
	FIELD(rxe_dma_info, sge_offset);
	FIELD(rxe_dma_info, sge);
	FIELD(rxe_dma_info, inline_data);
	FIELD(rxe_dma_info, atomic_wr);
	SIZE(rxe_send_wqe);
	FIELD(rxe_send_wqe, wr);
	FIELD(rxe_send_wqe, status);
	FIELD(rxe_send_wqe, state);
	FIELD(rxe_send_wqe, iova);
	FIELD(rxe_send_wqe, mask);
	FIELD(rxe_send_wqe, first_psn);
	FIELD(rxe_send_wqe, last_psn);
	FIELD(rxe_send_wqe, ack_length);
	FIELD(rxe_send_wqe, ssn);
	FIELD(rxe_send_wqe, has_rd_atomic);
	FIELD(rxe_send_wqe, dma);
	SIZE(rxe_recv_wqe);
	FIELD(rxe_recv_wqe, wr_id);
	FIELD(rxe_recv_wqe, dma);

	SIZE(mminfo);
	FIELD(mminfo, offset);
	FIELD(mminfo, size);
	SIZE(rxe_create_ah_resp);
	FIELD(rxe_create_ah_resp, ah_num);
	SIZE(rxe_create_cq_resp);
	FIELD(rxe_create_cq_resp, mi);
	SIZE(rxe_resize_cq_resp);
	FIELD(rxe_resize_cq_resp, mi);
	SIZE(rxe_create_qp_resp);
	FIELD(rxe_create_qp_resp, rq_mi);
	FIELD(rxe_create_qp_resp, sq_mi);
	SIZE(rxe_create_srq_resp);
	FIELD(rxe_create_srq_resp, mi);
	FIELD(rxe_create_srq_resp, srq_num);
	SIZE(rxe_modify_srq_cmd);
	FIELD(rxe_modify_srq_cmd, mmap_info_addr);
	SIZE(rxe_queue_buf);
	FIELD(rxe_queue_buf, log2_elem_size);
	FIELD(rxe_queue_buf, index_mask);
	FIELD(rxe_queue_buf, producer_index);
	FIELD(rxe_queue_buf, consumer_index);
	FIELD(rxe_queue_buf, data);
	SIZE(ib_uverbs_wc);
	FIELD(ib_uverbs_wc, wr_id);
	FIELD(ib_uverbs_wc, status);
	FIELD(ib_uverbs_wc, opcode);
	FIELD(ib_uverbs_wc, vendor_err);
	FIELD(ib_uverbs_wc, byte_len);
	FIELD(ib_uverbs_wc, ex);
	FIELD(ib_uverbs_wc, qp_num);
	FIELD(ib_uverbs_wc, src_qp);
	FIELD(ib_uverbs_wc, wc_flags);
	FIELD(ib_uverbs_wc, pkey_index);
	FIELD(ib_uverbs_wc, slid);
	FIELD(ib_uverbs_wc, sl);
	FIELD(ib_uverbs_wc, dlid_path_bits);
	FIELD(ib_uverbs_wc, port_num);

	VALUE(RXE_NETWORK_TYPE_IPV4);
	VALUE(RXE_NETWORK_TYPE_IPV6);
	VALUE(IB_UVERBS_WR_RDMA_WRITE);
	VALUE(IB_UVERBS_WR_RDMA_WRITE_WITH_IMM);
	VALUE(IB_UVERBS_WR_SEND);
	VALUE(IB_UVERBS_WR_SEND_WITH_IMM);
	VALUE(IB_UVERBS_WR_RDMA_READ);
	VALUE(IB_UVERBS_WR_ATOMIC_CMP_AND_SWP);
	VALUE(IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD);
	VALUE(IB_UVERBS_WR_LOCAL_INV);
	VALUE(IB_UVERBS_WR_BIND_MW);
	VALUE(IB_UVERBS_WR_SEND_WITH_INV);
	VALUE(IB_UVERBS_WR_FLUSH);
	VALUE(IB_UVERBS_WR_ATOMIC_WRITE);
	return 0;
}
