//! Where rows pass from one core to another. Input *i* of an exchange runs on compute thread *i*; the reader, wherever
//! it is, takes from bounded channels. Dropping the reader ends the inputs.
//! Owns the last rule of the physical optimizer, which puts an exchange in place of every operator of DataFusion's that
//! would pull several partitions into one thread.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use alluvium_storage::Executor;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result as DfResult, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, Time};
use datafusion::physical_plan::repartition::{BatchPartitioner, RepartitionExec};
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::sorts::streaming_merge::StreamingMergeBuilder;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use futures::{Stream, StreamExt};
use tokio::sync::{Notify, mpsc};

/// Batches that wait between a producer and its reader.
const AHEAD: usize = 2;

/// How rows are brought together or dealt out.
#[derive(Clone)]
enum Mode {
    /// All inputs into one output, as they come.
    Gather { fetch: Option<usize> },
    /// Sorted inputs into one sorted output.
    Merge { order: LexOrdering, fetch: Option<usize> },
    /// Rows dealt to outputs by hash or in turn.
    Deal(Partitioning),
}

pub struct CoreExchangeExec {
    input: Arc<dyn ExecutionPlan>,
    mode: Mode,
    cores: Arc<[Executor]>,
    properties: Arc<PlanProperties>,
    /// The receiving ends of a [`Mode::Deal`], until each output is executed.
    outputs: Mutex<Option<Vec<Option<Output>>>>,
    metrics: ExecutionPlanMetricsSet,
}

impl CoreExchangeExec {
    fn new(input: Arc<dyn ExecutionPlan>, mode: Mode, cores: Arc<[Executor]>) -> Self {
        let given = input.properties();
        let schema = input.schema();
        let (partitioning, equivalence) = match &mode {
            Mode::Gather { .. } => (Partitioning::UnknownPartitioning(1), EquivalenceProperties::new(schema)),
            Mode::Merge { order, .. } => {
                let ordered = EquivalenceProperties::new_with_orderings(schema, [order.clone()]);
                (Partitioning::UnknownPartitioning(1), ordered)
            }
            Mode::Deal(partitioning) => {
                // One input's order outlives dealing; that of several does not.
                let kept = if given.output_partitioning().partition_count() == 1 {
                    given.equivalence_properties().clone()
                } else {
                    EquivalenceProperties::new(schema)
                };
                (partitioning.clone(), kept)
            }
        };
        let properties = PlanProperties::new(equivalence, partitioning, given.emission_type, given.boundedness);
        Self {
            input,
            mode,
            cores,
            properties: Arc::new(properties),
            outputs: Mutex::new(None),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    fn inputs(&self) -> usize {
        self.input.output_partitioning().partition_count()
    }

    fn core(&self, input: usize) -> &Executor {
        &self.cores[input % self.cores.len()]
    }

    /// Input `i`, running on its core.
    fn started(&self, i: usize, context: &Arc<TaskContext>) -> SendableRecordBatchStream {
        let (sender, receiver) = mpsc::channel::<Option<DfResult<RecordBatch>>>(AHEAD);
        let (input, context) = (self.input.clone(), context.clone());
        self.core(i).spawn(move || async move {
            let mut stream = match input.execute(i, context) {
                Ok(stream) => stream,
                Err(error) => {
                    let _ = sender.send(Some(Err(error))).await;
                    return;
                }
            };
            loop {
                let next = tokio::select! {
                    biased;
                    () = sender.closed() => return,
                    next = stream.next() => next,
                };
                let ended = !matches!(next, Some(Ok(_)));
                if sender.send(next).await.is_err() || ended {
                    return;
                }
            }
        });
        Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), received(receiver)))
    }

    /// The outputs of a deal, with all inputs started.
    fn dealt(&self, partitioning: &Partitioning, context: &Arc<TaskContext>) -> DfResult<Vec<Option<Output>>> {
        let count = partitioning.partition_count();
        let gate = Arc::new(Gate { queued: (0..count).map(|_| AtomicUsize::new(0)).collect(), moved: Notify::new() });
        let (mut senders, mut outputs) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for at in 0..count {
            let (sender, receiver) = mpsc::unbounded_channel();
            senders.push(sender);
            outputs.push(Some(Output { at, receiver, gate: gate.clone(), producers: self.inputs() }));
        }
        for i in 0..self.inputs() {
            let partitioner = match partitioning {
                Partitioning::Hash(keys, n) => BatchPartitioner::new_hash_partitioner(keys.clone(), *n, Time::new())?,
                Partitioning::RoundRobinBatch(n) => {
                    BatchPartitioner::new_round_robin_partitioner(*n, Time::new(), i, self.inputs())
                }
                other => return internal_err!("rows cannot be dealt by {other}"),
            };
            let deal = Deal { senders: senders.clone(), gate: gate.clone(), partitioner };
            let (input, context) = (self.input.clone(), context.clone());
            self.core(i).spawn(move || deal.run(input, i, context));
        }
        Ok(outputs)
    }
}

