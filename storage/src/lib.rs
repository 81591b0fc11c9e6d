//! Bytes and durability: the log of each partition, the journal of each core, the catalog.
//! Knows Arrow batches; never SQL, never sockets.
//!
//! Write path: [`Store::begin`] → [`Transaction::append`] → [`Transaction::commit`] → journal (durable) → published in
//! the partition's log, where each row gets its sequence number → acknowledged once `stable` has passed it.
//! Read path: [`Store::read_view`] pins one snapshot of a relation → [`PartitionView::scan`] yields batches.

pub mod base;
pub mod catalog;
#[allow(dead_code, unused_imports)]
mod columns;
pub mod io;
pub mod journal;
#[allow(dead_code, unused_imports)]
mod log;
mod read_view;
mod store;
mod transaction;

pub use base::error::{Error, Result};
pub use base::ids::{ColumnId, CommitTimestamp, PartitionId, RelationId, SchemaId, SequenceNumber, ServerId, ShardId};
pub use base::spawn::Executor;
pub use log::{Change, ScanColumn, ScanRequest, scan_schema};
pub use read_view::{ChangeScan, PartitionScan, PartitionView, ReadView};
pub use store::{CatalogWatch, RelationWatch, Store};
pub use transaction::{Durability, SavepointId, Transaction, Uncommitted};
