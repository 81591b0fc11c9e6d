//! Reading a journal after a stop or a crash: its records in order, and where it ends.
//!
//! The unit is the group: it was one write, and none of its commits was acknowledged before it was durable whole. So an
//! incomplete group is no loss. The end-of-journal rule:
//! 1. Groups follow each other without a gap in LSN, group number and ascending generation.
//! 2. The first bad group ends the journal if no later group verifies: a group is written only after the one before.
//! 3. If a later one verifies, acknowledged commits have been damaged: the journal is corrupted at the bad group.

use std::collections::BTreeMap;

use bytes::Bytes;
use uuid::Uuid;

use super::record::{self, Absence, Lsn, Part, Record, RecordKind, padded};
use super::segment::{self, FullSegment, SegmentHeader};
use crate::base::error::{Error, Result};
use crate::base::ids::TransactionId;
use crate::base::limits::{COMMIT_BYTES_MAX, COPY_BYTES, GROUP_BYTES_MAX, IO_ALIGNMENT};
use crate::io::{Access, Caching, Directory, File, FileName, Io, IoBuffer};

/// One record, whole, with where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredRecord {
    pub record: Record,
    /// Of its first part: the journal is needed from here on while the record is.
    pub first_lsn: Lsn,
    /// Of its last part: the order of records.
    pub lsn: Lsn,
}

/// How the journal ends.
pub enum Ending {
    Sound(JournalEnd),
    /// The records before the damage have been visited; the journal takes no more.
    Damaged(Error),
}

/// Where and how to go on: what `Writer::resume` needs.
pub struct JournalEnd {
    pub journal: Uuid,
    /// Recognisable remains of an unfinished write behind the end, to be told to the operator.
    pub cut: Option<Cut>,
    /// Of the next run.
    pub(super) generation: u64,
    pub(super) first_lsn: Lsn,
    pub(super) lsn: Lsn,
    pub(super) group: u64,
    pub(super) next_number: u64,
    pub(super) full: Vec<FullSegment>,
    pub(super) last: Option<LastSegment>,
    /// A file that is ready but unused.
    pub(super) prepared: Option<(u64, u64)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    pub file: String,
    pub offset: u64,
    pub reason: &'static str,
}

#[derive(Clone, Copy)]
pub(super) struct LastSegment {
    pub(super) number: u64,
    pub(super) bytes: u64,
    pub(super) first_lsn: Lsn,
    pub(super) offset: u64,
    pub(super) has_header: bool,
    /// Where the last group begins in the file, with the header if it is the segment's first.
    pub(super) group_start: Option<u64>,
}

impl JournalEnd {
    pub(super) fn of_new_journal(journal: Uuid) -> Self {
        Self {
            journal,
            cut: None,
            generation: 1,
            first_lsn: Lsn(0),
            lsn: Lsn(0),
            group: 1,
            next_number: 1,
            full: Vec::new(),
            last: None,
            prepared: None,
        }
    }

    /// Where the next record will stand.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }
}

/// The journals in the data directory.
pub async fn list_journals(io: &Io) -> Result<Vec<Uuid>> {
    let names = io.list(&Directory::Journals).await?;
    let journal = |name: &String| match Directory::Journals.parse(name) {
        Some(Directory::Journal(uuid)) => Some(uuid),
        _ => None,
    };
    Ok(names.iter().filter_map(journal).collect())
}

