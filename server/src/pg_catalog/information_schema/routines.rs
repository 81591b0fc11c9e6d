//! `routines` and `parameters`: the functions there are, all built in.

use alluvium_exec::planning::types::{PgType, element_of};
use alluvium_exec::sql::error::Result;

use crate::pg_catalog::builtin::{self, Function};
use crate::pg_catalog::functions_listed;
use crate::pg_catalog::names::format_type;
use crate::pg_catalog::system_relation::{Rows, Source, row};

fn data_type(oid: u32) -> String {
    if element_of(oid).is_some() { "ARRAY".to_owned() } else { format_type(PgType::of(oid)) }
}

fn specific_name(f: &Function) -> String {
    format!("{}_{}", f.name, f.oid)
}

/// Aggregates and window functions are no routines to the standard's FUNCTION.
pub fn routines(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    let database = &*source.session.database;
    for f in functions_listed() {
        let returned = builtin::types().get(&f.returns);
        row!(
            rows,
            specific_catalog: database,
            specific_schema: "pg_catalog",
            specific_name: specific_name(f),
            routine_catalog: database,
            routine_schema: "pg_catalog",
            routine_name: f.name,
            routine_type: (f.kind == 'f').then_some("FUNCTION"),
            data_type: data_type(f.returns),
            type_udt_catalog: database,
            type_udt_schema: returned.and_then(|t| source.names.schema_name(t.namespace)),
            type_udt_name: returned.map(|t| t.name),
            dtd_identifier: "0",
            routine_body: "EXTERNAL",
            routine_definition: f.source,
            external_name: f.source,
            external_language: "INTERNAL",
            parameter_style: "GENERAL",
            is_deterministic: if f.volatility == 'i' { "YES" } else { "NO" },
            sql_data_access: "MODIFIES",
            is_null_call: if f.strict { "YES" } else { "NO" },
            schema_level_routine: "YES",
            max_dynamic_result_sets: 0,
            security_type: "INVOKER",
            is_udt_dependent: "NO",
        )?;
    }
    Ok(())
}

pub fn parameters(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    let database = &*source.session.database;
    for f in functions_listed() {
        let types = if f.all_arguments.is_empty() { &f.arguments } else { &f.all_arguments };
        for (at, t) in types.iter().enumerate() {
            let known = builtin::types().get(t);
            let mode = match f.modes.get(at) {
                Some('o') | Some('t') => "OUT",
                Some('b') => "INOUT",
                _ => "IN",
            };
            let position = at as i64 + 1;
            row!(
                rows,
                specific_catalog: database,
                specific_schema: "pg_catalog",
                specific_name: specific_name(f),
                ordinal_position: position,
                parameter_mode: mode,
                is_result: "NO",
                as_locator: "NO",
                parameter_name: f.names.get(at).copied().filter(|n| !n.is_empty()),
                data_type: data_type(*t),
                udt_catalog: database,
                udt_schema: known.and_then(|t| source.names.schema_name(t.namespace)),
                udt_name: known.map(|t| t.name),
                dtd_identifier: position.to_string(),
            )?;
        }
    }
    Ok(())
}
