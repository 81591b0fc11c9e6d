//! COPY with PostgreSQL 15's options, in brackets or in the old order without them.

use std::sync::Arc;

use sqlparser::ast;
use sqlparser::tokenizer::Token;

use super::super::error::{Result, SqlError, SqlState};
use super::super::statement::{
    Copy, CopyColumns, CopyFormat, CopyHeader, CopyOptions, CopySource, CopyTarget, Parsed, Statement,
};
use super::{StatementParser, quoted};

impl StatementParser<'_, '_> {
    pub(super) fn copy(&mut self) -> Result<Statement> {
        self.expect("copy")?;
        let mut given = Given::default();
        if self.is_token(&Token::LParen) {
            let source = self.copied_query()?;
            if self.is_word("from") {
                return Err(self.fail());
            }
            self.expect("to")?;
            return self.copy_rest(source, false, given);
        }
        if self.is_word("binary") && self.peek_at(1).is_some() && self.word_at(1) != Some("from") {
            self.at += 1;
            given.set_format("binary")?;
        }
        let name = self.relation_name()?;
        let columns = if self.is_token(&Token::LParen) { self.parenthesised(Self::identifier)? } else { Vec::new() };
        let from = if self.eat("from") {
            true
        } else {
            self.expect("to")?;
            false
        };
        let parts: Vec<_> =
            [name.database, name.schema, Some(name.name)].into_iter().flatten().map(|n| quoted(&n)).collect();
        self.copy_rest(CopySource::Relation { name: ast::ObjectName::from(parts), columns }, from, given)
    }

