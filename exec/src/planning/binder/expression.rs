//! Expressions: literals, names, operators and special forms, each with its type.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Case, Expr, Operator, Volatility, lit};
use sqlparser::ast;

use super::coerce::{comparison_key, no_operator};
use super::query::syntax;
use super::scope::OutColumn;
use super::select::{Block, missing_from};
use super::{Binder, Bound, boolean, fold, literal};
use crate::planning::cast::{CastContext, is_text};
use crate::planning::decimal::Decimal;
use crate::planning::functions::resolve;
use crate::planning::kernel::{self as k, Cell, Kernel, KernelFn};
use crate::planning::types::{PgType, array_of, element_of, from_sql, is_oid_alias, oid, typed_field};
use crate::sql::error::{Result, SqlError, SqlState};

/// An exact numeric literal: as many digits as it has.
pub(super) fn numeric_literal(text: &str) -> Option<Bound> {
    let value = Decimal::parse(text)?.ok()?;
    let t = PgType::of(oid::NUMERIC);
    let digits = value.digits.wrapping_abs().to_string().len().max(usize::from(value.scale) + 1);
    if digits <= 38 && value.scale <= 20 {
        let small = value.digits.to_i128()?;
        return Some(literal(ScalarValue::Decimal128(Some(small), digits as u8, value.scale as i8), t));
    }
    if digits < 76 && value.scale <= 40 {
        return Some(literal(ScalarValue::Decimal256(Some(value.digits), digits as u8, value.scale as i8), t));
    }
    let any = value.with_scale(20).ok()?;
    Some(literal(ScalarValue::Decimal256(Some(any.digits), 76, 20), t))
}

fn text_literal(text: String) -> Bound {
    literal(ScalarValue::Utf8(Some(text)), PgType::of(oid::UNKNOWN))
}

