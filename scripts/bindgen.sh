#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# bindgen.sh OUT SRC KERNEL_SOURCE KERNEL_OBJECTS CFLAGS...: writes the bindings to the C interfaces that the kernel crate has
# no bindings for. Called by Kbuild, which knows the C flags.
#
# A type that the kernel's own bindings define in full is left out, so that `use kernel::bindings::*` supplies it and it is
# one type on both sides. A type of which they know the name only (net_device, ib_device, sock, ...) is generated when our
# headers define it, and left out when ours know no more either. The wrappers of rust/helpers (rust_helper_NAME) are
# declared under their plain names.
set -euo pipefail

out=$1 src=$2 ksrc=$3 kobj=$4
shift 4
dir=$src/rust/abstractions
bindgen=${BINDGEN:-bindgen}
tmp=$(mktemp -d "${out%/*}/.bindgen.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
kernel_bindings=$kobj/rust/bindings/bindings_generated.rs
[ -e "$kernel_bindings" ] || {
	echo "error: $kernel_bindings is missing: is this kernel tree configured with CONFIG_RUST and prepared?" >&2
	exit 1
}

# The parameter files hold shell words, some of them quoted, as the kernel's rust/Makefile expects of its own.
set -f
eval "params=($(grep -hEv '^#|^[[:space:]]*$' "$ksrc/rust/bindgen_parameters" "$dir/bindgen_parameters" | tr '\n' ' '))"
set +f
# The result is kept in the cache, if there is one, under a key of everything it is made from: checkouts mostly agree on it.
depfile=
keyed=()
for f in "$@"; do
	case $f in
	-Wp,-MMD,* | -Wp,-MD,*) depfile=${f##*,} ;;
	-fmacro-prefix-map=*) ;;
	*) keyed+=("$f") ;;
	esac
done
# changed CACHED: whether a header of the kernel has been written since the bindings were. Our own is part of the key.
changed() {
	local header
	for header in $(sed -e 's/^[^ ]*: //' -e 's/\\$//' "$1.d"); do
		case $header in /*) [ ! "$header" -nt "$1.rs" ] || return 0 ;; esac
	done
	return 1
}

# The layouts of types come from the configuration, which the kernel's own bindings need not show.
cached=
if [ -n "${RXE_CACHE:-}" ] && [ -n "$depfile" ]; then
	cached=$RXE_CACHE/bindings/$(cat "$dir/bindings_helper.h" "$dir/bindgen_parameters" "$src"/rust/helpers/*.c "$0" "$kernel_bindings" \
		"$kobj/include/generated/autoconf.h" "$kobj/include/config/kernel.release" \
		<(printf '%s\n' "$ksrc" "${keyed[@]}") | sha256sum | cut -c1-16)
	if [ -e "$cached.rs" ] && ! changed "$cached"; then
		cp "$cached.d" "$depfile"
		cp "$cached.rs" "$tmp/all.rs"
		mv "$tmp/all.rs" "$out"
		exit 0
	fi
fi

# defined FILE: names of the types FILE defines; opaque FILE: those it knows the names of only.
defined() { sed -nE 's/^pub (struct|union|type|enum) ([A-Za-z0-9_]+).*/\2/p' "$1" | sort -u; }
opaque() { grep -B1 -E '^    _unused: \[u8; 0\],' "$1" | sed -nE 's/^pub (struct|union) ([A-Za-z0-9_]+).*/\2/p' | sort -u; }
# blocklist: one option per 200 names read.
blocklist() { grep -v '^__Bindgen' | paste -sd'|' | sed -E 's/(([^|]+\|){200})/\1\n/g' | sed -E 's/\|$//; s/^(.+)$/--blocklist-type=\1/'; }

common=(--rust-target 1.85 --use-core --with-derive-default --ctypes-prefix ffi
	--no-debug '.*' --enable-function-attribute-detection)

# Wrappers first: the dependency file that is left at the end must be that of the headers.
helper_flags=()
for f in "$@"; do
	case $f in
	-Wp,-MMD,* | -Wp,-MD,*) ;;
	*) helper_flags+=("$f") ;;
	esac
done
"$bindgen" "$src/rust/helpers/helpers.c" --blocklist-type '.*' --allowlist-var '' --allowlist-function 'rust_helper_.*' \
	"${common[@]}" -o "$tmp/helpers.rs" -- "${helper_flags[@]}"
sed -Ei 's/pub fn rust_helper_([a-zA-Z0-9_]*)/#[link_name = "rust_helper_\1"]\n    pub fn \1/g' "$tmp/helpers.rs"

defined "$kernel_bindings" >"$tmp/kernel.all"
opaque "$kernel_bindings" >"$tmp/kernel.opaque"
comm -23 "$tmp/kernel.all" "$tmp/kernel.opaque" | blocklist >"$tmp/blocklist"

mapfile -t blocked <"$tmp/blocklist"
"$bindgen" "$dir/bindings_helper.h" "${params[@]}" "${blocked[@]}" "${common[@]}" -o "$tmp/main.rs" -- "$@"

# Types that neither side knows more than the name of are the kernel's.
opaque "$tmp/main.rs" | comm -12 - "$tmp/kernel.opaque" >"$tmp/drop"
awk 'NR == FNR { drop[$1] = 1; next }
	/^#\[/ || attributes && !/^pub (struct|union) / { attributes = attributes $0 "\n"; next }
	/^pub (struct|union) / && ($3 in drop) { attributes = ""; skip = 1 }
	!skip { printf "%s", attributes; print }
	{ attributes = "" }
	/^}/ { skip = 0 }' "$tmp/drop" "$tmp/main.rs" >"$tmp/all.rs"
cat "$tmp/helpers.rs" >>"$tmp/all.rs"
if [ -n "$cached" ]; then
	mkdir -p "${cached%/*}"
	cp "$tmp/all.rs" "$tmp/cached"
	cp "$depfile" "$cached.d"
	mv "$tmp/cached" "$cached.rs"
fi
mv "$tmp/all.rs" "$out"
