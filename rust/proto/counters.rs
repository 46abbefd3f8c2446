// SPDX-License-Identifier: GPL-2.0

//! What the device counts.
//!
//! The first seventeen counters have the names and the order of the stock driver, on which tools
//! and tests rely. After them comes one for each reason to drop a packet, and one for each way in which a
//! consumer endangers itself.

#![forbid(unsafe_code)]

use core::ffi::CStr;

macro_rules! counters {
    (
        $(#[$emeta:meta])*
        enum $enum:ident;
        $($(#[$meta:meta])* $name:ident = $text:literal,)*
    ) => {
        $(#[$emeta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $enum {
            $($(#[$meta])* $name,)*
        }

        impl $enum {
            /// All values, in the order of the counters.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Returns the name that users see.
            pub const fn name(self) -> &'static CStr {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

counters! {
    /// The counters of the stock driver.
    enum Counter;
    /// Packets sent.
    SentPkts = c"sent_pkts",
    /// Packets received for a queue pair of this device.
    RcvdPkts = c"rcvd_pkts",
    /// Requests received again after they were executed.
    DuplicateRequest = c"duplicate_request",
    /// Requests received ahead of one that is missing.
    OutOfSeqRequest = c"out_of_seq_request",
    /// RNR NAKs received.
    RcvdRnrErr = c"rcvd_rnr_err",
    /// RNR NAKs sent.
    SendRnrErr = c"send_rnr_err",
    /// Sequence error NAKs received.
    RcvdSeqErr = c"rcvd_seq_err",
    /// Work put off to the worker of a queue pair.
    AckDeferred = c"ack_deferred",
    /// Requests given up after the last transport retry.
    RetryExceededErr = c"retry_exceeded_err",
    /// Requests given up after the last RNR retry.
    RetryRnrExceededErr = c"retry_rnr_exceeded_err",
    /// Retries started because a response was missing.
    CompleterRetryErr = c"completer_retry_err",
    /// Packets that the local network stack refused.
    SendErr = c"send_err",
    /// Transitions of the link to down.
    LinkDowned = c"link_downed",
    /// SEND requests completed as sender.
    RdmaSends = c"rdma_sends",
    /// SEND requests completed as receiver.
    RdmaRecvs = c"rdma_recvs",
    /// Bytes sent in packets.
    SentBytes = c"sent_bytes",
    /// Bytes received in packets.
    RcvdBytes = c"rcvd_bytes",
}

counters! {
    /// Why a packet was ignored. Not an error: it is counted and the packet freed.
    enum DropReason;
    /// Shorter than its headers and ICRC.
    Truncated = c"drop_truncated",
    /// Header version other than zero.
    BadVersion = c"drop_bad_version",
    /// Opcode that this device does not know.
    UnknownOpcode = c"drop_unknown_opcode",
    /// Pad or payload that does not fit the packet or its opcode.
    BadLength = c"drop_bad_length",
    /// Destination address that is not one of the device's.
    BadDestination = c"drop_bad_destination",
    /// Source address that is not the connected peer's.
    BadSource = c"drop_bad_source",
    /// Destination queue pair that does not exist.
    NoQp = c"drop_no_qp",
    /// Opcode of another transport service than the queue pair's.
    WrongService = c"drop_wrong_service",
    /// Queue pair in a state that does not accept the packet.
    QpState = c"drop_qp_state",
    /// Queue pair that is being destroyed.
    QpClosing = c"drop_qp_closing",
    /// Partition key that does not match.
    BadPkey = c"drop_bad_pkey",
    /// Queue key that does not match.
    BadQkey = c"drop_bad_qkey",
    /// Invariant CRC that does not match.
    BadIcrc = c"drop_bad_icrc",
    /// Receive queue of the queue pair full of unprocessed packets.
    QueueFull = c"drop_queue_full",
    /// No memory to keep the packet.
    NoMemory = c"drop_no_memory",
    /// Multicast group without members here.
    NoGroup = c"drop_no_group",
    /// Response that answers nothing outstanding.
    UnexpectedResponse = c"drop_unexpected_response",
    /// Datagram longer than the receive buffer.
    DatagramTooLong = c"drop_datagram_too_long",
    /// Datagram or unreliable message without a posted receive.
    NoReceive = c"drop_no_receive",
    /// Packet of an unreliable message of which another packet is missing.
    UnreliableGap = c"drop_unreliable_gap",
    /// Request that an unreliable connection may not make.
    UnreliableRequest = c"drop_unreliable_request",
    /// Request while a NAK for an earlier one is outstanding.
    AfterNak = c"drop_after_nak",
    /// Congestion notification, which is accepted and has no effect.
    Congestion = c"drop_congestion_notification",
}

counters! {
    /// What a consumer does that is not forbidden to it and may go wrong with another device.
    enum Misuse;
    /// Requests posted into space of a send queue that no polled completion had proven to be free.
    UnprovenPost = c"sq_post_unproven",
}

impl Counter {
    /// Returns the place of the counter among all counters.
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl DropReason {
    /// Returns the place of the reason's counter among all counters.
    pub const fn index(self) -> usize {
        Counter::ALL.len().wrapping_add(self as usize)
    }
}

impl Misuse {
    /// Returns the place of the counter among all counters.
    pub const fn index(self) -> usize {
        Counter::ALL
            .len()
            .wrapping_add(DropReason::ALL.len())
            .wrapping_add(self as usize)
    }
}

/// The number of all counters.
pub const COUNT: usize = Counter::ALL.len() + DropReason::ALL.len() + Misuse::ALL.len();

/// Returns the name of the counter at a place, or `None` past the last.
#[cfg(not(MODULE))]
pub fn name(index: usize) -> Option<&'static CStr> {
    let Some(drop) = index.checked_sub(Counter::ALL.len()) else {
        return Counter::ALL.get(index).map(|c| c.name());
    };
    match drop.checked_sub(DropReason::ALL.len()) {
        None => DropReason::ALL.get(drop).map(|r| r.name()),
        Some(misuse) => Misuse::ALL.get(misuse).map(|m| m.name()),
    }
}
