// SPDX-License-Identifier: GPL-2.0

//! Memory: buffers shared with user space, and the directly mapped memory that registrations name.

pub mod direct;
pub mod user_buf;

pub use self::user_buf::UserBuf;
