//! Types settled: casts placed, unknown literals read, common types found, comparisons made.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, new_null_array};
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, Volatility};

use super::{Binder, Bound, boolean};
use crate::planning::cast::{CastContext, cannot_cast, cast_array, cast_context, is_integer, is_number, is_text};
use crate::planning::functions::{Call, Make, Overload, resolve};
use crate::planning::kernel::{self as k, Cell, Kernel, KernelFn};
use crate::planning::types::{
    NUMERIC_ANY, PgType, array_of, arrow_type, category, element_of, format_type, is_oid_alias, is_preferred, oid,
    typed_field,
};
use crate::sql::error::{Result, SqlError, SqlState};

impl Binder<'_> {
    /// An unknown literal becomes text.
    pub(super) fn settled(&self, bound: Bound) -> Result<Bound> {
        if bound.ty.oid == oid::UNKNOWN {
            self.coerce(bound, PgType::of(oid::TEXT), CastContext::Implicit)
        } else {
            Ok(bound)
        }
    }

    /// Casts where the context allows it. A numeric keeps its own scale unless the target has a modifier.
    pub(super) fn coerce(&self, bound: Bound, to: PgType, context: CastContext) -> Result<Bound> {
        let keeps = bound.ty.oid == to.oid
            && (to.modifier == -1 || to == bound.ty)
            && !(to.oid == oid::BPCHAR && to.modifier != bound.ty.modifier);
        if keeps {
            return Ok(bound);
        }
        let from = bound.ty;
        if let Expr::Placeholder(p) = &bound.expr
            && from.oid == oid::UNKNOWN
        {
            return self.type_parameter(&p.id.clone(), to, context);
        }
        match cast_context(from.oid, to.oid) {
            Some(needed) if needed <= context => {}
            // Between two types PostgreSQL would convert on assignment only, the statement says which.
            Some(_) | None if context == CastContext::Assignment => {
                return Err(SqlError::new(
                    SqlState::DATATYPE_MISMATCH,
                    format!("expression is of type {} where {} is wanted", format_type(from), format_type(to)),
                )
                .hint("You will need to rewrite or cast the expression."));
            }
            _ => return Err(cannot_cast(from, to)),
        }
        let mut data_type = arrow_type(to).ok_or_else(|| cannot_cast(from, to))?;
        if to.oid == oid::NUMERIC && to.modifier == -1 {
            // Integers have a known number of digits, so what is computed from them can keep an exact scale.
            data_type = match bound.data_type {
                DataType::Int16 => DataType::Decimal128(5, 0),
                DataType::Int32 => DataType::Decimal128(10, 0),
                DataType::Int64 => DataType::Decimal128(19, 0),
                DataType::Decimal128(..) | DataType::Decimal256(..) => bound.data_type.clone(),
                _ => data_type,
            };
            if let Expr::Literal(ScalarValue::Utf8(Some(text)), _) = &bound.expr
                && from.oid == oid::UNKNOWN
                && let Some(exact) = super::expression::numeric_literal(text)
            {
                return Ok(exact);
            }
        }
        if element_of(to.oid).is_some()
            && let DataType::List(item) = &bound.data_type
            && matches!(item.data_type(), DataType::List(_))
        {
            data_type = nested_like(&bound.data_type, to);
        }
        self.cast_as(bound, to, data_type, context == CastContext::Explicit)
    }

    /// To one PostgreSQL type carried by one Arrow type.
    pub(super) fn cast_to(
        &self,
        bound: Bound,
        to: PgType,
        data_type: &DataType,
        context: CastContext,
    ) -> Result<Bound> {
        if bound.ty.oid == to.oid && bound.data_type == *data_type {
            return Ok(Bound { ty: to, ..bound });
        }
        let bound = self.coerce(bound, PgType::of(to.oid), context)?;
        if bound.data_type == *data_type {
            return Ok(Bound { ty: to, ..bound });
        }
        self.cast_as(bound, to, data_type.clone(), true)
    }

    fn cast_as(&self, bound: Bound, to: PgType, data_type: DataType, explicit: bool) -> Result<Bound> {
        let from = bound.ty;
        let moment = self.env.moment();
        let target = data_type.clone();
        let run: KernelFn = Arc::new(move |arguments, _| {
            let cast = if to.oid == oid::NUMERIC && to.modifier == -1 {
                match arguments[0].data_type() {
                    DataType::Utf8 => cast_array(&arguments[0], from, to, explicit, moment)?,
                    _ => k::build_numeric(crate::planning::cast::numerics(&arguments[0], from)?, &target)?,
                }
            } else {
                cast_array(&arguments[0], from, to, explicit, moment)?
            };
            if *cast.data_type() == target {
                return Ok(cast);
            }
            if let DataType::Decimal128(..) | DataType::Decimal256(..) = target {
                return k::build_numeric(crate::planning::cast::numerics(&cast, to)?, &target);
            }
            relabel(cast, &target)
        });
        // A literal is read now, so that its error comes before any row.
        if let Expr::Literal(value, _) = &bound.expr {
            let array = value.to_array().map_err(SqlError::from)?;
            let cast = run(&[array], 1)?;
            if depends_on_zone(from.oid, to.oid, value) {
                self.use_once();
            }
            let value = ScalarValue::try_from_array(&cast, 0).map_err(SqlError::from)?;
            return Ok(Bound { expr: Expr::Literal(value, None), ty: to, data_type });
        }
        // Casts that DataFusion knows exactly are left to it: its optimizer sees through them.
        if exact_widening(&bound.data_type, &data_type) {
            let expr = datafusion::logical_expr::cast(bound.expr, data_type.clone());
            return Ok(Bound { expr, ty: to, data_type });
        }
        if bound.data_type == data_type && !changes_value(from, to) {
            return Ok(Bound { ty: to, data_type, ..bound });
        }
        let zoned =
            matches!(from.oid, oid::TIMESTAMPTZ) || matches!(to.oid, oid::TIMESTAMPTZ | oid::DATE | oid::TIMESTAMP);
        if zoned || is_text(from.oid) && category(to.oid) == 'D' {
            self.use_once();
        }
        let returns = Arc::new(typed_field(&crate::planning::types::type_name(to.oid), data_type.clone(), to));
        let identity =
            format!("cast({}:{}→{}:{},{explicit},{data_type})", from.oid, from.modifier, to.oid, to.modifier);
        let expr = Kernel::call(
            &crate::planning::types::type_name(to.oid),
            identity,
            returns,
            Volatility::Stable,
            run,
            vec![bound.expr],
        );
        Ok(Bound { expr, ty: to, data_type })
    }

    fn type_parameter(&self, id: &str, to: PgType, context: CastContext) -> Result<Bound> {
        let n: usize = id.trim_start_matches('$').parse().unwrap_or(1);
        let plain = PgType::of(to.oid);
        {
            let mut parameters = self.parameters.borrow_mut();
            if parameters.types.len() < n {
                parameters.types.resize(n, PgType::of(oid::UNKNOWN));
            }
            if parameters.types[n - 1].oid == oid::UNKNOWN {
                parameters.types[n - 1] = plain;
            }
        }
        let bound = self.parameter(n)?;
        self.coerce(bound, to, context)
    }

    /// Parameter `$n`, of unknown type while nothing says more.
    pub(super) fn parameter(&self, n: usize) -> Result<Bound> {
        if n == 0 || n > 65_535 {
            return Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, format!("there is no parameter ${n}")));
        }
        let mut parameters = self.parameters.borrow_mut();
        if parameters.types.len() < n {
            if parameters.values.is_some() {
                return Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, format!("there is no parameter ${n}")));
            }
            parameters.types.resize(n, PgType::of(oid::UNKNOWN));
        }
        let t = parameters.types[n - 1];
        if let Some(value) = parameters.values.as_ref().and_then(|v| v.get(n - 1)) {
            return Ok(Bound { data_type: value.data_type(), expr: Expr::Literal(value.clone(), None), ty: t });
        }
        let data_type = arrow_type(t).unwrap_or(DataType::Utf8);
        let field = Arc::new(typed_field("parameter", data_type.clone(), t));
        let placeholder = datafusion::logical_expr::expr::Placeholder::new_with_field(format!("${n}"), Some(field));
        Ok(Bound { expr: Expr::Placeholder(placeholder), ty: t, data_type })
    }

    /// The value of an expression without columns, if it can be known now.
    pub(super) fn fold_constant(&self, bound: &Bound) -> Result<Option<ScalarValue>> {
        if let Expr::Literal(value, _) = &bound.expr {
            return Ok(Some(value.clone()));
        }
        let mut open = !bound.expr.column_refs().is_empty();
        use datafusion::common::tree_node::TreeNode;
        let _ = bound.expr.exists(|e| {
            open |= matches!(
                e,
                Expr::Placeholder(_)
                    | Expr::ScalarSubquery(_)
                    | Expr::InSubquery(_)
                    | Expr::Exists(_)
                    | Expr::OuterReferenceColumn(..)
                    | Expr::Unnest(_)
                    | Expr::AggregateFunction(_)
                    | Expr::WindowFunction(_)
            );
            Ok(false)
        });
        if open || super::subquery::has_marker(&bound.expr) {
            return Ok(None);
        }
        let schema = datafusion::common::DFSchema::empty();
        let props = datafusion::execution::context::ExecutionProps::new();
        let physical =
            datafusion::physical_expr::create_physical_expr(&bound.expr, &schema, &props, &Default::default())?;
        let batch = arrow::array::RecordBatch::try_new_with_options(
            Arc::new(arrow::datatypes::Schema::empty()),
            vec![],
            &arrow::array::RecordBatchOptions::new().with_row_count(Some(1)),
        )?;
        let value = physical.evaluate(&batch)?.into_array(1)?;
        Ok(Some(ScalarValue::try_from_array(&value, 0)?))
    }

    /// One type for several expressions (UNION, CASE, COALESCE, ARRAY…), by PostgreSQL's rule.
    pub(super) fn common_type(&self, given: &[&Bound], construct: &str) -> Result<(PgType, DataType)> {
        let known: Vec<PgType> = given.iter().map(|b| b.ty).filter(|t| t.oid != oid::UNKNOWN).collect();
        let Some(first) = known.first() else { return Ok((PgType::of(oid::TEXT), DataType::Utf8)) };
        let mut chosen = first.oid;
        for t in &known[1..] {
            if t.oid == chosen {
                continue;
            }
            if category(t.oid) != category(chosen) {
                let order = format!("{} and {}", format_type(PgType::of(chosen)), format_type(PgType::of(t.oid)));
                return Err(SqlError::new(
                    SqlState::DATATYPE_MISMATCH,
                    format!("{construct} types {order} cannot be matched"),
                ));
            }
            let forward = cast_context(chosen, t.oid) == Some(CastContext::Implicit);
            let backward = cast_context(t.oid, chosen) == Some(CastContext::Implicit);
            if !is_preferred(chosen) && forward && (!backward || is_preferred(t.oid)) {
                chosen = t.oid;
            }
        }
        let same_modifier = known.iter().all(|t| *t == known[0]);
        let ty = if same_modifier { known[0] } else { PgType::of(chosen) };
        if chosen == oid::NUMERIC && !(same_modifier && ty.modifier != -1) {
            return Ok((ty, self.common_numeric(given)));
        }
        let nested = given.iter().find(|b| {
            b.ty.oid == chosen
                && matches!(&b.data_type, DataType::List(i) if matches!(i.data_type(), DataType::List(_)))
        });
        if let Some(nested) = nested {
            return Ok((ty, nested.data_type.clone()));
        }
        let data_type = arrow_type(ty).unwrap_or(DataType::Utf8);
        Ok((ty, data_type))
    }

    fn common_numeric(&self, given: &[&Bound]) -> DataType {
        let (mut whole, mut scale) = (1_u8, 0_u8);
        for b in given {
            let (p, s) = match &b.data_type {
                DataType::Int16 => (5, 0),
                DataType::Int32 => (10, 0),
                DataType::Int64 => (19, 0),
                DataType::Decimal128(p, s) | DataType::Decimal256(p, s) if *s >= 0 && b.data_type != NUMERIC_ANY => {
                    (*p, *s as u8)
                }
                _ => return NUMERIC_ANY,
            };
            whole = whole.max(p.saturating_sub(s));
            scale = scale.max(s);
        }
        match u32::from(whole) + u32::from(scale) {
            p if p <= 38 => DataType::Decimal128(p as u8, scale as i8),
            p if p < 76 => DataType::Decimal256(p as u8, scale as i8),
            _ => NUMERIC_ANY,
        }
    }

    /// A binary or prefix operator of the registry.
    pub(super) fn operator(&self, symbol: &str, left: Bound, right: Bound) -> Result<Bound> {
        let types = [left.ty.oid, right.ty.oid];
        match resolve(self.functions.named(symbol), &types, true) {
            Some(resolved) => {
                let (targets, returns) = (resolved.arguments.clone(), resolved.returns);
                self.apply(resolved.overload, vec![left, right], &targets, returns)
            }
            None => Err(no_operator(symbol, &left, &right)),
        }
    }

    /// One overload over its arguments, cast to what it takes.
    pub(super) fn apply(&self, overload: &Overload, given: Vec<Bound>, targets: &[u32], returns: u32) -> Result<Bound> {
        let mut bounds = Vec::with_capacity(given.len());
        for (bound, target) in given.into_iter().zip(targets) {
            // A literal where an object is wanted is its name.
            if is_oid_alias(*target) && bound.ty.oid == oid::UNKNOWN {
                bounds.push(self.explicit_cast(bound, PgType::of(*target))?);
                continue;
            }
            bounds.push(self.coerce(bound, PgType::of(*target), CastContext::Implicit)?);
        }
        let types: Vec<PgType> = bounds.iter().map(|b| b.ty).collect();
        let data_types: Vec<DataType> = bounds.iter().map(|b| b.data_type.clone()).collect();
        let returns = PgType::of(returns);
        let call = Call { env: &self.env, types: &types, data_types: &data_types, returns };
        let element = arrow_type(returns).unwrap_or(DataType::Utf8);
        let (data_type, run) = match &overload.make {
            Make::Kernel(run) => (element, run.clone()),
            Make::Context(make) => (element, make(&call)?),
            Make::Typed(make) => make(&call)?,
        };
        if overload.volatility != Volatility::Immutable {
            self.use_once();
        }
        let signature: Vec<String> = types.iter().map(|t| format!("{}:{}", t.oid, t.modifier)).collect();
        let identity = format!("{}({})", overload.name, signature.join(","));
        let mut row_type = data_type.clone();
        if overload.set {
            // The kernel gives all of a row's elements as one array.
            row_type = DataType::List(Arc::new(typed_field("item", data_type.clone(), returns)));
        }
        let field_type = if overload.set { PgType::of(array_of(returns.oid).unwrap_or(1009)) } else { returns };
        let field = Arc::new(typed_field(&overload.name, row_type, field_type));
        let arguments = bounds.into_iter().map(|b| b.expr).collect();
        let expr = Kernel::call(&overload.name, identity, field, overload.volatility, run, arguments);
        let expr = if overload.set { Expr::Unnest(datafusion::logical_expr::expr::Unnest::new(expr)) } else { expr };
        Ok(Bound { expr, ty: returns, data_type })
    }

    /// Both sides of a comparison in one type.
    pub(super) fn comparable(&self, symbol: &str, left: Bound, right: Bound) -> Result<(Bound, Bound)> {
        let (a, b) = (left.ty.oid, right.ty.oid);
        let to_left = |binder: &Self, l: Bound, r: Bound| -> Result<(Bound, Bound)> {
            let t = PgType::of(l.ty.oid);
            Ok((l, binder.coerce(r, t, CastContext::Implicit)?))
        };
        let common = match (a, b) {
            (oid::UNKNOWN, oid::UNKNOWN) => oid::TEXT,
            (oid::UNKNOWN, _) => {
                let (r, l) = to_left(self, right, left)?;
                return Ok((l, r));
            }
            (_, oid::UNKNOWN) => return to_left(self, left, right),
            _ if a == b => a,
            _ if is_text(a) && is_text(b) => oid::TEXT,
            _ if is_number(a) && is_number(b) => match (a, b) {
                (oid::FLOAT4 | oid::FLOAT8, _) | (_, oid::FLOAT4 | oid::FLOAT8) => oid::FLOAT8,
                (oid::NUMERIC, _) | (_, oid::NUMERIC) => oid::NUMERIC,
                (oid::INT8, _) | (_, oid::INT8) => oid::INT8,
                _ => oid::INT4,
            },
            _ if is_oid(a) && is_oid(b) => oid::OID,
            _ if is_oid(a) && is_integer(b) || is_integer(a) && is_oid(b) => {
                if a == oid::INT8 || b == oid::INT8 {
                    oid::INT8
                } else {
                    oid::OID
                }
            }
            (oid::DATE | oid::TIMESTAMP | oid::TIMESTAMPTZ, oid::DATE | oid::TIMESTAMP | oid::TIMESTAMPTZ) => {
                if a == oid::TIMESTAMPTZ || b == oid::TIMESTAMPTZ { oid::TIMESTAMPTZ } else { oid::TIMESTAMP }
            }
            (oid::TIME, oid::INTERVAL) | (oid::INTERVAL, oid::TIME) => oid::INTERVAL,
            _ if element_of(a).is_some() && element_of(b).is_some() => match cast_context(a, b) {
                Some(CastContext::Implicit) => b,
                _ if cast_context(b, a) == Some(CastContext::Implicit) => a,
                _ => return Err(no_operator(symbol, &left, &right)),
            },
            _ => return Err(no_operator(symbol, &left, &right)),
        };
        let t = PgType::of(common);
        Ok((self.coerce(left, t, CastContext::Explicit)?, self.coerce(right, t, CastContext::Explicit)?))
    }

    pub(super) fn compare(&self, op: Operator, left: Bound, right: Bound) -> Result<Bound> {
        let symbol = match op {
            Operator::NotEq => "<>".to_owned(),
            Operator::IsDistinctFrom | Operator::IsNotDistinctFrom => "=".to_owned(),
            other => other.to_string(),
        };
        let (left, right) = self.comparable(&symbol, left, right)?;
        let t = left.ty.oid;
        if matches!(t, oid::JSON | oid::XID) && t == oid::JSON {
            return Err(no_operator(&symbol, &left, &right));
        }
        if element_of(t).is_some() {
            let returns = Arc::new(typed_field("compare", DataType::Boolean, PgType::of(oid::BOOL)));
            let run = list_comparison(op);
            let identity = format!("compare({op},{t})");
            let arguments = vec![left.expr, right.expr];
            return Ok(boolean(Kernel::call("compare", identity, returns, Volatility::Immutable, run, arguments)));
        }
        let (left, right) = match (&left.data_type, &right.data_type) {
            (a, b) if a == b => (left, right),
            _ => {
                let data_type = self.common_numeric(&[&left, &right]);
                let t = PgType::of(oid::NUMERIC);
                (
                    self.cast_to(left, t, &data_type, CastContext::Implicit)?,
                    self.cast_to(right, t, &data_type, CastContext::Implicit)?,
                )
            }
        };
        let (left, right) = (comparison_key(left), comparison_key(right));
        Ok(boolean(Expr::BinaryExpr(BinaryExpr::new(Box::new(left.expr), op, Box::new(right.expr)))))
    }
}

