//! Names to objects along `search_path`, and objects to the shortest name that finds them.

use std::sync::Arc;

use alluvium_storage::SchemaId;
use alluvium_storage::catalog::{Catalog, Relation, Schema};

use crate::session_context::SessionContext;
use crate::sql::ddl::{ObjectKind, RelationName};
use crate::sql::error::{Result, SqlError, SqlState};

/// Schemas whose relations are made by the server; nothing is created or changed in them.
pub const SYSTEM_SCHEMAS: &[&str] = &["pg_catalog", "information_schema", "alluvium"];

pub struct Names<'a> {
    session: &'a SessionContext,
    catalog: &'a Catalog,
}

impl<'a> Names<'a> {
    pub fn new(session: &'a SessionContext, catalog: &'a Catalog) -> Self {
        Self { session, catalog }
    }

    /// The schemas of `search_path` that exist, in order, `pg_catalog` apart.
    fn path(&self) -> impl Iterator<Item = &'a Arc<Schema>> + '_ {
        self.session.search_path.iter().filter_map(|entry| {
            let name = if entry == "$user" { &*self.session.user } else { entry.as_str() };
            self.catalog.schema_by_name(name)
        })
    }

    fn check_database(&self, name: &RelationName) -> Result<()> {
        match &name.database {
            Some(database) if **database != *self.session.database => Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("cross-database references are not implemented: \"{name}\""),
            )),
            _ => Ok(()),
        }
    }

    /// The relation, or `None`; a schema that does not exist is `None` too.
    pub fn find(&self, name: &RelationName) -> Result<Option<Arc<Relation>>> {
        self.check_database(name)?;
        if let Some(schema) = &name.schema {
            let Some(schema) = self.catalog.schema_by_name(schema) else { return Ok(None) };
            return Ok(self.catalog.relation_by_name(schema.id, &name.name).cloned());
        }
        Ok(self.path().find_map(|s| self.catalog.relation_by_name(s.id, &name.name)).cloned())
    }

    /// The relation, or PostgreSQL's error. `strict`: a schema that does not exist is named itself (`3F000`), as utility
    /// statements do; queries say that the relation does not exist.
    pub fn existing(&self, name: &RelationName, strict: bool) -> Result<Arc<Relation>> {
        if let Some(found) = self.find(name)? {
            return Ok(found);
        }
        self.check_not_system(name)?;
        if let Some(schema) = name.schema.as_ref().filter(|s| strict && self.catalog.schema_by_name(s).is_none()) {
            return Err(undefined_schema(schema));
        }
        let written = match &name.schema {
            Some(schema) => format!("{schema}.{}", name.name),
            None => name.name.clone(),
        };
        Err(SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{written}\" does not exist")))
    }

    fn check_not_system(&self, name: &RelationName) -> Result<()> {
        match &name.schema {
            Some(schema) if SYSTEM_SCHEMAS.contains(&schema.as_str()) => Err(SqlError::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                format!("permission denied: \"{}\" is a system catalog", name.name),
            )),
            _ => Ok(()),
        }
    }

    /// Where a new relation goes.
    pub fn schema_for_new(&self, name: &RelationName) -> Result<Arc<Schema>> {
        self.check_database(name)?;
        match &name.schema {
            Some(schema) if SYSTEM_SCHEMAS.contains(&schema.as_str()) => Err(SqlError::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                format!("permission denied to create \"{schema}.{}\"", name.name),
            )
            .detail("System catalog modifications are currently disallowed.")),
            Some(schema) => self.catalog.schema_by_name(schema).cloned().ok_or_else(|| undefined_schema(schema)),
            None => self.path().next().cloned().ok_or_else(|| {
                SqlError::new(SqlState::INVALID_SCHEMA_NAME, "no schema has been selected to create in")
            }),
        }
    }

    /// The relation's name as this session would write it: with schema only where `search_path` does not find it.
    pub fn shown(&self, relation: &Relation) -> String {
        let bare = RelationName { database: None, schema: None, name: relation.name.clone() };
        match self.find(&bare) {
            Ok(Some(found)) if found.id == relation.id => quote_name(&relation.name),
            _ => format!("{}.{}", quote_name(&self.schema_name(relation.schema)), quote_name(&relation.name)),
        }
    }

    pub fn schema_name(&self, id: SchemaId) -> String {
        self.catalog.schema(id).map_or_else(String::new, |s| s.name.clone())
    }

    /// For IF EXISTS: which thing is missing, `schema "s"` or `table "t"`.
    pub fn missing(&self, kind: ObjectKind, name: &RelationName) -> SqlError {
        if let Some(schema) = name.schema.as_ref().filter(|s| self.catalog.schema_by_name(s).is_none()) {
            return undefined_schema(schema);
        }
        SqlError::new(
            SqlState::UNDEFINED_TABLE,
            format!("{} \"{}\" does not exist", super::object_name(kind), name.name),
        )
    }
}

pub fn undefined_schema(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist"))
}

/// As `quote_ident`: quoted where the name would not be read back as written.
pub fn quote_name(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !crate::sql::is_reserved(name);
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}
