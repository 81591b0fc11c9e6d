//! Names to OIDs and back, for every kind of object a client may name: along `search_path`, with PostgreSQL's errors.
//! Knows system relations and the live catalog; makes no rows.

use std::sync::Arc;

use alluvium_exec::SessionContext;
use alluvium_exec::planning::types::{self, PgType};
use alluvium_exec::sql::error::{Result, SqlError, SqlState};
use alluvium_storage::catalog::{Catalog, Relation, RelationKind, Schema};
use alluvium_storage::{RelationId, SchemaId};

use super::builtin::{self, Definition, INFORMATION_SCHEMA, OWNER, PG_CATALOG};
use super::registered;

/// The only role.
pub const ROLE: &str = crate::access::SUPERUSER;

#[derive(Clone)]
pub enum AnyRelation<'a> {
    System(&'static Definition),
    User(&'a Arc<Relation>),
}

impl AnyRelation<'_> {
    pub fn oid(&self) -> u32 {
        match self {
            Self::System(d) => d.oid,
            Self::User(r) => r.id.0,
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Self::System(d) => d.name,
            Self::User(r) => &r.name,
        }
    }

    pub fn schema(&self) -> u32 {
        match self {
            Self::System(d) => d.schema_oid(),
            Self::User(r) => r.schema.0,
        }
    }

    /// `relkind`.
    pub fn kind(&self) -> char {
        match self {
            Self::System(d) => d.kind,
            Self::User(r) => kind(r.kind),
        }
    }

    /// `attnum` and name of every column.
    pub fn columns(&self) -> Vec<(i16, &str)> {
        match self {
            Self::System(d) => d.columns.iter().zip(1..).map(|(c, n)| (n, c.name)).collect(),
            Self::User(r) => r.columns.iter().map(|c| (attnum(c), c.name.as_str())).collect(),
        }
    }
}

pub fn attnum(column: &alluvium_storage::catalog::Column) -> i16 {
    i16::try_from(column.id.0).unwrap_or(i16::MAX)
}

/// `relkind`: a stream is a table to PostgreSQL's clients.
pub fn kind(kind: RelationKind) -> char {
    match kind {
        RelationKind::Stream | RelationKind::Table => 'r',
        RelationKind::View => 'v',
        RelationKind::Foreign => 'f',
    }
}

pub struct Names<'a> {
    session: &'a SessionContext,
    catalog: &'a Catalog,
}

impl<'a> Names<'a> {
    pub fn new(session: &'a SessionContext, catalog: &'a Catalog) -> Self {
        Self { session, catalog }
    }

    /// Every schema: OID, name, owner.
    pub fn schemas(&self) -> Vec<(u32, &'a str)> {
        let system = [(PG_CATALOG, "pg_catalog"), (INFORMATION_SCHEMA, "information_schema")];
        system.into_iter().chain(self.catalog.schemas().map(|s| (s.id.0, s.name.as_str()))).collect()
    }

