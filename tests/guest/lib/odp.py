# SPDX-License-Identifier: GPL-2.0
"""On-demand paging: memory regions whose pages come, go and change under the traffic.

Both ends are in this process. What a request writes is compared byte by byte with what it must have written, and so is what lies before and
behind it.
"""

import os
import random
import signal
import subprocess
import sys
import threading
import time

import pyverbs.enums as e
from pyverbs.mr import MR, MW, MWBind, MWBindInfo
from pyverbs.qp import QPCap, QPEx, QPInitAttrEx
from pyverbs.wr import SGE, SendWR

import odp_verbs
import ondemand
import verbs
from ondemand import DONTNEED, ON_DEMAND, PAGE, READ, WRITE, Memory, Region, compare, do, fine, join, on_demand_pair, with_region
from verbs import Device, Endpoint, Report, SharedQueue

SUCCESS, ACCESS, PROTECTION = e.IBV_WC_SUCCESS, e.IBV_WC_REM_ACCESS_ERR, e.IBV_WC_LOC_PROT_ERR
OFFSETS = (0, 1, 7, 8, 100, 1024, 2047, 4088, 4095)
LENGTHS = (1, 2, 8, 63, 64, 1000, 1023, 1024, 1025, 2048, 4095, 4096, 4097, 5000, 8191, 8192, 8193, 9000)
OPS = (('WRITE', e.IBV_WR_RDMA_WRITE), ('READ', e.IBV_WR_RDMA_READ), ('SEND', e.IBV_WR_SEND))


def byte_exact(r, a, b):
    """Every kind of transfer, at every kind of place."""
    rng = random.Random(38)
    whole = not r.stock
    for mtu in (e.IBV_MTU_1024, e.IBV_MTU_4096):
        pairs = {'': {}}
        if whole:
            # An I/O address that is not the address of the memory, and a region that begins inside a page.
            pairs[', other I/O address'] = {'offset': 123, 'iova': 0x123450000000 + 123}
        for label, region in pairs.items():
            here, there = on_demand_pair(a, b, mtu=mtu, **region)
            for name, op in OPS:
                wrong = None
                places = [(n, o, p) for n in LENGTHS for o in OFFSETS for p in rng.sample(OFFSETS, 1)]
                places += [(rng.randint(1, 9000), rng.randint(0, 4095), rng.randint(0, 4095)) for _ in range(100)]
                for length, local, remote in places:
                    wrong = compare(here, there, op, length, local, remote, name)
                    if wrong:
                        break
                r.better('it ignores the offset in the page', f'{name}, MTU {128 << mtu}: {len(places)} transfers, byte by byte{label}',
                         not wrong, str(wrong))
                if wrong and here.state() == 'ERR':
                    join(here, there, mtu)
            for q in (here, there):
                q.close()
                q.mr.memory.close()


def other_kinds(r, a, b):
    """UC, UD and shared receive queues."""
    for name, kind in (('UC', e.IBV_QPT_UC), ('UD', e.IBV_QPT_UD)):
        here, there = on_demand_pair(a, b, kind)
        wrong = verbs.exchange(here, there, (1, 100, 1000, 4000)) or verbs.exchange(there, here, (1, 100, 1000, 4000))
        r.better('it ignores the offset in the page', f'{name}: messages', not wrong, str(wrong))
        for q in (here, there):
            q.close()
    queue = SharedQueue(a, 16)
    queue.mr.close()
    queue.mr = Region(a, Memory(65536))
    here = Endpoint(a, e.IBV_QPT_RC, srq=queue)
    there = with_region(Endpoint(b, e.IBV_QPT_RC), Region(b, Memory(65536)))
    join(here, there)
    wrong = None
    for i, (length, offset) in enumerate(((100, 0), (5000, 4000), (9000, 4095), (4096, 8192))):
        there.mr.write(verbs.message(i, length))
        queue.mr.memory.advise(DONTNEED)
        queue.post_recv(i, length, offset)
        there.post_send(i, length)
        got = [w.status for w in there.poll(1) + here.poll(1)]
        if got != [SUCCESS] * 2 or queue.mr.read(length, offset) != verbs.message(i, length):
            wrong = f'{length} bytes to {offset}: {got}'
            break
    r.better('it ignores the offset in the page', 'shared receive queue', not wrong, str(wrong))
    for q in (here, there, queue):
        q.close()


