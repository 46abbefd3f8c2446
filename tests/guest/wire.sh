#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: packets captured on the wire, IPv4 and IPv6, judged by tshark and by an ICRC computed with scapy
# timeout: 200
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"

# fields CAPTURE FILTER FIELD...: one line a packet.
fields() {
	local capture=$1 filter=$2 f args=()
	shift 2
	for f; do args+=(-e "$f"); done
	tshark -r "$capture" -Y "$filter" -T fields -E separator=' ' "${args[@]}" 2>/dev/null
}

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

# Request PSNs of a QP go up by one from packet to packet (a READ takes as many as its response has packets, so it is left out).
psns_count_up() { # CAPTURE
	fields "$1" 'infiniband.bth.opcode < 6 && !infiniband.deth' infiniband.bth.destqp infiniband.bth.psn | python3 -c '
import sys
last, bad, n = {}, 0, 0
for line in sys.stdin:
    qp, psn = (int(x, 0) for x in line.split()[:2])
    if qp in last:
        n += 1
        bad += psn != (last[qp] + 1) % 2**24
    last[qp] = psn
sys.exit(bad > 0 or n < 20)'
}

opcodes() { fields "/tmp/v$1.pcap" infiniband infiniband.bth.opcode | sort -nu | tr '\n' ' '; }
# RC: SEND first, middle, last, only; READ request, response first, middle, last; ACK; atomic ACK; WRITE first..last or only;
# UC: SEND first, middle, last; UD: SEND only.
WANTED='0 1 2 4 6 7 8 12 13 14 15 17 18 20 32 33 34 100'

two_ns 1500 || die 'no wire'
for f in 4 6; do
	capture "v$f" traffic $f
	n=$(fields "/tmp/v$f.pcap" infiniband frame.number | wc -l)
	check "IPv$f: packets were captured ($n)" test "$n" -gt 100
	check "IPv$f: tshark finds no malformed packet" test -z "$(fields "/tmp/v$f.pcap" '_ws.malformed || !infiniband' frame.number)"
	check "IPv$f: every packet is of IP version $f" test -z "$(fields "/tmp/v$f.pcap" "ip.version != $f && ipv6.version != $f" frame.number)"
	seen=$(opcodes $f)
	for o in $WANTED; do [[ " $seen" = *" $o "* ]] || fail "IPv$f: no packet has opcode $o (seen: $seen)"; done
	pass "IPv$f: opcodes seen: $seen"
	check "IPv$f: request PSNs count up" psns_count_up "/tmp/v$f.pcap"
	check "IPv$f: every header has transport version 0 and the default partition" \
		test -z "$(fields "/tmp/v$f.pcap" 'infiniband.bth.tver != 0 || infiniband.bth.p_key != 0xffff' frame.number)"
	check "IPv$f: every packet ends on four bytes, the pad count says how" \
		test -z "$(fields "/tmp/v$f.pcap" infiniband udp.length infiniband.bth.padcnt | awk '($1 % 4) || $2 > 3')"
	check "IPv$f: padded packets are among them" test -n "$(fields "/tmp/v$f.pcap" 'infiniband.bth.padcnt == 3' frame.number)"
	read -r checked wrong <<<"$(python3 "$(dirname "$0")/lib/icrc.py" "/tmp/v$f.pcap" 200)"
	check "IPv$f: scapy computes the same ICRC for all of $checked packets" test "${checked:-0}" -gt 90 -a "${wrong:-1}" = 0
done
check 'two namespaces are taken down' two_ns_gone
finish
