//! The record: layout, seeded checksum, and commits longer than one write.
//!
//! Little-endian; a record starts at a multiple of 64 bytes, a group (one write) at a multiple of 4 KiB.
//! ```text
//!   0 magic u32 │ 4 kind u8 │ 5 is last part u8 │ 6 participants u16 │ 8 checksum u64 of all from 16 on
//!  16 journal uuid 16 │ 32 generation u64 │ 40 lsn u64 │ 48 group u64
//!  56 length u32, unpadded │ 60 group length u32 │ 64 offset in group u32 │ 68 part u32
//!  72 timestamp i64 │ 80 transaction u128 │ 96 payload length of all parts u64 │ 104 zeros
//! 128 participants, 16 each │ payload
//! ```
//! An LSN is a byte position in the journal's whole stream. The checksum is seeded with uuid and LSN, so what an
//! earlier use of the segment left behind never verifies.

use bytes::Bytes;
use uuid::Uuid;

use crate::base::checksum::{checksum_seeded, seed_of};
use crate::base::ids::{CommitTimestamp, TransactionId};
use crate::base::limits::{COMMIT_BYTES_MAX, GROUP_BYTES_MAX, PARTICIPANTS_MAX};

const MAGIC: u32 = u32::from_le_bytes(*b"ALVR");
pub(super) const HEADER_BYTES: usize = 128;
pub(super) const RECORD_ALIGNMENT: usize = 64;
/// Where the checksummed part begins.
const CHECKED_FROM: usize = 16;
const _: () = assert!(HEADER_BYTES.is_multiple_of(RECORD_ALIGNMENT));

/// A byte position in a journal's stream, over all its segments.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Lsn(pub u64);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Commit,
    Abort,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordKind {
    Commit,
    /// What became of a transaction of several journals.
    Resolved(Outcome),
    /// A remark of the owner, without a transaction.
    Note,
}

impl RecordKind {
    fn code(self) -> u8 {
        match self {
            Self::Commit => 1,
            Self::Resolved(Outcome::Commit) => 2,
            Self::Resolved(Outcome::Abort) => 3,
            Self::Note => 4,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Commit,
            2 => Self::Resolved(Outcome::Commit),
            3 => Self::Resolved(Outcome::Abort),
            4 => Self::Note,
            _ => return None,
        })
    }
}

/// One whole entry of the journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    pub kind: RecordKind,
    pub timestamp: CommitTimestamp,
    pub transaction: TransactionId,
    /// All journals of the transaction; empty if it is this one alone.
    pub participants: Vec<Uuid>,
    pub payload: Bytes,
}

/// A record on its way into the journal, in as many parts as it needs.
#[derive(Clone, Debug)]
pub struct PendingRecord {
    record: Record,
    written: usize,
    parts: u32,
    first_lsn: Option<Lsn>,
}

impl PendingRecord {
    /// Panics beyond `PARTICIPANTS_MAX` or `COMMIT_BYTES_MAX`: the owner refuses such a commit before.
    pub fn new(record: Record) -> Self {
        assert!(record.participants.len() <= PARTICIPANTS_MAX, "{} participants", record.participants.len());
        assert!(record.payload.len() <= COMMIT_BYTES_MAX, "a payload of {} bytes", record.payload.len());
        Self { record, written: 0, parts: 0, first_lsn: None }
    }

    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Needed only before the last part is pushed: earlier ones carry none.
    pub fn set_timestamp(&mut self, timestamp: CommitTimestamp) {
        self.record.timestamp = timestamp;
    }

    /// Where its first part stands, once pushed: the journal is needed from there on while the record is.
    pub fn first_lsn(&self) -> Option<Lsn> {
        self.first_lsn
    }

    /// Bytes that the rest takes in a group, with its header and padding.
    pub fn rest_bytes(&self) -> usize {
        padded(self.head_bytes() + self.record.payload.len() - self.written)
    }

    pub(super) fn head_bytes(&self) -> usize {
        HEADER_BYTES + 16 * self.record.participants.len()
    }

    /// Writes the next part into `room` (all of it is usable); returns the part's unpadded length.
    /// The part is the last one exactly if the rest fits.
    pub(super) fn write_part(&mut self, room: &mut [u8]) -> usize {
        let is_last = self.rest_bytes() <= room.len();
        let head = self.head_bytes();
        let rest = self.record.payload.len() - self.written;
        let piece = if is_last { rest } else { room.len() - head };
        let length = head + piece;
        room[..HEADER_BYTES].fill(0);
        put(room, 0, &MAGIC.to_le_bytes());
        put(room, 4, &[self.record.kind.code(), u8::from(is_last)]);
        put(room, 6, &(self.record.participants.len() as u16).to_le_bytes());
        put(room, 56, &(length as u32).to_le_bytes());
        put(room, 68, &self.parts.to_le_bytes());
        if is_last {
            put(room, 72, &self.record.timestamp.0.to_le_bytes());
        }
        put(room, 80, &self.record.transaction.0.to_le_bytes());
        put(room, 96, &(self.record.payload.len() as u64).to_le_bytes());
        for (index, participant) in self.record.participants.iter().enumerate() {
            put(room, HEADER_BYTES + 16 * index, participant.as_bytes());
        }
        put(room, head, &self.record.payload[self.written..self.written + piece]);
        room[length..padded(length)].fill(0);
        self.written += piece;
        self.parts += 1;
        length
    }

    pub(super) fn note_place(&mut self, lsn: Lsn) {
        self.first_lsn.get_or_insert(lsn);
    }
}

/// Where a record stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) generation: u64,
    pub(super) lsn: Lsn,
    pub(super) group: u64,
    pub(super) group_length: u32,
    pub(super) offset_in_group: u32,
}

