# SPDX-License-Identifier: GPL-2.0
"""What the device and its port say about themselves, taken at its word.

Each limit is used up to what is announced, and one more must be refused; each attribute of a QP is set and read back; what is not
there must be refused with EOPNOTSUPP. The C driver's known departures are in the calls of `better`.
"""

import errno
import os
import re
import subprocess
import sys

import pyverbs.enums as e
from pyverbs.cq import CQ, CQEX, CqInitAttrEx
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr

import verbs

ABSENT, TOO_MUCH, INVALID = (errno.EOPNOTSUPP,), (errno.EINVAL, errno.ENOMEM), (errno.EINVAL,)

# What is announced: bits of device_cap_flags_ex. AUTO_PATH_MIG, which the C driver announces too, is not among them.
CAPS = {
    'BAD_PKEY_CNTR': 1, 'BAD_QKEY_CNTR': 2, 'CHANGE_PHY_PORT': 5, 'UD_AV_PORT_ENFORCE': 6, 'PORT_ACTIVE_EVENT': 10,
    'SYS_IMAGE_GUID': 11, 'RC_RNR_NAK_GEN': 12, 'SRQ_RESIZE': 13, 'MEM_WINDOW': 17, 'MEM_MGT_EXTENSIONS': 21,
    'MEM_WINDOW_TYPE_2B': 24, 'FLUSH_GLOBAL': 38, 'FLUSH_PERSISTENT': 39, 'ATOMIC_WRITE': 40,
}
LIMITS = {
    'max_qp': 2**20 - 16, 'max_qp_wr': 2**20, 'max_sge': 32, 'max_sge_rd': 32, 'max_cq': 2**20, 'max_cqe': 2**19 - 1,
    'max_mr': 2**19 - 1, 'max_pd': 2**20, 'max_qp_rd_atom': 128, 'max_qp_init_rd_atom': 128, 'max_mw': 2**19 - 1,
    'max_mcast_grp': 8192, 'max_mcast_qp_attach': 56, 'max_ah': 2**15 - 1, 'max_srq': 2**20 - 0x20001, 'max_srq_wr': 2**20,
    'max_srq_sge': 27, 'phys_port_cnt': 1,
}
ACCESS = verbs.REMOTE | e.IBV_ACCESS_MW_BIND


def outcome(make):
    """0 if `make` succeeds, else the errno. What it made is closed."""
    try:
        made = make()
    except PyverbsError as error:
        return getattr(error, 'error_code', None) or next((n for n in errno.errorcode if os.strerror(n) in str(error)), -1)
    except OSError as error:
        return error.errno
    if hasattr(made, 'close'):
        made.close()
    return 0


def name(code):
    return 'success' if code == 0 else errno.errorcode.get(code, str(code))


def qp_maker(dev, cq, qp_type=e.IBV_QPT_RC, **cap):
    wanted = dict(max_send_wr=1, max_recv_wr=1, max_send_sge=1, max_recv_sge=1, max_inline_data=0)
    wanted.update(cap)
    return lambda: QP(dev.pd, QPInitAttr(qp_type=qp_type, scq=cq, rcq=cq, cap=QPCap(**wanted)))


