//! Subqueries by nested loop: for each row the inner plan runs with that row's values. The general way, taken where
//! DataFusion has no join for a subquery.
//! Owns the marker a bound expression holds, the plan node it becomes, and its execution.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take};
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, DFSchemaRef, Result as DfResult, ScalarValue, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, UserDefinedLogicalNode,
    UserDefinedLogicalNodeCore, Volatility,
};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, reset_plan_states};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use futures::StreamExt;

use super::error_mapping::more_than_one_row;
use super::kernel::{Kernel, KernelFn, external};

/// Where a nested loop puts the outer row's values for the inner plan to read.
#[derive(Clone, Default)]
pub struct OuterCell(Arc<Mutex<Vec<ScalarValue>>>);

/// Tells apart references of different subqueries.
static NEXT_CELL: AtomicU64 = AtomicU64::new(0);

impl OuterCell {
    fn set(&self, values: Vec<ScalarValue>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = values;
    }

    /// The outer value at a position, as an expression of the inner plan.
    pub fn reference(&self, at: usize, field: FieldRef) -> Expr {
        let cell = self.0.clone();
        let data_type = field.data_type().clone();
        let run: KernelFn = Arc::new(move |_, rows| {
            let values = cell.lock().unwrap_or_else(PoisonError::into_inner);
            match values.get(at) {
                Some(value) => Ok(value.to_array_of_size(rows)?),
                None => Ok(arrow::array::new_null_array(&data_type, rows)),
            }
        });
        let identity = format!("outer({:p},{at})", Arc::as_ptr(&self.0));
        // Volatile: the optimizer must not evaluate it.
        Kernel::call("outer", identity, field, Volatility::Volatile, run, Vec::new())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The value of the one row, null for none, an error for more.
    Scalar,
    Exists,
    /// The first column of all rows as an array.
    Array,
}

/// A subquery inside an expression, until the plan node below computes it.
#[derive(Clone)]
pub struct Marker {
    id: u64,
    pub kind: Kind,
    pub plan: Arc<LogicalPlan>,
    pub cell: OuterCell,
    pub returns: FieldRef,
    signature: Signature,
}

impl Marker {
    pub fn expr(kind: Kind, plan: LogicalPlan, cell: OuterCell, returns: FieldRef, outer: Vec<Expr>) -> Expr {
        let marker = Self {
            id: NEXT_CELL.fetch_add(1, Ordering::Relaxed),
            kind,
            plan: Arc::new(plan),
            cell,
            returns,
            signature: Signature::user_defined(Volatility::Volatile),
        };
        Expr::ScalarFunction(datafusion::logical_expr::expr::ScalarFunction {
            func: Arc::new(ScalarUDF::new_from_impl(marker)),
            args: outer,
        })
    }
}

/// The marker an expression is, with what it takes from outside.
pub fn as_marker(expr: &Expr) -> Option<(&Marker, &[Expr])> {
    match expr {
        Expr::ScalarFunction(f) => f.func.inner().downcast_ref::<Marker>().map(|m| (m, f.args.as_slice())),
        _ => None,
    }
}

impl fmt::Debug for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "subquery {}", self.id)
    }
}

impl PartialEq for Marker {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Marker {}

impl PartialOrd for Marker {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.id.cmp(&other.id))
    }
}

impl Hash for Marker {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl ScalarUDFImpl for Marker {
    fn name(&self) -> &str {
        "subquery"
    }
    fn schema_name(&self, _: &[Expr]) -> DfResult<String> {
        Ok(format!("subquery {}", self.id))
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(self.returns.data_type().clone())
    }
    fn return_field_from_args(&self, _: datafusion::logical_expr::ReturnFieldArgs) -> DfResult<FieldRef> {
        Ok(self.returns.clone())
    }
    fn coerce_types(&self, arg_types: &[DataType]) -> DfResult<Vec<DataType>> {
        Ok(arg_types.to_vec())
    }
    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        internal_err!("a subquery was left in an expression")
    }
}

/// One subquery of a node.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd)]
pub struct Inner {
    pub marker: Marker,
    pub arguments: Vec<Expr>,
}

