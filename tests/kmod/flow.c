// SPDX-License-Identifier: GPL-2.0
/*
 * Flow control of the send queue: what fits, what is said when nothing fits, and consumers that keep to the rule or break it.
 *
 * The rule: a request may be posted only into space that a polled completion has proven to be free. A completion proves that of
 * its own request and of those before it.
 */

#include <linux/delay.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "ktest.h"

#define KT_FLOW_RECVS 256

struct kt_flow;

struct kt_flow_recv {
	struct ib_cqe done;
	struct kt_flow *f;
	u32 *message;
};

static struct kt_flow {
	struct kt_end a;
	struct kt_end b;
	struct ib_qp *qp;
	struct ib_qp *peer;
	struct ib_cq *send_cq;
	struct ib_cq *peer_cq;
	u32 depth;
	/* The queue that create granted. */
	u32 granted;
	/* Every how many requests one is signaled; 0 is never. */
	u32 every;
	struct ib_cqe done;
	struct ib_cqe failed;
	/* A message for each number, modulo the size of the ring; behind them those that are received. */
	u32 *messages;
	u32 ring;
	struct kt_flow_recv *recvs;
	u32 posted;
	/* Number of the last request whose completion was polled. */
	u32 proven;
	u32 received;
	struct kt_fault fault;
} f;

static bool kt_flow_signaled(u32 number)
{
	return f.every && number % f.every == 0;
}

/* Signaled completions come in order, so each says which request it is of. */
static void kt_flow_done(struct ib_cq *cq, struct ib_wc *wc)
{
	if (wc->status) {
		kt_fault(&f.fault, "request completed with %s", ib_wc_status_msg(wc->status));
		return;
	}
	f.proven += f.every ?: 1;
}

static void kt_flow_failed(struct ib_cq *cq, struct ib_wc *wc)
{
	kt_fault(&f.fault, "unsignaled request completed with %s", ib_wc_status_msg(wc->status));
}

static int kt_flow_post_recv(struct kt_flow_recv *recv)
{
	struct ib_sge sge = {
		.addr = (uintptr_t)recv->message,
		.length = sizeof(*recv->message),
		.lkey = f.b.pd->local_dma_lkey,
	};
	struct ib_recv_wr wr = { .wr_cqe = &recv->done, .sg_list = &sge, .num_sge = 1 };

	return ib_post_recv(f.peer, &wr, NULL);
}

static void kt_flow_recv_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct kt_flow_recv *recv = container_of(wc->wr_cqe, struct kt_flow_recv, done);

	if (wc->status == IB_WC_WR_FLUSH_ERR)
		return;
	if (wc->status) {
		kt_fault(&f.fault, "receive completed with %s", ib_wc_status_msg(wc->status));
		return;
	}
	if (*recv->message != f.received + 1)
		kt_fault(&f.fault, "message %u arrived instead of %u", *recv->message, f.received + 1);
	WRITE_ONCE(f.received, f.received + 1);
	kt_flow_post_recv(recv);
}

/* Posts `count` requests as one list; `accepted` says how many were taken before the one that bad_wr names. */
static int kt_flow_post(u32 count, u32 *accepted)
{
	struct ib_send_wr *wrs;
	struct ib_sge *sges;
	const struct ib_send_wr *bad = NULL;
	u32 i;
	int ret;

	wrs = kvcalloc(count, sizeof(*wrs), GFP_KERNEL);
	sges = kvcalloc(count, sizeof(*sges), GFP_KERNEL);
	if (!wrs || !sges) {
		ret = -EIO;
		goto out;
	}
	for (i = 0; i < count; i++) {
		u32 number = f.posted + i + 1;
		u32 *message = &f.messages[number % f.ring];

		*message = number;
		sges[i].addr = (uintptr_t)message;
		sges[i].length = sizeof(*message);
		sges[i].lkey = f.a.pd->local_dma_lkey;
		wrs[i].next = i + 1 < count ? &wrs[i + 1] : NULL;
		wrs[i].wr_cqe = kt_flow_signaled(number) ? &f.done : &f.failed;
		wrs[i].opcode = IB_WR_SEND;
		wrs[i].send_flags = kt_flow_signaled(number) ? IB_SEND_SIGNALED : 0;
		wrs[i].sg_list = &sges[i];
		wrs[i].num_sge = 1;
	}
	ret = ib_post_send(f.qp, wrs, &bad);
	*accepted = count;
	if (ret) {
		if (bad < wrs || bad >= wrs + count) {
			kt_fault(&f.fault, "error %d without a bad_wr of the list", ret);
			*accepted = 0;
		} else {
			*accepted = bad - wrs;
		}
	}
	f.posted += *accepted;
out:
	kvfree(wrs);
	kvfree(sges);
	return ret;
}

