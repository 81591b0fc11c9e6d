//! The sessions of the node, by process id: cancel, terminate, count, activity.
//! Reached from every shard and from SQL functions, so it keeps a lock, held for a look-up only.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use alluvium_exec::session_context::Activity;
use alluvium_exec::{SqlError, SqlState};
use tokio::sync::Notify;

use crate::session::shared::SessionShared;

pub struct Registry {
    sessions: Mutex<State>,
    max_connections: usize,
    stopping: AtomicBool,
    /// Signalled when a session has left.
    left: Notify,
}

#[derive(Default)]
struct State {
    by_pid: BTreeMap<i32, Arc<SessionShared>>,
    next_pid: i32,
}

impl Registry {
    pub fn new(max_connections: usize) -> Self {
        let state = State { by_pid: BTreeMap::new(), next_pid: 1 };
        Self { sessions: Mutex::new(state), max_connections, stopping: AtomicBool::new(false), left: Notify::new() }
    }

    /// Adds a session, made with its process id. `53300` beyond the limit, `57P03` while the server stops.
    pub fn join(
        &self,
        make: impl FnOnce(i32) -> Result<SessionShared, SqlError>,
    ) -> Result<Arc<SessionShared>, SqlError> {
        let mut state = self.state();
        if self.stopping.load(Ordering::Acquire) {
            return Err(SqlError::new(SqlState::CANNOT_CONNECT_NOW, "the database system is shutting down"));
        }
        if state.by_pid.len() >= self.max_connections {
            return Err(SqlError::new(SqlState::TOO_MANY_CONNECTIONS, "sorry, too many clients already"));
        }
        while state.by_pid.contains_key(&state.next_pid) || state.next_pid <= 0 {
            state.next_pid = state.next_pid.checked_add(1).unwrap_or(1);
        }
        let pid = state.next_pid;
        state.next_pid = pid.checked_add(1).unwrap_or(1);
        let session = Arc::new(make(pid)?);
        state.by_pid.insert(pid, session.clone());
        Ok(session)
    }

    pub fn leave(&self, pid: i32) {
        self.state().by_pid.remove(&pid);
        self.left.notify_waiters();
    }

    /// A CancelRequest: a wrong key is ignored.
    pub fn cancel_by_key(&self, pid: i32, key: &[u8]) {
        if let Some(session) = self.find(pid) {
            let right = session.cancel_key.to_be_bytes();
            // Every byte is looked at, so that the time taken does not tell how many are right.
            let differing = right.iter().zip(key).fold(0, |sum, (a, b)| sum | (a ^ b));
            if key.len() == right.len() && differing == 0 {
                session.interrupts.cancel();
            }
        }
    }

    pub fn find(&self, pid: i32) -> Option<Arc<SessionShared>> {
        self.state().by_pid.get(&pid).cloned()
    }

    pub fn count(&self) -> usize {
        self.state().by_pid.len()
    }

    pub fn activity(&self) -> Vec<Activity> {
        let sessions: Vec<_> = self.state().by_pid.values().cloned().collect();
        sessions.iter().map(|s| s.as_activity()).collect()
    }

    /// No session joins from now on; idle ones end.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        let sessions: Vec<_> = self.state().by_pid.values().cloned().collect();
        for session in sessions.iter().filter(|s| s.is_idle()) {
            session.interrupts.terminate();
        }
    }

    /// A session that has become idle asks whether to end.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub fn terminate_all(&self) {
        let sessions: Vec<_> = self.state().by_pid.values().cloned().collect();
        sessions.iter().for_each(|s| s.interrupts.terminate());
    }

    /// Resolves when no session is left.
    pub async fn emptied(&self) {
        loop {
            let left = self.left.notified();
            tokio::pin!(left);
            left.as_mut().enable();
            if self.count() == 0 {
                return;
            }
            left.await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
