//! LIKE, SIMILAR TO and regular expressions. PostgreSQL's advanced syntax is read by the `regex` crate: back-references
//! and look-around are refused.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ListArray, StringArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field};
use regex::{Regex, RegexBuilder};

use super::Functions;
use crate::planning::kernel::{self as k, Cell, KernelFn};
use crate::sql::error::{Result, SqlError, SqlState};

/// Patterns compiled in one call; usually there is one.
#[derive(Default)]
struct Cache(HashMap<String, Regex>);

impl Cache {
    fn get(&mut self, source: &str, flags: &str, compile: fn(&str, &str) -> Result<Regex>) -> Result<&Regex> {
        let key = format!("{flags}/{source}");
        if !self.0.contains_key(&key) {
            self.0.insert(key.clone(), compile(source, flags)?);
        }
        self.0.get(&key).ok_or_else(|| invalid_regex("no pattern"))
    }
}

fn invalid_regex(detail: &str) -> SqlError {
    SqlError::new(SqlState("2201B"), format!("invalid regular expression: {detail}"))
}

fn build(pattern: &str, insensitive: bool, newline: bool) -> Result<Regex> {
    RegexBuilder::new(pattern)
        .case_insensitive(insensitive)
        .dot_matches_new_line(!newline)
        .multi_line(newline)
        .size_limit(1 << 22)
        .build()
        .map_err(|error| invalid_regex(error.to_string().lines().last().unwrap_or_default()))
}

/// `flags`: i, c, n, m, s, p, x, q and g as PostgreSQL reads them.
fn compile_regex(source: &str, flags: &str) -> Result<Regex> {
    let mut insensitive = false;
    let mut newline = false;
    let mut quoted = false;
    for c in flags.chars() {
        match c {
            'i' => insensitive = true,
            'c' => insensitive = false,
            'n' | 'm' => newline = true,
            'q' => quoted = true,
            's' | 'g' | 'p' | 'w' | 'x' | 't' | 'e' => {}
            other => {
                let message = format!("invalid regular expression option: \"{other}\"");
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
        }
    }
    let source = source.strip_prefix("***:").unwrap_or(source);
    let source = source.replace("\\m", "\\b{start}").replace("\\M", "\\b{end}").replace("\\y", "\\b");
    let pattern = if quoted { regex::escape(&source) } else { source };
    build(&pattern, insensitive, newline)
}

/// A LIKE pattern as a regular expression; `flags` holds the escape character and `i`.
fn like_regex(source: &str, flags: &str) -> Result<Regex> {
    let mut flags = flags.chars();
    let insensitive = flags.next() == Some('i');
    let escape = flags.next();
    let mut pattern = String::from("^");
    let mut chars = source.chars();
    while let Some(c) = chars.next() {
        if Some(c) == escape {
            match chars.next() {
                Some(next) => pattern.push_str(&regex::escape(&next.to_string())),
                None => {
                    return Err(SqlError::new(SqlState("22025"), "LIKE pattern must not end with escape character"));
                }
            }
            continue;
        }
        match c {
            '%' => pattern.push_str("(?s:.*)"),
            '_' => pattern.push_str("(?s:.)"),
            c => pattern.push_str(&regex::escape(&c.to_string())),
        }
    }
    pattern.push('$');
    build(&pattern, insensitive, false)
}

fn similar_regex(source: &str, flags: &str) -> Result<Regex> {
    let escape = flags.chars().nth(1);
    let mut pattern = String::from("^(?:");
    let mut chars = source.chars();
    let mut bracket = false;
    while let Some(c) = chars.next() {
        if Some(c) == escape {
            if let Some(next) = chars.next() {
                pattern.push_str(&regex::escape(&next.to_string()));
            }
            continue;
        }
        match c {
            '[' => {
                bracket = true;
                pattern.push(c);
            }
            ']' => {
                bracket = false;
                pattern.push(c);
            }
            c if bracket => pattern.push(c),
            '%' => pattern.push_str(".*"),
            '_' => pattern.push('.'),
            '.' | '^' | '$' | '\\' => {
                pattern.push('\\');
                pattern.push(c);
            }
            c => pattern.push(c),
        }
    }
    pattern.push_str(")$");
    build(&pattern, false, false)
}

fn matcher(flags: &'static str, negated: bool, compile: fn(&str, &str) -> Result<Regex>) -> KernelFn {
    Arc::new(move |arguments, rows| {
        let (text, pattern) = (k::Txt::down(&arguments[0])?, k::Txt::down(&arguments[1])?);
        let mut cache = Cache::default();
        let mut out = Vec::with_capacity(rows);
        for i in 0..rows {
            if text.is_null(i) || pattern.is_null(i) {
                out.push(None);
                continue;
            }
            out.push(Some(cache.get(pattern.value(i), flags, compile)?.is_match(text.value(i)) != negated));
        }
        Ok(k::Bool::build(out))
    })
}

fn escaped(insensitive: bool, compile: fn(&str, &str) -> Result<Regex>) -> KernelFn {
    Arc::new(move |arguments, rows| {
        let (text, pattern) = (k::Txt::down(&arguments[0])?, k::Txt::down(&arguments[1])?);
        let escape = k::Txt::down(&arguments[2])?;
        let mut cache = Cache::default();
        let mut out = Vec::with_capacity(rows);
        for i in 0..rows {
            if text.is_null(i) || pattern.is_null(i) || escape.is_null(i) {
                out.push(None);
                continue;
            }
            let e = escape.value(i);
            if e.chars().count() > 1 {
                return Err(SqlError::new(SqlState("22019"), "invalid escape string")
                    .hint("Escape string must be empty or one character."));
            }
            let flags = format!("{}{e}", if insensitive { 'i' } else { 'c' });
            out.push(Some(cache.get(pattern.value(i), &flags, compile)?.is_match(text.value(i))));
        }
        Ok(k::Bool::build(out))
    })
}

/// `\1` and `\&` of a replacement as the regex crate writes them.
fn replacement(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '$' => out.push_str("$$"),
            '\\' => match chars.next() {
                Some('&') => out.push_str("${0}"),
                Some(d) if d.is_ascii_digit() => out.push_str(&format!("${{{d}}}")),
                Some(other) => out.push(other),
                None => out.push('\\'),
            },
            c => out.push(c),
        }
    }
    out
}

