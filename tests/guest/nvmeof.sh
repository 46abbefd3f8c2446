#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: NVMe over RDMA, the rest: IPv6, in-capsule data, receive queues shared, no registration, poll queues, authentication, ANA, odd sizes
# timeout: 300
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"
. "$(dirname "$0")/lib/nvme.sh"
. "$(dirname "$0")/lib/io.sh"

# RXE_LONG is how many times more often targets and paths are lost than in a short run.
LONG=${RXE_LONG:-1}

link_local() { ip -6 -o addr show dev "$1" scope link | sed -n 's/.* inet6 \([^ /]*\).*/\1/p'; }
has_link_local() { [ -n "$(link_local "$1")" ] && ! ip -6 -o addr show dev "$1" scope link | grep -q tentative; }

# some_io NAME: data that fits into a command capsule, data that does not, long data; all verified.
some_io() {
	local disk
	disk=$(nvme_device) || { fail "$1: no namespace"; return; }
	check "$1: 512 bytes to 4 KiB" verified_io 4k --bsrange=512-4k --bs_unaligned=0 --filename="$disk" --size="$(scaled 1)m"
	check "$1: 16 KiB" verified_io 16k --filename="$disk" --size="$(scaled 2)m"
	check "$1: 1 MiB" verified_io 1m --filename="$disk" --size="$(scaled 12)m" --iodepth=4
}

# round NAME [CONNECT-OPTION...]: connect, I/O, disconnect; IPv4.
round() {
	check "$1: connect" nvme_connect 10.78.0.2 10.78.0.1 "${@:2}" || return
	some_io "$1"
	check "$1: disconnect" nvme_disconnect
}

target() { nvmet_up "${1:-10.78.0.2}" && nvmet_port_up 2 "${1:-10.78.0.2}" 4421; }
no_target() { nvmet_port_down 2 && nvmet_down; }

# comes_and_goes TIMES: the target is torn down, the subsystem with it, and made again.
comes_and_goes() {
	local i
	for ((i = 0; i < $1; i++)); do
		nvmet_port_down 2 && nvmet_port_down 1 && nvmet_subsystem_down || return 1
		sleep 1
		nvmet_subsystem_up && nvmet_port_up 1 10.78.0.2 4420 && nvmet_port_up 2 10.78.0.2 4421 || return 1
		wait_for 20 controller_live || { echo "not live in round $i"; return 1; }
		sleep 1
	done
}

other_port() { NVME_SERVICE=4421 nvme_connect 10.78.0.2 10.78.0.1; }

# ana TIMES: one port becomes inaccessible, then the other.
ana() {
	local i state=(inaccessible optimized)
	for ((i = 0; i < 2 * $1; i++)); do
		echo "${state[i % 2 ? 0 : 1]}" >"$NVMET/ports/1/ana_groups/1/ana_state" || return 1
		echo "${state[i % 2]}" >"$NVMET/ports/2/ana_groups/1/ana_state" || return 1
		[ $i = 0 ] || sleep 1
		wait_for 10 ana_seen "$((i % 2 ? 2 : 1))" || { echo "the host does not see change $i"; return 1; }
	done
	echo optimized >"$NVMET/ports/1/ana_groups/1/ana_state"
	echo optimized >"$NVMET/ports/2/ana_groups/1/ana_state"
}
# ana_seen PORT: the path to that port is the only one the host would use.
ana_seen() {
	local p service state only=$((4419 + $1))
	for p in /sys/class/nvme/nvme*/nvme*c*n1; do
		service=$(sed -n 's/.*trsvcid=\([0-9]*\).*/\1/p' "$p/../address")
		state=$(cat "$p/ana_state")
		case $service:$state in "$only:optimized") ;; "$only":* | *:optimized) return 1 ;; esac
	done
}

# odd_sizes: commands passed through, with lengths that are no power of two, from and to user buffers.
odd_sizes() {
	local disk n
	disk=$(nvme_device) || return 1
	for n in 1 2 3 7 8 9 31 33 63 65 127 129 255 257; do
		head -c $((n * 512)) /dev/urandom >/tmp/odd.out
		nvme io-passthru "$disk" --opcode=1 --namespace-id=1 --write --data-len=$((n * 512)) --input-file=/tmp/odd.out --cdw10=5 --cdw12=$((n - 1)) >/dev/null || return 1
		nvme io-passthru "$disk" --opcode=2 --namespace-id=1 --read --data-len=$((n * 512)) --raw-binary --cdw10=5 --cdw12=$((n - 1)) 2>/dev/null >/tmp/odd.in || return 1
		cmp /tmp/odd.out /tmp/odd.in || { echo "$n blocks"; return 1; }
	done
}
odd_admin() {
	local c n
	c=/dev/$(nvme_controller)
	# Log page 12 (ANA, one group of one namespace: 52 bytes): as many bytes as are asked for, and the same each time. Of other pages the
	# target gives all or nothing.
	for n in 512 508 260 252 100 64 56 52; do
		nvme admin-passthru "$c" --opcode=2 --namespace-id=0xffffffff --cdw10=$(((n / 4 - 1) << 16 | 12)) --read --data-len=$n --raw-binary >/tmp/log.$n 2>/tmp/log.err ||
			{ echo "$n bytes"; cat /tmp/log.err; return 1; }
		[ "$(stat -c %s /tmp/log.$n)" = $n ] && cmp -n 52 /tmp/log.512 /tmp/log.$n || { echo "$n bytes: $(xxd /tmp/log.$n | head -n 3)"; return 1; }
	done
}

