#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# summary: RDS over RDMA: datagrams of all sizes both ways, RDMA READ and WRITE into registered memory; datagrams on a bad wire
# timeout: 180
"""Two RDS sockets on the two ends of a wire in one namespace, bound to the RDMA transport.

RDS's own atomics are left out: it posts masked ones, which a soft RoCE device has never had.
"""

import ctypes
import hashlib
import mmap
import os
import random
import select
import socket
import struct
import subprocess
import sys
import time

SOL_RDS = 276
FREE_MR, SO_TRANSPORT = 3, 8
TRANSPORT_IB = 0
CMSG_RDMA_ARGS, CMSG_RDMA_DEST, CMSG_RDMA_MAP, CMSG_RDMA_STATUS = 1, 2, 3, 4
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
WRITE, FENCE, INVALIDATE, USE_ONCE, NOTIFY = 1, 2, 4, 8, 0x20
ADDRESSES = ("10.78.0.1", "10.78.0.2")
PORTS = (30000, 30001)
SLOW = max(int(os.environ.get("RXE_SLOW", "1")), 1)
PATIENCE = SLOW * max(int(float(os.environ.get("RXE_PATIENCE", "1"))), 1)
LONG = int(os.environ.get("RXE_LONG", "1"))
NETEM = "loss 1% duplicate 1% corrupt 1% reorder 5% delay 1ms"
failed = False


def line(verdict, text):
    with open("/proc/uptime", encoding="ascii") as f:
        print(f"{float(f.read().split()[0]):7.1f} {verdict:<4} {text}", flush=True)


def check(name, function, *arguments):
    global failed
    try:
        function(*arguments)
    except (OSError, AssertionError, subprocess.SubprocessError) as e:
        failed = True
        line("FAIL", f"{name}: {type(e).__name__}: {e}")
        return False
    line("ok", name)
    return True


def shell(script, limit=60):
    """Runs a script with the suites' shell library."""
    r = subprocess.run(["bash", "-c", f"cd /rxe/tests/guest && . ./lib.sh && . lib/wire.sh && {script}"], capture_output=True, text=True,
                       timeout=limit * PATIENCE, check=False)
    if r.returncode:
        raise OSError(f"{script}: exit {r.returncode}: {r.stdout[-300:]}{r.stderr[-300:]}")
    return r.stdout.strip()


def counter(device, name):
    with open(f"/sys/class/infiniband/{device}/ports/1/hw_counters/{name}", encoding="ascii") as f:
        return int(f.read())


def sockets():
    pair = []
    for address, port in zip(ADDRESSES, PORTS):
        s = socket.socket(socket.AF_RDS, socket.SOCK_SEQPACKET)
        # Otherwise a peer in the same namespace might be reached by RDS's own loopback.
        s.setsockopt(SOL_RDS, SO_TRANSPORT, TRANSPORT_IB)
        for option in (SO_SNDBUFFORCE, SO_RCVBUFFORCE):
            s.setsockopt(socket.SOL_SOCKET, option, 8 << 20)
        s.bind((address, port))
        s.setblocking(False)
        pair.append(s)
    return pair


def patience(seconds):
    return time.monotonic() + seconds * PATIENCE


def datagrams(pair, count, sizes, rng):
    """`count` datagrams each way; each arrives once, in order, whole."""
    sent, got = [0, 0], [0, 0]
    digests = [[], []]
    waiting = [None, None]
    poll = select.epoll()
    for s in pair:
        poll.register(s, select.EPOLLIN)
    end = patience(60)
    while min(got) < count:
        assert time.monotonic() < end, f"sent {sent}, received {got} of {count}"
        for i in (0, 1):
            while sent[i] < count:
                if waiting[i] is None:
                    waiting[i] = struct.pack("<Q", sent[i]) + rng.randbytes(max(rng.choice(sizes) - 8, 0))
                try:
                    pair[i].sendto(waiting[i], (ADDRESSES[1 - i], PORTS[1 - i]))
                except BlockingIOError:
                    break
                except OSError as e:
                    if e.errno in (105,):
                        break
                    raise
                digests[i].append(hashlib.sha256(waiting[i]).digest())
                sent[i] += 1
                waiting[i] = None
        poll.poll(0.2)
        for i in (0, 1):
            while True:
                try:
                    data, _ = pair[i].recvfrom(2 << 20)
                except BlockingIOError:
                    break
                n = got[i]
                assert n < len(digests[1 - i]), f"datagram {n} was never sent"
                assert hashlib.sha256(data).digest() == digests[1 - i][n], f"datagram {n} of {len(data)} bytes is not the one sent"
                got[i] = n + 1
    poll.close()


def memory(size):
    """Memory with page alignment, which RDS can pin."""
    m = mmap.mmap(-1, size)
    return m, ctypes.addressof(ctypes.c_char.from_buffer(m))


