// SPDX-License-Identifier: GPL-2.0

//! The driver's side of the send engine's window.
//!
//! The engine decides with lengths, keys and sequence numbers. What only the driver needs of a request (its
//! scatter/gather list, the address of a datagram, the region of a registration, where inline data is) is
//! kept here, indexed by the same [`Slot`]. All of it is allocated with the queue pair.

#![forbid(unsafe_code)]

use crate::{
    proto::{
        num::Slot,
        uabi::Av,
        wr::Sge, //
    },
    rxe::mr::FastReg, //
};
use kernel::{
    alloc::KVVec,
    prelude::*, //
};
use zerocopy::FromZeros;

/// Side data of the requests in the window.
pub(crate) struct Window {
    max_sge: usize,
    sges: KVVec<Sge>,
    avs: KVVec<Av>,
    registrations: KVVec<Option<FastReg>>,
    ring: KVVec<u32>,
}

impl Window {
    /// Allocates the side data of `entries` requests with up to `max_sge` buffers each.
    ///
    /// Only `datagram` queue pairs have an address per request, and only `kernel` ones register regions.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        entries: usize,
        max_sge: usize,
        datagram: bool,
        kernel: bool,
    ) -> Result<Self> {
        let count = entries.checked_mul(max_sge).ok_or(ENOMEM)?;
        Ok(Self {
            max_sge,
            sges: KVVec::from_elem(Sge::default(), count, GFP_KERNEL)?,
            avs: KVVec::from_elem(
                Av::new_zeroed(),
                if datagram { entries } else { 0 },
                GFP_KERNEL,
            )?,
            registrations: none_vec(if kernel { entries } else { 0 })?,
            ring: KVVec::from_elem(0, entries, GFP_KERNEL)?,
        })
    }

    /// Returns the buffers of a request, of which there are `count`.
    pub(crate) fn sges(&self, slot: Slot, count: u8) -> &[Sge] {
        let start = slot.index().wrapping_mul(self.max_sge);
        self.sges
            .get(start..start.wrapping_add(usize::from(count)))
            .unwrap_or(&[])
    }

    /// Returns the place for the buffers of a request.
    pub(crate) fn sges_mut(&mut self, slot: Slot) -> &mut [Sge] {
        let start = slot.index().wrapping_mul(self.max_sge);
        self.sges
            .get_mut(start..start.wrapping_add(self.max_sge))
            .unwrap_or(&mut [])
    }

    /// Returns where a datagram goes to. An address of no network leads nowhere.
    pub(crate) fn av(&self, slot: Slot) -> Option<&Av> {
        self.avs.get(slot.index())
    }

    /// Notes where a datagram goes to; `None` leads nowhere.
    pub(crate) fn set_av(&mut self, slot: Slot, av: Option<Av>) {
        if let Some(place) = self.avs.get_mut(slot.index()) {
            *place = av.unwrap_or_else(Av::new_zeroed);
        }
    }

    /// Notes the registration that a request is to execute.
    pub(crate) fn set_registration(&mut self, slot: Slot, registration: Option<FastReg>) {
        if let Some(place) = self.registrations.get_mut(slot.index()) {
            *place = registration;
        }
    }

    /// Takes the registration that a request is to execute.
    pub(crate) fn take_registration(&mut self, slot: Slot) -> Option<FastReg> {
        self.registrations.get_mut(slot.index())?.take()
    }

    /// Lets go of what a request holds.
    pub(crate) fn clear(&mut self, slot: Slot) {
        self.set_registration(slot, None);
    }

    /// Notes the slot of the send queue that a request came from; its inline data stays there.
    pub(crate) fn set_ring_slot(&mut self, slot: Slot, ring: u32) {
        if let Some(place) = self.ring.get_mut(slot.index()) {
            *place = ring;
        }
    }

    /// Returns the slot of the send queue that a request came from.
    pub(crate) fn ring_slot(&self, slot: Slot) -> u32 {
        self.ring.get(slot.index()).copied().unwrap_or(0)
    }
}

/// Allocates `count` empty places.
pub(crate) fn none_vec<T>(count: usize) -> Result<KVVec<Option<T>>> {
    let mut places = KVVec::with_capacity(count, GFP_KERNEL)?;
    for _ in 0..count {
        places.push(None, GFP_KERNEL)?;
    }
    Ok(places)
}
