//! The log against a plain list: any order of publishing, truncating, pinning, sealing and dropping, read at any
//! snapshot that is still held.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Int32Type, Int64Type, TimestampMicrosecondType};
use futures::executor::block_on;

use super::*;
use crate::base::ids::{ColumnId, CommitTimestamp, PartitionId, RelationId, SchemaId, SegmentId, SequenceNumber};
use crate::catalog::{Column, ConstantValue, Relation, RelationKind, RelationOptions};
use crate::columns::ColumnFile;
use crate::columns::payload::Rows;
use crate::columns::samples::{Chance, batch_of};
use crate::columns::source::memory::{MemoryFile, MemorySink};

const ID: PartitionId = PartitionId { relation: RelationId(16_400), index: 2 };

fn column(id: u16, name: &str, data_type: DataType) -> Column {
    Column {
        id: ColumnId(id),
        name: name.into(),
        data_type,
        type_oid: 0,
        type_modifier: -1,
        not_null: false,
        default: None,
        missing: None,
        comment: None,
        foreign_options: Default::default(),
    }
}

fn relation(kind: RelationKind) -> Relation {
    let columns = vec![column(1, "n", DataType::Int32), column(2, "text", DataType::Utf8)];
    Relation {
        id: ID.relation,
        schema: SchemaId(2_200),
        name: "r".into(),
        kind,
        owner: "postgres".into(),
        columns,
        next_column: ColumnId(3),
        partitions: 4,
        partition_by: vec![],
        order_by: vec![],
        watermark: None,
        options: RelationOptions::default(),
        query: String::new(),
        depends_on: vec![],
        foreign: None,
        comment: None,
    }
}

fn rows(numbers: std::ops::Range<i32>) -> RecordBatch {
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(numbers.clone().map(|n| format!("row {n}"))));
    batch_of(vec![(ColumnId(1), Arc::new(Int32Array::from_iter_values(numbers))), (ColumnId(2), texts)])
}

fn request(range: std::ops::Range<u64>, batch_rows_max: usize) -> ScanRequest {
    ScanRequest {
        columns: vec![
            ScanColumn::SequenceNumber,
            ScanColumn::Column(ColumnId(1)),
            ScanColumn::Arrived,
            ScanColumn::Column(ColumnId(2)),
            ScanColumn::Partition,
            ScanColumn::Watermark,
        ],
        range: SequenceNumber(range.start)..SequenceNumber(range.end),
        batch_rows_max,
    }
}

/// (`_sn`, n, `_arrived`) of each row; everything else is checked on the way.
type Row = (u64, i32, i64);

fn take_rows(batch: &RecordBatch, rows: &mut Vec<Row>) {
    let numbers = batch.column(1).as_primitive::<Int32Type>();
    let texts = batch.column(3).as_string::<i32>();
    for row in 0..batch.num_rows() {
        let sn = batch.column(0).as_primitive::<Int64Type>().value(row) as u64;
        let arrived = batch.column(2).as_primitive::<TimestampMicrosecondType>().value(row);
        assert_eq!(texts.value(row), format!("row {}", numbers.value(row)));
        assert_eq!(batch.column(4).as_primitive::<Int32Type>().value(row), 2);
        assert!(batch.column(5).is_null(row));
        rows.push((sn, numbers.value(row), arrived));
    }
}

fn scan(view: &LogView, relation: &Arc<Relation>, request: ScanRequest) -> Vec<Row> {
    let rows_max = request.batch_rows_max;
    let mut scan = view.scan(relation, request);
    let mut rows = Vec::new();
    while let Some(batch) = block_on(scan.next()).unwrap() {
        assert!(batch.num_rows() > 0 && batch.num_rows() <= rows_max);
        assert_eq!(batch.schema(), scan.schema());
        take_rows(&batch, &mut rows);
    }
    rows
}

