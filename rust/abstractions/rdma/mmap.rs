// SPDX-License-Identifier: GPL-2.0

//! Memory that a process may map through its verbs context.
//!
//! A verb that makes a ring [`Table::insert`]s it and tells the process the offset; the process
//! passes the offset to `mmap(2)`. The table belongs to the context, so that no other process finds
//! the ring. The memory itself is reference-counted: an entry that goes away leaves existing
//! mappings alone.

use crate::abstractions::mm::UserBuf;
use kernel::{
    new_mutex,
    page::PAGE_SIZE,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
    sync::{
        Arc,
        Mutex, //
    }, //
};

/// The mappable memory of one context, by offset.
#[pin_data]
pub struct Table {
    #[pin]
    entries: Mutex<Entries>,
}

struct Entries {
    /// The next offset to hand out. Offsets are not used twice, so that a stale one finds nothing.
    next: u64,
    by_offset: RBTree<u64, Arc<UserBuf>>,
}

impl Table {
    /// Makes an empty table.
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                // Not from 0: an offset of 0 would look like a field that nobody has filled in.
                entries <- new_mutex!(Entries {
                    next: PAGE_SIZE as u64,
                    by_offset: RBTree::new(),
                }),
            }),
            GFP_KERNEL,
        )
    }

    /// Offers `buf` for mapping until the returned entry is dropped.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also when all offsets have been used up.
    pub fn insert(self: &Arc<Self>, buf: Arc<UserBuf>) -> Result<Entry> {
        let size = Self::mapped_size(&buf).ok_or(ENOMEM)?;
        let mut entries = self.entries.lock();
        let offset = entries.next;
        let next = offset.checked_add(size).ok_or(ENOMEM)?;
        let node = RBTreeNode::new(offset, buf, GFP_KERNEL)?;
        entries.by_offset.insert(node);
        entries.next = next;
        drop(entries);
        Ok(Entry {
            table: self.clone(),
            offset,
            size,
        })
    }

    /// The memory at byte `offset`, if there is some and it is at least `size` bytes long.
    ///
    /// # Errors
    ///
    /// `EINVAL`.
    pub(super) fn find(&self, offset: u64, size: u64) -> Result<Arc<UserBuf>> {
        let entries = self.entries.lock();
        let buf = entries.by_offset.get(&offset).ok_or(EINVAL)?;
        if Self::mapped_size(buf).is_none_or(|max| size > max) {
            return Err(EINVAL);
        }
        Ok(buf.clone())
    }

    /// The size of `buf` in bytes, in whole pages.
    fn mapped_size(buf: &UserBuf) -> Option<u64> {
        buf.len()
            .checked_next_multiple_of(PAGE_SIZE)
            .and_then(|size| u64::try_from(size).ok())
    }
}

/// A piece of mappable memory. Dropping it ends the offer, not the mappings that were made.
pub struct Entry {
    table: Arc<Table>,
    offset: u64,
    size: u64,
}

impl Entry {
    /// What to pass to `mmap(2)` as offset, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The size of the mapping in bytes: whole pages.
    pub fn size(&self) -> u64 {
        self.size
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // The memory is freed after the lock is released.
        let _buf = self.table.entries.lock().by_offset.remove(&self.offset);
    }
}
