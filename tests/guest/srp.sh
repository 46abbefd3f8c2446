#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: SRP: three LUNs over IPv4 and IPv6, 4 channels, dm-multipath, paths lost under I/O, long and scattered transfers, the initiator's link lost
# timeout: 300
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"
. "$(dirname "$0")/lib/nvme.sh"
. "$(dirname "$0")/lib/srp.sh"
. "$(dirname "$0")/lib/multipath.sh"
. "$(dirname "$0")/lib/io.sh"

# With use_srq, ib_srpt of 7.3.4 gives back a cache that a channel never had, and warns once, whatever the driver below
# (srpt_release_channel_work, srpt_cache_put).

# RXE_LONG is how many times more often paths are lost than in a short run.
LONG=${RXE_LONG:-1}

channels() { # LINK N: so many reliable connections of the kernel's
	[ "$(rdma resource show qp link "$1" | grep -c 'type RC state RTS')" = "$2" ]
}

# relogin TIMES: the paths go and come back, one, then both.
relogin() {
	local i
	for ((i = 0; i < $1; i++)); do
		srp_logout 4 && sleep 0.5 && srp_login 4 && wait_for 20 mpath_paths "$(srp_mpath 0)" 2 || { echo "IPv4, round $i"; return 1; }
		srp_logout 6 && srp_logout 4 && sleep 0.5 && srp_login 6 && srp_login 4 && wait_for 20 mpath_paths "$(srp_mpath 0)" 2 || { echo "both, round $i"; return 1; }
	done
}

# resets DISK TIMES: device, target and host resets, one after the other.
resets() {
	local i kind
	for ((i = 0; i < $2; i++)); do
		for kind in -d -b -H; do
			sg_reset --no-esc $kind "$1" || echo "sg_reset $kind: exit $?"
			sleep 0.5
		done
	done
	return 0
}

# long_transfers BLOCKSIZE LOGIN-OPTIONS: one channel.
long_transfers() {
	local disk rc=0
	srp_login 4 "ch_count=1,$2" || return 1
	channels rxeB 1 || { echo 'more than one channel'; rc=1; }
	disk=$(srp_disk_of 4 1)
	cat "/sys/block/${disk##*/}/queue/max_hw_sectors_kb" >"/sys/block/${disk##*/}/queue/max_sectors_kb"
	verified_io "$1" --filename="$disk" --size="$(($(scaled 3) * 4))m" --iodepth=4 && verified_io "$1" --filename="$disk" --size="$(($(scaled 3) * 4))m" --rw=rw --iodepth=8 || rc=1
	srp_logout 4 && return $rc
}

scattered() {
	local disk n rc=0
	srp_login 4 || return 1
	disk=$(srp_disk_of 4 0)
	for n in 512 4096 12288 65536; do
		python3 /rxe/tests/guest/lib/discontiguous.py "$disk" "$n" "$n" || rc=1
	done
	srp_logout 4 && return $rc
}

# plain NAME PARAMETER...: with these parameters of ib_srp, small and large I/O on a path.
plain() {
	local name=$1
	shift
	check "ib_srp $name: loaded" srp_initiator "$@"
	check "ib_srp $name: login" srp_login 6
	check "ib_srp $name: 4 KiB verified" verified_io 4k --filename="$(srp_disk_of 6 0)" --size="$(scaled 1)m"
	check "ib_srp $name: 512 KiB verified" verified_io 512k --filename="$(srp_disk_of 6 2)" --size="$(scaled 6)m"
	check "ib_srp $name: logout" srp_logout 6
}

# sessions_end COMMAND...: the RDMA devices of both sides go under two live, idle paths; the paths go.
sessions_end() { srp_login 4 && srp_login 6 && srp_unplugged "$@"; }

half_ns || die 'no wire'
check 'the target offers three LUNs' srp_target_up || exit 1
check 'multipathd' multipath_up || exit 1
check 'ib_srp' srp_initiator indirect_sg_entries=2048 || exit 1
check 'login, IPv4' srp_login 4 || exit 1
check 'login, IPv6' srp_login 6 || exit 1
check 'four channels each, on both sides' channels rxeB 8
for lun in 0 1 2; do check "LUN $lun has two paths" wait_for 20 mpath_paths "$(srp_mpath $lun)" 2; done
check 'mkfs.ext4' mkfs.ext4 -q -F "$(srp_mpath 0)"
check 'mount' mount "$(srp_mpath 0)" /mnt
check 'files: 4 KiB verified' verified_io 4k --directory=/mnt --size="$(scaled 2)m"
check 'files: 128 KiB verified' verified_io 128k --directory=/mnt --size="$(scaled 12)m"
check 'logout and login under I/O to files' io_while relogin "$LONG" -- --directory=/mnt --size=16m --numjobs=2
check 'the file system is consistent' unmount_and_check "$(srp_mpath 0)"
check 'sg_reset under I/O to scsi_debug' io_while resets "$(srp_disk_of 4 2)" "$((2 * LONG))" -- --filename="$(srp_mpath 2)" --size=16m
check 'multipathd goes' multipath_down
check 'logout, IPv4' srp_logout 4
check 'logout, IPv6' srp_logout 6
check 'transfers of 4 MiB, 255 descriptors a request' long_transfers 4m cmd_sg_entries=255,queue_size=32,max_sect=131072
check 'transfers of 4 MiB, one descriptor a request' long_transfers 4m cmd_sg_entries=1
check 'user buffers in pieces' scattered
plain never_register never_register=Y
plain 'register_always=N' register_always=N
plain 'without immediate data' use_imm_data=N
check 'a shared receive queue at the target' srp_port_down
check 'the port with use_srq' srp_port_up use_srq=1
plain 'to a shared receive queue'
check 'the port as before' srp_port_down
check 'the port comes back' srp_port_up use_srq=0
check 'the initiator' srp_initiator
check 'the initiator'\''s link goes under I/O' srp_unplug rdma link del rxeB
check 'the link comes back' srp_relink
check 'rmmod with live sessions' sessions_end rmmod rdma_rxe
check 'the module loads again' modprobe rdma_rxe
check 'ib_srp goes' wait_for 20 srp_no_initiator
check 'the target goes' srp_target_down
check 'the links go' half_ns_gone
finish
