//! One connection's conversation: its messages become calls of `exec`, the answers become messages.
//! Owns statements, portals, cursors, the transaction block and the settings of a session. Lives on one shard thread.

mod copy;
mod copy_port;
mod cursor;
mod encoding;
mod extended_query;
pub mod failure;
pub mod interrupt;
pub mod notify;
mod portal;
pub mod registry;
mod row_source;
#[allow(clippy::module_inception)]
mod session;
mod session_statement;
pub mod shared;
mod simple_query;
mod statement;
mod transaction;
pub mod variables;

pub use session::Session;
pub use shared::{Server, SessionShared};
