//! Casts between PostgreSQL's types: which are allowed where, and what they do to an array.
//! Owns the text forms of single values; `datetime` and `decimal` own theirs.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Float32Array, Float64Array, Int16Array, Int32Array, Int64Array, ListArray,
    StringArray, UInt32Array, new_null_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, IntervalMonthDayNano};

use super::datetime::{self, DAY_US, Moment};
use super::decimal::Decimal;
use super::kernel::{self as k, Cell, NumArray, build_numeric, wrong_array};
use super::types::{PgType, arrow_type, element_of, field, format_type, is_oid_alias, oid};
use crate::sql::error::{Result, SqlError, SqlState};

/// Where a cast may happen without being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CastContext {
    /// Anywhere.
    Implicit,
    /// Into a column.
    Assignment,
    /// Only where the user says so.
    Explicit,
}

pub fn is_text(type_oid: u32) -> bool {
    matches!(type_oid, oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::NAME | oid::UNKNOWN | oid::CHAR)
}

pub fn is_integer(type_oid: u32) -> bool {
    matches!(type_oid, oid::INT2 | oid::INT4 | oid::INT8)
}

pub fn is_number(type_oid: u32) -> bool {
    is_integer(type_oid) || matches!(type_oid, oid::FLOAT4 | oid::FLOAT8 | oid::NUMERIC)
}

fn rank(type_oid: u32) -> Option<u8> {
    [oid::INT2, oid::INT4, oid::INT8, oid::NUMERIC, oid::FLOAT4, oid::FLOAT8]
        .iter()
        .position(|o| *o == type_oid)
        .map(|p| p as u8)
}

/// The least context that allows the cast; `None` = there is none.
pub fn cast_context(from: u32, to: u32) -> Option<CastContext> {
    use CastContext::{Assignment, Explicit, Implicit};
    if from == to || from == oid::UNKNOWN {
        return Some(Implicit);
    }
    if let (Some(a), Some(b)) = (rank(from), rank(to)) {
        return Some(if a < b { Implicit } else { Assignment });
    }
    let is_oid = |t: u32| t == oid::OID || is_oid_alias(t);
    match (from, to) {
        (a, b) if is_integer(a) && is_oid(b) => return Some(Implicit),
        (a, b) if is_oid(a) && matches!(b, oid::INT4 | oid::INT8) => return Some(Assignment),
        (a, oid::OID) if is_oid_alias(a) => return Some(Implicit),
        (oid::OID, b) if is_oid_alias(b) => return Some(Implicit),
        (oid::REGPROC, oid::REGPROCEDURE) | (oid::REGPROCEDURE, oid::REGPROC) => return Some(Implicit),
        (oid::TEXT | oid::VARCHAR, oid::REGCLASS) => return Some(Implicit),
        (oid::INT2VECTOR, 1005) | (oid::OIDVECTOR, 1028) => return Some(Implicit),
        (oid::DATE, oid::TIMESTAMP | oid::TIMESTAMPTZ) | (oid::TIMESTAMP, oid::TIMESTAMPTZ) => return Some(Implicit),
        (oid::TIME, oid::INTERVAL) => return Some(Implicit),
        (oid::TIMESTAMP, oid::DATE | oid::TIME)
        | (oid::TIMESTAMPTZ, oid::DATE | oid::TIME | oid::TIMESTAMP)
        | (oid::INTERVAL, oid::TIME)
        | (oid::JSON, oid::JSONB)
        | (oid::JSONB, oid::JSON) => return Some(Assignment),
        (oid::INT4, oid::BOOL) | (oid::BOOL, oid::INT4) | (oid::INT4, oid::CHAR) | (oid::CHAR, oid::INT4) => {
            return Some(Explicit);
        }
        (oid::JSONB, t) if is_number(t) || t == oid::BOOL => return Some(Explicit),
        (oid::CHAR, t) if is_text(t) => return Some(if t == oid::TEXT { Implicit } else { Assignment }),
        (a, oid::CHAR) if is_text(a) => return Some(Assignment),
        (a, b) if is_text(a) && is_text(b) => return Some(Implicit),
        _ => {}
    }
    if let (Some(a), Some(b)) = (element_of(from), element_of(to)) {
        return cast_context(a, b).or(Some(Explicit));
    }
    if from == oid::VOID || to == oid::VOID || to == oid::ANYARRAY {
        return None;
    }
    if is_text(to) {
        return Some(Assignment);
    }
    if is_text(from) && to != oid::RECORD {
        return Some(Explicit);
    }
    None
}

pub fn cannot_cast(from: PgType, to: PgType) -> SqlError {
    let message = format!("cannot cast type {} to {}", format_type(from), format_type(PgType::of(to.oid)));
    SqlError::new(SqlState::CANNOT_COERCE, message)
}

