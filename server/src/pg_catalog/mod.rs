//! PostgreSQL 15's catalog as clients read it: `pg_catalog`, `information_schema`, and the functions over them.
//! Built-in objects are as a real PostgreSQL 15 has them (`data/`); everything else is read from the live catalog when
//! asked. Owns no state; knows neither sessions (only what `exec` shows of one) nor the protocol.

mod builtin;
mod functions;
mod information_schema;
mod names;
mod relations;
mod system_relation;
mod value;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use alluvium_exec::planning::binder::is_aggregate_or_window;
use alluvium_exec::planning::functions::Functions;
use alluvium_exec::planning::virtual_relation::{Registry, VirtualRelation};
use alluvium_storage::RelationId;
use alluvium_storage::catalog::{Catalog, Relation};

use builtin::Definition;
use system_relation::{Fill, SystemRelation};

/// The system relations and functions, for [`alluvium_exec::Engine::new`]. Connectors are the caller's to add.
/// The moment of the first call is what `pg_postmaster_start_time` says.
pub fn registry() -> Registry {
    let relations = filled().map(|(definition, fill)| {
        let relation = SystemRelation::new(definition, fill);
        let by_function = matches!(definition.name, "pg_proc" | "pg_aggregate");
        let relation = if by_function { relation.keeping(is_listed) } else { relation };
        Arc::new(relation) as Arc<dyn VirtualRelation>
    });
    Registry { relations: relations.collect(), functions: functions::all(), connectors: Vec::new() }
}

fn filled() -> impl Iterator<Item = (&'static Definition, Option<Fill>)> {
    let catalog = relations::RELATIONS.iter().map(|(name, fill)| ("pg_catalog", *name, *fill));
    let schema = information_schema::RELATIONS.iter().map(|(name, fill)| ("information_schema", *name, *fill));
    catalog.chain(schema).filter_map(|(s, name, fill)| Some((builtin::definition(s, name)?, fill)))
}

/// The system relations that a node has.
fn registered() -> &'static [&'static Definition] {
    static REGISTERED: OnceLock<Vec<&'static Definition>> = OnceLock::new();
    REGISTERED.get_or_init(|| filled().map(|(definition, _)| definition).collect())
}

/// OIDs of PostgreSQL's functions that this server has under the same name, and of those that types, operators and casts
/// point to.
fn listed() -> &'static BTreeSet<u32> {
    static LISTED: OnceLock<BTreeSet<u32>> = OnceLock::new();
    LISTED.get_or_init(|| {
        let ours = Functions::built_in();
        let names: BTreeSet<&str> = functions::names().collect();
        let has = |name: &str| names.contains(name) || !ours.named(name).is_empty() || is_aggregate_or_window(name);
        let mut oids: BTreeSet<u32> = builtin::functions().values().filter(|f| has(f.name)).map(|f| f.oid).collect();
        // Columns that hold functions, by relation.
        for (relation, columns) in [("pg_type", 15..22), ("pg_operator", 12..15), ("pg_cast", 3..4)] {
            for line in builtin::recorded(relation).unwrap_or_default().lines() {
                let cells: Vec<_> = builtin::cells(line).collect();
                let named = columns.clone().filter_map(|c| cells.get(c).copied().flatten()?.parse::<u32>().ok());
                oids.extend(named.filter(|oid| builtin::functions().contains_key(oid)));
            }
        }
        oids
    })
}

fn is_listed(line: &'static str) -> bool {
    builtin::cells(line).next().flatten().and_then(|c| c.parse().ok()).is_some_and(|oid: u32| listed().contains(&oid))
}

fn functions_listed() -> impl Iterator<Item = &'static builtin::Function> {
    builtin::functions().values().filter(|f| listed().contains(&f.oid))
}

/// The OID of what belongs to a relation and has none of its own: a column's default, a view's rule (`attnum` 0).
/// A function of both, above every OID that the catalog gives while it has given fewer than 600,000.
fn dependent_oid(relation: RelationId, attnum: i16) -> u32 {
    const FIRST: u32 = 1 << 30;
    // PostgreSQL's bound on columns.
    const COLUMNS_MAX: u32 = 1_600;
    let own = relation.0.saturating_sub(alluvium_storage::catalog::FIRST_USER_OID);
    FIRST.wrapping_add(own.wrapping_mul(COLUMNS_MAX)).wrapping_add(attnum.unsigned_abs().into())
}

/// The relation and `attnum` that [`dependent_oid`] was made of.
fn dependent_of(oid: u32) -> Option<(RelationId, i16)> {
    let own = oid.checked_sub(1 << 30)?;
    let relation = (own / 1_600).checked_add(alluvium_storage::catalog::FIRST_USER_OID)?;
    Some((RelationId(relation), i16::try_from(own % 1_600).ok()?))
}

/// Foreign data wrappers in use, by name.
fn wrapper_names(catalog: &Catalog) -> BTreeSet<String> {
    catalog.servers().map(|s| s.wrapper.clone()).collect()
}

/// A wrapper's OID is a function of its name, since the catalog has no object for it.
fn wrapper_oid(name: &str) -> u32 {
    const FIRST: u32 = 0x3F00_0000;
    name.bytes().fold(2_166_136_261_u32, |h, b| (h ^ u32::from(b)).wrapping_mul(16_777_619)) % 0x00FF_FFFF + FIRST
}

/// As `pg_get_viewdef` says it: the query with its semicolon.
fn view_definition(view: &Relation) -> String {
    format!(" {};", view.query.trim().trim_end_matches(';'))
}
