//! Names and types to plans. The only place, with `batch`, that knows DataFusion. Runs on a compute thread.

pub mod datetime;
pub mod decimal;
pub mod types;
pub mod virtual_relation;
