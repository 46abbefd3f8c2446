#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: iSER: the kernel's target and initiator, IPv4 and IPv6; verified I/O, logout under I/O
# timeout: 240
# default: no
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"
. "$(dirname "$0")/lib/nvme.sh"
. "$(dirname "$0")/lib/io.sh"

TARGET=/sys/kernel/config/target
IQN=iqn.2026-01.test:rxe

# The kernel's target knows the first namespace only, as the initiator does: the two meet on one device.
kernel_target_up() {
	local tpg=$TARGET/iscsi/$IQN/tpgt_1
	modprobe -a sd_mod target_core_mod target_core_iblock iscsi_target_mod ib_isert && modprobe null_blk nr_devices=0 || return 1
	mkdir /sys/kernel/config/nullb/iser0 &&
		(cd /sys/kernel/config/nullb/iser0 && echo 64 >size && echo 1 >memory_backed && echo 512 >blocksize && echo 1 >power) || return 1
	mkdir -p $TARGET/core/iblock_0/lun0 && echo udev_path=/dev/iser0, >$TARGET/core/iblock_0/lun0/control && echo 1 >$TARGET/core/iblock_0/lun0/enable || return 1
	mkdir -p $TARGET/iscsi && mkdir -p "$tpg" && mkdir "$tpg/lun/lun_0" && ln -s $TARGET/core/iblock_0/lun0 "$tpg/lun/lun_0/" || return 1
	echo 0 >"$tpg/attrib/authentication"
	echo 1 >"$tpg/attrib/generate_node_acls"
	echo 1 >"$tpg/attrib/cache_dynamic_acls"
	echo 0 >"$tpg/attrib/demo_mode_write_protect"
	mkdir "$tpg/np/10.77.0.1:3260" && echo 1 >"$tpg/np/10.77.0.1:3260/iser" || return 1
	mkdir "$tpg/np/[fd77::1]:3260" && echo 1 >"$tpg/np/[fd77::1]:3260/iser" || return 1
	echo 1 >"$tpg/enable"
}
kernel_target_down() {
	local tpg=$TARGET/iscsi/$IQN/tpgt_1
	echo 0 >"$tpg/enable"
	rmdir "$tpg"/np/* && find "$tpg/lun" -type l -delete && rmdir "$tpg/lun/lun_0" && rmdir "$tpg" "${tpg%/*}" $TARGET/iscsi || return 1
	rmdir $TARGET/core/iblock_0/lun0 $TARGET/core/iblock_0 && modprobe -r ib_isert iscsi_target_mod target_core_iblock target_core_file target_core_pscsi target_core_user target_core_mod || return 1
	rmdir /sys/kernel/config/nullb/iser0 && modprobe -r null_blk
}

initiator_up() {
	modprobe -a sd_mod libiscsi scsi_transport_iscsi ib_iser || return 1
	mkdir -p /etc/iscsi /run/lock/iscsi
	echo InitiatorName=iqn.2026-01.test:initiator >/etc/iscsi/initiatorname.iscsi
	# It ends its process group with itself.
	setsid iscsid -f >"${RXE_OUT:-/tmp}/iscsid.log" 2>&1 &
	ISCSID=$!
	wait_for 10 eval 'iscsiadm -m session; [ $? = 21 ]'
}
initiator_down() { kill $ISCSID; wait $ISCSID; modprobe -r ib_iser; }

disk() { # IQN
	local s d
	for s in /sys/class/iscsi_session/session*; do
		[ "$(cat "$s/targetname" 2>/dev/null)" = "$1" ] || continue
		for d in "$s"/device/target*/*/block/sd*; do [ -b "/dev/${d##*/}" ] && echo "/dev/${d##*/}" && return 0; done
	done
	return 1
}
login() { # PORTAL IQN
	iscsiadm -m discovery -t sendtargets -p "$1" -I iser && iscsiadm -m node -T "$2" -p "$1" -I iser --op update -n node.session.timeo.replacement_timeout -v 5 &&
		iscsiadm -m node -T "$2" -p "$1" -I iser --login && wait_for 15 disk "$2"
}
logout() { iscsiadm -m node -T "$1" --logout && iscsiadm -m node -T "$1" --op delete; }
no_session() { iscsiadm -m session >/dev/null 2>&1; [ $? = 21 ]; }

# session NAME PORTAL IQN: login, I/O, logout.
session() {
	check "$1: login" login "$2" "$3" || return
	check "$1: 4 KiB verified" verified_io 4k --filename="$(disk "$3")" --size="$(scaled 1)m"
	check "$1: 512 KiB verified" verified_io 512k --filename="$(disk "$3")" --size="$(scaled 12)m" --iodepth=4
	[ -z "${4:-}" ] || $4
	check "$1: logout" logout "$3"
}
again() { iscsiadm -m node -T $IQN --logout && no_session; }
gone_under_io() {
	check 'logout under I/O ends the I/O' io_ends "$(disk $IQN)" again
	check 'login again' login 10.77.0.1 $IQN
}

half_ns || die 'no wire'
check 'the initiator' initiator_up || exit 1
check 'the kernel'\''s target' kernel_target_up || exit 1
session 'kernel, IPv4' 10.77.0.1 $IQN gone_under_io
session 'kernel, IPv6' '[fd77::1]' $IQN
check 'the kernel'\''s target goes' kernel_target_down
check 'the initiator goes' initiator_down
check 'the links go' half_ns_gone
finish
