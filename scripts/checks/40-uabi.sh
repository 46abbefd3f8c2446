#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Compares the layout of what is shared with user space (rust/proto/uabi.rs) with the kernel's own headers.
. "$(dirname "$0")/../lib.sh"

echo "user ABI: offsets, sizes and numbers of rust/proto/uabi.rs against the kernel's headers"
kernel=$("$RXE_TOP/scripts/kernel.sh")
out=$RXE_TOP/out/uabi
mkdir -p "$out"

# The two headers from the kernel, the basic types that they include from the C library's.
mkdir -p "$out/rdma"
cp "$kernel"/include/uapi/rdma/{rdma_user_rxe.h,ib_user_verbs.h} "$out/rdma/" || die "the kernel tree lacks the RDMA headers."
"$RXE_TOP/scripts/in-toolchain.sh" x86_64-linux-gnu-gcc-14 -Wall -Werror -I"$out" -o "$out/uabi" "$RXE_TOP/scripts/checks/uabi.c" ||
	die "the program that prints the kernel's layout does not compile."
"$RXE_TOP/scripts/in-toolchain.sh" "$out/uabi" | sort >"$out/kernel"
(cd "$RXE_TOP/rust/proto" && "$RXE_TOP/scripts/cargo.sh" run -q --locked --example uabi_layout) | sort >"$out/ours" ||
	die "the example uabi_layout of rust/proto does not run."

[ "$(wc -l <"$out/kernel")" -gt 100 ] || die "the kernel's layout has only $(wc -l <"$out/kernel") entries, which cannot be all."
diff -u --label kernel --label ours "$out/kernel" "$out/ours" || die "rust/proto/uabi.rs differs from the kernel's headers as shown."
echo "user ABI: $(wc -l <"$out/ours") offsets, sizes and numbers agree"