    fn copied_query(&mut self) -> Result<CopySource> {
        let close = self.closing(self.at)?;
        self.at += 1;
        let from = self.here();
        let text: Arc<str> = self.source.slice(from, self.tokens[close].span.start).into();
        let statement = if self.is_any(&["insert", "update", "delete"]) {
            // The statement must not see what follows the bracket.
            let rest = self.tokens.split_off(close);
            let outer_end = std::mem::replace(&mut self.end, rest[0].span.start);
            let statement = self.statement()?;
            self.expect_end()?;
            self.end = outer_end;
            self.tokens.extend(rest);
            if let Statement::Insert(insert) = &statement
                && insert.returning.is_empty()
            {
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "COPY query must have a RETURNING clause"));
            }
            statement
        } else {
            let (query, into) = self.query_to(close)?;
            if into.is_some() {
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "COPY (SELECT INTO) is not supported"));
            }
            Statement::Query(Box::new(query))
        };
        self.expect_token(&Token::RParen)?;
        Ok(CopySource::Query(Box::new(Parsed { statement, text })))
    }

    fn copy_rest(&mut self, source: CopySource, from: bool, mut given: Given) -> Result<Statement> {
        let target = if self.eat("program") {
            CopyTarget::Program(self.string()?)
        } else if self.eat("stdin") || self.eat("stdout") {
            CopyTarget::Client
        } else {
            CopyTarget::File(self.string()?)
        };
        // Only in the order of old: [USING] DELIMITERS 'x'.
        if self.is_any(&["using", "delimiters"]) {
            self.eat("using");
            self.expect("delimiters")?;
            given.delimiter = Some(self.string()?);
        }
        let with = self.eat("with");
        if self.is_token(&Token::LParen) {
            self.parenthesised(|p| p.copy_option(&mut given))?;
        } else {
            let before = self.at;
            while self.old_copy_option(&mut given)? {}
            if with && self.at == before && !self.is_end() {
                return Err(self.fail());
            }
        }
        let mut filter = None;
        if self.is_word("where") {
            if !from {
                return Err(self.fail());
            }
            self.at += 1;
            filter = Some(self.expression()?);
        }
        let options = given.checked(from)?;
        if let CopySource::Relation { columns, .. } = &source {
            check_duplicates(columns)?;
        }
        Ok(Statement::Copy(Box::new(Copy { source, target, from, options, filter })))
    }

    fn copy_option(&mut self, given: &mut Given) -> Result<()> {
        let position = self.source.position(self.here());
        let name = self.label()?;
        let set = |e: SqlError| e.position(position);
        match name.as_str() {
            "format" => {
                let value = self.value()?;
                given.set_format(&value).map_err(set)?;
            }
            "freeze" => once(&mut given.freeze, self.flag("freeze")?).map_err(set)?,
            "delimiter" => once(&mut given.delimiter, self.value()?).map_err(set)?,
            "null" => once(&mut given.null, self.value()?).map_err(set)?,
            "header" => {
                let header = self.header()?;
                once(&mut given.header, header).map_err(set)?;
            }
            "quote" => once(&mut given.quote, self.value()?).map_err(set)?,
            "escape" => once(&mut given.escape, self.value()?).map_err(set)?,
            "encoding" => once(&mut given.encoding, self.value()?).map_err(set)?,
            "force_quote" => {
                let columns = if self.eat_token(&Token::Mul) {
                    CopyColumns::All
                } else {
                    CopyColumns::Some(self.parenthesised(Self::identifier)?)
                };
                once(&mut given.force_quote, columns).map_err(set)?;
            }
            "force_not_null" => {
                let columns = CopyColumns::Some(self.parenthesised(Self::identifier)?);
                once(&mut given.force_not_null, columns).map_err(set)?;
            }
            "force_null" => {
                let columns = CopyColumns::Some(self.parenthesised(Self::identifier)?);
                once(&mut given.force_null, columns).map_err(set)?;
            }
            _ => {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("option \"{name}\" not recognized"))
                    .position(position));
            }
        }
        Ok(())
    }

    fn ends_option(&self) -> bool {
        matches!(self.peek(), None | Some(Token::Comma | Token::RParen))
    }

    fn flag(&mut self, name: &str) -> Result<bool> {
        if self.ends_option() {
            return Ok(true);
        }
        match self.value()?.to_ascii_lowercase().as_str() {
            "true" | "on" | "1" => Ok(true),
            "false" | "off" | "0" => Ok(false),
            _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("{name} requires a Boolean value"))),
        }
    }

    fn header(&mut self) -> Result<CopyHeader> {
        if self.ends_option() {
            return Ok(CopyHeader::On);
        }
        match self.value()?.to_ascii_lowercase().as_str() {
            "true" | "on" | "1" => Ok(CopyHeader::On),
            "false" | "off" | "0" => Ok(CopyHeader::Off),
            "match" => Ok(CopyHeader::Match),
            _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, "header requires a Boolean value or \"match\"")),
        }
    }

    /// One option of the old order; false if there is none left.
    fn old_copy_option(&mut self, given: &mut Given) -> Result<bool> {
        let Some(word) = self.peek_word().map(str::to_owned) else {
            return if self.is_end() { Ok(false) } else { Err(self.fail()) };
        };
        let text = |p: &mut Self| {
            p.at += 1;
            p.eat("as");
            p.string()
        };
        match word.as_str() {
            "binary" | "csv" => {
                self.at += 1;
                given.set_format(&word)?;
            }
            "freeze" => {
                self.at += 1;
                once(&mut given.freeze, true)?;
            }
            "header" => {
                self.at += 1;
                once(&mut given.header, CopyHeader::On)?;
            }
            "delimiter" => once(&mut given.delimiter, text(self)?)?,
            "null" => once(&mut given.null, text(self)?)?,
            "quote" => once(&mut given.quote, text(self)?)?,
            "escape" => once(&mut given.escape, text(self)?)?,
            "encoding" => {
                self.at += 1;
                once(&mut given.encoding, self.string()?)?;
            }
            "force" => {
                self.at += 1;
                if self.eat("quote") {
                    let columns = if self.eat_token(&Token::Mul) {
                        CopyColumns::All
                    } else {
                        CopyColumns::Some(self.list(Self::identifier)?)
                    };
                    once(&mut given.force_quote, columns)?;
                } else if self.eat_all(&["not", "null"]) {
                    let columns = CopyColumns::Some(self.list(Self::identifier)?);
                    once(&mut given.force_not_null, columns)?;
                } else {
                    self.expect("null")?;
                    let columns = CopyColumns::Some(self.list(Self::identifier)?);
                    once(&mut given.force_null, columns)?;
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// The options as given, before they are checked against each other.
#[derive(Default)]
struct Given {
    format: Option<CopyFormat>,
    freeze: Option<bool>,
    delimiter: Option<String>,
    null: Option<String>,
    header: Option<CopyHeader>,
    quote: Option<String>,
    escape: Option<String>,
    force_quote: Option<CopyColumns>,
    force_not_null: Option<CopyColumns>,
    force_null: Option<CopyColumns>,
    encoding: Option<String>,
}

fn once<T>(slot: &mut Option<T>, value: T) -> Result<()> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(SqlError::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options")),
    }
}

fn check_duplicates(columns: &[String]) -> Result<()> {
    for (index, column) in columns.iter().enumerate() {
        if columns[..index].contains(column) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{column}\" specified more than once"),
            ));
        }
    }
    Ok(())
}

