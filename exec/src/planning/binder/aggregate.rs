//! Aggregate functions: which DataFusion aggregate carries each, on which type, and what is computed from its result.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use datafusion::functions_aggregate as df;
use datafusion::logical_expr::expr::{AggregateFunction, NullTreatment};
use datafusion::logical_expr::{AggregateUDF, Expr, SortExpr, Volatility, lit};
use sqlparser::ast;

use super::call::{Arguments, undefined_function};
use super::query::{sort_expr, syntax};
use super::select::{Block, Clause};
use super::{Binder, Bound};
use crate::planning::cast::{CastContext, is_integer};
use crate::planning::functions::Env;
use crate::planning::json;
use crate::planning::kernel::{self as k, Cell, Kernel, KernelFn};
use crate::planning::types::{NUMERIC_ANY, PgType, array_of, element_of, oid, typed_field};
use crate::sql::error::{Result, SqlError, SqlState};

const AGGREGATES: &[&str] = &[
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "array_agg",
    "string_agg",
    "bool_and",
    "bool_or",
    "every",
    "stddev",
    "stddev_samp",
    "stddev_pop",
    "variance",
    "var_samp",
    "var_pop",
    "corr",
    "covar_pop",
    "covar_samp",
    "bit_and",
    "bit_or",
    "bit_xor",
    "json_agg",
    "jsonb_agg",
    "json_object_agg",
    "jsonb_object_agg",
    "percentile_cont",
    "percentile_disc",
    "mode",
    "regr_slope",
    "regr_intercept",
    "regr_count",
    "regr_r2",
    "regr_avgx",
    "regr_avgy",
    "regr_sxx",
    "regr_syy",
    "regr_sxy",
    "grouping",
    "any_value",
];

pub(super) fn is_aggregate(name: &str) -> bool {
    AGGREGATES.contains(&name)
}

/// How an aggregate call is written around its arguments.
pub(super) struct Shape {
    pub distinct: bool,
    pub filter: Option<Box<Expr>>,
    pub order_by: Vec<SortExpr>,
    /// Types of ORDER BY's or WITHIN GROUP's expressions.
    pub ordered: Vec<Bound>,
    pub star: bool,
    pub within_group: bool,
}

impl Shape {
    fn call(&self, function: Arc<AggregateUDF>, arguments: Vec<Expr>) -> Expr {
        Expr::AggregateFunction(AggregateFunction::new_udf(
            function,
            arguments,
            self.distinct,
            self.filter.clone(),
            self.order_by.clone(),
            None,
        ))
    }

    fn unordered(&self, function: Arc<AggregateUDF>, arguments: Vec<Expr>) -> Expr {
        Expr::AggregateFunction(AggregateFunction::new_udf(
            function,
            arguments,
            self.distinct,
            self.filter.clone(),
            Vec::new(),
            None,
        ))
    }

    fn collect(&self, argument: &Bound) -> Bound {
        let expr = self.call(df::array_agg::array_agg_udaf(), vec![argument.expr.clone()]);
        let array = array_of(argument.ty.oid).unwrap_or(1009);
        let item = Arc::new(typed_field("item", argument.data_type.clone(), argument.ty));
        Bound { expr, ty: PgType { oid: array, modifier: argument.ty.modifier }, data_type: DataType::List(item) }
    }
}

