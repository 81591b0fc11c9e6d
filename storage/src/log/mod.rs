//! The log of a partition: the newest rows in memory (the tail), older ones in sealed column files (segments), all in
//! `_sn` order. A plain data structure: its owner, the shard, drives it and does the bookkeeping in the manifest.
//! Owns numbering, visibility by position, sealing and what retention may drop; knows neither journal nor names of
//! files. [`Partition`] lives on the shard's thread; views, scans and seal jobs run on any.

mod chunk;
mod partition;
mod position_index;
mod reader;
mod retention;
mod scan_request;
mod seal;
mod segment;
mod staged;

#[cfg(test)]
mod tests;

pub(crate) use partition::{EndAt, Partition};
pub(crate) use reader::{LogChanges, LogScan, LogView};
pub(crate) use retention::{RetentionPolicy, SegmentAge, choose_drops};
pub use scan_request::{Change, ScanColumn, ScanRequest, scan_schema};
pub(crate) use seal::{PartitionLoad, SealJob, SealedSegment, choose_seal};
pub(crate) use segment::{Opener, Segment, SegmentPlace};
pub(crate) use staged::{StagedFile, StagedWriter};
