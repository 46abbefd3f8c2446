#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# guest.sh [OPTION...] [--] [SCRIPT]: boots a guest with the module of this checkout, runs SCRIPT (bash) in it, prints what it
# prints, powers off, and exits with its status (124: it took too long; 125: the guest died).
#
#   --kernel stock|debug   which kernel (stock)
#   --module ours|stock    which rdma_rxe (ours); `rxe-module` in the guest changes it
#   --peer ours|stock      start a second guest with that module; `peer SCRIPT` in the first runs SCRIPT in it
#   --memory SIZE          of each guest (2G)
#   --cpus N               of each guest (2)
#   --timeout SECONDS      for all of it (600)
#   --append ARGUMENTS     to the kernel command line
#   --out DIR              where /rxe/out of the guest, its console log and its dmesg go (out/guest)
#   --qemu ARGUMENTS       to QEMU
#   --add NAME=DIR         a copy of DIR in the guest, as /rxe/NAME, without .git; may be given more than once
#   --shell                an interactive shell instead of SCRIPT
#   --no-build             take the module as it was built last
#   --cold                 boot, and do not start from a frozen guest
#   --count                one CPU whose clock counts instructions: a nanosecond of the guest is an instruction (implies --cold)
#
# A guest of the usual kind starts from one that was booted once and frozen before it looked at its disks (in the cache, one
# for each kernel, memory size and number of CPUs); a second guest, kernel arguments, QEMU arguments or
# KVM (which boots fast) mean a boot.
#
# RXE_ACCEL=kvm|tcg overrides the choice of accelerator. KVM is used only where a probe boot worked.
. "$(dirname "$0")/lib.sh"
{ # Read to the end before anything runs: the script may be edited meanwhile.

kernel=stock module=ours peer='' memory=2G cpus=2 timeout=600 append='' out=$RXE_TOP/out/guest qemu_args='' shell='' nobuild='' cold='' count='' add=()
while [ $# -gt 0 ]; do
	case $1 in
	--kernel) kernel=$2 ;;
	--module) module=$2 ;;
	--peer) peer=$2 ;;
	--memory) memory=$2 ;;
	--cpus) cpus=$2 ;;
	--timeout) timeout=$2 ;;
	--append) append=$2 ;;
	--out) out=$2 ;;
	--qemu) qemu_args=$2 ;;
	--add) add+=("$2") ;;
	--shell) shell=1; shift; continue ;;
	--no-build) nobuild=1; shift; continue ;;
	--cold) cold=1; shift; continue ;;
	--count) count=1 cold=1; shift; continue ;;
	--) shift; break ;;
	-*) die "guest.sh: unknown option $1." ;;
	*) break ;;
	esac
	shift 2
done
script=$*
[ -n "$shell$script" ] || die "guest.sh: nothing to run."
[ -z "$peer$append$qemu_args" ] || cold=1
for m in "$module" ${peer:+"$peer"}; do
	case $m in ours | stock) ;; *) die "the module is 'ours' or 'stock', not '$m'." ;; esac
done

PAYLOAD_SIZE=256M OUT_SIZE=1G
root=$("$RXE_TOP/scripts/toolchain.sh")
tc() { "$RXE_TOP/scripts/in-toolchain.sh" --root "$root" "$@"; }
mkdir -p "$RXE_TOP/out"
run=$(mktemp -d "$RXE_TOP/out/run.XXXXXX")
trap 'rm -rf "$run"' EXIT
# The first time, both take long, one mostly for the network and one for the CPU.
"$RXE_TOP/scripts/userland.sh" >"$run/disk" &
boot=$("$RXE_TOP/scripts/guest-kernel.sh" "$kernel")
wait $! || die "the guests' root file system could not be made."
disk=$(cat "$run/disk")
release=$(cat "$boot/release")
export RXE_BIND=${RXE_BIND:-}

