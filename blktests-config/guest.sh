#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guest.sh GROUP PASS [TEST...]: runs one group of blktests inside a guest that scripts/blktests.sh has booted.
#
# /rxe/blktests is the checkout, /rxe/blktests-config this directory. Results: $RXE_OUT/GROUP-PASS.tsv (see report.py) and blktests' own
# results beside it.
group=$1 pass=$2
shift 2
cd /rxe/blktests || exit 1
dmesg -n 3

# blktests makes a link on every Ethernet netdev that is up, and wants one IPv4 address on each. The other end of this one is out of sight.
ip netns add far
ip link add b0 type veth peer name b1 netns far
ip -n far link set b1 up
ip addr add 10.80.0.1/24 dev b0
ip link set b0 up
until [ -n "$(ip -6 -o addr show dev b0 scope link -tentative)" ]; do sleep 0.2; done

modprobe -r rdma_rxe
case $pass in
use_srq) echo 'options nvmet-rdma use_srq=Y' ;;
register_always) printf 'options nvme-rdma register_always=N\noptions ib_srp register_always=N\n' ;;
ipv6) export BLKTESTS_ADRFAM=ipv6 ;;
esac >/etc/modprobe.d/blktests.conf
[ "$pass" != force_mr ] || grep -q ib_core.force_mr=1 /proc/cmdline || { echo 'ib_core.force_mr=1 is missing'; exit 1; }
# Modules are files *.ko here, as blktests expects; these two nothing else would load in time.
modprobe -a bfq kyber-iosched loop
[ ! -e /sys/bus/pci/devices ] || grep -qs 0x010802 /sys/bus/pci/devices/*/class && modprobe nvme
udevadm settle
rm -f /etc/multipath.conf
# Its tables are for people; the image does not have the program that makes columns.
command -v column >/dev/null || { printf '#!/bin/sh\ncat\n' >/usr/local/bin/column && chmod +x /usr/local/bin/column; }
export BLKTESTS_GROUP=$group
cp /rxe/blktests-config/config config

# Group of the checkout, and which of its tests. -q leaves out what is neither short nor limited by TIMEOUT.
quick=-q
case $group in
nvme-long)
	quick=
	[ $# -gt 0 ] || set -- nvme/037 nvme/040 nvme/047 nvme/048 nvme/057 nvme/058 nvme/060 nvme/068
	;;
nvmeof-mp)
	# The check takes the reason it records for multipath=N, which is what these tests want, for one not to run.
	sed -i 's/_have_module_param_value nvme_core multipath Y/grep -qx Y \/sys\/module\/nvme_core\/parameters\/multipath/' tests/nvmeof-mp/rc
	modprobe nvme_core
	;;
esac
[ $# -gt 0 ] || set -- "$group"

# The module under test, whenever one is loaded.
(
	while :; do
		[ ! -e /sys/module/rdma_rxe/taint ] || cat /sys/module/rdma_rxe/taint
		sleep 1
	done
) >/run/taints 2>/dev/null &
watch=$!

./check $quick "$@" 2>&1 | tee "$RXE_OUT/$group-$pass.log"
kill $watch
cp -r results "$RXE_OUT/results-$group-$pass" 2>/dev/null
case $RXE_MODULE in
ours) wrong=$(grep -cv O /run/taints) ;;
*) wrong=$(grep -c O /run/taints) ;;
esac
echo "rdma_rxe was seen $(wc -l </run/taints) times, $wrong times the wrong one"
[ "$wrong" = 0 ] && [ -s /run/taints ] || exit 1
