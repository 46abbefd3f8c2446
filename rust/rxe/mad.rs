// SPDX-License-Identifier: GPL-2.0

//! Answers to management datagrams: the port counters of the performance management class.
//!
//! Attributes are those of the IBA specification, volume 1, 16.1.3.

#![forbid(unsafe_code)]

use super::device::RxeDev;
use crate::{
    abstractions::rdma::mad::{
        Reply,
        Request,
        Verdict,
        CLASS_PERF_MGMT,
        METHOD_GET,
        STATUS_UNSUPPORTED_METHOD,
        STATUS_UNSUPPORTED_METHOD_ATTRIB, //
    },
    proto::counters::Counter, //
};

/// ClassPortInfo.
const CLASS_PORT_INFO: u16 = 0x0001;
/// PortCounters.
const PORT_COUNTERS: u16 = 0x0012;
/// PortCountersExtended.
const PORT_COUNTERS_EXT: u16 = 0x001d;

/// ClassPortInfo: where CapabilityMask is.
const CPI_CAPABILITY_MASK: usize = 2;
/// ClassPortInfo: the extended counters are 64 bits wide.
const CAP_EXT_WIDTH: u16 = 1 << 9;

/// PortCounters: where LinkDownedCounter is.
const PC_LINK_DOWNED: usize = 7;

/// PortCountersExtended: where PortXmitData is. PortRcvData, PortXmitPkts and PortRcvPkts follow.
const PCE_XMIT_DATA: usize = 8;
/// PortCountersExtended: where PortRcvData is.
const PCE_RCV_DATA: usize = 16;
/// PortCountersExtended: where PortXmitPkts is.
const PCE_XMIT_PKTS: usize = 24;
/// PortCountersExtended: where PortRcvPkts is.
const PCE_RCV_PKTS: usize = 32;

/// Answers a datagram.
pub(crate) fn process(dev: &RxeDev, request: &Request<'_>, reply: &mut Reply<'_>) -> Verdict {
    if request.class() != CLASS_PERF_MGMT {
        return Verdict::Ignored;
    }
    if request.method() != METHOD_GET {
        reply.set_status(STATUS_UNSUPPORTED_METHOD);
        return Verdict::Reply;
    }
    let data = reply.perf_data();
    match request.attribute() {
        CLASS_PORT_INFO => put(data, CPI_CAPABILITY_MASK, &CAP_EXT_WIDTH.to_be_bytes()),
        PORT_COUNTERS => {
            // The counter stops at its largest value.
            let downed = u8::try_from(dev.counter(Counter::LinkDowned)).unwrap_or(u8::MAX);
            put(data, PC_LINK_DOWNED, &[downed]);
        }
        PORT_COUNTERS_EXT => {
            // Data is counted in words of four bytes.
            let words = |counter| dev.counter(counter) >> 2;
            let packets = |counter| dev.counter(counter);
            put(
                data,
                PCE_XMIT_DATA,
                &words(Counter::SentBytes).to_be_bytes(),
            );
            put(data, PCE_RCV_DATA, &words(Counter::RcvdBytes).to_be_bytes());
            put(
                data,
                PCE_XMIT_PKTS,
                &packets(Counter::SentPkts).to_be_bytes(),
            );
            put(
                data,
                PCE_RCV_PKTS,
                &packets(Counter::RcvdPkts).to_be_bytes(),
            );
        }
        _ => reply.set_status(STATUS_UNSUPPORTED_METHOD_ATTRIB),
    }
    Verdict::Reply
}

/// Writes `bytes` to `data` at `offset`, if there is room.
fn put(data: &mut [u8], offset: usize, bytes: &[u8]) {
    if let Some(room) = data
        .get_mut(offset..)
        .and_then(|d| d.get_mut(..bytes.len()))
    {
        room.copy_from_slice(bytes);
    }
}
