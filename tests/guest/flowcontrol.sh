#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: send queues of 1 to 1024 entries: what fits, ENOMEM with the right bad_wr, no stall; who posts without proof is reported
# timeout: 180
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"
. "$(dirname "$0")/lib/ktest.sh"

two_ns || die 'no wire'
check 'the kernel consumer loads' ktest_load || exit 1
wire=$(wire_devices 4)
ms=$((KTEST_SECONDS * 1000 / 75))

# unproven: how many posts without proof the device has counted.
unproven() { counter rxeA sq_post_unproven 2>/dev/null || echo 0; }

# reported DEPTH PATTERN NAME: the test of a consumer that breaks the rule has been counted, and reported once.
reported() {
	[ "${RXE_MODULE:-ours}" = ours ] || return 0
	check "$3: is counted ($(($(unproven) - counted)))" test "$(unproven)" -gt "$counted"
	local qpn
	qpn=$(sed -n 's/^info qpn //p' /sys/kernel/debug/rxe_ktest/run)
	expect "$3: is reported once, with depth and pattern" "1 of 1" \
		"$(dmesg | grep -c "queue pair $qpn: its consumer posts to the send queue ($1 entries).*$2") of $(dmesg | grep -c "queue pair $qpn: ")"
}

for depth in 1 2 4 16 31 32 33 512 1024; do
	half=$((depth > 1 ? depth / 2 : 1))
	before=$(unproven)
	ktest 'a full queue' "flow $wire mode=full depth=$depth every=1"
	ktest 'a full queue' "flow $wire mode=full depth=$depth every=0"
	for every in $(printf '%s\n' 1 $half $depth | sort -un); do
		ktest 'with proof' "flow $wire mode=obey depth=$depth every=$every ms=$ms"
	done
	expect "depth $depth: who has proof is not reported" "$before" "$(unproven)"
	counted=$before
	ktest 'never signaled' "flow $wire mode=break depth=$depth every=0"
	reported $depth ': 0 of ' "depth $depth, never signaled"
	counted=$(unproven)
	ktest 'never polled' "flow $wire mode=break depth=$depth every=1"
	reported $depth 'at most 0 in a row not' "depth $depth, never polled"
done
check 'the kernel consumer unloads' ktest_unload
check 'the namespaces go' two_ns_gone
finish