/// How a node's rows follow from its input's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd)]
pub enum Shape {
    /// One column more for each subquery.
    Columns,
    /// LATERAL: the input row beside each row of the subquery; `outer` keeps a row without any.
    Lateral { outer: bool },
}

#[derive(Clone)]
pub struct Apply {
    pub input: Arc<LogicalPlan>,
    pub inner: Vec<Inner>,
    pub shape: Shape,
    pub schema: DFSchemaRef,
}

impl Apply {
    pub fn columns(input: LogicalPlan, inner: Vec<(Inner, String)>) -> DfResult<LogicalPlan> {
        let mut fields: Vec<_> = input.schema().iter().map(|(q, f)| (q.cloned(), f.clone())).collect();
        for (one, name) in &inner {
            let field = one.marker.returns.as_ref().clone().with_name(name.clone()).with_nullable(true);
            fields.push((None, Arc::new(field)));
        }
        let schema = Arc::new(DFSchema::new_with_metadata(fields, Default::default())?);
        let inner = inner.into_iter().map(|(one, _)| one).collect();
        let node = Self { input: Arc::new(input), inner, shape: Shape::Columns, schema };
        Ok(LogicalPlan::Extension(datafusion::logical_expr::Extension { node: Arc::new(node) }))
    }

    pub fn lateral(input: LogicalPlan, inner: Inner, outer: bool) -> DfResult<LogicalPlan> {
        let mut fields: Vec<_> = input.schema().iter().map(|(q, f)| (q.cloned(), f.clone())).collect();
        for (q, f) in inner.marker.plan.schema().iter() {
            fields.push((q.cloned(), Arc::new(f.as_ref().clone().with_nullable(true))));
        }
        let schema = Arc::new(DFSchema::new_with_metadata(fields, Default::default())?);
        let node = Self { input: Arc::new(input), inner: vec![inner], shape: Shape::Lateral { outer }, schema };
        Ok(LogicalPlan::Extension(datafusion::logical_expr::Extension { node: Arc::new(node) }))
    }
}

impl fmt::Debug for Apply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        UserDefinedLogicalNodeCore::fmt_for_explain(self, f)
    }
}

impl PartialEq for Apply {
    fn eq(&self, other: &Self) -> bool {
        self.input == other.input && self.inner == other.inner && self.shape == other.shape
    }
}

impl Eq for Apply {}

impl Hash for Apply {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.input.hash(state);
        self.inner.hash(state);
        self.shape.hash(state);
    }
}

impl PartialOrd for Apply {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.inner.partial_cmp(&other.inner)
    }
}

impl UserDefinedLogicalNodeCore for Apply {
    fn name(&self) -> &str {
        "Apply"
    }
    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }
    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }
    fn expressions(&self) -> Vec<Expr> {
        self.inner.iter().flat_map(|i| i.arguments.iter().cloned()).collect()
    }
    fn prevent_predicate_push_down_columns(&self) -> std::collections::HashSet<String> {
        self.schema.fields().iter().map(|f| f.name().clone()).collect()
    }
    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Apply: {} subqueries by nested loop", self.inner.len())
    }
    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> DfResult<Self> {
        let Some(input) = inputs.pop() else { return internal_err!("Apply has one input") };
        let mut exprs = exprs.into_iter();
        let inner = self
            .inner
            .iter()
            .map(|i| Inner { marker: i.marker.clone(), arguments: exprs.by_ref().take(i.arguments.len()).collect() })
            .collect();
        let own = self.schema.iter().skip(self.input.schema().fields().len());
        let fields: Vec<_> = input.schema().iter().chain(own).map(|(q, f)| (q.cloned(), f.clone())).collect();
        let schema = Arc::new(DFSchema::new_with_metadata(fields, Default::default())?);
        Ok(Self { input: Arc::new(input), inner, shape: self.shape, schema })
    }
}

/// Turns [`Apply`] into [`ApplyExec`].
pub struct ApplyPlanner;

