//! Statements that change the catalog or empty a relation, carried out in a block: they become true with its COMMIT.
//! Owns PostgreSQL's rules about names, kinds and dependants; asks [`Queries`] about queries and expressions.
//! Runs on a compute thread; a block has one statement at a time.

mod alter;
mod create;
mod drop;
mod names;
mod notices;
mod options;
mod queries;
#[cfg(test)]
mod tests;
mod view;

use alluvium_storage::Store;
use alluvium_storage::catalog::{CatalogEdit, Relation, RelationKind};

pub use names::Names;
pub use notices::{Notices, Severity};
pub use queries::{Constant, Described, Queries};

use crate::engine::{Block, Tag};
use crate::planning::virtual_relation::Registry;
use crate::session_context::SessionContext;
use crate::sql::ddl::{CommentTarget, Ddl, ObjectKind};
use crate::sql::error::{Result, SqlError, SqlState};

/// What a statement works with, beside its block.
pub struct Context<'a> {
    pub session: &'a SessionContext,
    pub store: &'a Store,
    pub registry: &'a Registry,
    pub queries: &'a dyn Queries,
}

/// Carries out one statement. On error the block is to be rolled back, or to a savepoint.
pub async fn execute(ddl: &Ddl, context: &Context<'_>, block: &mut Block) -> Result<Tag> {
    if block.read_only {
        return Err(SqlError::new(
            SqlState::READ_ONLY_SQL_TRANSACTION,
            format!("cannot execute {} in a read-only transaction", tag_text(ddl)),
        ));
    }
    match ddl {
        Ddl::CreateRelation(c) => create::relation(c, context, block).await,
        Ddl::CreateTableAs(c) => create::table_as(c, context, block).await,
        Ddl::CreateView(v) => view::create(v, context, block).await,
        Ddl::CreateSchema { name, if_not_exists, owner } => {
            create::schema(name, *if_not_exists, owner.as_deref(), context, block).await
        }
        Ddl::CreateServer { name, if_not_exists, wrapper, options } => {
            create::server(name, *if_not_exists, wrapper, options, context, block).await
        }
        Ddl::CreateForeignTable(f) => create::foreign_table(f, context, block).await,
        Ddl::Drop { kind: ObjectKind::Schema, names, if_exists, cascade } => {
            drop::schemas(names, *if_exists, *cascade, context, block).await
        }
        Ddl::Drop { kind: ObjectKind::Server, names, if_exists, cascade } => {
            drop::servers(names, *if_exists, *cascade, context, block).await
        }
        Ddl::Drop { kind, names, if_exists, cascade } => {
            drop::relations(*kind, names, *if_exists, *cascade, context, block).await
        }
        Ddl::AlterRelation { kind, name, if_exists, actions } => {
            alter::relation(*kind, name, *if_exists, actions, context, block).await
        }
        Ddl::RenameSchema { name, to } => alter::rename_schema(name, to, context, block).await,
        Ddl::Truncate { names, .. } => {
            for name in names {
                let relation = Names::new(context.session, &block.catalog()).existing(name, true)?;
                match relation.kind {
                    RelationKind::Stream | RelationKind::Table => {}
                    RelationKind::Foreign => {
                        return Err(SqlError::unsupported(format!("truncating foreign table \"{}\"", relation.name)));
                    }
                    RelationKind::View => return Err(not_a(&relation.name, "table")),
                }
                block.transaction.truncate(&relation).await?;
            }
            Ok(Tag::Text("TRUNCATE TABLE"))
        }
        Ddl::Comment { on, text } => comment(on, text.as_ref(), context, block).await,
        Ddl::Maintain { names, .. } => {
            for (name, columns) in names {
                let relation = Names::new(context.session, &block.catalog()).existing(name, true)?;
                for column in columns {
                    if relation.column(column).is_none() {
                        return Err(undefined_column_of(column, &relation.name));
                    }
                }
                if !relation.is_stored() {
                    block.notices.warning(format!("skipping \"{}\" --- cannot vacuum non-tables", relation.name));
                }
            }
            Ok(Tag::Text(tag_text(ddl)))
        }
    }
}