/// What is left when all changes of the range are applied, and how many rows were deleted.
fn fold(view: &LogView, relation: &Arc<Relation>, request: ScanRequest, mut state: Vec<Row>) -> Vec<Row> {
    let mut changes = view.changes(relation, request);
    while let Some(change) = block_on(changes.next()).unwrap() {
        let mut rows = Vec::new();
        match change {
            Change::Insert(batch) => {
                take_rows(&batch, &mut rows);
                state.extend(rows);
            }
            Change::Delete(batch) => {
                take_rows(&batch, &mut rows);
                for row in rows {
                    let at = state.iter().position(|r| *r == row).expect("only a row that is there is deleted");
                    state.remove(at);
                }
            }
        }
    }
    state
}

/// What the plain list says.
#[derive(Default)]
struct Model {
    /// `n`, or `None` for a truncate, and the commit.
    entries: Vec<(Option<i32>, i64)>,
    /// A stream's TRUNCATEs.
    starts: Vec<(i64, usize)>,
    first: usize,
}

impl Model {
    fn at(&self, at: i64) -> (usize, usize) {
        let end = self.entries.iter().take_while(|(_, t)| *t <= at).count();
        let start = self.starts.iter().filter(|(t, _)| *t <= at).map(|(_, s)| *s).max().unwrap_or(0);
        (start.max(self.first), end)
    }

    fn rows(&self, first: usize, end: usize) -> Vec<Row> {
        let entries = self.entries[..end].iter().enumerate();
        let truncated = entries.clone().filter(|(_, e)| e.0.is_none()).last().map_or(0, |(sn, _)| sn + 1);
        entries.skip(first.max(truncated)).filter_map(|(sn, (n, t))| Some((sn as u64, (*n)?, *t))).collect()
    }
}

async fn seal(job: SealJob, id: u64) -> SealedSegment {
    job.run(SegmentId(id), Box::<MemorySink>::default()).await.unwrap()
}

