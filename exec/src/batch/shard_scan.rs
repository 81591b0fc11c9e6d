//! The scan of a stored relation at the statement's snapshot: one DataFusion partition for each core, which reads the
//! partitions its shard owns, and the block's own uncommitted rows.
//! Owns no rows; does not know how they are stored. Each partition runs on its core's compute thread.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use alluvium_storage::catalog::Relation;
use alluvium_storage::{
    CommitTimestamp, PartitionView, RelationId, ScanColumn, ScanRequest, SequenceNumber, Store, Uncommitted,
};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result as DfResult, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};

use crate::planning::kernel::external;
use crate::sql::error::SqlError;

/// Rows of one batch of a scan.
const BATCH_ROWS_MAX: usize = 8192;

/// What the scans of one statement share: one snapshot, and the block's own rows.
pub struct ScanContext {
    pub store: Store,
    pub at: CommitTimestamp,
    pub uncommitted: HashMap<RelationId, Uncommitted>,
    pub cores: usize,
}

/// A stored relation as DataFusion's planner sees it.
pub struct ShardTable {
    relation: Arc<Relation>,
    /// The fields' names are the plan's own; their order is that of `columns`.
    schema: SchemaRef,
    columns: Vec<ScanColumn>,
}

impl ShardTable {
    pub fn new(relation: Arc<Relation>, schema: SchemaRef, columns: Vec<ScanColumn>) -> Self {
        assert_eq!(schema.fields().len(), columns.len(), "a field for each column");
        Self { relation, schema, columns }
    }

    pub fn relation(&self) -> &Arc<Relation> {
        &self.relation
    }

    /// What each field of the schema is.
    pub fn columns(&self) -> &[ScanColumn] {
        &self.columns
    }
}

impl fmt::Debug for ShardTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.relation.name)
    }
}

#[async_trait::async_trait]
impl TableProvider for ShardTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let Some(context) = state.config().get_extension::<ScanContext>() else {
            return internal_err!("a scan is planned without a snapshot");
        };
        let view = context
            .store
            .read_view(self.relation.id, context.at)
            .await
            .map_err(|error| external(SqlError::from(error)))?;
        let all: Vec<usize> = (0..self.columns.len()).collect();
        let kept = projection.unwrap_or(&all);
        let schema = Arc::new(self.schema.project(kept)?);
        let columns: Vec<ScanColumn> = kept.iter().map(|i| self.columns[*i]).collect();
        let own = context.uncommitted.get(&self.relation.id).cloned().unwrap_or_default();
        let mut parts: Vec<Vec<PartitionView>> = vec![Vec::new(); context.cores.max(1)];
        if !own.truncated {
            for partition in view.partitions {
                let core = usize::from(partition.owner.0) % parts.len();
                parts[core].push(partition);
            }
        }
        Ok(Arc::new(ShardScanExec::new(self.relation.clone(), schema, columns, parts, own.rows, limit)))
    }
}

pub struct ShardScanExec {
    relation: Arc<Relation>,
    schema: SchemaRef,
    columns: Vec<ScanColumn>,
    /// By core.
    parts: Vec<Vec<PartitionView>>,
    own: Vec<RecordBatch>,
    limit: Option<usize>,
    properties: Arc<PlanProperties>,
}

impl ShardScanExec {
    fn new(
        relation: Arc<Relation>,
        schema: SchemaRef,
        columns: Vec<ScanColumn>,
        parts: Vec<Vec<PartitionView>>,
        own: Vec<RecordBatch>,
        limit: Option<usize>,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema.clone()),
            Partitioning::UnknownPartitioning(parts.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self { relation, schema, columns, parts, own, limit, properties: Arc::new(properties) }
    }

    fn rows_at_most(&self) -> usize {
        let stored: u64 = self.parts.iter().flatten().map(|p| p.end.0.saturating_sub(p.first.0)).sum();
        stored as usize + self.own.iter().map(RecordBatch::num_rows).sum::<usize>()
    }
}

impl fmt::Debug for ShardScanExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShardScanExec({})", self.relation.name)
    }
}

