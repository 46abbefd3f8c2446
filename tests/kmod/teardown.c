// SPDX-License-Identifier: GPL-2.0
/*
 * The end of queue pairs under load: each request completes once, as done or as flushed, and nothing takes long.
 *
 * Two threads keep all send queues full with signaled WRITEs and do not care about what the main thread does:
 *
 * error    moves the queue pairs to the error state and drains them, then connects them again or makes new ones
 * destroy  destroys them; the threads go on posting while destroy runs, and stop at the first post that is refused
 * vanish   destroys the peers
 * park     as error, once, with packets that the network holds back; then destroys
 */

#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "ktest.h"

#define KT_POSTERS 2
#define KT_DESTROY_MS 100

struct kt_load;

struct kt_load_wr {
	struct ib_cqe done;
	struct kt_load *q;
	/* Between post and completion. */
	atomic_t busy;
};

struct kt_load {
	struct ib_qp *qp;
	struct ib_qp *peer;
	struct ib_cq *cq;
	struct ib_cq *peer_cq;
	spinlock_t lock;
	struct kt_load_wr *wrs;
	u32 next;
	atomic_t posted;
	atomic_t completed;
	atomic_t failed;
	bool destroying;
	bool destroyed;
	bool stopped;
};

static struct {
	struct kt_end a;
	struct kt_end b;
	struct kt_load *qs;
	u32 nqs;
	u32 depth;
	u32 size;
	void *from;
	void *to;
	bool running;
	atomic_t inside;
	struct kt_path path;
	struct ib_cqe stray;
	int (*destroy_qp)(struct ib_qp *qp, struct ib_udata *udata);
	struct kt_fault fault;
	u64 posts;
	u64 flushed;
	u64 max_destroy;
	u32 destroys;
	u32 slow_destroys;
	u64 max_drain;
	u64 raced;
} td;

static void kt_load_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct kt_load_wr *wr = container_of(wc->wr_cqe, struct kt_load_wr, done);
	struct kt_load *q = wr->q;

	if (wc->status)
		atomic_inc(&q->failed);
	if (atomic_xchg(&wr->busy, 0) != 1)
		kt_fault(&td.fault, "a request completed twice, then with %s", ib_wc_status_msg(wc->status));
	atomic_inc(&q->completed);
}

/* Completions of posts that are there only to be refused. */
static void kt_load_stray(struct ib_cq *cq, struct ib_wc *wc)
{
}

/* Posts one WRITE if there is room. */
static bool kt_load_post(struct kt_load *q)
{
	struct ib_sge sge = { .addr = (uintptr_t)td.from, .length = td.size, .lkey = td.a.pd->local_dma_lkey };
	struct ib_rdma_wr wr = {
		.wr = {
			.opcode = IB_WR_RDMA_WRITE,
			.send_flags = IB_SEND_SIGNALED,
			.sg_list = &sge,
			.num_sge = 1,
		},
		.remote_addr = (uintptr_t)td.to,
		.rkey = td.b.pd->unsafe_global_rkey,
	};
	const struct ib_send_wr *bad;
	struct kt_load_wr *place;
	unsigned long flags;
	bool posted = false;
	int ret;

	spin_lock_irqsave(&q->lock, flags);
	if (!READ_ONCE(td.running) || q->stopped)
		goto unlock;
	if (READ_ONCE(q->destroyed)) {
		q->stopped = true;
		goto unlock;
	}
	place = &q->wrs[q->next % td.depth];
	if (atomic_read(&place->busy)) {
		/* Who destroys the queue pair has taken its completions with it: post again, to see that refused. */
		if (!READ_ONCE(q->destroying))
			goto unlock;
		sge.length = 0;
		wr.wr.num_sge = 0;
		wr.wr.send_flags = 0;
		wr.wr.wr_cqe = &td.stray;
		ret = ib_post_send(q->qp, &wr.wr, &bad);
		td.raced++;
		if (ret == -EINVAL)
			q->stopped = true;
		goto unlock;
	}
	wr.wr.wr_cqe = &place->done;
	atomic_set(&place->busy, 1);
	ret = ib_post_send(q->qp, &wr.wr, &bad);
	if (READ_ONCE(q->destroying))
		td.raced++;
	if (ret) {
		atomic_set(&place->busy, 0);
		if (bad != &wr.wr)
			kt_fault(&td.fault, "error %d with another bad_wr", ret);
		if (!READ_ONCE(q->destroying))
			kt_fault(&td.fault, "a post into free space fails: %d", ret);
		q->stopped = true;
	} else {
		q->next++;
		atomic_inc(&q->posted);
		td.posts++;
		posted = true;
	}
unlock:
	spin_unlock_irqrestore(&q->lock, flags);
	return posted;
}

