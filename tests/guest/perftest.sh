#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: perftest (write, send, read and atomics; bandwidth and latency; RC, UC, UD, shared receive queues) on one device and across a veth pair
# timeout: 280
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"

# both NAME TOOL ARGUMENTS...: on one device (rxeA to itself) and across the wire.
both() {
	local tool=$1 ready=tcp:18515
	shift
	# With -R the two meet by the connection manager.
	[[ " $* " != *' -R '* ]] || ready=cm:18515
	across "one device: $tool $*" $ready "$tool -d rxeA -x $gidA -F $*" "ip netns exec A $tool -d rxeA -x $gidA -F $* 10.77.0.1"
	across "veth: $tool $*" $ready "$tool -d rxeA -x $gidA -F $*" "$tool -d rxeB -x $gidB -F $* 10.77.0.1"
}

two_ns || die 'no wire'
gidA=$(gid_index rxeA 10.77.0.1) gidB=$(gid_index rxeB 10.77.0.2)
both ib_write_bw -n 200 -s 65536
both ib_send_lat -n 200 -s 64
both ib_read_bw -n 200 -s 65536
both ib_atomic_bw -n 200
both ib_send_bw -n 200 -s 1000 -c UD
both ib_write_bw -n 200 -s 65536 -c UC
both ib_write_bw -n 100 -s 4096 -q 4 -b
both ib_send_bw -n 200 -s 16384 -e -R
both ib_atomic_lat -n 100 -A CMP_AND_SWAP
both ib_send_bw -n 100 -s 4096 -q 2 --use-srq
across 'veth: ib_write_lat -I 64 (inline)' tcp:18515 "ib_write_lat -d rxeA -x $gidA -F -n 100 -s 64 -I 64" \
	"ib_write_lat -d rxeB -x $gidB -F -n 100 -s 64 -I 64 10.77.0.1"
check 'two namespaces are taken down' two_ns_gone
finish
