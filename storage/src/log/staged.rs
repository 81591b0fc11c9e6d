//! Bulk rows of a transaction, written to segment files before the commit and without sequence numbers. The commit
//! record names the finished files; publication numbers their rows ([`super::Partition::publish_segment`]).
//! Rollback and crash leave files to unlink. Runs on the owner's compute thread.

use std::sync::Arc;

use arrow::array::RecordBatch;

use super::chunk::Chunk;
use super::reader::LogView;
use super::segment::{Segment, SegmentPlace};
use crate::base::error::Result;
use crate::base::ids::{ColumnId, CommitTimestamp, PartitionId, SegmentId, SequenceNumber};
use crate::columns::{ColumnFile, ColumnFileWriter, FileIdentity, FileSink};

/// A file that is full is finished and the next one begun.
const FILE_BYTES_MAX: u64 = 256 << 20;

pub(crate) struct StagedWriter {
    id: SegmentId,
    writer: ColumnFileWriter,
}

impl StagedWriter {
    pub(crate) async fn create(
        id: SegmentId,
        partition: PartitionId,
        event_time: Option<ColumnId>,
        sink: Box<dyn FileSink>,
    ) -> Result<Self> {
        let identity = FileIdentity { partition, first: None, event_time };
        Ok(Self { id, writer: ColumnFileWriter::create(sink, identity).await? })
    }

    /// Adds rows whose field names are column ids; every column of the relation is there, an unused one as null.
    /// After an error the file is garbage.
    pub(crate) async fn append(&mut self, rows: &RecordBatch) -> Result<()> {
        self.writer.append(rows).await
    }

    pub(crate) fn is_full(&self) -> bool {
        self.writer.bytes() >= FILE_BYTES_MAX
    }

    pub(crate) fn rows(&self) -> u64 {
        self.writer.rows()
    }

    /// Makes the file and its name durable: the commit record may name it from now on.
    pub(crate) async fn finish(self) -> Result<StagedFile> {
        let (file, _) = self.writer.finish().await?;
        Ok(StagedFile { id: self.id, file: Arc::new(file) })
    }
}

/// A finished file of a transaction that is not committed yet; its own statements can read it.
#[derive(Clone)]
pub(crate) struct StagedFile {
    pub id: SegmentId,
    pub file: Arc<ColumnFile>,
}

impl StagedFile {
    pub(crate) fn rows(&self) -> u64 {
        self.file.rows()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.file.size_bytes()
    }

    /// A transaction's own rows of one partition, before they have numbers: `_sn` counts from 0, `_arrived` says nothing.
    pub(crate) fn view(partition: PartitionId, files: &[StagedFile]) -> Result<LogView> {
        let mut chunks = Vec::with_capacity(files.len());
        let mut end = SequenceNumber(0);
        for file in files {
            let segment = file.clone().numbered(end, CommitTimestamp(0))?;
            end = segment.end();
            chunks.push(Chunk::in_segment(Arc::new(segment)));
        }
        let first = SequenceNumber(0);
        Ok(LogView::new(partition, first..end, first, Arc::new(chunks), Vec::new(), Vec::new()))
    }

    /// The segment it becomes when its rows are published from `first` on.
    pub(crate) fn numbered(self, first: SequenceNumber, at: CommitTimestamp) -> Result<Segment> {
        Segment::opened(SegmentPlace::of_staged(self.id, &self.file, first, at), self.file)
    }
}
