//! Queries, live ones included, and EXPLAIN.
//! `EMIT …` is cut off before sqlparser sees the query: a bare EMIT where an operand has just ended begins it.

use sqlparser::ast;
use sqlparser::tokenizer::Token;

use super::super::ddl::{CreateAs, Ddl, RelationName};
use super::super::error::{Result, SqlError, SqlState};
use super::super::statement::{Bound, Emit, Explain, ExplainFormat, Live, Query, Statement};
use super::{StatementParser, unquoted};

/// Unquoted words after which an operand or a name comes, so that `emit` there is one.
const BEFORE_OPERAND: &[&str] = &[
    "all",
    "and",
    "any",
    "array",
    "as",
    "asymmetric",
    "between",
    "by",
    "case",
    "collate",
    "cursor",
    "delete",
    "distinct",
    "else",
    "escape",
    "except",
    "exists",
    "filter",
    "for",
    "from",
    "full",
    "group",
    "having",
    "ilike",
    "in",
    "inner",
    "insert",
    "intersect",
    "into",
    "is",
    "join",
    "lateral",
    "left",
    "like",
    "limit",
    "materialized",
    "natural",
    "not",
    "of",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "outer",
    "over",
    "partition",
    "recursive",
    "returning",
    "right",
    "row",
    "select",
    "set",
    "similar",
    "some",
    "symmetric",
    "table",
    "then",
    "to",
    "union",
    "update",
    "using",
    "values",
    "when",
    "where",
    "window",
    "with",
    "within",
    "zone",
];

impl StatementParser<'_, '_> {
    /// A top-level SELECT, VALUES, TABLE or WITH up to the end, live or not; SELECT INTO makes a table.
    pub(super) fn query_statement(&mut self) -> Result<Statement> {
        let query = self.query_to(self.tokens.len())?;
        Ok(match query.1 {
            Some(target) => Statement::Ddl(Box::new(Ddl::CreateTableAs(CreateAs {
                name: target,
                if_not_exists: false,
                columns: Vec::new(),
                options: Vec::new(),
                with_data: true,
                query: query.0.body,
                select_into: true,
            }))),
            None => Statement::Query(Box::new(query.0)),
        })
    }

    /// A query that ends at token `to`, where EMIT is allowed; and its INTO.
    pub(super) fn query_to(&mut self, to: usize) -> Result<(Query, Option<RelationName>)> {
        let emit = self.find_emit(to)?;
        let (body, into) = self.bounded_to(emit.unwrap_or(to))?;
        let live = match emit {
            None => None,
            Some(_) if into.is_some() => {
                return Err(SqlError::unsupported("EMIT with SELECT INTO")
                    .hint("Leave EMIT out to keep the rows of one moment."));
            }
            Some(_) => Some(self.live()?),
        };
        if self.at != to {
            return Err(self.fail());
        }
        Ok((Query { body, live }, into))
    }

    /// A query without EMIT that ends at token `to`.
    pub(super) fn bounded_query_to(&mut self, to: usize) -> Result<ast::Query> {
        if let Some(index) = self.find_emit(to)? {
            return Err(self.emit_elsewhere(index));
        }
        let (query, into) = self.bounded_to(to)?;
        match into {
            Some(_) => Err(SqlError::new(SqlState::SYNTAX_ERROR, "SELECT ... INTO is not allowed here")),
            None => Ok(query),
        }
    }

    fn bounded_to(&mut self, to: usize) -> Result<(ast::Query, Option<RelationName>)> {
        if !self.is_any(&["select", "values", "table", "with"]) && !self.is_token(&Token::LParen) {
            return Err(self.fail());
        }
        let mut query = *self.delegate(to, |p| p.parse_query())?;
        if self.at < to {
            return Err(self.fail());
        }
        check_query(&query)?;
        let into = take_into(&mut query)?;
        Ok((query, into))
    }

    /// Where `EMIT` begins at the outermost level, if it does; an EMIT further inside is refused.
    pub(super) fn find_emit(&self, to: usize) -> Result<Option<usize>> {
        let mut depth = 0usize;
        for index in self.at..to {
            match &self.tokens[index].token {
                Token::LParen | Token::LBracket => depth += 1,
                Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
                token if unquoted(token) == Some("emit") && index > self.at && self.ends_operand(index - 1) => {
                    if depth == 0 {
                        return Ok(Some(index));
                    }
                    let next = self.tokens.get(index + 1).map(|t| &t.token);
                    let begins_clause = next.is_none_or(|t| {
                        *t == Token::RParen
                            || unquoted(t).is_some_and(|w| {
                                ["changes", "rows", "latest", "on", "every", "since", "resume", "until", "with"]
                                    .contains(&w)
                            })
                    });
                    return Err(if begins_clause { self.emit_elsewhere(index) } else { self.fail_at(index) });
                }
                _ => {}
            }
        }
        Ok(None)
    }

