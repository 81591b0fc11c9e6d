//! What a reader asks of a partition, and the shape in which it is answered.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::base::ids::{ColumnId, SequenceNumber};
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

/// A change of a relation, as a live query sees it.
#[derive(Clone, Debug)]
pub enum Change {
    Insert(RecordBatch),
    /// Rows that were removed, whole, in `_sn` order.
    Delete(RecordBatch),
}

/// A batch's schema for these columns: names from the catalog, types as stored.
pub fn scan_schema(relation: &Relation, columns: &[ScanColumn]) -> SchemaRef {
    let fields: Vec<Field> = columns
        .iter()
        .map(|column| match column {
            ScanColumn::Column(id) => match relation.column_by_id(*id) {
                Some(c) => Field::new(&c.name, c.data_type.clone(), true),
                None => Field::new(format!("dropped {}", id.0), DataType::Null, true),
            },
            ScanColumn::SequenceNumber => Field::new("_sn", DataType::Int64, true),
            ScanColumn::Partition => Field::new("_partition", DataType::Int32, true),
            ScanColumn::Arrived => Field::new("_arrived", timestamptz(), true),
            ScanColumn::Watermark => Field::new("_watermark", timestamptz(), true),
        })
        .collect();
    Arc::new(Schema::new(fields))
}

pub(crate) fn timestamptz() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}
