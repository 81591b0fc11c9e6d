//! Who may connect: roles, and how a client proves to be one. Knows no SQL and no sockets.

mod roles;
mod scram;

pub use roles::{Login, Roles};
pub use scram::{Scram, ScramStep};
