//! What a statement has to tell beside its result: NOTICE and WARNING, sent before CommandComplete.

use crate::sql::error::{SqlError, SqlState};

/// One statement says no more than this; the rest is counted.
const NOTICES_MAX: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Notice,
    Warning,
}

/// Collected in a block; the session takes them after each statement, failed ones included.
#[derive(Debug, Default)]
pub struct Notices {
    kept: Vec<(Severity, SqlError)>,
    left_out: usize,
}

impl Notices {
    pub fn notice(&mut self, message: impl Into<String>) {
        self.push(Severity::Notice, SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message));
    }

    pub fn warning(&mut self, message: impl Into<String>) {
        self.push(Severity::Warning, SqlError::new(SqlState::WARNING, message));
    }

    pub fn push(&mut self, severity: Severity, notice: SqlError) {
        if self.kept.len() < NOTICES_MAX {
            self.kept.push((severity, notice));
        } else {
            self.left_out += 1;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// All of them, in order; none are left.
    pub fn take(&mut self) -> Vec<(Severity, SqlError)> {
        let mut all = std::mem::take(&mut self.kept);
        let left_out = std::mem::take(&mut self.left_out);
        if left_out > 0 {
            let more = SqlError::new(SqlState::SUCCESSFUL_COMPLETION, format!("{left_out} more notices are not shown"));
            all.push((Severity::Notice, more));
        }
        all
    }
}
