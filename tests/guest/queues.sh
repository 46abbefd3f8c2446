#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: CQ overflow, SRQ limit and resize, LAST_WQE_REACHED: what the consumer is told, and that nobody else is harmed
# timeout: 120
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"

two_ns || die 'no wire'
python3 "$(dirname "$0")/lib/queues.py" 2>&1
rc=$?
check 'events of queues' test $rc = 0
check 'two namespaces are taken down' two_ns_gone
finish