/// One input being dealt to all outputs.
struct Deal {
    senders: Vec<mpsc::UnboundedSender<Option<DfResult<RecordBatch>>>>,
    gate: Arc<Gate>,
    partitioner: BatchPartitioner,
}

impl Deal {
    async fn run(mut self, input: Arc<dyn ExecutionPlan>, i: usize, context: Arc<TaskContext>) {
        let result = self.pass(input, i, context).await;
        for sender in &self.senders {
            let last = match &result {
                Ok(()) => None,
                Err(error) => Some(Err(DataFusionError::Shared(error.clone()))),
            };
            // A reader that is gone misses nothing.
            let _ = sender.send(last);
        }
    }

    async fn pass(
        &mut self,
        input: Arc<dyn ExecutionPlan>,
        i: usize,
        context: Arc<TaskContext>,
    ) -> Result<(), Arc<DataFusionError>> {
        let mut stream = input.execute(i, context).map_err(Arc::new)?;
        while let Some(batch) = stream.next().await {
            let mut parts: Vec<(usize, RecordBatch)> = Vec::new();
            self.partitioner
                .partition(batch.map_err(Arc::new)?, |output, part| {
                    parts.push((output, part));
                    Ok(())
                })
                .map_err(Arc::new)?;
            for (output, part) in parts {
                if part.num_rows() == 0 || self.senders[output].is_closed() {
                    continue;
                }
                self.gate.wait(output, &self.senders).await;
                self.gate.queued[output].fetch_add(1, Ordering::AcqRel);
                let _ = self.senders[output].send(Some(Ok(part)));
            }
            if self.senders.iter().all(mpsc::UnboundedSender::is_closed) {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Back-pressure over all outputs: a producer waits when the output it has rows for is full, but not while some other
/// output's reader has nothing at all, for the full output's reader may be waiting for that one.
struct Gate {
    queued: Vec<AtomicUsize>,
    moved: Notify,
}

impl Gate {
    async fn wait(&self, output: usize, senders: &[mpsc::UnboundedSender<Option<DfResult<RecordBatch>>>]) {
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            let full = self.queued[output].load(Ordering::Acquire) >= AHEAD * self.queued.len().max(2);
            let starving = self
                .queued
                .iter()
                .zip(senders)
                .any(|(n, sender)| !sender.is_closed() && n.load(Ordering::Acquire) == 0);
            if !full || starving || senders[output].is_closed() {
                return;
            }
            moved.await;
        }
    }
}

struct Output {
    at: usize,
    receiver: mpsc::UnboundedReceiver<Option<DfResult<RecordBatch>>>,
    gate: Arc<Gate>,
    /// Inputs that have not ended.
    producers: usize,
}

impl Output {
    async fn next(&mut self) -> Option<DfResult<RecordBatch>> {
        while self.producers > 0 {
            match self.receiver.recv().await {
                Some(Some(item)) => {
                    self.gate.queued[self.at].fetch_sub(1, Ordering::AcqRel);
                    self.gate.moved.notify_waiters();
                    if item.is_err() {
                        self.producers = 0;
                    }
                    return Some(item);
                }
                Some(None) => self.producers -= 1,
                None => {
                    self.producers = 0;
                    return Some(lost());
                }
            }
        }
        None
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.receiver.close();
        self.gate.moved.notify_waiters();
    }
}

fn lost<T>() -> DfResult<T> {
    internal_err!("an input of an exchange ended without saying so")
}

/// A channel's batches. A producer that vanishes without its end is an error, never a short result.
fn received(
    receiver: mpsc::Receiver<Option<DfResult<RecordBatch>>>,
) -> impl Stream<Item = DfResult<RecordBatch>> + Send {
    futures::stream::unfold(Some(receiver), |receiver| async move {
        let mut receiver = receiver?;
        match receiver.recv().await {
            Some(Some(Ok(batch))) => Some((Ok(batch), Some(receiver))),
            Some(Some(Err(error))) => Some((Err(error), None)),
            Some(None) => None,
            None => Some((lost(), None)),
        }
    })
}

fn limited(
    stream: impl Stream<Item = DfResult<RecordBatch>> + Send + 'static,
    fetch: Option<usize>,
) -> impl Stream<Item = DfResult<RecordBatch>> + Send + 'static {
    let left = fetch.unwrap_or(usize::MAX);
    futures::stream::unfold((Box::pin(stream), left), |(mut stream, left)| async move {
        if left == 0 {
            return None;
        }
        match stream.next().await? {
            Ok(batch) => {
                let rows = batch.num_rows().min(left);
                Some((Ok(batch.slice(0, rows)), (stream, left - rows)))
            }
            Err(error) => Some((Err(error), (stream, 0))),
        }
    })
}

impl fmt::Debug for CoreExchangeExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for CoreExchangeExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CoreExchangeExec: inputs={}, ", self.inputs())?;
        let fetch = match &self.mode {
            Mode::Gather { fetch } => {
                write!(f, "gather")?;
                fetch
            }
            Mode::Merge { order, fetch } => {
                write!(f, "merge=[{order}]")?;
                fetch
            }
            Mode::Deal(partitioning) => return write!(f, "deal={partitioning}"),
        };
        match fetch {
            Some(fetch) => write!(f, ", fetch={fetch}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for CoreExchangeExec {
    fn name(&self) -> &str {
        "CoreExchangeExec"
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![!matches!(self.mode, Mode::Gather { .. })]
    }
    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let Some(input) = children.pop() else { return internal_err!("an exchange has one input") };
        Ok(Arc::new(Self::new(input, self.mode.clone(), self.cores.clone())))
    }
    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let schema: SchemaRef = self.input.schema();
        match &self.mode {
            Mode::Gather { fetch } => {
                let inputs: Vec<_> = (0..self.inputs()).map(|i| self.started(i, &context)).collect();
                let gathered = limited(futures::stream::select_all(inputs), *fetch);
                Ok(Box::pin(RecordBatchStreamAdapter::new(schema, gathered)))
            }
            Mode::Merge { order, fetch } => {
                let inputs: Vec<_> = (0..self.inputs()).map(|i| self.started(i, &context)).collect();
                let reservation = MemoryConsumer::new("CoreExchange merge").register(context.memory_pool());
                StreamingMergeBuilder::new()
                    .with_streams(inputs)
                    .with_schema(schema)
                    .with_expressions(order)
                    .with_metrics(BaselineMetrics::new(&self.metrics, partition))
                    .with_batch_size(context.session_config().batch_size())
                    .with_fetch(*fetch)
                    .with_reservation(reservation)
                    .build()
            }
            Mode::Deal(partitioning) => {
                let mut outputs = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
                if outputs.is_none() {
                    *outputs = Some(self.dealt(partitioning, &context)?);
                }
                let output = outputs.as_mut().and_then(|o| o.get_mut(partition)).and_then(Option::take);
                let Some(output) = output else { return internal_err!("an output of an exchange is read twice") };
                let stream = futures::stream::unfold(output, |mut output| async move {
                    output.next().await.map(|item| (item, output))
                });
                Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream)))
            }
        }
    }
}

