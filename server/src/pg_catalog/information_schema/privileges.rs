//! `table_privileges`, `column_privileges` and their `role_…_grants`: the owner may do everything.

use alluvium_exec::sql::error::Result;

use super::yes_no;
use crate::pg_catalog::names::ROLE;
use crate::pg_catalog::system_relation::{Rows, Source, row};

const OF_TABLES: [&str; 7] = ["INSERT", "SELECT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"];
const OF_COLUMNS: [&str; 4] = ["INSERT", "SELECT", "UPDATE", "REFERENCES"];

pub fn tables(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    for r in source.names.relations() {
        for privilege in OF_TABLES {
            row!(
                rows,
                grantor: ROLE,
                grantee: ROLE,
                table_catalog: &*source.session.database,
                table_schema: source.names.schema_name(r.schema()),
                table_name: r.name(),
                privilege_type: privilege,
                is_grantable: "YES",
                with_hierarchy: yes_no(privilege == "SELECT"),
            )?;
        }
    }
    Ok(())
}

pub fn columns(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    for r in source.names.relations() {
        for (_, column) in r.columns() {
            for privilege in OF_COLUMNS {
                row!(
                    rows,
                    grantor: ROLE,
                    grantee: ROLE,
                    table_catalog: &*source.session.database,
                    table_schema: source.names.schema_name(r.schema()),
                    table_name: r.name(),
                    column_name: column,
                    privilege_type: privilege,
                    is_grantable: "YES",
                )?;
            }
        }
    }
    Ok(())
}
