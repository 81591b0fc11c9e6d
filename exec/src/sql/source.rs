//! A query text as tokens: positions, identifiers folded as PostgreSQL folds them, statements split.
//! Owns the wording of lexical and syntax errors; does not know any statement.

use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::ParserError;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, TokenizerError};

use super::error::{Result, SqlError, SqlState};

/// PostgreSQL's grammar; ours is added in front of it, token by token.
pub(super) static DIALECT: PostgreSqlDialect = PostgreSqlDialect {};

/// Longer identifiers are cut, as with NAMEDATALEN = 64.
pub const IDENTIFIER_BYTES_MAX: usize = 63;

/// How deep parentheses, brackets and CASE may nest. The parser, the planner and the tree's destructor recurse.
const NESTING_MAX: usize = 100;
/// How many operators may follow each other at one level: a chain of them is a tree of that depth.
const CHAIN_MAX: usize = 1_500;

/// A text sent by a client.
pub(super) struct Source<'a> {
    pub text: &'a str,
    /// Byte offset of each line.
    lines: Vec<usize>,
}

/// One statement's tokens without blanks and comments, its `;` not among them.
pub(super) struct StatementTokens {
    pub tokens: Vec<TokenWithSpan>,
    /// Where the statement ends: its `;` or the end of the text.
    pub end: Location,
}