/// What CommandComplete says for the statement.
pub fn tag_text(ddl: &Ddl) -> &'static str {
    match ddl {
        Ddl::CreateRelation(c) if c.kind == ObjectKind::Stream => "CREATE STREAM",
        Ddl::CreateRelation(_) => "CREATE TABLE",
        Ddl::CreateTableAs(c) if c.select_into => "SELECT INTO",
        Ddl::CreateTableAs(_) => "CREATE TABLE AS",
        Ddl::CreateView(_) => "CREATE VIEW",
        Ddl::CreateSchema { .. } => "CREATE SCHEMA",
        Ddl::CreateServer { .. } => "CREATE SERVER",
        Ddl::CreateForeignTable(_) => "CREATE FOREIGN TABLE",
        Ddl::Drop { kind, .. } => match kind {
            ObjectKind::Stream => "DROP STREAM",
            ObjectKind::Table => "DROP TABLE",
            ObjectKind::View => "DROP VIEW",
            ObjectKind::ForeignTable => "DROP FOREIGN TABLE",
            ObjectKind::Schema => "DROP SCHEMA",
            ObjectKind::Server => "DROP SERVER",
        },
        Ddl::AlterRelation { kind, .. } => match kind {
            ObjectKind::Stream => "ALTER STREAM",
            ObjectKind::View => "ALTER VIEW",
            ObjectKind::ForeignTable => "ALTER FOREIGN TABLE",
            _ => "ALTER TABLE",
        },
        Ddl::RenameSchema { .. } => "ALTER SCHEMA",
        Ddl::Truncate { .. } => "TRUNCATE TABLE",
        Ddl::Comment { .. } => "COMMENT",
        Ddl::Maintain { vacuum: true, .. } => "VACUUM",
        Ddl::Maintain { .. } => "ANALYZE",
    }
}

async fn comment(on: &CommentTarget, text: Option<&String>, context: &Context<'_>, block: &mut Block) -> Result<Tag> {
    let catalog = block.catalog();
    let names = Names::new(context.session, &catalog);
    let mut relation = match on {
        CommentTarget::Relation(kind, name) => {
            let relation = names.existing(name, true)?;
            check_kind(&relation, *kind)?;
            Relation { comment: text.cloned(), ..(*relation).clone() }
        }
        CommentTarget::Column { relation, .. } => (*names.existing(relation, true)?).clone(),
    };
    if let CommentTarget::Column { column, .. } = on {
        let name = relation.name.clone();
        let column = relation
            .columns
            .iter_mut()
            .find(|c| c.name == *column)
            .ok_or_else(|| undefined_column_of(column, &name))?;
        column.comment = text.cloned();
    }
    block.transaction.edit_catalog(CatalogEdit::PutRelation(Box::new(relation))).await?;
    Ok(Tag::Text("COMMENT"))
}

/// The kind's name in messages.
fn kind_name(kind: RelationKind) -> &'static str {
    match kind {
        RelationKind::Stream => "stream",
        RelationKind::Table => "table",
        RelationKind::View => "view",
        RelationKind::Foreign => "foreign table",
    }
}

fn matches_kind(relation: RelationKind, kind: ObjectKind) -> bool {
    matches!(
        (relation, kind),
        (RelationKind::Stream, ObjectKind::Stream)
            | (RelationKind::Table, ObjectKind::Table)
            | (RelationKind::View, ObjectKind::View)
            | (RelationKind::Foreign, ObjectKind::ForeignTable)
    )
}

fn object_name(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Stream => "stream",
        ObjectKind::Table => "table",
        ObjectKind::View => "view",
        ObjectKind::ForeignTable => "foreign table",
        ObjectKind::Schema => "schema",
        ObjectKind::Server => "server",
    }
}

fn check_kind(relation: &Relation, kind: ObjectKind) -> Result<()> {
    if matches_kind(relation.kind, kind) { Ok(()) } else { Err(not_a(&relation.name, object_name(kind))) }
}

fn not_a(name: &str, kind: &str) -> SqlError {
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not a {kind}"))
}

fn undefined_column_of(column: &str, relation: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{column}\" of relation \"{relation}\" does not exist"))
}