pub fn invalid_text(type_name: &str, text: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for type {type_name}: \"{text}\""),
    )
}

fn range(what: &str) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{what} out of range"))
}

/// Casts every value. `explicit` truncates to a length where an assignment would fail.
pub fn cast_array(array: &ArrayRef, from: PgType, to: PgType, explicit: bool, moment: Moment) -> Result<ArrayRef> {
    let target = arrow_type(to).ok_or_else(|| cannot_cast(from, to))?;
    if array.data_type() == &DataType::Null {
        return Ok(new_null_array(&target, array.len()));
    }
    if let (Some(a), Some(b)) = (element_of(from.oid), element_of(to.oid)) {
        let (a, b) = (PgType { oid: a, modifier: from.modifier }, PgType { oid: b, modifier: to.modifier });
        return cast_list(array, a, b, explicit, moment);
    }
    if is_text(to.oid) {
        let text = text_of(array, from, moment)?;
        return fit_text(&text, to, explicit || from.oid != to.oid && !is_text(from.oid));
    }
    if from.oid == oid::JSONB && !matches!(to.oid, oid::JSON | oid::JSONB) {
        let text = text_of(array, from, moment)?;
        let plain: StringArray = text.iter().map(|t| t.filter(|t| *t != "null").map(str::to_owned)).collect();
        return parse_array(&plain, to, moment);
    }
    if is_text(from.oid) {
        return parse_array(k::Txt::down(array)?, to, moment);
    }
    match to.oid {
        oid::INT2 => Ok(Arc::new(Int16Array::from(
            integers(array, from, i64::from(i16::MIN), i64::from(i16::MAX), "smallint")?
                .into_iter()
                .map(|v| v.map(|v| v as i16))
                .collect::<Vec<_>>(),
        ))),
        oid::INT4 => Ok(Arc::new(Int32Array::from(
            integers(array, from, i64::from(i32::MIN), i64::from(i32::MAX), "integer")?
                .into_iter()
                .map(|v| v.map(|v| v as i32))
                .collect::<Vec<_>>(),
        ))),
        oid::INT8 => Ok(Arc::new(Int64Array::from(integers(array, from, i64::MIN, i64::MAX, "bigint")?))),
        oid::OID | oid::XID | oid::CID => oids(array, from),
        t if is_oid_alias(t) => oids(array, from),
        oid::FLOAT4 => {
            let values = floats(array, from)?;
            let narrow = values.into_iter().map(|v| match v {
                Some(v) if v.is_finite() && (v as f32).is_infinite() => Err(range("value")),
                other => Ok(other.map(|v| v as f32)),
            });
            Ok(Arc::new(Float32Array::from(narrow.collect::<Result<Vec<_>>>()?)))
        }
        oid::FLOAT8 => Ok(Arc::new(Float64Array::from(floats(array, from)?))),
        oid::NUMERIC => build_numeric(numerics(array, from)?, &target),
        oid::BOOL if from.oid == oid::INT4 => {
            let a = k::I4::down(array)?;
            Ok(Arc::new(a.iter().map(|v| v.map(|v| v != 0)).collect::<BooleanArray>()))
        }
        oid::JSONB if from.oid == oid::JSON => {
            let text = k::Txt::down(array)?;
            let out = text.iter().map(|t| t.map(super::json::canonical).transpose()).collect::<Result<Vec<_>>>()?;
            Ok(Arc::new(StringArray::from(out)))
        }
        oid::JSON if from.oid == oid::JSONB => Ok(array.clone()),
        oid::DATE | oid::TIME | oid::TIMESTAMP | oid::TIMESTAMPTZ | oid::INTERVAL => times(array, from, to, moment),
        _ if from.oid == to.oid => Ok(array.clone()),
        _ => Err(cannot_cast(from, to)),
    }
}

fn cast_list(array: &ArrayRef, from: PgType, to: PgType, explicit: bool, moment: Moment) -> Result<ArrayRef> {
    let list = k::List::down(array)?;
    // An array of two dimensions is a list of lists of the same PostgreSQL type.
    let values = if matches!(list.value_type(), DataType::List(_)) {
        cast_list(list.values(), from, to, explicit, moment)?
    } else {
        cast_array(list.values(), from, to, explicit, moment)?
    };
    let item = Arc::new(super::types::typed_field("item", values.data_type().clone(), to));
    Ok(Arc::new(ListArray::try_new(item, list.offsets().clone(), values, list.nulls().cloned())?))
}

