//! The log of one partition: numbers rows as they are published and knows where each of them is.
//! Chunks in order: sealed segments, then the tail (memory, and bulk files published since), then the open run of
//! small commits that is not yet a chunk. Lives on its owner's thread; every call is short and none waits.
//!
//! Positions: `first ≤ end of sealed ≤ next`. `first` moves by retention and TRUNCATE of a stream, `next` by publishing.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::chunk::{Chunk, Commit, Content, MemoryRows};
use super::position_index;
use super::reader::LogView;
use super::retention::SegmentAge;
use super::seal::{PartitionLoad, SealJob, SealedSegment};
use super::segment::Segment;
use crate::base::error::{Error, Result};
use crate::base::ids::{ColumnId, CommitTimestamp, PartitionId, SequenceNumber};
use crate::columns::payload::Rows;
use crate::columns::{PackedRows, array_bytes};

/// Small commits are gathered into one batch of this many rows.
const RUN_ROWS_MAX: usize = 1_024;

pub(crate) struct Partition {
    id: PartitionId,
    first: SequenceNumber,
    next: SequenceNumber,
    last_arrived: CommitTimestamp,
    /// Shared with views; copied when it changes under one.
    sealed: Arc<Vec<Arc<Chunk>>>,
    tail: VecDeque<TailChunk>,
    open: Option<OpenRun>,
    /// How many chunks at the tail's start a seal job has.
    sealing: usize,
    tail_bytes: usize,
    /// Rows that stand for TRUNCATE of a table, ascending.
    truncates: Vec<SequenceNumber>,
    /// A stream's last TRUNCATE that every snapshot knows took the rows below this.
    truncated: SequenceNumber,
    /// Where a stream begins after each of its later TRUNCATEs, ascending.
    starts: Vec<(CommitTimestamp, SequenceNumber)>,
}

struct TailChunk {
    chunk: Arc<Chunk>,
    /// `None` for a bulk file.
    memory: Option<Arc<MemoryRows>>,
}

struct OpenRun {
    first: SequenceNumber,
    rows: Vec<PackedRows>,
    commits: Vec<Commit>,
    bytes: usize,
}

/// Where a snapshot ends.
pub(crate) enum EndAt {
    Known(SequenceNumber),
    /// An old snapshot: the segment knows, after a read.
    Within(Arc<Segment>, CommitTimestamp),
}

impl EndAt {
    /// Cancel-safe. Runs on any thread.
    pub(crate) async fn resolve(self) -> Result<SequenceNumber> {
        match self {
            Self::Known(end) => Ok(end),
            Self::Within(segment, at) => segment.end_at(at).await,
        }
    }
}

impl Partition {
    /// An empty partition whose next row gets number `first`.
    pub(crate) fn new(id: PartitionId, first: SequenceNumber) -> Self {
        Self {
            id,
            first,
            next: first,
            last_arrived: CommitTimestamp(i64::MIN),
            sealed: Arc::default(),
            tail: VecDeque::new(),
            open: None,
            sealing: 0,
            tail_bytes: 0,
            truncates: Vec::new(),
            truncated: SequenceNumber(0),
            starts: Vec::new(),
        }
    }

    /// As the manifest has it: segments follow each other without gap, the first begins at or before `first`;
    /// without segments the next row is `first`. TRUNCATE of the stream took rows below `truncated`.
    /// Segments that do not fit are [`Error::Corrupted`].
    pub(crate) fn open(
        id: PartitionId,
        first: SequenceNumber,
        truncated: SequenceNumber,
        segments: Vec<Segment>,
    ) -> Result<Self> {
        let mut partition = Self::new(id, first);
        partition.truncated = truncated;
        let mut sealed = Vec::with_capacity(segments.len());
        for (index, segment) in segments.into_iter().enumerate() {
            let follows = if index == 0 { segment.first() <= first } else { segment.first() == partition.next };
            if !follows || segment.arrived().0 < partition.last_arrived {
                return Err(Error::Corrupted {
                    file: segment.place.to_string(),
                    offset: 0,
                    reason: format!("begins with row {} instead of {}", segment.first().0, partition.next.0),
                });
            }
            partition.next = segment.end();
            partition.last_arrived = segment.arrived().1;
            partition.truncates.extend(segment.truncates().iter().copied().filter(|t| *t >= first));
            sealed.push(Chunk::in_segment(Arc::new(segment)));
        }
        partition.next = partition.next.max(first);
        partition.sealed = Arc::new(sealed);
        Ok(partition)
    }

    pub(crate) fn id(&self) -> PartitionId {
        self.id
    }

