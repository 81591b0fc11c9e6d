//! Reads a partition's log in `_sn` order: segments, then the tail as it was pinned, in the shape a query asks for.
//! Runs on any thread. A view is a list of chunks; it keeps no memory (see `chunk.rs`).

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Int32Array, Int64Array, RecordBatch, RecordBatchOptions, TimestampMicrosecondArray, UInt32Array,
    new_null_array,
};
use arrow::datatypes::{DataType, SchemaRef};

use super::chunk::{Chunk, Found};
use super::position_index;
use super::scan_request::{Change, ScanColumn, ScanRequest, scan_schema, timestamptz};
use super::segment::Segment;
use crate::base::error::{Error, Result};
use crate::base::ids::{ColumnId, CommitTimestamp, PartitionId, SequenceNumber};
use crate::catalog::Relation;
use crate::columns::{ARRIVED_COLUMN, ColumnScan, WATERMARK_COLUMN, adopt};

/// The rows of a partition at one position, pinned. Cheap to clone.
#[derive(Clone)]
pub(crate) struct LogView {
    partition: PartitionId,
    range: Range<SequenceNumber>,
    truncated: SequenceNumber,
    sealed: Arc<Vec<Arc<Chunk>>>,
    tail: Arc<Vec<Arc<Chunk>>>,
    /// Below the end, ascending.
    truncates: Arc<Vec<SequenceNumber>>,
}

impl LogView {
    pub(super) fn new(
        partition: PartitionId,
        range: Range<SequenceNumber>,
        truncated: SequenceNumber,
        sealed: Arc<Vec<Arc<Chunk>>>,
        tail: Vec<Arc<Chunk>>,
        truncates: Vec<SequenceNumber>,
    ) -> Self {
        Self { partition, range, truncated, sealed, tail: Arc::new(tail), truncates: Arc::new(truncates) }
    }

    /// The oldest row that is kept.
    pub(crate) fn first(&self) -> SequenceNumber {
        self.range.start
    }

    /// One past the last row of the snapshot.
    pub(crate) fn end(&self) -> SequenceNumber {
        self.range.end
    }

    /// TRUNCATE of a stream took the rows below this.
    pub(crate) fn truncated(&self) -> SequenceNumber {
        self.truncated
    }

    /// The first row that arrived at or after `at`, or the end. Reads at most one page.
    pub(crate) async fn first_arrived(&self, at: CommitTimestamp) -> Result<SequenceNumber> {
        let before = CommitTimestamp(at.0.saturating_sub(1));
        let chunk = self.sealed.get(position_index::first_after(&self.sealed, before));
        let chunk = chunk.or_else(|| self.tail.get(position_index::first_after(&self.tail, before)));
        let found = match chunk.map(|c| c.find()) {
            None => self.range.end,
            Some(Found::Memory(memory)) => memory.end_at(before),
            Some(Found::Segment(segment)) => segment.end_at(before).await?,
        };
        Ok(found.clamp(self.range.start, self.range.end))
    }

    /// The oldest row that is still there at the view's end: after the table's last TRUNCATE.
    pub(crate) fn visible_from(&self) -> SequenceNumber {
        let truncate = self.truncates.last().map_or(0, |t| t.0 + 1);
        self.range.start.max(SequenceNumber(truncate))
    }

    /// The rows as they stand at the view's end.
    pub(crate) fn scan(&self, relation: &Arc<Relation>, request: ScanRequest) -> LogScan {
        let from = request.range.start.max(self.visible_from());
        let range = from..request.range.end.min(self.range.end);
        LogScan::new(self.clone(), relation.clone(), request, range)
    }

    /// What happened in the range, in order.
    pub(crate) fn changes(&self, relation: &Arc<Relation>, request: ScanRequest) -> LogChanges {
        let range = request.range.start.max(self.range.start)..request.range.end.min(self.range.end);
        let mut steps = VecDeque::new();
        let mut from = range.start;
        for (index, truncate) in self.truncates.iter().enumerate() {
            if !range.contains(truncate) {
                continue;
            }
            steps.push_back((Kind::Insert, from..*truncate));
            let previous = index.checked_sub(1).map_or(0, |before| self.truncates[before].0 + 1);
            steps.push_back((Kind::Delete, SequenceNumber(previous).max(self.range.start)..*truncate));
            from = SequenceNumber(truncate.0 + 1);
        }
        steps.push_back((Kind::Insert, from..range.end));
        LogChanges { view: self.clone(), relation: relation.clone(), request, steps, current: None }
    }

