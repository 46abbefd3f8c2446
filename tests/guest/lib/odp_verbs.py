# SPDX-License-Identifier: GPL-2.0
"""On-demand paging: what is announced, registering, changing and prefetching regions. Called by odp.py."""

import errno
import threading
import time

import pyverbs.enums as e
from pyverbs.mr import MR
from pyverbs.pd import PD

import ondemand
import verbs
from ondemand import DONTNEED, ON_DEMAND, PAGE, READ, WRITE, Memory, Region, advise, compare, do, join, with_region
from verbs import Endpoint

ACCESS = e.IBV_WC_REM_ACCESS_ERR


def announced(r, dev):
    caps = dev.ctx.query_device_ex().odp_caps
    rc = (e.IBV_ODP_SUPPORT_SEND | e.IBV_ODP_SUPPORT_RECV | e.IBV_ODP_SUPPORT_WRITE | e.IBV_ODP_SUPPORT_READ | e.IBV_ODP_SUPPORT_ATOMIC |
          e.IBV_ODP_SUPPORT_SRQ_RECV | 1 << 6 | 1 << 7)
    ud = e.IBV_ODP_SUPPORT_SEND | e.IBV_ODP_SUPPORT_RECV | e.IBV_ODP_SUPPORT_SRQ_RECV
    got = caps.general_caps, caps.rc_odp_caps, caps.uc_odp_caps, caps.ud_odp_caps
    r.check('what is announced: explicit regions, all of RC, messages of UD', got == (e.IBV_ODP_SUPPORT, rc, 0, ud), str(got))


def registering(r, a, b):
    """What is refused, and what must not be."""
    def outcome(*args, **options):
        try:
            Region(a, *args, **options).close()
        except OSError as error:
            return error.errno
        return 0

    memory = Memory(16 * PAGE)
    everything = Memory(PAGE)
    everything.addr, everything.size = 0, 2**64 - 1
    got = outcome(everything)
    r.check('all of the address space (implicit): EOPNOTSUPP', got == errno.EOPNOTSUPP, errno.errorcode.get(got, str(got)))
    everything.addr = PAGE
    got = outcome(everything)
    r.check('a range that wraps round is refused', got in (errno.EOVERFLOW, errno.EINVAL, errno.EFAULT), errno.errorcode.get(got, str(got)))
    got = outcome(memory, access=ON_DEMAND | 1 << 18)
    r.check('an access flag that does not exist is refused', got in (errno.EOPNOTSUPP, errno.EINVAL), str(got))

    memory.protect(0)
    got = outcome(memory)
    r.check('memory that may not be read can be registered', got == 0, str(got))
    # No more than what the interpreter does not take for itself.
    memory.unmap(0, 2 * PAGE)
    got = outcome(memory)
    r.check('and so can what is not mapped', got == 0, str(got))
    stop = threading.Event()

    def flicker():
        while not stop.is_set():
            memory.map(prot=0)
            memory.map()
            memory.protect(READ)

    t = threading.Thread(target=flicker)
    t.start()
    got = [outcome(memory) for _ in range(300)]
    stop.set()
    t.join()
    r.check('300 registrations while the mapping changes', not any(got), str(set(got)))
    memory.map()

    if not r.stock:
        # The C driver lets the regions go over into one another.
        changed(r, a, b, memory)


def changed(r, a, b, memory):
    """rereg_mr: what is changed counts from then on, and what is refused changes nothing."""
    other = PD(a.ctx)
    region, pinned = Region(a, memory), Region(a, memory, verbs.REMOTE)
    there, here = with_region(Endpoint(a, e.IBV_QPT_RC, 64), region), with_region(Endpoint(b, e.IBV_QPT_RC, 64), Region(b, Memory(16 * PAGE)))
    join(here, there)
    want = (errno.EOPNOTSUPP, errno.EINVAL)
    got = region.rereg(ondemand.REREG_ACCESS, verbs.REMOTE)
    r.check('a region cannot become pinned', got in want, str(got))
    got = pinned.rereg(ondemand.REREG_ACCESS, ON_DEMAND)
    r.check('nor be let go', got in want, str(got))
    got = region.rereg(ondemand.REREG_ACCESS, ON_DEMAND & ~e.IBV_ACCESS_REMOTE_WRITE)
    got = (got, do(here, there, e.IBV_WR_RDMA_WRITE, 100))
    r.check('rights can be taken', got == (0, [ACCESS]), str(got))
    join(here, there)
    new = Memory(8 * PAGE)
    got = region.rereg(ondemand.REREG_ACCESS | ondemand.REREG_TRANS, ON_DEMAND, memory=new)
    wrong = compare(here, there, e.IBV_WR_RDMA_WRITE, 9000, 5, 4091, 'rereg')
    r.check('and given again, with other memory', got == 0 and not wrong, f'{got} {wrong}')
    got = region.rereg(ondemand.REREG_ACCESS | ondemand.REREG_PD, ON_DEMAND | 1 << 18, pd=other)
    wrong = compare(here, there, e.IBV_WR_RDMA_WRITE, 9000, 5, 4091, 'refused')
    r.check('a change that is refused changes nothing', got in want and not wrong, f'{got} {wrong}')
    got = region.rereg(ondemand.REREG_PD, pd=other)
    got = (got, do(here, there, e.IBV_WR_RDMA_WRITE, 100))
    r.check('the protection domain can be changed', got == (0, [ACCESS]), str(got))
    join(here, there)
    readable = Region(a, memory, e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_ON_DEMAND)
    got = readable.rereg(ondemand.REREG_ACCESS, ON_DEMAND)
    r.check('memory that was registered to be read cannot be written by a change of rights', got == errno.EACCES, str(got))
    readable.close()
    pinned.close()
    for q in (here, there):
        q.close()


