//! `pg_tables`, `pg_views` and the statistics of tables: relations by name, for people and tools.

use alluvium_exec::sql::error::Result;
use alluvium_storage::catalog::RelationKind;

use crate::pg_catalog::names::ROLE;
use crate::pg_catalog::system_relation::{Rows, Source, row};
use crate::pg_catalog::view_definition;

pub fn tables(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    for r in source.names.relations().filter(|r| r.kind() == 'r') {
        row!(
            rows,
            schemaname: source.names.schema_name(r.schema()),
            tablename: r.name(),
            tableowner: ROLE,
            hasindexes: false,
            hasrules: false,
            hastriggers: false,
            rowsecurity: false,
        )?;
    }
    Ok(())
}

/// System views are made by the server and have no definition in SQL.
pub fn views(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    for r in source.names.relations().filter(|r| r.kind() == 'v') {
        let query = source.catalog.relation(alluvium_storage::RelationId(r.oid())).map(|v| view_definition(v));
        row!(
            rows,
            schemaname: source.names.schema_name(r.schema()),
            viewname: r.name(),
            viewowner: ROLE,
            definition: query,
        )?;
    }
    Ok(())
}

/// Names only: counts that are not kept are null.
pub fn table_statistics(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    let stored = |kind: RelationKind| matches!(kind, RelationKind::Stream | RelationKind::Table);
    for r in source.catalog.relations().filter(|r| stored(r.kind)) {
        row!(
            rows,
            relid: r.id.0,
            schemaname: source.names.schema_name(r.schema.0),
            relname: &r.name,
        )?;
    }
    Ok(())
}
