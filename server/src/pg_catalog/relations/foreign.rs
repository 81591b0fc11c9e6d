//! `pg_foreign_data_wrapper`, `pg_foreign_server`, `pg_foreign_table`.

use alluvium_exec::sql::error::Result;

use crate::pg_catalog::builtin::OWNER;
use crate::pg_catalog::names::option_list;
use crate::pg_catalog::system_relation::{Rows, Source, row};
use crate::pg_catalog::value::Value;
use crate::pg_catalog::{wrapper_names, wrapper_oid};

pub fn wrappers(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    for name in wrapper_names(source.catalog) {
        row!(rows, oid: wrapper_oid(&name), fdwname: name, fdwowner: OWNER)?;
    }
    Ok(())
}

pub fn servers(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    for s in source.catalog.servers() {
        row!(
            rows,
            oid: s.id.0,
            srvname: &s.name,
            srvowner: OWNER,
            srvfdw: wrapper_oid(&s.wrapper),
            srvoptions: option_list(&s.options).map_or(Value::Null, Value::from),
        )?;
    }
    Ok(())
}

pub fn tables(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    for r in source.catalog.relations() {
        let Some(foreign) = &r.foreign else { continue };
        // The source's options are the server's with the table's over them; the table's own are the rest.
        let inherited = source.catalog.server(foreign.server).map(|s| &s.options);
        let own = foreign.options.iter().filter(|(k, v)| inherited.and_then(|o| o.get(*k)) != Some(v));
        row!(
            rows,
            ftrelid: r.id.0,
            ftserver: foreign.server.0,
            ftoptions: option_list(own).map_or(Value::Null, Value::from),
        )?;
    }
    Ok(())
}
