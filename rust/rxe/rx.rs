// SPDX-License-Identifier: GPL-2.0

//! Receiving packets: from the UDP socket, in softirq, or from this device itself, in its workers.
//!
//! Finds the queue pair a packet is for, checks everything that can be checked without knowing its progress, and
//! queues it for the worker. No lock is taken and no reference count is touched. Nothing is answered here, so a packet
//! that is dropped leaves no trace but a counter.

#![forbid(unsafe_code)]

use super::{
    device::RxeDev,
    hop::{
        self,
        Hop,
        Side, //
    },
    qp::Qp,
    tx::Addresses, //
};
use crate::{
    abstractions::{
        crc32::crc32_le,
        net::{
            IpVersion,
            NetDev,
            RxSkb,
            TxSkb, //
        },
        rdma::{
            wc::NetworkHeader,
            Gid, //
        },
        sync::Borrowed, //
    },
    proto::{
        counters::{
            Counter,
            DropReason, //
        },
        icrc::{
            self,
            Crc32,
            IPV4_LEN,
            IPV6_LEN,
            UDP_LEN, //
        },
        mcast,
        num::{
            usize_from,
            Qpn, //
        },
        packet::{
            self,
            PacketInfo,
            Peek, //
        },
        qpstate::QpType,
        wire::{
            BTH_LEN,
            DEFAULT_PKEY,
            GSI_QKEY,
            ICRC_LEN, //
        }, //
    }, //
};
use kernel::{
    prelude::*,
    sync::rcu, //
};
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes, //
};

/// The kernel's CRC.
struct KernelCrc;

impl Crc32 for KernelCrc {
    #[inline]
    fn update(state: u32, bytes: &[u8]) -> u32 {
        crc32_le(state, bytes)
    }
}

/// What is kept with a packet in a queue.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes)]
#[repr(C)]
struct Meta {
    /// Where the base transport header begins, from the data pointer on.
    start: u32,
    /// The length of the packet from there on, checksum included.
    len: u32,
    /// The VLAN the packet came in by, plus one; zero without.
    vlan: u16,
    /// Whether there is a network header.
    network: u16,
}

/// Returns the GID that stands for an IPv4 address.
#[inline]
pub(crate) fn mapped(address: [u8; 4]) -> [u8; 16] {
    mcast::gid_from_ipv4(address)
}

/// The addresses of a packet, as GIDs.
struct Ends {
    source: [u8; 16],
    destination: [u8; 16],
    ip_len: usize,
}

impl Ends {
    /// Reads the addresses of a packet that begins with an IP header.
    #[inline]
    fn of(skb: &RxSkb) -> Result<Self, DropReason> {
        let header = skb.network_header();
        let take = |at: usize| -> Option<&[u8]> { header.get(at..) };
        match skb.ip_version() {
            Some(IpVersion::V4) => {
                let source = take(12).and_then(|h| h.first_chunk());
                let destination = take(16).and_then(|h| h.first_chunk());
                match (source, destination) {
                    (Some(source), Some(destination)) => Ok(Self {
                        source: mapped(*source),
                        destination: mapped(*destination),
                        ip_len: IPV4_LEN,
                    }),
                    _ => Err(DropReason::Truncated),
                }
            }
            Some(IpVersion::V6) => {
                let source = take(8).and_then(|h| h.first_chunk());
                let destination = take(24).and_then(|h| h.first_chunk());
                match (source, destination) {
                    (Some(source), Some(destination)) => Ok(Self {
                        source: *source,
                        destination: *destination,
                        ip_len: IPV6_LEN,
                    }),
                    _ => Err(DropReason::Truncated),
                }
            }
            None => Err(DropReason::Truncated),
        }
    }
}

/// Returns the destination address of a packet from the network as a GID.
pub(crate) fn destination(skb: &RxSkb) -> Option<Gid> {
    Ends::of(skb).ok().map(|ends| Gid(ends.destination))
}

/// Takes a packet from the network that came in by `via`; with [`None`], by the loopback device of the namespace.
///
/// Called in softirq. The data of the buffer begins at the UDP header.
pub(crate) fn from_network(dev: &RxeDev, skb: RxSkb, via: Option<&NetDev>, guard: &rcu::Guard) {
    if let Err(reason) = receive(dev, skb, via, guard) {
        dev.count_drop(reason);
    }
}

