//! ALTER of relations and schemas. A change of columns is checked against the views over them before it is kept.

use std::sync::Arc;

use alluvium_storage::catalog::{Catalog, CatalogEdit, Column, ConstantValue, Relation, RelationKind, Schema};
use alluvium_storage::{ScanColumn, ScanRequest, SequenceNumber};
use arrow::array::Array;

use super::names::Names;
use super::{Context, check_kind, create, kind_name, not_a, object_name, options, undefined_column_of, view};
use crate::engine::{Block, Tag};
use crate::planning::types::PgType;
use crate::sql::ddl::{AlterAction, ColumnDefinition, ObjectKind, RelationName};
use crate::sql::error::{Result, SqlError, SqlState};

pub async fn relation(
    kind: ObjectKind,
    name: &RelationName,
    if_exists: bool,
    actions: &[AlterAction],
    context: &Context<'_>,
    block: &mut Block,
) -> Result<Tag> {
    let tag = Tag::Text(match kind {
        ObjectKind::Stream => "ALTER STREAM",
        ObjectKind::View => "ALTER VIEW",
        ObjectKind::ForeignTable => "ALTER FOREIGN TABLE",
        _ => "ALTER TABLE",
    });
    let catalog = block.catalog();
    let finder = Names::new(context.session, &catalog);
    let Some(old) = finder.find(name)? else {
        if if_exists {
            let missing = finder.existing(name, true).err();
            let text = missing.map_or_else(String::new, |e| e.fields().message.clone());
            block.notices.notice(format!("{text}, skipping"));
            return Ok(tag);
        }
        return Err(finder.existing(name, true).err().unwrap_or_else(|| not_a(&name.name, object_name(kind))));
    };
    // As in PostgreSQL, ALTER TABLE … RENAME and SET SCHEMA take any relation.
    let lenient = kind == ObjectKind::Table
        && actions.iter().all(|a| {
            matches!(
                a,
                AlterAction::RenameTo(_)
                    | AlterAction::SetSchema(_)
                    | AlterAction::RenameColumn { .. }
                    | AlterAction::OwnerTo(_)
            )
        });
    if !lenient {
        check_kind(&old, kind)?;
    }
    for action in actions {
        let current = block.catalog().relation(old.id).cloned().unwrap_or_else(|| old.clone());
        one(&current, action, context, block).await?;
    }
    Ok(tag)
}

async fn one(old: &Arc<Relation>, action: &AlterAction, context: &Context<'_>, block: &mut Block) -> Result<()> {
    let mut new = (**old).clone();
    match action {
        AlterAction::AddColumn { column, if_not_exists } => {
            need_columns(old)?;
            if !add_column(&mut new, column, *if_not_exists, context, block).await? {
                return Ok(());
            }
            create::put(new, block).await
        }
        AlterAction::DropColumn { name, if_exists, cascade } => {
            need_columns(old)?;
            if old.column(name).is_none() {
                if *if_exists {
                    let message = format!("column \"{name}\" of relation \"{}\" does not exist, skipping", old.name);
                    block.notices.notice(message);
                    return Ok(());
                }
                return Err(undefined_column_of(name, &old.name));
            }
            drop_column(&mut new, name)?;
            create::put(new, block).await?;
            broken_views(old, name, *cascade, context, block).await
        }
        AlterAction::RenameColumn { name, to } => {
            create::check_column_name(to)?;
            if old.column(to).is_some() {
                return Err(SqlError::new(
                    SqlState::DUPLICATE_COLUMN,
                    format!("column \"{to}\" of relation \"{}\" already exists", old.name),
                ));
            }
            let column = new.columns.iter_mut().find(|c| c.name == *name).ok_or_else(|| {
                SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist"))
            })?;
            column.name.clone_from(to);
            create::put(new, block).await?;
            let catalog = block.catalog();
            let finder = Names::new(context.session, &catalog);
            match view::first_broken(old.id, context, block) {
                Some(broken) => Err(SqlError::unsupported(format!(
                    "renaming column \"{name}\", which view {} uses,",
                    finder.shown(&broken)
                ))
                .hint("Drop the view, rename the column, and create the view again.")),
                None => Ok(()),
            }
        }
        AlterAction::RenameTo(to) => {
            let schema =
                RelationName { database: None, schema: Some(names_schema(&block.catalog(), old)), name: to.clone() };
            move_relation(new, &schema, context, block).await
        }
        AlterAction::SetSchema(schema) => {
            let target = RelationName { database: None, schema: Some(schema.clone()), name: old.name.clone() };
            if names_schema(&block.catalog(), old) == *schema {
                return Ok(());
            }
            move_relation(new, &target, context, block).await
        }
        AlterAction::SetOptions(given) => {
            need_stored(old)?;
            for (name, value) in given {
                options::set(&mut new.options, None, name, value, &mut block.notices)?;
            }
            create::put(new, block).await
        }
        AlterAction::ResetOptions(names) => {
            need_stored(old)?;
            for name in names {
                options::reset(&mut new.options, name)?;
            }
            create::put(new, block).await
        }
        AlterAction::SetDefault { column, default } => {
            need_columns(old)?;
            let target = find_column(&mut new, column)?;
            let pg_type = PgType { oid: target.type_oid, modifier: target.type_modifier };
            target.default = match default {
                None => None,
                Some(default) => create::checked_default(default, pg_type, column, context, block)?,
            };
            create::put(new, block).await
        }
        AlterAction::SetNotNull { column, not_null } => {
            need_columns(old)?;
            let target = find_column(&mut new, column)?;
            let check = *not_null && !target.not_null && old.is_stored();
            target.not_null = *not_null;
            if check && holds_null(old, column, context, block).await? {
                return Err(contains_null(column, &old.name));
            }
            create::put(new, block).await
        }
        AlterAction::OwnerTo(owner) => {
            if matches!(owner.as_str(), "current_user" | "session_user" | "current_role") {
                return Ok(());
            }
            create::check_role(owner, context)
        }
    }
}

