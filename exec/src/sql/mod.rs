//! SQL text to statements, and errors as PostgreSQL says them.
//! Owns the dialect; does not know the catalog. Runs on a compute thread.

pub mod ddl;
pub mod error;
mod parser;
mod source;
pub mod statement;
pub mod units;

pub use parser::{is_reserved, parse, parse_expression, parse_query};
