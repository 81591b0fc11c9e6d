//! What DDL and INSERT ask the planner. Implemented by the engine, so that neither knows DataFusion.

use alluvium_storage::RelationId;
use alluvium_storage::catalog::Catalog;
use arrow::array::{ArrayRef, RecordBatch};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use sqlparser::ast;

use crate::engine::{Block, ColumnDescription};
use crate::planning::types::PgType;
use crate::session_context::SessionContext;
use crate::sql::error::Result;

/// What a query yields and reads, without running it.
#[derive(Clone, Debug)]
pub struct Described {
    pub columns: Vec<ColumnDescription>,
    /// Each relation once, views included (not what they read).
    pub reads: Vec<RelationId>,
}

/// An expression without columns, evaluated.
#[derive(Clone, Debug)]
pub struct Constant {
    /// Length one.
    pub value: ArrayRef,
    /// Evaluating it again may give another value (`random()`, not `now()`, which is stable).
    pub volatile: bool,
    /// Depends on the moment or the session (`now()`).
    pub stable: bool,
}

pub trait Queries: Send + Sync {
    /// Resolves a bounded query against a catalog, e.g. that of a block.
    fn describe(&self, query: &ast::Query, catalog: &Catalog, session: &SessionContext) -> Result<Described>;

    /// Evaluates an expression and casts it to `target` as an assignment to `column` would
    /// (`42804` if it cannot be).
    fn constant(
        &self,
        expression: &ast::Expr,
        target: PgType,
        column: &str,
        catalog: &Catalog,
        session: &SessionContext,
    ) -> Result<Constant>;

    /// Runs a bounded query over what the block sees. Batches have the described columns; the stream owns its snapshot,
    /// so that the block may be written while it is read, without seeing those rows.
    fn run<'a>(
        &'a self,
        query: &'a ast::Query,
        parameters: &'a [ArrayRef],
        session: &'a SessionContext,
        block: &'a Block,
    ) -> BoxFuture<'a, Result<(Vec<ColumnDescription>, BoxStream<'static, Result<RecordBatch>>)>>;
}
