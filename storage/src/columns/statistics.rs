//! Smallest and greatest value of a page, in the order of the type, as the value's own little-endian bytes.
//! Absent where the type has no order that pruning could use (lists, intervals), and for floats with a NaN.

use std::cmp::Ordering;

use arrow::array::{Array, AsArray, PrimitiveArray};
use arrow::compute::{max, max_binary, max_boolean, max_string, min, min_binary, min_boolean, min_string};
use arrow::datatypes::{
    ArrowNativeType, ArrowNumericType, DataType, Date32Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type,
    Int16Type, Int32Type, Int64Type, Time64MicrosecondType, TimestampMicrosecondType, ToByteSlice, UInt32Type, i256,
};

/// Texts beyond this are not kept: a longer minimum is cut (still a lower bound), a longer maximum is left out.
const TEXT_BYTES_MAX: usize = 64;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MinMax {
    pub min: Option<Vec<u8>>,
    pub max: Option<Vec<u8>>,
}

pub(crate) fn min_max(array: &dyn Array) -> MinMax {
    match array.data_type() {
        DataType::Boolean => {
            let bits = array.as_boolean();
            let byte = |b: Option<bool>| b.map(|b| vec![u8::from(b)]);
            MinMax { min: byte(min_boolean(bits)), max: byte(max_boolean(bits)) }
        }
        DataType::Int16 => numbers(array.as_primitive::<Int16Type>()),
        DataType::Int32 => numbers(array.as_primitive::<Int32Type>()),
        DataType::Int64 => numbers(array.as_primitive::<Int64Type>()),
        DataType::UInt32 => numbers(array.as_primitive::<UInt32Type>()),
        DataType::Date32 => numbers(array.as_primitive::<Date32Type>()),
        DataType::Time64(_) => numbers(array.as_primitive::<Time64MicrosecondType>()),
        DataType::Timestamp(..) => numbers(array.as_primitive::<TimestampMicrosecondType>()),
        DataType::Decimal128(..) => numbers(array.as_primitive::<Decimal128Type>()),
        DataType::Decimal256(..) => numbers(array.as_primitive::<Decimal256Type>()),
        DataType::Float32 if array.as_primitive::<Float32Type>().iter().flatten().all(|v| !v.is_nan()) => {
            numbers(array.as_primitive::<Float32Type>())
        }
        DataType::Float64 if array.as_primitive::<Float64Type>().iter().flatten().all(|v| !v.is_nan()) => {
            numbers(array.as_primitive::<Float64Type>())
        }
        DataType::Utf8 => {
            let texts = array.as_string::<i32>();
            bounded(min_string(texts).map(str::as_bytes), max_string(texts).map(str::as_bytes))
        }
        DataType::Binary => {
            let values = array.as_binary::<i32>();
            bounded(min_binary(values), max_binary(values))
        }
        DataType::FixedSizeBinary(_) => {
            let values = array.as_fixed_size_binary();
            bounded(values.iter().flatten().min(), values.iter().flatten().max())
        }
        _ => MinMax::default(),
    }
}

fn numbers<T: ArrowNumericType>(array: &PrimitiveArray<T>) -> MinMax
where
    T::Native: ArrowNativeType,
{
    let bytes = |value: Option<T::Native>| value.map(|v| v.to_byte_slice().to_vec());
    MinMax { min: bytes(min(array)), max: bytes(max(array)) }
}

fn bounded(min: Option<&[u8]>, max: Option<&[u8]>) -> MinMax {
    MinMax {
        min: min.map(|m| m[..m.len().min(TEXT_BYTES_MAX)].to_vec()),
        max: max.filter(|m| m.len() <= TEXT_BYTES_MAX).map(<[u8]>::to_vec),
    }
}

/// The order of two statistics of one type.
pub(crate) fn order(data_type: &DataType, a: &[u8], b: &[u8]) -> Ordering {
    fn both<const N: usize, T>(a: &[u8], b: &[u8], of: impl Fn([u8; N]) -> T) -> Option<(T, T)> {
        Some((of(a.try_into().ok()?), of(b.try_into().ok()?)))
    }
    let ordered = match data_type {
        DataType::Int16 => both(a, b, i16::from_le_bytes).map(|(a, b)| a.cmp(&b)),
        DataType::Int32 | DataType::Date32 => both(a, b, i32::from_le_bytes).map(|(a, b)| a.cmp(&b)),
        DataType::UInt32 => both(a, b, u32::from_le_bytes).map(|(a, b)| a.cmp(&b)),
        DataType::Int64 | DataType::Time64(_) | DataType::Timestamp(..) => {
            both(a, b, i64::from_le_bytes).map(|(a, b)| a.cmp(&b))
        }
        DataType::Float32 => both(a, b, f32::from_le_bytes).map(|(a, b)| a.total_cmp(&b)),
        DataType::Float64 => both(a, b, f64::from_le_bytes).map(|(a, b)| a.total_cmp(&b)),
        DataType::Decimal128(..) => both(a, b, i128::from_le_bytes).map(|(a, b)| a.cmp(&b)),
        DataType::Decimal256(..) => both(a, b, i256::from_le_bytes).map(|(a, b)| a.cmp(&b)),
        _ => None,
    };
    ordered.unwrap_or_else(|| a.cmp(b))
}