/* Posts one request. On the stack: this is the loop that is to keep the queue full. */
static int kt_flow_post_one(void)
{
	u32 number = f.posted + 1;
	u32 *message = &f.messages[number % f.ring];
	struct ib_sge sge = { .addr = (uintptr_t)message, .length = sizeof(*message), .lkey = f.a.pd->local_dma_lkey };
	struct ib_send_wr wr = {
		.wr_cqe = kt_flow_signaled(number) ? &f.done : &f.failed,
		.opcode = IB_WR_SEND,
		.send_flags = kt_flow_signaled(number) ? IB_SEND_SIGNALED : 0,
		.sg_list = &sge,
		.num_sge = 1,
	};
	const struct ib_send_wr *bad = NULL;
	int ret;

	/* The place in the ring of messages may hold one that still waits. */
	if (number - READ_ONCE(f.received) >= f.ring - f.granted)
		return -EAGAIN;
	*message = number;
	ret = ib_post_send(f.qp, &wr, &bad);
	if (ret && bad != &wr)
		kt_fault(&f.fault, "error %d with another bad_wr", ret);
	if (!ret)
		f.posted = number;
	return ret;
}

struct kt_flow_probe {
	struct ib_cqe cqe;
	bool done;
};

static void kt_flow_probe_done(struct ib_cq *cq, struct ib_wc *wc)
{
	WRITE_ONCE(container_of(wc->wr_cqe, struct kt_flow_probe, cqe)->done, true);
}

/* Flushes the send queue: ib_drain_qp() wants room in it, which a full queue has only when its requests have completed. */
static void kt_flow_flush(void)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	struct kt_flow_probe probe = { .cqe.done = kt_flow_probe_done };
	struct ib_send_wr wr = { .wr_cqe = &probe.cqe, .opcode = IB_WR_SEND };
	ktime_t start = ktime_get();
	int ret;

	ret = ib_modify_qp(f.qp, &attr, IB_QP_STATE);
	while (!ret && kt_ms_since(start) < 10000ULL * kt_slow()) {
		ret = ib_post_send(f.qp, &wr, NULL);
		if (ret != -ENOMEM)
			break;
		ret = 0;
		usleep_range(200, 400);
	}
	/* On the stack, so it must come back. */
	while (!ret && !READ_ONCE(probe.done)) {
		ib_process_cq_direct(f.send_cq, -1);
		usleep_range(200, 400);
	}
	kt_check(!ret, "depth %u/%u: a queue pair in error has room when its requests have completed (%d)", f.depth, f.every, ret);
}

static void kt_flow_free(void)
{
	if (!IS_ERR_OR_NULL(f.qp)) {
		kt_flow_flush();
		ib_drain_qp(f.qp);
		ib_destroy_qp(f.qp);
	}
	if (!IS_ERR_OR_NULL(f.peer)) {
		ib_drain_qp(f.peer);
		ib_destroy_qp(f.peer);
	}
	if (!IS_ERR_OR_NULL(f.send_cq))
		ib_free_cq(f.send_cq);
	if (!IS_ERR_OR_NULL(f.peer_cq))
		ib_free_cq(f.peer_cq);
	kfree(f.messages);
	kvfree(f.recvs);
	f.qp = NULL;
	f.peer = NULL;
	f.send_cq = NULL;
	f.peer_cq = NULL;
	f.messages = NULL;
	f.recvs = NULL;
}

