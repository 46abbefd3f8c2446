#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Installs rdma_rxe.ko for the running kernel: into /lib/modules/<release>/updates, where modprobe prefers it to the kernel's own
# rdma_rxe, which stays where it is. To go back: remove that file and run depmod.
#
# Which tree it is built against: KDIR when given; the prepared Debian tree when the running kernel is that very release; else
# /lib/modules/<release>/build.
. "$(dirname "$0")/lib.sh"

release=$(uname -r)
modules=${DESTDIR:-}/lib/modules/$release
config=
for c in "/lib/modules/$release/config" "/boot/config-$release" "/lib/modules/$release/build/.config"; do
	[ ! -r "$c" ] || { config=$c; break; }
done
if [ -n "$config" ] && ! grep -q '^CONFIG_RUST=y' "$config"; then
	die "the running kernel ($release) is built without Rust (CONFIG_RUST in $config): this module cannot be loaded into it." \
		"Debian's 7.3 kernels (trixie-backports) have it."
fi
[ -n "$config" ] || [ -e /proc/config.gz ] || say "install: no configuration of the running kernel found; going on in good faith"
if [ -e /proc/config.gz ] && ! zcat /proc/config.gz | grep -q '^CONFIG_RUST=y'; then
	die "the running kernel ($release) is built without Rust (CONFIG_RUST in /proc/config.gz): this module cannot be loaded into it."
fi

if [ -n "${KDIR:-}" ]; then
	ko=$("$RXE_TOP/scripts/module.sh")
else
	tree=$("$RXE_TOP/scripts/kernel.sh")
	if [ "$(cat "$tree/.release")" = "$release" ]; then
		ko=$("$RXE_TOP/scripts/module.sh" stock)
	elif [ -e "/lib/modules/$release/build/rust/bindings/bindings_generated.rs" ]; then
		ko=$(KDIR=/lib/modules/$release/build "$RXE_TOP/scripts/module.sh")
	else
		die "the running kernel is $release, the prepared Debian tree is $(cat "$tree/.release"): give the tree your kernel was built in as KDIR."
	fi
fi
built=$(modinfo -F vermagic "$ko" | cut -d' ' -f1)
[ "$built" = "$release" ] || die "the module is for kernel $built, the running one is $release."
is_root || [ -w "$modules" ] || die "installing into $modules needs root: sudo make install."
install -D -m 644 "$ko" "$modules/updates/rdma_rxe.ko"
depmod ${DESTDIR:+-b "$DESTDIR"} "$release"
say "install: $modules/updates/rdma_rxe.ko; load it with 'modprobe rdma_rxe'"
