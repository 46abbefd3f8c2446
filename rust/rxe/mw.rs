// SPDX-License-Identifier: GPL-2.0

//! Memory windows as packets and work requests see them.
//!
//! A window is bound, bound again and invalidated by work requests, and its bounds hold for every
//! access, beside those of the region that it is bound to. A window of type 1 that is not bound, and a
//! window of type 2 that was invalidated, is free.

#![forbid(unsafe_code)]

use super::{
    keys::Keys,
    mr::{
        first_key,
        Mr, //
    }, //
};
use crate::{
    abstractions::sync::{
        Entered,
        Gated,
        RcuArc, //
    },
    proto::{
        bind::{
            self,
            BindReq,
            WindowType, //
        },
        memkey::{
            MrState,
            WindowView, //
        },
        num::{
            Key,
            PdId,
            Qpn, //
        },
        status::AccessFault, //
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::Mutex, //
};

/// What the keys of a bound window grant access to.
pub struct Binding {
    view: WindowView,
    region: Option<RcuArc<Mr>>,
}

impl Binding {
    /// Returns what a check needs to know.
    pub fn view(&self) -> &WindowView {
        &self.view
    }

    /// Returns the region that the window is bound to.
    pub fn region(&self) -> Option<&RcuArc<Mr>> {
        self.region.as_ref()
    }
}

/// A memory window. Its index in the table of windows is part of its keys.
#[pin_data]
pub struct Mw {
    index: u32,
    kind: WindowType,
    bound: Gated<Binding>,
    /// The window as it is. Held while it is changed, which includes waiting for accesses to finish.
    #[pin]
    state: Mutex<WindowView>,
}

impl Mw {
    /// Makes the window `index`, which is not bound.
    pub fn new(index: u32, pd: PdId, kind: WindowType) -> impl PinInit<Self> {
        let view = WindowView {
            key: first_key(index),
            state: MrState::Free,
            pd,
            ..WindowView::default()
        };
        pin_init!(Self {
            index,
            kind,
            bound: Gated::new_closed(Binding { view, region: None }),
            state <- new_mutex!(view),
        })
    }

    /// Returns the window's index in the table of windows.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Returns the key that the window has. May sleep.
    pub fn key(&self) -> Key {
        self.state.lock().key
    }

    /// Returns the binding, which is held as it is until the result is dropped, or `None` if the window
    /// is not bound. Any context.
    pub fn enter(&self) -> Option<Entered<'_, Binding>> {
        self.bound.enter()
    }

    /// Executes BIND_MW: binds the window to the region that `region_key` names. May sleep.
    ///
    /// # Errors
    ///
    /// Why the window stays as it is. The work request completes with `MW_BIND_ERR`.
    pub fn bind(&self, keys: &Keys, region_key: Key, req: &BindReq) -> Result<(), AccessFault> {
        let mut state = self.state.lock();
        let view = bind::check_bind(self.kind, &state, req)?;
        let region = match view.state {
            MrState::Valid => {
                let region = keys.region(region_key).ok_or(AccessFault::Key)?;
                region.bind(|region| bind::check_region(region, region_key, req))?;
                Some(region)
            }
            MrState::Free | MrState::Invalid => None,
        };
        self.replace(view, region);
        *state = view;
        Ok(())
    }

    /// Ends a binding: LOCAL_INV, or the peer's SEND with invalidate. May sleep.
    ///
    /// When it returns, accesses are refused and those under way have finished.
    ///
    /// # Errors
    ///
    /// The binding stays if the key is not its own, if the window is of type 1, or if it belongs to
    /// another protection domain or queue pair.
    pub fn invalidate(&self, pd: PdId, qpn: Qpn, key: Key) -> Result<(), AccessFault> {
        let mut state = self.state.lock();
        if state.key != key {
            return Err(AccessFault::Key);
        }
        if state.pd != pd {
            return Err(AccessFault::Pd);
        }
        // o10-37.2.26: windows of type 1 are not invalidated.
        if self.kind == WindowType::One || state.state == MrState::Invalid {
            return Err(AccessFault::State);
        }
        if state.qpn.is_some_and(|owner| owner != qpn) {
            return Err(AccessFault::Pd);
        }
        let view = WindowView {
            key,
            state: MrState::Free,
            pd,
            ..WindowView::default()
        };
        self.replace(view, None);
        *state = view;
        Ok(())
    }

    /// Ends the window. Sleeps.
    ///
    /// It lets go of its region here rather than in its destructor, which runs in an RCU callback.
    pub fn end(&self) {
        let mut state = self.state.lock();
        state.state = MrState::Invalid;
        let view = *state;
        self.replace(view, None);
    }

    /// Exchanges the binding, when the accesses under way have finished. `state` is locked.
    fn replace(&self, view: WindowView, region: Option<RcuArc<Mr>>) {
        self.bound.close_and_wait();
        let open = region.is_some();
        let before = self
            .bound
            .with_closed(|bound| core::mem::replace(bound, Binding { view, region }));
        if open {
            self.bound.open();
        }
        if let Some(region) = before.and_then(|binding| binding.region) {
            region.unbind();
        }
    }
}
