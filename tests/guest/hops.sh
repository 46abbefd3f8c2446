#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: workers take over from one another: how many work items a round trip of small messages takes, on one device and across a wire
# timeout: 60
# kernel: stock
# module: ours
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"

TRACE=/sys/kernel/tracing
ROUNDS=300

two_ns || die 'no wire'
mountpoint -q $TRACE || mount -t tracefs tracefs $TRACE || skip 'this kernel has no tracing'
event=$TRACE/events/workqueue/workqueue_execute_start/enable
[ -e "$event" ] || skip 'this kernel has no trace event for work items'

# Each message has a post, which queues a work item: two a round trip. If every worker were queued there would be six: the sender's, the
# receiver's, and the sender's again for the acknowledgement.
items() { # NAME COMMAND...
	local name=$1 n
	shift
	echo >$TRACE/trace
	echo 1 >"$event"
	"$@"
	echo 0 >"$event"
	n=$(grep -c '\[rdma_rxe\]' $TRACE/trace)
	check "$name: $n work items for $ROUNDS round trips" test "$n" -ge $ROUNDS -a "$n" -lt $((4 * ROUNDS))
}
lat() { # CLIENT-NAMESPACE CLIENT-DEVICE CLIENT-GID
	local limit=$((30 * ${RXE_PATIENCE:-1})) pid rc=0
	timeout $limit ip netns exec A ib_send_lat -d rxeA -x "$(gid_index rxeA 10.77.0.1)" -F -s 64 -n $ROUNDS -p 18600 >/tmp/lat.server 2>&1 &
	pid=$!
	wait_for 10 listening tcp:18600
	timeout $limit ip netns exec "$1" ib_send_lat -d "$2" -x "$3" -F -s 64 -n $ROUNDS -p 18600 10.77.0.1 >/tmp/lat.client 2>&1 || rc=1
	[ $rc = 0 ] || kill $pid
	wait $pid || rc=1
	check "ib_send_lat from $2 to rxeA" test $rc = 0 || cat /tmp/lat.client
}

items 'one device' lat A rxeA "$(gid_index rxeA 10.77.0.1)"
items 'a wire' lat B rxeB "$(gid_index rxeB 10.77.0.2)"
check 'two namespaces are taken down' two_ns_gone
finish
