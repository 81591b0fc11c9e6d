//! CREATE STREAM, TABLE, SCHEMA, SERVER, FOREIGN TABLE, and tables made of queries.

use std::collections::BTreeMap;
use std::sync::Arc;

use alluvium_storage::catalog::{
    CatalogEdit, Column, ForeignSource, Relation, RelationKind, RelationOptions, Schema, Server, Watermark,
};
use alluvium_storage::{ColumnId, RelationId, SchemaId, ServerId};
use arrow::array::RecordBatch;
use futures::StreamExt;
use sqlparser::ast;

use super::names::{SYSTEM_SCHEMAS, quote_name};
use super::{Context, Names, options};
use crate::engine::{Block, Tag};
use crate::planning::datetime::parse_interval;
use crate::planning::types::{PgType, arrow_type, format_type, from_sql, oid};
use crate::sql::ddl::{
    ColumnDefinition, CreateAs, CreateForeignTable, CreateRelation, DefaultDefinition, ObjectKind, RelationName,
    WatermarkDefinition,
};
use crate::sql::error::{Result, SqlError, SqlState};

/// As PostgreSQL: more do not fit.
const COLUMNS_MAX: usize = 1_600;
/// Never a user's column.
pub const HIDDEN_COLUMNS: &[&str] = &["_sn", "_partition", "_arrived", "_watermark"];

pub async fn relation(c: &CreateRelation, context: &Context<'_>, block: &mut Block) -> Result<Tag> {
    let tag = Tag::Text(if c.kind == ObjectKind::Stream { "CREATE STREAM" } else { "CREATE TABLE" });
    let Some(mut new) = begin(&c.name, c.if_not_exists, context, block)? else { return Ok(tag) };
    new.kind = if c.kind == ObjectKind::Stream { RelationKind::Stream } else { RelationKind::Table };
    let mut definitions: Vec<Definition<'_>> = c.columns.iter().map(Definition::Written).collect();
    for (at, source) in c.like.iter().rev() {
        let source = Names::new(context.session, &block.catalog()).existing(source, true)?;
        let copies = source.columns.iter().cloned().map(|column| Definition::Copied(Box::new(column)));
        definitions.splice(at..at, copies);
    }
    add_columns(&mut new, definitions, context, block)?;
    new.partitions = u32::from(context.store.shard_count());
    for (name, value) in &c.options {
        if new.options.given.contains_key(name) {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("parameter \"{name}\" specified more than once"),
            ));
        }
        options::set(&mut new.options, Some(&mut new.partitions), name, value, &mut block.notices)?;
    }
    new.partition_by = key_columns(&new, &c.partition_by, "PARTITION BY")?;
    new.order_by = key_columns(&new, &c.order_by, "ORDER BY")?;
    new.watermark = c.watermark.as_ref().map(|w| watermark(&new, w)).transpose()?;
    put(new, block).await?;
    Ok(tag)
}

/// An empty relation of that name, or `None` when it exists and may (a NOTICE is left).
pub(super) fn begin(
    name: &RelationName,
    if_not_exists: bool,
    context: &Context<'_>,
    block: &mut Block,
) -> Result<Option<Relation>> {
    let catalog = block.catalog();
    let schema = Names::new(context.session, &catalog).schema_for_new(name)?;
    if catalog.relation_by_name(schema.id, &name.name).is_some() {
        let message = format!("relation \"{}\" already exists", name.name);
        if if_not_exists {
            let notice = SqlError::new(SqlState::DUPLICATE_TABLE, format!("{message}, skipping"));
            block.notices.push(super::notices::Severity::Notice, notice);
            return Ok(None);
        }
        return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
    }
    Ok(Some(Relation {
        id: RelationId(block.transaction.allocate_oid()),
        schema: schema.id,
        name: name.name.clone(),
        kind: RelationKind::Table,
        owner: context.session.user.to_string(),
        columns: Vec::new(),
        next_column: ColumnId(1),
        partitions: 0,
        partition_by: Vec::new(),
        order_by: Vec::new(),
        watermark: None,
        options: RelationOptions::default(),
        query: String::new(),
        depends_on: Vec::new(),
        foreign: None,
        comment: None,
    }))
}

