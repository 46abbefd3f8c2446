#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: what the device says of itself is true: limits, capabilities, attributes of QPs, what is not there, what the tools show
# timeout: 120
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"

two_ns || die 'no wire'
before=$(dmesg | wc -l)
python3 "$(dirname "$0")/lib/attributes.py" 2>&1
rc=$?
check 'attributes' test $rc = 0
better 'it has a message for each request that it refuses' 'refused requests leave nothing in the kernel log' test "$(dmesg | wc -l)" = "$before"
check 'two namespaces are taken down' two_ns_gone
finish
