#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# The tests: first the gates that need no guest (each executable scripts/checks/*.sh is one), then the guest suites
# (tests/guest/*.sh and *.py; tests/guest/lib.sh says what their headers may ask for). Last line: N passed, N failed, N skipped.
#
#   SUITES='a b'            only these suites, no gates
#   KERNEL=stock|debug      under which kernel (the debug kernel runs no gates)
#   MODULE=ours|stock       with which rdma_rxe; with the stock one the verdicts tell what the C driver does
#   RXE_SLOW=N              how much slower than usual the guest is: less work, longer limits (7 on the debug kernel)
#   RXE_PATIENCE=N          longer limits only, for a machine that does other things as well (1)
#   RXE_SOAK=SECONDS        how long the suites that only go on and on are to do so, instead of their usual time
#
# Results: out/test-<kernel>-<module>/results.jsonl and a log of each suite beside it.
. "$(dirname "$0")/lib.sh"
{ # Read to the end before anything runs: the script may be edited meanwhile.

kernel=${KERNEL:-stock} module=${MODULE:-ours}
case $kernel in stock) : "${RXE_SLOW:=1}" ;; debug) : "${RXE_SLOW:=7}" ;; *) die "KERNEL is 'stock' or 'debug', not '$kernel'." ;; esac
case $module in ours | stock) ;; *) die "MODULE is 'ours' or 'stock', not '$module'." ;; esac
: "${RXE_PATIENCE:=1}"
export RXE_SLOW RXE_PATIENCE
dir=$RXE_TOP/tests/guest
out=$RXE_TOP/out/test-$kernel-$module
rm -rf "$out"
mkdir -p "$out"
passed=0 failed=0 skipped=0

# verdict KIND NAME VERDICT SECONDS CHECKS REASON
verdict() {
	case $3 in
	pass) passed=$((passed + 1)) ;;
	skip) skipped=$((skipped + 1)) ;;
	*) failed=$((failed + 1)) ;;
	esac
	printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$@" >>"$out/table"
}

