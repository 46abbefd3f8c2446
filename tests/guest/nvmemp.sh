#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: dm-multipath over NVMe-oF, nvme_core.multipath=N: a file system on two paths, which are reset and lost under verified I/O
# timeout: 180
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"
. "$(dirname "$0")/lib/nvme.sh"
. "$(dirname "$0")/lib/multipath.sh"
. "$(dirname "$0")/lib/io.sh"

# RXE_LONG is how many times more often paths are lost than in a short run.
LONG=${RXE_LONG:-1}

# controller_at SERVICE: the controller of the path to that port.
controller_at() {
	local c
	for c in /sys/class/nvme/nvme*; do
		case $(cat "$c/address" 2>/dev/null) in *"trsvcid=$1"*) echo "${c##*/}"; return 0 ;; esac
	done
	return 1
}
connect() { # SERVICE
	nvme connect -t rdma -a 10.78.0.2 -s "$1" -w 10.78.0.1 -n "$NQN" -i 2 --reconnect-delay=1 >/dev/null && wait_for 10 controller_at "$1"
}
disconnect() { # SERVICE
	nvme disconnect -d "$(controller_at "$1")" >/dev/null && wait_for 10 eval "! controller_at $1"
}
live() { [ "$(cat "/sys/class/nvme/$(controller_at "$1")/state")" = live ]; }

mpath() {
	local n
	n=$(dmsetup ls --target multipath 2>/dev/null | sed -n 's/^\([^ 	]*\).*(.*/\1/p' | head -n1)
	[ -n "$n" ] && echo "/dev/mapper/$n"
}
both_paths() { mpath_paths "$(mpath)" 2; }

# paths TIMES: a reset of each path; then one goes and comes back.
paths() {
	local i s
	for ((i = 0; i < $1; i++)); do
		for s in 4420 4421; do
			echo 1 >"/sys/class/nvme/$(controller_at $s)/reset_controller" && wait_for 20 live $s || { echo "reset of $s, round $i"; return 1; }
		done
		for s in 4420 4421; do
			disconnect $s && sleep 0.5 && connect $s && wait_for 20 both_paths || { echo "path $s, round $i"; return 1; }
		done
	done
}

one_ns || die 'no wire'
# The parameter is nvme_core's, which must be loaded with it.
check 'NVMe without its own multipath' eval 'modprobe -r nvme_rdma nvmet_rdma nvmet nvme_fabrics nvme nvme_core; modprobe nvme_core multipath=N && modprobe nvme_rdma'
[ "$(cat /sys/module/nvme_core/parameters/multipath)" = N ] || die 'nvme_core has its multipath on'
check 'a target with two ports' eval 'nvmet_up 10.78.0.2 && nvmet_port_up 2 10.78.0.2 4421' || exit 1
check 'multipathd' multipath_up || exit 1
check 'connect, one port' connect 4420 || exit 1
check 'connect, the other' connect 4421 || exit 1
check 'a multipath disk with two paths' wait_for 20 both_paths || exit 1
disk=$(mpath)
check 'mkfs.ext4' mkfs.ext4 -q -F "$disk"
check 'mount' mount "$disk" /mnt
check 'files: 4 KiB verified' verified_io 4k --directory=/mnt --size="$(scaled 3)m"
check 'files: 128 KiB verified' verified_io 128k --directory=/mnt --size="$(scaled 24)m"
check 'paths are reset, go and come back under I/O to files' io_while paths "$LONG" -- --directory=/mnt --size=16m --numjobs=2
check 'the file system is consistent' unmount_and_check "$disk"
check 'multipathd goes' multipath_down
check 'disconnect, one port' disconnect 4420
check 'disconnect, the other' disconnect 4421
check 'the target goes' eval 'nvmet_port_down 2 && nvmet_down'
check 'the links go' one_ns_gone
check 'NVMe as before' modprobe -r nvme_rdma nvme_fabrics nvme_core
finish
