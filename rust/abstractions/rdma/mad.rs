// SPDX-License-Identifier: GPL-2.0

//! Management datagrams that the driver answers itself.
//!
//! C headers: [`include/rdma/ib_mad.h`](srctree/include/rdma/ib_mad.h),
//! [`include/rdma/ib_pma.h`](srctree/include/rdma/ib_pma.h)

use super::device::{
    Device,
    Driver, //
};
use crate::abstractions::bindings;
use kernel::prelude::*;

/// The performance management class.
pub const CLASS_PERF_MGMT: u8 = bindings::IB_MGMT_CLASS_PERF_MGMT as u8;
/// The method that reads an attribute.
pub const METHOD_GET: u8 = bindings::IB_MGMT_METHOD_GET as u8;
/// The status for a method that the class does not have.
pub const STATUS_UNSUPPORTED_METHOD: u16 = bindings::IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD as u16;
/// The status for an attribute that the method does not have.
pub const STATUS_UNSUPPORTED_METHOD_ATTRIB: u16 =
    bindings::IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB as u16;

/// A request.
pub struct Request<'a>(&'a bindings::ib_mad);

impl Request<'_> {
    /// The management class.
    pub fn class(&self) -> u8 {
        self.0.mad_hdr.mgmt_class
    }

    /// The method.
    pub fn method(&self) -> u8 {
        self.0.mad_hdr.method
    }

    /// The attribute.
    pub fn attribute(&self) -> u16 {
        u16::from_be(self.0.mad_hdr.attr_id)
    }
}

/// A reply, with the header of the request and zeros behind it.
pub struct Reply<'a>(&'a mut bindings::ib_mad);

impl Reply<'_> {
    /// Offset of the attribute of a performance management datagram in the data behind the header.
    const PERF_DATA: usize = 40;

    /// Sets the status (host byte order).
    pub fn set_status(&mut self, status: u16) {
        self.0.mad_hdr.status = status.to_be();
    }

    /// The attribute of a performance management datagram: 192 bytes.
    pub fn perf_data(&mut self) -> &mut [u8] {
        self.0.data.get_mut(Self::PERF_DATA..).unwrap_or_default()
    }
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is none of the driver's business: others may have a look.
    Ignored,
    /// Send the reply.
    Reply,
}

/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`].
pub(super) unsafe extern "C" fn process<T: Driver>(
    device: *mut bindings::ib_device,
    _flags: c_int,
    port: u32,
    _in_wc: *const bindings::ib_wc,
    _in_grh: *const bindings::ib_grh,
    request: *const bindings::ib_mad,
    reply: *mut bindings::ib_mad,
    _reply_size: *mut usize,
    _reply_pkey_index: *mut u16,
) -> c_int {
    if port != 1 {
        return bindings::ib_mad_result_IB_MAD_RESULT_FAILURE as c_int;
    }
    // SAFETY: Both datagrams are valid during the call and do not overlap; the reply is ours to
    // fill in.
    let (request, reply) = unsafe { (&*request, &mut *reply) };
    *reply = bindings::ib_mad::default();
    // The header is that of the request, but for the status.
    let (from, to) = (&request.mad_hdr, &mut reply.mad_hdr);
    to.base_version = from.base_version;
    to.mgmt_class = from.mgmt_class;
    to.class_version = from.class_version;
    to.method = from.method | bindings::IB_MGMT_METHOD_RESP as u8;
    to.tid = from.tid;
    to.attr_id = from.attr_id;
    to.attr_mod = from.attr_mod;
    // SAFETY: A device of this driver.
    let device = unsafe { Device::<T>::from_raw(device) };
    let result = match T::process_mad(device, &Request(request), &mut Reply(reply)) {
        Verdict::Ignored => bindings::ib_mad_result_IB_MAD_RESULT_SUCCESS,
        Verdict::Reply => {
            bindings::ib_mad_result_IB_MAD_RESULT_SUCCESS
                | bindings::ib_mad_result_IB_MAD_RESULT_REPLY
        }
    };
    result as c_int
}