def announced(r, dev):
    attr, ex = dev.ctx.query_device(), dev.ctx.query_device_ex(None)
    limits = {**LIMITS, 'max_cqe': 2**15 - 1} if r.stock else LIMITS
    wrong = [f'{k} {getattr(attr, k)} instead of {v}' for k, v in limits.items() if getattr(attr, k) != v]
    r.check('the limits are as documented, those of the C driver but for completion queues', not wrong, ', '.join(wrong))
    flags, want = ex.device_cap_flags_ex, sum(1 << bit for bit in CAPS.values())
    r.check('all capabilities are announced', flags & want == want, ', '.join(n for n, bit in CAPS.items() if not flags >> bit & 1))
    r.better('it announces automatic path migration, and does not have it', 'and no others', flags & ~want == 0, hex(flags & ~want))
    r.better('it announces 64 partition keys, and has one', 'there is one partition key', attr.max_pkeys == 1, str(attr.max_pkeys))
    r.check('it is the default one', dev.ctx.query_pkey(1, 0) == 0xffff)
    r.check('and there is no second', outcome(lambda: dev.ctx.query_pkey(1, 1)) != 0)
    port = dev.ctx.query_port(1)
    r.check('the port has as many partition keys', port.pkey_tbl_len == 1, str(port.pkey_tbl_len))
    r.check('there is no second port', outcome(lambda: dev.ctx.query_port(2)) in INVALID)
    r.check('the port is up', (port.state, port.phys_state) == (e.IBV_PORT_ACTIVE, 5), f'{port.state} {port.phys_state}')
    r.check('the MTUs', (port.max_mtu, port.active_mtu) == (e.IBV_MTU_4096, e.IBV_MTU_4096), f'{port.max_mtu} {port.active_mtu}')
    r.check('the link layer and the longest message', (port.link_layer, port.max_msg_sz) == (2, 2**31))
    gid = str(dev.ctx.query_gid(1, dev.gid_index))
    r.check('the GID is that of the address', gid == verbs.gid_of(dev.address), gid)
    r.check('there is no GID behind the table', outcome(lambda: dev.ctx.query_gid(1, port.gid_tbl_len)) != 0)
    r.check('atomics are those of the device', attr.atomic_caps == e.IBV_ATOMIC_HCA, str(attr.atomic_caps))
    return attr, ex


def limits(r, dev, attr):
    def both(what, most, maker, refused=TOO_MUCH):
        got = outcome(maker(most))
        r.check(f'{what}: {most} can be had', got == 0, name(got))
        got = outcome(maker(most + 1))
        r.check(f'{what}: {most + 1} cannot', got in refused, name(got))

    both('completions', attr.max_cqe, lambda n: lambda: CQ(dev.ctx, n))
    vectors = dev.ctx.num_comp_vectors
    r.check('as many completion vectors as CPUs', vectors == os.cpu_count(), f'{vectors} of {os.cpu_count()}')
    both('completion vectors', vectors - 1, lambda n: lambda: CQ(dev.ctx, 4, None, None, n), INVALID)
    got = outcome(lambda: CQ(dev.ctx, 0))
    r.check('a completion queue without entries is refused', got in INVALID, name(got))
    cq = CQ(dev.ctx, 16)
    both('send requests', attr.max_qp_wr, lambda n: qp_maker(dev, cq, max_send_wr=n))
    both('receive requests', attr.max_qp_wr, lambda n: qp_maker(dev, cq, max_recv_wr=n))
    both('buffers of a send request', attr.max_sge, lambda n: qp_maker(dev, cq, max_send_sge=n))
    both('buffers of a receive request', attr.max_sge, lambda n: qp_maker(dev, cq, max_recv_sge=n))
    both('inline data', 512, lambda n: qp_maker(dev, cq, max_inline_data=n))
    qp = qp_maker(dev, cq, max_send_wr=100, max_recv_wr=50, max_send_sge=3, max_recv_sge=5, max_inline_data=100)()
    cap = qp.query(e.IBV_QP_CAP)[1].cap
    got = [cap.max_send_wr, cap.max_recv_wr, cap.max_send_sge, cap.max_recv_sge, cap.max_inline_data]
    r.check('a QP has at least what was asked for', all(g >= w for g, w in zip(got, (100, 50, 3, 5, 100))), str(got))
    qp.close()

    def srq(**wanted):
        return lambda: SRQ(dev.pd, SrqInitAttr(SrqAttr(**{'max_wr': 1, 'max_sge': 1, **wanted})))

    both('requests of a shared receive queue', attr.max_srq_wr, lambda n: srq(max_wr=n))
    both('buffers of such a request', attr.max_srq_sge, lambda n: srq(max_sge=n))
    got = outcome(srq(max_wr=0))
    r.check('a shared receive queue without requests is refused', got in INVALID, name(got))
    queue = srq(max_wr=10)()
    for n, good in ((1000, True), (attr.max_srq_wr + 1, False)):
        got = outcome(lambda: queue.modify(SrqAttr(max_wr=n), e.IBV_SRQ_MAX_WR))
        r.check(f'a shared receive queue resized to {n}', got == 0 if good else got in TOO_MUCH, name(got))
    now = queue.query().max_wr
    r.check('it has as many as it was resized to last', 1000 <= now < 4096, str(now))
    queue.close()

    for n, good in ((2000, True), (attr.max_cqe, True), (attr.max_cqe + 1, False), (0, False)):
        got = outcome(lambda: cq.resize(n))
        r.check(f'a completion queue resized to {n}', got == 0 if good else got in TOO_MUCH, name(got))
    cq.close()

    members = [verbs.Endpoint(dev, e.IBV_QPT_UD, 64, 1) for _ in range(attr.max_mcast_qp_attach + 1)]
    got = [outcome(lambda: member.attach('239.1.1.1')) for member in members]
    r.check(f'members of a group: {len(got) - 1} can be had', not any(got[:-1]), str([name(g) for g in got if g]))
    r.check('one more cannot', got[-1] in TOO_MUCH, name(got[-1]))
    for member in members:
        member.close()


