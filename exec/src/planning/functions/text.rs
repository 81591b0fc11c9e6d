//! Strings: concatenation, cutting, searching, padding, encoding, digests.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringArray};

use super::Functions;
use crate::planning::cast::text_of;
use crate::planning::kernel::{self as k, Cell, KernelFn, kernel, ok};
use crate::planning::types::{PgType, oid};
use crate::sql::error::{Result, SqlError, SqlState};

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// `substring(text from start for length)`, counted in characters from 1.
fn substring(text: &str, start: i32, length: Option<i32>) -> Result<String> {
    let end = match length {
        Some(n) if n < 0 => {
            return Err(SqlError::new(SqlState("22011"), "negative substring length not allowed"));
        }
        Some(n) => i64::from(start) + i64::from(n),
        None => i64::MAX,
    };
    let first = i64::from(start).max(1);
    let count = usize::try_from(end.saturating_sub(first)).unwrap_or(0);
    Ok(text.chars().skip((first - 1) as usize).take(count).collect())
}

fn pad(text: &str, length: i32, fill: &str, left: bool) -> String {
    let length = usize::try_from(length).unwrap_or(0);
    let have = text.chars().count();
    if have >= length {
        return text.chars().take(length).collect();
    }
    let filling: String = fill.chars().cycle().take(if fill.is_empty() { 0 } else { length - have }).collect();
    if left { filling + text } else { text.to_owned() + &filling }
}

fn initcap(text: &str) -> String {
    let mut inside = false;
    text.chars()
        .flat_map(|c| {
            let letters: Vec<char> = if inside { c.to_lowercase().collect() } else { c.to_uppercase().collect() };
            inside = c.is_alphanumeric();
            letters
        })
        .collect()
}

fn trim_set(set: &str) -> impl Fn(char) -> bool + '_ {
    move |c| set.contains(c)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn encode(bytes: &[u8], format: &str) -> Result<String> {
    match format.to_ascii_lowercase().as_str() {
        "hex" => Ok(hex(bytes)),
        "base64" => {
            let mut out = String::new();
            for (i, group) in bytes.chunks(3).enumerate() {
                if i > 0 && i % 19 == 0 {
                    out.push('\n');
                }
                let n = group.iter().fold(0_u32, |n, b| n << 8 | u32::from(*b)) << (8 * (3 - group.len()));
                for at in 0..4 {
                    let digit = BASE64[(n >> (18 - 6 * at)) as usize & 63] as char;
                    out.push(if at <= group.len() { digit } else { '=' });
                }
            }
            Ok(out)
        }
        "escape" => Ok(bytes
            .iter()
            .map(|b| match b {
                b'\\' => "\\\\".to_owned(),
                0 | 128.. => format!("\\{b:03o}"),
                b => (*b as char).to_string(),
            })
            .collect()),
        other => Err(invalid(format!("unrecognized encoding: \"{other}\""))),
    }
}

fn decode(text: &str, format: &str) -> Result<Vec<u8>> {
    match format.to_ascii_lowercase().as_str() {
        "hex" => crate::planning::cast::parse_bytea(&format!("\\x{text}")),
        "escape" => crate::planning::cast::parse_bytea(text),
        "base64" => {
            let mut out = Vec::new();
            let (mut n, mut digits) = (0_u32, 0);
            for b in text.bytes().filter(|b| !b.is_ascii_whitespace() && *b != b'=') {
                let at = BASE64.iter().position(|d| *d == b);
                let at = at.ok_or_else(|| {
                    invalid(format!("invalid symbol \"{}\" found while decoding base64 sequence", b as char))
                })?;
                n = n << 6 | at as u32;
                digits += 1;
                if digits == 4 {
                    out.extend_from_slice(&n.to_be_bytes()[1..]);
                    (n, digits) = (0, 0);
                }
            }
            match digits {
                2 => out.push((n >> 4) as u8),
                3 => out.extend_from_slice(&((n >> 2) as u16).to_be_bytes()),
                _ => {}
            }
            Ok(out)
        }
        other => Err(invalid(format!("unrecognized encoding: \"{other}\""))),
    }
}

