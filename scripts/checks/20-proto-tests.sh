#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Runs the tests of the protocol core on the host: cargo test in rust/proto.
. "$(dirname "$0")/../lib.sh"

echo "protocol core: cargo test in rust/proto"
cd "$RXE_TOP/rust/proto"
log=$RXE_TOP/out/proto-tests.log
mkdir -p "$RXE_TOP/out"
"$RXE_TOP/scripts/cargo.sh" test --locked 2>&1 | tee "$log" || die "a test of rust/proto failed as shown above (alone: cargo test NAME in rust/proto)."
n=$(awk '/^test result: ok/ {n += $4} END {print n + 0}' "$log")
[ "$n" -ge 70 ] || die "only $n tests were run, which cannot be all."
echo "protocol core: $n tests passed"