impl Binder<'_> {
    pub(super) fn expression(&self, expr: &ast::Expr, block: &Block) -> Result<Bound> {
        Ok(self.expression_with_origin(expr, block)?.0)
    }

    /// With the column it is, where it is nothing but a column.
    pub(super) fn expression_with_origin(&self, expr: &ast::Expr, block: &Block) -> Result<(Bound, Option<OutColumn>)> {
        match expr {
            ast::Expr::Identifier(ident) => self.column(&[fold(ident)], block),
            ast::Expr::CompoundIdentifier(parts) => {
                let parts: Vec<String> = parts.iter().map(fold).collect();
                self.column(&parts, block)
            }
            ast::Expr::Nested(inner) => self.expression_with_origin(inner, block),
            other => Ok((self.deeper(|| self.special(other, block))?, None)),
        }
    }

    fn column(&self, parts: &[String], block: &Block) -> Result<(Bound, Option<OutColumn>)> {
        let (relation, name) = match parts {
            [name] => (None, name),
            [relation, name] => (Some((relation.as_str(), None)), name),
            [schema, relation, name] => (Some((relation.as_str(), Some(schema.as_str()))), name),
            [database, schema, relation, name] => {
                self.check_database(database)?;
                (Some((relation.as_str(), Some(schema.as_str()))), name)
            }
            _ => return Err(syntax(format!("improper qualified name (too many dotted names): {}", parts.join(".")))),
        };
        if let Some(found) = self.find_column(&block.scope, block.boundary(), relation, name)? {
            return Ok(found);
        }
        match relation {
            None => {
                if let Some(value) = self.keyword(name)? {
                    return Ok((value, None));
                }
                let message = format!("column \"{name}\" does not exist");
                Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message))
            }
            Some((relation, schema)) => {
                let mut at = Some(&block.scope);
                let mut around = block.boundary();
                while let Some(scope) = at {
                    if scope.relation(relation, schema).is_some() {
                        let message = format!("column {relation}.{name} does not exist");
                        return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
                    }
                    at = None;
                    if let Some(boundary) = around {
                        if boundary.outside.relation(relation, schema).is_some() {
                            let message = format!("column {relation}.{name} does not exist");
                            return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
                        }
                        around = boundary.beyond.as_ref();
                    }
                }
                Err(missing_from(relation))
            }
        }
    }

    pub(super) fn check_database(&self, database: &str) -> Result<()> {
        if database == &*self.env.session.database {
            return Ok(());
        }
        Err(SqlError::unsupported(format_args!("cross-database references: {database}")))
    }

    /// SQL's functions without parentheses.
    fn keyword(&self, name: &str) -> Result<Option<Bound>> {
        let function = match name {
            "current_date" | "current_time" | "current_timestamp" | "localtime" | "localtimestamp" | "current_user"
            | "session_user" | "user" | "current_role" | "current_catalog" | "current_schema" => name,
            _ => return Ok(None),
        };
        self.call_named(function, Vec::new()).map(Some)
    }

    fn special(&self, expr: &ast::Expr, block: &Block) -> Result<Bound> {
        use ast::Expr as E;
        match expr {
            E::Value(value) => self.value(&value.value),
            E::BinaryOp { left, op, right } => self.binary(left, op, right, block),
            E::UnaryOp { op, expr } => self.unary(op, expr, block),
            E::Cast { expr, data_type, kind, .. } => {
                if matches!(kind, ast::CastKind::TryCast | ast::CastKind::SafeCast) {
                    return Err(syntax("syntax error at or near \"TRY_CAST\""));
                }
                let to = from_sql(data_type)?;
                if let E::Array(array) = expr.as_ref() {
                    return self.array(array, block, Some(to));
                }
                let bound = self.expression(expr, block)?;
                self.explicit_cast(bound, to)
            }
            E::TypedString(typed) => {
                let to = from_sql(&typed.data_type)?;
                let text = typed.value.value.clone().into_string().unwrap_or_default();
                self.explicit_cast(text_literal(text), to)
            }
            E::Interval(interval) => self.interval(interval, block),
            E::IsNull(e) => {
                let b = self.expression(e, block)?;
                Ok(boolean(Expr::IsNull(Box::new(self.settled(b)?.expr))))
            }
            E::IsNotNull(e) => {
                let b = self.expression(e, block)?;
                Ok(boolean(Expr::IsNotNull(Box::new(self.settled(b)?.expr))))
            }
            E::IsTrue(e) => Ok(boolean(Expr::IsTrue(Box::new(self.condition(e, block, "IS TRUE")?)))),
            E::IsNotTrue(e) => Ok(boolean(Expr::IsNotTrue(Box::new(self.condition(e, block, "IS NOT TRUE")?)))),
            E::IsFalse(e) => Ok(boolean(Expr::IsFalse(Box::new(self.condition(e, block, "IS FALSE")?)))),
            E::IsNotFalse(e) => Ok(boolean(Expr::IsNotFalse(Box::new(self.condition(e, block, "IS NOT FALSE")?)))),
            E::IsUnknown(e) => Ok(boolean(Expr::IsUnknown(Box::new(self.condition(e, block, "IS UNKNOWN")?)))),
            E::IsNotUnknown(e) => {
                Ok(boolean(Expr::IsNotUnknown(Box::new(self.condition(e, block, "IS NOT UNKNOWN")?))))
            }
            E::IsDistinctFrom(a, b) => self.comparison(Operator::IsDistinctFrom, a, b, block),
            E::IsNotDistinctFrom(a, b) => self.comparison(Operator::IsNotDistinctFrom, a, b, block),
            E::Between { expr, negated, low, high } => {
                let low = self.comparison(Operator::GtEq, expr, low, block)?;
                let high = self.comparison(Operator::LtEq, expr, high, block)?;
                let both = low.expr.and(high.expr);
                Ok(boolean(if *negated { Expr::Not(Box::new(both)) } else { both }))
            }
            E::InList { expr, list, negated } => self.in_list(expr, list, *negated, block),
            E::InSubquery { expr, subquery, negated } => self.in_subquery(expr, subquery, *negated, block),
            E::Exists { subquery, negated } => self.exists(subquery, *negated, block),
            E::Subquery(query) => self.scalar_subquery(query, block),
            E::AnyOp { left, compare_op, right, .. } => self.quantified(left, compare_op, right, false, block),
            E::AllOp { left, compare_op, right } => self.quantified(left, compare_op, right, true, block),
            E::Like { negated, expr, pattern, escape_char, any } => {
                self.like(if *any { "any" } else { "like" }, *negated, expr, pattern, escape_char.as_ref(), block)
            }
            E::ILike { negated, expr, pattern, escape_char, any } => {
                self.like(if *any { "any" } else { "ilike" }, *negated, expr, pattern, escape_char.as_ref(), block)
            }
            E::SimilarTo { negated, expr, pattern, escape_char } => {
                self.like("similar", *negated, expr, pattern, escape_char.as_ref(), block)
            }
            E::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref(), block)
            }
            E::Function(function) => self.function(function, block),
            E::Array(array) => self.array(array, block, None),
            E::CompoundFieldAccess { root, access_chain } => self.field_access(root, access_chain, block),
            E::Collate { expr, .. } => self.expression(expr, block),
            E::AtTimeZone { timestamp, time_zone } => {
                let (zone, value) = (self.expression(time_zone, block)?, self.expression(timestamp, block)?);
                self.call_named("timezone", vec![zone, value])
            }
            E::Extract { field, expr, .. } => {
                let value = self.expression(expr, block)?;
                let field = field.to_string().trim_matches('\'').to_lowercase();
                self.call_named("extract", vec![text_literal(field), value])
            }
            E::Ceil { expr, .. } => {
                let value = self.expression(expr, block)?;
                self.call_named("ceil", vec![value])
            }
            E::Floor { expr, .. } => {
                let value = self.expression(expr, block)?;
                self.call_named("floor", vec![value])
            }
            E::Position { expr, r#in } => {
                let (part, whole) = (self.expression(expr, block)?, self.expression(r#in, block)?);
                self.call_named("strpos", vec![whole, part])
            }
            E::Substring { expr, substring_from, substring_for, .. } => {
                let mut arguments = vec![self.expression(expr, block)?];
                match substring_from {
                    Some(from) => arguments.push(self.expression(from, block)?),
                    None => arguments.push(literal(ScalarValue::Int32(Some(1)), PgType::of(oid::INT4))),
                }
                if let Some(length) = substring_for {
                    arguments.push(self.expression(length, block)?);
                }
                self.call_named("substring", arguments)
            }
            E::Trim { expr, trim_where, trim_what, trim_characters } => {
                let mut arguments = vec![self.expression(expr, block)?];
                if let Some(what) = trim_what {
                    arguments.push(self.expression(what, block)?);
                } else if let Some(list) = trim_characters {
                    for e in list {
                        arguments.push(self.expression(e, block)?);
                    }
                }
                let name = match trim_where {
                    Some(ast::TrimWhereField::Leading) => "ltrim",
                    Some(ast::TrimWhereField::Trailing) => "rtrim",
                    _ => "btrim",
                };
                self.call_named(name, arguments)
            }
            E::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
                let mut arguments = vec![
                    self.expression(expr, block)?,
                    self.expression(overlay_what, block)?,
                    self.expression(overlay_from, block)?,
                ];
                if let Some(length) = overlay_for {
                    arguments.push(self.expression(length, block)?);
                }
                self.call_named("overlay", arguments)
            }
            E::Tuple(_) => Err(SqlError::unsupported("a row as a value").hint("Select its fields as columns.")),
            E::Nested(inner) => self.expression(inner, block),
            other => Err(SqlError::unsupported(format_args!("the expression {other}"))),
        }
    }

    fn value(&self, value: &ast::Value) -> Result<Bound> {
        use ast::Value as V;
        match value {
            V::Null => Ok(literal(ScalarValue::Utf8(None), PgType::of(oid::UNKNOWN))),
            V::Boolean(b) => Ok(literal(ScalarValue::Boolean(Some(*b)), PgType::of(oid::BOOL))),
            V::Number(text, _) => {
                if let Ok(n) = text.parse::<i32>() {
                    return Ok(literal(ScalarValue::Int32(Some(n)), PgType::of(oid::INT4)));
                }
                if let Ok(n) = text.parse::<i64>() {
                    return Ok(literal(ScalarValue::Int64(Some(n)), PgType::of(oid::INT8)));
                }
                match Decimal::parse(text) {
                    // More digits than numeric has here: a float carries the magnitude.
                    Some(Err(error)) => match text.parse::<f64>() {
                        Ok(float) if float.is_finite() => {
                            Ok(literal(ScalarValue::Float64(Some(float)), PgType::of(oid::FLOAT8)))
                        }
                        _ => Err(error),
                    },
                    _ => numeric_literal(text).ok_or_else(|| syntax(format!("syntax error at or near \"{text}\""))),
                }
            }
            V::SingleQuotedString(text)
            | V::EscapedStringLiteral(text)
            | V::UnicodeStringLiteral(text)
            | V::NationalStringLiteral(text) => Ok(text_literal(text.clone())),
            V::DollarQuotedString(text) => Ok(text_literal(text.value.clone())),
            V::Placeholder(name) => match name.strip_prefix('$').and_then(|n| n.parse().ok()) {
                Some(n) => self.parameter(n),
                None => Err(syntax(format!("syntax error at or near \"{name}\""))),
            },
            other => Err(SqlError::unsupported(format_args!("the literal {other}"))),
        }
    }

    /// `::type`: names of objects to their OIDs and back go through functions of the catalog.
    pub(super) fn explicit_cast(&self, bound: Bound, to: PgType) -> Result<Bound> {
        let from = bound.ty.oid;
        if is_oid_alias(to.oid) && is_text(from) && !matches!(bound.expr, Expr::Placeholder(_)) {
            return self.to_object_id(bound, to);
        }
        if is_oid_alias(from) && is_text(to.oid) {
            let name = format!("{}out", crate::planning::types::type_name(from));
            if !self.functions.named(&name).is_empty() {
                let t = PgType::of(oid::OID);
                let id = self.coerce(bound, t, CastContext::Explicit)?;
                let text = self.call_named(&name, vec![id])?;
                return self.coerce(text, to, CastContext::Explicit);
            }
        }
        self.coerce(bound, to, CastContext::Explicit)
    }

    fn to_object_id(&self, bound: Bound, to: PgType) -> Result<Bound> {
        if let Expr::Literal(ScalarValue::Utf8(Some(text)), _) = &bound.expr
            && let Ok(number) = text.trim().parse::<u32>()
        {
            return Ok(literal(ScalarValue::UInt32(Some(number)), to));
        }
        let name = format!("{}in", crate::planning::types::type_name(to.oid));
        if self.functions.named(&name).is_empty() {
            return self.coerce(bound, to, CastContext::Explicit);
        }
        let text = self.coerce(bound, PgType::of(oid::TEXT), CastContext::Explicit)?;
        let found = self.call_named(&name, vec![text])?;
        Ok(Bound { ty: to, ..found })
    }

    fn interval(&self, interval: &ast::Interval, block: &Block) -> Result<Bound> {
        let value = self.expression(&interval.value, block)?;
        let unit = match (&interval.leading_field, &interval.last_field) {
            (None, _) => None,
            (Some(first), None) => Some(first.to_string().to_lowercase()),
            (Some(first), Some(last)) => {
                Some(format!("{} to {}", first.to_string().to_lowercase(), last.to_string().to_lowercase()))
            }
        };
        match (&value.expr, unit) {
            (Expr::Literal(ScalarValue::Utf8(Some(text)), _), unit) => {
                let parsed = crate::planning::datetime::parse_interval(text, unit.as_deref())?;
                Ok(literal(ScalarValue::IntervalMonthDayNano(Some(parsed)), PgType::of(oid::INTERVAL)))
            }
            (_, None) => self.explicit_cast(value, PgType::of(oid::INTERVAL)),
            _ => Err(syntax("an interval with fields must be a literal")),
        }
    }

    fn unary(&self, op: &ast::UnaryOperator, expr: &ast::Expr, block: &Block) -> Result<Bound> {
        use ast::UnaryOperator as U;
        let symbol = match op {
            U::Not => {
                let inner = self.condition(expr, block, "NOT")?;
                return Ok(boolean(Expr::Not(Box::new(inner))));
            }
            U::Plus => return self.expression(expr, block),
            U::Minus => {
                // The least integers have no positive counterpart.
                if let ast::Expr::Value(v) = expr
                    && let ast::Value::Number(text, long) = &v.value
                {
                    return self.value(&ast::Value::Number(format!("-{text}"), *long));
                }
                "-"
            }
            U::BitwiseNot => "~",
            U::PGAbs => "@",
            U::PGSquareRoot => "|/",
            U::PGCubeRoot => "||/",
            other => return Err(SqlError::unsupported(format_args!("the operator {other}"))),
        };
        let bound = self.expression(expr, block)?;
        match resolve(self.functions.named(symbol), &[bound.ty.oid], true) {
            Some(resolved) => {
                let (targets, returns) = (resolved.arguments.clone(), resolved.returns);
                self.apply(resolved.overload, vec![bound], &targets, returns)
            }
            None => Err(SqlError::new(
                SqlState::UNDEFINED_FUNCTION,
                format!("operator does not exist: {symbol} {}", super::coerce::format_type_plain(bound.ty)),
            )
            .hint(
                "No operator matches the given name and argument type. You might need to add an explicit type cast.",
            )),
        }
    }

    fn binary(&self, left: &ast::Expr, op: &ast::BinaryOperator, right: &ast::Expr, block: &Block) -> Result<Bound> {
        use ast::BinaryOperator as B;
        match op {
            B::And | B::Or => {
                let word = if matches!(op, B::And) { "AND" } else { "OR" };
                // Long chains lean to the left: walk them without recursion.
                let mut chain = vec![right];
                let mut at = left;
                while let ast::Expr::BinaryOp { left, op: same, right } = at
                    && same == op
                {
                    chain.push(right);
                    at = left;
                }
                let mut result = self.condition(at, block, word)?;
                for e in chain.into_iter().rev() {
                    let next = self.condition(e, block, word)?;
                    result = if matches!(op, B::And) { result.and(next) } else { result.or(next) };
                }
                return Ok(boolean(result));
            }
            _ => {}
        }
        if let Some(op) = comparison_operator(op) {
            return self.comparison(op, left, right, block);
        }
        let symbol = operator_symbol(op)?;
        if let Some(comparison) = comparison_of_symbol(&symbol) {
            return self.comparison(comparison, left, right, block);
        }
        let (left, right) = (self.expression(left, block)?, self.expression(right, block)?);
        self.operator(&symbol, left, right)
    }

    pub(super) fn comparison(&self, op: Operator, left: &ast::Expr, right: &ast::Expr, block: &Block) -> Result<Bound> {
        if let (ast::Expr::Tuple(a), ast::Expr::Tuple(b)) = (left, right) {
            return self.row_comparison(op, a, b, block);
        }
        let (left, right) = (self.expression(left, block)?, self.expression(right, block)?);
        self.compare_objects(op, left, right)
    }

    /// A comparison where a text beside an object's OID is its name.
    fn compare_objects(&self, op: Operator, left: Bound, right: Bound) -> Result<Bound> {
        let named = |binder: &Self, id: &Bound, text: Bound| -> Result<Bound> {
            if is_oid_alias(id.ty.oid) && text.ty.oid == oid::UNKNOWN {
                binder.explicit_cast(text, id.ty)
            } else {
                Ok(text)
            }
        };
        let right = named(self, &left, right)?;
        let left = named(self, &right, left)?;
        self.compare(op, left, right)
    }

    fn row_comparison(&self, op: Operator, left: &[ast::Expr], right: &[ast::Expr], block: &Block) -> Result<Bound> {
        if left.len() != right.len() {
            return Err(syntax("unequal number of entries in row expressions"));
        }
        let (last, strict) = match op {
            Operator::Eq | Operator::NotEq | Operator::IsDistinctFrom | Operator::IsNotDistinctFrom => {
                let mut all: Option<Expr> = None;
                let any = matches!(op, Operator::NotEq | Operator::IsDistinctFrom);
                for (l, r) in left.iter().zip(right) {
                    let one = self.comparison(op, l, r, block)?.expr;
                    all = Some(match all {
                        None => one,
                        Some(before) if any => before.or(one),
                        Some(before) => before.and(one),
                    });
                }
                return Ok(boolean(all.unwrap_or_else(|| lit(!any))));
            }
            Operator::Lt | Operator::LtEq => (op, Operator::Lt),
            _ => (op, Operator::Gt),
        };
        let mut result: Option<Expr> = None;
        for (l, r) in left.iter().zip(right).rev() {
            result = Some(match result {
                None => self.comparison(last, l, r, block)?.expr,
                Some(rest) => {
                    let less = self.comparison(strict, l, r, block)?.expr;
                    let same = self.comparison(Operator::Eq, l, r, block)?.expr;
                    less.or(same.and(rest))
                }
            });
        }
        Ok(boolean(result.unwrap_or_else(|| lit(true))))
    }

    fn in_list(&self, expr: &ast::Expr, list: &[ast::Expr], negated: bool, block: &Block) -> Result<Bound> {
        if matches!(expr, ast::Expr::Tuple(_)) {
            let mut any: Option<Expr> = None;
            for item in list {
                let one = self.comparison(Operator::Eq, expr, item, block)?.expr;
                any = Some(any.map_or(one.clone(), |before| before.or(one)));
            }
            let any = any.unwrap_or_else(|| lit(false));
            return Ok(boolean(if negated { Expr::Not(Box::new(any)) } else { any }));
        }
        let value = self.expression(expr, block)?;
        let items = list.iter().map(|e| self.expression(e, block)).collect::<Result<Vec<_>>>()?;
        // One type for the value and all items where there is one, else one comparison each.
        let mut all = vec![&value];
        all.extend(items.iter());
        let plain = !is_oid_alias(value.ty.oid) && element_of(value.ty.oid).is_none();
        if plain
            && let Ok((ty, data_type)) = self.common_type(&all, "IN")
            && ty.oid != oid::JSON
        {
            let key = |b: Bound| -> Result<Expr> {
                Ok(comparison_key(self.cast_to(b, PgType::of(ty.oid), &data_type, CastContext::Implicit)?).expr)
            };
            let list = items.iter().cloned().map(key).collect::<Result<Vec<_>>>();
            if let (Ok(value), Ok(list)) = (key(value.clone()), list) {
                return Ok(boolean(Expr::InList(InList::new(Box::new(value), list, negated))));
            }
        }
        let mut any: Option<Expr> = None;
        for item in items {
            let one = self.compare_objects(Operator::Eq, value.clone(), item)?.expr;
            any = Some(any.map_or(one.clone(), |before| before.or(one)));
        }
        let any = any.unwrap_or_else(|| lit(false));
        Ok(boolean(if negated { Expr::Not(Box::new(any)) } else { any }))
    }

    fn like(
        &self,
        kind: &str,
        negated: bool,
        expr: &ast::Expr,
        pattern: &ast::Expr,
        escape: Option<&ast::ValueWithSpan>,
        block: &Block,
    ) -> Result<Bound> {
        let symbol = match kind {
            "like" => "~~",
            "ilike" => "~~*",
            "similar" => "similar_to",
            _ => return Err(syntax("syntax error at or near \"ANY\"")),
        };
        let (value, pattern) = (self.expression(expr, block)?, self.expression(pattern, block)?);
        let matched = match escape {
            None => self.operator(symbol, value, pattern)?,
            Some(escape) => {
                let escape = self.value(&escape.value)?;
                self.call_named(&format!("{}_escape", kind), vec![value, pattern, escape])?
            }
        };
        Ok(boolean(if negated { Expr::Not(Box::new(matched.expr)) } else { matched.expr }))
    }

    fn case(
        &self,
        operand: Option<&ast::Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
        block: &Block,
    ) -> Result<Bound> {
        let mut whens = Vec::with_capacity(conditions.len());
        let mut results = Vec::with_capacity(conditions.len() + 1);
        for when in conditions {
            let condition = match operand {
                Some(operand) => self.comparison(Operator::Eq, operand, &when.condition, block)?.expr,
                None => self.condition(&when.condition, block, "CASE/WHEN")?,
            };
            whens.push(condition);
            results.push(self.expression(&when.result, block)?);
        }
        if let Some(otherwise) = otherwise {
            results.push(self.expression(otherwise, block)?);
        }
        let all: Vec<&Bound> = results.iter().collect();
        let (ty, data_type) = self.common_type(&all, "CASE")?;
        let mut results = results
            .into_iter()
            .map(|b| Ok(Box::new(self.cast_to(b, ty, &data_type, CastContext::Implicit)?.expr)))
            .collect::<Result<Vec<_>>>()?;
        let otherwise = if otherwise.is_some() { results.pop() } else { None };
        let pairs = whens.into_iter().map(Box::new).zip(results).collect();
        let expr = Expr::Case(Case::new(None, pairs, otherwise));
        Ok(Bound { expr, ty, data_type })
    }

    pub(super) fn array(&self, array: &ast::Array, block: &Block, wanted: Option<PgType>) -> Result<Bound> {
        let element_wanted = wanted.and_then(|t| element_of(t.oid).map(|e| PgType { oid: e, modifier: t.modifier }));
        let mut items = Vec::with_capacity(array.elem.len());
        for e in &array.elem {
            items.push(match e {
                ast::Expr::Array(inner) => self.array(inner, block, wanted)?,
                e => self.expression(e, block)?,
            });
        }
        if items.is_empty() && wanted.is_none() {
            return Err(SqlError::new(SqlState::INDETERMINATE_DATATYPE, "cannot determine type of empty array")
                .hint("Explicitly cast to the desired type, for example ARRAY[]::integer[]."));
        }
        if let (Some(wanted), None) = (wanted, element_wanted) {
            let plain = self.array(array, block, None)?;
            return self.explicit_cast(plain, wanted);
        }
        let all: Vec<&Bound> = items.iter().collect();
        let nested = items.iter().any(|b| element_of(b.ty.oid).is_some());
        let (ty, data_type) = match (element_wanted, nested) {
            (Some(t), false) => (t, crate::planning::types::arrow_type(t).unwrap_or(DataType::Utf8)),
            _ => self.common_type(&all, "ARRAY")?,
        };
        let array_type = array_of(ty.oid).ok_or_else(|| {
            let name = crate::planning::types::format_type(ty);
            SqlError::new(SqlState::UNDEFINED_OBJECT, format!("could not find array type for data type {name}"))
        })?;
        let context = if element_wanted.is_some() { CastContext::Explicit } else { CastContext::Implicit };
        let mut arguments = Vec::with_capacity(items.len());
        for item in items {
            let cast = match (is_oid_alias(ty.oid), nested) {
                (true, false) => self.explicit_cast(item, ty)?,
                _ => self.cast_to(item, ty, &data_type, context)?,
            };
            arguments.push(cast.expr);
        }
        let modifier = if nested { ty.modifier } else { element_wanted.map_or(-1, |t| t.modifier) };
        let result = PgType { oid: array_type, modifier };
        let item = Arc::new(typed_field("item", data_type, ty));
        Ok(self.make_array(arguments, item, result))
    }

    fn make_array(&self, arguments: Vec<Expr>, item: arrow::datatypes::FieldRef, result: PgType) -> Bound {
        let data_type = DataType::List(item.clone());
        let returns = Arc::new(typed_field("array", data_type.clone(), result));
        let width = arguments.len();
        let run: KernelFn = Arc::new(move |columns, rows| {
            let parts: Vec<&dyn Array> = columns.iter().map(AsRef::as_ref).collect();
            let values: ArrayRef = if parts.is_empty() {
                arrow::array::new_empty_array(item.data_type())
            } else if rows == 1 {
                arrow::compute::concat(&parts)?
            } else {
                let picks: Vec<(usize, usize)> =
                    (0..rows).flat_map(|row| (0..parts.len()).map(move |column| (column, row))).collect();
                arrow::compute::interleave(&parts, &picks)?
            };
            let offsets = arrow::buffer::OffsetBuffer::from_lengths(std::iter::repeat_n(parts.len(), rows));
            Ok(Arc::new(arrow::array::ListArray::try_new(item.clone(), offsets, values, None)?))
        });
        let identity = format!("array({width},{},{})", result.oid, result.modifier);
        let expr = Kernel::call("array", identity, returns, Volatility::Immutable, run, arguments);
        Bound { expr, ty: result, data_type }
    }

    fn field_access(&self, root: &ast::Expr, chain: &[ast::AccessExpr], block: &Block) -> Result<Bound> {
        // `schema.table.column` may come as field accesses.
        if let Some(parts) = dotted(root, chain) {
            return Ok(self.column(&parts, block)?.0);
        }
        let mut value = self.expression(root, block)?;
        for access in chain {
            value = match access {
                ast::AccessExpr::Subscript(ast::Subscript::Index { index }) => {
                    if value.ty.oid == oid::JSONB {
                        let key = self.expression(index, block)?;
                        self.operator("->", value, key)?
                    } else {
                        let index = self.expression(index, block)?;
                        let index = self.coerce(index, PgType::of(oid::INT4), CastContext::Assignment)?;
                        self.subscript(value, index)?
                    }
                }
                ast::AccessExpr::Subscript(ast::Subscript::Slice { lower_bound, upper_bound, .. }) => {
                    let bound = |e: &Option<ast::Expr>, default: i32| -> Result<Bound> {
                        match e {
                            Some(e) => {
                                let b = self.expression(e, block)?;
                                self.coerce(b, PgType::of(oid::INT4), CastContext::Assignment)
                            }
                            None => Ok(literal(ScalarValue::Int32(Some(default)), PgType::of(oid::INT4))),
                        }
                    };
                    let (low, high) = (bound(lower_bound, 1)?, bound(upper_bound, i32::MAX)?);
                    self.slice(value, low, high)?
                }
                ast::AccessExpr::Dot(field) => {
                    return Err(SqlError::unsupported(format_args!("the field {field} of a composite value"))
                        .hint("Call the function in FROM to get its columns."));
                }
            };
        }
        Ok(value)
    }

    fn subscript(&self, value: Bound, index: Bound) -> Result<Bound> {
        let Some(element) = element_of(value.ty.oid) else {
            let name = crate::planning::types::format_type(value.ty);
            return Err(SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                format!("cannot subscript type {name} because it does not support subscripting"),
            ));
        };
        let DataType::List(item) = &value.data_type else {
            return Err(k::wrong_array(&value.data_type));
        };
        let data_type = item.data_type().clone();
        let nested = matches!(data_type, DataType::List(_));
        let ty = if nested { value.ty } else { PgType { oid: element, modifier: value.ty.modifier } };
        // The two vector types count from 0.
        let base = i32::from(!matches!(value.ty.oid, oid::INT2VECTOR | oid::OIDVECTOR));
        let run: KernelFn = Arc::new(move |arguments, rows| {
            let list = k::List::down(&arguments[0])?;
            let index = k::I4::down(&arguments[1])?;
            let picks: arrow::array::UInt32Array = (0..rows)
                .map(|row| {
                    if list.is_null(row) || index.is_null(row) {
                        return None;
                    }
                    let (start, end) = (list.value_offsets()[row], list.value_offsets()[row + 1]);
                    let at = i64::from(start) + i64::from(index.value(row)) - i64::from(base);
                    (at >= i64::from(start) && at < i64::from(end)).then_some(at as u32)
                })
                .collect();
            Ok(arrow::compute::take(list.values(), &picks, None)?)
        });
        let returns = Arc::new(typed_field("element", data_type.clone(), ty));
        let identity = format!("subscript({},{base})", value.ty.oid);
        let arguments = vec![value.expr, index.expr];
        let expr = Kernel::call("element", identity, returns, Volatility::Immutable, run, arguments);
        Ok(Bound { expr, ty, data_type })
    }

    fn slice(&self, value: Bound, low: Bound, high: Bound) -> Result<Bound> {
        let DataType::List(item) = value.data_type.clone() else {
            return Err(no_operator("[:]", &value, &low));
        };
        let run: KernelFn = Arc::new(move |arguments, rows| {
            let list = k::List::down(&arguments[0])?;
            let (low, high) = (k::I4::down(&arguments[1])?, k::I4::down(&arguments[2])?);
            let mut offsets = vec![0_i32];
            let mut picks: Vec<u32> = Vec::new();
            let mut valid = Vec::with_capacity(rows);
            for row in 0..rows {
                let present = !(list.is_null(row) || low.is_null(row) || high.is_null(row));
                valid.push(present);
                if present {
                    let (start, end) = (i64::from(list.value_offsets()[row]), i64::from(list.value_offsets()[row + 1]));
                    let from = (start + i64::from(low.value(row)) - 1).max(start);
                    let to = (start + i64::from(high.value(row))).min(end);
                    picks.extend((from..to).map(|i| i as u32));
                }
                offsets.push(picks.len() as i32);
            }
            let values = arrow::compute::take(list.values(), &arrow::array::UInt32Array::from(picks), None)?;
            let offsets = arrow::buffer::OffsetBuffer::new(offsets.into());
            let nulls = arrow::buffer::NullBuffer::from(valid);
            Ok(Arc::new(arrow::array::ListArray::try_new(item.clone(), offsets, values, Some(nulls))?))
        });
        let returns = Arc::new(typed_field("slice", value.data_type.clone(), value.ty));
        let identity = format!("slice({})", value.ty.oid);
        let arguments = vec![value.expr, low.expr, high.expr];
        let expr = Kernel::call("slice", identity, returns, Volatility::Immutable, run, arguments);
        Ok(Bound { expr, ty: value.ty, data_type: value.data_type })
    }

    /// `x op ANY (array)` and `x op ALL (array)`; with a query, see `subquery`.
    fn quantified(
        &self,
        left: &ast::Expr,
        op: &ast::BinaryOperator,
        right: &ast::Expr,
        all: bool,
        block: &Block,
    ) -> Result<Bound> {
        let symbol = match comparison_operator(op) {
            Some(op) => op.to_string(),
            None => operator_symbol(op)?,
        };
        let symbol = if symbol == "!=" { "<>".to_owned() } else { symbol };
        let mut inner = right;
        while let ast::Expr::Nested(e) = inner {
            inner = e;
        }
        if let ast::Expr::Subquery(query) = inner {
            return self.quantified_subquery(left, &symbol, query, all, block);
        }
        let value = self.expression(left, block)?;
        let array = self.expression(inner, block)?;
        self.quantified_array(value, &symbol, array, all)
    }

    pub(super) fn quantified_array(&self, value: Bound, symbol: &str, array: Bound, all: bool) -> Result<Bound> {
        // `x = ANY ('{…}')` and `x = ANY ($1)`: the array is of the value's type.
        let array = if array.ty.oid == oid::UNKNOWN {
            let element = if value.ty.oid == oid::UNKNOWN { oid::TEXT } else { value.ty.oid };
            let t = array_of(element).unwrap_or(1009);
            self.coerce(array, PgType::of(t), CastContext::Implicit)?
        } else {
            array
        };
        let Some(element) = element_of(array.ty.oid) else {
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, "op ANY/ALL (array) requires array on right side"));
        };
        // The operator over one element, which stands in as a column.
        let element_type = PgType { oid: element, modifier: array.ty.modifier };
        let stand_in = |name: &str, ty: PgType, data_type: DataType| Bound {
            expr: Expr::Column(datafusion::common::Column::new_unqualified(name)),
            ty,
            data_type,
        };
        let item_type = match &array.data_type {
            DataType::List(item) => item.data_type().clone(),
            other => return Err(k::wrong_array(other)),
        };
        let value =
            if value.ty.oid == oid::UNKNOWN { self.coerce(value, element_type, CastContext::Implicit)? } else { value };
        let left = stand_in("value", value.ty, value.data_type.clone());
        let right = stand_in("element", element_type, item_type.clone());
        let each = match comparison_of_symbol(symbol) {
            Some(op) => self.compare_objects(op, left, right)?,
            None => self.operator(symbol, left, right)?,
        };
        if each.ty.oid != oid::BOOL {
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                "op ANY/ALL (array) requires operator to yield boolean",
            ));
        }
        let schema = Arc::new(arrow::datatypes::Schema::new(vec![
            typed_field("value", value.data_type.clone(), value.ty),
            typed_field("element", item_type, element_type),
        ]));
        let df_schema = datafusion::common::DFSchema::try_from(schema.as_ref().clone())?;
        let props = datafusion::execution::context::ExecutionProps::new();
        let physical =
            datafusion::physical_expr::create_physical_expr(&each.expr, &df_schema, &props, &Default::default())?;
        let identity = format!("{symbol} {}({},{})", if all { "all" } else { "any" }, value.ty.oid, array.ty.oid);
        let run: KernelFn = Arc::new(move |arguments, rows| {
            let list = k::List::down(&arguments[1])?;
            let mut owners: Vec<u32> = Vec::new();
            let mut picks: Vec<u32> = Vec::new();
            for row in 0..rows {
                if !list.is_null(row) {
                    for i in list.value_offsets()[row]..list.value_offsets()[row + 1] {
                        owners.push(row as u32);
                        picks.push(i as u32);
                    }
                }
            }
            let owners = arrow::array::UInt32Array::from(owners);
            let values = arrow::compute::take(&arguments[0], &owners, None)?;
            let elements = arrow::compute::take(list.values(), &arrow::array::UInt32Array::from(picks), None)?;
            let batch = arrow::array::RecordBatch::try_new(schema.clone(), vec![values, elements])?;
            let matched = physical.evaluate(&batch)?.into_array(batch.num_rows())?;
            let matched = k::Bool::down(&matched)?;
            let mut out: Vec<Option<bool>> = (0..rows).map(|row| (!list.is_null(row)).then_some(all)).collect();
            let mut unknown = vec![false; rows];
            for (i, owner) in owners.values().iter().enumerate() {
                let row = *owner as usize;
                if matched.is_null(i) {
                    unknown[row] = true;
                } else if matched.value(i) != all {
                    out[row] = Some(!all);
                }
            }
            for (row, slot) in out.iter_mut().enumerate() {
                if unknown[row] && *slot == Some(all) {
                    *slot = None;
                }
            }
            Ok(k::Bool::build(out))
        });
        let returns = Arc::new(typed_field("quantified", DataType::Boolean, PgType::of(oid::BOOL)));
        let arguments = vec![value.expr, array.expr];
        Ok(boolean(Kernel::call("quantified", identity, returns, Volatility::Immutable, run, arguments)))
    }
}

