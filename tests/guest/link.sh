#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: wrong `rdma link add` requests are refused with the right errno and leave nothing behind
# timeout: 90
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"

# refused NAME ERROR COMMAND...: COMMAND fails, its message matches ERROR, and links, sockets and module references are as before.
refused() {
	local name=$1 error=$2 before after out
	shift 2
	before=$(state)
	if out=$("$@" 2>&1); then
		fail "$name: was accepted"
		return
	fi
	after=$(state)
	if ! [[ $out =~ $error ]]; then
		fail "$name: refused, but with '$out' instead of '$error'"
	elif [ "$before" != "$after" ]; then
		fail "$name: something is left behind:"
		diff <(echo "$before") <(echo "$after")
	else
		pass "$name: ${out##*: }"
	fi
}
state() {
	rdma link
	ss -Huln 'sport = :4791'
	inA ss -Huln 'sport = :4791'
	echo "module references: $(cat /sys/module/rdma_rxe/refcnt)"
	ls /sys/class/infiniband
}

# busy ADDRESS COMMAND...: COMMAND while another program holds UDP port 4791 of ADDRESS, in A.
busy() {
	local address=$1 pid rc=0
	shift
	ip netns exec A python3 -c 'import socket, sys, time
s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
if ":" in sys.argv[1]:
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
s.bind((sys.argv[1], 4791))
print("bound", flush=True)
time.sleep(60)' "$address" >/tmp/busy &
	pid=$!
	wait_for 10 grep -q bound /tmp/busy
	"$@" || rc=$?
	kill $pid
	wait $pid 2>/dev/null
	return $rc
}

# The C driver says EPERM when the port is busy; the RDMA core says ENFILE when a name is in use.
busy='Address already in use'
[ "$RXE_MODULE" = ours ] || busy='Operation not permitted'

modprobe -a rdma_rxe veth dummy 8021q
ip netns add A
ip link add va netns A type veth peer name vb
ip -n A link set va up
ip link set vb up
ip link add d0 type dummy
ip link set d0 up

refused 'a netdev that does not exist' 'No such device' rdma link add rxe0 type rxe netdev nothing
refused 'a netdev of another namespace' 'No such device' rdma link add rxe0 type rxe netdev va
check 'a link can be added' rdma link add rxe0 type rxe netdev vb
refused 'a netdev that has a link' 'File exists' rdma link add rxe1 type rxe netdev vb
refused 'a name in use' 'File exists|Too many open files in system' rdma link add rxe0 type rxe netdev d0
refused 'a link type that does not exist' 'Invalid argument' rdma link add rxe1 type nothing netdev d0
ip link add link vb name vb.5 type vlan id 5
refused 'a VLAN device' 'Operation not permitted' rdma link add rxe1 type rxe netdev vb.5
ip link del vb.5
check 'the first link is unharmed' link_active rxe0
busy_v4() { busy 0.0.0.0 refused 'a busy IPv4 port 4791' "$busy" inA rdma link add rxe1 type rxe netdev va; }
busy_v6() { busy :: refused 'a busy IPv6 port 4791' "$busy" inA rdma link add rxe1 type rxe netdev va; }
busy_v4
busy_v6
better 'it leaves half a socket pair behind when a port is busy' 'and once it is free the link can be added' inA rdma link add rxe1 type rxe netdev va
n=$(scaled 20)
again() { rdma link del rxe0 && rdma link add rxe0 type rxe netdev vb; }
for ((i = 1; i <= n; i++)); do again || fail "link deleted and added, round $i"; done
pass "a link deleted and added $n times"
rdma link del rxe0
rdma link del rxe1
better 'each refused link keeps a reference on the sockets' 'no socket is left' test -z "$(ss -Huln 'sport = :4791')$(inA ss -Huln 'sport = :4791')"
ip link del d0
ip link del vb
ip netns del A
check 'the module unloads' modprobe -r rdma_rxe
modprobe rdma_rxe
finish
