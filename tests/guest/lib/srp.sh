# SPDX-License-Identifier: GPL-2.0
# An SRP target and initiator; sourced after lib.sh and lib/wire.sh.
#
# The target is ib_srpt, with three LUNs: two memory-backed disks of null_blk and one of scsi_debug. The initiator is ib_srp. Paths come
# and go by address, IPv4 and IPv6, each a SCSI host of its own. They are on the wire of half_ns, the target in the first namespace and the
# initiator in B, unless these variables tell otherwise: the links, the target's addresses, and the initiator's namespace (or none).
SRP_TARGET_LINK=${SRP_TARGET_LINK-rxeA} SRP_ADDRESS4=${SRP_ADDRESS4-10.77.0.1} SRP_ADDRESS6=${SRP_ADDRESS6-fd77::1}
SRP_LINK=${SRP_LINK-rxeB} SRP_NETNS=${SRP_NETNS-B}

TARGET=/sys/kernel/config/target
SRP_PORT=5555
SRP_SIZE_MB=${SRP_SIZE_MB:-64}
# Serial numbers of the LUNs, in hexadecimal; multipath names a disk 36001405 and these, filled with zeros.
SRP_SERIALS=(5e110 5e111 5e112)
# srpt knows an initiator by the address it came to.
SRP_INITIATORS=("$SRP_ADDRESS4" "$(sed 's/::/:0000:0000:0000:0000:0000:0000:000/' <<<"$SRP_ADDRESS6")")

# srp_guid: the name srpt gives the port of its link: the second half of its first GID.
srp_guid() { cut -d: -f5-8 "/sys/class/infiniband/$SRP_TARGET_LINK/ports/1/gids/0"; }
# srp_service: the number that the initiator must know.
srp_service() { echo "${SRP_SERVICE:-$(cat /sys/module/ib_srpt/parameters/srpt_service_guid)}"; }

srp_disk() { # NAME of a disk of null_blk
	mkdir "/sys/kernel/config/nullb/$1" &&
		(cd "/sys/kernel/config/nullb/$1" && echo "$SRP_SIZE_MB" >size && echo 1 >memory_backed && echo 512 >blocksize && echo 8192 >max_sectors && echo 1 >power)
}

# srp_target_up: the disks, the LUNs and the port.
srp_target_up() {
	local i disk
	modprobe -a sd_mod sg target_core_mod target_core_iblock ib_srpt && modprobe null_blk nr_devices=0 || return 1
	modprobe scsi_debug "dev_size_mb=$SRP_SIZE_MB" delay=0 dif=3 dix=1 || return 1
	srp_disk srp0 && srp_disk srp1 || return 1
	wait_for 10 srp_debug_disk || return 1
	i=0
	for disk in srp0 srp1 "$(srp_debug_disk)"; do
		mkdir -p "$TARGET/core/iblock_$i/lun$i" || return 1
		echo "udev_path=/dev/$disk," >"$TARGET/core/iblock_$i/lun$i/control" || return 1
		echo "${SRP_SERIALS[i]}" >"$TARGET/core/iblock_$i/lun$i/wwn/vpd_unit_serial" || return 1
		echo 1 >"$TARGET/core/iblock_$i/lun$i/enable" || return 1
		i=$((i + 1))
	done
	mkdir -p "$TARGET/srpt" || return 1
	echo $SRP_PORT >"$TARGET/srpt/discovery_auth/rdma_cm_port" || return 1
	srp_port_up
}

srp_debug_disk() { ls /sys/bus/pseudo/drivers/scsi_debug/adapter0/host*/target*/*/block 2>/dev/null | grep .; }

# srp_port_up [ATTRIBUTE=VALUE...]: offers the LUNs on its link to the initiators.
srp_port_up() {
	local tpg who i a
	tpg=$TARGET/srpt/$(srp_guid)/$(srp_guid)
	mkdir -p "$tpg" || return 1
	for a in "$@"; do echo "${a#*=}" >"$tpg/attrib/${a%%=*}" || return 1; done
	for i in 0 1 2; do
		mkdir "$tpg/lun/lun_$i" && ln -s "$TARGET/core/iblock_$i/lun$i" "$tpg/lun/lun_$i/" || return 1
	done
	for who in "${SRP_INITIATORS[@]}"; do
		mkdir "$tpg/acls/$who" || return 1
		for i in 0 1 2; do
			mkdir "$tpg/acls/$who/lun_$i" && ln -s "$tpg/lun/lun_$i" "$tpg/acls/$who/lun_$i/" || return 1
		done
	done
	echo 1 >"$tpg/enable"
}

srp_port_down() {
	local tpg
	for tpg in "$TARGET"/srpt/*:*/*:*; do
		echo 0 >"$tpg/enable"
		find "$tpg/acls" -type l -delete
		find "$tpg/acls" -mindepth 2 -maxdepth 2 -name 'lun_*' -exec rmdir {} +
		find "$tpg/acls" -mindepth 1 -maxdepth 1 -type d -exec rmdir {} +
		find "$tpg/lun" -mindepth 2 -maxdepth 2 -type l -delete
		rmdir "$tpg"/lun/lun_* && rmdir "$tpg" "${tpg%/*}" || return 1
	done
}

