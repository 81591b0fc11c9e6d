//! Sizes on disk, and their text. What storage does not tell is null, not zero.

use super::Declarations;
use crate::pg_catalog::relations::{DEFAULT_TABLESPACE, GLOBAL_TABLESPACE};
use crate::pg_catalog::value::Value;

pub fn declare(d: &mut Declarations) {
    for signature in [
        "pg_relation_size(regclass) int8",
        "pg_relation_size(regclass,text) int8",
        "pg_total_relation_size(regclass) int8",
        "pg_table_size(regclass) int8",
        "pg_database_size(oid) int8",
        "pg_database_size(name) int8",
        "pg_tablespace_size(oid) int8",
        "pg_tablespace_size(name) int8",
    ] {
        d.stable(signature, |_| Ok(Value::Null));
    }
    // No relation has an index.
    d.stable("pg_indexes_size(regclass) int8", |c| Ok(c.names.relation(c.oid(0)?).map(|_| 0_i64).into()));
    d.stable("pg_relation_filepath(regclass) text", |_| Ok(Value::Null));
    d.stable("pg_tablespace_location(oid) text", |c| {
        let oid = c.oid(0)?;
        // The two that there are lie in the data directory, which PostgreSQL says as an empty text.
        Ok(matches!(oid, 0 | DEFAULT_TABLESPACE | GLOBAL_TABLESPACE).then_some("").into())
    });
    d.stable("pg_size_pretty(int8) text", |c| Ok(pretty(c.int(0)?).into()));
}

/// As PostgreSQL rounds: half away from zero, a unit from 10 of it on.
fn pretty(bytes: i64) -> String {
    const UNITS: [(&str, u64, bool); 6] = [
        ("bytes", 10 * 1024, false),
        ("kB", 20 * 1024 - 1, true),
        ("MB", 20 * 1024 - 1, true),
        ("GB", 20 * 1024 - 1, true),
        ("TB", 20 * 1024 - 1, true),
        ("PB", 20 * 1024 - 1, true),
    ];
    let mut size = i128::from(bytes);
    for (at, (unit, limit, rounds)) in UNITS.into_iter().enumerate() {
        let last = at + 1 == UNITS.len();
        if last || size.unsigned_abs() < u128::from(limit) {
            let shown = if rounds { half_rounded(size) } else { size };
            return format!("{shown} {unit}");
        }
        // One bit is kept for rounding: from bytes 9, between rounded units 10.
        let next_rounds = UNITS.get(at + 1).is_some_and(|u| u.2);
        let bits = 10 - u32::from(next_rounds) + u32::from(rounds);
        size /= 1_i128 << bits;
    }
    format!("{size} bytes")
}

fn half_rounded(value: i128) -> i128 {
    (value + if value < 0 { -1 } else { 1 }) / 2
}