fn names_schema(catalog: &Catalog, relation: &Relation) -> String {
    catalog.schema(relation.schema).map_or_else(String::new, |s| s.name.clone())
}

fn find_column<'a>(relation: &'a mut Relation, name: &str) -> Result<&'a mut Column> {
    let relation_name = relation.name.clone();
    relation.columns.iter_mut().find(|c| c.name == name).ok_or_else(|| undefined_column_of(name, &relation_name))
}

fn need_columns(relation: &Relation) -> Result<()> {
    match relation.kind {
        RelationKind::View => Err(not_a(&relation.name, "table, stream, or foreign table")),
        _ => Ok(()),
    }
}

fn need_stored(relation: &Relation) -> Result<()> {
    if relation.is_stored() { Ok(()) } else { Err(not_a(&relation.name, "table or stream")) }
}

fn contains_null(column: &str, relation: &str) -> SqlError {
    SqlError::new(
        SqlState::NOT_NULL_VIOLATION,
        format!("column \"{column}\" of relation \"{relation}\" contains null values"),
    )
}

/// False when the column exists and may.
async fn add_column(
    new: &mut Relation,
    written: &ColumnDefinition,
    if_not_exists: bool,
    context: &Context<'_>,
    block: &mut Block,
) -> Result<bool> {
    if new.column(&written.name).is_some() {
        let message = format!("column \"{}\" of relation \"{}\" already exists", written.name, new.name);
        if if_not_exists {
            let notice = SqlError::new(SqlState::DUPLICATE_COLUMN, format!("{message}, skipping"));
            block.notices.push(super::notices::Severity::Notice, notice);
            return Ok(false);
        }
        return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
    }
    let mut column = create::column(written, new.next_column, context, block)?;
    if new.is_stored() {
        let target = PgType { oid: column.type_oid, modifier: column.type_modifier };
        if let (Some(default), Some(_)) = (&written.default, &column.default) {
            let catalog = block.catalog();
            let constant =
                context.queries.constant(&default.expression, target, &written.name, &catalog, context.session)?;
            if constant.volatile {
                return Err(SqlError::unsupported("adding a column with a volatile default")
                    .hint("Add the column without default, then ALTER COLUMN … SET DEFAULT for the rows to come."));
            }
            column.missing = Some(constant.value).filter(|v| v.is_valid(0)).map(ConstantValue);
        }
        if column.not_null && column.missing.is_none() && has_rows(new, context, block).await? {
            return Err(contains_null(&written.name, &new.name));
        }
    }
    create::push_column(new, column)?;
    Ok(true)
}

fn drop_column(new: &mut Relation, name: &str) -> Result<()> {
    let Some(id) = new.column(name).map(|c| c.id) else { return Err(undefined_column_of(name, &new.name)) };
    let used_by = if new.partition_by.contains(&id) {
        Some("its partitioning")
    } else if new.order_by.contains(&id) {
        Some("its order")
    } else if new.watermark.as_ref().is_some_and(|w| w.column == id || w.per.contains(&id)) {
        Some("its watermark")
    } else {
        None
    };
    if let Some(use_) = used_by {
        return Err(SqlError::new(
            SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
            format!("cannot drop column {name} of {} {} because {use_} needs it", kind_name(new.kind), new.name),
        ));
    }
    new.columns.retain(|c| c.id != id);
    Ok(())
}

