//! `pg_get_…`: objects as SQL. What a node cannot have (indexes, constraints, triggers) has no definition: null.

use alluvium_exec::planning::types::{PgType, oid};
use alluvium_exec::sql::error::{Result, SqlError, SqlState};
use alluvium_storage::RelationId;
use alluvium_storage::catalog::RelationKind;

use super::{Call, Declarations};
use crate::pg_catalog::builtin::Function;
use crate::pg_catalog::functions_listed;
use crate::pg_catalog::names::{AnyRelation, format_type, quote_ident};
use crate::pg_catalog::value::Value;
use crate::pg_catalog::{dependent_of, view_definition};

pub fn declare(d: &mut Declarations) {
    // Expressions are kept as SQL already.
    d.stable("pg_get_expr(pg_node_tree,oid) text", |c| Ok(c.text(0)?.into()));
    d.stable("pg_get_expr(pg_node_tree,oid,bool) text", |c| Ok(c.text(0)?.into()));
    for signature in ["pg_get_viewdef(oid) text", "pg_get_viewdef(oid,bool) text", "pg_get_viewdef(oid,int4) text"] {
        d.stable(signature, |c| Ok(view(c, c.oid(0)?).into()));
    }
    for signature in ["pg_get_viewdef(text) text", "pg_get_viewdef(text,bool) text"] {
        d.stable(signature, |c| {
            let relation = c.names.existing_relation(c.text(0)?)?;
            Ok(view(c, relation.oid()).into())
        });
    }
    for signature in ["pg_get_ruledef(oid) text", "pg_get_ruledef(oid,bool) text"] {
        d.stable(signature, |c| {
            let rule = dependent_of(c.oid(0)?).filter(|(_, attnum)| *attnum == 0);
            let relation = rule.and_then(|(relation, _)| c.catalog.relation(relation));
            let Some(relation) = relation.filter(|r| r.kind == RelationKind::View) else { return Ok(Value::Null) };
            let shown = c.names.shown(&AnyRelation::User(relation));
            let query = view_definition(relation);
            Ok(format!("CREATE RULE \"_RETURN\" AS\n    ON SELECT TO {shown} DO INSTEAD {query}").into())
        });
    }
    for signature in [
        "pg_get_indexdef(oid) text",
        "pg_get_indexdef(oid,int4,bool) text",
        "pg_get_constraintdef(oid) text",
        "pg_get_constraintdef(oid,bool) text",
        "pg_get_triggerdef(oid) text",
        "pg_get_triggerdef(oid,bool) text",
        "pg_get_statisticsobjdef(oid) text",
        "pg_get_statisticsobjdef_columns(oid) text",
        "pg_get_partkeydef(oid) text",
        "pg_get_partition_constraintdef(oid) text",
        "pg_index_column_has_property(regclass,int4,text) bool",
        "pg_index_has_property(regclass,text) bool",
    ] {
        d.stable(signature, |_| Ok(Value::Null));
    }
    d.stable("pg_get_function_arguments(oid) text", |c| Ok(function(c)?.map(|f| arguments(f, Listed::All)).into()));
    d.stable("pg_get_function_identity_arguments(oid) text", |c| {
        Ok(function(c)?.map(|f| arguments(f, Listed::Input)).into())
    });
    d.stable("pg_get_function_result(oid) text", |c| Ok(function(c)?.map(result).into()));
    d.stable("pg_get_functiondef(oid) text", |c| match function(c)? {
        Some(f) if f.kind == 'a' => {
            Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is an aggregate function", f.name)))
        }
        found => Ok(found.map(definition).into()),
    });
    d.stable("pg_get_function_arg_default(oid,int4) text", |_| Ok(Value::Null));
    d.stable("pg_get_serial_sequence(text,text) text", |c| {
        // The relation's name is read as SQL reads it, the column's is taken as it is.
        let relation = c.names.existing_relation(c.text(0)?)?;
        let column = c.text(1)?;
        if relation.columns().iter().any(|(_, name)| *name == column) {
            return Ok(Value::Null);
        }
        let message = format!("column \"{column}\" of relation \"{}\" does not exist", relation.name());
        Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message))
    });
    d.stable("pg_relation_is_publishable(regclass) bool", |c| {
        let user = matches!(c.names.relation(c.oid(0)?), Some(AnyRelation::User(r)) if r.is_stored());
        Ok(user.into())
    });
    d.stable("pg_relation_is_updatable(regclass,bool) int4", |c| {
        // Bit 3: INSERT. UPDATE and DELETE are bits 2 and 4 in PostgreSQL and refused here.
        const INSERT: i32 = 1 << 3;
        let writable = matches!(c.names.relation(c.oid(0)?), Some(AnyRelation::User(r)) if r.is_stored());
        Ok(Value::from(if writable { INSERT } else { 0 }))
    });
    d.stable("pg_partition_ancestors(regclass) setof regclass", |_| Ok(Value::List(Vec::new())));
    d.record(
        "pg_options_to_table(text[]) setof record",
        &[("option_name", oid::TEXT), ("option_value", oid::TEXT)],
        |c| {
            use arrow::array::AsArray;
            let wrong = || super::wrong_argument(0);
            let list = c.arguments.first().and_then(|a| a.as_list_opt::<i32>()).ok_or_else(wrong)?.value(c.row);
            let options = list.as_string_opt::<i32>().ok_or_else(wrong)?;
            let rows = options.iter().flatten().map(|option| match option.split_once('=') {
                Some((name, value)) => Value::List(vec![name.into(), value.into()]),
                None => Value::List(vec![option.into(), Value::Null]),
            });
            Ok(Value::List(rows.collect()))
        },
    );
}

