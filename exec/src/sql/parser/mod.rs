//! Statements, one word at a time. What PostgreSQL, sqlparser and we agree on (expressions, queries, types) is sqlparser's
//! to parse; everything around it is here, so that errors, options and live queries are ours.
//! Pure: text in, statements out. Runs on a compute thread.

mod copy;
mod create;
mod cursor;
mod drop_alter;
mod insert;
mod query;
mod refused;
mod session;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use sqlparser::ast;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan};

use super::ddl::RelationName;
use super::error::{Result, SqlError, SqlState};
use super::source::{DIALECT, Source, StatementTokens};
use super::statement::{Parsed, Statement};

/// sqlparser's own bound; ours on nesting in `source` is tighter.
const RECURSION_MAX: usize = 1_000;

/// All statements of a text. An empty text has none.
pub fn parse(text: &str) -> Result<Vec<Parsed>> {
    let source = Source::new(text);
    source.statements()?.into_iter().map(|tokens| StatementParser::new(&source, tokens).parsed()).collect()
}

/// A bounded query's text, e.g. a view's.
pub fn parse_query(text: &str) -> Result<ast::Query> {
    match parse(text)?.pop().map(|p| p.statement) {
        Some(Statement::Query(query)) if query.live.is_none() => Ok(query.body),
        _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, "the text is not a bounded query")),
    }
}

/// An expression's text, e.g. a column's DEFAULT.
pub fn parse_expression(text: &str) -> Result<ast::Expr> {
    let source = Source::new(text);
    let mut statements = source.statements()?;
    let Some(tokens) = statements.pop().filter(|_| statements.is_empty()) else {
        return Err(source.syntax_error(source.end()));
    };
    let mut parser = StatementParser::new(&source, tokens);
    let expression = parser.expression()?;
    parser.expect_end()?;
    Ok(expression)
}

/// A place in one statement's tokens.
struct StatementParser<'s, 'a> {
    source: &'s Source<'a>,
    tokens: Vec<TokenWithSpan>,
    at: usize,
    /// Where the tokens end: the statement's end, or the bracket behind a nested query.
    end: Location,
}

impl<'s, 'a> StatementParser<'s, 'a> {
    fn new(source: &'s Source<'a>, statement: StatementTokens) -> Self {
        Self { source, tokens: statement.tokens, at: 0, end: statement.end }
    }

    /// The statement with its own text; takes all tokens.
    fn parsed(mut self) -> Result<Parsed> {
        self.parsed_rest()
    }

    /// As [`Self::parsed`], for what is left (after EXPLAIN, PREPARE … AS).
    fn parsed_rest(&mut self) -> Result<Parsed> {
        let from = self.here();
        let text: Arc<str> = self.source.slice(from, self.end).into();
        let statement = self.statement()?;
        self.expect_end()?;
        Ok(Parsed { statement, text })
    }

    fn statement(&mut self) -> Result<Statement> {
        let Some(head) = self.peek_word().map(str::to_owned) else {
            return match self.peek() {
                Some(Token::LParen) => self.query_statement(),
                _ => Err(self.fail()),
            };
        };
        match head.as_str() {
            "select" | "values" | "table" => self.query_statement(),
            "with" => self.with_statement(),
            "insert" => self.insert(None),
            "update" | "delete" => self.update_or_delete(),
            "explain" => self.explain(),
            "create" => self.create(),
            "alter" => self.alter(),
            "drop" => self.drop(),
            "truncate" => self.truncate(),
            "comment" => self.comment(),
            "vacuum" | "analyze" | "analyse" => self.maintain(),
            "copy" => self.copy(),
            "declare" => self.declare(),
            "fetch" => self.fetch(false),
            "move" => self.fetch(true),
            "close" => self.close(),
            "begin" | "start" | "commit" | "end" | "rollback" | "abort" | "savepoint" | "release" => self.transaction(),
            "set" => self.set(),
            "show" => self.show(),
            "reset" => self.reset(),
            "discard" => self.discard(),
            "prepare" => self.prepare(),
            "execute" => self.execute(),
            "deallocate" => self.deallocate(),
            "listen" | "unlisten" | "notify" => self.channel(),
            "checkpoint" => self.checkpoint(),
            _ => Err(refused::statement(&self.words(3)).unwrap_or_else(|| self.fail())),
        }
    }

