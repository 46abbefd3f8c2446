# SPDX-License-Identifier: GPL-2.0
# An NVMe-over-RDMA target and host; sourced after lib.sh.

NQN=nqn.2026-01.test:rxe
NVMET=/sys/kernel/config/nvmet
NVME_SIZE_MB=${NVME_SIZE_MB:-256}

# nvmet_up ADDRESS: serve a memory-backed block device over RDMA at ADDRESS:4420.
nvmet_up() {
	modprobe -a nvmet nvmet_rdma && modprobe null_blk nr_devices=0 || return 1
	mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config || return 1
	mkdir /sys/kernel/config/nullb/rxe || return 1
	(cd /sys/kernel/config/nullb/rxe && echo "$NVME_SIZE_MB" >size && echo 1 >memory_backed && echo "${NVME_BLOCK:-4096}" >blocksize && echo 1 >power) || return 1
	nvmet_subsystem_up && nvmet_port_up 1 "$1" 4420
}

# nvmet_subsystem_up: the subsystem with that device as its namespace.
nvmet_subsystem_up() {
	mkdir -p "$NVMET/subsystems/$NQN/namespaces/1" || return 1
	echo 1 >"$NVMET/subsystems/$NQN/attr_allow_any_host"
	# null_blk names a disk made through configfs after its directory.
	echo /dev/rxe >"$NVMET/subsystems/$NQN/namespaces/1/device_path"
	# The same after the target was made anew, or the host would take it for another disk.
	echo 11111111-2222-3333-4444-666666666666 >"$NVMET/subsystems/$NQN/namespaces/1/device_uuid"
	echo 1 >"$NVMET/subsystems/$NQN/namespaces/1/enable"
}
nvmet_subsystem_down() {
	echo 0 >"$NVMET/subsystems/$NQN/namespaces/1/enable" && rmdir "$NVMET/subsystems/$NQN/namespaces/1" "$NVMET/subsystems/$NQN"
}

# nvmet_port_up ID ADDRESS SERVICE: a port, with data of at most NVME_INLINE bytes in the command.
nvmet_port_up() {
	local family=ipv4
	case $2 in *:*) family=ipv6 ;; esac
	mkdir -p "$NVMET/ports/$1" || return 1
	(cd "$NVMET/ports/$1" && echo rdma >addr_trtype && echo $family >addr_adrfam && echo "$2" >addr_traddr && echo "$3" >addr_trsvcid &&
		echo "${NVME_INLINE:-4096}" >param_inline_data_size) || return 1
	ln -s "$NVMET/subsystems/$NQN" "$NVMET/ports/$1/subsystems/$NQN"
}
nvmet_port_down() { # ID
	rm "$NVMET/ports/$1/subsystems/$NQN" && rmdir "$NVMET/ports/$1"
}

nvmet_down() {
	nvmet_port_down 1 && nvmet_subsystem_down && rmdir /sys/kernel/config/nullb/rxe && modprobe -r nvmet_rdma nvmet null_blk
}

# nvme_connect TARGET [SOURCE [OPTION...]]
nvme_connect() {
	modprobe nvme_rdma || return 1
	nvme connect -t rdma -a "$1" -s "${NVME_SERVICE:-4420}" ${2:+-w "$2"} -n "$NQN" -i 2 --reconnect-delay=1 "${@:3}" >/dev/null || return 1
	wait_for 10 nvme_device
}

# nvme_device: the block device of the connected namespace.
nvme_device() {
	local s d
	for s in /sys/class/nvme-subsystem/*; do
		[ "$(cat "$s/subsysnqn" 2>/dev/null)" = "$NQN" ] || continue
		for d in "$s"/nvme*n1; do
			d=/dev/$(basename "$d")
			[ -b "$d" ] && echo "$d" && return 0
		done
	done
	return 1
}

nvme_controller() {
	local c
	for c in /sys/class/nvme/nvme*; do
		[ "$(cat "$c/subsysnqn" 2>/dev/null)" = "$NQN" ] && basename "$c" && return 0
	done
	return 1
}

nvme_disconnect() {
	nvme disconnect -n "$NQN" >/dev/null && wait_for 10 no_controller
}
no_controller() { ! nvme_controller; }
controller_live() { [ "$(cat "/sys/class/nvme/$(nvme_controller)/state")" = live ]; }

# verified_io BLOCKSIZE FIO_ARGUMENT...: random reads and writes, every block checked.
verified_io() {
	local bs=$1
	shift
	fio --name=verify --rw=randrw --bs="$bs" --ioengine=libaio --direct=1 --iodepth=16 --verify=crc32c --verify_fatal=1 --verify_backlog=64 \
		--verify_async=0 --group_reporting --minimal "$@" >/tmp/fio.out 2>&1 || { cat /tmp/fio.out; return 1; }
}

unmount_and_check() { # DEVICE
	umount /mnt && e2fsck -fn "$1" >/tmp/e2fsck.out 2>&1 || { cat /tmp/e2fsck.out; return 1; }
}

# reset_under_io DEVICE TIMES
reset_under_io() {
	local i pid c rc=0
	c=$(nvme_controller)
	verified_io 16k --filename="$1" --size=64m --time_based --runtime="$((4 + $2 * 3 * ${RXE_SLOW:-1} * ${RXE_PATIENCE:-1}))" &
	pid=$!
	for ((i = 0; i < $2; i++)); do
		sleep 1.5
		kill -0 $pid || { echo "the I/O ended before reset $i"; rc=1; break; }
		echo 1 >"/sys/class/nvme/$c/reset_controller" || { echo "reset $i failed"; rc=1; }
		wait_for 15 controller_live || { echo "not live after reset $i"; rc=1; break; }
	done
	wait $pid || { echo 'the I/O failed'; rc=1; }
	return $rc
}

# disconnect_under_io: fio must end with an error (its device goes), in bounded time.
disconnect_under_io() {
	local pid dev n
	dev=$(nvme_device) || return 1
	fio --name=gone --filename="$dev" --rw=randrw --bs=16k --ioengine=libaio --direct=1 --iodepth=16 --time_based --runtime=60 >/tmp/fio.out 2>&1 &
	pid=$!
	sleep 2
	kill -0 $pid || return 1
	nvme_disconnect || return 1
	n=0
	while kill -0 $pid 2>/dev/null; do
		[ $((n += 1)) -lt $((200 * ${RXE_SLOW:-1} * ${RXE_PATIENCE:-1})) ] || { echo 'fio hangs'; kill -9 $pid; return 1; }
		sleep 0.1
	done
	! wait $pid
}
