#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: links on network devices that stand on others (bridge, bond, macvlan, ipvlan), on the loopback device, on tunnels, with IPv6 alone, behind a firewall
# timeout: 240
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"

# pairs LABEL DEVICE ADDRESS DEVICE ADDRESS: messages of all services in both directions, and WRITE and READ.
pairs() { python3 "$(dirname "$0")/lib/pairs.py" "$@" 2>&1; }

# link_on NAMESPACE LINK NETDEV ADDRESS ADDRESS6: addresses and a link for a device that is ready.
link_on() {
	ip -n "$1" addr add "$4/24" dev "$3" && ip -n "$1" addr add "$5/64" dev "$3" nodad && ip -n "$1" link set "$3" up || return 1
	ip netns exec "$1" rdma link add "$2" type rxe netdev "$3" && wait_for 10 link_active "$2" && wait_for 5 gid_index "$2" "$4" && wait_for 5 gid_index "$2" "$5"
}

# stacked KIND NETDEV: a link on NETDEV in A, which stands on va, talks with rxeB, IPv4 and IPv6, and on its own.
stacked() {
	check "$1: a link" link_on A rxeS "$2" 10.77.0.3 fd77::3 || return
	# The address had another MAC address before.
	ip -n B neigh flush dev vb
	check "$1: IPv4" pairs "$1, IPv4" rxeS 10.77.0.3 rxeB 10.77.0.2
	check "$1: IPv6" pairs "$1, IPv6" rxeS fd77::3 rxeB fd77::2
	check "$1: with itself" pairs "$1, itself" rxeS 10.77.0.3 rxeS 10.77.0.3
	check "$1: the link goes with its network device" eval "ip -n A link del $2 && wait_for 10 no_rdma_device rxeS"
}

two_ns 1500 || die 'no wire'
modprobe -a bridge bonding macvlan ipvlan 2>/dev/null
rdma link del rxeA
ip -n A addr flush dev va

ip -n A link add br0 type bridge && ip -n A link set va master br0
stacked bridge br0

# Two links on one machine, with two addresses of one parent: each packet is for one of them, whatever its MAC address.
ip -n A link add mv0 link va type macvlan mode bridge
ip -n A link add mv1 link va type macvlan mode bridge
check 'macvlan: a link on the other' link_on A rxeT mv1 10.77.0.4 fd77::4
stacked macvlan mv0
ip -n A link add mv0 link va type macvlan mode bridge
check 'macvlan: a link, once more' link_on A rxeS mv0 10.77.0.3 fd77::3
better 'it takes the one for the other, and nothing arrives' 'macvlan: from one to the other, IPv6' pairs 'macvlans' rxeS fd77::3 rxeT fd77::4
ip -n A link del mv0
ip -n A link del mv1
wait_for 10 no_rdma_device rxeS
check 'macvlan: the links go' wait_for 10 no_rdma_device rxeT

# All devices of an ipvlan have the MAC address of their parent.
ip -n A link add iv0 link va type ipvlan mode l2
stacked ipvlan iv0

ip -n A link add bond0 type bond mode active-backup miimon 100 && ip -n A link set va down && ip -n A link set va master bond0
ip -n A link set va up
stacked bond bond0
ip -n A link set va nomaster 2>/dev/null
ip -n A link set va up

# The loopback device has ::1 and 127.0.0.1, which everybody has: the link talks with itself.
ip netns exec A rdma link add rxeL type rxe netdev lo
check 'lo: a link' wait_for 10 link_active rxeL
if wait_for 3 gid_index rxeL 127.0.0.1; then
	check 'lo: IPv4' pairs 'lo, IPv4' rxeL 127.0.0.1 rxeL 127.0.0.1
else
	skipped 'lo: IPv4' 'the core gives it no GID of this address'
fi
check 'lo: the link goes' rdma link del rxeL

