// SPDX-License-Identifier: GPL-2.0

//! What takes the place of `umem_odp.rs` on a kernel without on-demand paging: the types, of which there are no values.

use super::{
    super::mm::direct::AccessError,
    umem::UserMemory, //
};
use kernel::{
    prelude::*,
    sync::atomic::Atomic, //
};

/// The kernel has no on-demand paging.
pub const SUPPORTED: bool = false;

/// What is to be done with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Use it if it is there.
    Present,
    /// Read it.
    Read,
    /// Write it.
    Write,
}

impl UserMemory<'_> {
    /// Returns `EOPNOTSUPP`.
    pub fn on_demand(&self, _access: u32) -> Result<OdpUmem> {
        Err(EOPNOTSUPP)
    }
}

/// User memory that is accessible page by page; none here.
pub enum OdpUmem {}

impl OdpUmem {
    /// Returns the length in bytes.
    pub fn length(&self) -> u64 {
        match *self {}
    }

    /// Returns an error unless the pages may be used for the access flags `access`.
    pub fn check_access(&self, _access: u32) -> Result {
        match *self {}
    }

    /// Copies from byte `offset` to `dst`.
    pub fn read(&self, _offset: u64, _dst: &mut [u8]) -> Result<(), AccessError> {
        match *self {}
    }

    /// Copies `src` to byte `offset`.
    pub fn write(&self, _offset: u64, _src: &[u8]) -> Result<(), AccessError> {
        match *self {}
    }

    /// Calls `access` with the aligned 8-byte word at byte `offset`.
    pub fn with_word<R>(
        &self,
        _offset: u64,
        _access: impl FnOnce(&Atomic<u64>) -> R,
    ) -> Result<R, AccessError> {
        match *self {}
    }

    /// Writes back `len` bytes from byte `offset` to persistent memory.
    pub fn write_back(&self, _offset: u64, _len: usize) -> Result<(), AccessError> {
        match *self {}
    }

    /// Finds the pages of `len` bytes from byte `offset` ahead of accesses.
    pub fn prefetch(&self, _offset: u64, _len: usize, _want: Want) -> Result {
        match *self {}
    }
}
