# SPDX-License-Identifier: GPL-2.0
"""Queue pairs for the guest suites, on top of pyverbs: both ends of a connection in one process, without a connection manager.

In a guest every process may open every RDMA device (the RDMA subsystem is in shared mode), so one process can hold QPs on the
links of two namespaces.
"""

import ctypes
import errno
import ipaddress
import os
import select
import struct
import sys
import time

import pyverbs.enums as e
from pyverbs.addr import AH, AHAttr, GID, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

SLOW = float(os.environ.get('RXE_SLOW', '1')) * float(os.environ.get('RXE_PATIENCE', '1'))
QKEY = 0x11111111
# The core tells of an active port after sysfs shows it, and of its link-local address when that has proved unique.
COMES_UP = {e.IBV_EVENT_PORT_ACTIVE, e.IBV_EVENT_GID_CHANGE}
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


def resolved(what, attempts=5):
    """What `what` returns. The kernel asks a second for the neighbour's address, so one lost packet ends it; then it is called again."""
    while True:
        try:
            return what()
        except PyverbsRDMAError as err:
            attempts -= 1
            if err.error_code != errno.ETIMEDOUT or not attempts:
                raise
            print('        the address of the peer was not found in time, once more', flush=True)


def event_files():
    """The file descriptors of this process that uverbs reports events by."""
    found = set()
    for fd in os.listdir('/proc/self/fd'):
        try:
            if os.readlink(f'/proc/self/fd/{fd}') == 'anon_inode:[infinibandevent]':
                found.add(int(fd))
        except FileNotFoundError:
            pass
    return found


class Device:
    """An opened device with one protection domain, and the GID of one address on it."""

    def __init__(self, name, address):
        self.name, self.address = name, address
        before = event_files()
        self.ctx = Context(name=name)
        # The library does not tell which it is, and waits for ever in get_async_event().
        self.async_fd = (event_files() - before).pop()
        self.pd = PD(self.ctx)
        self.gid_index = gid_index(name, address)

    def events(self, n=1, seconds=10.0):
        """The types of up to `n` asynchronous events; fewer if they do not come in time.

        Not those of a port that comes up (COMES_UP): on a fresh wire they may arrive after the device was opened.
        """
        got, end = [], time.monotonic() + seconds * SLOW
        while len(got) < n and select.select([self.async_fd], [], [], max(0, end - time.monotonic()))[0]:
            event = self.ctx.get_async_event()
            if event.event_type not in COMES_UP:
                got.append(event.event_type)
            event.ack()
        return got

    def counters(self):
        d = f'/sys/class/infiniband/{self.name}/ports/1/hw_counters'
        out = {}
        for n in os.listdir(d):
            if n == 'lifespan':
                continue
            with open(f'{d}/{n}') as f:
                out[n] = int(f.read())
        return out


class SharedQueue:
    """A shared receive queue whose requests all use one memory region of `size` bytes."""

    def __init__(self, dev, max_wr, size=65536):
        self.dev, self.size = dev, size
        self.mr = MR(dev.pd, size, REMOTE)
        self.srq = SRQ(dev.pd, SrqInitAttr(SrqAttr(max_wr=max_wr, max_sge=1)))

    def post_recv(self, wr_id, length, offset=0):
        self.srq.post_recv(RecvWR(wr_id=wr_id, num_sge=1, sg=[SGE(self.mr.buf + offset, length, self.mr.lkey)]))

    def query(self):
        return self.srq.query()

    def resize(self, max_wr):
        self.srq.modify(SrqAttr(max_wr=max_wr), e.IBV_SRQ_MAX_WR)

    def set_limit(self, limit):
        self.srq.modify(SrqAttr(srq_limit=limit), e.IBV_SRQ_LIMIT)

    def close(self):
        self.srq.close()
        self.mr.close()


