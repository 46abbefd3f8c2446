#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: UC and UD over a wire that loses, doubles and reorders packets: what arrives is right
# timeout: 180
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"

two_ns 1500 || die 'no wire'
for wire in all loses; do
	[ $wire = all ] || NETEM='loss 5%'
	netem on
	python3 "$(dirname "$0")/lib/unreliable.py" "$(scaled 150)" $wire 2>&1
	rc=$?
	check "UC and UD on a wire with $NETEM" test $rc = 0
done
netem off
check 'two namespaces are taken down' two_ns_gone
finish
