# SPDX-License-Identifier: GPL-2.0
"""A program whose devices go while it uses them: gone.py DEVICE ADDRESS DEVICE ADDRESS.

It sends from the second device to the first all the time, prints `ready` when messages arrive, and then expects its devices to go.
Of each device it must be told: IBV_EVENT_DEVICE_FATAL, an error for a read of the completion channel that is waiting, and errors for
everything it asks for afterwards. It ends by itself. Status: 0, it was told all that; 1, not.
"""

import errno
import os
import sys
import threading
import time

import pyverbs.enums as e
import verbs
from pyverbs.cq import CQ, CompChannel
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QPAttr
from verbs import Device, Report


def error_of(call):
    """The errno that a call fails with; 0 if it does not fail."""
    try:
        call()
    except PyverbsRDMAError as x:
        return x.error_code or -1
    except OSError as x:
        return x.errno
    return 0


class Watched:
    """A device, and a thread that waits for an event of a completion queue which has none."""

    def __init__(self, name, address):
        self.dev = Device(name, address)
        before = verbs.event_files()
        self.channel = CompChannel(self.dev.ctx)
        (self.fd,) = verbs.event_files() - before
        self.cq = CQ(self.dev.ctx, 4, None, self.channel)
        self.cq.req_notify()
        self.waited = None
        self.thread = threading.Thread(target=self.wait, daemon=True)
        self.thread.start()

    def wait(self):
        self.waited = error_of(lambda: os.read(self.fd, 64))

    def told(self, report, qp, seconds):
        name = self.dev.name
        events = self.dev.events(1, seconds)
        report.check(f'{name}: IBV_EVENT_DEVICE_FATAL', events == [e.IBV_EVENT_DEVICE_FATAL], str(events))
        self.thread.join(seconds * verbs.SLOW)
        report.check(f'{name}: who waits for completions is woken with an error', self.waited == errno.EIO, str(self.waited))
        calls = {
            'post_send': lambda: qp.post_send(1, 100),
            'query_qp': qp.query,
            'modify_qp': lambda: qp.qp.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE),
            'query_port': lambda: self.dev.ctx.query_port(1),
            'alloc_pd': lambda: PD(self.dev.ctx),
            'reg_mr': lambda: MR(self.dev.pd, 4096, verbs.REMOTE),
            'create_cq': lambda: CQ(self.dev.ctx, 4),
            'req_notify_cq': self.cq.req_notify,
        }
        errors = {what: error_of(call) for what, call in calls.items()}
        report.check(f'{name}: every verb is refused with EIO', set(errors.values()) == {errno.EIO}, str(errors))


r = Report()
a, b = Watched(*sys.argv[1:3]), Watched(*sys.argv[3:5])
here, there = verbs.pair(a.dev, b.dev, e.IBV_QPT_RC)
end = time.monotonic() + 60 * verbs.SLOW
n = 0
while time.monotonic() < end:
    try:
        here.post_recv(n, 20000)
        there.post_send(n, 20000)
    except PyverbsRDMAError as x:
        print(f'message {n} is refused: {x}')
        break
    sent, got = there.poll(1, 2), here.poll(1, 2)
    if [w.status for w in sent + got] != [e.IBV_WC_SUCCESS] * 2:
        print(f'message {n}: {[w.status for w in sent + got]}')
        break
    n += 1
    if n == 3:
        print('ready', flush=True)
b.told(r, there, 20)
a.told(r, here, 20)
r.exit()
