//! WITH ORDINALITY: the places of an array's elements, as an array.

use std::sync::Arc;

use arrow::array::{Array, Int64Array, ListArray};
use arrow::datatypes::{DataType, Field};
use datafusion::logical_expr::{Expr, Volatility};

use super::kernel::{self as k, Cell, Kernel, KernelFn};

/// `{1,2,…,n}` for an array of n elements.
pub fn numbers(list: Expr) -> Expr {
    let item = Arc::new(Field::new("item", DataType::Int64, true));
    let returns = Arc::new(Field::new("ordinality", DataType::List(item.clone()), true));
    let run: KernelFn = Arc::new(move |arguments, _| {
        let list = k::List::down(&arguments[0])?;
        let offsets = list.offsets().clone();
        let mut numbers = vec![0_i64; list.values().len()];
        for row in 0..list.len() {
            let range = offsets[row] as usize..offsets[row + 1] as usize;
            for (n, slot) in numbers[range].iter_mut().enumerate() {
                *slot = n as i64 + 1;
            }
        }
        let values = Arc::new(Int64Array::from(numbers));
        Ok(Arc::new(ListArray::try_new(item.clone(), offsets, values, list.nulls().cloned())?))
    });
    Kernel::call("ordinality", "ordinality".to_owned(), returns, Volatility::Immutable, run, vec![list])
}