    pub fn schema_name(&self, oid: u32) -> Option<&'a str> {
        match oid {
            PG_CATALOG => Some("pg_catalog"),
            INFORMATION_SCHEMA => Some("information_schema"),
            _ => self.catalog.schema(SchemaId(oid)).map(|s: &Arc<Schema>| s.name.as_str()),
        }
    }

    pub fn schema_oid(&self, name: &str) -> Option<u32> {
        self.schemas().into_iter().find(|(_, n)| *n == name).map(|(oid, _)| oid)
    }

    /// Schemas searched, in order. `implicit`: with `pg_catalog` where the setting does not name it.
    pub fn path(&self, implicit: bool) -> Vec<(u32, &'a str)> {
        let schemas = self.schemas();
        let mut path: Vec<(u32, &str)> = Vec::new();
        for entry in self.session.search_path.iter() {
            let wanted = if entry == "$user" { &*self.session.user } else { entry.as_str() };
            if let Some(found) = schemas.iter().find(|(_, n)| *n == wanted)
                && !path.contains(found)
            {
                path.push(*found);
            }
        }
        if implicit && !path.iter().any(|(oid, _)| *oid == PG_CATALOG) {
            path.insert(0, (PG_CATALOG, "pg_catalog"));
        }
        path
    }

    pub fn relations(&self) -> impl Iterator<Item = AnyRelation<'a>> + use<'a> {
        let system = registered().iter().map(|d| AnyRelation::System(d));
        system.chain(self.catalog.relations().map(AnyRelation::User))
    }

    pub fn relation(&self, oid: u32) -> Option<AnyRelation<'a>> {
        if let Some(user) = self.catalog.relation(RelationId(oid)) {
            return Some(AnyRelation::User(user));
        }
        registered().iter().find(|d| d.oid == oid).map(|d| AnyRelation::System(d))
    }

    fn relation_in(&self, schema: u32, name: &str) -> Option<AnyRelation<'a>> {
        if let Some(user) = self.catalog.relation_by_name(SchemaId(schema), name) {
            return Some(AnyRelation::User(user));
        }
        registered().iter().find(|d| d.schema_oid() == schema && d.name == name).map(|d| AnyRelation::System(d))
    }

    /// A relation as written in a text: `t`, `s.t`, `"S"."T"`, `db.s.t`. `None` = there is none.
    pub fn find_relation(&self, text: &str) -> Result<Option<AnyRelation<'a>>> {
        let parts = split_name(text)?;
        Ok(match self.qualified(&parts, text)? {
            (Some(schema), name) => self.schema_oid(schema).and_then(|s| self.relation_in(s, name)),
            (None, name) => self.path(true).into_iter().find_map(|(s, _)| self.relation_in(s, name)),
        })
    }

    fn qualified<'p>(&self, parts: &'p [String], text: &str) -> Result<(Option<&'p str>, &'p str)> {
        match parts {
            [name] => Ok((None, name)),
            [schema, name] => Ok((Some(schema), name)),
            [database, schema, name] if **database == *self.session.database => Ok((Some(schema), name)),
            [_, _, _] => Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("cross-database references are not implemented: {text}"),
            )),
            _ => Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("improper qualified name (too many dotted names): {text}"),
            )),
        }
    }

    /// As [`Names::find_relation`]; `42P01` where there is none.
    pub fn existing_relation(&self, text: &str) -> Result<AnyRelation<'a>> {
        self.find_relation(text)?.ok_or_else(|| {
            let written = split_name(text).map_or_else(|_| text.to_owned(), |parts| parts.join("."));
            SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{written}\" does not exist"))
        })
    }

    /// True where the bare name finds this relation.
    pub fn is_visible(&self, relation: &AnyRelation<'_>) -> bool {
        let found = self.path(true).into_iter().find_map(|(s, _)| self.relation_in(s, relation.name()));
        found.is_some_and(|f| f.oid() == relation.oid())
    }

    /// A relation's name as this session would write it.
    pub fn shown(&self, relation: &AnyRelation<'_>) -> String {
        if self.is_visible(relation) {
            return quote_ident(relation.name());
        }
        let schema = self.schema_name(relation.schema()).unwrap_or_default();
        format!("{}.{}", quote_ident(schema), quote_ident(relation.name()))
    }

    pub fn is_searched(&self, schema: u32) -> bool {
        self.path(true).iter().any(|(oid, _)| *oid == schema)
    }

    /// A type as written in a text, SQL's names included. `None` = there is none.
    pub fn find_type(&self, text: &str) -> Result<Option<PgType>> {
        let text = text.trim();
        let lower = text.to_ascii_lowercase();
        let (bare, qualified) = match lower.strip_prefix("pg_catalog.") {
            Some(bare) => (bare, true),
            None => (lower.as_str(), false),
        };
        if text.is_empty() || bare == "unknown" {
            return Ok((bare == "unknown").then(|| PgType::of(types::oid::UNKNOWN)));
        }
        // Length, precision and scale are read and left out: a regtype has no modifier.
        let without_modifier = match (bare.find('('), bare.find(')')) {
            (Some(open), Some(close)) if open < close => format!("{}{}", bare[..open].trim_end(), &bare[close + 1..]),
            _ => bare.to_owned(),
        };
        if !qualified && let Some(oid) = types::type_by_name(&without_modifier) {
            return Ok(Some(PgType::of(oid)));
        }
        let (element, array) = match without_modifier.strip_suffix("[]") {
            Some(element) => (element.trim_end(), true),
            None => (without_modifier.as_str(), false),
        };
        let parts = if element.contains('"') { split_name(text.trim_end_matches("[]"))? } else { split_name(element)? };
        let (schema, name) = self.qualified(&parts, text)?;
        let searched = |t: &builtin::Type| match schema {
            Some(schema) => self.schema_name(t.namespace) == Some(schema),
            None if qualified => t.namespace == PG_CATALOG,
            None => self.is_searched(t.namespace),
        };
        let found = builtin::types().values().find(|t| t.name == name && searched(t));
        Ok(match (found, array) {
            (Some(t), false) => Some(PgType::of(t.oid)),
            (Some(t), true) => {
                builtin::types().values().find(|a| a.element == t.oid && a.length == -1).map(|a| PgType::of(a.oid))
            }
            (None, _) => None,
        })
    }

    /// The function of a name, where there is exactly one; `Err(count)` else.
    pub fn find_function(&self, text: &str) -> Result<std::result::Result<u32, usize>> {
        let parts = split_name(text)?;
        let (schema, name) = self.qualified(&parts, text)?;
        if schema.is_some_and(|s| s != "pg_catalog") {
            return Ok(Err(0));
        }
        let mut found = super::functions_listed().filter(|f| f.name == name);
        Ok(match (found.next(), found.count()) {
            (None, _) => Err(0),
            (Some(only), 0) => Ok(only.oid),
            (Some(_), more) => Err(more + 1),
        })
    }

    pub fn role_oid(&self, name: &str) -> Option<u32> {
        (name == ROLE).then_some(OWNER)
    }

    pub fn existing_role(&self, name: &str) -> Result<u32> {
        self.role_oid(name)
            .ok_or_else(|| SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist")))
    }
}

