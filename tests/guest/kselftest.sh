#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: the kernel's own selftests for this driver (tools/testing/selftests/rdma of the kernel source), unchanged
# timeout: 200
# needs: kselftest
#
# They come from the source of the running kernel and are not part of this repository.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"

dir=${RXE_KSELFTEST:-/rxe/kselftest}
[ -d "$dir/rdma" ] || die "no selftests in $dir"
modprobe -r rdma_rxe

selftest() { # SCRIPT
	local rc=0
	# They expect /dev/net/tun, which a full system makes from the list of static nodes, and some of them unload the module.
	modprobe tun
	timeout "$((45 * ${RXE_SLOW:-1} * ${RXE_PATIENCE:-1}))" bash "$dir/rdma/$1" >/tmp/kselftest.out 2>&1 || rc=$?
	grep -E '^(not )?ok|^#' /tmp/kselftest.out
	case $rc in
	0) pass "$1" ;;
	4) fail "$1 was skipped: $(tail -n1 /tmp/kselftest.out)" ;;
	*)
		fail "$1 (exit $rc)"
		tail -n 15 /tmp/kselftest.out
		;;
	esac
}

count=0
for f in "$dir"/rdma/*.sh; do
	selftest "$(basename "$f")"
	count=$((count + 1))
done
check 'there are six of them' test "$count" = 6
modprobe rdma_rxe
finish
