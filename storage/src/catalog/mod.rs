//! What exists: schemas and relations with stable OIDs. One writer (shard 0); everyone else holds a snapshot.
//! Knows names, columns and options; neither SQL nor rows.

mod object;
mod snapshot;

pub use object::{
    Column, ConstantValue, ForeignSource, Relation, RelationKind, RelationOptions, Retention, Schema, Server, Watermark,
};
pub use snapshot::{Catalog, CatalogEdit, FIRST_USER_OID};
