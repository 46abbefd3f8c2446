// SPDX-License-Identifier: GPL-2.0

//! Memory that keys name.

use super::super::{
    memkey::{
        self,
        Access,
        AccessReq,
        MrState,
        RegView, //
    },
    num::{
        Key,
        PdId, //
    },
    status::AccessFault, //
};
use std::{
    collections::BTreeMap,
    vec,
    vec::Vec, //
};

pub(super) const PD: PdId = PdId(1);

struct Region {
    view: RegView,
    bytes: Vec<u8>,
}

/// The regions of one endpoint. Their addresses begin at their index times 2^32.
#[derive(Default)]
pub(super) struct Memory {
    regions: BTreeMap<u32, Region>,
}

pub(super) fn base(index: u32) -> u64 {
    u64::from(index) << 32
}

impl Memory {
    /// Adds a region that is valid at once.
    pub(super) fn add(&mut self, index: u32, bytes: Vec<u8>, access: Access) -> Key {
        let key = Key::from_parts(index, 1);
        let view = RegView {
            key,
            state: MrState::Valid,
            pd: PD,
            access,
            iova: base(index),
            len: bytes.len() as u64,
        };
        self.regions.insert(index, Region { view, bytes });
        key
    }

    /// Adds a region that a work request must register.
    pub(super) fn add_free(&mut self, index: u32, bytes: Vec<u8>) {
        self.add(index, bytes, Access::NONE);
        self.regions.get_mut(&index).unwrap().view.state = MrState::Free;
    }

    pub(super) fn bytes(&self, index: u32) -> &[u8] {
        &self.regions[&index].bytes
    }

    pub(super) fn is_valid(&self, key: Key) -> bool {
        let view = &self.regions[&key.index()].view;
        view.key == key && view.state == MrState::Valid
    }

    pub(super) fn register(&mut self, key: Key, access: u32) -> Result<(), AccessFault> {
        let region = self.regions.get_mut(&key.index()).ok_or(AccessFault::Key)?;
        if region.view.state != MrState::Free {
            return Err(AccessFault::State);
        }
        region.view.state = MrState::Valid;
        region.view.key = key;
        region.view.access = Access::from_bits(access);
        Ok(())
    }

    pub(super) fn invalidate(&mut self, key: Key) -> Result<(), AccessFault> {
        if !self.is_valid(key) {
            return Err(AccessFault::State);
        }
        self.regions.get_mut(&key.index()).unwrap().view.state = MrState::Free;
        Ok(())
    }

    pub(super) fn span(
        &mut self,
        key: Key,
        va: u64,
        len: u32,
        access: Access,
    ) -> Result<&mut [u8], AccessFault> {
        let region = self.regions.get_mut(&key.index()).ok_or(AccessFault::Key)?;
        let request = AccessReq {
            key,
            pd: PD,
            va,
            len: len.into(),
            access,
        };
        let offset = memkey::check(&region.view, &request)? as usize;
        Ok(&mut region.bytes[offset..offset + len as usize])
    }

    pub(super) fn read(
        &mut self,
        key: Key,
        va: u64,
        len: u32,
        access: Access,
    ) -> Result<Vec<u8>, AccessFault> {
        if len == 0 {
            return Ok(vec![]);
        }
        self.span(key, va, len, access).map(|bytes| bytes.to_vec())
    }

    pub(super) fn write(
        &mut self,
        key: Key,
        va: u64,
        data: &[u8],
        access: Access,
    ) -> Result<(), AccessFault> {
        if !data.is_empty() {
            self.span(key, va, data.len() as u32, access)?
                .copy_from_slice(data);
        }
        Ok(())
    }
}
