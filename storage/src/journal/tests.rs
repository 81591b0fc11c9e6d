//! The journal over the simulated disk: crashes and failures at every step, damage at every place, full disks,
//! recycling; and what the decoder makes of nonsense.

use bytes::Bytes;
use uuid::Uuid;

use super::record::{self, Lsn, PendingRecord, Record};
use super::segment::{HEADER_BYTES, SegmentHeader};
use super::{Ending, Outcome, Progress, RecordKind, RecoveredRecord, SegmentSizes, Writer, list_journals, recover};
use crate::base::error::{Error, Result};
use crate::base::ids::{CommitTimestamp, TransactionId};
use crate::base::limits::{GROUP_BYTES_MAX, IO_ALIGNMENT};
use crate::base::random::Random;
use crate::io::simulated::{Fault, Faults, SimulatedDisk};
use crate::io::{Io, IoMode, select};

const MIB: u64 = 1 << 20;
const SMALL: SegmentSizes = SegmentSizes { bytes_min: MIB, bytes_max: 2 * MIB, spare_bytes_max: 2 * MIB };
const JOURNAL: Uuid = Uuid::from_u128(0x6a6f_7572_6e61_6c00_0000_0000_0000_0001);

fn simulate<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(work)
}

/// What a start does: recover, or make the journal if there is none.
async fn open(io: &Io) -> Result<(Writer, Vec<RecoveredRecord>)> {
    let mut records = Vec::new();
    if !list_journals(io).await?.contains(&JOURNAL) {
        return Ok((Writer::create(io, JOURNAL, SMALL).await?, records));
    }
    match recover(io, JOURNAL, |record| {
        records.push(record);
        Ok(())
    })
    .await?
    {
        Ending::Sound(end) => Ok((Writer::resume(io, end, SMALL).await?, records)),
        Ending::Damaged(error) => Err(error),
    }
}

/// Draws records and knows which of them must be found again.
struct Workload {
    random: Random,
    timestamp: i64,
    /// Acknowledged and not released, in order.
    kept: Vec<Record>,
    /// Of the group whose write had no answer.
    in_doubt: Vec<Record>,
}

impl Workload {
    fn new(seed: u64) -> Self {
        Self { random: Random::from_seed(seed), timestamp: 0, kept: Vec::new(), in_doubt: Vec::new() }
    }

    fn draw(&mut self) -> PendingRecord {
        let payload_bytes = match self.random.below(40) {
            0 => self.random.below(700_000),
            1..=3 => self.random.below(60_000),
            _ => self.random.below(2_000),
        };
        self.draw_of(payload_bytes as usize)
    }

    fn draw_of(&mut self, payload_bytes: usize) -> PendingRecord {
        let mut payload = vec![0; payload_bytes];
        self.random.fill(&mut payload);
        let kind = match self.random.below(8) {
            0 => RecordKind::Resolved(Outcome::Commit),
            1 => RecordKind::Resolved(Outcome::Abort),
            2 => RecordKind::Note,
            _ => RecordKind::Commit,
        };
        let participants = (0..self.random.below(4)).map(|_| self.random.uuid()).collect();
        let transaction = TransactionId(self.random.uuid().as_u128());
        let timestamp = CommitTimestamp(0);
        PendingRecord::new(Record { kind, timestamp, transaction, participants, payload: payload.into() })
    }

    /// Writes groups until `groups` are durable or something fails. A long record goes over several groups, with
    /// short ones between its parts.
    async fn run(&mut self, writer: &mut Writer, groups: usize) -> Result<()> {
        let mut long: Option<PendingRecord> = None;
        let mut firsts: Vec<Lsn> = Vec::new();
        for _ in 0..groups {
            let mut group = writer.begin_group().await?;
            let mut ended = Vec::new();
            for _ in 0..=self.random.below(4) {
                let mut next = self.draw();
                if long.is_none() && !group.holds_rest_of(&next) {
                    long = Some(next);
                    break;
                }
                if !group.holds_rest_of(&next) {
                    break;
                }
                self.timestamp += 1;
                next.set_timestamp(CommitTimestamp(self.timestamp));
                assert_eq!(group.push(&mut next), Progress::Whole);
                ended.push(next);
            }
            if let Some(mut rest) = long.take() {
                if group.holds_rest_of(&rest) {
                    self.timestamp += 1;
                    rest.set_timestamp(CommitTimestamp(self.timestamp));
                }
                if group.push(&mut rest) == Progress::Whole {
                    ended.push(rest);
                } else {
                    long = Some(rest);
                }
            }
            self.in_doubt = ended.iter().map(|pending| pending.record().clone()).collect();
            writer.write(group).await?;
            self.kept.append(&mut self.in_doubt);
            firsts.extend(ended.iter().filter_map(PendingRecord::first_lsn));
            if self.random.chance(1, 6) && long.is_none() && !firsts.is_empty() {
                // Release a prefix; the last record always stays.
                let keep = 1 + self.random.below(firsts.len() as u64) as usize;
                let gone = firsts.len() - keep;
                writer.release(firsts[gone..].iter().copied().min().unwrap());
                firsts.drain(..gone);
                self.kept.drain(..self.kept.len() - keep);
            }
        }
        Ok(())
    }

