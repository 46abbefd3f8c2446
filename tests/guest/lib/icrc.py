# SPDX-License-Identifier: GPL-2.0
"""Recomputes the ICRC of captured RoCE packets with scapy: icrc.py CAPTURE [LIMIT]. Prints `<checked> <wrong>`."""

import sys

from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP  # noqa: F401 (the layers must be known)
from scapy.layers.inet6 import IPv6  # noqa: F401
from scapy.utils import PcapReader

checked = wrong = 0
limit = int(sys.argv[2]) if len(sys.argv) > 2 else 200
for packet in PcapReader(sys.argv[1]):
    if BTH not in packet:
        continue
    seen = bytes(packet)
    packet[BTH].icrc = None
    built = bytes(packet)
    checked += 1
    if built[-4:] != seen[-4:] or len(built) != len(seen):
        wrong += 1
        print(f'packet {checked}: ICRC {seen[-4:].hex()}, computed {built[-4:].hex()}', file=sys.stderr)
    if checked == limit:
        break
print(checked, wrong)