impl Given {
    fn set_format(&mut self, name: &str) -> Result<()> {
        let format = match name {
            "text" => CopyFormat::Text,
            "csv" => CopyFormat::Csv,
            "binary" => CopyFormat::Binary,
            _ => {
                return Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("COPY format \"{name}\" not recognized"),
                ));
            }
        };
        once(&mut self.format, format)
    }

    /// PostgreSQL's rules, in its order and words.
    fn checked(self, from: bool) -> Result<CopyOptions> {
        let format = self.format.unwrap_or_default();
        let (binary, csv) = (format == CopyFormat::Binary, format == CopyFormat::Csv);
        let syntax = |m: &str| Err(SqlError::new(SqlState::SYNTAX_ERROR, m));
        let refuse = |m: &str| Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, m));
        let invalid = |m: &str| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, m));
        let header = self.header.unwrap_or_default();
        if header == CopyHeader::Match && !from {
            return syntax("cannot use \"match\" with HEADER in COPY TO");
        }
        if binary && self.delimiter.is_some() {
            return syntax("cannot specify DELIMITER in BINARY mode");
        }
        if binary && self.null.is_some() {
            return syntax("cannot specify NULL in BINARY mode");
        }
        let delimiter = self.delimiter.as_deref().unwrap_or(if csv { "," } else { "\t" });
        let null = self.null.as_deref().unwrap_or(if csv { "" } else { "\\N" });
        let quote = self.quote.as_deref().unwrap_or("\"");
        let escape = self.escape.as_deref().unwrap_or(quote);
        if delimiter.len() != 1 {
            return refuse("COPY delimiter must be a single one-byte character");
        }
        if delimiter.contains(['\r', '\n']) {
            return invalid("COPY delimiter cannot be newline or carriage return");
        }
        if null.contains(['\r', '\n']) {
            return invalid("COPY null representation cannot use newline or carriage return");
        }
        if !csv && delimiter.contains(|c: char| "\\.abcdefghijklmnopqrstuvwxyz0123456789".contains(c)) {
            return invalid(&format!("COPY delimiter cannot be \"{delimiter}\""));
        }
        if binary && header != CopyHeader::Off {
            return refuse("cannot specify HEADER in BINARY mode");
        }
        if !csv && self.quote.is_some() {
            return refuse("COPY quote available only in CSV mode");
        }
        if csv && quote.len() != 1 {
            return refuse("COPY quote must be a single one-byte character");
        }
        if csv && delimiter == quote {
            return invalid("COPY delimiter and quote must be different");
        }
        if !csv && self.escape.is_some() {
            return refuse("COPY escape available only in CSV mode");
        }
        if csv && escape.len() != 1 {
            return refuse("COPY escape must be a single one-byte character");
        }
        if self.force_quote.is_some() && !csv {
            return refuse("COPY force quote available only in CSV mode");
        }
        if self.force_quote.is_some() && from {
            return refuse("COPY force quote only available using COPY TO");
        }
        if self.force_not_null.is_some() && !csv {
            return refuse("COPY force not null available only in CSV mode");
        }
        if self.force_not_null.is_some() && !from {
            return refuse("COPY force not null only available using COPY FROM");
        }
        if self.force_null.is_some() && !csv {
            return refuse("COPY force null available only in CSV mode");
        }
        if self.force_null.is_some() && !from {
            return refuse("COPY force null only available using COPY FROM");
        }
        if null.contains(delimiter) {
            return refuse("COPY delimiter must not appear in the NULL specification");
        }
        if csv && null.contains(quote) {
            return refuse("CSV quote character must not appear in the NULL specification");
        }
        Ok(CopyOptions {
            format,
            freeze: self.freeze.unwrap_or(false),
            delimiter: self.delimiter,
            null: self.null,
            header,
            quote: self.quote,
            escape: self.escape,
            force_quote: self.force_quote.unwrap_or_default(),
            force_not_null: self.force_not_null.unwrap_or_default(),
            force_null: self.force_null.unwrap_or_default(),
            encoding: self.encoding,
        })
    }
}
