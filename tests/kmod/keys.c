// SPDX-License-Identifier: GPL-2.0
/*
 * Memory keys and the page lists behind them, as a consumer uses them that has many requests under way.
 *
 * The consumer has a region for fast registration and two areas of memory, of which one is registered and the other is next. The
 * peer reads and writes through the key it was told. Three ways to go from one to the other:
 *
 * steps    one step after the other, with an access by the peer after each
 * cycle    as the SRP initiator does: LOCAL_INV unsignaled (or the peer has invalidated), at once a new key and a new list, REG_MR,
 *          and the message that tells the peer, all posted together
 * race     the same while the peer still writes through the old key, which at some time must fail
 * pile     several times without any of it being executed meanwhile
 */

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/prandom.h>
#include <linux/random.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "area.h"
#include "ktest.h"

#define KT_BURST 8
/* More than there are page lists for beside the registered one. */
#define KT_PILE 6

/* Completions are waited for one after the other. */
struct kt_wait {
	struct ib_cqe cqe;
	struct completion done;
	enum ib_wc_status status;
	u32 invalidated;
	bool with_inv;
};

struct kt_keys {
	u32 index;
	struct task_struct *thread;
	bool ended;
	struct rnd_state rnd;
	/* The consumer's queue pair for its requests, and the one through which the peer reaches it. */
	struct ib_qp *own;
	struct ib_qp *own_peer;
	struct ib_qp *target;
	struct ib_qp *writer;
	struct ib_cq *cq_a;
	struct ib_cq *cq_b;
	struct ib_mr *mr;
	struct kt_area areas[2];
	u32 current_area;
	u32 page_size;
	/* What the peer writes. */
	void *source;
	void *back;
	u32 generation;
	u32 cycles;
	u32 refused;
	u32 flushed;
	struct kt_wait own_done;
	struct kt_wait recv_done;
	struct kt_wait writes[KT_BURST];
	struct ib_cqe ignored;
	struct ib_cqe told;
};

static struct {
	struct kt_end a;
	struct kt_end b;
	u32 max_io;
	struct kt_fault status;
	struct kt_fault old_list;
	struct kt_fault new_list;
	struct kt_fault stray;
	struct kt_fault refused;
	struct kt_fault granted;
} ks;

static void kt_wait_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct kt_wait *wait = container_of(wc->wr_cqe, struct kt_wait, cqe);

	wait->status = wc->status;
	wait->with_inv = wc->wc_flags & IB_WC_WITH_INVALIDATE;
	wait->invalidated = wc->ex.invalidate_rkey;
	complete(&wait->done);
}

static void kt_ignored_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct kt_keys *k = container_of(wc->wr_cqe, struct kt_keys, ignored);

	if (wc->status != IB_WC_WR_FLUSH_ERR)
		kt_fault(&ks.status, "a request that is not signaled completes with %s", ib_wc_status_msg(wc->status));
	k->flushed++;
}

static void kt_told_done(struct ib_cq *cq, struct ib_wc *wc)
{
	if (wc->status && wc->status != IB_WC_WR_FLUSH_ERR)
		kt_fault(&ks.status, "the peer's receive completes with %s", ib_wc_status_msg(wc->status));
}

static void kt_wait_init(struct kt_wait *wait)
{
	wait->cqe.done = kt_wait_done;
	reinit_completion(&wait->done);
}

/* Returns a negative errno, or the status. */
static int kt_wait_for(struct kt_wait *wait)
{
	if (!wait_for_completion_timeout(&wait->done, 30 * HZ * kt_slow())) {
		kt_fault(&ks.status, "a request does not complete");
		return -ETIMEDOUT;
	}
	return wait->status;
}

/* What the peer writes next. */
static void kt_fill(struct kt_keys *k, u32 length)
{
	u64 *to = k->source;
	u64 word = ((u64)++k->generation << 32) | (k->index << 24);
	u32 i;

	for (i = 0; i < DIV_ROUND_UP(length, 8); i++)
		to[i] = word + i;
}

/* Requests. */

static int kt_map(struct kt_keys *k, struct kt_area *area)
{
	int n = ib_dma_map_sg(ks.a.ib, area->sgl, area->nents, DMA_BIDIRECTIONAL);

	if (n != area->nents)
		return -EIO;
	n = ib_map_mr_sg(k->mr, area->sgl, area->nents, NULL, k->page_size);
	if (n != area->nents) {
		kt_fault(&ks.status, "ib_map_mr_sg() takes %d of %u entries, page size %u, %u bytes", n, area->nents, k->page_size,
			 area->length);
		return -EIO;
	}
	return 0;
}

