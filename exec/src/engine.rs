//! The engine: what `server` calls. Parses, prepares and executes; knows no protocol.
//! `prepare` and `execute` are called on a session's shard thread and do their work on compute threads.

use std::sync::Arc;

use alluvium_storage::catalog::Catalog;
use alluvium_storage::{CommitTimestamp, Durability, Executor, SavepointId, Store, Transaction};
use arrow::array::ArrayRef;

use crate::ddl::Notices;
pub use crate::execution::{Execution, ProgressReader, ProgressSource, Ready, Rows, progress};
use crate::planning::types::PgType;
use crate::planning::virtual_relation::Registry;
use crate::session_context::SessionContext;
use crate::sql::error::{Result, SqlError};
use crate::sql::statement::Parsed;

/// Cheap to clone; usable from any thread.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

#[allow(dead_code)]
struct Inner {
    store: Store,
    /// One for each core.
    compute: Vec<Executor>,
    registry: Registry,
}

/// A statement with names and types resolved. Stays valid over DDL: executing it plans again when the catalog moved
/// (`0A000 cached plan must not change result type` where the columns changed).
#[derive(Clone)]
pub struct Prepared {
    pub statement: Arc<Parsed>,
    pub parameters: Vec<PgType>,
    /// `None`: returns no rows.
    pub columns: Option<Arc<[ColumnDescription]>>,
    /// Never ends by itself.
    pub live: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnDescription {
    pub name: String,
    pub pg_type: PgType,
    /// Relation and `attnum` for a plain column, else zeros.
    pub table_oid: u32,
    pub attribute: i16,
}

/// A transaction block: its snapshot and what it has written.
pub struct Block {
    pub(crate) transaction: Transaction,
    /// One snapshot for the block (REPEATABLE READ), or one for each statement (`None`).
    pub snapshot: Option<CommitTimestamp>,
    pub read_only: bool,
    /// What statements of the block had to say beside their results; the session takes and sends them.
    pub notices: Notices,
}

impl Block {
    /// The catalog with the block's own edits.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.transaction.catalog()
    }

    pub fn savepoint(&mut self) -> SavepointId {
        self.transaction.savepoint()
    }

    pub async fn rollback_to(&mut self, savepoint: SavepointId) -> Result<()> {
        Ok(self.transaction.rollback_to(savepoint).await?)
    }

    pub async fn commit(self, durability: Durability) -> Result<()> {
        self.transaction.commit(durability).await?;
        Ok(())
    }
}

pub enum Outcome {
    Rows(Execution),
    /// Done; nothing to send but the tag.
    Done(Tag),
}

/// What CommandComplete says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// `SELECT n`, n counted by who sends the rows.
    Select,
    /// `SELECT n` of CREATE TABLE AS, n already known.
    Selected(u64),
    /// `INSERT 0 n`.
    Insert(u64),
    /// A fixed text: `CREATE TABLE`.
    Text(&'static str),
}

impl Engine {
    pub fn new(store: Store, compute: Vec<Executor>, registry: Registry) -> Self {
        assert!(!compute.is_empty(), "an engine needs a compute thread");
        Self { inner: Arc::new(Inner { store, compute, registry }) }
    }

    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// A compute thread's executor, for COPY decoding and the like.
    pub fn compute(&self, core: usize) -> &Executor {
        &self.inner.compute[core % self.inner.compute.len()]
    }

    pub fn cores(&self) -> usize {
        self.inner.compute.len()
    }

    pub fn begin(&self, session: &SessionContext) -> Block {
        Block {
            transaction: self.inner.store.begin(session.home),
            snapshot: None,
            read_only: false,
            notices: Notices::default(),
        }
    }

    /// The statements of a simple query's text. An empty text has none.
    pub async fn parse(&self, text: &str) -> Result<Vec<Parsed>> {
        crate::sql::parse(text)
    }

    /// Resolves names and types. `parameter_types` are the client's OIDs, 0 = infer. Session statements are not prepared.
    pub async fn prepare(
        &self,
        statement: Arc<Parsed>,
        parameter_types: &[u32],
        session: &SessionContext,
        block: Option<&Block>,
    ) -> Result<Prepared> {
        let _ = (statement, parameter_types, session, block);
        Err(SqlError::unsupported("planning"))
    }

    /// Runs a prepared statement in a block. `parameters` are arrays of length one, of the prepared types.
    /// On error the block is to be rolled back (or to a savepoint); nothing else is left behind.
    pub async fn execute(
        &self,
        prepared: &Prepared,
        parameters: Vec<ArrayRef>,
        session: &SessionContext,
        block: &mut Block,
    ) -> Result<Outcome> {
        let _ = (prepared, parameters, session, block);
        Err(SqlError::unsupported("execution"))
    }
}
