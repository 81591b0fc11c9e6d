//! Bounded queries: scans, exchanges between cores, memory, execution. Runs on the compute threads.
//! With `planning` the only place that knows DataFusion.

pub mod core_exchange;
pub mod execute;
pub mod memory;
pub mod shard_scan;
pub mod virtual_scan;
