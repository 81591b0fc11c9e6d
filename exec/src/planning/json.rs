//! json and jsonb: reading, jsonb's canonical text, access paths and containment, and values of other types as JSON.

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use serde_json::Value;

use super::cast::text_of;
use super::datetime::Moment;
use super::decimal::Decimal;
use super::kernel::{self as k, Cell};
use super::types::{PgType, element_of, oid};
use crate::sql::error::{Result, SqlError, SqlState};

pub fn parse(text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|error| {
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type json")
            .detail(format!("{error}."))
    })
}

pub fn validate(text: &str) -> Result<()> {
    parse(text).map(|_| ())
}

/// jsonb's one text for a value: keys by length, then bytes; the last of equal keys; plain numbers.
pub fn canonical(text: &str) -> Result<String> {
    Ok(to_jsonb_text(&parse(text)?))
}

pub fn to_jsonb_text(value: &Value) -> String {
    let mut out = String::new();
    write_jsonb(value, &mut out);
    out
}

fn write_jsonb(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => {
            let text = n.to_string();
            match Decimal::parse(&text) {
                Some(Ok(d)) if text.contains(['e', 'E']) => out.push_str(&d.to_string()),
                _ => out.push_str(&text),
            }
        }
        Value::String(s) => write_string(s, out),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                write_jsonb(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_by(|a, b| a.len().cmp(&b.len()).then_with(|| a.as_bytes().cmp(b.as_bytes())));
            out.push('{');
            for (i, key) in keys.into_iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                write_string(key, out);
                out.push_str(": ");
                write_jsonb(&map[key], out);
            }
            out.push('}');
        }
    }
}

/// A JSON string with PostgreSQL's escapes.
pub fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            c if (c as u32) < 0x20 => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// What `->>` gives: strings bare, null as null.
pub fn as_text(value: &Value, jsonb: bool) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(s) => Some(s.clone()),
        other => Some(as_json(other, jsonb)),
    }
}

pub fn as_json(value: &Value, jsonb: bool) -> String {
    if jsonb { to_jsonb_text(value) } else { value.to_string() }
}

pub fn element(value: &Value, index: i64) -> Option<&Value> {
    let items = value.as_array()?;
    let at = if index < 0 { items.len() as i64 + index } else { index };
    usize::try_from(at).ok().and_then(|at| items.get(at))
}

pub fn path<'a>(value: &'a Value, steps: impl Iterator<Item = &'a str>) -> Option<&'a Value> {
    let mut at = value;
    for step in steps {
        at = match at {
            Value::Object(map) => map.get(step)?,
            Value::Array(_) => element(at, step.trim().parse().ok()?)?,
            _ => return None,
        };
    }
    Some(at)
}

fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => {
            match (Decimal::parse(&x.to_string()), Decimal::parse(&y.to_string())) {
                (Some(Ok(x)), Some(Ok(y))) => x.compare(y).is_ok_and(|o| o.is_eq()),
                _ => x == y,
            }
        }
        _ => a == b,
    }
}

/// jsonb's `@>`.
pub fn contains(outer: &Value, inner: &Value) -> bool {
    match (outer, inner) {
        (Value::Object(a), Value::Object(b)) => {
            b.iter().all(|(key, value)| a.get(key).is_some_and(|found| contains(found, value)))
        }
        (Value::Array(a), Value::Array(b)) => b.iter().all(|value| {
            a.iter().any(|found| match value {
                Value::Object(_) | Value::Array(_) => contains(found, value),
                _ => same(found, value),
            })
        }),
        (Value::Array(a), scalar) if !scalar.is_object() => a.iter().any(|found| same(found, scalar)),
        (a, b) => same(a, b),
    }
}

pub fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

pub fn strip_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            Value::Object(map.into_iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k, strip_nulls(v))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(strip_nulls).collect()),
        other => other,
    }
}

/// Every value of an array as a JSON text (`to_json`); null stays null.
pub fn texts(array: &ArrayRef, from: PgType, moment: Moment, jsonb: bool) -> Result<Vec<Option<String>>> {
    if let DataType::List(_) = array.data_type() {
        let list = k::List::down(array)?;
        let nested = matches!(list.value_type(), DataType::List(_));
        let item = if nested { from } else { PgType { oid: element_of(from.oid).unwrap_or(oid::TEXT), modifier: -1 } };
        let values = texts(list.values(), item, moment, jsonb)?;
        let separator = if jsonb { ", " } else { "," };
        return Ok((0..list.len())
            .map(|row| {
                (!list.is_null(row)).then(|| {
                    let range = list.value_offsets()[row] as usize..list.value_offsets()[row + 1] as usize;
                    let parts: Vec<&str> = values[range].iter().map(|v| v.as_deref().unwrap_or("null")).collect();
                    format!("[{}]", parts.join(separator))
                })
            })
            .collect());
    }
    let text = text_of(array, from, moment)?;
    let plain = matches!(
        array.data_type(),
        DataType::Boolean
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Decimal128(..)
            | DataType::Decimal256(..)
            | DataType::Float32
            | DataType::Float64
    );
    let stamp = matches!(array.data_type(), DataType::Timestamp(..));
    Ok((0..text.len())
        .map(|i| {
            if text.is_null(i) {
                return None;
            }
            let t = text.value(i);
            Some(match from.oid {
                oid::JSON if !jsonb => t.to_owned(),
                oid::JSON | oid::JSONB => canonical(t).unwrap_or_else(|_| t.to_owned()),
                _ if plain && !t.contains(['N', 'I']) => {
                    if jsonb && t.contains('e') {
                        canonical(t).unwrap_or_else(|_| t.to_owned())
                    } else {
                        t.to_owned()
                    }
                }
                _ => {
                    let mut out = String::new();
                    if stamp {
                        // ISO 8601: a T between, and a zone with minutes.
                        let mut iso = t.replacen(' ', "T", 1);
                        let zone = iso.rfind(['+', '-']).filter(|at| *at > 10);
                        if let Some(at) = zone
                            && iso.len() - at == 3
                        {
                            iso.push_str(":00");
                        }
                        write_string(&iso, &mut out);
                    } else {
                        write_string(t, &mut out);
                    }
                    out
                }
            })
        })
        .collect())
}