def comes_and_goes(r, a, b):
    """Nothing is pinned: pages are brought in by the traffic, taken away, replaced."""
    size = 4 << 20
    here, there = on_demand_pair(a, b, size=size)
    memory = there.mr.memory
    r.check('registration brings in no page', memory.present() == 0, str(memory.present()))
    got = do(here, there, e.IBV_WR_RDMA_READ, 9000, 0, 20 * PAGE)
    r.check('READ of memory that nobody has touched: zeros', got == [SUCCESS] and here.mr.read(9000) == bytes(9000), str(got))
    here.mr.write(verbs.message(1, 8192))
    got = do(here, there, e.IBV_WR_RDMA_WRITE, 8192, 0, 40 * PAGE)
    r.check('WRITE to memory that nobody has touched', got == [SUCCESS] and there.mr.read(4096, 40 * PAGE) == verbs.message(1, 4096), str(got))
    r.check('and no more than that is brought in', memory.present() < 8, str(memory.present()))

    memory.advise(DONTNEED)
    got = do(here, there, e.IBV_WR_RDMA_READ, 4096, 0, 40 * PAGE)
    r.check('READ of what the process has thrown away: zeros', got == [SUCCESS] and here.mr.read(4096) == bytes(4096), str(got))
    wrong = None
    for i in range(200):
        memory.advise(DONTNEED)
        here.mr.write(verbs.message(i, PAGE))
        got = do(here, there, e.IBV_WR_RDMA_WRITE, PAGE, 0, 7 * PAGE)
        if got != [SUCCESS] or there.mr.read(PAGE, 7 * PAGE) != verbs.message(i, PAGE):
            wrong = f'{i}: {got}'
            break
        memory.map()
        memory.write(verbs.message(1000 + i, PAGE), offset=7 * PAGE)
        got = do(here, there, e.IBV_WR_RDMA_READ, PAGE, 0, 7 * PAGE)
        if got != [SUCCESS] or here.mr.read(PAGE) != verbs.message(1000 + i, PAGE):
            wrong = f'{i}, mapped anew: {got}'
            break
    r.check('200 times thrown away, written, mapped anew, read: the page that is there at the time', not wrong, str(wrong))

    keep = verbs.pair(a, b, e.IBV_QPT_RC)
    memory.unmap(64 * PAGE, 2 * PAGE)
    for name, op in OPS[:2]:
        got = do(here, there, op, 100, 0, 64 * PAGE + 8)
        r.check(f'{name} of what is not mapped: the peer is refused', got == [ACCESS], str(got))
        join(here, there)
    got = do(here, there, e.IBV_WR_RDMA_WRITE, PAGE, 0, 64 * PAGE - 8)
    r.check('so is a WRITE that begins in front of it', got == [ACCESS], str(got))
    join(here, there)
    here.mr.memory.unmap(64 * PAGE, PAGE)
    got = do(here, there, e.IBV_WR_RDMA_WRITE, 100, 64 * PAGE)
    r.better('it only flushes', 'WRITE from what is not mapped: LOC_PROT_ERR', got == [PROTECTION], str(got))
    join(here, there)
    memory.map(64 * PAGE, 2 * PAGE)
    got = do(here, there, e.IBV_WR_RDMA_READ, 100, 0, 64 * PAGE)
    r.check('mapped again, it is served', got == [SUCCESS], str(got))

    memory.write(b'old' * 1000)
    memory.protect(READ)
    got = do(here, there, e.IBV_WR_RDMA_READ, 3000)
    r.check('READ of memory that may be read only', got == [SUCCESS] and here.mr.read(3000) == b'old' * 1000, str(got))
    here.mr.write(b'new' * 1000)
    got = do(here, there, e.IBV_WR_RDMA_WRITE, 3000)
    r.check('WRITE to it: the peer is refused', got == [ACCESS] and memory.read(3000) == b'old' * 1000, str(got))
    join(here, there)
    memory.protect(0)
    got = do(here, there, e.IBV_WR_RDMA_READ, 100)
    r.check('READ of memory that may not be read: the peer is refused', got == [ACCESS], str(got))
    join(here, there)
    memory.protect(READ | WRITE)
    got = do(here, there, e.IBV_WR_RDMA_WRITE, 3000)
    r.check('and may be again', got == [SUCCESS] and memory.read(3000) == b'new' * 1000, str(got))
    wrong = verbs.exchange(*keep, (100, 5000))
    r.check('queue pairs that had no part in it work', not wrong, str(wrong))
    for q in (here, there, *keep):
        q.close()


