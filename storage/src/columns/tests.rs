//! Round trips over every type, and what damage does: an error or the same data, never other data and no panic.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int32Array, RecordBatch, TimestampMicrosecondArray};
use arrow::buffer::Buffer;
use futures::executor::block_on;

use super::payload::Rows;
use super::samples::{self, Chance};
use super::source::memory::{MemoryFile, MemorySink};
use super::*;
use crate::base::error::Error;
use crate::base::ids::{CommitTimestamp, PartitionId, RelationId, SequenceNumber};

fn identity() -> FileIdentity {
    let partition = PartitionId { relation: RelationId(16_384), index: 3 };
    FileIdentity { partition, first: Some(SequenceNumber(1_000)), event_time: None }
}

/// The file of these batches.
fn file_of(batches: &[RecordBatch]) -> Vec<u8> {
    let file = block_on(async {
        let mut writer = ColumnFileWriter::create(Box::<MemorySink>::default(), identity()).await?;
        for batch in batches {
            writer.append(batch).await?;
        }
        let (file, summary) = writer.finish().await?;
        assert_eq!(summary.bytes, file.size_bytes());
        file.read_all().await
    });
    file.unwrap()
}

/// All rows of all columns, `None` where a group lacks the column; or why not.
fn read(bytes: &[u8], rows: std::ops::Range<u64>) -> crate::Result<Vec<FileBatch>> {
    block_on(async {
        let file = Arc::new(ColumnFile::open(MemoryFile::of(bytes)).await?);
        let ids: Vec<ColumnId> = file.columns().iter().map(|(id, _)| *id).collect();
        let mut scan = file.scan(&ids, rows);
        let mut batches = Vec::new();
        while let Some(batch) = scan.next().await? {
            batches.push(batch);
        }
        Ok(batches)
    })
}

fn joined(parts: &[ArrayRef]) -> ArrayRef {
    let parts: Vec<&dyn Array> = parts.iter().map(|p| p.as_ref()).collect();
    arrow::compute::concat(&parts).unwrap()
}

/// Equal bit for bit (a NaN equals itself), unlike `==` on floats.
fn same(a: &dyn Array, b: &dyn Array) -> bool {
    let one = |array: &dyn Array| {
        let fields = vec![column_field(ColumnId(1), array.data_type().clone())];
        let schema = Arc::new(arrow::datatypes::Schema::new(fields));
        let batch = RecordBatch::try_new(schema, vec![arrow::array::make_array(array.to_data())]).unwrap();
        PackedRows::encode(&batch).unwrap().bytes().to_vec()
    };
    a.data_type() == b.data_type() && one(a) == one(b)
}

fn same_batches(a: &RecordBatch, b: &RecordBatch) -> bool {
    a.schema() == b.schema() && a.columns().iter().zip(b.columns()).all(|(a, b)| same(a, b))
}

#[test]
fn every_type_comes_back_from_a_file() {
    for seed in 0..12 {
        let mut chance = Chance(seed);
        let sizes: Vec<usize> = (0..4).map(|_| chance.below(2_000) + 1).collect();
        let batches: Vec<RecordBatch> = sizes.iter().map(|rows| samples::batch(*rows, &mut chance)).collect();
        let bytes = file_of(&batches);
        let total = sizes.iter().sum::<usize>() as u64;
        let from = chance.below(total as usize) as u64;
        for rows in [0..total, from..total + 7, from..from + 1, 5..from.max(5)] {
            let read = read(&bytes, rows.clone()).unwrap();
            let expected_rows = rows.end.min(total).saturating_sub(rows.start) as usize;
            assert_eq!(read.iter().map(|b| b.rows).sum::<usize>(), expected_rows, "seed {seed} {rows:?}");
            for column in 0..batches[0].num_columns() {
                let whole = joined(&batches.iter().map(|b| b.column(column).clone()).collect::<Vec<_>>());
                if expected_rows > 0 {
                    let got = joined(&read.iter().map(|b| b.columns[column].clone().unwrap()).collect::<Vec<_>>());
                    let expected = whole.slice(rows.start as usize, expected_rows);
                    assert!(same(&got, &expected), "seed {seed} column {} {rows:?}", column + 1);
                }
            }
        }
    }
}

