// SPDX-License-Identifier: GPL-2.0

//! What happens to the network devices that devices run on.
//!
//! The core follows addresses, and with them the GID table, by itself; it raises port events too.

#![forbid(unsafe_code)]

use super::{
    netns,
    verbs::Rxe, //
};
use crate::abstractions::{
    net::{
        NetDev,
        NetdevEvent,
        NetdevNotify, //
    },
    rdma::{
        port::PortState,
        Device,
        DeviceRef, //
    }, //
};

/// Listens to the events of all network devices.
pub(crate) struct Events;

impl NetdevNotify for Events {
    fn event(event: NetdevEvent, ndev: &NetDev) {
        if event == NetdevEvent::Unregister {
            netns::netdev_gone(ndev);
        }
        let Some(dev) = DeviceRef::<Rxe>::by_netdev(ndev) else {
            return;
        };
        match event {
            // The device is unregistered by a worker: it must not be waited for under RTNL.
            NetdevEvent::Unregister => dev.unregister_queued(),
            NetdevEvent::ChangeMtu => dev.set_netdev_mtu(ndev.mtu()),
            NetdevEvent::Up | NetdevEvent::Down | NetdevEvent::Change => {
                dev.set_link(Device::<Rxe>::link_state(ndev) == PortState::Active);
            }
            // The GUIDs stay what they were: other nodes and udev rules know the device by them.
            // The name of the network device is looked up whenever it is shown.
            NetdevEvent::ChangeAddr | NetdevEvent::ChangeName | NetdevEvent::Other => {}
        }
    }
}
