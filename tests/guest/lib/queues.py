# SPDX-License-Identifier: GPL-2.0
"""What a consumer is told of its queues: completion queues that are too small, shared receive queues that run low, are resized, or
will not be used any more by a QP that has failed.
"""

import pyverbs.enums as e
import verbs
from pyverbs.pyverbs_error import PyverbsRDMAError
from verbs import Device, Endpoint, Report, SharedQueue

SUCCESS = e.IBV_WC_SUCCESS


def statuses(wcs):
    return [w.status for w in wcs]


def overflow(report, a, b, side):
    """A CQ that is too small, on one side; `side` is 'send' or 'recv'."""
    what = f'overflow of a CQ of {side}s'
    victim = Endpoint(a, e.IBV_QPT_RC, **{side + '_cqe': 4})
    peer = Endpoint(b, e.IBV_QPT_RC)
    victim.connect(peer)
    peer.connect(victim, timeout=10)
    others = verbs.pair(a, b, e.IBV_QPT_RC)
    small = victim.send_cq if side == 'send' else victim.recv_cq
    room, n = small.cqe, small.cqe + 4
    sender, receiver = (victim, peer) if side == 'send' else (peer, victim)
    for i in range(n):
        receiver.post_recv(i, 100)
    for i in range(n):
        sender.post_send(i, 100)
    # Another may say that the QP has failed.
    events = a.events(1)
    events += a.events(8, 0.3)
    report.check(f'{what}: IBV_EVENT_CQ_ERR', e.IBV_EVENT_CQ_ERR in events, str(events))
    report.better('it tells of every completion that is lost', f'{what}: it is told once', events.count(e.IBV_EVENT_CQ_ERR) == 1, str(events))
    report.better('it has no such event', f'{what}: IBV_EVENT_QP_FATAL', events.count(e.IBV_EVENT_QP_FATAL) == 1, str(events))
    report.better('it leaves the QP as it is', f'{what}: the QP goes to the error state', victim.becomes('ERR', 1 if report.stock else 10), victim.state())
    # What fitted is there, and nothing else.
    got = victim.poll(room + 1, 1, small)
    good = [w.wr_id for w in got] == list(range(room)) and set(statuses(got)) == {SUCCESS}
    report.check(f'{what}: the {room} completions before are whole and in order', good, str([(w.wr_id, w.status) for w in got]))
    if side == 'recv':
        # The peer's requests end, if only because nobody answers.
        done = peer.poll(n)
        report.check(f'{what}: each of the peer\'s requests completes', len(done) == n, f'{len(done)} of {n}: {statuses(done)}')
    wrong = verbs.exchange(*others, (100, 5000)) or verbs.exchange(*reversed(others), (100, 5000), 10)
    report.check(f'{what}: another QP of the same device works', not wrong and others[0].state() == 'RTS', str(wrong))
    # The QP is brought back, its CQ has room now.
    if victim.state() == 'ERR':
        for q in (victim, peer):
            q.reset()
        victim.connect(peer)
        peer.connect(victim)
        victim.poll(256, 0.1, small)
        for q in (victim, peer):
            q.poll(256, 0)
    for q in (victim, peer, *others):
        q.close()
    events = a.events(8, 0.1) + b.events(8, 0.1)
    report.check(f'{what}: nothing more is told', not events, str(events))


class Shared:
    """Two QPs on one shared receive queue, and their peers."""

    def __init__(self, a, b, max_wr):
        self.queue = SharedQueue(a, max_wr)
        self.qps = [Endpoint(a, e.IBV_QPT_RC, srq=self.queue) for _ in range(2)]
        self.peers = [Endpoint(b, e.IBV_QPT_RC) for _ in range(2)]
        for q, p in zip(self.qps, self.peers):
            q.connect(p)
            p.connect(q)
        self.posted = self.taken = 0

    def post(self, n):
        for _ in range(n):
            self.queue.post_recv(self.posted, 512, self.posted % 128 * 512)
            self.posted += 1

    def send(self, n, through=(0, 1)):
        """`n` messages, through the QPs by turns; each must be received by the next request. None, or what went wrong."""
        for _ in range(n):
            k, i = through[self.taken % len(through)], self.taken
            self.peers[k].mr.write(verbs.message(i, 500), 500)
            self.peers[k].post_send(i, 500)
            done, got = self.peers[k].poll(1), self.qps[k].poll(1)
            if statuses(done + got) != [SUCCESS] * 2:
                return f'message {i}: {statuses(done)} {statuses(got)}'
            if got[0].wr_id != i or self.queue.mr.read(500, i % 128 * 512) != verbs.message(i, 500):
                return f'message {i} was received by request {got[0].wr_id}, or damaged'
            self.taken += 1
        return None

    def close(self):
        for q in self.qps + self.peers:
            q.close()
        self.queue.close()


