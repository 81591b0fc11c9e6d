//! The extended protocol: Parse, Bind, Describe, Execute, Close. Sync and what an error skips are the session's loop.

use std::sync::Arc;

use alluvium_exec::{SqlError, SqlState};
use pgwire::messages::data::{NoData, ParameterDescription};
use pgwire::messages::extendedquery::{
    Bind, BindComplete, Close, CloseComplete, Describe, Execute, Parse, ParseComplete, PortalSuspended,
};
use pgwire::messages::response::{CommandComplete, EmptyQueryResponse};

use alluvium_exec::sql::statement::{Fetch, FetchDirection};

use crate::pgwire::codec::violation;
use crate::session::encoding;
use crate::session::failure::Result;
use crate::session::interrupt::EndedBy;
use crate::session::portal::{FetchPortal, Portal, PortalState, Ran};
use crate::session::session::Session;
use crate::session::statement::{StatementKind, format_of, row_description};
use crate::session::transaction::{Phase, in_failed};

impl Session {
    pub(super) async fn parse(&mut self, parse: Parse) -> Result<()> {
        let name = parse.name.unwrap_or_default();
        if name.is_empty() {
            self.statements.remove("");
        } else if self.statements.contains_key(&name) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_PREPARED_STATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            )
            .into());
        }
        let engine = self.engine().clone();
        let mut statements = self.interruptible(EndedBy::Signals, engine.parse(&parse.query)).await??;
        if statements.len() > 1 {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "cannot insert multiple commands into a prepared statement",
            )
            .into());
        }
        let parsed = statements.pop();
        if let Some(parsed) = &parsed {
            self.check_not_failed(Some(&parsed.statement))?;
        }
        let statement = self.prepare(parsed, &parse.type_oids).await?;
        self.statements.insert(name, Arc::new(statement));
        self.output.put(&ParseComplete::new());
        Ok(())
    }

    pub(super) fn bind(&mut self, bind: Bind) -> Result<()> {
        let statement_name = bind.statement_name.unwrap_or_default();
        let statement = self.find_statement(&statement_name)?;
        let (given, wanted) = (bind.parameters.len(), statement.parameters.len());
        let formats = bind.parameter_format_codes;
        if formats.len() > 1 && formats.len() != given {
            return Err(violation(format!(
                "bind message has {} parameter formats but {given} parameters",
                formats.len()
            ))
            .into());
        }
        if given != wanted {
            return Err(violation(format!(
                "bind message supplies {given} parameters, but prepared statement \"{statement_name}\" requires {wanted}"
            ))
            .into());
        }
        self.check_not_failed(statement.statement())?;
        let portal_name = bind.portal_name.unwrap_or_default();
        if portal_name.is_empty() {
            self.portals.remove("");
        } else if self.portals.contains_key(&portal_name) || self.cursors.contains_key(&portal_name) {
            return Err(
                SqlError::new(SqlState::DUPLICATE_CURSOR, format!("cursor \"{portal_name}\" already exists")).into()
            );
        }
        let columns = self.columns_of(&statement)?.map_or(0, |c| c.len());
        let result_formats = bind.result_column_format_codes;
        if result_formats.len() > 1 && result_formats.len() != columns {
            return Err(violation(format!(
                "bind message has {} result formats but query has {columns} columns",
                result_formats.len()
            ))
            .into());
        }
        if let Some(bad) = formats.iter().chain(&result_formats).find(|f| !matches!(f, 0 | 1)) {
            return Err(
                SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("unsupported format code: {bad}")).into()
            );
        }
        let style = self.style();
        let parameters = bind
            .parameters
            .iter()
            .zip(&statement.parameters)
            .enumerate()
            .map(|(at, (value, pg_type))| {
                encoding::decode_parameter(*pg_type, format_of(&formats, at), value.as_deref(), &style)
            })
            .collect::<std::result::Result<_, SqlError>>()?;
        self.open_transaction();
        let portal = Portal { statement, parameters, formats: result_formats, state: PortalState::Ready };
        self.portals.insert(portal_name, portal);
        self.output.put(&BindComplete::new());
        Ok(())
    }

    pub(super) fn describe(&mut self, describe: Describe) -> Result<()> {
        let name = describe.name.unwrap_or_default();
        let (columns, formats) = if describe.target_type == b'S' {
            let statement = self.find_statement(&name)?;
            let columns = self.columns_of(&statement)?;
            if columns.is_some() && self.transaction.failed {
                return Err(in_failed());
            }
            let types = statement.parameters.iter().map(|p| p.oid).collect();
            self.output.put(&ParameterDescription::new(types));
            (columns, Vec::new())
        } else if let Some(portal) = self.portals.get(&name) {
            (self.columns_of(&portal.statement)?, portal.formats.clone())
        } else if self.cursors.contains_key(&name) {
            (Some(self.find_cursor(&name)?.columns.clone()), self.cursor_formats(&name)?)
        } else {
            return Err(no_portal(&name));
        };
        match columns {
            Some(columns) => self.output.put(&row_description(&columns, &formats)),
            None => self.output.put(&NoData::new()),
        }
        Ok(())
    }

    pub(super) async fn execute(&mut self, execute: Execute) -> Result<()> {
        let name = execute.name.unwrap_or_default();
        let max = u64::try_from(execute.max_rows).ok().filter(|max| *max > 0);
        let Some(mut portal) = self.portals.remove(&name) else {
            if self.cursors.contains_key(&name) {
                return self.execute_cursor(name, max).await;
            }
            return Err(no_portal(&name));
        };
        self.check_not_failed(portal.statement.statement())?;
        self.shared.begin_query(&portal.statement.text, self.statement_time_us);
        self.open_transaction();
        self.transaction.several = false;
        self.run_portal(&name, &mut portal, max).await?;
        // A COMMIT or ROLLBACK has closed its own portal.
        if self.transaction.phase != Phase::Idle {
            self.portals.insert(name, portal);
        }
        Ok(())
    }

    async fn run_portal(&mut self, name: &str, portal: &mut Portal, max: Option<u64>) -> Result<()> {
        if matches!(portal.statement.kind, StatementKind::Empty) {
            self.output.put(&EmptyQueryResponse::new());
            return Ok(());
        }
        let mut ran = match std::mem::replace(&mut portal.state, PortalState::Ended(false)) {
            PortalState::Ready => {
                let parameters = std::mem::take(&mut portal.parameters);
                let statement = portal.statement.clone();
                self.run_statement(&statement, parameters, &portal.formats).await?
            }
            PortalState::Running(ran) => ran,
            PortalState::Ended(true) => {
                portal.state = PortalState::Ended(true);
                self.output.put(&CommandComplete::new("SELECT 0".into()));
                return Ok(());
            }
            PortalState::Ended(false) => {
                return Err(SqlError::new(
                    SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                    format!("portal \"{name}\" cannot be run"),
                )
                .into());
            }
        };
        let (tag, suspended) = match &mut ran {
            Ran::Done(tag) => (std::mem::take(tag), false),
            Ran::Rows { rows, tag, .. } => {
                let tag = *tag;
                let (sent, suspended) = self.send_rows(rows, max).await?;
                (tag.text(sent), suspended)
            }
            Ran::Fetch(fetch) => {
                let (sent, suspended) = self.fetch(fetch, &portal.formats, max).await?;
                (format!("FETCH {sent}"), suspended)
            }
        };
        if suspended {
            portal.state = PortalState::Running(ran);
            self.output.put(&PortalSuspended::new());
        } else {
            let selects = matches!(&ran, Ran::Rows { .. }) && tag.starts_with("SELECT");
            portal.state = PortalState::Ended(selects);
            self.output.put(&CommandComplete::new(tag));
        }
        Ok(())
    }

    /// Execute of an SQL cursor by its name: a FETCH that says SELECT.
    async fn execute_cursor(&mut self, name: String, max: Option<u64>) -> Result<()> {
        self.check_not_failed(None)?;
        self.open_transaction();
        let formats = self.cursor_formats(&name)?;
        let fetch = Fetch { cursor: name, direction: FetchDirection::ForwardAll, timeout: None };
        let mut portal = FetchPortal { fetch, left: max };
        let (sent, _) = self.fetch(&mut portal, &formats, None).await?;
        if max == Some(sent) {
            self.output.put(&PortalSuspended::new());
        } else {
            self.output.put(&CommandComplete::new(format!("SELECT {sent}")));
        }
        Ok(())
    }

    pub(super) fn close(&mut self, close: Close) {
        let name = close.name.unwrap_or_default();
        if close.target_type == b'S' {
            self.statements.remove(&name);
        } else {
            self.portals.remove(&name);
            self.cursors.remove(&name);
        }
        self.output.put(&CloseComplete::new());
    }
}

fn no_portal(name: &str) -> crate::session::failure::Failure {
    SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("portal \"{name}\" does not exist")).into()
}
