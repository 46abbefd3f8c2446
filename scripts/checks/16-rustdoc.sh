#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Builds the documentation of rust/proto, private items included. No warning may be left.
. "$(dirname "$0")/../lib.sh"

echo "rustdoc: rust/proto"
cd "$RXE_TOP/rust/proto"
RUSTDOCFLAGS='-D warnings -A rustdoc::private_intra_doc_links' "$RXE_TOP/scripts/cargo.sh" doc -q --locked --no-deps --document-private-items ||
	die "the documentation of rust/proto has the faults shown above."
echo "rustdoc: no warning"
