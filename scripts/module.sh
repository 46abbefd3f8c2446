#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# module.sh [stock|debug] [MAKE_ARGUMENT...]: builds rdma_rxe.ko and prints its path.
#
# stock (the default)  against the Debian kernel of scripts/kernel.sh, in the checkout itself; with CLIPPY=1 among the
#                      arguments, clippy instead, in out/clippy.
# debug                against the debug kernel, in out/debug-module.
# KDIR=<tree>          in the environment: against the user's own configured tree, with the tools of this host.
. "$(dirname "$0")/lib.sh"

kind=${1:-stock}
[ $# -eq 0 ] || shift

# mirror_sources DIR: DIR as a copy of the module's sources, untouched files keeping their times.
mirror_sources() {
	mkdir -p "$1"
	"$RXE_TOP/scripts/in-toolchain.sh" --root "$root" rsync -a --delete --include='/Kbuild' --include='/scripts/' --include='/scripts/bindgen.sh' --include='/rust/***' --exclude='*' \
		--exclude='target/' --filter='protect *.o' --filter='protect *.ko' --filter='protect *.mod*' --filter='protect .*' \
		--filter='protect Module.symvers' --filter='protect modules.order' --filter='protect bindings_generated.rs' "$RXE_TOP/" "$1/"
}

dir=$RXE_TOP
clippy=
for a in "$@"; do [ "$a" != CLIPPY=1 ] || clippy=1; done

if [ -n "${KDIR:-}" ]; then
	[ -e "$KDIR/Makefile" ] || die "KDIR=$KDIR is not a kernel tree."
	grep -qs '^CONFIG_RUST=y' "$KDIR/.config" "$KDIR/include/config/auto.conf" || die "the kernel in KDIR=$KDIR is configured without CONFIG_RUST."
	[ -e "$KDIR/rust/bindings/bindings_generated.rs" ] ||
		die "KDIR=$KDIR holds no Rust metadata (rust/bindings): give the tree the kernel was built in, or run 'make prepare' in it."
	make -s -C "$KDIR" M="$dir" "$@" modules >&2 || die "the module does not build against $KDIR."
	printf '%s\n' "$dir/rdma_rxe.ko"
	exit
fi

root=$("$RXE_TOP/scripts/toolchain.sh")
case $kind in
stock)
	kernel=$("$RXE_TOP/scripts/kernel.sh")
	tools=(CC=x86_64-linux-gnu-gcc-14)
	if [ -n "$clippy" ]; then
		dir=$RXE_TOP/out/clippy
		mirror_sources "$dir"
	fi
	;;
debug)
	kernel=$("$RXE_TOP/scripts/debug-kernel.sh")
	tools=(LLVM=-19)
	dir=$RXE_TOP/out/debug-module
	mirror_sources "$dir"
	;;
*) die "module.sh: the kernel is 'stock' or 'debug', not '$kind'." ;;
esac

start=$(date +%s)
"$RXE_TOP/scripts/in-toolchain.sh" --root "$root" make -s -C "$kernel" M="$dir" -j"${JOBS:-$(nproc)}" "${tools[@]}" "$@" modules \
	2> >(grep -v '^Skipping BTF generation' >&2) >&2 || die "the module does not build for the $kind kernel."
say "module: rdma_rxe.ko for $(cat "$kernel/.release") ($(($(date +%s) - start)) s)"
printf '%s\n' "$dir/rdma_rxe.ko"
