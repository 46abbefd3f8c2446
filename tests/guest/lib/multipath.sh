# SPDX-License-Identifier: GPL-2.0
# Device-mapper multipath as users have it, with multipathd; sourced after lib.sh and lib/wire.sh.

# multipath_up: multipathd, for remote disks only.
multipath_up() {
	modprobe -a dm_multipath dm_service_time dm_queue_length scsi_dh_alua || return 1
	cat >/etc/multipath.conf <<-'END'
		defaults {
			find_multipaths no
			user_friendly_names no
			polling_interval 1
			max_polling_interval 1
			queue_without_daemon no
			no_path_retry queue
		}
		devices {
			device {
				vendor "LIO-ORG"
				product ".*"
				no_path_retry queue
			}
			device {
				vendor "NVME"
				product ".*"
				no_path_retry queue
			}
		}
		blacklist {
			device {
				vendor "Linux"
				product "scsi_debug"
			}
			devnode "^(vd|nullb|srp|rxe|loop)"
		}
	END
	multipathd -d >"${RXE_OUT:-/tmp}/multipathd.log" 2>&1 &
	MULTIPATHD=$!
	wait_for 20 multipathd show status
}

multipath_down() {
	# A rule of udev may still have one open.
	wait_for 10 no_multipath || { multipath -F; dmsetup table; return 1; }
	kill "$MULTIPATHD"
	wait "$MULTIPATHD"
	rm -f /etc/multipath.conf
	modprobe -r dm_service_time dm_queue_length dm_multipath
}
no_multipath() {
	multipath -F
	! dmsetup table --target multipath 2>/dev/null | grep -q multipath
}

# mpath_paths DISK N: the multipath disk exists, with N paths that work.
mpath_paths() {
	[ -b "$1" ] && [ "$(dmsetup status "${1##*/}" | grep -o ' [0-9]*:[0-9]* A ' | wc -l)" = "$2" ]
}