/* Posts LOCAL_INV of `old` if that is a key, REG_MR of what is mapped now, and an empty SEND; the last is signaled. */
static int kt_post_keys(struct kt_keys *k, u32 old, bool reg, bool tell)
{
	struct ib_send_wr send = {
		.wr_cqe = &k->own_done.cqe,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};
	struct ib_reg_wr regw = {
		.wr = {
			.next = tell ? &send : NULL,
			.wr_cqe = tell ? &k->ignored : &k->own_done.cqe,
			.opcode = IB_WR_REG_MR,
			.send_flags = tell ? 0 : IB_SEND_SIGNALED,
		},
		.mr = k->mr,
		.key = k->mr->rkey,
		.access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE,
	};

	kt_wait_init(&k->own_done);
	if (old) {
		struct ib_send_wr inv = {
			.wr_cqe = reg ? &k->ignored : &k->own_done.cqe,
			.opcode = IB_WR_LOCAL_INV,
			.send_flags = reg ? 0 : IB_SEND_SIGNALED,
			.ex.invalidate_rkey = old,
		};
		int ret;

		/* Posted on its own, before anything is prepared: that is where the trouble comes from. */
		ret = ib_post_send(k->own, &inv, NULL);
		if (ret || !reg)
			return ret;
	}
	return ib_post_send(k->own, &regw.wr, NULL);
}

/* The unsignaled LOCAL_INV first, then at once a new key and list, then REG_MR. */
static int kt_post_next(struct kt_keys *k, u32 old, struct kt_area *next)
{
	int ret;

	if (old) {
		struct ib_send_wr inv = {
			.wr_cqe = &k->ignored,
			.opcode = IB_WR_LOCAL_INV,
			.ex.invalidate_rkey = old,
		};

		ret = ib_post_send(k->own, &inv, NULL);
		if (ret)
			return ret;
	}
	ib_update_fast_reg_key(k->mr, ib_inc_rkey(k->mr->rkey));
	ret = kt_map(k, next);
	return ret ?: kt_post_keys(k, 0, true, true);
}

/* A receive for the message that tells the peer. */
static int kt_expect_told(struct kt_keys *k)
{
	struct ib_recv_wr recv = { .wr_cqe = &k->told };

	return ib_post_recv(k->own_peer, &recv, NULL);
}

/* An access by the peer: whole, from `offset` of the region on. Returns its status. */
static int kt_access(struct kt_keys *k, bool read, u32 key, u64 iova, u32 length)
{
	struct ib_sge sge = {
		.addr = (uintptr_t)(read ? k->back : k->source),
		.length = length,
		.lkey = ks.b.pd->local_dma_lkey,
	};
	struct ib_rdma_wr wr = {
		.wr = {
			.wr_cqe = &k->writes[0].cqe,
			.opcode = read ? IB_WR_RDMA_READ : IB_WR_RDMA_WRITE,
			.send_flags = IB_SEND_SIGNALED,
			.sg_list = &sge,
			.num_sge = 1,
		},
		.remote_addr = iova,
		.rkey = key,
	};
	int ret;

	kt_wait_init(&k->writes[0]);
	ret = ib_post_send(k->writer, &wr.wr, NULL);
	return ret ?: kt_wait_for(&k->writes[0]);
}

static int kt_keys_connect(struct kt_keys *k)
{
	int ret = kt_to_reset(k->writer) ?: kt_to_reset(k->target);

	return ret ?: kt_connect_both(k->writer, &ks.b, k->target, &ks.a, &kt_usual_path);
}

/* An access that must be refused; connects again. */
static int kt_must_fail(struct kt_keys *k, u32 key, u64 iova, u32 length, const char *why)
{
	int status = kt_access(k, false, key, iova, length);

	if (status < 0)
		return status;
	if (status == IB_WC_SUCCESS)
		kt_fault(&ks.granted, "a write through %s succeeds", why);
	else if (status != IB_WC_REM_ACCESS_ERR)
		kt_fault(&ks.status, "a write through %s completes with %s", why, ib_wc_status_msg(status));
	return kt_keys_connect(k);
}

