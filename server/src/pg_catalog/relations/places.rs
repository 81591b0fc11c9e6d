//! `pg_namespace`, `pg_database`, `pg_tablespace`: where things are.

use alluvium_exec::sql::error::Result;

use crate::pg_catalog::builtin::{DATABASE, OWNER};
use crate::pg_catalog::system_relation::{Rows, Source, row};

pub const DEFAULT_TABLESPACE: u32 = 1_663;
pub const GLOBAL_TABLESPACE: u32 = 1_664;
/// The number of UTF8 among PostgreSQL's encodings.
const UTF8: i32 = 6;

pub fn namespaces(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    for (oid, name) in source.names.schemas() {
        row!(rows, oid: oid, nspname: name, nspowner: OWNER)?;
    }
    Ok(())
}

pub fn databases(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    let setting = |name: &str| source.session.host.setting(name).unwrap_or_else(|| "C".to_owned());
    row!(
        rows,
        oid: DATABASE,
        datname: &*source.session.database,
        datdba: OWNER,
        encoding: UTF8,
        datlocprovider: 'c',
        datallowconn: true,
        datconnlimit: -1,
        dattablespace: DEFAULT_TABLESPACE,
        datcollate: setting("lc_collate"),
        datctype: setting("lc_ctype"),
    )
}

pub fn tablespaces(_: &Source<'_>, rows: &mut Rows) -> Result<()> {
    row!(rows, oid: DEFAULT_TABLESPACE, spcname: "pg_default", spcowner: OWNER)?;
    row!(rows, oid: GLOBAL_TABLESPACE, spcname: "pg_global", spcowner: OWNER)
}
