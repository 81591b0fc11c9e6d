//! Transactions, settings, prepared statements, channels: what is said to the session itself.

use sqlparser::tokenizer::Token;

use super::super::error::{Result, SqlError, SqlState};
use super::super::statement::{
    Discard, Isolation, SessionStatement as S, SetScope, SetValue, Statement, TransactionModes,
};
use super::{StatementParser, refused};

/// A notification's payload is shorter than this, as in PostgreSQL.
const PAYLOAD_BYTES_MAX: usize = 8_000;

impl StatementParser<'_, '_> {
    pub(super) fn transaction(&mut self) -> Result<Statement> {
        if self.eat_all(&["start", "transaction"]) {
            return Ok(session(S::Begin { modes: self.transaction_modes(true)? }));
        }
        if self.eat("begin") {
            let _ = self.eat("work") || self.eat("transaction");
            return Ok(session(S::Begin { modes: self.transaction_modes(true)? }));
        }
        if self.eat("savepoint") {
            return Ok(session(S::Savepoint(self.identifier()?)));
        }
        if self.eat("release") {
            self.eat("savepoint");
            return Ok(session(S::Release(self.identifier()?)));
        }
        if self.eat("commit") || self.eat("end") {
            if self.is_word("prepared") {
                return Err(refused::two_phase());
            }
            let _ = self.eat("work") || self.eat("transaction");
            return Ok(session(S::Commit { chain: self.chain()? }));
        }
        if self.eat("rollback") || self.eat("abort") {
            if self.is_word("prepared") {
                return Err(refused::two_phase());
            }
            let _ = self.eat("work") || self.eat("transaction");
            if self.eat("to") {
                self.eat("savepoint");
                return Ok(session(S::RollbackTo(self.identifier()?)));
            }
            return Ok(session(S::Rollback { chain: self.chain()? }));
        }
        self.at += 1;
        Err(self.fail())
    }

    fn chain(&mut self) -> Result<bool> {
        if !self.eat("and") {
            return Ok(false);
        }
        let no = self.eat("no");
        self.expect("chain")?;
        Ok(!no)
    }

    fn transaction_modes(&mut self, may_be_empty: bool) -> Result<TransactionModes> {
        let mut modes = TransactionModes::default();
        let mut first = true;
        loop {
            let comma = !first && self.eat_token(&Token::Comma);
            if self.eat_all(&["isolation", "level"]) {
                modes.isolation = Some(self.isolation()?);
            } else if self.eat_all(&["read", "only"]) {
                modes.read_only = Some(true);
            } else if self.eat_all(&["read", "write"]) {
                modes.read_only = Some(false);
            } else if self.eat_all(&["not", "deferrable"]) {
                modes.deferrable = Some(false);
            } else if self.eat("deferrable") {
                modes.deferrable = Some(true);
            } else if comma || (first && !may_be_empty) {
                return Err(self.fail());
            } else {
                return Ok(modes);
            }
            first = false;
        }
    }

    fn isolation(&mut self) -> Result<Isolation> {
        if self.eat("serializable") {
            Ok(Isolation::Serializable)
        } else if self.eat_all(&["repeatable", "read"]) {
            Ok(Isolation::RepeatableRead)
        } else if self.eat_all(&["read", "committed"]) {
            Ok(Isolation::ReadCommitted)
        } else if self.eat_all(&["read", "uncommitted"]) {
            Ok(Isolation::ReadUncommitted)
        } else {
            Err(self.fail())
        }
    }

    pub(super) fn set(&mut self) -> Result<Statement> {
        self.expect("set")?;
        if self.eat_all(&["session", "characteristics", "as", "transaction"]) {
            return Ok(session(S::SetTransaction { session: true, modes: self.transaction_modes(false)? }));
        }
        if self.eat("transaction") {
            if self.is_word("snapshot") {
                return Err(SqlError::unsupported("SET TRANSACTION SNAPSHOT"));
            }
            return Ok(session(S::SetTransaction { session: false, modes: self.transaction_modes(false)? }));
        }
        if self.is_word("constraints") {
            return Err(SqlError::unsupported("SET CONSTRAINTS").hint("There are no deferrable constraints."));
        }
        let scope = if self.eat("local") {
            SetScope::Local
        } else {
            // `SET session = …` would name a setting; `SET SESSION AUTHORIZATION` is one.
            if self.is_word("session")
                && !matches!(self.peek_at(1), Some(Token::Eq) | Some(Token::Period))
                && !matches!(self.word_at(1), Some("authorization" | "to"))
            {
                self.at += 1;
            }
            SetScope::Session
        };
        let set = |name: &str, value| session(S::Set { scope, name: name.to_owned(), value });
        let one = |text: String| SetValue::Values(vec![text]);
        if self.eat_all(&["time", "zone"]) {
            return Ok(set("timezone", self.zone()?));
        }
        if self.eat_all(&["session", "authorization"]) {
            let value = if self.eat("default") { SetValue::Default } else { one(self.value()?) };
            return Ok(set("session_authorization", value));
        }
        if self.eat("names") {
            let value = if self.is_end() || self.eat("default") { SetValue::Default } else { one(self.string()?) };
            return Ok(set("client_encoding", value));
        }
        if self.is_word("schema") && matches!(self.peek_at(1), Some(Token::SingleQuotedString(_))) {
            self.at += 1;
            return Ok(set("search_path", one(self.string()?)));
        }
        if self.is_word("role") && !matches!(self.peek_at(1), Some(Token::Eq)) && self.word_at(1) != Some("to") {
            self.at += 1;
            return Ok(set("role", one(self.value()?)));
        }
        if self.is_word("xml") && self.word_at(1) == Some("option") {
            self.at += 2;
            return Ok(set("xmloption", one(self.value()?)));
        }
        let name = self.setting_name()?;
        if self.eat_all(&["from", "current"]) {
            return Err(SqlError::unsupported("SET … FROM CURRENT"));
        }
        if !self.eat("to") && !self.eat_token(&Token::Eq) {
            return Err(self.fail());
        }
        if self.eat("default") {
            return Ok(set(&name, SetValue::Default));
        }
        Ok(set(&name, SetValue::Values(self.list(Self::setting_value)?)))
    }

