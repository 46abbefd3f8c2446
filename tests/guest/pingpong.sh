#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: ibv_rc, uc, ud and srq_pingpong across a veth pair, IPv4 and IPv6, on a good wire and on a bad one
# timeout: 260
#
# On the bad wire RC must bring every byte (-c compares the buffers). UC and UD lose what the wire loses and deliver twice what
# it doubles, and a pingpong that counts its turns then waits for ever, so they run on a wire that only delays; what they do
# with packets that are lost, doubled or overtaken is in unreliable.py.
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
	pingpong 'good wire' ibv_srq_pingpong $f -c -q 4 -s 5000 -n 100
	pingpong 'good wire' ibv_srq_pingpong $f -c -e -q 8 -r 16 -s 1000 -n 200
done
netem on
TRIES=4
for f in 4 6; do
	pingpong 'bad wire' ibv_rc_pingpong $f -c -s 20000 -n 60
	pingpong 'bad wire' ibv_rc_pingpong $f -c -e -s 1000 -n 60
	pingpong 'bad wire' ibv_srq_pingpong $f -c -q 4 -s 5000 -n 60
	pingpong 'bad wire' ibv_srq_pingpong $f -c -e -q 4 -r 16 -s 1000 -n 60
done
netem off
TRIES=1
NETEM='delay 2ms' netem on
for f in 4 6; do
	pingpong 'slow wire' ibv_uc_pingpong $f -c -s 1000 -n 60
	pingpong 'slow wire' ibv_ud_pingpong $f -c -s 1000 -n 60
done
netem off
check 'two namespaces are taken down' two_ns_gone
finish
