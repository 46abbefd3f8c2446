// SPDX-License-Identifier: GPL-2.0

//! How processes get at their rings.

#![forbid(unsafe_code)]

use crate::{
    abstractions::{
        mm::UserBuf,
        rdma::mmap, //
    },
    proto::uabi::MmInfo, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};

/// Offers `buf` for mapping. Returns the offer, and what a process passes to `mmap(2)` to accept it.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn offer(mmaps: &Arc<mmap::Table>, buf: &Arc<UserBuf>) -> Result<(mmap::Entry, MmInfo)> {
    let entry = mmaps.insert(buf.clone())?;
    let info = MmInfo {
        offset: entry.offset().into(),
        size: u32::try_from(entry.size())?.into(),
        pad: 0.into(),
    };
    Ok((entry, info))
}

/// The offer of the ring that an object has at the time.
///
/// The body of an object may be freed where nothing may sleep, so the handle withdraws the offer before.
#[pin_data]
pub(crate) struct Mapping {
    #[pin]
    entry: Mutex<Option<mmap::Entry>>,
}

impl Mapping {
    /// Keeps an offer; kernel consumers have none.
    pub(crate) fn new(entry: Option<mmap::Entry>) -> impl PinInit<Self> {
        pin_init!(Self {
            entry <- new_mutex!(entry, "rxe::Mapping::entry"),
        })
    }

    /// Exchanges the ring for a new one. Sleeps.
    pub(crate) fn replace(&self, entry: mmap::Entry) {
        let old = self.entry.lock().replace(entry);
        drop(old);
    }

    /// Withdraws the offer. Sleeps.
    pub(crate) fn close(&self) {
        let old = self.entry.lock().take();
        drop(old);
    }
}
