//! The formats as documented and as once written: the examples of `docs/formats` are what the writer writes, and the
//! files in `storage/tests/formats` open for ever, whatever else changes.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Int64Type};
use futures::executor::block_on;

use super::payload::Rows;
use super::samples;
use super::source::memory::{MemoryFile, MemorySink};
use super::*;
use crate::base::ids::{PartitionId, RelationId, SequenceNumber};

fn example_rows() -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![Some(7), None, Some(-1)]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["ebb", "", "flow"]));
    samples::batch_of(vec![(ColumnId(1), numbers), (ColumnId(3), texts)])
}

fn example_file() -> Vec<u8> {
    let mut batch = example_rows();
    let arrived = TimestampMicrosecondArray::from(vec![1_000_000, 1_000_000, 2_000_000]).with_timezone("UTC");
    let mut columns: Vec<(ColumnId, ArrayRef)> = vec![(ColumnId(1), batch.remove_column(0))];
    columns.push((ColumnId(3), batch.remove_column(0)));
    columns.push((ARRIVED_COLUMN, Arc::new(arrived)));
    let partition = PartitionId { relation: RelationId(16_384), index: 0 };
    let identity = FileIdentity { partition, first: Some(SequenceNumber(1_000)), event_time: None };
    let file = block_on(async {
        let mut writer = ColumnFileWriter::create(Box::<MemorySink>::default(), identity).await?;
        writer.append(&samples::batch_of(columns)).await?;
        writer.finish().await?.0.read_all().await
    });
    file.unwrap()
}

/// Sixteen bytes a line, as `xxd` shows them; lines of zeros alone are left out.
fn dump(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (index, line) in bytes.chunks(16).enumerate() {
        if line.iter().any(|b| *b != 0) {
            let hex: Vec<String> = line.iter().map(|b| format!("{b:02x}")).collect();
            let ascii: String = line.iter().map(|b| if b.is_ascii_graphic() { *b as char } else { '.' }).collect();
            text += &format!("{:04x}  {:<47}  {ascii}\n", index * 16, hex.join(" "));
        }
    }
    text
}

fn check_example(doc: &str, heading: &str, bytes: &[u8]) {
    let at = doc.find(heading).unwrap_or_else(|| panic!("the page has no \"{heading}\""));
    let block = doc[at..].split("```").nth(1).unwrap_or_default().trim_start_matches("text\n");
    let expected = dump(bytes);
    assert_eq!(block, expected, "\n{heading}: the page should show\n{expected}");
}

#[test]
fn the_documented_examples_are_what_is_written() {
    let segment = include_str!("../../../docs/formats/segment.md");
    check_example(segment, "## Worked example", &example_file());
    let packed = include_str!("../../../docs/formats/packed-rows.md");
    let rows = PackedRows::encode(&example_rows()).unwrap();
    check_example(packed, "## Worked example: packed rows", rows.bytes());
    let mut bytes = Vec::new();
    Rows::Columns(example_rows()).encode(&mut bytes).unwrap();
    check_example(packed, "## Worked example: columns", &bytes);
}

/// Twelve rows of every storable type, written by the first version of each format.
const SEGMENT_V1: &[u8] = include_bytes!("../../tests/formats/segment-v1");
const PACKED_V1: &[u8] = include_bytes!("../../tests/formats/packed-rows-v1");
const COLUMNS_V1: &[u8] = include_bytes!("../../tests/formats/columns-v1");

const NUMBERS_V1: [Option<i64>; 12] = [
    Some(-1410296281950689363),
    Some(5606934150367255661),
    Some(-2785935881723736723),
    Some(3162462240563573978),
    Some(4436154945565037554),
    None,
    Some(-841160130785405229),
    Some(4704435976969968076),
    Some(4791808812264832917),
    Some(8248540210767805851),
    Some(-8787906045626381473),
    Some(-4155083717199153890),
];
const TEXTS_V1: [Option<&str>; 12] = [
    None,
    Some(""),
    Some(""),
    Some(""),
    Some(""),
    Some(""),
    None,
    Some(""),
    Some(""),
    Some("zaß☃zaß☃za"),
    Some("zaß☃zaß☃za"),
    Some("zaß☃zaß☃za"),
];

#[test]
fn files_of_version_1_open_and_say_the_same() {
    let packed = Rows::decode(Buffer::from(PACKED_V1)).unwrap().to_batch().unwrap();
    let columns = Rows::decode(Buffer::from(COLUMNS_V1)).unwrap().to_batch().unwrap();
    let file = Arc::new(block_on(ColumnFile::open(MemoryFile::of(SEGMENT_V1))).unwrap());
    let ids: Vec<ColumnId> = file.columns().iter().map(|(id, _)| *id).collect();
    let group = block_on(file.scan(&ids, 0..u64::MAX).next()).unwrap().unwrap();
    let arrays = group.columns.into_iter().map(Option::unwrap);
    let stored = samples::batch_of(ids.into_iter().zip(arrays).collect());
    let bytes = |batch: &RecordBatch| PackedRows::encode(batch).unwrap().bytes().to_vec();
    assert_eq!((stored.num_rows(), stored.num_columns()), (12, samples::all_types().len()));
    assert_eq!(bytes(&packed), PACKED_V1);
    assert_eq!(bytes(&columns), PACKED_V1);
    assert_eq!(bytes(&stored), PACKED_V1);
    // And some values as such, so that the three cannot be wrong together.
    let types: Vec<DataType> = stored.columns().iter().map(|c| c.data_type().clone()).collect();
    assert_eq!(types, samples::all_types());
    let numbers: Vec<Option<i64>> = stored.column(4).as_primitive::<Int64Type>().iter().collect();
    assert_eq!(numbers, NUMBERS_V1);
    let texts: Vec<Option<&str>> = stored.column(10).as_string::<i32>().iter().collect();
    assert_eq!(texts, TEXTS_V1);
    assert_eq!((file.partition().relation, file.first()), (RelationId(16_384), Some(SequenceNumber(1_000))));
}