srp_target_down() {
	local i
	srp_port_down && rmdir "$TARGET/srpt" || return 1
	for i in 0 1 2; do rmdir "$TARGET/core/iblock_$i/lun$i" "$TARGET/core/iblock_$i" || return 1; done
	modprobe -r ib_srpt target_core_iblock target_core_file target_core_pscsi target_core_user target_core_mod || return 1
	rmdir /sys/kernel/config/nullb/srp0 /sys/kernel/config/nullb/srp1 && modprobe -r null_blk || return 1
	wait_for 10 modprobe -r scsi_debug
}

# srp_initiator PARAMETER...: load ib_srp with these parameters.
srp_initiator() {
	wait_for 20 srp_no_initiator && modprobe ib_srp reconnect_delay=2 fast_io_fail_tmo=4 dev_loss_tmo=20 "$@"
}
srp_no_initiator() { [ ! -e /sys/module/ib_srp ] || modprobe -r ib_srp; }

# srp_add LINE: asks for a path; `srp_added` is how that ended. Fails, to be tried again, while the path of that name that was taken down is
# not quite gone. The namespace of the network may be another one, that of sysfs is not: there the device has no attributes.
srp_add() {
	local out
	srp_added=0
	out=$(${SRP_NETNS:+nsenter --net=/run/netns/$SRP_NETNS} bash -c 'printf "%s\n" "$2" >/sys/class/infiniband_srp/srp-$1-1/add_target' bash "$SRP_LINK" "$1" 2>&1) && return
	srp_added=1
	[[ $out != *'File exists'* ]]
}

# srp_login 4|6 [OPTION,...]: a path over IPv4 or IPv6, of four channels unless OPTION says more; the LUNs must appear.
srp_login() {
	local dest guid
	case $1 in 4) dest=$SRP_ADDRESS4:$SRP_PORT ;; 6) dest="[$SRP_ADDRESS6]:$SRP_PORT" ;; esac
	guid=$(srp_service)
	# The retry count is what tells the two hosts apart in sysfs.
	wait_for 10 srp_add "id_ext=$guid,ioc_guid=$guid,initiator_ext=$1,dest=$dest,tl_retry_count=$1,${2:-ch_count=4}" && [ "$srp_added" = 0 ] || return 1
	srp_hosts[$1]=$(srp_host "$1") || return 1
	wait_for 15 srp_luns "$1"
}

# srp_host 4|6: the number of the SCSI host of that path.
srp_host() {
	local h
	for h in /sys/class/scsi_host/host*; do
		[ "$(cat "$h/tl_retry_count" 2>/dev/null)" != "$1" ] || { echo "${h##*/host}"; return 0; }
	done
	return 1
}
# srp_no_host 4|6: the host of the last login is gone. The attributes that srp_host reads go first, its disks and their last writes follow.
declare -A srp_hosts
srp_no_host() { ! srp_host "$1" && [ ! -e "/sys/class/scsi_host/host${srp_hosts[$1]:-}" ]; }

# srp_disk_of 4|6 LUN: the disk of a LUN by that path.
srp_disk_of() {
	local d
	d=$(ls -d "/sys/class/scsi_device/$(srp_host "$1"):0:0:$2/device/block/"sd* 2>/dev/null | head -n1) && [ -n "$d" ] && [ -b "/dev/${d##*/}" ] && echo "/dev/${d##*/}"
}
srp_luns() { srp_disk_of "$1" 0 && srp_disk_of "$1" 1 && srp_disk_of "$1" 2; }

# srp_logout 4|6
srp_logout() {
	local host
	host=$(srp_host "$1") || return 1
	echo 1 >"/sys/class/srp_remote_ports/port-$host:1/delete" && wait_for 20 srp_no_host "$1"
}

# srp_mpath LUN: its multipath disk.
srp_mpath() {
	local name=36001405${SRP_SERIALS[$1]}0000000000000000000000000
	echo "/dev/mapper/${name:0:33}"
}

# srp_unplug COMMAND...: the RDMA device goes under two live paths with I/O on them; the I/O ends with errors, the paths go. For lib/io.sh.
srp_unplug() { srp_login 4 && srp_login 6 && io_ends "$(srp_disk_of 4 0)" srp_unplugged "$@"; }
srp_unplugged() { "$@" && wait_for 30 srp_no_host 4 && wait_for 30 srp_no_host 6; }

# srp_relink: the initiator's link comes back on the wire of half_ns.
srp_relink() { inB rdma link add rxeB type rxe netdev vb && wait_for 5 link_active rxeB && wait_for 5 gid_index rxeB fd77::2; }