/// Gives a written part its place and its checksum.
pub(super) fn seal(part: &mut [u8], journal: &Uuid, place: &Place) {
    put(part, 16, journal.as_bytes());
    put(part, 32, &place.generation.to_le_bytes());
    put(part, 40, &place.lsn.0.to_le_bytes());
    put(part, 48, &place.group.to_le_bytes());
    put(part, 60, &place.group_length.to_le_bytes());
    put(part, 64, &place.offset_in_group.to_le_bytes());
    let sum = checksum_seeded(&part[CHECKED_FROM..], seed(journal, place.lsn) ^ first_bytes(part));
    put(part, 8, &sum.to_le_bytes());
}

/// One verified part, borrowed from what was read.
#[derive(Clone, Debug)]
pub(super) struct Part<'a> {
    pub(super) place: Place,
    /// Unpadded.
    pub(super) length: usize,
    pub(super) kind: RecordKind,
    pub(super) is_last: bool,
    pub(super) index: u32,
    pub(super) timestamp: CommitTimestamp,
    pub(super) transaction: TransactionId,
    pub(super) payload_bytes: u64,
    participants: &'a [u8],
    pub(super) payload: &'a [u8],
}

impl Part<'_> {
    pub(super) fn participants(&self) -> Vec<Uuid> {
        self.participants.chunks_exact(16).filter_map(|bytes| Uuid::from_slice(bytes).ok()).collect()
    }
}

/// Why there is no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absence {
    /// Never written.
    Zeros,
    /// Left by an earlier use of the segment: a record's head with a smaller LSN or of another journal.
    Stale,
    /// Anything else.
    Bad(&'static str),
}

/// Reads the record at `lsn`, which `bytes` begin with. `bytes` must reach to the record's end; a record that claims
/// to be longer is bad.
pub(super) fn parse<'a>(bytes: &'a [u8], journal: &Uuid, lsn: Lsn) -> Result<Part<'a>, Absence> {
    let Some(head) = bytes.get(..HEADER_BYTES) else { return Err(Absence::Bad("the file ends within a record")) };
    if u32_at(head, 0) != MAGIC {
        return Err(if head.iter().all(|byte| *byte == 0) {
            Absence::Zeros
        } else {
            Absence::Bad("no record starts here")
        });
    }
    if head[16..32] != journal.as_bytes()[..] || u64_at(head, 40) < lsn.0 {
        return Err(Absence::Stale);
    }
    let length = u32_at(head, 56) as usize;
    let participants = usize::from(u16_at(head, 6));
    let payload_from = HEADER_BYTES + 16 * participants;
    let place = Place {
        generation: u64_at(head, 32),
        lsn: Lsn(u64_at(head, 40)),
        group: u64_at(head, 48),
        group_length: u32_at(head, 60),
        offset_in_group: u32_at(head, 64),
    };
    // Lengths are checked before they are used, so that nonsense costs nothing.
    if length < payload_from || length > GROUP_BYTES_MAX || participants > PARTICIPANTS_MAX {
        return Err(Absence::Bad("the record's lengths are impossible"));
    }
    let Some(whole) = bytes.get(..length) else { return Err(Absence::Bad("the file ends within a record")) };
    if place.lsn != lsn {
        return Err(Absence::Bad("the record belongs to another place"));
    }
    if u64_at(head, 8) != checksum_seeded(&whole[CHECKED_FROM..], seed(journal, lsn) ^ first_bytes(whole)) {
        return Err(Absence::Bad("the record's checksum does not match"));
    }
    let Some(kind) = RecordKind::from_code(head[4]) else { return Err(Absence::Bad("the record's kind is unknown")) };
    Ok(Part {
        place,
        length,
        kind,
        is_last: head[5] != 0,
        index: u32_at(head, 68),
        timestamp: CommitTimestamp(i64::from_le_bytes(array(head, 72))),
        transaction: TransactionId(u128::from_le_bytes(array(head, 80))),
        payload_bytes: u64_at(head, 96),
        participants: &whole[HEADER_BYTES..payload_from],
        payload: &whole[payload_from..],
    })
}

/// A cheap first look: could a group start here that verifies?
pub(super) fn may_start_group(bytes: &[u8], journal: &Uuid, lsn: Lsn) -> bool {
    bytes.len() >= HEADER_BYTES
        && u32_at(bytes, 0) == MAGIC
        && bytes[16..32] == journal.as_bytes()[..]
        && u64_at(bytes, 40) == lsn.0
        && u32_at(bytes, 64) == 0
}

/// Whether a record written for its very place stands anywhere in `bytes`, which begin at `lsn`.
pub(super) fn has_record_of(bytes: &[u8], journal: &Uuid, lsn: Lsn) -> bool {
    (0..bytes.len().saturating_sub(HEADER_BYTES)).step_by(RECORD_ALIGNMENT).any(|at| {
        u32_at(bytes, at) == MAGIC
            && bytes[at + 16..at + 32] == journal.as_bytes()[..]
            && u64_at(bytes, at + 40) == lsn.0 + at as u64
    })
}

pub(super) fn padded(length: usize) -> usize {
    length.next_multiple_of(RECORD_ALIGNMENT)
}

fn seed(journal: &Uuid, lsn: Lsn) -> u64 {
    seed_of(journal.as_bytes(), lsn.0)
}

/// Magic, kind, last and participants stand before the checksum: they enter it through its seed.
fn first_bytes(part: &[u8]) -> u64 {
    u64_at(part, 0)
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut value = [0; N];
    value.copy_from_slice(&bytes[at..at + N]);
    value
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array(bytes, at))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}
