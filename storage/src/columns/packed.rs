//! Packed rows: a few rows, row by row, in as few bytes as they need. The form of small commits in the journal and in
//! the tail, where many of them become one batch at the first scan.
//! Format: `docs/formats/packed-rows.md`. Any bytes may be given to the decoder; memory stays in proportion to them.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, BooleanBufferBuilder, RecordBatch, RecordBatchOptions, make_array};
use arrow::buffer::{Buffer, MutableBuffer};
use arrow::datatypes::{DataType, Schema};
use arrow::util::bit_util::get_bit;

use super::column_type::{self, Layout, layout, stored_form};
use super::{Malformed, column_field, column_id};
use crate::base::ids::ColumnId;

/// Commits with fewer rows are packed, others are columns.
pub(crate) const PACKED_ROWS_MAX: usize = 64;
/// First byte of packed rows.
pub(crate) const FORMAT: u8 = 1;
/// Most rows that are decoded from one value, whatever it claims.
const ROWS_MAX: u64 = 4096;
const COLUMNS_MAX: u64 = 2048;

/// Rows of one commit. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct PackedRows {
    bytes: Buffer,
    header_bytes: usize,
    rows: usize,
}

impl PackedRows {
    /// `None` if a field is no column id or a type cannot be stored.
    pub(crate) fn encode(batch: &RecordBatch) -> Option<Self> {
        let mut out = vec![FORMAT];
        let schema = batch.schema();
        put_varint(schema.fields().len() as u64, &mut out);
        let mut columns = Vec::with_capacity(batch.num_columns());
        for (field, array) in schema.fields().iter().zip(batch.columns()) {
            put_varint(u64::from(column_id(field)?.0), &mut out);
            let name = column_type::name(array.data_type()).filter(|n| n.len() <= column_type::NAME_BYTES_MAX)?;
            out.push(name.len() as u8);
            out.extend_from_slice(name.as_bytes());
            columns.push(Source::new(array.to_data())?);
        }
        let header_bytes = out.len();
        put_varint(batch.num_rows() as u64, &mut out);
        for row in 0..batch.num_rows() {
            put_values(columns.iter().map(|c| (c, row)), columns.len(), &mut out);
        }
        Some(Self { bytes: out.into(), header_bytes, rows: batch.num_rows() })
    }

    /// Reads the header; the rows are checked when they are decoded.
    pub(crate) fn parse(bytes: Buffer) -> Result<Self, Malformed> {
        let mut input = Input { bytes: &bytes, at: 0 };
        header(&mut input)?;
        let header_bytes = input.at;
        let rows = row_count(&mut input)?;
        Ok(Self { header_bytes, rows, bytes })
    }

    pub(crate) fn bytes(&self) -> &Buffer {
        &self.bytes
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// True if both have the same columns with the same types, so that they can become one batch.
    pub(crate) fn same_columns(&self, other: &Self) -> bool {
        self.bytes[..self.header_bytes] == other.bytes[..other.header_bytes]
    }

    /// One batch of all rows. All must have the same columns.
    pub(crate) fn unpack<'a>(all: impl IntoIterator<Item = &'a PackedRows>) -> Result<RecordBatch, Malformed> {
        let mut all = all.into_iter().peekable();
        let Some(first) = all.peek() else { return Err(Malformed("no rows to unpack")) };
        let columns = header(&mut Input { bytes: &first.bytes, at: 0 })?;
        let expected = first.bytes.slice_with_length(0, first.header_bytes);
        let mut builders = columns.iter().map(|(_, t)| Builder::new(t)).collect::<Result<Vec<_>, _>>()?;
        let mut rows = 0usize;
        for packed in all {
            if packed.bytes[..packed.header_bytes] != *expected {
                return Err(Malformed("rows of different columns"));
            }
            let mut input = Input { bytes: &packed.bytes, at: packed.header_bytes };
            for _ in 0..row_count(&mut input)? {
                take_row(&mut input, &mut builders)?;
            }
            if input.at != packed.bytes.len() {
                return Err(Malformed("bytes after the last row"));
            }
            rows += packed.rows;
        }
        let mut fields = Vec::with_capacity(columns.len());
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns.len());
        for ((id, data_type), builder) in columns.into_iter().zip(builders) {
            fields.push(column_field(id, data_type));
            arrays.push(make_array(builder.finish()?));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
            .map_err(|_| Malformed("columns of different length"))
    }
}

