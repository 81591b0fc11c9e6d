//! Queries above SELECT: WITH, set operations, VALUES, ORDER BY and LIMIT over them.

use std::rc::Rc;
use std::sync::Arc;

use datafusion::common::{Column, DFSchema, NullEquality};
use datafusion::logical_expr::expr::Alias;
use datafusion::logical_expr::{
    Distinct, Expr, JoinType, Limit, LogicalPlan, LogicalPlanBuilder, Projection, Sort, SortExpr, Union, Values,
};
use sqlparser::ast;

use super::scope::{Context, Cte, OutColumn};
use super::select::{Block, Clause};
use super::{Binder, Bound, Relation, fold};
use crate::planning::cast::CastContext;
use crate::planning::types::{PgType, oid, typed_field};
use crate::sql::error::{Result, SqlError, SqlState};

pub(super) fn syntax(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

impl Binder<'_> {
    pub(super) fn bind_query(
        &self,
        query: &ast::Query,
        context: &Context,
        wanted: Option<&[PgType]>,
    ) -> Result<Relation> {
        self.deeper(|| self.bind_query_inner(query, context, wanted))
    }

    fn bind_query_inner(&self, query: &ast::Query, context: &Context, wanted: Option<&[PgType]>) -> Result<Relation> {
        if !query.locks.is_empty() {
            return Err(SqlError::unsupported(format_args!("SELECT {}", lock_name(&query.locks[0])))
                .hint("Rows are not locked yet; leave the clause away."));
        }
        if query.for_clause.is_some() || query.format_clause.is_some() || !query.pipe_operators.is_empty() {
            return Err(syntax("syntax error in query"));
        }
        let mut context = context.clone();
        if let Some(with) = &query.with {
            self.bind_with(with, &mut context)?;
        }
        let order_by: &[ast::OrderByExpr] = match &query.order_by {
            None => &[],
            Some(ast::OrderBy { kind: ast::OrderByKind::Expressions(list), .. }) => list,
            Some(_) => return Err(syntax("syntax error at or near \"ALL\"")),
        };
        let relation = match query.body.as_ref() {
            ast::SetExpr::Select(select) => self.bind_select(select, order_by, &context, wanted)?,
            body => {
                let relation = self.bind_body(body, &context, wanted)?;
                if order_by.is_empty() { relation } else { self.sort_output(relation, order_by, &context)? }
            }
        };
        self.limit(relation, query, &context)
    }

    fn bind_body(&self, body: &ast::SetExpr, context: &Context, wanted: Option<&[PgType]>) -> Result<Relation> {
        match body {
            ast::SetExpr::Select(select) => self.bind_select(select, &[], context, wanted),
            ast::SetExpr::Query(query) => self.bind_query(query, context, wanted),
            ast::SetExpr::Values(values) => self.bind_values(values, context, wanted),
            ast::SetExpr::SetOperation { op, set_quantifier, left, right } => self.deeper(|| {
                let left = self.bind_body(left, context, wanted)?;
                let right = self.bind_body(right, context, wanted)?;
                self.set_operation(*op, *set_quantifier, left, right)
            }),
            ast::SetExpr::Table(table) => {
                let mut parts = Vec::new();
                parts.extend(table.schema_name.clone());
                parts.extend(table.table_name.clone());
                let name = ast::ObjectName::from(parts.into_iter().map(ast::Ident::new).collect::<Vec<_>>());
                self.bind_whole_table(&name, context)
            }
            _ => Err(SqlError::unsupported("a data-modifying statement in WITH")),
        }
    }

    fn bind_with(&self, with: &ast::With, context: &mut Context) -> Result<()> {
        for cte in &with.cte_tables {
            let name = fold(&cte.alias.name);
            let columns: Vec<String> = cte.alias.columns.iter().map(|c| fold(&c.name)).collect();
            let relation = match with.recursive.then(|| recursive_parts(&cte.query, &name)).flatten() {
                Some((first, again, all)) => {
                    self.bind_recursive(&name, &columns, first, again, all, &cte.query, context)?
                }
                None => {
                    let relation = self.bind_query(&cte.query, context, None)?;
                    let mut relation = self.without_unknown(relation)?;
                    rename(&mut relation.columns, &columns, &name)?;
                    relation
                }
            };
            context.ctes = Some(Rc::new(Cte { name, relation, next: context.ctes.clone() }));
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    fn bind_recursive(
        &self,
        name: &str,
        columns: &[String],
        first: &ast::SetExpr,
        again: &ast::SetExpr,
        all: bool,
        query: &ast::Query,
        context: &Context,
    ) -> Result<Relation> {
        if query.order_by.is_some() || query.limit_clause.is_some() {
            return Err(SqlError::unsupported("ORDER BY or LIMIT in a recursive query")
                .hint("Write it in the query that reads the recursive one."));
        }
        let mut inner = context.clone();
        if let Some(with) = &query.with {
            self.bind_with(with, &mut inner)?;
        }
        let start = self.bind_body(first, &inner, None)?;
        let mut start = self.without_unknown(start)?;
        rename(&mut start.columns, columns, name)?;
        // DataFusion finds the working table by name, and its columns by those of the first term.
        let work_name = self.fresh(name);
        let schema = Arc::new(start.plan.schema().as_arrow().clone());
        let nullable: Vec<arrow::datatypes::Field> =
            schema.fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect();
        let work = Arc::new(datafusion::catalog::cte_worktable::CteWorkTable::new(
            &work_name,
            Arc::new(arrow::datatypes::Schema::new(nullable)),
        ));
        let source = datafusion::datasource::provider_as_source(work);
        let scan = LogicalPlanBuilder::scan(work_name.clone(), source, None)?.build()?;
        let scan_columns = scan
            .schema()
            .columns()
            .into_iter()
            .zip(&start.columns)
            .map(|(column, c)| OutColumn { column, table_oid: 0, attribute: 0, ..c.clone() })
            .collect();
        inner.ctes = Some(Rc::new(Cte {
            name: name.to_owned(),
            relation: Relation { plan: scan, columns: scan_columns },
            next: inner.ctes.clone(),
        }));
        let step = self.bind_body(again, &inner, None)?;
        if step.columns.len() != start.columns.len() {
            return Err(syntax("each UNION query must have the same number of columns"));
        }
        let mut expressions = Vec::new();
        for (c, target) in step.columns.iter().zip(&start.columns) {
            if c.ty.oid != target.ty.oid && c.ty.oid != oid::UNKNOWN {
                return Err(SqlError::new(
                    SqlState::DATATYPE_MISMATCH,
                    format!(
                        "recursive query \"{name}\" column {} has type {} in non-recursive term but type {} overall",
                        expressions.len() + 1,
                        crate::planning::types::format_type(target.ty),
                        crate::planning::types::format_type(c.ty)
                    ),
                )
                .hint("Cast the output of the non-recursive term to the correct type."));
            }
            let cast = self.cast_to(c.bound(), target.ty, &target.data_type, CastContext::Implicit)?;
            expressions.push(cast.expr.alias(target.column.name.clone()));
        }
        let step = LogicalPlan::Projection(Projection::try_new(expressions, Arc::new(step.plan))?);
        let plan = LogicalPlanBuilder::from(start.plan).to_recursive_query(work_name, step, !all)?.build()?;
        let columns = plan
            .schema()
            .columns()
            .into_iter()
            .zip(&start.columns)
            .map(|(column, c)| OutColumn { column, table_oid: 0, attribute: 0, ..c.clone() })
            .collect();
        Ok(Relation { plan, columns })
    }

    fn bind_values(&self, values: &ast::Values, context: &Context, wanted: Option<&[PgType]>) -> Result<Relation> {
        let block = Block::empty(context, Clause::Values);
        let mut rows: Vec<Vec<Bound>> = Vec::with_capacity(values.rows.len());
        for row in &values.rows {
            let row: &Vec<ast::Expr> = row;
            let bound = row.iter().map(|e| self.expression(e, &block)).collect::<Result<Vec<_>>>()?;
            if rows.first().is_some_and(|first| first.len() != bound.len()) {
                return Err(syntax("VALUES lists must all be the same length"));
            }
            rows.push(bound);
        }
        let width = rows.first().map_or(0, Vec::len);
        let mut columns = Vec::with_capacity(width);
        for i in 0..width {
            let given: Vec<&Bound> = rows.iter().map(|r| &r[i]).collect();
            let all_unknown = given.iter().all(|b| b.ty.oid == oid::UNKNOWN);
            let (target, data_type) = match wanted.and_then(|w| w.get(i)) {
                Some(t) if all_unknown => {
                    (*t, crate::planning::types::arrow_type(*t).unwrap_or(arrow::datatypes::DataType::Utf8))
                }
                _ => self.common_type(&given, "VALUES")?,
            };
            for row in &mut rows {
                row[i] = self.cast_to(row[i].clone(), target, &data_type, CastContext::Implicit)?;
            }
            columns.push((target, data_type));
        }
        let mut out = Vec::with_capacity(width);
        let mut fields = Vec::with_capacity(width);
        for (i, (ty, data_type)) in columns.into_iter().enumerate() {
            let name = format!("column{}", i + 1);
            let unique = self.fresh(&name);
            fields.push((None, Arc::new(typed_field(&unique, data_type.clone(), ty))));
            out.push(OutColumn {
                name,
                ty,
                data_type,
                column: Column::new_unqualified(unique),
                table_oid: 0,
                attribute: 0,
            });
        }
        let expressions: Vec<Vec<Expr>> =
            rows.into_iter().map(|row| row.into_iter().map(|b| b.expr).collect()).collect();
        let has_subquery = expressions.iter().flatten().any(super::subquery::has_marker);
        if has_subquery || block.saw_outer(self) {
            return self.values_by_union(expressions, out);
        }
        let schema = Arc::new(DFSchema::new_with_metadata(fields, Default::default())?);
        Ok(Relation { plan: LogicalPlan::Values(Values { schema, values: expressions }), columns: out })
    }

    /// VALUES whose rows are more than constants: one SELECT a row.
    fn values_by_union(&self, rows: Vec<Vec<Expr>>, columns: Vec<OutColumn>) -> Result<Relation> {
        let mut inputs = Vec::with_capacity(rows.len());
        for row in rows {
            let one = LogicalPlanBuilder::empty(true).build()?;
            let named: Vec<Expr> = row.into_iter().zip(&columns).map(|(e, c)| e.alias(c.column.name.clone())).collect();
            inputs.push(Arc::new(self.project(one, named)?));
        }
        let plan = match inputs.len() {
            1 => Arc::unwrap_or_clone(inputs.remove(0)),
            _ => LogicalPlan::Union(Union::try_new(inputs)?),
        };
        Ok(Relation { plan, columns })
    }

    fn set_operation(
        &self,
        op: ast::SetOperator,
        quantifier: ast::SetQuantifier,
        left: Relation,
        right: Relation,
    ) -> Result<Relation> {
        let name = match op {
            ast::SetOperator::Union => "UNION",
            ast::SetOperator::Intersect => "INTERSECT",
            ast::SetOperator::Except => "EXCEPT",
            ast::SetOperator::Minus => return Err(syntax("syntax error at or near \"MINUS\"")),
        };
        let all = match quantifier {
            ast::SetQuantifier::All => true,
            ast::SetQuantifier::Distinct | ast::SetQuantifier::None => false,
            _ => return Err(syntax("syntax error at or near \"BY\"")),
        };
        if left.columns.len() != right.columns.len() {
            return Err(syntax(format!("each {name} query must have the same number of columns")));
        }
        let mut names = Vec::new();
        let (mut lefts, mut rights) = (Vec::new(), Vec::new());
        let mut out = Vec::new();
        for (l, r) in left.columns.iter().zip(&right.columns) {
            let (ty, data_type) = self.common_type(&[&l.bound(), &r.bound()], name)?;
            let unique = self.fresh(&l.name);
            let cast = |c: &OutColumn| self.cast_to(c.bound(), ty, &data_type, CastContext::Implicit);
            lefts.push(renamed(cast(l)?.expr, &unique));
            rights.push(renamed(cast(r)?.expr, &unique));
            names.push(unique.clone());
            out.push(OutColumn {
                name: l.name.clone(),
                ty,
                data_type,
                column: Column::new_unqualified(unique),
                table_oid: 0,
                attribute: 0,
            });
        }
        let left = LogicalPlan::Projection(Projection::try_new(lefts, Arc::new(left.plan))?);
        let right = LogicalPlan::Projection(Projection::try_new(rights, Arc::new(right.plan))?);
        let plan = match op {
            ast::SetOperator::Union => {
                let union = LogicalPlan::Union(Union::try_new(vec![Arc::new(left), Arc::new(right)])?);
                if all { union } else { self.distinct(union, &out)? }
            }
            _ => {
                let keep = if op == ast::SetOperator::Intersect { JoinType::LeftSemi } else { JoinType::LeftAnti };
                // ALL counts: the n-th of equal rows on one side meets the n-th on the other.
                let (left, right) = if all {
                    (self.numbered(left, &out)?, self.numbered(right, &out)?)
                } else {
                    (self.distinct(left, &out)?, right)
                };
                self.keep_matching(left, right, keep, &out)?
            }
        };
        Ok(Relation { plan, columns: out })
    }

    fn keep_matching(
        &self,
        left: LogicalPlan,
        right: LogicalPlan,
        keep: JoinType,
        out: &[OutColumn],
    ) -> Result<LogicalPlan> {
        let left_columns = left.schema().columns();
        let mut renames = Vec::new();
        let mut right_keys = Vec::new();
        for c in right.schema().columns() {
            let unique = self.fresh(&c.name);
            right_keys.push(Column::new_unqualified(unique.clone()));
            renames.push(Expr::Column(c).alias(unique));
        }
        let right = LogicalPlan::Projection(Projection::try_new(renames, Arc::new(right))?);
        let joined = LogicalPlanBuilder::from(left)
            .join_detailed(right, keep, (left_columns, right_keys), None, NullEquality::NullEqualsNull)?
            .build()?;
        let kept = out.iter().map(|c| Expr::Column(c.column.clone())).collect();
        Ok(LogicalPlan::Projection(Projection::try_new(kept, Arc::new(joined))?))
    }

    fn numbered(&self, plan: LogicalPlan, out: &[OutColumn]) -> Result<LogicalPlan> {
        let keys: Vec<Expr> = out.iter().map(|c| Expr::Column(c.column.clone())).collect();
        let number = super::window::row_number(keys, Vec::new());
        let name = number.schema_name().to_string();
        let plan = LogicalPlanBuilder::window_plan(plan, vec![number])?;
        let mut expressions: Vec<Expr> = out.iter().map(|c| Expr::Column(c.column.clone())).collect();
        expressions.push(Expr::Column(Column::new_unqualified(name)).alias("#n"));
        Ok(LogicalPlan::Projection(Projection::try_new(expressions, Arc::new(plan))?))
    }

    /// DISTINCT over all columns. Intervals are equal by length, not by parts.
    pub(super) fn distinct(&self, plan: LogicalPlan, out: &[OutColumn]) -> Result<LogicalPlan> {
        if out.iter().any(|c| c.ty.oid == oid::INTERVAL) {
            let keys: Vec<Expr> = out.iter().map(|c| super::coerce::comparison_key(c.bound()).expr).collect();
            return self.first_of_each(plan, keys, Vec::new(), out);
        }
        for c in out {
            if c.ty.oid == oid::JSON {
                return Err(no_equality("json"));
            }
        }
        Ok(LogicalPlan::Distinct(Distinct::All(Arc::new(plan))))
    }

    /// One row for each value of the keys: the first in the order given.
    pub(super) fn first_of_each(
        &self,
        plan: LogicalPlan,
        keys: Vec<Expr>,
        order: Vec<SortExpr>,
        out: &[OutColumn],
    ) -> Result<LogicalPlan> {
        let number = super::window::row_number(keys, order);
        let name = number.schema_name().to_string();
        let columns = plan.schema().columns();
        let plan = LogicalPlanBuilder::window_plan(plan, vec![number])?;
        let first = Expr::Column(Column::new_unqualified(name)).eq(datafusion::logical_expr::lit(1_u64));
        let plan = LogicalPlanBuilder::from(plan).filter(first)?.build()?;
        let _ = out;
        let kept = columns.into_iter().map(Expr::Column).collect();
        Ok(LogicalPlan::Projection(Projection::try_new(kept, Arc::new(plan))?))
    }

    /// ORDER BY over a set operation or VALUES: output columns only.
    fn sort_output(&self, relation: Relation, order_by: &[ast::OrderByExpr], context: &Context) -> Result<Relation> {
        let block = Block::over(context, Clause::OrderBy, &relation.columns, "");
        let mut sorts = Vec::new();
        for item in order_by {
            let bound = match self.output_reference(&item.expr, &relation.columns)? {
                Some(c) => c.bound(),
                None => self.expression(&item.expr, &block)?,
            };
            sorts.push(sort_expr(bound, &item.options));
        }
        let plan = LogicalPlan::Sort(Sort { expr: sorts, input: Arc::new(relation.plan), fetch: None });
        Ok(Relation { plan, columns: relation.columns })
    }

    /// ORDER BY's or GROUP BY's plain name or ordinal as an output column.
    pub(super) fn output_reference(&self, expr: &ast::Expr, columns: &[OutColumn]) -> Result<Option<OutColumn>> {
        match expr {
            ast::Expr::Identifier(ident) => {
                let name = fold(ident);
                let mut found = columns.iter().filter(|c| c.name == name);
                let first = found.next();
                if let Some(first) = first
                    && found.any(|c| c.column != first.column)
                {
                    let message = format!("ORDER BY \"{name}\" is ambiguous");
                    return Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message));
                }
                Ok(first.cloned())
            }
            _ => match ordinal(expr) {
                Some(n) => match usize::try_from(n).ok().filter(|n| *n > 0).and_then(|n| columns.get(n - 1)) {
                    Some(c) => Ok(Some(c.clone())),
                    None => Err(SqlError::new(
                        SqlState::INVALID_COLUMN_REFERENCE,
                        format!("ORDER BY position {n} is not in select list"),
                    )),
                },
                None => Ok(None),
            },
        }
    }

    fn limit(&self, relation: Relation, query: &ast::Query, context: &Context) -> Result<Relation> {
        let (mut limit, mut offset) = (None, None);
        match &query.limit_clause {
            None => {}
            Some(ast::LimitClause::LimitOffset { limit: l, offset: o, limit_by }) => {
                if !limit_by.is_empty() {
                    return Err(syntax("syntax error at or near \"BY\""));
                }
                limit = l.as_ref();
                offset = o.as_ref().map(|o| &o.value);
            }
            Some(ast::LimitClause::OffsetCommaLimit { .. }) => {
                return Err(syntax("LIMIT #,# syntax is not supported").hint("Use separate LIMIT and OFFSET clauses."));
            }
        }
        let one = ast::Expr::value(ast::Value::Number("1".to_owned(), false));
        if let Some(fetch) = &query.fetch {
            if fetch.with_ties || fetch.percent {
                return Err(SqlError::unsupported("FETCH FIRST … WITH TIES"));
            }
            limit = Some(fetch.quantity.as_ref().unwrap_or(&one));
        }
        let limit = self.row_count(limit, "LIMIT", context)?;
        let offset = self.row_count(offset, "OFFSET", context)?;
        if limit.is_none() && offset.is_none() {
            return Ok(relation);
        }
        let plan = LogicalPlan::Limit(Limit {
            skip: offset.map(Box::new),
            fetch: limit.map(Box::new),
            input: Arc::new(relation.plan),
        });
        Ok(Relation { plan, columns: relation.columns })
    }

    /// A constant number of rows; `None` = no bound.
    fn row_count(&self, expr: Option<&ast::Expr>, clause: &str, context: &Context) -> Result<Option<Expr>> {
        let Some(expr) = expr else { return Ok(None) };
        let block = Block::empty(context, Clause::Limit);
        let bound = self.expression(expr, &block)?;
        let bound = self.coerce(bound, PgType::of(oid::INT8), CastContext::Assignment)?;
        let value = match self.fold_constant(&bound)? {
            Some(value) => value,
            // Known only when the statement is executed.
            None if self.parameters.borrow().values.is_none() => return Ok(None),
            None => {
                return Err(SqlError::unsupported(format_args!("a subquery in {clause}")).hint("Use a constant."));
            }
        };
        match value {
            datafusion::common::ScalarValue::Int64(Some(n)) if n < 0 => {
                let state = SqlState(if clause == "LIMIT" { "2201W" } else { "2201X" });
                Err(SqlError::new(state, format!("{clause} must not be negative")))
            }
            datafusion::common::ScalarValue::Int64(Some(n)) => Ok(Some(datafusion::logical_expr::lit(n))),
            _ => Ok(None),
        }
    }

    /// Literals that nothing gave a type become text.
    pub(super) fn without_unknown(&self, relation: Relation) -> Result<Relation> {
        if relation.columns.iter().all(|c| c.ty.oid != oid::UNKNOWN) {
            return Ok(relation);
        }
        let columns = relation
            .columns
            .into_iter()
            .map(|c| if c.ty.oid == oid::UNKNOWN { OutColumn { ty: PgType::of(oid::TEXT), ..c } } else { c })
            .collect();
        Ok(Relation { plan: relation.plan, columns })
    }
}