fn run_against_model(seed: u64, kind: RelationKind) {
    let mut chance = Chance(seed);
    let relation = Arc::new(relation(kind));
    let mut partition = Partition::new(ID, SequenceNumber(0));
    let mut model = Model::default();
    let mut held: Vec<(LogView, usize, usize)> = Vec::new();
    let mut sealing: Option<SealedSegment> = None;
    let (mut now, mut n, mut segment) = (100i64, 0i32, 0u64);
    for step in 0..250 {
        now += 1 + chance.below(3) as i64;
        match chance.below(20) {
            0..=8 => {
                let count = [1, 1, 2, 5, 63, 64, 300][chance.below(7)];
                let published = partition.publish(Rows::of(rows(n..n + count)).unwrap(), CommitTimestamp(now));
                assert_eq!(published.start.0 as usize, model.entries.len());
                model.entries.extend((n..n + count).map(|n| (Some(n), now)));
                n += count;
            }
            9 => {
                // A transaction with a bulk file.
                segment += 1;
                let file = block_on(async {
                    let sink = Box::<MemorySink>::default();
                    let mut writer = StagedWriter::create(SegmentId(segment), ID, None, sink).await?;
                    writer.append(&rows(n..n + 700)).await?;
                    writer.finish().await
                });
                let at = CommitTimestamp(now);
                partition.publish_segment(file.unwrap().numbered(partition.next(), at).unwrap());
                model.entries.extend((n..n + 700).map(|n| (Some(n), now)));
                n += 700;
            }
            10 if kind == RelationKind::Table => {
                partition.publish_truncate(CommitTimestamp(now));
                model.entries.push((None, now));
            }
            10 => {
                partition.publish_start(CommitTimestamp(now));
                model.starts.push((now, model.entries.len()));
            }
            11 | 12 if sealing.is_none() => {
                // Not always everything is durable already.
                let durable = CommitTimestamp(now - chance.below(6) as i64);
                segment += 1;
                sealing = partition.start_seal(durable, None).map(|job| block_on(seal(job, segment)));
            }
            13 => {
                if let Some(sealed) = sealing.take() {
                    if chance.below(4) == 0 { partition.abandon_seal() } else { partition.finish_seal(sealed) }
                }
            }
            14 if step % 5 == 0 => {
                let ages = partition.ages();
                let count = chance.below(ages.len() + 1).min(2);
                let dropped = partition.drop_segments(count, CommitTimestamp(now));
                assert_eq!(dropped.len(), count);
                model.first = partition.first().0 as usize;
            }
            15 if held.len() > 8 => {
                held.remove(chance.below(held.len()));
            }
            _ => {
                let at = now - [0, 0, chance.below(40) as i64, chance.below(2_000) as i64][chance.below(4)];
                let end = block_on(partition.end_at(CommitTimestamp(at)).resolve()).unwrap();
                let (first, model_end) = model.at(at);
                assert_eq!((end.0 as usize).max(first), model_end.max(first), "seed {seed} step {step}: end at {at}");
                let view = partition.pin(CommitTimestamp(at), end);
                assert_eq!(view.first().0 as usize, first, "seed {seed} step {step}: first at {at}");
                held.push((view, first, model_end.max(first)));
            }
        }
        if let Some((view, first, end)) = held.get(chance.below(held.len().max(1))) {
            // Where a moment begins: the first row at or after it.
            let moment = now - chance.below(60) as i64;
            let before = model.entries.iter().take_while(|(_, t)| *t < moment).count();
            let found = block_on(view.first_arrived(CommitTimestamp(moment))).unwrap().0 as usize;
            assert_eq!(found, before.clamp(*first, *end), "seed {seed} step {step}: rows from {moment} on");
            let rows_max = [13, 100, 1_000, 100_000][chance.below(4)];
            let expected = model.rows(*first, *end);
            assert_eq!(scan(view, &relation, request(0..u64::MAX, rows_max)), expected, "seed {seed} step {step}");
            // From any position: what was there before it, and the changes since.
            let from = *first + chance.below(end - first + 1);
            let before = model.rows(*first, from);
            let after = fold(view, &relation, request(from as u64..u64::MAX, rows_max), before);
            assert_eq!(after, expected, "seed {seed} step {step}: changes from {from}");
        }
    }
    drop(partition);
    for (view, first, end) in &held {
        let expected = model.rows(*first, *end);
        assert_eq!(
            scan(view, &relation, request(0..u64::MAX, 1_000)),
            expected,
            "seed {seed}: after the partition went"
        );
    }
}

#[test]
fn a_stream_reads_as_a_plain_list_at_every_snapshot() {
    for seed in 0..6 {
        run_against_model(seed, RelationKind::Stream);
    }
}

#[test]
fn a_table_reads_as_a_plain_list_at_every_snapshot() {
    for seed in 100..106 {
        run_against_model(seed, RelationKind::Table);
    }
}

#[test]
fn a_commit_at_a_time_with_a_reader_each_leaves_few_chunks() {
    let relation = Arc::new(relation(RelationKind::Stream));
    let mut partition = Partition::new(ID, SequenceNumber(0));
    for n in 0..5_000 {
        let at = CommitTimestamp(i64::from(n) + 1);
        partition.publish(Rows::of(rows(n..n + 1)).unwrap(), at);
        let view = partition.pin(at, partition.next());
        assert_eq!(scan(&view, &relation, request(n as u64..u64::MAX, 10)).len(), 1);
    }
    assert!(partition.chunk_count() < 30, "{}", partition.chunk_count());
}