    /// The oldest row that is kept.
    pub(crate) fn first(&self) -> SequenceNumber {
        self.starts.last().map_or(self.first, |(_, start)| self.first.max(*start))
    }

    /// The number of the next row.
    pub(crate) fn next(&self) -> SequenceNumber {
        self.next
    }

    /// The last commit that published rows here.
    pub(crate) fn last_arrived(&self) -> CommitTimestamp {
        self.last_arrived
    }

    /// One past the last row that is in a segment, with all before it.
    pub(crate) fn sealed_end(&self) -> SequenceNumber {
        self.sealed.last().map_or(self.next_unsealed(), |c| c.end())
    }

    fn next_unsealed(&self) -> SequenceNumber {
        let tail = self.tail.front().map(|t| t.chunk.first);
        tail.or_else(|| self.open.as_ref().map(|o| o.first)).unwrap_or(self.next)
    }

    #[cfg(test)]
    pub(crate) fn chunk_count(&self) -> usize {
        self.sealed.len() + self.tail.len()
    }

    /// Bytes of rows in memory.
    pub(crate) fn tail_bytes(&self) -> usize {
        self.tail_bytes
    }

    pub(crate) fn load(&self) -> PartitionLoad {
        let oldest = self.tail.iter().find(|t| t.memory.is_some()).map(|t| t.chunk.arrived.0);
        let oldest = oldest.or_else(|| self.open.as_ref().map(|o| o.commits[0].at));
        PartitionLoad { tail_bytes: self.tail_bytes, oldest_unsealed: oldest, is_sealing: self.sealing > 0 }
    }

    /// Makes a commit's rows visible and numbers them. The rows hold every column that the relation has at that
    /// commit, an unused one as null: a column that is not there reads as the constant of its ADD COLUMN.
    pub(crate) fn publish(&mut self, rows: Rows, at: CommitTimestamp) -> Range<SequenceNumber> {
        let count = rows.rows() as u64;
        let numbers = self.number(count, at);
        match rows {
            _ if count == 0 => {}
            Rows::Packed(packed) => self.push_packed(packed, numbers.start, at),
            Rows::Columns(batch) => {
                self.close_open_run();
                let bytes = batch.columns().iter().map(|c| array_bytes(c)).sum();
                let commits = vec![Commit { end: count, at }];
                self.push_memory(MemoryRows { first: numbers.start, content: Content::Columns(batch), commits, bytes });
            }
        }
        numbers
    }

    /// Makes TRUNCATE of a table visible: one row of its own.
    pub(crate) fn publish_truncate(&mut self, at: CommitTimestamp) -> SequenceNumber {
        let number = self.number(1, at).start;
        self.close_open_run();
        let commits = vec![Commit { end: 1, at }];
        self.push_memory(MemoryRows { first: number, content: Content::Truncate, commits, bytes: 0 });
        self.truncates.push(number);
        number
    }

    /// Makes TRUNCATE of a stream visible: the stream begins at the next row. Snapshots before `at` keep their rows.
    pub(crate) fn publish_start(&mut self, at: CommitTimestamp) -> SequenceNumber {
        self.starts.push((at, self.next));
        self.next
    }

    /// Makes the rows of a staged file visible; it must have been opened for `next()` and this commit. Costs the same
    /// for one row or a hundred million.
    pub(crate) fn publish_segment(&mut self, segment: Segment) -> Range<SequenceNumber> {
        assert_eq!(segment.first(), self.next, "a staged file is numbered by its publication");
        let numbers = self.number(segment.rows(), segment.arrived().1);
        self.close_open_run();
        self.truncates.extend_from_slice(segment.truncates());
        self.tail.push_back(TailChunk { chunk: Chunk::in_segment(Arc::new(segment)), memory: None });
        self.settle_files();
        numbers
    }

    fn number(&mut self, rows: u64, at: CommitTimestamp) -> Range<SequenceNumber> {
        assert!(at >= self.last_arrived, "commit {at:?} published after {:?}", self.last_arrived);
        if rows > 0 {
            self.last_arrived = at;
        }
        let start = self.next;
        self.next = SequenceNumber(start.0 + rows);
        start..self.next
    }

