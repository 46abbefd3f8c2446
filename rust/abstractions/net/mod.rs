// SPDX-License-Identifier: GPL-2.0

//! Packets, sockets, routes and network devices.

mod netdev;
mod notifier;
mod route;
mod rtnl;
mod skb;
mod skb_queue;
mod tx_credits;
mod udp_tunnel;

pub use self::{
    netdev::{NetDev, NetNs},
    notifier::{NetdevEvent, NetdevNotifier, NetdevNotify},
    route::Dst,
    rtnl::Rtnl,
    skb::{IpVersion, Refused, RxSkb, TxSkb},
    skb_queue::{PushError, SkbList, SkbQueue},
    tx_credits::{TxCredits, TxWake},
    udp_tunnel::{TunnelSocket, UdpReceive}, //
};