impl Binder<'_> {
    pub(super) fn aggregate_call(
        &self,
        name: &str,
        call: &ast::Function,
        arguments: Arguments<'_>,
        block: &Block,
    ) -> Result<Bound> {
        match block.clause {
            Clause::Select | Clause::Having | Clause::OrderBy | Clause::Window => {}
            Clause::Aggregate => {
                return Err(SqlError::new(SqlState::GROUPING_ERROR, "aggregate function calls cannot be nested"));
            }
            clause => {
                let message = format!("aggregate functions are not allowed in {}", clause.name());
                return Err(SqlError::new(SqlState::GROUPING_ERROR, message));
            }
        }
        block.aggregated.set(true);
        let inner = block.in_clause(Clause::Aggregate);
        let (bounds, shape) = self.aggregate_arguments(call, &arguments, &inner)?;
        if name == "grouping" {
            let keys = block.group_keys.borrow();
            if bounds.iter().any(|b| !keys.contains(&b.expr)) {
                return Err(SqlError::new(
                    SqlState::GROUPING_ERROR,
                    "arguments to GROUPING must be grouping expressions of the associated query level",
                ));
            }
            let expr = shape.call(df::grouping::grouping_udaf(), bounds.into_iter().map(|b| b.expr).collect());
            return Ok(Bound { expr, ty: PgType::of(oid::INT4), data_type: DataType::Int32 });
        }
        self.aggregate_over(name, bounds, &shape, "aggregate")
    }

    pub(super) fn aggregate_arguments(
        &self,
        call: &ast::Function,
        arguments: &Arguments<'_>,
        inner: &Block,
    ) -> Result<(Vec<Bound>, Shape)> {
        let bounds = arguments.expressions.iter().map(|e| self.expression(e, inner)).collect::<Result<Vec<_>>>()?;
        let filter = match &call.filter {
            Some(filter) => Some(Box::new(self.condition(filter, inner, "FILTER")?)),
            None => None,
        };
        let within_group = !call.within_group.is_empty();
        let written = if within_group { &call.within_group } else { &arguments.order_by };
        let mut order_by = Vec::new();
        let mut ordered = Vec::new();
        for item in written {
            let bound = self.expression(&item.expr, inner)?;
            let bound = self.settled(bound)?;
            ordered.push(bound.clone());
            order_by.push(sort_expr(bound, &item.options));
        }
        let shape =
            Shape { distinct: arguments.distinct, filter, order_by, ordered, star: arguments.star, within_group };
        Ok((bounds, shape))
    }

    /// The aggregate over bound arguments; `make` wraps the DataFusion call (plain, or as a window function).
    pub(super) fn aggregate_over(&self, name: &str, given: Vec<Bound>, shape: &Shape, kind: &str) -> Result<Bound> {
        let _ = kind;
        let types: Vec<PgType> = given.iter().map(|b| b.ty).collect();
        let missing = || undefined_function(name, &types);
        let plain = |expr: Expr, t: u32, data_type: DataType| Ok(Bound { expr, ty: PgType::of(t), data_type });
        let one = |given: &[Bound]| -> Result<Bound> {
            match given {
                [one] => self.settled(one.clone()),
                _ => Err(missing()),
            }
        };
        let as_type = |b: Bound, t: u32| self.coerce(b, PgType::of(t), CastContext::Explicit);
        match name {
            "count" => {
                let argument = if shape.star || given.is_empty() {
                    if !shape.star {
                        return Err(syntax("count(*) must be used to call a parameterless aggregate function"));
                    }
                    lit(1_i64)
                } else {
                    let b = one(&given)?;
                    if shape.distinct { super::coerce::comparison_key(b).expr } else { b.expr }
                };
                plain(shape.unordered(df::count::count_udaf(), vec![argument]), oid::INT8, DataType::Int64)
            }
            "sum" => {
                let b = one(&given)?;
                let sum = df::sum::sum_udaf();
                match b.ty.oid {
                    oid::INT2 | oid::INT4 => {
                        let b = as_type(b, oid::INT8)?;
                        plain(shape.unordered(sum, vec![b.expr]), oid::INT8, DataType::Int64)
                    }
                    oid::INT8 => {
                        // DataFusion's sum of bigint would wrap; a decimal of 38 digits cannot.
                        let wide = Expr::Cast(datafusion::logical_expr::expr::Cast::new(
                            Box::new(b.expr),
                            DataType::Decimal128(28, 0),
                        ));
                        plain(shape.unordered(sum, vec![wide]), oid::NUMERIC, DataType::Decimal128(38, 0))
                    }
                    oid::NUMERIC => self.sum_numeric(b, shape),
                    oid::FLOAT4 => {
                        let b = as_type(b, oid::FLOAT8)?;
                        let sum = plain(shape.unordered(sum, vec![b.expr]), oid::FLOAT8, DataType::Float64)?;
                        as_type(sum, oid::FLOAT4)
                    }
                    oid::FLOAT8 => plain(shape.unordered(sum, vec![b.expr]), oid::FLOAT8, DataType::Float64),
                    oid::INTERVAL => {
                        let list = shape.collect(&b);
                        Ok(self.finish("sum", list, PgType::of(oid::INTERVAL), interval_sum(false)))
                    }
                    _ => Err(missing()),
                }
            }
            "avg" => {
                let b = one(&given)?;
                match b.ty.oid {
                    oid::FLOAT4 | oid::FLOAT8 => {
                        let b = as_type(b, oid::FLOAT8)?;
                        plain(shape.unordered(df::average::avg_udaf(), vec![b.expr]), oid::FLOAT8, DataType::Float64)
                    }
                    oid::INTERVAL => {
                        let list = shape.collect(&b);
                        Ok(self.finish("avg", list, PgType::of(oid::INTERVAL), interval_sum(true)))
                    }
                    t if is_integer(t) || t == oid::NUMERIC => {
                        let count = plain(
                            shape.unordered(df::count::count_udaf(), vec![b.expr.clone()]),
                            oid::INT8,
                            DataType::Int64,
                        )?;
                        let sum = self.aggregate_over("sum", vec![b], shape, "aggregate")?;
                        let sum = as_type(sum, oid::NUMERIC)?;
                        let count = as_type(count, oid::NUMERIC)?;
                        // No rows: the sum is null, so the quotient is null before it divides by zero.
                        let quotient = self.operator("/", sum, self.null_if_zero(count))?;
                        Ok(quotient)
                    }
                    _ => Err(missing()),
                }
            }
            "min" | "max" => {
                let b = one(&given)?;
                let function = if name == "min" { df::min_max::min_udaf() } else { df::min_max::max_udaf() };
                match b.ty.oid {
                    oid::INTERVAL | oid::UUID => {
                        let list = shape.collect(&b);
                        Ok(self.finish(name, list, b.ty, extreme(name == "min")))
                    }
                    oid::BOOL | oid::JSON | oid::JSONB => Err(missing()),
                    t if element_of(t).is_some() => {
                        let list = shape.collect(&b);
                        let data_type = b.data_type.clone();
                        Ok(self.finish_as(name, list, b.ty, data_type, extreme(name == "min")))
                    }
                    oid::VARCHAR => {
                        let data_type = b.data_type.clone();
                        plain(shape.unordered(function, vec![b.expr]), oid::TEXT, data_type)
                    }
                    _ => {
                        let expr = shape.unordered(function, vec![b.expr]);
                        Ok(Bound {
                            expr,
                            ty: PgType { oid: b.ty.oid, modifier: b.ty.modifier },
                            data_type: b.data_type,
                        })
                    }
                }
            }
            "any_value" => {
                let b = one(&given)?;
                let expr = shape.call(df::first_last::first_value_udaf(), vec![b.expr]);
                Ok(Bound { expr, ..b })
            }
            "array_agg" => {
                let b = one(&given)?;
                if array_of(b.ty.oid).is_none() {
                    return Err(SqlError::new(
                        SqlState::UNDEFINED_OBJECT,
                        format!(
                            "could not find array type for data type {}",
                            crate::planning::types::format_type(b.ty)
                        ),
                    ));
                }
                Ok(shape.collect(&b))
            }
            "string_agg" => {
                let [value, delimiter] = given.as_slice() else { return Err(missing()) };
                let bytes = value.ty.oid == oid::BYTEA;
                if !bytes && !crate::planning::cast::is_text(value.ty.oid) {
                    return Err(missing());
                }
                let t = if bytes { oid::BYTEA } else { oid::TEXT };
                let value = self.coerce(value.clone(), PgType::of(t), CastContext::Implicit)?;
                let delimiter = self.coerce(delimiter.clone(), PgType::of(t), CastContext::Implicit)?;
                // The delimiter is taken row by row, as its own array beside the values.
                let values = shape.collect(&value);
                let constant = matches!(delimiter.expr, Expr::Literal(..));
                let second = if constant { delimiter.clone() } else { shape.collect(&delimiter) };
                let run = if bytes { join_bytes(constant) } else { join_text(constant) };
                let returns = Arc::new(typed_field(name, value.data_type.clone(), PgType::of(t)));
                let expr = Kernel::call(
                    name,
                    format!("{name}_final({constant},{bytes})"),
                    returns,
                    Volatility::Immutable,
                    run,
                    vec![values.expr, second.expr],
                );
                plain(expr, t, value.data_type)
            }
            "bool_and" | "every" | "bool_or" => {
                let b = one(&given)?;
                if b.ty.oid != oid::BOOL {
                    return Err(missing());
                }
                let function =
                    if name == "bool_or" { df::bool_and_or::bool_or_udaf() } else { df::bool_and_or::bool_and_udaf() };
                plain(shape.unordered(function, vec![b.expr]), oid::BOOL, DataType::Boolean)
            }
            "bit_and" | "bit_or" | "bit_xor" => {
                let b = one(&given)?;
                if !is_integer(b.ty.oid) {
                    return Err(missing());
                }
                let function = match name {
                    "bit_and" => df::bit_and_or_xor::bit_and_udaf(),
                    "bit_or" => df::bit_and_or_xor::bit_or_udaf(),
                    _ => df::bit_and_or_xor::bit_xor_udaf(),
                };
                let expr = shape.unordered(function, vec![b.expr]);
                Ok(Bound { expr, ..b })
            }
            "stddev" | "stddev_samp" | "stddev_pop" | "variance" | "var_samp" | "var_pop" => {
                let b = one(&given)?;
                self.variance(name, b, shape, &missing)
            }
            "corr" | "covar_pop" | "covar_samp" | "regr_slope" | "regr_intercept" | "regr_count" | "regr_r2"
            | "regr_avgx" | "regr_avgy" | "regr_sxx" | "regr_syy" | "regr_sxy" => {
                let [y, x] = given.as_slice() else { return Err(missing()) };
                let y = self.coerce(y.clone(), PgType::of(oid::FLOAT8), CastContext::Implicit)?;
                let x = self.coerce(x.clone(), PgType::of(oid::FLOAT8), CastContext::Implicit)?;
                let function = match name {
                    "corr" => df::correlation::corr_udaf(),
                    "covar_pop" => df::covariance::covar_pop_udaf(),
                    "covar_samp" => df::covariance::covar_samp_udaf(),
                    "regr_slope" => df::regr::regr_slope_udaf(),
                    "regr_intercept" => df::regr::regr_intercept_udaf(),
                    "regr_count" => df::regr::regr_count_udaf(),
                    "regr_r2" => df::regr::regr_r2_udaf(),
                    "regr_avgx" => df::regr::regr_avgx_udaf(),
                    "regr_avgy" => df::regr::regr_avgy_udaf(),
                    "regr_sxx" => df::regr::regr_sxx_udaf(),
                    "regr_syy" => df::regr::regr_syy_udaf(),
                    _ => df::regr::regr_sxy_udaf(),
                };
                let expr = shape.unordered(function, vec![y.expr, x.expr]);
                if name == "regr_count" {
                    let wide = datafusion::logical_expr::cast(expr, DataType::Int64);
                    return plain(wide, oid::INT8, DataType::Int64);
                }
                plain(expr, oid::FLOAT8, DataType::Float64)
            }
            "json_agg" | "jsonb_agg" => {
                let b = one(&given)?;
                let jsonb = name == "jsonb_agg";
                let list = shape.collect(&b);
                let run = json_array(b.ty, jsonb, self.env.clone());
                let t = if jsonb { oid::JSONB } else { oid::JSON };
                Ok(self.finish(name, list, PgType::of(t), run))
            }
            "json_object_agg" | "jsonb_object_agg" => {
                let [key, value] = given.as_slice() else { return Err(missing()) };
                let key = self.coerce(key.clone(), PgType::of(oid::TEXT), CastContext::Explicit)?;
                let value = self.settled(value.clone())?;
                let jsonb = name == "jsonb_object_agg";
                let t = PgType::of(if jsonb { oid::JSONB } else { oid::JSON });
                let run = json_object(value.ty, jsonb, self.env.clone());
                let (keys, values) = (shape.collect(&key), shape.collect(&value));
                let returns = Arc::new(typed_field(name, DataType::Utf8, t));
                let identity = format!("{name}_final({})", value.ty.oid);
                let expr = Kernel::call(name, identity, returns, Volatility::Stable, run, vec![keys.expr, values.expr]);
                Ok(Bound { expr, ty: t, data_type: DataType::Utf8 })
            }
            "mode" | "percentile_cont" | "percentile_disc" => self.ordered_set(name, given, shape, &missing),
            _ => Err(missing()),
        }
    }

    fn null_if_zero(&self, count: Bound) -> Bound {
        let zero = datafusion::logical_expr::lit(datafusion::common::ScalarValue::Decimal256(
            Some(arrow::datatypes::i256::ZERO),
            76,
            20,
        ));
        let is_zero = count.expr.clone().eq(zero);
        let null = Expr::Literal(datafusion::common::ScalarValue::Decimal256(None, 76, 20), None);
        let expr = Expr::Case(datafusion::logical_expr::Case::new(
            None,
            vec![(Box::new(is_zero), Box::new(null))],
            Some(Box::new(count.expr)),
        ));
        Bound { expr, ..count }
    }

    fn sum_numeric(&self, b: Bound, shape: &Shape) -> Result<Bound> {
        let sum = df::sum::sum_udaf();
        let (data_type, widened) = match b.data_type {
            DataType::Decimal128(p, s) if p <= 28 => (DataType::Decimal128(p + 10, s), b.expr),
            DataType::Decimal128(p, s) => {
                let wide = DataType::Decimal256(p.max(s as u8) + 10, s);
                let cast = datafusion::logical_expr::cast(b.expr, wide);
                (DataType::Decimal256((p + 20).min(76), s), cast)
            }
            DataType::Decimal256(p, s) => (DataType::Decimal256((p + 10).min(76), s), b.expr),
            other => (other, b.expr),
        };
        let expr = shape.unordered(sum, vec![widened]);
        Ok(Bound { expr, ty: PgType::of(oid::NUMERIC), data_type })
    }

    fn variance(&self, name: &str, b: Bound, shape: &Shape, missing: &dyn Fn() -> SqlError) -> Result<Bound> {
        let root = name.starts_with("stddev");
        let population = name.ends_with("_pop");
        match b.ty.oid {
            oid::FLOAT4 | oid::FLOAT8 => {
                let b = self.coerce(b, PgType::of(oid::FLOAT8), CastContext::Explicit)?;
                let function = match (root, population) {
                    (true, true) => df::stddev::stddev_pop_udaf(),
                    (true, false) => df::stddev::stddev_udaf(),
                    (false, true) => df::variance::var_pop_udaf(),
                    (false, false) => df::variance::var_samp_udaf(),
                };
                let expr = shape.unordered(function, vec![b.expr]);
                Ok(Bound { expr, ty: PgType::of(oid::FLOAT8), data_type: DataType::Float64 })
            }
            t if is_integer(t) || t == oid::NUMERIC => {
                let b = self.coerce(b, PgType::of(oid::NUMERIC), CastContext::Explicit)?;
                let list = shape.collect(&b);
                let run = exact_variance(root, population);
                Ok(self.finish(name, list, PgType::of(oid::NUMERIC), run))
            }
            _ => Err(missing()),
        }
    }

    fn ordered_set(
        &self,
        name: &str,
        given: Vec<Bound>,
        shape: &Shape,
        missing: &dyn Fn() -> SqlError,
    ) -> Result<Bound> {
        if !shape.within_group {
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("WITHIN GROUP is required for ordered-set aggregate {name}"),
            ));
        }
        let [value] = shape.ordered.as_slice() else { return Err(missing()) };
        if name == "mode" {
            let list = shape.collect(value);
            return Ok(self.finish_as(name, list, value.ty, value.data_type.clone(), mode()));
        }
        let [fraction] = given.as_slice() else { return Err(missing()) };
        let continuous = name == "percentile_cont";
        let value = match value.ty.oid {
            _ if !continuous => value.clone(),
            oid::INTERVAL => value.clone(),
            _ => self.coerce(value.clone(), PgType::of(oid::FLOAT8), CastContext::Implicit)?,
        };
        let list = shape.collect(&value);
        let many = element_of(fraction.ty.oid).is_some();
        let target = if many { 1022 } else { oid::FLOAT8 };
        let fraction = self.coerce(fraction.clone(), PgType::of(target), CastContext::Implicit)?;
        let (ty, data_type) = if many {
            (PgType::of(array_of(value.ty.oid).unwrap_or(1022)), list.data_type.clone())
        } else {
            (value.ty, value.data_type.clone())
        };
        let returns = Arc::new(typed_field(name, data_type.clone(), ty));
        // The fraction is the same for the whole group, so any row's will do.
        let fraction = match fraction.expr {
            constant @ Expr::Literal(..) => constant,
            other => self.first_of_group(other, shape),
        };
        let run = percentile(continuous, many);
        let identity = format!("{name}_final({many})");
        let expr = Kernel::call(name, identity, returns, Volatility::Immutable, run, vec![list.expr, fraction]);
        Ok(Bound { expr, ty, data_type })
    }

    fn first_of_group(&self, expr: Expr, shape: &Shape) -> Expr {
        Expr::AggregateFunction(AggregateFunction::new_udf(
            df::first_last::first_value_udaf(),
            vec![expr],
            false,
            shape.filter.clone(),
            Vec::new(),
            Some(NullTreatment::RespectNulls),
        ))
    }

    fn finish(&self, name: &str, list: Bound, returns: PgType, run: KernelFn) -> Bound {
        let data_type = crate::planning::types::arrow_type(returns).unwrap_or(NUMERIC_ANY);
        self.finish_as(name, list, returns, data_type, run)
    }

    fn finish_as(&self, name: &str, list: Bound, returns: PgType, data_type: DataType, run: KernelFn) -> Bound {
        let field = Arc::new(typed_field(name, data_type.clone(), returns));
        let identity = format!("{name}_final({})", list.ty.oid);
        let expr = Kernel::call(name, identity, field, Volatility::Stable, run, vec![list.expr]);
        Bound { expr, ty: returns, data_type }
    }
}

