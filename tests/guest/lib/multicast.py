# SPDX-License-Identifier: GPL-2.0
"""Multicast: several members on each of two links; each is served once by every datagram, and nobody else."""

import os
import socket
import struct
import subprocess

import pyverbs.enums as e
import verbs
from verbs import Device, Endpoint, Report

QPN = 0xffffff
DATAGRAMS = 8
NOT_JOINED = 'the host is no member of the IP group, and takes nothing in'


def groups(netns, ifname, version):
    """The groups that the host is a member of on an interface, as the kernel prints them: IPv4 in its byte order."""
    text = subprocess.run(['ip', 'netns', 'exec', netns, 'cat', '/proc/net/igmp' if version == 4 else '/proc/net/igmp6'],
                          capture_output=True, text=True, check=True).stdout
    if version == 6:
        return {line.split()[2]: int(line.split()[3]) for line in text.splitlines() if line.split()[1] == ifname}
    found, here = {}, False
    for line in text.splitlines()[1:]:
        if not line.startswith('\t'):
            here = line.split()[1] == ifname
        elif here:
            found[line.split()[0]] = int(line.split()[1])
    return found


def printed(group):
    if ':' in group:
        return socket.inet_pton(socket.AF_INET6, group).hex()
    return socket.inet_aton(group)[::-1].hex().upper()


def join(netns, ifname, group):
    """Makes a namespace's host a member; lasts as long as the socket."""
    home = os.open('/proc/self/ns/net', os.O_RDONLY)
    there = os.open(f'/run/netns/{netns}', os.O_RDONLY)
    os.setns(there, os.CLONE_NEWNET)
    try:
        if ':' in group:
            s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP,
                         socket.inet_pton(socket.AF_INET6, group) + struct.pack('I', socket.if_nametoindex(ifname)))
        else:
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                         socket.inet_aton(group) + struct.pack('@4si', b'\0' * 4, socket.if_nametoindex(ifname)))
    finally:
        os.setns(home, os.CLONE_NEWNET)
        os.close(home)
        os.close(there)
    return s


def endpoint(dev):
    q = Endpoint(dev, e.IBV_QPT_UD)
    q.connect(address=dev.address)
    for i in range(2 * DATAGRAMS):
        q.post_recv(i, 1024, i * 1024)
    return q


def numbers(q, version):
    """The numbers of the datagrams that have arrived; None in the place of a wrong one."""
    got = []
    for w in q.poll(2 * DATAGRAMS, 0.3):
        data = q.mr.read(600, w.wr_id * 1024 + 40)
        number = int(data[:8]) if data[:8].isdigit() else -1
        good = w.status == e.IBV_WC_SUCCESS and w.byte_len == 640 and w.wc_flags & e.IBV_WC_GRH and data == verbs.message(number, 600)
        got.append(number if good else None)
        q.post_recv(w.wr_id, 1024, w.wr_id * 1024)
    return got


def run(report, version, here, there, group, other):
    a, b = Device('rxeA', here), Device('rxeB', there)
    before = groups('A', 'va', version)
    far, near, outsiders = [endpoint(a) for _ in range(3)], [endpoint(b) for _ in range(2)], [endpoint(a), endpoint(b)]
    for q in far + near:
        q.attach(group)
    # Attached twice, it is served once.
    far[0].attach(group)
    outsiders[0].attach(other)
    now = groups('A', 'va', version)
    report.better(NOT_JOINED, f'IPv{version}: the host is a member of the groups, once', {g: now[g] for g in set(now) - set(before)} ==
                 {printed(group): 1, printed(other): 1}, f'{before} {now}')
    for sender_dev, names in ((b, ('on the other link', 'on the sender\'s link')), (a, ('on the sender\'s link', 'on the other link'))):
        sender = Endpoint(sender_dev, e.IBV_QPT_UD)
        sender.connect(address=sender_dev.address)
        for i in range(DATAGRAMS):
            sender.mr.write(verbs.message(i, 600), 600)
            sender.post_send(i, 600, ud=(sender.address_handle(group), QPN, verbs.QKEY))
            done = sender.poll(1)
            if [w.status for w in done] != [e.IBV_WC_SUCCESS]:
                report.check(f'IPv{version}: a datagram is sent', False, str([w.status for w in done]))
        for name, members in zip(names, (far, near)):
            got = [numbers(q, version) for q in members]
            report.better(NOT_JOINED, f'IPv{version} from {sender_dev.name}: each of the {len(members)} members {name} gets each datagram once',
                         all(sorted(g, key=str) == list(range(DATAGRAMS)) for g in got), str(got))
        got = [numbers(q, version) for q in outsiders]
        report.check(f'IPv{version} from {sender_dev.name}: who is not a member gets nothing', got == [[], []], str(got))
        sender.close()
    counted = a.counters()
    for q in far[:2]:
        q.close()
    sender = Endpoint(b, e.IBV_QPT_UD)
    sender.connect(address=b.address)
    sender.mr.write(verbs.message(3, 600), 600)
    sender.post_send(3, 600, ud=(sender.address_handle(group), QPN, verbs.QKEY))
    sender.poll(1)
    got = numbers(far[2], version)
    report.better(NOT_JOINED, f'IPv{version}: a member is served when others have gone', got == [3], str(got))
    for q in far[2:]:
        q.close()
    # The host has another reason to be a member, so that the datagram gets as far as the device.
    host = join('A', 'va', group)
    sender.post_send(3, 600, ud=(sender.address_handle(group), QPN, verbs.QKEY))
    sender.poll(1)
    if 'drop_no_group' in counted:
        last = a.counters()
        for _ in range(50):
            if (last := a.counters())['drop_no_group'] > counted['drop_no_group']:
                break
            verbs.time.sleep(0.02 * verbs.SLOW)
        report.check(f'IPv{version}: a group that all have left is counted as none', last['drop_no_group'] == counted['drop_no_group'] + 1,
                     f'{counted["drop_no_group"]} {last["drop_no_group"]}')
    host.close()
    for q in [sender, *near, *outsiders]:
        q.close()
    now = groups('A', 'va', version)
    report.check(f'IPv{version}: the host has left the groups', printed(group) not in now and printed(other) not in now, str(now))


r = Report()
run(r, 4, '10.77.0.1', '10.77.0.2', '239.7.7.7', '239.7.7.8')
run(r, 6, 'fd77::1', 'fd77::2', 'ff15::7:7', 'ff15::7:8')
r.exit()