#[async_trait::async_trait]
impl ExtensionPlanner for ApplyPlanner {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn datafusion::catalog::Session,
        context: &PhysicalPlanningContext,
    ) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
        let Some(apply) = node.as_any().downcast_ref::<Apply>() else { return Ok(None) };
        let mut inner = Vec::with_capacity(apply.inner.len());
        for one in &apply.inner {
            let plan = session.create_physical_plan(&one.marker.plan).await?;
            let arguments = one
                .arguments
                .iter()
                .map(|e| planner.create_physical_expr(e, apply.input.schema(), session, context))
                .collect::<DfResult<Vec<_>>>()?;
            inner.push(Arc::new(InnerExec {
                kind: one.marker.kind,
                cell: one.marker.cell.clone(),
                data_type: one.marker.returns.data_type().clone(),
                arguments,
                plan,
            }));
        }
        let input = physical_inputs[0].clone();
        let schema: SchemaRef = Arc::new(apply.schema.as_arrow().clone());
        Ok(Some(Arc::new(ApplyExec::new(input, inner, apply.shape, schema))))
    }
}

#[derive(Debug)]
struct InnerExec {
    kind: Kind,
    cell: OuterCell,
    data_type: DataType,
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    plan: Arc<dyn ExecutionPlan>,
}

impl fmt::Debug for OuterCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("outer row")
    }
}

#[derive(Debug)]
pub struct ApplyExec {
    input: Arc<dyn ExecutionPlan>,
    inner: Vec<Arc<InnerExec>>,
    shape: Shape,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl ApplyExec {
    fn new(input: Arc<dyn ExecutionPlan>, inner: Vec<Arc<InnerExec>>, shape: Shape, schema: SchemaRef) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema.clone()),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self { input, inner, shape, schema, properties: Arc::new(properties) }
    }

    /// The plans that run once a row.
    pub fn inner_plans(&self) -> impl Iterator<Item = &Arc<dyn ExecutionPlan>> {
        self.inner.iter().map(|i| &i.plan)
    }
}

impl DisplayAs for ApplyExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApplyExec: subqueries={}, {:?}", self.inner.len(), self.shape)
    }
}

impl ExecutionPlan for ApplyExec {
    fn name(&self) -> &str {
        "ApplyExec"
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }
    fn input_distribution_requirements(&self) -> datafusion::physical_plan::InputDistributionRequirements {
        // The inner plan reads one outer row at a time, so the loop is one.
        datafusion::physical_plan::InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }
    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let Some(input) = children.pop() else { return internal_err!("ApplyExec has one input") };
        Ok(Arc::new(Self::new(input, self.inner.clone(), self.shape, self.schema.clone())))
    }
    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        for expr in self.inner.iter().flat_map(|i| &i.arguments) {
            if f(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context.clone())?;
        let (inner, shape, schema) = (self.inner.clone(), self.shape, self.schema.clone());
        let out_schema = schema.clone();
        let stream = input.then(move |batch| {
            let (inner, context, schema) = (inner.clone(), context.clone(), schema.clone());
            async move {
                let batch = batch?;
                match shape {
                    Shape::Columns => columns(&batch, &inner, &schema, &context).await,
                    Shape::Lateral { outer } => lateral(&batch, &inner[0], outer, &schema, &context).await,
                }
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(out_schema, stream)))
    }
}

impl InnerExec {
    fn arguments(&self, batch: &RecordBatch) -> DfResult<Vec<ArrayRef>> {
        self.arguments.iter().map(|e| e.evaluate(batch)?.into_array(batch.num_rows())).collect()
    }

    /// Runs the inner plan for one row. `rows_max` bounds what is fetched.
    async fn run(
        &self,
        arguments: &[ArrayRef],
        row: usize,
        rows_max: usize,
        context: &Arc<TaskContext>,
    ) -> DfResult<Vec<RecordBatch>> {
        let values = arguments.iter().map(|a| ScalarValue::try_from_array(a, row)).collect::<DfResult<Vec<_>>>()?;
        self.cell.set(values);
        let plan = reset_plan_states(self.plan.clone())?;
        let mut batches = Vec::new();
        let mut rows = 0;
        for partition in 0..plan.output_partitioning().partition_count() {
            let mut stream = plan.execute(partition, context.clone())?;
            while let Some(batch) = stream.next().await {
                let batch = batch?;
                if batch.num_rows() > 0 {
                    rows += batch.num_rows();
                    batches.push(batch);
                }
                if rows >= rows_max {
                    return Ok(batches);
                }
            }
        }
        Ok(batches)
    }
}

