#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# in-toolchain.sh [--root DIR] COMMAND...: run COMMAND in the trixie root, in the current directory, with the checkout and
# the cache visible at their own paths. RXE_BIND may name further directories (colon-separated) to be seen inside.
. "$(dirname "$0")/lib.sh"

root=
if [ "${1:-}" = --root ]; then
	root=$2
	shift 2
fi
[ $# -gt 0 ] || die "usage: in-toolchain.sh [--root DIR] COMMAND..."
[ -n "$root" ] || root=$("$RXE_TOP/scripts/toolchain.sh")

enter='
set -e
root=$1 cwd=$2 binds=$3
shift 3
for d in /proc /dev /sys; do mount --rbind "$d" "$root$d"; done
mount -t tmpfs tmpfs "$root/tmp"
IFS=:
for d in $binds; do
	[ -n "$d" ] || continue
	mkdir -p "$root$d"
	mount --rbind "$d" "$root$d"
done
unset IFS
if [ -e /etc/resolv.conf ]; then
	[ -e "$root/etc/resolv.conf" ] || : >"$root/etc/resolv.conf"
	mount --bind "$(readlink -f /etc/resolv.conf)" "$root/etc/resolv.conf"
fi
exec chroot "$root" /bin/sh -c "cd \"\$1\" && shift && exec \"\$@\"" sh "$cwd" "$@"
'
cwd=$(pwd -P)
binds=$RXE_TOP:$RXE_CACHE:${RXE_BIND:-}
case $cwd/ in
"$RXE_TOP"/* | "$RXE_CACHE"/*) ;;
*) binds=$binds:$cwd ;;
esac
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
	LIBCLANG_PATH=/usr/lib/llvm-19/lib TMPDIR=/tmp
unset RUSTUP_HOME RUSTUP_TOOLCHAIN CARGO_HOME RUSTFLAGS MAKEFLAGS MFLAGS MAKELEVEL LANGUAGE LANG
as_root /bin/sh -c "$enter" sh "$root" "$cwd" "$binds" "$@"
