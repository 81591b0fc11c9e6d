//! COPY in a session.

use alluvium_exec::SqlError;
use alluvium_exec::sql::statement::Parsed;

use crate::session::failure::Result;
use crate::session::session::Session;

impl Session {
    pub(super) async fn run_copy(&mut self, _parsed: &Parsed) -> Result<u64> {
        Err(SqlError::unsupported("COPY").into())
    }
}
