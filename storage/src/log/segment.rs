//! One sealed file of the log. Its rows are numbered by the file itself (sealed from the tail) or by the commit that
//! published it (staged). What the manifest knows of it is enough to place it, so a start opens no file that nobody
//! reads. An open file stays readable while anyone holds the segment, also without a name.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::TimestampMicrosecondType;
use tokio::sync::OnceCell;

use crate::base::error::{Error, Result};
use crate::base::ids::{CommitTimestamp, PartitionId, SegmentId, SequenceNumber};
use crate::columns::{ARRIVED_COLUMN, ColumnFile, FileSource, IoFuture};

pub(crate) struct Segment {
    pub place: SegmentPlace,
    /// Rows that stand for TRUNCATE of a table.
    truncates: Vec<SequenceNumber>,
    file: OnceCell<Arc<ColumnFile>>,
    /// Opens the file; absent once that is done.
    opener: Option<Opener>,
}

/// What the manifest keeps of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentPlace {
    pub id: SegmentId,
    pub partition: PartitionId,
    pub first: SequenceNumber,
    pub rows: u64,
    pub bytes: u64,
    /// The first and the last commit.
    pub arrived: (CommitTimestamp, CommitTimestamp),
    /// The file holds neither numbers nor commit times.
    pub staged: bool,
}

/// Opens a segment's file for reading.
pub(crate) type Opener = Box<dyn Fn() -> IoFuture<'static, Arc<dyn FileSource>> + Send + Sync>;

impl Segment {
    /// A segment of a stream, whose file is opened by its first reader. (A table's must be opened at once: its
    /// truncates are in the file.)
    pub(crate) fn unopened(place: SegmentPlace, opener: Opener) -> Self {
        Self { place, truncates: Vec::new(), file: OnceCell::new(), opener: Some(opener) }
    }

    /// A segment whose file is open already.
    pub(crate) fn opened(place: SegmentPlace, file: Arc<ColumnFile>) -> Result<Self> {
        place.check(&file)?;
        let truncates = file.truncates().map(|row| SequenceNumber(place.first.0 + row)).collect();
        Ok(Self { place, truncates, file: OnceCell::from(file), opener: None })
    }

    /// The file, opened and checked against its place. Cancel-safe. A caller that unlinks the file while views may hold
    /// the segment calls this before: what is open stays readable.
    pub(crate) async fn file(&self) -> Result<&Arc<ColumnFile>> {
        self.file
            .get_or_try_init(|| async {
                let Some(opener) = &self.opener else {
                    return Err(Error::Io { what: format!("could not open {}", self.place), reason: "no file".into() });
                };
                let file = ColumnFile::open(opener().await?).await?;
                self.place.check(&file)?;
                Ok(Arc::new(file))
            })
            .await
    }

    pub(crate) fn first(&self) -> SequenceNumber {
        self.place.first
    }

    pub(crate) fn rows(&self) -> u64 {
        self.place.rows
    }

    /// One past the last row.
    pub(crate) fn end(&self) -> SequenceNumber {
        SequenceNumber(self.place.first.0 + self.place.rows)
    }

    /// The first and the last commit.
    pub(crate) fn arrived(&self) -> (CommitTimestamp, CommitTimestamp) {
        self.place.arrived
    }

    pub(crate) fn truncates(&self) -> &[SequenceNumber] {
        &self.truncates
    }

    /// One past the last row that arrived at or before `at`. Reads at most one page.
    pub(crate) async fn end_at(&self, at: CommitTimestamp) -> Result<SequenceNumber> {
        if at >= self.place.arrived.1 {
            return Ok(self.end());
        }
        if at < self.place.arrived.0 {
            return Ok(self.place.first);
        }
        let file = self.file().await?;
        // Timestamps ascend, so the group is found by the last of each.
        let (mut low, mut high) = (0, file.group_count());
        while low < high {
            let middle = (low + high) / 2;
            let last = file.group_min_max(ARRIVED_COLUMN, middle).map(|(_, max)| max);
            let last = last.and_then(|b| b.try_into().ok()).map(i64::from_le_bytes);
            match last.ok_or_else(|| wrong(file, "no commit times"))? <= at.0 {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        if low == file.group_count() {
            return Ok(self.end());
        }
        let rows = file.group_rows(low);
        let group = file.scan(&[ARRIVED_COLUMN], rows.clone()).next().await?;
        let array = group.and_then(|g| g.columns.into_iter().next().flatten());
        let array = array.ok_or_else(|| wrong(file, "no commit times"))?;
        let Some(times) = array.as_primitive_opt::<TimestampMicrosecondType>().filter(|a| a.null_count() == 0) else {
            return Err(wrong(file, "commit times of another type"));
        };
        let before = times.values().partition_point(|t| *t <= at.0) as u64;
        Ok(SequenceNumber(self.place.first.0 + rows.start + before))
    }
}

impl SegmentPlace {
    /// The place of a file sealed from the tail, as the file itself tells it.
    pub(crate) fn of_sealed(id: SegmentId, file: &ColumnFile) -> Result<Self> {
        let (Some(first), Some(arrived)) = (file.first(), file.arrived()) else {
            return Err(wrong(file, "segment without sequence numbers"));
        };
        let (partition, rows, bytes) = (file.partition(), file.rows(), file.size_bytes());
        Ok(Self { id, partition, first, rows, bytes, arrived, staged: false })
    }

    /// The place of a staged file whose rows are published together, from `first` on.
    pub(crate) fn of_staged(id: SegmentId, file: &ColumnFile, first: SequenceNumber, at: CommitTimestamp) -> Self {
        let (partition, rows, bytes) = (file.partition(), file.rows(), file.size_bytes());
        Self { id, partition, first, rows, bytes, arrived: (at, at), staged: true }
    }

    fn check(&self, file: &ColumnFile) -> Result<()> {
        if file.partition() != self.partition {
            return Err(wrong(file, "segment of another partition"));
        }
        let numbers = if self.staged { (None, None) } else { (Some(self.first), Some(self.arrived)) };
        if (file.first(), file.arrived()) != numbers {
            return Err(wrong(file, "other sequence numbers or commit times than the manifest's"));
        }
        if (file.rows(), file.size_bytes()) != (self.rows, self.bytes) {
            return Err(wrong(file, "another size than the manifest's"));
        }
        if self.first.0.checked_add(self.rows).is_none() {
            return Err(wrong(file, "sequence numbers overflow"));
        }
        Ok(())
    }
}

impl fmt::Display for SegmentPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "segment {} of partition {}", self.id.0, self.partition)
    }
}

fn wrong(file: &ColumnFile, reason: &str) -> Error {
    Error::Corrupted { file: file.name().into(), offset: 0, reason: reason.into() }
}
