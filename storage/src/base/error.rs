//! Errors named by what the caller does next. `exec` gives each its SQLSTATE in one table.

use crate::base::ids::{RelationId, SequenceNumber, ShardId};

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A bound is reached (`53xxx`); retry later.
    #[error("{bound} is full")]
    Full { bound: &'static str },
    /// No room on the device (`53100`). Nothing is half-written; writes resume by themselves.
    #[error("could not write \"{file}\": no space left on device")]
    DiskFull { file: String },
    /// The device failed while a commit was under way (`08007`): it may or may not survive.
    #[error("outcome of the transaction is unknown: the journal of shard {} failed", .0.0)]
    OutcomeUnknown(ShardId),
    /// The shard takes no more writes until restart (`25006`): its journal failed or is corrupted.
    #[error("shard {} is read-only: {reason}", .shard.0)]
    ReadOnly { shard: ShardId, reason: String },
    /// Restore this file from a backup (`XX001`).
    #[error("\"{file}\" is corrupted at offset {offset}: {reason}")]
    Corrupted { file: String, offset: u64, reason: String },
    /// The position is older than what is kept (`55000`).
    #[error("position is older than the log")]
    PositionGone { relation: RelationId, partition: u32, oldest: SequenceNumber },
    /// The relation, column or schema is not in the catalog any more (`42P01`, `42703`).
    #[error("{what} does not exist")]
    Undefined { what: String },
    /// A name is taken or an edit no longer fits (`42P07`, `42710`, `40001`).
    #[error("{what} already exists")]
    Duplicate { what: String },
    /// The operating system refused; `what` says which file and operation (`58030`).
    #[error("{what}: {reason}")]
    Io { what: String, reason: String },
    /// The node is stopping (`57P01`).
    #[error("the server is shutting down")]
    Shutdown,
}
