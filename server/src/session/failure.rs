//! How a message ends badly, by what the session does next.

use alluvium_exec::SqlError;

#[derive(Debug)]
pub enum Failure {
    /// Told to the client; the session goes on.
    Error(SqlError),
    /// Told to the client; the session ends.
    Fatal(SqlError),
    /// Nobody is there to be told.
    Gone,
}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Self {
        Failure::Error(error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(_: std::io::Error) -> Self {
        Failure::Gone
    }
}

pub type Result<T> = std::result::Result<T, Failure>;