static int kt_load_thread(void *unused)
{
	while (!kthread_should_stop()) {
		bool any = false;
		u32 i;

		atomic_inc(&td.inside);
		/* Pairs with the store of `running`: either this sees it, or the wait for `inside` sees this. */
		smp_mb__after_atomic();
		for (i = 0; READ_ONCE(td.running) && i < td.nqs; i++)
			any |= kt_load_post(&td.qs[i]);
		smp_mb__before_atomic();
		atomic_dec(&td.inside);
		if (!any)
			usleep_range(50, 100);
		cond_resched();
	}
	return 0;
}

static void kt_load_pause(void)
{
	WRITE_ONCE(td.running, false);
	smp_mb();
	while (atomic_read(&td.inside))
		usleep_range(20, 50);
}

/* Waits until what was posted has completed. */
static void kt_load_settle(struct kt_load *q)
{
	ktime_t start = ktime_get();
	int posted = atomic_read(&q->posted);

	while (atomic_read(&q->completed) < posted && kt_ms_since(start) < 5000ULL * kt_slow())
		usleep_range(50, 100);
	if (atomic_read(&q->completed) != posted)
		kt_fault(&td.fault, "%d requests posted, %d completed", posted, atomic_read(&q->completed));
}

/*
 * What is measured is the time the verbs take, not that which this thread waits for a CPU: with real-time priority it
 * competes with nobody.
 */
static void kt_hurry(void)
{
	sched_set_fifo(current);
}

static void kt_relax(void)
{
	sched_set_normal(current, 0);
}

static void kt_load_drain(struct kt_load *q)
{
	ktime_t start;

	kt_hurry();
	start = ktime_get();
	ib_drain_qp(q->qp);
	kt_relax();
	td.max_drain = max(td.max_drain, kt_ms_since(start));
}

static void kt_load_destroy_qp(struct ib_qp **qp)
{
	ktime_t start;

	if (!IS_ERR_OR_NULL(*qp)) {
		kt_hurry();
		start = ktime_get();
		ib_destroy_qp(*qp);
		kt_relax();
		td.max_destroy = max(td.max_destroy, kt_ms_since(start));
		td.destroys++;
		td.slow_destroys += kt_ms_since(start) >= KT_DESTROY_MS * kt_slow();
	}
	*qp = NULL;
}

/* Stands in for the driver's own: the posters must be gone before the core frees the queue pair, but not before it is closed. */
static int kt_destroy_qp(struct ib_qp *qp, struct ib_udata *udata)
{
	struct kt_load *q = qp->qp_context;
	unsigned long flags;
	int ret;

	if (!q || q->qp != qp)
		return td.destroy_qp(qp, udata);
	WRITE_ONCE(q->destroying, true);
	ret = td.destroy_qp(qp, udata);
	WRITE_ONCE(q->destroyed, true);
	spin_lock_irqsave(&q->lock, flags);
	q->stopped = true;
	spin_unlock_irqrestore(&q->lock, flags);
	return ret;
}

static int kt_load_create(struct kt_load *q)
{
	/* One for the drain. */
	struct ib_qp_cap cap = { .max_send_wr = td.depth + 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 };
	struct ib_qp_cap peer_cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 };

	q->qp = kt_create_qp(&td.a, q->cq, q->cq, &cap, q);
	q->peer = kt_create_qp(&td.b, q->peer_cq, q->peer_cq, &peer_cap, NULL);
	if (IS_ERR(q->qp) || IS_ERR(q->peer))
		return -ENOMEM;
	return 0;
}

static int kt_load_connect(struct kt_load *q)
{
	u32 i;

	/* Completions of a queue pair that was destroyed do not count. */
	for (i = 0; i < td.depth; i++)
		atomic_set(&q->wrs[i].busy, 0);
	q->next = 0;
	td.flushed += atomic_read(&q->failed);
	atomic_set(&q->posted, 0);
	atomic_set(&q->completed, 0);
	atomic_set(&q->failed, 0);
	q->destroying = false;
	q->destroyed = false;
	q->stopped = false;
	return kt_connect_both(q->qp, &td.a, q->peer, &td.b, &td.path);
}