/// Visits every record of the journal in order. Writes nothing but the removal of temporary files.
pub async fn recover(io: &Io, journal: Uuid, mut visit: impl FnMut(RecoveredRecord) -> Result<()>) -> Result<Ending> {
    let files = open_segments(io, journal).await?;
    let mut end = JournalEnd::of_new_journal(journal);
    let Some(first) = files.first() else { return Ok(Ending::Sound(end)) };
    if let Some(gap) = files.windows(2).find(|pair| pair[1].number != pair[0].number + 1) {
        return Ok(damaged(&gap[1], 0, "the segment before it is missing"));
    }
    // A file without a header of its own is unused, and only the newest ones are.
    let used = files.iter().rposition(|file| file.header.is_some()).map_or(0, |last| last + 1);
    if let Some(broken) = files[..used].iter().find(|file| file.header.is_none()) {
        return Ok(damaged(broken, 0, "the segment's header is damaged"));
    }
    if used == 0 && first.number != 1 {
        return Ok(damaged(first, 0, "the segment's header is damaged"));
    }
    let mut scan = Scan { journal, last_group: None, generation: 0, unfinished: BTreeMap::new() };
    let mut lsn = first.header.map_or(Lsn(0), |header| header.first_lsn);
    end.first_lsn = lsn;
    let mut position = segment::HEADER_BYTES;
    let mut group_start = None;
    let mut absence = Absence::Zeros;
    for (index, file) in files[..used].iter().enumerate() {
        let starts_at = file.header.map_or(lsn, |header| header.first_lsn);
        if starts_at != lsn {
            return Ok(damaged(&files[index - 1], position, reason(absence)));
        }
        let mut window = Window::new(file);
        position = segment::HEADER_BYTES;
        group_start = None;
        absence = loop {
            match scan.group(&mut window, position, lsn, &mut visit).await? {
                GroupRead::Whole { bytes } => {
                    // The first group came with the header in one write.
                    group_start = Some(if position == segment::HEADER_BYTES { 0 } else { position });
                    position += bytes;
                    lsn = Lsn(lsn.0 + bytes);
                }
                GroupRead::Absent(absence) => break absence,
                GroupRead::Impossible(reason) => return Ok(damaged(file, position, reason)),
            }
        };
        if index + 1 < used {
            end.full.push(FullSegment { number: file.number, end: lsn, bytes: file.bytes });
        }
    }
    let (last, unused) = match used {
        0 => (first, &files[1..]),
        _ => (&files[used - 1], &files[used..]),
    };
    // A header without a sound group is part of a torn write.
    let has_header = group_start.is_some();
    let later = scan.find_later(last, position, lsn).await?;
    let in_next = match unused.first() {
        Some(next) => scan.find_later(next, segment::HEADER_BYTES, lsn).await?,
        None => Remains::default(),
    };
    if later.has_later_group || in_next.has_later_group {
        return Ok(damaged(last, position, reason(absence)));
    }
    let torn_in = match (later.has_torn_group, in_next.has_torn_group, unused.first()) {
        (true, ..) => Some((last, position)),
        (false, true, Some(next)) => Some((next, segment::HEADER_BYTES)),
        _ => None,
    };
    end.cut = torn_in.map(|(file, offset)| Cut {
        file: file.file.name().to_string(),
        offset,
        reason: "a write was not finished",
    });
    end.generation = scan.generation + 1;
    end.lsn = lsn;
    end.group = scan.last_group.map_or(1, |group| group + 1);
    let first_lsn = last.header.map_or(lsn, |header| header.first_lsn);
    let offset = position;
    end.last = Some(LastSegment { number: last.number, bytes: last.bytes, first_lsn, offset, has_header, group_start });
    end.next_number = last.number + 1;
    if let Some((next, more)) = unused.split_first() {
        end.prepared = Some((next.number, next.bytes));
        end.next_number = next.number + 1;
        // At most one segment is made ahead; more are none of ours.
        if let Some(strange) = more.first() {
            return Ok(damaged(strange, 0, "the segment is ahead of the journal"));
        }
    }
    Ok(Ending::Sound(end))
}

struct SegmentFile {
    number: u64,
    file: File,
    bytes: u64,
    /// Present if it names this very file.
    header: Option<SegmentHeader>,
}