    fn push_packed(&mut self, packed: PackedRows, first: SequenceNumber, at: CommitTimestamp) {
        if self.open.as_ref().is_some_and(|open| !open.rows[0].same_columns(&packed)) {
            self.close_open_run();
        }
        let open = self.open.get_or_insert_with(|| OpenRun { first, rows: Vec::new(), commits: Vec::new(), bytes: 0 });
        let end = open.commits.last().map_or(0, |c| c.end) + packed.rows() as u64;
        let bytes = packed.bytes().len() + size_of::<PackedRows>() + size_of::<Commit>();
        open.commits.push(Commit { end, at });
        open.rows.push(packed);
        open.bytes += bytes;
        self.tail_bytes += bytes;
        if end >= RUN_ROWS_MAX as u64 {
            self.close_open_run();
        }
    }

    /// Turns the open run into a chunk. Small neighbours are joined as a binary counter joins its digits: a reader that
    /// wakes for each commit leaves few chunks behind, and each row is handled a few times at most.
    fn close_open_run(&mut self) {
        let Some(mut run) = self.open.take() else { return };
        self.tail_bytes -= run.bytes;
        let mut merged = Vec::new();
        while self.tail.len() > self.sealing
            && let Some(TailChunk { chunk, memory: Some(memory) }) = self.tail.back()
            && let Content::Packed { rows, .. } = &memory.content
            && memory.rows() <= run.commits[run.commits.len() - 1].end as usize
            && memory.rows() + run.commits[run.commits.len() - 1].end as usize <= RUN_ROWS_MAX
            && rows[0].same_columns(&run.rows[0])
        {
            let before = memory.rows() as u64;
            let later = run.commits.iter().map(|c| Commit { end: c.end + before, at: c.at });
            run.commits = memory.commits.iter().copied().chain(later).collect();
            run.rows = rows.iter().chain(&run.rows).cloned().collect();
            run.first = memory.first;
            run.bytes += memory.bytes;
            self.tail_bytes -= memory.bytes;
            merged.push((chunk.clone(), memory.clone()));
            self.tail.pop_back();
        }
        let content = Content::Packed { rows: run.rows, batch: OnceLock::new() };
        let chunk = self.push_memory(MemoryRows { first: run.first, content, commits: run.commits, bytes: run.bytes });
        for (old, memory) in merged {
            old.merge_into(chunk.clone());
            drop(memory);
        }
    }

    fn push_memory(&mut self, memory: MemoryRows) -> Arc<Chunk> {
        self.tail_bytes += memory.bytes;
        let memory = Arc::new(memory);
        let chunk = Chunk::in_memory(&memory);
        self.tail.push_back(TailChunk { chunk: chunk.clone(), memory: Some(memory) });
        chunk
    }

    /// Where the snapshot `at` ends. `at` may be old.
    pub(crate) fn end_at(&self, at: CommitTimestamp) -> EndAt {
        if at >= self.last_arrived {
            return EndAt::Known(self.next);
        }
        let sealed = position_index::first_after(&self.sealed, at);
        let tail = self.tail.iter().map(|t| (&t.chunk, t.memory.as_ref()));
        let later = self.sealed[sealed..].iter().map(|chunk| (chunk, None)).chain(tail);
        for (chunk, memory) in later {
            if chunk.arrived.1 <= at {
                continue;
            }
            return match (memory, chunk.segment()) {
                (Some(memory), _) => EndAt::Known(memory.end_at(at)),
                (None, Some(segment)) if chunk.arrived.0 <= at => EndAt::Within(segment.clone(), at),
                _ => EndAt::Known(chunk.first),
            };
        }
        let Some(open) = &self.open else { return EndAt::Known(self.next) };
        let commits = open.commits.partition_point(|c| c.at <= at);
        EndAt::Known(SequenceNumber(open.first.0 + commits.checked_sub(1).map_or(0, |last| open.commits[last].end)))
    }

    /// Pins the rows below `end`, which [`Partition::end_at`] gave for the snapshot `at`.
    pub(crate) fn pin(&mut self, at: CommitTimestamp, end: SequenceNumber) -> LogView {
        if self.open.as_ref().is_some_and(|open| open.first < end) {
            self.close_open_run();
        }
        let start = self.starts.iter().rev().find(|(when, _)| *when <= at).map(|(_, start)| *start);
        let truncated = start.unwrap_or(self.truncated);
        let first = self.first.max(truncated);
        let end = end.clamp(first, self.next.max(first));
        let tail = self.tail.iter().map(|t| &t.chunk).take_while(|c| c.first < end).cloned().collect();
        let truncates = self.truncates[..self.truncates.partition_point(|t| *t < end)].to_vec();
        LogView::new(self.id, first..end, truncated, self.sealed.clone(), tail, truncates)
    }