static int kt_load_cqs(struct kt_load *q)
{
	q->cq = ib_alloc_cq(td.a.ib, q, td.depth + 8, 0, IB_POLL_SOFTIRQ);
	q->peer_cq = ib_alloc_cq(td.b.ib, q, 8, 0, IB_POLL_SOFTIRQ);
	return IS_ERR(q->cq) || IS_ERR(q->peer_cq) ? -ENOMEM : 0;
}

static void kt_load_free_cqs(struct kt_load *q)
{
	if (!IS_ERR_OR_NULL(q->cq))
		ib_free_cq(q->cq);
	if (!IS_ERR_OR_NULL(q->peer_cq))
		ib_free_cq(q->peer_cq);
	q->cq = NULL;
	q->peer_cq = NULL;
}

static int kt_cycle_error(u32 cycle)
{
	u32 i;
	int ret = 0;

	for (i = 0; i < td.nqs; i++)
		kt_load_drain(&td.qs[i]);
	kt_load_pause();
	for (i = 0; !ret && i < td.nqs; i++) {
		struct kt_load *q = &td.qs[i];

		kt_load_settle(q);
		if (cycle % 4 == 3) {
			kt_load_destroy_qp(&q->qp);
			kt_load_destroy_qp(&q->peer);
			ret = kt_load_create(q);
		} else {
			ret = kt_to_reset(q->qp) ?: kt_to_reset(q->peer);
		}
	}
	return ret;
}

static int kt_cycle_destroy(void)
{
	u32 i;
	int ret = 0;

	for (i = 0; i < td.nqs; i++) {
		kt_load_destroy_qp(&td.qs[i].qp);
		kt_load_destroy_qp(&td.qs[i].peer);
	}
	kt_load_pause();
	for (i = 0; !ret && i < td.nqs; i++) {
		/* What has been delivered may still be polled; it is over when the queue is. */
		kt_load_free_cqs(&td.qs[i]);
		if (atomic_read(&td.qs[i].completed) > atomic_read(&td.qs[i].posted))
			kt_fault(&td.fault, "%d requests posted, %d completed", atomic_read(&td.qs[i].posted),
				 atomic_read(&td.qs[i].completed));
		ret = kt_load_cqs(&td.qs[i]) ?: kt_load_create(&td.qs[i]);
	}
	return ret;
}

static int kt_cycle_vanish(void)
{
	u64 limit = 10000ULL * kt_slow();
	ktime_t start;
	u32 i;
	int ret = 0;

	for (i = 0; i < td.nqs; i++)
		kt_load_destroy_qp(&td.qs[i].peer);
	start = ktime_get();
	for (i = 0; i < td.nqs; i++) {
		while (!atomic_read(&td.qs[i].failed) && kt_ms_since(start) < limit && !kt_stopping())
			usleep_range(500, 1000);
		if (!atomic_read(&td.qs[i].failed))
			kt_fault(&td.fault, "a queue pair does not notice that its peer is gone");
	}
	kt_load_pause();
	for (i = 0; !ret && i < td.nqs; i++) {
		kt_load_drain(&td.qs[i]);
		kt_load_settle(&td.qs[i]);
		kt_load_destroy_qp(&td.qs[i].qp);
		ret = kt_load_create(&td.qs[i]);
	}
	return ret;
}

static int kt_cycle_park(void)
{
	u32 i;

	kt_load_pause();
	for (i = 0; i < td.nqs; i++) {
		kt_load_drain(&td.qs[i]);
		kt_load_settle(&td.qs[i]);
	}
	for (i = 0; i < td.nqs; i++) {
		kt_load_destroy_qp(&td.qs[i].qp);
		kt_load_destroy_qp(&td.qs[i].peer);
	}
	return 0;
}

