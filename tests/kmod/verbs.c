// SPDX-License-Identifier: GPL-2.0
/*
 * Verbs that only consumers in the kernel have: how many completions wait, limits of fast registrations, address handles that
 * change, the port's capabilities, atomics beside those of CPUs.
 */

#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <rdma/ib_mad.h>

#include "ktest.h"

#define KT_PEEKED 5
#define KT_ATOMICS 4000
#define KT_ATOMICS_AT_ONCE 16

static struct {
	struct kt_end a;
	struct kt_end b;
	struct ib_cq *cq_a;
	struct ib_cq *cq_b;
	struct ib_qp *qp_a;
	struct ib_qp *qp_b;
	struct kt_fault status;
	struct ib_cqe done;
	u32 completed;
	u32 received;
} vs;

static void kt_verb_done(struct ib_cq *cq, struct ib_wc *wc)
{
	if (wc->status)
		kt_fault(&vs.status, "a request completes with %s", ib_wc_status_msg(wc->status));
	if (cq == vs.cq_a)
		vs.received++;
	else
		vs.completed++;
}

/* Completions are polled here, in the caller's time. Whether `count` reaches `wanted`. */
static bool kt_poll(struct ib_cq *cq, const u32 *count, u32 wanted)
{
	ktime_t start = ktime_get();

	while (*count < wanted && kt_ms_since(start) < 10000 * kt_slow() && !kt_stopping()) {
		ib_process_cq_direct(cq, -1);
		if (*count < wanted)
			usleep_range(100, 200);
	}
	return *count >= wanted;
}

/* The count of completions that wait. */
static void kt_verbs_peek(void)
{
	int (*peek)(struct ib_cq *cq, int wc_cnt) = vs.a.ib->ops.peek_cq;
	struct ib_recv_wr recv = { .wr_cqe = &vs.done };
	struct ib_send_wr send = {
		.wr_cqe = &vs.done,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};
	int i, ret = 0, all, some;

	if (!peek) {
		kt_check(false, "peek_cq: there is none");
		return;
	}
	vs.completed = 0;
	vs.received = 0;
	kt_check(!peek(vs.cq_a, 8), "peek_cq: nothing waits at first");
	for (i = 0; !ret && i < KT_PEEKED; i++)
		ret = ib_post_recv(vs.qp_a, &recv, NULL) ?: ib_post_send(vs.qp_b, &send, NULL);
	if (!kt_check(!ret && kt_poll(vs.cq_b, &vs.completed, KT_PEEKED), "peek_cq: %d messages arrive", KT_PEEKED))
		return;
	all = peek(vs.cq_a, 100);
	some = peek(vs.cq_a, KT_PEEKED - 2);
	kt_check(all == KT_PEEKED && some == KT_PEEKED - 2, "peek_cq: %d wait, as far as asked for (%d of %d, %d of at most %d)", KT_PEEKED,
		 all, KT_PEEKED, some, KT_PEEKED - 2);
	kt_check(kt_poll(vs.cq_a, &vs.received, KT_PEEKED) && !peek(vs.cq_a, 100), "peek_cq: none after they are polled");
}

/* Fast registrations of the most pages that the device announces, and of one more. */
static void kt_verbs_alloc_mr(void)
{
	u32 most = vs.a.ib->attrs.max_fast_reg_page_list_len, n;
	struct scatterlist *sgl = kvcalloc(most, sizeof(*sgl), GFP_KERNEL);
	void *page = (void *)get_zeroed_page(GFP_KERNEL);
	struct ib_mr *mr = ib_alloc_mr(vs.a.pd, IB_MR_TYPE_MEM_REG, most);

	if (!sgl || !page || !kt_check(!IS_ERR(mr), "alloc_mr: %u pages, as announced (%d)", most, PTR_ERR_OR_ZERO(mr)))
		goto out;
	sg_init_table(sgl, most);
	for (n = 0; n < most; n++)
		sg_set_buf(&sgl[n], page, PAGE_SIZE);
	n = ib_dma_map_sg(vs.a.ib, sgl, most, DMA_BIDIRECTIONAL);
	if (kt_check(n == most, "alloc_mr: the list is mapped")) {
		n = ib_map_mr_sg(mr, sgl, most, NULL, PAGE_SIZE);
		kt_check(n == most && mr->length == most * PAGE_SIZE, "alloc_mr: all of its pages can be used (%u, %llu bytes)", n, mr->length);
		ib_dma_unmap_sg(vs.a.ib, sgl, most, DMA_BIDIRECTIONAL);
	}
out:
	if (!IS_ERR(mr))
		ib_dereg_mr(mr);
	mr = ib_alloc_mr(vs.a.pd, IB_MR_TYPE_MEM_REG, most + 1);
	kt_check(PTR_ERR_OR_ZERO(mr) == -EINVAL, "alloc_mr: one page more than announced is refused (%d)", PTR_ERR_OR_ZERO(mr));
	if (!IS_ERR(mr))
		ib_dereg_mr(mr);
	free_page((unsigned long)page);
	kvfree(sgl);
}

