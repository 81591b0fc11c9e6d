//! Memory of queries: a budget for the node and a share of it for each query. Who has more to keep spills or fails alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::{DataFusionError, Result as DfResult};
use datafusion::execution::memory_pool::{FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};

/// Bytes all queries of a node may hold. The pool tracks what operators keep; resident memory is a few times that.
pub const NODE_BYTES: usize = 1 << 30;
/// Bytes one query may hold.
pub const QUERY_BYTES: usize = NODE_BYTES / 2;

#[derive(Debug)]
pub struct NodeBudget {
    used: AtomicUsize,
    limit: usize,
}

impl NodeBudget {
    pub fn new(limit: usize) -> Self {
        Self { used: AtomicUsize::new(0), limit }
    }

    fn take(&self, bytes: usize) -> bool {
        self.used
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
                used.checked_add(bytes).filter(|total| *total <= self.limit)
            })
            .is_ok()
    }
}

/// One query's pool.
#[derive(Debug)]
pub struct QueryPool {
    own: FairSpillPool,
    node: Arc<NodeBudget>,
}

impl QueryPool {
    pub fn new(node: Arc<NodeBudget>, limit: usize) -> Self {
        Self { own: FairSpillPool::new(limit), node }
    }
}

impl Drop for QueryPool {
    fn drop(&mut self) {
        self.node.used.fetch_sub(self.own.reserved().min(self.node.used.load(Ordering::Acquire)), Ordering::AcqRel);
    }
}

impl std::fmt::Display for QueryPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("query pool")
    }
}

impl MemoryPool for QueryPool {
    fn name(&self) -> &str {
        "query"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.own.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.own.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.own.grow(reservation, additional);
        self.node.used.fetch_add(additional, Ordering::AcqRel);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.own.shrink(reservation, shrink);
        self.node.used.fetch_sub(shrink, Ordering::AcqRel);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> DfResult<()> {
        self.own.try_grow(reservation, additional)?;
        if self.node.take(additional) {
            return Ok(());
        }
        self.own.shrink(reservation, additional);
        Err(DataFusionError::ResourcesExhausted(format!(
            "All queries together hold the {} MiB they may.",
            self.node.limit >> 20
        )))
    }

    fn reserved(&self) -> usize {
        self.own.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.own.memory_limit()
    }
}