    /// Takes what can be sealed now: the tail's memory from its start up to commits after `durable`, which a crash
    /// could take back. `None` if that is nothing or a job is out. `event_time` is the column whose range is kept.
    pub(crate) fn start_seal(&mut self, durable: CommitTimestamp, event_time: Option<ColumnId>) -> Option<SealJob> {
        if self.sealing > 0 {
            return None;
        }
        self.close_open_run();
        let ready = |t: &&TailChunk| t.memory.is_some() && t.chunk.arrived.1 <= durable;
        let mut count = self.tail.iter().take_while(ready).count();
        // A segment ends at a transaction's end.
        while count > 0
            && self.tail.get(count).is_some_and(|t| t.chunk.arrived.0 == self.tail[count - 1].chunk.arrived.1)
        {
            count -= 1;
        }
        let chunks: Vec<_> =
            self.tail.iter().take(count).filter_map(|t| Some((t.chunk.clone(), t.memory.clone()?))).collect();
        self.sealing = count;
        SealJob::new(self.id, chunks, event_time)
    }

    /// Swaps the sealed rows' memory for their segment, in one step. Pinned chunks lead to the file from now on.
    /// The manifest must have the segment before.
    pub(crate) fn finish_seal(&mut self, sealed: SealedSegment) {
        let SealedSegment { segment, chunks } = sealed;
        assert_eq!(chunks, self.sealing, "the job that was started comes back");
        assert_eq!(self.sealed_end(), segment.first(), "segments follow each other");
        for TailChunk { chunk, memory } in self.tail.drain(..chunks) {
            self.tail_bytes -= memory.as_ref().map_or(0, |m| m.bytes);
            chunk.move_to_segment(segment.clone());
            drop(memory);
        }
        self.sealing = 0;
        Arc::make_mut(&mut self.sealed).push(Chunk::in_segment(segment));
        self.settle_files();
    }

    /// The job failed; its rows stay in the tail.
    pub(crate) fn abandon_seal(&mut self) {
        self.sealing = 0;
    }

    /// Bulk files at the tail's start follow the sealed ones.
    fn settle_files(&mut self) {
        while self.tail.front().is_some_and(|t| t.memory.is_none()) {
            if let Some(file) = self.tail.pop_front() {
                Arc::make_mut(&mut self.sealed).push(file.chunk);
            }
        }
    }

    /// The sealed segments, oldest first, for the choice of what to drop.
    pub(crate) fn ages(&self) -> Vec<SegmentAge> {
        let age = |s: &Arc<Segment>| SegmentAge { end: s.end(), last_arrived: s.arrived().1, bytes: s.place.bytes };
        self.sealed.iter().filter_map(|c| c.segment()).map(age).collect()
    }

    /// Rows that no reader of the relation can see any more whatever it keeps: below a table's last TRUNCATE at or
    /// before `stable`, or a stream's start at that time.
    pub(crate) fn dead_below(&self, stable: CommitTimestamp) -> SequenceNumber {
        let start = self.starts.iter().rev().find(|(when, _)| *when <= stable).map_or(self.first, |(_, s)| *s);
        let truncate = if stable >= self.last_arrived { self.truncates.last().copied() } else { None };
        truncate.map_or(start, |t| start.max(t)).max(self.first)
    }

    /// Forgets the oldest segments and moves `first` to the end of them, or to the stream's start at `stable` if that
    /// is later. Their files can be unlinked once the manifest says so; views that have them read on.
    pub(crate) fn drop_segments(&mut self, count: usize, stable: CommitTimestamp) -> Vec<Arc<Segment>> {
        let count = count.min(self.sealed.len());
        let dropped: Vec<Arc<Chunk>> = Arc::make_mut(&mut self.sealed).drain(..count).collect();
        if let Some(last) = dropped.last() {
            self.first = self.first.max(last.end());
        }
        if let Some(index) = self.starts.iter().rposition(|(when, _)| *when <= stable) {
            self.truncated = self.starts[index].1;
            self.first = self.first.max(self.truncated);
            self.starts.drain(..=index);
        }
        let (first, kept_truncates) = (self.first, self.truncates.partition_point(|t| *t < self.first));
        debug_assert!(first <= self.next);
        self.truncates.drain(..kept_truncates);
        dropped.iter().filter_map(|c| c.segment().cloned()).collect()
    }
}

impl Drop for Partition {
    /// A view may outlive DROP; it keeps the memory it still needs.
    fn drop(&mut self) {
        self.close_open_run();
        for TailChunk { chunk, memory } in self.tail.drain(..) {
            if let Some(memory) = memory
                && Arc::strong_count(&chunk) > 1
            {
                chunk.retain(memory);
            }
        }
    }
}
