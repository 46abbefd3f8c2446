#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Fetches the newest 7.3 kernel of trixie-backports (source, configuration, headers, image, modules: all of one version),
# prepares its source tree for building modules with Rust, and prints the tree's path.
#
# In the cache afterwards: kernel-<version>/ (the prepared tree; .release inside holds the kernel release), debs-<version>/
# (the packages), `kernel` and `debs` pointing to them. The tree is shared by every checkout and never written again.
#
# RXE_KERNEL_VERSION  a Debian package version to use instead of the newest one.
# RXE_REFRESH=1       look for a newer version, though one is in the cache.
# RXE_KERNEL_SOURCE   a source tarball (linux-source-7.3.tar.xz) or an unpacked tree of that version, instead of the package.
# RXE_KERNEL_DEBS     a directory that holds the packages already.
. "$(dirname "$0")/lib.sh"

SERIES=7.3
FLAVOUR=amd64
CC=x86_64-linux-gnu-gcc-14
# Symbols that may differ between the shipped configuration and the prepared one: none of them changes a layout or an ABI.
ALLOWED='BUILD_SALT|MODULE_SIG_ALL|MODULE_SIG_KEY|SYSTEM_TRUSTED_KEYS'

tc() { "$RXE_TOP/scripts/in-toolchain.sh" --root "$root" "$@"; }

pick() {
	say "kernel: looking for the newest $SERIES kernel"
	tc apt-get update -q >/dev/null || die "apt-get update failed in the toolchain root."
	local v
	v=$(tc apt-cache madison "linux-source-$SERIES" | awk '{print $3}' | sort -V | tail -n1)
	[ -n "$v" ] || die "trixie-backports has no linux-source-$SERIES any more: set RXE_KERNEL_DEBS to a directory with its packages."
	printf '%s\n' "$v"
}

