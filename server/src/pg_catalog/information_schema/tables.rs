//! `tables`, `views`, and foreign tables and servers.

use alluvium_exec::sql::error::Result;
use alluvium_storage::catalog::RelationKind;

use super::yes_no;
use crate::pg_catalog::names::{AnyRelation, ROLE};
use crate::pg_catalog::system_relation::{Rows, Source, row};
use crate::pg_catalog::{view_definition, wrapper_names};

pub fn tables(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    for r in source.names.relations() {
        let (kind, insertable) = match &r {
            AnyRelation::System(d) => (if d.kind == 'v' { "VIEW" } else { "BASE TABLE" }, false),
            AnyRelation::User(u) => match u.kind {
                RelationKind::Stream | RelationKind::Table => ("BASE TABLE", true),
                RelationKind::View => ("VIEW", false),
                RelationKind::Foreign => ("FOREIGN", false),
            },
        };
        row!(
            rows,
            table_catalog: &*source.session.database,
            table_schema: source.names.schema_name(r.schema()),
            table_name: r.name(),
            table_type: kind,
            is_insertable_into: yes_no(insertable),
            is_typed: "NO",
        )?;
    }
    Ok(())
}

pub fn views(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    for r in source.names.relations().filter(|r| r.kind() == 'v') {
        let definition = match &r {
            AnyRelation::User(view) => Some(view_definition(view)),
            AnyRelation::System(_) => None,
        };
        row!(
            rows,
            table_catalog: &*source.session.database,
            table_schema: source.names.schema_name(r.schema()),
            table_name: r.name(),
            view_definition: definition,
            check_option: "NONE",
            is_updatable: "NO",
            is_insertable_into: "NO",
            is_trigger_updatable: "NO",
            is_trigger_deletable: "NO",
            is_trigger_insertable_into: "NO",
        )?;
    }
    Ok(())
}

pub fn view_table_usage(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    let database = &*source.session.database;
    for view in source.catalog.relations().filter(|r| r.kind == RelationKind::View) {
        for read in view.depends_on.iter().filter_map(|id| source.catalog.relation(*id)) {
            row!(
                rows,
                view_catalog: database,
                view_schema: source.names.schema_name(view.schema.0),
                view_name: &view.name,
                table_catalog: database,
                table_schema: source.names.schema_name(read.schema.0),
                table_name: &read.name,
            )?;
        }
    }
    Ok(())
}

pub fn foreign_data_wrappers(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    for name in wrapper_names(source.catalog) {
        row!(
            rows,
            foreign_data_wrapper_catalog: &*source.session.database,
            foreign_data_wrapper_name: name,
            authorization_identifier: ROLE,
            foreign_data_wrapper_language: "c",
        )?;
    }
    Ok(())
}

pub fn foreign_servers(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    let database = &*source.session.database;
    for s in source.catalog.servers() {
        row!(
            rows,
            foreign_server_catalog: database,
            foreign_server_name: &s.name,
            foreign_data_wrapper_catalog: database,
            foreign_data_wrapper_name: &s.wrapper,
            authorization_identifier: ROLE,
        )?;
    }
    Ok(())
}

pub fn foreign_tables(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    let database = &*source.session.database;
    for r in source.catalog.relations() {
        let Some(foreign) = &r.foreign else { continue };
        row!(
            rows,
            foreign_table_catalog: database,
            foreign_table_schema: source.names.schema_name(r.schema.0),
            foreign_table_name: &r.name,
            foreign_server_catalog: database,
            foreign_server_name: source.catalog.server(foreign.server).map(|s| s.name.clone()),
        )?;
    }
    Ok(())
}
