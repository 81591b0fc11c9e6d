//! Opens a column file and reads what is asked: some columns of some rows.
//! A damaged page is an error only for who needs it. An open file is shared by all its readers, on any thread.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayData;
use arrow::array::{ArrayRef, make_array, new_null_array};
use arrow::buffer::Buffer;
use arrow::datatypes::DataType;
use xxhash_rust::xxh3::xxh3_64;

use super::Malformed;
use super::column_type::{Layout, layout};
use super::footer::{
    ArchivedFooterV1, ArchivedPageV1, ENCODING_ABSENT, ENCODING_NULLS, ENCODING_RUN_LENGTH, Footer, NO_SN, TAIL_BYTES,
    Tail,
};
use super::page::{array_from, split_body};
use super::run_length;
use super::source::FileSource;
use crate::base::error::{Error, Result};
use crate::base::ids::{ColumnId, CommitTimestamp, PartitionId, RelationId, SequenceNumber};

/// Read at open in one step; holds the footer of most files.
const OPEN_BYTES: u64 = 64 << 10;
/// Pages so near to each other are read together.
const GAP_BYTES_MAX: u64 = 16 << 10;
/// A joint read is not longer than this unless one page is.
const READ_BYTES_MAX: u64 = 4 << 20;

pub(crate) struct ColumnFile {
    source: Arc<dyn FileSource>,
    footer: Footer,
}

/// Rows of one group.
pub(crate) struct FileBatch {
    /// Counted from the file's first row.
    pub first_row: u64,
    pub rows: usize,
    /// In the order asked for; `None` where these rows do not have the column.
    pub columns: Vec<Option<ArrayRef>>,
}

impl ColumnFile {
    /// Reads and checks the footer.
    pub(crate) async fn open(source: Arc<dyn FileSource>) -> Result<Self> {
        let size = source.size_bytes();
        let corrupted = |offset: u64, reason: Malformed| corrupted(&*source, offset, reason);
        if size < TAIL_BYTES as u64 {
            return Err(corrupted(0, Malformed("file too short")));
        }
        let from = size.saturating_sub(OPEN_BYTES) / 64 * 64;
        let end = source.read(from, (size - from) as usize).await?;
        let tail_at = end.len() - TAIL_BYTES;
        let tail = Tail::decode(&end[tail_at..], size).map_err(|e| corrupted(size - TAIL_BYTES as u64, e))?;
        let footer_at = tail.footer_offset(size);
        let length = tail.footer_length as usize;
        let archive = match footer_at.checked_sub(from) {
            Some(at) => end.slice_with_length(at as usize, length),
            None => source.read(footer_at, length).await?,
        };
        let footer = Footer::open(archive, tail, size).map_err(|e| corrupted(footer_at, e))?;
        Ok(Self { source, footer })
    }

    pub(crate) fn name(&self) -> &str {
        self.source.name()
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.source.size_bytes()
    }

    fn footer(&self) -> &ArchivedFooterV1 {
        self.footer.get()
    }

    pub(crate) fn rows(&self) -> u64 {
        self.footer().rows.to_native()
    }

    pub(crate) fn partition(&self) -> PartitionId {
        let footer = self.footer();
        PartitionId { relation: RelationId(footer.relation.to_native()), index: footer.partition.to_native() }
    }

    /// `None` for a file whose rows are numbered outside it.
    pub(crate) fn first(&self) -> Option<SequenceNumber> {
        Some(self.footer().first_sn.to_native()).filter(|sn| *sn != NO_SN).map(SequenceNumber)
    }

    /// First and last commit.
    pub(crate) fn arrived(&self) -> Option<(CommitTimestamp, CommitTimestamp)> {
        let range = self.footer().arrived.as_ref()?;
        Some((CommitTimestamp(range.min.to_native()), CommitTimestamp(range.max.to_native())))
    }

    /// Least and greatest event time, µs.
    pub(crate) fn event_time(&self) -> Option<(i64, i64)> {
        let range = self.footer().event_time.as_ref()?;
        Some((range.min.to_native(), range.max.to_native()))
    }