def absent(r, dev, ex):
    cq = CQ(dev.ctx, 16)
    for what in ('XRC_SEND', 'XRC_RECV', 'RAW_PACKET'):
        got = outcome(qp_maker(dev, cq, getattr(e, f'IBV_QPT_{what}')))
        r.check(f'QP type {what} is refused', got in ABSENT + INVALID if what == 'XRC_RECV' else got in ABSENT, name(got))
    got = ex.odp_caps.general_caps
    r.check('on-demand paging is announced, implicit regions are not', got == e.IBV_ODP_SUPPORT, str(got))
    got = outcome(lambda: MR(dev.pd, 4096, verbs.REMOTE | e.IBV_ACCESS_ON_DEMAND, implicit=True))
    r.check('implicit on-demand paging is refused', got in ABSENT, name(got))
    got = outcome(lambda: MR(dev.pd, 4096, verbs.REMOTE | 1 << 19))
    r.check('an access flag that does not exist is refused', got in ABSENT + INVALID, name(got))
    for what, flag in (('timestamps', e.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP), ('flow tags', e.IBV_WC_EX_WITH_FLOW_TAG)):
        got = outcome(lambda: CQEX(dev.ctx, CqInitAttrEx(cqe=16, wc_flags=flag)))
        r.check(f'completions with {what} are refused', got in ABSENT, name(got))
    got = outcome(lambda: CQEX(dev.ctx, CqInitAttrEx(cqe=16, comp_mask=1, flags=e.IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)))
    r.check('a completion queue that may overrun is refused', got in ABSENT + INVALID, name(got))
    caps = ex.cq_mod_caps
    r.check('no moderation of completions is announced', (caps.max_cq_count, caps.max_cq_period) == (0, 0))
    cq.close()


def moved(qp, state, mask=0, **attributes):
    attr = QPAttr(qp_state=state)
    for key, value in attributes.items():
        setattr(attr, key, value)
    return outcome(lambda: qp.modify(attr, mask | e.IBV_QP_STATE))


