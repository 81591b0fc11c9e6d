//! Relations of the catalog as tables: their rows are made when the statement is planned.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result as DfResult;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::planning::functions::Env;
use crate::planning::kernel::external;
use crate::planning::virtual_relation::VirtualRelation;

pub struct VirtualTable {
    relation: Arc<dyn VirtualRelation>,
    schema: SchemaRef,
    env: Env,
}

impl VirtualTable {
    pub fn new(relation: Arc<dyn VirtualRelation>, schema: SchemaRef, env: Env) -> Self {
        Self { relation, schema, env }
    }
}

impl fmt::Debug for VirtualTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.relation.name())
    }
}

#[async_trait::async_trait]
impl TableProvider for VirtualTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let rows = self.relation.rows(&self.env.session, &self.env.catalog).map_err(external)?;
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let named = RecordBatch::try_new_with_options(self.schema.clone(), rows.columns().to_vec(), &options)?;
        Ok(MemorySourceConfig::try_new_exec(&[vec![named]], self.schema.clone(), projection.cloned())?)
    }
}
