#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Makes the guests' userland, a trixie root with the distribution's RDMA, NVMe and network tools, and from it an ext4 image.
# Prints the image's path. Kept in the cache under a key of its inputs. No kernel and no init in it: scripts/guest.sh brings those.
. "$(dirname "$0")/lib.sh"

PACKAGES=(
	# RDMA.
	rdma-core ibverbs-utils ibverbs-providers rdmacm-utils perftest qperf python3-pyverbs infiniband-diags librdmacm1t64 libibverbs1
	libfabric-bin ucx-utils
	# Storage.
	nvme-cli fio e2fsprogs xfsprogs multipath-tools kpartx dmsetup sg3-utils open-iscsi tgt libiscsi-bin
	nfs-kernel-server nfs-common
	# Network.
	iproute2 iputils-ping iperf3 ethtool nftables tcpdump tshark python3-scapy socat
	# System.
	udev kmod procps psmisc lsof strace util-linux mount gawk bc jq file xxd kbd- python3 keyutils stress-ng libasan8
)

include=
for p in "${PACKAGES[@]}"; do
	case $p in *-) ;; *) include=$include,$p ;; esac
done
include=${include#,}
want=$(key "$include" v1)
image=$RXE_CACHE/userland-$want.ext4

# The same commands in every Debian root: runs inside it.
finish='
set -e
# The tests of pyverbs come as documentation.
mkdir -p /opt/rdma-core
if [ -d /usr/share/doc/rdma-core/tests ]; then cp -r /usr/share/doc/rdma-core/tests /opt/rdma-core/
elif [ -d /usr/share/doc/python3-pyverbs/tests ]; then cp -r /usr/share/doc/python3-pyverbs/tests /opt/rdma-core/; fi
find /opt/rdma-core -name "*.gz" -exec gunzip {} +
rm -rf /usr/share/doc/* /usr/share/man/* /usr/share/locale/* /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb
rm -f /etc/multipath.conf /etc/resolv.conf
# ld.so and python caches are made now, not at every boot of a snapshot.
python3 -m compileall -q /opt/rdma-core /usr/lib/python3/dist-packages >/dev/null 2>&1 || true
echo rxe >/etc/hostname
printf "127.0.0.1 localhost rxe\n::1 localhost\n" >/etc/hosts
mkdir -p /boot /rxe /mnt /sys /proc /dev /run /tmp
'

build() {
	[ ! -e "$image" ] || return 0
	local dir=$RXE_CACHE/userland-$want.dir
	say "userland: making the guests' trixie root"
	remove_tree "$dir.tmp"
	remove_tree "$dir"
	make_root "$dir" "$include" || die "the guests' root could not be made."
	as_root chroot "$dir" /bin/sh -c "$finish" || die "the guests' root could not be finished."
	say "userland: making the image"
	"$RXE_TOP/scripts/in-toolchain.sh" --root "$root" /bin/sh -c '
		set -e
		size=$(du -sxm "$1" | cut -f1)
		truncate -s "$((size + size / 5 + 2560))M" "$2.tmp"
		mkfs.ext4 -q -F -L rxe-root -d "$1" -E lazy_itable_init=1,nodiscard -O ^has_journal -m 0 "$2.tmp"' sh "$dir" "$image" ||
		die "mkfs.ext4 could not make the image."
	mv "$image.tmp" "$image"
	remove_tree "$dir"
	say "userland: $(du -m "$image" | cut -f1) MB in $image"
}

root=$("$RXE_TOP/scripts/toolchain.sh")
[ -e "$image" ] || with_lock userland build
printf '%s\n' "$image"
