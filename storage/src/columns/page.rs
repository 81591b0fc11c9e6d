//! One column of some rows as Arrow's own buffers, each from a multiple of 64 bytes on.
//! Buffers lie in depth-first order: validity (empty when no value is null), then values or offsets and data, then the
//! child's. Reading back is validated in full and copies nothing if memory is aligned.

use arrow::array::{Array, ArrayData, ArrayRef, make_array};
use arrow::buffer::Buffer;
use arrow::datatypes::DataType;

use super::column_type::{Layout, layout};
use super::{Malformed, align_up};

/// The buffers of an array, sliced to its own rows. `None` if the type cannot be stored.
pub(crate) fn buffers_of(array: &dyn Array) -> Option<Vec<Buffer>> {
    let mut buffers = Vec::new();
    collect(&array.to_data(), &mut buffers)?;
    Some(buffers)
}

fn collect(data: &ArrayData, buffers: &mut Vec<Buffer>) -> Option<()> {
    let (offset, length) = (data.offset(), data.len());
    let layout = layout(data.data_type())?;
    if layout == Layout::Null {
        return Some(());
    }
    buffers.push(match data.nulls() {
        Some(nulls) if nulls.null_count() > 0 => nulls.inner().sliced(),
        _ => Buffer::default(),
    });
    match layout {
        Layout::Null => {}
        Layout::Bits => buffers.push(data.buffers()[0].bit_slice(offset, length)),
        Layout::Fixed(width) => buffers.push(data.buffers()[0].slice_with_length(offset * width, length * width)),
        Layout::Variable => {
            let (offsets, start, end) = rebased_offsets(data);
            buffers.push(offsets);
            buffers.push(data.buffers()[1].slice_with_length(start, end - start));
        }
        Layout::List => {
            let (offsets, start, end) = rebased_offsets(data);
            buffers.push(offsets);
            collect(&data.child_data()[0].slice(start, end - start), buffers)?;
        }
    }
    Some(())
}

/// Offsets that start at 0, and the range of data they stood for.
fn rebased_offsets(data: &ArrayData) -> (Buffer, usize, usize) {
    if data.is_empty() {
        return (Buffer::from_vec(vec![0i32]), 0, 0);
    }
    let all: &[i32] = data.buffers()[0].typed_data();
    let own = &all[data.offset()..=data.offset() + data.len()];
    let (start, end) = (own[0], own[data.len()]);
    let offsets = if start == 0 {
        data.buffers()[0].slice_with_length(data.offset() * 4, own.len() * 4)
    } else {
        Buffer::from_vec(own.iter().map(|o| o - start).collect())
    };
    (offsets, start as usize, end as usize)
}

/// Bytes that [`append_body`] adds.
pub(crate) fn body_bytes(buffers: &[Buffer]) -> usize {
    buffers.iter().map(|b| align_up(b.len())).sum()
}

/// Appends the buffers, each padded with zeros to the alignment. `out` must be aligned itself.
pub(crate) fn append_body(buffers: &[Buffer], out: &mut Vec<u8>) {
    for buffer in buffers {
        out.extend_from_slice(buffer);
        out.resize(align_up(out.len()), 0);
    }
}

/// Cuts a body into the buffers of these lengths.
pub(crate) fn split_body(body: &Buffer, lengths: impl Iterator<Item = u64>) -> Result<Vec<Buffer>, Malformed> {
    let mut buffers = Vec::new();
    let mut at = 0usize;
    for length in lengths {
        let length = usize::try_from(length).map_err(|_| Malformed("buffer too long"))?;
        let end =
            at.checked_add(length).filter(|end| *end <= body.len()).ok_or(Malformed("buffer outside its page"))?;
        buffers.push(body.slice_with_length(at, length));
        at = align_up(end);
    }
    Ok(buffers)
}

/// The array that the buffers hold.
pub(crate) fn array_from(data_type: &DataType, rows: usize, buffers: Vec<Buffer>) -> Result<ArrayRef, Malformed> {
    let mut buffers = buffers.into_iter();
    let data = build(data_type, rows, &mut buffers)?;
    if buffers.next().is_some() {
        return Err(Malformed("more buffers than the type has"));
    }
    Ok(make_array(data))
}

fn build(
    data_type: &DataType,
    rows: usize,
    buffers: &mut impl Iterator<Item = Buffer>,
) -> Result<ArrayData, Malformed> {
    const MISSING: Malformed = Malformed("fewer buffers than the type has");
    const SHORT: Malformed = Malformed("buffer shorter than its rows need");
    let layout = layout(data_type).ok_or(Malformed("type cannot be stored"))?;
    let mut builder = ArrayData::builder(data_type.clone()).len(rows).align_buffers(true);
    if layout != Layout::Null {
        let validity = buffers.next().ok_or(MISSING)?;
        if !validity.is_empty() {
            if validity.len() < rows.div_ceil(8) {
                return Err(SHORT);
            }
            builder = builder.null_bit_buffer(Some(validity));
        }
    }
    match layout {
        Layout::Null => {}
        Layout::Bits => {
            let bits = buffers.next().ok_or(MISSING)?;
            if bits.len() < rows.div_ceil(8) {
                return Err(SHORT);
            }
            builder = builder.add_buffer(bits);
        }
        Layout::Fixed(width) => {
            let values = buffers.next().ok_or(MISSING)?;
            if rows.checked_mul(width).is_none_or(|needed| values.len() < needed) {
                return Err(SHORT);
            }
            builder = builder.add_buffer(values);
        }
        Layout::Variable => {
            let (offsets, _) = checked_offsets(buffers.next().ok_or(MISSING)?, rows)?;
            builder = builder.add_buffer(offsets).add_buffer(buffers.next().ok_or(MISSING)?);
        }
        Layout::List => {
            let DataType::List(element) = data_type else { return Err(Malformed("not a list")) };
            let (offsets, child_rows) = checked_offsets(buffers.next().ok_or(MISSING)?, rows)?;
            let child = build(element.data_type(), child_rows, buffers)?;
            builder = builder.add_buffer(offsets).add_child_data(child);
        }
    }
    // Full validation: offsets ascend and end inside their data, text is UTF-8.
    builder.build().map_err(|_| Malformed("values do not fit the type"))
}

fn checked_offsets(offsets: Buffer, rows: usize) -> Result<(Buffer, usize), Malformed> {
    let needed = rows.checked_add(1).and_then(|n| n.checked_mul(4)).ok_or(Malformed("too many rows"))?;
    if offsets.len() != needed {
        return Err(Malformed("offsets do not match the rows"));
    }
    let last = i32::from_le_bytes([offsets[needed - 4], offsets[needed - 3], offsets[needed - 2], offsets[needed - 1]]);
    let last = usize::try_from(last).map_err(|_| Malformed("negative offset"))?;
    Ok((offsets, last))
}

/// Bytes the rows of an array take, counting only its own rows.
pub(crate) fn array_bytes(array: &dyn Array) -> usize {
    let data = array.to_data();
    data.get_slice_memory_size().unwrap_or_else(|_| data.get_array_memory_size())
}
