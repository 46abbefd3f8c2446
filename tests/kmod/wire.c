// SPDX-License-Identifier: GPL-2.0
/*
 * Devices and connected queue pairs, without a connection manager.
 */

#include <net/net_namespace.h>
#include <linux/netdevice.h>
#include <linux/random.h>
#include <rdma/ib_cache.h>

#include "ktest.h"

const struct kt_path kt_usual_path = {
	.timeout = 17, /* 0.5 s */
	.retry_cnt = 7,
	.rnr_retry = 7,
	.min_rnr_timer = 12, /* 0.64 ms */
	.rd_atomic = 16,
};

int kt_end_open(struct kt_end *end, const char *device_key, const char *gid_key)
{
	const char *name = kt_arg_text(device_key);
	const struct ib_gid_attr *attr;
	struct net_device *ndev;
	struct ib_port_attr port;
	int ret;

	memset(end, 0, sizeof(*end));
	if (!name)
		return -EINVAL;
	end->dev = kt_dev_get(name);
	if (!end->dev)
		return -ENODEV;
	end->ib = end->dev->ib;
	end->gid_index = kt_arg(gid_key, 0);
	attr = rdma_get_gid_attr(end->ib, 1, end->gid_index);
	if (IS_ERR(attr)) {
		ret = PTR_ERR(attr);
		goto put;
	}
	end->gid = attr->gid;
	rcu_read_lock();
	ndev = rdma_read_gid_attr_ndev_rcu(attr);
	if (!IS_ERR(ndev)) {
		end->net = get_net(dev_net(ndev));
		end->ifindex = ndev->ifindex;
	}
	rcu_read_unlock();
	rdma_put_gid_attr(attr);
	if (!end->net) {
		ret = -ENODEV;
		goto put;
	}
	ret = ib_query_port(end->ib, 1, &port);
	if (ret)
		goto put_net;
	end->mtu = port.active_mtu;
	end->pd = ib_alloc_pd(end->ib, IB_PD_UNSAFE_GLOBAL_RKEY);
	if (IS_ERR(end->pd)) {
		ret = PTR_ERR(end->pd);
		goto put_net;
	}
	return 0;
put_net:
	put_net(end->net);
put:
	kt_dev_put(end->dev);
	return ret;
}

void kt_end_close(struct kt_end *end)
{
	ib_dealloc_pd(end->pd);
	put_net(end->net);
	kt_dev_put(end->dev);
}

struct ib_qp *kt_create_qp(struct kt_end *end, struct ib_cq *send_cq, struct ib_cq *recv_cq, struct ib_qp_cap *cap, void *context)
{
	struct ib_qp_init_attr init = {
		.qp_context = context,
		.send_cq = send_cq,
		.recv_cq = recv_cq,
		.cap = *cap,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
	};
	struct ib_qp *qp = ib_create_qp(end->pd, &init);

	if (!IS_ERR(qp))
		*cap = init.cap;
	return qp;
}

int kt_to_reset(struct ib_qp *qp)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_RESET };

	return ib_modify_qp(qp, &attr, IB_QP_STATE);
}

int kt_connect(struct ib_qp *qp, const struct kt_end *end, const struct kt_end *peer, u32 peer_qpn, const struct kt_path *path)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ,
	};
	int ret;

	ret = ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_ACCESS_FLAGS);
	if (ret)
		return ret;

	attr.qp_state = IB_QPS_RTR;
	attr.path_mtu = min(end->mtu, peer->mtu);
	attr.dest_qp_num = peer_qpn;
	attr.rq_psn = path->psn;
	attr.max_dest_rd_atomic = path->rd_atomic;
	attr.min_rnr_timer = path->min_rnr_timer;
	attr.ah_attr.type = rdma_ah_find_type(end->ib, 1);
	rdma_ah_set_port_num(&attr.ah_attr, 1);
	rdma_ah_set_grh(&attr.ah_attr, NULL, 0, end->gid_index, 64, 0);
	rdma_ah_set_dgid_raw(&attr.ah_attr, (void *)&peer->gid);
	ret = ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN |
			   IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER);
	if (ret)
		return ret;

	attr.qp_state = IB_QPS_RTS;
	attr.sq_psn = path->psn;
	attr.timeout = path->timeout;
	attr.retry_cnt = path->retry_cnt;
	attr.rnr_retry = path->rnr_retry;
	attr.max_rd_atomic = path->rd_atomic;
	return ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_TIMEOUT | IB_QP_RETRY_CNT | IB_QP_RNR_RETRY | IB_QP_SQ_PSN |
			    IB_QP_MAX_QP_RD_ATOMIC);
}

int kt_connect_both(struct ib_qp *a, const struct kt_end *end_a, struct ib_qp *b, const struct kt_end *end_b,
		    const struct kt_path *path)
{
	struct kt_path copy = *path;
	int ret;

	/* A packet of an earlier connection does not fit into this one. */
	copy.psn = get_random_u32() & 0xffffff;
	ret = kt_connect(b, end_b, end_a, a->qp_num, &copy);
	return ret ?: kt_connect(a, end_a, end_b, b->qp_num, &copy);
}
