//! DECLARE, FETCH, MOVE, CLOSE.

use std::sync::Arc;
use std::time::Duration;

use sqlparser::tokenizer::Token;

use super::super::error::{Result, SqlError, SqlState};
use super::super::statement::{Fetch, FetchDirection as To, Parsed, SessionStatement as S, Statement};
use super::super::units::parse_duration_us;
use super::StatementParser;
use super::session::session;

impl StatementParser<'_, '_> {
    pub(super) fn declare(&mut self) -> Result<Statement> {
        self.expect("declare")?;
        let name = self.identifier()?;
        let (mut binary, mut scroll) = (false, None);
        loop {
            if self.eat("binary") {
                binary = true;
            } else if self.eat_all(&["no", "scroll"]) {
                if scroll == Some(true) {
                    return Err(both("SCROLL", "NO SCROLL"));
                }
                scroll = Some(false);
            } else if self.eat("scroll") {
                if scroll == Some(false) {
                    return Err(both("SCROLL", "NO SCROLL"));
                }
                scroll = Some(true);
            } else if !self.eat("insensitive") && !self.eat("asensitive") {
                break;
            }
        }
        self.expect("cursor")?;
        let hold = if self.eat("with") {
            self.expect("hold")?;
            true
        } else {
            if self.eat("without") {
                self.expect("hold")?;
            }
            false
        };
        self.expect("for")?;
        let from = self.here();
        let text: Arc<str> = self.source.slice(from, self.end).into();
        let (query, into) = self.query_to(self.tokens.len())?;
        if into.is_some() {
            return Err(SqlError::new(
                SqlState::INVALID_CURSOR_DEFINITION,
                "DECLARE CURSOR must not contain SELECT INTO",
            ));
        }
        let query = Box::new(Parsed { statement: Statement::Query(Box::new(query)), text });
        Ok(session(S::Declare { name, binary, scroll, hold, query }))
    }

    pub(super) fn fetch(&mut self, moving: bool) -> Result<Statement> {
        self.at += 1;
        let direction = self.direction()?;
        let from = self.eat("from") || self.eat("in");
        if from && self.is_word("subscription") && self.peek_at(1).is_some() && !self.is_with(1) {
            return Err(SqlError::unsupported("FETCH … FROM SUBSCRIPTION")
                .hint("Use DECLARE … CURSOR WITH HOLD, and RESUME AFTER POSITION after a disconnect."));
        }
        let cursor = self.identifier()?;
        let mut timeout = None;
        if self.eat("with") {
            for (name, value) in self.options()? {
                match name.as_str() {
                    "timeout" => timeout = Some(duration("timeout", &value)?),
                    _ => {
                        return Err(SqlError::new(
                            SqlState::INVALID_PARAMETER_VALUE,
                            format!("unrecognized FETCH option \"{name}\""),
                        )
                        .hint("The only option is timeout."));
                    }
                }
            }
        }
        let fetch = Fetch { cursor, direction, timeout };
        Ok(session(if moving { S::Move(fetch) } else { S::Fetch(fetch) }))
    }

    fn is_with(&self, offset: usize) -> bool {
        self.word_at(offset) == Some("with")
    }

    fn direction(&mut self) -> Result<To> {
        // A cursor may bear the name of a direction: `FETCH next`.
        let named = matches!(self.peek_at(1), None) || self.is_with(1) && !self.is_any(&["all"]);
        if named && !matches!(self.peek(), Some(Token::Number(..))) {
            return Ok(To::Forward(1));
        }
        let direction = match self.peek_word() {
            Some("next") => To::Forward(1),
            Some("prior") => To::Backward(1),
            Some("first") => To::First,
            Some("last") => To::Last,
            Some("all") => To::ForwardAll,
            Some(word @ ("absolute" | "relative")) => {
                let absolute = word == "absolute";
                self.at += 1;
                let count = self.integer()?;
                return Ok(if absolute { To::Absolute(count) } else { To::Relative(count) });
            }
            Some(word @ ("forward" | "backward")) => {
                let forward = word == "forward";
                self.at += 1;
                if self.eat("all") {
                    return Ok(if forward { To::ForwardAll } else { To::BackwardAll });
                }
                let count = if self.starts_integer() { self.integer()? } else { 1 };
                return Ok(steps(if forward { count } else { count.saturating_neg() }, forward));
            }
            _ if self.starts_integer() => {
                let count = self.integer()?;
                return Ok(steps(count, true));
            }
            _ => return Ok(To::Forward(1)),
        };
        self.at += 1;
        Ok(direction)
    }

    fn starts_integer(&self) -> bool {
        matches!(self.peek(), Some(Token::Number(..) | Token::Minus | Token::Plus))
    }

    pub(super) fn close(&mut self) -> Result<Statement> {
        self.expect("close")?;
        Ok(session(S::Close(if self.eat("all") { None } else { Some(self.identifier()?) })))
    }
}

/// A negative count turns round; zero is the current row again.
fn steps(count: i64, forward: bool) -> To {
    match count {
        0 if forward => To::Forward(0),
        0 => To::Backward(0),
        n if n > 0 => To::Forward(n),
        n => To::Backward(n.saturating_neg()),
    }
}

fn both(a: &str, b: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CURSOR_DEFINITION, format!("cannot specify both {a} and {b}"))
}

fn duration(name: &str, text: &str) -> Result<Duration> {
    let us = parse_duration_us(text).and_then(|us| u64::try_from(us).ok()).ok_or_else(|| {
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid value for option \"{name}\": \"{text}\""))
            .hint("Valid units are \"us\", \"ms\", \"s\", \"min\", \"h\" and \"d\".")
    })?;
    Ok(Duration::from_micros(us))
}
