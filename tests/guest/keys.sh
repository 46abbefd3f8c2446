#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: memory keys and page lists as a pipelining consumer uses them: the old ones serve until the invalidation executes
# timeout: 180
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"
. "$(dirname "$0")/lib/ktest.sh"

two_ns || die 'no wire'
check 'the kernel consumer loads' ktest_load || exit 1
wire=$(wire_devices 4)
secs=$(share 15)
for page in 1024 2048 4096 8192 16384 32768 65536; do
	ktest "pages of $page" "keys $wire mode=steps page_size=$page secs=$secs"
done
ktest 'any size' "keys $wire mode=cycle threads=4 secs=$((secs * 2))"
ktest 'any size, one device' "keys ${wire%% peer=*} peer=rxeA pgid=$(gid_index rxeA 10.77.0.1) mode=cycle secs=$secs"
ktest 'small, many' "keys $wire mode=cycle max_io=16384 threads=4 secs=$((secs * 2))"
ktest 'the peer still writes' "keys $wire mode=race threads=2 secs=$((secs * 2))"
ktest 'posted in a pile' "keys $wire mode=pile threads=2 secs=$secs"
check 'the kernel consumer unloads' ktest_unload
check 'the namespaces go' two_ns_gone
finish
