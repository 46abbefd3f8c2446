#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: rdma-core's own verbs tests (pyverbs), each verdict compared with the recorded one
# timeout: 300
#
# expected/pyverbs.txt says of every test what must come out, and why a skipped one is skipped.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"

MODULES='addr cq cq_events cqex device pd qp mr atomic qpex odp rdmacm'
tests=${RXE_PYVERBS:-/opt/rdma-core}
[ -e "$tests/tests/run_tests.py" ] || [ -e "$tests/run_tests.py" ] || die "no pyverbs tests in $tests"
expected=$(dirname "$0")/expected/pyverbs.txt

modprobe -a rdma_rxe ib_uverbs rdma_ucm veth
ip link add w0 mtu 4200 type veth peer name w1 mtu 4200
ip link set w0 up
ip link set w1 up
ip addr add 10.78.0.1/24 dev w0
rdma link add rxe0 type rxe netdev w0
wait_for 5 link_active rxe0
wait_for 5 gid_index rxe0 10.78.0.1 || die 'no GID'

cd "$tests" && timeout "$((250 * ${RXE_SLOW:-1} * ${RXE_PATIENCE:-1}))" python3 "$(dirname "$0")/lib/pyverbs_run.py" --dev rxe0 --gid "$(gid_index rxe0 10.78.0.1)" \
	$MODULES >/tmp/pyverbs.txt 2>/tmp/pyverbs.log
check 'the test run ends by itself' test $? -le 1
cp /tmp/pyverbs.txt "$RXE_OUT/pyverbs.verdicts"
cp /tmp/pyverbs.log "$RXE_OUT/pyverbs.trace"
if python3 "$(dirname "$0")/lib/pyverbs_compare.py" "$expected" /tmp/pyverbs.txt; then
	pass "$(grep -c '^ok' /tmp/pyverbs.txt) ran and passed, $(grep -c '^skip' /tmp/pyverbs.txt) skipped as recorded"
else
	fail 'verdicts differ from the recorded ones'
fi
rdma link del rxe0
ip link del w0
finish
