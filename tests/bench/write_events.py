#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""write_events.py DEVICE GID_INDEX SIZE COUNT QPS [SERVER]: WRITE with completions awaited on a channel; port 18515, as perftest.

perftest polls for completions of WRITE, and where the clock counts instructions its polling would be counted. This posts lists of
32 requests, the last of them signalled, keeps two lists on the way, and sleeps on the channel. Prints `ns N`: nanoseconds per WRITE.
"""

import json
import socket
import sys
import time

from pyverbs import enums as e
from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

LIST, AHEAD, PORT = 32, 2, 18515


def lines(connection):
    return connection.makefile("rw", encoding="ascii")


def main():
    device, gid_index, size, count, qps = sys.argv[1], *map(int, sys.argv[2:6])
    server = sys.argv[6] if len(sys.argv) > 6 else None
    context = Context(name=device)
    pd = PD(context)
    mr = MR(pd, size, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE)
    channel = CompChannel(context)
    cq = CQ(context, AHEAD * qps + 8, None, channel, 0)
    # The C driver shows a completion before it frees the places of the list.
    pairs = [QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap((AHEAD + 1) * LIST, 1, 1, 1), sq_sig_all=0)) for _ in range(qps)]

    if server:
        other = socket.create_connection((server, PORT))
    else:
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(("", PORT))
            s.listen(1)
            other, _ = s.accept()
    stream = lines(other)
    stream.write(json.dumps([str(context.query_gid(1, gid_index)), [q.qp_num for q in pairs], mr.buf, mr.rkey]) + "\n")
    stream.flush()
    gid, numbers, address, rkey = json.loads(stream.readline())

    mtu = context.query_port(1).active_mtu
    for q, number in zip(pairs, numbers):
        attr = QPAttr(port_num=1)
        attr.dest_qp_num = number
        attr.path_mtu = mtu
        attr.rq_psn = attr.sq_psn = 0
        attr.timeout, attr.retry_cnt, attr.rnr_retry = 14, 7, 7
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
        attr.qp_access_flags = e.IBV_ACCESS_REMOTE_WRITE
        attr.ah_attr = AHAttr(gr=GlobalRoute(dgid=GID(gid), sgid_index=gid_index), is_global=1, port_num=1)
        q.to_rts(attr)

    if server:
        # A request does not keep the next one of its list alive.
        chains, requests = [], []
        for _ in pairs:
            wr = None
            for i in range(LIST):
                new = SendWR(wr_id=i, opcode=e.IBV_WR_RDMA_WRITE, num_sge=1, sg=[SGE(mr.buf, size, mr.lkey)],
                             send_flags=0 if i else e.IBV_SEND_SIGNALED, next_wr=wr)
                new.set_wr_rdma(rkey, address)
                requests.append(new)
                wr = new
            chains.append(wr)
        # The first lists are not measured.
        run(pairs, chains, cq, channel, 2 * AHEAD)
        each = max(count // LIST, 1)
        start = time.monotonic_ns()
        run(pairs, chains, cq, channel, each)
        print("ns", (time.monotonic_ns() - start) / (each * LIST * qps))
        stream.write("done\n")
        stream.flush()
    else:
        stream.readline()


def run(pairs, chains, cq, channel, each):
    """Posts `each` lists on every QP and waits for them."""
    by_number = {q.qp_num: i for i, q in enumerate(pairs)}
    left = [each] * len(pairs)

    def post(i):
        if left[i]:
            left[i] -= 1
            pairs[i].post_send(chains[i])

    waiting = each * len(pairs)
    cq.req_notify()
    for _ in range(AHEAD):
        for i in range(len(pairs)):
            post(i)
    while waiting:
        channel.get_cq_event(cq)
        cq.ack_events(1)
        cq.req_notify()
        while True:
            n, done = cq.poll(16)
            for wc in done:
                if wc.status != e.IBV_WC_SUCCESS:
                    raise SystemExit(f"a WRITE failed with status {wc.status}")
                waiting -= 1
                post(by_number[wc.qp_num])
            if n < 16:
                break


main()