fn is_oid(t: u32) -> bool {
    t == oid::OID || is_oid_alias(t) || matches!(t, oid::XID | oid::CID)
}

pub(super) fn no_operator(symbol: &str, left: &Bound, right: &Bound) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_FUNCTION,
        format!("operator does not exist: {} {symbol} {}", format_type_plain(left.ty), format_type_plain(right.ty)),
    )
    .hint("No operator matches the given name and argument types. You might need to add explicit type casts.")
}

pub(super) fn format_type_plain(t: PgType) -> String {
    match t.oid {
        oid::BPCHAR => "character".to_owned(),
        _ => format_type(PgType::of(t.oid)),
    }
}

/// What a value is compared, sorted and grouped by: itself, but an interval's length.
pub(super) fn comparison_key(bound: Bound) -> Bound {
    if bound.ty.oid != oid::INTERVAL {
        return bound;
    }
    let run: KernelFn = Arc::new(|arguments, rows| {
        let a = k::Iv::down(&arguments[0])?;
        let keys: Vec<Option<i128>> =
            (0..rows).map(|i| (!a.is_null(i)).then(|| crate::planning::datetime::comparison_key(a.value(i)))).collect();
        Ok(Arc::new(arrow::array::Decimal128Array::from(keys).with_precision_and_scale(38, 0)?))
    });
    let data_type = DataType::Decimal128(38, 0);
    let returns = Arc::new(arrow::datatypes::Field::new("interval_key", data_type.clone(), true));
    let expr =
        Kernel::call("interval_key", "interval_key".to_owned(), returns, Volatility::Immutable, run, vec![bound.expr]);
    Bound { expr, ty: PgType::of(oid::NUMERIC), data_type }
}

