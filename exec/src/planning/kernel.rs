//! Scalar functions of ours as DataFusion sees them: a name, a return field and a closure over arrays.
//! Owns typed access to arrays for closures written row by row; knows no function in particular.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Decimal256Array, FixedSizeBinaryArray,
    Float32Array, Float64Array, Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray, ListArray, StringArray,
    Time64MicrosecondArray, TimestampMicrosecondArray, UInt32Array,
};
use arrow::datatypes::{DataType, FieldRef, IntervalMonthDayNano, i256};
use datafusion::common::{DataFusionError, Result as DfResult, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::decimal::{Decimal, SCALE_ANY, overflow};
use crate::sql::error::{Result, SqlError};

/// Arguments of equal length, and the number of rows (for functions without arguments).
pub type KernelFn = Arc<dyn Fn(&[ArrayRef], usize) -> Result<ArrayRef> + Send + Sync>;

/// One function applied to argument types that are already fixed.
pub struct Kernel {
    name: String,
    /// Two kernels are the same function where this is equal.
    identity: String,
    returns: FieldRef,
    signature: Signature,
    strict: bool,
    run: KernelFn,
}

impl Kernel {
    /// A call of the function. `identity` must tell apart everything the closure captures.
    pub fn call(
        name: &str,
        identity: String,
        returns: FieldRef,
        volatility: Volatility,
        run: KernelFn,
        arguments: Vec<Expr>,
    ) -> Expr {
        let kernel = Self {
            name: name.to_owned(),
            identity,
            returns,
            signature: Signature::user_defined(volatility),
            strict: false,
            run,
        };
        Expr::ScalarFunction(datafusion::logical_expr::expr::ScalarFunction {
            func: Arc::new(ScalarUDF::new_from_impl(kernel)),
            args: arguments,
        })
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl PartialEq for Kernel {
    fn eq(&self, other: &Self) -> bool {
        self.identity == other.identity && self.returns == other.returns
    }
}

impl Eq for Kernel {}

impl Hash for Kernel {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity.hash(state);
    }
}

impl ScalarUDFImpl for Kernel {
    fn name(&self) -> &str {
        &self.name
    }

    /// Part of a column's name in a plan, so it must differ where the function does.
    fn schema_name(&self, args: &[Expr]) -> DfResult<String> {
        let mut text = format!("{}(", self.identity);
        for (i, arg) in args.iter().enumerate() {
            if i > 0 {
                text.push(',');
            }
            text.push_str(&arg.schema_name().to_string());
        }
        text.push(')');
        Ok(text)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(self.returns.data_type().clone())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> DfResult<FieldRef> {
        Ok(self.returns.clone())
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> DfResult<Vec<DataType>> {
        Ok(arg_types.to_vec())
    }

    fn is_strict(&self) -> bool {
        self.strict
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let constant = !args.args.is_empty() && args.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let arrays: Vec<ArrayRef> =
            args.args.into_iter().map(|a| a.into_array(rows)).collect::<DfResult<Vec<ArrayRef>>>()?;
        let result = (self.run)(&arrays, rows).map_err(external)?;
        if result.data_type() != self.returns.data_type() {
            return Err(DataFusionError::Internal(format!(
                "{} gave {} where {} was promised",
                self.identity,
                result.data_type(),
                self.returns.data_type()
            )));
        }
        if constant {
            // DataFusion's own way would lose what the element's field says of its type.
            if let Some(list) = result.as_any().downcast_ref::<ListArray>() {
                return Ok(ColumnarValue::Scalar(ScalarValue::List(Arc::new(list.clone()))));
            }
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?));
        }
        Ok(ColumnarValue::Array(result))
    }
}

pub fn external(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

pub fn wrong_array(data_type: &DataType) -> SqlError {
    SqlError::new(crate::sql::error::SqlState::INTERNAL_ERROR, format!("unexpected array of {data_type}"))
}

/// Typed access to one argument of a row-by-row kernel.
pub trait Cell {
    type Array: Array + 'static;
    type Value<'a>;
    type Owned;
    fn down(array: &ArrayRef) -> Result<&Self::Array>;
    fn value(array: &Self::Array, row: usize) -> Self::Value<'_>;
    fn build(values: Vec<Option<Self::Owned>>) -> ArrayRef;
}

fn downcast<A: Array + 'static>(array: &ArrayRef) -> Result<&A> {
    array.as_any().downcast_ref::<A>().ok_or_else(|| wrong_array(array.data_type()))
}

macro_rules! primitive_cell {
    ($name:ident, $array:ty, $native:ty) => {
        pub struct $name;
        impl Cell for $name {
            type Array = $array;
            type Value<'a> = $native;
            type Owned = $native;
            fn down(array: &ArrayRef) -> Result<&$array> {
                downcast(array)
            }
            fn value(array: &$array, row: usize) -> $native {
                array.value(row)
            }
            fn build(values: Vec<Option<$native>>) -> ArrayRef {
                Arc::new(<$array>::from(values))
            }
        }
    };
}

primitive_cell!(Bool, BooleanArray, bool);
primitive_cell!(I2, Int16Array, i16);
primitive_cell!(I4, Int32Array, i32);
primitive_cell!(I8, Int64Array, i64);
primitive_cell!(Oid, UInt32Array, u32);
primitive_cell!(F4, Float32Array, f32);
primitive_cell!(F8, Float64Array, f64);
primitive_cell!(Date, Date32Array, i32);
primitive_cell!(Time, Time64MicrosecondArray, i64);
primitive_cell!(Ts, TimestampMicrosecondArray, i64);
primitive_cell!(Iv, IntervalMonthDayNanoArray, IntervalMonthDayNano);

/// `timestamptz`: as [`Ts`], built with its zone.
pub struct Tz;
impl Cell for Tz {
    type Array = TimestampMicrosecondArray;
    type Value<'a> = i64;
    type Owned = i64;
    fn down(array: &ArrayRef) -> Result<&TimestampMicrosecondArray> {
        downcast(array)
    }
    fn value(array: &TimestampMicrosecondArray, row: usize) -> i64 {
        array.value(row)
    }
    fn build(values: Vec<Option<i64>>) -> ArrayRef {
        Arc::new(TimestampMicrosecondArray::from(values).with_timezone("UTC"))
    }
}

pub struct Txt;
impl Cell for Txt {
    type Array = StringArray;
    type Value<'a> = &'a str;
    type Owned = String;
    fn down(array: &ArrayRef) -> Result<&StringArray> {
        downcast(array)
    }
    fn value(array: &StringArray, row: usize) -> &str {
        array.value(row)
    }
    fn build(values: Vec<Option<String>>) -> ArrayRef {
        Arc::new(StringArray::from(values))
    }
}

pub struct Bytes;
impl Cell for Bytes {
    type Array = BinaryArray;
    type Value<'a> = &'a [u8];
    type Owned = Vec<u8>;
    fn down(array: &ArrayRef) -> Result<&BinaryArray> {
        downcast(array)
    }
    fn value(array: &BinaryArray, row: usize) -> &[u8] {
        array.value(row)
    }
    fn build(values: Vec<Option<Vec<u8>>>) -> ArrayRef {
        Arc::new(BinaryArray::from_iter(values))
    }
}

pub struct Uuid;
impl Cell for Uuid {
    type Array = FixedSizeBinaryArray;
    type Value<'a> = &'a [u8];
    type Owned = [u8; 16];
    fn down(array: &ArrayRef) -> Result<&FixedSizeBinaryArray> {
        downcast(array)
    }
    fn value(array: &FixedSizeBinaryArray, row: usize) -> &[u8] {
        array.value(row)
    }
    fn build(values: Vec<Option<[u8; 16]>>) -> ArrayRef {
        let mut builder = arrow::array::FixedSizeBinaryBuilder::with_capacity(values.len(), 16);
        for value in values {
            match value {
                // The width is the builder's own.
                Some(bytes) => _ = builder.append_value(bytes),
                None => builder.append_null(),
            }
        }
        Arc::new(builder.finish())
    }
}

/// Any array, seen as a list of arrays; results are built by hand.
pub struct List;
impl Cell for List {
    type Array = ListArray;
    type Value<'a> = ArrayRef;
    type Owned = ArrayRef;
    fn down(array: &ArrayRef) -> Result<&ListArray> {
        downcast(array)
    }
    fn value(array: &ListArray, row: usize) -> ArrayRef {
        array.value(row)
    }
    fn build(values: Vec<Option<ArrayRef>>) -> ArrayRef {
        arrow::array::new_null_array(&DataType::Null, values.len())
    }
}

/// `numeric` of any precision and scale; built as `numeric` without modifier.
pub struct Num;
pub struct NumArray(ArrayRef, u8);

impl fmt::Debug for NumArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl NumArray {
    pub fn new(array: &ArrayRef) -> Result<Self> {
        match array.data_type() {
            DataType::Decimal128(_, s) | DataType::Decimal256(_, s) if *s >= 0 => Ok(Self(array.clone(), *s as u8)),
            other => Err(wrong_array(other)),
        }
    }

    pub fn is_null(&self, row: usize) -> bool {
        self.0.is_null(row)
    }

    pub fn value(&self, row: usize) -> Decimal {
        let any = self.0.as_any();
        let digits = match any.downcast_ref::<Decimal128Array>() {
            Some(small) => i256::from_i128(small.value(row)),
            None => any.downcast_ref::<Decimal256Array>().map_or(i256::ZERO, |a| a.value(row)),
        };
        Decimal { digits, scale: self.1 }
    }
}

/// An array of numerics of the Arrow type given. A value with too many digits is `22003`.
pub fn build_numeric(values: Vec<Option<Decimal>>, data_type: &DataType) -> Result<ArrayRef> {
    match data_type {
        DataType::Decimal128(p, s) => {
            let digits = values
                .into_iter()
                .map(|v| {
                    v.map(|v| {
                        let v = v.with_scale(*s as u8)?;
                        v.digits.to_i128().filter(|_| v.fits(*p)).ok_or_else(|| field_overflow(*p, *s))
                    })
                    .transpose()
                })
                .collect::<Result<Vec<Option<i128>>>>()?;
            let array = Decimal128Array::from(digits).with_precision_and_scale(*p, *s);
            Ok(Arc::new(array.map_err(|e| arrow_error(&e))?))
        }
        DataType::Decimal256(p, s) => {
            let digits = values
                .into_iter()
                .map(|v| {
                    v.map(|v| {
                        let v = v.with_scale(*s as u8)?;
                        if v.fits(*p) { Ok(v.digits) } else { Err(field_overflow(*p, *s)) }
                    })
                    .transpose()
                })
                .collect::<Result<Vec<Option<i256>>>>()?;
            let array = Decimal256Array::from(digits).with_precision_and_scale(*p, *s);
            Ok(Arc::new(array.map_err(|e| arrow_error(&e))?))
        }
        other => Err(wrong_array(other)),
    }
}

fn field_overflow(precision: u8, scale: i8) -> SqlError {
    if (precision, scale) == (76, SCALE_ANY as i8) {
        return overflow();
    }
    let whole = i32::from(precision) - i32::from(scale);
    SqlError::new(crate::sql::error::SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow").detail(format!(
        "A field with precision {precision}, scale {scale} must round to an absolute value less than {}.",
        if whole == 0 { "1".to_owned() } else { format!("10^{whole}") }
    ))
}

pub fn arrow_error(error: &arrow::error::ArrowError) -> SqlError {
    super::error_mapping::from_arrow(error)
}

impl Cell for Num {
    type Array = Decimal256Array;
    type Value<'a> = Decimal;
    type Owned = Decimal;
    fn down(array: &ArrayRef) -> Result<&Decimal256Array> {
        downcast(array)
    }
    fn value(array: &Decimal256Array, row: usize) -> Decimal {
        Decimal { digits: array.value(row), scale: array.scale() as u8 }
    }
    fn build(values: Vec<Option<Decimal>>) -> ArrayRef {
        build_numeric(values, &super::types::NUMERIC_ANY)
            .unwrap_or_else(|_| arrow::array::new_null_array(&super::types::NUMERIC_ANY, 0))
    }
}

/// A value that is not null.
pub fn ok<T>(value: T) -> Result<Option<T>> {
    Ok(Some(value))
}

/// A strict kernel written for one row: `kernel!(|a: Txt, n: I4| -> Txt { ok(…) })`. Null in, null out.
macro_rules! kernel {
    (|| -> $out:ident $body:block) => {
        $crate::planning::kernel::kernel!(@ [] $out $body)
    };
    (|$($name:ident : $cell:ident),+| -> $out:ident $body:block) => {
        $crate::planning::kernel::kernel!(@ [$($name: $cell),+] $out $body)
    };
    (@ [$($name:ident : $cell:ident),*] $out:ident $body:block) => {{
        let run: $crate::planning::kernel::KernelFn = std::sync::Arc::new(
            move |arguments: &[arrow::array::ArrayRef], rows: usize| {
                #[allow(unused_imports)]
                use arrow::array::Array as _;
                use $crate::planning::kernel::Cell as _;
                let mut _position = 0;
                $(
                    let $name = $crate::planning::kernel::$cell::down(&arguments[_position])?;
                    _position += 1;
                )*
                let mut out = Vec::with_capacity(rows);
                for _row in 0..rows {
                    if false $(|| $name.is_null(_row))* {
                        out.push(None);
                        continue;
                    }
                    $(let $name = $crate::planning::kernel::$cell::value($name, _row);)*
                    #[allow(clippy::redundant_closure_call)]
                    out.push((|| $body)()?);
                }
                Ok($crate::planning::kernel::$out::build(out))
            },
        );
        run
    }};
}
pub(crate) use kernel;
