#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Builds the debug kernel of qemu/debug.config, from the same source as the stock kernel, with clang (Rust with KASAN needs
# it), and prints the path of its tree. A module for it is built with KDIR=<that path> LLVM=$(cat <that path>/.llvm).
#
# In the cache afterwards: debug-kernel-<key>/ with arch/x86/boot/bzImage, .release, .llvm, and the modules under
# image/lib/modules/<release>/; `debug-kernel` points to it. An interrupted build goes on where it stopped.
#
# RXE_JOBS  how many jobs to run at once (all CPUs).
. "$(dirname "$0")/lib.sh"

LLVM=-19
FRAGMENT=$RXE_TOP/qemu/debug.config
JOBS=${RXE_JOBS:-$(nproc)}

tc() { "$RXE_TOP/scripts/in-toolchain.sh" --root "$root" "$@"; }
kmake() { tc make -C "$tree" "LLVM=$LLVM" KBUILD_BUILD_TIMESTAMP=@0 "$@"; }

unpack() {
	[ ! -e "$tree/.unpacked" ] || return 0
	say "debug-kernel: copying the source"
	remove_tree "$tree"
	tc cp -a --reflink=auto "$stock/." "$tree"
	rm -f "$tree/.complete" "$tree/.release" "$tree/shipped.config"
	kmake mrproper >>"$log" 2>&1 || die "could not clean the copy of the source; see $log"
	touch "$tree/.unpacked"
}

# Every line of the fragment must be in the result: an option that vanished is a checker that does not check.
check_config() {
	local missing
	missing=$(grep -E '^(CONFIG_[A-Z0-9_]+=|# CONFIG_[A-Z0-9_]+ is not set)' "$FRAGMENT" | while read -r line; do
		case $line in
		'#'*) ! grep -q "^${line:2:$((${#line} - 13))}=" "$tree/.config" || echo "$line" ;;
		*) grep -qxF "$line" "$tree/.config" || echo "$line" ;;
		esac
	done)
	[ -z "$missing" ] || die "the debug configuration could not be had; these lines of ${FRAGMENT#"$RXE_TOP"/} did not hold:
$missing"
}

configure() {
	[ ! -e "$tree/.configured" ] || return 0
	kmake KCONFIG_ALLCONFIG="$FRAGMENT" alldefconfig >>"$log" 2>&1 || die "could not configure the debug kernel; see $log"
	check_config
	touch "$tree/.configured"
}

# compile TARGET...: make them, with a progress line each minute.
compile() {
	local pid
	kmake -j"$JOBS" "$@" >>"$log" 2>&1 &
	pid=$!
	while kill -0 "$pid" 2>/dev/null; do
		sleep 1
		((++ticks % 60)) || say "debug-kernel: $(grep -cE '^  (CC|AR|LD|RUSTC|EXPORTS|AS) ' "$log") steps done (log: $log)"
	done
	wait "$pid" || die "the debug kernel did not build; the end of $log: $(grep -E -A5 'error|Error' "$log" | tail -n 15)"
}

build() {
	[ ! -e "$tree/.complete" ] || return 0
	local ticks=0
	unpack
	configure
	say "debug-kernel: building with $JOBS jobs; about 40 CPU minutes (log: $log)"
	compile bzImage modules
	rm -rf "$tree/image"
	kmake INSTALL_MOD_PATH="$tree/image" modules_install >>"$log" 2>&1 || die "could not collect the modules; see $log"
	printf '%s\n' "$LLVM" >"$tree/.llvm"
	cp "$tree/include/config/kernel.release" "$tree/.release"
	printf "%s\n" "${tree##*-}" >"$tree/.complete"
	say "debug-kernel: $(cat "$tree/.release") is ready"
}

root=$("$RXE_TOP/scripts/toolchain.sh")
stock=$("$RXE_TOP/scripts/kernel.sh")
# The version, and not how its tree was prepared: the debug kernel is too dear to be made again for less.
tree=$RXE_CACHE/debug-kernel-$(key "$(basename "$stock")" "$FRAGMENT" "LLVM=$LLVM")
log=$tree.log
with_lock debug-kernel build
[ "$(readlink "$RXE_CACHE/debug-kernel" 2>/dev/null)" = "${tree##*/}" ] || ln -sfn "${tree##*/}" "$RXE_CACHE/debug-kernel"
printf '%s\n' "$tree"
