//! Subqueries in expressions. What DataFusion turns into joins goes to it; the rest becomes a marker that a nested loop
//! below computes.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Spans};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator, Projection};
use sqlparser::ast;

use super::query::{renamed, syntax};
use super::scope::{Boundary, Context};
use super::select::{Block, Clause};
use super::{Binder, Bound, Relation, boolean};
use crate::planning::apply::{Apply, Inner, Kind, Marker, OuterCell, as_marker};
use crate::planning::cast::CastContext;
use crate::planning::types::{PgType, array_of, element_of, oid, typed_field};
use crate::sql::error::{Result, SqlError, SqlState};

/// Says that the query is to be bound again with nested loops; never seen by a client.
const NEEDS_NESTED_LOOP: &str = "needs a nested loop";

pub(super) fn needs_nested_loop() -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, NEEDS_NESTED_LOOP)
}

pub fn wants_nested_loop(error: &SqlError) -> bool {
    error.state() == SqlState::INTERNAL_ERROR && error.fields().message == NEEDS_NESTED_LOOP
}

pub(super) fn has_marker(expr: &Expr) -> bool {
    expr.exists(|e| Ok(as_marker(e).is_some())).unwrap_or(false)
}

/// A subquery bound, with what it takes from outside.
struct Inside {
    relation: Relation,
    outer: Vec<Expr>,
    cell: OuterCell,
    /// The outer values are DataFusion's outer references.
    native: bool,
}

