#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: NFS over RDMA: versions 3 and 4.2, IPv4 and IPv6, verified files, server restarted and link lost under I/O
# timeout: 240
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"
. "$(dirname "$0")/lib/nvme.sh"
. "$(dirname "$0")/lib/io.sh"

EXPORT=/srv/rxe

server_up() {
	modprobe -a nfsd rpcrdma || return 1
	mkdir -p $EXPORT && mount -t tmpfs -o size=256m tmpfs $EXPORT || return 1
	mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd || return 1
	mountpoint -q /var/lib/nfs/rpc_pipefs || { mkdir -p /var/lib/nfs/rpc_pipefs && mount -t rpc_pipefs rpc_pipefs /var/lib/nfs/rpc_pipefs; } || return 1
	mkdir -p /var/lib/nfs/v4recovery /var/lib/nfs/sm
	echo "$EXPORT *(rw,no_root_squash,insecure,no_subtree_check,fsid=0)" >/etc/exports
	: >>/var/lib/nfs/etab
	rpcbind -w && exportfs -ra && rpc.mountd -p 20048 && server_start
}
# The shortest times the kernel allows: after a restart, clients get them to claim what they had open.
server_start() {
	echo 10 >/proc/fs/nfsd/nfsv4leasetime
	echo 10 >/proc/fs/nfsd/nfsv4gracetime
	rpc.nfsd --rdma=20049 4
}
server_stop() { rpc.nfsd 0; }
server_down() {
	server_stop
	exportfs -ua
	pkill -x rpc.mountd
	pkill -x rpcbind
	rm -f /etc/exports
	wait_for 10 umount $EXPORT && umount /proc/fs/nfsd
}
restart() {
	server_stop && sleep 2 && server_start && sleep 3
}

# attach OPTIONS ADDRESS: mounts the export on /mnt, with the network of B.
attach() {
	local path=/
	[[ $1 != *vers=3* ]] || path=$EXPORT
	# Not by `ip netns exec`, which has mounts of its own.
	timeout "$((60 * RXE_SLOW * ${RXE_PATIENCE:-1}))" nsenter --net=/run/netns/B mount -t nfs -o "port=20049,sec=sys,$1" "$2:$path" /mnt
}

files() {
	local f
	rm -f /mnt/* &&
	verified_io 4k --directory=/mnt --size="$(scaled 1)m" && verified_io 256k --directory=/mnt --size="$(scaled 8)m" &&
		verified_io 60k --directory=/mnt --size="$(scaled 2)m" --direct=0 --ioengine=psync --iodepth=1 || return 1
	cp /usr/bin/bash /mnt/copy && cmp /usr/bin/bash $EXPORT/copy || return 1
	for f in 1 2 3 4 5 6 7 8; do head -c $((f * 1111)) /dev/urandom >/mnt/odd.$f && ln -s odd.$f /mnt/link.$f && cmp /mnt/link.$f $EXPORT/odd.$f || return 1; done
	[ "$(ls /mnt | wc -l)" -ge 17 ] && rm /mnt/* && [ -z "$(ls $EXPORT)" ]
}

link_lost() { rdma link del rxeB && sleep 2 && inB rdma link add rxeB type rxe netdev vb && wait_for 5 link_active rxeB && sleep 3; }

# share NAME OPTIONS ADDRESS
share() {
	check "$1: mount" attach "$2" "$3" || return
	check "$1: it is RDMA" grep -q " /mnt nfs.*proto=rdma" /proc/mounts
	check "$1: files" files
	[ -z "${4:-}" ] || $4
	check "$1: unmount" umount /mnt
}
storm() {
	check "$name: the server restarts under I/O" io_while restart -- --directory=/mnt --size=8m --bs=64k
	# When its device goes, the client connects at once, maybe through the same device, and passes on to programs what the connection
	# manager says to that (EINVAL), or EIO.
	IO_MAY_FAIL='Input/output error|Invalid argument' check "$name: the client's link goes and comes back under I/O" \
		io_while link_lost -- --directory=/mnt --size=8m --bs=64k
	check "$name: and files are as before it" files
	rm -f /mnt/while*
}

half_ns || die 'no wire'
check 'the server' server_up || exit 1
name='version 4.2, IPv4'
share "$name" vers=4.2,proto=rdma 10.77.0.1 storm
share 'version 4.2, IPv6' vers=4.2,proto=rdma6 '[fd77::1]'
share 'version 3, IPv4' vers=3,proto=rdma,nolock,mountproto=tcp,mountport=20048 10.77.0.1
check 'it went over the wire' test "$(counter rxeB sent_pkts)" -gt 1000
check 'the server goes' server_down
check 'the links go' half_ns_gone
check 'the modules unload' modprobe -r nfsd rpcrdma
finish
