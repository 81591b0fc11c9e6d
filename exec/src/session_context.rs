//! What a statement may know of its session: an immutable copy made per statement, plus a way back to the live session.

use std::sync::Arc;

use alluvium_storage::ShardId;

use crate::sql::error::Result;

#[derive(Clone)]
pub struct SessionContext {
    pub user: Arc<str>,
    pub database: Arc<str>,
    /// As set, `"$user"` not yet resolved.
    pub search_path: Arc<[String]>,
    /// IANA name.
    pub timezone: Arc<str>,
    /// `now()`: microseconds since the Unix epoch.
    pub transaction_time_us: i64,
    /// `statement_timestamp()`.
    pub statement_time_us: i64,
    pub backend_pid: i32,
    /// The session's own core.
    pub home: ShardId,
    pub host: Arc<dyn SessionHost>,
}

/// The parts of a session and of the server that SQL functions reach. Implemented by `server`; callable from any thread.
pub trait SessionHost: Send + Sync {
    /// A setting's current value as text (`current_setting`, SHOW); `None` = unknown name.
    fn setting(&self, name: &str) -> Option<String>;
    /// `set_config`; `local` = until the end of the transaction.
    fn set(&self, name: &str, value: &str, local: bool) -> Result<String>;
    /// All settings: name, value, description (`pg_settings`).
    fn settings(&self) -> Vec<(String, String, String)>;
    /// `pg_cancel_backend`, `pg_terminate_backend`: false = no such session.
    fn cancel_backend(&self, pid: i32) -> bool;
    fn terminate_backend(&self, pid: i32) -> bool;
    /// `pg_notify`, at commit.
    fn notify(&self, channel: &str, payload: &str);
    /// `pg_stat_activity`.
    fn activity(&self) -> Vec<Activity>;
}

#[derive(Clone, Debug)]
pub struct Activity {
    pub pid: i32,
    pub user: String,
    pub database: String,
    pub application_name: String,
    pub client_address: Option<String>,
    pub client_port: i32,
    pub backend_start_us: i64,
    pub transaction_start_us: Option<i64>,
    pub query_start_us: Option<i64>,
    /// `active`, `idle`, `idle in transaction`, `idle in transaction (aborted)`.
    pub state: &'static str,
    pub query: String,
}
