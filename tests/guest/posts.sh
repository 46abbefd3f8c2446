#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: posts from hard interrupts, softirqs, under spin locks and from completion handlers; none of them transmits
# timeout: 180
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"
. "$(dirname "$0")/lib/ktest.sh"

two_ns || die 'no wire'
check 'the kernel consumer loads' ktest_load || exit 1

# Somebody else fills the same netdev, through a queueing discipline, while its neighbour entries come and go.
tc -n A qdisc add dev va root handle 1: prio 2>/dev/null || tc -n A qdisc add dev va root tbf rate 10gbit burst 4mb limit 8mb ||
	die 'no queueing discipline'
sender='
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
data = b"x" * 1400
while True:
    # As much as the queue holds, but not so much that nothing else ever gets through.
    for _ in range(300):
        try:
            s.sendto(data, ("10.77.0.2", 9))
        except OSError:
            pass
    time.sleep(0.002)
'
ip netns exec A nice -n 5 python3 -c "$sender" &
jobs="$!"
(while :; do
	ip -n A neigh flush dev va
	ip -n B neigh flush dev vb
	sleep 0.3
done) 2>/dev/null &
jobs+=" $!"

secs=$(share 12)
four=$(wire_devices 4) six=$(wire_devices 6)
for ctx in hardirq softirq irqsoff done handler; do
	ktest "$ctx, one queue pair" "posts $four ctx=$ctx qps=1 secs=$secs"
	ktest "$ctx, 8 queue pairs" "posts $four ctx=$ctx qps=8 secs=$secs"
done
ktest 'hardirq, IPv6' "posts $six ctx=hardirq qps=8 secs=$secs"
one=${four%% peer=*}
gid=${one#* gid=}
ktest 'hardirq, one device' "posts $one peer=rxeA pgid=$gid ctx=hardirq qps=8 secs=$secs"

kill $jobs
wait
check 'the device queue was used meanwhile' bash -c "tc -n A -s qdisc show dev va | grep -q 'Sent [0-9]\{6,\}'"
check 'the kernel consumer unloads' ktest_unload
check 'the namespaces go' two_ns_gone
finish
