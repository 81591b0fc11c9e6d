//! The node: threads and what runs on them.

pub mod thread;