/// Compares element `i` of one array with element `j` of another, nulls last.
pub(in crate::planning) fn comparator(
    left: &ArrayRef,
    right: &ArrayRef,
) -> Result<Box<dyn Fn(usize, usize) -> Ordering + Send + Sync>> {
    if let (Ok(a), Ok(b)) = (k::Iv::down(left), k::Iv::down(right)) {
        let (a, b) = (a.clone(), b.clone());
        return Ok(Box::new(move |i, j| match (a.is_null(i), b.is_null(j)) {
            (false, false) => crate::planning::datetime::comparison_key(a.value(i))
                .cmp(&crate::planning::datetime::comparison_key(b.value(j))),
            (x, y) => x.cmp(&y),
        }));
    }
    if let (Ok(a), Ok(b)) = (k::List::down(left), k::List::down(right)) {
        let inner = comparator(a.values(), b.values())?;
        let (a, b) = (a.clone(), b.clone());
        return Ok(Box::new(move |i, j| {
            if a.is_null(i) || b.is_null(j) {
                return a.is_null(i).cmp(&b.is_null(j));
            }
            let (x, y) = (a.value_offsets(), b.value_offsets());
            let (xs, xe, ys, ye) = (x[i] as usize, x[i + 1] as usize, y[j] as usize, y[j + 1] as usize);
            let mut at = 0;
            while xs + at < xe && ys + at < ye {
                let order = inner(xs + at, ys + at);
                if order != Ordering::Equal {
                    return order;
                }
                at += 1;
            }
            (xe - xs).cmp(&(ye - ys))
        }));
    }
    if left.data_type() == &DataType::Null || right.data_type() == &DataType::Null {
        return Ok(Box::new(|_, _| Ordering::Equal));
    }
    let options = arrow::compute::SortOptions { descending: false, nulls_first: false };
    Ok(arrow::array::make_comparator(left.as_ref(), right.as_ref(), options)?)
}

