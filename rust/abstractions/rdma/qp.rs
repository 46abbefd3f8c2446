// SPDX-License-Identifier: GPL-2.0

//! Queue pairs.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

mod attr;

pub use self::attr::{
    transition_is_ok,
    Attr,
    AttrMask,
    Cap,
    InitAttr,
    Query,
    State,
    Type, //
};

use super::{
    callback::Target,
    cq,
    device::{
        Device,
        Driver, //
    },
    event::{
        self,
        QpEvent, //
    },
    gid::Gid,
    ops::shell,
    pd,
    srq,
    udata::UserData,
    wr::{
        RecvWrs,
        SendWrs, //
    }, //
};
use crate::abstractions::bindings;
use core::{
    marker::PhantomData,
    ptr::{
        self,
        NonNull, //
    }, //
};
use kernel::{
    error::from_result,
    prelude::*,
    sync::Arc, //
};

/// A queue pair as its verbs give it to the driver.
#[vtable]
pub trait Operations: Sized + Send + Sync + 'static {
    /// The driver.
    type Driver: Driver<Qp = Self>;

    /// Makes the driver's part of a new queue pair; writes the granted sizes to `attr.cap` and the
    /// number to `qp`. May sleep.
    ///
    /// `udata` is [`None`] for a kernel user.
    fn create(
        _qp: &New<'_, Self>,
        _attr: &mut InitAttr,
        _udata: Option<&mut UserData<'_>>,
    ) -> Result<Self> {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// Ends the use of the queue pair; the value is dropped after it. May sleep.
    ///
    /// Completions that have been delivered stay in their queues; nothing more may be delivered
    /// after this.
    fn destroy(_qp: &Shell<Self>) {}

    /// Changes the attributes named in `mask`. May sleep. The core does not check the transition:
    /// [`transition_is_ok`] does.
    fn modify(
        _qp: &Shell<Self>,
        _attr: &Attr,
        _mask: AttrMask,
        _udata: Option<&mut UserData<'_>>,
    ) -> Result {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// The current attributes, at least those named in `mask`.
    fn query(_qp: &Shell<Self>, _mask: AttrMask) -> Result<Query> {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// Posts send requests: takes them from `wrs` until it is empty or one cannot be posted. Any
    /// context.
    ///
    /// An error is about the request that was taken last. A user process that has written requests
    /// to its ring calls this with an empty list.
    fn post_send(_qp: &Shell<Self>, _wrs: &mut SendWrs<'_, Self::Driver>) -> Result {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// Posts receive requests: takes them from `wrs` until it is empty or one cannot be posted. Any
    /// context.
    ///
    /// An error is about the request that was taken last.
    fn post_recv(_qp: &Shell<Self>, _wrs: &mut RecvWrs<'_>) -> Result {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// Joins a multicast group. May sleep.
    fn attach_mcast(_qp: &Shell<Self>, _group: Gid) -> Result {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// Leaves a multicast group. May sleep.
    fn detach_mcast(_qp: &Shell<Self>, _group: Gid) -> Result {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }
}

shell! {
    /// An `ib_qp` with the driver's part behind it.
    Shell, ib_qp, target
}

impl<T: Operations> Shell<T> {
    /// The device of this queue pair.
    pub fn device(&self) -> &Device<T::Driver> {
        // SAFETY: The core sets `device` before create and keeps the device longer than the queue pair.
        unsafe { Device::from_raw((*self.ib.get()).device) }
    }
}

/// Names a queue pair towards kernel users, in completions. Never dereferenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(*mut bindings::ib_qp);

// SAFETY: The pointer is only passed on, never dereferenced.
unsafe impl Send for Token {}
// SAFETY: As above.
unsafe impl Sync for Token {}

impl Token {
    pub(super) fn as_raw(self) -> *mut bindings::ib_qp {
        self.0
    }
}

/// Tells the user of a queue pair about it.
///
/// Call without any lock held. Kept by whoever raises events; works until the queue pair is
/// destroyed.
#[derive(Clone)]
pub struct Handler(Arc<Target<bindings::ib_qp>>);

impl Handler {
    /// Raises an event. Any context. Nothing happens when the queue pair is being destroyed.
    pub fn event(&self, what: QpEvent) {
        self.0.with(|qp| {
            // SAFETY: `with` keeps the queue pair from being freed; the core sets these fields
            // before create.
            let (handler, context, device) = unsafe {
                (
                    (*qp.as_ptr()).event_handler,
                    (*qp.as_ptr()).qp_context,
                    (*qp.as_ptr()).device,
                )
            };
            if let Some(handler) = handler {
                let mut event = event::raw(device, what.as_raw());
                // SAFETY: Any member of the union may be written; this is the one of the event.
                unsafe { *event.element.qp.as_mut() = qp.as_ptr() };
                // SAFETY: The arguments are those the core asked for.
                unsafe { handler(&mut event, context) };
            }
        });
    }
}

/// A queue pair that is being made.
pub struct New<'a, T: Operations> {
    raw: NonNull<bindings::ib_qp>,
    handler: Handler,
    init: &'a bindings::ib_qp_init_attr,
    _driver: PhantomData<T>,
}

impl<T: Operations> New<'_, T> {
    /// The device.
    pub fn device(&self) -> &Device<T::Driver> {
        // SAFETY: The core sets `device` before create and keeps the device longer than the queue
        // pair.
        unsafe { Device::from_raw((*self.raw.as_ptr()).device) }
    }

    /// The protection domain.
    pub fn pd(&self) -> Option<&pd::Shell<<T::Driver as Driver>::Pd>> {
        // SAFETY: The core sets `pd` before create.
        let pd = NonNull::new(unsafe { (*self.raw.as_ptr()).pd })?;
        // SAFETY: It is one of this driver, and the core keeps it longer than the queue pair.
        Some(unsafe { pd::Shell::from_raw(pd.as_ptr()) })
    }

    /// The completion queue of the send queue.
    pub fn send_cq(&self) -> Option<&cq::Shell<<T::Driver as Driver>::Cq>> {
        let cq = NonNull::new(self.init.send_cq)?;
        // SAFETY: It is one of this driver, and the core keeps it longer than the queue pair.
        Some(unsafe { cq::Shell::from_raw(cq.as_ptr()) })
    }

    /// The completion queue of the receive queue.
    pub fn recv_cq(&self) -> Option<&cq::Shell<<T::Driver as Driver>::Cq>> {
        let cq = NonNull::new(self.init.recv_cq)?;
        // SAFETY: It is one of this driver, and the core keeps it longer than the queue pair.
        Some(unsafe { cq::Shell::from_raw(cq.as_ptr()) })
    }

    /// The shared receive queue, if the queue pair is to use one.
    pub fn srq(&self) -> Option<&srq::Shell<<T::Driver as Driver>::Srq>> {
        let srq = NonNull::new(self.init.srq)?;
        // SAFETY: It is one of this driver, and the core keeps it longer than the queue pair.
        Some(unsafe { srq::Shell::from_raw(srq.as_ptr()) })
    }

    /// Raises events; to be cloned and kept.
    pub fn handler(&self) -> &Handler {
        &self.handler
    }

    /// The name of the queue pair in completions of kernel users.
    pub fn token(&self) -> Token {
        Token(self.raw.as_ptr())
    }

    /// Sets the number by which users know the queue pair.
    pub fn set_number(&self, number: u32) {
        // SAFETY: The structure is valid, and nobody else uses it before create has returned.
        unsafe { (&raw mut (*self.raw.as_ptr()).qp_num).write(number) };
    }
}

/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`].
pub(super) unsafe extern "C" fn create<T: Operations>(
    qp: *mut bindings::ib_qp,
    init: *mut bindings::ib_qp_init_attr,
    udata: *mut bindings::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: `udata` is valid for this call and ours alone.
        let mut udata = unsafe { UserData::from_raw(udata) };
        // SAFETY: Valid for this call.
        let raw = unsafe { &*init };
        let mut attr = InitAttr {
            qp_type: Type::from_raw(raw.qp_type),
            cap: Cap::from_raw(&raw.cap),
            signal_all: raw.sq_sig_type == bindings::ib_sig_type_IB_SIGNAL_ALL_WR,
            create_flags: raw.create_flags,
            port: raw.port_num,
        };
        // SAFETY: Closed below if create fails, else by `destroy`.
        let target = unsafe { Shell::<T>::new_target(qp) }?;
        let new = New {
            raw: NonNull::new(qp).ok_or(EINVAL)?,
            handler: Handler(target.clone()),
            init: raw,
            _driver: PhantomData,
        };
        match T::create(&new, &mut attr, udata.as_mut()) {
            Ok(data) => {
                // SAFETY: Valid for this call, and ours to write the granted values to; `raw` is
                // not used any more.
                attr.cap.write_raw(unsafe { &mut (*init).cap });
                // SAFETY: The core allocated the size of the shell and calls this once.
                unsafe { Shell::<T>::init(qp, data, target) };
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
    qp: *mut bindings::ib_qp,
    _udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: A queue pair of this driver that was created.
    T::destroy(unsafe { Shell::from_raw(qp) });
    // SAFETY: The core calls nothing for this queue pair any more.
    unsafe { Shell::<T>::drop_data(qp) };
    0
}

/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`].
pub(super) unsafe extern "C" fn modify<T: Operations>(
    qp: *mut bindings::ib_qp,
    attr: *mut bindings::ib_qp_attr,
    mask: c_int,
    udata: *mut bindings::ib_udata,
) -> c_int {
    from_result(|| {
        // SAFETY: `udata` is valid for this call and ours alone.
        let mut udata = unsafe { UserData::from_raw(udata) };
        let mask = AttrMask(mask as u32);
        // SAFETY: Valid for this call.
        let attr = Attr::from_raw(unsafe { &*attr }, mask)?;
        // SAFETY: A queue pair of this driver that was created.
        T::modify(unsafe { Shell::from_raw(qp) }, &attr, mask, udata.as_mut())?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`].
pub(super) unsafe extern "C" fn query<T: Operations>(
    qp: *mut bindings::ib_qp,
    attr: *mut bindings::ib_qp_attr,
    mask: c_int,
    init: *mut bindings::ib_qp_init_attr,
) -> c_int {
    from_result(|| {
        // SAFETY: A queue pair of this driver that was created.
        let answer = T::query(unsafe { Shell::from_raw(qp) }, AttrMask(mask as u32))?;
        // SAFETY: All are valid for this call, and the attributes ours to fill in.
        let (qp, attr, init) = unsafe { (&*qp, &mut *attr, &mut *init) };
        answer.attr.write_raw(attr);
        init.event_handler = qp.event_handler;
        init.qp_context = qp.qp_context;
        init.send_cq = qp.send_cq;
        init.recv_cq = qp.recv_cq;
        init.srq = qp.srq;
        answer.attr.cap.write_raw(&mut init.cap);
        init.sq_sig_type = if answer.signal_all {
            bindings::ib_sig_type_IB_SIGNAL_ALL_WR
        } else {
            bindings::ib_sig_type_IB_SIGNAL_REQ_WR
        };
        init.qp_type = qp.qp_type;
        init.create_flags = answer.create_flags;
        init.port_num = qp.port;
        Ok(0)
    })
}

/// # Safety
///
/// Called by users of the queue pair, by the rules in the documentation of [`super`].
pub(super) unsafe extern "C" fn post_send<T: Operations>(
    qp: *mut bindings::ib_qp,
    wr: *const bindings::ib_send_wr,
    bad_wr: *mut *const bindings::ib_send_wr,
) -> c_int {
    // SAFETY: The core sets these fields before create.
    let (qp_type, uobject) = unsafe { ((*qp).qp_type, (*qp).uobject) };
    // A user process posts through its ring. What it passes to the system call in addition is not
    // for the driver; the core does not even build all kinds of requests completely for it.
    let wr = if uobject.is_null() { wr } else { ptr::null() };
    // SAFETY: Empty, or a list of a kernel user, for a queue pair of this type, that is valid for
    // this call.
    let mut wrs = unsafe { SendWrs::from_raw(wr, Type::from_raw(qp_type)) };
    // SAFETY: A queue pair of this driver that was created.
    match T::post_send(unsafe { Shell::from_raw(qp) }, &mut wrs) {
        Ok(()) => 0,
        Err(e) => {
            // SAFETY: The caller passes room for the answer.
            unsafe { bad_wr.write(wrs.failed()) };
            e.to_errno()
        }
    }
}

/// # Safety
///
/// Called by users of the queue pair, by the rules in the documentation of [`super`].
pub(super) unsafe extern "C" fn post_recv<T: Operations>(
    qp: *mut bindings::ib_qp,
    wr: *const bindings::ib_recv_wr,
    bad_wr: *mut *const bindings::ib_recv_wr,
) -> c_int {
    // SAFETY: A list of requests that is valid for this call.
    let mut wrs = unsafe { RecvWrs::from_raw(wr) };
    // SAFETY: A queue pair of this driver that was created.
    match T::post_recv(unsafe { Shell::from_raw(qp) }, &mut wrs) {
        Ok(()) => 0,
        Err(e) => {
            // SAFETY: The caller passes room for the answer.
            unsafe { bad_wr.write(wrs.failed()) };
            e.to_errno()
        }
    }
}

/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`].
pub(super) unsafe extern "C" fn attach_mcast<T: Operations>(
    qp: *mut bindings::ib_qp,
    gid: *mut bindings::ib_gid,
    _lid: u16,
) -> c_int {
    from_result(|| {
        // SAFETY: Valid for this call.
        let gid = Gid::from_raw(unsafe { &*gid });
        // SAFETY: A queue pair of this driver that was created.
        T::attach_mcast(unsafe { Shell::from_raw(qp) }, gid)?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by the core, by the rules in the documentation of [`super`].
pub(super) unsafe extern "C" fn detach_mcast<T: Operations>(
    qp: *mut bindings::ib_qp,
    gid: *mut bindings::ib_gid,
    _lid: u16,
) -> c_int {
    from_result(|| {
        // SAFETY: Valid for this call.
        let gid = Gid::from_raw(unsafe { &*gid });
        // SAFETY: A queue pair of this driver that was created.
        T::detach_mcast(unsafe { Shell::from_raw(qp) }, gid)?;
        Ok(0)
    })
}
