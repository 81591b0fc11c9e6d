//! One connection's conversation: its messages become calls of `exec`, the answers become messages.
//! Owns statements, portals, cursors, the transaction block and the settings of a session. Lives on one shard thread.

pub mod variables;