async fn open_segments(io: &Io, journal: Uuid) -> Result<Vec<SegmentFile>> {
    let mut segments = Vec::new();
    for name in io.list_files(&Directory::Journal(journal)).await? {
        match &name {
            FileName::JournalSegment { number, .. } => {
                let file = io.open(&name, Access::Read, Caching::Direct).await?;
                let bytes = file.length()? / IO_ALIGNMENT as u64 * IO_ALIGNMENT as u64;
                let (read, block) = file.read_at(IoBuffer::for_reading(IO_ALIGNMENT), 0).await;
                let header = SegmentHeader::decode(&journal, &block[..read?]).filter(|h| h.number == *number);
                segments.push(SegmentFile { number: *number, file, bytes, header });
            }
            FileName::Temporary(_) => io.unlink(&name).await?,
            _ => {}
        }
    }
    segments.sort_by_key(|segment| segment.number);
    Ok(segments)
}

/// A moving view of one file.
struct Window<'a> {
    segment: &'a SegmentFile,
    buffer: IoBuffer,
    start: u64,
    filled: usize,
}

impl<'a> Window<'a> {
    fn new(segment: &'a SegmentFile) -> Self {
        Self { segment, buffer: IoBuffer::for_reading(COPY_BYTES), start: 0, filled: 0 }
    }

    /// Up to a group's length from `offset` (a multiple of a block); less where the file ends.
    async fn at(&mut self, offset: u64) -> Result<&[u8]> {
        let wanted = (self.segment.bytes.saturating_sub(offset)).min(GROUP_BYTES_MAX as u64) as usize;
        let has =
            |window: &Self| offset >= window.start && offset + wanted as u64 <= window.start + window.filled as u64;
        if !has(self) {
            let buffer = std::mem::replace(&mut self.buffer, IoBuffer::for_reading(0));
            let (read, buffer) = self.segment.file.read_at(buffer, offset).await;
            self.buffer = buffer;
            self.filled = read?;
            self.start = offset;
        }
        let from = (offset - self.start) as usize;
        Ok(&self.buffer[from..(from + wanted).min(self.filled)])
    }
}

struct Scan {
    journal: Uuid,
    last_group: Option<u64>,
    /// The greatest met.
    generation: u64,
    /// Records of which parts are missing still.
    unfinished: BTreeMap<TransactionId, Unfinished>,
}

struct Unfinished {
    kind: RecordKind,
    first_lsn: Lsn,
    parts: u32,
    payload: Vec<u8>,
}

enum GroupRead {
    /// Verified and visited.
    Whole {
        bytes: u64,
    },
    Absent(Absence),
    /// It verifies but makes no sense: our own fault or a forgery, never a torn write.
    Impossible(&'static str),
}

#[derive(Default)]
struct Remains {
    has_later_group: bool,
    has_torn_group: bool,
}

impl Scan {
    /// The group that should stand at `offset`.
    async fn group(
        &mut self,
        window: &mut Window<'_>,
        offset: u64,
        lsn: Lsn,
        visit: &mut impl FnMut(RecoveredRecord) -> Result<()>,
    ) -> Result<GroupRead> {
        let bytes = window.at(offset).await?;
        let parts = match read_group(bytes, &self.journal, lsn) {
            Ok(parts) => parts,
            Err(absence) => return Ok(GroupRead::Absent(absence)),
        };
        let place = parts[0].place;
        if self.last_group.is_some_and(|last| place.group != last + 1) || place.generation < self.generation {
            return Ok(GroupRead::Impossible("the group does not follow the one before"));
        }
        if place.generation > self.generation {
            // What a run left unfinished nobody finishes.
            self.unfinished.clear();
            self.generation = place.generation;
        }
        self.last_group = Some(place.group);
        for part in &parts {
            match self.assemble(part) {
                Ok(Some(record)) => visit(record)?,
                Ok(None) => {}
                Err(reason) => return Ok(GroupRead::Impossible(reason)),
            }
        }
        Ok(GroupRead::Whole { bytes: (place.group_length as usize).next_multiple_of(IO_ALIGNMENT) as u64 })
    }