impl DisplayAs for ShardScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.schema.fields().iter().map(|f| f.name().as_str()).collect();
        write!(f, "ShardScanExec: relation={}, columns=[{}]", self.relation.name, names.join(", "))?;
        match self.limit {
            Some(limit) => write!(f, ", limit={limit}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for ShardScanExec {
    fn name(&self) -> &str {
        "ShardScanExec"
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }
    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }
    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn partition_statistics(&self, partition: Option<usize>) -> DfResult<Arc<datafusion::common::Statistics>> {
        let mut statistics = datafusion::common::Statistics::new_unknown(&self.schema);
        let rows = match partition {
            None => self.rows_at_most(),
            Some(p) => self.parts[p].iter().map(|v| v.end.0.saturating_sub(v.first.0) as usize).sum(),
        };
        // A truncated table may have fewer.
        statistics.num_rows = datafusion::common::stats::Precision::Inexact(rows);
        Ok(Arc::new(statistics))
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let request = ScanRequest {
            columns: self.columns.clone(),
            range: SequenceNumber(0)..SequenceNumber(u64::MAX),
            batch_rows_max: self.limit.map_or(BATCH_ROWS_MAX, |l| l.clamp(1, BATCH_ROWS_MAX)),
        };
        let own = if partition == 0 { self.own.clone() } else { Vec::new() };
        let pass = Pass {
            schema: self.schema.clone(),
            columns: self.columns.clone(),
            relation: self.relation.clone(),
            waiting: self.parts[partition].iter().cloned().rev().collect(),
            request,
            current: None,
            own: own.into_iter().rev().collect(),
            left: self.limit.unwrap_or(usize::MAX),
        };
        let stream = futures::stream::try_unfold(pass, |mut pass| async move {
            let next = pass.next().await?;
            Ok(next.map(|batch| (batch, pass)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), stream)))
    }
}

/// One pass over what one core has.
struct Pass {
    schema: SchemaRef,
    columns: Vec<ScanColumn>,
    relation: Arc<Relation>,
    waiting: Vec<PartitionView>,
    request: ScanRequest,
    current: Option<alluvium_storage::PartitionScan>,
    own: Vec<RecordBatch>,
    left: usize,
}

impl Pass {
    async fn next(&mut self) -> DfResult<Option<RecordBatch>> {
        while self.left > 0 {
            let batch = match &mut self.current {
                Some(scan) => match scan.next().await.map_err(|e| external(SqlError::from(e)))? {
                    Some(batch) => batch,
                    None => {
                        self.current = None;
                        continue;
                    }
                },
                None => match self.waiting.pop() {
                    Some(partition) => {
                        self.current = Some(partition.scan(self.request.clone()));
                        continue;
                    }
                    None => match self.own.pop() {
                        Some(batch) => self.own_batch(&batch)?,
                        None => return Ok(None),
                    },
                },
            };
            let rows = batch.num_rows().min(self.left);
            if rows == 0 {
                continue;
            }
            self.left -= rows;
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            let batch = batch.slice(0, rows);
            return Ok(Some(RecordBatch::try_new_with_options(
                self.schema.clone(),
                batch.columns().to_vec(),
                &options,
            )?));
        }
        Ok(None)
    }

    /// Columns of an uncommitted batch are the relation's by name; hidden ones are null.
    fn own_batch(&self, batch: &RecordBatch) -> DfResult<RecordBatch> {
        let columns: Vec<ArrayRef> = self
            .columns
            .iter()
            .zip(self.schema.fields())
            .map(|(column, field)| {
                let name = match column {
                    ScanColumn::Column(id) => self.relation.column_by_id(*id).map(|c| c.name.as_str()),
                    _ => None,
                };
                match name.and_then(|n| batch.column_by_name(n)) {
                    Some(array) => array.clone(),
                    None => new_null_array(field.data_type(), batch.num_rows()),
                }
            })
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let schema: &Schema = &self.schema;
        Ok(RecordBatch::try_new_with_options(Arc::new(schema.clone()), columns, &options)?)
    }
}