fn replace(with_flags: bool) -> KernelFn {
    Arc::new(move |arguments, rows| {
        let columns = arguments.iter().map(k::Txt::down).collect::<Result<Vec<_>>>()?;
        let mut cache = Cache::default();
        let mut out = Vec::with_capacity(rows);
        for i in 0..rows {
            if columns.iter().any(|c| c.is_null(i)) {
                out.push(None);
                continue;
            }
            let flags = if with_flags { columns[3].value(i) } else { "" };
            let regex = cache.get(columns[1].value(i), flags, compile_regex)?;
            let by = replacement(columns[2].value(i));
            let limit = usize::from(!flags.contains('g'));
            out.push(Some(regex.replacen(columns[0].value(i), limit, by.as_str()).into_owned()));
        }
        Ok(k::Txt::build(out))
    })
}

/// `substring(text from pattern)`: the first group, else the whole match.
fn extract() -> KernelFn {
    Arc::new(|arguments, rows| {
        let (text, pattern) = (k::Txt::down(&arguments[0])?, k::Txt::down(&arguments[1])?);
        let mut cache = Cache::default();
        let mut out = Vec::with_capacity(rows);
        for i in 0..rows {
            if text.is_null(i) || pattern.is_null(i) {
                out.push(None);
                continue;
            }
            let regex = cache.get(pattern.value(i), "", compile_regex)?;
            let found = regex.captures(text.value(i));
            let group = if regex.captures_len() > 1 { 1 } else { 0 };
            out.push(found.and_then(|c| c.get(group).map(|m| m.as_str().to_owned())));
        }
        Ok(k::Txt::build(out))
    })
}