pub(super) fn no_equality(type_name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("could not identify an equality operator for type {type_name}"))
}

/// Gives the expression a name even where it is a column of another one.
pub(super) fn renamed(expr: Expr, name: &str) -> Expr {
    Expr::Alias(Alias::new(expr, None::<&str>, name))
}

pub(super) fn sort_expr(bound: Bound, options: &ast::OrderByOptions) -> SortExpr {
    let ascending = options.asc.unwrap_or(true);
    let nulls_first = options.nulls_first.unwrap_or(!ascending);
    SortExpr::new(super::coerce::comparison_key(bound).expr, ascending, nulls_first)
}

pub(super) fn ordinal(expr: &ast::Expr) -> Option<i64> {
    match expr {
        ast::Expr::Value(v) => match &v.value {
            ast::Value::Number(text, _) => text.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn rename(columns: &mut [OutColumn], names: &[String], relation: &str) -> Result<()> {
    if names.len() > columns.len() {
        return Err(SqlError::new(
            SqlState::INVALID_COLUMN_REFERENCE,
            format!(
                "table \"{relation}\" has {} columns available but {} columns specified",
                columns.len(),
                names.len()
            ),
        ));
    }
    for (column, name) in columns.iter_mut().zip(names) {
        column.name = name.clone();
    }
    Ok(())
}

/// `first UNION [ALL] again`, where `again` reads the query itself.
fn recursive_parts<'q>(query: &'q ast::Query, name: &str) -> Option<(&'q ast::SetExpr, &'q ast::SetExpr, bool)> {
    let ast::SetExpr::SetOperation { op: ast::SetOperator::Union, set_quantifier, left, right } = query.body.as_ref()
    else {
        return None;
    };
    reads(right, name).then_some((left, right, *set_quantifier == ast::SetQuantifier::All))
}

fn reads(body: &ast::SetExpr, name: &str) -> bool {
    let mut found = false;
    let _ = ast::visit_relations(body, |relation| {
        if relation.0.len() == 1 && relation.0[0].as_ident().is_some_and(|i| fold(i) == name) {
            found = true;
        }
        std::ops::ControlFlow::<()>::Continue(())
    });
    found
}

fn lock_name(lock: &ast::LockClause) -> &'static str {
    match lock.lock_type {
        ast::LockType::Share => "FOR SHARE",
        ast::LockType::Update => "FOR UPDATE",
        #[allow(unreachable_patterns)]
        _ => "FOR KEY SHARE",
    }
}
