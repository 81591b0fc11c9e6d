//! DROP, ALTER, TRUNCATE, COMMENT, VACUUM and ANALYZE.

use sqlparser::tokenizer::Token;

use super::super::ddl::{AlterAction, CommentTarget, Ddl, DefaultDefinition, ObjectKind, RelationName};
use super::super::error::{Result, SqlError, SqlState};
use super::super::statement::Statement;
use super::{StatementParser, refused};

impl StatementParser<'_, '_> {
    pub(super) fn drop(&mut self) -> Result<Statement> {
        self.expect("drop")?;
        let Some(kind) = self.object_kind() else {
            let refusal = refused::alter_or_drop("drop", self.peek_word().unwrap_or_default());
            return Err(refusal.unwrap_or_else(|| self.fail()));
        };
        let if_exists = self.if_exists()?;
        let names = self.list(Self::relation_name)?;
        let cascade = self.cascade();
        Ok(ddl(Ddl::Drop { kind, names, if_exists, cascade }))
    }

    fn object_kind(&mut self) -> Option<ObjectKind> {
        for (words, kind) in [
            (&["stream"][..], ObjectKind::Stream),
            (&["table"], ObjectKind::Table),
            (&["view"], ObjectKind::View),
            (&["foreign", "table"], ObjectKind::ForeignTable),
            (&["schema"], ObjectKind::Schema),
            (&["server"], ObjectKind::Server),
        ] {
            if self.eat_all(words) {
                return Some(kind);
            }
        }
        None
    }

    fn if_exists(&mut self) -> Result<bool> {
        if self.is_word("if") && self.word_at(1) == Some("exists") {
            self.at += 2;
            return Ok(true);
        }
        Ok(false)
    }

    fn cascade(&mut self) -> bool {
        let cascade = self.eat("cascade");
        if !cascade {
            self.eat("restrict");
        }
        cascade
    }

    pub(super) fn alter(&mut self) -> Result<Statement> {
        self.expect("alter")?;
        let Some(kind) = self.object_kind() else {
            let refusal = refused::alter_or_drop("alter", self.peek_word().unwrap_or_default());
            return Err(refusal.unwrap_or_else(|| self.fail()));
        };
        match kind {
            ObjectKind::Schema => {
                let name = self.identifier()?;
                if self.is_word("owner") {
                    return Err(one_role());
                }
                self.expect_all(&["rename", "to"])?;
                return Ok(ddl(Ddl::RenameSchema { name, to: self.identifier()? }));
            }
            ObjectKind::Server => {
                return Err(refused::refuse("ALTER SERVER", "Drop the server and create it again."));
            }
            _ => {}
        }
        let if_exists = self.if_exists()?;
        self.eat("only");
        let name = self.relation_name()?;
        self.eat_token(&Token::Mul);
        let actions = if self.eat("rename") {
            vec![if self.eat("to") {
                AlterAction::RenameTo(self.identifier()?)
            } else {
                if self.is_word("constraint") {
                    return Err(refused::key_constraint("a constraint"));
                }
                self.eat("column");
                let name = self.identifier()?;
                self.expect("to")?;
                AlterAction::RenameColumn { name, to: self.identifier()? }
            }]
        } else if self.is_word("set") && self.word_at(1) == Some("schema") {
            self.at += 2;
            vec![AlterAction::SetSchema(self.identifier()?)]
        } else {
            self.list(Self::alter_action)?
        };
        Ok(ddl(Ddl::AlterRelation { kind, name, if_exists, actions }))
    }

    fn alter_action(&mut self) -> Result<AlterAction> {
        if self.eat("add") {
            if self.is_any(&["constraint", "primary", "unique", "foreign", "check", "exclude"]) {
                return Err(self.table_constraint()?);
            }
            self.eat("column");
            let if_not_exists = self.is_word("if") && self.word_at(1) == Some("not");
            if if_not_exists {
                self.expect_all(&["if", "not", "exists"])?;
            }
            return Ok(AlterAction::AddColumn { column: self.column()?, if_not_exists });
        }
        if self.eat("drop") {
            if self.is_word("constraint") {
                return Err(refused::key_constraint("a constraint"));
            }
            self.eat("column");
            let if_exists = self.if_exists()?;
            let name = self.identifier()?;
            let cascade = self.cascade();
            return Ok(AlterAction::DropColumn { name, if_exists, cascade });
        }
        if self.eat("owner") {
            self.expect("to")?;
            return Ok(AlterAction::OwnerTo(self.label()?));
        }
        if self.eat("set") {
            if self.is_token(&Token::LParen) {
                return Ok(AlterAction::SetOptions(self.options()?));
            }
            return Err(self.refused_alter("SET"));
        }
        if self.eat("reset") {
            let names = self.parenthesised(Self::label)?;
            return Ok(AlterAction::ResetOptions(names));
        }
        if self.eat("alter") {
            self.eat("column");
            let column = self.identifier()?;
            if self.eat_all(&["set", "default"]) {
                let (expression, text) = self.expression_text()?;
                return Ok(AlterAction::SetDefault { column, default: Some(DefaultDefinition { expression, text }) });
            }
            if self.eat_all(&["drop", "default"]) {
                return Ok(AlterAction::SetDefault { column, default: None });
            }
            if self.eat_all(&["set", "not", "null"]) {
                return Ok(AlterAction::SetNotNull { column, not_null: true });
            }
            if self.eat_all(&["drop", "not", "null"]) {
                return Ok(AlterAction::SetNotNull { column, not_null: false });
            }
            if self.is_word("type") || self.is_word("set") && self.word_at(1) == Some("data") {
                return Err(refused::refuse(
                    "ALTER COLUMN … TYPE",
                    "Add a column of the new type, or CREATE TABLE … AS SELECT.",
                ));
            }
            return Err(self.refused_alter("ALTER COLUMN"));
        }
        Err(self.refused_alter("ALTER TABLE"))
    }