    /// Everything kept is there, in order, followed by all or none of what was in doubt, and nothing else.
    fn check(&mut self, recovered: &[RecoveredRecord], context: &str) {
        let found: Vec<&Record> = recovered.iter().map(|recovered| &recovered.record).collect();
        assert!(recovered.windows(2).all(|pair| pair[0].lsn < pair[1].lsn), "{context}: not in LSN order");
        let without: Vec<&Record> = self.kept.iter().collect();
        let with: Vec<&Record> = self.kept.iter().chain(&self.in_doubt).collect();
        // Released records may still be there: their segment need not be used again yet.
        if !self.in_doubt.is_empty() && found.ends_with(&with) {
            self.kept.append(&mut self.in_doubt);
        } else {
            assert!(
                found.ends_with(&without),
                "{context}: {} records found, {} kept, {} in doubt",
                found.len(),
                self.kept.len(),
                self.in_doubt.len()
            );
            self.in_doubt.clear();
        }
        let all: std::collections::HashSet<u128> = found.iter().map(|record| record.transaction.0).collect();
        assert_eq!(all.len(), found.len(), "{context}: a record was found twice");
    }
}

/// One life after another on one disk; a planned fault hits somewhere in the first.
async fn lives(seed: u64, fault: Option<(u64, Fault)>) -> (u64, u64) {
    let disk = SimulatedDisk::new(seed, Faults::default());
    if let Some((step, fault)) = fault {
        disk.plan(step, fault);
    }
    let mut workload = Workload::new(seed);
    let context = format!("seed {seed}, {fault:?}");
    for life in 0..4 {
        let io = disk.io();
        let node = async {
            let (mut writer, recovered) = open(&io).await?;
            workload.check(&recovered, &context);
            workload.run(&mut writer, 12).await
        };
        tokio::select! {
            biased;
            () = disk.crashed() => disk.restart(),
            ended = node => match ended {
                Ok(()) => {
                    // A stop without warning, every other time with the power.
                    if life % 2 == 1 {
                        disk.crash();
                        disk.restart();
                    }
                }
                Err(Error::Io { .. }) => assert!(fault.is_some(), "{context}: an error without a fault"),
                Err(other) => panic!("{context}: {other}"),
            },
        }
    }
    disk.forget_faults();
    let (_, recovered) = open(&disk.io()).await.unwrap();
    workload.check(&recovered, &context);
    assert!(!workload.kept.is_empty());
    (disk.step(), disk.trace_hash())
}

