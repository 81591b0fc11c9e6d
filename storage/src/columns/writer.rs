//! Batches in, one column file out: rows gather until a group is full, then each column becomes a page.
//! Owns the page table while it grows; the sink owns the bytes. Runs on a compute thread, one file at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, TimestampMicrosecondArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Schema};
use xxhash_rust::xxh3::xxh3_64;

use super::column_type::{self, Layout, adopt, stored_form};
use super::footer::{
    self, ColumnV1, ENCODING_NULLS, ENCODING_PLAIN, ENCODING_RUN_LENGTH, FooterV1, GROUP_ROWS_MAX, GroupV1, NO_SN,
    PageV1, RangeV1,
};
use super::page::{append_body, array_bytes, body_bytes, buffers_of};
use super::reader::ColumnFile;
use super::source::FileSink;
use super::statistics::{self, MinMax};
use super::{ARRIVED_COLUMN, align_up, column_field, column_id, run_length};
use crate::base::error::{Error, Result};
use crate::base::ids::{ColumnId, CommitTimestamp, PartitionId, SequenceNumber};

/// A group is closed at this size: large enough for long reads, small enough to resume inside a file.
const GROUP_BYTES_MAX: usize = 2 << 20;

/// What a file holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileIdentity {
    pub partition: PartitionId,
    /// `None` for a file whose rows are numbered outside it.
    pub first: Option<SequenceNumber>,
    /// The column whose range is kept for the whole file.
    pub event_time: Option<ColumnId>,
}

/// What the caller may want to note about a finished file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileSummary {
    pub rows: u64,
    pub bytes: u64,
}

pub(crate) struct ColumnFileWriter {
    sink: Box<dyn FileSink>,
    identity: FileIdentity,
    offset: u64,
    rows: u64,
    pending: Vec<RecordBatch>,
    pending_rows: usize,
    pending_bytes: usize,
    columns: BTreeMap<ColumnId, FileColumn>,
    groups: Vec<GroupV1>,
    /// Per group the pages it has; absent ones are added at the end.
    pages: Vec<BTreeMap<ColumnId, PageV1>>,
    truncates: Vec<u64>,
}

struct FileColumn {
    data_type: DataType,
    null_count: u64,
    min: Option<Vec<u8>>,
    max: Option<Vec<u8>>,
    /// Some page had values but no bound.
    unbounded: bool,
}

impl ColumnFileWriter {
    pub(crate) async fn create(mut sink: Box<dyn FileSink>, identity: FileIdentity) -> Result<Self> {
        let header = footer::header();
        let offset = header.len() as u64;
        sink.append(header).await?;
        Ok(Self {
            sink,
            identity,
            offset,
            rows: 0,
            pending: Vec::new(),
            pending_rows: 0,
            pending_bytes: 0,
            columns: BTreeMap::new(),
            groups: Vec::new(),
            pages: Vec::new(),
            truncates: Vec::new(),
        })
    }

    /// Rows given so far.
    pub(crate) fn rows(&self) -> u64 {
        self.rows + self.pending_rows as u64
    }

    /// Bytes written and waiting.
    pub(crate) fn bytes(&self) -> u64 {
        self.offset + self.pending_bytes as u64
    }

    /// Adds rows. A column that `batch` lacks is absent for these rows, which is not the same as null.
    pub(crate) async fn append(&mut self, batch: &RecordBatch) -> Result<()> {
        let batch = stored_batch(batch)?;
        if self.pending.first().is_some_and(|p| p.schema() != batch.schema()) {
            self.flush_group().await?;
        }
        let bytes: usize = batch.columns().iter().map(array_bytes_of).sum();
        let row_bytes = bytes / batch.num_rows().max(1) + 1;
        let mut at = 0;
        while at < batch.num_rows() {
            let room = GROUP_BYTES_MAX.saturating_sub(self.pending_bytes) / row_bytes;
            let room = room.clamp(1, GROUP_ROWS_MAX - self.pending_rows);
            let rows = room.min(batch.num_rows() - at);
            self.pending.push(batch.slice(at, rows));
            self.pending_rows += rows;
            self.pending_bytes += rows * row_bytes;
            at += rows;
            if self.pending_rows == GROUP_ROWS_MAX || self.pending_bytes >= GROUP_BYTES_MAX {
                self.flush_group().await?;
            }
        }
        Ok(())
    }

