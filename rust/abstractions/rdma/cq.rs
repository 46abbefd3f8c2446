// SPDX-License-Identifier: GPL-2.0

//! Completion queues.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    callback::Target,
    device::{
        Device,
        Driver, //
    },
    event,
    ops::shell,
    udata::UserData,
    wc::WorkCompletion, //
};
use crate::abstractions::bindings;
use core::marker::PhantomData;
use kernel::{
    error::from_result,
    prelude::*,
    sync::Arc, //
};

/// What was asked for when a completion queue is made.
#[derive(Clone, Copy, Debug)]
pub struct InitAttr {
    /// Entries that must fit at the same time.
    pub entries: u32,
    /// Creation flags (`enum ib_uverbs_ex_create_cq_flags`).
    pub flags: u32,
}

/// What to be notified of, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notify {
    /// Solicited completions and errors only, instead of every completion.
    pub solicited_only: bool,
    /// Say whether completions that arrived before might be missed.
    pub report_missed: bool,
}

/// A completion queue as its verbs give it to the driver.
#[vtable]
pub trait Operations: Sized + Send + Sync + 'static {
    /// The driver.
    type Driver: Driver<Cq = Self>;

    /// Makes the driver's part of a new completion queue, and says how many entries it has. May
    /// sleep.
    ///
    /// `udata` is [`None`] for a kernel user.
    fn create(
        _device: &Device<Self::Driver>,
        _handler: Handler,
        _attr: &InitAttr,
        _udata: Option<&mut UserData<'_>>,
    ) -> Result<(Self, u32)> {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// Ends the use of the queue; the value is dropped after it. May sleep.
    fn destroy(_cq: &Shell<Self>) {}

    /// Changes the number of entries and returns the new one, without losing completions. May
    /// sleep.
    fn resize(_cq: &Shell<Self>, _entries: u32, _udata: Option<&mut UserData<'_>>) -> Result<u32> {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// Takes completions out of the queue until it is empty or `out` is full. Kernel users only;
    /// any context.
    fn poll(_cq: &Shell<Self>, _out: &mut Completions<'_>) {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// The number of completions in the queue, or `max` if there are more. Any context.
    fn peek(_cq: &Shell<Self>, _max: u32) -> u32 {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// Asks for one call of [`Handler::completed`]. Any context.
    ///
    /// Returns true if [`Notify::report_missed`] was asked for and there are completions that the
    /// call may not announce.
    fn req_notify(_cq: &Shell<Self>, _what: Notify) -> bool {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }
}

shell! {
    /// An `ib_cq` with the driver's part behind it.
    Shell, ib_cq, target
}

/// Tells the user of a completion queue about it.
///
/// Call without any lock held: the user may post and poll from the call.
#[derive(Clone)]
pub struct Handler(Arc<Target<bindings::ib_cq>>);

impl Handler {
    /// Announces completions. Any context. Nothing happens when the queue is being destroyed.
    pub fn completed(&self) {
        self.0.with(|cq| {
            // SAFETY: `with` keeps the queue from being freed; the core sets the handler before
            // create.
            let (handler, context) =
                unsafe { ((*cq.as_ptr()).comp_handler, (*cq.as_ptr()).cq_context) };
            if let Some(handler) = handler {
                // SAFETY: The arguments are those the user of the queue asked for.
                unsafe { handler(cq.as_ptr(), context) };
            }
        });
    }

    /// Reports that a completion was lost because the queue was full. Any context.
    pub fn overflow(&self) {
        self.0.with(|cq| {
            // SAFETY: `with` keeps the queue from being freed; the core sets these fields before
            // create.
            let (handler, context, device) = unsafe {
                (
                    (*cq.as_ptr()).event_handler,
                    (*cq.as_ptr()).cq_context,
                    (*cq.as_ptr()).device,
                )
            };
            if let Some(handler) = handler {
                let mut event = event::raw(device, bindings::ib_event_type_IB_EVENT_CQ_ERR);
                // SAFETY: Any member of the union may be written; this is the one of the event.
                unsafe { *event.element.cq.as_mut() = cq.as_ptr() };
                // SAFETY: The arguments are those the user of the queue asked for.
                unsafe { handler(&mut event, context) };
            }
        });
    }
}

/// Room for completions that a kernel user polls.
pub struct Completions<'a> {
    /// Where the next one goes.
    next: *mut bindings::ib_wc,
    /// How many still fit.
    room: usize,
    written: usize,
    _out: PhantomData<&'a mut [bindings::ib_wc]>,
}

impl Completions<'_> {
    /// How many completions still fit.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Adds one completion; gives it back if there is no room.
    pub fn push(&mut self, wc: WorkCompletion) -> Result<(), WorkCompletion> {
        if self.room == 0 {
            return Err(wc);
        }
        // SAFETY: `next` is valid for `room` entries, by construction in `poll`, and `room` is not
        // 0.
        unsafe {
            self.next.write(wc.into_raw());
            self.next = self.next.add(1);
        }
        self.room = self.room.wrapping_sub(1);
        self.written = self.written.wrapping_add(1);
        Ok(())
    }
}

/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`].
pub(super) unsafe extern "C" fn create<T: Operations>(
    cq: *mut bindings::ib_cq,
    attr: *const bindings::ib_cq_init_attr,
    attrs: *mut bindings::uverbs_attr_bundle,
) -> c_int {
    from_result(|| {
        // SAFETY: The core sets `device` before the call; it is a device of this driver.
        let device = unsafe { Device::<T::Driver>::from_raw((*cq).device) };
        // SAFETY: `attrs` is NULL or valid for this call and ours alone; `driver_udata` is its
        // first field.
        let mut udata = unsafe { UserData::from_raw(attrs.cast()) };
        // SAFETY: Valid for this call.
        let attr = unsafe { &*attr };
        // SAFETY: Closed below if create fails, else by `destroy`.
        let target = unsafe { Shell::<T>::new_target(cq) }?;
        let attr = InitAttr {
            entries: attr.cqe,
            flags: attr.flags,
        };
        match T::create(device, Handler(target.clone()), &attr, udata.as_mut()) {
            Ok((data, entries)) => {
                // SAFETY: The core allocated the size of the shell and calls this once; nobody else
                // uses the queue yet.
                unsafe {
                    (*cq).cqe = c_int::try_from(entries).unwrap_or(c_int::MAX);
                    Shell::<T>::init(cq, data, target);
                }
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
    cq: *mut bindings::ib_cq,
    _udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: A queue of this driver that was created.
    T::destroy(unsafe { Shell::from_raw(cq) });
    // SAFETY: The core calls nothing for this queue any more.
    unsafe { Shell::<T>::drop_data(cq) };
    0
}

/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`].
pub(super) unsafe extern "C" fn resize<T: Operations>(
    cq: *mut bindings::ib_cq,
    entries: c_uint,
    udata: *mut bindings::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: `udata` is valid for this call and ours alone.
        let mut udata = unsafe { UserData::from_raw(udata) };
        // SAFETY: A queue of this driver that was created.
        let entries = T::resize(unsafe { Shell::from_raw(cq) }, entries, udata.as_mut())?;
        // SAFETY: The core serialises resizing of one queue and reads the field after it.
        unsafe { (&raw mut (*cq).cqe).write(c_int::try_from(entries).unwrap_or(c_int::MAX)) };
        Ok(0)
    })
}

