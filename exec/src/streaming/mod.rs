//! Queries that never end: the same text as a bounded one, followed along the log.

pub mod connector;