fn view(c: &Call<'_>, relation: u32) -> Option<String> {
    let relation = c.catalog.relation(RelationId(relation)).filter(|r| r.kind == RelationKind::View);
    relation.map(|r| view_definition(r))
}

fn function(c: &Call<'_>) -> Result<Option<&'static Function>> {
    let oid = c.oid(0)?;
    Ok(functions_listed().find(|f| f.oid == oid))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Listed {
    All,
    /// Those that tell overloads apart.
    Input,
}

fn type_text(oid: u32) -> String {
    format_type(PgType::of(oid))
}

fn arguments(f: &Function, listed: Listed) -> String {
    let types = if f.all_arguments.is_empty() { &f.arguments } else { &f.all_arguments };
    let mut parts = Vec::new();
    for (at, t) in types.iter().enumerate() {
        let mode = f.modes.get(at).copied().unwrap_or('i');
        if mode == 't' || mode == 'o' && listed == Listed::Input {
            continue;
        }
        let mut part = match mode {
            'o' => "OUT ".to_owned(),
            'b' => "INOUT ".to_owned(),
            'v' => "VARIADIC ".to_owned(),
            _ => String::new(),
        };
        if let Some(name) = f.names.get(at).filter(|n| !n.is_empty()) {
            part.push_str(&quote_ident(name));
            part.push(' ');
        }
        part.push_str(&type_text(*t));
        parts.push(part);
    }
    parts.join(", ")
}

pub fn result(f: &Function) -> String {
    let columns: Vec<String> = f
        .modes
        .iter()
        .enumerate()
        .filter(|(_, mode)| **mode == 't')
        .filter_map(|(at, _)| {
            Some(format!("{} {}", quote_ident(f.names.get(at)?), type_text(*f.all_arguments.get(at)?)))
        })
        .collect();
    if !columns.is_empty() {
        return format!("TABLE({})", columns.join(", "));
    }
    let plain = type_text(f.returns);
    if f.returns_set { format!("SETOF {plain}") } else { plain }
}

fn definition(f: &Function) -> String {
    let mut text = format!(
        "CREATE OR REPLACE FUNCTION pg_catalog.{}({})\n RETURNS {}\n LANGUAGE internal\n",
        quote_ident(f.name),
        arguments(f, Listed::All),
        result(f)
    );
    let volatility = match f.volatility {
        'i' => " IMMUTABLE",
        's' => " STABLE",
        _ => "",
    };
    let strict = if f.strict { " STRICT" } else { "" };
    if !volatility.is_empty() || !strict.is_empty() {
        text.push_str(volatility);
        text.push_str(strict);
        text.push('\n');
    }
    text.push_str(&format!("AS $function${}$function$\n", f.source));
    text
}