    fn assemble(&mut self, part: &Part<'_>) -> std::result::Result<Option<RecoveredRecord>, &'static str> {
        let (first_lsn, payload) = if part.index == 0 && part.is_last {
            (part.place.lsn, Bytes::copy_from_slice(part.payload))
        } else {
            if part.index == 0 {
                let (kind, first_lsn) = (part.kind, part.place.lsn);
                let begun = Unfinished { kind, first_lsn, parts: 0, payload: Vec::new() };
                self.unfinished.insert(part.transaction, begun);
            }
            // A missing start was released with its segment: nobody needs the rest.
            let Some(unfinished) = self.unfinished.get_mut(&part.transaction) else { return Ok(None) };
            if unfinished.parts != part.index || unfinished.kind != part.kind {
                return Err("a part of the record is missing");
            }
            // Grown by what is there, never by what is claimed.
            if unfinished.payload.len() + part.payload.len() > COMMIT_BYTES_MAX {
                return Err("the record is too long");
            }
            unfinished.parts += 1;
            unfinished.payload.extend_from_slice(part.payload);
            if !part.is_last {
                return Ok(None);
            }
            let Some(whole) = self.unfinished.remove(&part.transaction) else { return Ok(None) };
            (whole.first_lsn, Bytes::from(whole.payload))
        };
        if payload.len() as u64 != part.payload_bytes {
            return Err("the record's length does not match its parts");
        }
        let record = Record {
            kind: part.kind,
            timestamp: part.timestamp,
            transaction: part.transaction,
            participants: part.participants(),
            payload,
        };
        Ok(Some(RecoveredRecord { record, first_lsn, lsn: part.place.lsn }))
    }

    /// What stands behind the end: `offset` in `segment` would hold `lsn`.
    async fn find_later(&self, segment: &SegmentFile, offset: u64, lsn: Lsn) -> Result<Remains> {
        let mut remains = Remains::default();
        let mut window = Window::new(segment);
        let mut at = offset;
        while at < segment.bytes {
            let here = Lsn(lsn.0 + (at - offset));
            let bytes = window.at(at).await?;
            if at == offset {
                remains.has_torn_group = record::has_record_of(bytes, &self.journal, here);
            }
            if record::may_start_group(bytes, &self.journal, here)
                && let Ok(part) = record::parse(bytes, &self.journal, here)
            {
                // The bad group itself may verify in part; with no sound group before it, its number is unknown.
                let is_later = match self.last_group {
                    Some(last) => part.place.group > last + 1,
                    None => at > offset,
                };
                if is_later {
                    remains.has_later_group = true;
                    return Ok(remains);
                }
            }
            at += IO_ALIGNMENT as u64;
        }
        Ok(remains)
    }
}

/// All parts of the group at `lsn`, or why it is not whole.
fn read_group<'a>(bytes: &'a [u8], journal: &Uuid, lsn: Lsn) -> std::result::Result<Vec<Part<'a>>, Absence> {
    let first = record::parse(bytes, journal, lsn)?;
    let place = first.place;
    let length = place.group_length as usize;
    if length > GROUP_BYTES_MAX || place.offset_in_group != 0 {
        return Err(Absence::Bad("the group's length is impossible"));
    }
    let mut at = padded(first.length);
    let mut parts = vec![first];
    while at < length {
        let here = Lsn(lsn.0 + at as u64);
        let rest = bytes.get(at..).ok_or(Absence::Bad("the file ends within a group"))?;
        let part = record::parse(rest, journal, here).map_err(|_| Absence::Bad("a record of the group is damaged"))?;
        let expected = record::Place { lsn: here, offset_in_group: at as u32, ..place };
        if part.place != expected {
            return Err(Absence::Bad("the records of the group do not belong together"));
        }
        at += padded(part.length);
        parts.push(part);
    }
    if at != length {
        return Err(Absence::Bad("the group's length does not match its records"));
    }
    Ok(parts)
}

fn damaged(segment: &SegmentFile, offset: u64, reason: &'static str) -> Ending {
    Ending::Damaged(Error::Corrupted { file: segment.file.name().to_string(), offset, reason: reason.into() })
}

fn reason(absence: Absence) -> &'static str {
    match absence {
        Absence::Zeros => "zeros where a group was written",
        Absence::Stale => "an old record where a group was written",
        Absence::Bad(reason) => reason,
    }
}
