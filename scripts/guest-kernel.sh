#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# guest-kernel.sh [stock|debug]: what a guest boots: kernel image, initramfs, and an image with its modules. Prints the directory:
#
#   vmlinuz, release, config   the kernel
#   initrd.cpio                busybox, the modules the root disk needs, and qemu/initramfs-init
#   modules.ext4               mounted on /lib/modules in the guest
#   tree/lib/modules/RELEASE   the same modules, for depmod
#
# The stock kernel's files come from the Debian packages, which are unpacked and not installed. Modules are kept uncompressed
# (decompression is slow in an emulated guest), and drivers of hardware that no guest has are left out.
. "$(dirname "$0")/lib.sh"

kind=${1:-stock}
DROP='drivers/gpu drivers/media drivers/iio drivers/hid drivers/hwmon drivers/input drivers/usb drivers/comedi drivers/mtd drivers/video
	drivers/ata drivers/watchdog drivers/i2c drivers/leds drivers/thermal drivers/w1 drivers/mmc drivers/edac drivers/bluetooth
	drivers/platform drivers/staging drivers/net/ethernet drivers/net/wireless drivers/net/usb drivers/net/can drivers/net/phy
	drivers/isdn drivers/infiniband/hw drivers/pinctrl drivers/gpio drivers/mfd drivers/power drivers/regulator drivers/rtc drivers/spi
	drivers/parport drivers/pcmcia drivers/firewire drivers/accel drivers/crypto drivers/soundwire drivers/thunderbolt drivers/ufs
	drivers/misc arch/x86/kvm virt sound net/bluetooth net/mac80211 net/wireless net/can net/nfc'
EARLY='crc16 libcrc32c crc32c_generic crc32c-cryptoapi mbcache jbd2 ext4 virtio virtio_ring virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci virtio_blk'

unpack_stock() {
	local debs=$RXE_CACHE/debs
	tc bash -c 'set -e -o pipefail
		mkdir -p "$2/x"
		for p in binary modules base; do dpkg-deb -x "$1"/linux-$p-*.deb "$2/x"; done
		mkdir -p "$2/tree/lib/modules"
		mv "$2/x/usr/lib/modules/$3" "$2/tree/lib/modules/"
		m=$2/tree/lib/modules/$3
		mv "$m/vmlinuz" "$2/vmlinuz"
		cp "$m/config" "$2/config"
		rm -rf "$2/x"
		for d in $4; do rm -rf "$m/kernel/$d"; done
		find "$m" -name "*.ko.xz" -print0 | xargs -0 -P "$(nproc)" -n 64 xz -d' \
		bash "$debs" "$out.tmp" "$release" "$(echo $DROP)"
}

take_debug() {
	cp "$kernel/arch/x86/boot/bzImage" "$out.tmp/vmlinuz"
	cp "$kernel/.config" "$out.tmp/config"
	mkdir -p "$out.tmp/tree/lib/modules"
	cp -a "$kernel/image/lib/modules/$release" "$out.tmp/tree/lib/modules/"
	rm -f "$out.tmp/tree/lib/modules/$release"/{build,source}
	cp "$kernel/.config" "$out.tmp/tree/lib/modules/$release/config"
}

build() {
	[ ! -e "$out/.complete" ] || return 0
	say "guest kernel: collecting $release"
	remove_tree "$out"
	remove_tree "$out.tmp"
	mkdir -p "$out.tmp"
	case $kind in
	stock) unpack_stock ;;
	debug) take_debug ;;
	esac || die "could not collect the files of kernel $release."
	printf '%s\n' "$release" >"$out.tmp/release"
	cp "$RXE_TOP/qemu/initramfs-init" "$out.tmp/init"
	tc bash -c 'set -e
		out=$1 release=$2
		m=$out/tree/lib/modules/$release
		depmod -b "$out/tree" "$release"
		# rxe-module puts these back when the stock module is wanted.
		mkdir "$m/.stock"
		cp "$m"/modules.* "$m/.stock/"
		size=$(du -sm "$m" | cut -f1)
		truncate -s "$((size + size / 8 + 64))M" "$out/modules.ext4"
		mkfs.ext4 -q -F -L rxe-modules -d "$out/tree/lib/modules" -O ^has_journal -m 0 "$out/modules.ext4"
		i=$out/initrd
		mkdir -p "$i"/{bin,dev,proc,sys,modules,root}
		cp /usr/bin/busybox "$i/bin/busybox"
		install -m 755 "$out/init" "$i/init"
		: >"$i/modules/order"
		for name in $3; do
			f=$(find "$m/kernel" -name "$name.ko" | head -n1)
			[ -n "$f" ] || continue
			cp "$f" "$i/modules/"
			echo "$name.ko" >>"$i/modules/order"
		done
		(cd "$i" && find . | cpio -o -H newc --quiet -R 0:0) >"$out/initrd.cpio"
		rm -rf "$i"' bash "$out.tmp" "$release" "$(echo $EARLY)" || die "could not make the images of kernel $release."
	touch "$out.tmp/.complete"
	mv "$out.tmp" "$out"
	say "guest kernel: $release is ready"
}

root=$("$RXE_TOP/scripts/toolchain.sh")
tc() { "$RXE_TOP/scripts/in-toolchain.sh" --root "$root" "$@"; }
case $kind in
stock) kernel=$("$RXE_TOP/scripts/kernel.sh") ;;
debug) kernel=$("$RXE_TOP/scripts/debug-kernel.sh") ;;
*) die "guest-kernel.sh: the kernel is 'stock' or 'debug', not '$kind'." ;;
esac
release=$(cat "$kernel/.release")
out=$RXE_CACHE/guest-$kind-$(key "$(cat "$kernel/.complete")" "$(basename "$kernel")" "$0" "$RXE_TOP/qemu/initramfs-init")
[ -e "$out/.complete" ] || with_lock "guest-$kind" build
printf '%s\n' "$out"
