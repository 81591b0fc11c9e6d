//! `has_…_privilege`: the one role owns everything, so what exists may be used. Owns the checks that it exists, and that
//! what is asked for is a privilege of such an object.

use alluvium_exec::sql::error::{Result, SqlError, SqlState};

use super::{Call, Declarations};
use crate::pg_catalog::builtin::{self, DATABASE, OWNER};
use crate::pg_catalog::functions_listed;
use crate::pg_catalog::names::AnyRelation;
use crate::pg_catalog::relations::{DEFAULT_TABLESPACE, GLOBAL_TABLESPACE};
use crate::pg_catalog::value::Value;
use crate::pg_catalog::{wrapper_names, wrapper_oid};

#[derive(Clone, Copy)]
enum Object {
    Table,
    AnyColumn,
    Sequence,
    Schema,
    Database,
    Function,
    Type,
    Language,
    Server,
    Wrapper,
    Tablespace,
}

const TABLE: &[&str] = &["SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER", "RULE"];
const COLUMN: &[&str] = &["SELECT", "INSERT", "UPDATE", "REFERENCES"];

const OBJECTS: &[(&str, Object, &[&str])] = &[
    ("has_table_privilege", Object::Table, TABLE),
    ("has_any_column_privilege", Object::AnyColumn, COLUMN),
    ("has_sequence_privilege", Object::Sequence, &["USAGE", "SELECT", "UPDATE"]),
    ("has_schema_privilege", Object::Schema, &["CREATE", "USAGE"]),
    ("has_database_privilege", Object::Database, &["CREATE", "TEMPORARY", "TEMP", "CONNECT"]),
    ("has_function_privilege", Object::Function, &["EXECUTE"]),
    ("has_type_privilege", Object::Type, &["USAGE"]),
    ("has_language_privilege", Object::Language, &["USAGE"]),
    ("has_server_privilege", Object::Server, &["USAGE"]),
    ("has_foreign_data_wrapper_privilege", Object::Wrapper, &["USAGE"]),
    ("has_tablespace_privilege", Object::Tablespace, &["CREATE"]),
];

/// Arguments before the privilege: the role (as name, OID, or absent), then the object (as name or OID).
const SHAPES: [(&str, usize); 6] = [
    ("name,text,text", 1),
    ("name,oid,text", 1),
    ("oid,text,text", 1),
    ("oid,oid,text", 1),
    ("text,text", 0),
    ("oid,text", 0),
];

pub fn declare(d: &mut Declarations) {
    for (name, object, privileges) in OBJECTS {
        for (arguments, at) in SHAPES {
            d.stable_named(name, arguments, "bool", move |c| {
                role(c, at)?;
                check(c, at + 1, privileges)?;
                Ok(exists(c, *object, at)?.then_some(true).into())
            });
        }
    }
    for (arguments, at) in SHAPES {
        for (column, by_number) in [("text", false), ("int2", true)] {
            let (head, privilege) = arguments.rsplit_once(',').unwrap_or((arguments, "text"));
            d.stable_named("has_column_privilege", &format!("{head},{column},{privilege}"), "bool", move |c| {
                role(c, at)?;
                check(c, at + 2, COLUMN)?;
                let Some(relation) = relation(c, at)? else { return Ok(Value::Null) };
                let columns = relation.columns();
                if by_number {
                    let number = c.int(at + 1)?;
                    return Ok(columns.iter().any(|(n, _)| i64::from(*n) == number).then_some(true).into());
                }
                let wanted = c.text(at + 1)?;
                if columns.iter().any(|(_, name)| *name == wanted) {
                    return Ok(true.into());
                }
                let message = format!("column \"{wanted}\" of relation \"{}\" does not exist", relation.name());
                Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message))
            });
        }
    }
    for arguments in ["name,name,text", "name,oid,text", "oid,name,text", "oid,oid,text", "name,text", "oid,text"] {
        let at = arguments.matches(',').count() - 1;
        d.stable_named("pg_has_role", arguments, "bool", move |c| {
            role(c, at)?;
            let member = if is_oid(c, at) {
                c.oid(at)? == OWNER
            } else {
                c.names.existing_role(c.text(at)?)?;
                true
            };
            check(c, at + 1, &["USAGE", "MEMBER"])?;
            Ok(member.into())
        });
    }
    d.stable("row_security_active(oid) bool", |_| Ok(false.into()));
    d.stable("row_security_active(text) bool", |c| {
        c.names.existing_relation(c.text(0)?)?;
        Ok(false.into())
    });
}

