//! DROP, with what depends on the dropped: RESTRICT names it, CASCADE takes it along.

use std::sync::Arc;

use alluvium_storage::RelationId;
use alluvium_storage::catalog::{Catalog, CatalogEdit, Relation, RelationKind};

use super::names::{Names, SYSTEM_SCHEMAS, undefined_schema};
use super::notices::{Notices, Severity};
use super::{Context, kind_name, matches_kind, object_name};
use crate::engine::{Block, Tag};
use crate::sql::ddl::{ObjectKind, RelationName};
use crate::sql::error::{Result, SqlError, SqlState};

pub async fn relations(
    kind: ObjectKind,
    names: &[RelationName],
    if_exists: bool,
    cascade: bool,
    context: &Context<'_>,
    block: &mut Block,
) -> Result<Tag> {
    let catalog = block.catalog();
    let finder = Names::new(context.session, &catalog);
    let mut targets: Vec<Arc<Relation>> = Vec::new();
    for name in names {
        match finder.find(name)? {
            Some(relation) if matches_kind(relation.kind, kind) => {
                if !targets.iter().any(|t| t.id == relation.id) {
                    targets.push(relation);
                }
            }
            Some(relation) => return Err(wrong_kind(&relation, kind)),
            None if if_exists => skip(finder.missing(kind, name), &mut block.notices),
            None => {
                if let Some(schema) = name.schema.as_deref().filter(|s| SYSTEM_SCHEMAS.contains(s)) {
                    return Err(SqlError::new(
                        SqlState::INSUFFICIENT_PRIVILEGE,
                        format!("permission denied: \"{schema}.{}\" is a system catalog", name.name),
                    ));
                }
                return Err(finder.missing(kind, name));
            }
        }
    }
    let roots = targets.iter().map(|t| format!("{} {}", kind_name(t.kind), finder.shown(t))).collect::<Vec<_>>();
    let dropped = closure(&catalog, &targets);
    drop_all(&finder, &targets, &dropped, &roots, cascade, block).await?;
    Ok(Tag::Text(match kind {
        ObjectKind::Stream => "DROP STREAM",
        ObjectKind::View => "DROP VIEW",
        ObjectKind::ForeignTable => "DROP FOREIGN TABLE",
        _ => "DROP TABLE",
    }))
}

/// The relations that would go too, each with what it reads of those that go, nearest first.
fn closure(catalog: &Catalog, targets: &[Arc<Relation>]) -> Vec<(Arc<Relation>, RelationId)> {
    let mut gone: Vec<RelationId> = targets.iter().map(|t| t.id).collect();
    let mut dependants: Vec<(Arc<Relation>, RelationId)> = Vec::new();
    let mut next = 0;
    while next < gone.len() {
        let id = gone[next];
        next += 1;
        for relation in catalog.relations() {
            if relation.depends_on.contains(&id) && !gone.contains(&relation.id) {
                gone.push(relation.id);
                dependants.push((relation.clone(), id));
            }
        }
    }
    dependants
}

/// `roots` names what was asked for, for the error.
async fn drop_all(
    finder: &Names<'_>,
    targets: &[Arc<Relation>],
    dependants: &[(Arc<Relation>, RelationId)],
    roots: &[String],
    cascade: bool,
    block: &mut Block,
) -> Result<()> {
    let catalog = block.catalog();
    let describe = |r: &Relation| format!("{} {}", kind_name(r.kind), finder.shown(r));
    if !dependants.is_empty() && !cascade {
        let detail: Vec<String> = dependants
            .iter()
            .map(|(relation, on)| {
                let on = catalog.relation(*on).map_or_else(String::new, |r| describe(r));
                format!("{} depends on {on}", describe(relation))
            })
            .collect();
        let what = match roots {
            [one] => format!("cannot drop {one} because other objects depend on it"),
            _ => "cannot drop desired object(s) because other objects depend on them".to_owned(),
        };
        return Err(still_needed(what, &detail));
    }
    let lines: Vec<String> = dependants.iter().map(|(r, _)| format!("drop cascades to {}", describe(r))).collect();
    cascade_notice(&lines, &mut block.notices);
    for relation in dependants.iter().map(|(r, _)| r).rev().chain(targets) {
        block.transaction.edit_catalog(CatalogEdit::DropRelation(relation.id)).await?;
    }
    Ok(())
}

fn still_needed(what: String, detail: &[String]) -> SqlError {
    SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, what)
        .detail(detail.join("\n"))
        .hint("Use DROP ... CASCADE to drop the dependent objects too.")
}

fn cascade_notice(lines: &[String], notices: &mut Notices) {
    match lines {
        [] => {}
        [one] => notices.notice(one.clone()),
        many => {
            let notice = SqlError::new(
                SqlState::SUCCESSFUL_COMPLETION,
                format!("drop cascades to {} other objects", many.len()),
            );
            notices.push(Severity::Notice, notice.detail(many.join("\n")));
        }
    }
}