# download: the packages of $version into $debs, and the release name into $debs/release.
download() {
	[ ! -e "$debs/.complete" ] || return 0
	mkdir -p "$debs.tmp"
	local rel p
	if [ -n "${RXE_KERNEL_DEBS:-}" ]; then
		cp "$RXE_KERNEL_DEBS"/*.deb "$debs.tmp/"
		rel=$(cd "$debs.tmp" && ls linux-headers-"$SERIES".*-"$FLAVOUR"_*.deb | sed 's/^linux-headers-//; s/_.*//' | grep -v -e cloud -e rt- | tail -n1)
	else
		tc apt-get update -q >/dev/null || die "apt-get update failed in the toolchain root."
		rel=$(tc apt-cache search --names-only "^linux-headers-$SERIES\..*-$FLAVOUR\$" | awk '{print $1}' |
			grep -v -e "-cloud-" -e "-rt-" | while read -r p; do
			tc apt-cache madison "$p" | awk -v v="$version" -v p="$p" '$3 == v {print p}'
		done | sort -Vu | tail -n1)
		rel=${rel#linux-headers-}
	fi
	[ -n "$rel" ] || die "no linux-headers package of version $version: the mirror is between two updates, or RXE_KERNEL_VERSION is too old."
	if [ -z "${RXE_KERNEL_DEBS:-}" ]; then
		local want=("linux-config-$SERIES=$version")
		for p in headers binary modules base; do want+=("linux-$p-$rel=$version"); done
		[ -n "${RXE_KERNEL_SOURCE:-}" ] || want+=("linux-source-$SERIES=$version")
		say "kernel: downloading ${want[*]}"
		(cd "$debs.tmp" && tc apt-get -q -o APT::Sandbox::User=root -o Acquire::Retries=3 download "${want[@]}" >/dev/null) ||
			die "could not download the packages of kernel $version."
	fi
	printf '%s\n' "$rel" >"$debs.tmp/release"
	touch "$debs.tmp/.complete"
	rm -rf "$debs"
	mv "$debs.tmp" "$debs"
}

unpack_source() {
	if [ -n "${RXE_KERNEL_SOURCE:-}" ] && [ -d "$RXE_KERNEL_SOURCE" ]; then
		cp -a "$RXE_KERNEL_SOURCE/." "$tree.tmp/"
	elif [ -n "${RXE_KERNEL_SOURCE:-}" ]; then
		tar -C "$tree.tmp" --strip-components=1 -xf "$RXE_KERNEL_SOURCE"
	else
		tc bash -c 'set -e -o pipefail; dpkg-deb --fsys-tarfile "$1"/linux-source-*.deb |
			tar -xO --wildcards "./usr/src/linux-source-*.tar.xz" | xz -dc -T0 | tar -C "$2" --strip-components=1 -x' \
			bash "$debs" "$tree.tmp"
	fi || die "could not unpack the kernel source."
}

check_config() {
	local diff
	diff=$(tc python3 "$tree.tmp/scripts/diffconfig" "$tree.tmp/shipped.config" "$tree.tmp/.config" |
		grep -Ev "^[-+ ]($ALLOWED) " || true)
	[ -z "$diff" ] || die "the prepared configuration differs from the one Debian ships, so a module built here could not be" \
		"trusted to match the running kernel (is a tool missing or of another version?):
$diff"
}

prepare() {
	local want
	want=$(key "$(basename "$root")" "$version" "$0")
	[ "$(cat "$tree/.complete" 2>/dev/null)" != "$want" ] || return 0
	remove_tree "$tree.tmp"
	mkdir -p "$tree.tmp"
	say "kernel: unpacking the source of $version"
	unpack_source
	local rel log=$tree.log
	rel=$(cat "$debs/release")
	tc bash -c 'set -e -o pipefail; dpkg-deb --fsys-tarfile "$1"/linux-config-*.deb |
		tar -xO "./usr/src/$4/config.amd64_none_$3.xz" | xz -dc >"$2/shipped.config"
		dpkg-deb --fsys-tarfile "$1"/linux-headers-*.deb | tar -xO "./usr/src/linux-headers-$5/Module.symvers" >"$2/Module.symvers"' \
		bash "$debs" "$tree.tmp" "$FLAVOUR" "linux-config-$SERIES" "$rel" || die "could not take configuration and symbols from the packages."
	cp "$tree.tmp/shipped.config" "$tree.tmp/.config"
	say "kernel: preparing $rel (log: $log)"
	tc make -C "$tree.tmp" -j"$(nproc)" "LOCALVERSION=${rel#"${rel%%+*}"}" CC=$CC olddefconfig prepare modules_prepare >"$log" 2>&1 ||
		die "preparing the kernel tree failed; the end of $log: $(tail -n 15 "$log")"
	check_config
	[ "$(cat "$tree.tmp/include/config/kernel.release")" = "$rel" ] ||
		die "the prepared tree calls itself $(cat "$tree.tmp/include/config/kernel.release"), not $rel."
	printf '%s\n' "$rel" >"$tree.tmp/.release"
	remove_tree "$tree"
	mv "$tree.tmp" "$tree"
	# Dependency files name the directory the tree was prepared in; nothing but a rebuild of the tree reads them.
	printf '%s\n' "$want" >"$tree/.complete"
	say "kernel: $rel ($version) is prepared"
}

build() {
	version=${RXE_KERNEL_VERSION:-}
	if [ -z "$version" ] && [ -n "${RXE_KERNEL_DEBS:-}" ]; then
		version=$(ls "$RXE_KERNEL_DEBS" | sed -n "s/^linux-config-${SERIES}_\(.*\)_amd64.deb/\1/p" | sed 's/%3a/:/g' | tail -n1)
		[ -n "$version" ] || die "RXE_KERNEL_DEBS ($RXE_KERNEL_DEBS) holds no linux-config-$SERIES package."
	fi
	if [ -z "$version" ] && [ -z "${RXE_REFRESH:-}" ] && [ -e "$RXE_CACHE/kernel/.complete" ]; then
		version=$(readlink "$RXE_CACHE/kernel")
		version=${version#kernel-}
	fi
	[ -n "$version" ] || version=$(pick)
	debs=$RXE_CACHE/debs-$version tree=$RXE_CACHE/kernel-$version
	download
	prepare
	ln -sfn "debs-$version" "$RXE_CACHE/debs"
	ln -sfn "kernel-$version" "$RXE_CACHE/kernel"
	printf '%s\n' "$tree"
}

root=$("$RXE_TOP/scripts/toolchain.sh")
with_lock kernel build
