# SPDX-License-Identifier: GPL-2.0
"""Throws malformed and misdirected RoCE packets at a link: malformed.py STRIDE.

Packets are written as raw Ethernet frames into the far end of the wire (vb in namespace B), towards the link rxeA in A. For every
one of the 256 opcodes, every UDP payload length from 0 to 200 and every pad count there is one packet (with STRIDE n: every n-th of
them). They come in three storms:

1. From the right peer, with the PSN the QP waits for, and a wrong ICRC.
2. With a right ICRC, from an address that is nobody's peer (or with a Q_Key that is not the QP's).
3. With a right ICRC, from the right peer: to QPs made to be hurt, to QP 0, QP 1, the multicast QP and QPs that do not exist.

The guard QPs, RC, UC and UD, must not be moved by any of it: same state, same PSNs, no completion, no byte of their memory changed,
and real traffic goes through them afterwards. The QPs made to be hurt belong to the packets of the third storm, and may go to the
error state; they are then brought back.

Every packet is accounted for. What becomes of it is computed from its bytes (`fate`), and the counters of the link must say just
that: so many received, so many dropped for each reason.
"""

import collections
import os
import random
import socket
import struct
import sys
import time
import zlib

import pyverbs.enums as e
import verbs
from verbs import Device, Endpoint, Report

LENGTHS = 201
PER_STORM = 256 * LENGTHS * 4
PATTERN = 0xa5

# The bytes of the headers of each opcode that there is.
HEADERS = {
    # RC: SEND, WRITE, READ and its responses, acknowledgements, atomics, SEND with invalidate, FLUSH, ATOMIC WRITE.
    0x00: 12, 0x01: 12, 0x02: 12, 0x03: 16, 0x04: 12, 0x05: 16, 0x06: 28, 0x07: 12, 0x08: 12, 0x09: 16, 0x0a: 28, 0x0b: 32,
    0x0c: 28, 0x0d: 16, 0x0e: 12, 0x0f: 16, 0x10: 16, 0x11: 16, 0x12: 24, 0x13: 40, 0x14: 40, 0x16: 16, 0x17: 16, 0x1c: 32, 0x1d: 28,
    # UC: SEND, WRITE.
    0x20: 12, 0x21: 12, 0x22: 12, 0x23: 16, 0x24: 12, 0x25: 16, 0x26: 28, 0x27: 12, 0x28: 12, 0x29: 16, 0x2a: 28, 0x2b: 32,
    # UD: SEND. And the congestion notification, which is of no service.
    0x64: 20, 0x65: 24, 0x81: 12,
}
NO_PAYLOAD = {0x0c, 0x11, 0x12, 0x13, 0x14, 0x1c}
CNP = 0x81
RC, UC, UD = 0, 1, 3
GSI_QKEY = 0x80010000


def fate(packet, pad, services, qkeys):
    """What becomes of a packet that is not damaged and comes from the right peer: `rcvd_pkts`, or the reason to drop it.

    `services` and `qkeys` tell of the QPs that there are, by number.
    """
    if len(packet) < 16:
        return 'drop_truncated'
    opcode, qpn = packet[0], int.from_bytes(packet[5:8], 'big')
    if opcode not in HEADERS:
        return 'drop_unknown_opcode'
    payload = len(packet) - HEADERS[opcode] - 4
    if payload < 0:
        return 'drop_truncated'
    if payload < pad or (payload > pad and opcode in NO_PAYLOAD):
        return 'drop_bad_length'
    if qpn == 0xffffff:
        return 'drop_no_group'
    if qpn not in services:
        return 'drop_no_qp'
    if opcode == CNP:
        return 'drop_congestion_notification'
    if opcode >> 5 != services[qpn]:
        return 'drop_wrong_service'
    if opcode >> 5 == UD and int.from_bytes(packet[12:16], 'big') != qkeys[qpn]:
        return 'drop_bad_qkey'
    return 'rcvd_pkts'


def checksum(b):
    s = sum(struct.unpack(f'!{len(b) // 2}H', b))
    while s >> 16:
        s = (s & 0xffff) + (s >> 16)
    return ~s & 0xffff


