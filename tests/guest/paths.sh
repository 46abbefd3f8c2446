#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: less usual ways for packets: a VLAN, two links of one host in one namespace, a queueing discipline that drops
# timeout: 240
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"

# pairs LABEL DEVICE ADDRESS DEVICE ADDRESS: messages of all services in both directions, and WRITE and READ.
pairs() { python3 "$(dirname "$0")/lib/pairs.py" "$@" 2>&1; }

two_ns 1500 || die 'no wire'

# A VLAN device has no link of its own (see the suite `link`); its addresses are GIDs of the link below it.
for x in 'A va 1' 'B vb 2'; do
	set -- $x
	ip -n "$1" link add link "$2" name "$2.5" type vlan id 5
	ip -n "$1" addr add "10.75.0.$3/24" dev "$2.5"
	ip -n "$1" addr add "fd75::$3/64" dev "$2.5" nodad
	ip -n "$1" link set "$2.5" up
done
check 'VLAN: its addresses are GIDs of the link' wait_for 5 gid_index rxeA fd75::1
wait_for 5 gid_index rxeA 10.75.0.1 && wait_for 5 gid_index rxeB 10.75.0.2 && wait_for 5 gid_index rxeB fd75::2
ip netns exec A tcpdump -i va -w /tmp/vlan.pcap -U 'vlan 5' 2>/dev/null &
dump=$!
wait_for 10 test -s /tmp/vlan.pcap
before=$(ip -n A -s -j link show va.5 | jq '.[0].stats64.rx.packets')
check 'VLAN, IPv4' pairs 'VLAN, IPv4' rxeA 10.75.0.1 rxeB 10.75.0.2
check 'VLAN, IPv6' pairs 'VLAN, IPv6' rxeA fd75::1 rxeB fd75::2
after=$(ip -n A -s -j link show va.5 | jq '.[0].stats64.rx.packets')
check "VLAN: that was received by the VLAN device ($((after - before)) packets)" test $((after - before)) -gt 100
sleep 1
kill $dump
wait $dump
tagged=$(tcpdump -r /tmp/vlan.pcap 'vlan 5 and (udp port 4791)' 2>/dev/null | wc -l)
check "VLAN: and tagged on the wire ($tagged packets)" test "$tagged" -gt 100
ip -n A link del va.5
ip -n B link del vb.5
gone() { ! gid_index rxeA 10.75.0.1 && ! gid_index rxeB fd75::2; }
check 'VLAN: its GIDs go with it' wait_for 5 gone

# A token bucket that is too small tells the sender, as a full queue of a network device does, that it has dropped a packet.
for x in 'A va' 'B vb'; do
	set -- $x
	tc -n "$1" qdisc replace dev "$2" root tbf rate 20mbit burst 3k limit 6k
done
dropped() { tc -n "$1" -s -j qdisc show dev "$2" | jq '[.[].drops] | add'; }
gidA=$(gid_index rxeA 10.77.0.1) gidB=$(gid_index rxeB 10.77.0.2)
bucket() {
	local before=$(($(dropped A va) + $(dropped B vb))) failed=$rxe_failed
	"$@"
	[ $failed != $rxe_failed ] || check "that lost packets ($(($(dropped A va) + $(dropped B vb) - before)))" \
		test $(($(dropped A va) + $(dropped B vb))) -gt $before
}
bucket across 'tbf: RC: ibv_rc_pingpong' tcp:18515 "ibv_rc_pingpong -d rxeA -g $gidA -c -s 20000 -n 20" \
	"ibv_rc_pingpong -d rxeB -g $gidB -c -s 20000 -n 20 10.77.0.1"
bucket across 'tbf: RC: ib_write_bw' tcp:18515 "ib_write_bw -d rxeA -x $gidA -F -n 50 -s 16384 -t 4" \
	"ib_write_bw -d rxeB -x $gidB -F -n 50 -s 16384 -t 4 10.77.0.1"
bucket across 'tbf: RC: ib_read_bw' tcp:18515 "ib_read_bw -d rxeA -x $gidA -F -n 20 -s 16384 -o 1" \
	"ib_read_bw -d rxeB -x $gidB -F -n 20 -s 16384 -o 1 10.77.0.1"
tc -n A qdisc del dev va root
tc -n B qdisc del dev vb root
check 'two namespaces are taken down' two_ns_gone

# Both ends in one namespace. IPv6 takes the way by the loopback device, and only the address says which link is meant. IPv4 packets
# leave by the network device of their link; the host must be told that it may hear itself, and whom to ask.
ip link add w0 type veth peer name w1
n=1
for x in w0 w1; do
	ip link set $x up
	ip addr add 10.76.0.$n/24 dev $x
	ip addr add fd76::$n/64 dev $x nodad
	sysctl -qw "net.ipv4.conf.$x.accept_local=1" "net.ipv4.conf.$x.rp_filter=0"
	rdma link add rxe$((n - 1)) type rxe netdev $x
	n=$((n + 1))
done
sysctl -qw net.ipv4.conf.all.rp_filter=0
ip neigh add 10.76.0.2 lladdr "$(cat /sys/class/net/w1/address)" dev w0 nud permanent
ip neigh add 10.76.0.1 lladdr "$(cat /sys/class/net/w0/address)" dev w1 nud permanent
wait_for 5 link_active rxe0 && wait_for 5 link_active rxe1 && wait_for 5 gid_index rxe0 fd76::1 && wait_for 5 gid_index rxe1 fd76::2
check 'two links in one namespace, IPv4' pairs 'one namespace, IPv4' rxe0 10.76.0.1 rxe1 10.76.0.2
better 'it knows no link for packets of the loopback device' 'two links in one namespace, IPv6' \
	pairs 'one namespace, IPv6' rxe0 fd76::1 rxe1 fd76::2
rdma link del rxe0
rdma link del rxe1
ip link del w0
finish