def limit(report, a, b):
    s = Shared(a, b, 16)
    s.post(10)
    s.queue.set_limit(7)
    report.check('SRQ limit: it is what was set', s.queue.query().srq_limit == 7, str(s.queue.query().srq_limit))
    wrong = s.send(3)
    report.check('SRQ limit: nothing is told while as many are left', not wrong and not a.events(1, 0.3), str(wrong))
    wrong = s.send(1)
    events = a.events(2, 1)
    report.check('SRQ limit: one event when fewer are left', not wrong and events == [e.IBV_EVENT_SRQ_LIMIT_REACHED], f'{wrong} {events}')
    wrong = s.send(2)
    report.check('SRQ limit: it is told once', not wrong and not a.events(1, 0.3), str(wrong))
    report.check('SRQ limit: and then disarmed', s.queue.query().srq_limit == 0, str(s.queue.query().srq_limit))
    s.queue.set_limit(3)
    wrong = s.send(2)
    events = a.events(2, 1)
    report.check('SRQ limit: set again, it is told again', not wrong and events == [e.IBV_EVENT_SRQ_LIMIT_REACHED], f'{wrong} {events}')
    try:
        s.queue.set_limit(s.queue.query().max_wr + 1)
        refused = False
    except PyverbsRDMAError:
        refused = True
    report.check('SRQ limit: more than the queue holds is refused', refused)
    s.close()


def resize(report, a, b):
    s = Shared(a, b, 8)
    capacity = s.queue.query().max_wr
    s.post(capacity)
    wrong = s.send(3)
    s.post(3)
    for size in (60, 200, 100):
        s.queue.resize(size)
        now = s.queue.query().max_wr
        report.check(f'SRQ resized to {size}: it holds as many', now >= size, str(now))
        fill = min(now, 120) - (s.posted - s.taken)
        s.post(fill)
        wrong = wrong or s.send(s.posted - s.taken - 5)
        report.check(f'SRQ resized to {size}: the requests posted before and after are used in order', not wrong, str(wrong))
    # No more than what it holds is lost.
    s.post(60)
    try:
        s.queue.resize(16)
        refused = False
    except PyverbsRDMAError:
        refused = True
    report.check('SRQ: it does not shrink below what is posted', refused)
    wrong = wrong or s.send(65)
    report.check('SRQ: nor has it lost anything then', not wrong and s.posted == s.taken, str(wrong))
    s.queue.resize(16)
    s.post(16)
    wrong = wrong or s.send(16)
    report.check('SRQ resized to 16: it works on', not wrong, str(wrong))
    s.close()


def last_wqe(report, a, b):
    s = Shared(a, b, 32)
    s.post(20)
    wrong = s.send(4)
    s.qps[0].to_error()
    events = a.events(2, 1)
    told = not wrong and events == [e.IBV_EVENT_QP_LAST_WQE_REACHED]
    report.check('IBV_EVENT_QP_LAST_WQE_REACHED when a QP of an SRQ fails, once', told, f'{wrong} {events}')
    report.check('the requests of the SRQ are not flushed by it', not s.qps[0].poll(1, 0.2))
    wrong = s.send(6, (1,))
    report.check('and serve the other QP', not wrong, str(wrong))
    for q in (s.qps[0], s.peers[0]):
        q.reset()
        q.poll(64, 0)
    s.qps[0].connect(s.peers[0])
    s.peers[0].connect(s.qps[0])
    wrong = s.send(4)
    report.check('the QP comes back through reset', not wrong and not a.events(1, 0.2), str(wrong))
    s.qps[0].to_error()
    events = a.events(2, 1)
    report.check('and tells again when it fails again', events == [e.IBV_EVENT_QP_LAST_WQE_REACHED], str(events))
    s.close()
    report.check('nothing more is told at the end', not a.events(1, 0.2))


r = Report()
dev_a, dev_b = Device('rxeA', '10.77.0.1'), Device('rxeB', '10.77.0.2')
overflow(r, dev_a, dev_b, 'recv')
overflow(r, dev_a, dev_b, 'send')
limit(r, dev_a, dev_b)
resize(r, dev_a, dev_b)
last_wqe(r, dev_a, dev_b)
r.exit()