fn dotted(root: &ast::Expr, chain: &[ast::AccessExpr]) -> Option<Vec<String>> {
    let mut parts = match root {
        ast::Expr::Identifier(ident) => vec![fold(ident)],
        ast::Expr::CompoundIdentifier(idents) => idents.iter().map(fold).collect(),
        _ => return None,
    };
    for access in chain {
        match access {
            ast::AccessExpr::Dot(ast::Expr::Identifier(ident)) => parts.push(fold(ident)),
            _ => return None,
        }
    }
    Some(parts)
}

fn comparison_operator(op: &ast::BinaryOperator) -> Option<Operator> {
    use ast::BinaryOperator as B;
    Some(match op {
        B::Eq => Operator::Eq,
        B::NotEq => Operator::NotEq,
        B::Lt => Operator::Lt,
        B::LtEq => Operator::LtEq,
        B::Gt => Operator::Gt,
        B::GtEq => Operator::GtEq,
        _ => return None,
    })
}

pub(super) fn comparison_of_symbol(symbol: &str) -> Option<Operator> {
    Some(match symbol {
        "=" => Operator::Eq,
        "<>" | "!=" => Operator::NotEq,
        "<" => Operator::Lt,
        "<=" => Operator::LtEq,
        ">" => Operator::Gt,
        ">=" => Operator::GtEq,
        _ => return None,
    })
}

fn operator_symbol(op: &ast::BinaryOperator) -> Result<String> {
    use ast::BinaryOperator as B;
    Ok(match op {
        B::PGCustomBinaryOperator(parts) => parts.last().cloned().unwrap_or_default(),
        B::PGBitwiseXor | B::BitwiseXor => "#".to_owned(),
        B::PGExp => "^".to_owned(),
        B::StringConcat => "||".to_owned(),
        B::PGLikeMatch => "~~".to_owned(),
        B::PGILikeMatch => "~~*".to_owned(),
        B::PGNotLikeMatch => "!~~".to_owned(),
        B::PGNotILikeMatch => "!~~*".to_owned(),
        B::Custom(symbol) => symbol.clone(),
        B::Xor | B::DuckIntegerDivide | B::MyIntegerDivide | B::Spaceship => {
            return Err(syntax(format!("syntax error at or near \"{op}\"")));
        }
        other => other.to_string(),
    })
}
