//! Segment files: header block, sizes, preparing and recycling.
//!
//! `journals/<uuid>/<number>`: one block of header, then groups. Numbers are consecutive; only the oldest are ever taken
//! away, one durable step at a time, so a gap is damage. A file whose header does not name the file itself is prepared
//! but unused: new ones hold zeros there, recycled ones their former header. The header is written together with the
//! segment's first group.

use std::collections::VecDeque;

use uuid::Uuid;

use super::record::Lsn;
use crate::base::checksum::checksum;
use crate::base::error::Result;
use crate::base::limits::{
    IO_ALIGNMENT, JOURNAL_SEGMENT_BYTES_MAX, JOURNAL_SEGMENT_BYTES_MIN, JOURNAL_SPARE_BYTES_MAX,
};
use crate::io::{Access, Caching, Directory, File, FileName, Io};

const MAGIC: [u8; 8] = *b"ALVJRNL1";
const HEADER_FIELDS_BYTES: usize = 64;
/// The header's block; groups begin behind it.
pub(super) const HEADER_BYTES: u64 = IO_ALIGNMENT as u64;

/// How segments grow. The defaults are the product's; simulations use smaller ones to meet every edge.
#[derive(Clone, Copy, Debug)]
pub struct SegmentSizes {
    pub bytes_min: u64,
    pub bytes_max: u64,
    pub spare_bytes_max: u64,
}

impl Default for SegmentSizes {
    fn default() -> Self {
        Self {
            bytes_min: JOURNAL_SEGMENT_BYTES_MIN,
            bytes_max: JOURNAL_SEGMENT_BYTES_MAX,
            spare_bytes_max: JOURNAL_SPARE_BYTES_MAX,
        }
    }
}

impl SegmentSizes {
    /// As large as all existing ones together: the journal doubles until it no longer needs to grow.
    pub(super) fn next(&self, existing_bytes: u64) -> u64 {
        existing_bytes.clamp(self.bytes_min, self.bytes_max).next_multiple_of(HEADER_BYTES)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) number: u64,
    pub(super) first_lsn: Lsn,
}

impl SegmentHeader {
    /// magic 8 │ uuid 16 │ number u64 │ first lsn u64 │ zeros 16 │ checksum u64 of the 56 bytes before
    pub(super) fn encode(&self, journal: &Uuid, block: &mut [u8]) {
        block.fill(0);
        block[0..8].copy_from_slice(&MAGIC);
        block[8..24].copy_from_slice(journal.as_bytes());
        block[24..32].copy_from_slice(&self.number.to_le_bytes());
        block[32..40].copy_from_slice(&self.first_lsn.0.to_le_bytes());
        let sum = checksum(&block[..HEADER_FIELDS_BYTES - 8]);
        block[HEADER_FIELDS_BYTES - 8..HEADER_FIELDS_BYTES].copy_from_slice(&sum.to_le_bytes());
    }

    /// `None`: nothing that this journal wrote whole.
    pub(super) fn decode(journal: &Uuid, block: &[u8]) -> Option<Self> {
        let block = block.get(..HEADER_FIELDS_BYTES)?;
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&block[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let sound = block[0..8] == MAGIC
            && block[8..24] == journal.as_bytes()[..]
            && word(HEADER_FIELDS_BYTES - 8) == checksum(&block[..HEADER_FIELDS_BYTES - 8]);
        sound.then(|| Self { number: word(24), first_lsn: Lsn(word(32)) })
    }
}

/// A file ready to take groups, or taking them.
#[derive(Clone)]
pub(super) struct Segment {
    pub(super) number: u64,
    pub(super) file: File,
    pub(super) bytes: u64,
}

/// A segment that takes no more groups.
#[derive(Clone, Copy, Debug)]
pub(super) struct FullSegment {
    pub(super) number: u64,
    pub(super) end: Lsn,
    pub(super) bytes: u64,
}

/// Makes the next segment: the oldest spare one under a new number, or a new file.
/// Cancel-safe: what a dropped call leaves is a prepared file or a temporary one, and both are met at the next start.
pub(super) async fn prepare(
    io: &Io,
    journal: Uuid,
    number: u64,
    spare: Option<FullSegment>,
    bytes_if_new: u64,
) -> Result<Segment> {
    let name = FileName::JournalSegment { journal, number };
    let directory = Directory::Journal(journal);
    if let Some(spare) = spare {
        let old = FileName::JournalSegment { journal, number: spare.number };
        io.rename(&old, &name).await?;
        io.sync_directory(&directory).await?;
        let file = io.open(&name, Access::ReadWrite, Caching::Direct).await?;
        return Ok(Segment { number, file, bytes: spare.bytes });
    }
    let aside = name.temporary();
    let file = io.open(&aside, Access::Create, Caching::Direct).await?;
    if let Err(error) = file.preallocate_zeroed(bytes_if_new).await {
        // On a full disk the half-made file would keep others from the room they need.
        drop(file);
        io.unlink(&aside).await?;
        return Err(error);
    }
    drop(file);
    io.rename(&aside, &name).await?;
    io.sync_directory(&directory).await?;
    let file = io.open(&name, Access::ReadWrite, Caching::Direct).await?;
    Ok(Segment { number, file, bytes: bytes_if_new })
}

/// Deletes the oldest segments, each durably before the next, so that a crash never leaves a gap.
pub(super) async fn delete(io: &Io, journal: Uuid, oldest: &VecDeque<FullSegment>) -> Result<()> {
    for segment in oldest {
        io.unlink(&FileName::JournalSegment { journal, number: segment.number }).await?;
        io.sync_directory(&Directory::Journal(journal)).await?;
    }
    Ok(())
}