pub(super) async fn put(relation: Relation, block: &mut Block) -> Result<()> {
    Ok(block.transaction.edit_catalog(CatalogEdit::PutRelation(Box::new(relation))).await?)
}

enum Definition<'a> {
    Written(&'a ColumnDefinition),
    /// From LIKE.
    Copied(Box<Column>),
}

fn add_columns(
    relation: &mut Relation,
    definitions: Vec<Definition<'_>>,
    context: &Context<'_>,
    block: &Block,
) -> Result<()> {
    for definition in definitions {
        let column = match definition {
            Definition::Written(written) => column(written, relation.next_column, context, block)?,
            Definition::Copied(source) => Column {
                id: relation.next_column,
                // LIKE copies names, types and NOT NULL; defaults and comments only where asked for, which is not kept.
                default: None,
                missing: None,
                comment: None,
                foreign_options: BTreeMap::new(),
                ..*source
            },
        };
        push_column(relation, column)?;
    }
    Ok(())
}

pub(super) fn push_column(relation: &mut Relation, column: Column) -> Result<()> {
    if relation.columns.iter().any(|c| c.name == column.name) {
        return Err(SqlError::new(
            SqlState::DUPLICATE_COLUMN,
            format!("column \"{}\" specified more than once", column.name),
        ));
    }
    if relation.columns.len() >= COLUMNS_MAX || column.id.0 == u16::MAX {
        return Err(SqlError::new(
            SqlState::TOO_MANY_COLUMNS,
            format!("tables can have at most {COLUMNS_MAX} columns"),
        ));
    }
    relation.next_column = ColumnId(column.id.0 + 1);
    relation.columns.push(column);
    Ok(())
}

pub(super) fn check_column_name(name: &str) -> Result<()> {
    if HIDDEN_COLUMNS.contains(&name) {
        return Err(SqlError::new(
            SqlState::DUPLICATE_COLUMN,
            format!("column name \"{name}\" conflicts with a system column name"),
        ));
    }
    Ok(())
}

/// A column as written: type and default checked.
pub(super) fn column(written: &ColumnDefinition, id: ColumnId, context: &Context<'_>, block: &Block) -> Result<Column> {
    check_column_name(&written.name)?;
    let at = |e: SqlError| e.position(written.type_position);
    let pg_type = from_sql(&written.data_type).map_err(at)?;
    let mut column = plain_column(&written.name, pg_type, id)?;
    column.not_null = written.not_null;
    column.default = match &written.default {
        None => None,
        Some(default) => checked_default(default, pg_type, &written.name, context, block)?,
    };
    Ok(column)
}

/// A nullable column without default.
pub(super) fn plain_column(name: &str, pg_type: PgType, id: ColumnId) -> Result<Column> {
    let pseudo = matches!(pg_type.oid, oid::UNKNOWN | oid::RECORD | oid::VOID | oid::ANYARRAY);
    let data_type = arrow_type(pg_type).filter(|_| !pseudo).ok_or_else(|| {
        SqlError::new(
            SqlState::INVALID_TABLE_DEFINITION,
            format!("column \"{name}\" has pseudo-type {}", format_type(pg_type)),
        )
    })?;
    Ok(Column {
        id,
        name: name.to_owned(),
        data_type,
        type_oid: pg_type.oid,
        type_modifier: pg_type.modifier,
        not_null: false,
        default: None,
        missing: None,
        comment: None,
        foreign_options: BTreeMap::new(),
    })
}

/// The text of a DEFAULT that yields the column's type; `None` for DEFAULT NULL.
pub(super) fn checked_default(
    default: &DefaultDefinition,
    pg_type: PgType,
    column: &str,
    context: &Context<'_>,
    block: &Block,
) -> Result<Option<String>> {
    check_default_expression(&default.expression)?;
    if matches!(&default.expression, ast::Expr::Value(v) if v.value == ast::Value::Null) {
        return Ok(None);
    }
    context.queries.constant(&default.expression, pg_type, column, &block.catalog(), context.session).map_err(|e| {
        match e.state() {
            SqlState::DATATYPE_MISMATCH => SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                e.fields().message.replacen("but expression", "but default expression", 1),
            )
            .hint("You will need to rewrite or cast the expression."),
            _ => e,
        }
    })?;
    Ok(Some(default.text.clone()))
}