class Wire:
    """A raw socket at the far end of the wire, and frames towards one address."""

    def __init__(self, netns, ifname, dst_mac):
        home = os.open('/proc/self/ns/net', os.O_RDONLY)
        there = os.open(f'/run/netns/{netns}', os.O_RDONLY)
        os.setns(there, os.CLONE_NEWNET)
        self.sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.sock.bind((ifname, 0))
        os.setns(home, os.CLONE_NEWNET)
        self.mac = bytes.fromhex(dst_mac.replace(':', '')), self.sock.getsockname()[4]
        self.cache = {}

    def headers(self, src, dst, length):
        """Ethernet, IP and UDP headers for `length` bytes of UDP payload, and the CRC state after the masked ones."""
        key = src, dst, length
        if key in self.cache:
            return self.cache[key]
        udp = struct.pack('!HHHH', 0xc000, 4791, 8 + length, 0)
        masked_udp = udp[:6] + b'\xff\xff'
        if ':' in src:
            s, d = socket.inet_pton(socket.AF_INET6, src), socket.inet_pton(socket.AF_INET6, dst)
            # IPv6 wants a UDP checksum; the tunnel socket takes packets without one, as RoCE senders send them.
            ip = struct.pack('!IHBB', 6 << 28, 8 + length, 17, 64) + s + d
            masked_ip = struct.pack('!IHBB', 0x6fffffff, 8 + length, 17, 0xff) + s + d
            ether = self.mac[0] + self.mac[1] + b'\x86\xdd'
        else:
            s, d = socket.inet_aton(src), socket.inet_aton(dst)
            ip = struct.pack('!BBHHHBBH', 0x45, 0, 28 + length, 0, 0x4000, 64, 17, 0) + s + d
            ip = ip[:10] + struct.pack('!H', checksum(ip)) + ip[12:]
            masked_ip = struct.pack('!BBHHHBBH', 0x45, 0xff, 28 + length, 0, 0x4000, 0xff, 17, 0xffff) + s + d
            ether = self.mac[0] + self.mac[1] + b'\x08\x00'
        entry = ether + ip + udp, zlib.crc32(b'\xff' * 8 + masked_ip + masked_udp)
        self.cache[key] = entry
        return entry

    def send(self, src, dst, payload, good):
        """Sends `payload`, whose last four bytes are replaced by the right ICRC or by its complement; returns what was sent."""
        head, state = self.headers(src, dst, len(payload))
        if len(payload) >= 16:
            body = payload[:-4]
            crc = zlib.crc32(b''.join((body[:4], b'\xff', body[5:])), state)
            payload = body + struct.pack('<I', crc if good else crc ^ 0xffffffff)
        self.sock.send(head + payload)
        return payload


def bth(opcode, pad, qpn, psn):
    return struct.pack('!BBHII', opcode, 0x40 | pad << 4, 0xffff, qpn, 0x80000000 | psn)


class Guards:
    """The QPs nothing may happen to, and their opposites on the far link."""

    def __init__(self, a, b):
        self.pairs = []
        for name, kind in (('RC', e.IBV_QPT_RC), ('UC', e.IBV_QPT_UC), ('UD', e.IBV_QPT_UD)):
            here, there = Endpoint(a, kind), Endpoint(b, kind)
            here.connect(there, psn=1000)
            there.connect(here, psn=1000)
            here.mr.write(bytes([PATTERN]) * here.size, here.size)
            for i in range(4):
                here.post_recv(i, 2048, 2048 * i)
            self.pairs.append((name, here, there))
        self.rounds = 0
        self.before = self.state()

    def state(self):
        return [(n, h.state(), h.query().sq_psn, h.query().rq_psn) for n, h, _ in self.pairs]

    def check(self, report, what):
        report.check(f'{what}: state and PSNs of the guard QPs are what they were', self.state() == self.before, f'{self.before} {self.state()}')
        quiet = all(not h.poll(1, 0.01) for _, h, _ in self.pairs)
        report.check(f'{what}: no guard QP has a completion', quiet)
        whole = all(h.mr.read(h.size, 0) == bytes([PATTERN]) * h.size for _, h, _ in self.pairs)
        report.check(f'{what}: no byte of guarded memory has changed', whole)

    def traffic(self, report, what):
        """A message each way; the PSNs are counted on from where they stood."""
        for name, here, there in self.pairs:
            grh = 40 if name == 'UD' else 0
            there.mr.write(b'hello' * 20, 100)
            there.post_recv(9, 2048, 4096)
            there.post_send(1, 100, ud=(there.address_handle(here.dev.address), here.qpn, verbs.QKEY) if grh else None)
            got = here.poll(1)
            good = len(got) == 1 and got[0].status == e.IBV_WC_SUCCESS and got[0].byte_len == 100 + grh
            good = good and here.mr.read(100, 2048 * got[0].wr_id + grh) == b'hello' * 20
            here.post_send(2, 100, 32768, ud=(here.address_handle(there.dev.address), there.qpn, verbs.QKEY) if grh else None)
            back = there.poll(2)
            good = good and {w.opcode for w in back} == {e.IBV_WC_SEND, e.IBV_WC_RECV} and all(w.status == e.IBV_WC_SUCCESS for w in back)
            good = good and len(here.poll(1)) == 1
            report.check(f'{what}: traffic flows through the guard {name} QP', good, f'{[w.status for w in got + back]}')
            if got:
                here.post_recv(got[0].wr_id, 2048, 2048 * got[0].wr_id)
                here.mr.write(bytes([PATTERN]) * here.size, here.size)
        self.before = self.state()


