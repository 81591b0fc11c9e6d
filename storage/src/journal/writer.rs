//! Group commit without a timer: while one write is under way the owner's queue fills, and becomes the next group.
//!
//! The owner loops: wait for commits → [`Writer::begin_group`] → take timestamps and [`Group::push`] in their order →
//! [`Writer::write`] → publish. `begin_group` finds the room, so a full disk is met before any timestamp is taken and
//! leaves nothing half-written; the next call tries again. After a failed or dropped `write` the journal takes no more.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use uuid::Uuid;

use super::record::{self, Lsn, PendingRecord, Place, padded};
use super::recovery::JournalEnd;
use super::segment::{self, FullSegment, Segment, SegmentHeader, SegmentSizes};
use crate::base::error::{Error, Result};
use crate::base::limits::{GROUP_BYTES_MAX, IO_ALIGNMENT};
use crate::io::{Access, Caching, Directory, Durability, FileName, Io, IoBuffer, IoFuture};

/// A part of a long record is worth writing from this much payload on.
const PART_PAYLOAD_BYTES_MIN: usize = 4096;
const HEADER: usize = segment::HEADER_BYTES as usize;

pub struct Writer {
    io: Io,
    journal: Uuid,
    generation: u64,
    sizes: SegmentSizes,
    current: Option<Current>,
    next_lsn: Lsn,
    next_group: u64,
    next_number: u64,
    /// Before this nothing is needed any more.
    released: Lsn,
    /// Full segments that are still needed, oldest first.
    full: VecDeque<FullSegment>,
    /// Released ones, all older than those.
    spares: VecDeque<FullSegment>,
    next: Next,
    health: Health,
    buffer: Option<IoBuffer>,
}

struct Current {
    segment: Segment,
    /// Of the next group.
    offset: u64,
    /// The first group brings the header along.
    first_lsn: Lsn,
    has_header: bool,
}

type Prepared = std::result::Result<Segment, (Error, Option<FullSegment>)>;

enum Next {
    Nothing,
    /// Polled along with the writes.
    Preparing(IoFuture<Prepared>),
    Ready(Segment),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Health {
    Good,
    /// Between start and end of a write; found here later, the write was dropped and its outcome is unknown.
    Writing,
    Poisoned,
}

/// What one write made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    pub first_lsn: Lsn,
    pub end_lsn: Lsn,
    pub records: usize,
}

/// Records for one write, in journal order.
pub struct Group {
    buffer: IoBuffer,
    first_lsn: Lsn,
    /// Bytes of records so far, behind the room for a segment header.
    filled: usize,
    /// Start and unpadded length of each part.
    parts: Vec<(usize, usize)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The record ends in this group.
    Whole,
    /// The group is full; the rest goes into later ones.
    Partly,
    /// Nothing was pushed; the group is full.
    DoesNotFit,
}

impl Group {
    /// Whether `push` would give `Progress::Whole`: then the record needs its timestamp now.
    pub fn holds_rest_of(&self, record: &PendingRecord) -> bool {
        record.rest_bytes() <= self.room_bytes()
    }

    pub fn push(&mut self, record: &mut PendingRecord) -> Progress {
        let room = self.room_bytes();
        let is_whole = self.holds_rest_of(record);
        if !is_whole && room < record.head_bytes() + PART_PAYLOAD_BYTES_MIN {
            return Progress::DoesNotFit;
        }
        let start = self.filled;
        let length = record.write_part(&mut self.buffer[HEADER + start..HEADER + start + room]);
        record.note_place(Lsn(self.first_lsn.0 + start as u64));
        self.parts.push((start, length));
        self.filled += padded(length);
        if is_whole { Progress::Whole } else { Progress::Partly }
    }

    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    fn room_bytes(&self) -> usize {
        GROUP_BYTES_MAX - self.filled
    }
}

impl Writer {
    /// A new journal; its directory is durable on return.
    pub async fn create(io: &Io, journal: Uuid, sizes: SegmentSizes) -> Result<Self> {
        Self::resume(io, JournalEnd::of_new_journal(journal), sizes).await
    }

