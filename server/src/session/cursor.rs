//! SQL cursors: DECLARE, FETCH, MOVE, CLOSE.
//!
//! A cursor owns its execution, whatever becomes of the statement that declared it: WITH HOLD goes on after COMMIT over
//! the snapshot of DECLARE, without a copy of its rows. Over a live query FETCH waits for a first row, then takes what is
//! committed and nothing more. Rows of a FETCH that fails come again where the cursor lives on.

use std::sync::Arc;

use alluvium_exec::sql::statement::{Fetch, FetchDirection, Parsed, Statement};
use alluvium_exec::{ColumnDescription, Outcome, SqlError, SqlState};
use arrow::array::{Array, RecordBatch, UInt32Array};

use crate::session::encoding;
use crate::session::failure::{Failure, Result};
use crate::session::portal::{FetchPortal, Reading};
use crate::session::row_source::{CHUNK_BYTES, CHUNKS_AHEAD, Chunk, RowSource};
use crate::session::session::Session;
use crate::session::transaction::Phase;

/// Rows a SCROLL cursor keeps to go back to.
const SCROLL_BYTES_MAX: usize = 64 << 20;
/// Rows a FETCH keeps so that they can come again. A FETCH of a live WITH HOLD cursor ends there, a short batch being no
/// end; of a bounded one it goes on, and a cancel then closes the cursor.
const REPLAY_BYTES_MAX: usize = 4 << 20;

pub struct Cursor {
    pub columns: Arc<[ColumnDescription]>,
    /// The savepoints that were open at DECLARE.
    pub depth: usize,
    hold: bool,
    binary: bool,
    scroll: bool,
    /// The transaction that declared it has committed.
    committed: bool,
    source: RowSource<RecordBatch>,
    /// SCROLL: all rows read so far.
    kept: Vec<RecordBatch>,
    kept_rows: u64,
    kept_bytes: usize,
    /// The row the cursor stands on, from 1; 0 = before the first, one more than there are = after the last.
    position: u64,
}

impl Cursor {
    /// Called at the end of each transaction.
    pub fn outlives_transaction(&mut self, committed: bool) -> bool {
        self.committed |= committed;
        self.hold && self.committed
    }

    pub fn is_committed(&self) -> bool {
        self.committed
    }
}

/// What a FETCH amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Movement {
    /// The next n rows; `None` = all.
    Forward(Option<u64>),
    Backward(Option<u64>),
    /// The row the cursor stands on, again.
    Stay,
    /// One row by its number, from the start or (negative) from the end.
    Absolute(i64),
}

fn movement(direction: FetchDirection, position: u64) -> Movement {
    match direction {
        FetchDirection::Forward(0) | FetchDirection::Backward(0) | FetchDirection::Relative(0) => Movement::Stay,
        FetchDirection::Forward(n) if n > 0 => Movement::Forward(Some(n.unsigned_abs())),
        FetchDirection::Forward(n) => Movement::Backward(Some(n.unsigned_abs())),
        FetchDirection::Backward(n) if n > 0 => Movement::Backward(Some(n.unsigned_abs())),
        FetchDirection::Backward(n) => Movement::Forward(Some(n.unsigned_abs())),
        FetchDirection::ForwardAll => Movement::Forward(None),
        FetchDirection::BackwardAll => Movement::Backward(None),
        FetchDirection::First => Movement::Absolute(1),
        FetchDirection::Last => Movement::Absolute(-1),
        FetchDirection::Absolute(n) => Movement::Absolute(n),
        FetchDirection::Relative(1) => Movement::Forward(Some(1)),
        FetchDirection::Relative(-1) => Movement::Backward(Some(1)),
        FetchDirection::Relative(n) => {
            let target = i64::try_from(position).unwrap_or(i64::MAX).saturating_add(n);
            Movement::Absolute(target.max(0))
        }
    }
}

fn only_forward() -> Failure {
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "cursor can only scan forward")
        .hint("Declare it with SCROLL option to enable backward scan.")
        .into()
}

pub struct Declaration<'a> {
    pub name: &'a str,
    pub binary: bool,
    pub scroll: Option<bool>,
    pub hold: bool,
    pub query: &'a Parsed,
}