pub fn quote_ident(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !RESERVED.contains(&name);
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

const RESERVED: &[&str] = &[
    "all",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "both",
    "case",
    "cast",
    "check",
    "collate",
    "column",
    "constraint",
    "create",
    "cross",
    "default",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "false",
    "fetch",
    "for",
    "foreign",
    "from",
    "full",
    "grant",
    "group",
    "having",
    "in",
    "inner",
    "intersect",
    "into",
    "is",
    "join",
    "left",
    "like",
    "limit",
    "natural",
    "not",
    "null",
    "offset",
    "on",
    "or",
    "order",
    "outer",
    "primary",
    "references",
    "right",
    "select",
    "some",
    "table",
    "then",
    "to",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "values",
    "when",
    "where",
    "window",
    "with",
];

pub fn quote_literal(text: &str) -> String {
    if text.contains('\\') {
        return format!(" E'{}'", text.replace('\'', "''").replace('\\', "\\\\"));
    }
    format!("'{}'", text.replace('\'', "''"))
}

/// Arguments as their text forms, nulls kept.
fn texts(arguments: &[ArrayRef], types: &[PgType], env: &super::Env) -> Result<Vec<StringArray>> {
    arguments
        .iter()
        .zip(types)
        .map(|(a, t)| {
            let text = text_of(a, *t, env.moment())?;
            // In a text, a boolean is one letter.
            if t.oid == oid::BOOL {
                return Ok(text.iter().map(|v| v.map(|v| v[..1].to_owned())).collect());
            }
            Ok(text)
        })
        .collect()
}

fn concat(skip: usize) -> impl Fn(&super::Call<'_>) -> Result<KernelFn> {
    move |call| {
        let (types, env) = (call.types.to_vec(), call.env.clone());
        Ok(Arc::new(move |arguments: &[ArrayRef], rows: usize| {
            let parts = texts(arguments, &types, &env)?;
            let mut out = Vec::with_capacity(rows);
            for row in 0..rows {
                if skip == 1 && parts[0].is_null(row) {
                    out.push(None);
                    continue;
                }
                let mut text = String::new();
                let mut first = true;
                for part in &parts[skip..] {
                    if part.is_null(row) {
                        continue;
                    }
                    if skip == 1 && !first {
                        text.push_str(parts[0].value(row));
                    }
                    first = false;
                    text.push_str(part.value(row));
                }
                out.push(Some(text));
            }
            Ok(k::Txt::build(out))
        }))
    }
}

fn format(pattern: &str, arguments: &[Option<&str>]) -> Result<String> {
    let mut out = String::new();
    let mut chars = pattern.chars().peekable();
    let mut next = 0;
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        if chars.next_if_eq(&'%').is_some() {
            out.push('%');
            continue;
        }
        let mut digits = String::new();
        let left = chars.next_if_eq(&'-').is_some();
        while let Some(d) = chars.next_if(char::is_ascii_digit) {
            digits.push(d);
        }
        let mut width = 0;
        if chars.next_if_eq(&'$').is_some() {
            next = digits.parse::<usize>().unwrap_or(0).wrapping_sub(1);
        } else {
            width = digits.parse().unwrap_or(0);
        }
        let too_few = || invalid("too few arguments for format()");
        let value = *arguments.get(next).ok_or_else(too_few)?;
        next += 1;
        let text = match chars.next() {
            Some('s') => value.unwrap_or_default().to_owned(),
            Some('I') => quote_ident(value.ok_or_else(|| {
                SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "null values cannot be formatted as an SQL identifier")
            })?),
            Some('L') => value.map_or_else(|| "NULL".to_owned(), quote_literal),
            Some(c) => {
                return Err(invalid(format!("unrecognized format() type specifier \"{c}\"")));
            }
            None => return Err(invalid("unterminated format() type specifier")),
        };
        out.push_str(&pad_to(&text, width, left));
    }
    Ok(out)
}

fn pad_to(text: &str, width: usize, left: bool) -> String {
    if left { std::format!("{text:<width$}") } else { std::format!("{text:>width$}") }
}