    /// Goes on after recovery, which may have read what is not on the device yet: a process killed within a write or
    /// before a sync leaves its work in the system's memory, and power may be lost later. So, before the first write:
    /// 1. The directories are synced again.
    /// 2. The last group is written again (only the last one can be in doubt; after a failed sync, syncing again
    ///    would prove nothing).
    /// 3. What lies behind the end is zeroed. Only the last write can have left anything, so one group's length is enough.
    pub async fn resume(io: &Io, end: JournalEnd, sizes: SegmentSizes) -> Result<Self> {
        assert!(sizes.bytes_min >= (HEADER + 2 * GROUP_BYTES_MAX) as u64, "a segment must hold several groups");
        let mut writer = Self {
            io: io.clone(),
            journal: end.journal,
            generation: end.generation,
            sizes,
            current: None,
            next_lsn: end.lsn,
            next_group: end.group,
            next_number: end.next_number,
            released: end.first_lsn,
            full: end.full.into(),
            spares: VecDeque::new(),
            next: Next::Nothing,
            health: Health::Good,
            buffer: None,
        };
        io.create_directory(&Directory::Journals).await?;
        io.create_directory(&Directory::Journal(end.journal)).await?;
        io.sync_directory(&Directory::Journal(end.journal)).await?;
        if let Some(last) = end.last {
            let file = io.open(&writer.name(last.number), Access::ReadWrite, Caching::Direct).await?;
            if let Some(start) = last.group_start {
                let length = (last.offset - start) as usize;
                let (read, group) = file.read_at(IoBuffer::for_reading(length), start).await;
                if read? != length {
                    return Err(Error::Corrupted {
                        file: file.name().to_string(),
                        offset: start,
                        reason: "the file became shorter".into(),
                    });
                }
                file.write_at(group, start, Durability::Durable).await.0?;
            }
            let torn_end = (last.offset + GROUP_BYTES_MAX as u64).min(last.bytes);
            file.write_zeros(last.offset..torn_end, Durability::Durable).await?;
            if !last.has_header {
                file.write_zeros(0..segment::HEADER_BYTES, Durability::Durable).await?;
            }
            let segment = Segment { number: last.number, file, bytes: last.bytes };
            let (offset, first_lsn, has_header) = (last.offset, last.first_lsn, last.has_header);
            writer.current = Some(Current { segment, offset, first_lsn, has_header });
        }
        if let Some((number, bytes)) = end.prepared {
            let file = io.open(&writer.name(number), Access::ReadWrite, Caching::Direct).await?;
            let torn_end = ((HEADER + GROUP_BYTES_MAX) as u64).min(bytes);
            file.write_zeros(0..torn_end, Durability::Durable).await?;
            writer.next = Next::Ready(Segment { number, file, bytes });
        }
        Ok(writer)
    }

    pub fn journal(&self) -> Uuid {
        self.journal
    }

    /// Where the next group will stand.
    pub fn next_lsn(&self) -> Lsn {
        self.next_lsn
    }

    /// Bytes that recovery would have to read. Past `JOURNAL_UNSEALED_BYTES_MAX` the owner seals before it commits more.
    pub fn unreleased_bytes(&self) -> u64 {
        self.next_lsn.0 - self.released.0
    }

    /// After a failed or dropped write: nothing more will be written.
    pub fn is_poisoned(&self) -> bool {
        self.health != Health::Good
    }

    /// Records before `lsn` are needed no more: their segments may be used again. Costs no IO.
    pub fn release(&mut self, lsn: Lsn) {
        assert!(lsn <= self.next_lsn, "release up to {lsn:?}, but the journal ends at {:?}", self.next_lsn);
        self.released = self.released.max(lsn);
        while let Some(segment) = self.full.front().copied()
            && segment.end <= self.released
        {
            self.spares.push_back(segment);
            self.full.pop_front();
        }
    }

    /// Room for one group. Fails with [`Error::DiskFull`] if there is none now (then a later call tries anew), with
    /// [`Error::Io`] if the journal takes no more at all. Cancel-safe. Waits only if the next segment is not ready.
    pub async fn begin_group(&mut self) -> Result<Group> {
        self.must_be_good()?;
        let has_room = |current: &Current| current.offset + GROUP_BYTES_MAX as u64 <= current.segment.bytes;
        if !self.current.as_ref().is_some_and(has_room) {
            self.turn().await?;
        }
        self.prepare_ahead();
        let buffer = self.buffer.take().unwrap_or_else(|| IoBuffer::zeroed(HEADER + GROUP_BYTES_MAX));
        Ok(Group { buffer, first_lsn: self.next_lsn, filled: 0, parts: Vec::new() })
    }

