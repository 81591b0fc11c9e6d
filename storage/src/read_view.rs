//! One relation at one snapshot: a vector of sequence numbers and the chunks that hold them, pinned.
//! Fixed in one step by each partition's owner; read on any thread.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use crate::base::error::Result;
use crate::base::ids::{CommitTimestamp, PartitionId, SequenceNumber, ShardId};
use crate::catalog::Relation;
use crate::log::{Change, LogChanges, LogScan, LogView, ScanRequest};

/// A relation at a snapshot. Cheap to clone; pins chunks, not memory.
#[derive(Clone)]
pub struct ReadView {
    pub relation: Arc<Relation>,
    pub at: CommitTimestamp,
    /// One for each partition, by index.
    pub partitions: Vec<PartitionView>,
}

#[derive(Clone)]
pub struct PartitionView {
    pub id: PartitionId,
    pub owner: ShardId,
    /// The oldest row still readable; rows before it expired or were truncated.
    pub first: SequenceNumber,
    /// TRUNCATE of a stream took the rows below this; rows from here to `first` expired.
    pub truncated: SequenceNumber,
    /// One past the last row of the snapshot: the partition's entry in the position vector.
    pub end: SequenceNumber,
    pub(crate) relation: Arc<Relation>,
    pub(crate) log: LogView,
}

impl PartitionView {
    /// The rows of the snapshot, in `_sn` order, as they stand at its end (a truncated row is absent).
    /// Cancel-safe: dropping the scan between or during `next` leaves nothing behind.
    pub fn scan(&self, request: ScanRequest) -> PartitionScan {
        PartitionScan { log: self.log.scan(&self.relation, request) }
    }

    /// The first row that arrived at or after `at`, or `end`: where SINCE TIMESTAMP begins. Never cuts a transaction.
    pub async fn first_arrived(&self, at: CommitTimestamp) -> Result<SequenceNumber> {
        self.log.first_arrived(at).await
    }

    /// What happened in the range, in order: rows that came, and rows that TRUNCATE of a table took.
    pub fn changes(&self, request: ScanRequest) -> ChangeScan {
        ChangeScan { log: self.log.changes(&self.relation, request) }
    }
}

/// One pass over a partition's rows.
pub struct PartitionScan {
    log: LogScan,
}

impl PartitionScan {
    pub fn schema(&self) -> SchemaRef {
        self.log.schema()
    }

    /// The next batch, or `None` at the end of the range. Fails with `Corrupted` for a damaged page of a needed column.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        self.log.next().await
    }
}

/// One pass over a partition's changes.
pub struct ChangeScan {
    log: LogChanges,
}

impl ChangeScan {
    pub async fn next(&mut self) -> Result<Option<Change>> {
        self.log.next().await
    }
}
