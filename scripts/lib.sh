# SPDX-License-Identifier: GPL-2.0
# Shell library of the build and test scripts; sourced, never run.
#
# After sourcing: RXE_TOP (checkout), RXE_CACHE (cache directory, outside the checkout), and the functions below.

set -euo pipefail

RXE_TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
RXE_CACHE=${RXE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rdma-rxe}
mkdir -p "$RXE_CACHE"
RXE_CACHE=$(cd "$RXE_CACHE" && pwd -P)
export RXE_TOP RXE_CACHE
: "${RXE_T0:=$(date +%s)}"
export RXE_T0

# say TEXT...: one progress line with the seconds since the outermost script started.
say() { printf '[%4ds] %s\n' "$(($(date +%s) - RXE_T0))" "$*" >&2; }

# die TEXT...: one clear sentence, exit 1.
die() {
	printf 'error: %s\n' "$*" >&2
	exit 1
}

is_root() { [ "$(id -u)" = 0 ]; }

# key FILE_OR_WORD...: a short hash over the contents of files and over the words themselves.
key() {
	local a
	for a in "$@"; do
		if [ -f "$a" ]; then cat "$a"; else printf '%s\n' "$a"; fi
	done | sha256sum | cut -c1-12
}

# need COMMAND=PACKAGE...: install the host packages whose commands are missing (root), or name them (not root).
need() {
	local pair missing=()
	for pair in "$@"; do
		command -v "${pair%%=*}" >/dev/null 2>&1 || missing+=("${pair#*=}")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	command -v apt-get >/dev/null || die "this host lacks ${missing[*]} and has no apt-get to install them with."
	is_root || die "this host lacks the packages ${missing[*]}: install them with 'apt-get install ${missing[*]}' as root."
	say "host: installing ${missing[*]}"
	apt-get update -q >/dev/null || say "host: apt-get update failed, trying with the old lists"
	DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" >/dev/null ||
		die "could not install ${missing[*]} on this host."
}

# mirror: the Debian mirror to use: RXE_MIRROR, or the one in the host's own apt configuration.
mirror() {
	local m=${RXE_MIRROR:-}
	if [ -z "$m" ] && command -v apt-get >/dev/null; then
		m=$(apt-get indextargets --format '$(SITE)' 'Origin: Debian' 'Label: Debian' 2>/dev/null | sort | uniq -c | sort -rn |
			awk 'NR==1{print $2}')
	fi
	[ -n "$m" ] || die "no Debian mirror in this host's apt configuration: set RXE_MIRROR to the address of one."
	printf '%s\n' "${m%/}"
}

# security_mirror: the security archive, when the host's apt configuration or RXE_SECURITY_MIRROR names one; else nothing.
security_mirror() {
	local m=${RXE_SECURITY_MIRROR:-}
	if [ -z "$m" ] && [ -z "${RXE_MIRROR:-}" ] && command -v apt-get >/dev/null; then
		m=$(apt-get indextargets --format '$(SITE)' 'Origin: Debian' 'Label: Debian-Security' 2>/dev/null | sort -u | head -n1)
	fi
	printf '%s\n' "${m%/}"
}

# keyring: the Debian archive keyring of the host.
keyring() {
	local k
	for k in "${RXE_KEYRING:-}" /usr/share/keyrings/debian-archive-keyring.pgp /usr/share/keyrings/debian-archive-keyring.gpg; do
		[ -n "$k" ] && [ -e "$k" ] && { printf '%s\n' "$k"; return; }
	done
	die "no Debian archive keyring on this host: install debian-archive-keyring, or set RXE_KEYRING."
}

# sources: the apt sources of a trixie root, one deb822-free line per suite.
sources() {
	local m s k
	m=$(mirror) s=$(security_mirror) k=$(keyring)
	printf 'deb [signed-by=%s] %s %s main\n' "$k" "$m" trixie "$k" "$m" trixie-updates "$k" "$m" trixie-backports
	[ -z "$s" ] || printf 'deb [signed-by=%s] %s trixie-security main\n' "$k" "$s"
}

# as_root COMMAND...: run COMMAND as root in a private mount namespace: plainly when root, else in a user namespace.
as_root() {
	if is_root; then
		unshare --mount --propagation private -- "$@"
	else
		unshare --user --map-root-user --map-auto --mount --propagation private -- "$@" ||
			{ local rc=$?; [ $rc -ne 1 ] || userns_hint; return $rc; }
	fi
}

userns_hint() {
	unshare --user --map-root-user --map-auto true 2>/dev/null && return
	printf '%s\n' "note: this user may not create a user namespace with a range of ids (is uidmap installed, has the user" \
		"lines in /etc/subuid and /etc/subgid, does the system allow unprivileged user namespaces?). Running as root works." >&2
}

# make_root DIR INCLUDE [MMDEBSTRAP_OPTION...]: a trixie root in DIR (which must not exist) with the packages INCLUDE.
make_root() {
	local dir=$1 include=$2 tar
	shift 2
	need mmdebstrap=mmdebstrap
	[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || [ -e /usr/share/keyrings/debian-archive-keyring.pgp ] ||
		[ -n "${RXE_KEYRING:-}" ] || need rxe-none=debian-archive-keyring
	local opts=(--variant=minbase --architectures=amd64 --include="$include" --quiet
		--aptopt='Acquire::Languages "none"' --aptopt='APT::Install-Recommends "false"' --aptopt='Acquire::Retries "3"'
		--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*'
		--dpkgopt='path-exclude=/usr/share/info/*')
	if is_root; then
		mkdir -p "$dir.tmp"
		sources | mmdebstrap --mode=root "${opts[@]}" "$@" trixie "$dir.tmp" - || die "mmdebstrap failed."
	else
		tar=$dir.tar
		sources | mmdebstrap --mode=unshare "${opts[@]}" "$@" trixie "$tar" - || { userns_hint; die "mmdebstrap failed."; }
		mkdir -p "$dir.tmp"
		as_root tar -C "$dir.tmp" --exclude='./dev/*' -xf "$tar" || die "could not unpack the root into $dir."
		rm -f "$tar"
	fi
	mv "$dir.tmp" "$dir"
}

# remove_tree DIR: delete a directory that a root or user-namespace root filled.
remove_tree() {
	[ ! -e "$1" ] || as_root rm -rf --one-file-system "$1"
}

# with_lock NAME COMMAND...: run COMMAND while holding the cache's lock NAME, so that two builds do not make the same thing.
with_lock() {
	local name=$1
	shift
	(
		exec 8>"$RXE_CACHE/.lock-$name"
		flock -n 8 || { say "waiting for another build of $name"; flock 8; }
		"$@" 8>&-
	)
}