def round_trip(r, dev, cq, qp_type, label):
    """Each attribute is set in the state that allows it and read back at the end."""
    qp = qp_maker(dev, cq, qp_type, max_send_wr=8, max_recv_wr=8)()
    want = {'pkey_index': 0, 'port_num': 1}
    mask = e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT
    connected = qp_type != e.IBV_QPT_UD
    if connected:
        want['qp_access_flags'] = ACCESS if qp_type == e.IBV_QPT_RC else verbs.REMOTE & ~e.IBV_ACCESS_REMOTE_READ
        mask |= e.IBV_QP_ACCESS_FLAGS
    else:
        want['qkey'] = 0x12345678
        mask |= e.IBV_QP_QKEY
    steps = [moved(qp, e.IBV_QPS_INIT, mask, **want)]
    handle = verbs.Endpoint.ah_attr(type('', (), {'dev': dev})(), dev.address)
    new, mask = {}, 0
    if connected:
        new = {'path_mtu': e.IBV_MTU_2048, 'dest_qp_num': 0x123456, 'rq_psn': 0xabcdef, 'ah_attr': handle}
        mask = e.IBV_QP_AV | e.IBV_QP_PATH_MTU | e.IBV_QP_DEST_QPN | e.IBV_QP_RQ_PSN
    if qp_type == e.IBV_QPT_RC:
        new.update(max_dest_rd_atomic=5, min_rnr_timer=17)
        mask |= e.IBV_QP_MAX_DEST_RD_ATOMIC | e.IBV_QP_MIN_RNR_TIMER
    want.update(new)
    steps.append(moved(qp, e.IBV_QPS_RTR, mask, **new))
    new, mask = {'sq_psn': 0xfedcba}, e.IBV_QP_SQ_PSN
    if qp_type == e.IBV_QPT_RC:
        new.update(timeout=11, retry_cnt=3, rnr_retry=6, max_rd_atomic=9)
        mask |= e.IBV_QP_TIMEOUT | e.IBV_QP_RETRY_CNT | e.IBV_QP_RNR_RETRY | e.IBV_QP_MAX_QP_RD_ATOMIC
    want.update(new)
    steps.append(moved(qp, e.IBV_QPS_RTS, mask, **new))
    r.check(f'{label}: to RTS', steps == [0, 0, 0], str([name(s) for s in steps]))
    attr, init = qp.query(0x1fffff)
    want.update(qp_state=e.IBV_QPS_RTS, cur_qp_state=e.IBV_QPS_RTS)
    want.pop('ah_attr', None)
    # These are rounded up to powers of two by the C driver.
    rounded = {k: want.pop(k) for k in ('max_rd_atomic', 'max_dest_rd_atomic') if k in want}
    wrong = [f'{k} {getattr(attr, k):#x} instead of {v:#x}' for k, v in want.items() if getattr(attr, k) != v]
    r.check(f'{label}: query returns what was set', not wrong, ', '.join(wrong))
    wrong = [f'{k} {getattr(attr, k)} instead of {v}' for k, v in rounded.items() if getattr(attr, k) != v]
    r.better('it rounds them up', f'{label}: the depths for READ and atomics', not wrong, ', '.join(wrong))
    r.check(f'{label}: and what it was created with', init.qp_type == qp_type and attr.cap.max_send_wr >= 8 <= attr.cap.max_recv_wr)
    if connected:
        ah = attr.ah_attr
        got = f'{ah.dgid} {ah.sgid_index} {ah.hop_limit}'
        r.check(f'{label}: and the path', got == f'{verbs.gid_of(dev.address)} {dev.gid_index} 64', got)
    return qp


def refused(r, dev, cq):
    """Values that modify must refuse, each in a state in which the attribute may be set."""
    def rejected(what, code, reason=''):
        if reason:
            r.better(reason, f'{what} is refused', code in INVALID, name(code))
        else:
            r.check(f'{what} is refused', code in INVALID, name(code))

    qp = qp_maker(dev, cq)()
    mask = e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT | e.IBV_QP_ACCESS_FLAGS
    rejected('port 2', moved(qp, e.IBV_QPS_INIT, mask, port_num=2))
    rejected('partition key 1', moved(qp, e.IBV_QPS_INIT, mask, port_num=1, pkey_index=1), 'it takes any index')
    qp.close()
    qp = qp_maker(dev, cq)()
    rejected('RESET to RTS', moved(qp, e.IBV_QPS_RTS, 0))
    moved(qp, e.IBV_QPS_INIT, mask, port_num=1)
    handle = verbs.Endpoint.ah_attr(type('', (), {'dev': dev})(), dev.address)
    rtr = dict(path_mtu=e.IBV_MTU_1024, dest_qp_num=1, rq_psn=0, ah_attr=handle, max_dest_rd_atomic=1, min_rnr_timer=1)
    mask = (e.IBV_QP_AV | e.IBV_QP_PATH_MTU | e.IBV_QP_DEST_QPN | e.IBV_QP_RQ_PSN | e.IBV_QP_MAX_DEST_RD_ATOMIC |
            e.IBV_QP_MIN_RNR_TIMER)
    rejected('a path MTU that does not exist', moved(qp, e.IBV_QPS_RTR, mask, **{**rtr, 'path_mtu': 6}))
    rejected('129 READs at a time as responder', moved(qp, e.IBV_QPS_RTR, mask, **{**rtr, 'max_dest_rd_atomic': 129}),
             'it takes what is too much')
    rejected('an RNR timer of 32', moved(qp, e.IBV_QPS_RTR, mask, **{**rtr, 'min_rnr_timer': 32}), 'it takes any value')
    rejected('an incomplete move to RTR', moved(qp, e.IBV_QPS_RTR, mask & ~e.IBV_QP_DEST_QPN, **rtr))
    state = qp.query(e.IBV_QP_STATE)[0].qp_state
    # On the C driver one of the above may have succeeded.
    code = moved(qp, e.IBV_QPS_RTR, mask, **{**rtr, 'max_dest_rd_atomic': 128}) if state == e.IBV_QPS_INIT else 0
    r.check('128 READs at a time as responder', code == 0, name(code))
    rts = dict(sq_psn=0, timeout=10, retry_cnt=1, rnr_retry=1, max_rd_atomic=1)
    mask = e.IBV_QP_SQ_PSN | e.IBV_QP_TIMEOUT | e.IBV_QP_RETRY_CNT | e.IBV_QP_RNR_RETRY | e.IBV_QP_MAX_QP_RD_ATOMIC
    rejected('129 READs at a time as requester', moved(qp, e.IBV_QPS_RTS, mask, **{**rts, 'max_rd_atomic': 129}))
    rejected('a timeout of 32', moved(qp, e.IBV_QPS_RTS, mask, **{**rts, 'timeout': 32}))
    rejected('the wrong current state', moved(qp, e.IBV_QPS_RTS, mask | e.IBV_QP_CUR_STATE, cur_qp_state=e.IBV_QPS_SQD, **rts))
    code = moved(qp, e.IBV_QPS_RTS, mask | e.IBV_QP_CUR_STATE, cur_qp_state=e.IBV_QPS_RTR, **{**rts, 'max_rd_atomic': 128})
    r.check('128 READs at a time as requester, and the right current state', code == 0, name(code))
    qp.close()


