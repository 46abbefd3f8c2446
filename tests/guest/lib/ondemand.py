# SPDX-License-Identifier: GPL-2.0
"""Memory whose mapping can be changed under a memory region, and memory regions made by the kernel's own interface.

The library of the guests knows neither advise_mr nor rereg_mr for this provider, nor regions whose I/O address is not the address of
the memory, so these go to the kernel directly (ib_user_ioctl_cmds.h, ib_user_verbs.h).
"""

import ctypes
import fcntl
import mmap
import os
import random
import struct

import pyverbs.enums as e
import verbs

PAGE = mmap.PAGESIZE
READ, WRITE = mmap.PROT_READ, mmap.PROT_WRITE
DONTNEED, PAGEOUT, HUGEPAGE, NOHUGEPAGE = 4, 21, 14, 15
FIXED = 0x10

ON_DEMAND = verbs.REMOTE | e.IBV_ACCESS_ON_DEMAND
PREFETCH, PREFETCH_WRITE, PREFETCH_NO_FAULT, FLUSH = 0, 1, 2, 1
REREG_TRANS, REREG_PD, REREG_ACCESS = 1, 2, 4

OBJECT_MR, MR_DESTROY, MR_ADVISE, MR_REG = 7, 1, 2, 5
CMD_REREG_MR = 11
VERBS_IOCTL = 3 << 30 | 24 << 16 | 0x1b << 8 | 1
DRIVER_RXE = 14

SUCCESS = e.IBV_WC_SUCCESS

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
for call in (libc.munmap, libc.madvise, libc.mprotect):
    call.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * (call is not libc.munmap)


def must(value, bad=-1):
    if value == bad or value is None:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return value


