// SPDX-License-Identifier: GPL-2.0

//! Types and states of queue pairs.

#![forbid(unsafe_code)]

use super::opcode::Service;

/// The type of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QpType {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// General services: a datagram queue pair with number 1.
    Gsi,
}

impl QpType {
    /// Returns the transport service of the type.
    pub const fn service(self) -> Service {
        match self {
            Self::Rc => Service::Rc,
            Self::Uc => Service::Uc,
            Self::Ud | Self::Gsi => Service::Ud,
        }
    }
}