pub(in crate::planning) fn decide(op: Operator, order: Ordering) -> bool {
    match op {
        Operator::Eq | Operator::IsNotDistinctFrom => order.is_eq(),
        Operator::NotEq | Operator::IsDistinctFrom => order.is_ne(),
        Operator::Lt => order.is_lt(),
        Operator::LtEq => order.is_le(),
        Operator::Gt => order.is_gt(),
        _ => order.is_ge(),
    }
}

fn list_comparison(op: Operator) -> KernelFn {
    let nulls_compare = matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom);
    Arc::new(move |arguments, rows| {
        let (a, b) = (&arguments[0], &arguments[1]);
        let compare = comparator(a, b)?;
        let out: BooleanArray = (0..rows)
            .map(|i| (nulls_compare || !a.is_null(i) && !b.is_null(i)).then(|| decide(op, compare(i, i))))
            .collect();
        Ok(Arc::new(out))
    })
}

/// The type of a two-dimensional array with another element type.
fn nested_like(shape: &DataType, to: PgType) -> DataType {
    match shape {
        DataType::List(item) if matches!(item.data_type(), DataType::List(_)) => {
            let inner = nested_like(item.data_type(), to);
            let element = PgType { oid: element_of(to.oid).unwrap_or(oid::TEXT), modifier: to.modifier };
            DataType::List(Arc::new(typed_field("item", inner, element)))
        }
        _ => arrow_type(to).unwrap_or(DataType::Utf8),
    }
}

