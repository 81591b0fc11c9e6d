//! Names and types to plans. The only place, with `batch`, that knows DataFusion. Runs on a compute thread.

pub mod apply;
pub mod binder;
pub mod cast;
pub mod datetime;
pub mod decimal;
pub mod error_mapping;
pub mod explain;
pub mod functions;
pub mod json;
pub mod kernel;
pub mod ordinality;
pub mod planner;
pub mod session_functions;
pub mod types;
pub mod virtual_relation;
