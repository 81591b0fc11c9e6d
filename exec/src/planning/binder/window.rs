//! Window functions: definitions, frames, and the plan nodes that compute them.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, ScalarValue};
use datafusion::functions_window as df;
use datafusion::logical_expr::expr::{NullTreatment, WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::{
    Expr, LogicalPlan, LogicalPlanBuilder, SortExpr, WindowFrame, WindowFrameBound, WindowFrameUnits,
    WindowFunctionDefinition, cast, lit,
};
use sqlparser::ast;

use super::call::{Arguments, undefined_function};
use super::query::{sort_expr, syntax};
use super::select::{Block, Clause};
use super::{Binder, Bound, fold};
use crate::planning::cast::CastContext;
use crate::planning::types::{PgType, oid};
use crate::sql::error::{Result, SqlError, SqlState};

const WINDOW_FUNCTIONS: &[&str] = &[
    "row_number",
    "rank",
    "dense_rank",
    "percent_rank",
    "cume_dist",
    "ntile",
    "lag",
    "lead",
    "first_value",
    "last_value",
    "nth_value",
];

pub(super) fn is_window_function(name: &str) -> bool {
    WINDOW_FUNCTIONS.contains(&name)
}

/// `row_number() over (partition by … order by …)`, from 1.
pub(super) fn row_number(partition_by: Vec<Expr>, order_by: Vec<SortExpr>) -> Expr {
    let ordered = !order_by.is_empty();
    Expr::WindowFunction(Box::new(WindowFunction {
        fun: WindowFunctionDefinition::WindowUDF(df::row_number::row_number_udwf()),
        params: WindowFunctionParams {
            args: Vec::new(),
            partition_by,
            order_by,
            window_frame: WindowFrame::new(ordered.then_some(false)),
            filter: None,
            null_treatment: None,
            distinct: false,
        },
    }))
}

struct Definition {
    partition_by: Vec<Expr>,
    order_by: Vec<SortExpr>,
    order_types: Vec<Bound>,
    frame: Option<ast::WindowFrame>,
}

impl Binder<'_> {
    pub(super) fn window_call(
        &self,
        name: &str,
        call: &ast::Function,
        over: &ast::WindowType,
        arguments: Arguments<'_>,
        block: &Block,
    ) -> Result<Bound> {
        match block.clause {
            Clause::Select | Clause::OrderBy => {}
            Clause::Window | Clause::Aggregate => {
                let what = if block.clause == Clause::Window {
                    "window function calls cannot be nested"
                } else {
                    "aggregate function calls cannot contain window function calls"
                };
                return Err(SqlError::new(SqlState("42P20"), what));
            }
            clause => {
                let message = format!("window functions are not allowed in {}", clause.name());
                return Err(SqlError::new(SqlState("42P20"), message));
            }
        }
        if arguments.distinct {
            return Err(SqlError::unsupported("DISTINCT in a window function"));
        }
        let inner = block.in_clause(Clause::Window);
        let definition = self.definition(over, &inner, 0)?;
        let frame = self.frame(&definition)?;
        let (given, mut shape) = self.aggregate_arguments(call, &arguments, &inner)?;
        if !is_window_function(name) {
            if !super::aggregate::is_aggregate(name) {
                let message = format!("OVER specified, but {name} is not a window function nor an aggregate function");
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            shape.distinct = false;
            let bound = self.aggregate_over(name, given, &shape, "window")?;
            // Each aggregate inside becomes the same aggregate over the window. Those of the arguments are the query's.
            let expr = bound.expr.transform_down(|e| match e {
                Expr::AggregateFunction(a) => {
                    let windowed = WindowFunction {
                        fun: WindowFunctionDefinition::AggregateUDF(a.func),
                        params: WindowFunctionParams {
                            args: a.params.args,
                            partition_by: definition.partition_by.clone(),
                            order_by: definition.order_by.clone(),
                            window_frame: frame.clone(),
                            filter: a.params.filter,
                            null_treatment: a.params.null_treatment,
                            distinct: a.params.distinct,
                        },
                    };
                    Ok(Transformed::new(Expr::WindowFunction(Box::new(windowed)), true, TreeNodeRecursion::Jump))
                }
                other => Ok(Transformed::no(other)),
            })?;
            return Ok(Bound { expr: expr.data, ..bound });
        }
        let types: Vec<PgType> = given.iter().map(|b| b.ty).collect();
        let missing = || undefined_function(name, &types);
        let mut given = given.into_iter();
        let mut arguments_out: Vec<Expr> = Vec::new();
        let (udwf, t, data_type) = match name {
            "row_number" => (df::row_number::row_number_udwf(), PgType::of(oid::INT8), DataType::Int64),
            "rank" => (df::rank::rank_udwf(), PgType::of(oid::INT8), DataType::Int64),
            "dense_rank" => (df::rank::dense_rank_udwf(), PgType::of(oid::INT8), DataType::Int64),
            "percent_rank" => (df::rank::percent_rank_udwf(), PgType::of(oid::FLOAT8), DataType::Float64),
            "cume_dist" => (df::cume_dist::cume_dist_udwf(), PgType::of(oid::FLOAT8), DataType::Float64),
            "ntile" => {
                let n = given.next().ok_or_else(missing)?;
                let n = self.coerce(n, PgType::of(oid::INT4), CastContext::Implicit)?;
                match self.fold_constant(&n)? {
                    Some(ScalarValue::Int32(Some(n))) if n > 0 => arguments_out.push(lit(i64::from(n))),
                    Some(_) => {
                        let message = "argument of ntile must be greater than zero";
                        return Err(SqlError::new(SqlState("22014"), message));
                    }
                    None => return Err(SqlError::unsupported("ntile of something else than a constant")),
                }
                (df::ntile::ntile_udwf(), PgType::of(oid::INT4), DataType::Int32)
            }
            "lag" | "lead" => {
                let value = self.settled(given.next().ok_or_else(missing)?)?;
                let udwf = if name == "lag" { df::lead_lag::lag_udwf() } else { df::lead_lag::lead_udwf() };
                arguments_out.push(value.expr.clone());
                let (offset, default) = (given.next(), given.next());
                let offset = match offset {
                    None => 1_i64,
                    Some(offset) => {
                        let offset = self.coerce(offset, PgType::of(oid::INT4), CastContext::Implicit)?;
                        match self.fold_constant(&offset)? {
                            Some(ScalarValue::Int32(Some(n))) => i64::from(n),
                            _ => return Err(SqlError::unsupported(format_args!("{name} with a varying offset"))),
                        }
                    }
                };
                arguments_out.push(lit(offset));
                if let Some(default) = default {
                    let default = self.cast_to(default, value.ty, &value.data_type, CastContext::Implicit)?;
                    match self.fold_constant(&default)? {
                        Some(constant) => arguments_out.push(Expr::Literal(constant, None)),
                        None => return Err(SqlError::unsupported(format_args!("{name} with a varying default"))),
                    }
                }
                (udwf, value.ty, value.data_type)
            }
            _ => {
                let value = self.settled(given.next().ok_or_else(missing)?)?;
                arguments_out.push(value.expr.clone());
                let udwf = match name {
                    "first_value" => df::nth_value::first_value_udwf(),
                    "last_value" => df::nth_value::last_value_udwf(),
                    _ => {
                        let n = given.next().ok_or_else(missing)?;
                        let n = self.coerce(n, PgType::of(oid::INT4), CastContext::Implicit)?;
                        match self.fold_constant(&n)? {
                            Some(ScalarValue::Int32(Some(n))) if n > 0 => arguments_out.push(lit(i64::from(n))),
                            _ => {
                                let message = "argument of nth_value must be greater than zero";
                                return Err(SqlError::new(SqlState("22016"), message));
                            }
                        }
                        df::nth_value::nth_value_udwf()
                    }
                };
                (udwf, value.ty, value.data_type)
            }
        };
        if given.next().is_some() {
            return Err(missing());
        }
        let window = Expr::WindowFunction(Box::new(WindowFunction {
            fun: WindowFunctionDefinition::WindowUDF(udwf),
            params: WindowFunctionParams {
                args: arguments_out,
                partition_by: definition.partition_by,
                order_by: definition.order_by,
                window_frame: frame,
                filter: shape.filter,
                null_treatment: Some(NullTreatment::RespectNulls),
                distinct: false,
            },
        }));
        let counts = matches!(name, "row_number" | "rank" | "dense_rank" | "ntile");
        let expr = if counts { cast(window, data_type.clone()) } else { window };
        Ok(Bound { expr, ty: t, data_type })
    }

    fn definition(&self, over: &ast::WindowType, block: &Block, depth: usize) -> Result<Definition> {
        let named = |name: &ast::Ident| -> Result<Definition> {
            let name = fold(name);
            let found = block.windows.get(&name).filter(|_| depth < 32).ok_or_else(|| {
                SqlError::new(SqlState::UNDEFINED_OBJECT, format!("window \"{name}\" does not exist"))
            })?;
            match found {
                ast::NamedWindowExpr::NamedWindow(other) => {
                    self.definition(&ast::WindowType::NamedWindow(other.clone()), block, depth + 1)
                }
                ast::NamedWindowExpr::WindowSpec(spec) => {
                    self.definition(&ast::WindowType::WindowSpec(spec.clone()), block, depth + 1)
                }
            }
        };
        let spec = match over {
            ast::WindowType::NamedWindow(name) => return named(name),
            ast::WindowType::WindowSpec(spec) => spec,
        };
        let mut definition = match &spec.window_name {
            Some(name) => named(name)?,
            None => Definition { partition_by: Vec::new(), order_by: Vec::new(), order_types: Vec::new(), frame: None },
        };
        for expr in &spec.partition_by {
            let bound = self.expression(expr, block)?;
            definition.partition_by.push(super::coerce::comparison_key(self.settled(bound)?).expr);
        }
        for item in &spec.order_by {
            let bound = self.expression(&item.expr, block)?;
            let bound = self.settled(bound)?;
            definition.order_types.push(bound.clone());
            definition.order_by.push(sort_expr(bound, &item.options));
        }
        if spec.window_frame.is_some() {
            definition.frame = spec.window_frame.clone();
        }
        Ok(definition)
    }

    fn frame(&self, definition: &Definition) -> Result<WindowFrame> {
        let Some(written) = &definition.frame else {
            return Ok(WindowFrame::new((!definition.order_by.is_empty()).then_some(false)));
        };
        let units = match written.units {
            ast::WindowFrameUnits::Rows => WindowFrameUnits::Rows,
            ast::WindowFrameUnits::Range => WindowFrameUnits::Range,
            ast::WindowFrameUnits::Groups => WindowFrameUnits::Groups,
        };
        let start = self.frame_bound(&written.start_bound, units, definition)?;
        let end = match &written.end_bound {
            Some(bound) => self.frame_bound(bound, units, definition)?,
            None => WindowFrameBound::CurrentRow,
        };
        let bad = |message: &str| Err(SqlError::new(SqlState("42P20"), message));
        match (&start, &end) {
            (WindowFrameBound::Following(v), _) if v.is_null() => {
                return bad("frame start cannot be UNBOUNDED FOLLOWING");
            }
            (_, WindowFrameBound::Preceding(v)) if v.is_null() => {
                return bad("frame end cannot be UNBOUNDED PRECEDING");
            }
            (WindowFrameBound::CurrentRow, WindowFrameBound::Preceding(_)) => {
                return bad("frame starting from current row cannot have preceding rows");
            }
            (WindowFrameBound::Following(_), WindowFrameBound::CurrentRow | WindowFrameBound::Preceding(_)) => {
                return bad("frame starting from following row cannot have preceding rows");
            }
            _ => {}
        }
        if units == WindowFrameUnits::Groups && definition.order_by.is_empty() {
            return bad("GROUPS mode requires an ORDER BY clause");
        }
        Ok(WindowFrame::new_bounds(units, start, end))
    }

    fn frame_bound(
        &self,
        bound: &ast::WindowFrameBound,
        units: WindowFrameUnits,
        definition: &Definition,
    ) -> Result<WindowFrameBound> {
        let (offset, preceding) = match bound {
            ast::WindowFrameBound::CurrentRow => return Ok(WindowFrameBound::CurrentRow),
            ast::WindowFrameBound::Preceding(offset) => (offset, true),
            ast::WindowFrameBound::Following(offset) => (offset, false),
        };
        let make =
            |value| if preceding { WindowFrameBound::Preceding(value) } else { WindowFrameBound::Following(value) };
        let Some(offset) = offset else { return Ok(make(ScalarValue::UInt64(None))) };
        if units == WindowFrameUnits::Range {
            let [key] = definition.order_types.as_slice() else {
                let message = "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column";
                return Err(SqlError::new(SqlState("42P20"), message));
            };
            let wanted = match key.ty.oid {
                oid::DATE | oid::TIMESTAMP | oid::TIMESTAMPTZ | oid::TIME | oid::INTERVAL => PgType::of(oid::INTERVAL),
                _ => key.ty,
            };
            let value = self.constant(offset, Some(wanted))?;
            let value = match wanted.oid {
                oid::INTERVAL => value,
                _ => self.cast_to(value, key.ty, &key.data_type, CastContext::Explicit)?,
            };
            return match self.fold_constant(&value)? {
                Some(value) if !value.is_null() => Ok(make(value)),
                _ => Err(SqlError::new(SqlState("22013"), "frame offset must not be null")),
            };
        }
        let value = self.constant(offset, Some(PgType::of(oid::INT8)))?;
        match self.fold_constant(&value)? {
            Some(ScalarValue::Int64(Some(n))) => match u64::try_from(n) {
                Ok(n) => Ok(make(ScalarValue::UInt64(Some(n)))),
                Err(_) => Err(SqlError::new(SqlState("22013"), "frame offset must not be negative")),
            },
            _ => Err(syntax("frame offset must be a constant")),
        }
    }

    /// Computes the window functions in `expressions` and leaves their columns there.
    pub(super) fn windows(&self, plan: LogicalPlan, expressions: &mut [Expr]) -> Result<LogicalPlan> {
        let mut calls: Vec<Expr> = Vec::new();
        for expr in expressions.iter() {
            expr.apply(|e| {
                if matches!(e, Expr::WindowFunction(_)) {
                    if !calls.contains(e) {
                        calls.push(e.clone());
                    }
                    return Ok(TreeNodeRecursion::Jump);
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        if calls.is_empty() {
            return Ok(plan);
        }
        let mut hoisted = calls.clone();
        let plan = self.hoist(plan, &mut hoisted)?;
        let plan = LogicalPlanBuilder::window_plan(plan, hoisted.clone())?;
        for expr in expressions.iter_mut() {
            let rewritten = expr.clone().transform_down(|e| match calls.iter().position(|c| *c == e) {
                Some(at) => {
                    let name = hoisted[at].schema_name().to_string();
                    let column = Expr::Column(Column::new_unqualified(name));
                    Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
                }
                None => Ok(Transformed::no(e)),
            })?;
            *expr = rewritten.data;
        }
        Ok(plan)
    }
}
