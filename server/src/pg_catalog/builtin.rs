//! What PostgreSQL 15 itself brings: the columns of every system relation and the rows of built-in objects, recorded
//! from a real one (`data/record`). Parsed once; the same in every node.

use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

use alluvium_exec::planning::types::PgType;

pub const PG_CATALOG: u32 = 11;
/// As recorded: the schema of its own domains.
pub const INFORMATION_SCHEMA: u32 = 13_207;
/// The role that owns everything: `postgres`.
pub const OWNER: u32 = 10;
/// The database: `postgres`.
pub const DATABASE: u32 = 5;

/// A system relation as PostgreSQL declares it.
pub struct Definition {
    pub schema: &'static str,
    pub name: &'static str,
    pub oid: u32,
    /// `relkind`: `r` or `v`.
    pub kind: char,
    pub columns: Vec<ColumnDefinition>,
}

pub struct ColumnDefinition {
    pub name: &'static str,
    /// As `pg_attribute` says it: may be a domain of `information_schema`.
    pub declared: u32,
    /// What its values are and what a client is told: a domain's base.
    pub pg_type: PgType,
    pub not_null: bool,
}

impl Definition {
    pub fn schema_oid(&self) -> u32 {
        if self.schema == "pg_catalog" { PG_CATALOG } else { INFORMATION_SCHEMA }
    }
}

/// A built-in type.
pub struct Type {
    pub oid: u32,
    pub name: &'static str,
    pub namespace: u32,
    pub length: i16,
    pub by_value: bool,
    /// `typtype`: `b`, `p`, `d`, `r`, `m`.
    pub kind: char,
    pub element: u32,
    pub alignment: char,
    pub storage: char,
    pub base: u32,
    pub modifier: i32,
    pub collation: u32,
}

/// A built-in function.
pub struct Function {
    pub oid: u32,
    pub name: &'static str,
    /// `prokind`: `f`, `a`, `w`.
    pub kind: char,
    pub returns_set: bool,
    pub volatility: char,
    pub strict: bool,
    pub returns: u32,
    pub arguments: Vec<u32>,
    /// Types of all arguments, OUT ones too, where there are any.
    pub all_arguments: Vec<u32>,
    pub modes: Vec<char>,
    pub names: Vec<&'static str>,
    pub source: &'static str,
}

/// Rows of one recorded relation, as COPY's text.
pub fn recorded(relation: &str) -> Option<&'static str> {
    Some(match relation {
        "pg_aggregate" => include_str!("data/pg_aggregate.tsv"),
        "pg_am" => include_str!("data/pg_am.tsv"),
        "pg_cast" => include_str!("data/pg_cast.tsv"),
        "pg_collation" => include_str!("data/pg_collation.tsv"),
        "pg_description" => include_str!("data/pg_description.tsv"),
        "pg_language" => include_str!("data/pg_language.tsv"),
        "pg_opclass" => include_str!("data/pg_opclass.tsv"),
        "pg_operator" => include_str!("data/pg_operator.tsv"),
        "pg_opfamily" => include_str!("data/pg_opfamily.tsv"),
        "pg_proc" => include_str!("data/pg_proc.tsv"),
        "pg_range" => include_str!("data/pg_range.tsv"),
        "pg_shdescription" => include_str!("data/pg_shdescription.tsv"),
        "pg_type" => include_str!("data/pg_type.tsv"),
        _ => return None,
    })
}

/// The cells of a line of COPY's text; `\N` is null. What was recorded holds no other escape than `\\`.
pub fn cells(line: &'static str) -> impl Iterator<Item = Option<&'static str>> {
    line.split('\t').map(|cell| (cell != "\\N").then_some(cell))
}

fn number<T: std::str::FromStr + Default>(text: Option<&str>) -> T {
    text.and_then(|t| t.parse().ok()).unwrap_or_default()
}

fn letter(text: Option<&str>) -> char {
    text.and_then(|t| t.chars().next()).unwrap_or(' ')
}

fn list(text: Option<&'static str>) -> Vec<&'static str> {
    let Some(text) = text else { return Vec::new() };
    match text.strip_prefix('{').and_then(|t| t.strip_suffix('}')) {
        Some(inner) => inner.split(',').map(|i| i.trim_matches('"')).collect(),
        None => text.split_ascii_whitespace().collect(),
    }
}

pub fn types() -> &'static BTreeMap<u32, Type> {
    static TYPES: OnceLock<BTreeMap<u32, Type>> = OnceLock::new();
    TYPES.get_or_init(|| {
        let lines = include_str!("data/pg_type.tsv").lines();
        lines
            .map(|line| {
                let c: Vec<_> = cells(line).collect();
                let t = Type {
                    oid: number(c[0]),
                    name: c[1].unwrap_or_default(),
                    namespace: number(c[2]),
                    length: number(c[4]),
                    by_value: c[5] == Some("t"),
                    kind: letter(c[6]),
                    element: number(c[13]),
                    alignment: letter(c[22]),
                    storage: letter(c[23]),
                    base: number(c[25]),
                    modifier: number(c[26]),
                    collation: number(c[28]),
                };
                (t.oid, t)
            })
            .collect()
    })
}

pub fn type_by_name(name: &str) -> Option<&'static Type> {
    types().values().find(|t| t.name == name && t.namespace == PG_CATALOG)
}

