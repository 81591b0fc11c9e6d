//! One session: reads messages, keeps order, says ReadyForQuery.
//! Owns the loop and what all statements need (context, deadline, notices); what a message means is in
//! `simple_query` and `extended_query`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use alluvium_exec::{SessionContext, SqlError, SqlState};
use alluvium_storage::ShardId;
use alluvium_storage::base::clock;
use pgwire::messages::response::{NotificationResponse, ReadyForQuery, TransactionStatus};
use pgwire::messages::startup::{BackendKeyData, ParameterStatus, SecretKey};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::pgwire::codec::{self, Frame, Frontend, violation};
use crate::pgwire::error_response::{Severity, error_response, notice_response};
use crate::pgwire::input::Input;
use crate::pgwire::output::Output;
use crate::session::cursor::Cursor;
use crate::session::failure::{Failure, Result};
use crate::session::interrupt::{EndedBy, at, terminated};
use crate::session::notify::Notification;
use crate::session::portal::Portal;
use crate::session::shared::SessionShared;
use crate::session::statement::PreparedStatement;
use crate::session::transaction::{Phase, Transaction};

/// How long the last words to a client may take.
const FAREWELL: Duration = Duration::from_secs(1);

pub struct Session {
    pub(super) shared: Arc<SessionShared>,
    pub(super) home: ShardId,
    pub(super) input: Input,
    pub(super) output: Output,
    pub(super) transaction: Transaction,
    /// By name; the unnamed one has the empty name.
    pub(super) statements: HashMap<String, Arc<PreparedStatement>>,
    /// Portals of the extended protocol, by name.
    pub(super) portals: HashMap<String, Portal>,
    /// SQL cursors. The names of both are one space.
    pub(super) cursors: HashMap<String, Cursor>,
    /// Of the running statement.
    pub(super) deadline: Option<Instant>,
    pub(super) statement_time_us: i64,
    /// After an error of the extended protocol.
    skip_until_sync: bool,
    notifications: mpsc::Receiver<Notification>,
    /// What the client was told last, and the version of the settings it was taken from.
    reported: Vec<(&'static str, String)>,
    reported_version: u64,
    timezone: Arc<str>,
}

impl Session {
    pub fn new(shared: Arc<SessionShared>, home: ShardId, input: Input, output: Output) -> Self {
        let notifications = shared.server.notifications.join(shared.pid);
        Self {
            shared,
            home,
            input,
            output,
            transaction: Transaction::default(),
            statements: HashMap::new(),
            portals: HashMap::new(),
            cursors: HashMap::new(),
            deadline: None,
            statement_time_us: clock::now_us(),
            skip_until_sync: false,
            notifications,
            reported: Vec::new(),
            reported_version: 0,
            timezone: "UTC".into(),
        }
    }

    /// Runs until the client leaves or is sent away. Whatever is open then is rolled back.
    pub async fn run(mut self) {
        let ended = self.converse().await;
        if let Err(Failure::Fatal(error)) = ended {
            self.output.put(&error_response(Severity::Fatal, &error));
            let _ = tokio::time::timeout(FAREWELL, self.output.flush()).await;
        }
        self.cursors.clear();
        self.portals.clear();
        self.shared.notifying().clear();
        drop(self.transaction);
        self.shared.server.notifications.leave(self.shared.pid);
        self.shared.server.sessions.leave(self.shared.pid);
        let _ = tokio::time::timeout(FAREWELL, self.output.shutdown()).await;
    }

    async fn converse(&mut self) -> Result<()> {
        let key = SecretKey::I32(self.shared.cancel_key as i32);
        self.report_settings();
        self.output.put(&BackendKeyData::new(self.shared.pid, key));
        self.ready().await?;
        loop {
            let Some(frame) = self.next_frame().await? else { return Ok(()) };
            if self.skip_until_sync && !matches!(frame.kind, b'S' | b'X') {
                continue;
            }
            let extended = matches!(frame.kind, b'P' | b'B' | b'D' | b'E' | b'C' | b'H');
            let done = match codec::decode(frame) {
                Ok(Frontend::Terminate) => return Ok(()),
                Ok(message) => self.handle(message).await,
                Err(error) => Err(error.into()),
            };
            self.shared.interrupts.end();
            match done {
                Ok(()) => {}
                Err(Failure::Error(error)) => {
                    self.fail(&error).await;
                    self.skip_until_sync = extended;
                    if !extended {
                        self.ready().await?;
                    }
                }
                Err(other) => return Err(other),
            }
        }
    }

