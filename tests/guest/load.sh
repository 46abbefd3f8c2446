#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: the module is loaded and unloaded 20 times: alone, with links, with links and traffic
# timeout: 240
#
# Unloading with links in place is legal and must take the links down. Traffic runs in both directions while it happens. The
# programs are told by IBV_EVENT_DEVICE_FATAL and by errors (lib/gone.py), and none hangs.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"

loaded() { [ -d /sys/module/rdma_rxe ]; }
unloaded() { ! loaded && no_rdma_device rxeA && no_rdma_device rxeB && [ -z "$(inA ss -Huln sport = :4791)$(ss -Huln sport = :4791)" ]; }
unload() { modprobe -r rdma_rxe; }

alone() {
	modprobe rdma_rxe && loaded && assert_module && unload && ! loaded
}

with_links() {
	modprobe rdma_rxe && inA rdma link add rxeA type rxe netdev va && inB rdma link add rxeB type rxe netdev vb &&
		wait_for 5 link_active rxeB && [ "$(rdma link | grep -c 'rxe[AB]/1')" = 2 ] && unload && unloaded
}

with_deleted_links() {
	modprobe rdma_rxe && inA rdma link add rxeA type rxe netdev va && inB rdma link add rxeB type rxe netdev vb &&
		rdma link del rxeA && rdma link del rxeB && unload && unloaded
}

# soon SECONDS COMMAND...: succeeds when COMMAND does, and in that time (times RXE_SLOW, times RXE_PATIENCE).
soon() {
	local limit=$(($1 * ${RXE_SLOW:-1} * ${RXE_PATIENCE:-1})) start=$SECONDS rc=0
	shift
	timeout "$limit" "$@" || rc=$?
	[ $rc = 0 ] || echo "$* (after $((SECONDS - start)) s of $limit): exit $rc"
	return $rc
}
ended() { ! kill -0 "$1" 2>/dev/null; }
# ends PID SIGNAL: a program that is asked to end does.
ends() {
	kill "-$2" "$1" 2>/dev/null
	wait_for 10 ended "$1" || { echo "a program does not end: $(ps -o pid=,stat=,wchan:32=,args= -p "$1")"; return 1; }
}

with_traffic() {
	local a b c p rc=0
	modprobe rdma_rxe && inA rdma link add rxeA type rxe netdev va && inB rdma link add rxeB type rxe netdev vb || return 1
	wait_for 5 link_active rxeA && wait_for 5 link_active rxeB && wait_for 5 gid_index rxeA 10.77.0.1 && wait_for 5 gid_index rxeB 10.77.0.2 || return 1
	python3 "$(dirname "$0")/lib/gone.py" rxeA 10.77.0.1 rxeB 10.77.0.2 >/tmp/gone 2>&1 &
	c=$!
	ip netns exec A ib_write_bw -d rxeA -x "$(gid_index rxeA 10.77.0.1)" -F -D $((60 * ${RXE_SLOW:-1} * ${RXE_PATIENCE:-1})) -u 18 -s 65536 >/tmp/bw.server 2>&1 &
	a=$!
	wait_for 10 listening tcp:18515 || rc=1
	ip netns exec B ib_write_bw -d rxeB -x "$(gid_index rxeB 10.77.0.2)" -F -D $((60 * ${RXE_SLOW:-1} * ${RXE_PATIENCE:-1})) -u 18 -s 65536 10.77.0.1 >/tmp/bw.client 2>&1 &
	b=$!
	wait_for 10 flows && wait_for 10 grep -q ready /tmp/gone || { echo 'no traffic'; rc=1; }
	for p in $a $b $c; do
		! ended "$p" || { echo 'a program ended too early for the test to mean anything'; head -n 40 /tmp/bw.* /tmp/gone; rc=1; break; }
	done
	if [ "$1" = links ]; then
		soon 5 rdma link del rxeB || rc=1
		soon 5 rdma link del rxeA || rc=1
	fi
	soon 10 modprobe -r rdma_rxe || { echo 'the module does not unload'; rc=1; }
	# gone.py is told, and ends by itself. perftest does not listen: it polls for completions until its time is over.
	wait_for 30 ended $c || rc=1
	ends $c KILL && wait $c || { echo "the program was not told what it should be (exit $?)"; sed 's/^/    /' /tmp/gone; rc=1; }
	ends $a TERM || rc=1
	ends $b TERM || rc=1
	kill -9 $a $b $c 2>/dev/null
	wait $a $b $c 2>/dev/null
	unloaded || { echo 'something is left'; rc=1; }
	return $rc
}
flows() { [ "$(counter rxeA rcvd_pkts)" -gt 300 ]; }

two_ns || die 'no wire'
rdma link del rxeA
rdma link del rxeB
check 'unloads when idle' unload
n=$(scaled 20)
for ((i = 1; i <= n; i++)); do check "$i: load, unload" alone; done
for ((i = 1; i <= n; i++)); do check "$i: load, add links, unload" with_links; done
check 'load, add links, delete links, unload' with_deleted_links
for ((i = 1; i <= n; i += 2)); do
	check "$i: load, traffic, delete the links under the programs, unload" with_traffic links
	check "$((i + 1)): load, traffic, unload under the programs" with_traffic rmmod
done
modprobe rdma_rxe
check 'two namespaces are taken down' two_ns_gone
finish
