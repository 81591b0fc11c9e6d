//! From a parsed query to a logical plan: names to columns, operators to functions, every type settled.
//! Every column of a plan has a name of its own (`city#7`), so DataFusion never has to tell two of a name apart.
//! Owns PostgreSQL's scoping and typing rules; knows nothing of execution.

mod aggregate;
mod call;
mod coerce;
mod expression;
mod from;
mod grouping;
mod query;
mod scope;
mod select;
mod subquery;
mod window;

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, LogicalPlan};
use sqlparser::ast;

pub use from::{Named, relations_read};
use scope::Context;
pub use scope::OutColumn;
pub use subquery::wants_nested_loop;

use super::functions::{Env, Functions};
use super::types::{PgType, oid};
use super::virtual_relation::Registry;
use crate::sql::error::{Result, SqlError, SqlState};

/// True for the names that are resolved as aggregates or window functions, not through the registry.
pub fn is_aggregate_or_window(name: &str) -> bool {
    aggregate::is_aggregate(name) || window::is_window_function(name)
}

/// A typed expression. A literal or parameter of type `unknown` is typed by what it meets.
#[derive(Clone, Debug)]
pub struct Bound {
    pub expr: Expr,
    pub ty: PgType,
    pub data_type: DataType,
}

/// Parameters `$1…`: their types as far as known, and their values when the statement is being executed.
#[derive(Default)]
pub struct Parameters {
    pub types: Vec<PgType>,
    pub values: Option<Vec<ScalarValue>>,
}

pub struct Binder<'a> {
    pub env: Env,
    pub functions: &'a Functions,
    pub registry: &'a Registry,
    pub parameters: RefCell<Parameters>,
    /// Correlated subqueries by nested loop, for what DataFusion cannot turn into joins.
    nested_loops: bool,
    next_name: Cell<usize>,
    depth: Cell<usize>,
    /// The plan holds the statement's time, user or the like: it serves this execution only.
    once: Cell<bool>,
}

/// A bound query.
#[derive(Clone, Debug)]
pub struct Relation {
    pub plan: LogicalPlan,
    pub columns: Vec<OutColumn>,
}

/// Subqueries, views and parentheses may nest this deep.
const DEPTH_MAX: usize = 120;

impl<'a> Binder<'a> {
    pub fn new(env: Env, functions: &'a Functions, registry: &'a Registry, parameters: Parameters) -> Self {
        Self {
            env,
            functions,
            registry,
            parameters: RefCell::new(parameters),
            nested_loops: false,
            next_name: Cell::new(0),
            depth: Cell::new(0),
            once: Cell::new(false),
        }
    }

    pub fn with_nested_loops(mut self) -> Self {
        self.nested_loops = true;
        self
    }

    /// True where the plan must not be used for another execution.
    pub fn serves_once(&self) -> bool {
        self.once.get() || self.nested_loops
    }

    /// A top-level query. `wanted` are the types its columns go into (INSERT), for literals without a type.
    pub fn query(&self, query: &ast::Query, wanted: Option<&[PgType]>) -> Result<Relation> {
        let relation = self.bind_query(query, &Context::default(), wanted)?;
        self.without_unknown(relation)
    }

    /// One expression without columns (`EXECUTE` arguments, `LIMIT`, defaults).
    pub fn constant(&self, expr: &ast::Expr, wanted: Option<PgType>) -> Result<Bound> {
        let block = select::Block::empty(&Context::default(), select::Clause::Constant);
        let bound = self.expression(expr, &block)?;
        match wanted {
            Some(t) => self.coerce(bound, t, super::cast::CastContext::Assignment),
            None => self.settled(bound),
        }
    }

    /// An expression over one relation's columns, aliased `name#n` in the order given.
    pub fn over_columns(&self, expr: &ast::Expr, columns: &[OutColumn], name: &str) -> Result<Bound> {
        let block = select::Block::over(&Context::default(), select::Clause::Where, columns, name);
        let bound = self.expression(expr, &block)?;
        self.settled(bound)
    }

    fn fresh(&self, base: &str) -> String {
        let n = self.next_name.get();
        self.next_name.set(n + 1);
        format!("{base}#{n}")
    }

    fn deeper<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let depth = self.depth.get();
        if depth >= DEPTH_MAX {
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
                .hint("Nest the query less deeply."));
        }
        self.depth.set(depth + 1);
        let result = work();
        self.depth.set(depth);
        result
    }

    fn use_once(&self) {
        self.once.set(true);
    }
}

/// Unquoted names fold to lower case.
pub fn fold(ident: &ast::Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

/// The parts of a name, folded.
pub fn name_parts(name: &ast::ObjectName) -> Result<Vec<String>> {
    name.0
        .iter()
        .map(|part| match part.as_ident() {
            Some(ident) => Ok(fold(ident)),
            None => Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{part}\""))),
        })
        .collect()
}

pub fn literal(value: ScalarValue, t: PgType) -> Bound {
    let data_type = value.data_type();
    Bound { expr: Expr::Literal(value, None), ty: t, data_type }
}

fn boolean(expr: Expr) -> Bound {
    Bound { expr, ty: PgType::of(oid::BOOL), data_type: DataType::Boolean }
}

/// A catalog that a binder may read without a lock.
pub type CatalogRef = Arc<alluvium_storage::catalog::Catalog>;