/// As `format_type`: SQL's name, with schema where a bare name would not find it.
pub fn format_type(t: PgType) -> String {
    if types::type_info(t.oid).is_some() || types::element_of(t.oid).is_some() || t.oid == 0 {
        return types::format_type(t);
    }
    let Some(known) = builtin::types().get(&t.oid) else { return "???".to_owned() };
    if known.element != 0 && known.length == -1 {
        return format!("{}[]", format_type(PgType { oid: known.element, modifier: t.modifier }));
    }
    let plain = match known.name {
        "timetz" => "time with time zone",
        "bit" => "bit",
        "varbit" => "bit varying",
        other => other,
    };
    if known.namespace == INFORMATION_SCHEMA { format!("information_schema.{plain}") } else { plain.to_owned() }
}

/// An identifier as SQL reads it back: quoted where it holds anything unusual or is a word of SQL.
pub fn quote_ident(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && builtin::keywords().get(name).is_none_or(|k| k.category == 'U');
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// A dotted name: unquoted parts in lower case, quoted ones as they are. `42602` for what is no name.
pub fn split_name(text: &str) -> Result<Vec<String>> {
    let invalid = || SqlError::new(SqlState::INVALID_NAME, "invalid name syntax");
    let mut parts = Vec::new();
    let mut rest = text.trim();
    loop {
        let mut part = String::new();
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut at = quoted;
            loop {
                let end = at.find('"').ok_or_else(invalid)?;
                part.push_str(&at[..end]);
                at = &at[end + 1..];
                match at.strip_prefix('"') {
                    Some(more) => {
                        part.push('"');
                        at = more;
                    }
                    None => break,
                }
            }
            rest = at;
            if part.is_empty() {
                return Err(invalid());
            }
        } else {
            let end = rest.find(|c: char| c == '.' || c.is_whitespace()).unwrap_or(rest.len());
            part = rest[..end].to_lowercase();
            rest = &rest[end..];
            if part.is_empty() {
                return Err(invalid());
            }
        }
        parts.push(part);
        rest = rest.trim_start();
        match rest.strip_prefix('.') {
            Some(more) => rest = more.trim_start(),
            None if rest.is_empty() => return Ok(parts),
            None => return Err(invalid()),
        }
    }
}

/// Options as `reloptions` and the like hold them: `name=value`.
pub fn option_list<'o>(options: impl IntoIterator<Item = (&'o String, &'o String)>) -> Option<Vec<String>> {
    let list: Vec<String> = options.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    (!list.is_empty()).then_some(list)
}