    /// The chunk that holds the row, or the first after it.
    fn chunk_at(&self, sn: SequenceNumber) -> Option<Arc<Chunk>> {
        let sealed = position_index::by_sequence_number(&self.sealed, sn);
        let chunk = self.sealed.get(sealed).or_else(|| {
            // Rows that were in the tail when the view was made may be in `sealed` of a later one, not of this.
            self.tail.get(position_index::by_sequence_number(&self.tail, sn))
        });
        chunk.cloned()
    }
}

/// One pass over rows. No row that stands for a truncate lies in its range.
pub(crate) struct LogScan {
    view: LogView,
    relation: Arc<Relation>,
    request: ScanRequest,
    schema: SchemaRef,
    /// What is still to be read.
    range: Range<SequenceNumber>,
    source: Option<SegmentScan>,
    ready: Option<StoredRows>,
}

struct SegmentScan {
    segment: Arc<Segment>,
    scan: ColumnScan,
}

/// Rows as they are stored, one array for each requested column that needs one.
struct StoredRows {
    first: SequenceNumber,
    rows: usize,
    columns: Vec<Option<ArrayRef>>,
}

impl LogScan {
    fn new(view: LogView, relation: Arc<Relation>, request: ScanRequest, range: Range<SequenceNumber>) -> Self {
        let schema = scan_schema(&relation, &request.columns);
        Self { view, relation, request, schema, range, source: None, ready: None }
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// The next batch. Cancel-safe: a dropped call loses no row.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(rows) = &mut self.ready {
                let count = rows.rows.min(self.request.batch_rows_max.max(1));
                let part = rows.split_front(count);
                if rows.rows == 0 {
                    self.ready = None;
                }
                return self.shape(part).map(Some);
            }
            if self.range.is_empty() {
                return Ok(None);
            }
            self.ready = self.read().await?;
            match &self.ready {
                Some(rows) => self.range.start = SequenceNumber(rows.first.0 + rows.rows as u64),
                None => return Ok(None),
            }
        }
    }

    /// The rows from `range.start` on, as far as one chunk or group has them.
    async fn read(&mut self) -> Result<Option<StoredRows>> {
        if let Some(source) = &mut self.source {
            if let Some(batch) = source.scan.next().await? {
                let first = SequenceNumber(source.segment.first().0 + batch.first_row);
                let mut rows = StoredRows { first, rows: batch.rows, columns: batch.columns };
                for (column, array) in self.request.columns.iter().zip(&mut rows.columns) {
                    if *column == ScanColumn::Arrived && array.is_none() {
                        *array = Some(arrived_array(vec![source.segment.arrived().1.0; rows.rows]));
                    }
                }
                return Ok(Some(rows));
            }
            self.source = None;
        }
        let Some(chunk) = self.view.chunk_at(self.range.start) else { return Ok(None) };
        match chunk.find() {
            Found::Segment(segment) => {
                let first = segment.first().0;
                let rows = self.range.start.0 - first..self.range.end.min(segment.end()).0 - first;
                let ids: Vec<ColumnId> = self.request.columns.iter().map(|c| stored_column(*c)).collect();
                let scan = segment.file().await?.scan(&ids, rows);
                self.source = Some(SegmentScan { segment, scan });
                Box::pin(self.read()).await
            }
            Found::Memory(memory) => {
                let end = self.range.end.0.min(memory.first.0 + memory.rows() as u64);
                let rows = (self.range.start.0 - memory.first.0) as usize..(end - memory.first.0) as usize;
                let batch = memory.batch(rows.clone())?;
                let columns = self.request.columns.iter().map(|column| match (column, &batch) {
                    (ScanColumn::Column(id), Some(batch)) => batch.column_by_name(&id.0.to_string()).cloned(),
                    (ScanColumn::Arrived, _) => Some(arrived_array(memory.arrived(rows.clone()))),
                    _ => None,
                });
                Ok(Some(StoredRows { first: self.range.start, rows: rows.len(), columns: columns.collect() }))
            }
        }
    }

    fn shape(&self, rows: StoredRows) -> Result<RecordBatch> {
        let count = rows.rows;
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.request.columns.len());
        for ((column, field), stored) in self.request.columns.iter().zip(self.schema.fields()).zip(rows.columns) {
            columns.push(match column {
                ScanColumn::SequenceNumber => {
                    let first = rows.first.0 as i64;
                    Arc::new(Int64Array::from_iter_values(first..first + count as i64))
                }
                ScanColumn::Partition => Arc::new(Int32Array::from(vec![self.view.partition.index as i32; count])),
                ScanColumn::Column(id) => match stored {
                    _ if *field.data_type() == DataType::Null => new_null_array(&DataType::Null, count),
                    Some(array) => adopt(&array, field.data_type())
                        .ok_or_else(|| self.wrong_type(*id, array.data_type(), rows.first))?,
                    None => self.missing(*id, field.data_type(), count)?,
                },
                ScanColumn::Arrived | ScanColumn::Watermark => match stored {
                    Some(array) if *array.data_type() == timestamptz() => array,
                    Some(array) => return Err(self.wrong_type(ARRIVED_COLUMN, array.data_type(), rows.first)),
                    None => new_null_array(field.data_type(), count),
                },
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options).map_err(|e| Error::Io {
            what: format!("could not read partition {}", self.view.partition),
            reason: e.to_string(),
        })
    }

    /// What rows written before ADD COLUMN hold.
    fn missing(&self, id: ColumnId, data_type: &DataType, count: usize) -> Result<ArrayRef> {
        let constant = self.relation.column_by_id(id).and_then(|c| c.missing.as_ref());
        let filled = constant.map(|value| arrow::compute::take(&value.0, &UInt32Array::from(vec![0; count]), None));
        match filled.and_then(|f| f.ok()).and_then(|f| adopt(&f, data_type)) {
            Some(array) => Ok(array),
            None => Ok(new_null_array(data_type, count)),
        }
    }

    fn wrong_type(&self, id: ColumnId, found: &DataType, at: SequenceNumber) -> Error {
        Error::Corrupted {
            file: format!("partition {}", self.view.partition),
            offset: at.0,
            reason: format!("column {} is stored as {found}", id.0),
        }
    }
}

