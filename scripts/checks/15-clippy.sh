#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Lints the module with the kernel's clippy settings, and the host build of rust/proto with its tests. No warning may be left.
. "$(dirname "$0")/../lib.sh"

echo "clippy: the module (make CLIPPY=1)"
log=$RXE_TOP/out/clippy.log
mkdir -p "$RXE_TOP/out"
# Warnings are printed only when the objects are made.
rm -f "$RXE_TOP/out/clippy/rust/rdma_rxe.o" "$RXE_TOP/out/clippy/rust/helpers/helpers.o"
"$RXE_TOP/scripts/module.sh" stock CLIPPY=1 >"$log" 2>&1 || { cat "$log"; die "the module does not build with clippy."; }
[ -e "$RXE_TOP/out/clippy/rust/rdma_rxe.o" ] || die "make CLIPPY=1 did not make out/clippy/rust/rdma_rxe.o, so nothing was linted."
# Of both compilers: `warning: …` of Rust, `file:line:column: warning: …` of C.
if grep -qE '(^|: )(warning|error)[:[]' "$log"; then
	cat "$log"
	die "the module has $(grep -cE '(^|: )(warning|error)[:[]' "$log") warnings, shown above."
fi

echo "clippy: rust/proto and its tests (cargo clippy)"
cd "$RXE_TOP/rust/proto"
"$RXE_TOP/scripts/cargo.sh" clippy -q --locked --all-targets -- -D warnings || die "rust/proto has the clippy warnings shown above."
echo "clippy: nothing to say"
