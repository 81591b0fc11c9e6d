//! `pg_…_is_visible`: may an object be named without its schema?

use super::{Call, Declarations};
use crate::pg_catalog::builtin::{self, PG_CATALOG};
use crate::pg_catalog::functions_listed;
use crate::pg_catalog::value::Value;

pub fn declare(d: &mut Declarations) {
    d.stable("pg_table_is_visible(oid) bool", |c| {
        let relation = c.names.relation(c.oid(0)?);
        Ok(relation.map(|r| c.names.is_visible(&r)).into())
    });
    d.stable("pg_type_is_visible(oid) bool", |c| {
        let found = builtin::types().get(&c.oid(0)?);
        Ok(found.map(|t| c.names.is_searched(t.namespace)).into())
    });
    d.stable("pg_function_is_visible(oid) bool", |c| {
        let oid = c.oid(0)?;
        Ok(in_catalog(c, functions_listed().any(|f| f.oid == oid)))
    });
    // Their built-in objects lie in pg_catalog, and users can make none.
    for (signature, relation) in [
        ("pg_operator_is_visible(oid) bool", "pg_operator"),
        ("pg_opclass_is_visible(oid) bool", "pg_opclass"),
        ("pg_opfamily_is_visible(oid) bool", "pg_opfamily"),
        ("pg_collation_is_visible(oid) bool", "pg_collation"),
    ] {
        d.stable(signature, move |c| {
            let oid = c.oid(0)?.to_string();
            let lines = builtin::recorded(relation).unwrap_or_default();
            let known = lines.lines().any(|l| l.split('\t').next() == Some(oid.as_str()));
            Ok(in_catalog(c, known))
        });
    }
    // There are no such objects.
    for signature in [
        "pg_conversion_is_visible(oid) bool",
        "pg_statistics_obj_is_visible(oid) bool",
        "pg_ts_config_is_visible(oid) bool",
        "pg_ts_dict_is_visible(oid) bool",
        "pg_ts_parser_is_visible(oid) bool",
        "pg_ts_template_is_visible(oid) bool",
    ] {
        d.stable(signature, |_| Ok(Value::Null));
    }
}

fn in_catalog(c: &Call<'_>, known: bool) -> Value {
    if known { c.names.is_searched(PG_CATALOG).into() } else { Value::Null }
}
