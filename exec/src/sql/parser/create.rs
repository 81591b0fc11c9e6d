//! CREATE: streams, tables, views, schemas, servers, foreign tables.

use sqlparser::tokenizer::Token;

use super::super::ddl::{
    ColumnDefinition, CreateAs, CreateForeignTable, CreateRelation, CreateView, Ddl, DefaultDefinition, ObjectKind,
    RelationName, WatermarkDefinition,
};
use super::super::error::{Result, SqlError, SqlState};
use super::super::statement::Statement;
use super::{StatementParser, refused};

/// What the brackets of CREATE STREAM, TABLE and FOREIGN TABLE hold.
#[derive(Default)]
struct Elements {
    columns: Vec<ColumnDefinition>,
    like: Vec<(usize, RelationName)>,
    watermark: Option<WatermarkDefinition>,
}

impl StatementParser<'_, '_> {
    pub(super) fn create(&mut self) -> Result<Statement> {
        self.expect("create")?;
        let ddl = if self.eat_all(&["or", "replace"]) {
            if self.is_any(&["temp", "temporary", "local", "global"]) {
                return Err(refused::temporary());
            }
            if self.is_word("recursive") {
                return Err(recursive_view());
            }
            if !self.eat("view") {
                return Err(refused::create(self.peek_word().unwrap_or_default(), "").unwrap_or_else(|| self.fail()));
            }
            self.view(true)?
        } else if self.is_any(&["temp", "temporary", "unlogged"])
            || self.is_any(&["local", "global"]) && matches!(self.word_at(1), Some("temp" | "temporary"))
        {
            return Err(refused::temporary());
        } else if self.is_word("recursive") {
            return Err(recursive_view());
        } else if self.eat("view") {
            self.view(false)?
        } else if self.eat("stream") {
            self.relation(ObjectKind::Stream)?
        } else if self.eat("table") {
            self.relation(ObjectKind::Table)?
        } else if self.eat("schema") {
            self.schema()?
        } else if self.eat("server") {
            self.server()?
        } else if self.eat("foreign") {
            if self.is_word("data") {
                return Err(refused::refuse("CREATE FOREIGN DATA WRAPPER", "The wrappers are built in: generator."));
            }
            self.expect("table")?;
            self.foreign_table()?
        } else {
            let words = self.words(2);
            let refusal =
                refused::create(words.first().copied().unwrap_or_default(), words.get(1).copied().unwrap_or_default());
            return Err(refusal.unwrap_or_else(|| self.fail()));
        };
        Ok(Statement::Ddl(Box::new(ddl)))
    }

    fn if_not_exists(&mut self) -> Result<bool> {
        if self.is_word("if") && self.word_at(1) == Some("not") {
            self.expect_all(&["if", "not", "exists"])?;
            return Ok(true);
        }
        Ok(false)
    }

