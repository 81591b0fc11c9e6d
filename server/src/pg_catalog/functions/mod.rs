//! Functions over the catalog and the session, by signature. Owns how they are declared and called, row by row; each
//! file beside owns a family.

mod admin;
mod comments;
mod definitions;
mod object_names;
mod privileges;
mod session;
mod sizes;
mod visibility;

use std::sync::Arc;

use alluvium_exec::planning::types::{PgType, field, type_by_name, typed_field};
use alluvium_exec::planning::virtual_relation::{FunctionContext, FunctionSignature, SessionFunction, VirtualColumn};
use alluvium_exec::sql::error::Result;
use alluvium_exec::{SessionContext, SqlError};
use alluvium_storage::catalog::Catalog;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{Int16Type, Int32Type, Int64Type, UInt32Type};

use super::builtin;
use super::names::Names;
use super::value::{Value, column, internal};

/// One row's arguments, none of them null unless the function takes nulls.
struct Call<'a> {
    arguments: &'a [ArrayRef],
    row: usize,
    session: &'a SessionContext,
    catalog: &'a Catalog,
    names: Names<'a>,
}

impl Call<'_> {
    fn is_null(&self, at: usize) -> bool {
        self.arguments.get(at).is_none_or(|a| a.is_null(self.row))
    }

    fn text(&self, at: usize) -> Result<&str> {
        let array = self.arguments.get(at).and_then(|a| a.as_string_opt::<i32>());
        array.map(|a| a.value(self.row)).ok_or_else(|| wrong_argument(at))
    }

    fn oid(&self, at: usize) -> Result<u32> {
        let array = self.arguments.get(at).and_then(|a| a.as_primitive_opt::<UInt32Type>());
        array.map(|a| a.value(self.row)).ok_or_else(|| wrong_argument(at))
    }

    fn int(&self, at: usize) -> Result<i64> {
        let argument = self.arguments.get(at).ok_or_else(|| wrong_argument(at))?;
        if let Some(a) = argument.as_primitive_opt::<Int64Type>() {
            return Ok(a.value(self.row));
        }
        if let Some(a) = argument.as_primitive_opt::<Int16Type>() {
            return Ok(a.value(self.row).into());
        }
        let small = argument.as_primitive_opt::<Int32Type>();
        small.map(|a| a.value(self.row).into()).ok_or_else(|| wrong_argument(at))
    }

    fn bool(&self, at: usize) -> Result<bool> {
        let array = self.arguments.get(at).and_then(|a| a.as_boolean_opt());
        array.map(|a| a.value(self.row)).ok_or_else(|| wrong_argument(at))
    }
}

fn wrong_argument(at: usize) -> SqlError {
    internal(format!("argument {} has an unexpected type", at + 1))
}

