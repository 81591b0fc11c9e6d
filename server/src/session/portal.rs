//! Portals: a statement with its parameters, run in pieces. And the sending of rows, in the one place that knows when to
//! flush, when to wait and what ends it.

use std::sync::Arc;
use std::time::Duration;

use alluvium_exec::sql::statement::{Fetch, FetchDirection, Statement};
use alluvium_exec::{ColumnDescription, Outcome, Prepared, Tag};
use alluvium_storage::CommitTimestamp;
use arrow::array::ArrayRef;
use tokio::time::Instant;

use crate::pgwire::error_response::Severity;
use crate::session::encoding;
use crate::session::failure::Result;
use crate::session::interrupt::{EndedBy, at, canceled};
use crate::session::row_source::{CHUNK_BYTES, CHUNKS_AHEAD, Chunk, EncodedRows, RowSource};
use crate::session::session::Session;
use crate::session::statement::{PreparedStatement, StatementKind};
use crate::session::transaction::writing_verb;

/// A bounded result that pauses shorter than this is not worth a packet of its own.
const BOUNDED_PAUSE: Duration = Duration::from_millis(2);

pub struct Portal {
    pub statement: Arc<PreparedStatement>,
    pub parameters: Vec<ArrayRef>,
    pub formats: Vec<i16>,
    pub state: PortalState,
}

pub enum PortalState {
    Ready,
    Running(Ran),
    /// Ran to its end; `true`: it returned rows, so running it again gives none.
    Ended(bool),
}

/// What running a statement has come to.
pub enum Ran {
    /// Nothing is left to do but to say the tag.
    Done(String),
    Rows {
        columns: Arc<[ColumnDescription]>,
        rows: RowSource<EncodedRows>,
        tag: RowsTag,
    },
    /// A FETCH, taken from its cursor row by row as the client asks.
    Fetch(FetchPortal),
}

pub struct FetchPortal {
    pub fetch: Fetch,
    /// Rows of a forward FETCH still to come; `None` = all. A portal with a row limit takes it in pieces.
    pub left: Option<u64>,
}

impl FetchPortal {
    pub fn new(fetch: Fetch) -> Self {
        let left = match fetch.direction {
            FetchDirection::Forward(n) => u64::try_from(n).ok(),
            FetchDirection::Backward(n) if n < 0 => Some(n.unsigned_abs()),
            FetchDirection::Relative(1) => Some(1),
            _ => None,
        };
        Self { fetch, left }
    }
}

#[derive(Clone, Copy)]
pub enum RowsTag {
    /// The engine's: `SELECT n` counts the rows of this Execute, `INSERT 0 n` does not.
    Engine(Tag),
    Text(&'static str),
}

impl RowsTag {
    pub fn text(self, rows: u64) -> String {
        match self {
            RowsTag::Engine(tag) => tag_text(tag, rows),
            RowsTag::Text(text) => text.to_owned(),
        }
    }
}

pub fn tag_text(tag: Tag, rows: u64) -> String {
    match tag {
        Tag::Select => format!("SELECT {rows}"),
        Tag::Selected(count) => format!("SELECT {count}"),
        Tag::Insert(count) => format!("INSERT 0 {count}"),
        Tag::Text(text) => text.to_owned(),
    }
}

/// How far a FETCH or a row-limited Execute of a live query has come.
pub struct Reading {
    /// What was committed up to here is ready.
    at: CommitTimestamp,
    got: u64,
    /// Ends the wait for a first row.
    deadline: Option<Instant>,
    /// `timeout = '0 s'`: what is ready, without waiting for more.
    never_waits: bool,
}

impl Reading {
    pub fn new(at: CommitTimestamp, timeout: Option<Duration>) -> Self {
        let deadline = timeout.map(|t| alluvium_storage::base::clock::monotonic() + t);
        Self { at, got: 0, deadline, never_waits: timeout == Some(Duration::ZERO) }
    }
}

impl Session {
    /// Runs a statement as far as its first row.
    pub(super) async fn run_statement(
        &mut self,
        statement: &Arc<PreparedStatement>,
        parameters: Vec<ArrayRef>,
        formats: &[i16],
    ) -> Result<Ran> {
        if let Some(verb) = statement.statement().and_then(writing_verb) {
            self.open_transaction();
            self.check_writable(verb)?;
        }
        match &statement.kind {
            StatementKind::Empty => Ok(Ran::Done(String::new())),
            StatementKind::Planned(prepared) => self.run_planned(prepared, parameters, formats).await,
            StatementKind::Session(parsed) => {
                let parsed = parsed.clone();
                self.run_session_statement(&parsed, formats).await
            }
            StatementKind::Copy(parsed) => {
                let parsed = parsed.clone();
                self.run_copy(&parsed).await.map(|rows| Ran::Done(format!("COPY {rows}")))
            }
        }
    }

    async fn run_planned(&mut self, prepared: &Prepared, parameters: Vec<ArrayRef>, formats: &[i16]) -> Result<Ran> {
        match self.execute_planned(prepared, parameters).await? {
            Outcome::Done(tag) => Ok(Ran::Done(tag_text(tag, 0))),
            Outcome::Rows(execution) => {
                let columns = execution.columns.clone();
                let (tag, live) = (execution.tag, execution.live);
                let encode = encoding::encoder(&columns, formats, &self.style())?;
                let rows = execution.start_sliced(CHUNKS_AHEAD, CHUNK_BYTES, encode);
                Ok(Ran::Rows { columns, rows: RowSource::running(rows, live), tag: RowsTag::Engine(tag) })
            }
        }
    }

