#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Checks that every Rust file of ours is formatted as the kernel formats its own.
. "$(dirname "$0")/../lib.sh"

echo "format: rustfmt with the kernel's settings, over every Rust file"
root=$("$RXE_TOP/scripts/toolchain.sh")
kernel=$("$RXE_TOP/scripts/kernel.sh")
cd "$RXE_TOP"

settings() { sed 's/#.*//; /^[[:space:]]*$/d' "$1" | sort; }
[ "$(settings .rustfmt.toml)" = "$(settings "$kernel/.rustfmt.toml")" ] || die ".rustfmt.toml has other settings than the kernel's."

mapfile -t files < <(git ls-files --cached --others --exclude-standard -- 'rust/*.rs' | sort -u)
[ ${#files[@]} -gt 20 ] || die "only ${#files[@]} Rust files were found, which cannot be all."

# From standard input, so that a file is judged by itself and not with the modules it declares. Its exit status is 0
# then whatever it finds: what it prints tells.
# shellcheck disable=SC2016 # expanded inside
"$RXE_TOP/scripts/in-toolchain.sh" --root "$root" sh -c 'rc=0
	for f; do
		[ -e "$f" ] || continue
		out=$(rustfmt --check --config-path .rustfmt.toml <"$f" 2>&1) && [ -z "$out" ] || { rc=1; printf "%s:\n%s\n" "$f" "$out"; }
	done
	exit $rc' sh "${files[@]}" || die "the files named above are not formatted: run rustfmt on them."
echo "format: ${#files[@]} files are formatted"
