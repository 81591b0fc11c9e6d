//! Messages in, messages out, against a node in this process. Expected answers are PostgreSQL 15's.

mod cursors;
mod harness;
mod protocol;
mod startup;
mod transactions;
