#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: queue pairs end under load: each request completes once, in bounded time, whatever the network holds back
# timeout: 240
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"
. "$(dirname "$0")/lib/ktest.sh"

two_ns || die 'no wire'
check 'the kernel consumer loads' ktest_load || exit 1
wire=$(wire_devices 4)
qps=8
# The C driver waits for 51 seconds for each queue pair whose packets are held back.
[ "${RXE_MODULE:-ours}" = ours ] || qps=1

secs=$(share 4)
ktest 'errors and reconnects' "teardown $wire mode=error qps=8 secs=$secs"
ktest 'errors and reconnects, large' "teardown $wire mode=error qps=8 size=65536 depth=64 secs=$((secs / 2))"
ktest 'destroyed while others post' "teardown $wire mode=destroy qps=8 secs=$secs"
ktest 'destroyed on one device' "teardown ${wire%% peer=*} peer=rxeA pgid=$(gid_index rxeA 10.77.0.1) mode=destroy qps=8 secs=$((secs / 2))"
ktest 'the peer vanishes' "teardown $wire mode=vanish qps=8 secs=$secs"

# under MILLISECONDS COMMAND...: succeeds, and in time.
under() {
	local limit=$(($1 * ${RXE_SLOW:-1} * ${RXE_PATIENCE:-1})) start=${EPOCHREALTIME/./} took
	shift
	"$@" || return
	took=$(((${EPOCHREALTIME/./} - start) / 1000))
	echo "took $took ms, limit $limit ms"
	[ $took -le $limit ]
}

# The device goes while its consumer works.
(ktest 'a link goes' "teardown $wire mode=error qps=8 secs=600") >/tmp/goes.log 2>&1 &
pid=$!
sleep 3
check 'a link goes under load' under 10000 rdma link del rxeA
wait $pid
cat /tmp/goes.log
rxe_failed=$((rxe_failed + $(grep -c FAIL /tmp/goes.log)))
check 'the link comes back' bash -c 'ip netns exec A rdma link add rxeA type rxe netdev va'
wait_for 5 gid_index rxeA 10.77.0.1
wire=$(wire_devices 4)

# The network holds packets back for longer than anything of the driver lives. Addresses are resolved before.
ip -n A neigh replace 10.77.0.2 lladdr "$(ip netns exec B cat /sys/class/net/vb/address)" dev va nud permanent
ip -n B neigh replace 10.77.0.1 lladdr "$(ip netns exec A cat /sys/class/net/va/address)" dev vb nud permanent
park() {
	tc -n A qdisc add dev va root plug limit 1000000000 2>/dev/null && return
	# Where there is no plug: after the first packet, none for a minute.
	tc -n A qdisc add dev va root tbf rate 1kbit burst 5000 limit 1000000000
}
parked() { tc -n A -s qdisc show dev va | sed -nE 's/.*backlog [0-9A-Z]*b ([0-9]+)p.*/\1/p' | head -n1; }
check 'packets are held back' park
ktest 'packets held back' "teardown $wire mode=park qps=$qps wait_ms=1000"
check "the network still has them ($(parked) packets)" test "$(parked)" -gt 0
check 'the kernel consumer unloads' ktest_unload
check 'a link goes while packets are held back' under 2000 rdma link del rxeA
sleep $((20 > KTEST_SECONDS / 6 ? 20 : KTEST_SECONDS / 6))
check "the network still has them ($(parked) packets)" test "$(parked)" -gt 0
tc -n A qdisc change dev va root plug release_indefinite 2>/dev/null || tc -n A qdisc del dev va root
sleep 1
check 'they are released, and nothing happens' test "$(parked)" = 0 -o -z "$(parked)"
check 'the namespaces go' two_ns_gone
finish
