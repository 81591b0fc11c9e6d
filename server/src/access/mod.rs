//! Who may connect: roles, and how a client proves to be one. Knows no SQL and no sockets.

mod roles;
mod scram;

pub use roles::{Login, Roles, SUPERUSER};
pub use scram::{Scram, ScramStep};
