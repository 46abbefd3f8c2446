// SPDX-License-Identifier: GPL-2.0

//! The UDP sockets of network namespaces, and which device takes the packets of which interface.
//!
//! A namespace has sockets from its first link to its last. Each link is a [`Port`] in the table of its namespace,
//! and holds an [`Attachment`]. It leaves when the link goes or when its network device leaves the namespace,
//! whichever is first; the table itself is the count of users. Network devices go before their namespace does, so
//! the sockets do as well.

#![forbid(unsafe_code)]

use super::{
    device::RxeDev,
    rx,
    tx::ROCE_PORT, //
};
use crate::abstractions::{
    net::{
        IpVersion,
        NetDev,
        Rtnl,
        RxSkb,
        TunnelSocket,
        UdpReceive, //
    },
    sync::{
        Borrowed,
        IdTable,
        RcuArc,
        StaticMutex, //
    }, //
};
use kernel::{
    prelude::*,
    sync::{
        rcu,
        Arc, //
    }, //
};

/// The namespaces that have links.
static NAMESPACES: StaticMutex<KVec<Namespace>> = StaticMutex::new(KVec::new());

/// A namespace that has links.
struct Namespace {
    cookie: u64,
    ports: RcuArc<Ports>,
    /// Dropping the sockets closes them.
    _v4: TunnelSocket<Ports>,
    /// Not there if the host has no IPv6.
    _v6: Option<TunnelSocket<Ports>>,
}

/// The links of a namespace, by the number of their network device.
#[pin_data]
struct Ports {
    #[pin]
    table: IdTable<Port>,
}

/// A link.
struct Port {
    dev: Arc<RxeDev>,
}

impl UdpReceive for Ports {
    fn receive(this: Borrowed<'_, Self>, skb: RxSkb, guard: &rcu::Guard) {
        let Some(netdev) = skb.device(guard) else {
            return;
        };
        if netdev.is_loopback() {
            this.receive_from_host(skb, guard);
        } else if let Some(port) = this.find(netdev, guard) {
            rx::from_network(&port.dev, skb, Some(netdev), guard);
        }
    }
}

impl Ports {
    /// Takes a packet from another link on this host. Only the address tells for which one it is.
    #[cold]
    fn receive_from_host(&self, skb: RxSkb, guard: &rcu::Guard) {
        let Some(gid) = rx::destination(&skb) else {
            return;
        };
        let mut skb = Some(skb);
        self.table.for_each(guard, |_, port| {
            if port.dev.find_gid(gid, None).is_err() {
                return true;
            }
            if let Some(skb) = skb.take() {
                rx::from_network(&port.dev, skb, None, guard);
            }
            false
        });
    }

    /// Returns the link of a network device, or of the one below a VLAN device.
    #[inline]
    fn find<'g>(&'g self, netdev: &NetDev, guard: &'g rcu::Guard) -> Option<Borrowed<'g, Port>> {
        self.table.get(netdev.ifindex(), guard).or_else(|| {
            let real = netdev.vlan_real_device(guard)?;
            self.table.get(real.ifindex(), guard)
        })
    }
}

/// A link's place in the namespace of its network device; dropping it leaves.
///
/// The device and its attachment refer to each other until the attachment is dropped or the network device goes.
pub(crate) struct Attachment {
    cookie: u64,
    ifindex: u32,
    port: RcuArc<Port>,
}

impl Attachment {
    /// Has a device receive the packets of a network device. Sleeps; RTNL must not be held.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the network device is going away, `EEXIST` if another device receives its packets, `EADDRINUSE` if
    /// somebody else uses the UDP port in the namespace.
    pub(crate) fn new(dev: Arc<RxeDev>, netdev: &NetDev) -> Result<Self> {
        let port = RcuArc::new(Port { dev }, GFP_KERNEL)?;
        // Under RTNL the network device is not going, or it goes afterwards and we are told.
        let rtnl = Rtnl::lock();
        if !netdev.is_registered(&rtnl) {
            return Err(ENODEV);
        }
        let cookie = netdev.namespace().cookie();
        let ifindex = netdev.ifindex();
        let mut namespaces = NAMESPACES.lock();
        if !namespaces
            .iter()
            .any(|namespace| namespace.cookie == cookie)
        {
            let namespace = Namespace::open(netdev, &rtnl)?;
            namespaces.push(namespace, GFP_KERNEL)?;
        }
        let ports = namespaces
            .iter()
            .find(|namespace| namespace.cookie == cookie)
            .map(|namespace| namespace.ports.clone())
            .ok_or(ENODEV)?;
        let inserted = ports.table.insert_at(ifindex, port.clone(), GFP_KERNEL);
        close_unused(&mut namespaces);
        match inserted {
            Ok(()) => Ok(Self {
                cookie,
                ifindex,
                port,
            }),
            Err((error, _)) if error == EBUSY => Err(EEXIST),
            Err((error, _)) => Err(error),
        }
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        remove(self.cookie, self.ifindex, Some(&self.port));
    }
}

/// A network device leaves its namespace. Called with RTNL held.
pub(crate) fn netdev_gone(netdev: &NetDev) {
    remove(netdev.namespace().cookie(), netdev.ifindex(), None);
}

/// Removes a link from a namespace: the one of a network device, if it is still `which`.
fn remove(cookie: u64, ifindex: u32, which: Option<&RcuArc<Port>>) {
    let mut namespaces = NAMESPACES.lock();
    let Some(ports) = namespaces
        .iter()
        .find(|namespace| namespace.cookie == cookie)
        .map(|namespace| namespace.ports.clone())
    else {
        return;
    };
    if let Some(which) = which {
        let guard = rcu::read_lock();
        let same = ports
            .table
            .get(ifindex, &guard)
            .is_some_and(|port| port.is(which));
        if !same {
            return;
        }
    }
    let removed = ports.table.remove(ifindex);
    close_unused(&mut namespaces);
    drop(removed);
}

/// Closes the sockets of namespaces that have no links any more.
fn close_unused(namespaces: &mut KVec<Namespace>) {
    namespaces.retain(|namespace| !namespace.ports.table.is_empty());
    if namespaces.is_empty() {
        // Gives the memory back; nobody would when the module goes.
        *namespaces = KVec::new();
    }
}

impl Namespace {
    /// Opens the sockets of the namespace that a network device is in.
    fn open(netdev: &NetDev, rtnl: &Rtnl) -> Result<Self> {
        let net = netdev.namespace();
        let ports = RcuArc::pin_init(
            pin_init!(Ports {
                table <- IdTable::new(1, u32::MAX),
            }),
            GFP_KERNEL,
        )?;
        let open = |version| {
            TunnelSocket::new(net, version, ROCE_PORT, ports.clone()).inspect_err(|&error| {
                if error == EADDRINUSE {
                    pr_err!(
                        "UDP port {} is in use in the network namespace of {}\n",
                        ROCE_PORT,
                        netdev.name(rtnl),
                    );
                }
            })
        };
        let v4 = open(IpVersion::V4)?;
        let v6 = match open(IpVersion::V6) {
            Ok(socket) => Some(socket),
            Err(error) if error == EAFNOSUPPORT => {
                pr_info!("the host has no IPv6, only IPv4 is used\n");
                None
            }
            Err(error) => return Err(error),
        };
        Ok(Self {
            cookie: net.cookie(),
            ports,
            _v4: v4,
            _v6: v6,
        })
    }
}
