//! Function calls: which kind a name is, its arguments, and the forms that are no functions of the registry.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Case, Expr, Operator};
use sqlparser::ast;

use super::query::syntax;
use super::select::{Block, Clause};
use super::{Binder, Bound, literal, name_parts};
use crate::planning::cast::CastContext;
use crate::planning::functions::resolve;
use crate::planning::types::{PgType, format_type, from_sql, oid};
use crate::sql::error::{Result, SqlError, SqlState};

/// A call's arguments as written.
pub(super) struct Arguments<'q> {
    pub expressions: Vec<&'q ast::Expr>,
    pub star: bool,
    pub distinct: bool,
    pub order_by: Vec<ast::OrderByExpr>,
    /// `VARIADIC array` as the last one.
    pub query: Option<&'q ast::Query>,
}

pub(super) fn undefined_function(name: &str, types: &[PgType]) -> SqlError {
    let list: Vec<String> = types.iter().map(|t| format_type(PgType::of(t.oid))).collect();
    SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function {name}({}) does not exist", list.join(", ")))
        .hint("No function matches the given name and argument types. You might need to add explicit type casts.")
}

fn arguments<'q>(call: &'q ast::Function) -> Result<Arguments<'q>> {
    let mut out =
        Arguments { expressions: Vec::new(), star: false, distinct: false, order_by: Vec::new(), query: None };
    match &call.args {
        ast::FunctionArguments::None => {}
        ast::FunctionArguments::Subquery(query) => out.query = Some(query),
        ast::FunctionArguments::List(list) => {
            out.distinct = list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct);
            for argument in &list.args {
                let value = match argument {
                    ast::FunctionArg::Unnamed(value) => value,
                    ast::FunctionArg::Named { arg, .. } | ast::FunctionArg::ExprNamed { arg, .. } => arg,
                };
                match value {
                    ast::FunctionArgExpr::Expr(e) => out.expressions.push(e),
                    ast::FunctionArgExpr::Wildcard => out.star = true,
                    other => return Err(syntax(format!("syntax error at or near \"{other}\""))),
                }
            }
            for clause in &list.clauses {
                match clause {
                    ast::FunctionArgumentClause::OrderBy(order) => out.order_by.clone_from(order),
                    other => return Err(syntax(format!("syntax error at or near \"{other}\""))),
                }
            }
        }
    }
    Ok(out)
}