    // ---- tokens ----

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|t| &t.token)
    }

    fn peek_at(&self, offset: usize) -> Option<&Token> {
        self.tokens.get(self.at + offset).map(|t| &t.token)
    }

    /// Where the next token starts.
    fn here(&self) -> Location {
        self.tokens.get(self.at).map_or(self.end, |t| t.span.start)
    }

    /// Where the last token ended.
    fn behind(&self) -> Location {
        self.at.checked_sub(1).and_then(|i| self.tokens.get(i)).map_or(self.end, |t| t.span.end)
    }

    fn is_end(&self) -> bool {
        self.at >= self.tokens.len()
    }

    fn fail(&self) -> SqlError {
        self.source.syntax_error(self.here())
    }

    fn fail_at(&self, index: usize) -> SqlError {
        self.source.syntax_error(self.tokens.get(index).map_or(self.end, |t| t.span.start))
    }

    fn expect_end(&self) -> Result<()> {
        if self.is_end() { Ok(()) } else { Err(self.fail()) }
    }

    /// The next token as a word that is not quoted, in lower case.
    fn peek_word(&self) -> Option<&str> {
        self.word_at(0)
    }

    fn word_at(&self, offset: usize) -> Option<&str> {
        unquoted(self.peek_at(offset)?)
    }

    /// The next words, for naming a construct.
    fn words(&self, count: usize) -> Vec<&str> {
        (0..count).map_while(|i| self.word_at(i)).collect()
    }

    fn is_word(&self, word: &str) -> bool {
        self.peek_word() == Some(word)
    }

    fn is_any(&self, words: &[&str]) -> bool {
        self.peek_word().is_some_and(|w| words.contains(&w))
    }

    fn eat(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        self.at += usize::from(found);
        found
    }

    /// All of the words, or none.
    fn eat_all(&mut self, words: &[&str]) -> bool {
        let found = words.iter().enumerate().all(|(i, w)| self.word_at(i) == Some(w));
        self.at += if found { words.len() } else { 0 };
        found
    }

    fn expect(&mut self, word: &str) -> Result<()> {
        if self.eat(word) { Ok(()) } else { Err(self.fail()) }
    }

    fn expect_all(&mut self, words: &[&str]) -> Result<()> {
        words.iter().try_for_each(|w| self.expect(w))
    }

    fn is_token(&self, token: &Token) -> bool {
        self.peek() == Some(token)
    }

    fn eat_token(&mut self, token: &Token) -> bool {
        let found = self.is_token(token);
        self.at += usize::from(found);
        found
    }

    fn expect_token(&mut self, token: &Token) -> Result<()> {
        if self.eat_token(token) { Ok(()) } else { Err(self.fail()) }
    }

    /// `item, item, …`
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat_token(&Token::Comma) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// `(item, …)`
    fn parenthesised<T>(&mut self, item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.expect_token(&Token::LParen)?;
        let items = self.list(item)?;
        self.expect_token(&Token::RParen)?;
        Ok(items)
    }

    // ---- names and values ----

    /// A name of a column, cursor, table …: any word but PostgreSQL's reserved ones, or a quoted one.
    fn identifier(&mut self) -> Result<String> {
        self.name_where(|w| !RESERVED.contains(&w) && !TYPE_OR_FUNCTION_NAME.contains(&w))
    }

    /// A name where nothing else can stand: any word.
    fn label(&mut self) -> Result<String> {
        self.name_where(|_| true)
    }

    fn name_where(&mut self, allowed: impl Fn(&str) -> bool) -> Result<String> {
        match self.peek() {
            Some(Token::Word(w)) if w.quote_style == Some('"') || (w.quote_style.is_none() && allowed(&w.value)) => {
                let name = w.value.clone();
                self.at += 1;
                Ok(name)
            }
            _ => Err(self.fail()),
        }
    }

    /// `[[database.]schema.]name`
    fn relation_name(&mut self) -> Result<RelationName> {
        let mut parts = vec![self.identifier()?];
        while self.eat_token(&Token::Period) {
            parts.push(self.label()?);
        }
        let dotted = parts.join(".");
        let mut parts = parts.into_iter().rev();
        let name = parts.next().unwrap_or_default();
        let (schema, database) = (parts.next(), parts.next());
        if parts.next().is_some() {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("improper qualified name (too many dotted names): {dotted}"),
            ));
        }
        Ok(RelationName { database, schema, name })
    }

    fn string(&mut self) -> Result<String> {
        let text = match self.peek() {
            Some(Token::SingleQuotedString(s) | Token::EscapedStringLiteral(s) | Token::UnicodeStringLiteral(s)) => {
                s.clone()
            }
            Some(Token::DollarQuotedString(s)) => s.value.clone(),
            _ => return Err(self.fail()),
        };
        self.at += 1;
        Ok(text)
    }

    /// `[+|-] digits`
    fn integer(&mut self) -> Result<i64> {
        let start = self.at;
        let negative = self.eat_token(&Token::Minus);
        if !negative {
            self.eat_token(&Token::Plus);
        }
        let value = match self.peek() {
            Some(Token::Number(digits, _)) => digits.parse::<i64>().ok(),
            _ => None,
        };
        match value {
            Some(value) => {
                self.at += 1;
                Ok(if negative { -value } else { value })
            }
            None => Err(self.fail_at(start.max(self.at))),
        }
    }

    /// A setting's or option's value as text: literal, signed number or word.
    fn value(&mut self) -> Result<String> {
        let start = self.at;
        let negative = self.eat_token(&Token::Minus);
        if !negative {
            self.eat_token(&Token::Plus);
        }
        let text = match self.peek() {
            Some(Token::Number(digits, _)) => {
                let text = if negative { format!("-{digits}") } else { digits.clone() };
                self.at += 1;
                return Ok(text);
            }
            _ if self.at > start => return Err(self.fail()),
            Some(Token::Word(w)) => w.value.clone(),
            _ => return self.string(),
        };
        self.at += 1;
        Ok(text)
    }

    /// `(name = value, …)`; a name may be dotted, a value left out (`true`).
    fn options(&mut self) -> Result<Vec<(String, String)>> {
        self.parenthesised(|p| {
            let mut name = p.label()?;
            while p.eat_token(&Token::Period) {
                name = format!("{name}.{}", p.label()?);
            }
            let value = if p.eat_token(&Token::Eq) { p.value()? } else { "true".to_owned() };
            Ok((name, value))
        })
    }

    // ---- what sqlparser parses ----

    /// Hands the tokens up to `to` (an index) to sqlparser and goes on behind what it took.
    fn delegate<T>(
        &mut self,
        to: usize,
        parse: impl FnOnce(&mut Parser<'static>) -> std::result::Result<T, ParserError>,
    ) -> Result<T> {
        let given: Vec<TokenWithSpan> = self.tokens[self.at..to].to_vec();
        let end = self.tokens.get(to).map_or(self.end, |t| t.span.start);
        let count = given.len();
        let mut parser = Parser::new(&DIALECT).with_recursion_limit(RECURSION_MAX).with_tokens_with_locations(given);
        let parsed = parse(&mut parser).map_err(|error| self.source.parse_error(error, end))?;
        self.at += parser.index().min(count);
        Ok(parsed)
    }

    fn expression(&mut self) -> Result<ast::Expr> {
        let to = self.tokens.len();
        self.delegate(to, |p| p.parse_expr())
    }

    fn data_type(&mut self) -> Result<ast::DataType> {
        // Types are short, and the tokens given are copied.
        let to = self.tokens.len().min(self.at + 32);
        self.delegate(to, |p| p.parse_data_type())
    }

    /// The expression and its text as written.
    fn expression_text(&mut self) -> Result<(ast::Expr, String)> {
        let from = self.here();
        let expression = self.expression()?;
        let text = self.source.slice(from, self.behind()).to_owned();
        Ok((expression, text))
    }

    /// The index of the bracket that closes the one at `open`.
    fn closing(&self, open: usize) -> Result<usize> {
        let mut depth = 0usize;
        for (index, token) in self.tokens.iter().enumerate().skip(open) {
            match token.token {
                Token::LParen => depth += 1,
                Token::RParen => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(index);
                    }
                }
                _ => {}
            }
        }
        Err(self.source.syntax_error(self.end))
    }
}