/// One result a group from the array of its values.
fn from_lists<O: Cell>(f: impl Fn(ArrayRef) -> Result<Option<O::Owned>> + Send + Sync + 'static) -> KernelFn {
    Arc::new(move |arguments, rows| {
        let list = k::List::down(&arguments[0])?;
        let mut out = Vec::with_capacity(rows);
        for i in 0..rows {
            out.push(if list.is_null(i) { None } else { f(list.value(i))? });
        }
        Ok(O::build(out))
    })
}

fn interval_sum(mean: bool) -> KernelFn {
    use arrow::datatypes::IntervalMonthDayNano as V;
    from_lists::<k::Iv>(move |values| {
        let values = k::Iv::down(&values)?;
        let (mut months, mut days, mut ns, mut count) = (0_i128, 0_i128, 0_i128, 0_i128);
        for v in values.iter().flatten() {
            months += i128::from(v.months);
            days += i128::from(v.days);
            ns += i128::from(v.nanoseconds);
            count += 1;
        }
        if count == 0 {
            return Ok(None);
        }
        let overflow = || crate::planning::datetime::out_of_range("interval");
        let whole = V::new(
            i32::try_from(months).map_err(|_| overflow())?,
            i32::try_from(days).map_err(|_| overflow())?,
            i64::try_from(ns).map_err(|_| overflow())?,
        );
        if !mean {
            return Ok(Some(whole));
        }
        crate::planning::datetime::divide_interval(whole, count as f64).map(Some)
    })
}