/* A connected pair; the peer has no receive posted. */
static int kt_flow_init(u32 cqes)
{
	struct ib_qp_cap cap = { .max_send_wr = f.depth, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 };
	struct ib_qp_cap peer_cap = {
		.max_send_wr = 1,
		.max_recv_wr = KT_FLOW_RECVS + 1,
		.max_send_sge = 1,
		.max_recv_sge = 1,
	};
	struct kt_path path = kt_usual_path;
	u32 i;

	f.done.done = kt_flow_done;
	f.failed.done = kt_flow_failed;
	f.posted = 0;
	f.proven = 0;
	f.received = 0;
	f.send_cq = ib_alloc_cq(f.a.ib, &f, cqes, 0, IB_POLL_DIRECT);
	f.peer_cq = ib_alloc_cq(f.b.ib, &f, 2 * KT_FLOW_RECVS, 0, IB_POLL_SOFTIRQ);
	if (IS_ERR(f.send_cq) || IS_ERR(f.peer_cq))
		return -ENOMEM;
	f.qp = kt_create_qp(&f.a, f.send_cq, f.send_cq, &cap, &f);
	f.peer = kt_create_qp(&f.b, f.peer_cq, f.peer_cq, &peer_cap, &f);
	if (IS_ERR(f.qp) || IS_ERR(f.peer))
		return -ENOMEM;
	f.granted = cap.max_send_wr;
	/* A list that is refused may be longer than the queue. */
	f.ring = 4 * f.granted + 64;
	f.messages = kcalloc(f.ring + KT_FLOW_RECVS, sizeof(*f.messages), GFP_KERNEL);
	f.recvs = kvcalloc(KT_FLOW_RECVS, sizeof(*f.recvs), GFP_KERNEL);
	if (!f.messages || !f.recvs)
		return -ENOMEM;
	for (i = 0; i < KT_FLOW_RECVS; i++) {
		f.recvs[i].done.done = kt_flow_recv_done;
		f.recvs[i].f = &f;
		f.recvs[i].message = &f.messages[f.ring + i];
	}
	return kt_connect_both(f.qp, &f.a, f.peer, &f.b, &path);
}

static int kt_flow_open_peer(void)
{
	int i, ret = 0;

	for (i = 0; !ret && i < KT_FLOW_RECVS; i++)
		ret = kt_flow_post_recv(&f.recvs[i]);
	return ret;
}

/* Waits for all that was posted; polls meanwhile. */
static bool kt_flow_all_arrive(void)
{
	ktime_t start = ktime_get();
	u32 last = f.received;

	while (READ_ONCE(f.received) != f.posted && !kt_stopping() && kt_ms_since(start) < 10000ULL * kt_slow()) {
		ib_process_cq_direct(f.send_cq, -1);
		if (f.received != last) {
			last = f.received;
			start = ktime_get();
		}
		usleep_range(200, 400);
	}
	/* The last acknowledgements. */
	start = ktime_get();
	while (f.every && f.proven + f.every <= f.posted && kt_ms_since(start) < 5000ULL * kt_slow()) {
		ib_process_cq_direct(f.send_cq, -1);
		usleep_range(200, 400);
	}
	return f.received == f.posted && (!f.every || f.proven + f.every > f.posted);
}

/* A queue that nothing leaves: the peer has no receive for the first message. */
static void kt_flow_full(void)
{
	u32 accepted = 0, more;
	int ret = 0;
	bool all;

	while (!ret && f.posted <= 2 * f.granted)
		ret = kt_flow_post_one();
	kt_check(ret == -ENOMEM && f.posted == f.granted && f.granted >= f.depth,
		 "depth %u/%u: single posts fill the queue (%u of %u, then %d)", f.depth, f.every, f.posted, f.granted, ret);
	ret = kt_flow_post(3, &more);
	kt_check(ret == -ENOMEM && more == 0, "depth %u/%u: a list finds it full (%u taken, %d)", f.depth, f.every, more, ret);
	kt_flow_open_peer();
	all = kt_flow_all_arrive();
	kt_check(all, "depth %u/%u: all of them arrive (%u of %u, %u proven)", f.depth, f.every, f.received,
		 f.posted, f.proven);

	/* An empty queue again, and a list that is longer than it. */
	kt_to_reset(f.peer);
	kt_to_reset(f.qp);
	f.posted = 0;
	f.received = 0;
	f.proven = 0;
	if (kt_connect_both(f.qp, &f.a, f.peer, &f.b, &kt_usual_path)) {
		kt_check(false, "depth %u/%u: connected again", f.depth, f.every);
		return;
	}
	ret = kt_flow_post(f.granted + 5, &accepted);
	kt_check(ret == -ENOMEM && accepted == f.granted, "depth %u/%u: a longer list is taken up to bad_wr (%u, %d)", f.depth,
		 f.every, accepted, ret);
	kt_flow_open_peer();
	all = kt_flow_all_arrive();
	kt_check(all, "depth %u/%u: all of the list arrive (%u of %u, %u proven)", f.depth, f.every, f.received,
		 f.posted, f.proven);
}

