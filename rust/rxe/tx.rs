// SPDX-License-Identifier: GPL-2.0

//! Building and sending packets.
//!
//! Called by the workers of queue pairs only, never by whoever posts a request: sending takes locks of the network
//! stack, which must not be taken under locks of a poster.
//!
//! A packet is built with [`build`], its payload is filled in, and [`send`] finishes it. Packets to other hosts are
//! gathered in the destination and go to the network stack in bursts; [`flush`] sends what is left. Packets to this
//! device go straight to the receive path, without checksum.

#![forbid(unsafe_code)]

use super::{
    hop::Hop,
    qp::Qp,
    rx, //
};
use crate::{
    abstractions::{
        crc32::crc32_le,
        net::{
            self,
            Dst,
            IpVersion,
            SkbList,
            TxSkb, //
        },
        rdma::{
            Gid,
            GidAttr, //
        }, //
    },
    proto::{
        counters::Counter,
        icrc::{
            self,
            IPV4_LEN,
            IPV6_LEN,
            UDP_LEN, //
        },
        num::usize_from,
        packet::PacketInfo,
        psn::Psn,
        qpstate::QpType,
        sport,
        time::Instant,
        uabi::Av,
        wire::{
            Bth,
            BTH_LEN,
            ICRC_LEN, //
        }, //
    }, //
};
use kernel::{
    prelude::*,
    sync::rcu,
    time::{
        self,
        hrtimer::HrTimerExpires,
        Monotonic, //
    }, //
};
use zerocopy::{
    FromBytes,
    IntoBytes, //
};

/// The UDP port of RoCEv2.
pub(crate) const ROCE_PORT: u16 = 4791;

/// Packets that go to the network stack in one go.
const BURST: u32 = 16;

/// The protocol number of UDP.
const IPPROTO_UDP: u8 = 17;

/// Why a packet cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There is no way to the destination now.
    NoRoute,
    /// The address is not valid: no such source address, or of another protocol than the destination.
    BadAddress,
    /// There is no memory.
    NoMemory,
}

/// Returns the time of the engines.
#[inline]
pub(crate) fn now() -> Instant {
    let now = time::Instant::<Monotonic>::now().as_nanos();
    // The clock starts at zero.
    Instant(now.unsigned_abs())
}

/// The network addresses of the two ends of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addresses {
    /// IPv4.
    V4 {
        /// Ours.
        local: [u8; 4],
        /// The peer's.
        remote: [u8; 4],
    },
    /// IPv6.
    V6 {
        /// Ours.
        local: [u8; 16],
        /// The peer's.
        remote: [u8; 16],
    },
}

impl Addresses {
    /// Makes the addresses of two GIDs, unless they are of different protocols.
    fn new(local: Gid, remote: Gid) -> Option<Self> {
        match (local.ipv4(), remote.ipv4()) {
            (Some(local), Some(remote)) => Some(Self::V4 { local, remote }),
            (None, None) => Some(Self::V6 {
                local: local.0,
                remote: remote.0,
            }),
            _ => None,
        }
    }

    /// Returns our address as a GID.
    pub(crate) fn local_gid(&self) -> [u8; 16] {
        match *self {
            Self::V4 { local, .. } => rx::mapped(local),
            Self::V6 { local, .. } => local,
        }
    }

    /// Returns the peer's address as a GID.
    pub(crate) fn remote_gid(&self) -> [u8; 16] {
        match *self {
            Self::V4 { remote, .. } => rx::mapped(remote),
            Self::V6 { remote, .. } => remote,
        }
    }

    fn version(&self) -> IpVersion {
        match self {
            Self::V4 { .. } => IpVersion::V4,
            Self::V6 { .. } => IpVersion::V6,
        }
    }

    fn ip_len(&self) -> usize {
        match self {
            Self::V4 { .. } => IPV4_LEN,
            Self::V6 { .. } => IPV6_LEN,
        }
    }
}

/// What a path has besides its addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PathAttr {
    /// Type of service or traffic class.
    pub(crate) traffic_class: u8,
    /// Time to live or hop limit.
    pub(crate) hop_limit: u8,
    /// UDP source port.
    pub(crate) source_port: u16,
}

