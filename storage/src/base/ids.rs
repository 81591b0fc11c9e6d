//! The names of things: one newtype for each kind of number, so that two of them cannot be swapped.

use std::fmt;

/// A relation's OID, stable for its whole life and never given again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct RelationId(pub u32);

/// A column's number within its relation, from 1; never given again after DROP COLUMN (`attnum` in pg_attribute).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ColumnId(pub u16);

/// A namespace's OID.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SchemaId(pub u32);

/// A foreign server's OID.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ServerId(pub u32);

/// A core of this run. Partitions belong to directories, not to cores: another run may have other shards.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ShardId(pub u16);

/// One partition of a relation: the unit of order and of ownership.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct PartitionId {
    pub relation: RelationId,
    pub index: u32,
}

/// A log file's number, unique on the node and never given again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SegmentId(pub u64);

/// A row's number within its partition: dense, from 0, given when the row is published.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct SequenceNumber(pub u64);

/// Microseconds since the Unix epoch, unique per commit of a node and ascending, also over a restart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct CommitTimestamp(pub i64);

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.relation.0, self.index)
    }
}

/// A transaction's identity: drawn by chance, so it stays unique over restarts and data directories.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct TransactionId(pub u128);
