//! The transaction of a session: none, implicit (a pipeline or a text of several statements), or a block.
//! Owns when it begins and ends, savepoints, and what ends with it: cursors, portals, SET LOCAL, notifications.

use alluvium_exec::sql::statement::{Isolation, SessionStatement, Statement, TransactionModes};
use alluvium_exec::{Block, SqlError, SqlState};
use alluvium_storage::base::clock;
use alluvium_storage::{Durability, SavepointId};

use crate::session::failure::{Failure, Result};
use crate::session::session::Session;
use crate::session::variables::Mark;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    #[default]
    Idle,
    /// Ends with the message (simple) or at Sync (extended).
    Implicit,
    /// After BEGIN.
    Block,
}

#[derive(Default)]
pub struct Transaction {
    pub phase: Phase,
    /// Only a rollback is possible.
    pub failed: bool,
    pub block: Option<Block>,
    pub savepoints: Vec<Savepoint>,
    pub started_us: Option<i64>,
    modes: Modes,
    /// A query has run, so the isolation level stands.
    queried: bool,
    /// Runs as one of several statements of a text, which PostgreSQL takes for a block where cursors are concerned.
    pub several: bool,
    /// LISTEN (true) and UNLISTEN of this transaction, in order; `None` = all channels.
    listening: Vec<(bool, Option<String>)>,
}

pub struct Savepoint {
    name: String,
    id: SavepointId,
    variables: Mark,
}

#[derive(Clone, Copy)]
struct Modes {
    isolation: Isolation,
    read_only: bool,
    deferrable: bool,
}

impl Default for Modes {
    fn default() -> Self {
        Self { isolation: Isolation::ReadCommitted, read_only: false, deferrable: false }
    }
}

impl Session {
    /// Makes sure that a transaction is open: an implicit one if none is.
    pub(super) fn open_transaction(&mut self) {
        if self.transaction.phase != Phase::Idle {
            return;
        }
        let variables = self.shared.variables();
        let modes = Modes {
            isolation: isolation_of(&variables.known("default_transaction_isolation")),
            read_only: variables.is_on("default_transaction_read_only"),
            deferrable: variables.is_on("default_transaction_deferrable"),
        };
        drop(variables);
        self.transaction = Transaction {
            phase: Phase::Implicit,
            started_us: Some(self.statement_time_us),
            modes,
            ..Transaction::default()
        };
        let mut block = self.engine().begin(&self.context());
        block.read_only = modes.read_only;
        self.transaction.block = Some(block);
        self.shared.begin_transaction(Some(self.statement_time_us));
    }

    /// The open block, with its snapshot chosen. For statements that read or write.
    pub(super) fn block_for_query(&mut self) -> Result<&mut Block> {
        self.open_transaction();
        let stable = self.engine().store().stable();
        self.transaction.queried = true;
        let modes = self.transaction.modes;
        let block = self.transaction.block.as_mut().ok_or_else(in_failed)?;
        block.read_only = modes.read_only;
        if modes.isolation == Isolation::RepeatableRead && block.snapshot.is_none() {
            block.snapshot = Some(stable);
        }
        Ok(block)
    }

    /// `25P02` for what a failed block does not take.
    pub(super) fn check_not_failed(&self, statement: Option<&Statement>) -> Result<()> {
        let ends = matches!(
            statement,
            Some(Statement::Session(
                SessionStatement::Commit { .. } | SessionStatement::Rollback { .. } | SessionStatement::RollbackTo(_)
            ))
        );
        if self.transaction.failed && !ends { Err(in_failed()) } else { Ok(()) }
    }

    /// `25006` for what a read-only block does not take.
    pub(super) fn check_writable(&self, what: &str) -> Result<()> {
        if self.transaction.phase != Phase::Idle && self.transaction.modes.read_only {
            return Err(SqlError::new(
                SqlState::READ_ONLY_SQL_TRANSACTION,
                format!("cannot execute {what} in a read-only transaction"),
            )
            .into());
        }
        Ok(())
    }

    /// `25001` for what must stand alone.
    pub(super) fn check_outside_block(&self, what: &str) -> Result<()> {
        if self.transaction.phase == Phase::Block {
            return Err(SqlError::new(
                SqlState::ACTIVE_SQL_TRANSACTION,
                format!("{what} cannot run inside a transaction block"),
            )
            .into());
        }
        Ok(())
    }

    /// `25P01` for what only a block gives a meaning.
    pub(super) fn check_inside_block(&self, what: &str) -> Result<()> {
        if self.transaction.phase != Phase::Block {
            return Err(SqlError::new(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                format!("{what} can only be used in transaction blocks"),
            )
            .into());
        }
        Ok(())
    }

