#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# kmod.sh [stock|debug]: builds the kernel module of the tests (tests/kmod) and prints its path.
. "$(dirname "$0")/lib.sh"

kind=${1:-stock}
case $kind in
stock)
	kernel=$("$RXE_TOP/scripts/kernel.sh")
	tools=(CC=x86_64-linux-gnu-gcc-14)
	;;
debug)
	kernel=$("$RXE_TOP/scripts/debug-kernel.sh")
	tools=(LLVM=-19)
	;;
*) die "kmod.sh: the kernel is 'stock' or 'debug', not '$kind'." ;;
esac

# Every guest asks for it, so it is not left to make to find out that nothing has changed.
dir=$RXE_TOP/out/kmod-$kind
stamp=$(cd "$RXE_TOP/tests/kmod" && cat Kbuild ./*.c ./*.h "$kernel/.release" | sha256sum)
if [ ! -e "$dir/rxe_ktest.ko" ] || [ "$stamp" != "$(cat "$dir/.stamp" 2>/dev/null)" ]; then
	rm -rf "$dir"
	mkdir -p "$dir"
	cp "$RXE_TOP"/tests/kmod/{Kbuild,*.c,*.h} "$dir/"
	"$RXE_TOP/scripts/in-toolchain.sh" make -s -C "$kernel" M="$dir" -j"${JOBS:-$(nproc)}" "${tools[@]}" modules \
		2> >(grep -v '^Skipping BTF generation' >&2) >&2 || die "the tests' module does not build for the $kind kernel."
	printf '%s\n' "$stamp" >"$dir/.stamp"
fi
printf '%s\n' "$dir/rxe_ktest.ko"
