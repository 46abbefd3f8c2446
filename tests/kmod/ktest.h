/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A consumer of RDMA devices inside the kernel that does what storage drivers do, and checks what it gets.
 *
 * A test is a line written to <debugfs>/rxe_ktest/run, "TEST key=value ...". The write returns when the test has
 * ended; what it found is then read from the same file, a line each: "ok NAME", "fail NAME", or "info TEXT".
 */
#ifndef RXE_KTEST_H
#define RXE_KTEST_H

#include <linux/completion.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/types.h>
#include <rdma/ib_verbs.h>

struct net;

/* A device that may be used, until its client is told that it goes. */
struct kt_dev {
	struct list_head node;
	struct ib_device *ib;
	int users;
	bool dying;
	struct completion idle;
};

/* A device in use: a protection domain and an address. */
struct kt_end {
	struct kt_dev *dev;
	struct ib_device *ib;
	struct ib_pd *pd;
	union ib_gid gid;
	u32 gid_index;
	enum ib_mtu mtu;
	struct net *net;
	u32 ifindex;
};

/* What a queue pair is connected with. */
struct kt_path {
	u8 timeout;
	u8 retry_cnt;
	u8 rnr_retry;
	u8 min_rnr_timer;
	u8 rd_atomic;
	u32 psn;
};

/* The first thing that went wrong, noted in any context. */
struct kt_fault {
	atomic_t count;
	atomic_t written;
	char text[160];
};

/* main.c: arguments and results of the test that runs. */
u32 kt_arg(const char *key, u32 otherwise);
bool kt_arg_is(const char *key, const char *value);
const char *kt_arg_text(const char *key);
/* Whether the test is to end early: a signal, or a device that goes. */
bool kt_stopping(void);
/* How much slower than usual this machine is. */
u32 kt_slow(void);

__printf(1, 2) void kt_info(const char *fmt, ...);
/* A verdict with its name: the format is the name, and where it fails also the reason. Returns `good`. */
__printf(2, 3) bool kt_check(bool good, const char *fmt, ...);
/* Any context. */
__printf(2, 3) void kt_fault(struct kt_fault *fault, const char *fmt, ...);
/* A verdict on all that was noted. */
bool kt_check_fault(struct kt_fault *fault, const char *name);

struct kt_dev *kt_dev_get(const char *name);
void kt_dev_put(struct kt_dev *dev);

/* wire.c */
int kt_end_open(struct kt_end *end, const char *device_key, const char *gid_key);
void kt_end_close(struct kt_end *end);
struct ib_qp *kt_create_qp(struct kt_end *end, struct ib_cq *send_cq, struct ib_cq *recv_cq, struct ib_qp_cap *cap, void *context);
int kt_to_reset(struct ib_qp *qp);
int kt_connect(struct ib_qp *qp, const struct kt_end *end, const struct kt_end *peer, u32 peer_qpn, const struct kt_path *path);
int kt_connect_both(struct ib_qp *a, const struct kt_end *end_a, struct ib_qp *b, const struct kt_end *end_b,
		    const struct kt_path *path);
extern const struct kt_path kt_usual_path;

static inline u64 kt_ms_since(ktime_t start)
{
	return ktime_ms_delta(ktime_get(), start);
}

/* The tests. An error is about the set-up; what a test finds goes to kt_check(). */
int kt_verbs(void);
int kt_posts(void);
int kt_flow(void);
int kt_teardown(void);
int kt_keys(void);

#endif