/// What a DEFAULT may not hold, in PostgreSQL's words.
fn check_default_expression(expression: &ast::Expr) -> Result<()> {
    use std::ops::ControlFlow;
    let mut refusal = None;
    let _ = ast::visit_expressions(expression, |e| {
        let message = match e {
            ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_) => {
                "cannot use column reference in DEFAULT expression"
            }
            ast::Expr::Subquery(_) | ast::Expr::Exists { .. } | ast::Expr::InSubquery { .. } => {
                "cannot use subquery in DEFAULT expression"
            }
            ast::Expr::Function(f) if f.over.is_some() => "window functions are not allowed in DEFAULT expressions",
            ast::Expr::Value(v) if matches!(v.value, ast::Value::Placeholder(_)) => {
                "cannot use parameters in DEFAULT expression"
            }
            _ => return ControlFlow::Continue(()),
        };
        let state = if message.starts_with("window") { SqlState("42P20") } else { SqlState::FEATURE_NOT_SUPPORTED };
        refusal = Some(SqlError::new(state, message));
        ControlFlow::Break(())
    });
    refusal.map_or(Ok(()), Err)
}

fn key_columns(relation: &Relation, names: &[String], clause: &str) -> Result<Vec<ColumnId>> {
    let mut ids = Vec::new();
    for name in names {
        let column = relation.column(name).ok_or_else(|| {
            SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" named in {clause} does not exist"))
        })?;
        if ids.contains(&column.id) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{name}\" appears twice in {clause}"),
            ));
        }
        ids.push(column.id);
    }
    Ok(ids)
}

/// `WATERMARK FOR ts AS ts [- INTERVAL '5 s']`
fn watermark(relation: &Relation, w: &WatermarkDefinition) -> Result<Watermark> {
    let column = relation.column(&w.column).ok_or_else(|| {
        SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{}\" named in WATERMARK does not exist", w.column))
    })?;
    if !matches!(column.type_oid, oid::TIMESTAMP | oid::TIMESTAMPTZ) {
        return Err(SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!(
                "column \"{}\" of a WATERMARK is of type {}",
                w.column,
                format_type(PgType { oid: column.type_oid, modifier: column.type_modifier })
            ),
        )
        .hint("Use a column of type timestamptz or timestamp."));
    }
    let form = || {
        SqlError::unsupported("this form of WATERMARK")
            .hint(format!("Write WATERMARK FOR {0} AS {0} - INTERVAL '5 s'.", quote_name(&w.column)))
    };
    let names_column = |e: &ast::Expr| matches!(e, ast::Expr::Identifier(i) if i.value == w.column);
    let delay_us = match &w.expression {
        e if names_column(e) => 0,
        ast::Expr::BinaryOp { left, op: ast::BinaryOperator::Minus, right } if names_column(left) => {
            constant_interval_us(right).ok_or_else(form)??
        }
        _ => return Err(form()),
    };
    if delay_us < 0 {
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "the delay of a WATERMARK must not be negative"));
    }
    let per = key_columns(relation, &w.per, "WATERMARK … PER")?;
    if per.iter().any(|key| !relation.partition_by.contains(key)) {
        return Err(SqlError::new(
            SqlState::INVALID_TABLE_DEFINITION,
            "WATERMARK … PER needs the relation to be partitioned by its columns",
        )
        .hint("Add PARTITION BY with the same columns."));
    }
    Ok(Watermark { column: column.id, delay_us, per })
}

