// SPDX-License-Identifier: GPL-2.0
/*
 * Posts from every context a consumer may post in, on many queue pairs, and who transmits meanwhile.
 *
 * A round is a list of four requests: REG_MR, a WRITE from that registration, a SEND, LOCAL_INV. The peer checks with each
 * message that it is the next one and that the WRITE before it has arrived. Nothing may be transmitted inside ib_post_send()
 * (probes.h).
 */

#include <linux/cpu.h>
#include <linux/hrtimer.h>
#include <linux/irq_work.h>
#include <linux/kthread.h>
#include <linux/slab.h>

#include "ktest.h"
#include "probes.h"

#define KT_ROUNDS 8
#define KT_ROUND_WRS 4
#define KT_WRITE_SIZE PAGE_SIZE

struct kt_stamp {
	u32 qp;
	u32 seq;
};

struct kt_post_qp;

struct kt_round {
	struct ib_cqe done;
	struct ib_cqe failed;
	struct kt_post_qp *q;
	struct ib_mr *mr;
	/* The source of the WRITE, and where it goes to. */
	void *from;
	void *to;
	struct kt_stamp *message;
};

struct kt_recv {
	struct ib_cqe done;
	struct kt_post_qp *q;
	struct kt_stamp *message;
};

struct kt_post_qp {
	u32 index;
	struct ib_qp *qp;
	struct ib_qp *peer;
	struct ib_cq *send_cq;
	struct ib_cq *recv_cq;
	spinlock_t lock;
	u32 posted;
	u32 completed;
	u32 received;
	struct kt_round rounds[KT_ROUNDS];
	struct kt_recv recvs[2 * KT_ROUNDS];
	struct kt_stamp *messages;
	void (*comp_handler)(struct ib_cq *cq, void *context);
};

static struct {
	struct kt_end a;
	struct kt_end b;
	struct kt_post_qp *qps;
	u32 nqps;
	bool running;
	u32 period_ns;
	struct kt_fault order;
	struct kt_fault data;
	struct kt_fault status;
	struct kt_fault post;
	struct hrtimer __percpu *timers;
	struct irq_work __percpu *works;
} kt;

/* The consumer. */

static bool kt_post_round(struct kt_post_qp *q)
{
	struct kt_poster outer;
	struct kt_round *r;
	unsigned long flags;
	int ret;

	spin_lock_irqsave(&q->lock, flags);
	if (!READ_ONCE(kt.running) || q->posted - READ_ONCE(q->completed) >= KT_ROUNDS) {
		spin_unlock_irqrestore(&q->lock, flags);
		return false;
	}
	r = &q->rounds[q->posted % KT_ROUNDS];
	ib_update_fast_reg_key(r->mr, ib_inc_rkey(r->mr->rkey));
	r->message->qp = q->index;
	r->message->seq = q->posted;
	*(u32 *)r->from = q->posted;
	*(u32 *)(r->from + KT_WRITE_SIZE - sizeof(u32)) = q->posted;
	{
		struct ib_sge write_sge = { .addr = r->mr->iova, .length = KT_WRITE_SIZE, .lkey = r->mr->lkey };
		struct ib_sge send_sge = {
			.addr = (uintptr_t)r->message,
			.length = sizeof(*r->message),
			.lkey = kt.a.pd->local_dma_lkey,
		};
		struct ib_send_wr inv = {
			.wr_cqe = &r->done,
			.opcode = IB_WR_LOCAL_INV,
			.send_flags = IB_SEND_SIGNALED,
			.ex.invalidate_rkey = r->mr->rkey,
		};
		struct ib_send_wr send = {
			.next = &inv,
			.wr_cqe = &r->failed,
			.opcode = IB_WR_SEND,
			.sg_list = &send_sge,
			.num_sge = 1,
		};
		struct ib_rdma_wr write = {
			.wr = {
				.next = &send,
				.wr_cqe = &r->failed,
				.opcode = IB_WR_RDMA_WRITE,
				.sg_list = &write_sge,
				.num_sge = 1,
			},
			.remote_addr = (uintptr_t)r->to,
			.rkey = kt.b.pd->unsafe_global_rkey,
		};
		struct ib_reg_wr reg = {
			.wr = { .next = &write.wr, .wr_cqe = &r->failed, .opcode = IB_WR_REG_MR },
			.mr = r->mr,
			.key = r->mr->rkey,
			.access = IB_ACCESS_LOCAL_WRITE,
		};
		const struct ib_send_wr *bad = NULL;

		kt_poster_enter(&outer);
		ret = ib_post_send(q->qp, &reg.wr, &bad);
		kt_poster_leave(&outer);
	}
	if (!ret)
		q->posted++;
	spin_unlock_irqrestore(&q->lock, flags);
	if (ret)
		kt_fault(&kt.post, "queue pair %u: %d", q->index, ret);
	return !ret;
}

