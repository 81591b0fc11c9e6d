//! The end of a column file: which column's page lies where, and what is known of its values.
//! The archived types of a version are frozen: fixed width, never edited, only succeeded by a `V2` beside them.
//! Everything is checked once when the file is opened; afterwards the archive is read where it lies.

use arrow::buffer::{Buffer, MutableBuffer};
use arrow::datatypes::DataType;
use rkyv::{Archive, Deserialize, Serialize, rancor};
use xxhash_rust::xxh3::xxh3_64;

use super::column_type::{self, Layout};
use super::{ALIGNMENT, Malformed, align_up};
use crate::base::ids::ColumnId;

pub(crate) const MAGIC: [u8; 8] = *b"ALVCOLS\n";
pub(crate) const VERSION: u32 = 1;
/// Bytes before the first page.
pub(crate) const HEADER_BYTES: usize = ALIGNMENT;
/// Bytes after the footer: its length, its checksum, version, zero, magic.
pub(crate) const TAIL_BYTES: usize = 32;
/// Most rows of a group, so that a page is decoded in one bounded step.
pub(crate) const GROUP_ROWS_MAX: usize = 32_768;
/// `first_sn` of a file whose rows got their numbers outside it.
pub(crate) const NO_SN: u64 = u64::MAX;

pub(crate) const ENCODING_ABSENT: u8 = 0;
pub(crate) const ENCODING_PLAIN: u8 = 1;
pub(crate) const ENCODING_RUN_LENGTH: u8 = 2;
pub(crate) const ENCODING_NULLS: u8 = 3;

#[derive(Archive, Serialize, Deserialize, Debug)]
pub(crate) struct FooterV1 {
    pub rows: u64,
    pub relation: u32,
    pub partition: u32,
    pub first_sn: u64,
    pub arrived: Option<RangeV1>,
    pub event_time: Option<RangeV1>,
    /// The partition's watermark clock after the last row.
    pub clock: Option<i64>,
    /// Rows that stand for TRUNCATE of a table, counted from the file's first row, ascending.
    pub truncates: Vec<u64>,
    /// Ascending by id.
    pub columns: Vec<ColumnV1>,
    pub groups: Vec<GroupV1>,
    /// Group by group, within it column by column.
    pub pages: Vec<PageV1>,
}

/// Both ends included, µs since the Unix epoch.
#[derive(Archive, Serialize, Deserialize, Debug, Clone, Copy)]
pub(crate) struct RangeV1 {
    pub min: i64,
    pub max: i64,
}

#[derive(Archive, Serialize, Deserialize, Debug)]
pub(crate) struct ColumnV1 {
    pub id: u16,
    pub type_name: String,
    /// Of the rows whose group holds the column.
    pub null_count: u64,
    pub min: Option<Vec<u8>>,
    pub max: Option<Vec<u8>>,
}

#[derive(Archive, Serialize, Deserialize, Debug)]
pub(crate) struct GroupV1 {
    pub first_row: u64,
    pub rows: u32,
}

#[derive(Archive, Serialize, Deserialize, Debug)]
pub(crate) struct PageV1 {
    pub offset: u64,
    pub length: u64,
    /// xxh3-64 of the page's bytes.
    pub checksum: u64,
    pub null_count: u32,
    pub encoding: u8,
    /// Lengths without padding.
    pub buffers: Vec<u64>,
    pub min: Option<Vec<u8>>,
    pub max: Option<Vec<u8>>,
}

impl PageV1 {
    pub(crate) fn absent() -> Self {
        let (buffers, min, max) = (Vec::new(), None, None);
        Self { offset: 0, length: 0, checksum: 0, null_count: 0, encoding: ENCODING_ABSENT, buffers, min, max }
    }
}

/// The first [`HEADER_BYTES`] of a file.
pub(crate) fn header() -> Vec<u8> {
    let mut header = vec![0; HEADER_BYTES];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header
}

/// Footer and tail, to be appended at a multiple of 64.
pub(crate) fn encode(footer: &FooterV1) -> Result<Vec<u8>, Malformed> {
    let archive = rkyv::to_bytes::<rancor::Error>(footer).map_err(|_| Malformed("footer cannot be archived"))?;
    let mut bytes = archive.to_vec();
    let checksum = xxh3_64(&bytes);
    let length = bytes.len() as u64;
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&0u32.to_le_bytes());
    bytes.extend_from_slice(&MAGIC);
    Ok(bytes)
}

/// What the last [`TAIL_BYTES`] of a file say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail {
    pub footer_length: u64,
    checksum: u64,
}

impl Tail {
    pub(crate) fn decode(bytes: &[u8], file_bytes: u64) -> Result<Self, Malformed> {
        let Some(bytes) = bytes.first_chunk::<TAIL_BYTES>().filter(|_| bytes.len() == TAIL_BYTES) else {
            return Err(Malformed("file too short"));
        };
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        if bytes[24..32] != MAGIC {
            return Err(Malformed("no column file, or cut at its end"));
        }
        if u64_at(16) != u64::from(VERSION) {
            return Err(Malformed("unknown format version"));
        }
        let tail = Self { footer_length: u64_at(0), checksum: u64_at(8) };
        let room = file_bytes.saturating_sub((HEADER_BYTES + TAIL_BYTES) as u64);
        if tail.footer_length > room || !tail.footer_offset(file_bytes).is_multiple_of(ALIGNMENT as u64) {
            return Err(Malformed("footer outside the file"));
        }
        Ok(tail)
    }

