# SPDX-License-Identifier: GPL-2.0
"""UC and UD on a bad wire: what arrives is whole and right, what does not arrive is missing: unreliable.py MESSAGES loses|all.

Both ends are in this process. Each message carries its number and a pattern made of it. The wire loses packets, and with `all` it
doubles and reorders them as well. A message of one packet may then be delivered twice, or late, by UC as by UD: a packet that
starts a message starts it whatever its PSN is. Where the wire only loses, UC must deliver at most once and in order.
"""

import sys
import time

import pyverbs.enums as e
import verbs
from verbs import Device, Endpoint, Report

ADDRESSES = {4: ('10.77.0.1', '10.77.0.2'), 6: ('fd77::1', 'fd77::2')}


def message(number, length):
    return (b'%08d' % number) * (length // 8)


def reset_sender(report, family):
    """A sender that starts again, from PSNs that the receiver has left behind it, is heard."""
    a, b = Device('rxeA', ADDRESSES[family][0]), Device('rxeB', ADDRESSES[family][1])
    receiver, sender = Endpoint(a, e.IBV_QPT_UC), Endpoint(b, e.IBV_QPT_UC)
    receiver.connect(sender, psn=1000)
    for psn in (1000, 1000, 2, 0xfffff0, 0x7fffff):
        sender.connect(receiver, psn=psn)
        receiver.post_recv(psn, 4096)
        # The wire is bad: one of twenty arrives.
        for i in range(20):
            sender.mr.write(message(i, 2800), 2800)
            sender.post_send(i, 2800)
            sender.poll(1, 5)
            got = receiver.poll(1, 0.1)
            if got:
                break
        good = len(got) == 1 and got[0].wr_id == psn and receiver.mr.read(2800, 0) == message(i, 2800)
        report.check(f'UC IPv{family}: a sender that is reset to PSN {psn:#x} is heard', good)
        if not good:
            # Its request is still there.
            receiver.reset()
            receiver.connect(sender, psn=1000)
        sender.reset()
    receiver.close()
    sender.close()


def run(report, name, qp_type, family, messages, length):
    a = Device('rxeA', ADDRESSES[family][0])
    b = Device('rxeB', ADDRESSES[family][1])
    grh = 40 if qp_type == e.IBV_QPT_UD else 0
    slots, slot = 48, length + 40
    receiver, sender = Endpoint(a, qp_type, slots * slot), Endpoint(b, qp_type)
    receiver.connect(sender)
    sender.connect(receiver)
    ah = sender.address_handle(a.address) if grh else None
    for i in range(slots):
        receiver.post_recv(i, slot, i * slot)
    got, wrong, sent, in_order = [], 0, 0, True

    def receive(seconds):
        nonlocal wrong, in_order
        for wc in receiver.poll(slots, seconds):
            if wc.status != e.IBV_WC_SUCCESS or wc.byte_len != length + grh:
                wrong += 1
                continue
            data = receiver.mr.read(length, wc.wr_id * slot + grh)
            number = int(data[:8])
            if data != message(number, length):
                wrong += 1
            if got and number <= got[-1]:
                in_order = False
            got.append(number)
            receiver.post_recv(wc.wr_id, slot, wc.wr_id * slot)

    for number in range(messages):
        sender.mr.write(message(number, length), length)
        sender.post_send(number, length, ud=(ah, receiver.qpn, verbs.QKEY) if grh else None)
        done = sender.poll(1, 5)
        if not done or done[0].status != e.IBV_WC_SUCCESS:
            break
        sent += 1
        receive(0.002)
    time.sleep(0.05 * verbs.SLOW)
    receive(0.5)
    packets = -(-length // 1024)
    least = int(messages * (1 - 0.08 * packets) * 0.8)
    report.check(f'{name} IPv{family}: every send completes', sent == messages, f'{sent} of {messages}')
    report.check(f'{name} IPv{family}: no message arrives damaged', wrong == 0, f'{wrong} did')
    report.check(f'{name} IPv{family}: most messages arrive', len(set(got)) >= least, f'{len(set(got))} of {messages}, {least} wanted')
    if not grh and only_loses:
        report.check(f'{name} IPv{family}: at most once, in order', in_order, str(got))
    report.check(f'{name} IPv{family}: the QPs stay in RTS', receiver.state() == sender.state() == 'RTS')
    receiver.close()
    sender.close()


r = Report()
n, only_loses = int(sys.argv[1]), sys.argv[2] == 'loses'
for version in (4, 6):
    reset_sender(r, version)
    run(r, 'UC, one packet a message', e.IBV_QPT_UC, version, n, 800)
    run(r, 'UC, three packets a message', e.IBV_QPT_UC, version, n, 2800)
    run(r, 'UD', e.IBV_QPT_UD, version, n, 800)
r.exit()