static bool kt_same_ah(const struct rdma_ah_attr *x, const struct rdma_ah_attr *y)
{
	return !memcmp(&x->grh.dgid, &y->grh.dgid, sizeof(x->grh.dgid)) && x->grh.sgid_index == y->grh.sgid_index &&
	       x->grh.hop_limit == y->grh.hop_limit && x->grh.traffic_class == y->grh.traffic_class &&
	       x->grh.flow_label == y->grh.flow_label && x->port_num == y->port_num;
}

/* An address handle says what it was made of, and changes as a whole. */
static void kt_verbs_ah(void)
{
	struct rdma_ah_attr attr = {}, other, back = {};
	struct ib_ah *ah;
	int ret;

	attr.type = rdma_ah_find_type(vs.a.ib, 1);
	rdma_ah_set_port_num(&attr, 1);
	rdma_ah_set_grh(&attr, NULL, 0x12345, vs.a.gid_index, 64, 0);
	rdma_ah_set_dgid_raw(&attr, (void *)&vs.b.gid);
	ah = rdma_create_ah(vs.a.pd, &attr, RDMA_CREATE_AH_SLEEPABLE);
	if (!kt_check(!IS_ERR(ah), "address handle: made (%d)", PTR_ERR_OR_ZERO(ah)))
		return;
	ret = rdma_query_ah(ah, &back);
	kt_check(!ret && kt_same_ah(&attr, &back), "address handle: it says what it was made of (%d)", ret);
	other = attr;
	rdma_ah_set_grh(&other, NULL, 0x54321, vs.a.gid_index, 3, 0x28);
	rdma_ah_set_dgid_raw(&other, (void *)&vs.a.gid);
	ret = rdma_modify_ah(ah, &other);
	kt_check(!ret, "address handle: changed (%d)", ret);
	memset(&back, 0, sizeof(back));
	ret = rdma_query_ah(ah, &back);
	kt_check(!ret && kt_same_ah(&other, &back), "address handle: it says what it was changed to (%d)", ret);
	rdma_ah_set_port_num(&other, 2);
	kt_check(rdma_modify_ah(ah, &other), "address handle: a port that does not exist is refused");
	memset(&back, 0, sizeof(back));
	rdma_ah_set_port_num(&other, 1);
	ret = rdma_query_ah(ah, &back);
	kt_check(!ret && kt_same_ah(&other, &back), "address handle: what is refused changes nothing (%d)", ret);
	rdma_destroy_ah(ah, RDMA_DESTROY_AH_SLEEPABLE);
}

/* The capabilities that the port tells a subnet manager. */
static void kt_verbs_port(void)
{
	struct ib_port_modify on = { .set_port_cap_mask = IB_PORT_DEVICE_MGMT_SUP };
	struct ib_port_modify off = { .clr_port_cap_mask = IB_PORT_DEVICE_MGMT_SUP };
	struct ib_port_attr before, with, after;
	int ret;

	ret = ib_query_port(vs.a.ib, 1, &before) ?: ib_modify_port(vs.a.ib, 1, 0, &on) ?: ib_query_port(vs.a.ib, 1, &with) ?:
	      ib_modify_port(vs.a.ib, 1, 0, &off) ?: ib_query_port(vs.a.ib, 1, &after);
	kt_check(!ret, "port: its capabilities are changed (%d)", ret);
	kt_check(!ret && with.port_cap_flags == (before.port_cap_flags | IB_PORT_DEVICE_MGMT_SUP) &&
		 after.port_cap_flags == (before.port_cap_flags & ~IB_PORT_DEVICE_MGMT_SUP), "port: they are what was set (%#x, %#x, %#x)",
		 before.port_cap_flags, with.port_cap_flags, after.port_cap_flags);
	ret = ib_modify_port(vs.a.ib, 1, IB_PORT_RESET_QKEY_CNTR, &off) ?: ib_query_port(vs.a.ib, 1, &after);
	kt_check(!ret && !after.qkey_viol_cntr, "port: the counter of bad Q_Keys is set to 0 (%d, %u)", ret, after.qkey_viol_cntr);
	ret = ib_modify_port(vs.a.ib, 1, IB_PORT_SHUTDOWN, &off);
	kt_check(ret == -EOPNOTSUPP, "port: what it cannot do is not supported (%d)", ret);
}

static int kt_count_thread(void *data)
{
	atomic64_t *word = data;
	long n = 0;

	while (!kthread_should_stop()) {
		int i;

		for (i = 0; i < 1000; i++)
			atomic64_inc(word);
		n += 1000;
		cond_resched();
	}
	return n;
}