fn integers(array: &ArrayRef, from: PgType, low: i64, high: i64, name: &str) -> Result<Vec<Option<i64>>> {
    let check = |v: Option<i128>| -> Result<Option<i64>> {
        match v {
            None => Ok(None),
            Some(v) if v >= i128::from(low) && v <= i128::from(high) => Ok(Some(v as i64)),
            Some(_) => Err(range(name)),
        }
    };
    let float = |v: Option<f64>| -> Result<Option<i64>> {
        match v {
            None => Ok(None),
            // 2^63 itself is the first float past bigint.
            Some(v) if v.is_finite() && v.abs() <= 9.3e18 => check(Some(v.round_ties_even() as i128)),
            Some(_) => Err(range(name)),
        }
    };
    match array.data_type() {
        DataType::Boolean => k::Bool::down(array)?.iter().map(|v| check(v.map(i128::from))).collect(),
        DataType::Int16 => k::I2::down(array)?.iter().map(|v| check(v.map(i128::from))).collect(),
        DataType::Int32 => k::I4::down(array)?.iter().map(|v| check(v.map(i128::from))).collect(),
        DataType::Int64 => k::I8::down(array)?.iter().map(|v| check(v.map(i128::from))).collect(),
        DataType::UInt32 => k::Oid::down(array)?.iter().map(|v| check(v.map(i128::from))).collect(),
        DataType::Float32 => k::F4::down(array)?.iter().map(|v| float(v.map(f64::from))).collect(),
        DataType::Float64 => k::F8::down(array)?.iter().map(float).collect(),
        DataType::Decimal128(..) | DataType::Decimal256(..) => {
            let a = NumArray::new(array)?;
            (0..array.len())
                .map(|i| {
                    if a.is_null(i) {
                        return Ok(None);
                    }
                    check(Some(a.value(i).to_i128().ok_or_else(|| range(name))?))
                })
                .collect()
        }
        _ => Err(cannot_cast(from, PgType::of(oid::INT8))),
    }
}

fn oids(array: &ArrayRef, from: PgType) -> Result<ArrayRef> {
    if array.data_type() == &DataType::UInt32 {
        return Ok(array.clone());
    }
    // A negative int4 wraps, as in PostgreSQL.
    let low = if array.data_type() == &DataType::Int64 { 0 } else { i64::from(i32::MIN) };
    let values = integers(array, from, low, i64::from(u32::MAX), "OID")?;
    Ok(Arc::new(UInt32Array::from(values.into_iter().map(|v| v.map(|v| v as u32)).collect::<Vec<_>>())))
}

fn floats(array: &ArrayRef, from: PgType) -> Result<Vec<Option<f64>>> {
    Ok(match array.data_type() {
        DataType::Int16 => k::I2::down(array)?.iter().map(|v| v.map(f64::from)).collect(),
        DataType::Int32 => k::I4::down(array)?.iter().map(|v| v.map(f64::from)).collect(),
        DataType::Int64 => k::I8::down(array)?.iter().map(|v| v.map(|v| v as f64)).collect(),
        DataType::Float32 => k::F4::down(array)?.iter().map(|v| v.map(f64::from)).collect(),
        DataType::Float64 => k::F8::down(array)?.iter().collect(),
        DataType::Decimal128(..) | DataType::Decimal256(..) => {
            let a = NumArray::new(array)?;
            (0..array.len()).map(|i| (!a.is_null(i)).then(|| a.value(i).to_f64())).collect()
        }
        _ => return Err(cannot_cast(from, PgType::of(oid::FLOAT8))),
    })
}

/// Any number as decimals.
pub fn numerics(array: &ArrayRef, from: PgType) -> Result<Vec<Option<Decimal>>> {
    let whole = |v: Option<i128>| v.map(Decimal::from_i128);
    Ok(match array.data_type() {
        DataType::Int16 => k::I2::down(array)?.iter().map(|v| whole(v.map(i128::from))).collect(),
        DataType::Int32 => k::I4::down(array)?.iter().map(|v| whole(v.map(i128::from))).collect(),
        DataType::Int64 => k::I8::down(array)?.iter().map(|v| whole(v.map(i128::from))).collect(),
        DataType::Float32 => k::F4::down(array)?
            .iter()
            .map(|v| v.map(|v| Decimal::from_f64(f64::from(v), 6)).transpose())
            .collect::<Result<_>>()?,
        DataType::Float64 => k::F8::down(array)?
            .iter()
            .map(|v| v.map(|v| Decimal::from_f64(v, 15)).transpose())
            .collect::<Result<_>>()?,
        DataType::Decimal128(..) | DataType::Decimal256(..) => {
            let a = NumArray::new(array)?;
            (0..array.len()).map(|i| (!a.is_null(i)).then(|| a.value(i))).collect()
        }
        _ => return Err(cannot_cast(from, PgType::of(oid::NUMERIC))),
    })
}

