#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: two guests, the C driver in one of them: pingpongs, rping, perftest, atomics, NVMe-oF and SRP, served by each side in turn
# timeout: 420
# guests: 2
# peer: stock
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"
. "$(dirname "$0")/lib/nvme.sh"

LIBS='export SRP_TARGET_LINK=rxe0 SRP_LINK=rxe0 SRP_NETNS= SRP_ADDRESS6=fd79::1
	for lib in lib lib/wire lib/nvme lib/srp; do . "/rxe/tests/guest/$lib.sh"; done'
there() { peer "export RXE_SLOW=${RXE_SLOW:-1}; $LIBS; $1"; }

# on SIDE SCRIPT: run SCRIPT, with the libraries, in guest a (this one) or b (the peer).
on() {
	if [ "$1" = a ]; then bash -c "$LIBS; $2"; else there "$2"; fi
}
other() { [ "$1" = a ] && echo b || echo a; }
address() { [ "$1" = a ] && echo 10.79.0.1 || echo 10.79.0.2; }
address6() { [ "$1" = a ] && echo fd79::1 || echo fd79::2; }
kind() { [ "$1" = a ] && echo "$here" || echo "$far"; }

# serve SIDE NAME READY SERVER CLIENT: the shell command SERVER on SIDE, and CLIENT on the other; both must succeed.
serve() {
	local side=$1 name=$2 ready=$3 server=$4 client=$5 rc=0 src out limit=$((60 * ${RXE_SLOW:-1} * ${RXE_PATIENCE:-1}))
	name="$(kind "$side") serves, $(kind "$(other "$side")") asks: $name"
	on "$side" "rm -f /tmp/server.*; (timeout $limit $server >/tmp/server.log 2>&1; echo \$? >/tmp/server.rc) >/dev/null 2>&1 </dev/null &
		wait_for 20 local_listening $ready || [ -e /tmp/server.rc ]" || rc=1
	if [ $rc = 0 ]; then
		out=$(on "$(other "$side")" "timeout $limit $client 2>&1") || rc=$?
	else
		out='the server does not listen'
	fi
	src=$(on "$side" 'wait_for 15 test -s /tmp/server.rc; cat /tmp/server.rc 2>/dev/null || { echo "still running"; pkill -P $(pgrep -x timeout | head -n1); }')
	if [ $rc = 0 ] && [ "$src" = 0 ]; then
		pass "$name"
	else
		fail "$name (server ${src:-?}, client $rc): $server -- $client"
		on "$side" 'tail -n 12 /tmp/server.log' | sed 's/^/    server: /'
		sed 's/^/    client: /' <<<"$out" | tail -n 12
	fi
}

matrix() { # SIDE that serves
	local s=$1 c a a6 gs gc gs6 gc6 t
	c=$(other "$s") a=$(address "$s") a6=$(address6 "$s")
	gs=${gid[$s]} gc=${gid[$c]} gs6=${gid6[$s]} gc6=${gid6[$c]}
	serve "$s" 'rping IPv4' cm:7174 "rping -s -a $a -C 20 -V -S 9000" "rping -c -a $a -C 20 -V -S 9000"
	serve "$s" 'rping IPv6' cm:7174 "rping -s -a $a6 -C 20 -V -S 9000" "rping -c -a $a6 -C 20 -V -S 9000"
	for t in 'rc_pingpong -c -s 65536 -m 4096' 'uc_pingpong -c -s 9000' 'ud_pingpong -c -s 1024'; do
		serve "$s" "ibv_$t IPv4" tcp:18515 "ibv_${t% -c*} -d rxe0 -g $gs -n 100 ${t#* }" "ibv_${t% -c*} -d rxe0 -g $gc -n 100 ${t#* } $a"
		serve "$s" "ibv_$t IPv6" tcp:18515 "ibv_${t% -c*} -d rxe0 -g $gs6 -n 100 ${t#* }" "ibv_${t% -c*} -d rxe0 -g $gc6 -n 100 ${t#* } $a"
	done
	for t in 'send_bw -s 65536' 'write_bw -s 65536' 'read_bw -s 65536' 'send_lat -s 64' 'atomic_bw -A FETCH_AND_ADD' 'atomic_bw -A CMP_AND_SWAP'; do
		serve "$s" "ib_$t" tcp:18515 "ib_${t%% *} -d rxe0 -x $gs -F -n 200 ${t#* }" "ib_${t%% *} -d rxe0 -x $gc -F -n 200 ${t#* } $a"
	done
}