/* A consumer that keeps to the rule and the queue full. */
static void kt_flow_obey(void)
{
	u64 limit = kt_arg("ms", 500);
	ktime_t start = ktime_get(), progress = start;
	u32 last = 0;
	bool stalled = false, all;
	int ret = 0;

	kt_flow_open_peer();
	while (!ret && !stalled && !kt_stopping() && kt_ms_since(start) < limit && !atomic_read(&f.fault.count)) {
		while (!ret && f.posted - f.proven < f.granted)
			ret = kt_flow_post_one();
		if (ret == -EAGAIN)
			ret = 0;
		ib_process_cq_direct(f.send_cq, -1);
		if (f.proven != last) {
			last = f.proven;
			progress = ktime_get();
		}
		stalled = kt_ms_since(progress) > 10000ULL * kt_slow();
		cond_resched();
	}
	kt_check(!ret && !stalled, "depth %u/%u: in its rights, %u posts%s (%d)", f.depth, f.every, f.posted,
		 stalled ? ", stalls" : "", ret);
	all = kt_flow_all_arrive();
	kt_check(all, "depth %u/%u: in its rights, all arrive (%u of %u)", f.depth, f.every, f.received, f.posted);
}

/* A consumer that posts again as soon as a post succeeds, whatever it has polled. */
static void kt_flow_break(void)
{
	u32 total = f.granted * 3 + 2;
	ktime_t start = ktime_get();
	int ret = 0;
	bool all;

	kt_flow_open_peer();
	while (f.posted < total && !kt_stopping() && kt_ms_since(start) < 20000ULL * kt_slow()) {
		ret = kt_flow_post_one();
		if (ret == -ENOMEM || ret == -EAGAIN)
			usleep_range(50, 100);
		else if (ret)
			break;
	}
	kt_check(f.posted == total, "depth %u/%u: without proof, all are taken in the end (%u of %u, %d)", f.depth, f.every, f.posted,
		 total, ret);
	all = kt_flow_all_arrive();
	kt_check(all, "depth %u/%u: without proof, all arrive (%u of %u)", f.depth, f.every, f.received, f.posted);
	kt_info("qpn %u", f.qp->qp_num);
}

int kt_flow(void)
{
	int ret;

	memset(&f, 0, sizeof(f));
	ret = kt_end_open(&f.a, "dev", "gid");
	if (ret)
		return ret;
	ret = kt_end_open(&f.b, "peer", "pgid");
	if (ret)
		goto close_a;
	f.depth = kt_arg("depth", 16);
	f.every = kt_arg("every", 1);
	ret = kt_flow_init(min(8 * f.depth + 64, 16384U));
	if (ret)
		goto free;
	if (kt_arg_is("mode", "full"))
		kt_flow_full();
	else if (kt_arg_is("mode", "obey"))
		kt_flow_obey();
	else if (kt_arg_is("mode", "break"))
		kt_flow_break();
	else
		ret = -EINVAL;
	if (atomic_read(&f.fault.count))
		kt_check_fault(&f.fault, "requests and receives are as they should be");
free:
	kt_flow_free();
	kt_end_close(&f.b);
close_a:
	kt_end_close(&f.a);
	return ret;
}
