// SPDX-License-Identifier: GPL-2.0

//! UDP sockets whose packets go to the kernel.
//!
//! Upstream home: rust/kernel/net/udp_tunnel.rs
//!
//! C header: [`include/net/udp_tunnel.h`](srctree/include/net/udp_tunnel.h)

use super::{IpVersion, NetNs, RxSkb};
use crate::abstractions::{
    bindings,
    sync::{Borrowed, RcuArc}, //
};
use core::ptr::NonNull;
use kernel::{error::to_result, prelude::*, sync::rcu};

/// Whoever takes the packets of a [`TunnelSocket`].
pub trait UdpReceive: Send + Sync + Sized + 'static {
    /// Takes one packet. Called in softirq.
    ///
    /// The data of the buffer begins at the UDP header.
    fn receive(this: Borrowed<'_, Self>, skb: RxSkb, guard: &rcu::Guard);
}

/// A UDP socket in a network namespace, bound to a port on all addresses.
///
/// Dropping it closes the socket, which sleeps. It does *not* wait for packets that are being
/// received on other CPUs: the receiver is freed after an RCU grace period, and a module must call
/// `synchronize_rcu()` between closing its last socket and the end of its text.
///
/// A socket does not keep its namespace alive: it must be closed before the namespace goes.
pub struct TunnelSocket<T: UdpReceive> {
    sock: NonNull<bindings::socket>,
    /// Keeps the receiver alive, to which the socket has a pointer.
    _receiver: RcuArc<T>,
}

// SAFETY: Sockets may be closed on any thread.
unsafe impl<T: UdpReceive> Send for TunnelSocket<T> {}

// SAFETY: Nothing can be done with a shared reference.
unsafe impl<T: UdpReceive> Sync for TunnelSocket<T> {}

impl<T: UdpReceive> TunnelSocket<T> {
    /// Opens a socket. Sleeps.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE` if the port is taken, `EAFNOSUPPORT` if the protocol is not there.
    pub fn new(net: &NetNs, version: IpVersion, port: u16, receiver: RcuArc<T>) -> Result<Self> {
        let mut config = bindings::udp_port_cfg {
            local_udp_port: port.to_be(),
            ..Default::default()
        };
        let mut sock: *mut bindings::socket = core::ptr::null_mut();

        // SAFETY: All pointers are valid; the addresses in the configuration are zero.
        to_result(unsafe {
            match version {
                IpVersion::V4 => {
                    config.family = bindings::AF_INET as u8;
                    bindings::udp_sock_create4(net.as_raw().cast(), &mut config, &mut sock)
                }
                IpVersion::V6 => {
                    config.family = bindings::AF_INET6 as u8;
                    config.set_ipv6_v6only(1);
                    bindings::udp_sock_create6(net.as_raw().cast(), &mut config, &mut sock)
                }
            }
        })?;
        let sock = NonNull::new(sock).ok_or(ENOMEM)?;

        let mut tunnel = bindings::udp_tunnel_sock_cfg {
            sk_user_data: (&raw const *receiver).cast_mut().cast(),
            encap_type: 1,
            encap_rcv: Some(Self::receive),
            ..Default::default()
        };
        // SAFETY: The socket is open and ours. The receiver is freed no earlier than a grace period
        // after the socket was closed.
        unsafe {
            bindings::setup_udp_tunnel_sock(
                net.as_raw().cast(),
                sock.as_ref().sk.cast(),
                &mut tunnel,
            )
        };
        Ok(Self {
            sock,
            _receiver: receiver,
        })
    }

    /// The receive function of the socket.
    ///
    /// # Safety
    ///
    /// Called by UDP in softirq under RCU with a packet to take over.
    unsafe extern "C" fn receive(sk: *mut bindings::sock, skb: *mut bindings::sk_buff) -> i32 {
        let guard = rcu::read_lock();
        // SAFETY: The packet is ours from now on.
        let skb = unsafe { RxSkb::from_raw(skb) };
        // SAFETY: The socket is valid. Its user data is null or the receiver.
        let receiver = unsafe { bindings::rcu_dereference_sk_user_data(sk) };
        if !receiver.is_null() {
            // SAFETY: The pointer came from `RcuArc`, whose reference is dropped after the user data
            // was set to null, and whose value then stays for a grace period.
            let receiver = unsafe { Borrowed::<T>::from_raw(receiver.cast_const().cast()) };
            T::receive(receiver, skb, &guard);
        }
        0
    }
}

impl<T: UdpReceive> Drop for TunnelSocket<T> {
    fn drop(&mut self) {
        // SAFETY: The socket is open and ours.
        unsafe { bindings::udp_tunnel_sock_release(self.sock.as_ref().sk.cast()) };
    }
}
