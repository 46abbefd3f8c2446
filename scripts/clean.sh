#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Removes what was built in the checkout. The cache outside it stays; its place is printed.
. "$(dirname "$0")/lib.sh"

cd "$RXE_TOP"
find . \( -path ./.git -o -path ./out -o -path ./rust/proto/target -o -path ./rust/proto/fuzz/target \) -prune -o -type f \
	\( -name '*.o' -o -name '*.ko' -o -name '*.mod' -o -name '*.mod.c' -o -name '.*.cmd' -o -name '.*.d' -o -name '*.rmeta' \
	-o -name Module.symvers -o -name modules.order -o -name bindings_generated.rs \) -exec rm -f {} +
rm -rf out rust/proto/target rust/proto/fuzz/target rust/proto/loom/target
say "clean: done; toolchain, kernels and guest images stay in $RXE_CACHE (delete that directory to be rid of them)"
