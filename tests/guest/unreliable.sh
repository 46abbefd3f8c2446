#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: UC and UD over a wire that loses, doubles and reorders packets: what arrives is right
# timeout: 120
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"

two_ns 1500 || die 'no wire'
netem on
python3 "$(dirname "$0")/lib/unreliable.py" "$(scaled 150)" 2>&1
rc=$?
check 'UC and UD on the bad wire' test $rc = 0
netem off
check 'two namespaces are taken down' two_ns_gone
finish
