#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: a host without IPv6: links come up, IPv4 works, nothing listens that needs IPv6
# append: ipv6.disable=1
# timeout: 90
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"

check 'the host has no IPv6' test ! -e /proc/net/if_inet6
modprobe -a veth rdma_rxe ib_uverbs rdma_ucm
ip netns add A
ip netns add B
ip link add va netns A type veth peer name vb netns B
for x in 'A va 1' 'B vb 2'; do
	set -- $x
	ip -n "$1" addr add "10.77.0.$3/24" dev "$2"
	ip -n "$1" link set lo up
	ip -n "$1" link set "$2" up
	check "a link on $2" ip netns exec "$1" rdma link add "rxe$1" type rxe netdev "$2"
done
check 'the links come up' wait_for 5 link_active rxeA
wait_for 5 link_active rxeB && wait_for 5 gid_index rxeA 10.77.0.1 && wait_for 5 gid_index rxeB 10.77.0.2 || die 'no GIDs'
expect 'one socket for RoCE in each namespace' '1 1' "$(inA ss -Huan sport = :4791 | wc -l) $(inB ss -Huan sport = :4791 | wc -l)"
python3 "$(dirname "$0")/lib/pairs.py" 'no IPv6' rxeA 10.77.0.1 rxeB 10.77.0.2 2>&1
rc=$?
check 'traffic' test $rc = 0
across 'rping' cm:7174 'rping -s -a 10.77.0.1 -C 5 -V -S 1000' 'rping -c -a 10.77.0.1 -C 5 -V -S 1000'
check 'two namespaces are taken down' two_ns_gone
check 'unloads' modprobe -r rdma_rxe
modprobe rdma_rxe
finish
