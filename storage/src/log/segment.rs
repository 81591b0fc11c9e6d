//! One sealed file of the log, open for reading. Its rows are numbered by the file itself (sealed from the tail) or by
//! the commit that published it (staged). The file stays readable while anyone holds the segment, also without a name.

use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::TimestampMicrosecondType;

use crate::base::error::{Error, Result};
use crate::base::ids::{CommitTimestamp, PartitionId, SegmentId, SequenceNumber};
use crate::columns::{ARRIVED_COLUMN, ColumnFile, FileSource};

pub(crate) struct Segment {
    pub id: SegmentId,
    pub file: Arc<ColumnFile>,
    pub first: SequenceNumber,
    /// The first and the last commit.
    pub arrived: (CommitTimestamp, CommitTimestamp),
}

impl Segment {
    /// Opens a file that was sealed from the tail.
    pub(crate) async fn open(source: Arc<dyn FileSource>, id: SegmentId, partition: PartitionId) -> Result<Self> {
        let file = ColumnFile::open(source).await?;
        let (Some(first), Some(arrived)) = (file.first(), file.arrived()) else {
            return Err(wrong(&file, "segment without sequence numbers"));
        };
        Self::of(Arc::new(file), id, partition, first, arrived)
    }

    /// Opens a staged file whose rows were published together, from `first` on.
    pub(crate) async fn open_staged(
        source: Arc<dyn FileSource>,
        id: SegmentId,
        partition: PartitionId,
        first: SequenceNumber,
        at: CommitTimestamp,
    ) -> Result<Self> {
        let file = ColumnFile::open(source).await?;
        if file.first().is_some() || file.arrived().is_some() {
            return Err(wrong(&file, "staged file with sequence numbers"));
        }
        Self::of(Arc::new(file), id, partition, first, (at, at))
    }

    pub(super) fn of(
        file: Arc<ColumnFile>,
        id: SegmentId,
        partition: PartitionId,
        first: SequenceNumber,
        arrived: (CommitTimestamp, CommitTimestamp),
    ) -> Result<Self> {
        if file.partition() != partition {
            return Err(wrong(&file, "segment of another partition"));
        }
        if first.0.checked_add(file.rows()).is_none() {
            return Err(wrong(&file, "sequence numbers overflow"));
        }
        Ok(Self { id, file, first, arrived })
    }

    pub(crate) fn rows(&self) -> u64 {
        self.file.rows()
    }

    /// One past the last row.
    pub(crate) fn end(&self) -> SequenceNumber {
        SequenceNumber(self.first.0 + self.rows())
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.file.size_bytes()
    }

    /// Rows that stand for TRUNCATE of a table.
    pub(crate) fn truncates(&self) -> impl Iterator<Item = SequenceNumber> + '_ {
        self.file.truncates().map(|row| SequenceNumber(self.first.0 + row))
    }

    /// One past the last row that arrived at or before `at`. Reads at most one page.
    pub(crate) async fn end_at(&self, at: CommitTimestamp) -> Result<SequenceNumber> {
        if at >= self.arrived.1 {
            return Ok(self.end());
        }
        if at < self.arrived.0 {
            return Ok(self.first);
        }
        // Timestamps ascend, so the group is found by the last of each.
        let (mut low, mut high) = (0, self.file.group_count());
        while low < high {
            let middle = (low + high) / 2;
            let last = self.file.group_min_max(ARRIVED_COLUMN, middle).map(|(_, max)| max);
            let last = last.and_then(|b| b.try_into().ok()).map(i64::from_le_bytes);
            if last.ok_or_else(|| wrong(&self.file, "no commit times"))? <= at.0 {
                low = middle + 1
            } else {
                high = middle
            }
        }
        let rows = self.file.group_rows(low);
        let group = self.file.scan(&[ARRIVED_COLUMN], rows.clone()).next().await?;
        let array = group.and_then(|g| g.columns.into_iter().next().flatten());
        let array = array.ok_or_else(|| wrong(&self.file, "no commit times"))?;
        let Some(times) = array.as_primitive_opt::<TimestampMicrosecondType>().filter(|a| a.null_count() == 0) else {
            return Err(wrong(&self.file, "commit times of another type"));
        };
        Ok(SequenceNumber(self.first.0 + rows.start + times.values().partition_point(|t| *t <= at.0) as u64))
    }
}

fn wrong(file: &ColumnFile, reason: &str) -> Error {
    Error::Corrupted { file: file.name().into(), offset: 0, reason: reason.into() }
}