/// The least or greatest element, by PostgreSQL's order.
fn extreme(least: bool) -> KernelFn {
    Arc::new(move |arguments, rows| {
        let list = k::List::down(&arguments[0])?;
        let values = list.values();
        let compare = super::coerce::comparator(values, values)?;
        let mut picks: Vec<Option<u32>> = Vec::with_capacity(rows);
        for row in 0..rows {
            let mut best: Option<usize> = None;
            if !list.is_null(row) {
                let range = list.value_offsets()[row] as usize..list.value_offsets()[row + 1] as usize;
                for i in range.filter(|i| !values.is_null(*i)) {
                    best = match best {
                        Some(b) if (compare(b, i).is_le()) == least => Some(b),
                        _ => Some(i),
                    };
                }
            }
            picks.push(best.map(|b| b as u32));
        }
        Ok(arrow::compute::take(values, &arrow::array::UInt32Array::from(picks), None)?)
    })
}

/// The most frequent value; the arrays are sorted.
fn mode() -> KernelFn {
    Arc::new(|arguments, rows| {
        let list = k::List::down(&arguments[0])?;
        let values = list.values();
        let compare = super::coerce::comparator(values, values)?;
        let mut picks: Vec<Option<u32>> = Vec::with_capacity(rows);
        for row in 0..rows {
            let mut best: Option<(usize, usize)> = None;
            if !list.is_null(row) {
                let range = list.value_offsets()[row] as usize..list.value_offsets()[row + 1] as usize;
                let mut run: Option<(usize, usize)> = None;
                for i in range.filter(|i| !values.is_null(*i)) {
                    run = match run {
                        Some((first, n)) if compare(first, i).is_eq() => Some((first, n + 1)),
                        _ => Some((i, 1)),
                    };
                    if let Some((first, n)) = run
                        && best.is_none_or(|(_, m)| n > m)
                    {
                        best = Some((first, n));
                    }
                }
            }
            picks.push(best.map(|(at, _)| at as u32));
        }
        Ok(arrow::compute::take(values, &arrow::array::UInt32Array::from(picks), None)?)
    })
}

