#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: multicast to several members on one link, and across a veth pair, IPv4 and IPv6: each member is served once
# timeout: 120
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"

two_ns || die 'no wire'
ip -n A route add 239.0.0.0/8 dev va
ip -n B route add 239.0.0.0/8 dev vb
python3 "$(dirname "$0")/lib/multicast.py" 2>&1
rc=$?
check 'multicast' test $rc = 0
check 'two namespaces are taken down' two_ns_gone
finish
