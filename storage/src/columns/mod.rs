//! The column file that segments (and later parts) are made of, and the two forms in which rows travel through the
//! journal: a columnar payload and packed rows.
//! Owns layout, checksums, statistics and their validation; knows neither partitions nor file names, and does no IO
//! of its own: a [`FileSource`] reads, a [`FileSink`] writes. Runs on compute threads; packed rows also on the shard's.
//!
//! Rows are a `RecordBatch` whose field names are column ids in decimal ([`column_id`]), so that ADD, DROP and RENAME
//! touch no data. Formats: `docs/formats/segment.md`, `docs/formats/packed-rows.md`.

pub(crate) mod column_type;
mod footer;
pub(crate) mod packed;
mod page;
pub(crate) mod payload;
mod reader;
mod run_length;
pub(crate) mod source;
mod statistics;
mod writer;

#[cfg(test)]
mod formats_test;
#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod tests;

pub(crate) use column_type::{adopt, is_storable};
pub(crate) use packed::{PACKED_ROWS_MAX, PackedRows};
pub(crate) use page::array_bytes;
pub(crate) use reader::{ColumnFile, ColumnScan, FileBatch};
pub(crate) use source::{FileSink, FileSource, IoFuture};
pub(crate) use writer::{ColumnFileWriter, FileIdentity, FileSummary};

use arrow::datatypes::Field;

use crate::base::ids::ColumnId;

/// When the row was published: Timestamp(µs, UTC). Absent in staged files, whose rows share one commit.
pub(crate) const ARRIVED_COLUMN: ColumnId = ColumnId(u16::MAX);
/// The watermark a late row met: Timestamp(µs, UTC), null otherwise.
pub(crate) const WATERMARK_COLUMN: ColumnId = ColumnId(u16::MAX - 1);

/// A start of every buffer in memory and on disk: a cache line, and enough for any Arrow value.
pub(crate) const ALIGNMENT: usize = 64;

/// Bytes that do not follow the format, and why. The caller knows the file and offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub &'static str);

/// The column that a stored batch's field stands for.
pub(crate) fn column_id(field: &Field) -> Option<ColumnId> {
    field.name().parse().ok().map(ColumnId)
}

/// The field of a stored batch for a column.
pub(crate) fn column_field(id: ColumnId, data_type: arrow::datatypes::DataType) -> Field {
    Field::new(id.0.to_string(), data_type, true)
}

pub(crate) fn align_up(length: usize) -> usize {
    length.next_multiple_of(ALIGNMENT)
}
