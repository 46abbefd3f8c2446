// SPDX-License-Identifier: GPL-2.0
/* Wrappers for networking. */

#include <linux/etherdevice.h>
#include <linux/if_vlan.h>
#include <linux/inetdevice.h>
#include <linux/mm.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/sched.h>
#include <linux/skbuff.h>
#include <net/dst.h>
#include <net/ip6_route.h>
#include <net/sock.h>

__rust_helper void rust_helper_dev_hold(struct net_device *dev)
{
	dev_hold(dev);
}

__rust_helper void rust_helper_dev_put(struct net_device *dev)
{
	dev_put(dev);
}

__rust_helper struct net *rust_helper_dev_net(const struct net_device *dev)
{
	return dev_net(dev);
}

__rust_helper bool rust_helper_netdev_is_registered(const struct net_device *dev)
{
	return READ_ONCE(dev->reg_state) == NETREG_REGISTERED;
}

__rust_helper struct in_device *rust_helper___in_dev_get_rtnl(const struct net_device *dev)
{
	return __in_dev_get_rtnl(dev);
}

__rust_helper bool rust_helper_is_vlan_dev(const struct net_device *dev)
{
	return is_vlan_dev(dev);
}

__rust_helper bool rust_helper_dst_valid(struct dst_entry *dst, u32 cookie)
{
	return dst_check(dst, cookie) != NULL;
}

__rust_helper u32 rust_helper_rt6_get_cookie(struct dst_entry *dst)
{
	return rt6_get_cookie(dst_rt6_info(dst));
}

__rust_helper unsigned int rust_helper_dst_reserved_space(const struct dst_entry *dst)
{
	return LL_RESERVED_SPACE(dst_dev(dst));
}

__rust_helper bool rust_helper_dst_is_loopback(const struct dst_entry *dst)
{
	return dst_dev(dst)->flags & IFF_LOOPBACK;
}

__rust_helper struct net *rust_helper_dst_dev_net_rcu(const struct dst_entry *dst)
{
	return dst_dev_net_rcu(dst);
}

__rust_helper void rust_helper_skb_dst_set_noref(struct sk_buff *skb, struct dst_entry *dst)
{
	skb_dst_set_noref(skb, dst);
}

__rust_helper struct page_frag *rust_helper_current_task_frag(void)
{
	return &current->task_frag;
}

__rust_helper void *rust_helper_page_frag_address(const struct page_frag *frag)
{
	return page_address(frag->page) + frag->offset;
}

__rust_helper void rust_helper_page_frag_get(const struct page_frag *frag)
{
	get_page(frag->page);
}

__rust_helper int rust_helper_skb_linearize(struct sk_buff *skb)
{
	return skb_linearize(skb);
}

__rust_helper void rust_helper_sock_set_flag(struct sock *sk, enum sock_flags flag)
{
	sock_set_flag(sk, flag);
}

__rust_helper void rust_helper_sock_put(struct sock *sk)
{
	sock_put(sk);
}

__rust_helper void *rust_helper_rcu_dereference_sk_user_data(struct sock *sk)
{
	return rcu_dereference_sk_user_data(sk);
}

__rust_helper void rust_helper_eth_random_addr(u8 *addr)
{
	eth_random_addr(addr);
}
