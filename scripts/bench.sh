#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# The C driver against this module, in one boot each for counted instructions and for wall clock (docs/bench.md). Prints a table;
# out/bench/ gets bench.json, bench.svg, table.md and the raw measurements.
#
#   ROWS='one-send-* veth-read-64k'   only these rows (shell patterns; tests/bench/rows.py lists them)
#   BENCH=count|wall                  only counted instructions, or only wall clock
#   PASSES=N                          how often each driver is measured in wall clock (5); counts are taken once
#   RXE_PATIENCE=N                    longer limits, for a busy machine
. "$(dirname "$0")/lib.sh"

# The host may lack python.
py() { "$RXE_TOP/scripts/in-toolchain.sh" python3 "$@"; }
patience=${RXE_PATIENCE:-1}
export RXE_PATIENCE=$patience
out=$RXE_TOP/out/bench
set -f
# shellcheck disable=SC2086 # patterns are words
rows=$(py "$RXE_TOP/tests/bench/report.py" rows ${ROWS:-})
set +f
[ -n "$rows" ] || die "no row matches '${ROWS:-}'; tests/bench/rows.py lists them."
rows=${rows//$'\n'/ }
case ${BENCH:-} in '') modes='count wall' ;; count | wall) modes=$BENCH ;; *) die "BENCH is 'count' or 'wall', not '$BENCH'." ;; esac

mkdir -p "$out"
rm -f "$out"/{count,wall}.jsonl
bad=0
for mode in $modes; do
	options=(--timeout "$((3600 * patience))" --out "$RXE_TOP/out/bench-$mode")
	passes=${PASSES:-5}
	[ "$mode" = wall ] || { options+=(--count); passes=1; }
	say "bench: $mode, $(wc -w <<<"$rows") rows, $passes passes"
	"$RXE_TOP/scripts/guest.sh" "${options[@]}" -- "python3 /rxe/tests/bench/guest.py $mode $passes $rows" || bad=$?
	[ ! -e "$RXE_TOP/out/bench-$mode/bench.jsonl" ] || cp "$RXE_TOP/out/bench-$mode/bench.jsonl" "$out/$mode.jsonl"
done
py "$RXE_TOP/tests/bench/report.py" report "$out" "$(basename "$(readlink -f "$RXE_CACHE/kernel")")" "$(git -C "$RXE_TOP" describe --always --dirty 2>/dev/null || echo unknown)" || bad=$?
exit $bad