fn round_us(us: i64, modifier: i32) -> i64 {
    if !(0..6).contains(&modifier) || us == i64::MAX || us == i64::MIN {
        return us;
    }
    let step = 10_i64.pow(6 - modifier as u32);
    (us + step / 2).div_euclid(step) * step
}

fn times(array: &ArrayRef, from: PgType, to: PgType, moment: Moment) -> Result<ArrayRef> {
    fn map<A: Cell, B: Cell>(array: &ArrayRef, f: impl Fn(A::Value<'_>) -> Result<B::Owned>) -> Result<ArrayRef> {
        let a = A::down(array)?;
        let mut out = Vec::with_capacity(a.len());
        for i in 0..a.len() {
            out.push(if a.is_null(i) { None } else { Some(f(A::value(a, i))?) });
        }
        Ok(B::build(out))
    }
    let zone = moment.zone;
    let m = to.modifier;
    let date_us = |d: i32| match d {
        datetime::DATE_INFINITY => Ok(i64::MAX),
        datetime::DATE_MINUS_INFINITY => Ok(i64::MIN),
        _ => i64::from(d)
            .checked_mul(DAY_US)
            .ok_or_else(|| SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "date out of range for timestamp")),
    };
    let us_date = |us: i64| match us {
        i64::MAX => Ok(datetime::DATE_INFINITY),
        i64::MIN => Ok(datetime::DATE_MINUS_INFINITY),
        _ => Ok(us.div_euclid(DAY_US) as i32),
    };
    match (from.oid, to.oid) {
        (oid::DATE, oid::DATE) => Ok(array.clone()),
        (oid::DATE, oid::TIMESTAMP) => map::<k::Date, k::Ts>(array, date_us),
        (oid::DATE, oid::TIMESTAMPTZ) => map::<k::Date, k::Tz>(array, |d| Ok(zone.to_utc(date_us(d)?))),
        (oid::TIMESTAMP, oid::TIMESTAMP) => map::<k::Ts, k::Ts>(array, |t| Ok(round_us(t, m))),
        (oid::TIMESTAMP, oid::TIMESTAMPTZ) => map::<k::Ts, k::Tz>(array, |t| Ok(round_us(zone.to_utc(t), m))),
        (oid::TIMESTAMP, oid::DATE) => map::<k::Ts, k::Date>(array, us_date),
        (oid::TIMESTAMP, oid::TIME) => map::<k::Ts, k::Time>(array, |t| Ok(round_us(t.rem_euclid(DAY_US), m))),
        (oid::TIMESTAMPTZ, oid::TIMESTAMPTZ) => map::<k::Tz, k::Tz>(array, |t| Ok(round_us(t, m))),
        (oid::TIMESTAMPTZ, oid::TIMESTAMP) => map::<k::Tz, k::Ts>(array, |t| Ok(round_us(zone.to_local(t), m))),
        (oid::TIMESTAMPTZ, oid::DATE) => map::<k::Tz, k::Date>(array, |t| us_date(zone.to_local(t))),
        (oid::TIMESTAMPTZ, oid::TIME) => {
            map::<k::Tz, k::Time>(array, |t| Ok(round_us(zone.to_local(t).rem_euclid(DAY_US), m)))
        }
        (oid::TIME, oid::TIME) => map::<k::Time, k::Time>(array, |t| Ok(round_us(t, m))),
        (oid::TIME, oid::INTERVAL) => map::<k::Time, k::Iv>(array, datetime::from_us),
        (oid::INTERVAL, oid::TIME) => {
            map::<k::Iv, k::Time>(array, |v: IntervalMonthDayNano| Ok((v.nanoseconds / 1000).rem_euclid(DAY_US)))
        }
        (oid::INTERVAL, oid::INTERVAL) => Ok(array.clone()),
        _ => Err(cannot_cast(from, to)),
    }
}