static u32 kt_random_length(struct kt_keys *k, u32 offset)
{
	u32 most = min(ks.max_io, KT_MAX_PAGES * k->page_size - offset);

	/* Small ones mostly, now and then the largest. */
	switch (kt_random(&k->rnd, 16)) {
	case 0:
		return most;
	case 1 ... 3:
		return 1 + kt_random(&k->rnd, most);
	case 4 ... 7:
		return 1 + kt_random(&k->rnd, min(most, 65536U));
	default:
		return 1 + kt_random(&k->rnd, min(most, 8192U));
	}
}

static void kt_next_list(struct kt_keys *k, struct kt_area *area)
{
	u32 offset = kt_random(&k->rnd, k->page_size);

	kt_area_list(area, &k->rnd, k->page_size, kt_random_length(k, offset), offset);
}

/* One step after the other. */
static int kt_keys_steps(struct kt_keys *k)
{
	struct kt_area *old = &k->areas[0], *new = &k->areas[1];
	u32 old_key, new_key, old_len;
	u64 old_iova, new_iova;
	int ret;

	/* The old list is registered. */
	kt_next_list(k, old);
	ib_update_fast_reg_key(k->mr, ib_inc_rkey(k->mr->rkey));
	ret = kt_map(k, old) ?: kt_post_keys(k, 0, true, false) ?: kt_wait_for(&k->own_done);
	if (ret)
		goto bad;
	old_key = k->mr->rkey;
	old_iova = k->mr->iova;
	old_len = old->length;

	/* A new key and a new list, and nothing posted: the peer notices nothing. */
	kt_next_list(k, new);
	ib_update_fast_reg_key(k->mr, ib_inc_rkey(k->mr->rkey));
	ret = kt_map(k, new);
	if (ret)
		goto bad;
	new_key = k->mr->rkey;
	new_iova = k->mr->iova;
	kt_fill(k, old_len);
	ret = kt_access(k, false, old_key, old_iova, old_len);
	if (ret < 0)
		goto bad;
	if (ret) {
		kt_fault(&ks.refused, "before LOCAL_INV, a write of %u bytes in pages of %u through the old key completes with %s", old_len,
			 k->page_size, ib_wc_status_msg(ret));
		ret = kt_keys_connect(k);
		if (ret)
			goto bad;
	} else if (!kt_area_holds(old, k->source)) {
		kt_fault(&ks.old_list, "before LOCAL_INV, %u bytes in pages of %u written through the old key are not in the old list", old_len,
			 k->page_size);
	}
	if (!kt_area_untouched(new))
		kt_fault(&ks.new_list, "before LOCAL_INV, a write through the old key reaches the new list");
	if (!ret) {
		memset(k->back, 0, old_len);
		ret = kt_access(k, true, old_key, old_iova, old_len);
		if (ret < 0)
			goto bad;
		if (ret || memcmp(k->back, k->source, old_len)) {
			kt_fault(&ks.old_list, "before LOCAL_INV, a read through the old key does not see the old list (status %d)", ret);
			ret = ret ? kt_keys_connect(k) : 0;
			if (ret)
				goto bad;
		}
	}
	kt_area_clean_beside(old);
	kt_area_poison(new);

	/* After LOCAL_INV neither key is good for anything. */
	ret = kt_post_keys(k, old_key, false, false) ?: kt_wait_for(&k->own_done);
	if (ret)
		goto bad;
	ret = kt_must_fail(k, old_key, old_iova, old_len, "the old key after LOCAL_INV") ?:
	      kt_must_fail(k, new_key, new_iova, new->length, "the new key before REG_MR");
	if (ret)
		goto bad;
	if (!kt_area_untouched(old) || !kt_area_untouched(new))
		kt_fault(&ks.stray, "a write that is refused changes memory");

	/* After REG_MR the new key is for the new list, and the old one still for nothing. */
	ret = kt_post_keys(k, 0, true, false) ?: kt_wait_for(&k->own_done);
	if (ret)
		goto bad;
	ret = kt_must_fail(k, old_key, old_iova, old_len, "the old key after REG_MR");
	if (ret)
		goto bad;
	kt_fill(k, new->length);
	ret = kt_access(k, false, new_key, new_iova, new->length);
	if (ret)
		goto bad;
	if (!kt_area_holds(new, k->source))
		kt_fault(&ks.new_list, "after REG_MR, %u bytes in pages of %u written through the new key are not in the new list",
			 new->length, k->page_size);
	if (!kt_area_clean_beside(new) || !kt_area_untouched(old))
		kt_fault(&ks.stray, "a write through the new key reaches memory beside the new list");
	ret = kt_post_keys(k, new_key, false, false) ?: kt_wait_for(&k->own_done);
	if (!ret)
		return 0;
bad:
	kt_fault(&ks.status, "steps, page size %u: %s", k->page_size, ret < 0 ? "set-up" : ib_wc_status_msg(ret));
	return -EIO;
}

