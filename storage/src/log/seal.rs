//! Sealing: rows of a tail become a segment. The choice is pure, the work runs on a compute thread, and the swap is
//! one step of the partition ([`super::Partition::finish_seal`]). A crash in between leaves an unnamed file.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, TimestampMicrosecondArray};
use arrow::datatypes::Schema;

use super::chunk::{Chunk, Content, MemoryRows};
use super::segment::{Segment, SegmentPlace};
use crate::base::error::{Error, Result};
use crate::base::ids::{ColumnId, CommitTimestamp, PartitionId, SegmentId, SequenceNumber};
use crate::columns::{ARRIVED_COLUMN, ColumnFileWriter, FileIdentity, FileSink, column_field};

/// A tail is sealed at this size.
pub(crate) const TAIL_BYTES_MAX: usize = 16 << 20;
/// The largest tail is sealed when those of a core together pass this.
pub(crate) const CORE_TAILS_BYTES_MAX: usize = 64 << 20;

const _: () = assert!(TAIL_BYTES_MAX < CORE_TAILS_BYTES_MAX);

/// What the choice looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartitionLoad {
    pub tail_bytes: usize,
    /// The commit of the oldest row in memory.
    pub oldest_unsealed: Option<CommitTimestamp>,
    pub is_sealing: bool,
}

/// Which of a core's partitions to seal next. `journal_bound`: the journal wants all rows up to that commit in segments.
pub(crate) fn choose_seal(loads: &[PartitionLoad], journal_bound: Option<CommitTimestamp>) -> Option<usize> {
    let idle = || loads.iter().enumerate().filter(|(_, load)| !load.is_sealing && load.oldest_unsealed.is_some());
    let largest = idle().max_by_key(|(index, load)| (load.tail_bytes, usize::MAX - index))?;
    let total: usize = loads.iter().map(|load| load.tail_bytes).sum();
    // What is being sealed will be gone soon.
    let waiting: usize = loads.iter().filter(|load| !load.is_sealing).map(|load| load.tail_bytes).sum();
    debug_assert!(waiting <= total);
    if largest.1.tail_bytes >= TAIL_BYTES_MAX || waiting > CORE_TAILS_BYTES_MAX {
        return Some(largest.0);
    }
    let oldest = idle().min_by_key(|(_, load)| load.oldest_unsealed)?;
    (oldest.1.oldest_unsealed <= journal_bound).then_some(oldest.0)
}

/// Rows to be written, kept in memory until the partition has their segment.
pub(crate) struct SealJob {
    pub partition: PartitionId,
    pub first: SequenceNumber,
    /// One past the last row: the manifest edit's next `_sn`.
    pub end: SequenceNumber,
    /// The manifest edit's last timestamp.
    pub arrived: (CommitTimestamp, CommitTimestamp),
    event_time: Option<ColumnId>,
    chunks: Vec<(Arc<Chunk>, Arc<MemoryRows>)>,
}

/// A segment whose file is durable, not yet in the partition.
pub(crate) struct SealedSegment {
    pub segment: Arc<Segment>,
    pub(super) chunks: usize,
}

impl SealJob {
    pub(super) fn new(
        partition: PartitionId,
        chunks: Vec<(Arc<Chunk>, Arc<MemoryRows>)>,
        event_time: Option<ColumnId>,
    ) -> Option<Self> {
        let (first, last) = (&chunks.first()?.0, &chunks.last()?.0);
        let arrived = (first.arrived.0, last.arrived.1);
        Some(Self { partition, first: first.first, end: last.end(), arrived, event_time, chunks })
    }

    /// Writes the segment. On failure the sink's file is garbage and the partition abandons the seal.
    pub(crate) async fn run(self, id: SegmentId, sink: Box<dyn FileSink>) -> Result<SealedSegment> {
        let identity = FileIdentity { partition: self.partition, first: Some(self.first), event_time: self.event_time };
        let mut writer = ColumnFileWriter::create(sink, identity).await?;
        for (_, memory) in &self.chunks {
            match memory.batch_for_sealing()? {
                Some(batch) => writer.append(&with_arrived(&batch, memory)?).await?,
                None => {
                    debug_assert!(matches!(memory.content, Content::Truncate));
                    writer.append_truncate(memory.commits[0].at).await?;
                }
            }
        }
        let (file, summary) = writer.finish().await?;
        assert_eq!(summary.rows, self.end.0 - self.first.0, "every row of the job is in the file");
        let segment = Segment::opened(SegmentPlace::of_sealed(id, &file)?, Arc::new(file))?;
        assert_eq!(segment.arrived(), self.arrived, "the file covers the job's commits");
        Ok(SealedSegment { segment: Arc::new(segment), chunks: self.chunks.len() })
    }
}

fn with_arrived(batch: &RecordBatch, memory: &MemoryRows) -> Result<RecordBatch> {
    let times = memory.arrived(0..memory.rows());
    let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(times).with_timezone("UTC"));
    let mut fields: Vec<_> = batch.schema().fields().iter().cloned().collect();
    fields.push(Arc::new(column_field(ARRIVED_COLUMN, times.data_type().clone())));
    let mut columns = batch.columns().to_vec();
    columns.push(times);
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
        .map_err(|e| Error::Io { what: "could not seal a segment".into(), reason: e.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_of_what_to_seal() {
        let load = |mib: usize, oldest: i64| PartitionLoad {
            tail_bytes: mib << 20,
            oldest_unsealed: (oldest > 0).then_some(CommitTimestamp(oldest)),
            is_sealing: false,
        };
        let busy = |mib, oldest| PartitionLoad { is_sealing: true, ..load(mib, oldest) };
        let table: &[(&str, Vec<PartitionLoad>, Option<i64>, Option<usize>)] = &[
            ("nothing there", vec![], None, None),
            ("small tails wait", vec![load(3, 1), load(15, 2)], None, None),
            ("a full tail", vec![load(3, 1), load(16, 2)], None, Some(1)),
            ("a full tail that is being sealed", vec![load(3, 1), busy(20, 2)], None, None),
            (
                "many tails: the largest",
                vec![load(13, 1), load(14, 2), load(13, 3), load(13, 4), load(13, 5)],
                None,
                Some(1),
            ),
            ("the journal wants the oldest", vec![load(3, 7), load(1, 5), load(9, 9)], Some(6), Some(1)),
            ("the journal wants what is gone already", vec![load(3, 7), load(1, 8), load(0, 0)], Some(6), None),
        ];
        for (what, loads, bound, expected) in table {
            assert_eq!(choose_seal(loads, bound.map(CommitTimestamp)), *expected, "{what}");
        }
    }
}
