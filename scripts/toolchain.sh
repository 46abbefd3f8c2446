#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Makes the trixie root that holds every tool the module, the images and the guests are built and run with.
# Prints its path. Kept in the cache under a key of its package list; `toolchain` in the cache points to it.
. "$(dirname "$0")/lib.sh"

PACKAGES=(
	# What the kernel and its Rust support are built with. libclang must be the 19 of trixie (see docs/lab.md).
	gcc-14 make libc6-dev flex bison bc perl-base python3-minimal python3 libelf-dev libssl-dev libdw-dev zlib1g-dev libzstd-dev
	pahole kmod xz-utils zstd bzip2 cpio rsync patch diffutils file gawk openssl
	rustc rust-src rustfmt rust-clippy bindgen libclang-19-dev
	# The debug kernel.
	clang-19 lld-19 llvm-19
	# Images and guests.
	e2fsprogs qemu-system-x86 seabios ipxe-qemu socat busybox-static dpkg-dev apt ca-certificates
)

list=$(IFS=,; echo "${PACKAGES[*]}")
dir=$RXE_CACHE/toolchain-$(key "$list" v1)

build() {
	[ ! -e "$dir/.complete" ] || return 0
	say "toolchain: making a trixie root"
	remove_tree "$dir.tmp"
	remove_tree "$dir"
	make_root "$dir" "$list" || die "the toolchain root could not be made."
	local rustc bindgen
	rustc=$("$RXE_TOP/scripts/in-toolchain.sh" --root "$dir" rustc --version) || die "the toolchain root cannot be entered."
	bindgen=$("$RXE_TOP/scripts/in-toolchain.sh" --root "$dir" bindgen --version)
	as_root touch "$dir/.complete"
	say "toolchain: $rustc; $bindgen"
}

[ -e "$dir/.complete" ] || with_lock toolchain build
[ "$(readlink "$RXE_CACHE/toolchain" 2>/dev/null)" = "${dir##*/}" ] || ln -sfn "${dir##*/}" "$RXE_CACHE/toolchain"
printf '%s\n' "$dir"
