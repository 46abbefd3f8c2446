#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: queue pairs, links and the module end while a queueing discipline keeps their packets
# timeout: 240
# module: ours
#
# The plug discipline keeps packets, and their owner, for as long as it likes. The C driver waits 51 seconds for them when a queue pair is
# destroyed, and a packet that is released after it was unloaded calls a function that is not there any more, which ends the
# guest; therefore this suite is for our module only.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"

held() { tc -s -n A qdisc show dev va | sed -nE 's/.*backlog \S+ ([0-9]+)p.*/\1/p' | head -n 1; }
nothing_held() { [ "$(held)" = 0 ]; }
# The namespace may add packets of its own.
still_held() { [ "$(held)" -ge "$parked" ] && [ "$parked" -gt 50 ]; }
run() { python3 "$(dirname "$0")/lib/held.py" "$1"; }

# within SECONDS COMMAND...: succeeds when COMMAND does, in time (times RXE_SLOW, times RXE_PATIENCE).
within() {
	local start limit=$((1000 * $1 * RXE_SLOW * ${RXE_PATIENCE:-1})) took
	shift
	start=$(date +%s%3N)
	"$@" || return 1
	took=$(($(date +%s%3N) - start))
	echo "        $took ms: $*"
	[ $took -lt $limit ] || { echo "$took ms"; return 1; }
}

modprobe sch_plug || skip 'this kernel has no plug discipline'
two_ns || die 'no wire'

run wake || fail 'packets that are held and released'
tc -n A qdisc del dev va root

# They are held when their queue pairs, their link and the module go, and are released when nothing is left.
run destroy || die 'queue pairs whose packets are held'
parked=$(held)
sleep 20
check 'the packets are held for 20 seconds more' still_held
check 'their link is deleted' within 2 rdma link del rxeA
check 'the module is unloaded' within 5 modprobe -r rdma_rxe
check 'it is gone' test ! -e /sys/module/rdma_rxe
check 'the packets are still held' still_held
tc -n A qdisc change dev va root plug release_indefinite
check 'they are sent at last' wait_for 5 nothing_held
sleep 1
tc -n A qdisc del dev va root
modprobe rdma_rxe
inA rdma link add rxeA type rxe netdev va && inB rdma link add rxeB type rxe netdev vb
check 'links are there again' wait_for 5 link_active rxeB

# The netdev goes under a program that uses it, and takes the packets along.
wait_for 5 gid_index rxeA 10.77.0.1 && wait_for 5 gid_index rxeB 10.77.0.2
out=$(mktemp)
python3 "$(dirname "$0")/lib/held.py" stay >"$out" 2>&1 &
program=$!
check 'a program with packets that are held' wait_for 40 grep -q staying "$out"
check 'its netdev is deleted' within 5 ip -n A link del va
check 'the link went along' wait_for 5 no_rdma_device rxeA
kill -9 $program
wait $program 2>/dev/null
rm -f "$out"
check 'two namespaces are taken down' two_ns_gone
finish
