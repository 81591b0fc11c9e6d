//! INSERT.

use sqlparser::ast;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::super::error::{Result, SqlError, SqlState};
use super::super::statement::{Insert, InsertSource, Statement};
use super::StatementParser;

impl StatementParser<'_, '_> {
    /// `with` = the tokens of a WITH in front of INSERT; it belongs to the inserted query.
    pub(super) fn insert(&mut self, with: Option<Vec<TokenWithSpan>>) -> Result<Statement> {
        if let Some(index) = self.find_emit(self.tokens.len())? {
            return Err(self.emit_elsewhere(index));
        }
        self.expect_all(&["insert", "into"])?;
        let table_position = self.source.position(self.here());
        let table = self.relation_name()?;
        let alias = if self.eat("as") { Some(self.identifier()?) } else { None };
        let starts_query =
            |p: &Self, offset| p.word_at(offset).is_some_and(|w| ["select", "values", "table", "with"].contains(&w));
        let mut columns = Vec::new();
        if self.is_token(&Token::LParen) && !starts_query(self, 1) && self.peek_at(1) != Some(&Token::LParen) {
            columns = self.parenthesised(|p| {
                let name = p.identifier()?;
                if p.is_token(&Token::Period) || p.is_token(&Token::LBracket) {
                    return Err(SqlError::unsupported("inserting into a part of a column"));
                }
                Ok(name)
            })?;
        }
        if self.eat("overriding") {
            let _ = self.eat("system") || self.eat("user");
            self.expect("value")?;
        }
        let source = if self.eat_all(&["default", "values"]) {
            InsertSource::DefaultValues
        } else if starts_query(self, 0) || self.is_token(&Token::LParen) {
            if let Some(with) = with {
                if self.is_word("with") {
                    return Err(SqlError::unsupported("a second WITH inside the inserted query"));
                }
                self.tokens.splice(self.at..self.at, with);
            }
            let to = self.tokens.len();
            let query = self.delegate(to, |p| p.parse_query())?;
            super::query::check_query(&query)?;
            match *query {
                // Only a bare VALUES may say DEFAULT, and it needs no planner.
                ast::Query { with: None, body, order_by: None, limit_clause: None, fetch: None, .. }
                    if matches!(body.as_ref(), ast::SetExpr::Values(_)) =>
                {
                    match *body {
                        ast::SetExpr::Values(values) => {
                            InsertSource::Values(values.rows.into_iter().map(|r| r.content).collect())
                        }
                        _ => return Err(self.fail()),
                    }
                }
                query => InsertSource::Query(Box::new(query)),
            }
        } else {
            return Err(self.fail());
        };
        if self.is_word("on") {
            if self.word_at(1) == Some("conflict") {
                return Err(SqlError::unsupported("ON CONFLICT")
                    .hint("It needs a table with a primary key, which comes with keyed tables."));
            }
            return Err(self.fail());
        }
        let returning = if self.eat("returning") {
            let to = self.tokens.len();
            self.delegate(to, |p| p.parse_comma_separated(|p| p.parse_select_item()))?
        } else {
            Vec::new()
        };
        for (index, column) in columns.iter().enumerate() {
            if columns[..index].contains(column) {
                return Err(SqlError::new(
                    SqlState::DUPLICATE_COLUMN,
                    format!("column \"{column}\" specified more than once"),
                ));
            }
        }
        Ok(Statement::Insert(Box::new(Insert { table, table_position, alias, columns, source, returning })))
    }
}
