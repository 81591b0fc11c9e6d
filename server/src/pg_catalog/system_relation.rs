//! A relation of PostgreSQL's catalog as the engine reads it: declared columns, built-in rows, and rows made from the
//! live catalog by a filler (`relations/`, `information_schema/`).

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use alluvium_exec::SessionContext;
use alluvium_exec::planning::types::field;
use alluvium_exec::planning::virtual_relation::{VirtualColumn, VirtualRelation};
use alluvium_exec::sql::error::Result;
use alluvium_storage::catalog::Catalog;
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};

use super::builtin::{self, Definition};
use super::names::Names;
use super::value::{Value, column, internal};

/// What a filler may read.
pub struct Source<'a> {
    pub session: &'a SessionContext,
    pub catalog: &'a Catalog,
    pub names: Names<'a>,
}

/// Adds the live rows of one relation.
pub type Fill = fn(&Source<'_>, &mut Rows) -> Result<()>;

/// Rows in the making. What a row does not say is null, or zero where the column is never null.
pub struct Rows {
    definition: &'static Definition,
    positions: HashMap<&'static str, usize>,
    columns: Vec<Vec<Value>>,
}

impl Rows {
    fn new(definition: &'static Definition) -> Self {
        let positions = definition.columns.iter().enumerate().map(|(i, c)| (c.name, i)).collect();
        Self { definition, positions, columns: definition.columns.iter().map(|_| Vec::new()).collect() }
    }

    /// One row, by column names.
    pub fn push<const N: usize>(&mut self, cells: [(&'static str, Value); N]) -> Result<()> {
        for (c, values) in self.definition.columns.iter().zip(&mut self.columns) {
            values.push(if c.not_null { Value::zero(c.pg_type) } else { Value::Null });
        }
        for (name, value) in cells {
            let at = self.positions.get(name).copied();
            let at = at.ok_or_else(|| internal(format!("{} has no column {name}", self.definition.name)))?;
            if let Some(last) = self.columns[at].last_mut() {
                *last = value;
            }
        }
        Ok(())
    }

    fn push_line(&mut self, line: &'static str) -> Result<()> {
        for ((c, values), cell) in self.definition.columns.iter().zip(&mut self.columns).zip(builtin::cells(line)) {
            values.push(Value::recorded(cell, c.pg_type)?);
        }
        Ok(())
    }

    fn batch(self, schema: &SchemaRef) -> Result<RecordBatch> {
        let count = self.columns.first().map_or(0, Vec::len);
        let arrays = self.definition.columns.iter().zip(self.columns).map(|(c, values)| column(values, c.pg_type));
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let batch = RecordBatch::try_new_with_options(schema.clone(), arrays.collect::<Result<_>>()?, &options);
        batch.map_err(|e| internal(e.to_string()))
    }
}

/// `row!(rows, column: value, …)`: one row of `rows`.
macro_rules! row {
    ($rows:expr, $($name:ident : $value:expr),+ $(,)?) => {
        $rows.push([$((stringify!($name), $crate::pg_catalog::value::Value::from($value))),+])
    };
}
pub(super) use row;

pub struct SystemRelation {
    definition: &'static Definition,
    fill: Option<Fill>,
    /// Which recorded rows are ours; `None` = all.
    keep: Option<fn(&'static str) -> bool>,
    schema: SchemaRef,
    recorded: OnceLock<RecordBatch>,
}

impl SystemRelation {
    /// Built-in rows first, then the filler's.
    pub fn new(definition: &'static Definition, fill: Option<Fill>) -> Self {
        let fields: Vec<_> = definition.columns.iter().map(|c| field(c.name, c.pg_type)).collect();
        Self { definition, fill, keep: None, schema: Arc::new(Schema::new(fields)), recorded: OnceLock::new() }
    }

    pub fn keeping(mut self, keep: fn(&'static str) -> bool) -> Self {
        self.keep = Some(keep);
        self
    }

    fn recorded(&self) -> Result<&RecordBatch> {
        if let Some(batch) = self.recorded.get() {
            return Ok(batch);
        }
        let mut rows = Rows::new(self.definition);
        if self.definition.schema == "pg_catalog"
            && let Some(text) = builtin::recorded(self.definition.name)
        {
            for line in text.lines().filter(|line| self.keep.is_none_or(|keep| keep(line))) {
                rows.push_line(line)?;
            }
        }
        let batch = rows.batch(&self.schema)?;
        Ok(self.recorded.get_or_init(|| batch))
    }
}

impl VirtualRelation for SystemRelation {
    fn schema_name(&self) -> &'static str {
        self.definition.schema
    }

    fn name(&self) -> &'static str {
        self.definition.name
    }

    fn oid(&self) -> u32 {
        self.definition.oid
    }

    fn columns(&self) -> Vec<VirtualColumn> {
        self.definition.columns.iter().map(|c| VirtualColumn { name: c.name, pg_type: c.pg_type }).collect()
    }

    fn rows(&self, session: &SessionContext, catalog: &Catalog) -> Result<RecordBatch> {
        let recorded = self.recorded()?;
        let Some(fill) = self.fill else { return Ok(recorded.clone()) };
        let mut rows = Rows::new(self.definition);
        fill(&Source { session, catalog, names: Names::new(session, catalog) }, &mut rows)?;
        let live = rows.batch(&self.schema)?;
        if recorded.num_rows() == 0 {
            return Ok(live);
        }
        arrow::compute::concat_batches(&self.schema, [recorded, &live]).map_err(|e| internal(e.to_string()))
    }
}
