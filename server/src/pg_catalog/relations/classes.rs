//! `pg_class`: every relation, system ones included.

use alluvium_exec::sql::error::Result;
use alluvium_storage::catalog::RelationKind;

use crate::pg_catalog::builtin::OWNER;
use crate::pg_catalog::names::{AnyRelation, option_list};
use crate::pg_catalog::system_relation::{Rows, Source, row};
use crate::pg_catalog::value::Value;

/// `heap`, which clients expect of what holds rows.
const HEAP: u32 = 2;

pub fn classes(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    for relation in source.names.relations() {
        let stored = match &relation {
            AnyRelation::System(d) => d.kind == 'r',
            AnyRelation::User(r) => r.is_stored(),
        };
        let columns = match &relation {
            AnyRelation::System(d) => d.columns.len(),
            // Numbers of dropped columns count too.
            AnyRelation::User(r) => usize::from(r.next_column.0.saturating_sub(1)),
        };
        let options = match &relation {
            AnyRelation::User(r) if r.kind != RelationKind::Foreign => option_list(&r.options.given),
            _ => None,
        };
        row!(
            rows,
            oid: relation.oid(),
            relname: relation.name(),
            relnamespace: relation.schema(),
            relowner: OWNER,
            relam: if stored { HEAP } else { 0 },
            relfilenode: if stored { relation.oid() } else { 0 },
            // Never analysed: how many rows there are is not known here.
            reltuples: -1.0,
            relpersistence: 'p',
            relkind: relation.kind(),
            relnatts: columns as i64,
            relhasrules: relation.kind() == 'v',
            relispopulated: true,
            relreplident: if stored && matches!(relation, AnyRelation::User(_)) { 'd' } else { 'n' },
            reloptions: options.map_or(Value::Null, Value::from),
        )?;
    }
    Ok(())
}
