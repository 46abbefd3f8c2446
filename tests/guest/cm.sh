#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: the connection manager's user programs across a veth pair, IPv4 and IPv6, on a good wire and on a bad one
# timeout: 240
#
# rping checks the data it gets back, ucmatose moves messages over several connections, udaddy resolves UD services (SIDR),
# rstream runs the socket emulation, which verifies its data with -T v.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"

programs() { # LABEL REPEATS
	local label=$1 n=$2 f a l
	for f in 4 6; do
		case $f in
		4) a=10.77.0.1 l=10.77.0.1 ;;
		6) a=fd77::1 l=fd77::1 ;;
		esac
		across "$label: rping IPv$f" cm:7174 "rping -s -a $l -C $n -V -S 9000" "rping -c -a $a -C $n -V -S 9000"
		across "$label: ucmatose IPv$f" cm:7471 "ucmatose -b $l -c 4 -C $n -S 4096" "ucmatose -s $a -c 4 -C $n -S 4096"
		across "$label: rstream IPv$f" cm:7471 "rstream -b $l -T v -S 16384 -C $n" "rstream -s $a -T v -S 16384 -C $n"
	done
}

two_ns || die 'no wire'
programs 'good wire' 30
across 'good wire: udaddy IPv4' cm:7174 'udaddy -b 10.77.0.1 -c 4 -C 30 -S 1000' 'udaddy -s 10.77.0.1 -c 4 -C 30 -S 1000'
across 'good wire: udaddy IPv6' cm:7174 'udaddy -b fd77::1 -c 4 -C 30 -S 1000' 'udaddy -s fd77::1 -c 4 -C 30 -S 1000'
netem on
TRIES=4
programs 'bad wire' 15
netem off
check 'two namespaces are taken down' two_ns_gone
finish