/// A long loop gives way after so many rows.
async fn give_way(row: usize) {
    if row % 64 == 63 {
        tokio::task::yield_now().await;
    }
}

async fn columns(
    batch: &RecordBatch,
    inner: &[Arc<InnerExec>],
    schema: &SchemaRef,
    context: &Arc<TaskContext>,
) -> DfResult<RecordBatch> {
    let mut out = batch.columns().to_vec();
    for one in inner {
        let arguments = one.arguments(batch)?;
        let mut pieces: Vec<ArrayRef> = Vec::with_capacity(batch.num_rows());
        for row in 0..batch.num_rows() {
            // Without outer values every row has the same answer.
            if arguments.is_empty() && row > 0 {
                pieces.push(pieces[0].clone());
                continue;
            }
            let limit = match one.kind {
                Kind::Scalar => 2,
                Kind::Exists => 1,
                Kind::Array => usize::MAX,
            };
            let batches = one.run(&arguments, row, limit, context).await?;
            let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
            pieces.push(match one.kind {
                Kind::Exists => Arc::new(BooleanArray::from(vec![rows > 0])),
                Kind::Scalar if rows > 1 => return Err(external(more_than_one_row())),
                Kind::Scalar => match batches.first() {
                    Some(first) => first.column(0).clone(),
                    None => arrow::array::new_null_array(&one.data_type, 1),
                },
                Kind::Array => array_of(&batches, &one.data_type)?,
            });
            give_way(row).await;
        }
        let parts: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
        out.push(if parts.is_empty() {
            arrow::array::new_empty_array(&one.data_type)
        } else {
            arrow::compute::concat(&parts)?
        });
    }
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(schema.clone(), out, &options)?)
}

fn array_of(batches: &[RecordBatch], data_type: &DataType) -> DfResult<ArrayRef> {
    let DataType::List(item) = data_type else { return internal_err!("an array subquery gives an array") };
    let parts: Vec<&dyn Array> = batches.iter().map(|b| b.column(0).as_ref()).collect();
    let values = if parts.is_empty() {
        arrow::array::new_empty_array(item.data_type())
    } else {
        arrow::compute::concat(&parts)?
    };
    let offsets = arrow::buffer::OffsetBuffer::from_lengths([values.len()]);
    Ok(Arc::new(arrow::array::ListArray::try_new(item.clone(), offsets, values, None)?))
}

async fn lateral(
    batch: &RecordBatch,
    inner: &Arc<InnerExec>,
    outer: bool,
    schema: &SchemaRef,
    context: &Arc<TaskContext>,
) -> DfResult<RecordBatch> {
    let arguments = inner.arguments(batch)?;
    let inner_schema: SchemaRef = inner.plan.schema();
    let nullable: Vec<_> = inner_schema.fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect();
    let nullable = Arc::new(Schema::new(nullable));
    let mut owners: Vec<u32> = Vec::new();
    let mut parts: Vec<RecordBatch> = Vec::new();
    for row in 0..batch.num_rows() {
        let before = owners.len();
        for part in inner.run(&arguments, row, usize::MAX, context).await? {
            owners.extend(std::iter::repeat_n(row as u32, part.num_rows()));
            let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(part.num_rows()));
            parts.push(RecordBatch::try_new_with_options(nullable.clone(), part.columns().to_vec(), &options)?);
        }
        if outer && owners.len() == before {
            owners.push(row as u32);
            let nulls = nullable.fields().iter().map(|f| arrow::array::new_null_array(f.data_type(), 1)).collect();
            let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(1));
            parts.push(RecordBatch::try_new_with_options(nullable.clone(), nulls, &options)?);
        }
        give_way(row).await;
    }
    let right = concat_batches(&nullable, &parts)?;
    let picks = UInt32Array::from(owners);
    let mut out: Vec<ArrayRef> =
        batch.columns().iter().map(|c| take(c, &picks, None)).collect::<std::result::Result<_, _>>()?;
    out.extend(right.columns().iter().cloned());
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(picks.len()));
    Ok(RecordBatch::try_new_with_options(schema.clone(), out, &options)?)
}