    pub(super) fn begin_block(&mut self, modes: TransactionModes) -> Result<()> {
        self.open_transaction();
        if self.transaction.phase == Phase::Block {
            self.warn(SqlState::ACTIVE_SQL_TRANSACTION, "there is already a transaction in progress");
        }
        self.set_modes(modes)?;
        self.transaction.phase = Phase::Block;
        Ok(())
    }

    /// SET TRANSACTION and the modes of BEGIN.
    pub(super) fn set_modes(&mut self, modes: TransactionModes) -> Result<()> {
        if modes.isolation == Some(Isolation::Serializable) {
            return Err(SqlError::unsupported("isolation level serializable").hint("Use repeatable read.").into());
        }
        let transaction = &mut self.transaction;
        if let Some(isolation) = modes.isolation
            && isolation != transaction.modes.isolation
        {
            let late = |what| SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, what);
            if transaction.queried {
                return Err(late("SET TRANSACTION ISOLATION LEVEL must be called before any query").into());
            }
            if !transaction.savepoints.is_empty() {
                return Err(late("SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction").into());
            }
            transaction.modes.isolation = isolation;
        }
        if let Some(read_only) = modes.read_only {
            if !read_only && transaction.modes.read_only && transaction.queried {
                return Err(SqlError::new(
                    SqlState::ACTIVE_SQL_TRANSACTION,
                    "transaction read-write mode must be set before any query",
                )
                .into());
            }
            transaction.modes.read_only = read_only;
        }
        if let Some(deferrable) = modes.deferrable {
            transaction.modes.deferrable = deferrable;
        }
        Ok(())
    }

    /// SHOW of the settings that belong to the block.
    pub(super) fn transaction_setting(&self, name: &str) -> Option<String> {
        if self.transaction.phase == Phase::Idle {
            let default = match name {
                "transaction_isolation" => "default_transaction_isolation",
                "transaction_read_only" => "default_transaction_read_only",
                "transaction_deferrable" => "default_transaction_deferrable",
                _ => return None,
            };
            return self.shared.variables().get(default);
        }
        let on = |b: bool| if b { "on" } else { "off" }.to_owned();
        match name {
            "transaction_isolation" => Some(isolation_name(self.transaction.modes.isolation).to_owned()),
            "transaction_read_only" => Some(on(self.transaction.modes.read_only)),
            "transaction_deferrable" => Some(on(self.transaction.modes.deferrable)),
            _ => None,
        }
    }

    /// COMMIT. Gives the tag: a failed block rolls back.
    pub(super) async fn commit_block(&mut self, chain: bool) -> Result<&'static str> {
        if self.transaction.phase != Phase::Block {
            if chain {
                self.check_inside_block("COMMIT AND CHAIN")?;
            }
            self.warn(SqlState::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
        }
        let modes = self.transaction.modes;
        let tag = if self.transaction.failed {
            self.roll_back();
            "ROLLBACK"
        } else {
            self.commit().await?;
            "COMMIT"
        };
        self.chain(chain, modes);
        Ok(tag)
    }

    pub(super) fn rollback_block(&mut self, chain: bool) -> Result<()> {
        if self.transaction.phase != Phase::Block {
            if chain {
                self.check_inside_block("ROLLBACK AND CHAIN")?;
            }
            self.warn(SqlState::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
        }
        let modes = self.transaction.modes;
        self.roll_back();
        self.chain(chain, modes);
        Ok(())
    }

    fn chain(&mut self, chain: bool, modes: Modes) {
        if chain {
            self.statement_time_us = clock::now_us();
            self.open_transaction();
            self.transaction.phase = Phase::Block;
            self.transaction.modes = modes;
        }
    }

    /// The end of a message or of a pipeline: commits an implicit transaction.
    pub(super) async fn end_implicit(&mut self) -> Result<()> {
        if self.transaction.phase == Phase::Implicit {
            self.commit().await?;
        }
        Ok(())
    }

    /// Makes the open transaction true. The commit runs on a task of its own: a session that ends meanwhile cannot leave
    /// it half-awaited.
    async fn commit(&mut self) -> Result<()> {
        let Some(block) = self.transaction.block.take() else {
            self.roll_back();
            return Ok(());
        };
        let waiting = self.shared.notifying().clone();
        if let Err(error) = self.shared.server.notifications.check_room(&waiting) {
            drop(block);
            self.roll_back();
            return Err(error.into());
        }
        let off = self.shared.variables().known("synchronous_commit") == "off";
        let durability = if off { Durability::Async } else { Durability::Sync };
        let committed = tokio::task::spawn_local(block.commit(durability)).await;
        let committed = committed.unwrap_or_else(|_| Err(alluvium_storage::Error::Shutdown.into()));
        if let Err(error) = committed {
            self.roll_back();
            return Err(error.into());
        }
        self.shared.variables().commit();
        let (pid, hub) = (self.shared.pid, &self.shared.server.notifications);
        for (listen, channel) in self.transaction.listening.drain(..) {
            match channel {
                Some(channel) if listen => hub.listen(pid, &channel),
                channel => hub.unlisten(pid, channel.as_deref()),
            }
        }
        let notifications = std::mem::take(&mut *self.shared.notifying());
        self.shared.server.notifications.deliver(notifications);
        self.end_of_transaction(true);
        Ok(())
    }

    pub(super) fn roll_back(&mut self) {
        self.shared.variables().roll_back();
        self.shared.notifying().clear();
        self.end_of_transaction(false);
    }

    fn end_of_transaction(&mut self, committed: bool) {
        self.portals.clear();
        self.cursors.retain(|_, cursor| cursor.outlives_transaction(committed));
        self.transaction = Transaction::default();
        self.shared.begin_transaction(None);
    }

    /// After an error: an implicit transaction is gone, a block is failed.
    pub(super) async fn abort_statement(&mut self) {
        match self.transaction.phase {
            Phase::Idle => self.portals.clear(),
            Phase::Implicit => self.roll_back(),
            Phase::Block => {
                self.transaction.failed = true;
                self.portals.clear();
                if self.transaction.savepoints.is_empty() {
                    // Nothing of it can come back, so its rows need not wait for the client's ROLLBACK.
                    self.transaction.block = None;
                    self.cursors.retain(|_, cursor| cursor.outlives_transaction(false));
                }
            }
        }
    }

    pub(super) fn savepoint(&mut self, name: String) -> Result<()> {
        self.check_inside_block("SAVEPOINT")?;
        let variables = self.shared.variables().mark();
        let block = self.transaction.block.as_mut().ok_or_else(in_failed)?;
        let id = block.savepoint();
        self.transaction.savepoints.push(Savepoint { name, id, variables });
        Ok(())
    }

    pub(super) fn release(&mut self, name: &str) -> Result<()> {
        self.check_inside_block("RELEASE SAVEPOINT")?;
        let at = self.find_savepoint(name)?;
        self.transaction.savepoints.truncate(at);
        for cursor in self.cursors.values_mut() {
            cursor.depth = cursor.depth.min(at);
        }
        Ok(())
    }

    pub(super) async fn rollback_to(&mut self, name: &str) -> Result<()> {
        self.check_inside_block("ROLLBACK TO SAVEPOINT")?;
        let at = self.find_savepoint(name)?;
        let Savepoint { id, variables, .. } = self.transaction.savepoints[at];
        let block = self.transaction.block.as_mut().ok_or_else(in_failed)?;
        block.rollback_to(id).await?;
        // The savepoint itself stays, and can be rolled back to again.
        self.transaction.savepoints.truncate(at + 1);
        self.shared.variables().roll_back_to(variables);
        self.cursors.retain(|_, cursor| cursor.depth <= at || cursor.is_committed());
        self.transaction.failed = false;
        Ok(())
    }

    /// LISTEN and UNLISTEN take effect at commit.
    pub(super) fn change_listening(&mut self, listen: bool, channel: Option<String>) {
        self.open_transaction();
        self.transaction.listening.push((listen, channel));
    }

    fn find_savepoint(&self, name: &str) -> Result<usize> {
        self.transaction.savepoints.iter().rposition(|s| s.name == name).ok_or_else(|| {
            SqlError::new(SqlState::INVALID_SAVEPOINT, format!("savepoint \"{name}\" does not exist")).into()
        })
    }
}

pub fn in_failed() -> Failure {
    SqlError::new(
        SqlState::IN_FAILED_SQL_TRANSACTION,
        "current transaction is aborted, commands ignored until end of transaction block",
    )
    .into()
}

pub fn isolation_name(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::ReadUncommitted => "read uncommitted",
        Isolation::ReadCommitted => "read committed",
        Isolation::RepeatableRead => "repeatable read",
        Isolation::Serializable => "serializable",
    }
}

pub fn isolation_of(name: &str) -> Isolation {
    match name {
        "read uncommitted" => Isolation::ReadUncommitted,
        "repeatable read" => Isolation::RepeatableRead,
        "serializable" => Isolation::Serializable,
        _ => Isolation::ReadCommitted,
    }
}

/// The verb of a statement that writes, for `25006`. `None`: it only reads.
pub fn writing_verb(statement: &Statement) -> Option<&'static str> {
    match statement {
        Statement::Insert(_) => Some("INSERT"),
        Statement::Update(_) => Some("UPDATE"),
        Statement::Delete(_) => Some("DELETE"),
        Statement::Copy(copy) if copy.from => Some("COPY FROM"),
        Statement::Explain(explain) if explain.analyze => writing_verb(&explain.statement.statement),
        _ => None,
    }
}