impl Session {
    pub(super) async fn declare(&mut self, declaration: Declaration<'_>) -> Result<()> {
        let Declaration { name, binary, scroll, hold, query } = declaration;
        if !hold && self.transaction.phase != Phase::Block && !self.transaction.several {
            self.check_inside_block("DECLARE CURSOR")?;
        }
        if self.cursors.contains_key(name) || self.portals.contains_key(name) {
            return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, format!("cursor \"{name}\" already exists")).into());
        }
        if !matches!(query.statement, Statement::Query(_)) {
            return Err(SqlError::unsupported("a cursor over anything but a query").into());
        }
        let prepared = self.prepare(Some(query.clone()), &[]).await?;
        let crate::session::statement::StatementKind::Planned(prepared) = prepared.kind else {
            return Err(SqlError::unsupported("a cursor over anything but a query").into());
        };
        if !prepared.parameters.is_empty() {
            return Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, "there is no parameter $1").into());
        }
        if prepared.live && scroll == Some(true) {
            return Err(SqlError::unsupported("a SCROLL cursor over a live query")
                .hint("Declare it without SCROLL; it reads forward.")
                .into());
        }
        let Outcome::Rows(execution) = self.execute_planned(&prepared, Vec::new()).await? else {
            return Err(SqlError::unsupported("a cursor over a statement without rows").into());
        };
        let (columns, live) = (execution.columns.clone(), execution.live);
        let rows = execution.start_sliced(CHUNKS_AHEAD, CHUNK_BYTES, |batch| Ok(batch.clone()));
        let cursor = Cursor {
            columns,
            depth: self.transaction.savepoints.len(),
            hold,
            binary,
            scroll: scroll == Some(true),
            committed: false,
            source: RowSource::running(rows, live),
            kept: Vec::new(),
            kept_rows: 0,
            kept_bytes: 0,
            position: 0,
        };
        self.cursors.insert(name.to_owned(), cursor);
        Ok(())
    }

    pub(super) fn find_cursor(&self, name: &str) -> Result<&Cursor> {
        self.cursors.get(name).ok_or_else(|| no_cursor(name))
    }

    /// The formats of a cursor's own rows.
    pub(super) fn cursor_formats(&self, name: &str) -> Result<Vec<i16>> {
        Ok(if self.find_cursor(name)?.binary { vec![1] } else { Vec::new() })
    }

    pub(super) fn close_cursor(&mut self, name: Option<&str>) -> Result<&'static str> {
        match name {
            None => {
                self.cursors.clear();
                Ok("CLOSE CURSOR ALL")
            }
            Some(name) => self.cursors.remove(name).map(|_| "CLOSE CURSOR").ok_or_else(|| no_cursor(name)),
        }
    }

    /// Sends the rows of a FETCH, at most `max` in this call. Gives their number and whether more of it are to come.
    pub(super) async fn fetch(
        &mut self,
        portal: &mut FetchPortal,
        formats: &[i16],
        max: Option<u64>,
    ) -> Result<(u64, bool)> {
        let fetch = portal.fetch.clone();
        let cursor = self.cursors.get(&fetch.cursor).ok_or_else(|| no_cursor(&fetch.cursor))?;
        let movement = movement(fetch.direction, cursor.position);
        let Movement::Forward(_) = movement else {
            return Ok((self.travel(&fetch, movement, Some(formats)).await?, false));
        };
        let want = match (portal.left, max) {
            (Some(left), Some(max)) => Some(left.min(max)),
            (left, max) => left.or(max),
        };
        let sent = self.travel(&fetch, Movement::Forward(want), Some(formats)).await?;
        portal.left = portal.left.map(|left| left - sent);
        // The next Execute goes on with the same FETCH, which has had its first row.
        portal.fetch.timeout = Some(std::time::Duration::ZERO);
        Ok((sent, max == Some(sent)))
    }

    /// MOVE. Gives the number of rows passed.
    pub(super) async fn move_cursor(&mut self, fetch: &Fetch) -> Result<u64> {
        let cursor = self.cursors.get(&fetch.cursor).ok_or_else(|| no_cursor(&fetch.cursor))?;
        let movement = movement(fetch.direction, cursor.position);
        self.travel(fetch, movement, None).await
    }

    /// Moves a cursor; with `formats`, the rows passed are sent.
    async fn travel(&mut self, fetch: &Fetch, movement: Movement, formats: Option<&[i16]>) -> Result<u64> {
        let mut cursor = self.cursors.remove(&fetch.cursor).ok_or_else(|| no_cursor(&fetch.cursor))?;
        let result = if cursor.scroll {
            self.scroll(&mut cursor, movement, formats).await.map(|rows| (rows, true))
        } else {
            self.advance(&mut cursor, fetch, movement, formats).await
        };
        match result {
            Ok((rows, _)) => {
                self.cursors.insert(fetch.cursor.clone(), cursor);
                Ok(rows)
            }
            Err(TravelError { failure, lost }) => {
                if !lost {
                    self.cursors.insert(fetch.cursor.clone(), cursor);
                }
                Err(failure)
            }
        }
    }

    /// A cursor that only goes forward.
    async fn advance(
        &mut self,
        cursor: &mut Cursor,
        fetch: &Fetch,
        movement: Movement,
        formats: Option<&[i16]>,
    ) -> std::result::Result<(u64, bool), TravelError> {
        let standing_on_row = cursor.position > 0 && !cursor.source.is_ended();
        let (skip, want) = match movement {
            Movement::Forward(want) => (0, want),
            Movement::Stay if cursor.source.live || !standing_on_row => return Ok((0, false)),
            Movement::Stay | Movement::Backward(_) => return Err(only_forward().into()),
            Movement::Absolute(row) => match u64::try_from(row) {
                Ok(row) if row > cursor.position && (row == cursor.position + 1 || !cursor.source.live) => {
                    (row - cursor.position - 1, Some(1))
                }
                _ => return Err(only_forward().into()),
            },
        };
        let mut taken = Taken::default();
        let result = self.take_forward(cursor, fetch, skip, want, formats, &mut taken).await;
        match result {
            Ok(rows) => Ok((rows, true)),
            Err(failure) => {
                let lost = taken.overflowed;
                cursor.position -= taken.rows;
                cursor.source.put_back(taken.batches);
                Err(TravelError { failure, lost })
            }
        }
    }

    async fn take_forward(
        &mut self,
        cursor: &mut Cursor,
        fetch: &Fetch,
        mut skip: u64,
        want: Option<u64>,
        formats: Option<&[i16]>,
        taken: &mut Taken,
    ) -> Result<u64> {
        let mut reading = Reading::new(self.engine().store().durable_stable(), fetch.timeout);
        let mut rows = 0;
        let replays = cursor.hold;
        while skip > 0 || want.is_none_or(|want| rows < want) {
            let limit = if skip > 0 { skip } else { want.map_or(u64::MAX, |want| want - rows) };
            let batch = if cursor.source.live {
                self.next_ready(&mut cursor.source, limit, &mut reading).await?
            } else {
                self.next_chunk(&mut cursor.source, limit).await?
            };
            let Some(batch) = batch else { break };
            let count = batch.rows() as u64;
            cursor.position += count;
            if replays {
                taken.keep(&batch);
            } else {
                taken.rows += count;
            }
            if skip > 0 {
                skip -= count;
                continue;
            }
            rows += count;
            if let Some(formats) = formats {
                self.put_batch(cursor, &batch, formats).await?;
            }
            if cursor.source.live && replays && taken.overflowed_soon() {
                break;
            }
        }
        Ok(rows)
    }

    async fn put_batch(&mut self, cursor: &Cursor, batch: &RecordBatch, formats: &[i16]) -> Result<()> {
        let style = self.style();
        let compute = self.engine().compute(usize::from(self.home.0)).clone();
        let encode = encoding::encode_once(batch.clone(), &cursor.columns, formats, &style, &compute);
        let encoded = self.interruptible(crate::session::interrupt::EndedBy::SignalsAndHangup, encode).await??;
        self.put_rows(&encoded).await
    }

    /// A cursor that keeps its rows and goes anywhere.
    async fn scroll(
        &mut self,
        cursor: &mut Cursor,
        movement: Movement,
        formats: Option<&[i16]>,
    ) -> std::result::Result<u64, TravelError> {
        let before = cursor.position;
        let moved = self.scroll_to(cursor, movement, formats).await;
        moved.map_err(|failure| {
            cursor.position = before;
            failure.into()
        })
    }

    async fn scroll_to(&mut self, cursor: &mut Cursor, movement: Movement, formats: Option<&[i16]>) -> Result<u64> {
        let from = cursor.position;
        // First row, number of rows, backwards?
        let (first, count, backwards) = match movement {
            Movement::Stay => {
                self.keep_until(cursor, from).await?;
                let on_row = from >= 1 && from <= cursor.kept_rows;
                (from, u64::from(on_row), false)
            }
            Movement::Forward(want) => {
                let end = want.map_or(u64::MAX, |want| from.saturating_add(want));
                self.keep_until(cursor, end).await?;
                let last = end.min(cursor.kept_rows);
                cursor.position = if end <= cursor.kept_rows { end } else { cursor.kept_rows + 1 };
                (from + 1, last.saturating_sub(from), false)
            }
            Movement::Backward(want) => {
                self.keep_until(cursor, from).await?;
                let top = from.saturating_sub(1).min(cursor.kept_rows);
                let count = want.map_or(top, |want| want.min(top));
                cursor.position = if want.is_some_and(|want| want <= top) { top + 1 - count } else { 0 };
                (top + 1 - count, count, true)
            }
            Movement::Absolute(row) if row >= 0 => {
                let row = row.unsigned_abs();
                self.keep_until(cursor, row).await?;
                let there = row >= 1 && row <= cursor.kept_rows;
                cursor.position = if there || row == 0 { row } else { cursor.kept_rows + 1 };
                (row, u64::from(there), false)
            }
            Movement::Absolute(from_end) => {
                self.keep_until(cursor, u64::MAX).await?;
                let row = (cursor.kept_rows + 1).saturating_sub(from_end.unsigned_abs());
                cursor.position = row;
                (row, u64::from(row >= 1), false)
            }
        };
        let Some(formats) = formats else { return Ok(count) };
        if count == 0 {
            return Ok(0);
        }
        let mut parts = cut(&cursor.kept, first - 1, count);
        if backwards {
            parts.reverse();
        }
        for part in parts {
            let part = if backwards { reversed(&part)? } else { part };
            self.put_batch(cursor, &part, formats).await?;
        }
        Ok(count)
    }

    /// Reads until `rows` rows are kept or there are no more.
    async fn keep_until(&mut self, cursor: &mut Cursor, rows: u64) -> Result<()> {
        while cursor.kept_rows < rows {
            let Some(batch) = self.next_chunk(&mut cursor.source, u64::MAX).await? else { break };
            cursor.kept_rows += batch.rows() as u64;
            cursor.kept_bytes += bytes_of(&batch);
            cursor.kept.push(batch);
            if cursor.kept_bytes > SCROLL_BYTES_MAX {
                return Err(SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory")
                    .detail(format!("A SCROLL cursor keeps at most {} MiB of rows.", SCROLL_BYTES_MAX >> 20))
                    .hint("Declare the cursor with NO SCROLL.")
                    .into());
            }
        }
        Ok(())
    }
}