    /// Rows that stand for TRUNCATE, counted from the file's first.
    pub(crate) fn truncates(&self) -> impl Iterator<Item = u64> + '_ {
        self.footer().truncates.iter().map(|t| t.to_native())
    }

    /// Ascending by id.
    pub(crate) fn columns(&self) -> &[(ColumnId, DataType)] {
        self.footer.columns()
    }

    /// Least and greatest value of a column in one group, as `statistics` writes them.
    pub(crate) fn group_min_max(&self, column: ColumnId, group: usize) -> Option<(&[u8], &[u8])> {
        let index = self.columns().binary_search_by_key(&column, |(id, _)| *id).ok()?;
        let page = self.footer().pages.get(group * self.columns().len() + index)?;
        Some((page.min.as_ref()?, page.max.as_ref()?))
    }

    pub(crate) fn group_count(&self) -> usize {
        self.footer().groups.len()
    }

    pub(crate) fn group_rows(&self, group: usize) -> Range<u64> {
        let group = &self.footer().groups[group];
        let first = group.first_row.to_native();
        first..first + u64::from(group.rows.to_native())
    }

    /// One pass over these rows, which are clipped to the file's.
    pub(crate) fn scan(self: &Arc<Self>, columns: &[ColumnId], rows: Range<u64>) -> ColumnScan {
        let indexes = columns.iter().map(|c| self.columns().binary_search_by_key(c, |(id, _)| *id).ok()).collect();
        let groups = &self.footer().groups;
        // The sparse index: the last group that begins at or before the first row asked for.
        let mut next_group = groups.len();
        if rows.start < self.rows() && rows.start < rows.end {
            let after = groups.as_slice().partition_point(|g| g.first_row.to_native() <= rows.start);
            next_group = after.saturating_sub(1);
        }
        ColumnScan { file: self.clone(), indexes, rows, next_group }
    }

    /// The pages' bytes, in the order of `pages`, by as few reads as their places allow.
    async fn read_pages(&self, pages: &[&ArchivedPageV1]) -> Result<Vec<Buffer>> {
        let mut order: Vec<usize> = (0..pages.len()).filter(|i| pages[*i].length.to_native() > 0).collect();
        order.sort_by_key(|i| pages[*i].offset.to_native());
        let mut bodies = vec![Buffer::default(); pages.len()];
        let mut at = 0;
        while at < order.len() {
            let start = pages[order[at]].offset.to_native();
            let mut end = start;
            let mut upto = at;
            while let Some(page) = order.get(upto).map(|i| pages[*i]) {
                let page_end = page.offset.to_native() + page.length.to_native();
                let near = page.offset.to_native() <= end.saturating_add(GAP_BYTES_MAX);
                if upto > at && !(near && page_end - start <= READ_BYTES_MAX) {
                    break;
                }
                end = end.max(page_end);
                upto += 1;
            }
            let length = usize::try_from(end - start).map_err(|_| self.corrupted(start, Malformed("page length")))?;
            let read = self.source.read(start, length).await?;
            for index in &order[at..upto] {
                let page = pages[*index];
                let from = (page.offset.to_native() - start) as usize;
                bodies[*index] = read.slice_with_length(from, page.length.to_native() as usize);
            }
            at = upto;
        }
        Ok(bodies)
    }

    fn decode(&self, page: &ArchivedPageV1, data_type: &DataType, rows: usize, body: Buffer) -> Result<ArrayRef> {
        let at = page.offset.to_native();
        if xxh3_64(&body) != page.checksum.to_native() && !body.is_empty() {
            return Err(self.corrupted(at, Malformed("page checksum")));
        }
        let decoded = match page.encoding {
            ENCODING_NULLS => return Ok(new_null_array(data_type, rows)),
            ENCODING_RUN_LENGTH => run_length_page(page, data_type, rows, &body),
            _ => split_body(&body, lengths(page)).and_then(|buffers| array_from(data_type, rows, buffers)),
        };
        decoded.map_err(|reason| self.corrupted(at, reason))
    }

    fn corrupted(&self, offset: u64, reason: Malformed) -> Error {
        corrupted(&*self.source, offset, reason)
    }
}

fn corrupted(source: &dyn FileSource, offset: u64, reason: Malformed) -> Error {
    Error::Corrupted { file: source.name().into(), offset, reason: reason.0.into() }
}

fn lengths(page: &ArchivedPageV1) -> impl Iterator<Item = u64> + '_ {
    page.buffers.iter().map(|b| b.to_native())
}

fn run_length_page(
    page: &ArchivedPageV1,
    data_type: &DataType,
    rows: usize,
    body: &Buffer,
) -> std::result::Result<ArrayRef, Malformed> {
    let Some(Layout::Fixed(width)) = layout(data_type) else { return Err(Malformed("page encoding")) };
    let values = run_length::decode(&split_body(body, lengths(page))?, width, rows)?;
    let data = ArrayData::builder(data_type.clone()).len(rows).add_buffer(values).align_buffers(true).build();
    data.map(make_array).map_err(|_| Malformed("values do not fit the type"))
}

/// One pass over a file's rows.
pub(crate) struct ColumnScan {
    file: Arc<ColumnFile>,
    /// Where each asked column stands in the file.
    indexes: Vec<Option<usize>>,
    rows: Range<u64>,
    next_group: usize,
}

impl ColumnScan {
    /// The rows of the next group, or `None` at the end. Cancel-safe: a dropped call is done again by the next.
    pub(crate) async fn next(&mut self) -> Result<Option<FileBatch>> {
        let file = self.file.clone();
        if self.next_group >= file.group_count() {
            return Ok(None);
        }
        let group = file.group_rows(self.next_group);
        if group.start >= self.rows.end {
            return Ok(None);
        }
        let group_rows = (group.end - group.start) as usize;
        let width = file.columns().len();
        let base = self.next_group * width;
        let mut pages: Vec<&ArchivedPageV1> = Vec::with_capacity(self.indexes.len());
        let mut wanted = Vec::with_capacity(self.indexes.len());
        for (slot, index) in self.indexes.iter().enumerate() {
            if let Some(index) = index
                && file.footer().pages[base + index].encoding != ENCODING_ABSENT
            {
                pages.push(&file.footer().pages[base + index]);
                wanted.push((slot, *index));
            }
        }
        let bodies = file.read_pages(&pages).await?;
        let first_row = group.start.max(self.rows.start);
        let rows = (group.end.min(self.rows.end) - first_row) as usize;
        let mut columns: Vec<Option<ArrayRef>> = vec![None; self.indexes.len()];
        for (((slot, index), page), body) in wanted.into_iter().zip(pages).zip(bodies) {
            let array = file.decode(page, &file.columns()[index].1, group_rows, body)?;
            columns[slot] = Some(array.slice((first_row - group.start) as usize, rows));
        }
        self.next_group += 1;
        Ok(Some(FileBatch { first_row, rows, columns }))
    }
}

#[cfg(test)]
impl ColumnFile {
    /// The file as it is.
    pub(crate) async fn read_all(&self) -> Result<Vec<u8>> {
        Ok(self.source.read(0, self.size_bytes() as usize).await?.to_vec())
    }
}
