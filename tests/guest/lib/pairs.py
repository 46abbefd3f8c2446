# SPDX-License-Identifier: GPL-2.0
"""Traffic between two links: pairs.py LABEL DEVICE ADDRESS DEVICE ADDRESS.

RC, UC and UD messages in both directions, WRITE and READ; every byte is compared.
"""

import sys

import pyverbs.enums as e
import verbs
from verbs import Device, Report

LENGTHS = (1, 64, 1000, 1024)
LONG = (*LENGTHS, 1025, 5000, 20000)
# Half a second: eight attempts outlast a neighbour solicitation that was lost, which is asked again after one second.
TIMEOUT = 17


def remote(here, there):
    """A WRITE to `there` and a READ of it. None, or what went wrong."""
    length = 10000
    here.mr.write(verbs.message(5, length), length)
    for i, (opcode, offset) in enumerate(((e.IBV_WR_RDMA_WRITE, 0), (e.IBV_WR_RDMA_READ, 20000))):
        here.post_send(i, length, offset, opcode, remote=(there.mr.rkey, there.mr.buf + 30000))
        done = here.poll(1)
        if not done or done[0].status != e.IBV_WC_SUCCESS:
            return f'{opcode}: {done[0].status if done else "nothing"}'
    if there.mr.read(length, 30000) != verbs.message(5, length) or here.mr.read(length, 20000) != verbs.message(5, length):
        return 'the data are not those that were written'
    return None


label, dev1, addr1, dev2, addr2 = sys.argv[1:]
r = Report()
a, b = Device(dev1, addr1), Device(dev2, addr2)
for name, kind, lengths in (('RC', e.IBV_QPT_RC, LONG), ('UC', e.IBV_QPT_UC, LONG), ('UD', e.IBV_QPT_UD, LENGTHS)):
    here, there = verbs.pair(a, b, kind, timeout=TIMEOUT)
    wrong = verbs.exchange(here, there, lengths) or verbs.exchange(there, here, lengths, 100)
    r.check(f'{label}: {name}: {2 * len(lengths)} messages of up to {lengths[-1]} bytes', not wrong, str(wrong))
    if kind == e.IBV_QPT_RC:
        wrong = remote(here, there) or remote(there, here)
        r.check(f'{label}: {name}: WRITE and READ', not wrong, str(wrong))
    here.close()
    there.close()
r.exit()
