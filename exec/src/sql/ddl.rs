//! The shapes of statements that change the catalog or empty a relation. Names are folded; nothing is resolved.

use sqlparser::ast;

use super::error::{Result, SqlError, SqlState};

#[derive(Clone, Debug)]
pub enum Ddl {
    CreateRelation(CreateRelation),
    /// CREATE TABLE … AS and SELECT … INTO.
    CreateTableAs(CreateAs),
    CreateView(CreateView),
    CreateSchema {
        name: String,
        if_not_exists: bool,
        owner: Option<String>,
    },
    CreateServer {
        name: String,
        if_not_exists: bool,
        wrapper: String,
        options: Vec<(String, String)>,
    },
    CreateForeignTable(CreateForeignTable),
    Drop {
        kind: ObjectKind,
        names: Vec<RelationName>,
        if_exists: bool,
        cascade: bool,
    },
    AlterRelation {
        kind: ObjectKind,
        name: RelationName,
        if_exists: bool,
        actions: Vec<AlterAction>,
    },
    /// ALTER SCHEMA … RENAME TO.
    RenameSchema {
        name: String,
        to: String,
    },
    Truncate {
        names: Vec<RelationName>,
        cascade: bool,
    },
    Comment {
        on: CommentTarget,
        text: Option<String>,
    },
    /// VACUUM and ANALYZE: names are checked, the work is done by the server itself as it goes.
    Maintain {
        vacuum: bool,
        analyze: bool,
        names: Vec<(RelationName, Vec<String>)>,
    },
}

/// `[[database.]schema.]name`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RelationName {
    pub database: Option<String>,
    pub schema: Option<String>,
    pub name: String,
}

impl RelationName {
    pub fn from_ast(name: &ast::ObjectName) -> Result<Self> {
        let mut parts = Vec::new();
        for part in &name.0 {
            match part {
                ast::ObjectNamePart::Identifier(ident) => parts.push(ident.value.clone()),
                ast::ObjectNamePart::Function(_) => {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("improper relation name: {name}")));
                }
            }
        }
        let mut parts = parts.into_iter().rev();
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(name), schema, database, None) => Ok(Self { database, schema, name }),
            _ => Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("improper qualified name (too many dotted names): {name}"),
            )),
        }
    }
}

impl std::fmt::Display for RelationName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for part in [&self.database, &self.schema].into_iter().flatten() {
            write!(f, "{part}.")?;
        }
        f.write_str(&self.name)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    Stream,
    Table,
    View,
    ForeignTable,
    Schema,
    Server,
}

#[derive(Clone, Debug)]
pub struct CreateRelation {
    /// Stream or table.
    pub kind: ObjectKind,
    pub name: RelationName,
    pub if_not_exists: bool,
    pub columns: Vec<ColumnDefinition>,
    /// `LIKE source` elements: where in `columns` the source's columns go.
    pub like: Vec<(usize, RelationName)>,
    pub watermark: Option<WatermarkDefinition>,
    pub partition_by: Vec<String>,
    pub order_by: Vec<String>,
    pub options: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
pub struct ColumnDefinition {
    pub name: String,
    pub data_type: ast::DataType,
    /// Character position of the type in the text.
    pub type_position: usize,
    pub not_null: bool,
    pub default: Option<DefaultDefinition>,
    /// `OPTIONS (…)` of a foreign table's column.
    pub foreign_options: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
pub struct DefaultDefinition {
    pub expression: ast::Expr,
    /// As written.
    pub text: String,
}

/// `WATERMARK FOR column AS column - delay [PER (keys)]`
#[derive(Clone, Debug)]
pub struct WatermarkDefinition {
    pub column: String,
    pub expression: ast::Expr,
    pub per: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct CreateAs {
    pub name: RelationName,
    pub if_not_exists: bool,
    pub columns: Vec<String>,
    pub options: Vec<(String, String)>,
    pub with_data: bool,
    pub query: ast::Query,
    pub select_into: bool,
}

#[derive(Clone, Debug)]
pub struct CreateView {
    pub name: RelationName,
    pub or_replace: bool,
    pub columns: Vec<String>,
    pub query: ast::Query,
    /// The query as written.
    pub text: String,
}

#[derive(Clone, Debug)]
pub struct CreateForeignTable {
    pub name: RelationName,
    pub if_not_exists: bool,
    pub columns: Vec<ColumnDefinition>,
    pub watermark: Option<WatermarkDefinition>,
    pub server: String,
    pub options: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
pub enum AlterAction {
    AddColumn { column: ColumnDefinition, if_not_exists: bool },
    DropColumn { name: String, if_exists: bool, cascade: bool },
    RenameColumn { name: String, to: String },
    RenameTo(String),
    SetSchema(String),
    SetOptions(Vec<(String, String)>),
    ResetOptions(Vec<String>),
    SetDefault { column: String, default: Option<DefaultDefinition> },
    SetNotNull { column: String, not_null: bool },
    OwnerTo(String),
}

#[derive(Clone, Debug)]
pub enum CommentTarget {
    Relation(ObjectKind, RelationName),
    Column { relation: RelationName, column: String },
}
