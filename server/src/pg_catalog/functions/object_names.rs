//! OIDs and names: the input and output of `regclass`, `regtype` and their like, `to_reg…`, `format_type`, `parse_ident`.

use alluvium_exec::planning::types::PgType;
use alluvium_exec::sql::error::{Result, SqlError, SqlState};

use super::{Call, Declarations};
use crate::pg_catalog::builtin::{self, OWNER, PG_CATALOG};
use crate::pg_catalog::functions_listed;
use crate::pg_catalog::names::{ROLE, format_type, quote_ident, split_name};
use crate::pg_catalog::value::Value;

/// What a `reg…` type names.
#[derive(Clone, Copy)]
enum Kind {
    Class,
    Type,
    Proc,
    Procedure,
    Oper,
    Namespace,
    Role,
    Collation,
}

const KINDS: [(&str, Kind); 8] = [
    ("regclass", Kind::Class),
    ("regtype", Kind::Type),
    ("regproc", Kind::Proc),
    ("regprocedure", Kind::Procedure),
    ("regoper", Kind::Oper),
    ("regnamespace", Kind::Namespace),
    ("regrole", Kind::Role),
    ("regcollation", Kind::Collation),
];

/// `NAMEin(text) NAME`, `NAMEout(oid) text`, `to_NAME(text) NAME`, spelled once for each kind.
const SIGNATURES: [[&str; 3]; 8] = [
    ["regclassin(text) regclass", "regclassout(oid) text", "to_regclass(text) regclass"],
    ["regtypein(text) regtype", "regtypeout(oid) text", "to_regtype(text) regtype"],
    ["regprocin(text) regproc", "regprocout(oid) text", "to_regproc(text) regproc"],
    ["regprocedurein(text) regprocedure", "regprocedureout(oid) text", "to_regprocedure(text) regprocedure"],
    ["regoperin(text) regoper", "regoperout(oid) text", "to_regoper(text) regoper"],
    ["regnamespacein(text) regnamespace", "regnamespaceout(oid) text", "to_regnamespace(text) regnamespace"],
    ["regrolein(text) regrole", "regroleout(oid) text", "to_regrole(text) regrole"],
    ["regcollationin(text) regcollation", "regcollationout(oid) text", "to_regcollation(text) regcollation"],
];

pub fn declare(d: &mut Declarations) {
    for ((_, kind), [input, output, lookup]) in KINDS.into_iter().zip(SIGNATURES) {
        d.stable(input, move |c| {
            let text = c.text(0)?.trim();
            if text == "-" {
                return Ok(0_u32.into());
            }
            if let Ok(oid) = text.parse::<u32>() {
                return Ok(oid.into());
            }
            find(c, kind, text)?.map(Value::from).ok_or_else(|| undefined(kind, text))
        });
        d.stable(output, move |c| Ok(shown(c, kind, c.oid(0)?).into()));
        d.stable(lookup, move |c| match find(c, kind, c.text(0)?.trim()) {
            Ok(found) => Ok(found.into()),
            // Ambiguous is as good as absent here.
            Err(e) if e.state() == AMBIGUOUS => Ok(Value::Null),
            Err(e) => Err(e),
        });
    }
    d.with_nulls("format_type(oid,int4) text", |c| {
        if c.is_null(0) {
            return Ok(Value::Null);
        }
        let modifier = if c.is_null(1) { None } else { i32::try_from(c.int(1)?).ok() };
        Ok(formatted(c.oid(0)?, modifier).into())
    });
    d.stable("parse_ident(text) text[]", |c| parse_ident(c.text(0)?, true));
    d.stable("parse_ident(text,bool) text[]", |c| parse_ident(c.text(0)?, c.bool(1)?));
    d.stable("pg_get_userbyid(oid) name", |c| {
        let oid = c.oid(0)?;
        Ok(if oid == OWNER { ROLE.to_owned() } else { format!("unknown (OID={oid})") }.into())
    });
}

const AMBIGUOUS: SqlState = SqlState("42725");

/// A null modifier says "as in an error message": without what a modifier would add.
fn formatted(oid: u32, modifier: Option<i32>) -> String {
    use alluvium_exec::planning::types::oid as type_oid;
    match (oid, modifier) {
        (type_oid::BPCHAR, None) => "character".to_owned(),
        (oid, modifier) => format_type(PgType { oid, modifier: modifier.unwrap_or(-1) }),
    }
}

fn find(c: &Call<'_>, kind: Kind, text: &str) -> Result<Option<u32>> {
    let one = |text: &str| -> Result<String> {
        let parts = split_name(text)?;
        match parts.as_slice() {
            [name] => Ok(name.clone()),
            _ => Err(SqlError::new(SqlState::INVALID_NAME, "invalid name syntax")),
        }
    };
    Ok(match kind {
        Kind::Class => c.names.find_relation(text)?.map(|r| r.oid()),
        Kind::Type => c.names.find_type(text)?.map(|t| t.oid),
        Kind::Namespace => c.names.schema_oid(&one(text)?),
        Kind::Role => c.names.role_oid(&one(text)?),
        Kind::Collation => {
            let parts = split_name(text)?;
            let name = parts.last().map_or("", String::as_str);
            recorded_named("pg_collation", name).next()
        }
        Kind::Proc => match c.names.find_function(text)? {
            Ok(oid) => Some(oid),
            Err(0) => None,
            Err(_) => {
                let message = format!("more than one function named \"{text}\"");
                return Err(SqlError::new(AMBIGUOUS, message));
            }
        },
        Kind::Procedure => procedure(c, text)?,
        Kind::Oper => {
            let bare = text.strip_prefix("pg_catalog.").unwrap_or(text);
            let mut found = recorded_named("pg_operator", bare);
            match (found.next(), found.next()) {
                (only, None) => only,
                _ => {
                    let message = format!("more than one operator named {text}");
                    return Err(SqlError::new(AMBIGUOUS, message));
                }
            }
        }
    })
}

