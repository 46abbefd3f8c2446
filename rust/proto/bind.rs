// SPDX-License-Identifier: GPL-2.0

//! When a memory window may be bound, and what it is then.
//!
//! IBA 10.6.6; the clauses are named beside the checks, as the stock driver names them.

#![forbid(unsafe_code)]

use super::memkey::{
    Access,
    MrState,
    RegView,
    WindowView, //
};
use super::num::{
    Key,
    PdId,
    Qpn, //
};
use super::status::AccessFault;

/// The two kinds of memory windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowType {
    /// Type 1: bound again and again, used by every queue pair of the domain.
    One,
    /// Type 2B: bound while free, used by the queue pair that bound it, freed by invalidation.
    Two,
}

/// A request to bind a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindReq {
    /// The key that the window has.
    pub key: Key,
    /// The variant that its key is to have.
    pub variant: u8,
    /// The protection domain of the queue pair.
    pub pd: PdId,
    /// The queue pair.
    pub qpn: Qpn,
    /// The address in the region.
    pub addr: u64,
    /// The length; zero unbinds a window of type 1.
    pub len: u64,
    /// The rights that the window is to grant.
    pub access: Access,
}

/// The rights and attributes that a window can have.
const SUPPORTED: Access = Access::REMOTE
    .union(Access::LOCAL_WRITE)
    .union(Access::MW_BIND)
    .union(Access::ZERO_BASED)
    .union(Access::FLUSH)
    .union(Access::OPTIONAL);

/// Checks what can be said without a region, and returns the window as it is to be.
///
/// If the length is zero this is all. Otherwise [`check_region`] must follow.
///
/// # Errors
///
/// Why the window stays as it is.
pub fn check_bind(
    kind: WindowType,
    window: &WindowView,
    req: &BindReq,
) -> Result<WindowView, AccessFault> {
    if window.key != req.key {
        return Err(AccessFault::Key);
    }
    if !SUPPORTED.contains(req.access) {
        return Err(AccessFault::Rights);
    }
    match kind {
        WindowType::One => {
            // o10-36.2.2: no zero-based window of type 1.
            if req.access.contains(Access::ZERO_BASED) {
                return Err(AccessFault::Rights);
            }
            if window.state == MrState::Invalid {
                return Err(AccessFault::State);
            }
        }
        WindowType::Two => {
            // o10-37.2.30: only a free window of type 2 can be bound.
            if window.state != MrState::Free {
                return Err(AccessFault::State);
            }
            // o10-37.2.40: it is not unbound by a bind.
            if req.len == 0 {
                return Err(AccessFault::Bounds);
            }
        }
    }
    // C10-72: queue pair, window and, below, region belong together.
    if window.pd != req.pd {
        return Err(AccessFault::Pd);
    }

    Ok(WindowView {
        key: Key::from_parts(req.key.index(), req.variant),
        state: if req.len == 0 {
            MrState::Free
        } else {
            MrState::Valid
        },
        pd: window.pd,
        qpn: match kind {
            WindowType::One => None,
            WindowType::Two => Some(req.qpn),
        },
        access: req.access,
        addr: req.addr,
        len: req.len,
    })
}