def drained(r, dev, qp):
    """SQD with its event, and back."""
    attr = QPAttr(qp_state=e.IBV_QPS_SQD)
    attr.en_sqd_async_notify = 1
    code = outcome(lambda: qp.modify(attr, e.IBV_QP_STATE | e.IBV_QP_EN_SQD_ASYNC_NOTIFY))
    r.check('RTS to SQD', code == 0, name(code))
    told = dev.events(1, 3) + dev.events(1, 0.2)
    r.check('one IBV_EVENT_SQ_DRAINED', told == [e.IBV_EVENT_SQ_DRAINED], str(told))
    now = qp.query(e.IBV_QP_STATE)[0]
    r.check('SQD, and not draining any more', (now.qp_state, now.sq_draining) == (e.IBV_QPS_SQD, 0), f'{now.qp_state} {now.sq_draining}')
    r.check('SQD to RTS', moved(qp, e.IBV_QPS_RTS) == 0)
    r.check('RTS to ERR', moved(qp, e.IBV_QPS_ERR) == 0)
    r.check('ERR to RESET', moved(qp, e.IBV_QPS_RESET) == 0)


def shown(r, dev):
    """The tools."""
    out = subprocess.run(['ibv_devinfo', '-v', '-d', dev.name], capture_output=True, text=True)
    value = dict(re.findall(r'^\s*([\w ]+):\s*(.*?)\s*$', out.stdout, re.M))
    base = f'/sys/class/infiniband/{dev.name}'

    def sysfs(path):
        with open(f'{base}/{path}') as f:
            return f.read().strip()

    r.check('ibv_devinfo -v succeeds, and complains of nothing', out.returncode == 0 and not out.stderr, out.stderr)
    guid = sysfs('node_guid')
    r.check('its GUIDs are those of sysfs', [value.get('node_guid'), value.get('sys_image_guid')] == [guid, sysfs('sys_image_guid')], str(value))
    r.check('and not zero', set(guid) - set('0:'), guid)
    want = {'transport': 'InfiniBand (0)', 'hca_id': dev.name, 'phys_port_cnt': '1', 'state': 'PORT_ACTIVE (4)', 'link_layer': 'Ethernet',
            'phys_state': 'LINK_UP (5)', 'active_mtu': '4096 (5)', 'sm_lid': '0', 'port_lid': '0', 'max_vl_num': '1 (1)'}
    wrong = [f'{k} {value.get(k)}' for k, v in want.items() if value.get(k) != v]
    r.check('its lines about the port', not wrong, ', '.join(wrong))
    r.check('and the speed', re.match(r'\d', value.get('active_speed', '')) and 'invalid' not in out.stdout, value.get('active_speed', ''))
    r.check('the rate of sysfs', re.match(r'[\d.]+ Gb/sec', sysfs('ports/1/rate')), sysfs('ports/1/rate'))
    r.check('the parent of sysfs', sysfs('parent') == 'va', sysfs('parent'))
    r.check('the type of the GID', sysfs(f'ports/1/gid_attrs/types/{dev.gid_index}') == 'RoCE v2')
    r.check('the netdev of the GID', sysfs(f'ports/1/gid_attrs/ndevs/{dev.gid_index}') == 'va')
    names = os.listdir(f'{base}/ports/1/hw_counters')
    stat = subprocess.run(['rdma', 'statistic', 'show', 'link', f'{dev.name}/1'], capture_output=True, text=True).stdout
    missing = [n for n in names if n != 'lifespan' and f' {n} ' not in f' {stat} ']
    r.check(f'rdma statistic shows all {len(names) - 1} counters of sysfs', not missing, str(missing))
    drops = [n for n in names if n.startswith('drop_')]
    r.better('it does not count why it drops packets', 'reasons to drop packets have counters of their own', len(drops) > 20, str(drops))


