//! `pg_attribute`, `pg_attrdef` and `pg_description`: columns, their defaults, and comments.

use alluvium_exec::planning::types::element_of;
use alluvium_exec::sql::error::Result;

use crate::pg_catalog::builtin;
use crate::pg_catalog::dependent_oid;
use crate::pg_catalog::names::{AnyRelation, attnum, option_list};
use crate::pg_catalog::system_relation::{Rows, Source, row};
use crate::pg_catalog::value::Value;

pub const PG_CLASS: u32 = 1_259;

struct Attribute<'a> {
    relation: u32,
    name: &'a str,
    number: i16,
    type_oid: u32,
    modifier: i32,
    not_null: bool,
    has_default: bool,
    missing: bool,
    options: Option<Vec<String>>,
}

fn push(rows: &mut Rows, a: Attribute<'_>) -> Result<()> {
    let known = builtin::types().get(&a.type_oid);
    row!(
        rows,
        attrelid: a.relation,
        attname: a.name,
        atttypid: a.type_oid,
        attstattarget: -1,
        attlen: known.map_or(-1, |t| t.length),
        attnum: a.number,
        attndims: i32::from(element_of(a.type_oid).is_some()),
        attcacheoff: -1,
        atttypmod: a.modifier,
        attbyval: known.is_some_and(|t| t.by_value),
        attalign: known.map_or('i', |t| t.alignment),
        attstorage: known.map_or('x', |t| t.storage),
        attnotnull: a.not_null,
        atthasdef: a.has_default,
        atthasmissing: a.missing,
        attislocal: true,
        attcollation: known.map_or(0, |t| t.collation),
        attfdwoptions: a.options.map_or(Value::Null, Value::from),
    )
}

pub fn attributes(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    for relation in source.names.relations() {
        match &relation {
            AnyRelation::System(d) => {
                for (c, number) in d.columns.iter().zip(1..) {
                    push(
                        rows,
                        Attribute {
                            relation: d.oid,
                            name: c.name,
                            number,
                            type_oid: c.declared,
                            modifier: -1,
                            not_null: c.not_null,
                            has_default: false,
                            missing: false,
                            options: None,
                        },
                    )?;
                }
            }
            AnyRelation::User(r) => {
                for c in &r.columns {
                    push(
                        rows,
                        Attribute {
                            relation: r.id.0,
                            name: &c.name,
                            number: attnum(c),
                            type_oid: c.type_oid,
                            modifier: c.type_modifier,
                            not_null: c.not_null,
                            has_default: c.default.is_some(),
                            missing: c.missing.is_some(),
                            options: option_list(&c.foreign_options),
                        },
                    )?;
                }
            }
        }
    }
    Ok(())
}

pub fn defaults(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    for r in source.catalog.relations() {
        for c in &r.columns {
            let Some(default) = &c.default else { continue };
            row!(rows, oid: dependent_oid(r.id, attnum(c)), adrelid: r.id.0, adnum: attnum(c), adbin: default)?;
        }
    }
    Ok(())
}

pub fn descriptions(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    for r in source.catalog.relations() {
        if let Some(comment) = &r.comment {
            row!(rows, objoid: r.id.0, classoid: PG_CLASS, objsubid: 0, description: comment)?;
        }
        for c in &r.columns {
            let Some(comment) = &c.comment else { continue };
            row!(rows, objoid: r.id.0, classoid: PG_CLASS, objsubid: attnum(c), description: comment)?;
        }
    }
    Ok(())
}