class Victims:
    """QPs that belong to the packets; brought back to RTS when the packets have killed them."""

    def __init__(self, dev, peer_address):
        self.dev, self.peer = dev, peer_address
        self.qps = [Endpoint(dev, k) for k in (e.IBV_QPT_RC, e.IBV_QPT_UC, e.IBV_QPT_UD)]
        self.revived = -len(self.qps)
        for q in self.qps:
            self.revive(q)

    def revive(self, q):
        if q.state() != 'RESET':
            q.reset()
        q.connect(address=self.peer, peer_qpn=0x777777, psn=1000)
        for i in range(8):
            q.post_recv(i, 2048)
        q.poll(256, 0)
        self.revived += 1

    def check(self):
        for q in self.qps:
            for w in q.poll(256, 0):
                if w.status == e.IBV_WC_SUCCESS and w.opcode & e.IBV_WC_RECV:
                    q.post_recv(w.wr_id, 2048)
            if q.state() != 'RTS':
                self.revive(q)

    def settle(self, qpn):
        """After a packet that may kill a QP: the next one is to find it alive."""
        q = self.qps[0]
        if q.qpn == qpn:
            for _ in range(4):
                if q.state() != 'RTS':
                    self.check()
                    return
                time.sleep(0.0005)


def packets(stride, offset):
    """(opcode, length, pad) of every stride-th packet of the product; `offset` picks which."""
    for i in range(offset % stride, PER_STORM, stride):
        yield i % 256, i // 256 % LENGTHS, i // (256 * LENGTHS)


def storm(wire, src, dst, stride, offset, target, good, filler, judge, after=None):
    """`target(opcode)` gives (QPN, PSN, extension bytes), `judge(packet, pad)` the fate of a packet. Returns how many of each."""
    n, fates = 0, collections.Counter()
    for opcode, length, pad in packets(stride, offset):
        qpn, psn, ext = target(opcode)
        payload = bth(opcode, pad, qpn, psn) + ext
        packet = wire.send(src, dst, (payload + filler[n & 1023:])[:length], good)
        becomes = judge(packet, pad)
        fates[becomes] += 1
        n += 1
        if after:
            after(n, qpn, becomes)
    return fates


LATER = ('drop_unexpected_response', 'drop_datagram_too_long', 'drop_no_receive', 'drop_unreliable_gap', 'drop_unreliable_request', 'drop_after_nak')


def compare(report, label, before, now, fates):
    """Checks the counters against the fates of the packets. The C driver does not count what it drops."""
    got = {k: v - before[k] for k, v in now.items() if k == 'rcvd_pkts' or k.startswith('drop_')}
    # What a queue pair drops has been accepted before.
    later = {k: got.pop(k) for k in LATER if k in got}
    report.check(f'{label}: what queue pairs drop, {sum(later.values())}, is not more than what is accepted', sum(later.values()) <= got['rcvd_pkts'], f'{later}')
    # What it accepts it does count, those for queue pairs in the error state too; of a few packets it thinks otherwise.
    good = got['rcvd_pkts'] == fates['rcvd_pkts']
    if report.stock and fates['rcvd_pkts']:
        good = got['rcvd_pkts'] > 0
    report.check(f'{label}: {fates["rcvd_pkts"]} are to be accepted and {got["rcvd_pkts"]} are', good)
    if len(got) > 1:
        wrong = {k: (fates[k], v) for k, v in got.items() if v != fates[k]}
        report.check(f'{label}: each is counted: {", ".join(f"{v} {k}" for k, v in sorted(fates.items()))}', not wrong, f'(computed, counted): {wrong}')


def settle(dev):
    last = None
    while (now := dev.counters()) != last:
        last = now
        time.sleep(0.05 * verbs.SLOW)
    return last


