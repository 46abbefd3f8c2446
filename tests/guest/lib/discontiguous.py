#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""discontiguous.py DISK BYTES SEED: SCSI WRITE and READ (SG_IO) from and to user buffers made of many pieces.

The pieces lie apart in memory, and their lengths and offsets are no multiples of pages or blocks. What is written in one layout is read
in another, and in one piece, and must be the same; so must the disk around it.
"""

import ctypes
import fcntl
import os
import random
import struct
import sys

SG_IO = 0x2285
SG_TO, SG_FROM = -2, -3
BLOCK = 512


class SgIoHdr(ctypes.Structure):
    _fields_ = [
        ("interface_id", ctypes.c_int), ("direction", ctypes.c_int), ("cmd_len", ctypes.c_ubyte), ("mx_sb_len", ctypes.c_ubyte),
        ("iovec_count", ctypes.c_ushort), ("dxfer_len", ctypes.c_uint), ("dxferp", ctypes.c_void_p), ("cmdp", ctypes.c_void_p),
        ("sbp", ctypes.c_void_p), ("timeout", ctypes.c_uint), ("flags", ctypes.c_uint), ("pack_id", ctypes.c_int),
        ("usr_ptr", ctypes.c_void_p), ("status", ctypes.c_ubyte), ("masked_status", ctypes.c_ubyte), ("msg_status", ctypes.c_ubyte),
        ("sb_len_wr", ctypes.c_ubyte), ("host_status", ctypes.c_ushort), ("driver_status", ctypes.c_ushort), ("resid", ctypes.c_int),
        ("duration", ctypes.c_uint), ("info", ctypes.c_uint),
    ]


class Iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]


class Pieces:
    """A buffer of `total` bytes in pieces: `lengths` of them, at odd places of one arena."""

    def __init__(self, total, lengths, gap):
        self.vec = (Iovec * len(lengths))()
        gaps = [gap(i) for i in range(len(lengths))]
        self.arena = ctypes.create_string_buffer(total + sum(gaps) + 4096)
        self.where = []
        at = 0
        for i, n in enumerate(lengths):
            at += gaps[i]
            self.where.append((at, n))
            self.vec[i] = Iovec(ctypes.addressof(self.arena) + at, n)
            at += n

    def fill(self, data):
        done = 0
        for at, n in self.where:
            ctypes.memmove(ctypes.addressof(self.arena) + at, data[done:done + n], n)
            done += n

    def data(self):
        return b"".join(ctypes.string_at(ctypes.addressof(self.arena) + at, n) for at, n in self.where)


def transfer(fd, direction, block, total, pieces):
    blocks = total // BLOCK
    opcode = 0x2A if direction == SG_TO else 0x28
    cdb = ctypes.create_string_buffer(struct.pack(">BBIBHB", opcode, 0, block, 0, blocks, 0), 10)
    sense = ctypes.create_string_buffer(64)
    h = SgIoHdr(interface_id=ord("S"), direction=direction, cmd_len=10, mx_sb_len=64, iovec_count=len(pieces.vec), dxfer_len=total,
                dxferp=ctypes.addressof(pieces.vec), cmdp=ctypes.addressof(cdb), sbp=ctypes.addressof(sense), timeout=30000)
    fcntl.ioctl(fd, SG_IO, h)
    if h.status or h.host_status or h.driver_status & 0xF or h.resid:
        sys.exit(f"SG_IO {opcode:#x} block {block}, {total} bytes in {len(pieces.vec)} pieces: status {h.status:#x}, "
                 f"host {h.host_status:#x}, driver {h.driver_status:#x}, resid {h.resid}, sense {sense.raw[:18].hex()}")


def layouts(total, rng):
    """(name, lengths, gap) of buffers of `total` bytes."""
    def cut(size):
        sizes = [size] * (total // size)
        return sizes + ([total % size] if total % size else [])

    yield "one piece", [total], lambda i: 0
    yield "one piece, odd address", [total], lambda i: 4
    yield "blocks apart", cut(512), lambda i: 512
    yield "pieces of 4 KiB, half a page off", cut(4096), lambda i: 6144 if i == 0 else 4096
    yield "pieces of 508", cut(508), lambda i: 20
    if total <= 16384:
        yield "pieces of 4", cut(total // 256 // 4 * 4 or 4), lambda i: 8
    sizes, left = [], total
    while left:
        n = min(left, 4 * rng.randint(1, 3000))
        sizes.append(n)
        left -= n
    yield "random pieces", sizes, lambda i: 4 * rng.randint(1, 2000)


def main():
    disk, total, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(seed)
    fd = os.open(disk, os.O_RDWR)
    guard = BLOCK
    span = total + 2 * guard
    whole = Pieces(span, [span], lambda i: 0)
    n = 0
    for block, (name, lengths, gap) in enumerate(layouts(total, rng)):
        if len(lengths) > 1024:
            continue
        base = block * 7
        background = rng.randbytes(span)
        whole.fill(background)
        transfer(fd, SG_TO, base, span, whole)
        wanted = rng.randbytes(total)
        out = Pieces(total, lengths, gap)
        out.fill(wanted)
        transfer(fd, SG_TO, base + 1, total, out)
        whole.fill(bytes(span))
        transfer(fd, SG_FROM, base, span, whole)
        got = whole.data()
        if got[guard:-guard] != wanted:
            sys.exit(f"{name}: what was written in {len(lengths)} pieces is not what is read in one")
        if got[:guard] != background[:guard] or got[-guard:] != background[-guard:]:
            sys.exit(f"{name}: blocks beside the written ones changed")
        back = Pieces(total, lengths, gap)
        transfer(fd, SG_FROM, base + 1, total, back)
        if back.data() != wanted:
            sys.exit(f"{name}: what is read in {len(lengths)} pieces is not what was written")
        n += 1
    print(f"{n} layouts of {total} bytes")


main()
