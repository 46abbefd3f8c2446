// SPDX-License-Identifier: GPL-2.0

//! Multicast groups: which queue pairs get the datagrams of a group.
//!
//! A group exists while it has members. As long the network device lets its Ethernet address in, and
//! the host is a member of the IP group on that device, so that switches that look at reports pass it on. Members are numbers of queue pairs, not references to them: the core detaches a queue pair
//! before it destroys it, and the receive path looks the numbers up like any other.
//!
//! Verbs change groups one at a time. The receive path reads a list that is never changed: a verb
//! makes a new one and puts it in the place of the old one.

#![forbid(unsafe_code)]

use super::{
    param,
    verbs::Rxe, //
};
use crate::{
    abstractions::{
        net::NetDev,
        rdma::{
            Device,
            Gid, //
        },
        sync::RcuArc, //
    },
    proto::{
        mcast,
        num::Qpn, //
    }, //
};
use kernel::{
    new_mutex,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
    sync::{
        new_spinlock_irq,
        Mutex,
        SpinLockIrq, //
    }, //
};

/// The groups of a device.
#[pin_data]
pub struct Groups {
    /// Held by the verb that changes groups.
    #[pin]
    totals: Mutex<Totals>,
    #[pin]
    lists: SpinLockIrq<RBTree<[u8; 16], RcuArc<Members>>>,
}

/// What is limited.
struct Totals {
    groups: u32,
    members: u32,
}

/// A group, at one time.
struct Members {
    list: KVec<Qpn>,
    /// The host is a member of the IP group because of it.
    joined: bool,
}

impl Members {
    fn new(list: KVec<Qpn>, joined: bool) -> Result<RcuArc<Self>> {
        Ok(RcuArc::new(Self { list, joined }, GFP_KERNEL)?)
    }
}

/// Has the network device let the packets of a group in. Returns whether the host is a member of the IP group.
fn enter_group(ndev: &NetDev, group: &Gid) -> Result<bool> {
    let address = mcast::mac_of_group(&group.0);
    ndev.add_multicast(&address)?;
    let joined = ndev.join_group(mcast::ip_of_group(&group.0));
    if joined.is_err() {
        ndev.remove_multicast(&address);
    }
    joined
}

/// Undoes [`enter_group`].
fn leave_group(ndev: &NetDev, group: &Gid, joined: bool) {
    if joined {
        ndev.leave_group(mcast::ip_of_group(&group.0));
    }
    ndev.remove_multicast(&mcast::mac_of_group(&group.0));
}

impl Groups {
    /// Makes an empty table.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            totals <- new_mutex!(Totals { groups: 0, members: 0 }, "rxe::Groups::totals"),
            lists <- new_spinlock_irq!(RBTree::new(), "rxe::Groups::lists"),
        })
    }

    fn members(&self, group: &Gid) -> Option<RcuArc<Members>> {
        self.lists.lock().get(&group.0).cloned()
    }

    /// Calls `f` for each member of a group. Any context.
    pub(crate) fn for_each(&self, group: &Gid, mut f: impl FnMut(Qpn)) {
        if let Some(members) = self.members(group) {
            for qpn in &members.list {
                f(*qpn);
            }
        }
    }

    /// Attaches a queue pair to a group. Attaching it again changes nothing. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is not the address of a group, `ENOMEM` if there are too many groups or
    /// members, and those of the network device.
    pub(crate) fn attach(&self, device: &Device<Rxe>, qpn: Qpn, group: Gid) -> Result {
        if !mcast::is_multicast(&group.0) {
            return Err(EINVAL);
        }
        let mut totals = self.totals.lock();
        if totals.members >= param::MAX_TOTAL_MCAST_QP_ATTACH {
            return Err(ENOMEM);
        }
        let old = self.members(&group);
        let mut list = KVec::new();
        if let Some(old) = &old {
            if old.list.contains(&qpn) {
                return Ok(());
            }
            if old.list.len() >= param::MAX_MCAST_QP_ATTACH as usize {
                return Err(ENOMEM);
            }
            list.extend_from_slice(&old.list, GFP_KERNEL)?;
        } else if totals.groups >= param::MAX_MCAST_GRP {
            return Err(ENOMEM);
        }
        list.push(qpn, GFP_KERNEL)?;
        let node = match &old {
            Some(old) => RBTreeNode::new(group.0, Members::new(list, old.joined)?, GFP_KERNEL)?,
            None => {
                // Nobody finds the group before its packets come in.
                let ndev = device.netdev().ok_or(ENODEV)?;
                let joined = enter_group(&ndev, &group)?;
                let node = Members::new(list, joined)
                    .and_then(|members| RBTreeNode::new(group.0, members, GFP_KERNEL));
                if node.is_err() {
                    leave_group(&ndev, &group, joined);
                }
                node?
            }
        };
        if old.is_none() {
            totals.groups = totals.groups.wrapping_add(1);
        }
        totals.members = totals.members.wrapping_add(1);
        // What was there is freed without the lock.
        let _replaced = self.lists.lock().insert(node);
        Ok(())
    }

    /// Detaches a queue pair from a group. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is not attached, `ENOMEM`.
    pub(crate) fn detach(&self, device: &Device<Rxe>, qpn: Qpn, group: Gid) -> Result {
        let mut totals = self.totals.lock();
        let old = self.members(&group).ok_or(EINVAL)?;
        let place = old.list.iter().position(|member| *member == qpn);
        let place = place.ok_or(EINVAL)?;
        if old.list.len() == 1 {
            let _removed = self.lists.lock().remove_node(&group.0);
            totals.groups = totals.groups.wrapping_sub(1);
            // If the network device is gone, so is its list of addresses.
            if let Some(ndev) = device.netdev() {
                leave_group(&ndev, &group, old.joined);
            }
        } else {
            let mut list = KVec::new();
            list.extend_from_slice(&old.list, GFP_KERNEL)?;
            let _ = list.remove(place);
            let node = RBTreeNode::new(group.0, Members::new(list, old.joined)?, GFP_KERNEL)?;
            let _replaced = self.lists.lock().insert(node);
        }
        totals.members = totals.members.wrapping_sub(1);
        Ok(())
    }
}
