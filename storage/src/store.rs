//! The node's store: the handle through which `exec` reaches every shard.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use arrow::array::{RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::Schema;
use tokio::sync::watch;

use crate::base::error::{Error, Result};
use crate::base::ids::{CommitTimestamp, PartitionId, RelationId, SequenceNumber, ShardId};
use crate::catalog::{Catalog, Column, Relation, RelationKind};
use crate::columns::column_field;
use crate::columns::payload::Rows;
use crate::log::{EndAt, Partition};
use crate::read_view::{PartitionView, ReadView};
use crate::transaction::{Transaction, Work};

/// Cheap to clone; usable from any thread.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    shards: u16,
    state: Mutex<State>,
    stable: watch::Sender<CommitTimestamp>,
    catalog_version: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    catalog: Arc<Catalog>,
    next_oid: u32,
    partitions: HashMap<PartitionId, Partition>,
}

impl Store {
    /// A store that keeps everything in memory and nothing over a restart.
    pub fn in_memory(shards: u16) -> Self {
        let state = State { next_oid: Catalog::default().next_oid, ..State::default() };
        let (stable, _) = watch::channel(CommitTimestamp(0));
        Self {
            inner: Arc::new(Inner { shards, state: Mutex::new(state), stable, catalog_version: watch::channel(0).0 }),
        }
    }

    pub fn shard_count(&self) -> u16 {
        self.inner.shards
    }

    /// The shard that owns a partition in this run.
    pub fn owner(&self, partition: PartitionId) -> ShardId {
        ShardId(((partition.relation.0 + partition.index) % u32::from(self.inner.shards)) as u16)
    }

    pub fn catalog(&self) -> Arc<Catalog> {
        self.state().catalog.clone()
    }

    /// The snapshot for a statement: everything acknowledged before the call, to any session, is in it.
    pub fn stable(&self) -> CommitTimestamp {
        *self.inner.stable.borrow()
    }

    /// The snapshot for live queries and positions: never taken back by a crash.
    pub fn durable_stable(&self) -> CommitTimestamp {
        self.stable()
    }

    /// True once the clock is past `at` and no commit at or below it can become visible any more.
    pub fn has_passed(&self, at: CommitTimestamp) -> bool {
        crate::base::clock::now_us() > at.0
    }

    /// Pins the relation at a snapshot. `at` must not be above [`Store::stable`].
    pub async fn read_view(&self, relation: RelationId, at: CommitTimestamp) -> Result<ReadView> {
        let mut state = self.state();
        let relation = state
            .catalog
            .relation(relation)
            .cloned()
            .ok_or_else(|| Error::Undefined { what: format!("relation {}", relation.0) })?;
        let partitions = (0..relation.partitions)
            .map(|index| {
                let id = PartitionId { relation: relation.id, index };
                let partition =
                    state.partitions.entry(id).or_insert_with(|| Partition::new(id, SequenceNumber::default()));
                let end = match partition.end_at(at) {
                    EndAt::Known(end) => end,
                    EndAt::Within(segment, _) => segment.end(),
                };
                let log = partition.pin(at, end);
                PartitionView {
                    id,
                    owner: self.owner(id),
                    first: log.first(),
                    truncated: log.truncated(),
                    end: log.end(),
                    relation: relation.clone(),
                    log,
                }
            })
            .collect();
        Ok(ReadView { relation, at, partitions })
    }

    /// Wakes a reader when rows of the relation have become durable and visible.
    pub fn watch(&self, relation: RelationId) -> RelationWatch {
        let _ = relation;
        RelationWatch { stable: self.inner.stable.subscribe() }
    }

    /// Wakes a reader when a new version of the catalog is published.
    pub fn watch_catalog(&self) -> CatalogWatch {
        CatalogWatch { version: self.inner.catalog_version.subscribe() }
    }

    pub fn begin(&self, home: ShardId) -> Transaction {
        Transaction::new(self.clone(), home)
    }

    pub(crate) fn allocate_oid(&self) -> u32 {
        let mut state = self.state();
        state.next_oid += 1;
        state.next_oid - 1
    }

    pub(crate) fn commit_in_memory(&self, work: Vec<Work>) -> Result<Option<CommitTimestamp>> {
        if work.is_empty() {
            return Ok(None);
        }
        let mut state = self.state();
        let at = CommitTimestamp(self.stable().0 + 1);
        for item in work {
            match item {
                Work::Edit(edit) => state.catalog = Arc::new(state.catalog.apply(&edit)?),
                Work::Truncate { relation } => {
                    for (id, partition) in &mut state.partitions {
                        match relation.kind {
                            _ if id.relation != relation.id => continue,
                            RelationKind::Table => partition.publish_truncate(at),
                            _ => partition.publish_start(at),
                        };
                    }
                }
                Work::Append { relation, rows } => {
                    let id = PartitionId { relation: relation.id, index: (at.0 as u32) % relation.partitions.max(1) };
                    let rows = by_column_id(&relation, &rows);
                    let rows = Rows::of(rows).ok_or_else(|| Error::Io {
                        what: format!("could not write \"{}\"", relation.name),
                        reason: "a column's type cannot be stored".into(),
                    })?;
                    let partition =
                        state.partitions.entry(id).or_insert_with(|| Partition::new(id, SequenceNumber::default()));
                    partition.publish(rows, at);
                }
            }
        }
        self.inner
            .catalog_version
            .send_if_modified(|v| std::mem::replace(v, state.catalog.version) != state.catalog.version);
        drop(state);
        self.inner.stable.send_replace(at);
        Ok(Some(at))
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.inner.state.lock().expect("no holder of this lock panics")
    }
}

/// Every column of the relation under its id, an absent one as null.
fn by_column_id(relation: &Relation, rows: &RecordBatch) -> RecordBatch {
    let given = |c: &Column| rows.column_by_name(&c.name).cloned();
    let null = |c: &Column| new_null_array(&c.data_type, rows.num_rows());
    let arrays: Vec<_> = relation.columns.iter().map(|c| given(c).unwrap_or_else(|| null(c))).collect();
    let fields: Vec<_> =
        relation.columns.iter().zip(&arrays).map(|(c, a)| column_field(c.id, a.data_type().clone())).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options).expect("lengths are the batch's")
}

/// Resolves each time the relation has something new at or below [`Store::durable_stable`]. It may also wake for
/// nothing; it never misses a commit that was acknowledged after the last return.
pub struct RelationWatch {
    stable: watch::Receiver<CommitTimestamp>,
}

impl RelationWatch {
    /// Cancel-safe.
    pub async fn changed(&mut self) -> Result<()> {
        self.stable.changed().await.map_err(|_| Error::Shutdown)
    }
}

/// Resolves each time the catalog has a newer version than at the last return.
pub struct CatalogWatch {
    version: watch::Receiver<u64>,
}

impl CatalogWatch {
    /// Cancel-safe.
    pub async fn changed(&mut self) -> Result<()> {
        self.version.changed().await.map_err(|_| Error::Shutdown)
    }
}
