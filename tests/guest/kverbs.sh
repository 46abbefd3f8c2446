#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: verbs of kernel consumers alone: peek_cq, limits of fast registrations, address handles, ports, atomics beside a CPU's
# timeout: 90
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"
. "$(dirname "$0")/lib/ktest.sh"

two_ns || die 'no wire'
check 'the kernel consumer loads' ktest_load || exit 1
ktest 'over IPv4' "verbs $(wire_devices 4)"
ktest 'over IPv6' "verbs $(wire_devices 6)"
check 'the kernel consumer unloads' ktest_unload
check 'the namespaces go' two_ns_gone
finish
