# SPDX-License-Identifier: GPL-2.0
"""Memory regions of a process: changed in place, all or nothing; made of huge pages; with flags that need not do anything. Atomics.

The regions under test are rxeB's; rxeA writes to them and reads from them.
"""

import ctypes
import errno
import itertools
import mmap
import os
import struct

import pyverbs.enums as e
import verbs
from pyverbs.mr import MR, MW, MWBindInfo
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.wr import SendWR
from verbs import Device, Endpoint, Report

LENGTH = 3 * 4096
TRANS, PD_, ACCESS = e.IBV_REREG_MR_CHANGE_TRANSLATION, e.IBV_REREG_MR_CHANGE_PD, e.IBV_REREG_MR_CHANGE_ACCESS
OK, DENIED = e.IBV_WC_SUCCESS, e.IBV_WC_REM_ACCESS_ERR
READ_ONLY = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_READ
HUGE = 2 << 20
# Not in Python's module.
MAP_HUGETLB = 0x40000
# IB_USER_VERBS_CMD_REREG_MR of rdma/ib_user_verbs.h.
REREG_MR = 11


class Memory:
    """Anonymous memory of this process."""

    def __init__(self, length, flags=0):
        self.map = mmap.mmap(-1, length, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | flags)
        self.length = length
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))


class Domain:
    """A protection domain of a device, under the name of a device."""

    def __init__(self, dev):
        self.ctx, self.address, self.gid_index, self.pd, self.name = dev.ctx, dev.address, dev.gid_index, PD(dev.ctx), dev.name


def access(a, domain, key, address, length, opcode):
    """One READ or WRITE, by new QPs of which the responder's is in that domain, of the bytes of message 1. The status, and what was read."""
    here, there = verbs.pair(a, domain, e.IBV_QPT_RC)
    here.mr.write(verbs.message(1, length), length)
    here.post_send(1, length, 0, opcode, remote=(key, address))
    done = here.poll(1)
    status, data = done[0].status if done else None, here.mr.read(length, 0)
    here.close()
    there.close()
    return status, data


def write(a, domain, key, address, length=5000):
    return access(a, domain, key, address, length, e.IBV_WR_RDMA_WRITE)[0]


def read(a, domain, key, address, length=5000):
    return access(a, domain, key, address, length, e.IBV_WR_RDMA_READ)


def change(mr, flags, pd, address, rights):
    """The command itself: rdma-core's provider for this device does not offer it. Its error or 0, and the remote key."""
    answer = (ctypes.c_uint32 * 2)()
    command = struct.pack('=IHHQIIQQQII', REREG_MR, 14, 2, ctypes.addressof(answer), mr.handle, flags, address, LENGTH, address, pd.handle, rights)
    try:
        os.write(B.ctx.cmd_fd, command)
    except OSError as x:
        return x.errno, mr.rkey
    return 0, answer[1]


def rereg(r, a, b):
    """Every set of changes, with arguments that are right and with each that is wrong."""
    other = Domain(b)
    sets = [sum(s) for n in (1, 2, 3) for s in itertools.combinations((TRANS, PD_, ACCESS), n)]
    for flags in sets:
        names = '+'.join(n for n, f in (('translation', TRANS), ('domain', PD_), ('access', ACCESS)) if flags & f)
        old, new = Memory(LENGTH), Memory(LENGTH)
        # The bytes that a READ finds.
        old.map[:5000], new.map[:5000] = b'o' * 5000, b'n' * 5000
        mr = MR(b.pd, LENGTH, verbs.REMOTE, address=old.address)
        wrong = []
        if flags & ACCESS:
            wrong.append(('remote write without local write', (other.pd, new.address, e.IBV_ACCESS_REMOTE_WRITE)))
            wrong.append(('on-demand paging for memory that is pinned', (other.pd, new.address, verbs.REMOTE | e.IBV_ACCESS_ON_DEMAND)))
        if flags & TRANS:
            wrong.append(('memory that is not there', (other.pd, 4096, READ_ONLY)))
        for why, arguments in wrong:
            stock = 'it changes memory that is pinned' if 'demand' in why else 'it forgets what was before'
            r.better(stock, f'rereg {names}: {why} is refused', change(mr, flags, *arguments)[0] != 0)
            was = write(a, b, mr.rkey, old.address), write(a, other, mr.rkey, old.address)
            r.better(stock, f'rereg {names}: {why}: nothing has changed', was == (OK, DENIED) and old.map[:5000] == verbs.message(1, 5000), str(was))
            if was[0] != OK:
                mr.close()
                mr = MR(b.pd, LENGTH, verbs.REMOTE, address=old.address)
            old.map[:5000] = b'o' * 5000
        # A change of the memory is one of the address in the region as well.
        code, key = change(mr, flags, other.pd, new.address, READ_ONLY)
        r.better('it does not change memory', f'rereg {names}: done', code == 0, str(code))
        if code:
            mr.close()
            continue
        mine, foreign = (other, b) if flags & PD_ else (b, other)
        at, expected = (new.address, b'n') if flags & TRANS else (old.address, b'o')
        status, data = read(a, mine, key, at)
        r.check(f'rereg {names}: a READ finds what it should', status == OK and bytes(data) == expected * 5000, f'{status}')
        r.check(f'rereg {names}: not by the other domain', read(a, foreign, key, at)[0] == DENIED)
        status = write(a, mine, key, at)
        r.check(f'rereg {names}: a WRITE is {"refused" if flags & ACCESS else "done"}', status == (DENIED if flags & ACCESS else OK), str(status))
        if flags & TRANS:
            r.check(f'rereg {names}: the old memory is out of reach', read(a, mine, key, old.address)[0] == DENIED and old.map[:5000] == b'o' * 5000)
        mr.close()
    other.pd.close()


