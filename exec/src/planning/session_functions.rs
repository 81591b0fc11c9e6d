//! Functions from outside (`pg_catalog`'s) among the registry's.

use std::sync::Arc;

use datafusion::logical_expr::Volatility;

use super::functions::{Functions, Make, Overload};
use super::virtual_relation::{FunctionContext, Registry, SessionFunction};

pub fn register(functions: &mut Functions, registry: &Registry) {
    for function in &registry.functions {
        for (at, signature) in function.signatures().into_iter().enumerate() {
            let inner: Arc<dyn SessionFunction> = function.clone();
            functions.push(Overload {
                name: function.name().to_owned(),
                arguments: signature.arguments.iter().map(|t| t.oid).collect(),
                variadic: false,
                returns: signature.returns.oid,
                volatility: if signature.stable { Volatility::Stable } else { Volatility::Volatile },
                set: false,
                make: Make::Context(Box::new(move |call| {
                    let (inner, env) = (inner.clone(), call.env.clone());
                    Ok(Arc::new(move |arguments: &[arrow::array::ArrayRef], rows| {
                        let context = FunctionContext { session: &env.session, catalog: &env.catalog };
                        inner.call(at, arguments, rows, &context)
                    }))
                })),
            });
        }
    }
}