/// `name(type, type)`.
fn procedure(c: &Call<'_>, text: &str) -> Result<Option<u32>> {
    let invalid = |what: &str| SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, what.to_owned());
    let (name, rest) = text.split_once('(').ok_or_else(|| invalid("expected a left parenthesis"))?;
    let list = rest.trim_end().strip_suffix(')').ok_or_else(|| invalid("expected a right parenthesis"))?;
    let parts = split_name(name)?;
    let mut types = Vec::new();
    for written in list.split(',').map(str::trim).filter(|t| !t.is_empty()) {
        let found = c.names.find_type(written)?;
        let missing = || SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{written}\" does not exist"));
        types.push(found.ok_or_else(missing)?.oid);
    }
    let name = match parts.as_slice() {
        [name] => name,
        [schema, name] if schema == "pg_catalog" => name,
        _ => return Ok(None),
    };
    Ok(functions_listed().find(|f| f.name == *name && f.arguments == types).map(|f| f.oid))
}

fn recorded_named(relation: &'static str, name: &str) -> impl Iterator<Item = u32> {
    let lines = builtin::recorded(relation).unwrap_or_default().lines();
    lines.filter_map(move |line| {
        let mut cells = builtin::cells(line);
        let oid = cells.next().flatten()?.parse().ok()?;
        (cells.next().flatten()? == name).then_some(oid)
    })
}

fn undefined(kind: Kind, text: &str) -> SqlError {
    let dotted = split_name(text).map_or_else(|_| text.to_owned(), |parts| parts.join("."));
    let (state, message) = match kind {
        Kind::Class => (SqlState::UNDEFINED_TABLE, format!("relation \"{dotted}\" does not exist")),
        Kind::Type => (SqlState::UNDEFINED_OBJECT, format!("type \"{dotted}\" does not exist")),
        Kind::Proc | Kind::Procedure => (SqlState::UNDEFINED_FUNCTION, format!("function \"{text}\" does not exist")),
        Kind::Oper => (SqlState::UNDEFINED_FUNCTION, format!("operator does not exist: {text}")),
        Kind::Namespace => (SqlState::INVALID_SCHEMA_NAME, format!("schema \"{dotted}\" does not exist")),
        Kind::Role => (SqlState::UNDEFINED_OBJECT, format!("role \"{dotted}\" does not exist")),
        Kind::Collation => {
            (SqlState::UNDEFINED_OBJECT, format!("collation \"{dotted}\" for encoding \"UTF8\" does not exist"))
        }
    };
    SqlError::new(state, message)
}

/// A number stands for an object that is not there.
fn shown(c: &Call<'_>, kind: Kind, oid: u32) -> String {
    if oid == 0 {
        return "-".to_owned();
    }
    let found = match kind {
        Kind::Class => c.names.relation(oid).map(|r| c.names.shown(&r)),
        Kind::Type => builtin::types().contains_key(&oid).then(|| formatted(oid, None)),
        Kind::Proc => functions_listed().find(|f| f.oid == oid).map(|f| {
            // Where several have the name, it is written with its schema.
            let alone = functions_listed().filter(|o| o.name == f.name).count() == 1;
            if alone { quote_ident(f.name) } else { format!("pg_catalog.{}", quote_ident(f.name)) }
        }),
        Kind::Procedure => functions_listed().find(|f| f.oid == oid).map(|f| {
            let types: Vec<String> = f.arguments.iter().map(|t| formatted(*t, None)).collect();
            format!("{}({})", quote_ident(f.name), types.join(","))
        }),
        Kind::Oper => recorded_name("pg_operator", oid).map(|name| format!("pg_catalog.{name}")),
        Kind::Namespace => c.names.schema_name(oid).map(quote_ident),
        Kind::Role => (oid == OWNER).then(|| quote_ident(ROLE)),
        Kind::Collation => recorded_name("pg_collation", oid).map(|name| {
            if c.names.is_searched(PG_CATALOG) {
                quote_ident(name)
            } else {
                format!("pg_catalog.{}", quote_ident(name))
            }
        }),
    };
    found.unwrap_or_else(|| oid.to_string())
}

fn recorded_name(relation: &str, oid: u32) -> Option<&'static str> {
    let oid = oid.to_string();
    let line = builtin::recorded(relation)?.lines().find(|l| l.split('\t').next() == Some(oid.as_str()))?;
    builtin::cells(line).nth(1)?
}

fn parse_ident(text: &str, strict: bool) -> Result<Value> {
    let invalid =
        || SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("string is not a valid identifier: \"{text}\""));
    if let Ok(parts) = split_name(text)
        && parts.iter().zip(text.split('.')).all(|(p, w)| w.trim().starts_with('"') || is_identifier(p))
    {
        return Ok(parts.into());
    }
    if strict {
        return Err(invalid());
    }
    // What follows the identifier is left out.
    let end = text
        .char_indices()
        .map(|(i, _)| i)
        .rev()
        .find(|i| *i > 0 && split_name(&text[..*i]).is_ok_and(|p| p.iter().all(|p| is_identifier(p))));
    let end = end.ok_or_else(invalid)?;
    Ok(split_name(&text[..end])?.into())
}

fn is_identifier(part: &str) -> bool {
    let letter = |c: char| c.is_alphabetic() || c == '_' || !c.is_ascii();
    part.starts_with(letter) && part.chars().all(|c| letter(c) || c.is_ascii_digit() || c == '$')
}