/// A route, and what was found out with it.
struct Route {
    dst: Dst,
    /// Bytes that the device wants in front of a packet.
    headroom: usize,
    /// The destination is an address of this device, on this host.
    local: bool,
}

/// Where packets go to, with everything that does not change from packet to packet.
pub(crate) struct Destination {
    source: GidAttr,
    remote: Gid,
    addresses: Addresses,
    attr: PathAttr,
    route: Option<Route>,
    /// The identification of the next IPv4 packet. Packets are not to be fragmented, so it means nothing.
    ip_id: u16,
    /// Packets that are complete but not handed to the network stack yet.
    burst: SkbList<TxSkb>,
    burst_packets: u32,
    burst_bytes: u64,
    /// The first packet that a full queue had no room for, if its sender wants to know.
    refused: OnRefusal,
}

/// What to do with a packet that a full queue of the local host has no room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnRefusal {
    /// It is lost.
    Lose,
    /// So is the rest of the burst, and the sender asks for the number of the first, to send it again.
    Tell(Option<Psn>),
}

impl Destination {
    /// Makes a destination that is reached from the address `source`.
    ///
    /// # Errors
    ///
    /// [`Refused::BadAddress`] if the two addresses are of different protocols.
    pub(crate) fn new(
        source: GidAttr,
        remote: Gid,
        attr: PathAttr,
        on_refusal: OnRefusal,
    ) -> Result<Self, Refused> {
        let addresses = Addresses::new(source.gid(), remote).ok_or(Refused::BadAddress)?;
        Ok(Self {
            source,
            remote,
            addresses,
            attr,
            route: None,
            ip_id: attr.source_port,
            burst: SkbList::new(),
            burst_packets: 0,
            burst_bytes: 0,
            refused: on_refusal,
        })
    }

    /// Takes the number of the first packet that a full queue had no room for.
    #[inline]
    pub(crate) fn take_refused(&mut self) -> Option<Psn> {
        match &mut self.refused {
            OnRefusal::Lose => None,
            OnRefusal::Tell(psn) => psn.take(),
        }
    }

    /// Returns the addresses of the two ends.
    pub(crate) fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Returns the number of the network device that has our address; zero if it is gone.
    pub(crate) fn ifindex(&self) -> u32 {
        let guard = rcu::read_lock();
        self.source.netdev(&guard).map_or(0, |dev| dev.ifindex())
    }

    /// Makes sure that the route is up to date.
    #[inline]
    fn route(&mut self, qp: &Qp) -> Result<(usize, bool), Refused> {
        if !self
            .route
            .as_ref()
            .is_some_and(|route| route.dst.is_valid())
        {
            self.find_route(qp)?;
        }
        self.route
            .as_ref()
            .map(|route| (route.headroom, route.local))
            .ok_or(Refused::NoRoute)
    }

    #[cold]
    fn find_route(&mut self, qp: &Qp) -> Result<(), Refused> {
        self.route = None;
        let guard = rcu::read_lock();
        let netdev = self.source.netdev(&guard).ok_or(Refused::NoRoute)?;
        let dst = match self.addresses {
            Addresses::V4 { local, remote } => Dst::lookup4(netdev, local, remote),
            Addresses::V6 { local, remote } => Dst::lookup6(netdev, local, remote),
        }
        .map_err(|_| Refused::NoRoute)?;
        // By address, not by MAC: the device may have none, or share it with another.
        let local = dst.is_loopback(&guard) && qp.dev().find_gid(self.remote, None).is_ok();
        self.route = Some(Route {
            headroom: dst.reserved_space(&guard),
            dst,
            local,
        });
        Ok(())
    }
}

/// The destination that datagrams of a queue pair went to last, and the address vector it is of.
pub(crate) struct LastDatagram {
    av: Av,
    destination: Destination,
}

