//! From a bound query to a physical plan: DataFusion's optimizers over one immutable state, made once for the engine.
//! A statement gets a copy with its own snapshot and memory; nothing a session says changes it.

use std::sync::Arc;

use alluvium_storage::Executor;
use datafusion::common::Result as DfResult;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::TaskContext;
use datafusion::execution::context::{QueryPlanner, SessionState};
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use datafusion::prelude::SessionConfig;

use super::apply::ApplyPlanner;
use super::functions::Functions;
use super::virtual_relation::Registry;
use crate::batch::core_exchange::PlaceExchanges;
use crate::batch::memory::{NODE_BYTES, NodeBudget, QUERY_BYTES, QueryPool};
use crate::batch::shard_scan::ScanContext;
use crate::sql::error::Result;

#[derive(Debug)]
struct OwnPlanner;

#[async_trait::async_trait]
impl QueryPlanner for OwnPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        state: &dyn datafusion::catalog::Session,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(ApplyPlanner)])
            .create_physical_plan(plan, state)
            .await
    }
}

/// Cheap to share; immutable.
pub struct Planner {
    pub functions: Functions,
    pub registry: Registry,
    state: SessionState,
    runtime: Arc<RuntimeEnv>,
    budget: Arc<NodeBudget>,
}

/// A plan ready to run, with what it runs in.
pub struct Physical {
    pub plan: Arc<dyn ExecutionPlan>,
    pub task: Arc<TaskContext>,
}

impl Planner {
    pub fn new(registry: Registry, cores: Arc<[Executor]>) -> Self {
        let mut config = SessionConfig::new().with_target_partitions(cores.len()).with_batch_size(8192);
        let options = config.options_mut();
        // One input is not dealt out only to be gathered again.
        options.optimizer.enable_round_robin_repartition = false;
        options.optimizer.prefer_existing_sort = false;
        options.execution.collect_statistics = false;
        let mut rules = PhysicalOptimizer::new().rules;
        rules.push(Arc::new(PlaceExchanges { cores }));
        let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::OsTmpDirectory);
        let runtime = RuntimeEnvBuilder::new()
            .with_disk_manager_builder(disk)
            .build_arc()
            .expect("a runtime without files opens nothing");
        let state = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(runtime.clone())
            .with_query_planner(Arc::new(OwnPlanner))
            .with_physical_optimizer_rules(rules)
            .build();
        let mut functions = Functions::built_in();
        super::session_functions::register(&mut functions, &registry);
        Self { functions, registry, state, runtime, budget: Arc::new(NodeBudget::new(NODE_BYTES)) }
    }

    fn state_for(&self, scan: ScanContext) -> SessionState {
        let mut state = self.state.clone();
        state.config_mut().set_extension(Arc::new(scan));
        state
    }

    /// The logical plan after DataFusion's analysis and optimization, for who builds operators of their own.
    pub fn optimized(&self, plan: &LogicalPlan) -> Result<LogicalPlan> {
        Ok(self.state.optimize(plan)?)
    }

    /// A physical expression over a plan's columns.
    pub fn physical_expression(
        &self,
        expr: datafusion::logical_expr::Expr,
        schema: &datafusion::common::DFSchema,
    ) -> Result<Arc<dyn datafusion::physical_plan::PhysicalExpr>> {
        Ok(self.state.create_physical_expr(expr, schema)?)
    }

    pub async fn physical(&self, plan: &LogicalPlan, scan: ScanContext) -> Result<Physical> {
        let state = self.state_for(scan);
        let plan = state.create_physical_plan(plan).await?;
        let pool = Arc::new(QueryPool::new(self.budget.clone(), QUERY_BYTES));
        let runtime = RuntimeEnv { memory_pool: pool, ..(*self.runtime).clone() };
        let task = TaskContext::new(
            None,
            "query".to_owned(),
            state.config().clone(),
            Default::default(),
            Default::default(),
            Default::default(),
            Default::default(),
            Arc::new(runtime),
        );
        Ok(Physical { plan, task: Arc::new(task) })
    }
}
