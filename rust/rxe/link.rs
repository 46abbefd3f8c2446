// SPDX-License-Identifier: GPL-2.0

//! `rdma link add NAME type rxe netdev NETDEV`.
//!
//! `rdma link del` needs nothing of its own: the core unregisters the device, whose data is dropped
//! with all that belongs to it before the command returns.

#![forbid(unsafe_code)]

use super::{
    device::DeviceData,
    verbs::Rxe, //
};
use crate::abstractions::{
    net::NetDev,
    rdma::{
        link::Operations,
        DeviceRef,
        UnregisteredDevice, //
    },
    sync::StaticMutex, //
};
use kernel::{
    prelude::*,
    str::CStr, //
};

/// What is written to the node description.
const NODE_DESC: &[u8] = b"rxe";

/// Lets one link be made at a time, so that a network device does not get two.
static ADDING: StaticMutex<()> = StaticMutex::new(());

/// The type of link.
pub(crate) struct Link;

impl Operations for Link {
    const TYPE: &'static CStr = c"rxe";

    fn newlink(name: &CStr, ndev: &NetDev) -> Result {
        // A VLAN device's packets come in through the device below it, and so do its GIDs.
        if ndev.vlan_id().is_some() {
            pr_warn!("{name}: a VLAN device cannot have a link, the device below it can\n");
            return Err(EPERM);
        }
        let _adding = ADDING.lock();
        if DeviceRef::<Rxe>::by_netdev(ndev).is_some() {
            pr_warn!("{name}: the network device has a link already\n");
            return Err(EEXIST);
        }
        let guid = guid(ndev);
        let device = UnregisteredDevice::<Rxe>::new(ndev, guid, NODE_DESC, |weak| {
            DeviceData::new(weak, guid, ndev)
        })?;
        device.mark_name_assigned_by_user();
        device.register(name).map_err(|e| {
            // The core says that there are too many of a name.
            if e == ENFILE {
                EEXIST
            } else {
                e
            }
        })
    }
}

/// The GUID of a device on `ndev`: its Ethernet address as EUI-64, in network byte order.
///
/// A network device without an address gets a random one, because connection management needs a
/// GUID that is unique.
fn guid(ndev: &NetDev) -> [u8; 8] {
    let [a, b, c, d, e, f] = ndev.address().unwrap_or_else(NetDev::random_address);
    [a ^ 2, b, c, 0xff, 0xfe, d, e, f]
}