/// A few by default; `ALLUVIUM_TEST_SEEDS` asks for more.
fn seeds(default: u64) -> u64 {
    std::env::var("ALLUVIUM_TEST_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn acknowledged_records_survive_a_crash_at_every_step() {
    let mut tried = 0;
    for seed in 0..seeds(2) {
        let (steps, _) = simulate(lives(seed, None));
        for step in 1..=steps {
            simulate(lives(seed, Some((step, Fault::Crash))));
            tried += 1;
        }
    }
    assert!(tried > 200, "only {tried} crashes");
}

#[test]
fn acknowledged_records_survive_a_failing_operation_at_every_step() {
    for seed in 1_000..1_000 + seeds(2) {
        let (steps, _) = simulate(lives(seed, None));
        for step in 1..=steps {
            simulate(lives(seed, Some((step, Fault::Fails))));
        }
    }
}

#[test]
fn one_seed_gives_one_trace() {
    for seed in 20..23 {
        let fault = Some((40 + seed, Fault::Crash));
        let first = simulate(lives(seed, fault));
        assert_eq!(first, simulate(lives(seed, fault)));
        assert_ne!(first.1, simulate(lives(seed + 100, fault)).1);
    }
}

#[test]
fn failed_write_poisons_the_journal_for_good() {
    simulate(async {
        let disk = SimulatedDisk::new(1, Faults::default());
        let io = disk.io();
        let (mut writer, _) = open(&io).await.unwrap();
        let mut workload = Workload::new(1);
        workload.run(&mut writer, 3).await.unwrap();
        disk.plan(disk.step() + 1, Fault::Fails);
        workload.run(&mut writer, 1).await.unwrap_err();
        assert!(writer.is_poisoned());
        let refused = writer.begin_group().await.err().unwrap().to_string();
        assert!(refused.contains("an earlier write failed"), "{refused}");
        // The next start decides what of it survived.
        let (_, recovered) = open(&io).await.unwrap();
        workload.check(&recovered, "after the failure");
    });
}

#[test]
fn dropped_write_poisons_the_journal() {
    simulate(async {
        let disk = SimulatedDisk::new(2, Faults::default());
        let (mut writer, _) = open(&disk.io()).await.unwrap();
        let mut workload = Workload::new(2);
        let mut group = writer.begin_group().await.unwrap();
        while group.push(&mut workload.draw()) != Progress::Whole {}
        let mut write = Box::pin(writer.write(group));
        assert!(futures::poll!(write.as_mut()).is_pending());
        drop(write);
        assert!(writer.is_poisoned() && writer.begin_group().await.is_err());
    });
}

#[test]
fn full_disk_refuses_a_group_and_resumes_by_itself() {
    simulate(async {
        for by_release in [false, true] {
            let disk = SimulatedDisk::new(3, Faults { capacity_bytes: 3 * MIB + 64 * 1024, ..Faults::default() });
            let (mut writer, _) = open(&disk.io()).await.unwrap();
            let mut workload = Workload::new(3);
            let refused = loop {
                let mut group = match writer.begin_group().await {
                    Ok(group) => group,
                    Err(error) => break error,
                };
                let mut pending = workload.draw();
                if group.push(&mut pending) == Progress::Whole {
                    workload.kept.push(pending.record().clone());
                    writer.write(group).await.unwrap();
                }
            };
            assert!(matches!(refused, Error::DiskFull { .. }), "{refused}");
            assert!(!writer.is_poisoned());
            assert!(matches!(writer.begin_group().await.err(), Some(Error::DiskFull { .. })));
            let leftovers: Vec<_> = disk.paths().into_iter().filter(|path| path.ends_with(".new")).collect();
            assert!(leftovers.is_empty(), "{leftovers:?} take room");
            if by_release {
                writer.release(writer.next_lsn());
                workload.kept.clear();
            } else {
                disk.set_capacity(u64::MAX);
            }
            workload.run(&mut writer, 5).await.unwrap();
            let (_, recovered) = open(&disk.io()).await.unwrap();
            workload.check(&recovered, "after the full disk");
        }
    });
}

#[test]
fn released_segments_are_used_again_and_old_records_stay_dead() {
    simulate(async {
        let disk = SimulatedDisk::new(4, Faults { yields_max: 1, short_transfers_per_mille: 0, ..Faults::default() });
        let (mut writer, _) = open(&disk.io()).await.unwrap();
        let mut workload = Workload::new(4);
        for _ in 0..60 {
            workload.run(&mut writer, 20).await.unwrap();
            writer.release(writer.next_lsn());
            workload.kept.clear();
        }
        assert!(writer.next_lsn().0 > 20 * MIB, "only {:?}", writer.next_lsn());
        assert!(disk.used_bytes() <= 7 * MIB, "{} bytes in use", disk.used_bytes());
        workload.run(&mut writer, 5).await.unwrap();
        let (_, recovered) = open(&disk.io()).await.unwrap();
        workload.check(&recovered, "recycled");
    });
}

/// A journal of several segments; the place of each group in its file, and the records up to and with it.
struct Written {
    disk: SimulatedDisk,
    groups: Vec<WrittenGroup>,
    records: Vec<Record>,
}

struct WrittenGroup {
    path: String,
    offset: u64,
    bytes: u64,
    records_before: usize,
}

async fn written(seed: u64, is_recycled: bool) -> Written {
    let disk = SimulatedDisk::new(seed, Faults { yields_max: 1, short_transfers_per_mille: 0, ..Faults::default() });
    let (mut writer, _) = open(&disk.io()).await.unwrap();
    let mut workload = Workload::new(seed);
    if is_recycled {
        while writer.next_lsn().0 < 6 * MIB {
            workload.run(&mut writer, 5).await.unwrap();
            writer.release(writer.next_lsn());
        }
    }
    let from = writer.next_lsn();
    let (mut lsns, mut records) = (Vec::new(), Vec::new());
    while lsns.len() < 30 {
        let mut group = writer.begin_group().await.unwrap();
        let before = records.len();
        for _ in 0..3 {
            let mut pending = workload.draw_of(1 + 37_000 * (lsns.len() % 3));
            if group.holds_rest_of(&pending) {
                group.push(&mut pending);
                records.push(pending.record().clone());
            }
        }
        if records.len() > before {
            let written = writer.write(group).await.unwrap();
            lsns.push((written.first_lsn, written.end_lsn, before));
        }
    }
    let mut segments: Vec<(String, SegmentHeader)> = Vec::new();
    for path in disk.paths() {
        let content = disk.content(&path).unwrap();
        if let Some(header) = SegmentHeader::decode(&JOURNAL, &content)
            && path.ends_with(&format!("{:012}", header.number))
        {
            segments.push((path, header));
        }
    }
    let groups = lsns.into_iter().map(|(first, end, records_before)| {
        let (path, header) = segments.iter().rev().find(|(_, header)| header.first_lsn <= first).unwrap();
        let offset = HEADER_BYTES + (first.0 - header.first_lsn.0);
        WrittenGroup { path: path.clone(), offset, bytes: end.0 - first.0, records_before }
    });
    let groups = groups.collect();
    assert!(from <= writer.next_lsn());
    Written { disk, groups, records }
}

#[test]
fn damage_in_the_middle_is_named_and_at_the_tail_ends_the_journal() {
    for (seed, is_recycled) in [(5, false), (6, true)] {
        simulate(async {
            let Written { disk, groups, records } = written(seed, is_recycled).await;
            let count = groups.len();
            for (index, way) in (0..count).flat_map(|index| (0..4).map(move |way| (index, way))) {
                let hit = &groups[index];
                let context = format!("seed {seed}, group {index} of {count}, way {way}");
                // The head's length, a bit of what is checked, a zeroed sector, a zeroed group.
                let (at, bytes, flip) = match way {
                    0 => (56, 1, Some(0x40)),
                    1 => (16 + 13 * index as u64 % 112, 1, Some(1)),
                    2 => (0, 512, None),
                    _ => (0, hit.bytes, None),
                };
                let mut before = Vec::new();
                for at in hit.offset + at..hit.offset + at + bytes {
                    let done = disk.corrupt(&hit.path, at, |byte| {
                        before.push((at, *byte));
                        *byte = flip.map_or(0, |mask| *byte ^ mask);
                    });
                    assert!(done, "{context}: no such place");
                }
                let mut found = Vec::new();
                let visit = |record: RecoveredRecord| {
                    found.push(record.record);
                    Ok(())
                };
                let ending = recover(&disk.io(), JOURNAL, visit).await.unwrap();
                let sound = &records[..hit.records_before];
                assert!(found.ends_with(sound), "{context}: {} found, {} sound", found.len(), sound.len());
                if index + 1 < count {
                    let Ending::Damaged(Error::Corrupted { file, offset, .. }) = ending else {
                        panic!("{context}: the damage went unnoticed")
                    };
                    assert!(file == hit.path && offset == hit.offset, "{context}: {file} at {offset}");
                } else {
                    assert!(matches!(ending, Ending::Sound(_)), "{context}: a torn tail is no damage");
                }
                for (at, old) in before {
                    disk.corrupt(&hit.path, at, |byte| *byte = old);
                }
            }
        });
    }
}

#[test]
fn damaged_segment_header_and_missing_segment_are_named() {
    simulate(async {
        for is_missing in [false, true] {
            let Written { disk, groups, .. } = written(7, false).await;
            let mut paths: Vec<String> = groups.iter().map(|group| group.path.clone()).collect();
            paths.dedup();
            assert!(paths.len() >= 3, "{paths:?}");
            let middle = &paths[paths.len() / 2];
            if is_missing {
                let name = crate::io::FileName::parse_path(middle).unwrap();
                disk.io().unlink(&name).await.unwrap();
            } else {
                assert!(disk.corrupt(middle, 9, |byte| *byte ^= 1));
            }
            let ending = recover(&disk.io(), JOURNAL, |_| Ok(())).await.unwrap();
            assert!(matches!(ending, Ending::Damaged(Error::Corrupted { .. })), "missing: {is_missing}");
        }
    });
}

#[test]
fn what_was_cut_is_told() {
    let mut told = 0;
    for seed in 30..60 {
        told += simulate(async {
            let disk = SimulatedDisk::new(seed, Faults::default());
            let (mut writer, _) = open(&disk.io()).await.unwrap();
            let mut workload = Workload::new(seed);
            workload.run(&mut writer, 2).await.unwrap();
            disk.plan(disk.step() + 1, Fault::Crash);
            tokio::select! {
                biased;
                () = disk.crashed() => {}
                _ = workload.run(&mut writer, 5) => panic!("no crash"),
            }
            disk.restart();
            let Ending::Sound(end) = recover(&disk.io(), JOURNAL, |_| Ok(())).await.unwrap() else { panic!("damage") };
            let was_cut = end.cut.is_some();
            Writer::resume(&disk.io(), end, SMALL).await.unwrap();
            let Ending::Sound(end) = recover(&disk.io(), JOURNAL, |_| Ok(())).await.unwrap() else { panic!("damage") };
            assert_eq!(end.cut, None, "what was cut is gone after the start");
            usize::from(was_cut)
        });
    }
    assert!(told > 5, "told {told} times in 30 torn writes");
}

#[test]
fn every_real_backend_keeps_a_journal() {
    for mode in [IoMode::Threads, IoMode::Auto] {
        let root = std::env::temp_dir().join(format!("alluvium-journal-{}", Uuid::new_v4()));
        let io = select(&root, mode).unwrap().io;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut workload = Workload::new(8);
            for _ in 0..3 {
                let (mut writer, recovered) = open(&io).await.unwrap();
                workload.check(&recovered, io.backend_name());
                workload.run(&mut writer, 40).await.unwrap();
            }
        });
        std::fs::remove_dir_all(&root).unwrap();
    }
}