    pub(super) fn emit_elsewhere(&self, index: usize) -> SqlError {
        SqlError::unsupported("EMIT other than at the end of a top-level SELECT")
            .hint("Put EMIT behind the outermost query: SELECT … FROM (SELECT …) q EMIT ….")
            .position(self.source.position(self.tokens[index].span.start))
    }

    fn ends_operand(&self, index: usize) -> bool {
        match &self.tokens[index].token {
            Token::Word(w) => w.quote_style.is_some() || !BEFORE_OPERAND.contains(&w.value.as_str()),
            Token::RParen
            | Token::RBracket
            | Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::DollarQuotedString(_)
            | Token::Placeholder(_)
            | Token::Mul => true,
            _ => false,
        }
    }

    /// `EMIT …`
    fn live(&mut self) -> Result<Live> {
        self.expect("emit")?;
        let emit = if self.eat("changes") {
            Emit::Changes
        } else if self.eat("rows") {
            Emit::Rows
        } else if self.eat("latest") {
            Emit::Latest
        } else if self.eat("on") {
            self.expect_all(&["window", "close"])?;
            Emit::OnWindowClose
        } else if self.eat("every") {
            Emit::Every(self.expression()?)
        } else {
            Emit::Default
        };
        let since = if self.eat("since") {
            Some(if self.eat("beginning") { Bound::Beginning } else { self.bound()? })
        } else {
            None
        };
        let resume_after = if self.eat("resume") {
            self.expect_all(&["after", "position"])?;
            Some(self.string()?)
        } else {
            None
        };
        if resume_after.is_some() && since == Some(Bound::Now) {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "SINCE NOW cannot be combined with RESUME AFTER POSITION",
            )
            .hint("Give the SINCE of the query that is resumed as a position or a timestamp."));
        }
        let until = if self.eat("until") { Some(self.bound()?) } else { None };
        let options = if self.eat("with") { self.options()? } else { Vec::new() };
        Ok(Live { emit, since, resume_after, until, options })
    }

    fn bound(&mut self) -> Result<Bound> {
        if self.eat("now") {
            if self.eat_token(&Token::LParen) {
                self.expect_token(&Token::RParen)?;
            }
            return Ok(Bound::Now);
        }
        if self.eat("position") {
            return Ok(Bound::Position(self.string()?));
        }
        self.expect("timestamp")?;
        if self.eat("with") {
            self.expect_all(&["time", "zone"])?;
        }
        let value = self.expression()?;
        Ok(Bound::Timestamp(ast::Expr::Cast {
            kind: ast::CastKind::DoubleColon,
            expr: Box::new(value),
            data_type: ast::DataType::Timestamp(None, ast::TimezoneInfo::WithTimeZone),
            array: false,
            format: None,
        }))
    }

    /// WITH … SELECT, or WITH … INSERT.
    pub(super) fn with_statement(&mut self) -> Result<Statement> {
        let mut depth = 0usize;
        let body = (self.at..self.tokens.len()).find(|index| {
            match &self.tokens[*index].token {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                token if depth == 0 => {
                    return unquoted(token).is_some_and(|w| {
                        ["select", "values", "table", "insert", "update", "delete", "merge"].contains(&w)
                    });
                }
                _ => {}
            }
            false
        });
        match body.map(|index| (index, unquoted(&self.tokens[index].token).unwrap_or_default().to_owned())) {
            Some((index, word)) if word == "insert" => {
                let with = self.tokens[self.at..index].to_vec();
                self.at = index;
                self.insert(Some(with))
            }
            Some((index, word)) if ["update", "delete"].contains(&word.as_str()) => {
                self.at = index;
                self.update_or_delete()
            }
            Some((_, word)) if word == "merge" => {
                Err(super::refused::statement(&["merge"]).unwrap_or_else(|| self.fail()))
            }
            _ => self.query_statement(),
        }
    }

    pub(super) fn update_or_delete(&mut self) -> Result<Statement> {
        if let Some(index) = self.find_emit(self.tokens.len())? {
            return Err(self.emit_elsewhere(index));
        }
        let to = self.tokens.len();
        let update = self.is_word("update");
        let statement = Box::new(self.delegate(to, |p| p.parse_statement())?);
        Ok(if update { Statement::Update(statement) } else { Statement::Delete(statement) })
    }

    pub(super) fn explain(&mut self) -> Result<Statement> {
        self.expect("explain")?;
        let mut explain = ExplainOptions::default();
        if self.is_token(&Token::LParen)
            && !self.word_at(1).is_some_and(|w| ["select", "with", "values", "table"].contains(&w))
        {
            let from = self.source.position(self.here());
            let options = self.parenthesised(|p| {
                let name = if p.is_any(&["analyse", "analyze"]) {
                    p.label()?;
                    "analyze".to_owned()
                } else {
                    p.label()?
                };
                let value =
                    if p.is_token(&Token::Comma) || p.is_token(&Token::RParen) { None } else { Some(p.value()?) };
                Ok((name, value))
            })?;
            for (name, value) in options {
                explain.set(&name, value.as_deref()).map_err(|e| e.position(from))?;
            }
        } else {
            explain.analyze = self.eat("analyze") || self.eat("analyse");
            explain.verbose = self.eat("verbose");
        }
        if explain.timing == Some(true) && !explain.analyze {
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "EXPLAIN option TIMING requires ANALYZE"));
        }
        let head = self.peek_word().unwrap_or("(").to_owned();
        if !["select", "values", "table", "with", "insert", "update", "delete", "declare", "execute", "create", "("]
            .contains(&head.as_str())
        {
            return Err(self.fail());
        }
        let statement = self.parsed_rest()?;
        Ok(Statement::Explain(Box::new(Explain {
            analyze: explain.analyze,
            verbose: explain.verbose,
            costs: explain.costs,
            timing: explain.timing.unwrap_or(explain.analyze),
            summary: explain.summary.unwrap_or(explain.analyze),
            format: explain.format,
            statement,
        })))
    }
}