/* Fetch and add by the peer, while a CPU adds to the same word. */
static void kt_verbs_atomics(void)
{
	struct ib_qp_attr attr = {
		.qp_access_flags = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_ATOMIC,
	};
	struct ib_mr *mr = ib_alloc_mr(vs.a.pd, IB_MR_TYPE_MEM_REG, 1);
	atomic64_t *word = (void *)get_zeroed_page(GFP_KERNEL);
	void *back = (void *)get_zeroed_page(GFP_KERNEL);
	struct task_struct *thread = NULL;
	struct scatterlist sg;
	struct ib_reg_wr reg = {
		.wr = {
			.wr_cqe = &vs.done,
			.opcode = IB_WR_REG_MR,
			.send_flags = IB_SEND_SIGNALED,
		},
		.mr = mr,
		.access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_ATOMIC,
	};
	struct ib_sge sge = {
		.addr = (uintptr_t)back,
		.length = 8,
		.lkey = vs.b.pd->local_dma_lkey,
	};
	struct ib_atomic_wr add = {
		.wr = {
			.wr_cqe = &vs.done,
			.opcode = IB_WR_ATOMIC_FETCH_AND_ADD,
			.send_flags = IB_SEND_SIGNALED,
			.sg_list = &sge,
			.num_sge = 1,
		},
		.compare_add = 1,
	};
	u32 posted = 0;
	long long sum;
	int counted, ret;

	if (IS_ERR(mr) || !word || !back) {
		kt_check(false, "atomics: no memory");
		goto out;
	}
	vs.completed = 0;
	vs.received = 0;
	sg_init_one(&sg, word, PAGE_SIZE);
	ret = ib_modify_qp(vs.qp_a, &attr, IB_QP_ACCESS_FLAGS);
	if (!ret && (ib_dma_map_sg(vs.a.ib, &sg, 1, DMA_BIDIRECTIONAL) != 1 || ib_map_mr_sg(mr, &sg, 1, NULL, PAGE_SIZE) != 1))
		ret = -EIO;
	reg.key = mr->rkey;
	ret = ret ?: ib_post_send(vs.qp_a, &reg.wr, NULL);
	if (!kt_check(!ret && kt_poll(vs.cq_a, &vs.received, 1), "atomics: the word is registered (%d)", ret))
		goto out;
	add.remote_addr = mr->iova;
	add.rkey = mr->rkey;
	thread = kthread_run(kt_count_thread, word, "ktest-count");
	if (IS_ERR(thread)) {
		kt_check(false, "atomics: no thread");
		goto out;
	}
	while (!ret && posted < KT_ATOMICS && !atomic_read(&vs.status.count)) {
		ret = ib_post_send(vs.qp_b, &add.wr, NULL);
		posted++;
		if (posted >= KT_ATOMICS_AT_ONCE && !kt_poll(vs.cq_b, &vs.completed, posted - KT_ATOMICS_AT_ONCE + 1))
			ret = -ETIMEDOUT;
	}
	if (!ret && !kt_poll(vs.cq_b, &vs.completed, posted))
		ret = -ETIMEDOUT;
	counted = kthread_stop(thread);
	sum = atomic64_read(word);
	kt_check(!ret, "atomics: %u additions by the peer complete (%d)", posted, ret);
	kt_check(sum == (long long)counted + posted, "atomics: none is lost beside %d of a CPU (%lld are)", counted,
		 (long long)counted + posted - sum);
out:
	if (!IS_ERR(mr))
		ib_dereg_mr(mr);
	free_page((unsigned long)back);
	free_page((unsigned long)word);
}

int kt_verbs(void)
{
	struct ib_qp_cap cap_a = { .max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1 };
	struct ib_qp_cap cap_b = cap_a;
	int ret;

	memset(&vs, 0, sizeof(vs));
	vs.done.done = kt_verb_done;
	ret = kt_end_open(&vs.a, "dev", "gid");
	if (ret)
		return ret;
	ret = kt_end_open(&vs.b, "peer", "pgid");
	if (ret)
		goto close_a;
	vs.cq_a = ib_alloc_cq(vs.a.ib, NULL, 256, 0, IB_POLL_DIRECT);
	vs.cq_b = ib_alloc_cq(vs.b.ib, NULL, 256, 0, IB_POLL_DIRECT);
	ret = -ENOMEM;
	if (IS_ERR(vs.cq_a) || IS_ERR(vs.cq_b))
		goto free;
	vs.qp_a = kt_create_qp(&vs.a, vs.cq_a, vs.cq_a, &cap_a, NULL);
	vs.qp_b = kt_create_qp(&vs.b, vs.cq_b, vs.cq_b, &cap_b, NULL);
	if (IS_ERR(vs.qp_a) || IS_ERR(vs.qp_b))
		goto free;
	ret = kt_connect_both(vs.qp_a, &vs.a, vs.qp_b, &vs.b, &kt_usual_path);
	if (ret)
		goto free;
	kt_verbs_peek();
	kt_verbs_alloc_mr();
	kt_verbs_ah();
	kt_verbs_port();
	kt_verbs_atomics();
	kt_check_fault(&vs.status, "no request fails");
free:
	if (!IS_ERR_OR_NULL(vs.qp_b))
		ib_destroy_qp(vs.qp_b);
	if (!IS_ERR_OR_NULL(vs.qp_a))
		ib_destroy_qp(vs.qp_a);
	if (!IS_ERR(vs.cq_b))
		ib_free_cq(vs.cq_b);
	if (!IS_ERR(vs.cq_a))
		ib_free_cq(vs.cq_a);
	kt_end_close(&vs.b);
close_a:
	kt_end_close(&vs.a);
	return ret;
}
