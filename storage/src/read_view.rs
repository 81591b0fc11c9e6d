//! One relation at one snapshot: a vector of sequence numbers and the chunks that hold them, pinned.
//! Fixed in one step by each partition's owner; read on any thread.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, TimestampMicrosecondArray, new_null_array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::base::error::Result;
use crate::base::ids::{ColumnId, CommitTimestamp, PartitionId, SequenceNumber, ShardId};
use crate::catalog::Relation;

/// What a scan yields for each row: a stored column or a hidden one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScanColumn {
    Column(ColumnId),
    /// `_sn bigint`
    SequenceNumber,
    /// `_partition int`
    Partition,
    /// `_arrived timestamptz`
    Arrived,
    /// `_watermark timestamptz`, null unless the row was late.
    Watermark,
}

#[derive(Clone, Debug)]
pub struct ScanRequest {
    pub columns: Vec<ScanColumn>,
    /// Clipped to the view.
    pub range: Range<SequenceNumber>,
    /// A batch has at most this many rows.
    pub batch_rows_max: usize,
}

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
    pub(crate) chunks: Vec<Chunk>,
}

/// Rows of one commit. Field names of `rows` are column ids in decimal, so RENAME and DROP touch no data.
#[derive(Clone)]
pub(crate) struct Chunk {
    pub first: SequenceNumber,
    pub arrived: CommitTimestamp,
    pub rows: RecordBatch,
}

impl PartitionView {
    /// The rows of the snapshot, in `_sn` order, as they stand at its end (a truncated row is absent).
    /// Cancel-safe: dropping the scan between or during `next` leaves nothing behind.
    pub fn scan(&self, request: ScanRequest) -> PartitionScan {
        let range = request.range.start.max(self.first)..request.range.end.min(self.end);
        let schema = scan_schema(&self.relation, &request.columns);
        PartitionScan { view: self.clone(), request, range, schema, next_chunk: 0, ready: VecDeque::new() }
    }

    /// The first row that arrived at or after `at`, or `end`: where SINCE TIMESTAMP begins. Never cuts a transaction.
    pub async fn first_arrived(&self, at: CommitTimestamp) -> Result<SequenceNumber> {
        Ok(self.chunks.iter().find(|c| c.arrived >= at).map_or(self.end, |c| c.first))
    }

    /// What happened in the range, in order: rows that came, and rows that TRUNCATE of a table took.
    pub fn changes(&self, request: ScanRequest) -> ChangeScan {
        ChangeScan { rows: self.scan(request) }
    }
}

/// A batch's schema for these columns: names from the catalog, types as stored.
pub fn scan_schema(relation: &Relation, columns: &[ScanColumn]) -> SchemaRef {
    let timestamptz = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let fields: Vec<Field> = columns
        .iter()
        .map(|column| match column {
            ScanColumn::Column(id) => match relation.column_by_id(*id) {
                Some(c) => Field::new(&c.name, c.data_type.clone(), true),
                None => Field::new(format!("dropped {}", id.0), DataType::Null, true),
            },
            ScanColumn::SequenceNumber => Field::new("_sn", DataType::Int64, true),
            ScanColumn::Partition => Field::new("_partition", DataType::Int32, true),
            ScanColumn::Arrived => Field::new("_arrived", timestamptz.clone(), true),
            ScanColumn::Watermark => Field::new("_watermark", timestamptz.clone(), true),
        })
        .collect();
    Arc::new(Schema::new(fields))
}

/// One pass over a partition's rows.
pub struct PartitionScan {
    view: PartitionView,
    request: ScanRequest,
    range: Range<SequenceNumber>,
    schema: SchemaRef,
    next_chunk: usize,
    ready: VecDeque<RecordBatch>,
}

impl PartitionScan {
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// The next batch, or `None` at the end of the range. Fails with `Corrupted` for a damaged page of a needed column.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while self.ready.is_empty() {
            let Some(chunk) = self.view.chunks.get(self.next_chunk).cloned() else { return Ok(None) };
            self.next_chunk += 1;
            let first = chunk.first.0.max(self.range.start.0);
            let end = (chunk.first.0 + chunk.rows.num_rows() as u64).min(self.range.end.0);
            let mut at = first;
            while at < end {
                let rows = ((end - at) as usize).min(self.request.batch_rows_max.max(1));
                let part = chunk.rows.slice((at - chunk.first.0) as usize, rows);
                self.ready.push_back(self.shape(&chunk, at, &part));
                at += rows as u64;
            }
        }
        Ok(self.ready.pop_front())
    }

    fn shape(&self, chunk: &Chunk, first: u64, rows: &RecordBatch) -> RecordBatch {
        let count = rows.num_rows();
        let columns: Vec<ArrayRef> = self
            .request
            .columns
            .iter()
            .zip(self.schema.fields())
            .map(|(column, field)| match column {
                ScanColumn::Column(id) => match rows.column_by_name(&id.0.to_string()) {
                    Some(array) => array.clone(),
                    None => new_null_array(field.data_type(), count),
                },
                ScanColumn::SequenceNumber => {
                    Arc::new(Int64Array::from_iter_values((0..count as i64).map(|i| first as i64 + i)))
                }
                ScanColumn::Partition => Arc::new(Int32Array::from(vec![self.view.id.index as i32; count])),
                ScanColumn::Arrived => {
                    Arc::new(TimestampMicrosecondArray::from(vec![chunk.arrived.0; count]).with_timezone("UTC"))
                }
                ScanColumn::Watermark => new_null_array(field.data_type(), count),
            })
            .collect();
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(count));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options).expect("shape follows the schema")
    }
}

/// A change of a relation, as a live query sees it.
#[derive(Clone, Debug)]
pub enum Change {
    Insert(RecordBatch),
    /// Rows that were removed, whole, in `_sn` order.
    Delete(RecordBatch),
}

/// One pass over a partition's changes.
pub struct ChangeScan {
    rows: PartitionScan,
}

impl ChangeScan {
    pub async fn next(&mut self) -> Result<Option<Change>> {
        Ok(self.rows.next().await?.map(Change::Insert))
    }
}
