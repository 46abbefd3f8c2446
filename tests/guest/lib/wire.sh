# SPDX-License-Identifier: GPL-2.0
# Wires for the guest suites; sourced after lib.sh.
#
# two_ns makes the wire most suites use: namespaces A and B joined by a veth pair, va (10.77.0.1, fd77::1) in A with link
# rxeA, vb (10.77.0.2, fd77::2) in B with link rxeB. one_ns makes a wire inside the first namespace, for kernel users of RDMA
# that know no other: w0 (10.78.0.1) with rxe0 and w1 (10.78.0.2) with rxe1. half_ns is two_ns with the first namespace in place of A,
# for servers that know no other and clients that do. All take the MTU of the netdevs.

NETEM='loss 1% duplicate 1% reorder 5% delay 1ms'

# For the background use `ip netns exec` itself: $! of a function is a shell, and killing that leaves the program.
inA() { ip netns exec A "$@"; }
inB() { ip netns exec B "$@"; }

two_ns() {
	local mtu=${1:-4200} x
	modprobe -a veth rdma_rxe ib_uverbs rdma_ucm || return 1
	ip netns add A && ip netns add B || return 1
	ip link add va netns A type veth peer name vb netns B || return 1
	ip -n A addr add 10.77.0.1/24 dev va
	ip -n B addr add 10.77.0.2/24 dev vb
	ip -n A addr add fd77::1/64 dev va nodad
	ip -n B addr add fd77::2/64 dev vb nodad
	for x in 'A va' 'B vb'; do
		set -- $x
		ip -n "$1" link set lo up
		ip -n "$1" link set "$2" mtu "$mtu" up
	done
	inA rdma link add rxeA type rxe netdev va || return 1
	inB rdma link add rxeB type rxe netdev vb || return 1
	wait_for 5 link_active rxeA && wait_for 5 link_active rxeB && wait_for 5 gid_index rxeA fd77::1 && wait_for 5 gid_index rxeB fd77::2
}

two_ns_gone() {
	rdma link del rxeA 2>/dev/null
	rdma link del rxeB 2>/dev/null
	ip netns del A 2>/dev/null
	ip netns del B 2>/dev/null
	wait_for 5 no_rdma_device rxeA && wait_for 5 no_rdma_device rxeB && wait_for 5 no_netdev va
}

half_ns() {
	local mtu=${1:-4200}
	modprobe -a veth rdma_rxe ib_uverbs rdma_ucm || return 1
	ip netns add B || return 1
	ip link add va type veth peer name vb netns B || return 1
	ip addr add 10.77.0.1/24 dev va
	ip -n B addr add 10.77.0.2/24 dev vb
	ip addr add fd77::1/64 dev va nodad
	ip -n B addr add fd77::2/64 dev vb nodad
	ip -n B link set lo up
	ip link set va mtu "$mtu" up
	ip -n B link set vb mtu "$mtu" up
	half_ns_links
}

# half_ns_links: the two links of half_ns, which made them first.
half_ns_links() {
	rdma link add rxeA type rxe netdev va || return 1
	inB rdma link add rxeB type rxe netdev vb || return 1
	wait_for 5 link_active rxeA && wait_for 5 link_active rxeB && wait_for 5 gid_index rxeA fd77::1 && wait_for 5 gid_index rxeB fd77::2
}

half_ns_gone() {
	rdma link del rxeA 2>/dev/null
	rdma link del rxeB 2>/dev/null
	ip netns del B 2>/dev/null
	wait_for 5 no_rdma_device rxeA && wait_for 5 no_rdma_device rxeB && wait_for 5 no_netdev va
}

one_ns() {
	local mtu=${1:-4200} i
	modprobe -a veth rdma_rxe || return 1
	ip link add w0 mtu "$mtu" type veth peer name w1 mtu "$mtu" || return 1
	for i in w0 w1; do
		ip link set "$i" up
		sysctl -qw "net.ipv4.conf.$i.accept_local=1" "net.ipv4.conf.$i.rp_filter=0"
	done
	sysctl -qw net.ipv4.conf.all.rp_filter=0
	ip addr add 10.78.0.1/32 dev w0
	ip addr add 10.78.0.2/32 dev w1
	ip route add 10.78.0.2/32 dev w0
	ip route add 10.78.0.1/32 dev w1
	ip neigh add 10.78.0.2 lladdr "$(cat /sys/class/net/w1/address)" dev w0 nud permanent
	ip neigh add 10.78.0.1 lladdr "$(cat /sys/class/net/w0/address)" dev w1 nud permanent
	rdma link add rxe0 type rxe netdev w0 && rdma link add rxe1 type rxe netdev w1 || return 1
	wait_for 5 link_active rxe0 && wait_for 5 link_active rxe1 && wait_for 5 gid_index rxe0 10.78.0.1 && wait_for 5 gid_index rxe1 10.78.0.2
}

one_ns_gone() {
	rdma link del rxe0 2>/dev/null
	rdma link del rxe1 2>/dev/null
	ip link del w0 2>/dev/null
	wait_for 5 no_rdma_device rxe0 && wait_for 5 no_rdma_device rxe1
}

# wait_for SECONDS COMMAND...: until COMMAND succeeds; fails when it has not after SECONDS (times RXE_SLOW, times RXE_PATIENCE).
wait_for() {
	local end=$((SECONDS + 1 + $1 * ${RXE_SLOW:-1} * ${RXE_PATIENCE:-1}))
	shift
	while ! "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.1
	done
}