def region(pair, address, size, flags):
    """Registers memory of the second socket for the first, in a message to it; returns the cookie it gets there."""
    cookie = ctypes.c_uint64(0)
    arguments = struct.pack("<QQQQ", address, size, ctypes.addressof(cookie), flags)
    pair[1].sendmsg([b"map"], [(SOL_RDS, CMSG_RDMA_MAP, arguments)], 0, (ADDRESSES[0], PORTS[0]))
    end = patience(10)
    while time.monotonic() < end:
        try:
            _, cmsgs, _, _ = pair[0].recvmsg(1 << 16, 1 << 10)
        except BlockingIOError:
            time.sleep(0.005)
            continue
        for level, kind, data in cmsgs:
            if level == SOL_RDS and kind == CMSG_RDMA_DEST:
                got = struct.unpack("<Q", data[:8])[0]
                assert got == cookie.value, f"cookie {got:#x} arrived, {cookie.value:#x} was sent"
                return got
    raise AssertionError("no cookie came")


def completion(s, token):
    """Waits for the notification of a request."""
    end = patience(30)
    while time.monotonic() < end:
        try:
            _, cmsgs, _, _ = s.recvmsg(1 << 16, 1 << 10)
        except BlockingIOError:
            time.sleep(0.005)
            continue
        for level, kind, data in cmsgs:
            if level == SOL_RDS and kind == CMSG_RDMA_STATUS:
                got, status = struct.unpack("<Qi", data[:12])
                if got == token:
                    assert status == 0, f"status {status}"
                    return
    raise AssertionError("no completion")


def drain(s):
    end = patience(10)
    while time.monotonic() < end:
        try:
            s.recvfrom(1 << 16)
            return
        except BlockingIOError:
            time.sleep(0.005)
    raise AssertionError("the message that goes with the transfer did not come")


def transfers(pair, rounds, rng):
    """RDMA WRITE and READ of odd lengths and offsets, from two local pieces."""
    size = 1 << 20
    remote, remote_at = memory(size)
    local, local_at = memory(size)
    for n in range(rounds):
        length = rng.randint(1, 200000)
        offset, at = rng.randint(0, 5000), rng.randint(0, 5000)
        cut = rng.randint(0, length // 4096) * 4096
        remote[:] = rng.randbytes(size)
        local[:] = rng.randbytes(size)
        before = bytes(remote), bytes(local)
        write = n % 2 == 0
        cookie = region(pair, remote_at + offset, length, WRITE | (USE_ONCE if n % 3 == 0 else 0) | INVALIDATE)
        # Registered memory begins at the cookie's offset; the first piece must end on a page.
        pieces = [(local_at + at, length)]
        first = 4096 - (local_at + at) % 4096 + cut
        if 0 < first < length:
            pieces = [(local_at + at, first), (local_at + at + first, length - first)]
        vector = ctypes.create_string_buffer(b"".join(struct.pack("<QQ", *p) for p in pieces))
        arguments = struct.pack("<QQQQQQQ", cookie, 0, length, ctypes.addressof(vector), len(pieces), NOTIFY | (WRITE if write else 0), n + 1)
        pair[0].sendmsg([b"transfer"], [(SOL_RDS, CMSG_RDMA_ARGS, arguments)], 0, (ADDRESSES[1], PORTS[1]))
        completion(pair[0], n + 1)
        drain(pair[1])
        if n % 3:
            pair[1].setsockopt(SOL_RDS, FREE_MR, struct.pack("<QQ", cookie, INVALIDATE))
        wanted = [bytearray(before[0]), bytearray(before[1])]
        if write:
            wanted[0][offset:offset + length] = before[1][at:at + length]
        else:
            wanted[1][at:at + length] = before[0][offset:offset + length]
        assert bytes(remote) == wanted[0], f"remote memory after {'WRITE' if write else 'READ'} {n} of {length} bytes"
        assert bytes(local) == wanted[1], f"local memory after {'WRITE' if write else 'READ'} {n} of {length} bytes"


def on_the_wire(before):
    for device, old in before.items():
        new = counter(device, "sent_pkts")
        assert new > old + 200, f"{device} sent {new - old} packets"


def main():
    rng = random.Random(4791)
    if not check("a wire and the modules", shell, "one_ns && modprobe -a rds rds_rdma sch_netem"):
        return 1
    before = {d: counter(d, "sent_pkts") for d in ("rxe0", "rxe1")}
    pair = sockets()
    check("datagrams of 8 bytes to 16 KiB, both ways", datagrams, pair, 400 * LONG // SLOW, (8, 9, 100, 1000, 4095, 4096, 4097, 16384), rng)
    check("datagrams of 64 KiB to 1 MiB, both ways", datagrams, pair, 12 * LONG // min(SLOW, 4), (65536, 100001, 1 << 20), rng)
    check("RDMA WRITE and READ", transfers, pair, 30 * LONG // min(SLOW, 4), rng)
    check("it went over the wire", on_the_wire, before)
    check("a wire that loses, doubles, corrupts and reorders", shell,
          "for i in w0 w1; do tc qdisc add dev $i root netem " + NETEM + " || exit; done")
    check("datagrams on it", datagrams, pair, 150 * LONG // SLOW, (8, 100, 4096, 16384), rng)
    check("the wire as before", shell, "for i in w0 w1; do tc qdisc del dev $i root || exit; done")
    for s in pair:
        s.close()
    check("the modules and the links go", shell, "wait_for 20 modprobe -r rds_rdma && modprobe -r rds && one_ns_gone")
    return 1 if failed else 0


sys.exit(main())
