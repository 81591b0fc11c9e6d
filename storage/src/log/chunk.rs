//! A run of rows in `_sn` order: what views pin. In memory until its segment is sealed, in a file afterwards.
//! The partition alone holds the memory; a view holds the chunk, which leads to wherever the rows are now. So a view
//! that is kept for long keeps no memory, except over rows that were dropped without ever being sealed.

use std::ops::Range;
use std::sync::{Arc, OnceLock, Weak};

use arrow::array::RecordBatch;

use super::segment::Segment;
use crate::base::error::{Error, Result};
use crate::base::ids::{CommitTimestamp, SequenceNumber};
use crate::columns::PackedRows;

pub(crate) struct Chunk {
    pub first: SequenceNumber,
    pub rows: u64,
    /// Commit of the first and of the last row.
    pub arrived: (CommitTimestamp, CommitTimestamp),
    memory: Weak<MemoryRows>,
    /// Set at most once, by the partition, before it lets go of the memory.
    place: OnceLock<Place>,
}

enum Place {
    Segment(Arc<Segment>),
    /// Became part of a larger chunk.
    Merged(Arc<Chunk>),
    /// Dropped from the log (TRUNCATE, DROP) while a view still had it.
    Retained(Arc<MemoryRows>),
}

/// Where a chunk's rows are now. They may be some of more: both know their own first row.
pub(crate) enum Found {
    Memory(Arc<MemoryRows>),
    Segment(Arc<Segment>),
}

impl Chunk {
    pub(super) fn in_memory(memory: &Arc<MemoryRows>) -> Arc<Self> {
        let commits = &memory.commits;
        let arrived = (commits[0].at, commits[commits.len() - 1].at);
        let (rows, weak) = (memory.rows() as u64, Arc::downgrade(memory));
        Arc::new(Self { first: memory.first, rows, arrived, memory: weak, place: OnceLock::new() })
    }

    pub(super) fn in_segment(segment: Arc<Segment>) -> Arc<Self> {
        let (first, rows, arrived) = (segment.first(), segment.rows(), segment.arrived());
        Arc::new(Self { first, rows, arrived, memory: Weak::new(), place: OnceLock::from(Place::Segment(segment)) })
    }

    pub(crate) fn end(&self) -> SequenceNumber {
        SequenceNumber(self.first.0 + self.rows)
    }

    pub(crate) fn segment(&self) -> Option<&Arc<Segment>> {
        match self.place.get() {
            Some(Place::Segment(segment)) => Some(segment),
            _ => None,
        }
    }

    pub(crate) fn find(&self) -> Found {
        let mut chunk = self;
        loop {
            match chunk.place.get() {
                Some(Place::Segment(segment)) => return Found::Segment(segment.clone()),
                Some(Place::Retained(memory)) => return Found::Memory(memory.clone()),
                Some(Place::Merged(into)) => chunk = into,
                None => {
                    // The place is set before the memory goes, so a failed upgrade means that it is there by now.
                    if let Some(memory) = chunk.memory.upgrade() {
                        return Found::Memory(memory);
                    }
                    assert!(chunk.place.get().is_some(), "chunk at {:?} lost its rows", chunk.first);
                }
            }
        }
    }

    pub(super) fn move_to_segment(&self, segment: Arc<Segment>) {
        let moved = self.place.set(Place::Segment(segment)).is_ok();
        assert!(moved, "a chunk moves once");
    }

    pub(super) fn merge_into(&self, into: Arc<Chunk>) {
        let moved = self.place.set(Place::Merged(into)).is_ok();
        assert!(moved, "a chunk moves once");
    }

    pub(super) fn retain(&self, memory: Arc<MemoryRows>) {
        let moved = self.place.set(Place::Retained(memory)).is_ok();
        assert!(moved, "a chunk moves once");
    }
}

/// Rows of the tail.
pub(crate) struct MemoryRows {
    pub first: SequenceNumber,
    pub content: Content,
    /// Ascending; never empty.
    pub commits: Vec<Commit>,
    pub bytes: usize,
}

/// The rows before `end` (counted from the chunk's first) and after the previous commit's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commit {
    pub end: u64,
    pub at: CommitTimestamp,
}

pub(crate) enum Content {
    Columns(RecordBatch),
    /// Turned into a batch by the first scan that wants most of it.
    Packed {
        rows: Vec<PackedRows>,
        batch: OnceLock<RecordBatch>,
    },
    /// The one row that stands for TRUNCATE of a table.
    Truncate,
}

impl MemoryRows {
    pub(crate) fn rows(&self) -> usize {
        self.commits[self.commits.len() - 1].end as usize
    }

    /// The batch of these rows (counted from the chunk's first), with column ids as names. `None` for a truncate.
    pub(crate) fn batch(&self, rows: Range<usize>) -> Result<Option<RecordBatch>> {
        let (packed, batch) = match &self.content {
            Content::Columns(batch) => return Ok(Some(batch.slice(rows.start, rows.len()))),
            Content::Truncate => return Ok(None),
            Content::Packed { rows, batch } => (rows, batch),
        };
        if let Some(batch) = batch.get() {
            return Ok(Some(batch.slice(rows.start, rows.len())));
        }
        if rows.len() * 4 >= self.rows() {
            let whole = unpack(packed)?;
            // Two readers may have unpacked at once; both batches are the same.
            let whole = batch.get_or_init(|| whole);
            return Ok(Some(whole.slice(rows.start, rows.len())));
        }
        // A live reader takes the newest few rows; it need not unpack the rest again and again.
        let mut at = 0;
        let mut start = 0;
        let mut wanted = Vec::new();
        for part in packed {
            let end = at + part.rows();
            if end > rows.start && at < rows.end {
                if wanted.is_empty() {
                    start = at;
                }
                wanted.push(part);
            }
            at = end;
        }
        Ok(Some(unpack(wanted)?.slice(rows.start - start, rows.len())))
    }

    /// All rows as one batch that is not kept: sealing reads them once and then lets them go.
    pub(crate) fn batch_for_sealing(&self) -> Result<Option<RecordBatch>> {
        match &self.content {
            Content::Packed { rows, batch } if batch.get().is_none() => unpack(rows).map(Some),
            _ => self.batch(0..self.rows()),
        }
    }

    /// Commit timestamps of these rows.
    pub(crate) fn arrived(&self, rows: Range<usize>) -> Vec<i64> {
        let mut times = Vec::with_capacity(rows.len());
        let mut commit = self.commits.partition_point(|c| c.end <= rows.start as u64);
        while times.len() < rows.len() {
            let Commit { end, at } = self.commits[commit];
            times.resize((end as usize).min(rows.end) - rows.start, at.0);
            commit += 1;
        }
        times
    }

    /// One past the last row that arrived at or before `at`.
    pub(crate) fn end_at(&self, at: CommitTimestamp) -> SequenceNumber {
        let commits = self.commits.partition_point(|c| c.at <= at);
        SequenceNumber(self.first.0 + commits.checked_sub(1).map_or(0, |last| self.commits[last].end))
    }
}

fn unpack<'a>(rows: impl IntoIterator<Item = &'a PackedRows>) -> Result<RecordBatch> {
    // Packed rows were encoded by this process or verified by the journal record's checksum, so this names no file.
    PackedRows::unpack(rows).map_err(|reason| Error::Corrupted {
        file: "partition tail".into(),
        offset: 0,
        reason: reason.0.into(),
    })
}