fn receive(
    dev: &RxeDev,
    mut skb: RxSkb,
    via: Option<&NetDev>,
    guard: &rcu::Guard,
) -> Result<(), DropReason> {
    skb.linearize().map_err(|_| DropReason::NoMemory)?;
    let ends = Ends::of(&skb)?;
    let data = skb.linear();
    let udp: &[u8; UDP_LEN] = data.first_chunk().ok_or(DropReason::Truncated)?;
    let [.., len0, len1, _, _] = *udp;
    let len = usize::from(u16::from_be_bytes([len0, len1]));
    let bytes = data.get(UDP_LEN..len).ok_or(DropReason::Truncated)?;
    let peek = packet::peek(bytes)?;

    let qp = if peek.dest_qpn == Qpn::MULTICAST {
        None
    } else {
        let qp = find_qp(dev, peek.dest_qpn, guard)?;
        qp.io().admits(peek.opcode)?;
        match qp.io().qp_type() {
            QpType::Rc | QpType::Uc => {
                let ifindex = via.map(NetDev::ifindex);
                qp.io()
                    .peer()
                    .check(&ends.source, &ends.destination, ifindex)?;
            }
            QpType::Ud | QpType::Gsi => check_destination(dev, &ends, via)?,
        }
        check_keys(&qp, &peek, bytes)?;
        Some(qp)
    };

    // After everything that is cheaper, and before anything is changed.
    let ip = skb
        .network_header()
        .get(..ends.ip_len)
        .ok_or(DropReason::Truncated)?;
    check_icrc(ip, udp, bytes)?;

    dev.count(Counter::RcvdPkts);
    dev.count_n(Counter::RcvdBytes, ends.ip_len.wrapping_add(len) as u64);
    let meta = Meta {
        start: UDP_LEN as u32,
        len: bytes.len() as u32,
        vlan: via
            .and_then(NetDev::vlan_id)
            .map_or(0, |id| id.wrapping_add(1)),
        network: 1,
    };
    skb.set_meta(&meta);
    match qp {
        Some(qp) => deliver(qp, peek.opcode.is_request(), skb),
        None => multicast(dev, skb, &ends.destination, &peek, guard),
    }
}

/// Takes a packet that this device sends to itself. Any context.
///
/// `start` is where the base transport header begins. If that is not zero, the packet begins with a network header.
/// `len` is how long it would be on the wire. `hop` takes the worker that it is for.
pub(crate) fn local(
    dev: &RxeDev,
    skb: TxSkb,
    start: usize,
    len: usize,
    addresses: &Addresses,
    hop: &mut Hop,
) {
    let guard = rcu::read_lock();
    if let Err(reason) = receive_local(dev, skb.into_rx(), start, len, addresses, hop, &guard) {
        dev.count_drop(reason);
    }
}

fn receive_local(
    dev: &RxeDev,
    mut skb: RxSkb,
    start: usize,
    len: usize,
    addresses: &Addresses,
    hop: &mut Hop,
    guard: &rcu::Guard,
) -> Result<(), DropReason> {
    let bytes = skb.linear().get(start..).ok_or(DropReason::Truncated)?;
    let peek = packet::peek(bytes)?;
    let qp = find_qp(dev, peek.dest_qpn, guard)?;
    qp.io().admits(peek.opcode)?;
    if let QpType::Rc | QpType::Uc = qp.io().qp_type() {
        // What is ours for the sender is the peer's for the receiver.
        qp.io()
            .peer()
            .check(&addresses.local_gid(), &addresses.remote_gid(), None)?;
    }
    check_keys(&qp, &peek, bytes)?;

    dev.count(Counter::RcvdPkts);
    dev.count_n(Counter::RcvdBytes, len as u64);
    let meta = Meta {
        start: start as u32,
        len: bytes.len() as u32,
        vlan: 0,
        network: u16::from(start != 0),
    };
    skb.set_meta(&meta);
    let request = peek.opcode.is_request();
    qp.io().push(request, skb)?;
    hop.kick(qp, if request { Side::Recv } else { Side::Send }, len);
    Ok(())
}

/// Hands an admitted packet from the network to the worker that it is for.
#[inline]
fn deliver(qp: Borrowed<'_, Qp>, request: bool, skb: RxSkb) -> Result<(), DropReason> {
    qp.io().push(request, skb)?;
    hop::kick_from_softirq(qp, if request { Side::Recv } else { Side::Send });
    Ok(())
}

#[inline]
fn find_qp<'g>(
    dev: &'g RxeDev,
    qpn: Qpn,
    guard: &'g rcu::Guard,
) -> Result<Borrowed<'g, Qp>, DropReason> {
    dev.qps.get(qpn.get(), guard).ok_or(DropReason::NoQp)
}

/// Checks that a packet is to an address of the device, or to a group.
fn check_destination(dev: &RxeDev, ends: &Ends, via: Option<&NetDev>) -> Result<(), DropReason> {
    if mcast::is_multicast(&ends.destination) || dev.find_gid(Gid(ends.destination), via).is_ok() {
        Ok(())
    } else {
        Err(DropReason::BadDestination)
    }
}

/// Checks partition and queue key.
#[inline]
fn check_keys(qp: &Qp, peek: &Peek, bytes: &[u8]) -> Result<(), DropReason> {
    if !mcast::pkey_match(peek.pkey, DEFAULT_PKEY) {
        return Err(DropReason::BadPkey);
    }
    let wanted = match qp.io().qp_type() {
        QpType::Rc | QpType::Uc => return Ok(()),
        QpType::Ud => qp.io().qkey(),
        QpType::Gsi => GSI_QKEY,
    };
    // The datagram header follows the base header in all datagrams.
    let qkey = bytes
        .get(BTH_LEN..)
        .and_then(|rest| rest.first_chunk())
        .ok_or(DropReason::Truncated)?;
    if u32::from_be_bytes(*qkey) == wanted {
        Ok(())
    } else {
        Err(DropReason::BadQkey)
    }
}

