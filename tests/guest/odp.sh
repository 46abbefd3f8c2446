#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: on-demand paging: every transfer byte by byte, pages that come, go and change under the traffic, prefetch, what is refused
# timeout: 240
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"

two_ns || die 'no wire'
python3 "$(dirname "$0")/lib/odp.py" 2>&1
rc=$?
check 'on-demand paging' test $rc = 0
gidA=$(gid_index rxeA 10.77.0.1) gidB=$(gid_index rxeB 10.77.0.2)
# The program waits 67 ms for an acknowledgement, which is little where everything takes seven times as long.
[ "$RXE_SLOW" = 1 ] || TRIES=4
across 'ibv_rc_pingpong -o' tcp:18515 "ibv_rc_pingpong -d rxeA -g $gidA -o -c -m 4096 -s 65536 -n 50" \
	"ibv_rc_pingpong -d rxeB -g $gidB -o -c -m 4096 -s 65536 -n 50 10.77.0.1"
TRIES=1
for tool in ib_write_bw ib_read_bw ib_send_bw; do
	across "$tool --odp" tcp:18515 "$tool -d rxeA -x $gidA -F -n 100 -s 65536 -u 18 --odp" "$tool -d rxeB -x $gidB -F -n 100 -s 65536 -u 18 --odp 10.77.0.1"
done
check 'two namespaces are taken down' two_ns_gone
finish