/// Cuts or refuses what is longer than the type, strips the blanks of `char(n)`.
fn fit_text(text: &StringArray, to: PgType, explicit: bool) -> Result<ArrayRef> {
    let limit = match to.oid {
        oid::VARCHAR | oid::BPCHAR if to.modifier >= 4 => Some((to.modifier - 4) as usize),
        oid::NAME => {
            let cut = text.iter().map(|t| t.map(|t| truncate_bytes(t, 63).to_owned()));
            return Ok(Arc::new(cut.collect::<StringArray>()));
        }
        oid::CHAR => {
            let cut = text.iter().map(|t| t.map(|t| t.chars().next().map_or_else(String::new, String::from)));
            return Ok(Arc::new(cut.collect::<StringArray>()));
        }
        _ => None,
    };
    if limit.is_none() && to.oid != oid::BPCHAR {
        return Ok(Arc::new(text.clone()));
    }
    let out = text
        .iter()
        .map(|t| {
            let Some(t) = t else { return Ok(None) };
            let stripped = if to.oid == oid::BPCHAR { t.trim_end_matches(' ') } else { t };
            let Some(limit) = limit else { return Ok(Some(stripped.to_owned())) };
            match stripped.char_indices().nth(limit) {
                None => Ok(Some(stripped.to_owned())),
                Some((at, _)) if explicit || stripped[at..].bytes().all(|b| b == b' ') => {
                    Ok(Some(stripped[..at].to_owned()))
                }
                Some(_) => Err(SqlError::new(
                    SqlState::STRING_DATA_RIGHT_TRUNCATION,
                    format!("value too long for type {}", format_type(to)),
                )),
            }
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(StringArray::from(out)))
}

fn truncate_bytes(text: &str, max: usize) -> &str {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

// ---- values as text ----

pub fn float8_text(v: f64) -> String {
    if v.is_nan() {
        return "NaN".to_owned();
    }
    if v.is_infinite() {
        return if v > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    shortest(v == 0.0 && v.is_sign_negative(), format!("{v:e}"), 15)
}

pub fn float4_text(v: f32) -> String {
    if v.is_nan() || v.is_infinite() {
        return float8_text(f64::from(v));
    }
    shortest(v == 0.0 && v.is_sign_negative(), format!("{v:e}"), 6)
}

/// From Rust's shortest digits (`1.5e-7`) to PostgreSQL's form: plain up to `digits` places, else with an exponent.
fn shortest(negative_zero: bool, scientific: String, digits: i32) -> String {
    if negative_zero {
        return "-0".to_owned();
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |m| ("-", m));
    let bare: String = mantissa.chars().filter(|c| *c != '.').collect();
    if exponent < -4 || exponent >= digits {
        let (first, rest) = bare.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        let esign = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{first}{point}{rest}e{esign}{:02}", exponent.abs());
    }
    if exponent < 0 {
        return format!("{sign}0.{}{bare}", "0".repeat((-exponent - 1) as usize));
    }
    let whole = (exponent + 1) as usize;
    if bare.len() <= whole {
        return format!("{sign}{bare}{}", "0".repeat(whole - bare.len()));
    }
    format!("{sign}{}.{}", &bare[..whole], &bare[whole..])
}

pub fn uuid_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(36);
    for (i, b) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{b:02x}"));
    }
    text
}

pub fn bytea_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 + bytes.len() * 2);
    text.push_str("\\x");
    for b in bytes {
        text.push_str(&format!("{b:02x}"));
    }
    text
}