struct ExplainOptions {
    analyze: bool,
    verbose: bool,
    costs: bool,
    timing: Option<bool>,
    summary: Option<bool>,
    format: ExplainFormat,
}

impl Default for ExplainOptions {
    fn default() -> Self {
        Self { analyze: false, verbose: false, costs: true, timing: None, summary: None, format: ExplainFormat::Text }
    }
}

impl ExplainOptions {
    fn set(&mut self, name: &str, value: Option<&str>) -> Result<()> {
        let flag = || match value.map(str::to_ascii_lowercase).as_deref() {
            None | Some("true" | "on" | "1") => Ok(true),
            Some("false" | "off" | "0") => Ok(false),
            Some(_) => Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("{name} requires a Boolean value"))),
        };
        match name {
            "analyze" => self.analyze = flag()?,
            "verbose" => self.verbose = flag()?,
            "costs" => self.costs = flag()?,
            "timing" => self.timing = Some(flag()?),
            "summary" => self.summary = Some(flag()?),
            "buffers" | "wal" | "settings" => {
                if flag()? {
                    return Err(SqlError::unsupported(format!("EXPLAIN option {}", name.to_ascii_uppercase())));
                }
            }
            "format" => {
                self.format = match value.map(str::to_ascii_lowercase).as_deref() {
                    Some("text") => ExplainFormat::Text,
                    Some("json") => ExplainFormat::Json,
                    Some(other @ ("xml" | "yaml")) => {
                        return Err(SqlError::unsupported(format!("EXPLAIN format {other}")).hint("Use FORMAT JSON."));
                    }
                    other => {
                        return Err(SqlError::new(
                            SqlState::INVALID_PARAMETER_VALUE,
                            format!(
                                "unrecognized value for EXPLAIN option \"format\": \"{}\"",
                                other.unwrap_or_default()
                            ),
                        ));
                    }
                }
            }
            _ => {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("unrecognized EXPLAIN option \"{name}\"")));
            }
        }
        Ok(())
    }
}

/// What sqlparser accepts and would be ignored further down.
pub(super) fn check_query(query: &ast::Query) -> Result<()> {
    use std::ops::ControlFlow;
    struct Check(Option<SqlError>);
    impl ast::Visitor for Check {
        type Break = ();
        fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
            self.0 = refusal_of(query);
            if self.0.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
        fn pre_visit_table_factor(&mut self, factor: &ast::TableFactor) -> ControlFlow<()> {
            if let ast::TableFactor::Table { sample: Some(_), .. } = factor {
                self.0 = Some(SqlError::unsupported("TABLESAMPLE"));
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        }
    }
    let mut check = Check(None);
    let _ = ast::Visit::visit(query, &mut check);
    check.0.map_or(Ok(()), Err)
}

fn refusal_of(query: &ast::Query) -> Option<SqlError> {
    if !query.locks.is_empty() {
        let lock = match query.locks[0].lock_type {
            ast::LockType::Update => "UPDATE",
            ast::LockType::Share => "SHARE",
        };
        return Some(
            SqlError::unsupported(format!("SELECT FOR {lock}"))
                .hint("Rows cannot be locked yet; a statement reads one snapshot."),
        );
    }
    match query.body.as_ref() {
        ast::SetExpr::Insert(_) | ast::SetExpr::Update(_) | ast::SetExpr::Delete(_) | ast::SetExpr::Merge(_) => Some(
            SqlError::unsupported("a data-modifying statement in WITH").hint("Write it as a statement of its own."),
        ),
        _ => None,
    }
}

/// `SELECT … INTO target`, taken out of the leftmost SELECT.
fn take_into(query: &mut ast::Query) -> Result<Option<RelationName>> {
    let mut body = query.body.as_mut();
    loop {
        match body {
            ast::SetExpr::SetOperation { left, .. } => body = left.as_mut(),
            ast::SetExpr::Select(select) => {
                let Some(into) = select.into.take() else { return Ok(None) };
                if into.temporary || into.unlogged {
                    return Err(super::refused::temporary());
                }
                return RelationName::from_ast(&into.name).map(Some);
            }
            _ => return Ok(None),
        }
    }
}