    fn setting_value(&mut self) -> Result<String> {
        match self.peek_word() {
            // The only reserved words that PostgreSQL takes here are these.
            Some(w) if super::RESERVED.contains(&w) && !["true", "false", "on"].contains(&w) => Err(self.fail()),
            _ => self.value(),
        }
    }

    fn setting_name(&mut self) -> Result<String> {
        let mut name = self.identifier()?;
        while self.eat_token(&Token::Period) {
            name = format!("{name}.{}", self.identifier()?);
        }
        Ok(name.to_ascii_lowercase())
    }

    fn zone(&mut self) -> Result<SetValue> {
        if self.eat("local") || self.eat("default") {
            return Ok(SetValue::Default);
        }
        if self.eat("interval") {
            let text = self.string()?;
            if self.eat("hour") && self.eat("to") {
                self.expect("minute")?;
            }
            return Ok(SetValue::Values(vec![text]));
        }
        Ok(SetValue::Values(vec![self.setting_value()?]))
    }

    pub(super) fn show(&mut self) -> Result<Statement> {
        self.expect("show")?;
        Ok(session(S::Show(if self.eat("all") { None } else { Some(self.shown_name()?) })))
    }

    pub(super) fn reset(&mut self) -> Result<Statement> {
        self.expect("reset")?;
        Ok(session(S::Reset(if self.eat("all") { None } else { Some(self.shown_name()?) })))
    }

    fn shown_name(&mut self) -> Result<String> {
        for (words, name) in [
            (&["time", "zone"][..], "timezone"),
            (&["transaction", "isolation", "level"], "transaction_isolation"),
            (&["session", "authorization"], "session_authorization"),
        ] {
            if self.eat_all(words) {
                return Ok(name.to_owned());
            }
        }
        self.setting_name()
    }

    pub(super) fn discard(&mut self) -> Result<Statement> {
        self.expect("discard")?;
        let what = match self.peek_word() {
            Some("all") => Discard::All,
            Some("plans") => Discard::Plans,
            Some("sequences") => Discard::Sequences,
            Some("temp" | "temporary") => Discard::Temp,
            _ => return Err(self.fail()),
        };
        self.at += 1;
        Ok(session(S::Discard(what)))
    }

    pub(super) fn prepare(&mut self) -> Result<Statement> {
        self.expect("prepare")?;
        if self.is_word("transaction") {
            return Err(refused::two_phase());
        }
        let name = self.identifier()?;
        let parameter_types =
            if self.is_token(&Token::LParen) { self.parenthesised(Self::data_type)? } else { Vec::new() };
        self.expect("as")?;
        if !self.is_any(&["select", "values", "table", "with", "insert", "update", "delete", "merge"])
            && !self.is_token(&Token::LParen)
        {
            return Err(self.fail());
        }
        let statement = Box::new(self.parsed_rest()?);
        Ok(session(S::Prepare { name, parameter_types, statement }))
    }

    pub(super) fn execute(&mut self) -> Result<Statement> {
        self.expect("execute")?;
        let name = self.identifier()?;
        let arguments = if self.is_token(&Token::LParen) { self.parenthesised(Self::expression)? } else { Vec::new() };
        Ok(session(S::Execute { name, arguments }))
    }

    pub(super) fn deallocate(&mut self) -> Result<Statement> {
        self.expect("deallocate")?;
        self.eat("prepare");
        Ok(session(S::Deallocate(if self.eat("all") { None } else { Some(self.identifier()?) })))
    }

    pub(super) fn channel(&mut self) -> Result<Statement> {
        if self.eat("listen") {
            return Ok(session(S::Listen(self.identifier()?)));
        }
        if self.eat("unlisten") {
            let channel = if self.eat_token(&Token::Mul) { None } else { Some(self.identifier()?) };
            return Ok(session(S::Unlisten(channel)));
        }
        self.expect("notify")?;
        let channel = self.identifier()?;
        let payload = if self.eat_token(&Token::Comma) { self.string()? } else { String::new() };
        if payload.len() >= PAYLOAD_BYTES_MAX {
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "payload string too long"));
        }
        Ok(session(S::Notify { channel, payload }))
    }

    pub(super) fn checkpoint(&mut self) -> Result<Statement> {
        self.expect("checkpoint")?;
        Ok(session(S::Checkpoint))
    }
}

pub(super) fn session(statement: S) -> Statement {
    Statement::Session(statement)
}
