# SPDX-License-Identifier: GPL-2.0
"""held.py wake|destroy|stay: queue pairs whose packets a queueing discipline keeps.

`wake` releases the packets and wants all requests to complete, `destroy` times the end of the queue pairs while the packets stay, and
`stay` keeps everything as it is until it is killed. For unload.sh, which made the wire.
"""

import re
import subprocess
import sys
import time

import pyverbs.enums as e
from verbs import QKEY, SLOW, Device, Endpoint, Report

REQUESTS = 200
LIMIT = 0.1 * SLOW


def tc(*args):
    return subprocess.run(['tc', '-n', 'A', *args], check=True, capture_output=True, text=True).stdout


def held():
    m = re.search(r'backlog \S+ (\d+)p', tc('-s', 'qdisc', 'show', 'dev', 'va'))
    return int(m.group(1)) if m else 0


def timed(call):
    start = time.monotonic()
    call()
    return time.monotonic() - start


def main():
    mode, r = sys.argv[1], Report()
    a, b = Device('rxeA', '10.77.0.1'), Device('rxeB', '10.77.0.2')
    ud = Endpoint(a, e.IBV_QPT_UD, depth=256)
    rc, peer = Endpoint(a, e.IBV_QPT_RC, depth=64), Endpoint(b, e.IBV_QPT_RC, depth=64)
    ud.connect(address='10.77.0.2')
    rc.connect(peer, mtu=e.IBV_MTU_4096, timeout=20)
    peer.connect(rc, mtu=e.IBV_MTU_4096, timeout=20)
    to = (ud.address_handle('10.77.0.2'), 0x777, QKEY)
    remote = (peer.mr.rkey, peer.mr.buf)
    ud.post_send(0, 16, ud=to)
    rc.post_send(0, 16, opcode=e.IBV_WR_RDMA_WRITE, remote=remote)
    r.check('requests complete on a free wire', len(ud.poll(1)) == 1 and len(rc.poll(1)) == 1)

    tc('qdisc', 'add', 'dev', 'va', 'root', 'plug', 'limit', '100000000')
    for i in range(REQUESTS):
        ud.post_send(i, 4096, ud=to)
    for i in range(32):
        rc.post_send(i, 32768, opcode=e.IBV_WR_RDMA_WRITE, remote=remote)
    done = len(ud.poll(REQUESTS, 2))
    r.check('a sender stops when the network takes no more', 8 <= done < REQUESTS, f'{done} of {REQUESTS} sent')
    parked = held()
    r.check('the packets are in the queue of the netdev', parked >= done, f'{parked} packets')
    print(f'        {parked} packets are held', flush=True)

    if mode == 'wake':
        tc('qdisc', 'change', 'dev', 'va', 'root', 'plug', 'release_indefinite')
        done += len(ud.poll(REQUESTS - done, 10))
        r.check('it goes on when they are released', done == REQUESTS, f'{done} of {REQUESTS} sent')
        wcs = rc.poll(32, 10)
        r.check('so does a connection', len(wcs) == 32 and all(w.status == 0 for w in wcs), f'{[w.status for w in wcs]}')
    elif mode == 'destroy':
        for name, end in [('UD', ud), ('RC', rc)]:
            t = timed(end.qp.close)
            r.check(f'the {name} queue pair is destroyed within 100 ms (times {SLOW:g})', t < LIMIT, f'{t * 1000:.1f} ms')
            print(f'        {t * 1000:.1f} ms', flush=True)
        r.check('its packets stay', held() >= parked, f'{held()} of {parked}')
    elif mode == 'stay':
        print('staying', flush=True)
        time.sleep(3600)
    r.exit()


main()
