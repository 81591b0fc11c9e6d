//! SQL text to statements, and errors as PostgreSQL says them.
//! Owns the dialect; does not know the catalog. Runs on a compute thread.

pub mod error;
pub mod statement;