static void kt_post_all(void)
{
	u32 i;

	for (i = 0; i < kt.nqps; i++)
		while (kt_post_round(&kt.qps[i]))
			;
}

static void kt_post_one_each(void)
{
	u32 i;

	for (i = 0; i < kt.nqps; i++)
		kt_post_round(&kt.qps[i]);
}

static void kt_round_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct kt_round *r = container_of(wc->wr_cqe, struct kt_round, done);
	struct kt_post_qp *q = r->q;

	if (wc->status) {
		kt_fault(&kt.status, "queue pair %u: %s", q->index, ib_wc_status_msg(wc->status));
		return;
	}
	if (r != &q->rounds[q->completed % KT_ROUNDS])
		kt_fault(&kt.order, "queue pair %u: completion %u is for another round", q->index, q->completed);
	smp_store_release(&q->completed, q->completed + 1);
	if (q->comp_handler == NULL && kt_arg_is("ctx", "done"))
		kt_post_round(q);
}

static void kt_round_failed(struct ib_cq *cq, struct ib_wc *wc)
{
	struct kt_round *r = container_of(wc->wr_cqe, struct kt_round, failed);

	kt_fault(&kt.status, "queue pair %u: %s", r->q->index, ib_wc_status_msg(wc->status));
}

/* Stands in for the handler that ib_alloc_cq() installed. */
static void kt_comp_handler(struct ib_cq *cq, void *context)
{
	u32 i;

	for (i = 0; i < kt.nqps; i++) {
		struct kt_post_qp *q = &kt.qps[i];

		if (q->send_cq != cq)
			continue;
		while (kt_post_round(q))
			;
		q->comp_handler(cq, context);
	}
}

static int kt_post_recv(struct kt_recv *recv)
{
	struct ib_sge sge = {
		.addr = (uintptr_t)recv->message,
		.length = sizeof(*recv->message),
		.lkey = kt.b.pd->local_dma_lkey,
	};
	struct ib_recv_wr wr = { .wr_cqe = &recv->done, .sg_list = &sge, .num_sge = 1 };

	return ib_post_recv(recv->q->peer, &wr, NULL);
}

static void kt_recv_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct kt_recv *recv = container_of(wc->wr_cqe, struct kt_recv, done);
	struct kt_post_qp *q = recv->q;
	u32 seq = recv->message->seq;
	void *to;

	if (wc->status == IB_WC_WR_FLUSH_ERR)
		return;
	if (wc->status) {
		kt_fault(&kt.status, "receive of queue pair %u: %s", q->index, ib_wc_status_msg(wc->status));
		return;
	}
	if (recv->message->qp != q->index || seq != q->received)
		kt_fault(&kt.order, "queue pair %u got %u/%u instead of %u", q->index, recv->message->qp, seq, q->received);
	to = q->rounds[seq % KT_ROUNDS].to;
	if (*(u32 *)to != seq || *(u32 *)(to + KT_WRITE_SIZE - sizeof(u32)) != seq)
		kt_fault(&kt.data, "queue pair %u message %u: the WRITE before it has not arrived (%u)", q->index, seq, *(u32 *)to);
	q->received++;
	kt_post_recv(recv);
}

static void kt_post_qp_free(struct kt_post_qp *q)
{
	int i;

	if (!IS_ERR_OR_NULL(q->qp)) {
		ib_drain_qp(q->qp);
		ib_destroy_qp(q->qp);
	}
	if (!IS_ERR_OR_NULL(q->peer)) {
		ib_drain_qp(q->peer);
		ib_destroy_qp(q->peer);
	}
	if (!IS_ERR_OR_NULL(q->send_cq))
		ib_free_cq(q->send_cq);
	if (!IS_ERR_OR_NULL(q->recv_cq))
		ib_free_cq(q->recv_cq);
	for (i = 0; i < KT_ROUNDS; i++) {
		if (!IS_ERR_OR_NULL(q->rounds[i].mr))
			ib_dereg_mr(q->rounds[i].mr);
		kfree(q->rounds[i].from);
		kfree(q->rounds[i].to);
	}
	kfree(q->messages);
}