# accel: the QEMU arguments of the accelerator: KVM when /dev/kvm is there and a boot of this kernel under it succeeds.
accel() {
	local verdict
	verdict=$RXE_CACHE/accel-$(key "$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)" "$(basename "$boot")")
	if [ -n "${RXE_ACCEL:-}" ]; then
		echo "$RXE_ACCEL"
	elif [ -e "$verdict" ]; then
		cat "$verdict"
	else
		local answer=tcg
		if [ -r /dev/kvm ] && [ -w /dev/kvm ]; then
			say "guest: trying whether KVM can run this kernel"
			if timeout -k 2 30 "$RXE_TOP/scripts/in-toolchain.sh" --root "$root" qemu-system-x86_64 -accel kvm -cpu host -m 1G -smp 2 -nodefaults \
				-no-user-config -display none -no-reboot -serial stdio -kernel "$boot/vmlinuz" -initrd "$boot/initrd.cpio" \
				-append 'console=ttyS0 quiet panic=-1 rxe.probe' </dev/null 2>&1 | grep -q 'rxe-guest: probe ok'; then answer=kvm; fi
		fi
		echo "$answer" >"$verdict"
		say "guest: accelerator $answer"
		echo "$answer"
	fi
}

case ${count:+count}$(accel) in
count*) machine=(-accel tcg,thread=single -icount shift=0,sleep=off -cpu max,fsrm=off,erms=off,fsrs=off,fzrm=off) cpus=1 ;;
kvm) machine=(-accel kvm -cpu host) cold=1 ;;
*)
	# With FSRM and ERMS, TCG copies byte by byte; with FSRS and FZRM it clears memory so. With five-level paging KASAN sees a
	# wild access at the start of every boot.
	cpu=max,fsrm=off,erms=off,fsrs=off,fzrm=off
	[ "$kernel" != debug ] || cpu+=,-la57
	machine=(-accel tcg,thread=multi -cpu "$cpu")
	;;
esac

