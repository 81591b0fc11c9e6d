//! Rows on their way to a client: what is left of the chunk in hand, then the running query.
//! Used for portals (chunks are encoded rows) and for SQL cursors (chunks are batches, encoded by each FETCH).

use std::collections::VecDeque;

use alluvium_exec::{Ready, Rows, SqlError};
use alluvium_storage::CommitTimestamp;
use arrow::array::RecordBatch;
use bytes::{BufMut, Bytes, BytesMut};

/// Chunks waiting in front of the reader, each of about [`CHUNK_BYTES`]: with the one being made and the one in hand at
/// most 256 KiB.
pub const CHUNKS_AHEAD: usize = 2;
pub const CHUNK_BYTES: usize = 64 << 10;

/// Something made of rows.
pub trait Chunk: Sized {
    fn rows(&self) -> usize;
    /// Takes the first `rows` off.
    fn split_front(&mut self, rows: usize) -> Self;
}

/// Whole DataRow messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncodedRows {
    pub bytes: Bytes,
    /// Where each row ends in `bytes`.
    pub ends: Vec<usize>,
    /// Rows already taken off `ends`.
    taken: usize,
    /// Bytes already taken off `bytes`.
    offset: usize,
}

impl EncodedRows {
    pub fn new(bytes: Bytes, ends: Vec<usize>) -> Self {
        Self { bytes, ends, taken: 0, offset: 0 }
    }

    /// Rows of text values.
    pub fn of_text(rows: &[Vec<Option<String>>]) -> Self {
        let mut bytes = BytesMut::new();
        let mut ends = Vec::with_capacity(rows.len());
        for row in rows {
            let length: usize = row.iter().map(|v| 4 + v.as_ref().map_or(0, String::len)).sum();
            bytes.put_u8(b'D');
            bytes.put_u32((4 + 2 + length) as u32);
            bytes.put_u16(row.len() as u16);
            for value in row {
                match value {
                    None => bytes.put_i32(-1),
                    Some(text) => {
                        bytes.put_u32(text.len() as u32);
                        bytes.put_slice(text.as_bytes());
                    }
                }
            }
            ends.push(bytes.len());
        }
        Self::new(bytes.freeze(), ends)
    }
}

impl Chunk for EncodedRows {
    fn rows(&self) -> usize {
        self.ends.len() - self.taken
    }

    fn split_front(&mut self, rows: usize) -> Self {
        if rows >= self.rows() {
            return std::mem::take(self);
        }
        let end = self.ends[self.taken + rows - 1];
        let front = self.bytes.split_to(end - self.offset);
        let ends = self.ends[self.taken..self.taken + rows].iter().map(|e| e - self.offset).collect();
        self.taken += rows;
        self.offset = end;
        Self::new(front, ends)
    }
}

impl Chunk for RecordBatch {
    fn rows(&self) -> usize {
        self.num_rows()
    }

    fn split_front(&mut self, rows: usize) -> Self {
        let rows = rows.min(self.num_rows());
        let front = self.slice(0, rows);
        *self = self.slice(rows, self.num_rows() - rows);
        front
    }
}

pub struct RowSource<T> {
    waiting: VecDeque<T>,
    running: Option<Rows<T>>,
    pub live: bool,
}

impl<T: Chunk> RowSource<T> {
    pub fn running(rows: Rows<T>, live: bool) -> Self {
        Self { waiting: VecDeque::new(), running: Some(rows), live }
    }

    pub fn of(chunk: T) -> Self {
        Self { waiting: VecDeque::from([chunk]), running: None, live: false }
    }

    /// At most `rows_max` rows (one at least), waiting for them. `None` at the end. Cancel-safe.
    pub async fn next(&mut self, rows_max: usize) -> Result<Option<T>, SqlError> {
        loop {
            if let Some(front) = self.take_waiting(rows_max) {
                return Ok(Some(front));
            }
            let Some(running) = &mut self.running else { return Ok(None) };
            match running.next().await {
                Some(item) => self.put_in(item)?,
                None => self.running = None,
            }
        }
    }

    /// As [`RowSource::next`], for rows committed up to `at`. `None`: there are no more of those. Cancel-safe.
    pub async fn next_until(&mut self, rows_max: usize, at: CommitTimestamp) -> Result<Option<T>, SqlError> {
        loop {
            if let Some(front) = self.take_waiting(rows_max) {
                return Ok(Some(front));
            }
            let Some(running) = &mut self.running else { return Ok(None) };
            match running.next_until(at).await {
                Ready::Item(item) => self.put_in(item)?,
                Ready::CaughtUp => return Ok(None),
                Ready::End => self.running = None,
            }
        }
    }

    fn put_in(&mut self, item: Result<T, SqlError>) -> Result<(), SqlError> {
        match item {
            Ok(chunk) => self.waiting.push_back(chunk),
            Err(error) => {
                self.running = None;
                return Err(error);
            }
        }
        Ok(())
    }

    fn take_waiting(&mut self, rows_max: usize) -> Option<T> {
        while let Some(first) = self.waiting.front_mut() {
            if first.rows() == 0 {
                self.waiting.pop_front();
                continue;
            }
            return if first.rows() <= rows_max { self.waiting.pop_front() } else { Some(first.split_front(rows_max)) };
        }
        None
    }

    /// Puts rows back that were taken but not delivered, in their order.
    pub fn put_back(&mut self, chunks: Vec<T>) {
        for chunk in chunks.into_iter().rev() {
            self.waiting.push_front(chunk);
        }
    }

    /// True when it is known that no row comes any more.
    pub fn is_ended(&self) -> bool {
        self.running.is_none() && self.waiting.iter().all(|c| c.rows() == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_rows_split_between_rows() {
        let rows: Vec<Vec<Option<String>>> = (0..5).map(|i| vec![Some("x".repeat(i)), None]).collect();
        let whole = EncodedRows::of_text(&rows);
        let mut left = whole.clone();
        let parts = [left.split_front(2), left.split_front(1), left.split_front(9)];
        assert_eq!(parts.iter().map(Chunk::rows).collect::<Vec<_>>(), [2, 1, 2]);
        assert_eq!(parts.iter().flat_map(|p| p.bytes.to_vec()).collect::<Vec<_>>(), whole.bytes);
        assert_eq!(left.rows(), 0);
        let mut again = parts[0].clone();
        assert_eq!(again.split_front(1).bytes.len() + again.bytes.len(), parts[0].bytes.len());
    }
}
