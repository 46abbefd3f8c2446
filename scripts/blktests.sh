#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Runs blktests' srp, nvme (rdma) and nvmeof-mp groups in guests, and compares the verdicts with those of the C driver.
#
#   BLKTESTS=DIR       a checkout of blktests, built (make)
#   BLKTESTS_MP=DIR    one of before its commit 24c0537, which has nvmeof-mp; without it that group is left out
#   BLKTESTS_GROUPS='…' of srp nvme nvme-long nvmeof-mp (all); nvme-long is what blktests' -q leaves out of nvme
#   PASSES='…'         of default ipv6 use_srq force_mr register_always (default)
#   ROUNDS=N           how many times in a row (1)
#   TESTS='…'          only these tests, of one group
#   BLKTESTS_TIMEOUT=N seconds of those tests that run for a given time (10)
#   MODULE, KERNEL     as for the guest suites
#
# Results: out/blktests-<kernel>-<module>/ROUND/. blktests is not part of this repository, and is not built by it.
. "$(dirname "$0")/lib.sh"
{ # Read to the end before anything runs: the script may be edited meanwhile.

kernel=${KERNEL:-stock} module=${MODULE:-ours}
: "${PASSES:=default}" "${ROUNDS:=1}" "${TESTS:=}"
export BLKTESTS_TIMEOUT=${BLKTESTS_TIMEOUT:-10}
groups=${BLKTESTS_GROUPS:-srp nvme nvme-long nvmeof-mp}
[ -x "${BLKTESTS:-}/check" ] || die "BLKTESTS is not a checkout of blktests: '${BLKTESTS:-}'."
out=$RXE_TOP/out/blktests-$kernel-$module
rm -rf "$out"
mkdir -p "$out"
report=("$RXE_TOP/scripts/in-toolchain.sh" python3 "$RXE_TOP/blktests-config/report.py")

worse=0 built=
[ "$module" = ours ] || built=1
for ((round = 1; round <= ROUNDS; round++)); do
	for pass in $PASSES; do
		for group in $groups; do
			checkout=$BLKTESTS append='' disk=
			case $group in
			nvmeof-mp)
				checkout=${BLKTESTS_MP:-}
				[ -n "$checkout" ] || { say "blktests: BLKTESTS_MP is not set, nvmeof-mp is left out"; continue; }
				append=nvme_core.multipath=N
				;;
			nvme*) disk=1 ;;
			esac
			[ -x "$checkout/src/discontiguous-io" ] || die "$checkout is not built (make -C $checkout)."
			[ "$pass" != force_mr ] || append+=" ib_core.force_mr=1"
			dir=$out/$round
			mkdir -p "$dir"
			opts=(--kernel "$kernel" --module "$module" --memory 3G --timeout "$((3600 * ${RXE_PATIENCE:-1}))" --out "$dir/$group-$pass"
				--add "blktests=$checkout" --add "blktests-config=$RXE_TOP/blktests-config")
			[ -z "$append" ] || opts+=(--append "$append")
			if [ -n "$disk" ]; then
				truncate -s 512M "$out/disk"
				opts+=(--qemu "-drive file=$out/disk,format=raw,if=none,id=n0,cache=unsafe -device nvme,drive=n0,serial=rxe")
			fi
			[ -z "$built" ] || opts+=(--no-build)
			say "blktests: $group, $pass, round $round"
			rc=0
			"$RXE_TOP/scripts/guest.sh" "${opts[@]}" -- "/bin/bash /rxe/blktests-config/guest.sh $group $pass $TESTS" || rc=$?
			built=1
			[ "$rc" = 0 ] || say "blktests: the guest ended with $rc"
			log=$dir/$group-$pass/$group-$pass.log
			# A guest that died left what it printed, at best.
			[ -s "$log" ] || log=$dir/$group-$pass/console
			"${report[@]}" verdicts "$log" >"$dir/$group-$pass.tsv"
			"${report[@]}" compare "$RXE_TOP/blktests-config/stock.txt" "$pass" "$dir/$group-$pass.tsv" || worse=1
			[ "$rc" = 0 ] || worse=1
			rm -f "$out/disk"
		done
	done
done
exit $worse
}
