#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: the distribution's other RDMA programs across a veth pair, IPv4 and IPv6, good and bad wire: rdmacm's, qperf, fio, libfabric, UCX
# timeout: 300
#
# rping, ucmatose, udaddy and rstream are in `cm`, perftest and the pingpongs in suites of their own.
#
# Not here, since they fail with every driver: udpong (rconnect: EINVAL from its own set-up), iperf3 over the preloaded sockets (its
# control connection gets nothing after the data; the server crashes when it is ended), UCX over UD with an IPv4 GID (it takes the service
# level of a completion for the kind of header, and waits for ever), mckey (its sender ends before
# all that it has posted has left, and the receiver waits for the rest). cmtime, rdma_xserver, rcopy and the engine of fio know no IPv6.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"

# rdmacm_utils LABEL FAMILY ADDRESS
rdmacm_utils() {
	local what="$1, IPv$2" a=$3
	across "$what: riostream" cm:7471 "riostream -b $a -T v -S 16384 -C 20" "riostream -s $a -T v -S 16384 -C 20"
	across "$what: rdma_server" cm:7471 "rdma_server -s $a" "rdma_client -s $a"
}

# rdmacm_utils_4 LABEL
rdmacm_utils_4() {
	across "$1: cmtime" cm:7471 'cmtime -b 10.77.0.1 -c 20' 'cmtime -s 10.77.0.1 -c 20'
	across "$1: rdma_xserver" cm:7471 'rdma_xserver -c r' 'rdma_xclient -s 10.77.0.1 -c r'
}

# copy LABEL
copy() {
	rm -f /tmp/copy
	ENDLESS=1 across "$1: rcopy" cm:7427 rcopy 'rcopy /usr/bin/bash 10.77.0.1:/tmp/copy'
	check "$1: rcopy: the copy is the same" cmp /usr/bin/bash /tmp/copy
}

# fio_rdma LABEL
fio_rdma() {
	local verb
	for verb in write read send; do
		across "$1: fio, $verb" cm:7204 'fio --name=r --ioengine=rdma --port=7204 --rw=read --bs=64k --size=4m --iodepth=16' \
			"fio --name=s --ioengine=rdma --hostname=10.77.0.1 --port=7204 --verb=$verb --rw=write --bs=64k --size=4m --iodepth=4 --iodepth_batch_complete=1"
	done
}

# ucx NAME TRANSPORTS GID_ADDRESS_A GID_ADDRESS_B ARGUMENTS...: over the wire of those GIDs; they find each other by IPv4.
ucx() {
	local name=$1 tls=$2 a b
	a=$(gid_index rxeA "$3") b=$(gid_index rxeB "$4")
	shift 4
	# It is built to be an MPI program as well, which -P 0 turns off.
	across "UCX: $name" tcp:13337 "env UCX_TLS=$tls UCX_NET_DEVICES=rxeA:1 UCX_IB_GID_INDEX=$a ucx_perftest -P 0" \
		"env UCX_TLS=$tls UCX_NET_DEVICES=rxeB:1 UCX_IB_GID_INDEX=$b ucx_perftest -P 0 -n 100 -w 10 $* 10.77.0.1"
}

two_ns || die 'no wire'
rdmacm_utils 'good wire' 4 10.77.0.1
rdmacm_utils 'good wire' 6 fd77::1
rdmacm_utils_4 'good wire'
copy 'good wire'
fio_rdma 'good wire'
across 'good wire: fi_pingpong, connected' tcp:47592 'fi_pingpong -p verbs -e msg -d rxeA -c -I 50' 'fi_pingpong -p verbs -e msg -d rxeB -c -I 50 10.77.0.1'
if [ "$RXE_MODULE" = ours ]; then
	across 'good wire: fi_pingpong, reliable datagrams' tcp:47592 "fi_pingpong -p 'verbs;ofi_rxm' -e rdm -c -I 50" \
		"fi_pingpong -p 'verbs;ofi_rxm' -e rdm -c -I 50 10.77.0.1"
else
	skipped 'good wire: fi_pingpong, reliable datagrams' 'the C driver fails here: it refuses completion queues of 262144 entries'
fi
# The server makes a process for each test, which crashes at its end, in the library of verbs.
ENDLESS=1 across 'good wire: qperf' tcp:19765 qperf \
	'qperf 10.77.0.1 -t 1 -cm1 rc_bw rc_lat rc_rdma_write_bw rc_rdma_read_bw rc_compare_swap_mr ver_rc_compare_swap ver_rc_fetch_add'
ucx 'tag matching' rc_verbs,ud_verbs,self fd77::1 fd77::2 -t tag_bw -s 4096
ucx 'large messages' rc_verbs,ud_verbs,self fd77::1 fd77::2 -t tag_bw -s 1048576
ucx 'put' rc_verbs,ud_verbs,self fd77::1 fd77::2 -t ucp_put_bw -s 4096
ucx 'get' rc_verbs,ud_verbs,self fd77::1 fd77::2 -t ucp_get -s 4096
ucx 'fetch and add' rc_verbs,ud_verbs,self fd77::1 fd77::2 -t ucp_fadd -s 8
netem on
TRIES=4
rdmacm_utils 'bad wire' 4 10.77.0.1
rdmacm_utils 'bad wire' 6 fd77::1
rdmacm_utils_4 'bad wire'
copy 'bad wire'
fio_rdma 'bad wire'
netem off
check 'two namespaces are taken down' two_ns_gone
finish
