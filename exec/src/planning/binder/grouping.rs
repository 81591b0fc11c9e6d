//! GROUP BY: keys, grouping sets, and the rewriting of what stands above an aggregation.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Aggregate, Expr, GroupingSet, LogicalPlan};
use sqlparser::ast;

use super::query::{no_equality, ordinal, renamed, syntax};
use super::scope::Scope;
use super::select::{Block, Clause, column_name};
use super::{Binder, Bound, fold};
use crate::planning::types::oid;
use crate::sql::error::{Result, SqlError, SqlState};

/// GROUP BY as written: one list of keys, or several.
pub(super) struct Grouping {
    sets: Vec<Vec<Expr>>,
    /// All keys once, in order of appearance.
    keys: Vec<(Expr, String)>,
    written: bool,
}

impl Grouping {
    pub fn is_grouped(&self) -> bool {
        self.written
    }

    pub fn keys(&self) -> Vec<Expr> {
        self.keys.iter().map(|(e, _)| e.clone()).collect()
    }
}

impl Binder<'_> {
    pub(super) fn bind_group_by(&self, select: &ast::Select, block: &Block) -> Result<Grouping> {
        let (expressions, modifiers) = match &select.group_by {
            ast::GroupByExpr::Expressions(expressions, modifiers) => (expressions, modifiers),
            ast::GroupByExpr::All(_) => return Err(syntax("syntax error at or near \"ALL\"")),
        };
        if !modifiers.is_empty() {
            return Err(syntax("syntax error at or near \"WITH\""));
        }
        let mut grouping = Grouping { sets: vec![Vec::new()], keys: Vec::new(), written: !expressions.is_empty() };
        for expr in expressions {
            let alternatives = self.group_alternatives(expr, select, block, &mut grouping.keys)?;
            let mut product = Vec::new();
            for left in &grouping.sets {
                for right in &alternatives {
                    let mut both = left.clone();
                    both.extend(right.iter().filter(|e| !left.contains(e)).cloned());
                    product.push(both);
                }
            }
            if product.len() > 4096 {
                return Err(SqlError::new(
                    SqlState::STATEMENT_TOO_COMPLEX,
                    "too many grouping sets present (maximum 4096)",
                ));
            }
            grouping.sets = product;
        }
        Ok(grouping)
    }

    fn group_alternatives(
        &self,
        expr: &ast::Expr,
        select: &ast::Select,
        block: &Block,
        keys: &mut Vec<(Expr, String)>,
    ) -> Result<Vec<Vec<Expr>>> {
        let mut list = |exprs: &[ast::Expr], keys: &mut Vec<(Expr, String)>| -> Result<Vec<Expr>> {
            exprs.iter().map(|e| self.group_key(e, select, block, keys)).collect()
        };
        Ok(match expr {
            ast::Expr::GroupingSets(sets) => sets.iter().map(|set| list(set, keys)).collect::<Result<Vec<_>>>()?,
            ast::Expr::Rollup(sets) => {
                let parts = sets.iter().map(|s| list(s, keys)).collect::<Result<Vec<_>>>()?;
                (0..=parts.len()).rev().map(|n| parts[..n].concat()).collect()
            }
            ast::Expr::Cube(sets) => {
                let parts = sets.iter().map(|s| list(s, keys)).collect::<Result<Vec<_>>>()?;
                if parts.len() > 12 {
                    return Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, "CUBE is limited to 12 elements"));
                }
                let all = 1_usize << parts.len();
                (0..all)
                    .rev()
                    .map(|mask| {
                        let chosen = parts.iter().enumerate().filter(|(i, _)| mask & (1 << (parts.len() - 1 - i)) != 0);
                        chosen.flat_map(|(_, p)| p.clone()).collect()
                    })
                    .collect()
            }
            ast::Expr::Tuple(exprs) => vec![list(exprs, keys)?],
            one => vec![vec![self.group_key(one, select, block, keys)?]],
        })
    }

    fn group_key(
        &self,
        expr: &ast::Expr,
        select: &ast::Select,
        block: &Block,
        keys: &mut Vec<(Expr, String)>,
    ) -> Result<Expr> {
        let inner = block.in_clause(Clause::GroupBy);
        let bound = self.group_expression(expr, select, &inner)?;
        let bound = self.settled(bound)?;
        if bound.ty.oid == oid::JSON {
            return Err(no_equality("json"));
        }
        if !keys.iter().any(|(known, _)| *known == bound.expr) {
            keys.push((bound.expr.clone(), column_name(expr)));
        }
        Ok(bound.expr)
    }

    /// An ordinal, an input column, an output name, or any expression: in this order, as PostgreSQL does.
    fn group_expression(&self, expr: &ast::Expr, select: &ast::Select, block: &Block) -> Result<Bound> {
        if let Some(n) = ordinal(expr) {
            let item = usize::try_from(n).ok().filter(|n| *n > 0).and_then(|n| select.projection.get(n - 1));
            return match item {
                Some(ast::SelectItem::UnnamedExpr(e) | ast::SelectItem::ExprWithAlias { expr: e, .. }) => {
                    self.expression(e, block)
                }
                Some(_) => Err(SqlError::unsupported("GROUP BY position of a *").hint("Name the column.")),
                None => Err(SqlError::new(
                    SqlState::INVALID_COLUMN_REFERENCE,
                    format!("GROUP BY position {n} is not in select list"),
                )),
            };
        }
        if let ast::Expr::Identifier(ident) = expr {
            let name = fold(ident);
            let input = self.find_column(&block.scope, None, None, &name);
            if !matches!(input, Ok(None)) {
                return self.expression(expr, block);
            }
            let mut found = select.projection.iter().filter_map(|item| match item {
                ast::SelectItem::ExprWithAlias { expr, alias } if fold(alias) == name => Some(expr),
                ast::SelectItem::UnnamedExpr(e) if column_name(e) == name => Some(e),
                _ => None,
            });
            if let Some(item) = found.next() {
                return self.expression(item, block);
            }
        }
        self.expression(expr, block)
    }

    /// Puts the aggregation on the plan and rewrites `above` to its output.
    pub(super) fn aggregate(
        &self,
        plan: LogicalPlan,
        group: &Grouping,
        above: &mut Vec<Expr>,
        scope: &Scope,
    ) -> Result<LogicalPlan> {
        let mut calls: Vec<Expr> = Vec::new();
        for expr in above.iter() {
            expr.apply(|e| {
                if matches!(e, Expr::AggregateFunction(_)) {
                    if !calls.contains(e) {
                        calls.push(e.clone());
                    }
                    return Ok(TreeNodeRecursion::Jump);
                }
                // A window function's own call is no aggregate, but its arguments may hold some.
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        // Subqueries inside keys and arguments are evaluated below.
        let mut inside: Vec<Expr> = group.keys();
        inside.extend(calls.iter().cloned());
        let plan = self.hoist(plan, &mut inside)?;
        let hoisted_calls = inside.split_off(group.keys.len());

        // Computed keys become columns first, so that everything above can name them.
        let mut projection: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
        let mut key_columns: Vec<Column> = Vec::new();
        let mut computed = false;
        for (expr, (_, name)) in inside.into_iter().zip(&group.keys) {
            match expr {
                Expr::Column(column) => key_columns.push(column),
                other => {
                    let unique = self.fresh(name);
                    key_columns.push(Column::new_unqualified(unique.clone()));
                    projection.push(renamed(other, &unique));
                    computed = true;
                }
            }
        }
        let plan = if computed { self.project(plan, projection)? } else { plan };
        let column_of = |e: &Expr| -> Expr {
            let at = group.keys.iter().position(|(k, _)| k == e).unwrap_or(0);
            Expr::Column(key_columns[at].clone())
        };
        let group_exprs: Vec<Expr> = match group.sets.as_slice() {
            [one] => one.iter().map(column_of).collect(),
            sets => {
                let sets = sets.iter().map(|s| s.iter().map(column_of).collect()).collect();
                vec![Expr::GroupingSet(GroupingSet::GroupingSets(sets))]
            }
        };
        let mut unique_groups: Vec<Expr> = Vec::new();
        for e in group_exprs {
            if !unique_groups.contains(&e) {
                unique_groups.push(e);
            }
        }
        let aggregate = Aggregate::try_new(Arc::new(plan), unique_groups, hoisted_calls.clone())?;
        let outputs: Vec<Column> = aggregate.schema.columns();
        let plan = LogicalPlan::Aggregate(aggregate);

        for expr in above.iter_mut() {
            let rewritten = expr.clone().transform_down(|e| {
                if let Some(at) = group.keys.iter().position(|(k, _)| *k == e) {
                    let column = Expr::Column(key_columns[at].clone());
                    return Ok(Transformed::new(column, true, TreeNodeRecursion::Jump));
                }
                if let Some(at) = calls.iter().position(|c| *c == e) {
                    let name = hoisted_calls[at].schema_name().to_string();
                    let column = Expr::Column(Column::new_unqualified(name));
                    return Ok(Transformed::new(column, true, TreeNodeRecursion::Jump));
                }
                Ok(Transformed::no(e))
            })?;
            for column in rewritten.data.column_refs() {
                let known = outputs.iter().any(|o| o.name == column.name);
                if !known {
                    let written = scope.written(column).unwrap_or_else(|| column.name.clone());
                    return Err(SqlError::new(
                        SqlState::GROUPING_ERROR,
                        format!(
                            "column \"{written}\" must appear in the GROUP BY clause or be used in an aggregate function"
                        ),
                    ));
                }
            }
            *expr = rewritten.data;
        }
        Ok(plan)
    }
}
