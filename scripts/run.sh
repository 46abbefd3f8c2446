#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# The end-to-end job (tests/guest/run.sh) in one guest, and a table of what came out. MODULE=stock: the same with the C driver.
. "$(dirname "$0")/lib.sh"

out=$RXE_TOP/out/run
rc=0
"$RXE_TOP/scripts/guest.sh" --kernel "${KERNEL:-stock}" --module "${MODULE:-ours}" --timeout "$((600 * ${RXE_SLOW:-1} * ${RXE_PATIENCE:-1}))" --out "$out" -- 'run-suites run' || rc=$?
echo
[ ! -s "$out/summary" ] || awk -F '\t' '{printf "  %-32s %s\n", $1, $2}' "$out/summary"
if [ $rc = 0 ]; then
	echo "All of it worked, in $(($(date +%s) - RXE_T0)) s."
else
	echo "Something failed (logs: out/run). With the C driver: make run MODULE=stock."
fi
exit $rc