    /// A known action that has no meaning here, else a syntax error.
    fn refused_alter(&self, what: &str) -> SqlError {
        const KNOWN: &[&str] = &[
            "attach",
            "detach",
            "enable",
            "disable",
            "cluster",
            "inherit",
            "no",
            "of",
            "not",
            "replica",
            "validate",
            "force",
            "tablespace",
            "without",
            "logged",
            "unlogged",
            "access",
            "statistics",
            "storage",
            "compression",
            "generated",
            "restart",
            "add",
            "drop",
        ];
        match self.peek_word() {
            Some(word) if KNOWN.contains(&word) => {
                SqlError::unsupported(format!("{what} {}", word.to_ascii_uppercase()))
            }
            _ => self.fail(),
        }
    }

    pub(super) fn truncate(&mut self) -> Result<Statement> {
        self.expect("truncate")?;
        let _ = self.eat("table") || self.eat("stream");
        self.eat("only");
        let names = self.list(|p| {
            let name = p.relation_name()?;
            p.eat_token(&Token::Mul);
            Ok(name)
        })?;
        // There are no sequences, so both mean the same.
        if self.is_any(&["restart", "continue"]) {
            self.at += 1;
            self.expect("identity")?;
        }
        let cascade = self.cascade();
        Ok(ddl(Ddl::Truncate { names, cascade }))
    }

    pub(super) fn comment(&mut self) -> Result<Statement> {
        self.expect_all(&["comment", "on"])?;
        let on = if self.eat("column") {
            let name = self.relation_name_parts()?;
            match name.len() {
                0 | 1 => {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "column name must be qualified"));
                }
                _ => {
                    let mut parts = name.into_iter().rev();
                    let column = parts.next().unwrap_or_default();
                    let relation = RelationName {
                        name: parts.next().unwrap_or_default(),
                        schema: parts.next(),
                        database: parts.next(),
                    };
                    CommentTarget::Column { relation, column }
                }
            }
        } else {
            match self.object_kind() {
                Some(kind @ (ObjectKind::Schema | ObjectKind::Server)) => {
                    let what = if kind == ObjectKind::Schema { "SCHEMA" } else { "SERVER" };
                    return Err(SqlError::unsupported(format!("COMMENT ON {what}")));
                }
                Some(kind) => CommentTarget::Relation(kind, self.relation_name()?),
                None => {
                    let object = self.peek_word().unwrap_or_default().to_ascii_uppercase();
                    return Err(if object.is_empty() {
                        self.fail()
                    } else {
                        SqlError::unsupported(format!("COMMENT ON {object}"))
                    });
                }
            }
        };
        self.expect("is")?;
        let text = if self.eat("null") { None } else { Some(self.string()?) };
        Ok(ddl(Ddl::Comment { on, text: text.filter(|t| !t.is_empty()) }))
    }

    fn relation_name_parts(&mut self) -> Result<Vec<String>> {
        let mut parts = vec![self.identifier()?];
        while self.eat_token(&Token::Period) {
            parts.push(self.label()?);
        }
        Ok(parts)
    }

    /// VACUUM and ANALYZE with their options and relations.
    pub(super) fn maintain(&mut self) -> Result<Statement> {
        let vacuum = self.eat("vacuum");
        let mut analyze = !vacuum;
        if !vacuum {
            self.at += 1;
        }
        if self.is_token(&Token::LParen) {
            let known = [
                "full",
                "freeze",
                "verbose",
                "analyze",
                "analyse",
                "disable_page_skipping",
                "skip_locked",
                "index_cleanup",
                "process_toast",
                "truncate",
                "parallel",
            ];
            let command = if vacuum { "VACUUM" } else { "ANALYZE" };
            let options = self.parenthesised(|p| {
                let name = p.label()?;
                if !p.is_token(&Token::Comma) && !p.is_token(&Token::RParen) {
                    p.value()?;
                }
                Ok(name)
            })?;
            for name in options {
                if !known.contains(&name.as_str()) {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        format!("unrecognized {command} option \"{name}\""),
                    ));
                }
                analyze |= name.starts_with("analy");
            }
        } else {
            while vacuum && (self.eat("full") || self.eat("freeze")) {}
            self.eat("verbose");
            if vacuum && (self.eat("analyze") || self.eat("analyse")) {
                analyze = true;
            }
        }
        let names = if self.is_end() {
            Vec::new()
        } else {
            self.list(|p| {
                let name = p.relation_name()?;
                let columns = if p.is_token(&Token::LParen) { p.parenthesised(Self::identifier)? } else { Vec::new() };
                Ok((name, columns))
            })?
        };
        Ok(ddl(Ddl::Maintain { vacuum, analyze, names }))
    }
}

fn one_role() -> SqlError {
    refused::refuse("OWNER TO", "There is one role, postgres.")
}

fn ddl(statement: Ddl) -> Statement {
    Statement::Ddl(Box::new(statement))
}