/// # Safety
///
/// Called by users of the queue, by the rules in the documentation of [`super`], with room for
/// `num` entries at `wc`.
pub(super) unsafe extern "C" fn poll<T: Operations>(
    cq: *mut bindings::ib_cq,
    num: c_int,
    wc: *mut bindings::ib_wc,
) -> c_int {
    let mut out = Completions {
        next: wc,
        room: usize::try_from(num).unwrap_or(0),
        written: 0,
        _out: PhantomData,
    };
    // SAFETY: A queue of this driver that was created.
    T::poll(unsafe { Shell::from_raw(cq) }, &mut out);
    c_int::try_from(out.written).unwrap_or(c_int::MAX)
}

/// # Safety
///
/// Called by users of the queue, by the rules in the documentation of [`super`].
pub(super) unsafe extern "C" fn peek<T: Operations>(cq: *mut bindings::ib_cq, max: c_int) -> c_int {
    let max = u32::try_from(max).unwrap_or(0);
    // SAFETY: A queue of this driver that was created.
    let count = T::peek(unsafe { Shell::from_raw(cq) }, max);
    c_int::try_from(count).unwrap_or(c_int::MAX)
}

/// # Safety
///
/// Called by users of the queue, by the rules in the documentation of [`super`].
pub(super) unsafe extern "C" fn req_notify<T: Operations>(
    cq: *mut bindings::ib_cq,
    flags: bindings::ib_cq_notify_flags,
) -> c_int {
    let what = Notify {
        solicited_only: flags & bindings::ib_cq_notify_flags_IB_CQ_NEXT_COMP == 0,
        report_missed: flags & bindings::ib_cq_notify_flags_IB_CQ_REPORT_MISSED_EVENTS != 0,
    };
    // SAFETY: A queue of this driver that was created.
    c_int::from(T::req_notify(unsafe { Shell::from_raw(cq) }, what))
}
