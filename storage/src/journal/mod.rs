//! The journal of one core: what makes commits durable, in timestamp order.
//!
//! ```text
//! owner's queue → Writer::begin_group → Group::push … → Writer::write (one device write) → durable
//! start         → recover(visit each record) → Writer::resume
//! ```
//! Owns: record layout, segments, group commit, the end-of-journal rule, recycling. Does not own: what a payload
//! means, when timestamps are given, which transactions are decided (all in `shard`). Lives on the shard thread.

mod commit;
mod record;
mod recovery;
mod segment;
#[cfg(test)]
mod tests;
mod writer;

pub use commit::{Action, CommitBody, RowsFormat};
pub use record::{Lsn, Outcome, PendingRecord, Record, RecordKind};
pub use recovery::{Cut, Ending, JournalEnd, RecoveredRecord, list_journals, recover};
pub use segment::SegmentSizes;
pub use writer::{Group, Progress, Writer, Written};