    async fn handle(&mut self, message: Frontend) -> Result<()> {
        match message {
            Frontend::Query(text) => {
                self.begin_statement(Some(&text));
                self.simple_query(&text).await?;
                self.shared.interrupts.end();
                self.ready().await
            }
            Frontend::Parse(parse) => {
                self.begin_statement(Some(&parse.query));
                self.parse(parse).await
            }
            Frontend::Bind(bind) => {
                self.begin_statement(None);
                self.bind(bind)
            }
            Frontend::Describe(describe) => self.describe(describe),
            Frontend::Execute(execute) => {
                self.begin_statement(None);
                self.execute(execute).await
            }
            Frontend::Close(close) => {
                self.close(close);
                Ok(())
            }
            Frontend::Flush => self.flush().await,
            Frontend::Sync => {
                self.skip_until_sync = false;
                if let Err(failure) = self.end_implicit().await {
                    match failure {
                        Failure::Error(error) => self.fail(&error).await,
                        other => return Err(other),
                    }
                }
                self.ready().await
            }
            Frontend::FunctionCall => Err(SqlError::unsupported("a function call by protocol message")
                .hint("Call the function with SELECT.")
                .into()),
            // Left over from a COPY that has ended with an error.
            Frontend::CopyData(_) | Frontend::CopyDone | Frontend::CopyFail(_) => Ok(()),
            Frontend::Terminate => Ok(()),
            Frontend::Password(_) => Err(Failure::Fatal(violation("unexpected password message"))),
        }
    }

    /// The next message. Meanwhile: notifications, idle timeouts, termination. `None`: the client is gone.
    async fn next_frame(&mut self) -> Result<Option<Frame>> {
        if let Some(ready) = self.input.try_next() {
            if self.shared.interrupts.is_terminated() {
                return Err(Failure::Fatal(terminated()));
            }
            return ready.map(Some).map_err(Failure::Fatal);
        }
        let idle_since = clock::monotonic();
        loop {
            if self.shared.server.sessions.is_stopping() && self.transaction.phase != Phase::Implicit {
                return Err(Failure::Fatal(terminated()));
            }
            let (timeout, error) = self.idle_timeout();
            tokio::select! {
                biased;
                failure = self.shared.interrupts.wait(EndedBy::Signals) => return Err(failure),
                frame = self.input.next() => return frame.transpose().map_err(Failure::Fatal),
                Some(notification) = self.notifications.recv(), if self.transaction.phase == Phase::Idle => {
                    self.put_notification(notification);
                    self.put_notifications();
                    self.flush().await?;
                }
                () = at(timeout.map(|t| idle_since + t)) => return Err(Failure::Fatal(error)),
            }
        }
    }

    fn idle_timeout(&self) -> (Option<Duration>, SqlError) {
        let variables = self.shared.variables();
        match self.transaction.phase {
            Phase::Idle => (
                variables.timeout("idle_session_timeout"),
                SqlError::new(SqlState("57P05"), "terminating connection due to idle-session timeout"),
            ),
            Phase::Block => (
                variables.timeout("idle_in_transaction_session_timeout"),
                SqlError::new(SqlState("25P03"), "terminating connection due to idle-in-transaction timeout"),
            ),
            Phase::Implicit => (None, terminated()),
        }
    }

    /// From here on cancel and statement_timeout concern what runs.
    pub(super) fn begin_statement(&mut self, text: Option<&str>) {
        self.shared.interrupts.begin();
        self.statement_time_us = clock::now_us();
        self.restart_deadline();
        if let Some(text) = text {
            self.shared.begin_query(text, self.statement_time_us);
        }
    }