/* The peer's answer: it invalidates the key, or leaves that to the consumer. */
static int kt_answer(struct kt_keys *k, u32 key, bool invalidate)
{
	struct ib_recv_wr recv = { .wr_cqe = &k->recv_done.cqe };
	struct ib_send_wr send = {
		.wr_cqe = &k->ignored,
		.opcode = invalidate ? IB_WR_SEND_WITH_INV : IB_WR_SEND,
		.ex.invalidate_rkey = invalidate ? key : 0,
	};
	int ret;

	kt_wait_init(&k->recv_done);
	ret = ib_post_recv(k->target, &recv, NULL) ?: ib_post_send(k->writer, &send, NULL);
	return ret ?: kt_wait_for(&k->recv_done);
}

/* As the SRP initiator does: all at once. `race`: the peer has not finished with the old key. */
static int kt_keys_cycle(struct kt_keys *k, bool race, u32 *key, u64 *iova)
{
	struct kt_area *old = &k->areas[k->current_area], *new = &k->areas[1 - k->current_area];
	bool invalidate = !race && kt_random(&k->rnd, 2);
	u32 burst = race ? KT_BURST : 1 + kt_random(&k->rnd, 3);
	u32 i, good = 0, old_key = *key;
	int ret = 0, first_bad = 0;

	kt_next_list(k, new);
	kt_fill(k, old->length);
	for (i = 0; !ret && i < burst; i++) {
		struct ib_sge sge = {
			.addr = (uintptr_t)k->source,
			.length = old->length,
			.lkey = ks.b.pd->local_dma_lkey,
		};
		struct ib_rdma_wr wr = {
			.wr = {
				.wr_cqe = &k->writes[i].cqe,
				.opcode = IB_WR_RDMA_WRITE,
				.send_flags = IB_SEND_SIGNALED,
				.sg_list = &sge,
				.num_sge = 1,
			},
			.remote_addr = *iova,
			.rkey = *key,
		};

		kt_wait_init(&k->writes[i]);
		ret = ib_post_send(k->writer, &wr.wr, NULL);
	}
	if (ret)
		goto bad;
	if (race)
		udelay(kt_random(&k->rnd, 200));
	else
		ret = kt_answer(k, *key, invalidate);
	if (ret)
		goto bad;
	if (!race && !kt_area_holds(old, k->source))
		kt_fault(&ks.old_list, "%u bytes in pages of %u written through the key are not in its list", old->length, k->page_size);

	ret = kt_post_next(k, invalidate ? 0 : *key, new) ?: kt_wait_for(&k->own_done);
	if (ret)
		goto bad;
	*key = k->mr->rkey;
	*iova = k->mr->iova;
	for (i = 0; i < burst; i++) {
		ret = kt_wait_for(&k->writes[i]);
		if (ret < 0)
			goto bad;
		if (ret == IB_WC_SUCCESS)
			good++;
		else if (!first_bad)
			first_bad = ret;
	}
	ret = 0;
	if (first_bad && (!race || first_bad != IB_WC_REM_ACCESS_ERR))
		kt_fault(race ? &ks.status : &ks.refused, "a write through %s key completes with %s",
			 race ? "the old" : "a valid", ib_wc_status_msg(first_bad));
	if (first_bad) {
		k->refused++;
		ret = kt_keys_connect(k);
	}
	if (good && !kt_area_holds(old, k->source))
		kt_fault(&ks.old_list, "%u bytes in pages of %u written through the key are not in its list", old->length, k->page_size);
	if (!kt_area_untouched(new)) {
		kt_fault(&ks.new_list, "a write through the old key reaches the new list (%u bytes, pages of %u)", new->length, k->page_size);
		kt_area_clean_beside(new);
	}
	if (!ret && race && old_key != *key)
		ret = kt_must_fail(k, old_key, *iova, 8, "the old key after REG_MR of the new");
	if (!kt_area_clean_beside(old))
		kt_fault(&ks.stray, "memory beside the list is written to");
	k->current_area = 1 - k->current_area;
	if (!ret)
		return 0;
bad:
	kt_fault(&ks.status, "%s, page size %u: %s", race ? "race" : "cycle", k->page_size, ret < 0 ? "set-up" : ib_wc_status_msg(ret));
	return -EIO;
}

