/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Who transmits: probes where packets enter IP and the queueing discipline count what is sent, and what is sent by a context
 * that is inside ib_post_send() at that moment.
 */
#ifndef RXE_KTEST_PROBES_H
#define RXE_KTEST_PROBES_H

#include "ktest.h"

/* Who posts on a CPU, and in which context. */
struct kt_poster {
	struct task_struct *task;
	bool hardirq;
	bool softirq;
};

/*
 * From here on what leaves `from` is counted; first, that a poster that does transmit is seen, by a datagram to `to`. One test at
 * a time.
 */
int kt_probes_on(const struct kt_end *from, const struct kt_end *to);
/* No longer, and the verdicts: packets were sent (unless both ends are one device), and none of them by a poster. */
void kt_probes_off(void);

/*
 * Around a post, on one CPU, in any context. `outer` is on the caller's stack: an interrupt may post on top of another poster.
 */
void kt_poster_enter(struct kt_poster *outer);
void kt_poster_leave(const struct kt_poster *outer);

#endif
