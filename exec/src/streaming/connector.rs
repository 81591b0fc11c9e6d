//! Foreign tables: where rows of the outside world come in. Implemented in `server::connectors`.

use alluvium_storage::catalog::Relation;
use arrow::array::RecordBatch;
use futures::future::BoxFuture;

use crate::sql::error::Result;

/// One foreign data wrapper. Found by its name in [`crate::planning::virtual_relation::Registry::connectors`].
pub trait Connector: Send + Sync {
    /// The name in `FOREIGN DATA WRAPPER`.
    fn wrapper(&self) -> &'static str;
    /// Refuses options that it does not know or cannot follow (`HV00D`, `22023`), at CREATE.
    fn validate(&self, relation: &Relation) -> Result<()>;
    /// A new reader of the whole table.
    fn open(&self, relation: &Relation) -> Result<Box<dyn ForeignReader>>;
    /// False: rows come without end, so only a live query can read it.
    fn is_finite(&self, relation: &Relation) -> Result<bool>;
}

/// One pass over a foreign table.
pub trait ForeignReader: Send {
    /// The next rows with the relation's columns in order, or `None` at the end. Waits until there are some. Cancel-safe.
    fn next(&mut self) -> BoxFuture<'_, Result<Option<RecordBatch>>>;
}