/*
 * Many registrations of one region posted before any is executed, as by a consumer that gives up on a request of a queue pair that does
 * not get on, and posts it again: each has its own list.
 */
static int kt_keys_pile(struct kt_keys *k)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_SQD };
	struct kt_area *last = &k->areas[(KT_PILE - 1) % 2], *other = &k->areas[KT_PILE % 2];
	u32 i;
	int ret;

	ret = ib_modify_qp(k->own, &attr, IB_QP_STATE);
	for (i = 0; !ret && i < KT_PILE; i++) {
		struct kt_area *area = &k->areas[i % 2];

		kt_next_list(k, area);
		ret = kt_expect_told(k) ?: kt_post_next(k, i ? k->mr->rkey : 0, area);
	}
	attr.qp_state = IB_QPS_RTS;
	attr.cur_qp_state = IB_QPS_SQD;
	ret = ret ?: ib_modify_qp(k->own, &attr, IB_QP_STATE | IB_QP_CUR_STATE);
	for (i = 0; !ret && i < KT_PILE; i++)
		ret = kt_wait_for(&k->own_done);
	if (ret)
		goto bad;
	kt_fill(k, last->length);
	ret = kt_access(k, false, k->mr->rkey, k->mr->iova, last->length);
	if (ret)
		goto bad;
	if (!kt_area_holds(last, k->source))
		kt_fault(&ks.new_list, "%u bytes in pages of %u written through the last of %u keys are not in its list", last->length,
			 k->page_size, KT_PILE);
	if (!kt_area_clean_beside(last) || !kt_area_untouched(other))
		kt_fault(&ks.stray, "a write through the last of %u keys reaches memory beside its list", KT_PILE);
	ret = kt_post_keys(k, k->mr->rkey, false, false) ?: kt_wait_for(&k->own_done);
	if (!ret)
		return 0;
bad:
	kt_fault(&ks.status, "pile, page size %u: %s", k->page_size, ret < 0 ? "set-up" : ib_wc_status_msg(ret));
	return -EIO;
}

static void kt_keys_free(struct kt_keys *k)
{
	struct ib_qp **qps[] = { &k->own, &k->own_peer, &k->writer, &k->target };
	int i;

	for (i = 0; i < ARRAY_SIZE(qps); i++) {
		if (IS_ERR_OR_NULL(*qps[i]))
			continue;
		ib_drain_qp(*qps[i]);
		ib_destroy_qp(*qps[i]);
	}
	if (!IS_ERR_OR_NULL(k->mr))
		ib_dereg_mr(k->mr);
	if (!IS_ERR_OR_NULL(k->cq_a))
		ib_free_cq(k->cq_a);
	if (!IS_ERR_OR_NULL(k->cq_b))
		ib_free_cq(k->cq_b);
	kt_area_free(&k->areas[0]);
	kt_area_free(&k->areas[1]);
	kfree(k->source);
	kfree(k->back);
}

static int kt_keys_init(struct kt_keys *k)
{
	struct ib_qp_cap cap = { .max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1 };
	int i, ret;

	prandom_seed_state(&k->rnd, get_random_u64());
	k->ignored.done = kt_ignored_done;
	k->told.done = kt_told_done;
	init_completion(&k->own_done.done);
	init_completion(&k->recv_done.done);
	for (i = 0; i < KT_BURST; i++)
		init_completion(&k->writes[i].done);
	k->source = kzalloc(ks.max_io + 8, GFP_KERNEL);
	k->back = kzalloc(ks.max_io + 8, GFP_KERNEL);
	if (!k->source || !k->back)
		return -ENOMEM;
	ret = kt_area_init(&k->areas[0], ks.max_io) ?: kt_area_init(&k->areas[1], ks.max_io);
	if (ret)
		return ret;
	k->cq_a = ib_alloc_cq(ks.a.ib, k, 512, k->index % num_online_cpus(), IB_POLL_SOFTIRQ);
	k->cq_b = ib_alloc_cq(ks.b.ib, k, 512, k->index % num_online_cpus(), IB_POLL_SOFTIRQ);
	if (IS_ERR(k->cq_a) || IS_ERR(k->cq_b))
		return -ENOMEM;
	k->own = kt_create_qp(&ks.a, k->cq_a, k->cq_a, &cap, k);
	k->target = kt_create_qp(&ks.a, k->cq_a, k->cq_a, &cap, k);
	k->own_peer = kt_create_qp(&ks.b, k->cq_b, k->cq_b, &cap, k);
	k->writer = kt_create_qp(&ks.b, k->cq_b, k->cq_b, &cap, k);
	k->mr = ib_alloc_mr(ks.a.pd, IB_MR_TYPE_MEM_REG, KT_MAX_PAGES);
	if (IS_ERR(k->own) || IS_ERR(k->target) || IS_ERR(k->own_peer) || IS_ERR(k->writer) || IS_ERR(k->mr))
		return -ENOMEM;
	ret = kt_connect_both(k->own, &ks.a, k->own_peer, &ks.b, &kt_usual_path);
	return ret ?: kt_connect_both(k->writer, &ks.b, k->target, &ks.a, &kt_usual_path);
}