# common_payload: $run/payload, what the payloads of both guests share.
common_payload() {
	local p=$run/payload ko
	mkdir -p "$p/bin" "$p/tests" "$p/kselftest"
	cp "$RXE_TOP/qemu/init" "$p/init"
	cp "$RXE_TOP"/qemu/bin/* "$p/bin/"
	[ ! -d "$RXE_TOP/tests" ] || cp -r "$RXE_TOP/tests/." "$p/tests/"
	local a
	for a in "${add[@]}"; do
		mkdir -p "$p/${a%%=*}"
		tar -C "${a#*=}" --exclude=./.git --exclude=./results -c . | tar -C "$p/${a%%=*}" -x
	done
	# The kernel's own tests for RDMA, from the source of the very kernel.
	local ktree=$RXE_CACHE/kernel/tools/testing/selftests
	cp -r "$ktree/rdma" "$ktree/kselftest" "$ktree/kselftest_harness.h" "$p/kselftest/" 2>/dev/null || true
	ko=$("$RXE_TOP/scripts/kmod.sh" "$kernel" 2>"$run/kmod.log") || { cat "$run/kmod.log" >&2; exit 1; }
	cp "$ko" "$p/tests/kmod/"
	rm -rf "$p"/tests/guest/canary
	if [ "$kernel" = debug ]; then
		mkdir -p "$p/tests/guest/canary" "$RXE_TOP/out/canary"
		cp -u "$RXE_TOP"/tests/guest/canary/{Kbuild,canary.c} "$RXE_TOP/out/canary/"
		tc make -s -C "$RXE_CACHE/debug-kernel" M="$RXE_TOP/out/canary" LLVM=-19 modules >"$run/canary.log" 2>&1 ||
			{ cat "$run/canary.log" >&2; die "the module of deliberate mistakes does not build for the debug kernel."; }
		cp "$RXE_TOP/out/canary/canary.ko" "$p/tests/guest/canary/"
	fi
	if [ "$module" = ours ] || [ "$peer" = ours ]; then
		if [ -n "$nobuild" ]; then
			ko=$(last_module) || exit 1
		else
			ko=$("$RXE_TOP/scripts/module.sh" "$kernel" 2>"$run/module.log") || { cat "$run/module.log" >&2; exit 1; }
			tail -n 1 "$run/module.log" >&2
		fi
		local stage=$run/stage/lib/modules/$release
		mkdir -p "$stage/updates"
		cp "$ko" "$stage/updates/rdma_rxe.ko"
		tc bash -c 'set -e
			strip --strip-debug "$2/updates/rdma_rxe.ko"
			mkdir "$2/kernel"
			mount --bind "$1/kernel" "$2/kernel"
			cp "$1"/modules.{order,builtin,builtin.modinfo} "$2/"
			depmod -b "$3" "$4"
			umount "$2/kernel"' bash "$boot/tree/lib/modules/$release" "$stage" "$run/stage" "$release" || die "depmod failed."
		rmdir "$stage/kernel"
		mv "$stage" "$p/modules"
	fi
}

last_module() {
	local ko=$RXE_TOP/rdma_rxe.ko
	[ "$kernel" = stock ] || ko=$RXE_TOP/out/debug-module/rdma_rxe.ko
	[ -e "$ko" ] || die "no module has been built yet."
	echo "$ko"
}

# payload NAME MODULE MODE GUEST: the disks $run/NAME.payload and $run/NAME.out.
payload() {
	local p=$run/payload
	printf 'RXE_MODULE=%s\nRXE_KERNEL=%s\nRXE_MODE=%s\nRXE_GUEST=%s\nCOLUMNS=%s\nLINES=%s\n' "$2" "$kernel" "$3" "$4" \
		"$(tput cols 2>/dev/null || echo 120)" "$(tput lines 2>/dev/null || echo 40)" >"$p/config"
	# What the suites are to know: every exported RXE_ variable that is none of the lab's own.
	compgen -e | grep '^RXE_' | grep -Evx 'RXE_(TOP|CACHE|T0|MIRROR|SECURITY_MIRROR|KEYRING|KERNEL.*|REFRESH|ACCEL|BIND|MODULE|GUEST|MODE|OUT|TESTS)' |
		while read -r v; do printf 'export %s=%q\n' "$v" "${!v}"; done >>"$p/config" || true
	printf 'RXE_DATE=%s\n' "$(date +%s)" >>"$p/config"
	tar -C "$p" --owner=0 --group=0 -c . >"$run/tar"
	printf 'RXE-PAYLOAD %s\n' "$(($(stat -c %s "$run/tar") / 65536 + 1))" >"$run/$1.payload"
	truncate -s 65536 "$run/$1.payload"
	cat "$run/tar" >>"$run/$1.payload"
	rm "$run/tar"
	truncate -s $PAYLOAD_SIZE "$run/$1.payload"
	truncate -s $OUT_SIZE "$run/$1.out"
}

# command NAME: fills the array `qemu` with the command that runs one guest; what is printed in the guest is its standard output.
command() {
	local name=$1 other=a n=2 i
	[ "$name" = a ] && other=b n=1
	kargs="console=ttyS0 quiet loglevel=5 panic=-1 net.ifnames=0 mitigations=off random.trust_cpu=on audit=0 log_buf_len=4M printk.devkmsg=on lsm= no_timer_check tsc=reliable"
	if [ "$kernel" = debug ]; then kargs+=" kasan_multi_shot"; else kargs+=" kfence.sample_interval=100"; fi
	qemu=("$RXE_TOP/scripts/in-toolchain.sh" --root "$root" env "TMPDIR=$run" qemu-system-x86_64 -machine q35 "${machine[@]}" -m "$memory" -smp "$cpus"
		-nodefaults -no-user-config -display none -no-reboot -kernel "$boot/vmlinuz" -initrd "$boot/initrd.cpio" -append "$kargs $append"
		-device virtio-rng-pci -serial "file:$run/$name.console"
		-chardev "stdio,id=tty$([ -z "$shell" ] || echo ,signal=off)" -serial chardev:tty
		-drive "file=$disk,format=raw,if=virtio,snapshot=on,cache=unsafe"
		-drive "file=$boot/modules.ext4,format=raw,if=virtio,snapshot=on,cache=unsafe"
		-drive "file=$run/$name.out,format=raw,if=virtio,cache=unsafe"
		-drive "file=$run/$name.payload,format=raw,if=virtio,cache=unsafe")
	if [ -n "$peer" ]; then
		for i in wire ctl; do
			qemu+=(-netdev "dgram,id=$i,local.type=unix,local.path=$run/$i.$name,remote.type=unix,remote.path=$run/$i.$other")
		done
		qemu+=(-device "virtio-net-pci,netdev=wire,mac=52:54:00:77:00:0$n,host_mtu=9000" -device "virtio-net-pci,netdev=ctl,mac=52:54:00:78:00:0$n")
	fi
	# shellcheck disable=SC2206 # the user's arguments are words
	qemu+=($qemu_args)
}

# freeze FILE: boot a guest without a payload and keep its state.
freeze() {
	[ ! -e "$1" ] || return 0
	say "guest: booting $release once, to start guests from ($memory, $cpus CPUs)"
	truncate -s $PAYLOAD_SIZE "$run/f.payload"
	truncate -s $OUT_SIZE "$run/f.out"
	local pid ok='' limit=$((SECONDS + 900))
	command f
	timeout -k 5 900 "${qemu[@]}" -monitor "unix:$run/monitor,server=on,wait=off" </dev/null >"$run/f.tty" 2>&1 &
	pid=$!
	while kill -0 $pid 2>/dev/null && [ $SECONDS -lt $limit ]; do
		if grep -qs 'rxe-guest: waiting for a payload' "$run/f.console"; then ok=1; break; fi
		sleep 0.3
	done
	if [ -n "$ok" ]; then
		tc sh -c '{ echo "migrate -d file:$1"; n=0
			until echo "info migrate" && sleep 1 && [ -s "$1" ] && grep -q "Status: *completed\|completed" "$2" || [ $((n += 1)) -gt 300 ]; do :; done
			echo quit; sleep 1; } | socat - "UNIX-CONNECT:$3" >"$2" 2>&1; grep -q completed "$2"' sh "$run/state" "$run/monitor.log" "$run/monitor" || ok=''
	fi
	kill $pid 2>/dev/null || true
	wait $pid || true
	if [ -z "$ok" ]; then
		say "guest: could not freeze a guest; booting"
		return 1
	fi
	mv "$run/state" "$1"
}

common_payload
printf '%s\n' "$script" >"$run/payload/command"
payload a "$module" "$([ -n "$shell" ] && echo shell || echo command)" "${peer:+a}"
[ -z "$peer" ] || payload b "$peer" peer b
rm -rf "$run/stage"

start=$(date +%s)
say "guest: booting $release${peer:+ twice}, module $module${peer:+ and $peer}"
guests=()
stop_guests() { [ ${#guests[@]} -eq 0 ] || kill "${guests[@]}" 2>/dev/null || true; }
trap 'stop_guests; rm -rf "$run"' EXIT
trap 'exit 130' INT TERM
if [ -n "$peer" ]; then
	command b
	timeout -k 5 "$timeout" "${qemu[@]}" </dev/null >"$run/b.tty" 2>&1 &
	guests+=($!)
fi
command a
if [ -z "$cold" ]; then
	frozen=$RXE_CACHE/frozen-$(key "$(basename "$boot")" "$(basename "$disk")" "$(basename "$root")" "${machine[*]} $memory $cpus $kargs" v1)
	if with_lock "${frozen##*/}" freeze "$frozen"; then
		command a
		qemu+=(-incoming "file:$frozen")
	else
		command a
	fi