fn percentile(continuous: bool, many: bool) -> KernelFn {
    Arc::new(move |arguments, rows| {
        let list = k::List::down(&arguments[0])?;
        let values = list.values();
        let mut out: Vec<ArrayRef> = Vec::with_capacity(rows);
        let data_type = values.data_type().clone();
        let at = |row: usize, p: f64| -> Result<ArrayRef> {
            if !(0.0..=1.0).contains(&p) {
                return Err(SqlError::new(
                    SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                    format!("percentile value {p} is not between 0 and 1"),
                ));
            }
            let range = list.value_offsets()[row] as usize..list.value_offsets()[row + 1] as usize;
            let present: Vec<usize> = range.filter(|i| !values.is_null(*i)).collect();
            if list.is_null(row) || present.is_empty() {
                return Ok(arrow::array::new_null_array(&data_type, 1));
            }
            let last = (present.len() - 1) as f64;
            if !continuous {
                let n = (p * present.len() as f64).ceil().max(1.0) as usize - 1;
                return Ok(values.slice(present[n], 1));
            }
            let position = p * last;
            let (low, high) = (position.floor() as usize, position.ceil() as usize);
            let share = position - low as f64;
            if let Ok(v) = k::F8::down(values) {
                let (a, b) = (v.value(present[low]), v.value(present[high]));
                return Ok(Arc::new(arrow::array::Float64Array::from(vec![a + share * (b - a)])));
            }
            let v = k::Iv::down(values)?;
            let (a, b) = (v.value(present[low]), v.value(present[high]));
            let between = crate::planning::datetime::interpolate(a, b, share)?;
            Ok(Arc::new(arrow::array::IntervalMonthDayNanoArray::from(vec![between])))
        };
        if many {
            let fractions = k::List::down(&arguments[1])?;
            let mut offsets = vec![0_i32];
            for row in 0..rows {
                let wanted = fractions.value(row);
                for p in k::F8::down(&wanted)?.iter() {
                    out.push(match p {
                        Some(p) => at(row, p)?,
                        None => arrow::array::new_null_array(&data_type, 1),
                    });
                }
                offsets.push(out.len() as i32);
            }
            let parts: Vec<&dyn Array> = out.iter().map(AsRef::as_ref).collect();
            let elements = if parts.is_empty() {
                arrow::array::new_empty_array(&data_type)
            } else {
                arrow::compute::concat(&parts)?
            };
            let item = match list.data_type() {
                DataType::List(item) => item.clone(),
                other => return Err(k::wrong_array(other)),
            };
            let offsets = arrow::buffer::OffsetBuffer::new(offsets.into());
            return Ok(Arc::new(arrow::array::ListArray::try_new(item, offsets, elements, None)?));
        }
        let fractions = k::F8::down(&arguments[1])?;
        for row in 0..rows {
            out.push(if fractions.is_null(row) {
                arrow::array::new_null_array(&data_type, 1)
            } else {
                at(row, fractions.value(row))?
            });
        }
        let parts: Vec<&dyn Array> = out.iter().map(AsRef::as_ref).collect();
        if parts.is_empty() {
            return Ok(arrow::array::new_empty_array(&data_type));
        }
        Ok(arrow::compute::concat(&parts)?)
    })
}