def forked(r, a, b):
    """Copy-on-write: what arrives after a fork is the parent's."""
    here, there = on_demand_pair(a, b)
    for round_ in range(3):
        here.mr.write(b'before!!' * 1000)
        do(here, there, e.IBV_WR_RDMA_WRITE, 8000)
        down, up = os.pipe()
        child = os.fork()
        if not child:
            os.read(down, 1)
            os._exit(there.mr.read(8000) != b'before!!' * 1000)
        here.mr.write(b'after...' * 1000)
        got = do(here, there, e.IBV_WR_RDMA_WRITE, 8000)
        os.write(up, b'x')
        kept = os.waitpid(child, 0)[1] == 0
        os.close(up)
        os.close(down)
        good = got == [SUCCESS] and kept and there.mr.read(8000) == b'after...' * 1000
        r.check(f'fork {round_}: what is written after it is seen by the parent, and by the parent only', good, f'{got} {kept}')
        got = do(here, there, e.IBV_WR_RDMA_WRITE, 100)
        r.check(f'fork {round_}: and goes on when the child is gone', got == [SUCCESS], str(got))
    for q in (here, there):
        q.close()


def atomics(r, a, b):
    here, there = on_demand_pair(a, b)
    memory = there.mr.memory

    def atomic(end, op, offset, compare=0, swap=0):
        wr = SendWR(wr_id=3, opcode=op, num_sge=1, sg=[end.sge(8)], send_flags=e.IBV_SEND_SIGNALED)
        wr.set_wr_atomic(there.mr.rkey, there.mr.buf + offset, compare, swap)
        end.qp.post_send(wr)
        got = [w.status for w in end.poll(1)]
        return got[0] if got != [SUCCESS] else int.from_bytes(end.mr.read(8), 'little')

    def word(offset):
        return int.from_bytes(memory.read(8, offset), 'little')

    place = 3 * PAGE + 4088
    got = [atomic(here, e.IBV_WR_ATOMIC_FETCH_AND_ADD, place, n) for n in (5, 2**64 - 1, 10)]
    r.better('it does not advance', 'FETCH_ADD at the end of a page nobody has touched', got == [0, 5, 4] and word(place) == 14, f'{got} {word(place)}')
    memory.write((2**63 + 7).to_bytes(8, 'little'), offset=place)
    got = [atomic(here, e.IBV_WR_ATOMIC_CMP_AND_SWP, place, c, s) for c, s in ((2**63 + 7, 99), (1, 2))]
    r.check('COMPARE_SWAP, hit and miss', got == [2**63 + 7, 99] and word(place) == 99, f'{got} {word(place)}')
    memory.advise(DONTNEED)
    got = atomic(here, e.IBV_WR_ATOMIC_FETCH_AND_ADD, place, 1)
    r.check('FETCH_ADD after the page was thrown away', got == 0 and word(place) == 1, f'{got} {word(place)}')
    memory.protect(READ)
    got = atomic(here, e.IBV_WR_ATOMIC_FETCH_AND_ADD, place, 1)
    r.check('FETCH_ADD on memory that may be read only: the peer is refused', got == ACCESS and word(place) == 1, f'{got} {word(place)}')
    memory.protect(READ | WRITE)
    join(here, there)

    # Two queue pairs count, while the pages move: the memory is a file's, which stays.
    file = os.memfd_create('counter')
    os.ftruncate(file, 65536)
    memory.map(fd=file)
    more = with_region(Endpoint(a, e.IBV_QPT_RC, 64), Region(a, Memory(PAGE)))
    peer = Endpoint(b, e.IBV_QPT_RC, 64)
    join(more, peer)
    stop = threading.Event()

    def disturb():
        while not stop.is_set():
            memory.advise(DONTNEED)
            time.sleep(0.001)

    def count(end):
        bad.extend(s for s in (atomic(end, e.IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 1) for _ in range(200)) if s > 400)

    bad, threads = [], [threading.Thread(target=count, args=(q,)) for q in (here, more)]
    disturber = threading.Thread(target=disturb)
    for t in (disturber, *threads):
        t.start()
    for t in threads:
        t.join()
    stop.set()
    disturber.join()
    r.check('400 FETCH_ADDs of two queue pairs while the pages come and go: none is lost', not bad and word(0) == 400, f'{bad[:3]} {word(0)}')
    for q in (here, there, more, peer):
        q.close()