impl<'a> Source<'a> {
    pub fn new(text: &'a str) -> Self {
        let mut lines = vec![0];
        lines.extend(text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i + 1));
        Self { text, lines }
    }

    /// All statements that are not empty.
    pub fn statements(&self) -> Result<Vec<StatementTokens>> {
        if let Some(at) = self.text.find('\0') {
            return Err(SqlError::new(
                SqlState::CHARACTER_NOT_IN_REPERTOIRE,
                "invalid byte sequence for encoding \"UTF8\": 0x00",
            )
            .position(self.text[..at].chars().count() + 1));
        }
        let mut raw = Vec::new();
        Tokenizer::new(&DIALECT, self.text)
            .tokenize_with_location_into_buf(&mut raw)
            .map_err(|error| self.lexical_error(&error))?;
        let mut statements = Vec::new();
        let mut tokens: Vec<TokenWithSpan> = Vec::new();
        let mut newline = false;
        for mut token in raw {
            match &mut token.token {
                Token::Whitespace(_) => {
                    newline |= token.span.end.line > token.span.start.line;
                    continue;
                }
                Token::EOF => break,
                Token::SemiColon => {
                    if !tokens.is_empty() {
                        statements.push(StatementTokens { tokens: std::mem::take(&mut tokens), end: token.span.start });
                    }
                    newline = false;
                    continue;
                }
                // Two literals with a line break between them are one.
                Token::SingleQuotedString(more) if newline => {
                    if let Some(TokenWithSpan {
                        token: Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text),
                        span,
                    }) = tokens.last_mut()
                    {
                        text.push_str(more);
                        span.end = token.span.end;
                        newline = false;
                        continue;
                    }
                }
                Token::Word(word) => {
                    match word.quote_style {
                        None => word.value.make_ascii_lowercase(),
                        Some(_) if word.value.is_empty() => {
                            let error = SqlError::new(
                                SqlState::SYNTAX_ERROR,
                                "zero-length delimited identifier at or near \"\"\"\"",
                            );
                            return Err(error.position(self.position(token.span.start)));
                        }
                        Some(_) => word.keyword = Keyword::NoKeyword,
                    }
                    truncate_identifier(&mut word.value);
                }
                _ => {}
            }
            newline = false;
            tokens.push(token);
        }
        if !tokens.is_empty() {
            statements.push(StatementTokens { tokens, end: self.end() });
        }
        for statement in &statements {
            self.check_depth(&statement.tokens)?;
        }
        Ok(statements)
    }

    /// Refuses what would make a tree too deep for a stack.
    fn check_depth(&self, tokens: &[TokenWithSpan]) -> Result<()> {
        enum Step {
            In,
            Out,
            Operator,
            Separator,
            Nothing,
        }
        let mut chains = vec![0usize];
        for token in tokens {
            let step = match &token.token {
                Token::LParen | Token::LBracket => Step::In,
                Token::RParen | Token::RBracket => Step::Out,
                Token::Comma => Step::Separator,
                Token::Number(..) | Token::SingleQuotedString(_) | Token::Placeholder(_) | Token::Period => {
                    Step::Nothing
                }
                Token::Word(w) => match w.keyword {
                    Keyword::CASE => Step::In,
                    // Also ends a block (END), where it does no harm.
                    Keyword::END => Step::Out,
                    Keyword::AND
                    | Keyword::OR
                    | Keyword::NOT
                    | Keyword::UNION
                    | Keyword::INTERSECT
                    | Keyword::EXCEPT
                    | Keyword::JOIN
                    | Keyword::IS
                    | Keyword::AT => Step::Operator,
                    _ => Step::Nothing,
                },
                _ => Step::Operator,
            };
            let depth = chains.len();
            match step {
                Step::In => chains.push(0),
                Step::Out if depth > 1 => {
                    chains.pop();
                }
                Step::Operator => chains[depth - 1] += 1,
                Step::Separator => chains[depth - 1] = 0,
                Step::Out | Step::Nothing => {}
            }
            if chains.len() > NESTING_MAX || chains.last().is_some_and(|c| *c > CHAIN_MAX) {
                return Err(too_deep().position(self.position(token.span.start)));
            }
        }
        Ok(())
    }

    pub fn byte(&self, at: Location) -> usize {
        let Some(start) = usize::try_from(at.line).ok().and_then(|l| self.lines.get(l.checked_sub(1)?)).copied() else {
            return self.text.len();
        };
        let column = usize::try_from(at.column).unwrap_or(1).saturating_sub(1);
        let line = &self.text[start..];
        line.char_indices().nth(column).map_or(self.text.len(), |(i, _)| start + i)
    }

    /// The character's number from 1, as PostgreSQL's `P` field counts.
    pub fn position(&self, at: Location) -> usize {
        self.text[..self.byte(at)].chars().count() + 1
    }

    pub fn end(&self) -> Location {
        let start = *self.lines.last().unwrap_or(&0);
        Location { line: self.lines.len() as u64, column: self.text[start..].chars().count() as u64 + 1 }
    }

    pub fn slice(&self, from: Location, to: Location) -> &'a str {
        let (from, to) = (self.byte(from), self.byte(to));
        self.text[from..to.max(from)].trim_end()
    }

    /// `syntax error at or near "token"`; `at` is the token's start, or the end of the text.
    pub fn syntax_error(&self, at: Location) -> SqlError {
        let byte = self.byte(at);
        let rest = &self.text[byte..];
        let position = self.text[..byte].chars().count() + 1;
        let token = first_token(rest);
        let message = match token {
            "" => "syntax error at end of input".to_owned(),
            near => format!("syntax error at or near \"{near}\""),
        };
        SqlError::new(SqlState::SYNTAX_ERROR, message).position(position)
    }

    /// What sqlparser could not parse, said as PostgreSQL says it. `end` is where the tokens given to it ended.
    pub fn parse_error(&self, error: ParserError, end: Location) -> SqlError {
        let message = match error {
            ParserError::RecursionLimitExceeded => return too_deep(),
            ParserError::TokenizerError(message) | ParserError::ParserError(message) => message,
        };
        match location_in(&message) {
            Some(at) if !message.contains("found: EOF") => self.syntax_error(at),
            _ if message.contains("found: EOF") => self.syntax_error(end),
            // Not a matter of one token: sqlparser's own rule about the statement as a whole.
            _ => SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error: {}", lower_first(&message))),
        }
    }

    fn lexical_error(&self, error: &TokenizerError) -> SqlError {
        let what = error.message.to_ascii_lowercase();
        let kind = if what.contains("dollar") {
            "unterminated dollar-quoted string"
        } else if what.contains("multi-line comment") || what.contains("comment") {
            "unterminated /* comment"
        } else if what.contains("close delimiter") {
            "unterminated quoted identifier"
        } else if what.contains("unicode") || what.contains("escape") {
            return SqlError::new(SqlState::SYNTAX_ERROR, "invalid Unicode escape")
                .hint("Unicode escapes must be \\XXXX or \\+XXXXXX.")
                .position(self.position(error.location));
        } else if what.contains("unterminated") {
            "unterminated quoted string"
        } else {
            return self.syntax_error(error.location);
        };
        // The place where the literal begins is where scanning it alone runs to the end of the text.
        let start = self.unterminated_start(kind).unwrap_or_else(|| self.byte(error.location));
        let near = &self.text[start..];
        SqlError::new(SqlState::SYNTAX_ERROR, format!("{kind} at or near \"{near}\""))
            .position(self.text[..start].chars().count() + 1)
    }

    fn unterminated_start(&self, kind: &str) -> Option<usize> {
        let opens = |rest: &str| match kind {
            "unterminated dollar-quoted string" => rest.starts_with('$'),
            "unterminated /* comment" => rest.starts_with("/*"),
            "unterminated quoted identifier" => rest.starts_with('"'),
            _ => rest.starts_with('\''),
        };
        // Lexing a prefix succeeds exactly until the open literal is part of it, so the last place where the text before
        // it is whole and the literal opens is the one. Bounded: only tried where the literal could open.
        let candidates: Vec<usize> =
            self.text.char_indices().map(|(i, _)| i).filter(|i| opens(&self.text[*i..])).take(1_000).collect();
        candidates.into_iter().find(|i| {
            let mut tokens = Vec::new();
            let before = Tokenizer::new(&DIALECT, &self.text[..*i]).tokenize_with_location_into_buf(&mut tokens);
            let rest = Tokenizer::new(&DIALECT, &self.text[*i..]).tokenize();
            before.is_ok() && rest.is_err() && Tokenizer::new(&DIALECT, &self.text[..*i + 1]).tokenize().is_err()
                || (before.is_ok() && rest.is_err() && kind.contains("dollar"))
                || (before.is_ok() && rest.is_err() && kind.contains("comment"))
        })
    }
}

