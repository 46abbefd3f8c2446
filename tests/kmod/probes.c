// SPDX-License-Identifier: GPL-2.0
/* Who transmits: see probes.h. */

#include <linux/kprobes.h>
#include <linux/net.h>
#include <linux/netdevice.h>
#include <linux/netfilter.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6.h>
#include <linux/percpu.h>
#include <net/ipv6.h>
#include <net/sock.h>

#include "probes.h"

static struct {
	const struct kt_end *from;
	const struct kt_end *to;
	atomic_t transmits;
	atomic_t in_post;
	char where[64];
} kt_seen;

static DEFINE_PER_CPU(struct kt_poster, kt_posting);

static void kt_saw_transmit(const char *where)
{
	struct kt_poster *poster;
	bool posting;

	atomic_inc(&kt_seen.transmits);
	/* An interrupt or softirq on top of the poster is not the poster. */
	poster = get_cpu_ptr(&kt_posting);
	posting = READ_ONCE(poster->task) == current && poster->hardirq == !!in_hardirq() &&
		  poster->softirq == !!in_serving_softirq();
	put_cpu_ptr(&kt_posting);
	if (!posting)
		return;
	if (atomic_inc_return(&kt_seen.in_post) == 1)
		strscpy(kt_seen.where, where, sizeof(kt_seen.where));
}

static unsigned int kt_hook_ip(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	kt_saw_transmit("IP output");
	return NF_ACCEPT;
}

static unsigned int kt_hook_dev(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	kt_saw_transmit("device queue");
	return NF_ACCEPT;
}

static struct nf_hook_ops kt_hooks[] = {
	{ .hook = kt_hook_ip, .pf = NFPROTO_IPV4, .hooknum = NF_INET_LOCAL_OUT, .priority = NF_IP_PRI_FIRST },
	{ .hook = kt_hook_ip, .pf = NFPROTO_IPV6, .hooknum = NF_INET_LOCAL_OUT, .priority = NF_IP6_PRI_FIRST },
	{ .hook = kt_hook_dev, .pf = NFPROTO_NETDEV, .hooknum = NF_NETDEV_EGRESS, .priority = INT_MIN },
};

#ifdef CONFIG_KPROBES
static int kt_probe_hit(struct kprobe *p, struct pt_regs *regs)
{
	kt_saw_transmit(p->symbol_name);
	return 0;
}

static struct kprobe kt_probes[] = {
	{ .symbol_name = "ip_local_out", .pre_handler = kt_probe_hit },
	{ .symbol_name = "ip6_local_out", .pre_handler = kt_probe_hit },
	{ .symbol_name = "__dev_queue_xmit", .pre_handler = kt_probe_hit },
};

static int kt_kprobes_on(void)
{
	int i, ret;

	for (i = 0; i < ARRAY_SIZE(kt_probes); i++) {
		/* What a registration leaves behind is no fresh probe. */
		kt_probes[i].addr = NULL;
		kt_probes[i].flags = 0;
		ret = register_kprobe(&kt_probes[i]);
		if (ret) {
			while (i--)
				unregister_kprobe(&kt_probes[i]);
			return ret;
		}
	}
	return 0;
}

static void kt_kprobes_off(void)
{
	unsigned long missed = 0;
	int i;

	for (i = 0; i < ARRAY_SIZE(kt_probes); i++) {
		unregister_kprobe(&kt_probes[i]);
		missed += kt_probes[i].nmissed;
	}
	kt_info("kprobes on %s, %s, %s; %lu hits missed", kt_probes[0].symbol_name, kt_probes[1].symbol_name,
		kt_probes[2].symbol_name, missed);
}
#else
static int kt_kprobes_on(void)
{
	return 0;
}

static void kt_kprobes_off(void)
{
	kt_info("no kprobes in this kernel, netfilter hooks alone");
}
#endif

static void kt_hooks_off(int count)
{
	while (count--) {
		nf_unregister_net_hook(kt_seen.from->net, &kt_hooks[count]);
		dev_put(kt_hooks[count].dev);
		kt_hooks[count].dev = NULL;
	}
}