fn is_oid(c: &Call<'_>, at: usize) -> bool {
    c.arguments.get(at).is_some_and(|a| a.data_type() == &arrow::datatypes::DataType::UInt32)
}

/// `at` is the object's place: a role stands before it, or none does and the session's is meant.
fn role(c: &Call<'_>, at: usize) -> Result<()> {
    if at > 0 && !is_oid(c, 0) {
        // `public` is no role, but stands for all of them.
        let name = c.text(0)?;
        if name != "public" {
            c.names.existing_role(name)?;
        }
    }
    Ok(())
}

fn check(c: &Call<'_>, at: usize, privileges: &[&str]) -> Result<()> {
    for written in c.text(at)?.split(',') {
        let upper = written.trim().to_ascii_uppercase();
        let plain = upper.strip_suffix(" WITH GRANT OPTION").or(upper.strip_suffix(" WITH ADMIN OPTION"));
        if !privileges.contains(&plain.unwrap_or(&upper)) {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("unrecognized privilege type: \"{}\"", written.trim()),
            ));
        }
    }
    Ok(())
}

fn relation<'a>(c: &'a Call<'_>, at: usize) -> Result<Option<AnyRelation<'a>>> {
    if is_oid(c, at) { Ok(c.names.relation(c.oid(at)?)) } else { c.names.existing_relation(c.text(at)?).map(Some) }
}

/// Of an object by OID; by name, its absence is PostgreSQL's error.
fn exists(c: &Call<'_>, object: Object, at: usize) -> Result<bool> {
    if matches!(object, Object::Table | Object::AnyColumn) {
        return Ok(relation(c, at)?.is_some());
    }
    if is_oid(c, at) {
        let oid = c.oid(at)?;
        return Ok(match object {
            Object::Table | Object::AnyColumn | Object::Sequence => false,
            Object::Schema => c.names.schema_name(oid).is_some(),
            Object::Database => oid == DATABASE,
            Object::Function => functions_listed().any(|f| f.oid == oid),
            Object::Type => builtin::types().contains_key(&oid),
            Object::Language => language(|line_oid, _| line_oid == oid),
            Object::Server => c.catalog.servers().any(|s| s.id.0 == oid),
            Object::Wrapper => wrapper_names(c.catalog).iter().any(|w| wrapper_oid(w) == oid),
            Object::Tablespace => matches!(oid, DEFAULT_TABLESPACE | GLOBAL_TABLESPACE),
        });
    }
    let name = c.text(at)?;
    let missing = |state: SqlState, what: &str| SqlError::new(state, format!("{what} \"{name}\" does not exist"));
    let (found, error) = match object {
        Object::Table | Object::AnyColumn => (true, missing(SqlState::UNDEFINED_TABLE, "relation")),
        Object::Sequence => {
            let relation = c.names.existing_relation(name)?;
            let message = format!("\"{}\" is not a sequence", relation.name());
            (false, SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
        }
        Object::Schema => (c.names.schema_oid(name).is_some(), missing(SqlState::INVALID_SCHEMA_NAME, "schema")),
        Object::Database => (*name == *c.session.database, missing(SqlState::INVALID_CATALOG_NAME, "database")),
        Object::Function => {
            let bare = name.split('(').next().unwrap_or(name).trim();
            let bare = bare.strip_prefix("pg_catalog.").unwrap_or(bare);
            (functions_listed().any(|f| f.name == bare), missing(SqlState::UNDEFINED_FUNCTION, "function"))
        }
        Object::Type => (c.names.find_type(name)?.is_some(), missing(SqlState::UNDEFINED_OBJECT, "type")),
        Object::Language => (language(|_, known| known == name), missing(SqlState::UNDEFINED_OBJECT, "language")),
        Object::Server => (c.catalog.server_by_name(name).is_some(), missing(SqlState::UNDEFINED_OBJECT, "server")),
        Object::Wrapper => {
            (wrapper_names(c.catalog).contains(name), missing(SqlState::UNDEFINED_OBJECT, "foreign-data wrapper"))
        }
        Object::Tablespace => {
            (matches!(name, "pg_default" | "pg_global"), missing(SqlState::UNDEFINED_OBJECT, "tablespace"))
        }
    };
    if found { Ok(true) } else { Err(error) }
}

fn language(is: impl Fn(u32, &str) -> bool) -> bool {
    let lines = builtin::recorded("pg_language").unwrap_or_default().lines();
    lines.into_iter().any(|line| {
        let mut cells = builtin::cells(line).map(Option::unwrap_or_default);
        let oid = cells.next().and_then(|o| o.parse().ok()).unwrap_or_default();
        is(oid, cells.next().unwrap_or_default())
    })
}
