# SPDX-License-Identifier: GPL-2.0
# Shell library of the guest suites; sourced as the first thing a suite does.
#
# A suite is one executable file tests/guest/NAME.sh or NAME.py. Its comment header says how it wants to be run:
#
#   # summary: one line about what it checks            # timeout: 120      seconds it may take (times RXE_SLOW)
#   # boot: own          a guest of its own             # memory: 2G, cpus: 2, append: kernel arguments (each implies boot: own)
#   # guests: 2          with a second guest (`peer`)   # peer: ours|stock       the second guest's module (as the first's)
#   # kernel: stock|debug   only on that kernel
#   # module: ours       only with our module           # default: no       only when named in SUITES
#   # expect-dmesg: REGEX   lines of the kernel log that are no fault
#
# It starts with rdma_rxe loaded and no links, prints one line for each thing it checks, leaves nothing behind, and exits with 0
# (passed), 77 (skipped; the reason is its last line) or anything else (failed). The harness (qemu/bin/run-suites) asserts the module
# before and after, reads the kernel log, and compares `rdma resource` with what it was before.
#
# RXE_SLOW is how many times slower than the stock kernel under emulation this guest is; RXE_OUT is a directory whose files reach the host.

export RXE_SLOW=${RXE_SLOW:-1}
RXE_SUITE=$(basename "$0")
RXE_SUITE=${RXE_SUITE%.*}
rxe_failed=0 rxe_passed=0 rxe_skipped=0

rxe_line() {
	local up
	read -r up _ </proc/uptime
	printf '%7.1f %-4s %s\n' "$up" "$1" "$2"
}

# pass NAME, fail NAME, skipped NAME REASON: the verdict of one check.
pass() {
	rxe_line ok "$*"
	rxe_passed=$((rxe_passed + 1))
}
fail() {
	rxe_line FAIL "$*"
	rxe_failed=$((rxe_failed + 1))
}
skipped() {
	rxe_line skip "$1: $2"
	rxe_skipped=$((rxe_skipped + 1))
}

# check NAME COMMAND...: passes when COMMAND succeeds; its output is shown when it does not.
check() {
	local name=$1 out rc=0
	shift
	out=$(mktemp)
	"$@" >"$out" 2>&1 || rc=$?
	if [ $rc = 0 ]; then
		pass "$name"
	else
		fail "$name (exit $rc): $*"
		tail -n 30 "$out" | sed 's/^/        /'
	fi
	rm -f "$out"
	return $rc
}

# expect NAME WANT GOT: passes when the two are equal.
expect() {
	if [ "$2" = "$3" ]; then pass "$1"; else fail "$1: '$3' instead of '$2'"; fi
}

# die TEXT: the suite cannot go on.
die() {
	fail "$*"
	exit 1
}

# skip REASON: the suite does not apply here.
skip() {
	rxe_line skip "$*"
	exit 77
}

# finish: the last line of a suite.
finish() {
	[ $rxe_failed = 0 ]
	exit
}

# scaled N: N on the stock kernel, less on a slower one, never less than 1.
scaled() {
	local n=$(($1 / RXE_SLOW))
	[ $n -ge 1 ] || n=1
	echo $n
}

# summary KEY VALUE: a line of the table that `make run` prints.
summary() { printf '%s\t%s\n' "$1" "$2" >>"${RXE_OUT:-/tmp}/summary"; }

# assert_module: the module under test, and no other, is loaded.
assert_module() {
	local taint
	taint=$(cat /sys/module/rdma_rxe/taint 2>/dev/null) || { fail 'rdma_rxe is not loaded'; return 1; }
	case ${RXE_MODULE:-ours}:$taint in
	ours:*O* | stock:) ;;
	*)
		fail "the wrong rdma_rxe is loaded (taint '$taint', wanted: ${RXE_MODULE:-ours})"
		return 1
		;;
	esac
}