fn skip(error: SqlError, notices: &mut Notices) {
    notices.notice(format!("{}, skipping", error.fields().message));
}

fn wrong_kind(relation: &Relation, wanted: ObjectKind) -> SqlError {
    let article = |kind: RelationKind| match kind {
        RelationKind::Foreign => "a foreign table",
        RelationKind::Stream => "a stream",
        RelationKind::Table => "a table",
        RelationKind::View => "a view",
    };
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is not a {}", relation.name, object_name(wanted))).hint(
        format!("Use DROP {} to remove {}.", kind_name(relation.kind).to_ascii_uppercase(), article(relation.kind)),
    )
}

pub async fn schemas(
    names: &[RelationName],
    if_exists: bool,
    cascade: bool,
    context: &Context<'_>,
    block: &mut Block,
) -> Result<Tag> {
    for name in names {
        let catalog = block.catalog();
        let finder = Names::new(context.session, &catalog);
        if SYSTEM_SCHEMAS.contains(&name.name.as_str()) {
            return Err(SqlError::new(
                SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                format!("cannot drop schema {} because it is required by the database system", name.name),
            ));
        }
        let Some(schema) = catalog.schema_by_name(&name.name).cloned() else {
            if if_exists {
                skip(undefined_schema(&name.name), &mut block.notices);
                continue;
            }
            return Err(undefined_schema(&name.name));
        };
        let inside: Vec<Arc<Relation>> = catalog.relations().filter(|r| r.schema == schema.id).cloned().collect();
        let outside = closure(&catalog, &inside);
        let describe = |r: &Relation| format!("{} {}", kind_name(r.kind), finder.shown(r));
        if !inside.is_empty() && !cascade {
            let detail: Vec<String> = inside
                .iter()
                .map(|r| format!("{} depends on schema {}", describe(r), schema.name))
                .chain(outside.iter().filter_map(|(r, on)| {
                    Some(format!("{} depends on {}", describe(r), describe(catalog.relation(*on)?)))
                }))
                .collect();
            return Err(still_needed(
                format!("cannot drop schema {} because other objects depend on it", schema.name),
                &detail,
            ));
        }
        let lines: Vec<String> = inside
            .iter()
            .chain(outside.iter().map(|(r, _)| r))
            .map(|r| format!("drop cascades to {}", describe(r)))
            .collect();
        cascade_notice(&lines, &mut block.notices);
        for relation in outside.iter().map(|(r, _)| r).rev().chain(&inside) {
            block.transaction.edit_catalog(CatalogEdit::DropRelation(relation.id)).await?;
        }
        block.transaction.edit_catalog(CatalogEdit::DropSchema(schema.id)).await?;
    }
    Ok(Tag::Text("DROP SCHEMA"))
}

pub async fn servers(
    names: &[RelationName],
    if_exists: bool,
    cascade: bool,
    context: &Context<'_>,
    block: &mut Block,
) -> Result<Tag> {
    for name in names {
        let catalog = block.catalog();
        let finder = Names::new(context.session, &catalog);
        let Some(server) = catalog.server_by_name(&name.name).cloned() else {
            let missing = SqlError::new(SqlState::UNDEFINED_OBJECT, format!("server \"{}\" does not exist", name.name));
            if if_exists {
                skip(missing, &mut block.notices);
                continue;
            }
            return Err(missing);
        };
        let tables: Vec<Arc<Relation>> = catalog
            .relations()
            .filter(|r| r.foreign.as_ref().is_some_and(|f| f.server == server.id))
            .cloned()
            .collect();
        let views = closure(&catalog, &tables);
        let describe = |r: &Relation| format!("{} {}", kind_name(r.kind), finder.shown(r));
        if !tables.is_empty() && !cascade {
            let detail: Vec<String> =
                tables.iter().map(|r| format!("{} depends on server {}", describe(r), server.name)).collect();
            return Err(still_needed(
                format!("cannot drop server {} because other objects depend on it", server.name),
                &detail,
            ));
        }
        let lines: Vec<String> = tables
            .iter()
            .chain(views.iter().map(|(r, _)| r))
            .map(|r| format!("drop cascades to {}", describe(r)))
            .collect();
        cascade_notice(&lines, &mut block.notices);
        for relation in views.iter().map(|(r, _)| r).rev().chain(&tables) {
            block.transaction.edit_catalog(CatalogEdit::DropRelation(relation.id)).await?;
        }
        block.transaction.edit_catalog(CatalogEdit::DropServer(server.id)).await?;
    }
    Ok(Tag::Text("DROP SERVER"))
}