secret() { nvme gen-dhchap-key --hmac="$1" --nqn="$HOSTNQN" | grep '^DHHC'; }
HOSTNQN=nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555
# A wrong key is not tried: the target drops the connection without an answer, and the host asks six times for a minute each, with any driver.
authenticate() {
	local host key ctrl me=(--hostnqn="$HOSTNQN" --hostid="${HOSTNQN##*:}")
	host=$NVMET/hosts/$HOSTNQN
	modprobe -a nvme_auth dh_generic 2>/dev/null
	key=$(secret 1) ctrl=$(secret 2)
	mkdir "$host" && echo "$key" >"$host/dhchap_key" && echo "$ctrl" >"$host/dhchap_ctrl_key" && echo ffdhe2048 >"$host/dhchap_dhgroup" || return 1
	echo 0 >"$NVMET/subsystems/$NQN/attr_allow_any_host"
	ln -s "$host" "$NVMET/subsystems/$NQN/allowed_hosts/$HOSTNQN" || return 1
	! nvme_connect 10.78.0.2 10.78.0.1 "${me[@]}" 2>/dev/null || { echo 'no key, and yet connected'; return 1; }
	nvme_connect 10.78.0.2 10.78.0.1 "${me[@]}" --dhchap-secret="$key" --dhchap-ctrl-secret="$ctrl" || return 1
	verified_io 64k --filename="$(nvme_device)" --size="$(scaled 8)m" || return 1
	nvme_disconnect
	rm "$NVMET/subsystems/$NQN/allowed_hosts/$HOSTNQN" && rmdir "$host"
}

polled() {
	local disk
	disk=$(nvme_device) || return 1
	[ "$(cat "/sys/block/${disk##*/}/queue/io_poll" 2>/dev/null || echo 1)" = 1 ] || return 1
	fio --name=polled --filename="$disk" --rw=randrw --bs=4k --ioengine=pvsync2 --hipri --direct=1 --size="$(scaled 1)m" --verify=crc32c --verify_fatal=1 --minimal >/tmp/fio.out 2>&1 ||
		{ cat /tmp/fio.out; return 1; }
	fio --name=polled --filename="$disk" --rw=randrw --bs=64k --ioengine=io_uring --hipri --iodepth=8 --direct=1 --size="$(scaled 8)m" --verify=crc32c --verify_fatal=1 --minimal >/tmp/fio.out 2>&1 ||
		{ cat /tmp/fio.out; return 1; }
}

# without MODULE: unload it, and the modules that stand on it, whoever loaded them.
without() {
	local h
	for h in /sys/module/"$1"/holders/*; do
		[ ! -e "$h" ] || without "${h##*/}" || return 1
	done
	[ ! -e "/sys/module/$1" ] || modprobe -r "$1" || { lsmod; return 1; }
}
# force_mr Y|N: load ib_core anew with that parameter.
force_mr() {
	rdma link del rxe0 && rdma link del rxe1 && without ib_core || return 1
	modprobe ib_core force_mr="$1" && modprobe rdma_rxe && rdma link add rxe0 type rxe netdev w0 && rdma link add rxe1 type rxe netdev w1 || return 1
	wait_for 5 link_active rxe0 && wait_for 5 link_active rxe1 && wait_for 5 gid_index rxe0 10.78.0.1 && wait_for 5 gid_index rxe1 10.78.0.2
}

export NVME_BLOCK=512 NVME_INLINE=16384 NVME_SIZE_MB=64
one_ns || die 'no wire'
check 'a target with two ports' target || exit 1
round 'default'
check 'connect, with poll queues' nvme_connect 10.78.0.2 10.78.0.1 --nr-write-queues=1 --nr-poll-queues=1
check 'polled I/O' polled
check 'passthrough of odd sizes' odd_sizes
check 'admin passthrough of odd sizes' odd_admin
check 'the target comes and goes under I/O' io_while comes_and_goes "$((2 * LONG))" -- --filename="$(nvme_device)" --size=16m
check 'connect to the other port' other_port
check 'ANA: paths fail over and back under I/O' io_while ana "$((2 * LONG))" -- --filename="$(nvme_device)" --size=16m
check 'disconnect' nvme_disconnect
check 'DH-CHAP, both directions; no key is refused' authenticate
check 'the target goes' no_target
wait_for 10 has_link_local w0 && wait_for 10 has_link_local w1 || fail 'no link-local addresses'
check 'a target on IPv6' target "$(link_local w1)%w1"
# Without an address of the host: nvme does not tell the connection manager the link of that one.
check 'IPv6: connect' nvme_connect "$(link_local w1)%w0"
some_io IPv6
check 'IPv6: disconnect' nvme_disconnect
check 'IPv6: the target goes' no_target
check 'the host loads without registration' eval 'modprobe -r nvme_rdma && modprobe nvme_rdma register_always=N'
check 'the target loads with shared receive queues' modprobe nvmet_rdma use_srq=Y
check 'a target' target
round 'register_always=N, use_srq=Y'
check 'the target goes' no_target
check 'ib_core with force_mr' force_mr Y
check 'a target' target
round 'force_mr'
check 'the target goes' no_target
check 'ib_core as before' force_mr N
check 'the links go' one_ns_gone
check 'the storage modules unload' modprobe -r nvme_rdma nvme_fabrics
finish
