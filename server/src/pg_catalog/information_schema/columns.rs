//! `columns` and `element_types`: each column with what the standard says of its type.

use alluvium_exec::planning::types::{PgType, element_of, numeric_precision_scale, oid};
use alluvium_exec::sql::error::Result;

use super::yes_no;
use crate::pg_catalog::builtin;
use crate::pg_catalog::names::{AnyRelation, attnum, format_type};
use crate::pg_catalog::system_relation::{Rows, Source, row};

/// What the standard says of a type with its modifier.
#[derive(Default)]
struct Facets {
    characters_max: Option<i32>,
    octets_max: Option<i32>,
    precision: Option<i32>,
    radix: Option<i32>,
    scale: Option<i32>,
    datetime_precision: Option<i32>,
}

/// A character takes at most so many bytes in UTF8.
const CHARACTER_BYTES_MAX: i32 = 4;
/// What `octet_length` of text without a length may be.
const OCTETS_MAX: i32 = 1 << 30;

const C_COLLATION: u32 = 950;

fn facets(t: PgType) -> Facets {
    let none = Facets::default();
    let binary = |precision| Facets { precision: Some(precision), radix: Some(2), ..Facets::default() };
    let integer = |precision| Facets { scale: Some(0), ..binary(precision) };
    match t.oid {
        oid::INT2 => integer(16),
        oid::INT4 => integer(32),
        oid::INT8 => integer(64),
        oid::FLOAT4 => binary(24),
        oid::FLOAT8 => binary(53),
        oid::NUMERIC => match numeric_precision_scale(t.modifier) {
            Some((p, s)) => {
                Facets { precision: Some(p.into()), radix: Some(10), scale: Some(s.into()), ..Facets::default() }
            }
            None => Facets { radix: Some(10), ..none },
        },
        oid::VARCHAR | oid::BPCHAR if t.modifier >= 4 => {
            let characters = t.modifier - 4;
            Facets {
                characters_max: Some(characters),
                octets_max: Some(characters.saturating_mul(CHARACTER_BYTES_MAX).min(OCTETS_MAX)),
                ..none
            }
        }
        oid::TEXT | oid::VARCHAR | oid::BPCHAR => Facets { octets_max: Some(OCTETS_MAX), ..none },
        oid::DATE => Facets { datetime_precision: Some(0), ..none },
        oid::TIME | oid::TIMESTAMP | oid::TIMESTAMPTZ | oid::INTERVAL => {
            Facets { datetime_precision: Some(if t.modifier >= 0 { t.modifier } else { 6 }), ..none }
        }
        _ => none,
    }
}

fn data_type(t: PgType) -> String {
    match (element_of(t.oid), t.oid) {
        (Some(_), _) => "ARRAY".to_owned(),
        (None, oid::BPCHAR) => "character".to_owned(),
        // The standard's name carries no modifier.
        (None, other) => format_type(PgType::of(other)),
    }
}

struct Described<'a> {
    relation: &'a AnyRelation<'a>,
    name: &'a str,
    position: i16,
    t: PgType,
    declared: u32,
    nullable: bool,
    default: Option<&'a str>,
    updatable: bool,
}

pub fn columns(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    each(source, |c| {
        let f = facets(c.t);
        let known = builtin::types().get(&c.t.oid);
        let database = &*source.session.database;
        // The default collation is not named; `name` has C.
        let collated = known.filter(|t| t.collation == C_COLLATION);
        let domain = builtin::types().get(&c.declared).filter(|t| t.kind == 'd');
        let schema = known.and_then(|t| source.names.schema_name(t.namespace));
        row!(
            rows,
            table_catalog: database,
            table_schema: source.names.schema_name(c.relation.schema()),
            table_name: c.relation.name(),
            column_name: c.name,
            ordinal_position: c.position,
            column_default: c.default,
            is_nullable: yes_no(c.nullable),
            data_type: data_type(c.t),
            character_maximum_length: f.characters_max,
            character_octet_length: f.octets_max,
            numeric_precision: f.precision,
            numeric_precision_radix: f.radix,
            numeric_scale: f.scale,
            datetime_precision: f.datetime_precision,
            collation_catalog: collated.map(|_| database),
            collation_schema: collated.map(|_| "pg_catalog"),
            collation_name: collated.map(|_| "C"),
            domain_catalog: domain.map(|_| database),
            domain_schema: domain.map(|_| "information_schema"),
            domain_name: domain.map(|d| d.name),
            udt_catalog: database,
            udt_schema: schema,
            udt_name: known.map(|t| t.name),
            dtd_identifier: c.position.to_string(),
            is_self_referencing: "NO",
            is_identity: "NO",
            identity_cycle: "NO",
            is_generated: "NEVER",
            is_updatable: yes_no(c.updatable),
        )
    })
}

pub fn element_types(source: &Source<'_>, rows: &mut Rows) -> Result<()> {
    each(source, |c| {
        let Some(element) = element_of(c.t.oid) else { return Ok(()) };
        let known = builtin::types().get(&element);
        let database = &*source.session.database;
        row!(
            rows,
            object_catalog: database,
            object_schema: source.names.schema_name(c.relation.schema()),
            object_name: c.relation.name(),
            object_type: if c.relation.kind() == 'v' { "VIEW" } else { "TABLE" },
            collection_type_identifier: c.position.to_string(),
            data_type: data_type(PgType::of(element)),
            udt_catalog: database,
            udt_schema: known.and_then(|t| source.names.schema_name(t.namespace)),
            udt_name: known.map(|t| t.name),
            dtd_identifier: format!("a{}", c.position),
        )
    })
}

fn each(source: &Source<'_>, mut say: impl FnMut(Described<'_>) -> Result<()>) -> Result<()> {
    for relation in source.names.relations() {
        match &relation {
            AnyRelation::System(d) => {
                for (c, position) in d.columns.iter().zip(1..) {
                    say(Described {
                        relation: &relation,
                        name: c.name,
                        position,
                        t: c.pg_type,
                        declared: c.declared,
                        nullable: !c.not_null,
                        default: None,
                        updatable: false,
                    })?;
                }
            }
            AnyRelation::User(r) => {
                for c in &r.columns {
                    say(Described {
                        relation: &relation,
                        name: &c.name,
                        position: attnum(c),
                        t: PgType { oid: c.type_oid, modifier: c.type_modifier },
                        declared: c.type_oid,
                        nullable: !c.not_null,
                        default: c.default.as_deref(),
                        updatable: r.is_stored(),
                    })?;
                }
            }
        }
    }
    Ok(())
}