def prefetching(r, dev):
    memory = Memory(64 * PAGE)
    region = Region(dev, memory)
    whole = (memory.addr, memory.size, region.lkey)
    some = (memory.addr + 3 * PAGE + 5, 4 * PAGE, region.lkey)
    for name, advice in (('PREFETCH', ondemand.PREFETCH), ('PREFETCH_WRITE', ondemand.PREFETCH_WRITE)):
        memory.advise(DONTNEED)
        got = advise(dev, advice, ondemand.FLUSH, some)
        r.check(f'{name} brings in the pages of the range, and waits', (got, memory.present()) == (0, 5), f'{got} {memory.present()}')
        memory.advise(DONTNEED)
        got = advise(dev, advice, 0, some, (memory.addr + 20 * PAGE, PAGE, region.lkey))
        end = time.monotonic() + 5 * verbs.SLOW
        while memory.present() != 6 and time.monotonic() < end:
            time.sleep(0.01)
        r.check(f'{name} without waiting', (got, memory.present()) == (0, 6), f'{got} {memory.present()}')
    memory.advise(DONTNEED)
    got = advise(dev, ondemand.PREFETCH_NO_FAULT, ondemand.FLUSH, whole)
    r.check('PREFETCH_NO_FAULT brings in nothing', (got, memory.present()) == (0, 0), f'{got} {memory.present()}')
    big = Memory(32 << 20)
    large = Region(dev, big)
    got = advise(dev, ondemand.PREFETCH_WRITE, ondemand.FLUSH, (big.addr, big.size, large.lkey))
    r.check('PREFETCH_WRITE of 32 MiB', (got, big.present()) == (0, big.size // PAGE), f'{got} {big.present()}')

    readable = Region(dev, memory, e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_ON_DEMAND)
    got = advise(dev, ondemand.PREFETCH_WRITE, ondemand.FLUSH, (memory.addr, PAGE, readable.lkey))
    r.better('it looks for the right to write first', 'PREFETCH_WRITE of a region that may be read only: EPERM', got == errno.EPERM, str(got))
    got = advise(dev, ondemand.PREFETCH, ondemand.FLUSH, (memory.addr, PAGE, readable.lkey))
    r.better('it wants the right to write for it', 'PREFETCH of such a region', got == 0, str(got))
    got = advise(dev, ondemand.PREFETCH, ondemand.FLUSH, (memory.addr + 60 * PAGE, 5 * PAGE, region.lkey))
    r.check('a range beyond the region: EFAULT', got == errno.EFAULT, str(got))
    got = advise(dev, ondemand.PREFETCH, 0, (memory.addr + 60 * PAGE, 5 * PAGE, region.lkey))
    r.better('it finds out too late', 'also if nobody waits', got == errno.EFAULT, str(got))
    for flags in (0, ondemand.FLUSH):
        got = advise(dev, ondemand.PREFETCH, flags, whole, (memory.addr, PAGE, region.lkey ^ 1))
        r.check('a key that does not exist: EINVAL', got == errno.EINVAL, str(got))
    got = advise(dev, 77, ondemand.FLUSH, whole)
    r.check('advice that does not exist is refused', got in (errno.EOPNOTSUPP, errno.EINVAL), str(got))
    memory.protect(0)
    got = advise(dev, ondemand.PREFETCH, ondemand.FLUSH, whole)
    r.check('memory that may not be read: an error', got in (errno.EFAULT, errno.EPERM), str(got))
    memory.protect(READ | WRITE)
    if not r.stock:
        # The C driver takes the pinned region for one with on-demand paging.
        pinned = MR(dev.pd, PAGE, verbs.REMOTE)
        got = [advise(dev, ondemand.PREFETCH, flags, (pinned.buf, PAGE, pinned.lkey)) for flags in (0, ondemand.FLUSH)]
        r.check('a region that is pinned: EINVAL', got == [errno.EINVAL] * 2, str(got))
        pinned.close()
    wrong = 0
    for _ in range(50):
        big.advise(DONTNEED)
        short = Region(dev, big)
        wrong += advise(dev, ondemand.PREFETCH_WRITE, 0, (big.addr, 4 << 20, short.lkey)) != 0
        short.close()
    r.check('50 regions that end while they are prefetched', not wrong, str(wrong))
    for region in (region, readable, large):
        region.close()
    memory.close()
    big.close()