static int kt_post_qp_init(struct kt_post_qp *q, u32 index)
{
	struct ib_qp_cap cap = {
		.max_send_wr = KT_ROUNDS * KT_ROUND_WRS + 1,
		.max_recv_wr = 2 * KT_ROUNDS + 1,
		.max_send_sge = 1,
		.max_recv_sge = 1,
	};
	int i, ret;

	q->index = index;
	spin_lock_init(&q->lock);
	q->messages = kcalloc(3 * KT_ROUNDS, sizeof(*q->messages), GFP_KERNEL);
	if (!q->messages)
		return -ENOMEM;
	q->send_cq = ib_alloc_cq(kt.a.ib, q, 2 * cap.max_send_wr, index % num_online_cpus(), IB_POLL_SOFTIRQ);
	q->recv_cq = ib_alloc_cq(kt.b.ib, q, 2 * cap.max_recv_wr, index % num_online_cpus(), IB_POLL_SOFTIRQ);
	if (IS_ERR(q->send_cq) || IS_ERR(q->recv_cq))
		return -ENOMEM;
	q->qp = kt_create_qp(&kt.a, q->send_cq, q->send_cq, &cap, q);
	q->peer = kt_create_qp(&kt.b, q->recv_cq, q->recv_cq, &cap, q);
	if (IS_ERR(q->qp) || IS_ERR(q->peer))
		return -ENOMEM;
	for (i = 0; i < KT_ROUNDS; i++) {
		struct kt_round *r = &q->rounds[i];
		struct scatterlist sg;

		r->q = q;
		r->done.done = kt_round_done;
		r->failed.done = kt_round_failed;
		r->message = &q->messages[i];
		r->from = kzalloc(KT_WRITE_SIZE, GFP_KERNEL);
		r->to = kzalloc(KT_WRITE_SIZE, GFP_KERNEL);
		if (!r->from || !r->to)
			return -ENOMEM;
		r->mr = ib_alloc_mr(kt.a.pd, IB_MR_TYPE_MEM_REG, 1);
		if (IS_ERR(r->mr))
			return PTR_ERR(r->mr);
		sg_init_one(&sg, r->from, KT_WRITE_SIZE);
		if (ib_dma_map_sg(kt.a.ib, &sg, 1, DMA_TO_DEVICE) != 1 || ib_map_mr_sg(r->mr, &sg, 1, NULL, PAGE_SIZE) != 1)
			return -EINVAL;
	}
	if (kt_arg_is("ctx", "handler")) {
		q->comp_handler = q->send_cq->comp_handler;
		q->send_cq->comp_handler = kt_comp_handler;
	}
	ret = kt_connect_both(q->qp, &kt.a, q->peer, &kt.b, &kt_usual_path);
	for (i = 0; !ret && i < 2 * KT_ROUNDS; i++) {
		struct kt_recv *recv = &q->recvs[i];

		recv->q = q;
		recv->done.done = kt_recv_done;
		recv->message = &q->messages[KT_ROUNDS + i];
		ret = kt_post_recv(recv);
	}
	return ret;
}

/* Contexts. */

static enum hrtimer_restart kt_hard_tick(struct hrtimer *timer)
{
	if (!READ_ONCE(kt.running))
		return HRTIMER_NORESTART;
	WARN_ON_ONCE(!in_hardirq());
	/* Half of the posts from the timer's interrupt, half from an interrupt of their own. */
	kt_post_one_each();
	irq_work_queue(this_cpu_ptr(kt.works));
	hrtimer_forward_now(timer, kt.period_ns);
	return HRTIMER_RESTART;
}

static void kt_irq_work(struct irq_work *work)
{
	WARN_ON_ONCE(!in_hardirq());
	kt_post_one_each();
}

static enum hrtimer_restart kt_soft_tick(struct hrtimer *timer)
{
	if (!READ_ONCE(kt.running))
		return HRTIMER_NORESTART;
	WARN_ON_ONCE(!in_serving_softirq());
	kt_post_all();
	hrtimer_forward_now(timer, kt.period_ns);
	return HRTIMER_RESTART;
}

static void kt_start_timer(void *hard)
{
	hrtimer_start(this_cpu_ptr(kt.timers), kt.period_ns, hard ? HRTIMER_MODE_REL_PINNED : HRTIMER_MODE_REL_PINNED_SOFT);
}

/*
 * Interrupts as consumers have them. Those of the _HARD variants are not for consumers: they stay interrupts on a kernel
 * whose spin locks sleep, and whatever takes such a lock must not be called from them.
 */
static int kt_timers_start(bool hard)
{
	int cpu;

	kt.timers = alloc_percpu(struct hrtimer);
	kt.works = alloc_percpu(struct irq_work);
	if (!kt.timers || !kt.works)
		return -ENOMEM;
	for_each_possible_cpu(cpu) {
		hrtimer_setup(per_cpu_ptr(kt.timers, cpu), hard ? kt_hard_tick : kt_soft_tick, CLOCK_MONOTONIC,
			      hard ? HRTIMER_MODE_REL_PINNED : HRTIMER_MODE_REL_PINNED_SOFT);
		*per_cpu_ptr(kt.works, cpu) = IRQ_WORK_INIT(kt_irq_work);
	}
	on_each_cpu(kt_start_timer, hard ? &kt : NULL, 1);
	return 0;
}

