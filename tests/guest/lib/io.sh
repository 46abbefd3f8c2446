# SPDX-License-Identifier: GPL-2.0
# I/O that goes on while something happens; sourced after lib.sh.

# io_while COMMAND... -- FIO...: verified I/O goes on while COMMAND runs, and is stopped, without an error, after it. IO_RATE limits it
# (requests a second of each job), so that the daemons that have to act meanwhile get to run. IO_MAY_FAIL names errors that it may end
# with instead, as strerror(3) says them: "one|other". What was read must be right even then.
io_while() {
	local command=() pid rc=0 fio=0
	while [ "$1" != -- ]; do command+=("$1"); shift; done
	shift
	fio --name=while --rw=randwrite --bs=16k --ioengine=libaio --direct=1 --iodepth=16 --verify=crc32c --verify_fatal=1 --verify_backlog=64 \
		--time_based --runtime=3600 --rate_iops="${IO_RATE:-200}" --group_reporting --minimal "$@" >/tmp/fio.out 2>&1 &
	pid=$!
	sleep 1
	"${command[@]}" || { echo "${command[*]}: exit $?"; rc=1; }
	sleep 1
	kill -INT $pid 2>/dev/null || [ -n "${IO_MAY_FAIL:-}" ] || { echo 'the I/O ended too early'; rc=1; }
	io_over $pid || return 1
	# 128 is what fio says of a signal; each error adds one.
	wait $pid || fio=$?
	[ $fio = 128 ] || { [ -n "${IO_MAY_FAIL:-}" ] && grep -Eq "error=($IO_MAY_FAIL)\$" /tmp/fio.out && ! grep -q verify: /tmp/fio.out; } || { echo "fio: exit $fio"; cat /tmp/fio.out; rc=1; }
	return $rc
}

# io_over PID: fio ends in bounded time.
io_over() {
	local n=0
	while kill -0 "$1" 2>/dev/null; do
		[ $((n += 1)) -lt $((300 * ${RXE_SLOW:-1} * ${RXE_PATIENCE:-1})) ] || { echo 'fio hangs'; io_where; kill -9 "$1"; return 1; }
		sleep 0.1
	done
}

# io_where: which requests the block layer has, and which tasks wait for what.
io_where() {
	local f
	mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
	for f in /sys/kernel/debug/block/*/{state,requeue_list} /sys/kernel/debug/block/*/hctx*/{state,dispatch,busy}; do
		[[ $f = */ram* || $f = */vd* ]] || ! grep -q . "$f" 2>/dev/null || sed "s,^,${f#/sys/kernel/debug/block/}: ," "$f"
	done
	grep -r . /sys/class/scsi_device/*/device/state /sys/class/srp_remote_ports/*/state 2>/dev/null
	echo w >/proc/sysrq-trigger
}

# io_ends DISK COMMAND...: I/O goes on when COMMAND is run, which takes DISK away; then it must end, with errors, in bounded time.
io_ends() {
	local disk=$1 pid rc=0
	shift
	fio --name=gone --filename="$disk" --rw=randrw --bs=16k --ioengine=libaio --direct=1 --iodepth=16 --time_based --runtime=3600 >/tmp/fio.out 2>&1 &
	pid=$!
	sleep 1
	kill -0 $pid || { echo 'the I/O did not go'; return 1; }
	"$@" || { echo "$*: exit $?"; rc=1; }
	io_over $pid || return 1
	! wait $pid || { echo 'the I/O did not notice'; rc=1; }
	return $rc
}
