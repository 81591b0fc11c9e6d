//! The engine: what `server` calls. Parses, prepares and executes; knows no protocol.
//! `prepare` and `execute` are called on a session's shard thread and do their work on compute threads.

use std::future::Future;
use std::sync::Arc;

use alluvium_storage::catalog::Catalog;
use alluvium_storage::{CommitTimestamp, Durability, Executor, SavepointId, ShardId, Store, Transaction};
use arrow::array::ArrayRef;
use datafusion::common::ScalarValue;
use sqlparser::ast;
use tokio::sync::oneshot;

use crate::batch::execute::{self, Bound};

use crate::ddl::Notices;
pub use crate::execution::{Execution, ProgressReader, ProgressSource, Ready, Rows, progress};
use crate::planning::explain;
use crate::planning::functions::Env;
use crate::planning::planner::Planner;
use crate::planning::types::{PgType, oid};
use crate::planning::virtual_relation::Registry;
use crate::session_context::SessionContext;
use crate::sql::error::{Result, SqlError, SqlState};
use crate::sql::statement::{ExplainFormat, Parsed, Statement};

/// Cheap to clone; usable from any thread.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    /// One for each core.
    compute: Arc<[Executor]>,
    planner: Planner,
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
    /// A plan that any execution may use while the catalog stands still.
    plan: Option<Arc<Bound>>,
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
        let compute: Arc<[Executor]> = compute.into();
        let planner = Planner::new(registry, compute.clone());
        Self { inner: Arc::new(Inner { store, compute, planner }) }
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
        let catalog = block.map_or_else(|| self.inner.store.catalog(), |b| b.transaction.catalog());
        let env = execute::env(session, catalog);
        let types: Vec<PgType> =
            parameter_types.iter().map(|o| PgType::of(if *o == 0 { oid::UNKNOWN } else { *o })).collect();
        let engine = self.clone();
        self.on_compute(session.home, move || async move { engine.prepare_now(statement, types, &env) }).await
    }

    /// Runs work on a core's compute thread and waits for it.
    async fn on_compute<T, F, Fut>(&self, core: ShardId, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<T>> + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        self.compute(usize::from(core.0)).spawn(move || async move {
            let mut sender = sender;
            let result = tokio::select! {
                biased;
                () = sender.closed() => return,
                result = work() => result,
            };
            // Who asked may be gone by now.
            let _ = sender.send(result);
        });
        receiver.await.unwrap_or_else(|_| Err(SqlError::new(SqlState::ADMIN_SHUTDOWN, "the server is shutting down")))
    }

    fn prepare_now(&self, statement: Arc<Parsed>, types: Vec<PgType>, env: &Env) -> Result<Prepared> {
        let plain = |statement: Arc<Parsed>, columns| Prepared {
            statement,
            parameters: Vec::new(),
            columns,
            live: false,
            plan: None,
        };
        let parsed = statement.clone();
        match &parsed.statement {
            Statement::Query(query) if query.live.is_none() => {
                let bound = execute::bind(&self.inner.planner, &query.body, env, &types, None, None, false)?;
                let parameters = execute::settle_parameters(&bound.parameters)?;
                let columns = Some(execute::describe(&bound.relation.columns));
                let reusable = parameters.is_empty() && !bound.serves_once;
                let plan = reusable.then(|| Arc::new(bound));
                Ok(Prepared { statement, parameters, columns, live: false, plan })
            }
            Statement::Explain(explain) => {
                let t = if explain.format == ExplainFormat::Json { oid::JSON } else { oid::TEXT };
                let column = ColumnDescription {
                    name: "QUERY PLAN".to_owned(),
                    pg_type: PgType::of(t),
                    table_oid: 0,
                    attribute: 0,
                };
                let inner = self.prepare_now(Arc::new(explain.statement.clone()), types, env)?;
                Ok(Prepared { parameters: inner.parameters, ..plain(statement, Some(Arc::from([column]))) })
            }
            other => Err(SqlError::unsupported(execute::name(other))),
        }
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
        let at = block.snapshot.unwrap_or_else(|| self.inner.store.stable());
        match &prepared.statement.statement {
            Statement::Query(query) if query.live.is_none() => {
                let (bound, env, values) = self.bound_for(prepared, &query.body, &parameters, session, block).await?;
                let scan = execute::scan_context(
                    &self.inner.store,
                    at,
                    &bound.relation.plan,
                    Some(&block.transaction),
                    self.cores(),
                )
                .await?;
                let (engine, query) = (self.clone(), query.body.clone());
                let physical = self
                    .on_compute(session.home, move || async move {
                        let planner = &engine.inner.planner;
                        Ok(execute::plan(planner, &query, bound, &env, &values, scan).await?.0)
                    })
                    .await?;
                let columns = prepared.columns.clone().unwrap_or_default();
                let compute = self.compute(usize::from(session.home.0)).clone();
                let stream = execute::stream(physical);
                Ok(Outcome::Rows(Execution::new(columns, Tag::Select, false, stream, compute)))
            }
            Statement::Explain(explain) => {
                let inner = Statement::clone(&explain.statement.statement);
                let Statement::Query(query) = inner else {
                    return Err(SqlError::unsupported("EXPLAIN of this statement"));
                };
                if query.live.is_some() {
                    return Err(SqlError::unsupported("EXPLAIN of a live query"));
                }
                let (bound, env, values) = self.bound_for(prepared, &query.body, &parameters, session, block).await?;
                let scan = execute::scan_context(
                    &self.inner.store,
                    at,
                    &bound.relation.plan,
                    Some(&block.transaction),
                    self.cores(),
                )
                .await?;
                let (engine, explain) = (self.clone(), explain.clone());
                let batch = self
                    .on_compute(session.home, move || async move {
                        let planner = &engine.inner.planner;
                        let (physical, bound) = execute::plan(planner, &query.body, bound, &env, &values, scan).await?;
                        explain::rows(&explain, &bound, physical).await
                    })
                    .await?;
                let columns = prepared.columns.clone().unwrap_or_default();
                let compute = self.compute(usize::from(session.home.0)).clone();
                let stream = futures::StreamExt::boxed(futures::stream::iter([Ok(batch)]));
                Ok(Outcome::Rows(Execution::new(columns, Tag::Text("EXPLAIN"), false, stream, compute)))
            }
            other => Err(SqlError::unsupported(execute::name(other))),
        }
    }

    /// The statement's query bound for this execution. `0A000` where its columns are no longer those prepared.
    async fn bound_for(
        &self,
        prepared: &Prepared,
        query: &ast::Query,
        parameters: &[ArrayRef],
        session: &SessionContext,
        block: &Block,
    ) -> Result<(Bound, Env, Vec<ScalarValue>)> {
        let catalog = block.transaction.catalog();
        let env = execute::env(session, catalog);
        let values = execute::parameter_values(parameters)?;
        if values.len() != prepared.parameters.len() {
            return Err(SqlError::new(
                SqlState::PROTOCOL_VIOLATION,
                format!("{} parameters given where {} are wanted", values.len(), prepared.parameters.len()),
            ));
        }
        if let Some(plan) = prepared.plan.as_ref().filter(|p| p.catalog_version == env.catalog.version) {
            return Ok((plan.as_ref().clone(), env, values));
        }
        let (engine, query, given) = (self.clone(), query.clone(), values.clone());
        let (types, inner_env) = (prepared.parameters.clone(), env.clone());
        let bound = self
            .on_compute(session.home, move || async move {
                execute::bind(&engine.inner.planner, &query, &inner_env, &types, Some(&given), None, false)
            })
            .await?;
        if let (Some(columns), Statement::Query(_)) = (&prepared.columns, &prepared.statement.statement) {
            let now = execute::describe(&bound.relation.columns);
            let same = columns.len() == now.len()
                && columns.iter().zip(now.iter()).all(|(a, b)| a.name == b.name && a.pg_type.oid == b.pg_type.oid);
            if !same {
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "cached plan must not change result type"));
            }
        }
        Ok((bound, env, values))
    }
}