fn header(input: &mut Input<'_>) -> Result<Vec<(ColumnId, DataType)>, Malformed> {
    if input.byte()? != FORMAT {
        return Err(Malformed("no packed rows"));
    }
    let count = input.varint()?;
    if count > COLUMNS_MAX {
        return Err(Malformed("too many columns"));
    }
    let mut columns = Vec::new();
    for _ in 0..count {
        let id = u16::try_from(input.varint()?).map_err(|_| Malformed("column id"))?;
        let length = input.byte()?;
        let name = std::str::from_utf8(input.take(usize::from(length))?).map_err(|_| Malformed("type name"))?;
        columns.push((ColumnId(id), column_type::parse(name)?));
    }
    Ok(columns)
}

fn row_count(input: &mut Input<'_>) -> Result<usize, Malformed> {
    let rows = input.varint()?;
    if rows > ROWS_MAX { Err(Malformed("too many rows")) } else { Ok(rows as usize) }
}

/// Null bits of `count` values, then the values that are not null.
fn put_values<'a>(values: impl Iterator<Item = (&'a Source, usize)>, count: usize, out: &mut Vec<u8>) {
    let bitmap = out.len();
    out.resize(bitmap + count.div_ceil(8), 0);
    for (index, (source, row)) in values.enumerate() {
        if source.is_null(row) {
            out[bitmap + index / 8] |= 1 << (index % 8);
        } else {
            source.put(row, out);
        }
    }
}

/// A column to read values from.
struct Source {
    data: ArrayData,
    layout: Layout,
    child: Option<Box<Source>>,
}

impl Source {
    fn new(data: ArrayData) -> Option<Self> {
        let layout = layout(data.data_type())?;
        let child = match layout {
            Layout::List => Some(Box::new(Source::new(data.child_data()[0].clone())?)),
            _ => None,
        };
        Some(Self { data, layout, child })
    }

    fn is_null(&self, row: usize) -> bool {
        self.layout == Layout::Null || self.data.is_null(row)
    }

    fn put(&self, row: usize, out: &mut Vec<u8>) {
        let at = self.data.offset() + row;
        let buffers = self.data.buffers();
        let range = || {
            let offsets: &[i32] = buffers[0].typed_data();
            offsets[at] as usize..offsets[at + 1] as usize
        };
        match self.layout {
            Layout::Null => {}
            Layout::Bits => out.push(u8::from(get_bit(&buffers[0], at))),
            Layout::Fixed(width) => out.extend_from_slice(&buffers[0][at * width..][..width]),
            Layout::Variable => {
                let value = &buffers[1][range()];
                put_varint(value.len() as u64, out);
                out.extend_from_slice(value);
            }
            Layout::List => {
                let range = range();
                put_varint(range.len() as u64, out);
                if let Some(child) = &self.child {
                    put_values(range.clone().map(|element| (&**child, element)), range.len(), out);
                }
            }
        }
    }
}

fn take_row(input: &mut Input<'_>, builders: &mut [Builder]) -> Result<(), Malformed> {
    let bitmap = input.take(builders.len().div_ceil(8))?;
    for (index, builder) in builders.iter_mut().enumerate() {
        if bitmap[index / 8] & (1 << (index % 8)) != 0 {
            builder.push_null();
        } else {
            builder.push(input)?;
        }
    }
    Ok(())
}

/// A column that grows value by value.
struct Builder {
    data_type: DataType,
    layout: Layout,
    length: usize,
    nulls: usize,
    validity: BooleanBufferBuilder,
    bits: BooleanBufferBuilder,
    offsets: Vec<i32>,
    bytes: MutableBuffer,
    child: Option<Box<Builder>>,
}