link_active() { [ "$(cat "/sys/class/infiniband/$1/ports/1/state" 2>/dev/null)" = '4: ACTIVE' ]; }
no_rdma_device() { [ ! -e "/sys/class/infiniband/$1" ]; }
no_netdev() { [ ! -e "/sys/class/net/$1" ]; }

# gid_index DEVICE ADDRESS: the index in DEVICE's GID table of an IPv4 or IPv6 address.
gid_index() {
	local want=$2 word words=() left right n
	if [[ $want = *.* ]]; then
		IFS=. read -ra words <<<"$want"
		printf -v want '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x' "${words[@]}"
	else
		# Write out the zeros of an abbreviated IPv6 address.
		left=${want%%::*} right=
		[[ $want != *::* ]] || right=${want#*::}
		IFS=: read -ra words <<<"$left"
		n=${#words[@]}
		IFS=: read -ra right <<<"$right"
		for ((; n < 8 - ${#right[@]}; n++)); do words+=(0); done
		words+=("${right[@]}")
		want=
		for word in "${words[@]}"; do printf -v want '%s:%04x' "$want" "0x$word"; done
		want=${want#:}
	fi
	(cd "/sys/class/infiniband/$1/ports/1/gids" 2>/dev/null && grep -lx "$want" {0..15} 2>/dev/null | head -n1 | grep .)
}

# counter DEVICE NAME: the value of a hardware counter of port 1.
counter() { cat "/sys/class/infiniband/$1/ports/1/hw_counters/$2"; }

# counters DEVICE: those that are not zero, in one line.
counters() {
	(cd "/sys/class/infiniband/$1/ports/1/hw_counters" 2>/dev/null && grep -H . * | grep -v -e ':0$' -e ^lifespan | tr '\n' ' ' | sed "s/^/    $1: /; s/ *\$/\n/")
}

# netem on|off: let the wire of two_ns lose, double, reorder and delay packets, in both directions.
netem() {
	case $1 in
	on)
		tc -n A qdisc replace dev va root netem $NETEM ${2:-} &&
			tc -n B qdisc replace dev vb root netem $NETEM ${2:-}
		;;
	off)
		tc -n A qdisc del dev va root
		tc -n B qdisc del dev vb root
		;;
	esac
}

# across NAME READY SERVER CLIENT: run the shell command SERVER in A and, when the condition READY holds, CLIENT in B. Both
# must succeed. READY: tcp:PORT or udp:PORT (a socket in A listens there) or cm:PORT (an RDMA listener).
#
# With ENDLESS=1 the server is one that serves for ever: it is ended after the client, and only the client's status counts.
#
# With TRIES=n a program that gave up sending is given n chances. These programs leave as soon as they have all they wait for; if
# the wire loses the last acknowledgement then, the other side asks a queue pair that is gone, which no driver can help.
across() {
	local name=$1 ready=$2 server=$3 client=$4 pid rc src n out=/tmp/across.$$ limit=$((60 * ${RXE_SLOW:-1} * ${RXE_PATIENCE:-1}))
	for ((n = 1; ; n++)); do
		rc=0 src=0
		rm -f $out.server $out.client
		timeout -k 5 "$limit" ip netns exec A sh -c "exec $server" >$out.server 2>&1 &
		pid=$!
		wait_for 20 ready_or_dead "$pid" "$ready"
		listening "$ready" || { rc=1; echo "the server does not listen ($ready)" >>$out.server; }
		[ $rc != 0 ] || timeout -k 5 "$limit" ip netns exec B sh -c "exec $client" >$out.client 2>&1 || rc=$?
		[ $rc = 0 ] && [ -z "${ENDLESS:-}" ] || kill "$pid" 2>/dev/null
		wait "$pid" || src=$?
		[ -z "${ENDLESS:-}" ] || src=0
		if [ $rc = 0 ] && [ $src = 0 ]; then
			pass "$name"
			break
		elif [ "$n" -lt "${TRIES:-1}" ] && [ $rc != 124 ] && [ $src != 124 ] && grep -q 'transport retry counter exceeded' $out.*; then
			echo "    $name: an acknowledgement at the end was lost, once more"
		else
			fail "$name (server $src, client $rc): $server -- $client"
			sed 's/^/    server: /' $out.server | tail -n 15
			[ ! -e $out.client ] || sed 's/^/    client: /' $out.client | tail -n 15
			counters rxeA
			counters rxeB
			break
		fi
	done
	rm -f $out.server $out.client
}

# local_listening READY: as listening, in this namespace.
local_listening() {
	case $1 in
	tcp:*) ss -Htln "sport = :${1#tcp:}" | grep -q . ;;
	udp:*) ss -Huln "sport = :${1#udp:}" | grep -q . ;;
	cm:*) rdma resource show cm_id | grep -q "LISTEN.*:${1#cm:} " ;;
	esac
}

ready_or_dead() { listening "$2" || ! kill -0 "$1" 2>/dev/null; }
listening() {
	case $1 in
	tcp:*) inA ss -Htln "sport = :${1#tcp:}" | grep -q . ;;
	udp:*) inA ss -Huln "sport = :${1#udp:}" | grep -q . ;;
	cm:*) rdma resource show cm_id | grep -q "LISTEN.*:${1#cm:} " ;;
	esac
}

# better REASON NAME COMMAND...: as check, but the C driver may fail, for REASON; then the check counts as skipped.
better() {
	local reason=$1 out
	shift
	if [ "${RXE_MODULE:-ours}" = stock ]; then
		if "${@:2}" >/dev/null 2>&1; then pass "$1"; else skipped "$1" "the C driver fails here: $reason"; fi
	else
		check "$@"
	fi
}
