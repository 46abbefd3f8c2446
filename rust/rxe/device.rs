// SPDX-License-Identifier: GPL-2.0

//! The device: what all its objects share.
//!
//! [`RxeDev`] is referenced by every object body, and so may live a little longer than the device
//! of the RDMA core; its drop does nothing that sleeps. What has to be given back when the device
//! goes, in process context, is in [`DeviceData`], which the core's device owns.

#![forbid(unsafe_code)]

use super::{
    ah::Ah,
    keys::Keys,
    mcast::Groups,
    netns::Attachment,
    param,
    pd::Pd,
    qp::Qp,
    srq::Srq,
    workers::Workers, //
};
use crate::{
    abstractions::{
        net::NetDev,
        rdma::{
            Gid,
            GidAttr,
            WeakDevice, //
        },
        sync::{
            IdTable,
            PerCpuCounters,
            RcuArc, //
        },
        work::OwnedQueue, //
    },
    proto::{
        counters::{
            self,
            Counter,
            DropReason,
            Misuse, //
        },
        num::{
            Mtu,
            PdId, //
        }, //
    }, //
};
use core::ops::Deref;
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        rcu,
        Arc, //
    },
    workqueue::Queue, //
};

/// What the core's device owns.
pub struct DeviceData {
    /// Has the packets of the network device come here; the first thing to end.
    _attachment: Attachment,
    dev: Arc<RxeDev>,
}

impl DeviceData {
    /// Makes the data of a device on `ndev`.
    pub(crate) fn new(weak: Arc<WeakDevice>, guid: [u8; 8], ndev: &NetDev) -> Result<Self> {
        let dev = Arc::pin_init(RxeDev::new(weak, guid, ndev)?, GFP_KERNEL)?;
        Ok(Self {
            _attachment: Attachment::new(dev.clone(), ndev)?,
            dev,
        })
    }
}

impl Drop for DeviceData {
    fn drop(&mut self) {
        // No object is left, but work items that were queued before may still hold bodies.
        self.dev.workers.flush();
    }
}

impl Deref for DeviceData {
    type Target = Arc<RxeDev>;

    fn deref(&self) -> &Arc<RxeDev> {
        &self.dev
    }
}

/// A device.
#[pin_data]
pub struct RxeDev {
    weak: Arc<WeakDevice>,
    workers: Arc<OwnedQueue>,
    counters: PerCpuCounters<{ counters::COUNT }>,
    /// The GUID of the system, in network byte order.
    sys_image_guid: Atomic<u64>,
    port: Port,
    /// Protection domains, by number.
    #[pin]
    pub(super) pds: IdTable<Pd>,
    /// Address handles, by number.
    #[pin]
    pub(super) ahs: IdTable<Ah>,
    /// Queue pairs, by number; that for general services has number 1.
    #[pin]
    pub(super) qps: IdTable<Qp>,
    /// Shared receive queues, by number.
    #[pin]
    pub(super) srqs: IdTable<Srq>,
    /// Memory regions and windows, by key.
    #[pin]
    pub(super) keys: Keys,
    /// Multicast groups.
    #[pin]
    pub(super) groups: Groups,
    /// Completion queues that may still be made.
    pub(super) cqs: Quota,
    /// User contexts that may still be made.
    pub(super) ucontexts: Quota,
}

/// The state of the port.
struct Port {
    /// An [`Mtu`] (`enum ib_mtu`).
    mtu: Atomic<u32>,
    /// Capabilities (`enum ib_port_capability_mask_bits`).
    caps: Atomic<u32>,
    /// Packets dropped because of their partition key.
    bad_pkeys: Atomic<u32>,
    /// Packets dropped because of their queue key.
    bad_qkeys: Atomic<u32>,
    /// Whether the link was up when it was looked at last: 1 or 0.
    link_up: Atomic<u32>,
}

/// The largest value of the counters that the port attributes show.
const PORT_COUNTER_MAX: u32 = 0xffff;

impl RxeDev {
    fn new(weak: Arc<WeakDevice>, guid: [u8; 8], ndev: &NetDev) -> Result<impl PinInit<Self>> {
        let workers = Workers::shared()?;
        let counters = PerCpuCounters::new()?;
        let port = Port {
            mtu: Atomic::new(mtu_for(ndev.mtu()).ib_enum()),
            caps: Atomic::new(param::PORT_CAPS),
            bad_pkeys: Atomic::new(0),
            bad_qkeys: Atomic::new(0),
            link_up: Atomic::new(0),
        };
        Ok(pin_init!(Self {
            weak,
            workers,
            counters,
            sys_image_guid: Atomic::new(u64::from_ne_bytes(guid)),
            port,
            pds <- IdTable::new(1, param::MAX_PD),
            ahs <- IdTable::new(1, param::MAX_AH),
            qps <- IdTable::new(param::QPNS.0, param::QPNS.1),
            srqs <- IdTable::new(param::SRQNS.0, param::SRQNS.1),
            keys <- Keys::new(),
            groups <- Groups::new(),
            cqs: Quota::new(param::MAX_CQ),
            ucontexts: Quota::new(param::MAX_UCONTEXT),
        }))
    }

    /// The queue that the workers of all objects run on.
    pub(crate) fn workers(&self) -> &Queue {
        &self.workers
    }

    /// Counts one event. Any context.
    #[inline]
    pub(crate) fn count(&self, counter: Counter) {
        self.counters.add(counter.index(), 1);
    }

    /// Counts `n` events. Any context.
    #[inline]
    pub(crate) fn count_n(&self, counter: Counter, n: u64) {
        if n != 0 {
            self.counters.add(counter.index(), n);
        }
    }