    pub(crate) fn footer_offset(&self, file_bytes: u64) -> u64 {
        file_bytes - TAIL_BYTES as u64 - self.footer_length
    }
}

/// A footer that was checked, read in place.
pub(crate) struct Footer {
    archive: Buffer,
    columns: Vec<(ColumnId, DataType)>,
}

impl Footer {
    /// Checks everything that later reads rely on. `archive` is the footer's bytes.
    pub(crate) fn open(archive: Buffer, tail: Tail, file_bytes: u64) -> Result<Self, Malformed> {
        if xxh3_64(&archive) != tail.checksum {
            return Err(Malformed("footer checksum"));
        }
        // Own, aligned memory of just this size: the archive lives as long as the file is open, and must not hold the
        // read buffer that it came in, which may be part of much larger memory.
        let mut own = MutableBuffer::with_capacity(archive.len());
        own.extend_from_slice(&archive);
        let archive: Buffer = own.into();
        let footer = rkyv::access::<ArchivedFooterV1, rancor::Error>(&archive)
            .map_err(|_| Malformed("footer is no valid archive"))?;
        let columns = check(footer, tail.footer_offset(file_bytes))?;
        Ok(Self { archive, columns })
    }

    pub(crate) fn get(&self) -> &ArchivedFooterV1 {
        // SAFETY: `open` validated these very bytes, which are immutable and at the same address since.
        unsafe { rkyv::access_unchecked::<ArchivedFooterV1>(&self.archive) }
    }

    /// Ascending by id.
    pub(crate) fn columns(&self) -> &[(ColumnId, DataType)] {
        &self.columns
    }
}

fn check(footer: &ArchivedFooterV1, pages_end: u64) -> Result<Vec<(ColumnId, DataType)>, Malformed> {
    let mut columns: Vec<(ColumnId, DataType)> = Vec::with_capacity(footer.columns.len());
    for column in footer.columns.iter() {
        let id = ColumnId(column.id.to_native());
        if columns.last().is_some_and(|(last, _)| *last >= id) {
            return Err(Malformed("columns are not in order"));
        }
        columns.push((id, column_type::parse(&column.type_name)?));
    }
    let mut row = 0u64;
    for group in footer.groups.iter() {
        let rows = group.rows.to_native();
        if group.first_row != row || rows == 0 || rows as usize > GROUP_ROWS_MAX {
            return Err(Malformed("row groups do not follow each other"));
        }
        row += u64::from(rows);
    }
    let first_sn = footer.first_sn.to_native();
    if footer.rows != row || (first_sn != NO_SN && first_sn.checked_add(row).is_none_or(|end| end == NO_SN)) {
        return Err(Malformed("row count"));
    }
    if footer.groups.len().checked_mul(columns.len()) != Some(footer.pages.len()) {
        return Err(Malformed("page table does not match groups and columns"));
    }
    for (index, page) in footer.pages.iter().enumerate() {
        let (_, data_type) = &columns[index % columns.len()];
        check_page(page, data_type, pages_end)?;
    }
    let mut previous = None;
    for truncate in footer.truncates.iter() {
        let at = truncate.to_native();
        if at >= row || previous.is_some_and(|p| p >= at) {
            return Err(Malformed("truncates do not ascend"));
        }
        previous = Some(at);
    }
    Ok(columns)
}

fn check_page(page: &ArchivedPageV1, data_type: &DataType, pages_end: u64) -> Result<(), Malformed> {
    let (offset, length) = (page.offset.to_native(), page.length.to_native());
    let layout = column_type::layout(data_type);
    match page.encoding {
        ENCODING_ABSENT | ENCODING_NULLS if length == 0 && page.buffers.is_empty() => return Ok(()),
        ENCODING_PLAIN => {}
        ENCODING_RUN_LENGTH if matches!(layout, Some(Layout::Fixed(_))) && page.buffers.len() == 2 => {}
        _ => return Err(Malformed("page encoding")),
    }
    let end = offset.checked_add(length).ok_or(Malformed("page outside the file"))?;
    let aligned = offset.is_multiple_of(ALIGNMENT as u64) && length.is_multiple_of(ALIGNMENT as u64);
    if offset < HEADER_BYTES as u64 || end > pages_end || !aligned {
        return Err(Malformed("page outside the file"));
    }
    let mut sum = 0u64;
    for buffer in page.buffers.iter() {
        let buffer = usize::try_from(buffer.to_native()).ok().filter(|b| *b as u64 <= length);
        sum += align_up(buffer.ok_or(Malformed("buffer outside its page"))?) as u64;
    }
    if sum == length { Ok(()) } else { Err(Malformed("page length")) }
}