fn unquoted(token: &Token) -> Option<&str> {
    match token {
        Token::Word(w) if w.quote_style.is_none() => Some(&w.value),
        _ => None,
    }
}

fn unquoted_at(tokens: &[TokenWithSpan], index: usize) -> Option<&str> {
    unquoted(&tokens.get(index)?.token)
}

/// An AST name that no later step folds again.
fn quoted(name: &str) -> ast::Ident {
    ast::Ident::with_quote('"', name)
}

/// Whether PostgreSQL takes the word as a name only in quotes.
pub fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word) || TYPE_OR_FUNCTION_NAME.contains(&word)
}

/// PostgreSQL 15's reserved words.
const RESERVED: &[&str] = &[
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "both",
    "case",
    "cast",
    "check",
    "collate",
    "column",
    "constraint",
    "create",
    "current_catalog",
    "current_date",
    "current_role",
    "current_time",
    "current_timestamp",
    "current_user",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "false",
    "fetch",
    "for",
    "foreign",
    "from",
    "grant",
    "group",
    "having",
    "in",
    "initially",
    "intersect",
    "into",
    "lateral",
    "leading",
    "limit",
    "localtime",
    "localtimestamp",
    "not",
    "null",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "placing",
    "primary",
    "references",
    "returning",
    "select",
    "session_user",
    "some",
    "symmetric",
    "table",
    "then",
    "to",
    "trailing",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "variadic",
    "when",
    "where",
    "window",
    "with",
];

/// Words that may name a type or function, but no column or relation.
const TYPE_OR_FUNCTION_NAME: &[&str] = &[
    "authorization",
    "binary",
    "collation",
    "concurrently",
    "cross",
    "current_schema",
    "freeze",
    "full",
    "ilike",
    "inner",
    "is",
    "isnull",
    "join",
    "left",
    "like",
    "natural",
    "notnull",
    "outer",
    "overlaps",
    "right",
    "similar",
    "tablesample",
    "verbose",
];