pub fn functions() -> &'static BTreeMap<u32, Function> {
    static FUNCTIONS: OnceLock<BTreeMap<u32, Function>> = OnceLock::new();
    FUNCTIONS.get_or_init(|| {
        let lines = include_str!("data/pg_proc.tsv").lines();
        lines
            .map(|line| {
                let c: Vec<_> = cells(line).collect();
                let oids = |cell| list(cell).iter().map(|o| number(Some(o))).collect();
                let f = Function {
                    oid: number(c[0]),
                    name: c[1].unwrap_or_default(),
                    kind: letter(c[9]),
                    strict: c[12] == Some("t"),
                    returns_set: c[13] == Some("t"),
                    volatility: letter(c[14]),
                    returns: number(c[18]),
                    arguments: oids(c[19]),
                    all_arguments: oids(c[20]),
                    modes: list(c[21]).iter().map(|m| letter(Some(m))).collect(),
                    names: list(c[22]),
                    source: c[25].unwrap_or_default(),
                };
                (f.oid, f)
            })
            .collect()
    })
}

pub fn definitions() -> &'static [Definition] {
    static DEFINITIONS: OnceLock<Vec<Definition>> = OnceLock::new();
    DEFINITIONS.get_or_init(|| {
        let lines = include_str!("data/relations.tsv").lines();
        lines
            .map(|line| {
                let c: Vec<_> = cells(line).map(Option::unwrap_or_default).collect();
                let columns = c[4].split(',').map(|column| {
                    let mut parts = column.split(' ');
                    let name = parts.next().unwrap_or_default();
                    let declared = number(parts.next());
                    let pg_type = match types().get(&declared) {
                        Some(t) if t.kind == 'd' => PgType { oid: t.base, modifier: t.modifier },
                        _ => PgType::of(declared),
                    };
                    ColumnDefinition { name, declared, pg_type, not_null: parts.next() == Some("1") }
                });
                Definition {
                    schema: c[0],
                    name: c[1],
                    oid: number(Some(c[2])),
                    kind: letter(Some(c[3])),
                    columns: columns.collect(),
                }
            })
            .collect()
    })
}

pub fn definition(schema: &str, name: &str) -> Option<&'static Definition> {
    definitions().iter().find(|d| d.schema == schema && d.name == name)
}

/// A word of SQL, as `pg_get_keywords` says it.
pub struct Keyword {
    /// `U`, `C`, `T`, `R`.
    pub category: char,
    /// All cells of its line.
    pub cells: Vec<Option<&'static str>>,
}

pub fn keywords() -> &'static HashMap<&'static str, Keyword> {
    static KEYWORDS: OnceLock<HashMap<&'static str, Keyword>> = OnceLock::new();
    KEYWORDS.get_or_init(|| {
        let lines = include_str!("data/keywords.tsv").lines();
        lines
            .map(|line| {
                let cells: Vec<_> = cells(line).collect();
                (cells[0].unwrap_or_default(), Keyword { category: letter(cells[1]), cells })
            })
            .collect()
    })
}

/// A comment on a built-in object.
pub fn description(class: u32, object: u32) -> Option<&'static str> {
    static DESCRIPTIONS: OnceLock<HashMap<(u32, u32), &'static str>> = OnceLock::new();
    let all = DESCRIPTIONS.get_or_init(|| {
        let lines = include_str!("data/pg_description.tsv").lines();
        lines
            .filter_map(|line| {
                let c: Vec<_> = cells(line).collect();
                Some(((number(c[1]), number(c[0])), c[3]?))
            })
            .collect()
    });
    all.get(&(class, object)).copied()
}
