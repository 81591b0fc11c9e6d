//! The function registry: every scalar function, set-returning function and operator by name and argument types.
//! Owns signatures and their resolution; each file beside owns the functions of one kind of value.

mod arithmetic;
mod arrays;
mod documents;
mod misc;
pub mod pattern;
mod resolve;
mod sets;
mod text;
mod time;
pub mod to_char;

use std::collections::HashMap;
use std::sync::Arc;

use alluvium_storage::catalog::Catalog;
use arrow::datatypes::DataType;
use datafusion::logical_expr::Volatility;

pub use resolve::{Resolved, resolve};

use super::datetime::{Moment, Zone};
use super::kernel::KernelFn;
use super::types::{PgType, type_by_name};
use crate::session_context::SessionContext;
use crate::sql::error::Result;

/// `any`: a value of any type.
pub const ANY: u32 = 2276;
pub const ANYELEMENT: u32 = 2283;
pub const ANYARRAY: u32 = 2277;

/// What a statement's functions may know.
#[derive(Clone)]
pub struct Env {
    pub session: Arc<SessionContext>,
    pub catalog: Arc<Catalog>,
    pub zone: Zone,
}

impl Env {
    pub fn moment(&self) -> Moment {
        Moment { now_us: self.session.transaction_time_us, zone: self.zone }
    }
}

/// One call, with its argument types settled.
pub struct Call<'a> {
    pub env: &'a Env,
    pub types: &'a [PgType],
    pub data_types: &'a [DataType],
    /// The type returned, where the signature says it.
    pub returns: PgType,
}

/// How a call becomes a kernel.
pub enum Make {
    Kernel(KernelFn),
    /// Made anew for each call: reads the session, the catalog or the argument types.
    Context(Box<dyn Fn(&Call<'_>) -> Result<KernelFn> + Send + Sync>),
    /// As `Context`, and decides the Arrow type that carries the result (a numeric's scale, an array's element).
    Typed(Box<dyn Fn(&Call<'_>) -> Result<(DataType, KernelFn)> + Send + Sync>),
}

pub struct Overload {
    pub name: String,
    pub arguments: Vec<u32>,
    /// The last argument may be repeated.
    pub variadic: bool,
    pub returns: u32,
    pub volatility: Volatility,
    /// The kernel gives an array for each row; its elements are the rows of the set.
    pub set: bool,
    pub make: Make,
}

#[derive(Default)]
pub struct Functions {
    by_name: HashMap<String, Vec<Overload>>,
}

impl Functions {
    pub fn built_in() -> Self {
        let mut functions = Self::default();
        arithmetic::register(&mut functions);
        text::register(&mut functions);
        pattern::register(&mut functions);
        time::register(&mut functions);
        documents::register(&mut functions);
        arrays::register(&mut functions);
        sets::register(&mut functions);
        misc::register(&mut functions);
        functions
    }

    pub fn named(&self, name: &str) -> &[Overload] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    pub fn push(&mut self, overload: Overload) {
        self.by_name.entry(overload.name.clone()).or_default().push(overload);
    }

    /// `signature` reads `name(type, type…) type`; `...` after the last argument repeats it, `setof` before the result
    /// makes rows of its elements.
    fn add(&mut self, signature: &str, volatility: Volatility, make: Make) {
        let overload = parse_signature(signature, volatility, make);
        self.push(overload);
    }

    pub(crate) fn pure(&mut self, signature: &str, run: KernelFn) {
        self.add(signature, Volatility::Immutable, Make::Kernel(run));
    }

    pub(crate) fn context(
        &mut self,
        signature: &str,
        make: impl Fn(&Call<'_>) -> Result<KernelFn> + Send + Sync + 'static,
    ) {
        self.add(signature, Volatility::Stable, Make::Context(Box::new(make)));
    }

    pub(crate) fn volatile(
        &mut self,
        signature: &str,
        make: impl Fn(&Call<'_>) -> Result<KernelFn> + Send + Sync + 'static,
    ) {
        self.add(signature, Volatility::Volatile, Make::Context(Box::new(make)));
    }

    pub(crate) fn typed(
        &mut self,
        signature: &str,
        make: impl Fn(&Call<'_>) -> Result<(DataType, KernelFn)> + Send + Sync + 'static,
    ) {
        self.add(signature, Volatility::Immutable, Make::Typed(Box::new(make)));
    }
}

/// The signatures are constants of this crate, so a mistake in one is a mistake of ours.
fn parse_signature(signature: &str, volatility: Volatility, make: Make) -> Overload {
    let open = signature.find('(').unwrap_or_else(|| panic!("no argument list in {signature}"));
    let close = signature.rfind(')').unwrap_or_else(|| panic!("no argument list in {signature}"));
    let type_of = |name: &str| match name {
        "any" => ANY,
        "anyelement" => ANYELEMENT,
        "anyarray" => ANYARRAY,
        name => type_by_name(name).unwrap_or_else(|| panic!("unknown type {name} in {signature}")),
    };
    let list = signature[open + 1..close].trim();
    let variadic = list.ends_with("...");
    let list = list.trim_end_matches("...");
    let arguments =
        if list.is_empty() { Vec::new() } else { list.split(',').map(|name| type_of(name.trim())).collect() };
    let returns = signature[close + 1..].trim();
    let set = returns.starts_with("setof ");
    Overload {
        name: signature[..open].to_owned(),
        arguments,
        variadic,
        returns: type_of(returns.trim_start_matches("setof ")),
        volatility,
        set,
        make,
    }
}