fn exact_variance(root: bool, population: bool) -> KernelFn {
    use crate::planning::decimal::Decimal;
    Arc::new(move |arguments, rows| {
        let list = k::List::down(&arguments[0])?;
        let mut out = Vec::with_capacity(rows);
        for row in 0..rows {
            if list.is_null(row) {
                out.push(None);
                continue;
            }
            let values = list.value(row);
            let numbers = k::NumArray::new(&values)?;
            let (mut n, mut sum, mut squares) = (0_i128, Decimal::ZERO, Decimal::ZERO);
            for i in (0..values.len()).filter(|i| !numbers.is_null(*i)) {
                let v = numbers.value(i).without_trailing_zeros();
                n += 1;
                sum = sum.add(v)?;
                squares = squares.add(v.multiply(v)?)?;
            }
            if n == 0 || n == 1 && !population {
                out.push(None);
                continue;
            }
            let count = Decimal::from_i128(n);
            let spread = count.multiply(squares)?.subtract(sum.multiply(sum)?)?;
            let by = if population { n * n } else { n * (n - 1) };
            let variance = spread.divide(Decimal::from_i128(by))?;
            out.push(Some(if root { variance.square_root()? } else { variance }));
        }
        k::build_numeric(out, &NUMERIC_ANY)
    })
}