    /// Makes the group durable. An empty group costs nothing. After an error, or if this future is dropped, it is
    /// unknown which of its records survive, and the journal is poisoned.
    pub async fn write(&mut self, mut group: Group) -> Result<Written> {
        self.must_be_good()?;
        assert_eq!(group.first_lsn, self.next_lsn, "a group is written once, before the next one begins");
        let written = Written { first_lsn: self.next_lsn, end_lsn: self.next_lsn, records: group.parts.len() };
        if group.is_empty() {
            self.buffer = Some(group.buffer);
            return Ok(written);
        }
        let Some(current) = &self.current else { unreachable!("begin_group has found a segment") };
        for (start, length) in &group.parts {
            let place = Place {
                generation: self.generation,
                lsn: Lsn(self.next_lsn.0 + *start as u64),
                group: self.next_group,
                group_length: group.filled as u32,
                offset_in_group: *start as u32,
            };
            record::seal(&mut group.buffer[HEADER + start..HEADER + start + length], &self.journal, &place);
        }
        let whole = group.filled.next_multiple_of(IO_ALIGNMENT);
        group.buffer[HEADER + group.filled..HEADER + whole].fill(0);
        let (range, offset) = if current.has_header {
            (HEADER..HEADER + whole, current.offset)
        } else {
            let header = SegmentHeader { number: current.segment.number, first_lsn: current.first_lsn };
            header.encode(&self.journal, &mut group.buffer[..HEADER]);
            (0..HEADER + whole, current.offset - segment::HEADER_BYTES)
        };
        self.health = Health::Writing;
        let file = current.segment.file.clone();
        let write = file.write_range_at(group.buffer, range, offset, Durability::Durable);
        let (outcome, buffer) = self.beside_preparing(write).await;
        self.buffer = Some(buffer);
        if let Err(error) = outcome {
            self.health = Health::Poisoned;
            return Err(error);
        }
        self.health = Health::Good;
        self.next_group += 1;
        self.next_lsn = Lsn(self.next_lsn.0 + whole as u64);
        if let Some(current) = &mut self.current {
            current.offset += whole as u64;
            current.has_header = true;
        }
        Ok(Written { end_lsn: self.next_lsn, ..written })
    }

    /// Moves on to the next segment, waiting for it if need be.
    async fn turn(&mut self) -> Result<()> {
        self.start_preparing();
        if let Next::Preparing(preparing) = &mut self.next {
            let prepared = preparing.await;
            self.accept(prepared)?;
        }
        match std::mem::replace(&mut self.next, Next::Nothing) {
            Next::Ready(segment) => {
                let first_lsn = self.next_lsn;
                let next = Current { segment, offset: segment::HEADER_BYTES, first_lsn, has_header: false };
                if let Some(old) = self.current.replace(next) {
                    let (number, bytes) = (old.segment.number, old.segment.bytes);
                    self.full.push_back(FullSegment { number, end: self.next_lsn, bytes });
                    self.release(self.released);
                }
                Ok(())
            }
            other => {
                self.next = other;
                unreachable!("a next segment is ready or has failed")
            }
        }
    }

    /// From the middle of a segment on the next one is made.
    fn prepare_ahead(&mut self) {
        if self.current.as_ref().is_some_and(|current| current.offset >= current.segment.bytes / 2) {
            self.start_preparing();
        }
    }

    fn start_preparing(&mut self) {
        if !matches!(self.next, Next::Nothing) {
            return;
        }
        let (io, journal, number, sizes) = (self.io.clone(), self.journal, self.next_number, self.sizes);
        let existing = self.full.iter().map(|full| full.bytes).sum::<u64>()
            + self.current.as_ref().map_or(0, |current| current.segment.bytes);
        let mut spares = std::mem::take(&mut self.spares);
        // All but the spares beyond the bound stay with the writer; those go with the job.
        let mut kept = VecDeque::new();
        while let Some(newest) = spares.back().copied()
            && kept.iter().map(|spare: &FullSegment| spare.bytes).sum::<u64>() + newest.bytes <= sizes.spare_bytes_max
        {
            kept.push_front(newest);
            spares.pop_back();
        }
        let spare = kept.pop_front();
        self.spares = kept;
        self.next = Next::Preparing(Box::pin(async move {
            if let Err(error) = segment::delete(&io, journal, &spares).await {
                return Err((error, spare));
            }
            segment::prepare(&io, journal, number, spare, sizes.next(existing)).await.map_err(|e| (e, spare))
        }));
    }

    fn accept(&mut self, prepared: Prepared) -> Result<()> {
        match prepared {
            Ok(segment) => {
                self.next_number += 1;
                self.next = Next::Ready(segment);
                Ok(())
            }
            Err((error, spare)) => {
                self.next = Next::Nothing;
                match error {
                    // Nothing has changed on disk: the spare keeps its old name.
                    Error::DiskFull { .. } => self.spares.extend(spare),
                    // The directory's state is unknown now.
                    _ => self.health = Health::Poisoned,
                }
                Err(error)
            }
        }
    }

    /// Awaits a write and lets the next segment's making go on meanwhile. A failure there shows when it is needed.
    async fn beside_preparing<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|context| {
            if let Next::Preparing(preparing) = &mut self.next
                && let Poll::Ready(prepared) = preparing.as_mut().poll(context)
            {
                match prepared {
                    Ok(segment) => {
                        self.next_number += 1;
                        self.next = Next::Ready(segment);
                    }
                    failed => self.next = Next::Preparing(Box::pin(std::future::ready(failed))),
                }
            }
            work.as_mut().poll(context)
        })
        .await
    }

    fn must_be_good(&self) -> Result<()> {
        if self.is_poisoned() {
            return Err(Error::Io {
                what: format!("could not write to journal {}", self.journal),
                reason: "an earlier write failed".into(),
            });
        }
        Ok(())
    }

    fn name(&self, number: u64) -> FileName {
        FileName::JournalSegment { journal: self.journal, number }
    }
}