/// Every value in its text form (`::text`). `char(n)` comes without its blanks.
pub fn text_of(array: &ArrayRef, from: PgType, moment: Moment) -> Result<StringArray> {
    fn map<A: Cell>(array: &ArrayRef, f: impl Fn(A::Value<'_>) -> String) -> Result<StringArray> {
        let a = A::down(array)?;
        Ok((0..a.len()).map(|i| (!a.is_null(i)).then(|| f(A::value(a, i)))).collect())
    }
    match array.data_type() {
        DataType::Null => Ok(StringArray::new_null(array.len())),
        DataType::Utf8 => Ok(k::Txt::down(array)?.clone()),
        DataType::Boolean => map::<k::Bool>(array, |v| if v { "true" } else { "false" }.to_owned()),
        DataType::Int16 => map::<k::I2>(array, |v| v.to_string()),
        DataType::Int32 => map::<k::I4>(array, |v| v.to_string()),
        DataType::Int64 => map::<k::I8>(array, |v| v.to_string()),
        DataType::UInt32 => map::<k::Oid>(array, |v| v.to_string()),
        DataType::Float32 => map::<k::F4>(array, float4_text),
        DataType::Float64 => map::<k::F8>(array, float8_text),
        DataType::Decimal128(..) | DataType::Decimal256(..) => {
            let a = NumArray::new(array)?;
            let any = array.data_type() == &super::types::NUMERIC_ANY && from.modifier < 4;
            Ok((0..array.len())
                .map(|i| {
                    (!a.is_null(i)).then(|| {
                        let v = a.value(i);
                        if any { v.without_trailing_zeros() } else { v }.to_string()
                    })
                })
                .collect())
        }
        DataType::Date32 => map::<k::Date>(array, datetime::date_text),
        DataType::Time64(_) => map::<k::Time>(array, datetime::time_text),
        DataType::Timestamp(_, None) => map::<k::Ts>(array, datetime::timestamp_text),
        DataType::Timestamp(_, Some(_)) => map::<k::Tz>(array, |v| datetime::timestamptz_text(v, moment.zone)),
        DataType::Interval(_) => map::<k::Iv>(array, datetime::interval_text),
        DataType::Binary => map::<k::Bytes>(array, bytea_text),
        DataType::FixedSizeBinary(16) => map::<k::Uuid>(array, uuid_text),
        DataType::List(_) => list_text(array, from, moment),
        other => Err(wrong_array(other)),
    }
}

fn list_text(array: &ArrayRef, from: PgType, moment: Moment) -> Result<StringArray> {
    let list = k::List::down(array)?;
    let nested = matches!(list.value_type(), DataType::List(_));
    let vector = matches!(from.oid, oid::INT2VECTOR | oid::OIDVECTOR);
    let element = PgType { oid: element_of(from.oid).unwrap_or(oid::TEXT), modifier: from.modifier };
    let values =
        if nested { list_text(list.values(), from, moment)? } else { text_of(list.values(), element, moment)? };
    let is_bool = element.oid == oid::BOOL;
    let mut out = Vec::with_capacity(list.len());
    for row in 0..list.len() {
        if list.is_null(row) {
            out.push(None);
            continue;
        }
        let (start, end) = (list.value_offsets()[row] as usize, list.value_offsets()[row + 1] as usize);
        let mut text = String::new();
        for (n, i) in (start..end).enumerate() {
            if n > 0 {
                text.push(if vector { ' ' } else { ',' });
            }
            match (values.is_null(i), nested || vector) {
                (true, _) => text.push_str("NULL"),
                (_, true) => text.push_str(values.value(i)),
                _ if is_bool => text.push_str(&values.value(i)[..1]),
                _ => push_quoted(&mut text, values.value(i)),
            }
        }
        out.push(Some(if vector { text } else { format!("{{{text}}}") }));
    }
    Ok(StringArray::from(out))
}

fn push_quoted(text: &mut String, element: &str) {
    let quote = element.is_empty()
        || element.eq_ignore_ascii_case("null")
        || element.contains(['"', '\\', '{', '}', ',', ' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    if !quote {
        text.push_str(element);
        return;
    }
    text.push('"');
    for c in element.chars() {
        if matches!(c, '"' | '\\') {
            text.push('\\');
        }
        text.push(c);
    }
    text.push('"');
}

// ---- text as values ----

fn parse_each<B: Cell>(text: &StringArray, f: impl Fn(&str) -> Result<B::Owned>) -> Result<ArrayRef> {
    let values = text.iter().map(|t| t.map(&f).transpose()).collect::<Result<Vec<_>>>()?;
    Ok(B::build(values))
}

/// Reads every text as a value of the type. `22P02` and its kin with PostgreSQL's words.
pub fn parse_array(text: &StringArray, to: PgType, moment: Moment) -> Result<ArrayRef> {
    let target = arrow_type(to).ok_or_else(|| cannot_cast(PgType::of(oid::TEXT), to))?;
    match to.oid {
        oid::BOOL => parse_each::<k::Bool>(text, parse_bool),
        oid::INT2 => parse_each::<k::I2>(text, |t| parse_integer(t, "smallint")),
        oid::INT4 => parse_each::<k::I4>(text, |t| parse_integer(t, "integer")),
        oid::INT8 | oid::PG_LSN => parse_each::<k::I8>(text, |t| parse_integer(t, "bigint")),
        oid::OID | oid::XID | oid::CID => parse_each::<k::Oid>(text, parse_oid),
        t if is_oid_alias(t) => parse_each::<k::Oid>(text, parse_oid),
        oid::FLOAT4 => parse_each::<k::F4>(text, |t| {
            let v = parse_float(t, "real")?;
            let narrow = t.trim().parse::<f32>().unwrap_or(v as f32);
            if narrow.is_infinite() && v.is_finite() || narrow == 0.0 && v != 0.0 {
                let message = format!("\"{}\" is out of range for type real", t.trim());
                return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
            }
            Ok(narrow)
        }),
        oid::FLOAT8 => parse_each::<k::F8>(text, |t| parse_float(t, "double precision")),
        oid::NUMERIC => {
            let values = text.iter().map(|t| t.map(parse_numeric).transpose()).collect::<Result<Vec<_>>>()?;
            build_numeric(values, &target)
        }
        oid::DATE => parse_each::<k::Date>(text, |t| datetime::parse_date(t, moment)),
        oid::TIME => parse_each::<k::Time>(text, |t| Ok(round_us(datetime::parse_time(t)?, to.modifier))),
        oid::TIMESTAMP => {
            parse_each::<k::Ts>(text, |t| Ok(round_us(datetime::parse_timestamp(t, moment)?, to.modifier)))
        }
        oid::TIMESTAMPTZ => {
            parse_each::<k::Tz>(text, |t| Ok(round_us(datetime::parse_timestamptz(t, moment)?, to.modifier)))
        }
        oid::INTERVAL => parse_each::<k::Iv>(text, |t| datetime::parse_interval(t, None)),
        oid::UUID => parse_each::<k::Uuid>(text, parse_uuid),
        oid::BYTEA => parse_each::<k::Bytes>(text, parse_bytea),
        oid::JSON => parse_each::<k::Txt>(text, |t| super::json::validate(t).map(|()| t.to_owned())),
        oid::JSONB => parse_each::<k::Txt>(text, super::json::canonical),
        t if is_text(t) => fit_text(text, to, false),
        oid::INT2VECTOR | oid::OIDVECTOR => {
            let spaced: StringArray = text
                .iter()
                .map(|t| t.map(|t| format!("{{{}}}", t.split_whitespace().collect::<Vec<_>>().join(","))))
                .collect();
            parse_list(&spaced, to, moment)
        }
        t if element_of(t).is_some() => parse_list(text, to, moment),
        _ if target == DataType::Utf8 => Ok(Arc::new(text.clone())),
        _ => Err(cannot_cast(PgType::of(oid::TEXT), to)),
    }
}

pub fn parse_bool(text: &str) -> Result<bool> {
    let lower = text.trim().to_ascii_lowercase();
    let is = |word: &str, least: usize| lower.len() >= least && word.starts_with(&lower) && !lower.is_empty();
    if is("true", 1) || is("yes", 1) || is("on", 2) || lower == "1" {
        return Ok(true);
    }
    if is("false", 1) || is("no", 1) || is("off", 2) || lower == "0" {
        return Ok(false);
    }
    Err(invalid_text("boolean", text))
}

pub fn parse_integer<T: TryFrom<i128>>(text: &str, name: &str) -> Result<T> {
    let trimmed = text.trim_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    let digits = trimmed.strip_prefix(['-', '+']).unwrap_or(trimmed);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(invalid_text(name, text));
    }
    let value: Option<i128> = trimmed.parse().ok();
    value.and_then(|v| T::try_from(v).ok()).ok_or_else(|| {
        SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("value \"{trimmed}\" is out of range for type {name}"),
        )
    })
}

