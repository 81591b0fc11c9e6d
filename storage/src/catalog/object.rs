//! Schemas, relations and columns as plain data.

use std::collections::BTreeMap;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use crate::base::ids::{ColumnId, RelationId, SchemaId, ServerId};

#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    pub id: SchemaId,
    pub name: String,
    pub owner: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelationKind {
    /// Append-only.
    Stream,
    /// Mutable.
    Table,
    /// A name for a query.
    View,
    /// A relation of the outside world (`CREATE FOREIGN TABLE`).
    Foreign,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Relation {
    pub id: RelationId,
    pub schema: SchemaId,
    pub name: String,
    pub kind: RelationKind,
    pub owner: String,
    /// In declaration order; dropped columns are gone, their numbers are not given again.
    pub columns: Vec<Column>,
    pub next_column: ColumnId,
    pub partitions: u32,
    pub partition_by: Vec<ColumnId>,
    pub order_by: Vec<ColumnId>,
    pub watermark: Option<Watermark>,
    pub options: RelationOptions,
    /// A view's query as the user wrote it, names resolved at creation; empty otherwise.
    pub query: String,
    /// The relations a view reads.
    pub depends_on: Vec<RelationId>,
    pub foreign: Option<ForeignSource>,
    pub comment: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Column {
    pub id: ColumnId,
    pub name: String,
    pub data_type: DataType,
    /// PostgreSQL's type OID and modifier; `exec` keeps the table that relates them to `data_type`.
    pub type_oid: u32,
    pub type_modifier: i32,
    pub not_null: bool,
    /// SQL text of DEFAULT.
    pub default: Option<String>,
    /// What rows written before ADD COLUMN hold here; null when `None` (`attmissingval`).
    pub missing: Option<ConstantValue>,
    pub comment: Option<String>,
    /// `OPTIONS (…)` of a foreign table's column.
    pub foreign_options: BTreeMap<String, String>,
}

impl PartialEq for Column {
    fn eq(&self, other: &Self) -> bool {
        (self.id, &self.name, &self.data_type, self.type_oid, self.type_modifier, self.not_null)
            == (other.id, &other.name, &other.data_type, other.type_oid, other.type_modifier, other.not_null)
            && self.default == other.default
            && self.missing == other.missing
            && self.comment == other.comment
            && self.foreign_options == other.foreign_options
    }
}

/// One value, as an Arrow array of length one.
#[derive(Clone, Debug)]
pub struct ConstantValue(pub ArrayRef);

impl PartialEq for ConstantValue {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_ref() == other.0.as_ref()
    }
}

/// `WATERMARK FOR column AS column - delay [PER (keys)]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Watermark {
    pub column: ColumnId,
    pub delay_us: i64,
    pub per: Vec<ColumnId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    Forever,
    Time { us: i64 },
    Bytes { bytes: u64 },
}

/// `WITH (…)` of CREATE, changed by ALTER … SET.
#[derive(Clone, Debug, PartialEq)]
pub struct RelationOptions {
    pub log_retention: Retention,
    pub log_retention_max: Option<Retention>,
    /// `Time { us: 0 }` = no parts: a row ends with the log.
    pub history_retention: Retention,
    pub idle_timeout_us: i64,
    pub synchronous_commit: Option<bool>,
    /// The options as the user wrote them, for `reloptions`.
    pub given: BTreeMap<String, String>,
}

impl Default for RelationOptions {
    fn default() -> Self {
        Self {
            log_retention: Retention::Time { us: 86_400_000_000 },
            log_retention_max: None,
            history_retention: Retention::Forever,
            idle_timeout_us: 10_000_000,
            synchronous_commit: None,
            given: BTreeMap::new(),
        }
    }
}

/// A foreign server: `CREATE SERVER`. Its name is unique in the database.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// An OID from the same source as relations'.
    pub id: ServerId,
    pub name: String,
    pub owner: String,
    /// The foreign data wrapper's name: `generator`.
    pub wrapper: String,
    pub options: BTreeMap<String, String>,
}

/// Where a foreign table's rows come from.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignSource {
    pub server: ServerId,
    /// The foreign data wrapper's name: `generator`.
    pub wrapper: String,
    /// The server's options, overridden by the table's.
    pub options: BTreeMap<String, String>,
}

impl Relation {
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|c| c.name == name)
    }

    pub fn column_by_id(&self, id: ColumnId) -> Option<&Column> {
        self.columns.iter().find(|c| c.id == id)
    }

    /// Streams and tables hold rows; views and foreign tables do not.
    pub fn is_stored(&self) -> bool {
        matches!(self.kind, RelationKind::Stream | RelationKind::Table)
    }
}