static int kt_keys_thread(void *data)
{
	u32 fixed = kt_arg("page_size", 0);
	bool steps = kt_arg_is("mode", "steps");
	bool pile = kt_arg_is("mode", "pile");
	bool race = kt_arg_is("mode", "race");
	u64 limit = kt_arg("secs", 5) * 1000ULL;
	struct kt_keys *k = data;
	ktime_t start = ktime_get();
	u32 key = 0;
	u64 iova = 0;
	int ret = 0;

	while (!ret && !kt_stopping() && kt_ms_since(start) < limit && !atomic_read(&ks.status.count)) {
		k->page_size = fixed ?: 1024 << kt_random(&k->rnd, 7);
		if (steps) {
			ret = kt_keys_steps(k);
		} else if (pile) {
			ret = kt_keys_pile(k);
		} else {
			if (!key) {
				kt_next_list(k, &k->areas[k->current_area]);
				ib_update_fast_reg_key(k->mr, ib_inc_rkey(k->mr->rkey));
				ret = kt_map(k, &k->areas[k->current_area]) ?: kt_post_keys(k, 0, true, false) ?:
				      kt_wait_for(&k->own_done);
				key = k->mr->rkey;
				iova = k->mr->iova;
			}
			ret = ret ?: kt_expect_told(k) ?: kt_keys_cycle(k, race, &key, &iova);
		}
		k->cycles++;
		cond_resched();
	}
	if (ret)
		kt_fault(&ks.status, "thread %u ends with %d", k->index, ret);
	WRITE_ONCE(k->ended, true);
	while (!kthread_should_stop())
		msleep(20);
	return 0;
}

int kt_keys(void)
{
	u32 n = kt_arg("threads", 2), i, cycles = 0, refused = 0;
	struct kt_keys *all;
	int ret;

	memset(&ks, 0, sizeof(ks));
	ret = kt_end_open(&ks.a, "dev", "gid");
	if (ret)
		return ret;
	ret = kt_end_open(&ks.b, "peer", "pgid");
	if (ret)
		goto close_a;
	ks.max_io = min(kt_arg("max_io", KT_MAX_IO), KT_MAX_IO);
	all = kvcalloc(n, sizeof(*all), GFP_KERNEL);
	ret = all ? 0 : -ENOMEM;
	for (i = 0; !ret && i < n; i++) {
		all[i].index = i;
		ret = kt_keys_init(&all[i]);
	}
	for (i = 0; !ret && i < n; i++) {
		all[i].thread = kthread_run(kt_keys_thread, &all[i], "ktest-keys/%u", i);
		if (IS_ERR(all[i].thread))
			ret = PTR_ERR(all[i].thread);
	}
	for (i = 0; !ret && i < n; i++)
		while (!READ_ONCE(all[i].ended))
			msleep(20);
	for (i = 0; all && i < n; i++) {
		if (!IS_ERR_OR_NULL(all[i].thread))
			kthread_stop(all[i].thread);
		cycles += all[i].cycles;
		refused += all[i].refused;
		kt_keys_free(&all[i]);
	}
	kvfree(all);
	if (!ret) {
		kt_check(cycles > n, "%u cycles, in %u of them the peer was refused", cycles, refused);
		kt_check_fault(&ks.status, "requests complete as they should");
		kt_check_fault(&ks.refused, "a key that is valid is not refused");
		kt_check_fault(&ks.granted, "a key that is not valid is refused");
		kt_check_fault(&ks.old_list, "the old key serves the old list");
		kt_check_fault(&ks.new_list, "the new list is reached by the new key alone");
		kt_check_fault(&ks.stray, "nothing else is written to");
	}
	kt_end_close(&ks.b);
close_a:
	kt_end_close(&ks.a);
	return ret;
}
