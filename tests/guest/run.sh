#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: the end-to-end job of `make run`: rping, perftest, and NVMe over RDMA with verified I/O
# timeout: 240
# default: no
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"
. "$(dirname "$0")/lib/nvme.sh"

# bandwidth FILE, latency FILE: the average bandwidth, the typical latency in perftest's table.
bandwidth() { awk '$1 ~ /^[0-9]+$/ && $2 ~ /^[0-9]+$/ {v = $4} END {print v " MB/s"}' "$1"; }
latency() { awk '$1 ~ /^[0-9]+$/ && $2 ~ /^[0-9]+$/ {v = $5} END {print v " us typical"}' "$1"; }

# perf KEY SHOW TOOL NAMESPACE DEVICE GID ARGUMENTS...: server on rxeA in A, client on DEVICE in NAMESPACE.
perf() {
	local key=$1 show=$2 tool=$3 ns=$4 dev=$5 gid=$6 out=/tmp/perf.out pid rc=0 limit=$((60 * RXE_SLOW))
	shift 6
	timeout $limit ip netns exec A "$tool" -d rxeA -x "$gidA" -F "$@" >/tmp/perf.server 2>&1 &
	pid=$!
	wait_for 30 listening tcp:18515
	timeout $limit ip netns exec "$ns" "$tool" -d "$dev" -x "$gid" -F "$@" 10.77.0.1 >$out 2>&1 || rc=$?
	[ $rc = 0 ] || kill "$pid" 2>/dev/null
	wait "$pid" || rc=$?
	if [ $rc = 0 ]; then
		pass "$key"
		summary "$key" "$("$show" $out)"
	else
		fail "$key (exit $rc)"
		tail -n 12 $out /tmp/perf.server
		summary "$key" FAILED
	fi
}

# module_version: what tells this build of the loaded module from others. Not every module has a version.
module_version() {
	local what v note=/sys/module/rdma_rxe/notes/.note.gnu.build-id
	for what in version srcversion vermagic; do
		v=$(modinfo -F $what rdma_rxe)
		[ -z "$v" ] || printf '%s %s, ' $what "${v% }"
	done
	# The note: three words, the name "GNU", the identifier.
	printf 'build id %s' "$(od -An -v -tx1 -j16 $note 2>/dev/null | tr -d ' \n' | grep . || echo unknown)"
}

# ping_verbs KEY ADDRESS: rping from B to ADDRESS in A.
ping_verbs() {
	local before=$rxe_failed
	across "$1" cm:7174 "rping -s -a $2 -C 20 -V -S 4096" "rping -c -a $2 -C 20 -V -S 4096"
	summary "$1" "$([ $before = $rxe_failed ] && echo '20 rounds of 4096 bytes, verified' || echo FAILED)"
}

# step KEY TEXT COMMAND...: a check that also gets a line of the table.
step() {
	local key=$1 text=$2
	shift 2
	if check "$key" "$@"; then
		summary "$key" "$text"
	else
		summary "$key" FAILED
		return 1
	fi
}

summary 'kernel' "$(uname -r) ($(uname -v | sed 's/.*Debian/Debian/; s/ (.*//'))"
summary 'module' "$(modinfo -n rdma_rxe), taint '$(cat /sys/module/rdma_rxe/taint)'"
summary 'module version' "$(module_version)"

two_ns || die 'no wire between two namespaces'
summary 'rdma link' "$(inA rdma link | head -n1)"
ping_verbs 'rping IPv4, two namespaces' 10.77.0.1
ping_verbs 'rping IPv6, two namespaces' fd77::1
gidA=$(gid_index rxeA 10.77.0.1) gidB=$(gid_index rxeB 10.77.0.2)
perf 'ib_write_bw 64 KiB, one device' bandwidth ib_write_bw A rxeA "$gidA" -s 65536 -n "$(scaled 200)"
perf 'ib_write_bw 64 KiB, over veth' bandwidth ib_write_bw B rxeB "$gidB" -s 65536 -n "$(scaled 200)"
perf 'ib_send_lat 64 B, one device' latency ib_send_lat A rxeA "$gidA" -s 64 -n "$(scaled 200)"
perf 'ib_send_lat 64 B, over veth' latency ib_send_lat B rxeB "$gidB" -s 64 -n "$(scaled 200)"
check 'the two namespaces go' two_ns_gone

one_ns || die 'no wire for NVMe'
storage() {
	local dev
	step 'NVMe target' "$NVME_SIZE_MB MB memory-backed namespace at 10.78.0.2:4420" nvmet_up 10.78.0.2 || return
	step 'NVMe host' 'connected from 10.78.0.1' nvme_connect 10.78.0.2 10.78.0.1 || return
	dev=$(nvme_device)
	step 'mkfs.ext4' "$dev" mkfs.ext4 -q -F "$dev" || return
	step 'mount' /mnt mount "$dev" /mnt || return
	step 'fio randrw 4 KiB, depth 16' 'every block verified (crc32c)' verified_io 4k --directory=/mnt --size="$(scaled 8)m"
	step 'fio randrw 128 KiB, depth 16' 'every block verified (crc32c)' verified_io 128k --directory=/mnt --size="$(scaled 32)m"
	step 'file system check' clean unmount_and_check "$dev"
	step 'controller reset under I/O' 'I/O went on and verified' reset_under_io "$dev" 1
	step 'NVMe disconnect' 'done' nvme_disconnect
}
storage
check 'the target goes' nvmet_down
step 'rdma link del' 'done' one_ns_gone
modprobe -r nvme_rdma nvme_fabrics 2>/dev/null
step 'rmmod' 'done' modprobe -r rdma_rxe
step 'kernel log' 'no warning' bash -c '! dmesg | grep -E "WARNING:|BUG:|Oops|KFENCE|stall"'
finish
