//! The part of a session that other threads reach: SQL functions on compute threads, `pg_stat_activity`, cancel requests.
//! Its locks are held for a look-up or a change of one value.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use alluvium_exec::session_context::{Activity, SessionHost};
use alluvium_exec::{Engine, SqlError};
use alluvium_storage::base::clock;

use crate::access::Roles;
use crate::pgwire::tls::Tls;
use crate::session::interrupt::Interrupts;
use crate::session::notify::{Notification, Notifications};
use crate::session::registry::Registry;
use crate::session::variables::{Scope, Variables};

/// What all sessions of a node share.
pub struct Server {
    pub engine: Engine,
    pub sessions: Registry,
    pub notifications: Notifications,
    pub roles: Roles,
    pub tls: Option<Tls>,
}

pub struct SessionShared {
    pub pid: i32,
    pub cancel_key: u32,
    pub user: Arc<str>,
    pub database: Arc<str>,
    pub client: Option<SocketAddr>,
    pub started_us: i64,
    pub interrupts: Interrupts,
    pub server: Arc<Server>,
    variables: Mutex<Variables>,
    doing: Mutex<Doing>,
    /// NOTIFY of the running transaction.
    notifying: Mutex<Vec<Notification>>,
}

/// What `pg_stat_activity` tells.
#[derive(Clone, Debug)]
struct Doing {
    state: &'static str,
    query: Arc<str>,
    query_start_us: Option<i64>,
    transaction_start_us: Option<i64>,
}

/// Query texts are cut here, as `track_activity_query_size` does.
const QUERY_BYTES_SHOWN: usize = 1024;

impl SessionShared {
    pub fn new(
        pid: i32,
        server: Arc<Server>,
        user: &str,
        database: &str,
        client: Option<SocketAddr>,
        variables: Variables,
    ) -> Self {
        let random = uuid::Uuid::new_v4().into_bytes();
        Self {
            pid,
            cancel_key: u32::from_be_bytes([random[0], random[1], random[2], random[3]]) | 1,
            user: user.into(),
            database: database.into(),
            client,
            started_us: clock::now_us(),
            interrupts: Interrupts::default(),
            server,
            variables: Mutex::new(variables),
            doing: Mutex::new(Doing {
                state: "idle",
                query: "".into(),
                query_start_us: None,
                transaction_start_us: None,
            }),
            notifying: Mutex::default(),
        }
    }

    pub fn variables(&self) -> MutexGuard<'_, Variables> {
        self.variables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn doing(&self) -> MutexGuard<'_, Doing> {
        self.doing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn begin_query(&self, text: &str, at_us: i64) {
        let mut end = text.len().min(QUERY_BYTES_SHOWN);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut doing = self.doing();
        doing.state = "active";
        doing.query = text[..end].into();
        doing.query_start_us = Some(at_us);
    }

    pub fn begin_transaction(&self, at_us: Option<i64>) {
        self.doing().transaction_start_us = at_us;
    }

    pub fn rest(&self, state: &'static str) {
        self.doing().state = state;
    }

    pub fn is_idle(&self) -> bool {
        self.doing().state != "active"
    }

    pub fn as_activity(&self) -> Activity {
        let application_name = self.variables().known("application_name");
        let doing = self.doing().clone();
        Activity {
            pid: self.pid,
            user: self.user.to_string(),
            database: self.database.to_string(),
            application_name,
            client_address: self.client.map(|c| c.ip().to_string()),
            client_port: self.client.map_or(-1, |c| i32::from(c.port())),
            backend_start_us: self.started_us,
            transaction_start_us: doing.transaction_start_us,
            query_start_us: doing.query_start_us,
            state: doing.state,
            query: doing.query.to_string(),
        }
    }

    /// NOTIFY: said at commit, equal ones once.
    pub fn add_notification(&self, channel: &str, payload: &str) {
        let mut waiting = self.notifying();
        let notification = Notification { pid: self.pid, channel: channel.to_owned(), payload: payload.to_owned() };
        if !waiting.contains(&notification) {
            waiting.push(notification);
        }
    }

    pub fn notifying(&self) -> MutexGuard<'_, Vec<Notification>> {
        self.notifying.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionHost for SessionShared {
    fn setting(&self, name: &str) -> Option<String> {
        self.variables().get(name)
    }

    fn set(&self, name: &str, value: &str, local: bool) -> Result<String, SqlError> {
        self.variables().set(name, Some(value), if local { Scope::Local } else { Scope::Session })
    }

    fn settings(&self) -> Vec<(String, String, String)> {
        self.variables().all()
    }

    fn cancel_backend(&self, pid: i32) -> bool {
        self.server.sessions.find(pid).map(|s| s.interrupts.cancel()).is_some()
    }

    fn terminate_backend(&self, pid: i32) -> bool {
        self.server.sessions.find(pid).map(|s| s.interrupts.terminate()).is_some()
    }

    fn notify(&self, channel: &str, payload: &str) {
        self.add_notification(channel, payload);
    }

    fn activity(&self) -> Vec<Activity> {
        self.server.sessions.activity()
    }
}
