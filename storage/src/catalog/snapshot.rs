//! One version of the catalog, and the edits that lead to the next.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::object::{Relation, Schema, Server};
use crate::base::error::{Error, Result};
use crate::base::ids::{RelationId, SchemaId, ServerId};

/// OIDs below this are PostgreSQL's own and those of built-in objects.
pub const FIRST_USER_OID: u32 = 16_384;
pub const PUBLIC_SCHEMA: SchemaId = SchemaId(2_200);

/// An immutable version of all objects. Cloning copies pointers, not objects.
#[derive(Clone, Debug, PartialEq)]
pub struct Catalog {
    pub version: u64,
    pub next_oid: u32,
    schemas: BTreeMap<SchemaId, Arc<Schema>>,
    relations: BTreeMap<RelationId, Arc<Relation>>,
    servers: BTreeMap<ServerId, Arc<Server>>,
}

/// One change; a transaction's edits take effect together.
#[derive(Clone, Debug, PartialEq)]
pub enum CatalogEdit {
    PutSchema(Schema),
    DropSchema(SchemaId),
    /// Adds the relation, or replaces the one of the same id.
    PutRelation(Box<Relation>),
    DropRelation(RelationId),
    /// Adds the foreign server, or replaces the one of the same id.
    PutServer(Server),
    DropServer(ServerId),
}

impl Default for Catalog {
    fn default() -> Self {
        let public = Schema { id: PUBLIC_SCHEMA, name: "public".into(), owner: "postgres".into() };
        Self {
            version: 0,
            next_oid: FIRST_USER_OID,
            schemas: BTreeMap::from([(PUBLIC_SCHEMA, Arc::new(public))]),
            relations: BTreeMap::new(),
            servers: BTreeMap::new(),
        }
    }
}

impl Catalog {
    pub fn schemas(&self) -> impl Iterator<Item = &Arc<Schema>> {
        self.schemas.values()
    }

    pub fn relations(&self) -> impl Iterator<Item = &Arc<Relation>> {
        self.relations.values()
    }

    pub fn schema(&self, id: SchemaId) -> Option<&Arc<Schema>> {
        self.schemas.get(&id)
    }

    pub fn schema_by_name(&self, name: &str) -> Option<&Arc<Schema>> {
        self.schemas.values().find(|s| s.name == name)
    }

    pub fn relation(&self, id: RelationId) -> Option<&Arc<Relation>> {
        self.relations.get(&id)
    }

    pub fn relation_by_name(&self, schema: SchemaId, name: &str) -> Option<&Arc<Relation>> {
        self.relations.values().find(|r| r.schema == schema && r.name == name)
    }

    pub fn servers(&self) -> impl Iterator<Item = &Arc<Server>> {
        self.servers.values()
    }

    pub fn server(&self, id: ServerId) -> Option<&Arc<Server>> {
        self.servers.get(&id)
    }

    pub fn server_by_name(&self, name: &str) -> Option<&Arc<Server>> {
        self.servers.values().find(|s| s.name == name)
    }

    /// The next version. Names are checked here, so a published catalog never holds two relations of one name.
    pub fn apply(&self, edit: &CatalogEdit) -> Result<Catalog> {
        let mut next = self.clone();
        next.version += 1;
        match edit {
            CatalogEdit::PutSchema(schema) => {
                if self.schemas.values().any(|s| s.name == schema.name && s.id != schema.id) {
                    return Err(Error::Duplicate { what: format!("schema \"{}\"", schema.name) });
                }
                next.next_oid = next.next_oid.max(schema.id.0.saturating_add(1));
                next.schemas.insert(schema.id, Arc::new(schema.clone()));
            }
            CatalogEdit::DropSchema(id) => {
                next.schemas.remove(id).ok_or_else(|| Error::Undefined { what: format!("schema {}", id.0) })?;
            }
            CatalogEdit::PutRelation(relation) => {
                if !self.schemas.contains_key(&relation.schema) {
                    return Err(Error::Undefined { what: format!("schema {}", relation.schema.0) });
                }
                let taken = self.relation_by_name(relation.schema, &relation.name);
                if taken.is_some_and(|r| r.id != relation.id) {
                    return Err(Error::Duplicate { what: format!("relation \"{}\"", relation.name) });
                }
                next.next_oid = next.next_oid.max(relation.id.0.saturating_add(1));
                next.relations.insert(relation.id, Arc::new((**relation).clone()));
            }
            CatalogEdit::DropRelation(id) => {
                next.relations.remove(id).ok_or_else(|| Error::Undefined { what: format!("relation {}", id.0) })?;
            }
            CatalogEdit::PutServer(server) => {
                if self.servers.values().any(|s| s.name == server.name && s.id != server.id) {
                    return Err(Error::Duplicate { what: format!("server \"{}\"", server.name) });
                }
                next.next_oid = next.next_oid.max(server.id.0.saturating_add(1));
                next.servers.insert(server.id, Arc::new(server.clone()));
            }
            CatalogEdit::DropServer(id) => {
                next.servers.remove(id).ok_or_else(|| Error::Undefined { what: format!("server {}", id.0) })?;
            }
        }
        Ok(next)
    }
}
