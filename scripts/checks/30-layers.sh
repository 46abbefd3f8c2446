#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Checks the directions of imports between the layers, and where unsafe code may be and how it is justified.
. "$(dirname "$0")/../lib.sh"
need python3=python3

echo "layers: imports of rust/proto, rust/abstractions and rust/rxe; unsafe code and its reasons"
python3 "$RXE_TOP/scripts/checks/layers.py" "$RXE_TOP" || die "the sources break the rules named above."
