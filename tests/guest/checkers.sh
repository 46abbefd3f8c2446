#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: the debug kernel's checkers see deliberate mistakes, so a run without reports means something
# timeout: 60
# boot: own
# kernel: debug
# expect-dmesg: .
. "$(dirname "$0")/lib.sh"

# mistake NAME REPORT: the module makes the mistake, the kernel log must hold REPORT.
mistake() {
	dmesg -C
	insmod /rxe/tests/guest/canary/canary.ko mistake="$1" 2>/dev/null
	for _ in $(seq 20); do
		! dmesg | grep -q "$2" || break
		sleep 0.5
	done
	check "$1: $2" bash -c "dmesg | grep -q '$2'"
}

check 'lockdep is on' grep -Eq 'debug_locks: *1' /proc/lockdep_stats
mistake sleep 'sleeping function called from invalid context'
mistake lock 'possible circular locking dependency'
insmod /rxe/tests/guest/canary/canary.ko mistake=leak 2>/dev/null
sleep 6
echo scan >/sys/kernel/debug/kmemleak
sleep 1
echo scan >/sys/kernel/debug/kmemleak
check 'leak: kmemleak names the module' grep -q 'canary' /sys/kernel/debug/kmemleak
mistake free 'BUG: KASAN: slab-use-after-free'
finish