struct TravelError {
    failure: Failure,
    /// Rows were passed that cannot come again.
    lost: bool,
}

impl From<Failure> for TravelError {
    fn from(failure: Failure) -> Self {
        Self { failure, lost: false }
    }
}

/// Rows a FETCH has taken from its cursor.
#[derive(Default)]
struct Taken {
    batches: Vec<RecordBatch>,
    rows: u64,
    bytes: usize,
    overflowed: bool,
}

impl Taken {
    fn keep(&mut self, batch: &RecordBatch) {
        self.rows += batch.num_rows() as u64;
        self.bytes += bytes_of(batch);
        if self.bytes > REPLAY_BYTES_MAX {
            self.overflowed = true;
            self.batches.clear();
        } else {
            self.batches.push(batch.clone());
        }
    }

    fn overflowed_soon(&self) -> bool {
        self.bytes + 2 * CHUNK_BYTES > REPLAY_BYTES_MAX
    }
}

fn bytes_of(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|c| c.to_data().get_slice_memory_size().unwrap_or(0)).sum()
}

/// Rows `first` (from 0) to `first + count`, in pieces.
fn cut(batches: &[RecordBatch], first: u64, count: u64) -> Vec<RecordBatch> {
    let (mut at, end) = (0, first + count);
    let mut parts = Vec::new();
    for batch in batches {
        let rows = batch.num_rows() as u64;
        let (from, until) = (first.clamp(at, at + rows), end.clamp(at, at + rows));
        if from < until {
            parts.push(batch.slice((from - at) as usize, (until - from) as usize));
        }
        at += rows;
    }
    parts
}

fn reversed(batch: &RecordBatch) -> std::result::Result<RecordBatch, SqlError> {
    let indices = UInt32Array::from_iter_values((0..batch.num_rows() as u32).rev());
    arrow::compute::take_record_batch(batch, &indices)
        .map_err(|e| SqlError::new(SqlState::INTERNAL_ERROR, e.to_string()))
}

fn no_cursor(name: &str) -> Failure {
    SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("cursor \"{name}\" does not exist")).into()
}
