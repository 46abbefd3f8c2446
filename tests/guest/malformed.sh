#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: malformed packets, every opcode, length and pad, with right and wrong ICRC: no crash, all counted, no foreign QP moved
# timeout: 300
#
# RXE_MALFORMED_STRIDE=1 sends every packet of the product; the default sends every eleventh (the steps must share no factor with the product).
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"

two_ns 1500 || die 'no wire'
inA cat /sys/class/net/va/address >/rxe/va.mac
python3 "$(dirname "$0")/lib/malformed.py" "${RXE_MALFORMED_STRIDE:-$((25 * ${RXE_SLOW:-1}))}"
rc=$?
check 'malformed packets' test $rc = 0
check 'two namespaces are taken down' two_ns_gone
finish