    /// Adds the one row that stands for TRUNCATE of a table.
    pub(crate) async fn append_truncate(&mut self, arrived: CommitTimestamp) -> Result<()> {
        self.truncates.push(self.rows());
        let at: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![arrived.0]).with_timezone("UTC"));
        let schema = Schema::new(vec![column_field(ARRIVED_COLUMN, at.data_type().clone())]);
        let row = RecordBatch::try_new(Arc::new(schema), vec![at]).map_err(|e| unstorable(&e.to_string()))?;
        self.append(&row).await
    }

    /// Writes the footer, makes the file durable and opens it.
    pub(crate) async fn finish(mut self) -> Result<(ColumnFile, FileSummary)> {
        self.flush_group().await?;
        let bytes = footer::encode(&self.footer()).map_err(|e| unstorable(e.0))?;
        let summary = FileSummary { rows: self.rows, bytes: self.offset + bytes.len() as u64 };
        self.sink.append(bytes).await?;
        let file = ColumnFile::open(self.sink.finish().await?).await?;
        assert_eq!(file.rows(), summary.rows, "the file just written has the rows that were given");
        Ok((file, summary))
    }

    async fn flush_group(&mut self) -> Result<()> {
        let Some(first) = self.pending.first() else { return Ok(()) };
        let group = concat_batches(&first.schema(), &self.pending).map_err(|e| unstorable(&e.to_string()))?;
        self.pending.clear();
        (self.pending_rows, self.pending_bytes) = (0, 0);
        let mut body = Vec::new();
        let mut pages = BTreeMap::new();
        for (field, array) in group.schema().fields().iter().zip(group.columns()) {
            let id = column_id(field).ok_or_else(|| unstorable("field is no column id"))?;
            let page = self.write_page(array, &mut body)?;
            self.note(id, array.data_type(), group.num_rows(), &page)?;
            pages.insert(id, page);
        }
        self.groups.push(GroupV1 { first_row: self.rows, rows: group.num_rows() as u32 });
        self.pages.push(pages);
        self.rows += group.num_rows() as u64;
        self.offset += body.len() as u64;
        self.sink.append(body).await
    }

    fn write_page(&self, array: &ArrayRef, body: &mut Vec<u8>) -> Result<PageV1> {
        let MinMax { min, max } = statistics::min_max(array);
        let layout = column_type::layout(array.data_type());
        let nulls = array.logical_null_count();
        let start = body.len();
        let (encoding, buffers) = if nulls == array.len() && layout != Some(Layout::Null) {
            (ENCODING_NULLS, Vec::new())
        } else {
            let plain = buffers_of(array).ok_or_else(|| unstorable(&array.data_type().to_string()))?;
            let runs = match layout {
                Some(Layout::Fixed(width)) if nulls == 0 => run_length::encode(&plain[1], width),
                _ => None,
            };
            runs.map_or((ENCODING_PLAIN, plain), |runs| (ENCODING_RUN_LENGTH, runs.to_vec()))
        };
        body.reserve(body_bytes(&buffers));
        append_body(&buffers, body);
        Ok(PageV1 {
            offset: self.offset + start as u64,
            length: (body.len() - start) as u64,
            checksum: xxh3_64(&body[start..]),
            null_count: nulls as u32,
            encoding,
            buffers: buffers.iter().map(|b| b.len() as u64).collect(),
            min,
            max,
        })
    }

    /// Carries a page's statistics over to its column.
    fn note(&mut self, id: ColumnId, data_type: &DataType, rows: usize, page: &PageV1) -> Result<()> {
        let column = self.columns.entry(id).or_insert_with(|| FileColumn {
            data_type: data_type.clone(),
            null_count: 0,
            min: None,
            max: None,
            unbounded: false,
        });
        if column.data_type != *data_type {
            return Err(unstorable("one column with two types in one file"));
        }
        column.null_count += u64::from(page.null_count);
        let has_values = rows > page.null_count as usize;
        column.unbounded |= has_values && (page.min.is_none() || page.max.is_none());
        let smaller = |a: &Vec<u8>, b: &Vec<u8>| statistics::order(data_type, a, b).is_lt();
        if let Some(min) = &page.min
            && column.min.as_ref().is_none_or(|m| smaller(min, m))
        {
            column.min = Some(min.clone());
        }
        if let Some(max) = &page.max
            && column.max.as_ref().is_none_or(|m| smaller(m, max))
        {
            column.max = Some(max.clone());
        }
        Ok(())
    }

    fn footer(&mut self) -> FooterV1 {
        let range = |id: Option<ColumnId>| {
            let column = self.columns.get(&id?)?;
            let value = |bytes: &Option<Vec<u8>>| Some(i64::from_le_bytes(bytes.as_deref()?.try_into().ok()?));
            Some(RangeV1 { min: value(&column.min)?, max: value(&column.max)? })
        };
        let (arrived, event_time) = (range(Some(ARRIVED_COLUMN)), range(self.identity.event_time));
        let mut pages = Vec::with_capacity(self.groups.len() * self.columns.len());
        for group in &mut self.pages {
            pages.extend(self.columns.keys().map(|id| group.remove(id).unwrap_or_else(PageV1::absent)));
        }
        let columns = self.columns.iter().map(|(id, column)| ColumnV1 {
            id: id.0,
            type_name: column_type::name(&column.data_type).unwrap_or_default(),
            null_count: column.null_count,
            min: column.min.clone().filter(|_| !column.unbounded),
            max: column.max.clone().filter(|_| !column.unbounded),
        });
        FooterV1 {
            rows: self.rows,
            relation: self.identity.partition.relation.0,
            partition: self.identity.partition.index,
            first_sn: self.identity.first.map_or(NO_SN, |first| first.0),
            arrived,
            event_time,
            clock: None,
            truncates: std::mem::take(&mut self.truncates),
            columns: columns.collect(),
            groups: std::mem::take(&mut self.groups),
            pages,
        }
    }
}

/// The batch with the types that files know, and columns that can be stored.
fn stored_batch(batch: &RecordBatch) -> Result<RecordBatch> {
    let schema = batch.schema();
    let mut fields = Vec::with_capacity(schema.fields().len());
    let mut arrays = Vec::with_capacity(schema.fields().len());
    for (field, array) in schema.fields().iter().zip(batch.columns()) {
        let id = column_id(field).ok_or_else(|| unstorable("field is no column id"))?;
        let data_type = stored_form(array.data_type());
        let array = adopt(array, &data_type).filter(|_| column_type::is_storable(&data_type));
        arrays.push(array.ok_or_else(|| unstorable(&data_type.to_string()))?);
        fields.push(column_field(id, data_type));
    }
    debug_assert_eq!(align_up(footer::HEADER_BYTES), footer::HEADER_BYTES);
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .map_err(|e| unstorable(&e.to_string()))
}

fn array_bytes_of(array: &ArrayRef) -> usize {
    array_bytes(array)
}

fn unstorable(reason: &str) -> Error {
    Error::Io { what: "could not write a column file".into(), reason: reason.into() }
}