/// Checks the invariant CRC of a packet.
#[inline]
fn check_icrc(ip: &[u8], udp: &[u8; UDP_LEN], bytes: &[u8]) -> Result<(), DropReason> {
    let (covered, icrc) = bytes
        .split_last_chunk::<ICRC_LEN>()
        .ok_or(DropReason::Truncated)?;
    let state =
        icrc::icrc_header_state::<KernelCrc>(ip, udp, covered).ok_or(DropReason::Truncated)?;
    if icrc::finish(state) == *icrc {
        Ok(())
    } else {
        Err(DropReason::BadIcrc)
    }
}

/// Gives each member of a group a packet of its own.
fn multicast(
    dev: &RxeDev,
    skb: RxSkb,
    group: &[u8; 16],
    peek: &Peek,
    guard: &rcu::Guard,
) -> Result<(), DropReason> {
    let Meta { start, len, .. } = skb.meta();
    let start = usize_from(start);
    let bytes = skb
        .linear()
        .get(start..start.wrapping_add(usize_from(len)))
        .ok_or(DropReason::Truncated)?;
    let mut members = 0u32;

    dev.groups.for_each(&Gid(*group), |qpn| {
        members = members.wrapping_add(1);
        // A member that does not get it does not keep it from the others.
        let result = find_qp(dev, qpn, guard).and_then(|qp| {
            qp.io().admits(peek.opcode)?;
            check_keys(&qp, peek, bytes)?;
            let copy = skb.try_clone().ok_or(DropReason::NoMemory)?;
            deliver(qp, true, copy)
        });
        if let Err(reason) = result {
            dev.count_drop(reason);
        }
    });
    if members == 0 {
        return Err(DropReason::NoGroup);
    }
    skb.consume();
    Ok(())
}

/// Returns a packet from a queue: its base transport header up to the checksum, which is included.
#[inline]
fn bytes(skb: &RxSkb) -> Option<&[u8]> {
    let Meta { start, len, .. } = skb.meta();
    let start = usize_from(start);
    skb.linear().get(start..start.checked_add(usize_from(len))?)
}

/// Returns the headers of a packet from a queue, and its payload.
///
/// [`None`] if they do not fit together; such a packet is to be dropped.
#[inline]
pub(crate) fn parsed(skb: &RxSkb) -> Result<(PacketInfo, &[u8]), DropReason> {
    let bytes = bytes(skb).ok_or(DropReason::Truncated)?;
    let info = PacketInfo::parse(bytes)?;
    let payload = payload_of(bytes, &info);
    Ok((info, payload))
}

/// Returns the payload of a packet from a queue whose headers are known already.
#[inline]
pub(crate) fn payload<'a>(skb: &'a RxSkb, info: &PacketInfo) -> &'a [u8] {
    bytes(skb).map_or(&[], |bytes| payload_of(bytes, info))
}

#[inline]
fn payload_of<'a>(bytes: &'a [u8], info: &PacketInfo) -> &'a [u8] {
    bytes
        .get(usize::from(info.header_len)..)
        .and_then(|rest| rest.get(..usize_from(info.payload_len)))
        .unwrap_or_default()
}

/// Returns the network header of a datagram from a queue as receivers are given it, in 40 bytes: an IPv6 header, or
/// an IPv4 header at the end. Zeroes if it has none.
pub(crate) fn network_header(skb: &RxSkb) -> [u8; 40] {
    let mut grh = [0; IPV6_LEN];
    match network_kind(skb) {
        Some(NetworkHeader::Ipv4) => {
            if let (Some(to), Some(from)) = (
                grh.last_chunk_mut::<IPV4_LEN>(),
                skb.network_header().first_chunk::<IPV4_LEN>(),
            ) {
                *to = *from;
            }
        }
        Some(NetworkHeader::Ipv6) => {
            if let Some(from) = skb.network_header().first_chunk() {
                grh = *from;
            }
        }
        None => {}
    }
    grh
}

/// Returns the kind of the network header of a packet from a queue.
pub(crate) fn network_kind(skb: &RxSkb) -> Option<NetworkHeader> {
    let Meta { network, .. } = skb.meta();
    if network == 0 {
        return None;
    }
    match skb.ip_version()? {
        IpVersion::V4 => Some(NetworkHeader::Ipv4),
        IpVersion::V6 => Some(NetworkHeader::Ipv6),
    }
}

/// Returns the VLAN that a packet from a queue came in by.
pub(crate) fn vlan(skb: &RxSkb) -> Option<u16> {
    let Meta { vlan, .. } = skb.meta();
    vlan.checked_sub(1)
}