def huge(r, a, b):
    memory = Memory(2 * HUGE, MAP_HUGETLB)
    mr = MR(b.pd, 2 * HUGE, verbs.REMOTE, address=memory.address)
    for offset in (0, HUGE - 2500, 2 * HUGE - 5000):
        status = write(a, b, mr.rkey, memory.address + offset)
        r.check(f'huge pages: a WRITE at {offset}', status == OK and memory.map[offset:offset + 5000] == verbs.message(1, 5000), str(status))
    mr.close()
    code = 0
    try:
        MR(b.pd, 2 * HUGE, verbs.REMOTE | e.IBV_ACCESS_HUGETLB, address=memory.address)
    except PyverbsRDMAError as x:
        code = x.error_code
    r.check('huge pages: the flag is not for this device', code == errno.EOPNOTSUPP, str(code))


def optional(r, a, b):
    memory = Memory(LENGTH)
    mr = MR(b.pd, LENGTH, verbs.REMOTE | e.IBV_ACCESS_RELAXED_ORDERING, address=memory.address)
    r.check('relaxed ordering may be asked for', write(a, b, mr.rkey, memory.address) == OK and memory.map[:5000] == verbs.message(1, 5000))
    mr.close()


def edges(r, a, b):
    """The first and the last byte of a region that begins and ends within pages, and the bytes beside it."""
    memory = Memory(LENGTH)
    start, length = memory.address + 4095, 4098
    mr = MR(b.pd, length, verbs.REMOTE, address=start)
    for offset, n, expected in ((0, 1, OK), (length - 1, 1, OK), (0, length, OK), (-1, 1, DENIED), (length, 1, DENIED), (length - 1, 2, DENIED),
                                (-1, length + 2, DENIED)):
        memory.map[:] = b'\0' * LENGTH
        status = write(a, b, mr.rkey, start + offset, n)
        want = bytearray(LENGTH)
        if expected == OK:
            want[4095 + offset:4095 + offset + n] = verbs.message(1, n)
        r.check(f'a region of {length} bytes: {n} bytes at {offset}: {expected}', status == expected and memory.map[:] == bytes(want), str(status))
    mr.close()


def window(domain, qp, mr, rights=e.IBV_ACCESS_REMOTE_WRITE):
    """A window of type 2 on the second page of a region, bound through a QP."""
    mw = MW(domain.pd, e.IBV_MW_TYPE_2)
    wr = SendWR(wr_id=77, opcode=e.IBV_WR_BIND_MW, send_flags=e.IBV_SEND_SIGNALED)
    wr.set_bind_wr(mw, MWBindInfo(mr, mr.buf + 4096, 4096, rights))
    qp.qp.post_send(wr)
    done = qp.poll(1)
    assert [w.status for w in done] == [OK], done
    # The library's next key.
    return mw, mw.rkey & ~0xff | mw.rkey + 1 & 0xff


def invalidate(here, key):
    """A SEND that invalidates a key of the other side. Its status."""
    here.qp.post_send(SendWR(wr_id=78, opcode=e.IBV_WR_SEND_WITH_INV, num_sge=1, sg=[here.sge(100)], imm_data=key, send_flags=e.IBV_SEND_SIGNALED))
    done = here.poll(1)
    return done[0].status if done else None