static int kt_watch(void)
{
	int i, ret;

	for (i = 0; i < ARRAY_SIZE(kt_hooks); i++) {
		if (kt_hooks[i].pf == NFPROTO_NETDEV) {
			kt_hooks[i].dev = dev_get_by_index(kt_seen.from->net, kt_seen.from->ifindex);
			if (!kt_hooks[i].dev) {
				ret = -ENODEV;
				goto off;
			}
		}
		ret = nf_register_net_hook(kt_seen.from->net, &kt_hooks[i]);
		if (ret) {
			dev_put(kt_hooks[i].dev);
			kt_hooks[i].dev = NULL;
			goto off;
		}
	}
	ret = kt_kprobes_on();
	if (!ret)
		return 0;
off:
	kt_hooks_off(i);
	return ret;
}

static void kt_unwatch(void)
{
	kt_kprobes_off();
	kt_hooks_off(ARRAY_SIZE(kt_hooks));
}

void kt_poster_enter(struct kt_poster *outer)
{
	struct kt_poster *poster = this_cpu_ptr(&kt_posting);

	/* An interrupt may post on top of another poster. */
	*outer = *poster;
	poster->hardirq = in_hardirq();
	poster->softirq = in_serving_softirq();
	WRITE_ONCE(poster->task, current);
}

void kt_poster_leave(const struct kt_poster *outer)
{
	*this_cpu_ptr(&kt_posting) = *outer;
}

/* The probes see a poster that does transmit. */
static int kt_check_probes(void)
{
	struct kt_poster outer;
	struct sockaddr_storage to = {};
	struct kvec vec = { .iov_base = "probe", .iov_len = 5 };
	struct msghdr msg = { .msg_name = &to };
	bool v4 = ipv6_addr_v4mapped((struct in6_addr *)&kt_seen.to->gid);
	struct socket *sock;
	int ret, i, seen = 0;

	if (v4) {
		struct sockaddr_in *sin = (struct sockaddr_in *)&to;

		sin->sin_family = AF_INET;
		sin->sin_port = htons(9);
		memcpy(&sin->sin_addr, &kt_seen.to->gid.raw[12], 4);
		msg.msg_namelen = sizeof(*sin);
	} else {
		struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)&to;

		sin6->sin6_family = AF_INET6;
		sin6->sin6_port = htons(9);
		memcpy(&sin6->sin6_addr, &kt_seen.to->gid, 16);
		sin6->sin6_scope_id = kt_seen.from->ifindex;
		msg.msg_namelen = sizeof(*sin6);
	}
	ret = sock_create_kern(kt_seen.from->net, v4 ? AF_INET : AF_INET6, SOCK_DGRAM, IPPROTO_UDP, &sock);
	if (ret)
		return ret;
	/* While the neighbour is not known, a packet gets to the device queue later, and from elsewhere. */
	for (i = 0; i < 50; i++) {
		migrate_disable();
		kt_poster_enter(&outer);
		ret = kernel_sendmsg(sock, &msg, &vec, 1, vec.iov_len);
		kt_poster_leave(&outer);
		migrate_enable();
		seen = atomic_xchg(&kt_seen.in_post, 0);
		if (ret != 5 || seen >= 2)
			break;
		msleep(20);
	}
	sock_release(sock);
	kt_check(ret == 5 && seen >= 2, "the probes see a poster that transmits (%d entries, %d)", seen, ret);
	return 0;
}

int kt_probes_on(const struct kt_end *from, const struct kt_end *to)
{
	int ret;

	memset(&kt_seen, 0, sizeof(kt_seen));
	kt_seen.from = from;
	kt_seen.to = to;
	ret = kt_watch();
	if (ret)
		return ret;
	ret = kt_check_probes();
	if (ret)
		kt_unwatch();
	return ret;
}

void kt_probes_off(void)
{
	int transmits = atomic_read(&kt_seen.transmits);
	int in_post = atomic_read(&kt_seen.in_post);

	kt_unwatch();
	kt_check(transmits > 100 || kt_seen.from->ib == kt_seen.to->ib, "packets were sent meanwhile (%d entries)", transmits);
	kt_check(!in_post, "nothing is transmitted in the poster's context (%d entries, first: %s)", in_post, kt_seen.where);
}