#[test]
fn a_wide_batch_is_cut_into_groups_and_its_statistics_cover_them() {
    let rows = 100_000;
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter((0..rows).map(|i| (i % 7 > 0).then_some(i))));
    let arrived: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![77; rows as usize]).with_timezone("UTC"));
    let batch = samples::batch_of(vec![(ColumnId(4), numbers.clone()), (ARRIVED_COLUMN, arrived)]);
    let bytes = file_of(&[batch]);
    let file = Arc::new(block_on(ColumnFile::open(MemoryFile::of(&bytes))).unwrap());
    assert_eq!(file.group_count(), 4);
    assert_eq!(file.arrived(), Some((CommitTimestamp(77), CommitTimestamp(77))));
    assert_eq!((file.partition(), file.first()), (identity().partition, identity().first));
    assert!(bytes.len() < rows as usize * 5, "equal timestamps take next to nothing: {}", bytes.len());
    let (min, max) = file.group_min_max(ColumnId(4), 1).unwrap();
    assert_eq!((min, max), (32_768i32.to_le_bytes().as_slice(), 65_535i32.to_le_bytes().as_slice()));
    // Only the groups that are asked for, only the column that is asked for, and unknown ones are absent.
    let mut scan = file.scan(&[ColumnId(4), ColumnId(9)], 40_000..40_010);
    let batch = block_on(scan.next()).unwrap().unwrap();
    assert_eq!((batch.first_row, batch.rows), (40_000, 10));
    assert!(same(batch.columns[0].as_ref().unwrap(), &numbers.slice(40_000, 10)) && batch.columns[1].is_none());
    assert!(block_on(scan.next()).unwrap().is_none());
}

#[test]
fn a_plain_page_becomes_an_array_without_a_copy() {
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..10_000));
    let bytes = Buffer::from(file_of(&[samples::batch_of(vec![(ColumnId(1), numbers)])]).as_slice());
    let memory = bytes.as_ptr() as usize..bytes.as_ptr() as usize + bytes.len();
    let file = Arc::new(block_on(ColumnFile::open(Arc::new(MemoryFile { bytes: bytes.clone() }))).unwrap());
    let batch = block_on(file.scan(&[ColumnId(1)], 0..10_000).next()).unwrap().unwrap();
    let values = batch.columns[0].as_ref().unwrap().to_data().buffers()[0].as_ptr() as usize;
    assert!(memory.contains(&values));
}

#[test]
fn rows_written_before_a_column_existed_lack_it() {
    let one: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let old = samples::batch_of(vec![(ColumnId(1), one.clone())]);
    let new = samples::batch_of(vec![(ColumnId(1), one.clone()), (ColumnId(2), one)]);
    let batches = read(&file_of(&[old, new]), 0..9).unwrap();
    assert!(batches[0].columns[1].is_none() && batches[1].columns[1].is_some());
}

#[test]
fn a_truncate_is_a_row_of_its_own() {
    let one: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let file = block_on(async {
        let mut writer = ColumnFileWriter::create(Box::<MemorySink>::default(), identity()).await?;
        writer.append(&samples::batch_of(vec![(ColumnId(1), one)])).await?;
        writer.append_truncate(CommitTimestamp(9)).await?;
        writer.finish().await
    });
    let (file, summary) = file.unwrap();
    assert_eq!((summary.rows, file.truncates().collect::<Vec<_>>()), (3, vec![2]));
}

/// A file with every type and several groups, small enough to damage it everywhere.
fn small_file() -> (RecordBatch, Vec<u8>) {
    let batch = samples::batch(40, &mut Chance(5));
    let bytes = file_of(std::slice::from_ref(&batch));
    (batch, bytes)
}

fn equals_whole(batches: &[FileBatch], whole: &RecordBatch) -> bool {
    let mut at = 0;
    for batch in batches {
        for (column, array) in batch.columns.iter().enumerate() {
            let Some(array) = array else { return false };
            if !same(array, &whole.column(column).slice(at, batch.rows)) {
                return false;
            }
        }
        at += batch.rows;
    }
    at == whole.num_rows()
}

#[test]
fn a_flipped_bit_is_found_or_harmless() {
    let (whole, bytes) = small_file();
    let mut chance = Chance(17);
    let mut found = 0;
    // Every byte of the tail and the start of the footer's end, and a spread over the rest.
    let near_end = (bytes.len() - 600..bytes.len()).collect::<Vec<_>>();
    let spread = (0..1_500).map(|_| chance.below(bytes.len())).collect::<Vec<_>>();
    for at in near_end.into_iter().chain(spread) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << chance.below(8);
        match read(&damaged, 0..u64::MAX) {
            Ok(batches) => assert!(equals_whole(&batches, &whole), "byte {at} changed the data"),
            Err(Error::Corrupted { .. }) => found += 1,
            Err(other) => panic!("byte {at}: {other}"),
        }
    }
    assert!(found > 1_900, "{found}");
}