    /// Hands a planned statement to the engine, in the open block.
    pub(super) async fn execute_planned(&mut self, prepared: &Prepared, parameters: Vec<ArrayRef>) -> Result<Outcome> {
        let by = match prepared.statement.statement {
            Statement::Query(_) | Statement::Explain(_) => EndedBy::SignalsAndHangup,
            _ => EndedBy::Signals,
        };
        let (shared, deadline) = (self.shared.clone(), self.deadline);
        let engine = self.engine().clone();
        self.open_transaction();
        let context = self.context();
        let block = self.block_for_query()?;
        let outcome = shared.interrupts.run(by, deadline, engine.execute(prepared, parameters, &context, block)).await;
        self.put_notices();
        Ok(outcome??)
    }

    /// What statements of the block had to say beside their results.
    fn put_notices(&mut self) {
        let Some(block) = &mut self.transaction.block else { return };
        for (severity, notice) in block.notices.take() {
            let severity = match severity {
                alluvium_exec::ddl::Severity::Notice => Severity::Notice,
                alluvium_exec::ddl::Severity::Warning => Severity::Warning,
            };
            self.notice(severity, &notice);
        }
    }

    /// Sends rows as they come, at most `max`. Gives their number, and whether the portal is suspended: the limit was
    /// reached, or a live query with a limit has nothing more to say now.
    pub(super) async fn send_rows(
        &mut self,
        rows: &mut RowSource<EncodedRows>,
        max: Option<u64>,
    ) -> Result<(u64, bool)> {
        if let (true, Some(max)) = (rows.live, max) {
            return self.send_ready(rows, max).await;
        }
        let mut sent = 0;
        loop {
            let want = max.map_or(u64::MAX, |max| max - sent);
            if want == 0 {
                return Ok((sent, true));
            }
            let Some(chunk) = self.next_chunk(rows, want).await? else { return Ok((sent, false)) };
            sent += chunk.rows() as u64;
            self.put_rows(&chunk).await?;
        }
    }

    /// At least one row, and what is ready with it.
    async fn send_ready(&mut self, rows: &mut RowSource<EncodedRows>, max: u64) -> Result<(u64, bool)> {
        let mut reading = Reading::new(self.engine().store().durable_stable(), None);
        let mut sent = 0;
        while sent < max {
            let Some(chunk) = self.next_ready(rows, max - sent, &mut reading).await? else { break };
            sent += chunk.rows() as u64;
            self.put_rows(&chunk).await?;
        }
        Ok((sent, sent == max || !rows.is_ended()))
    }

    pub(super) async fn put_rows(&mut self, chunk: &EncodedRows) -> Result<()> {
        self.output.put_encoded(&chunk.bytes);
        if self.output.is_full() {
            let (shared, deadline) = (self.shared.clone(), self.deadline);
            shared.interrupts.run(EndedBy::SignalsAndHangup, deadline, self.output.flush()).await??;
        }
        Ok(())
    }

    /// The next rows of a result; what was sent before leaves while they are waited for.
    pub(super) async fn next_chunk<T: Chunk>(&mut self, rows: &mut RowSource<T>, want: u64) -> Result<Option<T>> {
        let want = usize::try_from(want).unwrap_or(usize::MAX);
        let shared = self.shared.clone();
        loop {
            let pause = pause(!self.output.is_empty(), rows.live);
            tokio::select! {
                biased;
                failure = shared.interrupts.wait(EndedBy::SignalsAndHangup) => return Err(failure),
                () = at(self.deadline) => return Err(canceled("statement timeout").into()),
                chunk = rows.next(want) => return Ok(chunk?),
                () = pause => {}
            }
            // The query goes on in its channel while this waits for the client.
            shared.interrupts.run(EndedBy::SignalsAndHangup, self.deadline, self.output.flush()).await??;
        }
    }

    /// The next rows of a live query that are ready; waits for them only while there was none. `None`: that was all.
    pub(super) async fn next_ready<T: Chunk>(
        &mut self,
        rows: &mut RowSource<T>,
        want: u64,
        reading: &mut Reading,
    ) -> Result<Option<T>> {
        let want = usize::try_from(want).unwrap_or(usize::MAX);
        let shared = self.shared.clone();
        let catch_up_deadline = reading.deadline.filter(|_| !reading.never_waits);
        let ready = tokio::select! {
            biased;
            failure = shared.interrupts.wait(EndedBy::SignalsAndHangup) => return Err(failure),
            () = at(self.deadline) => return Err(canceled("statement timeout").into()),
            chunk = rows.next_until(want, reading.at) => chunk?,
            () = at(catch_up_deadline) => return Ok(None),
        };
        if let Some(chunk) = ready {
            reading.got += chunk.rows() as u64;
            return Ok(Some(chunk));
        }
        if reading.got > 0 || reading.never_waits || rows.is_ended() {
            return Ok(None);
        }
        self.flush().await?;
        let chunk = tokio::select! {
            biased;
            failure = shared.interrupts.wait(EndedBy::SignalsAndHangup) => return Err(failure),
            () = at(self.deadline) => return Err(canceled("statement timeout").into()),
            chunk = rows.next(want) => chunk?,
            () = at(reading.deadline) => return Ok(None),
        };
        if let Some(chunk) = &chunk {
            // What was committed with that row comes along.
            reading.at = self.engine().store().durable_stable();
            reading.got += chunk.rows() as u64;
        }
        Ok(chunk)
    }
}

async fn pause(has_output: bool, live: bool) {
    match (has_output, live) {
        (false, _) => std::future::pending().await,
        (true, true) => {}
        (true, false) => tokio::time::sleep(BOUNDED_PAUSE).await,
    }
}