/// Puts exchanges in place of what pulls several partitions into one thread. The last rule.
pub struct PlaceExchanges {
    pub cores: Arc<[Executor]>,
}

impl fmt::Debug for PlaceExchanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PlaceExchanges")
    }
}

impl PhysicalOptimizerRule for PlaceExchanges {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> DfResult<Arc<dyn ExecutionPlan>> {
        let placed = plan.transform_up(|node| self.place(node)).data()?;
        if placed.output_partitioning().partition_count() > 1 {
            // The reader of the result is one.
            return Ok(Arc::new(CoreExchangeExec::new(placed, Mode::Gather { fetch: None }, self.cores.clone())));
        }
        Ok(placed)
    }

    fn name(&self) -> &str {
        "place_exchanges"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl PlaceExchanges {
    fn place(&self, node: Arc<dyn ExecutionPlan>) -> DfResult<Transformed<Arc<dyn ExecutionPlan>>> {
        let exchange = |input: &Arc<dyn ExecutionPlan>, mode: Mode| -> Arc<dyn ExecutionPlan> {
            Arc::new(CoreExchangeExec::new(input.clone(), mode, self.cores.clone()))
        };
        let several = |input: &Arc<dyn ExecutionPlan>| input.output_partitioning().partition_count() > 1;
        if let Some(gather) = node.downcast_ref::<CoalescePartitionsExec>() {
            if several(gather.input()) || gather.fetch().is_some() {
                return Ok(Transformed::yes(exchange(gather.input(), Mode::Gather { fetch: gather.fetch() })));
            }
            return Ok(Transformed::yes(gather.input().clone()));
        }
        if let Some(merge) = node.downcast_ref::<SortPreservingMergeExec>() {
            if several(merge.input()) || merge.fetch().is_some() {
                let mode = Mode::Merge { order: merge.expr().clone(), fetch: merge.fetch() };
                return Ok(Transformed::yes(exchange(merge.input(), mode)));
            }
            return Ok(Transformed::yes(merge.input().clone()));
        }
        if let Some(deal) = node.downcast_ref::<RepartitionExec>() {
            if deal.preserve_order() && several(deal.input()) {
                return internal_err!("an exchange cannot keep the order of several inputs");
            }
            return Ok(Transformed::yes(exchange(deal.input(), Mode::Deal(deal.partitioning().clone()))));
        }
        Ok(Transformed::no(node))
    }
}

/// True where an operator's inputs and outputs are one to one, so that each output runs where its input does.
/// Exchanges are the only way around it; see the tests.
pub fn stays_on_its_core(node: &Arc<dyn ExecutionPlan>) -> bool {
    if node.downcast_ref::<CoreExchangeExec>().is_some() {
        return true;
    }
    let own = node.output_partitioning().partition_count();
    let inputs: Vec<usize> = node.children().iter().map(|c| c.output_partitioning().partition_count()).collect();
    match node.name() {
        // Outputs are the inputs' one after another.
        "UnionExec" => own == inputs.iter().sum::<usize>(),
        // A single-partition side is read once and shared.
        "HashJoinExec" | "NestedLoopJoinExec" | "CrossJoinExec" | "ScalarSubqueryExec" => {
            inputs.iter().all(|n| *n == own || *n == 1)
        }
        _ => inputs.iter().all(|n| *n == own),
    }
}