fi
qemu_rc=0
if [ -n "$shell" ]; then
	say "guest: a shell; leave it with 'exit' (or ^D)"
	saved=$(stty -g 2>/dev/null || true)
	stty raw -echo 2>/dev/null || true
	"${qemu[@]}" || qemu_rc=$?
	[ -z "$saved" ] || stty "$saved"
else
	timeout -k 5 "$timeout" "${qemu[@]}" </dev/null &
	guests+=($!)
	wait $! || qemu_rc=$?
fi
if [ -n "$peer" ]; then
	for _ in $(seq 100); do kill -0 "${guests[0]}" 2>/dev/null || break; sleep 0.1; done
fi
stop_guests
guests=()
wait || true

rm -rf "$out"
mkdir -p "$out"
for name in a ${peer:+b}; do
	dest=$out
	[ "$name" = a ] || dest=$out/peer
	mkdir -p "$dest"
	tar -C "$dest" -xf "$run/$name.out" 2>/dev/null || true
	cp "$run/$name.console" "$dest/console" 2>/dev/null || true
	[ ! -e "$run/$name.tty" ] || cp "$run/$name.tty" "$dest/tty"
done

if [ "$qemu_rc" = 124 ] || [ "$qemu_rc" = 137 ]; then
	say "guest: stopped after its time limit of $timeout s (console: $out/console)"
	tail -n 25 "$out/console" >&2
	exit 124
fi
if [ ! -s "$out/exit" ]; then
	say "guest: died without an exit status (console: $out/console)"
	tail -n 60 "$out/console" >&2
	exit 125
fi
rc=$(cat "$out/exit")
say "guest: exit $rc after $(($(date +%s) - start)) s (logs: $out)"
exit "$rc"
}