class Memory:
    """A mapping of `size` bytes, at an address that stays what it is."""

    def __init__(self, size, prot=READ | WRITE, fd=-1, align=PAGE):
        self.size = size
        # Between pages that are not mapped, so that nothing merges with it or lies beside it.
        self.room = must(libc.mmap(None, size + 2 * align, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0), ctypes.c_void_p(-1).value)
        self.addr = self.room + align - self.room % align if align > PAGE else self.room + PAGE
        self.total = size + 2 * align
        self.map(prot=prot, fd=fd)

    def map(self, offset=0, size=None, prot=READ | WRITE, fd=-1):
        """Maps new pages, zeros or those of a file, in place of what was there."""
        kind = mmap.MAP_SHARED if fd >= 0 else mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        must(libc.mmap(self.addr + offset, size or self.size, prot, kind | FIXED, fd, 0), ctypes.c_void_p(-1).value)
        # Pages come one by one, so that they can be counted.
        self.advise(NOHUGEPAGE, offset, size)

    def unmap(self, offset=0, size=None):
        must(libc.munmap(self.addr + offset, size or self.size))

    def protect(self, prot, offset=0, size=None):
        must(libc.mprotect(self.addr + offset, size or self.size, prot))

    def advise(self, advice, offset=0, size=None):
        must(libc.madvise(self.addr + offset, size or self.size, advice))

    def read(self, length, offset=0):
        return ctypes.string_at(self.addr + offset, length)

    def write(self, data, length=None, offset=0):
        ctypes.memmove(self.addr + offset, bytes(data), length or len(data))

    def present(self, offset=0, size=None):
        """How many pages the process has."""
        with open('/proc/self/pagemap', 'rb', buffering=0) as f:
            f.seek((self.addr + offset) // PAGE * 8)
            return sum(word[0] >> 63 for word in struct.iter_unpack('Q', f.read((size or self.size) // PAGE * 8)))

    def close(self):
        must(libc.munmap(self.room, self.total))


def call(ctx, method, *attributes):
    """A method of memory regions. An attribute is its number, length, value, and whether it is mandatory."""
    packed = b''.join(struct.pack('=HHHHQ', number, length, 1, 0, value) for number, length, value in attributes)
    head = struct.pack('=HHHHQII', 24 + len(packed), OBJECT_MR, method, len(attributes), 0, DRIVER_RXE, 0)
    buf = bytearray(head + packed)
    fcntl.ioctl(ctx.cmd_fd, VERBS_IOCTL, buf)
    return buf


class Region:
    """A memory region over `length` bytes from `offset` of a Memory; stands in for the one of an Endpoint."""

    def __init__(self, dev, memory, access=ON_DEMAND, offset=0, length=None, iova=None):
        self.dev, self.memory, self.offset = dev, memory, offset
        start = memory.addr + offset
        self.length = memory.size - offset if length is None else length
        self.register(start, self.length, access, start if iova is None else iova)

    def register(self, start, length, access, iova):
        keys = (ctypes.c_uint32 * 2)()
        self.buf = iova
        buf = call(self.dev.ctx, MR_REG, (0, 0, 0), (1, 0, self.dev.pd.handle), (3, 8, iova), (5, 8, length), (6, 8, access), (4, 8, start),
                   (9, 4, ctypes.addressof(keys)), (10, 4, ctypes.addressof(keys) + 4))
        self.handle = struct.unpack_from('=Q', buf, 24 + 8)[0] & 0xffffffff
        self.lkey, self.rkey = keys

    def read(self, length, offset=0):
        return self.memory.read(length, self.offset + offset)

    def write(self, data, length=None, offset=0):
        self.memory.write(data, length, self.offset + offset)

    def rereg(self, flags, access=ON_DEMAND, pd=None, memory=None):
        """0, or the error."""
        start = memory.addr if memory else 0
        length = memory.size if memory else 0
        answer = (ctypes.c_uint32 * 2)()
        command = struct.pack('=IHHQIIQQQII', CMD_REREG_MR, 14, 2, ctypes.addressof(answer), self.handle, flags, start, length, start,
                              (pd or self.dev.pd).handle, access)
        try:
            os.write(self.dev.ctx.cmd_fd, command)
        except OSError as error:
            return error.errno
        self.lkey, self.rkey = answer
        if memory:
            self.memory, self.offset, self.length, self.buf = memory, 0, memory.size, memory.addr
        return 0

    def close(self):
        call(self.dev.ctx, MR_DESTROY, (0, 0, self.handle))


def advise(dev, advice, flags, *ranges):
    """Ranges of (address, length, lkey). 0, or the error."""
    packed = b''.join(struct.pack('=QII', *r) for r in ranges)
    text = ctypes.create_string_buffer(packed, len(packed))
    where = ctypes.addressof(text) if len(packed) > 8 else 0
    try:
        call(dev.ctx, MR_ADVISE, (0, 0, dev.pd.handle), (1, 8, advice), (2, 8, flags), (3, len(packed), where))
    except OSError as error:
        return error.errno
    return 0


def with_region(end, region):
    """An endpoint that uses `region` in place of its own, which it gives back."""
    end.mr.close()
    end.mr = region
    return end


def on_demand_pair(a, b, kind=e.IBV_QPT_RC, size=65536, mtu=e.IBV_MTU_4096, **region):
    """Two connected endpoints whose memory is not pinned, and not even touched."""
    ends = [with_region(verbs.Endpoint(dev, kind, 64), Region(dev, Memory(size), **region)) for dev in (a, b)]
    join(*ends, mtu)
    return ends


def join(here, there, mtu=e.IBV_MTU_4096):
    for q, p in ((here, there), (there, here)):
        if q.state() != 'RESET':
            q.reset()
            q.poll(64, 0)
        q.connect(p, mtu=mtu)


def do(here, there, op, length, local=0, remote=0, timeout=10.0):
    """One request between the regions of two endpoints; the statuses of its completions."""
    if op == e.IBV_WR_SEND:
        there.post_recv(2, length, remote)
    here.post_send(1, length, local, op, remote=(there.mr.rkey, there.mr.buf + remote))
    got = here.poll(1, timeout)
    if op == e.IBV_WR_SEND and got and got[0].status == SUCCESS:
        got += there.poll(1, timeout)
    return [w.status for w in got]


def fine(op):
    return [SUCCESS] * (1 + (op == e.IBV_WR_SEND))


def compare(here, there, op, length, local, remote, salt):
    """None, or what is wrong with one transfer, its surroundings included."""
    source, place, sink, to = (here, local, there, remote) if op != e.IBV_WR_RDMA_READ else (there, remote, here, local)
    rng = random.Random(f'{salt} {length} {local} {remote}')
    data, before = rng.randbytes(length), max(0, to - PAGE)
    around = rng.randbytes(to + length + PAGE - before)
    sink.mr.write(around, offset=before)
    source.mr.write(data, offset=place)
    got = do(here, there, op, length, local, remote)
    if got != fine(op):
        return f'{length} bytes from {local} to {remote}: {got}'
    want = around[:to - before] + data + around[to - before + length:]
    is_ = sink.mr.read(len(want), before)
    if is_ != want:
        first = next(i for i in range(len(want)) if is_[i] != want[i])
        return f'{length} bytes from {local} to {remote}: wrong from byte {first - (to - before)} of the destination'
    return None
