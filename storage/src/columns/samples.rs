//! Seeded values of every storable type, for tests.

use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::*;

use super::column_field;
use crate::base::ids::ColumnId;

/// A small seeded generator (splitmix64).
pub(crate) struct Chance(pub u64);

impl Chance {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

fn scalar_types() -> Vec<DataType> {
    vec![
        DataType::Null,
        DataType::Boolean,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt32,
        DataType::Float32,
        DataType::Float64,
        DataType::Decimal128(38, 4),
        DataType::Decimal256(76, 20),
        DataType::Utf8,
        DataType::Binary,
        DataType::FixedSizeBinary(16),
        DataType::Date32,
        DataType::Time64(TimeUnit::Microsecond),
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::Interval(IntervalUnit::MonthDayNano),
    ]
}

fn list_of(element: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(element, true)))
}

pub(crate) fn all_types() -> Vec<DataType> {
    let mut types = scalar_types();
    types.extend(scalar_types().into_iter().map(list_of));
    types.push(list_of(list_of(DataType::Utf8)));
    types
}

/// Random values; nulls too unless `nulls` is false. Few distinct ones in some columns, so that runs occur.
pub(crate) fn array(data_type: &DataType, rows: usize, nulls: bool, chance: &mut Chance) -> ArrayRef {
    let null_share = [0, 3, 10][chance.below(3)];
    let runs = chance.below(3) == 0;
    let mut last = chance.next();
    let mut draw = |chance: &mut Chance| {
        if !runs || chance.below(40) == 0 {
            last = chance.next();
        }
        (!(nulls && chance.below(10) < null_share)).then_some(last)
    };
    macro_rules! numbers {
        ($array:ty, $of:expr) => {
            Arc::new((0..rows).map(|_| draw(chance).map($of)).collect::<$array>())
        };
    }
    match data_type {
        DataType::Null => Arc::new(NullArray::new(rows)),
        DataType::Boolean => numbers!(BooleanArray, |v| v % 2 == 0),
        DataType::Int16 => numbers!(Int16Array, |v| v as i16),
        DataType::Int32 => numbers!(Int32Array, |v| v as i32),
        DataType::Int64 => numbers!(Int64Array, |v| v as i64),
        DataType::UInt32 => numbers!(UInt32Array, |v| v as u32),
        DataType::Float32 => numbers!(Float32Array, |v| f32::from_bits(v as u32)),
        DataType::Float64 => numbers!(Float64Array, f64::from_bits),
        DataType::Date32 => numbers!(Date32Array, |v| v as i32),
        DataType::Time64(_) => numbers!(Time64MicrosecondArray, |v| (v % 86_400_000_000) as i64),
        DataType::Timestamp(_, zone) => {
            let values: TimestampMicrosecondArray = (0..rows).map(|_| draw(chance).map(|v| v as i64)).collect();
            Arc::new(values.with_timezone_opt(zone.clone()))
        }
        DataType::Decimal128(precision, scale) => {
            let values: Decimal128Array = (0..rows).map(|_| draw(chance).map(|v| v as i128 - 7)).collect();
            Arc::new(values.with_precision_and_scale(*precision, *scale).unwrap())
        }
        DataType::Decimal256(precision, scale) => {
            let values: Decimal256Array =
                (0..rows).map(|_| draw(chance).map(|v| i256::from_i128(v as i128 * -3))).collect();
            Arc::new(values.with_precision_and_scale(*precision, *scale).unwrap())
        }
        DataType::Interval(_) => numbers!(IntervalMonthDayNanoArray, |v| {
            IntervalMonthDayNano::new(v as i32 % 99, (v >> 32) as i32 % 99, (v as i64 % 1_000_000) * 1_000)
        }),
        DataType::Utf8 => Arc::new(
            (0..rows)
                .map(|_| draw(chance).map(|v| "zaß☃".chars().cycle().take((v % 17) as usize).collect::<String>()))
                .collect::<StringArray>(),
        ),
        DataType::Binary => Arc::new(
            (0..rows).map(|_| draw(chance).map(|v| vec![v as u8; (v >> 8) as usize % 21])).collect::<BinaryArray>(),
        ),
        DataType::FixedSizeBinary(_) => {
            let values = (0..rows).map(|_| draw(chance).map(|v| (u128::from(v) * 3).to_le_bytes()));
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, 16).unwrap())
        }
        DataType::List(element) => {
            let lengths: Vec<Option<usize>> = (0..rows).map(|_| draw(chance).map(|v| (v % 4) as usize)).collect();
            let values = array(element.data_type(), lengths.iter().flatten().sum(), nulls, chance);
            let offsets = arrow::buffer::OffsetBuffer::from_lengths(lengths.iter().map(|l| l.unwrap_or(0)));
            let validity = arrow::buffer::NullBuffer::from_iter(lengths.iter().map(Option::is_some));
            Arc::new(ListArray::new(element.clone(), offsets, values, Some(validity)))
        }
        other => unreachable!("no sample of {other}"),
    }
}

/// A batch with a column of every type, ids from 1, some of them slices of longer arrays.
pub(crate) fn batch(rows: usize, chance: &mut Chance) -> RecordBatch {
    let columns: Vec<(ColumnId, ArrayRef)> = all_types()
        .iter()
        .enumerate()
        .map(|(index, data_type)| {
            let (before, after) = (chance.below(11), chance.below(11));
            let values = array(data_type, before + rows + after, chance.below(3) > 0, chance);
            (ColumnId(index as u16 + 1), values.slice(before, rows))
        })
        .collect();
    batch_of(columns)
}

pub(crate) fn batch_of(columns: Vec<(ColumnId, ArrayRef)>) -> RecordBatch {
    let fields: Vec<Field> = columns.iter().map(|(id, a)| column_field(*id, a.data_type().clone())).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|(_, a)| a).collect()).unwrap()
}
