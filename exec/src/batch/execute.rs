//! Bounded execution of a statement: bound, optimized, planned for the cores, streamed.
//! Runs on a compute thread; dropping the stream ends everything it started.

use std::collections::HashMap;
use std::sync::Arc;

use alluvium_storage::{CommitTimestamp, Store};
use arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::ScalarValue;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use sqlparser::ast;

use super::shard_scan::ScanContext;
use crate::engine::ColumnDescription;
use crate::planning::binder::{Binder, OutColumn, Parameters, Relation, relations_read, wants_nested_loop};
use crate::planning::datetime::Zone;
use crate::planning::functions::Env;
use crate::planning::planner::{Physical, Planner};
use crate::planning::types::{PgType, oid};
use crate::session_context::SessionContext;
use crate::sql::error::{Result, SqlError, SqlState};

/// A query bound for a session, with what binding found out.
#[derive(Clone)]
pub struct Bound {
    pub relation: Relation,
    pub parameters: Vec<PgType>,
    /// Not to be used for another execution.
    pub serves_once: bool,
    pub catalog_version: u64,
    /// With nested loops for its subqueries.
    pub nested_loops: bool,
}

pub fn env(session: &SessionContext, catalog: Arc<alluvium_storage::catalog::Catalog>) -> Env {
    let zone = Zone::parse(&session.timezone).unwrap_or(Zone::UTC);
    Env { session: Arc::new(session.clone()), catalog, zone }
}

/// Binds a query. `parameters.values` are known when it is about to be executed.
pub fn bind(
    planner: &Planner,
    query: &ast::Query,
    env: &Env,
    types: &[PgType],
    values: Option<&[ScalarValue]>,
    wanted: Option<&[PgType]>,
    nested_loops: bool,
) -> Result<Bound> {
    let parameters = Parameters { types: types.to_vec(), values: values.map(<[_]>::to_vec) };
    let mut binder = Binder::new(env.clone(), &planner.functions, &planner.registry, parameters);
    if nested_loops {
        binder = binder.with_nested_loops();
    }
    let relation = match binder.query(query, wanted) {
        Err(error) if wants_nested_loop(&error) && !nested_loops => {
            return bind(planner, query, env, types, values, wanted, true);
        }
        other => other?,
    };
    let parameters = binder.parameters.borrow().types.clone();
    Ok(Bound {
        relation,
        parameters,
        serves_once: binder.serves_once(),
        catalog_version: env.catalog.version,
        nested_loops,
    })
}

/// Parameters that nothing gave a type are text where they are only said back, and an error where they are not there.
pub fn settle_parameters(types: &[PgType]) -> Result<Vec<PgType>> {
    Ok(types.iter().map(|t| if t.oid == oid::UNKNOWN { PgType::of(oid::TEXT) } else { *t }).collect())
}

pub fn describe(columns: &[OutColumn]) -> Arc<[ColumnDescription]> {
    columns
        .iter()
        .map(|c| ColumnDescription {
            name: c.name.clone(),
            pg_type: c.ty,
            table_oid: c.table_oid,
            attribute: c.attribute,
        })
        .collect()
}

pub fn parameter_values(parameters: &[ArrayRef]) -> Result<Vec<ScalarValue>> {
    parameters
        .iter()
        .map(|array| {
            if array.len() != 1 {
                return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, "a parameter is not one value"));
            }
            Ok(ScalarValue::try_from_array(array, 0)?)
        })
        .collect()
}

/// What the block itself has written of the relations a plan reads.
pub async fn scan_context(
    store: &Store,
    at: CommitTimestamp,
    plan: &datafusion::logical_expr::LogicalPlan,
    transaction: Option<&alluvium_storage::Transaction>,
    cores: usize,
) -> Result<ScanContext> {
    let mut uncommitted = HashMap::new();
    if let Some(transaction) = transaction {
        for relation in relations_read(plan) {
            if transaction.has_written(relation) {
                uncommitted.insert(relation, transaction.uncommitted(relation).await?);
            }
        }
    }
    Ok(ScanContext { store: store.clone(), at, uncommitted, cores })
}

/// Plans a bound query; where DataFusion cannot, once more with nested loops.
pub async fn plan(
    planner: &Planner,
    query: &ast::Query,
    bound: Bound,
    env: &Env,
    values: &[ScalarValue],
    scan: ScanContext,
) -> Result<(Physical, Bound)> {
    let again = ScanContext {
        store: scan.store.clone(),
        at: scan.at,
        uncommitted: scan.uncommitted.clone(),
        cores: scan.cores,
    };
    match planner.physical(&bound.relation.plan, scan).await {
        Ok(physical) => Ok((physical, bound)),
        Err(error) if !bound.nested_loops && may_need_nested_loop(&error) => {
            let types = bound.parameters.clone();
            let second = bind(planner, query, env, &types, Some(values), None, true)?;
            match planner.physical(&second.relation.plan, again).await {
                Ok(physical) => Ok((physical, second)),
                Err(second_error) => {
                    Err(if second_error.state() == SqlState::INTERNAL_ERROR { error } else { second_error })
                }
            }
        }
        Err(error) => Err(error),
    }
}

fn may_need_nested_loop(error: &SqlError) -> bool {
    matches!(error.state(), SqlState::INTERNAL_ERROR | SqlState::FEATURE_NOT_SUPPORTED)
}

/// The result's batches. Nothing runs before the first is asked for.
pub fn stream(physical: Physical) -> BoxStream<'static, Result<RecordBatch>> {
    let Physical { plan, task } = physical;
    futures::stream::once(async move { start(&plan, task) }).try_flatten().boxed()
}

fn start(
    plan: &Arc<dyn ExecutionPlan>,
    task: Arc<TaskContext>,
) -> Result<impl futures::Stream<Item = Result<RecordBatch>> + Send + use<>> {
    let batches = plan.execute(0, task)?;
    Ok(batches.map_err(SqlError::from))
}

/// What a statement is called where it cannot be planned.
pub fn name(statement: &crate::sql::statement::Statement) -> &'static str {
    use crate::sql::statement::Statement as S;
    match statement {
        S::Query(_) => "a live query",
        S::Explain(_) => "EXPLAIN",
        S::Insert(_) => "INSERT",
        S::Update(_) => "UPDATE",
        S::Delete(_) => "DELETE",
        S::Ddl(_) => "this statement",
        S::Session(_) => "preparing a session statement",
        S::Copy(_) => "preparing COPY",
    }
}