pub(super) fn register(f: &mut Functions) {
    f.pure("||(text,text) text", kernel!(|a: Txt, b: Txt| -> Txt { ok(a.to_owned() + b) }));
    f.pure("||(bytea,bytea) bytea", kernel!(|a: Bytes, b: Bytes| -> Bytes { ok([a, b].concat()) }));
    for signature in ["||(text,any) text", "||(any,text) text"] {
        f.context(signature, |call| {
            let (types, env) = (call.types.to_vec(), call.env.clone());
            Ok(Arc::new(move |arguments: &[ArrayRef], rows: usize| {
                let parts = arguments
                    .iter()
                    .zip(&types)
                    .map(|(a, t)| text_of(a, *t, env.moment()))
                    .collect::<Result<Vec<_>>>()?;
                let joined = (0..rows).map(|i| {
                    (!parts[0].is_null(i) && !parts[1].is_null(i))
                        .then(|| parts[0].value(i).to_owned() + parts[1].value(i))
                });
                Ok(Arc::new(joined.collect::<StringArray>()))
            }))
        });
    }
    f.context("concat(any...) text", concat(0));
    f.context("concat_ws(text,any...) text", concat(1));
    f.pure("format(text) text", kernel!(|p: Txt| -> Txt { ok(format(p, &[])?) }));
    f.context("format(text,any...) text", |call| {
        let (types, env) = (call.types.to_vec(), call.env.clone());
        Ok(Arc::new(move |arguments: &[ArrayRef], rows: usize| {
            let parts = texts(arguments, &types, &env)?;
            let mut out = Vec::with_capacity(rows);
            for row in 0..rows {
                let values: Vec<Option<&str>> =
                    parts[1..].iter().map(|p| (!p.is_null(row)).then(|| p.value(row))).collect();
                out.push(if parts[0].is_null(row) { None } else { Some(format(parts[0].value(row), &values)?) });
            }
            Ok(k::Txt::build(out))
        }))
    });
    f.pure("lower(text) text", kernel!(|a: Txt| -> Txt { ok(a.to_lowercase()) }));
    f.pure("upper(text) text", kernel!(|a: Txt| -> Txt { ok(a.to_uppercase()) }));
    f.pure("initcap(text) text", kernel!(|a: Txt| -> Txt { ok(initcap(a)) }));
    for name in ["length", "char_length", "character_length"] {
        f.pure(&std::format!("{name}(text) int4"), kernel!(|a: Txt| -> I4 { ok(a.chars().count() as i32) }));
    }
    f.pure("length(bytea) int4", kernel!(|a: Bytes| -> I4 { ok(a.len() as i32) }));
    f.pure("octet_length(text) int4", kernel!(|a: Txt| -> I4 { ok(a.len() as i32) }));
    f.pure("octet_length(bytea) int4", kernel!(|a: Bytes| -> I4 { ok(a.len() as i32) }));
    f.pure("bit_length(text) int4", kernel!(|a: Txt| -> I4 { ok(a.len() as i32 * 8) }));
    for name in ["substr", "substring"] {
        f.pure(&std::format!("{name}(text,int4) text"), kernel!(|a: Txt, s: I4| -> Txt { ok(substring(a, s, None)?) }));
        f.pure(
            &std::format!("{name}(text,int4,int4) text"),
            kernel!(|a: Txt, s: I4, n: I4| -> Txt { ok(substring(a, s, Some(n))?) }),
        );
        f.pure(
            &std::format!("{name}(bytea,int4,int4) bytea"),
            kernel!(|a: Bytes, s: I4, n: I4| -> Bytes {
                let first = (i64::from(s) - 1).max(0) as usize;
                let end = (i64::from(s) - 1 + i64::from(n)).clamp(0, a.len() as i64) as usize;
                ok(a.get(first..end.max(first)).unwrap_or_default().to_vec())
            }),
        );
    }
    f.pure(
        "left(text,int4) text",
        kernel!(|a: Txt, n: I4| -> Txt {
            let have = a.chars().count() as i64;
            let keep = if n < 0 { (have + i64::from(n)).max(0) } else { i64::from(n) };
            ok(a.chars().take(keep as usize).collect())
        }),
    );
    f.pure(
        "right(text,int4) text",
        kernel!(|a: Txt, n: I4| -> Txt {
            let have = a.chars().count() as i64;
            let skip = if n < 0 { -i64::from(n) } else { (have - i64::from(n)).max(0) };
            ok(a.chars().skip(skip as usize).collect())
        }),
    );
    for name in ["strpos", "position"] {
        f.pure(
            &std::format!("{name}(text,text) int4"),
            kernel!(|a: Txt, b: Txt| -> I4 { ok(a.find(b).map_or(0, |at| a[..at].chars().count() as i32 + 1)) }),
        );
    }
    f.pure("lpad(text,int4) text", kernel!(|a: Txt, n: I4| -> Txt { ok(pad(a, n, " ", true)) }));
    f.pure("lpad(text,int4,text) text", kernel!(|a: Txt, n: I4, p: Txt| -> Txt { ok(pad(a, n, p, true)) }));
    f.pure("rpad(text,int4) text", kernel!(|a: Txt, n: I4| -> Txt { ok(pad(a, n, " ", false)) }));
    f.pure("rpad(text,int4,text) text", kernel!(|a: Txt, n: I4, p: Txt| -> Txt { ok(pad(a, n, p, false)) }));
    f.pure("ltrim(text) text", kernel!(|a: Txt| -> Txt { ok(a.trim_start_matches(' ').to_owned()) }));
    f.pure("rtrim(text) text", kernel!(|a: Txt| -> Txt { ok(a.trim_end_matches(' ').to_owned()) }));
    f.pure(
        "ltrim(text,text) text",
        kernel!(|a: Txt, s: Txt| -> Txt { ok(a.trim_start_matches(trim_set(s)).to_owned()) }),
    );
    f.pure(
        "rtrim(text,text) text",
        kernel!(|a: Txt, s: Txt| -> Txt { ok(a.trim_end_matches(trim_set(s)).to_owned()) }),
    );
    for name in ["btrim", "trim"] {
        f.pure(&std::format!("{name}(text) text"), kernel!(|a: Txt| -> Txt { ok(a.trim_matches(' ').to_owned()) }));
        f.pure(
            &std::format!("{name}(text,text) text"),
            kernel!(|a: Txt, s: Txt| -> Txt { ok(a.trim_matches(trim_set(s)).to_owned()) }),
        );
    }
    f.pure(
        "replace(text,text,text) text",
        kernel!(|a: Txt, b: Txt, c: Txt| -> Txt { ok(if b.is_empty() { a.to_owned() } else { a.replace(b, c) }) }),
    );
    f.pure(
        "translate(text,text,text) text",
        kernel!(|a: Txt, from: Txt, to: Txt| -> Txt {
            ok(a.chars()
                .filter_map(|c| match from.chars().position(|f| f == c) {
                    Some(at) => to.chars().nth(at),
                    None => Some(c),
                })
                .collect())
        }),
    );
    f.pure(
        "repeat(text,int4) text",
        kernel!(|a: Txt, n: I4| -> Txt {
            let n = usize::try_from(n).unwrap_or(0);
            if a.len().saturating_mul(n) > 1 << 30 {
                return Err(SqlError::new(SqlState("54000"), "requested length too large"));
            }
            ok(a.repeat(n))
        }),
    );
    f.pure("reverse(text) text", kernel!(|a: Txt| -> Txt { ok(a.chars().rev().collect()) }));
    f.pure(
        "split_part(text,text,int4) text",
        kernel!(|a: Txt, d: Txt, n: I4| -> Txt {
            if n == 0 {
                return Err(invalid("field position must not be zero"));
            }
            let parts: Vec<&str> = if d.is_empty() { vec![a] } else { a.split(d).collect() };
            let at = if n > 0 { i64::from(n) - 1 } else { parts.len() as i64 + i64::from(n) };
            ok(usize::try_from(at).ok().and_then(|at| parts.get(at)).map_or_else(String::new, |p| (*p).to_owned()))
        }),
    );
    f.pure("starts_with(text,text) bool", kernel!(|a: Txt, b: Txt| -> Bool { ok(a.starts_with(b)) }));
    f.pure("^@(text,text) bool", kernel!(|a: Txt, b: Txt| -> Bool { ok(a.starts_with(b)) }));
    f.pure(
        "overlay(text,text,int4) text",
        kernel!(|a: Txt, b: Txt, s: I4| -> Txt {
            let n = b.chars().count() as i32;
            ok(substring(a, 1, Some(s - 1))? + b + &substring(a, s + n, None)?)
        }),
    );
    f.pure(
        "overlay(text,text,int4,int4) text",
        kernel!(|a: Txt, b: Txt, s: I4, n: I4| -> Txt {
            ok(substring(a, 1, Some(s - 1))? + b + &substring(a, s + n, None)?)
        }),
    );
    f.pure("ascii(text) int4", kernel!(|a: Txt| -> I4 { ok(a.chars().next().map_or(0, |c| c as i32)) }));
    f.pure(
        "chr(int4) text",
        kernel!(|n: I4| -> Txt {
            match u32::try_from(n).ok().filter(|n| *n != 0).and_then(char::from_u32) {
                Some(c) => ok(c.to_string()),
                None => Err(SqlError::new(
                    SqlState("54000"),
                    if n == 0 { "null character not permitted" } else { "requested character too large for encoding" },
                )),
            }
        }),
    );
    f.pure("quote_ident(text) text", kernel!(|a: Txt| -> Txt { ok(quote_ident(a)) }));
    f.pure("quote_literal(text) text", kernel!(|a: Txt| -> Txt { ok(quote_literal(a)) }));
    f.pure("encode(bytea,text) text", kernel!(|a: Bytes, b: Txt| -> Txt { ok(encode(a, b)?) }));
    f.pure("decode(text,text) bytea", kernel!(|a: Txt, b: Txt| -> Bytes { ok(decode(a, b)?) }));
    f.pure(
        "convert_from(bytea,name) text",
        kernel!(|a: Bytes, _e: Txt| -> Txt {
            match std::str::from_utf8(a) {
                Ok(text) => ok(text.to_owned()),
                Err(_) => Err(SqlError::new(
                    SqlState::CHARACTER_NOT_IN_REPERTOIRE,
                    "invalid byte sequence for encoding \"UTF8\"",
                )),
            }
        }),
    );
    f.pure("convert_to(text,name) bytea", kernel!(|a: Txt, _e: Txt| -> Bytes { ok(a.as_bytes().to_vec()) }));
}