/// Views that no longer resolve: named, or dropped with CASCADE.
async fn broken_views(
    old: &Relation,
    column: &str,
    cascade: bool,
    context: &Context<'_>,
    block: &mut Block,
) -> Result<()> {
    let mut lines = Vec::new();
    while let Some(broken) = view::first_broken(old.id, context, block) {
        let catalog = block.catalog();
        let finder = Names::new(context.session, &catalog);
        let shown = finder.shown(&broken);
        let table = format!("{} {}", kind_name(old.kind), finder.shown(old));
        if !cascade {
            return Err(SqlError::new(
                SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                format!("cannot drop column {column} of {table} because other objects depend on it"),
            )
            .detail(format!("view {shown} depends on column {column} of {table}"))
            .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        let name =
            RelationName { database: None, schema: Some(finder.schema_name(broken.schema)), name: broken.name.clone() };
        lines.push(format!("drop cascades to view {shown}"));
        super::drop::relations(ObjectKind::View, &[name], false, true, context, block).await?;
    }
    for line in lines {
        block.notices.notice(line);
    }
    Ok(())
}

/// Renames or moves; the views over it follow.
async fn move_relation(mut new: Relation, to: &RelationName, context: &Context<'_>, block: &mut Block) -> Result<()> {
    let catalog = block.catalog();
    let finder = Names::new(context.session, &catalog);
    let schema = finder.schema_for_new(to)?;
    if catalog.relation_by_name(schema.id, &to.name).is_some() {
        let message = if schema.id == new.schema {
            format!("relation \"{}\" already exists", to.name)
        } else {
            format!("relation \"{}\" already exists in schema \"{}\"", to.name, schema.name)
        };
        return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
    }
    let from = (finder.schema_name(new.schema), new.name.clone());
    let id = new.id;
    new.schema = schema.id;
    new.name.clone_from(&to.name);
    create::put(new, block).await?;
    view::follow_rename(
        &[id],
        |schema_name, name| (schema_name == from.0 && name == from.1).then(|| (schema.name.clone(), to.name.clone())),
        block,
    )
    .await
}

pub async fn rename_schema(name: &str, to: &str, context: &Context<'_>, block: &mut Block) -> Result<Tag> {
    let _ = context;
    create::check_schema_name(to)?;
    let catalog = block.catalog();
    let schema = catalog.schema_by_name(name).ok_or_else(|| super::names::undefined_schema(name))?;
    if catalog.schema_by_name(to).is_some() || super::names::SYSTEM_SCHEMAS.contains(&to) {
        return Err(SqlError::new(SqlState::DUPLICATE_SCHEMA, format!("schema \"{to}\" already exists")));
    }
    let new = Schema { name: to.to_owned(), ..(**schema).clone() };
    let inside: Vec<_> = catalog.relations().filter(|r| r.schema == schema.id).map(|r| r.id).collect();
    block.transaction.edit_catalog(CatalogEdit::PutSchema(new)).await?;
    view::follow_rename(
        &inside,
        |schema_name, relation| (schema_name == name).then(|| (to.to_owned(), relation.to_owned())),
        block,
    )
    .await?;
    Ok(Tag::Text("ALTER SCHEMA"))
}

/// Whether a block sees rows of the relation.
async fn has_rows(relation: &Relation, context: &Context<'_>, block: &Block) -> Result<bool> {
    let own = block.transaction.uncommitted(relation.id).await?;
    if own.rows.iter().any(|r| r.num_rows() > 0) {
        return Ok(true);
    }
    if own.truncated || context.store.catalog().relation(relation.id).is_none() {
        return Ok(false);
    }
    let view = context.store.read_view(relation.id, context.store.stable()).await?;
    for partition in &view.partitions {
        let mut scan = partition.scan(ScanRequest {
            columns: vec![ScanColumn::SequenceNumber],
            range: SequenceNumber(0)..SequenceNumber(u64::MAX),
            batch_rows_max: 1,
        });
        if let Some(batch) = scan.next().await?
            && batch.num_rows() > 0
        {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn holds_null(relation: &Relation, column: &str, context: &Context<'_>, block: &Block) -> Result<bool> {
    let own = block.transaction.uncommitted(relation.id).await?;
    let own_null = |batch: &arrow::array::RecordBatch| match batch.column_by_name(column) {
        Some(array) => array.null_count() > 0,
        None => batch.num_rows() > 0,
    };
    if own.rows.iter().any(own_null) {
        return Ok(true);
    }
    let committed = context.store.catalog();
    let Some(id) = committed.relation(relation.id).and_then(|_| relation.column(column)).map(|c| c.id) else {
        return Ok(false);
    };
    if own.truncated {
        return Ok(false);
    }
    let view = context.store.read_view(relation.id, context.store.stable()).await?;
    for partition in &view.partitions {
        let mut scan = partition.scan(ScanRequest {
            columns: vec![ScanColumn::Column(id)],
            range: SequenceNumber(0)..SequenceNumber(u64::MAX),
            batch_rows_max: 8_192,
        });
        while let Some(batch) = scan.next().await? {
            if batch.column(0).null_count() > 0 {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
