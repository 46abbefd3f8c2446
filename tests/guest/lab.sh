#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: the guest is what the suites take it for
# timeout: 60
. "$(dirname "$0")/lib.sh"

check 'the module under test is loaded' assert_module
check 'the kernel configuration is in /boot' grep -q '^CONFIG_INFINIBAND=m' "/boot/config-$(uname -r)"
check 'udev runs' pgrep -x systemd-udevd
check 'configfs is mounted' mountpoint -q /sys/kernel/config
check 'debugfs is mounted' mountpoint -q /sys/kernel/debug
check 'process substitution works' bash -c 'diff <(echo 1) <(echo 1)'
check 'memory can be locked' test "$(ulimit -l)" = unlimited
check 'pyverbs and its tests are there' test -e /opt/rdma-core/tests/test_mr.py
check 'the six kernel selftests are there' bash -c 'test "$(ls /rxe/kselftest/rdma/*.sh | wc -l)" = 6'
check 'no link exists' test -z "$(rdma link)"
expect 'only the loopback device exists' lo "$(ls /sys/class/net | grep -v -e bonding -e eth0 -e ctl0 | tr '\n' ' ' | sed 's/ $//')"
modprobe -r rdma_rxe
ip link add lab0 type dummy
rdma link add lab0 type rxe netdev lab0 2>/dev/null
check 'a link request loads the module by its alias' assert_module
rdma link del lab0 2>/dev/null
ip link del lab0
finish
