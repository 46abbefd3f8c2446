#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: NVMe over RDMA: target and host on two links joined by a wire; file system, verified I/O, reset under I/O, teardown
# timeout: 300
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"
. "$(dirname "$0")/lib/nvme.sh"

one_ns || die 'no wire'
check 'the target serves a RAM disk over RDMA' nvmet_up 10.78.0.2 || exit 1
check 'the host connects' nvme_connect 10.78.0.2 10.78.0.1 || exit 1
dev=$(nvme_device)
check "a namespace appears ($dev)" test -b "$dev"
sent0=$(counter rxe0 sent_pkts) sent1=$(counter rxe1 sent_pkts)
check 'mkfs.ext4' mkfs.ext4 -q -F "$dev"
check 'mount' mount "$dev" /mnt
check 'fio randrw 4 KiB, iodepth 16, crc32c verified' verified_io 4k --directory=/mnt --size="$(scaled 8)m"
check 'fio randrw 128 KiB, iodepth 16, crc32c verified' verified_io 128k --directory=/mnt --size="$(scaled 64)m"
check 'the file system is consistent' unmount_and_check "$dev"
check 'it all went over the wire' test "$(($(counter rxe0 sent_pkts) - sent0))" -gt 1000 -a "$(($(counter rxe1 sent_pkts) - sent1))" -gt 1000
check 'controller resets under I/O; I/O goes on and stays right' reset_under_io "$dev" "$(scaled 3)"
check 'disconnect' nvme_disconnect
check 'the host connects again' nvme_connect 10.78.0.2 10.78.0.1
check 'disconnect under I/O ends the I/O' disconnect_under_io
check 'the target goes' nvmet_down
check 'the links go' one_ns_gone
check 'the storage modules unload' modprobe -r nvme_rdma nvmet_rdma
check 'the module unloads' modprobe -r rdma_rxe
modprobe rdma_rxe
finish