def run(report, version, here, there, stranger, stride):
    a, b = Device('rxeA', here), Device('rxeB', there)
    with open('/rxe/va.mac') as f:
        wire = Wire('B', 'vb', f.read().strip())
    guards = Guards(a, b)
    guards.traffic(report, f'IPv{version} before')
    rnd = random.Random(version)
    filler = rnd.randbytes(2048)
    own = [h for _, h, _ in guards.pairs]
    owner = {0: own[0], 1: own[1], 3: own[2]}

    def guarded(opcode):
        """A guard QP that speaks the opcode's service, with an address and key that would be right."""
        q = owner.get(opcode >> 5) or own[opcode % 3]
        if q.qp_type == e.IBV_QPT_UD:
            return q.qpn, 0, struct.pack('!II', verbs.QKEY if bad_icrc else 0x22222222, 0x777777)
        return q.qpn, psn_of[q.qpn], struct.pack('!QII', q.mr.buf, q.mr.rkey, 64)

    psn_of = {q.qpn: q.query().rq_psn for q in own}
    services = {q.qpn: {e.IBV_QPT_RC: RC, e.IBV_QPT_UC: UC, e.IBV_QPT_UD: UD}[q.qp_type] for q in own} | {1: UD}
    qkeys = {q.qpn: verbs.QKEY for q in own} | {1: GSI_QKEY}

    def of_wrong_icrc(packet, pad):
        becomes = fate(packet, pad, services, qkeys)
        return 'drop_bad_icrc' if becomes == 'rcvd_pkts' else becomes

    def of_stranger(packet, pad):
        # Datagrams may come from anywhere; theirs is a wrong key.
        becomes = fate(packet, pad, services, qkeys)
        return 'drop_bad_source' if becomes == 'rcvd_pkts' else becomes

    for what, bad_icrc, src, judge in (('wrong ICRC', True, there, of_wrong_icrc), ('right ICRC, stranger', False, stranger, of_stranger)):
        before = settle(a)
        fates = storm(wire, src, here, stride, 0 if bad_icrc else 1, guarded, not bad_icrc, filler, judge)
        label = f'IPv{version}, {what}, {fates.total()} packets'
        compare(report, label, before, settle(a), fates)
        guards.check(report, label)
    guards.traffic(report, f'IPv{version} between')

    victims = Victims(a, there)
    for q in victims.qps:
        services[q.qpn], qkeys[q.qpn] = {e.IBV_QPT_RC: RC, e.IBV_QPT_UC: UC, e.IBV_QPT_UD: UD}[q.qp_type], verbs.QKEY
    targets = [q.qpn for q in victims.qps] + [0, 1, 0xffffff, 0xfffffe, 0x123456]
    rkeys = [q.mr.rkey for q in victims.qps]

    def anyone(opcode):
        service = {RC: 0, UC: 1, UD: 2}.get(opcode >> 5)
        i = service if service is not None and rnd.random() < 0.75 else rnd.randrange(len(targets))
        qpn = targets[i]
        if service == 2:
            return qpn, 0, struct.pack('!II', GSI_QKEY if qpn == 1 else verbs.QKEY, 0x777777)
        v = victims.qps[i % 3]
        return qpn, 1000 + rnd.choice((0, 0, 0, -1, 1, 5, 0x800000)) & 0xffffff, struct.pack('!QII', v.mr.buf, rkeys[i % 3], rnd.choice((0, 8, 64, 1 << 31)))

    def revive(n, qpn, becomes):
        if becomes == 'rcvd_pkts':
            victims.settle(qpn)
        if not n & 1023:
            victims.check()

    before = settle(a)
    fates = storm(wire, there, here, stride, 2, anyone, True, filler, lambda p, pad: fate(p, pad, services, qkeys), revive)
    victims.check()
    now = settle(a)
    label = f'IPv{version}, right ICRC, right peer, {fates.total()} packets'
    # A packet to a group passes all other checks before it is found that nobody is in it.
    fates['rcvd_pkts'] += fates['drop_no_group']
    # A QP that the packet before has killed may be found dead, if the worker was too slow for the test to notice.
    late = now.get('drop_qp_state', 0) - before.get('drop_qp_state', 0)
    report.check(f'{label}: hardly any comes too late ({late})', late <= fates['rcvd_pkts'] // 10)
    fates['rcvd_pkts'] -= late
    fates['drop_qp_state'] += late
    compare(report, label, before, now, fates)
    report.check(f'{label}: they reach the QPs ({victims.revived} revived)', victims.revived > 0)
    guards.check(report, label)
    guards.traffic(report, f'IPv{version} after')


r = Report()
step = int(sys.argv[1])
run(r, 4, '10.77.0.1', '10.77.0.2', '10.77.0.99', step)
run(r, 6, 'fd77::1', 'fd77::2', 'fd77::99', step * 7)
r.exit()
