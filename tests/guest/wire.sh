#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: packets captured on the wire, IPv4 and IPv6, judged by tshark and by an ICRC computed with scapy
# timeout: 200
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"

# capture NAME COMMAND...: COMMAND while the wire is captured into /tmp/NAME.pcap.
capture() {
	local name=$1 pid
	shift
	ip netns exec B tcpdump -i vb -w "/tmp/$name.pcap" -s 0 -U --immediate-mode 'udp port 4791' 2>/tmp/$name.log &
	pid=$!
	wait_for 10 grep -q listening /tmp/$name.log
	"$@"
	sleep 0.3
	kill $pid
	wait $pid
}

traffic() { # FAMILY
	local a=10.77.0.1 b=10.77.0.2 ga gb
	[ "$1" = 4 ] || a=fd77::1 b=fd77::2
	ga=$(gid_index rxeA $a) gb=$(gid_index rxeB $b)
	across "IPv$1: rc_pingpong" tcp:18515 "ibv_rc_pingpong -d rxeA -g $ga -n 4 -s 5000 -m 1024" "ibv_rc_pingpong -d rxeB -g $gb -n 4 -s 5000 -m 1024 10.77.0.1"
	across "IPv$1: uc_pingpong" tcp:18515 "ibv_uc_pingpong -d rxeA -g $ga -n 4 -s 3001" "ibv_uc_pingpong -d rxeB -g $gb -n 4 -s 3001 10.77.0.1"
	across "IPv$1: ud_pingpong" tcp:18515 "ibv_ud_pingpong -d rxeA -g $ga -n 4 -s 999" "ibv_ud_pingpong -d rxeB -g $gb -n 4 -s 999 10.77.0.1"
	across "IPv$1: rping" cm:7174 "rping -s -a $a -C 2 -V -S 3000" "rping -c -a $a -C 2 -V -S 3000"
	across "IPv$1: ib_atomic_lat" tcp:18515 "ib_atomic_lat -d rxeA -x $ga -F -n 5 " \
		"ib_atomic_lat -d rxeB -x $gb -F -n 5 10.77.0.1"
}

two_ns 1500 || die 'no wire'
for f in 4 6; do
	capture "v$f" traffic $f
	cp "/tmp/v$f.pcap" "$RXE_OUT/wire-v$f.pcap"
	python3 "$(dirname "$0")/lib/capture.py" "/tmp/v$f.pcap" $f || fail "IPv$f: the capture is not as it should be"
done
check 'two namespaces are taken down' two_ns_gone
finish
