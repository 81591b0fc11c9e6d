//! LISTEN and NOTIFY over all sessions of the node.
//! Owns who listens to what. A listener that does not read has a bounded queue; when it is full, NOTIFY fails, as
//! PostgreSQL's does. Reached from every shard, so it keeps a lock, held for a look-up only.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use alluvium_exec::{SqlError, SqlState};
use tokio::sync::mpsc;

/// What may wait for one listener.
const WAITING_MAX: usize = 16_384;
/// As PostgreSQL: a payload fits a page.
pub const PAYLOAD_BYTES_MAX: usize = 7_999;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    pub pid: i32,
    pub channel: String,
    pub payload: String,
}

#[derive(Default)]
pub struct Notifications {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    listeners: BTreeMap<i32, mpsc::Sender<Notification>>,
    channels: BTreeMap<String, BTreeSet<i32>>,
}

impl Notifications {
    /// A session's queue, from its start to [`Notifications::leave`].
    pub fn join(&self, pid: i32) -> mpsc::Receiver<Notification> {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        self.state().listeners.insert(pid, sender);
        receiver
    }

    pub fn leave(&self, pid: i32) {
        let mut state = self.state();
        state.listeners.remove(&pid);
        state.unlisten(pid, None);
    }

    pub fn listen(&self, pid: i32, channel: &str) {
        self.state().channels.entry(channel.to_owned()).or_default().insert(pid);
    }

    /// `None` = all channels.
    pub fn unlisten(&self, pid: i32, channel: Option<&str>) {
        self.state().unlisten(pid, channel);
    }

    /// `pg_listening_channels()`.
    pub fn channels(&self, pid: i32) -> Vec<String> {
        let state = self.state();
        state.channels.iter().filter(|(_, pids)| pids.contains(&pid)).map(|(c, _)| c.clone()).collect()
    }

    /// Asked before a commit, so that a full queue fails the transaction and not its listeners.
    pub fn check_room(&self, wanted: &[Notification]) -> Result<(), SqlError> {
        let state = self.state();
        for (pid, sender) in &state.listeners {
            let concerned = |n: &&Notification| state.channels.get(&n.channel).is_some_and(|pids| pids.contains(pid));
            if sender.capacity() < wanted.iter().filter(concerned).count() {
                return Err(SqlError::new(
                    SqlState::STATEMENT_TOO_COMPLEX,
                    "too many notifications in the NOTIFY queue",
                )
                .detail(format!("The server process with PID {pid} does not read its notifications.")));
            }
        }
        Ok(())
    }

    /// Hands committed notifications over.
    pub fn deliver(&self, notifications: Vec<Notification>) {
        let state = self.state();
        for notification in notifications {
            for pid in state.channels.get(&notification.channel).into_iter().flatten() {
                if let Some(listener) = state.listeners.get(pid)
                    && let Err(mpsc::error::TrySendError::Full(lost)) = listener.try_send(notification.clone())
                {
                    // Others took the room between the check and the commit.
                    tracing::warn!(pid, channel = lost.channel, "a notification was lost: the listener does not read");
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn unlisten(&mut self, pid: i32, channel: Option<&str>) {
        self.channels.retain(|name, pids| {
            if channel.is_none_or(|c| c == name) {
                pids.remove(&pid);
            }
            !pids.is_empty()
        });
    }
}