/// Returns the destination of a datagram.
///
/// `last` remembers the one before, which the packets of most applications go to again.
///
/// # Errors
///
/// [`Refused::BadAddress`] if the address vector is not valid, [`Refused::NoRoute`] if the device is going away.
pub(crate) fn datagram<'a>(
    qp: &Qp,
    last: &'a mut Option<LastDatagram>,
    av: &Av,
    hop: &mut Hop,
) -> Result<&'a mut Destination, Refused> {
    if last
        .as_ref()
        .is_none_or(|last| last.av.as_bytes() != av.as_bytes())
    {
        if let Some(mut old) = last.take() {
            flush(qp, &mut old.destination, hop);
        }
        let source = qp
            .dev()
            .gid_attr(av.grh.sgid_index.into())
            .map_err(|_| Refused::BadAddress)?;
        let attr = PathAttr {
            traffic_class: av.grh.traffic_class,
            hop_limit: av.grh.hop_limit,
            source_port: sport::of_datagrams(qp.qpn().get()),
        };
        *last = Some(LastDatagram {
            av: *av,
            destination: Destination::new(source, Gid(av.grh.dgid), attr, OnRefusal::Lose)?,
        });
    }
    last.as_mut()
        .map(|last| &mut last.destination)
        .ok_or(Refused::BadAddress)
}

/// Sends what is gathered for the last datagram's destination, and forgets it if it cannot be reached.
pub(crate) fn flush_datagrams(qp: &Qp, last: &mut Option<LastDatagram>, hop: &mut Hop) {
    if let Some(known) = last {
        flush(qp, &mut known.destination, hop);
        // The address may have got another entry in the table.
        if known.destination.route.is_none() {
            *last = None;
        }
    }
}

/// A packet that has all its headers and waits for its payload.
pub(crate) struct Packet {
    skb: TxSkb,
    /// Where the base transport header begins.
    transport: usize,
    header_len: usize,
    payload_len: usize,
    /// The packet goes to this device.
    local: bool,
}

impl Packet {
    /// Returns the payload, to be written by the caller: it holds whatever the memory held before.
    #[inline]
    pub(crate) fn payload_mut(&mut self) -> &mut [u8] {
        let start = self.transport.wrapping_add(self.header_len);
        let end = start.wrapping_add(self.payload_len);
        self.skb.data_mut().get_mut(start..end).unwrap_or_default()
    }
}

/// Builds a packet.
///
/// # Errors
///
/// See [`Refused`].
pub(crate) fn build(
    qp: &Qp,
    destination: &mut Destination,
    header: &PacketInfo,
) -> Result<Packet, Refused> {
    let (headroom, local) = destination.route(qp)?;
    let datagram = matches!(qp.qp_type(), QpType::Ud | QpType::Gsi);
    let packet_len = header.packet_len().ok_or(Refused::BadAddress)?;
    let header_len = usize::from(header.header_len);
    let payload_len = usize_from(header.payload_len);

    // Within the device only datagrams need the network header: their receivers are given it.
    let (transport, headroom) = match (local, datagram) {
        (true, false) => (0, 0),
        (true, true) => (destination.addresses.ip_len().wrapping_add(UDP_LEN), 0),
        (false, _) => (
            destination.addresses.ip_len().wrapping_add(UDP_LEN),
            headroom,
        ),
    };
    let len = transport.checked_add(packet_len).ok_or(Refused::NoMemory)?;
    let mut skb = TxSkb::new(headroom, len).map_err(|_| Refused::NoMemory)?;
    let data = skb.data_mut();

    let (network, rest) = data
        .split_at_mut_checked(transport)
        .ok_or(Refused::NoMemory)?;
    header.emit(rest).ok_or(Refused::NoMemory)?;
    // The pad; the payload is the caller's, the checksum is written by `send`.
    if let Some(pad) = rest.get_mut(header_len.wrapping_add(payload_len)..) {
        pad.fill(0);
    }
    if transport != 0 {
        let udp_len =
            u16::try_from(packet_len.wrapping_add(UDP_LEN)).map_err(|_| Refused::BadAddress)?;
        destination
            .write_headers(network, udp_len)
            .ok_or(Refused::NoMemory)?;
        skb.set_headers(
            destination.addresses.version(),
            destination.addresses.ip_len() as u16,
        );
    }
    Ok(Packet {
        skb,
        transport,
        header_len,
        payload_len,
        local,
    })
}