fn join_text(constant: bool) -> KernelFn {
    Arc::new(move |arguments, rows| {
        let values = k::List::down(&arguments[0])?;
        let mut out = Vec::with_capacity(rows);
        for row in 0..rows {
            if values.is_null(row) {
                out.push(None);
                continue;
            }
            let items = values.value(row);
            let items = k::Txt::down(&items)?;
            let per_row = if constant { None } else { Some(k::List::down(&arguments[1])?.value(row)) };
            let mut text: Option<String> = None;
            for i in (0..items.len()).filter(|i| !items.is_null(*i)) {
                match &mut text {
                    None => text = Some(items.value(i).to_owned()),
                    Some(text) => {
                        let (delimiters, at) = match &per_row {
                            Some(array) => (k::Txt::down(array)?, i),
                            None => (k::Txt::down(&arguments[1])?, row),
                        };
                        if !delimiters.is_null(at) {
                            text.push_str(delimiters.value(at));
                        }
                        text.push_str(items.value(i));
                    }
                }
            }
            out.push(text);
        }
        Ok(k::Txt::build(out))
    })
}

fn join_bytes(constant: bool) -> KernelFn {
    Arc::new(move |arguments, rows| {
        let values = k::List::down(&arguments[0])?;
        let mut out = Vec::with_capacity(rows);
        for row in 0..rows {
            if values.is_null(row) {
                out.push(None);
                continue;
            }
            let items = values.value(row);
            let items = k::Bytes::down(&items)?;
            let per_row = if constant { None } else { Some(k::List::down(&arguments[1])?.value(row)) };
            let mut bytes: Option<Vec<u8>> = None;
            for i in (0..items.len()).filter(|i| !items.is_null(*i)) {
                match &mut bytes {
                    None => bytes = Some(items.value(i).to_vec()),
                    Some(bytes) => {
                        let (delimiters, at) = match &per_row {
                            Some(array) => (k::Bytes::down(array)?, i),
                            None => (k::Bytes::down(&arguments[1])?, row),
                        };
                        if !delimiters.is_null(at) {
                            bytes.extend_from_slice(delimiters.value(at));
                        }
                        bytes.extend_from_slice(items.value(i));
                    }
                }
            }
            out.push(bytes);
        }
        Ok(k::Bytes::build(out))
    })
}

