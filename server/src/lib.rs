//! Everything that faces outside: the wire protocol, sessions, the catalog as clients see it, settings, assembly.
//! Inside: config, telemetry, access ← {pgwire | pg_catalog} ← session ← node. Only `session` turns messages into
//! calls of `exec`.

pub mod access;
pub mod config;
pub mod node;
pub mod pg_catalog;
pub mod pgwire;
pub mod session;
pub mod telemetry;