impl Destination {
    /// Writes IP and UDP headers.
    ///
    /// The IPv4 header checksum, and nothing else, is left to the network stack.
    fn write_headers(&mut self, to: &mut [u8], udp_len: u16) -> Option<()> {
        let (ip, udp) = to.split_at_mut_checked(self.addresses.ip_len())?;
        let PathAttr {
            traffic_class,
            hop_limit,
            source_port,
        } = self.attr;

        match &self.addresses {
            Addresses::V4 { local, remote } => {
                let ip: &mut [u8; IPV4_LEN] = ip.try_into().ok()?;
                let total = udp_len.checked_add(IPV4_LEN as u16)?;
                let [len0, len1] = total.to_be_bytes();
                let [id0, id1] = self.ip_id.to_be_bytes();
                let [s0, s1, s2, s3] = *local;
                let [d0, d1, d2, d3] = *remote;
                self.ip_id = self.ip_id.wrapping_add(1);
                *ip = [
                    0x45,
                    traffic_class,
                    len0,
                    len1,
                    id0,
                    id1,
                    // Do not fragment.
                    0x40,
                    0,
                    hop_limit,
                    IPPROTO_UDP,
                    0,
                    0,
                    s0,
                    s1,
                    s2,
                    s3,
                    d0,
                    d1,
                    d2,
                    d3,
                ];
            }
            Addresses::V6 { local, remote } => {
                let (fixed, addresses) = ip.split_first_chunk_mut::<8>()?;
                let [len0, len1] = udp_len.to_be_bytes();
                *fixed = [
                    0x60 | (traffic_class >> 4),
                    traffic_class << 4,
                    0,
                    0,
                    len0,
                    len1,
                    IPPROTO_UDP,
                    hop_limit,
                ];
                let (source, destination) = addresses.split_first_chunk_mut()?;
                *source = *local;
                *destination.first_chunk_mut()? = *remote;
            }
        }

        let [s0, s1] = source_port.to_be_bytes();
        let [p0, p1] = ROCE_PORT.to_be_bytes();
        let [l0, l1] = udp_len.to_be_bytes();
        // No checksum.
        *udp.first_chunk_mut()? = [s0, s1, p0, p1, l0, l1, 0, 0];
        Some(())
    }
}

/// Finishes a packet and sends it, now or with the next burst. A packet that gets lost on the way is not told. `hop` takes
/// the worker that a packet to this device is for.
pub(crate) fn send(qp: &Qp, destination: &mut Destination, mut packet: Packet, hop: &mut Hop) {
    if packet.local {
        // As many as it would have been on the wire.
        let mut len = packet.skb.data().len();
        if packet.transport == 0 {
            len = len.wrapping_add(destination.addresses.ip_len().wrapping_add(UDP_LEN));
        }
        let dev = qp.dev();
        dev.count(Counter::SentPkts);
        dev.count_n(Counter::SentBytes, len as u64);
        if matches!(qp.qp_type(), QpType::Uc | QpType::Ud | QpType::Gsi) {
            // Nothing else limits them.
            qp.io().credits.charge(&mut packet.skb);
        }
        rx::local(
            dev,
            packet.skb,
            packet.transport,
            len,
            &destination.addresses,
            hop,
        );
        return;
    }
    // Cannot fail: `build` made room for all headers.
    if destination.seal(&mut packet).is_none() {
        return;
    }
    qp.io().credits.charge(&mut packet.skb);
    destination.burst_packets = destination.burst_packets.wrapping_add(1);
    destination.burst_bytes = destination
        .burst_bytes
        .wrapping_add(packet.skb.data().len() as u64);
    destination.burst.push(packet.skb);
    if destination.burst_packets >= BURST {
        flush(qp, destination, hop);
    }
}