/// Checks the region that a window is to be bound to.
///
/// # Errors
///
/// Why the window stays as it is.
pub fn check_region(region: &RegView, region_key: Key, req: &BindReq) -> Result<(), AccessFault> {
    if region.key != region_key {
        return Err(AccessFault::Key);
    }
    if region.state != MrState::Valid {
        return Err(AccessFault::State);
    }
    if region.pd != req.pd {
        return Err(AccessFault::Pd);
    }
    // C10-73: the region must allow it.
    if region.access.contains(Access::ZERO_BASED) || !region.access.contains(Access::MW_BIND) {
        return Err(AccessFault::Rights);
    }
    // C10-74: a window grants peers no writes that the device itself does not have.
    let writes = Access::REMOTE_WRITE.union(Access::REMOTE_ATOMIC);
    if req.access.intersects(writes) && !region.access.contains(Access::LOCAL_WRITE) {
        return Err(AccessFault::Rights);
    }
    // C10-75: the window lies in the region, whether its users count from zero or not.
    let inside = req
        .addr
        .checked_sub(region.iova)
        .and_then(|offset| region.len.checked_sub(offset))
        .is_some_and(|left| req.len <= left);
    if !inside {
        return Err(AccessFault::Bounds);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PD: PdId = PdId(3);
    const MR_KEY: Key = Key::new(0x1_11);

    fn window(state: MrState) -> WindowView {
        WindowView {
            key: Key::new(0x8_01),
            state,
            pd: PD,
            ..WindowView::default()
        }
    }

    fn region() -> RegView {
        RegView {
            key: MR_KEY,
            state: MrState::Valid,
            pd: PD,
            access: Access::MW_BIND.union(Access::LOCAL_WRITE),
            iova: 0x1000,
            len: 0x1000,
        }
    }

    fn req() -> BindReq {
        BindReq {
            key: Key::new(0x8_01),
            variant: 2,
            pd: PD,
            qpn: Qpn::new(17),
            addr: 0x1800,
            len: 0x800,
            access: Access::REMOTE_WRITE,
        }
    }

    #[test]
    fn a_bind_changes_the_key_and_ties_type_2_to_its_queue_pair() {
        let bound = check_bind(WindowType::Two, &window(MrState::Free), &req()).unwrap();
        assert_eq!(bound.key, Key::new(0x8_02));
        assert_eq!(bound.qpn, Some(Qpn::new(17)));
        assert_eq!(bound.state, MrState::Valid);

        let bound = check_bind(WindowType::One, &window(MrState::Valid), &req()).unwrap();
        assert_eq!(bound.qpn, None);
    }

    #[test]
    fn a_length_of_zero_unbinds_type_1_only() {
        let none = BindReq { len: 0, ..req() };
        let bound = check_bind(WindowType::One, &window(MrState::Valid), &none).unwrap();
        assert_eq!(bound.state, MrState::Free);
        assert!(check_bind(WindowType::Two, &window(MrState::Free), &none).is_err());
    }

    #[test]
    fn type_2_is_bound_when_free_only() {
        let valid = window(MrState::Valid);
        let fault = check_bind(WindowType::Two, &valid, &req()).unwrap_err();
        assert_eq!(fault, AccessFault::State);
    }

    #[test]
    fn all_three_protection_domains_must_be_equal() {
        let kinds = [WindowType::One, WindowType::Two];
        for (window_pd, region_pd, qp_pd) in [(4, 3, 3), (3, 4, 3), (3, 3, 4), (3, 3, 3)] {
            for kind in kinds {
                let req = BindReq {
                    pd: PdId(qp_pd),
                    ..req()
                };
                let window = WindowView {
                    pd: PdId(window_pd),
                    ..window(MrState::Free)
                };
                let region = RegView {
                    pd: PdId(region_pd),
                    ..region()
                };
                let ok = check_bind(kind, &window, &req)
                    .and_then(|_| check_region(&region, MR_KEY, &req))
                    .is_ok();
                assert_eq!(ok, window_pd == region_pd && region_pd == qp_pd);
            }
        }
    }

    #[test]
    fn the_window_lies_in_the_region() {
        let cases = [
            (0x1000, 0x1000, true),
            (0x0fff, 1, false),
            (0x1000, 0x1001, false),
            (0x1fff, 1, true),
            (0x2000, 1, false),
            (u64::MAX - 7, 8, false),
            (0x1800, u64::MAX, false),
        ];
        for (addr, len, ok) in cases {
            for extra in [Access::NONE, Access::ZERO_BASED] {
                let req = BindReq {
                    addr,
                    len,
                    access: Access::REMOTE_READ.union(extra),
                    ..req()
                };
                assert_eq!(check_region(&region(), MR_KEY, &req).is_ok(), ok);
            }
        }
    }

    #[test]
    fn rights_must_be_the_regions_to_give() {
        let no_bind = RegView {
            access: Access::LOCAL_WRITE,
            ..region()
        };
        assert!(check_region(&no_bind, MR_KEY, &req()).is_err());
        let read_only = RegView {
            access: Access::MW_BIND,
            ..region()
        };
        assert!(check_region(&read_only, MR_KEY, &req()).is_err());
        let read = BindReq {
            access: Access::REMOTE_READ,
            ..req()
        };
        assert!(check_region(&read_only, MR_KEY, &read).is_ok());
    }
}