type Run = Box<dyn Fn(&Call<'_>) -> Result<Value> + Send + Sync>;

struct Overload {
    signature: FunctionSignature,
    takes_nulls: bool,
    run: Run,
}

struct Function {
    name: &'static str,
    overloads: Vec<Overload>,
}

/// All functions while they are being declared. A signature reads `name(type,type) type`, `setof` before the result for
/// a set.
#[derive(Default)]
struct Declarations {
    functions: Vec<Function>,
}

impl Declarations {
    /// Null where an argument is null; the same within a statement.
    fn stable(&mut self, signature: &'static str, run: impl Fn(&Call<'_>) -> Result<Value> + Send + Sync + 'static) {
        self.add(signature, true, false, Box::new(run));
    }

    /// As `stable`, of one of many names and lists of arguments.
    fn stable_named(
        &mut self,
        name: &'static str,
        arguments: &str,
        returns: &str,
        run: impl Fn(&Call<'_>) -> Result<Value> + Send + Sync + 'static,
    ) {
        self.declare(name, arguments, returns, false, true, Box::new(run));
    }

    /// Called with nulls too.
    fn with_nulls(
        &mut self,
        signature: &'static str,
        run: impl Fn(&Call<'_>) -> Result<Value> + Send + Sync + 'static,
    ) {
        self.add(signature, true, true, Box::new(run));
    }

    /// Called for each row, for what it does or since it may say something else each time.
    fn volatile(&mut self, signature: &'static str, run: impl Fn(&Call<'_>) -> Result<Value> + Send + Sync + 'static) {
        self.add(signature, false, false, Box::new(run));
    }

    /// A set of rows of named columns.
    fn record(
        &mut self,
        signature: &'static str,
        columns: &[(&'static str, u32)],
        run: impl Fn(&Call<'_>) -> Result<Value> + Send + Sync + 'static,
    ) {
        self.add(signature, true, false, Box::new(run));
        let columns = columns.iter().map(|(name, oid)| VirtualColumn { name, pg_type: PgType::of(*oid) }).collect();
        if let Some(overload) = self.functions.last_mut().and_then(|f| f.overloads.last_mut()) {
            overload.signature.record = columns;
        }
    }

    /// The signatures are constants of this crate, so a mistake in one is a mistake of ours.
    fn add(&mut self, signature: &'static str, stable: bool, takes_nulls: bool, run: Run) {
        let (name, rest) = signature.split_once('(').unwrap_or_else(|| panic!("no argument list in {signature}"));
        let (list, returns) = rest.split_once(')').unwrap_or_else(|| panic!("no argument list in {signature}"));
        self.declare(name, list, returns.trim(), takes_nulls, stable, run);
    }

    fn declare(
        &mut self,
        name: &'static str,
        arguments: &str,
        returns: &str,
        takes_nulls: bool,
        stable: bool,
        run: Run,
    ) {
        let type_of = |t: &str| {
            let ours = type_by_name(t).map(PgType::of);
            ours.or_else(|| builtin::type_by_name(t).map(|t| PgType::of(t.oid)))
                .unwrap_or_else(|| panic!("unknown type {t} in {name}({arguments})"))
        };
        let arguments = arguments.split(',').map(str::trim).filter(|a| !a.is_empty()).map(type_of).collect();
        let set = returns.starts_with("setof ");
        let returns = type_of(returns.trim_start_matches("setof "));
        let signature = FunctionSignature { arguments, returns, stable, set, record: Vec::new() };
        let overload = Overload { signature, takes_nulls, run };
        match self.functions.iter_mut().find(|f| f.name == name) {
            Some(function) => function.overloads.push(overload),
            None => self.functions.push(Function { name, overloads: vec![overload] }),
        }
    }
}

impl SessionFunction for Function {
    fn name(&self) -> &'static str {
        self.name
    }

    fn signatures(&self) -> Vec<FunctionSignature> {
        self.overloads.iter().map(|o| o.signature.clone()).collect()
    }

    fn call(
        &self,
        overload: usize,
        arguments: &[ArrayRef],
        rows: usize,
        context: &FunctionContext<'_>,
    ) -> Result<ArrayRef> {
        let chosen =
            self.overloads.get(overload).ok_or_else(|| internal(format!("{} has no such overload", self.name)))?;
        let mut call = Call {
            arguments,
            row: 0,
            session: context.session,
            catalog: context.catalog,
            names: Names::new(context.session, context.catalog),
        };
        let mut values = Vec::with_capacity(rows);
        for row in 0..rows {
            call.row = row;
            let null = !chosen.takes_nulls && (0..arguments.len()).any(|at| call.is_null(at));
            values.push(if null { Value::Null } else { (chosen.run)(&call)? });
        }
        let returns = chosen.signature.returns;
        if !chosen.signature.set {
            return column(values, returns);
        }
        set_column(values, &chosen.signature)
    }
}

/// For each row, the elements of its set.
fn set_column(values: Vec<Value>, signature: &FunctionSignature) -> Result<ArrayRef> {
    let mut lengths = Vec::with_capacity(values.len());
    let mut items = Vec::new();
    for value in values {
        match value {
            Value::List(list) => {
                lengths.push(list.len());
                items.extend(list);
            }
            Value::Null => lengths.push(0),
            other => return Err(internal(format!("{other:?} is no set"))),
        }
    }
    let (items, item) = if signature.record.is_empty() {
        (column(items, signature.returns)?, field("item", signature.returns))
    } else {
        let records = records(items, &signature.record)?;
        let item = typed_field("item", records.data_type().clone(), signature.returns);
        (records, item)
    };
    let item = Arc::new(item);
    let offsets = arrow::buffer::OffsetBuffer::from_lengths(lengths);
    let list = arrow::array::ListArray::try_new(item, offsets, items, None);
    Ok(Arc::new(list.map_err(|e| internal(e.to_string()))?))
}

/// Rows as an array of structures.
fn records(rows: Vec<Value>, columns: &[VirtualColumn]) -> Result<ArrayRef> {
    let mut cells: Vec<Vec<Value>> = columns.iter().map(|_| Vec::with_capacity(rows.len())).collect();
    for row in rows {
        let Value::List(row) = row else { return Err(internal("a set of records holds something else".to_owned())) };
        for (cells, value) in cells.iter_mut().zip(row) {
            cells.push(value);
        }
    }
    let fields: arrow::datatypes::Fields = columns.iter().map(|c| field(c.name, c.pg_type)).collect();
    let arrays = columns.iter().zip(cells).map(|(c, values)| column(values, c.pg_type)).collect::<Result<Vec<_>>>()?;
    let records = arrow::array::StructArray::try_new(fields, arrays, None);
    Ok(Arc::new(records.map_err(|e| internal(e.to_string()))?))
}

fn declared() -> Declarations {
    let mut declarations = Declarations::default();
    session::declare(&mut declarations);
    admin::declare(&mut declarations);
    visibility::declare(&mut declarations);
    object_names::declare(&mut declarations);
    definitions::declare(&mut declarations);
    comments::declare(&mut declarations);
    privileges::declare(&mut declarations);
    sizes::declare(&mut declarations);
    declarations
}

pub fn all() -> Vec<Arc<dyn SessionFunction>> {
    declared().functions.into_iter().map(|f| Arc::new(f) as Arc<dyn SessionFunction>).collect()
}

pub fn names() -> impl Iterator<Item = &'static str> {
    declared().functions.into_iter().map(|f| f.name)
}
