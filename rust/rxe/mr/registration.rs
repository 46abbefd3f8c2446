// SPDX-License-Identifier: GPL-2.0

//! What keys grant access to: the memory of a registration, and copies to and from it.

#![forbid(unsafe_code)]

use crate::{
    abstractions::{
        mm::direct::{
            self,
            AllMemory,
            Blocks, //
        },
        rdma::{
            umem::Umem,
            umem_odp::OdpUmem, //
        }, //
    },
    proto::{
        memkey::RegView,
        num::usize_from,
        pagemap::PageMap,
        status::AccessFault, //
    },
};
use core::mem;
use kernel::sync::atomic::Atomic;

/// The memory of a registration.
pub(super) enum Memory {
    /// None: the region has ended.
    None,
    /// All that the kernel can address; a region for kernel consumers.
    All(AllMemory),
    /// Pinned pages of a process.
    Pinned(Umem),
    /// Memory of a process that is not pinned. Accesses sleep.
    OnDemand(OdpUmem),
    /// Pages that a kernel consumer registered.
    Fast(Blocks),
}

impl Memory {
    /// Returns the length in bytes.
    pub(super) fn length(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::All(_) => u64::MAX,
            Self::Pinned(umem) => umem.blocks().length(),
            Self::OnDemand(umem) => umem.length(),
            Self::Fast(blocks) => blocks.length(),
        }
    }
}

/// What keys grant access to: the hardware's view of a region.
pub struct Registration {
    pub(super) view: RegView,
    pub(super) map: PageMap,
    pub(super) memory: Memory,
}

impl Registration {
    /// Returns what a check needs to know.
    #[inline]
    pub fn view(&self) -> &RegView {
        &self.view
    }

    /// Returns the list of the memory, if there is one.
    #[inline]
    fn blocks(&self) -> Option<&Blocks> {
        match &self.memory {
            Memory::None | Memory::All(_) | Memory::OnDemand(_) => None,
            Memory::Pinned(umem) => Some(umem.blocks()),
            Memory::Fast(blocks) => Some(blocks),
        }
    }

    /// Calls `visit` for each piece of the range that lies in one block, with the block's index, the
    /// offset in it and the length.
    #[inline]
    fn walk(
        &self,
        mut offset: u64,
        mut len: usize,
        mut visit: impl FnMut(&Blocks, u64, u64, usize) -> Result<(), AccessFault>,
    ) -> Result<(), AccessFault> {
        let blocks = self.blocks().ok_or(AccessFault::Memory)?;
        while len > 0 {
            let most = u32::try_from(len).unwrap_or(u32::MAX);
            let span = self.map.span(offset, most).ok_or(AccessFault::Bounds)?;
            let n = usize_from(span.len);
            visit(blocks, span.index, u64::from(span.offset), n)?;
            offset = offset.wrapping_add(u64::from(span.len));
            len = len.saturating_sub(n);
        }
        Ok(())
    }

    /// Copies `src` to the region, from byte `offset` of it, which was checked.
    #[inline]
    pub fn write(&self, offset: u64, src: &[u8]) -> Result<(), AccessFault> {
        match &self.memory {
            Memory::All(memory) => return memory.write(offset, src).map_err(memory_fault),
            Memory::OnDemand(umem) => return umem.write(offset, src).map_err(memory_fault),
            Memory::None | Memory::Pinned(_) | Memory::Fast(_) => {}
        }
        let mut left = src;
        self.walk(offset, src.len(), |blocks, index, at, len| {
            let (now, rest) = left.split_at_checked(len).ok_or(AccessFault::Memory)?;
            left = rest;
            blocks.write(index, at, now).map_err(memory_fault)
        })
    }

    /// Copies from byte `offset` of the region, which was checked, to `dst`.
    #[inline]
    pub fn read(&self, offset: u64, dst: &mut [u8]) -> Result<(), AccessFault> {
        match &self.memory {
            Memory::All(memory) => return memory.read(offset, dst).map_err(memory_fault),
            Memory::OnDemand(umem) => return umem.read(offset, dst).map_err(memory_fault),
            Memory::None | Memory::Pinned(_) | Memory::Fast(_) => {}
        }
        let len = dst.len();
        let mut left = dst;
        self.walk(offset, len, |blocks, index, at, len| {
            let (now, rest) = mem::take(&mut left)
                .split_at_mut_checked(len)
                .ok_or(AccessFault::Memory)?;
            left = rest;
            blocks.read(index, at, now).map_err(memory_fault)
        })
    }

    /// Calls `access` with the 8-byte word at byte `offset` of the region, which was checked.
    pub fn with_word<R>(
        &self,
        offset: u64,
        access: impl FnOnce(&Atomic<u64>) -> R,
    ) -> Result<R, AccessFault> {
        match &self.memory {
            Memory::All(memory) => return memory.with_word(offset, access).map_err(memory_fault),
            Memory::OnDemand(umem) => return umem.with_word(offset, access).map_err(memory_fault),
            Memory::None | Memory::Pinned(_) | Memory::Fast(_) => {}
        }
        let blocks = self.blocks().ok_or(AccessFault::Memory)?;
        let (index, at) = self.map.locate(offset).ok_or(AccessFault::Bounds)?;
        blocks
            .with_word(index, u64::from(at), access)
            .map_err(memory_fault)
    }

    /// Writes `len` bytes from byte `offset` of the region, which were checked, back to persistent
    /// memory.
    pub fn write_back(&self, offset: u64, len: u64) -> Result<(), AccessFault> {
        let len = usize::try_from(len).map_err(|_| AccessFault::Bounds)?;
        if let Memory::OnDemand(umem) = &self.memory {
            return umem.write_back(offset, len).map_err(memory_fault);
        }
        self.walk(offset, len, |blocks, index, at, len| {
            blocks.write_back(index, at, len).map_err(memory_fault)
        })
    }
}

/// Turns what the memory says of an access into what the peer or the work request is told.
fn memory_fault(error: direct::AccessError) -> AccessFault {
    match error {
        // The range was checked against the registration, so it is the memory that is not there.
        direct::AccessError::OutOfRange | direct::AccessError::Absent => AccessFault::Memory,
        direct::AccessError::Misaligned => AccessFault::Alignment,
    }
}
