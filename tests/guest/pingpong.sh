#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: ibv_rc, uc and ud_pingpong across a veth pair, IPv4 and IPv6, on a good wire and on a bad one
# timeout: 200
#
# On the bad wire RC must bring every byte (-c compares the buffers). UC and UD lose what the wire loses, and a pingpong then
# waits for ever, so they run on a wire that doubles and delays; what they do when packets are lost is in unreliable.py.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"

pingpong() { # LABEL PROGRAM FAMILY ARGUMENTS...
	# The programs exchange their addresses over TCP and IPv4; what carries the messages is decided by the GID.
	local label=$1 program=$2 family=$3 ga gb
	shift 3
	case $family in
	4) ga=$gid4A gb=$gid4B ;;
	6) ga=$gid6A gb=$gid6B ;;
	esac
	across "$label: IPv$family: $program $*" tcp:18515 "$program -d rxeA -g $ga $*" "$program -d rxeB -g $gb $* 10.77.0.1"
}

two_ns || die 'no wire'
gid4A=$(gid_index rxeA 10.77.0.1) gid4B=$(gid_index rxeB 10.77.0.2)
gid6A=$(gid_index rxeA fd77::1) gid6B=$(gid_index rxeB fd77::2)
for f in 4 6; do
	pingpong 'good wire' ibv_rc_pingpong $f -c -m 4096 -s 65536 -n 100
	pingpong 'good wire' ibv_rc_pingpong $f -c -e -N -s 5000 -n 100
	pingpong 'good wire' ibv_uc_pingpong $f -c -s 20000 -n 100
	pingpong 'good wire' ibv_ud_pingpong $f -c -s 1024 -n 100
done
netem on
TRIES=4
for f in 4 6; do
	pingpong 'bad wire' ibv_rc_pingpong $f -c -s 20000 -n 60
	pingpong 'bad wire' ibv_rc_pingpong $f -c -e -s 1000 -n 60
done
netem off
TRIES=1
NETEM='duplicate 5% delay 1ms' netem on
for f in 4 6; do
	pingpong 'doubling wire' ibv_uc_pingpong $f -s 1000 -n 60
	pingpong 'doubling wire' ibv_ud_pingpong $f -s 1000 -n 60
done
netem off
check 'two namespaces are taken down' two_ns_gone
finish
