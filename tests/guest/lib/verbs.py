# SPDX-License-Identifier: GPL-2.0
"""Queue pairs for the guest suites, on top of pyverbs: both ends of a connection in one process, without a connection manager.

In a guest every process may open every RDMA device (the RDMA subsystem is in shared mode), so one process can hold QPs on the
links of two namespaces.
"""

import ipaddress
import os
import sys
import time

import pyverbs.enums as e
from pyverbs.addr import AH, AHAttr, GID, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

SLOW = float(os.environ.get('RXE_SLOW', '1')) * float(os.environ.get('RXE_PATIENCE', '1'))
QKEY = 0x11111111
STATES = ['RESET', 'INIT', 'RTR', 'RTS', 'SQD', 'SQE', 'ERR']
REMOTE = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_ATOMIC


def gid_of(address):
    h = ipaddress.ip_address(address).packed.rjust(6, b'\xff').rjust(16, b'\0').hex()
    return ':'.join(h[i:i + 4] for i in range(0, 32, 4))


def gid_index(device, address):
    want = gid_of(address)
    for i in range(16):
        with open(f'/sys/class/infiniband/{device}/ports/1/gids/{i}') as f:
            if f.read().strip() == want:
                return i
    raise LookupError(f'{device} has no GID {want}')


class Device:
    """An opened device with one protection domain, and the GID of one address on it."""

    def __init__(self, name, address):
        self.name, self.address = name, address
        self.ctx = Context(name=name)
        self.pd = PD(self.ctx)
        self.gid_index = gid_index(name, address)

    def counters(self):
        d = f'/sys/class/infiniband/{self.name}/ports/1/hw_counters'
        out = {}
        for n in os.listdir(d):
            if n == 'lifespan':
                continue
            with open(f'{d}/{n}') as f:
                out[n] = int(f.read())
        return out


class Endpoint:
    """A QP of any type with its own CQ and one memory region of `size` bytes."""

    def __init__(self, dev, qp_type, size=65536, depth=64):
        self.dev, self.qp_type, self.size = dev, qp_type, size
        self.mr = MR(dev.pd, size, REMOTE)
        self.cq = CQ(dev.ctx, 4 * depth)
        cap = QPCap(max_send_wr=depth, max_recv_wr=depth, max_send_sge=2, max_recv_sge=2)
        init = QPInitAttr(qp_type=qp_type, scq=self.cq, rcq=self.cq, cap=cap)
        self.qp = QP(dev.pd, init)
        self.peer = None
        self.handles = {}

    @property
    def qpn(self):
        return self.qp.qp_num

    def ah_attr(self, address):
        return AHAttr(port_num=1, is_global=True,
                      gr=GlobalRoute(dgid=GID(gid_of(address)), sgid_index=self.dev.gid_index, hop_limit=64))

    def connect(self, peer=None, psn=0, mtu=e.IBV_MTU_1024, address=None, peer_qpn=None, timeout=14):
        """To RTS, towards `peer` (or an address and QPN that need not exist). The first PSN is `psn` in both directions."""
        a = QPAttr(port_num=1)
        if self.qp_type == e.IBV_QPT_UD:
            a.qkey = QKEY
        a.qp_access_flags = REMOTE
        a.path_mtu, a.rq_psn, a.sq_psn = mtu, psn, psn
        a.max_rd_atomic = a.max_dest_rd_atomic = 4
        a.min_rnr_timer, a.timeout, a.retry_cnt, a.rnr_retry = 12, timeout, 7, 7
        a.dest_qp_num = peer.qpn if peer else (peer_qpn or 0)
        a.ah_attr = self.ah_attr(address or peer.dev.address)
        self.qp.to_rts(a)
        self.peer = peer

    def reset(self):
        a = QPAttr(qp_state=e.IBV_QPS_RESET)
        self.qp.modify(a, e.IBV_QP_STATE)

    def query(self):
        return self.qp.query(e.IBV_QP_STATE | e.IBV_QP_SQ_PSN | e.IBV_QP_RQ_PSN)[0]

    def state(self):
        return STATES[self.query().qp_state]

    def sge(self, length, offset=0):
        return SGE(self.mr.buf + offset, length, self.mr.lkey)

    def post_recv(self, wr_id, length, offset=0):
        self.qp.post_recv(RecvWR(wr_id=wr_id, num_sge=1, sg=[self.sge(length, offset)]))

    def post_send(self, wr_id, length, offset=0, opcode=e.IBV_WR_SEND, remote=None, ud=None):
        wr = SendWR(wr_id=wr_id, opcode=opcode, num_sge=1, sg=[self.sge(length, offset)], send_flags=e.IBV_SEND_SIGNALED)
        if remote:
            wr.set_wr_rdma(*remote)
        if ud:
            wr.set_wr_ud(*ud)
        self.qp.post_send(wr)

    def poll(self, n, seconds=10.0):
        """Up to `n` completions; fewer if they do not come in time."""
        got, end = [], time.monotonic() + seconds * SLOW
        while len(got) < n and time.monotonic() < end:
            k, wcs = self.cq.poll(n - len(got))
            got += wcs
            if not k:
                time.sleep(0.001)
        return got

    def address_handle(self, address):
        """A handle for datagrams; kept, because requests name it until they have completed."""
        if address not in self.handles:
            self.handles[address] = AH(self.dev.pd, attr=self.ah_attr(address))
        return self.handles[address]

    def close(self):
        self.qp.close()
        self.cq.close()
        self.mr.close()


class Report:
    """Lines the harness understands, and an exit status."""

    def __init__(self):
        self.failed = 0

    def check(self, what, good, detail=''):
        print(f'{time.monotonic():7.1f} ' + ('ok   ' if good else 'FAIL ') + what + (f': {detail}' if detail and not good else ''), flush=True)
        self.failed += not good
        return good

    def exit(self):
        # At once: what is still open is closed by the kernel, and the library's own clean-up at exit is noisy.
        sys.stdout.flush()
        os._exit(1 if self.failed else 0)