def managed(r, dev):
    """What management reads and writes: the description of the node, and the port counters that a management datagram asks for."""
    base = f'/sys/class/infiniband/{dev.name}'

    def counter(what):
        with open(f'{base}/ports/1/counters/{what}') as f:
            return int(f.read())

    with open(f'{base}/node_desc', 'w') as f:
        f.write('another name\n')
    with open(f'{base}/node_desc') as f:
        text = f.read().strip()
    r.check('the node can be given a description', text == 'another name', text)
    before = [counter(f'port_{way}_{what}') for way in ('xmit', 'rcv') for what in ('packets', 'data')]
    here, there = verbs.pair(dev, dev, e.IBV_QPT_RC)
    wrong = verbs.exchange(here, there, (10000, 20000))
    here.close()
    there.close()
    more = [counter(f'port_{way}_{what}') for way in ('xmit', 'rcv') for what in ('packets', 'data')]
    more = [m - b for m, b in zip(more, before)]
    # 30 packets of 1024 bytes or less, and acknowledgements; data in words, with headers.
    good = not wrong and more[:2] == more[2:] and 32 <= more[0] <= 64 and 7500 < more[1] < 10000
    r.better('it has none', 'the port counters of performance management', good, str(more))


def tracked(r, dev, qp_type=e.IBV_QPT_RC):
    """What `rdma resource` says of one QP, CQ, SRQ, MR and PD."""
    end = verbs.Endpoint(dev, qp_type)
    end.connect(end)
    for kind, want in (('qp', f'lqpn {end.qpn} '), ('cq', 'cqe '), ('mr', f'mrlen {end.size} '), ('pd', 'pdn ')):
        out = subprocess.run(['rdma', '-dd', 'resource', 'show', kind], capture_output=True, text=True)
        text = re.sub(r'\s+', ' ', out.stdout) + ' '
        r.check(f'rdma -dd resource show {kind}', out.returncode == 0 and want in text, out.stdout[-200:] + out.stderr)
    end.close()


def main():
    r = verbs.Report()

    dev = verbs.Device('rxeA', '10.77.0.1')
    attr, ex = announced(r, dev)
    limits(r, dev, attr)
    absent(r, dev, ex)
    cq = CQ(dev.ctx, 64)
    for qp_type, label in ((e.IBV_QPT_UC, 'UC'), (e.IBV_QPT_UD, 'UD')):
        round_trip(r, dev, cq, qp_type, label).close()
    qp = round_trip(r, dev, cq, e.IBV_QPT_RC, 'RC')
    drained(r, dev, qp)
    qp.close()
    refused(r, dev, cq)
    cq.close()
    shown(r, dev)
    managed(r, dev)
    tracked(r, dev)
    r.exit()


if __name__ == '__main__':
    sys.dont_write_bytecode = True
    main()
