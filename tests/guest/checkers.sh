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
# First, while there is least that looks like a pointer to it. The module is gone, and the names of its functions with it: the program
# that loaded it is named. A leak is one when it has looked like one in several scans.
insmod /rxe/tests/guest/canary/canary.ko mistake=leak 2>/dev/null
sleep 6
leaked() { echo scan >/sys/kernel/debug/kmemleak && grep -A1 'size 1024' /sys/kernel/debug/kmemleak | grep 'comm "insmod"'; }
wait_leaked() { leaked || leaked || leaked || leaked; }
check 'leak: kmemleak reports the memory' wait_leaked
mistake sleep 'sleeping function called from invalid context'
mistake lock 'possible circular locking dependency'
mistake free 'BUG: KASAN: slab-use-after-free'
finish