impl Binder<'_> {
    pub(super) fn function(&self, call: &ast::Function, block: &Block) -> Result<Bound> {
        let parts = name_parts(&call.name)?;
        let name = match parts.as_slice() {
            [name] => name.as_str(),
            [schema, name] if schema == "pg_catalog" || schema == "information_schema" => name.as_str(),
            [database, schema, name] if schema == "pg_catalog" => {
                self.check_database(database)?;
                name.as_str()
            }
            [schema, ..] if parts.len() == 2 && self.env.catalog.schema_by_name(schema).is_none() => {
                let message = format!("schema \"{schema}\" does not exist");
                return Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message));
            }
            _ => return Err(undefined_function(&parts.join("."), &[])),
        };
        let arguments = arguments(call)?;
        if let Some(query) = arguments.query {
            return match name {
                "array" => self.array_subquery(query, block),
                _ => Err(syntax(format!("syntax error at or near \"{query}\""))),
            };
        }
        if call.null_treatment.is_some() {
            return Err(SqlError::unsupported("RESPECT NULLS and IGNORE NULLS"));
        }
        if let Some(over) = &call.over {
            return self.window_call(name, call, over, arguments, block);
        }
        if super::aggregate::is_aggregate(name) {
            return self.aggregate_call(name, call, arguments, block);
        }
        if super::window::is_window_function(name) {
            let message = format!("window function {name} requires an OVER clause");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        let misplaced = if arguments.distinct {
            Some("DISTINCT")
        } else if call.filter.is_some() {
            Some("FILTER")
        } else if !arguments.order_by.is_empty() {
            Some("ORDER BY")
        } else {
            None
        };
        if let Some(word) = misplaced {
            let message = format!("{word} specified, but {name} is not an aggregate function");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        if arguments.star {
            return Err(undefined_function(name, &[]));
        }
        let given = arguments.expressions.iter().map(|e| self.expression(e, block)).collect::<Result<Vec<_>>>()?;
        match name {
            "coalesce" => return self.coalesce(given),
            "nullif" => return self.null_if(given),
            "greatest" | "least" => return self.extreme_of(name, given),
            _ => {}
        }
        let bound = self.call_named(name, given)?;
        if matches!(bound.expr, Expr::Unnest(_))
            && !matches!(block.clause, Clause::Select | Clause::From | Clause::Values)
        {
            let message = format!("set-returning functions are not allowed in {}", block.clause.name());
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        Ok(bound)
    }

    /// A function of the registry, or a type's name used as one (`int4(x)`).
    pub(super) fn call_named(&self, name: &str, given: Vec<Bound>) -> Result<Bound> {
        let types: Vec<u32> = given.iter().map(|b| b.ty.oid).collect();
        let overloads = self.functions.named(name);
        if let Some(resolved) = resolve(overloads, &types, false) {
            let (targets, returns) = (resolved.arguments.clone(), resolved.returns);
            return self.apply(resolved.overload, given, &targets, returns);
        }
        if given.len() == 1
            && let Some(t) = crate::planning::types::type_by_name(name)
            && !matches!(t, oid::CHAR | oid::INTERVAL)
        {
            let only = given.into_iter().next().map_or_else(|| Err(undefined_function(name, &[])), Ok)?;
            return self.explicit_cast(only, PgType::of(t));
        }
        let types: Vec<PgType> = given.iter().map(|b| b.ty).collect();
        let error = undefined_function(name, &types);
        let same_arity = overloads.iter().filter(|o| o.arguments.len() == given.len()).count();
        if same_arity > 1 && types.iter().any(|t| t.oid == oid::UNKNOWN) {
            let message = error.fields().message.replace("does not exist", "is not unique");
            return Err(SqlError::new(SqlState("42725"), message)
                .hint("Could not choose a best candidate function. You might need to add explicit type casts."));
        }
        Err(error)
    }

    fn coalesce(&self, given: Vec<Bound>) -> Result<Bound> {
        if given.is_empty() {
            return Err(syntax("syntax error at or near \")\""));
        }
        let all: Vec<&Bound> = given.iter().collect();
        let (ty, data_type) = self.common_type(&all, "COALESCE")?;
        let mut expressions = given
            .into_iter()
            .map(|b| Ok(self.cast_to(b, ty, &data_type, CastContext::Implicit)?.expr))
            .collect::<Result<Vec<_>>>()?;
        // As CASE, so that what comes after the first value is not evaluated.
        let last = expressions.pop().unwrap_or(Expr::Literal(ScalarValue::Null, None));
        if expressions.is_empty() {
            return Ok(Bound { expr: last, ty, data_type });
        }
        let whens =
            expressions.into_iter().map(|e| (Box::new(Expr::IsNotNull(Box::new(e.clone()))), Box::new(e))).collect();
        let expr = Expr::Case(Case::new(None, whens, Some(Box::new(last))));
        Ok(Bound { expr, ty, data_type })
    }

    fn null_if(&self, given: Vec<Bound>) -> Result<Bound> {
        let [a, b]: [Bound; 2] = given.try_into().map_err(|_| syntax("NULLIF takes two arguments"))?;
        let a = self.settled(a)?;
        let same = self.compare(Operator::Eq, a.clone(), b)?;
        let null = Expr::Literal(ScalarValue::try_from(&a.data_type)?, None);
        let whens = vec![(Box::new(same.expr), Box::new(null))];
        let expr = Expr::Case(Case::new(None, whens, Some(Box::new(a.expr.clone()))));
        Ok(Bound { expr, ..a })
    }

    fn extreme_of(&self, name: &str, given: Vec<Bound>) -> Result<Bound> {
        let all: Vec<&Bound> = given.iter().collect();
        let (ty, data_type) = self.common_type(&all, &name.to_uppercase())?;
        let op = if name == "greatest" { Operator::GtEq } else { Operator::LtEq };
        let mut values = given.into_iter().map(|b| self.cast_to(b, ty, &data_type, CastContext::Implicit));
        let mut best = values.next().unwrap_or_else(|| Err(syntax("syntax error at or near \")\"")))?;
        for next in values {
            let next = next?;
            // Nulls lose against any value.
            let wins = self.compare(op, best.clone(), next.clone())?.expr;
            let keep = Expr::IsNull(Box::new(next.expr.clone())).or(wins);
            let expr = Expr::Case(Case::new(
                None,
                vec![(Box::new(keep), Box::new(best.expr.clone()))],
                Some(Box::new(next.expr)),
            ));
            best = Bound { expr, ..best };
        }
        Ok(best)
    }

    /// A call in FROM: the function's set, or its one value as a set of one.
    pub(super) fn table_call(&self, name: &str, arguments: &[ast::FunctionArg], block: &Block) -> Result<Bound> {
        let mut given = Vec::with_capacity(arguments.len());
        for argument in arguments {
            match argument {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(e)) => given.push(self.expression(e, block)?),
                other => return Err(syntax(format!("syntax error at or near \"{other}\""))),
            }
        }
        self.call_named(name, given)
    }

    /// The type of `CAST(x AS type)` in places that name types themselves.
    pub fn type_of(&self, written: &ast::DataType) -> Result<PgType> {
        from_sql(written)
    }

    pub(super) fn null_of(t: PgType) -> Result<Bound> {
        let data_type = crate::planning::types::arrow_type(t)
            .ok_or_else(|| SqlError::new(SqlState::UNDEFINED_OBJECT, "type does not exist"))?;
        Ok(literal(ScalarValue::try_from(&data_type)?, t))
    }
}
