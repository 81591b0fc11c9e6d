//! Functions from outside (`pg_catalog`'s) among the registry's.

use std::sync::Arc;

use arrow::datatypes::{DataType, Fields};
use datafusion::logical_expr::Volatility;

use super::functions::{Functions, Make, Overload};
use super::kernel::KernelFn;
use super::types::{arrow_type, field};
use super::virtual_relation::{FunctionContext, Registry, SessionFunction};

pub fn register(functions: &mut Functions, registry: &Registry) {
    for function in &registry.functions {
        for (at, signature) in function.signatures().into_iter().enumerate() {
            let inner: Arc<dyn SessionFunction> = function.clone();
            let columns: Fields = signature.record.iter().map(|c| field(c.name, c.pg_type)).collect();
            functions.push(Overload {
                name: function.name().to_owned(),
                arguments: signature.arguments.iter().map(|t| t.oid).collect(),
                variadic: false,
                returns: signature.returns.oid,
                volatility: if signature.stable { Volatility::Stable } else { Volatility::Volatile },
                set: signature.set,
                make: Make::Typed(Box::new(move |call| {
                    let (inner, env) = (inner.clone(), call.env.clone());
                    let data_type = if columns.is_empty() {
                        arrow_type(call.returns).unwrap_or(DataType::Utf8)
                    } else {
                        DataType::Struct(columns.clone())
                    };
                    let run: KernelFn = Arc::new(move |arguments, rows| {
                        let context = FunctionContext { session: &env.session, catalog: &env.catalog };
                        inner.call(at, arguments, rows, &context)
                    });
                    Ok((data_type, run))
                })),
            });
        }
    }
}
