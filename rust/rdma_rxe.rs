// SPDX-License-Identifier: GPL-2.0

//! Soft RoCE: RDMA over Converged Ethernet in software.

use abstractions::{
    net::NetdevNotifier,
    rdma::{
        link,
        DriverRegistration, //
    }, //
};
use kernel::prelude::*;
use rxe::{
    link::Link,
    netdev::Events,
    verbs::Rxe,
    workers::Workers, //
};

mod abstractions;
mod proto;
mod rxe;

module! {
    type: RdmaRxe,
    name: "rdma_rxe",
    authors: ["The rdma_rxe authors"],
    description: "Software RDMA over Converged Ethernet",
    license: "Dual BSD/GPL",
    alias: ["rdma-link-rxe"],
}

/// The module.
///
/// The fields are dropped from the first to the last; each line ends something that the lines below
/// it still have to be there for. They are made in the opposite order.
#[pin_data]
pub struct RdmaRxe {
    /// No new devices from here on.
    #[pin]
    _link: link::Registration<Link>,
    /// Unregisters all devices and waits for them: no verb runs any more.
    _driver: DriverRegistration<Rxe>,
    /// No events of network devices.
    #[pin]
    _events: NetdevNotifier<Events>,
    /// Runs what is queued and waits for everything that waits for a grace period: no text of this
    /// module is called any more.
    _workers: Workers,
}

impl kernel::InPlaceModule for RdmaRxe {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _workers: Workers::new()?,
            _events <- NetdevNotifier::new(),
            _driver: DriverRegistration::new(),
            _link <- link::Registration::new(),
        })
    }
}
