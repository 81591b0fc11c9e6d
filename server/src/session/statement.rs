//! Prepared statements: a text with its meaning, until DEALLOCATE, Close or DISCARD.

use std::sync::Arc;

use alluvium_exec::planning::types::{PgType, oid, type_info};
use alluvium_exec::sql::statement::{Parsed, SessionStatement, Statement};
use alluvium_exec::{ColumnDescription, Prepared, SqlError, SqlState};
use pgwire::messages::data::{FieldDescription, RowDescription};

use crate::session::failure::Result;
use crate::session::interrupt::EndedBy;
use crate::session::session::Session;

pub struct PreparedStatement {
    pub kind: StatementKind,
    pub text: Arc<str>,
    pub parameters: Vec<PgType>,
}

pub enum StatementKind {
    /// `''` or `;`.
    Empty,
    Planned(Prepared),
    Session(Arc<Parsed>),
    Copy(Arc<Parsed>),
}

impl PreparedStatement {
    pub fn parsed(&self) -> Option<&Parsed> {
        match &self.kind {
            StatementKind::Empty => None,
            StatementKind::Planned(prepared) => Some(&prepared.statement),
            StatementKind::Session(parsed) | StatementKind::Copy(parsed) => Some(parsed),
        }
    }

    pub fn statement(&self) -> Option<&Statement> {
        self.parsed().map(|p| &p.statement)
    }
}

impl Session {
    /// Resolves one parsed statement (`None` = empty text).
    pub(super) async fn prepare(&mut self, parsed: Option<Parsed>, types: &[u32]) -> Result<PreparedStatement> {
        let make = |kind, text, parameters| PreparedStatement { kind, text, parameters };
        let Some(parsed) = parsed else { return Ok(make(StatementKind::Empty, "".into(), Vec::new())) };
        let parsed = Arc::new(parsed);
        let text = parsed.text.clone();
        match parsed.statement {
            Statement::Session(_) => Ok(make(StatementKind::Session(parsed), text, Vec::new())),
            Statement::Copy(_) => Ok(make(StatementKind::Copy(parsed), text, Vec::new())),
            _ => {
                self.open_transaction();
                let context = self.context();
                let block = self.transaction.block.as_ref();
                let prepared = self
                    .interruptible(EndedBy::Signals, self.engine().prepare(parsed, types, &context, block))
                    .await??;
                let parameters = prepared.parameters.clone();
                Ok(make(StatementKind::Planned(prepared), text, parameters))
            }
        }
    }

    pub(super) fn find_statement(&self, name: &str) -> Result<Arc<PreparedStatement>> {
        self.statements.get(name).cloned().ok_or_else(|| {
            let message = if name.is_empty() {
                "unnamed prepared statement does not exist".to_owned()
            } else {
                format!("prepared statement \"{name}\" does not exist")
            };
            SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, message).into()
        })
    }

    /// The columns a statement would return if it ran now. `None`: no rows.
    pub(super) fn columns_of(&self, statement: &PreparedStatement) -> Result<Option<Arc<[ColumnDescription]>>> {
        match &statement.kind {
            StatementKind::Empty | StatementKind::Copy(_) => Ok(None),
            StatementKind::Planned(prepared) => Ok(prepared.columns.clone()),
            StatementKind::Session(parsed) => match &parsed.statement {
                Statement::Session(SessionStatement::Show(name)) => Ok(Some(self.show_columns(name.as_deref())?)),
                Statement::Session(SessionStatement::Fetch(fetch)) => {
                    Ok(Some(self.find_cursor(&fetch.cursor)?.columns.clone()))
                }
                Statement::Session(SessionStatement::Execute { name, .. }) => {
                    let inner = self.find_statement(name)?;
                    self.columns_of(&inner)
                }
                _ => Ok(None),
            },
        }
    }
}

pub fn text_column(name: &str) -> ColumnDescription {
    ColumnDescription { name: name.to_owned(), pg_type: PgType::of(oid::TEXT), table_oid: 0, attribute: 0 }
}

/// `formats` as a Bind says them: none = text, one = all, else one a column.
pub fn format_of(formats: &[i16], column: usize) -> i16 {
    match formats {
        [] => 0,
        [one] => *one,
        many => many.get(column).copied().unwrap_or(0),
    }
}

pub fn row_description(columns: &[ColumnDescription], formats: &[i16]) -> RowDescription {
    let fields = columns.iter().enumerate().map(|(at, column)| {
        // Arrays and types we only pass through have variable length.
        let length = type_info(column.pg_type.oid).map_or(-1, |info| info.length);
        FieldDescription::new(
            column.name.clone(),
            column.table_oid as i32,
            column.attribute,
            column.pg_type.oid,
            length,
            column.pg_type.modifier,
            format_of(formats, at),
        )
    });
    RowDescription::new(fields.collect())
}