#[test]
fn decoder_meets_nonsense_without_panic() {
    let mut random = Random::from_seed(9);
    let mut workload = Workload::new(9);
    let lsn = Lsn(8 * IO_ALIGNMENT as u64);
    let mut good = vec![0; GROUP_BYTES_MAX];
    let mut pending = workload.draw();
    let length = pending.write_part(&mut good);
    let place = record::Place { generation: 3, lsn, group: 5, group_length: length as u32, offset_in_group: 0 };
    record::seal(&mut good[..length], &JOURNAL, &place);
    let original = pending.record().payload.clone();
    let sound = record::parse(&good, &JOURNAL, lsn).unwrap();
    assert_eq!((sound.place, sound.payload), (place, &original[..]));
    for round in 0..50_000 {
        let mut bytes = good[..length].to_vec();
        for _ in 0..=random.below(4) {
            let at =
                if random.chance(1, 2) { random.below(160.min(length as u64)) } else { random.below(length as u64) };
            bytes[at as usize] = if random.chance(1, 2) { random.next_u64() as u8 } else { bytes[at as usize] ^ 1 };
        }
        if random.chance(1, 10) {
            bytes.truncate(random.below(length as u64) as usize);
        }
        if let Ok(part) = record::parse(&bytes, &JOURNAL, lsn) {
            assert_eq!(part.payload, &original[..], "round {round}: damage went unnoticed");
        }
        SegmentHeader::decode(&JOURNAL, &bytes);
    }
    for length in 0..2_000 {
        let mut noise = vec![0; length];
        random.fill(&mut noise);
        assert!(record::parse(&noise, &JOURNAL, lsn).is_err());
    }
    // The same bytes at another place, or of another journal, are nothing.
    assert!(record::parse(&good, &JOURNAL, Lsn(0)).is_err());
    assert!(record::parse(&good, &Uuid::from_u128(1), lsn).is_err());
}

#[test]
fn longest_commit_with_all_participants_reads_back() {
    simulate(async {
        let disk = SimulatedDisk::new(11, Faults { yields_max: 1, ..Faults::default() });
        let (mut writer, _) = open(&disk.io()).await.unwrap();
        let participants = (0..crate::base::limits::PARTICIPANTS_MAX as u128).map(Uuid::from_u128).collect();
        let record = Record {
            kind: RecordKind::Commit,
            timestamp: CommitTimestamp(5),
            transaction: TransactionId(1),
            participants,
            payload: Bytes::from(vec![7; 3 << 20]),
        };
        let mut pending = PendingRecord::new(record.clone());
        loop {
            let mut group = writer.begin_group().await.unwrap();
            let progress = group.push(&mut pending);
            writer.write(group).await.unwrap();
            if progress == Progress::Whole {
                break;
            }
        }
        let (_, recovered) = open(&disk.io()).await.unwrap();
        assert_eq!(recovered.len(), 1);
        assert_eq!((&recovered[0].record, Some(recovered[0].first_lsn)), (&record, pending.first_lsn()));
    });
}