impl Destination {
    /// Writes the checksum of a packet.
    ///
    /// It covers the headers with the bits set that the network may change. They are set in place, so that headers
    /// and payload are one piece, and put back afterwards.
    fn seal(&self, packet: &mut Packet) -> Option<()> {
        let ip_len = self.addresses.ip_len();
        let transport = packet.transport;
        let data = packet.skb.data_mut();
        let end = data.len().checked_sub(ICRC_LEN)?;

        let (network, rest) = data.split_at_mut_checked(transport)?;
        let (ip, udp) = network.split_at_mut_checked(ip_len)?;
        let bth: &mut [u8] = rest.get_mut(..BTH_LEN)?;
        let bits = *bth.get(icrc::RESV8A)?;
        icrc::mask_headers(ip, udp, bth)?;

        let (covered, place) = data.split_at_mut_checked(end)?;
        place.copy_from_slice(&icrc::finish(crc32_le(icrc::SEED, covered)));

        let (network, rest) = data.split_at_mut_checked(transport)?;
        let (ip, udp) = network.split_at_mut_checked(ip_len)?;
        *rest.get_mut(icrc::RESV8A)? = bits;
        *udp.last_chunk_mut::<2>()? = [0; 2];
        let PathAttr {
            traffic_class,
            hop_limit,
            ..
        } = self.attr;
        match self.addresses {
            Addresses::V4 { .. } => {
                let ip: &mut [u8; IPV4_LEN] = ip.try_into().ok()?;
                ip[1] = traffic_class;
                ip[8] = hop_limit;
                ip[10] = 0;
                ip[11] = 0;
            }
            Addresses::V6 { .. } => {
                let ip: &mut [u8; IPV6_LEN] = ip.try_into().ok()?;
                ip[0] = 0x60 | (traffic_class >> 4);
                ip[1] = traffic_class << 4;
                ip[2] = 0;
                ip[3] = 0;
                ip[7] = hop_limit;
            }
        }
        Some(())
    }
}

/// Sends the packets that are gathered for a destination. `hop` takes a worker that this makes run.
#[inline]
pub(crate) fn flush(qp: &Qp, destination: &mut Destination, hop: &mut Hop) {
    if !destination.burst.is_empty() {
        transmit(qp, destination, hop);
    }
}

fn transmit(qp: &Qp, destination: &mut Destination, hop: &mut Hop) {
    let dev = qp.dev();
    let mut burst = core::mem::replace(&mut destination.burst, SkbList::new());
    let mut packets = core::mem::take(&mut destination.burst_packets);
    let mut bytes = core::mem::take(&mut destination.burst_bytes);
    let mut refused = destination.refused;
    let ip_len = destination.addresses.ip_len();

    // The route was looked at when the packets were built. One that is outdated since then is still a route.
    match &destination.route {
        // Devices that receive what they send, such as veth, do so once at the end.
        Some(route) => hop.gather(
            usize_from(packets),
            usize::try_from(bytes).unwrap_or(usize::MAX),
            || {
                let guard = rcu::read_lock();
                while let Some(skb) = burst.pop() {
                    let len = skb.data().len() as u64;
                    let psn = match refused {
                        OnRefusal::Lose => None,
                        OnRefusal::Tell(_) => psn_of(skb.data(), ip_len),
                    };
                    let result = skb.output(&route.dst, &guard);
                    if let Err(why) = result {
                        // As good as lost on the wire: whoever needs an answer asks again.
                        packets = packets.wrapping_sub(1);
                        bytes = bytes.wrapping_sub(len);
                        dev.count(Counter::SendErr);
                        if let (net::Refused::Full, OnRefusal::Tell(first)) = (why, &mut refused) {
                            *first = psn;
                            break;
                        }
                    }
                }
                // What was behind a packet that is sent again is sent again as well.
                while let Some(skb) = burst.pop() {
                    packets = packets.wrapping_sub(1);
                    bytes = bytes.wrapping_sub(skb.data().len() as u64);
                }
            },
        ),
        None => {
            dev.count_n(Counter::SendErr, packets.into());
            return;
        }
    }
    destination.refused = refused;
    dev.count_n(Counter::SentPkts, packets.into());
    dev.count_n(Counter::SentBytes, bytes);
}

/// Returns the sequence number of a packet that begins with an IP header of `ip_len` bytes.
fn psn_of(packet: &[u8], ip_len: usize) -> Option<Psn> {
    let transport = packet.get(ip_len.wrapping_add(UDP_LEN)..)?;
    let (bth, _) = Bth::ref_from_prefix(transport).ok()?;
    Some(Psn::new(bth.apsn.get()))
}
