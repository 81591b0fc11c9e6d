//! What a client can say, after parsing. Queries keep sqlparser's tree; everything PostgreSQL and sqlparser disagree on,
//! or that is ours, has its own shape here.

use std::sync::Arc;
use std::time::Duration;

use sqlparser::ast;

pub use super::ddl::Ddl;
use super::ddl::RelationName;

/// One statement of a text, with the part of the text that is its own (for positions and `pg_stat_activity`).
#[derive(Clone, Debug)]
pub struct Parsed {
    pub statement: Statement,
    pub text: Arc<str>,
}

#[derive(Clone, Debug)]
pub enum Statement {
    /// SELECT, VALUES, TABLE, WITH.
    Query(Box<Query>),
    Explain(Box<Explain>),
    Insert(Box<Insert>),
    Update(Box<ast::Statement>),
    Delete(Box<ast::Statement>),
    /// CREATE, ALTER, DROP, TRUNCATE, COMMENT: whatever changes the catalog or empties a relation.
    Ddl(Box<Ddl>),
    /// Said to the session itself; never planned.
    Session(SessionStatement),
    Copy(Box<Copy>),
}

/// A bounded or live query.
#[derive(Clone, Debug)]
pub struct Query {
    pub body: ast::Query,
    pub live: Option<Live>,
}

/// `EMIT …` and what follows it.
#[derive(Clone, Debug)]
pub struct Live {
    pub emit: Emit,
    pub since: Option<Bound>,
    pub resume_after: Option<String>,
    pub until: Option<Bound>,
    /// `WITH (name = 'value', …)`, lower-case names.
    pub options: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Emit {
    /// `EMIT` alone.
    Default,
    Changes,
    Rows,
    Latest,
    OnWindowClose,
    Every(ast::Expr),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Bound {
    Beginning,
    Now,
    /// An expression of type timestamptz without columns.
    Timestamp(ast::Expr),
    Position(String),
}

#[derive(Clone, Debug)]
pub struct Explain {
    pub analyze: bool,
    pub verbose: bool,
    pub costs: bool,
    pub timing: bool,
    pub summary: bool,
    /// `text` or `json`.
    pub format: ExplainFormat,
    pub statement: Parsed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExplainFormat {
    Text,
    Json,
}

#[derive(Clone, Debug)]
pub struct Insert {
    pub table: RelationName,
    /// Character position of the table's name in the text.
    pub table_position: usize,
    pub alias: Option<String>,
    /// Empty: the relation's own, in order.
    pub columns: Vec<String>,
    pub source: InsertSource,
    /// Empty: no RETURNING.
    pub returning: Vec<ast::SelectItem>,
}

#[derive(Clone, Debug)]
pub enum InsertSource {
    DefaultValues,
    /// A bare VALUES; an expression may be the identifier DEFAULT.
    Values(Vec<Vec<ast::Expr>>),
    Query(Box<ast::Query>),
}

#[derive(Clone, Debug)]
pub enum SessionStatement {
    Begin {
        modes: TransactionModes,
    },
    Commit {
        chain: bool,
    },
    Rollback {
        chain: bool,
    },
    Savepoint(String),
    Release(String),
    RollbackTo(String),
    Set {
        scope: SetScope,
        name: String,
        value: SetValue,
    },
    /// SET TRANSACTION … (`session` = SET SESSION CHARACTERISTICS AS TRANSACTION …).
    SetTransaction {
        session: bool,
        modes: TransactionModes,
    },
    /// `None` = SHOW ALL.
    Show(Option<String>),
    /// `None` = RESET ALL.
    Reset(Option<String>),
    Discard(Discard),
    Prepare {
        name: String,
        parameter_types: Vec<ast::DataType>,
        statement: Box<Parsed>,
    },
    Execute {
        name: String,
        arguments: Vec<ast::Expr>,
    },
    /// `None` = ALL.
    Deallocate(Option<String>),
    Declare {
        name: String,
        binary: bool,
        scroll: Option<bool>,
        hold: bool,
        query: Box<Parsed>,
    },
    Fetch(Fetch),
    /// As FETCH, without sending rows.
    Move(Fetch),
    /// `None` = ALL.
    Close(Option<String>),
    Listen(String),
    /// `None` = *.
    Unlisten(Option<String>),
    Notify {
        channel: String,
        payload: String,
    },
    Checkpoint,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionModes {
    pub isolation: Option<Isolation>,
    pub read_only: Option<bool>,
    pub deferrable: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetScope {
    Session,
    Local,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetValue {
    Default,
    /// A list for `search_path` and its like; one element otherwise.
    Values(Vec<String>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    All,
    Plans,
    Sequences,
    Temp,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Fetch {
    pub cursor: String,
    pub direction: FetchDirection,
    /// `WITH (timeout = '1 s')`.
    pub timeout: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchDirection {
    Forward(i64),
    ForwardAll,
    Backward(i64),
    BackwardAll,
    First,
    Last,
    Absolute(i64),
    Relative(i64),
}

#[derive(Clone, Debug)]
pub struct Copy {
    pub source: CopySource,
    pub target: CopyTarget,
    pub from: bool,
    pub options: CopyOptions,
    /// `WHERE` of COPY FROM.
    pub filter: Option<ast::Expr>,
}

#[derive(Clone, Debug)]
pub enum CopySource {
    Relation { name: ast::ObjectName, columns: Vec<String> },
    Query(Box<Parsed>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyTarget {
    /// STDIN or STDOUT.
    Client,
    File(String),
    Program(String),
}

/// PostgreSQL 15's options; `None` = that format's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyOptions {
    pub format: CopyFormat,
    pub freeze: bool,
    pub delimiter: Option<String>,
    pub null: Option<String>,
    pub header: CopyHeader,
    pub quote: Option<String>,
    pub escape: Option<String>,
    pub force_quote: CopyColumns,
    pub force_not_null: CopyColumns,
    pub force_null: CopyColumns,
    pub encoding: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyFormat {
    #[default]
    Text,
    Csv,
    Binary,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyHeader {
    #[default]
    Off,
    On,
    Match,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CopyColumns {
    #[default]
    None,
    All,
    Some(Vec<String>),
}