pub(super) fn too_deep() -> SqlError {
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
        .hint("Write long chains of OR as IN (…) or = ANY (…), and nest less deeply.")
}

fn truncate_identifier(name: &mut String) {
    if name.len() > IDENTIFIER_BYTES_MAX {
        let mut end = IDENTIFIER_BYTES_MAX;
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        name.truncate(end);
    }
}

/// The first token's text as written.
fn first_token(text: &str) -> &str {
    let line_end = text.find('\n').map_or(text.len(), |i| i + 1);
    // A token over several lines is a string or quoted identifier: try the line first, then all.
    for part in [&text[..line_end], text] {
        let mut tokens = Vec::new();
        let _ = Tokenizer::new(&DIALECT, part).tokenize_with_location_into_buf(&mut tokens);
        if let Some(token) = tokens.first().filter(|t| t.token != Token::EOF) {
            let source = Source::new(part);
            return &part[..source.byte(token.span.end)];
        }
    }
    text
}

fn location_in(message: &str) -> Option<Location> {
    let at = message.rfind(" at Line: ")?;
    let (line, column) = message[at + " at Line: ".len()..].split_once(", Column: ")?;
    let digits = |t: &str| t.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok();
    Some(Location { line: digits(line)?, column: digits(column)? })
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|c| c.to_lowercase().collect::<String>() + chars.as_str()).unwrap_or_default()
}
