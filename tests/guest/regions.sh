#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: memory regions that change (all or nothing), huge pages, edges; memory windows and who owns them; atomics of two devices
# timeout: 90
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"

two_ns || die 'no wire'
pages=$(cat /proc/sys/vm/nr_hugepages)
echo 8 >/proc/sys/vm/nr_hugepages
python3 "$(dirname "$0")/lib/regions.py" 2>&1
rc=$?
check 'regions' test $rc = 0
echo "$pages" >/proc/sys/vm/nr_hugepages
check 'two namespaces are taken down' two_ns_gone
finish