impl Builder {
    fn new(data_type: &DataType) -> Result<Self, Malformed> {
        let child = match data_type {
            DataType::List(element) => Some(Box::new(Builder::new(element.data_type())?)),
            _ => None,
        };
        Ok(Self {
            data_type: stored_form(data_type),
            layout: layout(data_type).ok_or(Malformed("type cannot be stored"))?,
            length: 0,
            nulls: 0,
            validity: BooleanBufferBuilder::new(0),
            bits: BooleanBufferBuilder::new(0),
            offsets: vec![0],
            bytes: MutableBuffer::new(0),
            child,
        })
    }

    fn push_null(&mut self) {
        self.length += 1;
        self.nulls += 1;
        self.validity.append(false);
        match self.layout {
            Layout::Null => {}
            Layout::Bits => self.bits.append(false),
            Layout::Fixed(width) => self.bytes.extend_zeros(width),
            Layout::Variable | Layout::List => self.offsets.push(self.offsets[self.offsets.len() - 1]),
        }
    }

    fn push(&mut self, input: &mut Input<'_>) -> Result<(), Malformed> {
        match self.layout {
            Layout::Null => return Err(Malformed("value of the null type")),
            Layout::Bits => match input.byte()? {
                bit @ (0 | 1) => self.bits.append(bit == 1),
                _ => return Err(Malformed("bool")),
            },
            Layout::Fixed(width) => self.bytes.extend_from_slice(input.take(width)?),
            Layout::Variable => {
                let length = input.length()?;
                self.bytes.extend_from_slice(input.take(length)?);
                self.push_offset(length)?;
            }
            Layout::List => {
                let Some(child) = &mut self.child else { return Err(Malformed("list without elements")) };
                let count = input.length()?;
                let bitmap = input.take(count.div_ceil(8))?;
                for index in 0..count {
                    if bitmap[index / 8] & (1 << (index % 8)) != 0 {
                        child.push_null();
                    } else {
                        child.push(input)?;
                    }
                }
                self.push_offset(count)?;
            }
        }
        self.length += 1;
        self.validity.append(true);
        Ok(())
    }

    fn push_offset(&mut self, length: usize) -> Result<(), Malformed> {
        let last = self.offsets[self.offsets.len() - 1];
        let next = i32::try_from(length).ok().and_then(|l| last.checked_add(l));
        self.offsets.push(next.ok_or(Malformed("more than 2 GiB in one column"))?);
        Ok(())
    }

    fn finish(mut self) -> Result<ArrayData, Malformed> {
        let mut builder = ArrayData::builder(self.data_type).len(self.length);
        if self.nulls > 0 && self.layout != Layout::Null {
            builder = builder.null_bit_buffer(Some(self.validity.finish().into_inner()));
        }
        builder = match self.layout {
            Layout::Null => builder,
            Layout::Bits => builder.add_buffer(self.bits.finish().into_inner()),
            Layout::Fixed(_) => builder.add_buffer(self.bytes.into()),
            Layout::Variable => builder.add_buffer(Buffer::from_vec(self.offsets)).add_buffer(self.bytes.into()),
            Layout::List => {
                let child = self.child.ok_or(Malformed("list without elements"))?.finish()?;
                builder.add_buffer(Buffer::from_vec(self.offsets)).add_child_data(child)
            }
        };
        builder.build().map_err(|_| Malformed("values do not fit the type"))
    }
}

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let end = self.at.checked_add(length).filter(|end| *end <= self.bytes.len());
        let taken = &self.bytes[self.at..end.ok_or(Malformed("cut short"))?];
        self.at += length;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed("varint too long"))
    }

    fn length(&mut self) -> Result<usize, Malformed> {
        usize::try_from(self.varint()?).map_err(|_| Malformed("length"))
    }
}

/// Seven bits a byte, least first; the high bit says that more follow.
fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