storage() { # SIDE that is the target
	local s=$1 c a
	c=$(other "$s") a=$(address "$s")
	c="$c"
	check "NVMe: $(kind "$s") is the target" on "$s" "nvmet_up $a"
	check "NVMe: $(kind "$c") connects" on "$c" "nvme_connect $a"
	check "NVMe: $(kind "$c") writes and verifies 4 KiB blocks at random" on "$c" "verified_io 4k --filename=\$(nvme_device) --size=$(scaled 12)m"
	check "NVMe: $(kind "$c") writes and verifies 128 KiB blocks at random" on "$c" "verified_io 128k --filename=\$(nvme_device) --size=$(scaled 64)m"
	check "NVMe: $(kind "$c") resets its controller under I/O" on "$c" 'reset_under_io $(nvme_device) 1'
	check "NVMe: $(kind "$c") disconnects" on "$c" 'nvme_disconnect && modprobe -r nvme_rdma'
	check "NVMe: $(kind "$s") takes the target down" on "$s" 'nvmet_down'
}

scsi() { # SIDE that is the target
	local s=$1 c service
	c=$(other "$s")
	check "SRP: $(kind "$s") is the target" on "$s" "SRP_INITIATORS=($(address "$s")); srp_target_up"
	service=$(on "$s" srp_service)
	check "SRP: $(kind "$c") logs in" on "$c" "SRP_SERVICE=$service SRP_ADDRESS4=$(address "$s"); srp_initiator && srp_login 4"
	check "SRP: $(kind "$c") writes and verifies 4 KiB blocks at random" on "$c" "verified_io 4k --filename=\$(srp_disk_of 4 0) --size=$(scaled 8)m"
	check "SRP: $(kind "$c") writes and verifies 512 KiB blocks at random" on "$c" "verified_io 512k --filename=\$(srp_disk_of 4 1) --size=$(scaled 48)m"
	check "SRP: $(kind "$c") logs out" on "$c" 'srp_logout 4 && wait_for 20 srp_no_initiator'
	check "SRP: $(kind "$s") takes the target down" on "$s" srp_target_down
}

[ "${RXE_GUEST:-}" = a ] || die 'this suite needs a second guest'
there 'modprobe -a rdma_rxe ib_uverbs rdma_ucm' || die 'the peer does not answer'
modprobe -a rdma_rxe ib_uverbs rdma_ucm
name_of() { case $1 in *O*) echo ours ;; *) echo stock ;; esac; }
here=$(name_of "$(cat /sys/module/rdma_rxe/taint)") far=$(name_of "$(there 'cat /sys/module/rdma_rxe/taint')")
check "one side runs the C driver (here $here, there $far)" test "$here" = stock -o "$far" = stock
check 'a link here' rdma link add rxe0 type rxe netdev eth0
check 'a link there' there 'rdma link add rxe0 type rxe netdev eth0 && wait_for 10 link_active rxe0 && wait_for 10 gid_index rxe0 fd79::2'
wait_for 10 link_active rxe0 && wait_for 10 gid_index rxe0 fd79::1 || die 'the link does not come up'
check 'ping' ping -c 1 -W 5 10.79.0.2
check 'ping, IPv6' ping -c 1 -W 5 fd79::2
declare -A gid gid6
for x in a b; do
	gid[$x]=$(on $x "gid_index rxe0 $(address $x)")
	gid6[$x]=$(on $x "gid_index rxe0 $(address6 $x)")
done
matrix b
matrix a
tc qdisc add dev eth0 root netem $NETEM
serve b 'ibv_rc_pingpong on a bad wire' tcp:18515 "ibv_rc_pingpong -d rxe0 -g ${gid[b]} -n 50 -c -s 9000" "ibv_rc_pingpong -d rxe0 -g ${gid[a]} -n 50 -c -s 9000 10.79.0.2"
serve a 'rping on a bad wire' cm:7174 'rping -s -a 10.79.0.1 -C 20 -V -S 9000' 'rping -c -a 10.79.0.1 -C 20 -V -S 9000'
tc qdisc del dev eth0 root
storage b
storage a
scsi b
scsi a
check 'the link here goes' rdma link del rxe0
check 'the link there goes' there 'rdma link del rxe0'
check 'the module there unloads' there 'modprobe -r rdma_rxe'
check 'no report in the kernel log there' there '! dmesg | grep -E "WARNING:|BUG:|Oops|general protection|Call Trace:|KFENCE|refcount_t:"'
finish