/// A literal interval without months, in microseconds; `None` if the expression is no literal.
fn constant_interval_us(expression: &ast::Expr) -> Option<Result<i64>> {
    let (text, unit) = match expression {
        ast::Expr::Interval(i) => (literal_text(&i.value)?, i.leading_field.as_ref().map(|f| f.to_string())),
        ast::Expr::Cast { expr, data_type: ast::DataType::Interval { .. }, .. } => (literal_text(expr)?, None),
        _ => return None,
    };
    Some(parse_interval(&text, unit.as_deref()).and_then(|interval| {
        if interval.months != 0 {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "the delay of a WATERMARK must not contain months or years",
            ));
        }
        Ok(i64::from(interval.days) * 86_400_000_000 + interval.nanoseconds / 1_000)
    }))
}

fn literal_text(expression: &ast::Expr) -> Option<String> {
    match expression {
        ast::Expr::Value(v) => match &v.value {
            ast::Value::SingleQuotedString(s) | ast::Value::EscapedStringLiteral(s) => Some(s.clone()),
            ast::Value::Number(n, _) => Some(n.clone()),
            _ => None,
        },
        _ => None,
    }
}

pub async fn table_as(c: &CreateAs, context: &Context<'_>, block: &mut Block) -> Result<Tag> {
    let Some(mut new) = begin(&c.name, c.if_not_exists, context, block)? else {
        return Ok(Tag::Text("CREATE TABLE AS"));
    };
    let described = context.queries.describe(&c.query, &block.catalog(), context.session)?;
    if c.columns.len() > described.columns.len() {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "too many column names were specified"));
    }
    for (index, from) in described.columns.iter().enumerate() {
        let name = c.columns.get(index).unwrap_or(&from.name);
        check_column_name(name)?;
        let pg_type = if from.pg_type.oid == oid::UNKNOWN { PgType::of(oid::TEXT) } else { from.pg_type };
        let column = plain_column(name, pg_type, new.next_column)?;
        push_column(&mut new, column)?;
    }
    new.partitions = u32::from(context.store.shard_count());
    for (name, value) in &c.options {
        options::set(&mut new.options, Some(&mut new.partitions), name, value, &mut block.notices)?;
    }
    // The query sees the catalog before the table: `CREATE TABLE t AS SELECT … FROM t` reads another t, or none.
    let rows =
        if c.with_data { Some(context.queries.run(&c.query, &[], context.session, block).await?.1) } else { None };
    put(new.clone(), block).await?;
    let relation = Arc::new(new);
    let mut count = 0u64;
    if let Some(mut rows) = rows {
        while let Some(batch) = rows.next().await {
            let batch = conform(&relation, &batch?)?;
            count += batch.num_rows() as u64;
            block.transaction.append(&relation, batch).await?;
        }
    }
    Ok(if c.with_data { Tag::Selected(count) } else { Tag::Text("CREATE TABLE AS") })
}

/// A query's rows under the relation's names, column by column.
fn conform(relation: &Relation, batch: &RecordBatch) -> Result<RecordBatch> {
    let mut fields = Vec::new();
    let mut columns = Vec::new();
    for (column, array) in relation.columns.iter().zip(batch.columns()) {
        let array = if array.data_type() == &column.data_type {
            array.clone()
        } else {
            arrow::compute::cast(array, &column.data_type)
                .map_err(|e| SqlError::new(SqlState::INTERNAL_ERROR, format!("column \"{}\": {e}", column.name)))?
        };
        fields.push(arrow::datatypes::Field::new(&column.name, column.data_type.clone(), true));
        columns.push(array);
    }
    let schema = Arc::new(arrow::datatypes::Schema::new(fields));
    let count = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema, columns, &count)
        .map_err(|e| SqlError::new(SqlState::INTERNAL_ERROR, e.to_string()))
}

