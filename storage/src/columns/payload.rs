//! What a journal record says of rows: packed rows for few, columns for many. Both tell their column ids and types, so
//! recovery needs no catalog. Checksums are the record's business.
//! Columns: a header padded to 64 bytes, then each column's buffers as a page holds them; decoding copies nothing if
//! the payload lies aligned in memory.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::buffer::Buffer;
use arrow::datatypes::Schema;

use super::column_type::{self, stored_form};
use super::packed::{self, PACKED_ROWS_MAX, PackedRows};
use super::page::{append_body, array_from, body_bytes, buffers_of, split_body};
use super::{Malformed, align_up, column_field, column_id};
use crate::base::ids::ColumnId;

/// First byte of a columnar payload.
const FORMAT: u8 = 2;
const COLUMNS_MAX: u32 = 2048;

/// Rows as they come from a statement and as they lie in the tail.
#[derive(Clone, Debug)]
pub(crate) enum Rows {
    Packed(PackedRows),
    Columns(RecordBatch),
}

impl Rows {
    /// Chooses the form. `None` if a field is no column id or a type cannot be stored.
    pub(crate) fn of(batch: RecordBatch) -> Option<Self> {
        if batch.num_rows() < PACKED_ROWS_MAX {
            PackedRows::encode(&batch).map(Self::Packed)
        } else {
            Some(Self::Columns(batch))
        }
    }

    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::Packed(packed) => packed.rows(),
            Self::Columns(batch) => batch.num_rows(),
        }
    }

    /// Appends the payload of a journal record. For columns copied into place only once, `out` should be aligned.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::Packed(packed) => {
                out.extend_from_slice(packed.bytes());
                Some(())
            }
            Self::Columns(batch) => encode_columns(batch, out),
        }
    }

    /// Reads any payload; hostile bytes give an error.
    pub(crate) fn decode(payload: Buffer) -> Result<Self, Malformed> {
        match payload.first() {
            Some(&packed::FORMAT) => PackedRows::parse(payload).map(Self::Packed),
            Some(&FORMAT) => decode_columns(&payload).map(Self::Columns),
            _ => Err(Malformed("unknown payload")),
        }
    }

    /// The rows as a batch.
    pub(crate) fn to_batch(&self) -> Result<RecordBatch, Malformed> {
        match self {
            Self::Packed(packed) => PackedRows::unpack([packed]),
            Self::Columns(batch) => Ok(batch.clone()),
        }
    }
}

fn encode_columns(batch: &RecordBatch, out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    let schema = batch.schema();
    out.extend_from_slice(&[FORMAT, 0, 0, 0]);
    out.extend_from_slice(&u32::try_from(batch.num_rows()).ok()?.to_le_bytes());
    out.extend_from_slice(&u32::try_from(batch.num_columns()).ok()?.to_le_bytes());
    let mut bodies = Vec::with_capacity(batch.num_columns());
    for (field, array) in schema.fields().iter().zip(batch.columns()) {
        let name = column_type::name(array.data_type()).filter(|n| n.len() <= column_type::NAME_BYTES_MAX)?;
        let buffers = buffers_of(array)?;
        out.extend_from_slice(&column_id(field)?.0.to_le_bytes());
        out.push(name.len() as u8);
        out.extend_from_slice(name.as_bytes());
        out.push(u8::try_from(buffers.len()).ok()?);
        for buffer in &buffers {
            out.extend_from_slice(&(buffer.len() as u64).to_le_bytes());
        }
        bodies.push(buffers);
    }
    out.resize(start + align_up(out.len() - start), 0);
    out.reserve(bodies.iter().map(|b| body_bytes(b)).sum());
    let mut body = Vec::new();
    for buffers in &bodies {
        if start.is_multiple_of(super::ALIGNMENT) {
            append_body(buffers, out);
        } else {
            // Padding counts from the payload's start, not from the start of `out`.
            body.clear();
            append_body(buffers, &mut body);
            out.extend_from_slice(&body);
        }
    }
    Some(())
}

fn decode_columns(payload: &Buffer) -> Result<RecordBatch, Malformed> {
    let mut at = 4;
    let mut take = |length: usize| -> Result<&[u8], Malformed> {
        let bytes = payload.get(at..at + length).ok_or(Malformed("cut short"))?;
        at += length;
        Ok(bytes)
    };
    let u32_of = |bytes: &[u8]| bytes.iter().rev().fold(0u32, |value, byte| value << 8 | u32::from(*byte));
    let u64_of = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    let rows = u32_of(take(4)?) as usize;
    let count = u32_of(take(4)?);
    if count > COLUMNS_MAX {
        return Err(Malformed("too many columns"));
    }
    let mut columns = Vec::new();
    for _ in 0..count {
        let id = ColumnId(u32_of(take(2)?) as u16);
        let name_length = take(1)?[0];
        let name = std::str::from_utf8(take(usize::from(name_length))?).map_err(|_| Malformed("type name"))?;
        let data_type = column_type::parse(name)?;
        let buffers = take(1)?[0];
        let lengths: Vec<u64> = take(usize::from(buffers) * 8)?.chunks_exact(8).map(u64_of).collect();
        columns.push((id, data_type, lengths));
    }
    let mut body = align_up(at);
    let mut fields = Vec::with_capacity(columns.len());
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns.len());
    for (id, data_type, lengths) in columns {
        let rest = payload.len().checked_sub(body).ok_or(Malformed("cut short"))?;
        let mut used = 0usize;
        for length in &lengths {
            let length = usize::try_from(*length).ok().filter(|l| *l <= rest).ok_or(Malformed("cut short"))?;
            used += align_up(length);
        }
        let buffers = split_body(&payload.slice_with_length(body, rest), lengths.into_iter())?;
        arrays.push(array_from(&data_type, rows, buffers)?);
        fields.push(column_field(id, stored_form(&data_type)));
        body += used;
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .map_err(|_| Malformed("columns of different length"))
}
