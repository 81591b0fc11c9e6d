//! Relations and functions that come from outside `exec` (pg_catalog, information_schema, `alluvium`), without DataFusion
//! types in their interface.

use std::sync::Arc;

use alluvium_storage::catalog::Catalog;
use arrow::array::{ArrayRef, RecordBatch};

use super::types::PgType;
use crate::session_context::SessionContext;
use crate::sql::error::Result;
use crate::streaming::connector::Connector;

/// A read-only relation whose rows are made when it is read.
pub trait VirtualRelation: Send + Sync {
    fn schema_name(&self) -> &'static str;
    fn name(&self) -> &'static str;
    fn oid(&self) -> u32;
    fn columns(&self) -> Vec<VirtualColumn>;
    /// All rows, with the columns in declared order and the Arrow types that [`super::types`] gives theirs.
    fn rows(&self, session: &SessionContext, catalog: &Catalog) -> Result<RecordBatch>;
}

#[derive(Clone, Debug)]
pub struct VirtualColumn {
    pub name: &'static str,
    pub pg_type: PgType,
}

/// A scalar function that needs the session or the catalog (`pg_table_is_visible`, `current_setting`, …).
pub trait SessionFunction: Send + Sync {
    /// Without schema; found in `pg_catalog`.
    fn name(&self) -> &'static str;
    /// Overloads, by argument types.
    fn signatures(&self) -> Vec<FunctionSignature>;
    /// `arguments` all have `rows` elements and the types of the signature chosen (`overload` = its index).
    fn call(
        &self,
        overload: usize,
        arguments: &[ArrayRef],
        rows: usize,
        context: &FunctionContext<'_>,
    ) -> Result<ArrayRef>;
}

#[derive(Clone, Debug)]
pub struct FunctionSignature {
    pub arguments: Vec<PgType>,
    pub returns: PgType,
    /// `true`: may be folded to a constant at planning (STABLE within a statement).
    pub stable: bool,
    /// The function returns a set: `call` gives a list for each row, its elements the rows of the set.
    pub set: bool,
    /// A set of records (`returns` = `record`): its columns; the lists' elements are structures.
    pub record: Vec<VirtualColumn>,
}

pub struct FunctionContext<'a> {
    pub session: &'a SessionContext,
    pub catalog: &'a Catalog,
}

/// What `server` hands to the engine at start. Built once, then shared.
#[derive(Clone, Default)]
pub struct Registry {
    pub relations: Vec<Arc<dyn VirtualRelation>>,
    pub functions: Vec<Arc<dyn SessionFunction>>,
    /// Foreign data wrappers.
    pub connectors: Vec<Arc<dyn Connector>>,
}

impl Registry {
    pub fn connector(&self, wrapper: &str) -> Option<&Arc<dyn Connector>> {
        self.connectors.iter().find(|c| c.wrapper() == wrapper)
    }
}