pub async fn schema(
    name: &str,
    if_not_exists: bool,
    owner: Option<&str>,
    context: &Context<'_>,
    block: &mut Block,
) -> Result<Tag> {
    if let Some(owner) = owner.filter(|o| !matches!(*o, "current_user" | "session_user" | "current_role")) {
        check_role(owner, context)?;
    }
    let tag = Tag::Text("CREATE SCHEMA");
    check_schema_name(name)?;
    let exists = SYSTEM_SCHEMAS.contains(&name) || block.catalog().schema_by_name(name).is_some();
    if exists {
        let message = format!("schema \"{name}\" already exists");
        if if_not_exists {
            let notice = SqlError::new(SqlState::DUPLICATE_SCHEMA, format!("{message}, skipping"));
            block.notices.push(super::notices::Severity::Notice, notice);
            return Ok(tag);
        }
        return Err(SqlError::new(SqlState::DUPLICATE_SCHEMA, message));
    }
    let id = SchemaId(block.transaction.allocate_oid());
    let schema = Schema { id, name: name.to_owned(), owner: context.session.user.to_string() };
    block.transaction.edit_catalog(CatalogEdit::PutSchema(schema)).await?;
    Ok(tag)
}

pub(super) fn check_schema_name(name: &str) -> Result<()> {
    if name.starts_with("pg_") {
        return Err(SqlError::new(SqlState("42939"), format!("unacceptable schema name \"{name}\""))
            .detail("The prefix \"pg_\" is reserved for system schemas."));
    }
    Ok(())
}

pub(super) fn check_role(name: &str, context: &Context<'_>) -> Result<()> {
    if *name == *context.session.user || name == "postgres" {
        return Ok(());
    }
    Err(SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist")))
}

pub async fn server(
    name: &str,
    if_not_exists: bool,
    wrapper: &str,
    options: &[(String, String)],
    context: &Context<'_>,
    block: &mut Block,
) -> Result<Tag> {
    let tag = Tag::Text("CREATE SERVER");
    if block.catalog().server_by_name(name).is_some() {
        let message = format!("server \"{name}\" already exists");
        if if_not_exists {
            let notice = SqlError::new(SqlState::DUPLICATE_OBJECT, format!("{message}, skipping"));
            block.notices.push(super::notices::Severity::Notice, notice);
            return Ok(tag);
        }
        return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
    }
    if context.registry.connector(wrapper).is_none() {
        return Err(if matches!(wrapper, "kafka" | "alluvium" | "file" | "webhook") {
            SqlError::unsupported(format!("foreign data wrapper \"{wrapper}\"")).hint("Use the wrapper generator.")
        } else {
            SqlError::new(SqlState::UNDEFINED_OBJECT, format!("foreign-data wrapper \"{wrapper}\" does not exist"))
        });
    }
    let server = Server {
        id: ServerId(block.transaction.allocate_oid()),
        name: name.to_owned(),
        owner: context.session.user.to_string(),
        wrapper: wrapper.to_owned(),
        options: options.iter().cloned().collect(),
    };
    block.transaction.edit_catalog(CatalogEdit::PutServer(server)).await?;
    Ok(tag)
}

pub async fn foreign_table(f: &CreateForeignTable, context: &Context<'_>, block: &mut Block) -> Result<Tag> {
    let tag = Tag::Text("CREATE FOREIGN TABLE");
    let Some(mut new) = begin(&f.name, f.if_not_exists, context, block)? else { return Ok(tag) };
    new.kind = RelationKind::Foreign;
    let server =
        block.catalog().server_by_name(&f.server).cloned().ok_or_else(|| {
            SqlError::new(SqlState::UNDEFINED_OBJECT, format!("server \"{}\" does not exist", f.server))
        })?;
    for written in &f.columns {
        let mut made = column(written, new.next_column, context, block)?;
        made.foreign_options = written.foreign_options.iter().cloned().collect();
        push_column(&mut new, made)?;
    }
    let mut all = server.options.clone();
    all.extend(f.options.iter().cloned());
    new.foreign = Some(ForeignSource { server: server.id, wrapper: server.wrapper.clone(), options: all });
    new.watermark = f.watermark.as_ref().map(|w| watermark(&new, w)).transpose()?;
    let connector = context
        .registry
        .connector(&server.wrapper)
        .ok_or_else(|| SqlError::unsupported(format!("foreign data wrapper \"{}\"", server.wrapper)))?;
    connector.validate(&new)?;
    put(new, block).await?;
    Ok(tag)
}
