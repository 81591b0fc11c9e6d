//! Errors and notices as messages: all fields PostgreSQL sends.

use alluvium_exec::SqlError;
use pgwire::messages::response::{ErrorResponse, NoticeResponse};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Debug,
    Log,
    Info,
    Notice,
    Warning,
    Error,
    Fatal,
}

impl Severity {
    pub fn name(self) -> &'static str {
        match self {
            Severity::Debug => "DEBUG",
            Severity::Log => "LOG",
            Severity::Info => "INFO",
            Severity::Notice => "NOTICE",
            Severity::Warning => "WARNING",
            Severity::Error => "ERROR",
            Severity::Fatal => "FATAL",
        }
    }
}

pub fn error_response(severity: Severity, error: &SqlError) -> ErrorResponse {
    ErrorResponse::new(fields(severity, error))
}

pub fn notice_response(severity: Severity, notice: &SqlError) -> NoticeResponse {
    NoticeResponse::new(fields(severity, notice))
}

fn fields(severity: Severity, error: &SqlError) -> Vec<(u8, String)> {
    let from = error.fields();
    let mut fields = vec![
        (b'S', severity.name().to_owned()),
        (b'V', severity.name().to_owned()),
        (b'C', from.state.0.to_owned()),
        (b'M', clean(&from.message)),
    ];
    let optional = [
        (b'D', from.detail.clone()),
        (b'H', from.hint.clone()),
        (b'P', from.position.map(|p| p.to_string())),
        (b'W', from.context.clone()),
    ];
    fields.extend(optional.into_iter().filter_map(|(code, text)| text.map(|t| (code, clean(&t)))));
    fields
}

/// A field ends at a zero byte, so none may lie inside.
fn clean(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}