    /// Each statement of a text has the whole timeout.
    pub(super) fn restart_deadline(&mut self) {
        let timeout = self.shared.variables().timeout("statement_timeout");
        self.deadline = timeout.map(|t| clock::monotonic() + t);
    }

    /// Tells an error and leaves the transaction as PostgreSQL would.
    async fn fail(&mut self, error: &SqlError) {
        tracing::debug!(pid = self.shared.pid, state = error.state().0, %error, "statement failed");
        self.output.put(&error_response(Severity::Error, error));
        self.abort_statement().await;
    }

    pub(super) fn notice(&mut self, severity: Severity, notice: &SqlError) {
        let wanted = match self.shared.variables().known("client_min_messages").as_str() {
            "error" => Severity::Error,
            "warning" => Severity::Warning,
            "notice" => Severity::Notice,
            "log" | "info" => Severity::Log,
            _ => Severity::Debug,
        };
        // INFO is always told.
        if severity >= wanted || severity == Severity::Info {
            self.output.put(&notice_response(severity, notice));
        }
    }

    pub(super) fn warn(&mut self, state: SqlState, message: &str) {
        self.notice(Severity::Warning, &SqlError::new(state, message));
    }

    async fn ready(&mut self) -> Result<()> {
        self.report_settings();
        if self.transaction.phase == Phase::Idle {
            self.put_notifications();
        }
        let (status, state) = match (self.transaction.phase, self.transaction.failed) {
            (Phase::Block, true) => (TransactionStatus::Error, "idle in transaction (aborted)"),
            (Phase::Block, false) => (TransactionStatus::Transaction, "idle in transaction"),
            _ => (TransactionStatus::Idle, "idle"),
        };
        self.output.put(&ReadyForQuery::new(status));
        self.shared.rest(state);
        self.flush().await
    }

    /// Settings that changed since they were last told.
    fn report_settings(&mut self) {
        let variables = self.shared.variables();
        if variables.version() == self.reported_version {
            return;
        }
        self.reported_version = variables.version();
        let now: Vec<_> = variables.reported().collect();
        self.timezone = variables.known("TimeZone").into();
        drop(variables);
        for (at, (name, value)) in now.iter().enumerate() {
            if self.reported.get(at).is_none_or(|(_, told)| told != value) {
                self.output.put(&ParameterStatus::new((*name).to_owned(), value.clone()));
            }
        }
        self.reported = now;
    }

    fn put_notifications(&mut self) {
        while let Ok(notification) = self.notifications.try_recv() {
            self.put_notification(notification);
        }
    }

    fn put_notification(&mut self, n: Notification) {
        self.output.put(&NotificationResponse::new(n.pid, n.channel, n.payload));
    }

    /// Writes everything out; a client that does not read can still be cancelled or sent away.
    pub(super) async fn flush(&mut self) -> Result<()> {
        if self.output.is_empty() {
            return Ok(());
        }
        let flushed = self.shared.interrupts.run(EndedBy::Signals, self.deadline, self.output.flush()).await;
        Ok(flushed??)
    }

    /// What a statement may know of the session.
    pub(super) fn context(&self) -> SessionContext {
        let variables = self.shared.variables();
        let timezone = variables.known("TimeZone");
        SessionContext {
            user: self.shared.user.clone(),
            database: self.shared.database.clone(),
            search_path: variables.search_path(),
            timezone: if timezone == *self.timezone { self.timezone.clone() } else { timezone.into() },
            transaction_time_us: self.transaction.started_us.unwrap_or(self.statement_time_us),
            statement_time_us: self.statement_time_us,
            backend_pid: self.shared.pid,
            home: self.home,
            host: self.shared.clone(),
        }
    }

    pub(super) fn engine(&self) -> &alluvium_exec::Engine {
        &self.shared.server.engine
    }

    /// Runs a part of a statement that cancel, timeout and (for rows) the client's departure may end.
    pub(super) async fn interruptible<T>(&self, by: EndedBy, work: impl Future<Output = T>) -> Result<T> {
        self.shared.interrupts.run(by, self.deadline, work).await
    }
}