    /// Counts `n` packets that were dropped by the engine of a queue pair. Any context.
    #[inline]
    pub(crate) fn count_drops(&self, reason: DropReason, n: u32) {
        if n != 0 {
            self.counters.add(reason.index(), n.into());
        }
    }

    /// Counts what a consumer does. Any context.
    pub(crate) fn count_misuse(&self, misuse: Misuse, n: u64) {
        self.counters.add(misuse.index(), n);
    }

    /// Counts a packet that was ignored. Any context.
    pub(crate) fn count_drop(&self, reason: DropReason) {
        self.counters.add(reason.index(), 1);
        match reason {
            DropReason::BadPkey => saturating_inc(&self.port.bad_pkeys),
            DropReason::BadQkey => saturating_inc(&self.port.bad_qkeys),
            _ => {}
        }
    }

    /// The value of a counter.
    pub(crate) fn counter(&self, counter: Counter) -> u64 {
        self.counters.sum(counter.index())
    }

    /// Reads all counters, in the order of [`counters::name`].
    pub(crate) fn read_counters(&self, values: &mut [u64]) {
        for (index, value) in values.iter_mut().enumerate() {
            *value = self.counters.sum(index);
        }
    }

    /// The GUID of the system, in network byte order.
    pub(crate) fn sys_image_guid(&self) -> [u8; 8] {
        self.sys_image_guid.load(Relaxed).to_ne_bytes()
    }

    /// Changes the GUID of the system.
    pub(crate) fn set_sys_image_guid(&self, guid: [u8; 8]) {
        self.sys_image_guid.store(u64::from_ne_bytes(guid), Relaxed);
    }

    /// The largest RDMA payload of a packet.
    pub(crate) fn active_mtu(&self) -> Mtu {
        // Only values of `Mtu` are stored.
        Mtu::from_ib_enum(self.port.mtu.load(Relaxed)).unwrap_or(Mtu::B256)
    }

    /// Says that the network device's packets may have `mtu` bytes.
    pub(crate) fn set_netdev_mtu(&self, mtu: u32) {
        self.port.mtu.store(mtu_for(mtu).ib_enum(), Relaxed);
    }

    /// Says whether the link is up, and counts when it goes down.
    pub(crate) fn set_link(&self, up: bool) {
        let was_up = self.port.link_up.xchg(up.into(), Relaxed) != 0;
        if was_up && !up {
            self.count(Counter::LinkDowned);
        }
    }

    /// Capabilities of the port.
    pub(crate) fn port_caps(&self) -> u32 {
        self.port.caps.load(Relaxed)
    }

    /// Changes capabilities of the port.
    pub(crate) fn change_port_caps(&self, set: u32, clear: u32) {
        let mut old = self.port.caps.load(Relaxed);
        while let Err(now) = self.port.caps.cmpxchg(old, (old | set) & !clear, Relaxed) {
            old = now;
        }
    }

    /// Packets dropped because of their partition key and because of their queue key, up to 65535.
    pub(crate) fn key_violations(&self) -> (u32, u32) {
        (
            self.port.bad_pkeys.load(Relaxed),
            self.port.bad_qkeys.load(Relaxed),
        )
    }

    /// Starts counting packets dropped because of their queue key at 0.
    pub(crate) fn reset_qkey_violations(&self) {
        self.port.bad_qkeys.store(0, Relaxed);
    }

    /// Takes a reference to the entry `index` of the GID table. Any context.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is gone, else if there is no such entry.
    pub(crate) fn gid_attr(&self, index: u16) -> Result<GidAttr> {
        self.weak.gid_attr(index)
    }

    /// Takes a reference to the entry of the GID table that has `gid`, on `ndev` or, with [`None`],
    /// on any network device. Any context.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is gone, `ENOENT` if there is no such entry.
    pub(crate) fn find_gid(&self, gid: Gid, ndev: Option<&NetDev>) -> Result<GidAttr> {
        self.weak.find_gid(gid, ndev)
    }

    /// Finds an address handle by the number that a process has written in a request. Any context.
    ///
    /// [`None`] if there is none, or if it is of another protection domain.
    pub(crate) fn address_handle(&self, number: u32, pd: PdId) -> Option<RcuArc<Ah>> {
        let ah = self.ahs.get(number, &rcu::read_lock())?.upgrade()?;
        (ah.pd_id() == pd).then_some(ah)
    }
}

/// The MTU of the port on a network device whose packets may have `mtu` bytes.
fn mtu_for(mtu: u32) -> Mtu {
    Mtu::fitting(mtu.saturating_sub(param::MAX_HEADERS)).unwrap_or(Mtu::B256)
}

fn saturating_inc(counter: &Atomic<u32>) {
    let mut old = counter.load(Relaxed);
    while old < PORT_COUNTER_MAX {
        match counter.cmpxchg(old, old.wrapping_add(1), Relaxed) {
            Ok(_) => return,
            Err(now) => old = now,
        }
    }
}

/// A limit on the number of objects.
pub struct Quota {
    left: Atomic<u32>,
}

impl Quota {
    /// Makes a quota for `max` objects.
    pub(crate) const fn new(max: u32) -> Self {
        Self {
            left: Atomic::new(max),
        }
    }

    /// Takes one: `ENOMEM` if there is none left.
    pub(crate) fn take(&self) -> Result {
        let mut left = self.left.load(Relaxed);
        loop {
            let rest = left.checked_sub(1).ok_or(ENOMEM)?;
            match self.left.cmpxchg(left, rest, Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => left = now,
            }
        }
    }

    /// Gives one back.
    pub(crate) fn put(&self) {
        self.left.fetch_add(1, Relaxed);
    }
}
