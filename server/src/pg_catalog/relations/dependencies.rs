//! `pg_rewrite` and `pg_depend`: a view's rule, and what depends on what.

use alluvium_exec::sql::error::Result;
use alluvium_storage::catalog::RelationKind;

use super::attributes::PG_CLASS;
use crate::pg_catalog::dependent_oid;
use crate::pg_catalog::names::attnum;
use crate::pg_catalog::system_relation::{Rows, Source, row};

const PG_REWRITE: u32 = 2_618;
const PG_ATTRDEF: u32 = 2_604;
const PG_NAMESPACE: u32 = 2_615;
const PG_FOREIGN_SERVER: u32 = 1_417;

/// A view is its `_RETURN` rule, `attnum` 0 among its dependents.
pub fn rewrite(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    for r in source.catalog.relations().filter(|r| r.kind == RelationKind::View) {
        row!(
            rows,
            oid: dependent_oid(r.id, 0),
            rulename: "_RETURN",
            ev_class: r.id.0,
            ev_type: '1',
            ev_enabled: 'O',
            is_instead: true,
            ev_qual: "<>",
            ev_action: &r.query,
        )?;
    }
    Ok(())
}

struct Edge {
    from: (u32, u32),
    to: (u32, u32, i16),
    kind: char,
}

fn push(rows: &mut Rows, edge: Edge) -> Result<()> {
    row!(
        rows,
        classid: edge.from.0,
        objid: edge.from.1,
        refclassid: edge.to.0,
        refobjid: edge.to.1,
        refobjsubid: i32::from(edge.to.2),
        deptype: edge.kind,
    )
}

pub fn depend(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    for r in source.catalog.relations() {
        let this = (PG_CLASS, r.id.0);
        push(rows, Edge { from: this, to: (PG_NAMESPACE, r.schema.0, 0), kind: 'n' })?;
        for c in r.columns.iter().filter(|c| c.default.is_some()) {
            let default = (PG_ATTRDEF, dependent_oid(r.id, attnum(c)));
            push(rows, Edge { from: default, to: (PG_CLASS, r.id.0, attnum(c)), kind: 'a' })?;
        }
        if r.kind == RelationKind::View {
            let rule = (PG_REWRITE, dependent_oid(r.id, 0));
            push(rows, Edge { from: rule, to: (PG_CLASS, r.id.0, 0), kind: 'i' })?;
            for read in &r.depends_on {
                push(rows, Edge { from: rule, to: (PG_CLASS, read.0, 0), kind: 'n' })?;
            }
        }
        if let Some(foreign) = &r.foreign {
            push(rows, Edge { from: this, to: (PG_FOREIGN_SERVER, foreign.server.0, 0), kind: 'n' })?;
        }
    }
    Ok(())
}