    fn relation(&mut self, kind: ObjectKind) -> Result<Ddl> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.relation_name()?;
        if self.is_any(&["partition", "of"]) {
            return Err(refused::refuse(
                "a partition of another table",
                "Use PARTITION BY (column) and WITH (partitions = n) on one relation.",
            ));
        }
        if kind == ObjectKind::Table && self.is_any(&["as", "with", "using"]) || self.names_only() {
            return self.table_as(name, if_not_exists);
        }
        let elements = self.elements()?;
        let mut relation = CreateRelation {
            kind,
            name,
            if_not_exists,
            columns: elements.columns,
            like: elements.like,
            watermark: elements.watermark,
            partition_by: Vec::new(),
            order_by: Vec::new(),
            options: Vec::new(),
        };
        loop {
            if self.is_word("watermark") && relation.watermark.is_none() {
                relation.watermark = Some(self.watermark()?);
            } else if relation.partition_by.is_empty() && self.eat_all(&["partition", "by"]) {
                if self.is_any(&["range", "list", "hash"]) && self.peek_at(1) == Some(&Token::LParen) {
                    return Err(refused::refuse(
                        "PARTITION BY RANGE, LIST or HASH",
                        "Use PARTITION BY (column) and WITH (partitions = n).",
                    ));
                }
                relation.partition_by = self.columns_in_order()?;
            } else if relation.order_by.is_empty() && self.eat_all(&["order", "by"]) {
                relation.order_by = self.columns_in_order()?;
            } else if relation.options.is_empty() && self.eat("with") {
                relation.options = self.options()?;
            } else if self.eat_all(&["without", "oids"]) {
            } else if self.is_word("inherits") {
                return Err(refused::refuse("INHERITS", "Use LIKE to copy the columns."));
            } else if self.eat("using") {
                self.access_method()?;
            } else if self.is_word("tablespace") {
                return Err(refused::refuse("TABLESPACE", "All data lives in the data directory."));
            } else if self.is_all(&["on", "commit"]) {
                return Err(refused::temporary());
            } else if self.is_word("as") {
                return Err(self.fail());
            } else {
                return Ok(Ddl::CreateRelation(relation));
            }
        }
    }

    fn is_all(&self, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(i, w)| self.word_at(i) == Some(w))
    }

    fn access_method(&mut self) -> Result<()> {
        match self.identifier()?.as_str() {
            "heap" => Ok(()),
            other => {
                Err(SqlError::new(SqlState::UNDEFINED_OBJECT, format!("access method \"{other}\" does not exist")))
            }
        }
    }

    /// `(a, b) AS …` or `(a, b) WITH …`: a list of names without types.
    fn names_only(&self) -> bool {
        self.peek() == Some(&Token::LParen)
            && matches!(self.peek_at(1), Some(Token::Word(_)))
            && matches!(self.peek_at(2), Some(Token::Comma | Token::RParen))
    }

    fn table_as(&mut self, name: RelationName, if_not_exists: bool) -> Result<Ddl> {
        let columns = if self.is_token(&Token::LParen) { self.parenthesised(Self::identifier)? } else { Vec::new() };
        if self.eat("using") {
            self.access_method()?;
        }
        let options = if self.eat("with") { self.options()? } else { Vec::new() };
        self.eat_all(&["without", "oids"]);
        self.expect("as")?;
        if self.is_word("execute") {
            return Err(refused::refuse("CREATE TABLE … AS EXECUTE", "Write the query itself."));
        }
        let count = self.tokens.len();
        let tail = |words: &[&str]| {
            count >= self.at + words.len()
                && words
                    .iter()
                    .enumerate()
                    .all(|(i, w)| super::unquoted(&self.tokens[count - words.len() + i].token) == Some(w))
        };
        let (to, with_data) = if tail(&["with", "no", "data"]) {
            (count - 3, false)
        } else if tail(&["with", "data"]) {
            (count - 2, true)
        } else {
            (count, true)
        };
        let query = self.bounded_query_to(to)?;
        self.at = count;
        Ok(Ddl::CreateTableAs(CreateAs { name, if_not_exists, columns, options, with_data, query, select_into: false }))
    }

    fn columns_in_order(&mut self) -> Result<Vec<String>> {
        self.parenthesised(|p| {
            let name = p.identifier()?;
            if p.is_word("desc") {
                return Err(refused::refuse("descending order of storage", "Give the columns only: ORDER BY (k, ts)."));
            }
            p.eat("asc");
            Ok(name)
        })
    }

    fn elements(&mut self) -> Result<Elements> {
        let mut elements = Elements::default();
        self.expect_token(&Token::LParen)?;
        if self.eat_token(&Token::RParen) {
            return Ok(elements);
        }
        loop {
            if self.is_word("watermark") && self.word_at(1) == Some("for") {
                let watermark = self.watermark()?;
                if elements.watermark.replace(watermark).is_some() {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "a relation has one WATERMARK at most"));
                }
            } else if self.eat("like") {
                let source = self.relation_name()?;
                while self.is_any(&["including", "excluding"]) {
                    self.at += 1;
                    self.label()?;
                }
                elements.like.push((elements.columns.len(), source));
            } else if self.is_any(&["constraint", "primary", "unique", "foreign", "check", "exclude"]) {
                return Err(self.table_constraint()?);
            } else {
                let column = self.column()?;
                elements.columns.push(column);
            }
            if !self.eat_token(&Token::Comma) {
                break;
            }
        }
        self.expect_token(&Token::RParen)?;
        Ok(elements)
    }

    /// The refusal of a table's constraint.
    pub(super) fn table_constraint(&mut self) -> Result<SqlError> {
        if self.eat("constraint") {
            self.identifier()?;
        }
        Ok(refused::key_constraint(match self.peek_word() {
            Some("primary") => "PRIMARY KEY",
            Some("unique") => "UNIQUE",
            Some("foreign") => "FOREIGN KEY",
            Some("check") => "CHECK",
            Some("exclude") => "EXCLUDE",
            _ => return Err(self.fail()),
        }))
    }

    /// `name type [constraints]`
    pub(super) fn column(&mut self) -> Result<ColumnDefinition> {
        let name = self.identifier()?;
        let type_position = self.source.position(self.here());
        if let Some(word @ ("serial" | "bigserial" | "smallserial" | "serial2" | "serial4" | "serial8")) =
            self.peek_word()
        {
            return Err(generated(word));
        }
        if !matches!(self.peek(), Some(Token::Word(_))) {
            return Err(self.fail());
        }
        let mut column = ColumnDefinition {
            name,
            data_type: self.data_type()?,
            type_position,
            not_null: false,
            default: None,
            foreign_options: Vec::new(),
        };
        let mut null = false;
        loop {
            if self.is_word("constraint") {
                self.at += 1;
                self.identifier()?;
            }
            if self.eat_all(&["not", "null"]) {
                column.not_null = true;
            } else if self.eat("null") {
                null = true;
            } else if self.eat("default") {
                // PostgreSQL's `b_expr`: NOT NULL behind it is the next constraint.
                let to = self.default_end();
                let from = self.here();
                let expression = self.delegate(to, |p| p.parse_expr())?;
                if self.at != to {
                    return Err(self.fail());
                }
                let text = self.source.slice(from, self.behind()).to_owned();
                if column.default.replace(DefaultDefinition { expression, text }).is_some() {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        format!("multiple default values specified for column \"{}\"", column.name),
                    ));
                }
            } else if self.eat("collate") {
                let collation = self.relation_name()?;
                if !matches!(collation.name.as_str(), "default" | "C" | "POSIX" | "ucs_basic") {
                    return Err(refused::refuse(
                        &format!("collation \"{}\"", collation.name),
                        "Text is ordered by its bytes: use COLLATE \"C\".",
                    ));
                }
            } else if self.is_word("options") {
                column.foreign_options = self.sql_med_options()?;
            } else if self.is_word("generated") {
                return Err(generated("GENERATED"));
            } else if self.is_any(&["storage", "compression"]) {
                return Err(refused::refuse("STORAGE or COMPRESSION of a column", "Use WITH (compression = 'zstd')."));
            } else if self.is_any(&["primary", "unique", "references", "check"]) {
                return Err(refused::key_constraint(match self.peek_word() {
                    Some("primary") => "PRIMARY KEY",
                    Some("unique") => "UNIQUE",
                    Some("references") => "REFERENCES",
                    _ => "CHECK",
                }));
            } else if null && column.not_null {
                return Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    format!("conflicting NULL/NOT NULL declarations for column \"{}\"", column.name),
                ));
            } else {
                return Ok(column);
            }
        }
    }

    /// Where a DEFAULT's expression ends: the next constraint or bracket at its level.
    fn default_end(&self) -> usize {
        let mut depth = 0usize;
        for index in self.at..self.tokens.len() {
            match &self.tokens[index].token {
                Token::LParen | Token::LBracket => depth += 1,
                Token::RParen | Token::RBracket if depth == 0 => return index,
                Token::RParen | Token::RBracket => depth -= 1,
                Token::Comma if depth == 0 => return index,
                token if depth == 0 && index > self.at => match super::unquoted(token) {
                    Some(
                        "constraint" | "primary" | "unique" | "references" | "check" | "generated" | "default"
                        | "collate",
                    ) => return index,
                    Some("null") if !self.follows(index, &["is", "not"]) && self.follows_operand(index) => {
                        return index;
                    }
                    Some("not")
                        if super::unquoted_at(&self.tokens, index + 1) == Some("null")
                            && !self.follows(index, &["is"]) =>
                    {
                        return index;
                    }
                    _ => {}
                },
                _ => {}
            }
        }
        self.tokens.len()
    }

    fn follows(&self, index: usize, words: &[&str]) -> bool {
        super::unquoted_at(&self.tokens, index - 1).is_some_and(|w| words.contains(&w))
    }

    fn follows_operand(&self, index: usize) -> bool {
        matches!(
            self.tokens[index - 1].token,
            Token::Number(..) | Token::SingleQuotedString(_) | Token::RParen | Token::RBracket | Token::Word(_)
        )
    }

    /// `WATERMARK FOR column AS expression [PER (keys)]`
    fn watermark(&mut self) -> Result<WatermarkDefinition> {
        self.expect_all(&["watermark", "for"])?;
        let column = self.identifier()?;
        self.expect("as")?;
        let expression = self.expression()?;
        let per = if self.eat("per") { self.parenthesised(Self::identifier)? } else { Vec::new() };
        Ok(WatermarkDefinition { column, expression, per })
    }

    fn view(&mut self, or_replace: bool) -> Result<Ddl> {
        if !or_replace && self.is_word("if") && self.word_at(1) == Some("not") {
            return Err(self.fail());
        }
        let name = self.relation_name()?;
        let columns = if self.is_token(&Token::LParen) { self.parenthesised(Self::identifier)? } else { Vec::new() };
        if self.eat("with") {
            for (name, value) in self.options()? {
                let off = matches!(value.to_ascii_lowercase().as_str(), "false" | "off" | "0");
                match name.as_str() {
                    "security_barrier" | "security_invoker" if off => {}
                    "security_barrier" | "security_invoker" | "check_option" => {
                        return Err(refused::refuse(&format!("view option \"{name}\""), ""));
                    }
                    _ => {
                        return Err(SqlError::new(
                            SqlState::INVALID_PARAMETER_VALUE,
                            format!("unrecognized parameter \"{name}\""),
                        ));
                    }
                }
            }
        }
        self.expect("as")?;
        let count = self.tokens.len();
        let word = |back: usize| count.checked_sub(back).and_then(|i| super::unquoted_at(&self.tokens, i));
        if word(1) == Some("option") && word(2) == Some("check") {
            return Err(refused::refuse("WITH CHECK OPTION", "Views are read-only."));
        }
        let from = self.here();
        let query = self.bounded_query_to(count)?;
        let text = self.source.slice(from, self.end).to_owned();
        Ok(Ddl::CreateView(CreateView { name, or_replace, columns, query, text }))
    }

    fn schema(&mut self) -> Result<Ddl> {
        let if_not_exists = self.if_not_exists()?;
        let name = if self.is_word("authorization") { None } else { Some(self.identifier()?) };
        let owner = if self.eat("authorization") { Some(self.label()?) } else { None };
        let Some(name) = name.or_else(|| owner.clone()) else { return Err(self.fail()) };
        if self.is_any(&["create", "grant"]) {
            return Err(refused::refuse(
                "CREATE SCHEMA with elements",
                "Create the objects by statements of their own.",
            ));
        }
        Ok(Ddl::CreateSchema { name, if_not_exists, owner })
    }

    fn server(&mut self) -> Result<Ddl> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.identifier()?;
        if self.eat("type") {
            self.string()?;
        }
        if self.eat("version") {
            self.string()?;
        }
        self.expect_all(&["foreign", "data", "wrapper"])?;
        let wrapper = self.identifier()?;
        let options = self.sql_med_options()?;
        Ok(Ddl::CreateServer { name, if_not_exists, wrapper, options })
    }

    fn foreign_table(&mut self) -> Result<Ddl> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.relation_name()?;
        let elements = self.elements()?;
        if !elements.like.is_empty() {
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                "LIKE is not supported for creating foreign tables",
            ));
        }
        let mut watermark = elements.watermark;
        if self.is_word("watermark") && watermark.is_none() {
            watermark = Some(self.watermark()?);
        }
        self.expect("server")?;
        let server = self.identifier()?;
        let options = self.sql_med_options()?;
        Ok(Ddl::CreateForeignTable(CreateForeignTable {
            name,
            if_not_exists,
            columns: elements.columns,
            watermark,
            server,
            options,
        }))
    }

    /// `[OPTIONS (name 'value', …)]`
    fn sql_med_options(&mut self) -> Result<Vec<(String, String)>> {
        if !self.eat("options") {
            return Ok(Vec::new());
        }
        let options = self.parenthesised(|p| Ok((p.label()?, p.string()?)))?;
        for (index, (name, _)) in options.iter().enumerate() {
            if options[..index].iter().any(|(n, _)| n == name) {
                return Err(SqlError::new(
                    SqlState::DUPLICATE_OBJECT,
                    format!("option \"{name}\" provided more than once"),
                ));
            }
        }
        Ok(options)
    }
}

fn generated(what: &str) -> SqlError {
    refused::refuse(
        &format!("a column with {what}"),
        "Use DEFAULT gen_random_uuid(), or the hidden columns _partition and _sn.",
    )
}

fn recursive_view() -> SqlError {
    refused::refuse("CREATE RECURSIVE VIEW", "Write CREATE VIEW … AS WITH RECURSIVE ….")
}
