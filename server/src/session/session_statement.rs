//! Statements said to the session itself: transactions, settings, prepared statements, cursors, channels.

use std::sync::Arc;

use alluvium_exec::planning::types::{format_type, from_sql};
use alluvium_exec::sql::statement::{
    Discard, Isolation, Parsed, SessionStatement, SetScope, SetValue, Statement, TransactionModes,
};
use alluvium_exec::{ColumnDescription, Outcome, SqlError, SqlState};
use arrow::array::{ArrayRef, RecordBatch};

use crate::session::cursor::Declaration;
use crate::session::failure::Result;
use crate::session::interrupt::EndedBy;
use crate::session::notify::PAYLOAD_BYTES_MAX;
use crate::session::portal::{FetchPortal, Ran, RowsTag};
use crate::session::row_source::{EncodedRows, RowSource};
use crate::session::session::Session;
use crate::session::statement::{PreparedStatement, StatementKind, text_column};
use crate::session::transaction::{isolation_name, isolation_of};
use crate::session::variables::{self, Scope, table, value};

const IDENTIFIER_BYTES_MAX: usize = 63;

impl Session {
    pub(super) async fn run_session_statement(&mut self, parsed: &Parsed, formats: &[i16]) -> Result<Ran> {
        let Statement::Session(statement) = &parsed.statement else {
            return Err(SqlError::unsupported("this statement").into());
        };
        let tag = match statement {
            SessionStatement::Begin { modes } => {
                self.begin_block(*modes)?;
                let start = parsed.text.trim_start().get(..5).is_some_and(|w| w.eq_ignore_ascii_case("start"));
                if start { "START TRANSACTION" } else { "BEGIN" }
            }
            SessionStatement::Commit { chain } => self.commit_block(*chain).await?,
            SessionStatement::Rollback { chain } => {
                self.rollback_block(*chain)?;
                "ROLLBACK"
            }
            SessionStatement::Savepoint(name) => {
                self.savepoint(name.clone())?;
                "SAVEPOINT"
            }
            SessionStatement::Release(name) => {
                self.release(name)?;
                "RELEASE"
            }
            SessionStatement::RollbackTo(name) => {
                self.rollback_to(name).await?;
                "ROLLBACK"
            }
            SessionStatement::Set { scope, name, value } => {
                self.set(*scope, name, value)?;
                "SET"
            }
            SessionStatement::SetTransaction { session: false, modes } => {
                if self.transaction.phase != crate::session::transaction::Phase::Block && !self.transaction.several {
                    self.warn(
                        SqlState::NO_ACTIVE_SQL_TRANSACTION,
                        "SET TRANSACTION can only be used in transaction blocks",
                    );
                }
                self.set_modes(*modes)?;
                "SET"
            }
            SessionStatement::SetTransaction { session: true, modes } => {
                self.set_characteristics(*modes)?;
                "SET"
            }
            SessionStatement::Show(name) => return self.show(name.as_deref()),
            SessionStatement::Reset(name) => {
                match name {
                    Some(name) => self.shared.variables().reset(name)?,
                    None => self.shared.variables().reset_all(),
                }
                "RESET"
            }
            SessionStatement::Discard(what) => self.discard(*what)?,
            SessionStatement::Prepare { name, parameter_types, statement } => {
                let types = parameter_types.iter().map(from_sql).collect::<std::result::Result<Vec<_>, _>>()?;
                let types: Vec<u32> = types.iter().map(|t| t.oid).collect();
                self.prepare_by_name(name, (**statement).clone(), &types, &parsed.text).await?;
                "PREPARE"
            }
            SessionStatement::Execute { name, arguments } => {
                let statement = self.find_statement(name)?;
                let parameters = self.evaluate(name, &statement, arguments).await?;
                return Box::pin(self.run_statement(&statement, parameters, formats)).await;
            }
            SessionStatement::Deallocate(name) => match name {
                None => {
                    self.statements.clear();
                    "DEALLOCATE ALL"
                }
                Some(name) => {
                    self.find_statement(name)?;
                    self.statements.remove(name);
                    "DEALLOCATE"
                }
            },
            SessionStatement::Declare { name, binary, scroll, hold, query } => {
                let declaration = Declaration { name, binary: *binary, scroll: *scroll, hold: *hold, query };
                self.declare(declaration).await?;
                "DECLARE CURSOR"
            }
            SessionStatement::Fetch(fetch) => {
                self.find_cursor(&fetch.cursor)?;
                return Ok(Ran::Fetch(FetchPortal::new(fetch.clone())));
            }
            SessionStatement::Move(fetch) => {
                let rows = self.move_cursor(fetch).await?;
                return Ok(Ran::Done(format!("MOVE {rows}")));
            }
            SessionStatement::Close(name) => self.close_cursor(name.as_deref())?,
            SessionStatement::Listen(channel) => {
                self.check_channel(channel)?;
                self.check_no_relation(channel)?;
                self.change_listening(true, Some(channel.clone()));
                "LISTEN"
            }
            SessionStatement::Unlisten(channel) => {
                self.change_listening(false, channel.clone());
                "UNLISTEN"
            }
            SessionStatement::Notify { channel, payload } => {
                self.check_channel(channel)?;
                if payload.len() > PAYLOAD_BYTES_MAX {
                    return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "payload string too long").into());
                }
                self.shared.add_notification(channel, payload);
                "NOTIFY"
            }
            // Every acknowledged commit is on the device already.
            SessionStatement::Checkpoint => "CHECKPOINT",
        };
        Ok(Ran::Done(tag.to_owned()))
    }

    fn set(&mut self, scope: SetScope, name: &str, value: &SetValue) -> Result<()> {
        if scope == SetScope::Local
            && self.transaction.phase != crate::session::transaction::Phase::Block
            && !self.transaction.several
        {
            self.warn(SqlState::NO_ACTIVE_SQL_TRANSACTION, "SET LOCAL can only be used in transaction blocks");
        }
        let text = match value {
            SetValue::Default => None,
            SetValue::Values(values) => Some(variables::join_values(name, values)?),
        };
        let lower = name.to_ascii_lowercase();
        match lower.as_str() {
            "transaction_isolation" | "transaction_read_only" | "transaction_deferrable" => {
                return self.set_transaction_setting(&lower, text.as_deref());
            }
            "role" | "session_authorization" => {
                let role = text.as_deref().unwrap_or("none");
                if !matches!(role, "none" | "default") && !self.shared.server.roles.exists(role) {
                    return Err(SqlError::new(
                        SqlState::INVALID_PARAMETER_VALUE,
                        format!("role \"{role}\" does not exist"),
                    )
                    .into());
                }
                if lower == "session_authorization" {
                    return Ok(());
                }
            }
            _ => {}
        }
        let scope = if scope == SetScope::Local { Scope::Local } else { Scope::Session };
        self.shared.variables().set(name, text.as_deref(), scope)?;
        Ok(())
    }

    /// `SET transaction_isolation = …`, the other spelling of SET TRANSACTION.
    fn set_transaction_setting(&mut self, name: &str, text: Option<&str>) -> Result<()> {
        let default = format!("default_{name}");
        let text = text.map(str::to_owned).or_else(|| self.shared.variables().get(&default)).unwrap_or_default();
        let definition = table::find(name).ok_or_else(|| variables::unrecognized(name))?;
        let normal = value::normalize(definition.name, definition.kind, &text, definition.default)?;
        let mut modes = TransactionModes::default();
        match name {
            "transaction_isolation" => modes.isolation = Some(isolation_of(&normal)),
            "transaction_read_only" => modes.read_only = Some(normal == "on"),
            _ => modes.deferrable = Some(normal == "on"),
        }
        self.set_modes(modes)
    }

    fn set_characteristics(&mut self, modes: TransactionModes) -> Result<()> {
        let on = |b: bool| if b { "on" } else { "off" };
        let mut variables = self.shared.variables();
        if let Some(isolation) = modes.isolation {
            let isolation = if isolation == Isolation::ReadUncommitted { Isolation::ReadCommitted } else { isolation };
            variables.set("default_transaction_isolation", Some(isolation_name(isolation)), Scope::Session)?;
        }
        if let Some(read_only) = modes.read_only {
            variables.set("default_transaction_read_only", Some(on(read_only)), Scope::Session)?;
        }
        if let Some(deferrable) = modes.deferrable {
            variables.set("default_transaction_deferrable", Some(on(deferrable)), Scope::Session)?;
        }
        Ok(())
    }

    pub(super) fn show_columns(&self, name: Option<&str>) -> Result<Arc<[ColumnDescription]>> {
        let Some(name) = name else {
            return Ok(Arc::from([text_column("name"), text_column("setting"), text_column("description")]));
        };
        let known = table::find(name).map(|d| d.name.to_owned());
        let shown = known.or_else(|| self.shared.variables().get(name).map(|_| name.to_ascii_lowercase()));
        let shown = shown.ok_or_else(|| variables::unrecognized(name))?;
        Ok(Arc::from([text_column(&shown)]))
    }

    fn show(&mut self, name: Option<&str>) -> Result<Ran> {
        let columns = self.show_columns(name)?;
        let rows: Vec<Vec<Option<String>>> = match name {
            Some(_) => {
                let name = columns[0].name.as_str();
                let value = self.transaction_setting(name).or_else(|| self.shared.variables().get(name));
                vec![vec![value]]
            }
            None => {
                let mut all = self.shared.variables().all();
                for (name, value, _) in &mut all {
                    if let Some(current) = self.transaction_setting(name) {
                        *value = current;
                    }
                }
                all.into_iter().map(|(n, v, d)| vec![Some(n), Some(v), Some(d)]).collect()
            }
        };
        let rows = RowSource::of(EncodedRows::of_text(&rows));
        Ok(Ran::Rows { columns, rows, tag: RowsTag::Text("SHOW") })
    }

    fn discard(&mut self, what: Discard) -> Result<&'static str> {
        match what {
            Discard::All => {
                self.check_outside_block("DISCARD ALL")?;
                self.cursors.clear();
                self.statements.clear();
                self.change_listening(false, None);
                self.shared.variables().reset_all();
                Ok("DISCARD ALL")
            }
            Discard::Plans => Ok("DISCARD PLANS"),
            Discard::Sequences => Ok("DISCARD SEQUENCES"),
            Discard::Temp => Ok("DISCARD TEMP"),
        }
    }

    async fn prepare_by_name(&mut self, name: &str, statement: Parsed, types: &[u32], text: &Arc<str>) -> Result<()> {
        if self.statements.contains_key(name) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_PREPARED_STATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            )
            .into());
        }
        let prepared = self.prepare(Some(statement), types).await?;
        let prepared = PreparedStatement { text: text.clone(), ..prepared };
        self.statements.insert(name.to_owned(), Arc::new(prepared));
        Ok(())
    }

    /// The arguments of EXECUTE, each of its parameter's type: one row that the engine computes.
    async fn evaluate(
        &mut self,
        name: &str,
        statement: &PreparedStatement,
        arguments: &[impl std::fmt::Display],
    ) -> Result<Vec<ArrayRef>> {
        let (given, wanted) = (arguments.len(), statement.parameters.len());
        if given != wanted {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("wrong number of parameters for prepared statement \"{name}\""),
            )
            .detail(format!("Expected {wanted} parameters but got {given}."))
            .into());
        }
        if given == 0 {
            return Ok(Vec::new());
        }
        let items: Vec<String> = arguments
            .iter()
            .zip(&statement.parameters)
            .map(|(argument, t)| format!("CAST(({argument}) AS {})", format_type(*t)))
            .collect();
        let text = format!("SELECT {}", items.join(", "));
        let engine = self.engine().clone();
        let parsed = self.interruptible(EndedBy::Signals, engine.parse(&text)).await??.pop();
        let StatementKind::Planned(prepared) = self.prepare(parsed, &[]).await?.kind else {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "arguments of EXECUTE are no query").into());
        };
        let Outcome::Rows(execution) = self.execute_planned(&prepared, Vec::new()).await? else {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "arguments of EXECUTE gave no row").into());
        };
        let mut rows = execution.start(1, |batch: &RecordBatch| Ok(batch.clone()));
        while let Some(batch) = self.interruptible(EndedBy::Signals, rows.next()).await? {
            let batch = batch?;
            if batch.num_rows() > 0 {
                return Ok(batch.slice(0, 1).columns().to_vec());
            }
        }
        Err(SqlError::new(SqlState::INTERNAL_ERROR, "arguments of EXECUTE gave no row").into())
    }

    fn check_channel(&self, channel: &str) -> Result<()> {
        let invalid = |message| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).into());
        if channel.is_empty() {
            return invalid("channel name cannot be empty");
        }
        if channel.len() > IDENTIFIER_BYTES_MAX {
            return invalid("channel name too long");
        }
        Ok(())
    }

    /// A relation's name is kept for notifications of its changes.
    fn check_no_relation(&self, channel: &str) -> Result<()> {
        let catalog = self.engine().store().catalog();
        let path = self.shared.variables().search_path();
        let found = path.iter().any(|schema| {
            catalog.schema_by_name(schema).is_some_and(|s| catalog.relation_by_name(s.id, channel).is_some())
        });
        if found {
            return Err(SqlError::unsupported(format!("LISTEN on the relation \"{channel}\""))
                .hint(format!(
                    "Read its changes with SELECT … FROM {channel} EMIT CHANGES, or use another channel name."
                ))
                .into());
        }
        Ok(())
    }
}
