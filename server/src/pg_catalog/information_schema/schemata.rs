//! `schemata`, and the small relations about the database as a whole.

use alluvium_exec::sql::error::Result;

use crate::pg_catalog::builtin;
use crate::pg_catalog::names::ROLE;
use crate::pg_catalog::system_relation::{Rows, Source, row};

pub fn schemata(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    for (_, name) in source.names.schemas() {
        row!(rows, catalog_name: &*source.session.database, schema_name: name, schema_owner: ROLE)?;
    }
    Ok(())
}

pub fn catalog_name(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    row!(rows, catalog_name: &*source.session.database)
}

pub fn enabled_roles(_: &Source<'_>, rows: &mut Rows) -> Result<()> {
    row!(rows, role_name: ROLE)
}

/// As PostgreSQL has it: one row, for the database's encoding.
pub fn character_sets(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    let database = &*source.session.database;
    row!(
        rows,
        character_set_name: "UTF8",
        character_repertoire: "UCS",
        form_of_use: "UTF8",
        default_collate_catalog: database,
        default_collate_schema: "pg_catalog",
        default_collate_name: "C",
    )
}

fn collation_names() -> impl Iterator<Item = &'static str> {
    let lines = builtin::recorded("pg_collation").unwrap_or_default().lines();
    lines.filter_map(|line| builtin::cells(line).nth(1)?)
}

pub fn collations(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    for name in collation_names() {
        row!(
            rows,
            collation_catalog: &*source.session.database,
            collation_schema: "pg_catalog",
            collation_name: name,
            pad_attribute: "NO PAD",
        )?;
    }
    Ok(())
}

pub fn collation_applicability(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    for name in collation_names() {
        row!(
            rows,
            collation_catalog: &*source.session.database,
            collation_schema: "pg_catalog",
            collation_name: name,
            character_set_name: "UTF8",
        )?;
    }
    Ok(())
}