def extended(end):
    """An endpoint whose QP takes FLUSH and ATOMIC WRITE."""
    end.qp.close()
    init = QPInitAttrEx(cap=QPCap(max_send_wr=16, max_recv_wr=16, max_send_sge=1, max_recv_sge=1), qp_type=e.IBV_QPT_RC, scq=end.cq, rcq=end.cq,
                        pd=end.dev.pd, send_ops_flags=e.IBV_QP_EX_WITH_FLUSH | e.IBV_QP_EX_WITH_RDMA_WRITE | e.IBV_QP_EX_WITH_ATOMIC_WRITE,
                        comp_mask=e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
    end.qp = QPEx(end.dev.ctx, init)
    return end


def flush_and_atomic_write(r, a, b):
    flushing = e.IBV_ACCESS_FLUSH_GLOBAL | e.IBV_ACCESS_FLUSH_PERSISTENT
    ends = [extended(with_region(Endpoint(dev, e.IBV_QPT_RC, 64), Region(dev, Memory(65536), ON_DEMAND | flushing))) for dev in (a, b)]
    before, verbs.REMOTE = verbs.REMOTE, verbs.REMOTE | flushing
    join(*ends)
    here, there = ends

    def post(request):
        here.qp.wr_start()
        here.qp.wr_id, here.qp.wr_flags = 4, e.IBV_SEND_SIGNALED
        request(here.qp)
        here.qp.wr_complete()
        return [w.status for w in here.poll(1)]

    place = 2 * PAGE + 1024
    got = post(lambda qp: qp.wr_atomic_write(there.mr.rkey, there.mr.buf + place, b'atomic!!'))
    around = there.mr.read(24, place - 8)
    r.check('ATOMIC WRITE', got == [SUCCESS] and around == bytes(8) + b'atomic!!' + bytes(8), f'{got} {around}')
    for what, level in (('a range', e.IBV_FLUSH_RANGE), ('the region', e.IBV_FLUSH_MR)):
        got = post(lambda qp: qp.wr_flush(there.mr.rkey, there.mr.buf + 4000, 9000, e.IBV_FLUSH_GLOBAL, level))
        r.check(f'FLUSH of {what} for global visibility', got == [SUCCESS], str(got))
    got = post(lambda qp: qp.wr_flush(there.mr.rkey, there.mr.buf, 9000, e.IBV_FLUSH_PERSISTENT, e.IBV_FLUSH_RANGE))
    r.better('it flushes any memory', 'FLUSH to persistence of memory that does not persist: the peer is refused', got == [ACCESS], str(got))
    verbs.REMOTE = before
    for q in ends:
        q.close()


def windows(r, a, b):
    """A memory window on a region that is not pinned."""
    here, there = on_demand_pair(a, b)
    memory = Memory(65536)
    mr = MR(b.pd, 65536, ON_DEMAND | e.IBV_ACCESS_MW_BIND, address=memory.addr)
    window = MW(b.pd, e.IBV_MW_TYPE_1)
    there.qp.bind_mw(window, MWBind(MWBindInfo(mr, memory.addr + PAGE, 4 * PAGE, e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ), e.IBV_SEND_SIGNALED))
    got = [w.status for w in there.poll(1)]
    r.check('a window is bound to it', got == [SUCCESS], str(got))
    wrong = None
    for length, place in ((100, PAGE), (5000, PAGE + 4000), (9000, 2 * PAGE + 1)):
        memory.advise(DONTNEED)
        here.mr.write(verbs.message(length, length))
        here.post_send(1, length, 0, e.IBV_WR_RDMA_WRITE, remote=(window.rkey, memory.addr + place))
        got = [w.status for w in here.poll(1)]
        if got != [SUCCESS] or memory.read(length + 8, place) != verbs.message(length, length) + bytes(8):
            wrong = f'{length} bytes at {place}: {got}'
            break
    r.better('it ignores the offset in the page', 'and written through', not wrong, str(wrong))
    here.post_send(1, 100, 0, e.IBV_WR_RDMA_WRITE, remote=(window.rkey, memory.addr + 5 * PAGE - 50))
    got = [w.status for w in here.poll(1)]
    r.better('it asks the region only', 'but not beyond its end', got == [ACCESS], str(got))
    for q in (here, there):
        q.close()
    window.close()
    mr.close()
    memory.close()


def kinds_of_memory(r, a, b):
    """Files, huge pages, memory that is swapped out, memory that the kernel itself cannot see."""
    here, there = on_demand_pair(a, b, size=8 << 20)
    with open('/tmp/odp-file', 'wb+') as f:
        f.truncate(5 * PAGE + 100)
        memory = Memory(16 * PAGE, fd=f.fileno())
        there.mr.close()
        there.mr = Region(b, memory)
        join(here, there)
        here.mr.write(verbs.message(7, 9000))
        got = do(here, there, e.IBV_WR_RDMA_WRITE, 9000, 0, 4000)
        f.seek(4000)
        r.better('it ignores the offset in the page', 'WRITE to a file that is mapped', got == [SUCCESS] and f.read(9000) == verbs.message(7, 9000), str(got))
        got = do(here, there, e.IBV_WR_RDMA_WRITE, 100, 0, 8 * PAGE)
        r.check('WRITE behind the end of the file: the peer is refused', got == [ACCESS], str(got))
        join(here, there)
        f.truncate(0)
        got = do(here, there, e.IBV_WR_RDMA_READ, 100, 0, 0)
        r.check('READ of a file that has become empty: the peer is refused', got == [ACCESS], str(got))
        join(here, there)
    os.unlink('/tmp/odp-file')

    huge = Memory(4 << 20, align=2 << 20)
    huge.advise(ondemand.HUGEPAGE)
    there.mr.close()
    there.mr = Region(b, huge)
    there.mr.write(b'x')
    here.mr.write(verbs.message(8, 20000))
    got = do(here, there, e.IBV_WR_RDMA_WRITE, 20000, 0, (2 << 20) - 9999)
    r.better('it ignores the offset in the page', 'WRITE across transparent huge pages',
             got == [SUCCESS] and there.mr.read(20000, (2 << 20) - 9999) == verbs.message(8, 20000), str(got))
    there.mr.close()

    swap = swapping()
    if swap:
        there.mr = Region(b, Memory(64 * PAGE))
        memory, wrong, out = there.mr.memory, None, 0
        for i in range(10):
            here.mr.write(verbs.message(i, PAGE))
            got = do(here, there, e.IBV_WR_RDMA_WRITE, PAGE, 0, (i % 8) * PAGE)
            swap_out(memory)
            out += memory.present(0, 8 * PAGE)
            # Brought back by the processor, then written by the device only, then thrown out: the second is what counts.
            first = memory.read(PAGE, (i % 8) * PAGE)
            here.mr.write(verbs.message(100 + i, PAGE))
            got += do(here, there, e.IBV_WR_RDMA_WRITE, PAGE, 0, (i % 8) * PAGE)
            swap_out(memory)
            out += memory.present(0, 8 * PAGE)
            got += do(here, there, e.IBV_WR_RDMA_READ, PAGE, PAGE, (i % 8) * PAGE)
            second = here.mr.read(PAGE, PAGE)
            if got != [SUCCESS] * 3 or first != verbs.message(i, PAGE) or second != verbs.message(100 + i, PAGE):
                wrong = f'{i}: {got} {first[:8]} {second[:8]}'
                break
        r.check('20 times swapped out under the region', not out, f'{out} pages stayed')
        r.better('it does not mark pages as changed', 'and in again: what was written is kept', not wrong, str(wrong))
        there.mr.close()
        subprocess.run(['swapoff', swap], check=True)
        os.unlink(swap)
    else:
        print('        no swap file: not tried', flush=True)

    if r.stock:
        # The C driver would touch an address that is not mapped in the kernel.
        there.mr = Region(b, Memory(PAGE))
    else:
        fd = ondemand.libc.syscall(447, 0)
        if fd >= 0:
            os.ftruncate(fd, 4 * PAGE)
            secret = Memory(4 * PAGE, fd=fd)
            secret.write(b'secret')
            there.mr = Region(b, secret)
            got = [do(here, there, op, 6)[0] for _, op in OPS[:2] if not join(here, there)]
            r.check('memory that is hidden from the kernel (memfd_secret) is refused', got == [ACCESS] * 2 and secret.read(6) == b'secret', str(got))
            os.close(fd)
        else:
            there.mr = Region(b, Memory(PAGE))
    for q in (here, there):
        q.close()


def swap_out(memory):
    # So that no processor holds a page back which it has just got.
    with open('/proc/sys/vm/drop_caches', 'w') as f:
        f.write('1')
    memory.advise(ondemand.PAGEOUT)


def swapping():
    """A swap file, or None."""
    # Not in RAM: there, a page that comes back is at once written anew.
    file = '/var/tmp/odp-swap'
    made = subprocess.run(f'dd if=/dev/zero of={file} bs=1M count=16 && chmod 600 {file} && mkswap {file} && swapon {file}', shell=True, capture_output=True)
    return None if made.returncode else file


def disturbed(r, a, b):
    """Traffic while another thread changes the mapping all the time, and while regions end."""
    here, there = on_demand_pair(a, b, size=1 << 20)
    memory, stop = there.mr.memory, threading.Event()

    def disturb():
        rng, n = random.Random(1), 0
        while not stop.is_set():
            at = rng.randrange(256) * PAGE
            (memory.advise, memory.protect, memory.map)[n % 3](*((DONTNEED, at), (READ | WRITE, at), (at,))[n % 3], PAGE)
            n += 1
            if n % 50 == 0:
                time.sleep(0.001)

    t = threading.Thread(target=disturb)
    t.start()
    wrong, rng, end = None, random.Random(2), time.monotonic() + 5
    n = 0
    while time.monotonic() < end and not wrong:
        length, place, op = rng.randint(1, 60000), rng.randrange(900000), OPS[n % 3][1]
        got = do(here, there, op, length, 100, place)
        wrong = got != fine(op) and f'{length} bytes at {place}: {got}'
        n += 1
    stop.set()
    t.join()
    r.check('requests while the pages come and go: all complete', not wrong and n > 10, f'{wrong} {n}')

    slow, wrong = 0.0, None
    for i in range(10):
        join(here, there)
        for k in range(40):
            here.post_send(k, 60000, 0, OPS[i % 2][1], remote=(there.mr.rkey, there.mr.buf + 1000))
        time.sleep(0.002 * i)
        begin = time.monotonic()
        there.mr.close()
        slow = max(slow, time.monotonic() - begin)
        got = [w.status for w in here.poll(40)]
        statuses = set(got) - {SUCCESS, ACCESS, e.IBV_WC_WR_FLUSH_ERR}
        if len(got) != 40 or statuses:
            wrong = f'{len(got)} {statuses}'
            break
        there.mr = Region(b, memory)
    r.check('10 regions that end under traffic: each request completes', not wrong, str(wrong))
    r.check('and the end is not held up', slow < verbs.SLOW, f'{slow:.3f} s')
    for q in (here, there):
        q.close()


def bystander(name1, addr1, name2, addr2):
    """Traffic without end, for a process that is killed."""
    here, there = on_demand_pair(Device(name1, addr1), Device(name2, addr2), size=1 << 20)
    print('ready', flush=True)
    while True:
        do(here, there, e.IBV_WR_RDMA_WRITE, 60000)
        there.mr.memory.advise(DONTNEED)


def killed(r, names):
    slow = 0.0
    for i in range(3):
        p = subprocess.Popen([sys.executable, __file__, 'bystander', *names], stdout=subprocess.PIPE)
        p.stdout.readline()
        time.sleep(0.1 * i)
        begin = time.monotonic()
        p.send_signal(signal.SIGKILL)
        p.wait()
        slow = max(slow, time.monotonic() - begin)
    r.check('3 processes that are killed under traffic are gone in time', slow < 2 * verbs.SLOW, f'{slow:.3f} s')


def main():
    r = Report()
    names = ('rxeA', '10.77.0.1', 'rxeB', '10.77.0.2')
    a, b = Device(*names[:2]), Device(*names[2:])
    # Names on the command line: only these.
    parts = {
        'announced': lambda: odp_verbs.announced(r, a),
        'registering': lambda: odp_verbs.registering(r, a, b),
        'byte_exact': lambda: byte_exact(r, a, b),
        'other_kinds': lambda: other_kinds(r, a, b),
        'comes_and_goes': lambda: comes_and_goes(r, a, b),
        'forked': lambda: forked(r, a, b),
        'atomics': lambda: atomics(r, a, b),
        'flush': lambda: flush_and_atomic_write(r, a, b),
        'windows': lambda: windows(r, a, b),
        'kinds_of_memory': lambda: kinds_of_memory(r, a, b),
        'prefetching': lambda: odp_verbs.prefetching(r, a),
        'disturbed': lambda: disturbed(r, a, b),
        'killed': lambda: killed(r, names),
    }
    for name in sys.argv[1:] or parts:
        parts[name]()
    r.exit()


if __name__ == '__main__':
    sys.dont_write_bytecode = True
    if sys.argv[1:2] == ['bystander']:
        bystander(*sys.argv[2:])
    main()
