#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: RDMA devices that belong to one network namespace each: they move, and connection manager and verbs work where they are then
# timeout: 120
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"

mode() { rdma system show | grep -q "netns $1"; }
# sees NAMESPACE DEVICE: whether a process in that namespace may use the device.
sees() { ip netns exec "$1" rdma -j dev show | jq -e --arg d "$2" 'any(.ifname == $d)' >/dev/null; }
first_sees() { rdma -j dev show | jq -e --arg d "$1" 'any(.ifname == $d)' >/dev/null; }

# The mode can only be changed while there is one namespace.
check 'exclusive mode' rdma system set netns exclusive
two_ns || die 'no wire'
check 'exclusive mode: it is that' mode exclusive
check 'new links belong to the first namespace' eval 'first_sees rxeA && ! sees A rxeA && ! sees B rxeB'
moved() { rdma dev set rxeA netns A && rdma dev set rxeB netns B; }
check 'they move to those of their network devices' moved || exit 1
check 'and are seen there only' eval 'sees A rxeA && ! sees A rxeB && sees B rxeB && ! first_sees rxeA'
active() { ip netns exec "$1" rdma -j link show "$2/1" | jq -e '.[0].state == "ACTIVE"' >/dev/null; }
check 'their ports are active' eval 'wait_for 5 active A rxeA && wait_for 5 active B rxeB'
# The first GIDs of a device that has come anew are there a moment later.
gids() { ip netns exec "$1" ibv_devinfo -v -d "$2" 2>/dev/null | grep -q "GID.*$3"; }
wait_for 10 gids A rxeA 10.77.0.1 && wait_for 10 gids B rxeB 10.77.0.2
cm_listens() { ip netns exec A rdma resource show cm_id | grep -q "LISTEN.*:$1 "; }
talk() { # ADDRESS
	local pid rc=0 limit=$((20 * RXE_SLOW * ${RXE_PATIENCE:-1}))
	ip netns exec A timeout "$limit" rping -s -a "$1" -C 10 -V -S 5000 >/tmp/rping.server 2>&1 &
	pid=$!
	wait_for 10 cm_listens 7174 || rc=1
	ip netns exec B timeout "$limit" rping -c -a "$1" -C 10 -V -S 5000 >/tmp/rping.client 2>&1 || rc=1
	[ $rc = 0 ] || kill $pid
	wait $pid || rc=1
	[ $rc = 0 ] || cat /tmp/rping.*
	return $rc
}
better 'there is no queue pair 1 after a move' 'connection manager and traffic, IPv4' talk 10.77.0.1
better 'there is no queue pair 1 after a move' 'connection manager and traffic, IPv6' talk fd77::1
# A device whose network device is elsewhere.
check 'a device moves on' ip netns exec A rdma dev set rxeA netns B
check 'and is seen there' eval 'sees B rxeA && ! sees A rxeA'
wait_for 10 gids B rxeA 10.77.0.1
index() { ip netns exec B ibv_devinfo -v -d "$1" | sed -n "s/.*GID\[ *\([0-9]*\)\].*$2.*/\1/p" | head -n1; }
pingpong() {
	local pid rc=0
	ip netns exec B timeout 60 ibv_rc_pingpong -d rxeA -g "$(index rxeA 10.77.0.1)" -n 50 -c -s 9000 >/tmp/pp.server 2>&1 &
	pid=$!
	listens() { ip netns exec B ss -Htln 'sport = :18515' | grep -q .; }
	wait_for 10 listens || rc=1
	ip netns exec B timeout 60 ibv_rc_pingpong -d rxeB -g "$(index rxeB 10.77.0.2)" -n 50 -c -s 9000 127.0.0.1 >/tmp/pp.client 2>&1 || rc=1
	[ $rc = 0 ] || kill $pid
	wait $pid || rc=1
	[ $rc = 0 ] || cat /tmp/pp.*
	return $rc
}
ip -n B link set lo up
check 'its packets still take its network device' pingpong
check 'a device goes where it is' ip netns exec B rdma link del rxeA
check 'the rest goes with its namespace' two_ns_gone
gone() { ! first_sees rxeA && ! first_sees rxeB; }
check 'no device is left' wait_for 10 gone
check 'shared mode' wait_for 10 rdma system set netns shared
finish
