//! What may end a statement from outside: a cancel request, a termination, the client's departure, a deadline.
//! Set from any thread; waited for by the one session it belongs to.

use std::future::Future;
use std::sync::atomic::{AtomicU8, Ordering};

use alluvium_exec::{SqlError, SqlState};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::session::failure::Failure;

const ACTIVE: u8 = 1;
const CANCEL: u8 = 2;
const TERMINATE: u8 = 4;
const HANGUP: u8 = 8;

#[derive(Default)]
pub struct Interrupts {
    flags: AtomicU8,
    /// Keeps one permit, so a signal sent before the wait is not missed.
    notify: Notify,
}

/// Which interrupts end a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedBy {
    /// Work whose effect a client may rely on after it is gone (a pipelined INSERT, then Terminate).
    Signals,
    /// Work whose only effect is rows for this client.
    SignalsAndHangup,
}

impl Interrupts {
    /// Ends the running statement. Without one, nothing happens, now or later.
    pub fn cancel(&self) {
        let set = |flags: u8| (flags & ACTIVE != 0).then_some(flags | CANCEL);
        if self.flags.fetch_update(Ordering::AcqRel, Ordering::Acquire, set).is_ok() {
            self.notify.notify_one();
        }
    }

    /// Ends the session.
    pub fn terminate(&self) {
        self.flags.fetch_or(TERMINATE, Ordering::AcqRel);
        self.notify.notify_one();
    }

    /// The client has said Terminate or is gone; what it said before is still carried out.
    pub fn hang_up(&self) {
        self.flags.fetch_or(HANGUP, Ordering::AcqRel);
        self.notify.notify_one();
    }

    pub fn is_terminated(&self) -> bool {
        self.flags.load(Ordering::Acquire) & TERMINATE != 0
    }

    /// A statement begins: from now on a cancel concerns it.
    pub fn begin(&self) {
        let begun = |flags: u8| Some((flags | ACTIVE) & !CANCEL);
        let _ = self.flags.fetch_update(Ordering::AcqRel, Ordering::Acquire, begun);
    }

    pub fn end(&self) {
        self.flags.fetch_and(!(ACTIVE | CANCEL), Ordering::AcqRel);
    }

    /// What ends the work now.
    pub fn pending(&self, by: EndedBy) -> Option<Failure> {
        let flags = self.flags.load(Ordering::Acquire);
        if flags & TERMINATE != 0 {
            return Some(Failure::Fatal(terminated()));
        }
        if flags & HANGUP != 0 && by == EndedBy::SignalsAndHangup {
            return Some(Failure::Gone);
        }
        if flags & CANCEL != 0 {
            self.flags.fetch_and(!CANCEL, Ordering::AcqRel);
            return Some(canceled("user request").into());
        }
        None
    }

    pub async fn wait(&self, by: EndedBy) -> Failure {
        loop {
            if let Some(failure) = self.pending(by) {
                return failure;
            }
            self.notify.notified().await;
        }
    }

    /// Runs `work` until it ends or is ended.
    pub async fn run<T>(
        &self,
        by: EndedBy,
        deadline: Option<Instant>,
        work: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        tokio::select! {
            biased;
            failure = self.wait(by) => Err(failure),
            () = at(deadline) => Err(canceled("statement timeout").into()),
            result = work => Ok(result),
        }
    }
}

/// Resolves at the deadline; never without one.
pub async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

pub fn canceled(why: &str) -> SqlError {
    SqlError::new(SqlState::QUERY_CANCELED, format!("canceling statement due to {why}"))
}

pub fn terminated() -> SqlError {
    SqlError::new(SqlState::ADMIN_SHUTDOWN, "terminating connection due to administrator command")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancel_concerns_the_running_statement_alone() {
        let interrupts = Interrupts::default();
        interrupts.cancel();
        interrupts.begin();
        assert!(interrupts.pending(EndedBy::Signals).is_none(), "an idle cancel has no effect later");
        interrupts.cancel();
        assert!(matches!(interrupts.pending(EndedBy::Signals), Some(Failure::Error(_))));
        assert!(interrupts.pending(EndedBy::Signals).is_none(), "it is said once");
        interrupts.cancel();
        interrupts.end();
        interrupts.begin();
        assert!(interrupts.pending(EndedBy::Signals).is_none(), "the next statement is not concerned");
    }

    #[test]
    fn a_client_that_left_ends_rows_but_no_work() {
        let interrupts = Interrupts::default();
        interrupts.begin();
        interrupts.hang_up();
        assert!(interrupts.pending(EndedBy::Signals).is_none());
        assert!(matches!(interrupts.pending(EndedBy::SignalsAndHangup), Some(Failure::Gone)));
        interrupts.terminate();
        assert!(matches!(interrupts.pending(EndedBy::Signals), Some(Failure::Fatal(_))));
    }
}