static int kt_cycles(void)
{
	u64 limit = kt_arg("secs", 5) * 1000ULL;
	u32 wait_ms = kt_arg("wait_ms", 20);
	bool park = kt_arg_is("mode", "park");
	ktime_t start = ktime_get();
	u32 cycle = 0, i;
	u64 in_flight = 0;
	int ret = 0;

	do {
		for (i = 0; !ret && i < td.nqs; i++)
			ret = kt_load_connect(&td.qs[i]);
		if (ret)
			break;
		WRITE_ONCE(td.running, true);
		if (park)
			msleep(wait_ms);
		else
			usleep_range(wait_ms * 100, wait_ms * 100 + 1 + get_random_u32_below(wait_ms * 1800));
		for (i = 0; i < td.nqs; i++)
			in_flight += atomic_read(&td.qs[i].posted) - atomic_read(&td.qs[i].completed);
		if (kt_arg_is("mode", "error"))
			ret = kt_cycle_error(cycle);
		else if (kt_arg_is("mode", "destroy"))
			ret = kt_cycle_destroy();
		else if (kt_arg_is("mode", "vanish"))
			ret = kt_cycle_vanish();
		else if (park)
			ret = kt_cycle_park();
		else
			ret = -EINVAL;
		cycle++;
	} while (!ret && !park && !kt_stopping() && !atomic_read(&td.fault.count) && kt_ms_since(start) < limit);
	kt_load_pause();
	if (ret == -EINVAL)
		return ret;
	kt_check(!ret || kt_stopping(), "%u cycles, %llu requests, %llu of them in flight then (%d)", cycle, td.posts, in_flight, ret);
	if (td.raced)
		kt_info("%llu posts met a queue pair that was being destroyed", td.raced);
	return 0;
}

int kt_teardown(void)
{
	struct task_struct *posters[KT_POSTERS] = {};
	u32 i, j;
	int ret;

	memset(&td, 0, sizeof(td));
	ret = kt_end_open(&td.a, "dev", "gid");
	if (ret)
		return ret;
	ret = kt_end_open(&td.b, "peer", "pgid");
	if (ret)
		goto close_a;
	td.nqs = kt_arg("qps", 8);
	td.depth = kt_arg("depth", 512);
	td.size = kt_arg("size", 4096);
	td.stray.done = kt_load_stray;
	td.path = kt_usual_path;
	if (kt_arg_is("mode", "vanish")) {
		td.path.timeout = 12; /* 17 ms */
		td.path.retry_cnt = 3;
	}
	ret = -ENOMEM;
	td.from = kzalloc(td.size, GFP_KERNEL);
	td.to = kzalloc(td.size, GFP_KERNEL);
	td.qs = kvcalloc(td.nqs, sizeof(*td.qs), GFP_KERNEL);
	if (!td.from || !td.to || !td.qs)
		goto free;
	for (i = 0; i < td.nqs; i++) {
		struct kt_load *q = &td.qs[i];

		spin_lock_init(&q->lock);
		q->wrs = kvcalloc(td.depth, sizeof(*q->wrs), GFP_KERNEL);
		if (!q->wrs)
			goto free;
		for (j = 0; j < td.depth; j++) {
			q->wrs[j].q = q;
			q->wrs[j].done.done = kt_load_done;
		}
		ret = kt_load_cqs(q) ?: kt_load_create(q);
		if (ret)
			goto free;
	}
	if (kt_arg_is("mode", "destroy")) {
		td.destroy_qp = td.a.ib->ops.destroy_qp;
		td.a.ib->ops.destroy_qp = kt_destroy_qp;
	}
	for (i = 0; i < KT_POSTERS; i++)
		posters[i] = kthread_run(kt_load_thread, NULL, "ktest-load/%u", i);
	ret = kt_cycles();
	for (i = 0; i < KT_POSTERS; i++)
		if (!IS_ERR_OR_NULL(posters[i]))
			kthread_stop(posters[i]);
free:
	for (i = 0; td.qs && i < td.nqs; i++) {
		kt_load_destroy_qp(&td.qs[i].qp);
		kt_load_destroy_qp(&td.qs[i].peer);
		kt_load_free_cqs(&td.qs[i]);
		kvfree(td.qs[i].wrs);
	}
	if (td.destroy_qp)
		td.a.ib->ops.destroy_qp = td.destroy_qp;
	if (!ret) {
		kt_check_fault(&td.fault, "each request completes once");
		kt_check(td.max_drain < 2000 * kt_slow(), "ib_drain_qp() takes at most %llu ms", td.max_drain);
		/* A virtual CPU may be away for as long as its host has other things to do. */
		kt_check(td.slow_destroys * 20 <= td.destroys && td.max_destroy < 10 * KT_DESTROY_MS * kt_slow(),
			 "ib_destroy_qp() takes at most %llu ms (%u of %u take %u ms and more)", td.max_destroy, td.slow_destroys,
			 td.destroys, KT_DESTROY_MS * kt_slow());
	}
	kvfree(td.qs);
	kfree(td.from);
	kfree(td.to);
	kt_end_close(&td.b);
close_a:
	kt_end_close(&td.a);
	return ret;
}