#[test]
fn a_damaged_page_fails_only_who_needs_it() {
    let (_, mut bytes) = small_file();
    bytes[64] ^= 1;
    let file = Arc::new(block_on(ColumnFile::open(MemoryFile::of(&bytes))).unwrap());
    let mut damaged = Vec::new();
    for (column, _) in file.columns() {
        match block_on(file.scan(&[*column], 0..40).next()) {
            Ok(batch) => assert!(batch.is_some()),
            Err(Error::Corrupted { offset, .. }) => damaged.push(offset),
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(damaged, [64], "one column has the page that begins after the header");
}

/// Footers whose checksum is right but whose content is not: what a hostile or confused writer would leave.
#[test]
fn a_wrong_footer_with_a_right_checksum_does_not_panic() {
    let (_, bytes) = small_file();
    let length = u64::from_le_bytes(bytes[bytes.len() - 32..][..8].try_into().unwrap()) as usize;
    let footer = bytes.len() - 32 - length..bytes.len() - 32;
    let mut chance = Chance(23);
    let mut refused = 0;
    for _ in 0..4_000 {
        let mut damaged = bytes.clone();
        for _ in 0..=chance.below(3) {
            let at = footer.start + chance.below(length);
            damaged[at] = [0, 0xff, 0x7f, chance.next() as u8][chance.below(4)];
        }
        let checksum = xxhash_rust::xxh3::xxh3_64(&damaged[footer.clone()]);
        let tail = footer.end;
        damaged[tail + 8..tail + 16].copy_from_slice(&checksum.to_le_bytes());
        match read(&damaged, 0..u64::MAX) {
            Ok(batches) => assert!(batches.iter().map(|b| b.rows).sum::<usize>() <= 40),
            Err(Error::Corrupted { .. }) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refused > 1_000, "{refused}");
}

#[test]
fn both_payloads_bring_every_type_back() {
    for seed in 0..60 {
        let mut chance = Chance(seed);
        let rows = [chance.below(64), 64 + chance.below(300)][chance.below(2)];
        let batch = samples::batch(rows, &mut chance);
        let payload = Rows::of(batch.clone()).unwrap();
        assert_eq!(matches!(payload, Rows::Packed(_)), rows < PACKED_ROWS_MAX);
        let mut bytes = vec![0xaa; chance.below(3)];
        let start = bytes.len();
        payload.encode(&mut bytes).unwrap();
        let decoded = Rows::decode(Buffer::from(&bytes[start..])).unwrap();
        assert_eq!(decoded.rows(), rows);
        assert!(same_batches(&decoded.to_batch().unwrap(), &batch), "seed {seed}, {rows} rows");
    }
}

#[test]
fn many_packed_commits_become_one_batch() {
    let mut chance = Chance(8);
    let batches: Vec<RecordBatch> = (0..50).map(|_| samples::batch(1 + chance.below(5), &mut Chance(8))).collect();
    let packed: Vec<PackedRows> = batches.iter().map(|b| PackedRows::encode(b).unwrap()).collect();
    let joined = arrow::compute::concat_batches(&batches[0].schema(), &batches).unwrap();
    assert!(same_batches(&PackedRows::unpack(&packed).unwrap(), &joined));
    let other = samples::batch_of(vec![(ColumnId(1), Arc::new(Int32Array::from(vec![1])) as ArrayRef)]);
    let other = PackedRows::encode(&other).unwrap();
    assert!(!packed[0].same_columns(&other) && PackedRows::unpack([&packed[0], &other]).is_err());
}

#[test]
fn payload_decoders_survive_hostile_bytes() {
    let mut chance = Chance(99);
    let mut refused = 0;
    for round in 0..6_000 {
        let batch = samples::batch([7, 70][round % 2], &mut Chance(round as u64 % 9));
        let mut bytes = Vec::new();
        Rows::of(batch).unwrap().encode(&mut bytes).unwrap();
        if chance.below(4) == 0 {
            bytes.truncate(chance.below(bytes.len()));
        }
        for _ in 0..chance.below(4) {
            if !bytes.is_empty() {
                let near_start = [60, usize::MAX][chance.below(2)];
                let at = chance.below(bytes.len().min(near_start));
                bytes[at] = [0, 1, 0x7f, 0x80, 0xff, chance.next() as u8][chance.below(6)];
            }
        }
        let given = bytes.len();
        match Rows::decode(Buffer::from(bytes.as_slice())).and_then(|r| r.to_batch()) {
            // A null of 32 bytes takes one bit here: memory is bounded by that and by the header's own size.
            Ok(batch) => assert!(batch.get_array_memory_size() <= given * 256 + (1 << 20), "{given} bytes"),
            Err(Malformed(_)) => refused += 1,
        }
    }
    assert!(refused > 1_500, "{refused}");
}