impl Binder<'_> {
    fn inside(&self, query: &ast::Query, block: &Block, native: bool) -> Result<Inside> {
        let native = native && !self.nested_loops;
        let cell = OuterCell::default();
        let boundary = Rc::new(Boundary {
            outside: (*block.scope).clone(),
            beyond: block.context.boundary.clone(),
            arguments: RefCell::default(),
            cell: (!native).then(|| cell.clone()),
        });
        let context = Context { boundary: Some(boundary.clone()), ..block.context.clone() };
        let relation = self.bind_query(query, &context, None)?;
        let relation = self.without_unknown(relation)?;
        let outer = boundary.arguments.borrow().clone();
        Ok(Inside { relation, outer, cell, native })
    }

    fn mark(&self, kind: Kind, inside: Inside, returns: FieldRef) -> Expr {
        self.use_once();
        Marker::expr(kind, inside.relation.plan, inside.cell, returns, inside.outer)
    }

    fn native(inside: &Inside) -> Subquery {
        let outer_ref_columns = inside
            .outer
            .iter()
            .filter_map(|e| match e {
                Expr::Column(c) => Some(c),
                _ => None,
            })
            .map(|c| {
                Expr::OuterReferenceColumn(
                    Arc::new(arrow::datatypes::Field::new("outer", DataType::Null, true)),
                    c.clone(),
                )
            })
            .collect();
        Subquery { subquery: Arc::new(inside.relation.plan.clone()), outer_ref_columns, spans: Spans::new() }
    }

    pub(super) fn scalar_subquery(&self, query: &ast::Query, block: &Block) -> Result<Bound> {
        let inside = self.inside(query, block, false)?;
        let [column] = inside.relation.columns.as_slice() else {
            return Err(syntax("subquery must return only one column"));
        };
        let column = column.clone();
        let returns = Arc::new(typed_field("subquery", column.data_type.clone(), column.ty));
        let expr = if inside.outer.is_empty() && !matches!(block.clause, Clause::Values) {
            Expr::ScalarSubquery(Self::native(&inside))
        } else {
            self.mark(Kind::Scalar, inside, returns)
        };
        Ok(Bound { expr, ty: column.ty, data_type: column.data_type })
    }

    pub(super) fn exists(&self, query: &ast::Query, negated: bool, block: &Block) -> Result<Bound> {
        let inside = self.inside(query, block, block.clause == Clause::Where)?;
        if inside.native {
            let subquery = native_with_fields(&inside);
            return Ok(boolean(Expr::Exists(Exists::new(subquery, negated))));
        }
        let returns = Arc::new(typed_field("exists", DataType::Boolean, PgType::of(oid::BOOL)));
        let expr = self.mark(Kind::Exists, inside, returns);
        Ok(boolean(if negated { Expr::Not(Box::new(expr)) } else { expr }))
    }

    pub(super) fn in_subquery(
        &self,
        expr: &ast::Expr,
        query: &ast::Query,
        negated: bool,
        block: &Block,
    ) -> Result<Bound> {
        if let ast::Expr::Tuple(fields) = expr {
            return self.row_in_subquery(fields, query, negated, block);
        }
        let value = self.expression(expr, block)?;
        let inside = self.inside(query, block, block.clause == Clause::Where)?;
        let [column] = inside.relation.columns.as_slice() else {
            return Err(syntax("subquery has too many columns"));
        };
        let plain = element_of(column.ty.oid).is_none() && column.ty.oid != oid::INTERVAL;
        if inside.native && plain {
            let column = column.clone();
            let (value, item) = self.comparable("=", value, column.bound())?;
            let (ty, data_type) = self.common_type(&[&value, &item], "IN")?;
            let value = self.cast_to(value, ty, &data_type, CastContext::Explicit)?;
            let item = self.cast_to(item, ty, &data_type, CastContext::Explicit)?;
            let mut inside = inside;
            let unique = self.fresh("in");
            inside.relation.plan = LogicalPlan::Projection(Projection::try_new(
                vec![renamed(item.expr, &unique)],
                Arc::new(inside.relation.plan),
            )?);
            let subquery = native_with_fields(&inside);
            return Ok(boolean(Expr::InSubquery(InSubquery::new(Box::new(value.expr), subquery, negated))));
        }
        if inside.native {
            return Err(needs_nested_loop());
        }
        let (symbol, all) = if negated { ("<>", true) } else { ("=", false) };
        let array = self.array_of_inside(inside)?;
        self.quantified_array(value, symbol, array, all)
    }

    /// `(a, b) IN (SELECT x, y …)` as EXISTS with the fields compared inside.
    fn row_in_subquery(&self, fields: &[ast::Expr], query: &ast::Query, negated: bool, block: &Block) -> Result<Bound> {
        let values = fields.iter().map(|e| self.expression(e, block)).collect::<Result<Vec<_>>>()?;
        let mut inside = self.inside(query, block, false)?;
        if inside.relation.columns.len() != values.len() {
            let few = inside.relation.columns.len() < values.len();
            return Err(syntax(if few { "subquery has too few columns" } else { "subquery has too many columns" }));
        }
        let mut condition: Option<Expr> = None;
        for (value, column) in values.into_iter().zip(inside.relation.columns.clone()) {
            let value = if value.ty.oid == oid::UNKNOWN {
                self.coerce(value, PgType::of(column.ty.oid), CastContext::Implicit)?
            } else {
                value
            };
            let at = inside.outer.len();
            let field = Arc::new(typed_field("outer", value.data_type.clone(), value.ty));
            inside.outer.push(value.expr);
            let outer = Bound { expr: inside.cell.reference(at, field), ty: value.ty, data_type: value.data_type };
            let same = self.compare(Operator::Eq, outer, column.bound())?.expr;
            condition = Some(condition.map_or(same.clone(), |c| c.and(same)));
        }
        if let Some(condition) = condition {
            inside.relation.plan = self.filter(inside.relation.plan, condition)?;
        }
        let returns = Arc::new(typed_field("exists", DataType::Boolean, PgType::of(oid::BOOL)));
        let expr = self.mark(Kind::Exists, inside, returns);
        Ok(boolean(if negated { Expr::Not(Box::new(expr)) } else { expr }))
    }

    pub(super) fn quantified_subquery(
        &self,
        left: &ast::Expr,
        symbol: &str,
        query: &ast::Query,
        all: bool,
        block: &Block,
    ) -> Result<Bound> {
        let value = self.expression(left, block)?;
        let inside = self.inside(query, block, false)?;
        if inside.relation.columns.len() != 1 {
            return Err(syntax("subquery has too many columns"));
        }
        let array = self.array_of_inside(inside)?;
        self.quantified_array(value, symbol, array, all)
    }

    pub(super) fn array_subquery(&self, query: &ast::Query, block: &Block) -> Result<Bound> {
        let inside = self.inside(query, block, false)?;
        if inside.relation.columns.len() != 1 {
            return Err(syntax("subquery must return only one column"));
        }
        self.array_of_inside(inside)
    }

    fn array_of_inside(&self, inside: Inside) -> Result<Bound> {
        let column = inside.relation.columns[0].clone();
        let Some(array) = array_of(column.ty.oid) else {
            let name = crate::planning::types::format_type(column.ty);
            return Err(SqlError::new(
                SqlState::UNDEFINED_OBJECT,
                format!("could not find array type for data type {name}"),
            ));
        };
        let item = Arc::new(typed_field("item", column.data_type.clone(), column.ty));
        let data_type = DataType::List(item);
        let ty = PgType { oid: array, modifier: column.ty.modifier };
        let returns = Arc::new(typed_field("array", data_type.clone(), ty));
        let expr = self.mark(Kind::Array, inside, returns);
        Ok(Bound { expr, ty, data_type })
    }

    /// Puts the nested loops for all markers in `expressions` on the plan and leaves their columns there.
    pub(super) fn hoist(&self, plan: LogicalPlan, expressions: &mut [Expr]) -> Result<LogicalPlan> {
        let mut plan = plan;
        for _ in 0..16 {
            let mut found: Vec<(Inner, String)> = Vec::new();
            for expr in expressions.iter_mut() {
                if !has_marker(expr) {
                    continue;
                }
                let rewritten = expr.clone().transform_up(|e| {
                    let Some((marker, arguments)) = as_marker(&e) else { return Ok(Transformed::no(e)) };
                    // One whose arguments hold another waits for the next turn.
                    if arguments.iter().any(has_marker) {
                        return Ok(Transformed::no(e));
                    }
                    let name = match found.iter().find(|(i, _)| i.marker == *marker && i.arguments == arguments) {
                        Some((_, name)) => name.clone(),
                        None => {
                            let name = self.fresh("subquery");
                            let inner = Inner { marker: marker.clone(), arguments: arguments.to_vec() };
                            found.push((inner, name.clone()));
                            name
                        }
                    };
                    Ok(Transformed::yes(Expr::Column(Column::new_unqualified(name))))
                })?;
                *expr = rewritten.data;
            }
            if found.is_empty() {
                return Ok(plan);
            }
            plan = Apply::columns(plan, found)?;
        }
        Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "subqueries are nested too deeply"))
    }

    /// LATERAL: the subquery for each row of the plan.
    pub(super) fn lateral(
        &self,
        plan: LogicalPlan,
        boundary: &Rc<Boundary>,
        relation: &Relation,
        outer_join: bool,
    ) -> Result<LogicalPlan> {
        self.use_once();
        let cell = boundary.cell.clone().unwrap_or_default();
        let returns = Arc::new(arrow::datatypes::Field::new("lateral", DataType::Boolean, true));
        let arguments = boundary.arguments.borrow().clone();
        let marker = Marker::expr(Kind::Exists, relation.plan.clone(), cell, returns, Vec::new());
        let Some((marker, _)) = as_marker(&marker) else { return Err(needs_nested_loop()) };
        let mut arguments = arguments;
        let plan = self.hoist(plan, &mut arguments)?;
        Ok(Apply::lateral(plan, Inner { marker: marker.clone(), arguments }, outer_join)?)
    }
}

/// DataFusion's subquery, with the outer references as they stand inside.
fn native_with_fields(inside: &Inside) -> Subquery {
    let mut outer: Vec<Expr> = Vec::new();
    let _ = inside.relation.plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|e| {
                if matches!(e, Expr::OuterReferenceColumn(..)) && !outer.contains(e) {
                    outer.push(e.clone());
                }
                Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
            })
        })
    });
    Subquery { subquery: Arc::new(inside.relation.plan.clone()), outer_ref_columns: outer, spans: Spans::new() }
}