class Endpoint:
    """A QP of any type with its own CQ and one memory region of `size` bytes.

    With `send_cqe` or `recv_cqe` the completions of that side have a queue of their own, of that many entries.
    """

    def __init__(self, dev, qp_type, size=65536, depth=64, send_cqe=0, recv_cqe=0, srq=None):
        self.dev, self.qp_type, self.size = dev, qp_type, size
        self.mr = MR(dev.pd, size, REMOTE)
        self.cq = CQ(dev.ctx, 4 * depth)
        self.send_cq = CQ(dev.ctx, send_cqe) if send_cqe else self.cq
        self.recv_cq = CQ(dev.ctx, recv_cqe) if recv_cqe else self.cq
        cap = QPCap(max_send_wr=depth, max_recv_wr=depth, max_send_sge=2, max_recv_sge=2)
        init = QPInitAttr(qp_type=qp_type, scq=self.send_cq, rcq=self.recv_cq, cap=cap, srq=srq.srq if srq else None)
        self.qp = QP(dev.pd, init)
        self.handles = {}
        self.groups = set()

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
        resolved(lambda: self.qp.to_rts(a))

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

    def poll(self, n, seconds=10.0, cq=None):
        """Up to `n` completions; fewer if they do not come in time."""
        got, end = [], time.monotonic() + seconds * SLOW
        while len(got) < n and time.monotonic() < end:
            k, wcs = (cq or self.cq).poll(n - len(got))
            got += wcs
            if not k:
                time.sleep(0.001)
        return got

    def address_handle(self, address):
        """A handle for datagrams; kept, because requests name it until they have completed."""
        if address not in self.handles:
            self.handles[address] = resolved(lambda: AH(self.dev.pd, attr=self.ah_attr(address)))
        return self.handles[address]

    def to_error(self):
        self.qp.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)

    def becomes(self, state, seconds=10.0):
        """Whether the QP is in that state before the time is over."""
        end = time.monotonic() + seconds * SLOW
        while self.state() != state:
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        return True

    def library_qp(self):
        """The address of the library's QP, which pyverbs keeps to itself."""
        with open('/proc/self/mem', 'rb', buffering=0) as mem:
            mem.seek(id(self.qp))
            for (word,) in struct.iter_unpack('Q', mem.read(self.qp.__sizeof__() // 8 * 8)):
                try:
                    # Its number is behind six pointers and the handle.
                    mem.seek(word + 52)
                    found = mem.read(4)
                except (OSError, OverflowError, ValueError):
                    continue
                if word % 8 == 0 and found == struct.pack('I', self.qpn):
                    return ctypes.c_void_p(word)
        raise LookupError('no QP behind the object')

    def multicast(self, call, group):
        gid = bytes.fromhex(gid_of(group).replace(':', ''))
        if rc := ctypes.CDLL('libibverbs.so.1')[call](self.library_qp(), gid, ctypes.c_uint16(0)):
            raise OSError(rc, call)

    def attach(self, group):
        """Becomes a member of a multicast group, for which pyverbs has nothing."""
        self.multicast('ibv_attach_mcast', group)
        self.groups.add(group)

    def detach(self, group):
        self.multicast('ibv_detach_mcast', group)
        self.groups.remove(group)

    def close(self):
        for group in list(self.groups):
            self.detach(group)
        for handle in self.handles.values():
            handle.close()
        self.qp.close()
        self.handles.clear()
        for cq in {self.cq, self.send_cq, self.recv_cq}:
            cq.close()
        self.mr.close()


def pair(a, b, qp_type, timeout=14, **options):
    """Two connected endpoints. `timeout`: the local ACK timeout, 4.096 us * 2^timeout."""
    here, there = Endpoint(a, qp_type, **options), Endpoint(b, qp_type, **options)
    here.connect(there, timeout=timeout)
    there.connect(here, timeout=timeout)
    return here, there


def message(number, length):
    """The bytes of the message of that number."""
    return (b'%08d' % number * (length // 8 + 1))[:length]


def exchange(here, there, lengths, first=0):
    """One message of each length from `there` to `here`, one after the other. None, or what went wrong."""
    grh = 40 if here.qp_type == e.IBV_QPT_UD else 0
    ud = (there.address_handle(here.dev.address), here.qpn, QKEY) if grh else None
    for i, length in enumerate(lengths, first):
        there.mr.write(message(i, length), length)
        here.post_recv(i, length + grh)
        there.post_send(i, length, ud=ud)
        done, got = there.poll(1), here.poll(1)
        for side, wcs in (('sender', done), ('receiver', got)):
            if not wcs or wcs[0].status != e.IBV_WC_SUCCESS:
                return f'message {i} of {length} bytes: {side}: {wcs[0].status if wcs else "nothing"}'
        if got[0].wr_id != i or got[0].byte_len != length + grh or here.mr.read(length, grh) != message(i, length):
            return f'message {i} of {length} bytes arrived as {got[0].byte_len} bytes, or damaged'
    return None


class Report:
    """Lines the harness understands, and an exit status."""

    def __init__(self):
        self.failed = 0
        self.stock = os.environ.get('RXE_MODULE') == 'stock'

    def better(self, reason, what, good, detail=''):
        """As check, but the C driver may fail, for `reason`; then the check counts as skipped."""
        if good or not self.stock:
            return self.check(what, good, detail)
        print(f'{time.monotonic():7.1f} skip {what}: the C driver fails here: {reason}', flush=True)
        return False

    def check(self, what, good, detail=''):
        print(f'{time.monotonic():7.1f} ' + ('ok   ' if good else 'FAIL ') + what + (f': {detail}' if detail and not good else ''), flush=True)
        self.failed += not good
        return good

    def exit(self):
        # At once: what is still open is closed by the kernel, and the library's own clean-up at exit is noisy.
        sys.stdout.flush()
        os._exit(1 if self.failed else 0)
