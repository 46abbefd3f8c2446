#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Checks in the object code that nothing can panic: in the module, wherever code was inlined to, and in the protocol core by
# itself, compiled as the module is, where also that is looked at which the driver does not use.
. "$(dirname "$0")/../lib.sh"

echo "panics: object code"
out=$RXE_TOP/out/panic
mkdir -p "$out"
root=$("$RXE_TOP/scripts/toolchain.sh")
kernel=$("$RXE_TOP/scripts/kernel.sh")
run() { "$RXE_TOP/scripts/in-toolchain.sh" --root "$root" "$@"; }

"$RXE_TOP/scripts/module.sh" stock >"$out/build.log" 2>&1 || { cat "$out/build.log"; die "the module does not build."; }
cd "$RXE_TOP"

# The compiler's command line for the module, with another crate root.
cmd=$(sed -n 's/^savedcmd_rust\/rdma_rxe.o := //p' rust/.rdma_rxe.o.cmd)
case $cmd in *' rust/rdma_rxe.rs '*) ;; *) die "rust/.rdma_rxe.o.cmd does not hold the command that made the module's object." ;; esac
cmd=${cmd/ rust\/rdma_rxe.rs / rust\/proto\/lib.rs }
cmd=$(sed -E "s@--emit=[^ ]+@@g; s@--out-dir [^ ]+@--out-dir out/panic@; s@--cfg MODULE@@" <<<"$cmd")
# No function is left to be compiled by the users of the crate, since it has none.
run env RUSTC_BOOTSTRAP=1 sh -c "$cmd --crate-name proto -Awarnings -Zcross-crate-inline-threshold=never --emit=obj=out/panic/proto.o" || die "rust/proto does not compile by itself with the module's compiler flags."

rc=0
run python3 scripts/checks/panic.py out/panic/proto.o rust/proto 100 || rc=1
# Everything, with exceptions for code of others that is inlined into the module.
run python3 scripts/checks/panic.py rust/rdma_rxe.o rust 100 scripts/checks/panic-allowed || rc=1
[ $rc = 0 ] || die "the object code is not free of panics, or cannot be judged, as shown above: use get(), checked or wrapping arithmetic there."
echo "panics: none"
