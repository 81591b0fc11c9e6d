//! Comments on objects: `obj_description`, `col_description`, `shobj_description`.

use alluvium_storage::RelationId;

use super::{Call, Declarations};
use crate::pg_catalog::builtin;
use crate::pg_catalog::names::attnum;
use crate::pg_catalog::value::Value;

const PG_CLASS: u32 = 1_259;

pub fn declare(d: &mut Declarations) {
    d.stable("obj_description(oid,name) text", |c| {
        let class = builtin::definition("pg_catalog", c.text(1)?).map(|d| d.oid);
        Ok(class.map_or(Value::Null, |class| comment(c, class, c.oid(0).unwrap_or_default())))
    });
    d.stable("obj_description(oid) text", |c| {
        let oid = c.oid(0)?;
        if c.catalog.relation(RelationId(oid)).is_some() {
            return Ok(comment(c, PG_CLASS, oid));
        }
        let classes = ["pg_type", "pg_proc", "pg_namespace", "pg_am", "pg_language", "pg_collation"];
        let mut classes = classes.iter().filter_map(|name| builtin::definition("pg_catalog", name));
        Ok(classes.find_map(|class| builtin::description(class.oid, oid)).into())
    });
    d.stable("col_description(oid,int4) text", |c| {
        let number = c.int(1)?;
        let relation = c.catalog.relation(RelationId(c.oid(0)?));
        let column = relation.and_then(|r| r.columns.iter().find(|c| i64::from(attnum(c)) == number));
        Ok(column.and_then(|c| c.comment.clone()).into())
    });
    d.stable("shobj_description(oid,name) text", |c| {
        let (object, class) = (c.oid(0)?, builtin::definition("pg_catalog", c.text(1)?).map(|d| d.oid));
        let found = builtin::recorded("pg_shdescription").unwrap_or_default().lines().find_map(|line| {
            let cells: Vec<_> = builtin::cells(line).collect();
            let same = cells.first()?.and_then(|o| o.parse().ok()) == Some(object)
                && cells.get(1)?.and_then(|o| o.parse().ok()) == class;
            if same { cells.get(2).copied().flatten() } else { None }
        });
        Ok(found.into())
    });
}

fn comment(c: &Call<'_>, class: u32, object: u32) -> Value {
    match c.catalog.relation(RelationId(object)).filter(|_| class == PG_CLASS) {
        Some(relation) => relation.comment.clone().into(),
        None => builtin::description(class, object).into(),
    }
}