def windows(r, a, b):
    """Who may reach memory through a window, and who may take the window away."""
    other = Domain(b)
    mr = MR(b.pd, LENGTH, verbs.REMOTE | e.IBV_ACCESS_MW_BIND)
    here, there = verbs.pair(a, b, e.IBV_QPT_RC)
    mw, key = window(b, there, mr)

    def reach(end, address, length, opcode=e.IBV_WR_RDMA_WRITE):
        end.mr.write(verbs.message(1, length), length)
        end.post_send(1, length, 0, opcode, remote=(key, address))
        done = end.poll(1)
        return done[0].status if done else None

    r.check('window: a WRITE through it', reach(here, mr.buf + 4096, 4096) == OK and mr.read(4096, 4096) == verbs.message(1, 4096))
    for what, domain in (('another QP of the same domain', b), ('a QP of another domain', other)):
        for how, act in (('reach', lambda end: reach(end, mr.buf + 4096, 100)), ('invalidate', lambda end: invalidate(end, key))):
            stranger, victim = verbs.pair(a, domain, e.IBV_QPT_RC)
            victim.post_recv(1, 100)
            status = act(stranger)
            if how == 'invalidate':
                # The message has arrived, and is acknowledged; the receiver is told that it asked for something else as well.
                status = [w.status for w in victim.poll(1)]
                good = status == [e.IBV_WC_REM_INV_REQ_ERR] and victim.becomes('ERR')
            else:
                good = status == DENIED
            r.better('it looks the key up and nothing else', f'window: {what} may not {how} it', good, str(status))
            stranger.close()
            victim.close()
            status = reach(here, mr.buf + 4096, 4096)
            r.better('it looks the key up and nothing else', f'window: its own QP still may, after {what} tried to {how} it', status == OK, str(status))
            if status != OK:
                return
    there.post_recv(1, 100)
    r.check('window: its own QP may have it invalidated', invalidate(here, key) == OK)
    r.check('window: nobody reaches it then', reach(here, mr.buf + 4096, 100) == DENIED)
    here.close()
    there.close()
    # Beyond its edges there is more of the region, which the window does not give.
    for offset, length in ((-1, 1), (4096, 1), (4095, 2), (-1, 4098)):
        here, there = verbs.pair(a, b, e.IBV_QPT_RC)
        mw2, key = window(b, there, mr)
        status = reach(here, mr.buf + 4096 + offset, length)
        r.better('a window gives the whole region', f'window: {length} bytes at {offset} are refused', status == DENIED, str(status))
        mw2.close()
        here.close()
        there.close()
    mw.close()
    mr.close()
    other.pd.close()


def atomics(r, a, b):
    """Both devices add to one word."""
    memory = Memory(4096)
    mr = MR(b.pd, 4096, verbs.REMOTE, address=memory.address)
    count, rounds = 32, 8
    ends = [verbs.pair(dev, b, e.IBV_QPT_RC) for dev in (a, b, a, b)]
    values = []
    for i in range(rounds):
        for j, (here, _) in enumerate(ends):
            for k in range(count):
                wr = SendWR(wr_id=k, opcode=e.IBV_WR_ATOMIC_FETCH_AND_ADD, num_sge=1, sg=[here.sge(8, 8 * k)], send_flags=e.IBV_SEND_SIGNALED)
                wr.set_wr_atomic(mr.rkey, memory.address + 8, 1 << 16 * j, 0)
                here.qp.post_send(wr)
        for j, (here, _) in enumerate(ends):
            done = here.poll(count)
            if [w.status for w in done] != [OK] * count:
                r.check('atomics: all are done', False, str([w.status for w in done]))
                return
            values += [int.from_bytes(here.mr.read(8, 8 * k), 'little') for k in range(count)]
    total = int.from_bytes(memory.map[8:16], 'little')
    r.check('atomics of two devices and four QPs: the sum is right', total == sum(count * rounds << 16 * j for j in range(4)), hex(total))
    r.check('atomics of two devices and four QPs: each saw another value', len(set(values)) == len(values))
    for here, there in ends:
        here.close()
        there.close()
    mr.close()


report = Report()
A, B = Device('rxeA', '10.77.0.1'), Device('rxeB', '10.77.0.2')
for part in (rereg, huge, optional, edges, windows, atomics):
    part(report, A, B)
report.exit()
