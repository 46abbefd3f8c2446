#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# summary: SRP: the target's link, both links and the module go under I/O
# timeout: 300
# default: no
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib/wire.sh"
. "$(dirname "$0")/lib/nvme.sh"
. "$(dirname "$0")/lib/srp.sh"
. "$(dirname "$0")/lib/io.sh"

# Not run unless named. The first case hangs, with the C driver of 7.3.4 as with this one, so ib_srp or the block layer is thought to keep
# the requests; the second took longer than it was waited for once, the third about a minute.

# unplug_target: the target's device goes; the I/O ends when the initiator may not wait any longer (fast_io_fail_tmo). The device comes
# back while the initiator still asks for a connection, which takes a minute and a half to fail.
unplug_target() {
	srp_login 4 && srp_login 6 && io_ends "$(srp_disk_of 4 0)" target_away && srp_logout 4 && srp_logout 6
}
target_away() { rdma link del rxeA && sleep 6 && relink_a; }
relink_a() { srp_port_down && rdma link add rxeA type rxe netdev va && wait_for 5 link_active rxeA && srp_port_up; }

relink() { relink_a && srp_relink; }
both_links() { rdma link del rxeA & rdma link del rxeB; wait $!; }

half_ns || die 'no wire'
check 'the target offers three LUNs' srp_target_up || exit 1
check 'ib_srp' srp_initiator || exit 1
check 'the target'\''s link goes and comes back under I/O' unplug_target
check 'both links go at once under I/O' srp_unplug both_links
check 'the links come back' relink
check 'rmmod under I/O' srp_unplug rmmod rdma_rxe
check 'the module loads again' modprobe rdma_rxe
check 'ib_srp goes' wait_for 20 srp_no_initiator
check 'the target goes' srp_target_down
check 'the links go' half_ns_gone
finish