fn text_lists(values: Vec<Option<Vec<Option<String>>>>) -> Result<ArrayRef> {
    let nulls: Vec<bool> = values.iter().map(Option::is_some).collect();
    let offsets = OffsetBuffer::from_lengths(values.iter().map(|v| v.as_ref().map_or(0, Vec::len)));
    let flat: StringArray = values.into_iter().flatten().flatten().collect();
    let item = Arc::new(Field::new("item", DataType::Utf8, true));
    Ok(Arc::new(ListArray::try_new(item, offsets, Arc::new(flat), Some(nulls.into()))?))
}

fn groups(regex: &Regex, captures: &regex::Captures<'_>) -> Vec<Option<String>> {
    let first = usize::from(regex.captures_len() > 1);
    (first..regex.captures_len()).map(|g| captures.get(g).map(|m| m.as_str().to_owned())).collect()
}

fn regexp_match(with_flags: bool) -> KernelFn {
    Arc::new(move |arguments, rows| {
        let columns = arguments.iter().map(k::Txt::down).collect::<Result<Vec<_>>>()?;
        let mut cache = Cache::default();
        let mut out = Vec::with_capacity(rows);
        for i in 0..rows {
            if columns.iter().any(|c| c.is_null(i)) {
                out.push(None);
                continue;
            }
            let flags = if with_flags { columns[2].value(i) } else { "" };
            let regex = cache.get(columns[1].value(i), flags, compile_regex)?;
            out.push(regex.captures(columns[0].value(i)).map(|c| groups(regex, &c)));
        }
        text_lists(out)
    })
}

fn split(with_flags: bool) -> KernelFn {
    Arc::new(move |arguments, rows| {
        let columns = arguments.iter().map(k::Txt::down).collect::<Result<Vec<_>>>()?;
        let mut cache = Cache::default();
        let mut out = Vec::with_capacity(rows);
        for i in 0..rows {
            if columns.iter().any(|c| c.is_null(i)) {
                out.push(None);
                continue;
            }
            let flags = if with_flags { columns[2].value(i) } else { "" };
            let regex = cache.get(columns[1].value(i), flags, compile_regex)?;
            out.push(Some(regex.split(columns[0].value(i)).map(|p| Some(p.to_owned())).collect()));
        }
        text_lists(out)
    })
}

pub(super) fn register(f: &mut Functions) {
    f.pure("~~(text,text) bool", matcher("c\\", false, like_regex));
    f.pure("!~~(text,text) bool", matcher("c\\", true, like_regex));
    f.pure("~~*(text,text) bool", matcher("i\\", false, like_regex));
    f.pure("!~~*(text,text) bool", matcher("i\\", true, like_regex));
    f.pure("like(text,text) bool", matcher("c\\", false, like_regex));
    f.pure("like_escape(text,text,text) bool", escaped(false, like_regex));
    f.pure("ilike_escape(text,text,text) bool", escaped(true, like_regex));
    f.pure("similar_escape(text,text,text) bool", escaped(false, similar_regex));
    f.pure("similar_to(text,text) bool", matcher("c\\", false, similar_regex));
    f.pure("~(text,text) bool", matcher("", false, compile_regex));
    f.pure("!~(text,text) bool", matcher("", true, compile_regex));
    f.pure("~*(text,text) bool", matcher("i", false, compile_regex));
    f.pure("!~*(text,text) bool", matcher("i", true, compile_regex));
    f.pure("regexp_like(text,text) bool", matcher("", false, compile_regex));
    f.pure("regexp_replace(text,text,text) text", replace(false));
    f.pure("regexp_replace(text,text,text,text) text", replace(true));
    f.pure("substring(text,text) text", extract());
    f.pure("regexp_match(text,text) text[]", regexp_match(false));
    f.pure("regexp_match(text,text,text) text[]", regexp_match(true));
    f.pure("regexp_split_to_array(text,text) text[]", split(false));
    f.pure("regexp_split_to_array(text,text,text) text[]", split(true));
    f.pure("regexp_split_to_table(text,text) setof text", split(false));
    f.pure("regexp_split_to_table(text,text,text) setof text", split(true));
}
