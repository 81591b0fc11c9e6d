//! The Arrow types that can be stored, their names in files, and how their values lie in memory.
//! The names are part of the format: Arrow's own `Display` changes between versions, these never do.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray};
use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};

use super::Malformed;

/// Longest type name that is accepted, so that a hostile one cannot nest deeply.
pub(crate) const NAME_BYTES_MAX: usize = 128;
/// Deepest list of lists.
const DEPTH_MAX: usize = 6;

/// How a type's values lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// No bytes at all.
    Null,
    /// One bit a value.
    Bits,
    /// This many bytes a value, little-endian.
    Fixed(usize),
    /// i32 offsets, then bytes.
    Variable,
    /// i32 offsets, then a child array.
    List,
}

/// `None` for a type that cannot be stored.
pub(crate) fn layout(data_type: &DataType) -> Option<Layout> {
    Some(match data_type {
        DataType::Null => Layout::Null,
        DataType::Boolean => Layout::Bits,
        DataType::Int16 => Layout::Fixed(2),
        DataType::Int32 | DataType::UInt32 | DataType::Float32 | DataType::Date32 => Layout::Fixed(4),
        DataType::Int64 | DataType::Float64 => Layout::Fixed(8),
        DataType::Time64(TimeUnit::Microsecond) | DataType::Timestamp(TimeUnit::Microsecond, _) => Layout::Fixed(8),
        DataType::Decimal128(..) | DataType::Interval(IntervalUnit::MonthDayNano) => Layout::Fixed(16),
        DataType::FixedSizeBinary(16) => Layout::Fixed(16),
        DataType::Decimal256(..) => Layout::Fixed(32),
        DataType::Utf8 | DataType::Binary => Layout::Variable,
        DataType::List(element) => {
            layout(element.data_type())?;
            Layout::List
        }
        _ => return None,
    })
}

/// True if a column of this type can be written to a file or the journal.
pub(crate) fn is_storable(data_type: &DataType) -> bool {
    name(data_type).is_some_and(|n| parse(&n).is_ok())
}

/// The type's name in files. Names and metadata of list elements are the catalog's business and not stored.
pub(crate) fn name(data_type: &DataType) -> Option<String> {
    Some(match data_type {
        DataType::Null => "null".into(),
        DataType::Boolean => "bool".into(),
        DataType::Int16 => "int16".into(),
        DataType::Int32 => "int32".into(),
        DataType::Int64 => "int64".into(),
        DataType::UInt32 => "uint32".into(),
        DataType::Float32 => "float32".into(),
        DataType::Float64 => "float64".into(),
        DataType::Decimal128(precision, scale) => format!("decimal128({precision},{scale})"),
        DataType::Decimal256(precision, scale) => format!("decimal256({precision},{scale})"),
        DataType::Utf8 => "utf8".into(),
        DataType::Binary => "binary".into(),
        DataType::FixedSizeBinary(16) => "bytes16".into(),
        DataType::Date32 => "date32".into(),
        DataType::Time64(TimeUnit::Microsecond) => "time64".into(),
        DataType::Timestamp(TimeUnit::Microsecond, None) => "timestamp".into(),
        DataType::Timestamp(TimeUnit::Microsecond, Some(zone)) => format!("timestamp({zone})"),
        DataType::Interval(IntervalUnit::MonthDayNano) => "interval".into(),
        DataType::List(element) => format!("list({})", name(element.data_type())?),
        _ => return None,
    })
}

/// The type of that name.
pub(crate) fn parse(text: &str) -> Result<DataType, Malformed> {
    if text.len() > NAME_BYTES_MAX {
        return Err(Malformed("type name too long"));
    }
    parse_nested(text, 0)
}