static void kt_timers_stop(void)
{
	int cpu;

	if (kt.timers && kt.works) {
		for_each_possible_cpu(cpu) {
			hrtimer_cancel(per_cpu_ptr(kt.timers, cpu));
			irq_work_sync(per_cpu_ptr(kt.works, cpu));
		}
	}
	free_percpu(kt.timers);
	free_percpu(kt.works);
	kt.timers = NULL;
	kt.works = NULL;
}

/* Posts under a lock of its own with interrupts disabled, as drivers do that post from their queueing functions. */
static int kt_irqsoff_thread(void *unused)
{
	static DEFINE_SPINLOCK(lock);
	unsigned long flags;

	while (!kthread_should_stop()) {
		spin_lock_irqsave(&lock, flags);
		kt_post_one_each();
		spin_unlock_irqrestore(&lock, flags);
		usleep_range(kt.period_ns / 1000, kt.period_ns / 500);
	}
	return 0;
}

static void kt_run_posts(void)
{
	u64 limit = kt_arg("secs", 5) * 1000ULL;
	struct task_struct *threads[2] = {};
	ktime_t start = ktime_get();
	u64 rounds = 0, lost = 0;
	u32 idle = 0;
	u32 i;

	WRITE_ONCE(kt.running, true);
	if (kt_arg_is("ctx", "hardirq") || kt_arg_is("ctx", "softirq")) {
		if (!kt_check(!kt_timers_start(kt_arg_is("ctx", "hardirq")), "timers"))
			goto out;
	} else if (kt_arg_is("ctx", "irqsoff")) {
		for (i = 0; i < ARRAY_SIZE(threads); i++)
			threads[i] = kthread_run(kt_irqsoff_thread, NULL, "ktest-post/%u", i);
	} else {
		/* The first rounds; the handlers post the others. */
		kt_post_all();
	}
	while (!kt_stopping() && kt_ms_since(start) < limit && !atomic_read(&kt.status.count))
		msleep(20);
out:
	WRITE_ONCE(kt.running, false);
	kt_timers_stop();
	for (i = 0; i < ARRAY_SIZE(threads); i++)
		if (!IS_ERR_OR_NULL(threads[i]))
			kthread_stop(threads[i]);

	/* Everything that was posted comes to its end. */
	start = ktime_get();
	do {
		msleep(20);
		for (i = 0, idle = 0; i < kt.nqps; i++)
			idle += kt.qps[i].posted == smp_load_acquire(&kt.qps[i].completed);
	} while (idle < kt.nqps && !kt_stopping() && !atomic_read(&kt.status.count) && kt_ms_since(start) < 20000ULL * kt_slow());
	for (i = 0; i < kt.nqps; i++) {
		rounds += kt.qps[i].completed;
		lost += kt.qps[i].posted - kt.qps[i].completed;
	}
	kt_check(rounds > kt.nqps, "%llu rounds on %u queue pairs", rounds, kt.nqps);
	kt_check(!lost, "nothing that was posted is lost (%llu rounds are)", lost);
	kt_check_fault(&kt.post, "no post fails");
	kt_check_fault(&kt.status, "no request fails");
	kt_check_fault(&kt.order, "everything in its order, once");
	kt_check_fault(&kt.data, "the data is right");
}

int kt_posts(void)
{
	u32 i;
	int ret;

	memset(&kt, 0, sizeof(kt));
	ret = kt_end_open(&kt.a, "dev", "gid");
	if (ret)
		return ret;
	ret = kt_end_open(&kt.b, "peer", "pgid");
	if (ret)
		goto close_a;
	kt.nqps = kt_arg("qps", 1);
	kt.period_ns = kt_arg("period_us", 500) * 1000 * kt_slow();
	kt.qps = kvcalloc(kt.nqps, sizeof(*kt.qps), GFP_KERNEL);
	ret = kt.qps ? 0 : -ENOMEM;
	for (i = 0; !ret && i < kt.nqps; i++)
		ret = kt_post_qp_init(&kt.qps[i], i);
	if (ret)
		goto free;
	ret = kt_probes_on(&kt.a, &kt.b);
	if (ret)
		goto free;
	kt_run_posts();
	kt_probes_off();
free:
	for (i = 0; kt.qps && i < kt.nqps; i++)
		kt_post_qp_free(&kt.qps[i]);
	kvfree(kt.qps);
	kt_end_close(&kt.b);
close_a:
	kt_end_close(&kt.a);
	return ret;
}
