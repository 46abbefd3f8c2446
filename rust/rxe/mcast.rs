// SPDX-License-Identifier: GPL-2.0

//! Multicast groups: which queue pairs get the datagrams of a group.
//!
//! A group exists while it has members, and as long the network device lets its Ethernet address
//! in. Members are numbers of queue pairs, not references to them: the core detaches a queue pair
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

/// The members of a group, at one time.
struct Members(KVec<Qpn>);

impl Members {
    fn new(list: KVec<Qpn>) -> Result<RcuArc<Self>> {
        Ok(RcuArc::new(Self(list), GFP_KERNEL)?)
    }
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
            for qpn in &members.0 {
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
            if old.0.contains(&qpn) {
                return Ok(());
            }
            if old.0.len() >= param::MAX_MCAST_QP_ATTACH as usize {
                return Err(ENOMEM);
            }
            list.extend_from_slice(&old.0, GFP_KERNEL)?;
        } else if totals.groups >= param::MAX_MCAST_GRP {
            return Err(ENOMEM);
        }
        list.push(qpn, GFP_KERNEL)?;
        let node = RBTreeNode::new(group.0, Members::new(list)?, GFP_KERNEL)?;
        if old.is_none() {
            // Last of what can fail: nobody finds the group before its packets come in.
            let ndev = device.netdev().ok_or(ENODEV)?;
            ndev.add_multicast(&mcast::mac_of_group(&group.0))?;
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
        let place = old.0.iter().position(|member| *member == qpn);
        let place = place.ok_or(EINVAL)?;
        if old.0.len() == 1 {
            let _removed = self.lists.lock().remove_node(&group.0);
            totals.groups = totals.groups.wrapping_sub(1);
            // If the network device is gone, so is its list of addresses.
            if let Some(ndev) = device.netdev() {
                ndev.remove_multicast(&mcast::mac_of_group(&group.0));
            }
        } else {
            let mut list = KVec::new();
            list.extend_from_slice(&old.0, GFP_KERNEL)?;
            let _ = list.remove(place);
            let node = RBTreeNode::new(group.0, Members::new(list)?, GFP_KERNEL)?;
            let _replaced = self.lists.lock().insert(node);
        }
        totals.members = totals.members.wrapping_sub(1);
        Ok(())
    }
}