#[test]
fn a_view_keeps_no_memory_once_its_rows_are_sealed() {
    let relation = Arc::new(relation(RelationKind::Stream));
    let mut partition = Partition::new(ID, SequenceNumber(0));
    let batch = rows(0..500);
    let values = batch.column(0).to_data().buffers()[0].clone();
    partition.publish(Rows::of(batch).unwrap(), CommitTimestamp(1));
    let view = partition.pin(CommitTimestamp(1), partition.next());
    assert!(values.strong_count() > 1 && partition.tail_bytes() > 0);
    let job = partition.start_seal(CommitTimestamp(1), None).unwrap();
    partition.finish_seal(block_on(seal(job, 1)));
    assert_eq!((values.strong_count(), partition.tail_bytes()), (1, 0));
    assert_eq!(scan(&view, &relation, request(0..u64::MAX, 1_000)).len(), 500);
    assert_eq!(partition.sealed_end(), SequenceNumber(500));
}

#[test]
fn sealed_segments_open_again_with_their_numbers_and_truncates() {
    let relation = Arc::new(relation(RelationKind::Table));
    let mut partition = Partition::new(ID, SequenceNumber(0));
    let mut files = Vec::new();
    for round in 0..3 {
        let at = CommitTimestamp(10 * round + 1);
        partition.publish(Rows::of(rows(0..100)).unwrap(), at);
        if round == 1 {
            partition.publish_truncate(CommitTimestamp(at.0 + 1));
        }
        let job = partition.start_seal(CommitTimestamp(i64::MAX), None).unwrap();
        let sealed = block_on(seal(job, round as u64));
        let bytes = block_on(async { sealed.segment.file().await?.read_all().await }).unwrap();
        files.push((sealed.segment.place, bytes));
        partition.finish_seal(sealed);
    }
    let open = |(place, bytes): &(SegmentPlace, Vec<u8>)| {
        Segment::opened(*place, Arc::new(block_on(ColumnFile::open(MemoryFile::of(bytes))).unwrap()))
    };
    let segments = files.iter().map(|f| open(f).unwrap()).collect();
    let mut again = Partition::open(ID, SequenceNumber(0), SequenceNumber(0), segments).unwrap();
    assert_eq!((again.next(), again.last_arrived()), (SequenceNumber(301), CommitTimestamp(21)));
    for at in [1, 11, 12, 21] {
        let at = CommitTimestamp(at);
        let read = |p: &mut Partition| {
            let end = block_on(p.end_at(at).resolve()).unwrap();
            scan(&p.pin(at, end), &relation, request(0..u64::MAX, 64))
        };
        assert_eq!(read(&mut again), read(&mut partition), "{at:?}");
    }
    let gap = vec![open(&files[0]).unwrap(), open(&files[2]).unwrap()];
    assert!(Partition::open(ID, SequenceNumber(0), SequenceNumber(0), gap).is_err());
    let swapped = (files[0].0, files[2].1.clone());
    assert!(matches!(open(&swapped), Err(crate::Error::Corrupted { .. })));
}

#[test]
fn a_start_opens_no_file_that_nobody_reads() {
    let relation = Arc::new(relation(RelationKind::Stream));
    let mut partition = Partition::new(ID, SequenceNumber(0));
    let opened = Arc::new(AtomicUsize::new(0));
    let mut segments = Vec::new();
    for round in 0..4i64 {
        partition.publish(Rows::of(rows(0..100)).unwrap(), CommitTimestamp(2 * round + 1));
        partition.publish(Rows::of(rows(0..100)).unwrap(), CommitTimestamp(2 * round + 2));
        let job = partition.start_seal(CommitTimestamp(i64::MAX), None).unwrap();
        let sealed = block_on(seal(job, round as u64));
        let bytes = block_on(async { sealed.segment.file().await?.read_all().await }).unwrap();
        // The last file is not the one that the manifest means.
        let bytes = if round == 3 { bytes[64..].to_vec() } else { bytes };
        let (place, opened) = (sealed.segment.place, opened.clone());
        let opener: Opener = Box::new(move || {
            opened.fetch_add(1, Ordering::Relaxed);
            let file = MemoryFile::of(&bytes);
            Box::pin(async move { Ok(file) })
        });
        segments.push(Segment::unopened(place, opener));
        partition.finish_seal(sealed);
    }
    let mut again = Partition::open(ID, SequenceNumber(0), SequenceNumber(0), segments).unwrap();
    let view = again.pin(CommitTimestamp(9), again.next());
    assert_eq!((view.end(), opened.load(Ordering::Relaxed)), (SequenceNumber(800), 0));
    assert_eq!(scan(&view, &relation, request(250..260, 64)).len(), 10);
    assert_eq!(block_on(again.end_at(CommitTimestamp(3)).resolve()).unwrap(), SequenceNumber(300));
    assert_eq!(opened.load(Ordering::Relaxed), 1);
    let mut damaged = view.scan(&relation, request(500..700, 1_000));
    assert_eq!(block_on(damaged.next()).unwrap().unwrap().num_rows(), 100);
    assert!(matches!(block_on(damaged.next()), Err(crate::Error::Corrupted { .. })));
}

