#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: what happens to the netdev happens to the link: carrier, MTU, addresses, name, removal; sockets live as long as links
# timeout: 120
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"

sockets() { # NAMESPACE: how many UDP 4791 sockets, IPv4 and IPv6
	echo "$(ip netns exec "$1" ss -Hul4n 'sport = :4791' | wc -l)+$(ip netns exec "$1" ss -Hul6n 'sport = :4791' | wc -l)"
}
sockets_are() { [ "$(sockets "$1")" = "$2" ]; }
port_state_is() { [[ $(cat "/sys/class/infiniband/$1/ports/1/state") = *"$2" ]]; }
mtu_is() { ibv_devinfo -d "$1" | grep -q "active_mtu:.*$2 "; }
no_gid() { ! gid_index "$1" "$2"; }

two_ns 1500 || die 'no wire'

# Sockets.
check 'a link has an IPv4 and an IPv6 socket, in its own namespace' sockets_are A 1+1
check 'and none elsewhere' test -z "$(ss -Huln 'sport = :4791')"
ip link add d1 netns A type dummy
ip -n A link set d1 up
check 'a second link in the namespace can be added' inA rdma link add rxeD type rxe netdev d1
check 'it shares the sockets' sockets_are A 1+1
check 'the second link can be deleted' rdma link del rxeD
check 'the sockets stay while one link is left' sockets_are A 1+1
check 'the other namespace has its own' sockets_are B 1+1

# Carrier.
events=/tmp/events
ibv_asyncwatch -d rxeA >$events 2>&1 &
watcher=$!
wait_for 10 grep -q rxeA $events
ip -n A link set va down
check 'the port goes down with the netdev' wait_for 5 port_state_is rxeA DOWN
ip -n A link set va up
check 'the port comes up with the netdev' wait_for 5 port_state_is rxeA ACTIVE
ip -n B link set vb down
check 'the port goes down with the carrier' wait_for 5 port_state_is rxeA DOWN
ip -n B link set vb up
check 'the port comes up with the carrier' wait_for 5 port_state_is rxeA ACTIVE
check 'programs are told of the port going down' wait_for 5 grep -qi 'port.*err\|IBV_EVENT_PORT_ERR' $events
check 'programs are told of the port coming up' wait_for 5 grep -qi 'port.*active\|IBV_EVENT_PORT_ACTIVE' $events
ip -n A addr add 10.77.2.1/24 dev va
check 'and of a GID that comes' wait_for 5 grep -qi 'gid.*change\|IBV_EVENT_GID_CHANGE' $events
ip -n A addr del 10.77.2.1/24 dev va
kill $watcher
wait $watcher 2>/dev/null

# MTU: the largest RDMA MTU whose packets fit.
for pair in 1500:1024 9000:4096 4200:4096 2200:2048 600:512 1500:1024; do
	ip -n A link set va mtu "${pair%:*}"
	check "netdev MTU ${pair%:*}: RDMA MTU ${pair#*:}" wait_for 5 mtu_is rxeA "${pair#*:}"
done

# Addresses. IPv6 ones went with the carrier, and with an MTU that IPv6 cannot have.
ip -n A addr replace fd77::1/64 dev va nodad
ip -n B addr replace fd77::2/64 dev vb nodad
ip -n A addr add 10.77.1.1/24 dev va
check 'a new IPv4 address is a GID' wait_for 5 gid_index rxeA 10.77.1.1
ip -n A addr add fd77:1::1/64 dev va nodad
check 'a new IPv6 address is a GID' wait_for 5 gid_index rxeA fd77:1::1
ip -n A addr del 10.77.1.1/24 dev va
check 'and an address that goes takes its GID with it (IPv4)' wait_for 5 no_gid rxeA 10.77.1.1
ip -n A addr del fd77:1::1/64 dev va
check 'and an address that goes takes its GID with it (IPv6)' wait_for 5 no_gid rxeA fd77:1::1
wait_for 5 gid_index rxeA fd77::1
wait_for 5 gid_index rxeB fd77::2
across 'traffic flows' cm:7174 'rping -s -a 10.77.0.1 -C 5 -V' 'rping -c -a 10.77.0.1 -C 5 -V'
ip -n A link set va address 02:00:00:00:77:01
ip -n B neigh flush dev vb
across 'traffic flows with another hardware address' cm:7174 'rping -s -a 10.77.0.1 -C 5 -V' 'rping -c -a 10.77.0.1 -C 5 -V'
across 'also over IPv6' cm:7174 'rping -s -a fd77::1 -C 5 -V' 'rping -c -a fd77::1 -C 5 -V'
ip -n A link set va name renamed
check 'a renamed netdev keeps its link' eval 'inA rdma link show rxeA/1 | grep -q "netdev renamed"'
ip -n A link set renamed name va

# Removal.
ip link add d2 netns A type dummy
ip -n A link set d2 up
inA rdma link add rxeD type rxe netdev d2
ip -n A link del d2
check 'a netdev that goes takes its link with it' wait_for 5 no_rdma_device rxeD
check 'but not the sockets of the other link' sockets_are A 1+1
ip -n A link del va
check 'a pair that goes takes both links with it' eval 'wait_for 5 no_rdma_device rxeA && wait_for 5 no_rdma_device rxeB'
check 'and all sockets (A)' wait_for 5 sockets_are A 0+0
check 'and all sockets (B)' wait_for 5 sockets_are B 0+0
ip link add d3 netns B type dummy
ip -n B link set d3 up
inB rdma link add rxeD type rxe netdev d3
ip netns del B
check 'a namespace that goes takes its links with it' wait_for 10 no_rdma_device rxeD
ip netns del A
n=$(scaled 20)
churn() {
	ip link add d4 type dummy && ip link set d4 up && rdma link add rxeD type rxe netdev d4 && ip link del d4 && wait_for 5 no_rdma_device rxeD
}
for ((i = 1; i <= n; i++)); do churn || fail "netdev removed under its link, round $i"; done
check "$n netdevs were removed under their links, and no socket is left" test -z "$(ss -Huln 'sport = :4791')"
check 'the module unloads' modprobe -r rdma_rxe
modprobe rdma_rxe
finish