run_gates() {
	local gate name rc start reason
	for gate in "$RXE_TOP"/scripts/checks/*.sh; do
		[ -x "$gate" ] || continue
		name=$(basename "$gate" .sh)
		say "gate $name"
		rc=0 start=$(date +%s)
		"$gate" >"$out/$name.log" 2>&1 || rc=$?
		reason=$(tail -n1 "$out/$name.log" | cut -c1-160)
		case $rc in
		0) verdict gate "$name" pass $(($(date +%s) - start)) - '' ;;
		77) verdict gate "$name" skip $(($(date +%s) - start)) - "$reason" ;;
		*)
			tail -n 40 "$out/$name.log" >&2
			say "gate $name failed; alone: scripts/checks/$name.sh"
			verdict gate "$name" fail $(($(date +%s) - start)) - "exit $rc: $reason"
			;;
		esac
	done
}

file_of() { ls "$dir/$1.sh" "$dir/$1.py" 2>/dev/null | head -n1; }
# header SUITE KEY [DEFAULT]
header() {
	local v
	v=$(sed -nE "1,40{/^#/!q;s/^# *$2: *(.*)$/\1/p}" "$(file_of "$1")" | head -n1)
	printf '%s\n' "${v:-${3:-}}"
}
has() {
	local v
	v=$(header "$1" "$2")
	[ -z "$v" ] || [ "$v" = both ] || [ "$v" = "$3" ]
}

# group SUITE: suites with the same answer share a guest.
group() {
	local own=shared
	[ "$(header "$1" boot)" != own ] || own=$1
	printf '%s|%s|%s|%s|%s|%s\n' "$(header "$1" guests 1)" "$(header "$1" peer)" "$(header "$1" memory 2G)" "$(header "$1" cpus 2)" "$(header "$1" append)" "$own"
}

alone() {
	local vars=
	[ "$kernel" = stock ] || vars+=" KERNEL=$kernel"
	[ "$module" = ours ] || vars+=" MODULE=$module"
	printf "make test SUITES=%s%s" "$1" "$vars"
}

# run_group GROUP SUITE...: in as many boots as it takes: a failed suite ends its guest.
run_group() {
	local spec=$1 guests peer memory cpus append own boot rc limit s opts todo n
	shift
	IFS='|' read -r guests peer memory cpus append own <<<"$spec"
	todo=("$@")
	n=0
	while [ ${#todo[@]} -gt 0 ]; do
		limit=60
		for s in "${todo[@]}"; do limit=$((limit + $(header "$s" timeout 120) + 15)); done
		boot=$out/boot
		rm -rf "$boot"
		opts=(--kernel "$kernel" --module "$module" --memory "$memory" --cpus "$cpus" --timeout "$(awk -v a="$limit" -v b="$RXE_SLOW" -v c="$RXE_PATIENCE" -v d="${RXE_SOAK:-0}" -v n="${#todo[@]}" 'BEGIN{print int(a*b*c + 1.5*d*n)}')" --out "$boot")
		[ "$guests" != 2 ] || opts+=(--peer "${PEER:-${peer:-$module}}")
		[ -z "$append" ] || opts+=(--append "$append")
		[ -z "$built" ] || opts+=(--no-build)
		say "guest with ${todo[*]}"
		rc=0
		"$RXE_TOP/scripts/guest.sh" "${opts[@]}" -- "run-suites ${todo[*]}" || rc=$?
		built=1
		[ -e "$boot/console" ] || die "no guest could be started."
		n=0
		if [ -e "$boot/verdicts" ]; then
			while IFS=$'\t' read -r s v seconds checks reason; do
				verdict guest "$s" "$v" "$seconds" "$checks" "$reason"
				[ "$v" != fail ] || say "suite $s failed; alone: $(alone "$s")"
				n=$((n + 1))
			done <"$boot/verdicts"
			cat "$boot/results.jsonl" >>"$out/results.jsonl"
		elif [ "$rc" = 124 ] || [ "$rc" = 125 ]; then
			# The guest took its verdicts with it; its console has them.
			while read -r s v; do
				verdict guest "$s" "$v" - - "$([ "$v" != fail ] || echo 'see the console; the guest died later')"
				printf '{"suite":"%s","module":"%s","kernel":"%s","verdict":"%s"}\n' "$s" "$module" "$kernel" "$v" >>"$out/results.jsonl"
				n=$((n + 1))
			done < <(sed -nE 's/.*rxe-suite: ([a-z0-9_-]+) (pass|fail|skip)\r?$/\1 \2/p' "$boot/console")
			if [ $n -lt ${#todo[@]} ]; then
				s=${todo[$n]}
				v="the guest $([ "$rc" = 124 ] && echo 'ran into its time limit' || echo 'died') in it; console: out/${out##*/}/$s.console"
				verdict guest "$s" fail - - "$v"
				printf '{"suite":"%s","module":"%s","kernel":"%s","verdict":"fail","reason":"%s"}\n' "$s" "$module" "$kernel" "$v" >>"$out/results.jsonl"
				cp "$boot/console" "$out/$s.console"
				say "suite $s failed; alone: $(alone "$s")"
				n=$((n + 1))
			fi
		else
			die "the guest ended with status $rc and without verdicts (logs: $boot)."
		fi
		(shopt -s nullglob dotglob; for s in "$boot"/*; do case ${s##*/} in verdicts | results.jsonl | exit | running) ;; *) cp -r "$s" "$out/" ;; esac; done)
		rm -rf "$boot"
		todo=("${todo[@]:$n}")
	done
}

built=
suites=()
if [ -n "${SUITES:-}" ]; then
	for s in $SUITES; do
		[ -n "$(file_of "$s")" ] || die "there is no suite '$s'; there are: $(cd "$dir" && ls | sed -nE 's/^(.*)\.(sh|py)$/\1/p' | grep -vx lib | sort | tr '\n' ' ')"
		suites+=("$s")
	done
else
	[ "$kernel" != stock ] || [ "$module" != ours ] || [ -n "${NO_GATES:-}" ] || run_gates
	for s in $(cd "$dir" && ls | sed -nE 's/^(.*)\.(sh|py)$/\1/p' | grep -vx lib | sort); do
		[ "$(header "$s" default)" = no ] || suites+=("$s")
	done
fi

groups=()
declare -A members
for s in "${suites[@]}"; do
	if ! has "$s" kernel "$kernel"; then
		verdict guest "$s" skip 0 - "only for the $(header "$s" kernel) kernel"
		continue
	fi
	if ! has "$s" module "$module"; then
		verdict guest "$s" skip 0 - "only for module '$(header "$s" module)'"
		continue
	fi
	g=$(group "$s")
	[ -n "${members[$g]:-}" ] || groups+=("$g")
	members[$g]+=" $s"
done
for g in "${groups[@]}"; do
	# shellcheck disable=SC2086 # words
	run_group "$g" ${members[$g]}
done

echo
echo "Kernel $kernel, module $module, $(($(date +%s) - RXE_T0)) s:"
[ ! -e "$out/table" ] || awk -F '\t' '{printf "  %-5s %-24s %-5s %8s s %5s checks  %s\n", $1, $2, $3, $4, $5, $6}' "$out/table"
[ $((passed + failed + skipped)) -gt 0 ] || die "nothing was tested."
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
exit
}