#[test]
fn staged_files_can_be_read_before_they_are_published() {
    let relation = Arc::new(relation(RelationKind::Stream));
    let file = |numbers: std::ops::Range<i32>| {
        block_on(async {
            let mut writer = StagedWriter::create(SegmentId(1), ID, None, Box::<MemorySink>::default()).await?;
            writer.append(&rows(numbers)).await?;
            assert!(!writer.is_full());
            writer.finish().await
        })
        .unwrap()
    };
    let view = StagedFile::view(ID, &[file(0..100), file(100..150)]).unwrap();
    let read: Vec<i32> = scan(&view, &relation, request(0..u64::MAX, 64)).iter().map(|r| r.1).collect();
    assert_eq!(read, (0..150).collect::<Vec<_>>());
}

#[test]
fn added_columns_read_as_their_constant_in_older_rows_and_dropped_ones_are_gone() {
    let mut partition = Partition::new(ID, SequenceNumber(0));
    partition.publish(Rows::of(rows(0..3)).unwrap(), CommitTimestamp(1));
    let mut new = relation(RelationKind::Stream);
    new.columns.remove(1);
    let missing: ArrayRef = Arc::new(Int32Array::from(vec![7]));
    new.columns.push(Column { missing: Some(ConstantValue(missing)), ..column(3, "added", DataType::Int32) });
    new.columns.push(column(4, "also", DataType::Utf8));
    new.columns[0].name = "renamed".into();
    let number = |v: i32| Arc::new(Int32Array::from(vec![v])) as ArrayRef;
    let late = batch_of(vec![
        (ColumnId(1), number(3)),
        (ColumnId(3), Arc::new(Int32Array::from(vec![None])) as ArrayRef),
        (ColumnId(4), Arc::new(StringArray::from(vec!["x"])) as ArrayRef),
    ]);
    partition.publish(Rows::of(late).unwrap(), CommitTimestamp(2));
    let new = Arc::new(new);
    for sealed in [false, true] {
        if sealed {
            let job = partition.start_seal(CommitTimestamp(2), None).unwrap();
            partition.finish_seal(block_on(seal(job, 1)));
        }
        let view = partition.pin(CommitTimestamp(2), partition.next());
        let columns = [1, 2, 3, 4].map(|id| ScanColumn::Column(ColumnId(id))).to_vec();
        let range = SequenceNumber(0)..SequenceNumber(9);
        let mut scan = view.scan(&new, ScanRequest { columns, range, batch_rows_max: 100 });
        let (mut added, mut also) = (Vec::new(), Vec::new());
        while let Some(batch) = block_on(scan.next()).unwrap() {
            assert_eq!(batch.schema().field(0).name(), "renamed");
            assert_eq!(batch.column(1).data_type(), &DataType::Null);
            added.extend(batch.column(2).as_primitive::<Int32Type>().iter());
            also.extend(batch.column(3).as_string::<i32>().iter().map(|s| s.map(String::from)));
        }
        assert_eq!(added, [Some(7), Some(7), Some(7), None]);
        assert_eq!(also, [None, None, None, Some("x".to_owned())]);
    }
}
