//! The simple protocol: a text of statements, one implicit transaction around them, results in text.

use std::sync::Arc;

use alluvium_exec::{SqlError, SqlState};
use pgwire::messages::response::{CommandComplete, EmptyQueryResponse};

use crate::session::failure::Result;
use crate::session::interrupt::EndedBy;
use crate::session::portal::Ran;
use crate::session::session::Session;
use crate::session::statement::row_description;
use crate::session::transaction::Phase;

impl Session {
    pub(super) async fn simple_query(&mut self, text: &str) -> Result<()> {
        self.statements.remove("");
        self.portals.remove("");
        let engine = self.engine().clone();
        let statements = self.interruptible(EndedBy::Signals, engine.parse(text)).await??;
        if statements.is_empty() {
            self.output.put(&EmptyQueryResponse::new());
        }
        let several = statements.len() > 1;
        let last = statements.len().wrapping_sub(1);
        for (at, parsed) in statements.into_iter().enumerate() {
            self.check_not_failed(Some(&parsed.statement))?;
            if at > 0 {
                self.restart_deadline();
            }
            self.open_transaction();
            self.transaction.several = several;
            let statement = Arc::new(self.prepare(Some(parsed), &[]).await?);
            if !statement.parameters.is_empty() {
                return Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, "there is no parameter $1").into());
            }
            let tag = match self.run_statement(&statement, Vec::new(), &[]).await? {
                Ran::Done(tag) => tag,
                Ran::Rows { columns, mut rows, tag } => {
                    self.output.put(&row_description(&columns, &[]));
                    let (sent, _) = self.send_rows(&mut rows, None).await?;
                    tag.text(sent)
                }
                Ran::Fetch(mut fetch) => {
                    let formats = self.cursor_formats(&fetch.fetch.cursor)?;
                    let columns = self.find_cursor(&fetch.fetch.cursor)?.columns.clone();
                    self.output.put(&row_description(&columns, &formats));
                    let (sent, _) = self.fetch(&mut fetch, &formats, None).await?;
                    format!("FETCH {sent}")
                }
            };
            // Acknowledged only once it is true.
            if at == last && self.transaction.phase == Phase::Implicit {
                self.end_implicit().await?;
            }
            self.output.put(&CommandComplete::new(tag));
        }
        Ok(())
    }
}
