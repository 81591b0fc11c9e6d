//! One cell of a catalog relation or one result of a catalog function, and columns of them as Arrow arrays.
//! Owns the way from text recorded from PostgreSQL to cells; the types themselves are `exec`'s.

use std::sync::Arc;

use alluvium_exec::planning::types::{PgType, arrow_type, element_of, field_ref};
use alluvium_exec::sql::error::{Result, SqlError, SqlState};
use arrow::array::{
    ArrayRef, BooleanArray, Float32Array, Float64Array, Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray,
    ListArray, StringArray, TimestampMicrosecondArray, UInt32Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, IntervalMonthDayNano, TimeUnit};

/// A value before its column says how wide it is.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    /// Integers, OIDs, and timestamps in microseconds since the Unix epoch.
    Int(i64),
    Float(f64),
    Text(String),
    /// Microseconds.
    Interval(i64),
    List(Vec<Value>),
}

impl Value {
    /// What a column that is never null holds where nothing is said: false, zero, empty.
    pub fn zero(t: PgType) -> Self {
        if element_of(t.oid).is_some() {
            return Self::List(Vec::new());
        }
        match arrow_type(t) {
            Some(DataType::Boolean) => Self::Bool(false),
            Some(DataType::Utf8) | None => Self::Text(String::new()),
            Some(DataType::Float32 | DataType::Float64) => Self::Float(0.0),
            Some(DataType::Interval(_)) => Self::Interval(0),
            Some(_) => Self::Int(0),
        }
    }

    /// From the text that COPY gave, `None` = null.
    pub fn recorded(text: Option<&str>, t: PgType) -> Result<Self> {
        let Some(text) = text else { return Ok(Self::Null) };
        if let Some(element) = element_of(t.oid) {
            let element = PgType { oid: element, modifier: t.modifier };
            let inner = text.strip_prefix('{').and_then(|s| s.strip_suffix('}'));
            let items: Vec<&str> = match inner {
                Some("") => Vec::new(),
                Some(list) => list.split(',').collect(),
                None => text.split_ascii_whitespace().collect(),
            };
            let items = items.into_iter().map(|i| Self::recorded(Some(i.trim_matches('"')), element));
            return Ok(Self::List(items.collect::<Result<_>>()?));
        }
        let bad = || internal(format!("recorded value \"{text}\" is not of type {}", t.oid));
        Ok(match arrow_type(t) {
            Some(DataType::Boolean) => Self::Bool(text == "t"),
            Some(DataType::Float32 | DataType::Float64) => Self::Float(text.parse().map_err(|_| bad())?),
            Some(DataType::Utf8) | None => Self::Text(text.to_owned()),
            Some(_) => Self::Int(text.parse().map_err(|_| bad())?),
        })
    }
}

macro_rules! from {
    ($($from:ty => |$v:ident| $to:expr),* $(,)?) => {
        $(impl From<$from> for Value { fn from($v: $from) -> Self { $to } })*
    };
}

from! {
    bool => |v| Value::Bool(v),
    i16 => |v| Value::Int(v.into()),
    i32 => |v| Value::Int(v.into()),
    i64 => |v| Value::Int(v),
    u16 => |v| Value::Int(v.into()),
    u32 => |v| Value::Int(v.into()),
    f64 => |v| Value::Float(v),
    &str => |v| Value::Text(v.to_owned()),
    String => |v| Value::Text(v),
    &String => |v| Value::Text(v.clone()),
    char => |v| Value::Text(v.to_string()),
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(values: Vec<T>) -> Self {
        Value::List(values.into_iter().map(Into::into).collect())
    }
}

pub fn internal(message: String) -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, message)
}

/// The values as a column of the type.
pub fn column(values: Vec<Value>, t: PgType) -> Result<ArrayRef> {
    if let Some(element) = element_of(t.oid) {
        return list(values, PgType { oid: element, modifier: t.modifier });
    }
    let wrong = |v: &Value| internal(format!("{v:?} in a catalog column of type {}", t.oid));
    macro_rules! numbers {
        ($array:ty, $native:ty) => {{
            let cells = values.iter().map(|v| match v {
                Value::Null => Ok(None),
                Value::Int(n) => <$native>::try_from(*n).map(Some).map_err(|_| wrong(v)),
                other => Err(wrong(other)),
            });
            <$array>::from(cells.collect::<Result<Vec<Option<$native>>>>()?)
        }};
    }
    macro_rules! cells {
        ($($pattern:pat => $cell:expr),*) => {
            values.iter().map(|v| match v {
                Value::Null => Ok(None),
                $($pattern => Ok(Some($cell)),)*
                other => Err(wrong(other)),
            }).collect::<Result<Vec<_>>>()?
        };
    }
    Ok(match arrow_type(t) {
        Some(DataType::Boolean) => Arc::new(BooleanArray::from(cells!(Value::Bool(b) => *b))),
        Some(DataType::Int16) => Arc::new(numbers!(Int16Array, i16)),
        Some(DataType::Int32) => Arc::new(numbers!(Int32Array, i32)),
        Some(DataType::Int64) => Arc::new(numbers!(Int64Array, i64)),
        Some(DataType::UInt32) => Arc::new(numbers!(UInt32Array, u32)),
        Some(DataType::Float32) => Arc::new(Float32Array::from(cells!(Value::Float(f) => *f as f32))),
        Some(DataType::Float64) => Arc::new(Float64Array::from(cells!(Value::Float(f) => *f))),
        Some(DataType::Timestamp(TimeUnit::Microsecond, zone)) => {
            Arc::new(numbers!(TimestampMicrosecondArray, i64).with_timezone_opt(zone))
        }
        Some(DataType::Interval(_)) => {
            let nanos = cells!(Value::Interval(us) => IntervalMonthDayNano::new(0, 0, us.saturating_mul(1_000)));
            Arc::new(IntervalMonthDayNanoArray::from(nanos))
        }
        Some(DataType::Utf8) | None => Arc::new(StringArray::from(cells!(Value::Text(s) => s.as_str()))),
        Some(other) => {
            if let Some(v) = values.iter().find(|v| **v != Value::Null) {
                return Err(wrong(v));
            }
            arrow::array::new_null_array(&other, values.len())
        }
    })
}

fn list(values: Vec<Value>, element: PgType) -> Result<ArrayRef> {
    let mut lengths = Vec::with_capacity(values.len());
    let mut valid = Vec::with_capacity(values.len());
    let mut items = Vec::new();
    for value in values {
        match value {
            Value::Null => {
                lengths.push(0);
                valid.push(false);
            }
            Value::List(list) => {
                lengths.push(list.len());
                valid.push(true);
                items.extend(list);
            }
            other => return Err(internal(format!("{other:?} in a catalog column of arrays"))),
        }
    }
    let item = field_ref("item", element);
    let items = column(items, element)?;
    let array = ListArray::try_new(item, OffsetBuffer::from_lengths(lengths), items, Some(NullBuffer::from(valid)));
    Ok(Arc::new(array.map_err(|e| internal(e.to_string()))?))
}