fn parse_oid(text: &str) -> Result<u32> {
    let value: i64 = parse_integer(text, "oid")?;
    if value < i64::from(i32::MIN) || value > i64::from(u32::MAX) {
        let message = format!("value \"{}\" is out of range for type oid", text.trim());
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
    }
    Ok(value as u32)
}

pub fn parse_float(text: &str, name: &str) -> Result<f64> {
    let trimmed = text.trim();
    let lower = trimmed.to_ascii_lowercase();
    match lower.as_str() {
        "nan" => return Ok(f64::NAN),
        "infinity" | "inf" | "+infinity" | "+inf" => return Ok(f64::INFINITY),
        "-infinity" | "-inf" => return Ok(f64::NEG_INFINITY),
        _ => {}
    }
    if !lower.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.')) || lower.contains("inf") {
        return Err(invalid_text(name, text));
    }
    let value: f64 = trimmed.parse().map_err(|_| invalid_text(name, text))?;
    let zero_digits = lower.split('e').next().is_some_and(|m| m.bytes().all(|b| !matches!(b, b'1'..=b'9')));
    if value.is_infinite() || value == 0.0 && !zero_digits {
        let message = format!("\"{trimmed}\" is out of range for type {name}");
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
    }
    Ok(value)
}

pub fn parse_numeric(text: &str) -> Result<Decimal> {
    match Decimal::parse(text) {
        Some(value) => value,
        None => match text.trim().to_ascii_lowercase().as_str() {
            special @ ("nan" | "infinity" | "-infinity" | "inf" | "-inf") => {
                Err(SqlError::unsupported(format_args!("numeric {special}")).hint("Use double precision."))
            }
            _ => Err(invalid_text("numeric", text)),
        },
    }
}

pub fn parse_uuid(text: &str) -> Result<[u8; 16]> {
    let bad = || invalid_text("uuid", text);
    let inner = text.strip_prefix('{').map_or(Some(text), |t| t.strip_suffix('}')).ok_or_else(bad)?;
    let mut bytes = [0; 16];
    let mut nibbles = 0;
    let mut previous_dash = true;
    for c in inner.bytes() {
        if c == b'-' {
            if previous_dash || nibbles % 4 != 0 || nibbles == 32 {
                return Err(bad());
            }
            previous_dash = true;
            continue;
        }
        previous_dash = false;
        let digit = (c as char).to_digit(16).ok_or_else(bad)? as u8;
        if nibbles == 32 {
            return Err(bad());
        }
        bytes[nibbles / 2] = bytes[nibbles / 2] << 4 | digit;
        nibbles += 1;
    }
    if nibbles == 32 { Ok(bytes) } else { Err(bad()) }
}