# Link-local addresses, which the kernel gave.
ip -n A addr add 10.77.0.1/24 dev va && ip -n A addr add fd77::1/64 dev va nodad
ip netns exec A rdma link add rxeA type rxe netdev va
wait_for 5 link_active rxeA
local_of() { ip -n "$1" -6 -o addr show dev "$2" scope link -tentative | sed -n 's/.* inet6 \([^ /]*\).*/\1/p'; }
there_is() { [ -n "$(local_of A va)" ] && [ -n "$(local_of B vb)" ]; }
wait_for 10 there_is
check 'link-local addresses' pairs 'link-local' rxeA "$(local_of A va)" rxeB "$(local_of B vb)"

# Tunnel devices have no hardware address. A program at each carries what goes in to the other, and ends if that is not there yet.
modprobe tun
carriers=
for x in 'A ta tb 1' 'B tb ta 2'; do
	set -- $x
	ip netns exec "$1" socat "TUN:10.80.0.$4/24,tun-name=$2,iff-no-pi" "UNIX-SENDTO:/tmp/$3.sock,bind=/tmp/$2.sock" &
	carriers="$carriers $!"
	wait_for 10 test -e "/tmp/$2.sock"
	wait_for 10 ip -n "$1" link show "$2"
done
for x in 'A ta 1' 'B tb 2'; do
	set -- $x
	ip -n "$1" link set "$2" up
	ip -n "$1" addr add "fd80::$3/64" dev "$2" nodad
	ip netns exec "$1" rdma link add "rxe_$2" type rxe netdev "$2"
done
check 'tun: links' eval 'wait_for 10 link_active rxe_ta && wait_for 10 link_active rxe_tb && wait_for 5 gid_index rxe_ta fd80::1 && wait_for 5 gid_index rxe_tb fd80::2'
better 'nothing arrives' 'tun: IPv4' pairs 'tun, IPv4' rxe_ta 10.80.0.1 rxe_tb 10.80.0.2
better 'nothing arrives' 'tun: IPv6' pairs 'tun, IPv6' rxe_ta fd80::1 rxe_tb fd80::2
kill $carriers
wait $carriers
rm -f /tmp/ta.sock /tmp/tb.sock
check 'tun: the links go with their devices' eval 'wait_for 10 no_rdma_device rxe_ta && wait_for 10 no_rdma_device rxe_tb'

# Hosts that have IPv6 addresses alone.
ip -n A -4 addr flush dev va
ip -n B -4 addr flush dev vb
check 'IPv6 alone: verbs' pairs 'IPv6 alone' rxeA fd77::1 rxeB fd77::2
across 'IPv6 alone: the connection manager' cm:7174 'rping -s -a fd77::1 -C 5 -V' 'rping -c -a fd77::1 -C 5 -V'
ip -n A addr add 10.77.0.1/24 dev va
ip -n B addr add 10.77.0.2/24 dev vb
wait_for 5 gid_index rxeA 10.77.0.1 && wait_for 5 gid_index rxeB 10.77.0.2

# A firewall that takes one packet in ten away, going out and coming in. What goes out is refused to us, with an error.
for hook in output input; do
	inA nft -f - <<-END
		table inet rxe {
			chain c {
				type filter hook $hook priority 0;
				udp dport 4791 numgen random mod 10 == 0 counter drop
			}
		}
	END
	TRIES=4 across "firewall, $hook: RC" tcp:18515 "ibv_rc_pingpong -d rxeA -g $(gid_index rxeA 10.77.0.1) -c -s 20000 -n 50" \
		"ibv_rc_pingpong -d rxeB -g $(gid_index rxeB 10.77.0.2) -c -s 20000 -n 50 10.77.0.1"
	n=$(inA nft -j list table inet rxe | jq '[.. | .counter? // empty | .packets] | add')
	check "firewall, $hook: that took packets away ($n)" test "$n" -gt 10
	inA nft delete table inet rxe
done
check 'two namespaces are taken down' two_ns_gone
finish