/// Same values, other field metadata inside.
fn relabel(array: ArrayRef, target: &DataType) -> Result<ArrayRef> {
    if let (DataType::List(item), Ok(list)) = (target, k::List::down(&array)) {
        let values = relabel(list.values().clone(), item.data_type())?;
        return Ok(Arc::new(arrow::array::ListArray::try_new(
            item.clone(),
            list.offsets().clone(),
            values,
            list.nulls().cloned(),
        )?));
    }
    if array.data_type() == &DataType::Null {
        return Ok(new_null_array(target, array.len()));
    }
    Ok(array)
}

fn exact_widening(from: &DataType, to: &DataType) -> bool {
    use DataType as D;
    matches!(
        (from, to),
        (D::Int16, D::Int32 | D::Int64 | D::Float64) | (D::Int32, D::Int64 | D::Float64) | (D::Float32, D::Float64)
    ) || matches!((from, to), (D::Int16 | D::Int32 | D::Int64, D::Decimal128(p, 0)) if *p >= 19)
}

/// Casts between types of one Arrow form that still change values.
fn changes_value(from: PgType, to: PgType) -> bool {
    match to.oid {
        oid::VARCHAR | oid::BPCHAR => to.modifier != from.modifier || from.oid != to.oid,
        oid::NAME | oid::CHAR => from.oid != to.oid,
        oid::TEXT => false,
        oid::TIMESTAMP | oid::TIMESTAMPTZ | oid::TIME => to.modifier != from.modifier,
        oid::JSON | oid::JSONB => from.oid != to.oid && !(from.oid == oid::JSONB && to.oid == oid::JSON),
        oid::NUMERIC => false,
        _ => is_text(from.oid) != is_text(to.oid),
    }
}

fn depends_on_zone(from: u32, to: u32, value: &ScalarValue) -> bool {
    if is_text(from) && matches!(to, oid::TIMESTAMPTZ) {
        // A text with its own offset means the same everywhere, but one cannot tell cheaply.
        return true;
    }
    let names_now = matches!(value, ScalarValue::Utf8(Some(t))
        if ["now", "today", "tomorrow", "yesterday"].iter().any(|w| t.to_ascii_lowercase().contains(w)));
    is_text(from) && category(to) == 'D' && names_now
        || matches!((from, to), (oid::TIMESTAMP | oid::DATE, oid::TIMESTAMPTZ) | (oid::TIMESTAMPTZ, _))
}
