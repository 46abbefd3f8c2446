# SPDX-License-Identifier: GPL-2.0
# The kernel consumer of tests/kmod; sourced after lib.sh and wire.sh.

# How long a suite of this kind goes on when nobody says otherwise, and for all of its parts together.
KTEST_SECONDS=${RXE_SOAK:-36}

ktest_load() { [ -e /sys/kernel/debug/rxe_ktest/run ] || insmod /rxe/tests/kmod/rxe_ktest.ko; }
ktest_unload() { rmmod rxe_ktest; }

# share N: the seconds of one of N equal parts of the suite, at least 1.
share() {
	local s=$((KTEST_SECONDS / $1))
	[ $s -ge 1 ] || s=1
	echo $s
}

# ktest PREFIX 'TEST key=value ...': runs one test; each of its verdicts is a check named PREFIX: NAME. Fails when one does.
#
# What fails with the C driver counts as skipped, with what it does; so does a report in its kernel log.
ktest() {
	local prefix=$1 line bad=0
	shift
	echo "$* slow=$((${RXE_SLOW:-1} * ${RXE_PATIENCE:-1}))" >/sys/kernel/debug/rxe_ktest/run 2>/dev/null || bad=1
	while read -r line; do
		case $line in
		'ok '*) pass "$prefix: ${line#ok }" ;;
		'info '*) echo "             $prefix: ${line#info }" ;;
		'fail '*)
			bad=1
			if [ "${RXE_MODULE:-ours}" = stock ]; then
				skipped "$prefix: ${line#fail }" 'the C driver fails here'
			else
				fail "$prefix: ${line#fail }"
			fi
			;;
		esac
	done </sys/kernel/debug/rxe_ktest/run
	[ "${RXE_MODULE:-ours}" != stock ] || ktest_log "$prefix"
	[ $bad = 0 ] || { counters rxeA; counters rxeB; tc -n A -s qdisc show dev va | sed 's/^/    /'; }
	return $bad
}

# ktest_log PREFIX: what the C driver leaves in the kernel log is said once and taken out.
ktest_log() {
	dmesg | grep -E 'WARNING:|BUG:|Oops|KASAN|KFENCE|inconsistent lock|possible .* locking' | sed 's/^\[[^]]*\] *//' | sort | uniq -c | sort -rn | head -n 5 |
		while read -r line; do skipped "$1: the kernel log" "the C driver leaves: $line"; done
	! dmesg | grep -qE 'WARNING:|BUG:|Oops|Call Trace:' || dmesg -C
}

# wire_devices FAMILY: the arguments that name the two ends of the wire of two_ns; FAMILY is 4 or 6.
wire_devices() {
	case $1 in
	4) echo "dev=rxeA gid=$(gid_index rxeA 10.77.0.1) peer=rxeB pgid=$(gid_index rxeB 10.77.0.2)" ;;
	6) echo "dev=rxeA gid=$(gid_index rxeA fd77::1) peer=rxeB pgid=$(gid_index rxeB fd77::2)" ;;
	esac
}