fn parse_nested(text: &str, depth: usize) -> Result<DataType, Malformed> {
    const UNKNOWN: Malformed = Malformed("unknown type name");
    let (head, argument) = match text.split_once('(') {
        Some((head, rest)) => (head, Some(rest.strip_suffix(')').ok_or(UNKNOWN)?)),
        None => (text, None),
    };
    Ok(match (head, argument) {
        ("null", None) => DataType::Null,
        ("bool", None) => DataType::Boolean,
        ("int16", None) => DataType::Int16,
        ("int32", None) => DataType::Int32,
        ("int64", None) => DataType::Int64,
        ("uint32", None) => DataType::UInt32,
        ("float32", None) => DataType::Float32,
        ("float64", None) => DataType::Float64,
        ("utf8", None) => DataType::Utf8,
        ("binary", None) => DataType::Binary,
        ("bytes16", None) => DataType::FixedSizeBinary(16),
        ("date32", None) => DataType::Date32,
        ("time64", None) => DataType::Time64(TimeUnit::Microsecond),
        ("timestamp", None) => DataType::Timestamp(TimeUnit::Microsecond, None),
        ("timestamp", Some(zone)) if !zone.is_empty() && !zone.contains(['(', ')']) => {
            DataType::Timestamp(TimeUnit::Microsecond, Some(zone.into()))
        }
        ("interval", None) => DataType::Interval(IntervalUnit::MonthDayNano),
        ("decimal128", Some(arguments)) => {
            let (precision, scale) = precision_and_scale(arguments, 38)?;
            DataType::Decimal128(precision, scale)
        }
        ("decimal256", Some(arguments)) => {
            let (precision, scale) = precision_and_scale(arguments, 76)?;
            DataType::Decimal256(precision, scale)
        }
        ("list", Some(element)) if depth < DEPTH_MAX => {
            DataType::List(Arc::new(Field::new_list_field(parse_nested(element, depth + 1)?, true)))
        }
        _ => return Err(UNKNOWN),
    })
}

fn precision_and_scale(text: &str, precision_max: u8) -> Result<(u8, i8), Malformed> {
    const BAD: Malformed = Malformed("bad precision or scale in type name");
    let (precision, scale) = text.split_once(',').ok_or(BAD)?;
    let precision: u8 = precision.parse().map_err(|_| BAD)?;
    let scale: i8 = scale.parse().map_err(|_| BAD)?;
    let fits = (1..=precision_max).contains(&precision) && i16::from(scale) <= i16::from(precision);
    if fits { Ok((precision, scale)) } else { Err(BAD) }
}

/// Gives a stored array the catalog's type, which may differ in the names and metadata of list elements alone.
/// `None` if it differs in more.
pub(crate) fn adopt(array: &ArrayRef, target: &DataType) -> Option<ArrayRef> {
    if array.data_type() == target {
        return Some(array.clone());
    }
    match (array.data_type(), target) {
        (DataType::List(_), DataType::List(element)) => {
            let list = array.as_list::<i32>();
            let values = adopt(list.values(), element.data_type())?;
            let list = ListArray::try_new(element.clone(), list.offsets().clone(), values, list.nulls().cloned());
            Some(Arc::new(list.ok()?))
        }
        _ => None,
    }
}

/// The type as files know it: list elements without their own names and metadata.
pub(crate) fn stored_form(data_type: &DataType) -> DataType {
    match data_type {
        DataType::List(element) => {
            DataType::List(Arc::new(Field::new_list_field(stored_form(element.data_type()), true)))
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_storable_type_is_found_again_by_its_name() {
        for data_type in super::super::samples::all_types() {
            let name = name(&data_type).unwrap();
            assert_eq!(parse(&name), Ok(data_type), "{name}");
        }
    }

    #[test]
    fn unknown_and_hostile_names_are_refused() {
        let deep = "list(".repeat(20) + "int32" + &")".repeat(20);
        for text in
            ["", "int", "decimal128(39,0)", "decimal128(0,0)", "decimal128(5,6)", "list(", "list()", "timestamp()"]
                .into_iter()
                .chain([deep.as_str()])
        {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(!is_storable(&DataType::LargeUtf8));
    }
}