fn json_array(element: PgType, jsonb: bool, env: Env) -> KernelFn {
    Arc::new(move |arguments, rows| {
        let list = k::List::down(&arguments[0])?;
        let texts = json::texts(list.values(), element, env.moment(), jsonb)?;
        let mut out = Vec::with_capacity(rows);
        for row in 0..rows {
            if list.is_null(row) {
                out.push(None);
                continue;
            }
            let range = list.value_offsets()[row] as usize..list.value_offsets()[row + 1] as usize;
            let parts: Vec<&str> = texts[range].iter().map(|t| t.as_deref().unwrap_or("null")).collect();
            out.push(Some(format!("[{}]", parts.join(", "))));
        }
        Ok(k::Txt::build(out))
    })
}

fn json_object(value: PgType, jsonb: bool, env: Env) -> KernelFn {
    Arc::new(move |arguments, rows| {
        let (keys, values) = (k::List::down(&arguments[0])?, k::List::down(&arguments[1])?);
        let texts = json::texts(values.values(), value, env.moment(), jsonb)?;
        let names = keys.values().clone();
        let names = k::Txt::down(&names)?;
        let mut out = Vec::with_capacity(rows);
        for row in 0..rows {
            if keys.is_null(row) {
                out.push(None);
                continue;
            }
            let (ks, vs) = (keys.value_offsets()[row] as usize, values.value_offsets()[row] as usize);
            let count = keys.value_offsets()[row + 1] as usize - ks;
            let mut parts = Vec::with_capacity(count);
            for i in 0..count {
                if names.is_null(ks + i) {
                    return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "field name must not be null"));
                }
                let mut part = String::new();
                json::write_string(names.value(ks + i), &mut part);
                part.push_str(if jsonb { ": " } else { " : " });
                part.push_str(texts[vs + i].as_deref().unwrap_or("null"));
                parts.push(part);
            }
            let object = format!("{{ {} }}", parts.join(", "));
            out.push(Some(if jsonb { json::canonical(&object)? } else { object }));
        }
        Ok(k::Txt::build(out))
    })
}
