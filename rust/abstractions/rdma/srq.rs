// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    callback::Target,
    device::Driver,
    event,
    ops::shell,
    pd,
    udata::UserData,
    wr::RecvWrs, //
};
use crate::abstractions::bindings;
use kernel::{
    error::from_result,
    prelude::*,
    sync::Arc, //
};

/// The attributes of a shared receive queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attr {
    /// Receive requests that must fit at the same time.
    pub max_wr: u32,
    /// Gather entries per request.
    pub max_sge: u32,
    /// The limit event is raised once when fewer requests than this are left; 0: never.
    pub limit: u32,
}

/// Which attributes to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttrMask(u32);

impl AttrMask {
    /// Change [`Attr::max_wr`].
    pub const MAX_WR: Self = Self(bindings::ib_srq_attr_mask_IB_SRQ_MAX_WR);
    /// Change [`Attr::limit`].
    pub const LIMIT: Self = Self(bindings::ib_srq_attr_mask_IB_SRQ_LIMIT);

    /// Whether all of `other` is in this mask.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The kind of a shared receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Plain.
    Basic,
    /// A kind that this abstraction has no name for.
    Other,
}

/// A shared receive queue as its verbs give it to the driver.
#[vtable]
pub trait Operations: Sized + Send + Sync + 'static {
    /// The driver.
    type Driver: Driver<Srq = Self>;

    /// Makes the driver's part of a new queue and writes the granted values back to `attr`. May
    /// sleep.
    fn create(
        _pd: &pd::Shell<<Self::Driver as Driver>::Pd>,
        _handler: Handler,
        _kind: Kind,
        _attr: &mut Attr,
        _udata: Option<&mut UserData<'_>>,
    ) -> Result<Self> {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// Ends the use of the queue; the value is dropped after it. May sleep.
    fn destroy(_srq: &Shell<Self>) {}

    /// Changes the attributes named in `mask`: all of them or, on failure, none. May sleep.
    fn modify(
        _srq: &Shell<Self>,
        _attr: &Attr,
        _mask: AttrMask,
        _udata: Option<&mut UserData<'_>>,
    ) -> Result {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// The current attributes.
    fn query(_srq: &Shell<Self>) -> Result<Attr> {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// Posts receive requests: takes them from `wrs` until it is empty or one cannot be posted. Any
    /// context.
    fn post_recv(_srq: &Shell<Self>, _wrs: &mut RecvWrs<'_>) -> Result {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }
}

shell! {
    /// An `ib_srq` with the driver's part behind it.
    Shell, ib_srq, target
}

/// Tells the user of a shared receive queue about it. Call without any lock held.
#[derive(Clone)]
pub struct Handler(Arc<Target<bindings::ib_srq>>);

impl Handler {
    /// Reports that fewer requests than the limit are left. Any context.
    pub fn limit_reached(&self) {
        self.report(bindings::ib_event_type_IB_EVENT_SRQ_LIMIT_REACHED);
    }

    fn report(&self, what: bindings::ib_event_type) {
        self.0.with(|srq| {
            // SAFETY: `with` keeps the queue from being freed; the core sets these fields before
            // create.
            let (handler, context, device) = unsafe {
                (
                    (*srq.as_ptr()).event_handler,
                    (*srq.as_ptr()).srq_context,
                    (*srq.as_ptr()).device,
                )
            };
            if let Some(handler) = handler {
                let mut event = event::raw(device, what);
                // SAFETY: Any member of the union may be written; this is the one of the event.
                unsafe { *event.element.srq.as_mut() = srq.as_ptr() };
                // SAFETY: The arguments are those the user of the queue asked for.
                unsafe { handler(&mut event, context) };
            }
        });
    }
}

/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`].
pub(super) unsafe extern "C" fn create<T: Operations>(
    srq: *mut bindings::ib_srq,
    init: *mut bindings::ib_srq_init_attr,
    udata: *mut bindings::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: The core sets `pd` before the call; it is a PD of this driver.
        let pd = unsafe { pd::Shell::from_raw((*srq).pd) };
        // SAFETY: `udata` is valid for this call and ours alone.
        let mut udata = unsafe { UserData::from_raw(udata) };
        // SAFETY: Valid for this call, and ours to write the granted values to.
        let init = unsafe { &mut *init };
        let kind = match init.srq_type {
            bindings::ib_srq_type_IB_SRQT_BASIC => Kind::Basic,
            _ => Kind::Other,
        };
        let mut attr = Attr {
            max_wr: init.attr.max_wr,
            max_sge: init.attr.max_sge,
            limit: init.attr.srq_limit,
        };
        // SAFETY: Closed below if create fails, else by `destroy`.
        let target = unsafe { Shell::<T>::new_target(srq) }?;
        match T::create(pd, Handler(target.clone()), kind, &mut attr, udata.as_mut()) {
            Ok(data) => {
                init.attr.max_wr = attr.max_wr;
                init.attr.max_sge = attr.max_sge;
                // SAFETY: The core allocated the size of the shell and calls this once.
                unsafe { Shell::<T>::init(srq, data, target) };
                Ok(0)
            }
            Err(e) => {
                target.close();
                Err(e)
            }
        }
    })
}

/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`].
pub(super) unsafe extern "C" fn destroy<T: Operations>(
    srq: *mut bindings::ib_srq,
    _udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: A queue of this driver that was created.
    T::destroy(unsafe { Shell::from_raw(srq) });
    // SAFETY: The core calls nothing for this queue any more.
    unsafe { Shell::<T>::drop_data(srq) };
    0
}

/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`].
pub(super) unsafe extern "C" fn modify<T: Operations>(
    srq: *mut bindings::ib_srq,
    attr: *mut bindings::ib_srq_attr,
    mask: bindings::ib_srq_attr_mask,
    udata: *mut bindings::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: `udata` is valid for this call and ours alone.
        let mut udata = unsafe { UserData::from_raw(udata) };
        // SAFETY: Valid for this call.
        let attr = unsafe { &*attr };
        let attr = Attr {
            max_wr: attr.max_wr,
            max_sge: attr.max_sge,
            limit: attr.srq_limit,
        };
        // SAFETY: A queue of this driver that was created.
        let shell = unsafe { Shell::<T>::from_raw(srq) };
        T::modify(shell, &attr, AttrMask(mask), udata.as_mut())?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`].
pub(super) unsafe extern "C" fn query<T: Operations>(
    srq: *mut bindings::ib_srq,
    out: *mut bindings::ib_srq_attr,
) -> c_int {
    from_result(|| {
        // SAFETY: A queue of this driver that was created.
        let attr = T::query(unsafe { Shell::from_raw(srq) })?;
        // SAFETY: Valid for this call, and ours to fill in.
        let out = unsafe { &mut *out };
        out.max_wr = attr.max_wr;
        out.max_sge = attr.max_sge;
        out.srq_limit = attr.limit;
        Ok(0)
    })
}

/// # Safety
///
/// Called by users of the queue, by the rules in the documentation of [`super`].
pub(super) unsafe extern "C" fn post_recv<T: Operations>(
    srq: *mut bindings::ib_srq,
    wr: *const bindings::ib_recv_wr,
    bad_wr: *mut *const bindings::ib_recv_wr,
) -> c_int {
    // SAFETY: A list of requests that is valid for this call.
    let mut wrs = unsafe { RecvWrs::from_raw(wr) };
    // SAFETY: A queue of this driver that was created.
    match T::post_recv(unsafe { Shell::from_raw(srq) }, &mut wrs) {
        Ok(()) => 0,
        Err(e) => {
            // SAFETY: The core passes room for the answer.
            unsafe { bad_wr.write(wrs.failed()) };
            e.to_errno()
        }
    }
}