impl StoredRows {
    fn split_front(&mut self, count: usize) -> StoredRows {
        let columns = self.columns.iter().map(|c| c.as_ref().map(|a| a.slice(0, count))).collect();
        let front = StoredRows { first: self.first, rows: count, columns };
        for column in self.columns.iter_mut().flatten() {
            *column = column.slice(count, self.rows - count);
        }
        self.first = SequenceNumber(self.first.0 + count as u64);
        self.rows -= count;
        front
    }
}

/// The file's column for a requested one. Numbers and partition have none: id 0 is never given.
fn stored_column(column: ScanColumn) -> ColumnId {
    match column {
        ScanColumn::Column(id) => id,
        ScanColumn::Arrived => ARRIVED_COLUMN,
        ScanColumn::Watermark => WATERMARK_COLUMN,
        ScanColumn::SequenceNumber | ScanColumn::Partition => ColumnId(0),
    }
}

fn arrived_array(times: Vec<i64>) -> ArrayRef {
    Arc::new(TimestampMicrosecondArray::from(times).with_timezone("UTC"))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Insert,
    Delete,
}

/// One pass over what happened.
pub(crate) struct LogChanges {
    view: LogView,
    relation: Arc<Relation>,
    request: ScanRequest,
    steps: VecDeque<(Kind, Range<SequenceNumber>)>,
    current: Option<(Kind, LogScan)>,
}

impl LogChanges {
    /// The next change. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<Option<Change>> {
        loop {
            if let Some((kind, scan)) = &mut self.current {
                if let Some(batch) = scan.next().await? {
                    return Ok(Some(match kind {
                        Kind::Insert => Change::Insert(batch),
                        Kind::Delete => Change::Delete(batch),
                    }));
                }
                self.current = None;
            }
            let Some((kind, range)) = self.steps.pop_front() else { return Ok(None) };
            let scan = LogScan::new(self.view.clone(), self.relation.clone(), self.request.clone(), range);
            self.current = Some((kind, scan));
        }
    }
}
