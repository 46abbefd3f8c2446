# SPDX-License-Identifier: GPL-2.0
"""Judges a capture of RoCE packets: capture.py FILE IP_VERSION. The wire's RDMA MTU is 1024.

tshark decodes every packet (once, because it takes long to start); scapy computes the ICRC of each anew.
"""

import os
import subprocess
import sys

import verbs
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP  # noqa: F401 (the layers must be known)
from scapy.layers.inet6 import IPv6  # noqa: F401
from scapy.utils import PcapReader

FIELDS = ('_ws.malformed', 'ip.version', 'ipv6.version', 'ip.src', 'ipv6.src', 'udp.length', 'infiniband.bth.opcode', 'infiniband.bth.destqp',
          'infiniband.bth.psn', 'infiniband.bth.tver', 'infiniband.bth.p_key', 'infiniband.bth.padcnt', 'infiniband.reth.dmalen')
MTU = 1024
# RC: SEND first, middle, last, only; WRITE first, last or only; READ request and its responses; ACK, atomic ACK, an atomic.
# UC: SEND first, middle, last. UD: SEND only.
WANTED = {0, 1, 2, 4, 6, 7, 8, 12, 13, 14, 15, 17, 18, 20, 32, 33, 34, 100}
RC_RESPONSES = range(13, 19)


def number(text):
    return int(text.split(',')[0], 0) if text else 0


def decode(path):
    args = ['tshark', '-r', path, '-T', 'fields', '-E', 'separator=/t']
    for f in FIELDS:
        args += ['-e', f]
    out = subprocess.run(args, capture_output=True, text=True, check=True).stdout
    return [dict(zip(FIELDS, line.split('\t'))) for line in out.splitlines()]


def psn_gaps(packets):
    """Requests to a QP take up the PSNs one after the other; a READ takes one for each packet of its answer.

    A PSN may come again, when a slow guest makes the sender believe that the packet was lost. None may be left out.
    """
    expected, gaps, steps = {}, [], 0
    for i, p in enumerate(packets, 1):
        opcode, qp, psn = (number(p['infiniband.bth.' + k]) for k in ('opcode', 'destqp', 'psn'))
        if opcode >= 64 or opcode in RC_RESPONSES:
            continue
        key = p['ip.src'] or p['ipv6.src'], qp
        length = number(p['infiniband.reth.dmalen']) if opcode == 12 else 0
        following = (psn + max(1, -(-length // MTU))) % 2**24
        ahead = (psn - expected.get(key, psn)) % 2**24
        steps += key in expected
        if 0 < ahead < 2**23:
            gaps.append(f'packet {i}: PSN {psn}, expected {expected[key]}')
        if ahead < 2**23 or (following - expected[key]) % 2**24 < 2**23:
            expected[key] = following
    return gaps, steps


def wrong_icrcs(path, limit):
    checked, wrong = 0, []
    for packet in PcapReader(path):
        if BTH not in packet or checked == limit:
            continue
        seen = bytes(packet)
        packet[BTH].icrc = None
        built = bytes(packet)
        checked += 1
        if built[-4:] != seen[-4:]:
            wrong.append(f'packet {checked}: {seen[-4:].hex()}, computed {built[-4:].hex()}')
    return checked, wrong


def main():
    path, version = sys.argv[1], sys.argv[2]
    r = verbs.Report()
    label = f'IPv{version}: '
    packets = decode(path)
    r.check(f'{label}{len(packets)} packets were captured', len(packets) > 100)
    bad = [i for i, p in enumerate(packets, 1) if p['_ws.malformed'] or not p['infiniband.bth.opcode']]
    r.check(label + 'tshark decodes every packet', not bad, str(bad))
    field = 'ip.version' if version == '4' else 'ipv6.version'
    r.check(label + 'every packet is of that IP version', all(p[field] == version for p in packets))
    seen = {number(p['infiniband.bth.opcode']) for p in packets}
    r.check(f'{label}{len(seen)} opcodes were used, among them all that had to be', WANTED <= seen, f'missing: {sorted(WANTED - seen)}')
    gaps, steps = psn_gaps(packets)
    r.check(f'{label}the PSNs of {steps} requests leave none out', not gaps and steps > 30, '; '.join(gaps[:5]))
    r.check(label + 'every header has version 0 and the default partition',
            all(number(p['infiniband.bth.tver']) == 0 and number(p['infiniband.bth.p_key']) == 0xffff for p in packets))
    r.check(label + 'every packet is a multiple of four bytes', all(number(p['udp.length']) % 4 == 0 for p in packets))
    pads = {number(p['infiniband.bth.padcnt']) for p in packets}
    r.check(label + 'padded packets are among them', {0, 1, 3} <= pads, str(pads))
    checked, wrong = wrong_icrcs(path, int(os.environ.get('ICRC_LIMIT', '200')))
    r.check(f'{label}scapy computes the same ICRC for {checked} packets', checked > 100 and not wrong, '; '.join(wrong[:5]))
    r.exit()


main()
