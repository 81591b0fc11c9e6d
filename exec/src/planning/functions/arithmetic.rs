//! Numbers: operators with PostgreSQL's overflow and division rules, and mathematical functions.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::kernels::{bitwise, numeric};
use arrow::datatypes::{DataType, Int16Type, Int32Type, Int64Type};
use arrow::error::ArrowError;

use super::{Call, Functions};
use crate::planning::decimal::{Decimal, SCALE_ANY};
use crate::planning::kernel::{KernelFn, NumArray, build_numeric, kernel, ok, wrong_array};
use crate::planning::types::NUMERIC_ANY;
use crate::sql::error::{Result, SqlError, SqlState};

type Binary = fn(&dyn arrow::array::Datum, &dyn arrow::array::Datum) -> std::result::Result<ArrayRef, ArrowError>;

fn out_of_range(name: &str) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{name} out of range"))
}

fn checked(operation: Binary, type_name: &'static str) -> KernelFn {
    Arc::new(move |a, _| {
        operation(&a[0], &a[1]).map_err(|error| match error {
            ArrowError::DivideByZero => SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero"),
            _ => out_of_range(type_name),
        })
    })
}

/// Arrow divides by zero quietly and keeps infinities; PostgreSQL does neither.
fn float8(operation: fn(f64, f64) -> f64, division: bool) -> KernelFn {
    kernel!(|a: F8, b: F8| -> F8 {
        if division && b == 0.0 {
            return Err(SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero"));
        }
        ok(checked_float(operation(a, b), &[a, b], division && a != 0.0 && !b.is_infinite())?)
    })
}

fn checked_float(value: f64, inputs: &[f64], no_underflow: bool) -> Result<f64> {
    if value.is_infinite() && inputs.iter().all(|v| v.is_finite()) {
        return Err(out_of_range("value").with_message("value out of range: overflow"));
    }
    if value == 0.0 && no_underflow {
        return Err(out_of_range("value").with_message("value out of range: underflow"));
    }
    Ok(value)
}

fn float4(operation: fn(f32, f32) -> f32, division: bool) -> KernelFn {
    kernel!(|a: F4, b: F4| -> F4 {
        if division && b == 0.0 {
            return Err(SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero"));
        }
        let value = operation(a, b);
        if value.is_infinite() && a.is_finite() && b.is_finite() {
            return Err(out_of_range("value").with_message("value out of range: overflow"));
        }
        ok(value)
    })
}

fn precision_scale(data_type: &DataType) -> (u8, u8) {
    match data_type {
        DataType::Decimal128(p, s) | DataType::Decimal256(p, s) => (*p, (*s).max(0) as u8),
        _ => (76, SCALE_ANY),
    }
}

fn decimal_type(precision: u32, scale: u32) -> DataType {
    match (precision, scale) {
        (p, s) if p <= 38 => DataType::Decimal128(p as u8, s as i8),
        (p, s) if p < 76 && s <= 40 => DataType::Decimal256(p as u8, s as i8),
        _ => NUMERIC_ANY,
    }
}

/// The Arrow type of a sum, difference or product: exact where the operands' scales are known.
fn result_type(call: &Call<'_>, product: bool) -> DataType {
    if call.data_types.iter().any(|t| *t == NUMERIC_ANY) {
        return NUMERIC_ANY;
    }
    let ((p1, s1), (p2, s2)) = (precision_scale(&call.data_types[0]), precision_scale(&call.data_types[1]));
    let (p1, s1, p2, s2) = (u32::from(p1), u32::from(s1), u32::from(p2), u32::from(s2));
    if product {
        return decimal_type(p1 + p2, s1 + s2);
    }
    let scale = s1.max(s2);
    decimal_type((p1 - s1.min(p1)).max(p2 - s2.min(p2)) + scale + 1, scale)
}

fn numeric_kernel(data_type: DataType, operation: fn(Decimal, Decimal) -> Result<Decimal>) -> KernelFn {
    Arc::new(move |arguments, rows| {
        let (a, b) = (NumArray::new(&arguments[0])?, NumArray::new(&arguments[1])?);
        let mut out = Vec::with_capacity(rows);
        for i in 0..rows {
            out.push(if a.is_null(i) || b.is_null(i) { None } else { Some(operation(a.value(i), b.value(i))?) });
        }
        build_numeric(out, &data_type)
    })
}

/// A numeric function of one argument that keeps its argument's Arrow type.
fn numeric_same(operation: fn(Decimal) -> Result<Decimal>) -> impl Fn(&Call<'_>) -> Result<(DataType, KernelFn)> {
    move |call| {
        let data_type = call.data_types[0].clone();
        Ok((data_type.clone(), numeric_map(data_type, operation)))
    }
}

fn numeric_map(data_type: DataType, operation: fn(Decimal) -> Result<Decimal>) -> KernelFn {
    Arc::new(move |arguments, rows| {
        let a = NumArray::new(&arguments[0])?;
        let mut out = Vec::with_capacity(rows);
        for i in 0..rows {
            out.push(if a.is_null(i) { None } else { Some(operation(a.value(i))?) });
        }
        build_numeric(out, &data_type)
    })
}

fn numeric_float(operation: fn(f64) -> Result<f64>) -> impl Fn(&Call<'_>) -> Result<(DataType, KernelFn)> {
    move |_| {
        let run: KernelFn = Arc::new(move |arguments, rows| {
            let a = NumArray::new(&arguments[0])?;
            let mut out = Vec::with_capacity(rows);
            for i in 0..rows {
                out.push(if a.is_null(i) {
                    None
                } else {
                    Some(Decimal::from_f64(operation(a.value(i).to_f64())?, 16)?)
                });
            }
            build_numeric(out, &NUMERIC_ANY)
        });
        Ok((NUMERIC_ANY, run))
    }
}

fn negate(d: Decimal) -> Result<Decimal> {
    Ok(Decimal { digits: d.digits.wrapping_neg(), scale: d.scale })
}

fn logarithm_argument(v: f64) -> Result<f64> {
    let state = SqlState("2201E");
    if v == 0.0 {
        return Err(SqlError::new(state, "cannot take logarithm of zero"));
    }
    if v < 0.0 {
        return Err(SqlError::new(state, "cannot take logarithm of a negative number"));
    }
    Ok(v)
}

fn power_float(a: f64, b: f64) -> Result<f64> {
    let state = SqlState("2201F");
    if a == 0.0 && b < 0.0 {
        return Err(SqlError::new(state, "zero raised to a negative power is undefined"));
    }
    if a < 0.0 && b.fract() != 0.0 && b.is_finite() {
        let message = "a negative number raised to a non-integer power yields a complex result";
        return Err(SqlError::new(state, message));
    }
    checked_float(a.powf(b), &[a, b], false)
}

fn power_numeric(a: Decimal, b: Decimal) -> Result<Decimal> {
    let exponent = b.without_trailing_zeros();
    if exponent.scale == 0
        && let Some(n) = exponent.to_i128().filter(|n| (0..=512).contains(n))
    {
        let mut result = Decimal::from_i128(1);
        for _ in 0..n {
            result = result.multiply(a)?;
        }
        return Ok(result);
    }
    Decimal::from_f64(power_float(a.to_f64(), b.to_f64())?, 16)
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a.abs() } else { gcd(b, a % b) }
}

fn round_places(call: &Call<'_>, operation: fn(Decimal, i32) -> Result<Decimal>) -> (DataType, KernelFn) {
    let data_type = call.data_types[0].clone();
    // Rounding up may need one digit more.
    let (p, s) = precision_scale(&data_type);
    let wider = if data_type == NUMERIC_ANY { NUMERIC_ANY } else { decimal_type(u32::from(p) + 1, u32::from(s)) };
    let out_type = wider.clone();
    let run: KernelFn = Arc::new(move |arguments, rows| {
        let a = NumArray::new(&arguments[0])?;
        let n = arguments[1].as_any().downcast_ref::<arrow::array::Int32Array>();
        let n = n.ok_or_else(|| wrong_array(arguments[1].data_type()))?;
        let mut out = Vec::with_capacity(rows);
        for i in 0..rows {
            out.push(if a.is_null(i) || n.is_null(i) { None } else { Some(operation(a.value(i), n.value(i))?) });
        }
        build_numeric(out, &out_type)
    });
    (wider, run)
}

pub(super) fn register(f: &mut Functions) {
    for (symbol, operation) in
        [("+", numeric::add as Binary), ("-", numeric::sub), ("*", numeric::mul), ("/", numeric::div)]
    {
        f.pure(&format!("{symbol}(int2,int2) int2"), checked(operation, "smallint"));
        f.pure(&format!("{symbol}(int4,int4) int4"), checked(operation, "integer"));
        f.pure(&format!("{symbol}(int8,int8) int8"), checked(operation, "bigint"));
    }
    // The remainder by -1 is 0 also where the quotient would overflow.
    for name in ["%", "mod"] {
        f.pure(
            &format!("{name}(int2,int2) int2"),
            kernel!(|a: I2, b: I2| -> I2 {
                if b == 0 {
                    return Err(SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero"));
                }
                ok(a.wrapping_rem(b))
            }),
        );
        f.pure(
            &format!("{name}(int4,int4) int4"),
            kernel!(|a: I4, b: I4| -> I4 {
                if b == 0 {
                    return Err(SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero"));
                }
                ok(a.wrapping_rem(b))
            }),
        );
        f.pure(
            &format!("{name}(int8,int8) int8"),
            kernel!(|a: I8, b: I8| -> I8 {
                if b == 0 {
                    return Err(SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero"));
                }
                ok(a.wrapping_rem(b))
            }),
        );
        f.typed(&format!("{name}(numeric,numeric) numeric"), |call| {
            let t = result_type(call, false);
            Ok((t.clone(), numeric_kernel(t, Decimal::remainder)))
        });
    }
    f.pure("+(float8,float8) float8", float8(|a, b| a + b, false));
    f.pure("-(float8,float8) float8", float8(|a, b| a - b, false));
    f.pure("*(float8,float8) float8", float8(|a, b| a * b, false));
    f.pure("/(float8,float8) float8", float8(|a, b| a / b, true));
    f.pure("+(float4,float4) float4", float4(|a, b| a + b, false));
    f.pure("-(float4,float4) float4", float4(|a, b| a - b, false));
    f.pure("*(float4,float4) float4", float4(|a, b| a * b, false));
    f.pure("/(float4,float4) float4", float4(|a, b| a / b, true));
    f.typed("+(numeric,numeric) numeric", |call| {
        let t = result_type(call, false);
        Ok((t.clone(), numeric_kernel(t, Decimal::add)))
    });
    f.typed("-(numeric,numeric) numeric", |call| {
        let t = result_type(call, false);
        Ok((t.clone(), numeric_kernel(t, Decimal::subtract)))
    });
    f.typed("*(numeric,numeric) numeric", |call| {
        let t = result_type(call, true);
        Ok((t.clone(), numeric_kernel(t, Decimal::multiply)))
    });
    f.typed("/(numeric,numeric) numeric", |_| Ok((NUMERIC_ANY, numeric_kernel(NUMERIC_ANY, Decimal::divide))));
    f.typed("div(numeric,numeric) numeric", |_| {
        Ok((NUMERIC_ANY, numeric_kernel(NUMERIC_ANY, |a, b| a.subtract(a.remainder(b)?)?.divide(b)?.truncate(0))))
    });
    for name in ["^", "power", "pow"] {
        f.pure(&format!("{name}(float8,float8) float8"), kernel!(|a: F8, b: F8| -> F8 { ok(power_float(a, b)?) }));
        f.typed(&format!("{name}(numeric,numeric) numeric"), |_| {
            Ok((NUMERIC_ANY, numeric_kernel(NUMERIC_ANY, power_numeric)))
        });
    }
    // Prefix operators.
    f.pure("-(int2) int2", kernel!(|a: I2| -> I2 { ok(a.checked_neg().ok_or_else(|| out_of_range("smallint"))?) }));
    f.pure("-(int4) int4", kernel!(|a: I4| -> I4 { ok(a.checked_neg().ok_or_else(|| out_of_range("integer"))?) }));
    f.pure("-(int8) int8", kernel!(|a: I8| -> I8 { ok(a.checked_neg().ok_or_else(|| out_of_range("bigint"))?) }));
    f.pure("-(float4) float4", kernel!(|a: F4| -> F4 { ok(-a) }));
    f.pure("-(float8) float8", kernel!(|a: F8| -> F8 { ok(-a) }));
    f.typed("-(numeric) numeric", numeric_same(negate));
    for name in ["@", "abs"] {
        f.pure(
            &format!("{name}(int2) int2"),
            kernel!(|a: I2| -> I2 { ok(a.checked_abs().ok_or_else(|| out_of_range("smallint"))?) }),
        );
        f.pure(
            &format!("{name}(int4) int4"),
            kernel!(|a: I4| -> I4 { ok(a.checked_abs().ok_or_else(|| out_of_range("integer"))?) }),
        );
        f.pure(
            &format!("{name}(int8) int8"),
            kernel!(|a: I8| -> I8 { ok(a.checked_abs().ok_or_else(|| out_of_range("bigint"))?) }),
        );
        f.pure(&format!("{name}(float4) float4"), kernel!(|a: F4| -> F4 { ok(a.abs()) }));
        f.pure(&format!("{name}(float8) float8"), kernel!(|a: F8| -> F8 { ok(a.abs()) }));
        f.typed(&format!("{name}(numeric) numeric"), numeric_same(|d| if d.is_negative() { negate(d) } else { Ok(d) }));
    }
    for (name, run) in [("|/", f64::sqrt as fn(f64) -> f64), ("sqrt", f64::sqrt)] {
        f.pure(
            &format!("{name}(float8) float8"),
            kernel!(|a: F8| -> F8 {
                if a < 0.0 {
                    return Err(SqlError::new(SqlState("2201F"), "cannot take square root of a negative number"));
                }
                ok(run(a))
            }),
        );
    }
    f.typed("sqrt(numeric) numeric", |_| Ok((NUMERIC_ANY, numeric_map(NUMERIC_ANY, Decimal::square_root))));
    f.pure("||/(float8) float8", kernel!(|a: F8| -> F8 { ok(a.cbrt()) }));
    f.pure("cbrt(float8) float8", kernel!(|a: F8| -> F8 { ok(a.cbrt()) }));
    // Bits.
    macro_rules! bits {
        ($t:literal, $cell:ident, $native:ty, $arrow:ty) => {
            f.pure(concat!("&(", $t, ",", $t, ") ", $t), kernel!(|a: $cell, b: $cell| -> $cell { ok(a & b) }));
            f.pure(concat!("|(", $t, ",", $t, ") ", $t), kernel!(|a: $cell, b: $cell| -> $cell { ok(a | b) }));
            f.pure(concat!("#(", $t, ",", $t, ") ", $t), kernel!(|a: $cell, b: $cell| -> $cell { ok(a ^ b) }));
            f.pure(
                concat!("~(", $t, ") ", $t),
                Arc::new(|a, _| {
                    let array = a[0].as_any().downcast_ref::<arrow::array::PrimitiveArray<$arrow>>();
                    let array = array.ok_or_else(|| wrong_array(a[0].data_type()))?;
                    Ok(Arc::new(bitwise::bitwise_not(array)?))
                }),
            );
            f.pure(
                concat!("<<(", $t, ",int4) ", $t),
                kernel!(|a: $cell, b: I4| -> $cell { ok(a.wrapping_shl(b as u32)) }),
            );
            f.pure(
                concat!(">>(", $t, ",int4) ", $t),
                kernel!(|a: $cell, b: I4| -> $cell { ok(a.wrapping_shr(b as u32)) }),
            );
        };
    }
    bits!("int2", I2, i16, Int16Type);
    bits!("int4", I4, i32, Int32Type);
    bits!("int8", I8, i64, Int64Type);
    // Rounding.
    f.pure("round(float8) float8", kernel!(|a: F8| -> F8 { ok(a.round_ties_even()) }));
    f.pure("floor(float8) float8", kernel!(|a: F8| -> F8 { ok(a.floor()) }));
    f.pure("trunc(float8) float8", kernel!(|a: F8| -> F8 { ok(a.trunc()) }));
    for name in ["ceil", "ceiling"] {
        f.pure(&format!("{name}(float8) float8"), kernel!(|a: F8| -> F8 { ok(a.ceil()) }));
        f.typed(&format!("{name}(numeric) numeric"), whole_numeric(Decimal::ceiling));
    }
    f.typed("round(numeric) numeric", whole_numeric(|d| d.round(0)));
    f.typed("floor(numeric) numeric", whole_numeric(Decimal::floor));
    f.typed("trunc(numeric) numeric", whole_numeric(|d| d.truncate(0)));
    f.typed("round(numeric,int4) numeric", |call| Ok(round_places(call, Decimal::round)));
    f.typed("trunc(numeric,int4) numeric", |call| Ok(round_places(call, Decimal::truncate)));
    f.pure("sign(float8) float8", kernel!(|a: F8| -> F8 { ok(if a == 0.0 { 0.0 } else { a.signum() }) }));
    f.typed("sign(numeric) numeric", whole_numeric(|d| Ok(Decimal::from_i128(d.compare(Decimal::ZERO)? as i128))));
    // Logarithms, exponentials, trigonometry.
    macro_rules! float {
        ($($name:literal => $body:expr),* $(,)?) => {
            $(f.pure(concat!($name, "(float8) float8"), kernel!(|a: F8| -> F8 {
                let apply: fn(f64) -> Result<f64> = $body;
                ok(checked_float(apply(a)?, &[a], false)?)
            }));)*
        };
    }
    float! {
        "ln" => |v| Ok(logarithm_argument(v)?.ln()),
        "log" => |v| Ok(logarithm_argument(v)?.log10()),
        "log10" => |v| Ok(logarithm_argument(v)?.log10()),
        "exp" => |v| Ok(v.exp()),
        "sin" => |v| Ok(v.sin()),
        "cos" => |v| Ok(v.cos()),
        "tan" => |v| Ok(v.tan()),
        "cot" => |v| Ok(1.0 / v.tan()),
        "asin" => |v| if v.abs() > 1.0 { Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "input is out of range")) } else { Ok(v.asin()) },
        "acos" => |v| if v.abs() > 1.0 { Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "input is out of range")) } else { Ok(v.acos()) },
        "atan" => |v| Ok(v.atan()),
        "sinh" => |v| Ok(v.sinh()),
        "cosh" => |v| Ok(v.cosh()),
        "tanh" => |v| Ok(v.tanh()),
        "radians" => |v| Ok(v.to_radians()),
        "degrees" => |v| Ok(v.to_degrees()),
    }
    f.pure("atan2(float8,float8) float8", kernel!(|a: F8, b: F8| -> F8 { ok(a.atan2(b)) }));
    f.pure("pi() float8", kernel!(|| -> F8 { ok(std::f64::consts::PI) }));
    f.typed("ln(numeric) numeric", numeric_float(|v| Ok(logarithm_argument(v)?.ln())));
    f.typed("log(numeric) numeric", numeric_float(|v| Ok(logarithm_argument(v)?.log10())));
    f.typed("log10(numeric) numeric", numeric_float(|v| Ok(logarithm_argument(v)?.log10())));
    f.typed("exp(numeric) numeric", numeric_float(|v| Ok(v.exp())));
    f.typed("log(numeric,numeric) numeric", |_| {
        Ok((
            NUMERIC_ANY,
            numeric_kernel(NUMERIC_ANY, |b, x| {
                let value = logarithm_argument(x.to_f64())?.ln() / logarithm_argument(b.to_f64())?.ln();
                Decimal::from_f64(value, 16)
            }),
        ))
    });
    f.pure(
        "gcd(int4,int4) int4",
        kernel!(|a: I4, b: I4| -> I4 {
            ok(i32::try_from(gcd(i128::from(a), i128::from(b))).map_err(|_| out_of_range("integer"))?)
        }),
    );
    f.pure(
        "gcd(int8,int8) int8",
        kernel!(|a: I8, b: I8| -> I8 {
            ok(i64::try_from(gcd(i128::from(a), i128::from(b))).map_err(|_| out_of_range("bigint"))?)
        }),
    );
    f.pure(
        "lcm(int4,int4) int4",
        kernel!(|a: I4, b: I4| -> I4 {
            if a == 0 || b == 0 {
                return ok(0);
            }
            let (a, b) = (i128::from(a), i128::from(b));
            ok(i32::try_from((a / gcd(a, b) * b).abs()).map_err(|_| out_of_range("integer"))?)
        }),
    );
    f.pure(
        "lcm(int8,int8) int8",
        kernel!(|a: I8, b: I8| -> I8 {
            if a == 0 || b == 0 {
                return ok(0);
            }
            let (a, b) = (i128::from(a), i128::from(b));
            ok(i64::try_from((a / gcd(a, b) * b).abs()).map_err(|_| out_of_range("bigint"))?)
        }),
    );
    f.pure(
        "width_bucket(float8,float8,float8,int4) int4",
        kernel!(|v: F8, low: F8, high: F8, count: I4| -> I4 {
            if count <= 0 || low == high {
                return Err(SqlError::new(
                    SqlState("2201G"),
                    if count <= 0 { "count must be greater than zero" } else { "lower bound cannot equal upper bound" },
                ));
            }
            let (below, above) = if low < high { (v < low, v >= high) } else { (v > low, v <= high) };
            ok(if below {
                0
            } else if above {
                count + 1
            } else {
                ((v - low) / (high - low) * f64::from(count)).floor() as i32 + 1
            })
        }),
    );
    f.pure("to_hex(int4) text", kernel!(|a: I4| -> Txt { ok(format!("{:x}", a as u32)) }));
    f.pure("to_hex(int8) text", kernel!(|a: I8| -> Txt { ok(format!("{:x}", a as u64)) }));
    f.pure(
        "factorial(int8) numeric",
        kernel!(|a: I8| -> Num {
            if a < 0 {
                return Err(SqlError::new(
                    SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                    "factorial of a negative number is undefined",
                ));
            }
            let mut product = Decimal::from_i128(1);
            for n in 2..=a {
                product = product.multiply(Decimal::from_i128(i128::from(n)))?;
            }
            ok(product)
        }),
    );
    f.pure("scale(numeric) int4", kernel_scale());
}

fn kernel_scale() -> KernelFn {
    Arc::new(|arguments, rows| {
        let a = NumArray::new(&arguments[0])?;
        let scales: arrow::array::Int32Array =
            (0..rows).map(|i| (!a.is_null(i)).then(|| i32::from(a.value(i).without_trailing_zeros().scale))).collect();
        Ok(Arc::new(scales))
    })
}

/// Functions whose result has no fraction.
fn whole_numeric(operation: fn(Decimal) -> Result<Decimal>) -> impl Fn(&Call<'_>) -> Result<(DataType, KernelFn)> {
    move |call| {
        let data_type = match precision_scale(&call.data_types[0]) {
            _ if call.data_types[0] == NUMERIC_ANY => NUMERIC_ANY,
            (p, s) => decimal_type(u32::from(p - s.min(p)) + 1, 0),
        };
        Ok((data_type.clone(), numeric_map(data_type, operation)))
    }
}