pub fn parse_bytea(text: &str) -> Result<Vec<u8>> {
    if let Some(hex) = text.strip_prefix("\\x") {
        let digits: Vec<u8> = hex.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
        if digits.len() % 2 != 0 {
            let message = "invalid hexadecimal data: odd number of digits";
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        return digits
            .chunks(2)
            .map(|pair| {
                let digit = |b: u8| {
                    (b as char).to_digit(16).ok_or_else(|| {
                        let message = format!("invalid hexadecimal digit: \"{}\"", b as char);
                        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                    })
                };
                Ok((digit(pair[0])? << 4 | digit(pair[1])?) as u8)
            })
            .collect();
    }
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        if bytes[i] != b'\\' {
            out.push(bytes[i]);
            i += 1;
        } else if bytes.get(i + 1) == Some(&b'\\') {
            out.push(b'\\');
            i += 2;
        } else {
            let octal = bytes.get(i + 1..i + 4).filter(|d| d.iter().all(|b| (b'0'..=b'7').contains(b)) && d[0] <= b'3');
            let d = octal.ok_or_else(|| {
                SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type bytea")
            })?;
            out.push((d[0] - b'0') << 6 | (d[1] - b'0') << 3 | (d[2] - b'0'));
            i += 4;
        }
    }
    Ok(out)
}

fn parse_list(text: &StringArray, to: PgType, moment: Moment) -> Result<ArrayRef> {
    let element = PgType { oid: element_of(to.oid).unwrap_or(oid::TEXT), modifier: to.modifier };
    let mut elements: Vec<Option<String>> = Vec::new();
    let mut offsets = vec![0_i32];
    for value in text {
        if let Some(value) = value {
            parse_elements(value, &mut elements)?;
        }
        offsets.push(elements.len() as i32);
    }
    let values = parse_array(&StringArray::from(elements), element, moment)?;
    let nulls = text.nulls().cloned();
    let item = Arc::new(field("item", element));
    Ok(Arc::new(ListArray::try_new(item, OffsetBuffer::new(offsets.into()), values, nulls)?))
}

/// The elements of `{a,"b c",NULL}`.
pub fn parse_elements(text: &str, out: &mut Vec<Option<String>>) -> Result<()> {
    let malformed = |detail: &str| {
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, format!("malformed array literal: \"{text}\""))
            .detail(detail.to_owned())
    };
    let mut chars = text.trim().chars().peekable();
    if chars.next() != Some('{') {
        return Err(malformed("Array value must start with \"{\" or dimension information."));
    }
    while chars.next_if(|c| c.is_whitespace()).is_some() {}
    if chars.peek() == Some(&'}') {
        chars.next();
        return if chars.next().is_none() { Ok(()) } else { Err(malformed("Junk after closing right brace.")) };
    }
    loop {
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        let mut element = String::new();
        let mut quoted = false;
        match chars.peek() {
            Some('{') => {
                return Err(SqlError::unsupported("a multidimensional array literal").hint("Use ARRAY[ARRAY[…], …]."));
            }
            Some('"') => {
                quoted = true;
                chars.next();
                loop {
                    match chars.next() {
                        Some('"') => break,
                        Some('\\') => element.push(chars.next().ok_or_else(|| malformed("Unexpected end of input."))?),
                        Some(c) => element.push(c),
                        None => return Err(malformed("Unexpected end of input.")),
                    }
                }
                while chars.next_if(|c| c.is_whitespace()).is_some() {}
            }
            _ => {
                while let Some(c) = chars.next_if(|c| !matches!(c, ',' | '}')) {
                    match c {
                        '\\' => element.push(chars.next().ok_or_else(|| malformed("Unexpected end of input."))?),
                        '"' | '{' => return Err(malformed(&format!("Unexpected \"{c}\" character."))),
                        c => element.push(c),
                    }
                }
                element.truncate(element.trim_end().len());
                if element.is_empty() {
                    let c = chars.peek().map_or_else(String::new, |c| c.to_string());
                    return Err(malformed(&format!("Unexpected \"{c}\" character.")));
                }
            }
        }
        out.push(if !quoted && element.eq_ignore_ascii_case("null") { None } else { Some(element) });
        match chars.next() {
            Some(',') => {}
            Some('}') => break,
            Some(_) => return Err(malformed("Unexpected array element.")),
            None => return Err(malformed("Unexpected end of input.")),
        }
    }
    if chars.any(|c| !c.is_whitespace()) {
        return Err(malformed("Junk after closing right brace."));
    }
    Ok(())
}
