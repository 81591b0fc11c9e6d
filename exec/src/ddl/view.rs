//! CREATE VIEW, and what keeps a view's stored query meaning what it meant.
//! The stored text is frozen: relations are named with their schema and an alias, `*` is written out, so that neither
//! `search_path` nor ADD COLUMN nor RENAME of a relation changes the view.

use std::ops::ControlFlow;
use std::sync::Arc;

use alluvium_storage::RelationId;
use alluvium_storage::catalog::{Catalog, Relation, RelationKind};
use sqlparser::ast;

use super::names::Names;
use super::{Context, create, not_a};
use crate::engine::{Block, ColumnDescription, Tag};
use crate::planning::types::{PgType, format_type, oid};
use crate::sql::ddl::{CreateView, RelationName};
use crate::sql::error::{Result, SqlError, SqlState};

pub async fn create(v: &CreateView, context: &Context<'_>, block: &mut Block) -> Result<Tag> {
    let tag = Tag::Text("CREATE VIEW");
    let catalog = block.catalog();
    let names = Names::new(context.session, &catalog);
    let schema = names.schema_for_new(&v.name)?;
    let old = catalog.relation_by_name(schema.id, &v.name.name).cloned();
    let replaced = match old {
        Some(old) if v.or_replace && old.kind == RelationKind::View => Some(old),
        Some(old) if v.or_replace => return Err(not_a(&old.name, "view")),
        _ => None,
    };
    let mut query = v.query.clone();
    freeze(&mut query, context, &catalog)?;
    let described = context.queries.describe(&query, &catalog, context.session)?;
    if v.columns.len() > described.columns.len() {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "CREATE VIEW specifies more column names than columns"));
    }
    let mut new = match &replaced {
        Some(old) => Relation { columns: Vec::new(), next_column: alluvium_storage::ColumnId(1), ..(**old).clone() },
        None => {
            let Some(new) = create::begin(&v.name, false, context, block)? else { return Ok(tag) };
            new
        }
    };
    if described.reads.contains(&new.id) {
        return Err(SqlError::new(
            SqlState::INVALID_OBJECT_DEFINITION,
            format!("infinite recursion detected in rules for relation \"{}\"", new.name),
        ));
    }
    new.kind = RelationKind::View;
    for (index, from) in described.columns.iter().enumerate() {
        let name = v.columns.get(index).unwrap_or(&from.name);
        create::check_column_name(name)?;
        let column = create::plain_column(name, stored_type(from), new.next_column)?;
        create::push_column(&mut new, column)?;
    }
    if let Some(old) = &replaced {
        check_replacement(old, &mut new)?;
    }
    new.query = query.to_string();
    new.depends_on = described.reads;
    create::put(new, block).await?;
    Ok(tag)
}

fn stored_type(column: &ColumnDescription) -> PgType {
    if column.pg_type.oid == oid::UNKNOWN { PgType::of(oid::TEXT) } else { column.pg_type }
}

/// A replacement keeps the columns that were, and may add some behind.
fn check_replacement(old: &Relation, new: &mut Relation) -> Result<()> {
    let refuse = |message: String| Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
    if new.columns.len() < old.columns.len() {
        return refuse("cannot drop columns from view".to_owned());
    }
    for (was, is) in old.columns.iter().zip(&mut new.columns) {
        if was.name != is.name {
            return Err(SqlError::new(
                SqlState::INVALID_TABLE_DEFINITION,
                format!("cannot change name of view column \"{}\" to \"{}\"", was.name, is.name),
            )
            .hint("Use ALTER VIEW ... RENAME COLUMN ... to change name of view column instead."));
        }
        if (was.type_oid, was.type_modifier) != (is.type_oid, is.type_modifier) {
            return refuse(format!(
                "cannot change data type of view column \"{}\" from {} to {}",
                was.name,
                format_type(PgType { oid: was.type_oid, modifier: was.type_modifier }),
                format_type(PgType { oid: is.type_oid, modifier: is.type_modifier })
            ));
        }
        is.comment.clone_from(&was.comment);
    }
    Ok(())
}

/// A view over `relation`, over any number of steps, whose query no longer resolves in the block's catalog.
pub fn first_broken(relation: RelationId, context: &Context<'_>, block: &Block) -> Option<Arc<Relation>> {
    let catalog = block.catalog();
    let mut seen = vec![relation];
    let mut next = 0;
    while next < seen.len() {
        let id = seen[next];
        next += 1;
        for view in catalog.relations().filter(|r| r.kind == RelationKind::View && r.depends_on.contains(&id)) {
            let resolves = crate::sql::parse_query(&view.query)
                .and_then(|query| context.queries.describe(&query, &catalog, context.session))
                .is_ok_and(|d| d.columns.len() == view.columns.len());
            if !resolves {
                return Some(view.clone());
            }
            if !seen.contains(&view.id) {
                seen.push(view.id);
            }
        }
    }
    None
}

/// Rewrites the queries of all views over these relations. `rename` is asked with schema and name.
pub async fn follow_rename(
    relations: &[RelationId],
    rename: impl Fn(&str, &str) -> Option<(String, String)>,
    block: &mut Block,
) -> Result<()> {
    let catalog = block.catalog();
    let views = catalog.relations().filter(|r| r.depends_on.iter().any(|id| relations.contains(id)));
    for view in views.cloned().collect::<Vec<_>>() {
        let mut query = crate::sql::parse_query(&view.query)?;
        let _: ControlFlow<()> = ast::visit_relations_mut(&mut query, |name| {
            if let [ast::ObjectNamePart::Identifier(schema), ast::ObjectNamePart::Identifier(relation)] =
                name.0.as_slice()
                && let Some((schema, relation)) = rename(&schema.value, &relation.value)
            {
                *name = ast::ObjectName::from(vec![quoted(&schema), quoted(&relation)]);
            }
            ControlFlow::Continue(())
        });
        create::put(Relation { query: query.to_string(), ..(*view).clone() }, block).await?;
    }
    Ok(())
}

fn quoted(name: &str) -> ast::Ident {
    ast::Ident::with_quote('"', name)
}

/// Names every stored relation with its schema and an alias, and writes `*` out.
fn freeze(query: &mut ast::Query, context: &Context<'_>, catalog: &Catalog) -> Result<()> {
    let mut ctes = CteNames::default();
    let _ = ast::Visit::visit(query, &mut ctes);
    expand_wildcards(query, context, catalog)?;
    let names = Names::new(context.session, catalog);
    let mut freezer = Freezer { names: &names, ctes: ctes.0, error: None };
    let _ = ast::VisitMut::visit(query, &mut freezer);
    freezer.error.map_or(Ok(()), Err)
}

#[derive(Default)]
struct CteNames(Vec<String>);

impl ast::Visitor for CteNames {
    type Break = ();
    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
        if let Some(with) = &query.with {
            self.0.extend(with.cte_tables.iter().map(|c| c.alias.name.value.clone()));
        }
        ControlFlow::Continue(())
    }
}

struct Freezer<'a> {
    names: &'a Names<'a>,
    /// Unqualified, these are left alone.
    ctes: Vec<String>,
    error: Option<SqlError>,
}

impl ast::VisitorMut for Freezer<'_> {
    type Break = ();
    fn pre_visit_table_factor(&mut self, factor: &mut ast::TableFactor) -> ControlFlow<()> {
        let ast::TableFactor::Table { name, alias, args: None, .. } = factor else {
            return ControlFlow::Continue(());
        };
        let written = match RelationName::from_ast(name) {
            Ok(written) => written,
            Err(error) => {
                self.error = Some(error);
                return ControlFlow::Break(());
            }
        };
        if written.schema.is_none() && self.ctes.contains(&written.name) {
            return ControlFlow::Continue(());
        }
        match self.names.find(&written) {
            Ok(Some(relation)) => {
                let schema = self.names.schema_name(relation.schema);
                *name = ast::ObjectName::from(vec![quoted(&schema), quoted(&relation.name)]);
                if alias.is_none() {
                    *alias = Some(ast::TableAlias {
                        explicit: true,
                        name: quoted(&written.name),
                        columns: Vec::new(),
                        at: None,
                    });
                }
                ControlFlow::Continue(())
            }
            // Made by the server (pg_catalog …), or missing: the planner says.
            Ok(None) => ControlFlow::Continue(()),
            Err(error) => {
                self.error = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

/// Writes `*` and `x.*` out wherever they stand in a select list.
fn expand_wildcards(query: &mut ast::Query, context: &Context<'_>, catalog: &Catalog) -> Result<()> {
    let with = query.with.clone();
    let mut expander = Expander { with, context, catalog, error: None };
    let _ = ast::VisitMut::visit(query, &mut expander);
    expander.error.map_or(Ok(()), Err)
}

struct Expander<'a> {
    /// The outermost WITH, in sight everywhere.
    with: Option<ast::With>,
    context: &'a Context<'a>,
    catalog: &'a Catalog,
    error: Option<SqlError>,
}

impl ast::VisitorMut for Expander<'_> {
    type Break = ();
    fn pre_visit_select(&mut self, select: &mut ast::Select) -> ControlFlow<()> {
        let is_wildcard = |item: &ast::SelectItem| {
            matches!(item, ast::SelectItem::Wildcard(_) | ast::SelectItem::QualifiedWildcard(..))
        };
        if !select.projection.iter().any(is_wildcard) {
            return ControlFlow::Continue(());
        }
        let mut projection = Vec::new();
        for item in &select.projection {
            if is_wildcard(item) {
                match self.expanded(item, select) {
                    Ok(items) => projection.extend(items),
                    Err(error) => {
                        self.error = Some(error);
                        return ControlFlow::Break(());
                    }
                }
            } else {
                projection.push(item.clone());
            }
        }
        select.projection = projection;
        ControlFlow::Continue(())
    }
}

impl Expander<'_> {
    fn expanded(&self, item: &ast::SelectItem, select: &ast::Select) -> Result<Vec<ast::SelectItem>> {
        let columns = |item: ast::SelectItem| -> Result<Vec<String>> {
            let query = self.probe(item, select);
            let described = self.context.queries.describe(&query, self.catalog, self.context.session)?;
            Ok(described.columns.into_iter().map(|c| c.name).collect())
        };
        if let ast::SelectItem::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::ObjectName(of), _) = item {
            let alias = of.0.last().and_then(|p| p.as_ident()).map(|i| i.value.clone()).unwrap_or_default();
            return Ok(columns(item.clone())?.iter().map(|c| compound(&alias, c)).collect());
        }
        let names = columns(item.clone())?;
        let distinct = names.iter().enumerate().all(|(i, n)| !names[..i].contains(n));
        if distinct {
            return Ok(names.iter().map(|n| ast::SelectItem::UnnamedExpr(ast::Expr::Identifier(quoted(n)))).collect());
        }
        // A name twice: each relation of FROM writes its own, as long as no join merges columns.
        let mut items = Vec::new();
        for alias in self.aliases(select)? {
            let of = ast::ObjectName::from(vec![quoted(&alias)]);
            let wildcard = ast::SelectItem::QualifiedWildcard(
                ast::SelectItemQualifiedWildcardKind::ObjectName(of),
                ast::WildcardAdditionalOptions::default(),
            );
            items.extend(columns(wildcard)?.iter().map(|c| compound(&alias, c)));
        }
        Ok(items)
    }

    /// The names of FROM, in order.
    fn aliases(&self, select: &ast::Select) -> Result<Vec<String>> {
        let cannot = || {
            SqlError::unsupported("SELECT * with the same column name twice in a view")
                .hint("Name the columns of the view's query.")
        };
        let name_of = |factor: &ast::TableFactor| match factor {
            ast::TableFactor::Table { alias: Some(a), .. } | ast::TableFactor::Derived { alias: Some(a), .. } => {
                Ok(a.name.value.clone())
            }
            ast::TableFactor::Table { name, .. } => {
                name.0.last().and_then(|p| p.as_ident()).map(|i| i.value.clone()).ok_or_else(cannot)
            }
            _ => Err(cannot()),
        };
        let mut names = Vec::new();
        for table in &select.from {
            names.push(name_of(&table.relation)?);
            for join in &table.joins {
                use ast::JoinOperator as J;
                let constraint = match &join.join_operator {
                    J::Join(c)
                    | J::Inner(c)
                    | J::Left(c)
                    | J::LeftOuter(c)
                    | J::Right(c)
                    | J::RightOuter(c)
                    | J::FullOuter(c)
                    | J::CrossJoin(c) => c,
                    _ => return Err(cannot()),
                };
                if matches!(constraint, ast::JoinConstraint::Using(_) | ast::JoinConstraint::Natural) {
                    return Err(cannot());
                }
                names.push(name_of(&join.relation)?);
            }
        }
        Ok(names)
    }

    /// `SELECT item FROM …` alone.
    fn probe(&self, item: ast::SelectItem, select: &ast::Select) -> ast::Query {
        let mut alone = select.clone();
        alone.projection = vec![item];
        alone.distinct = None;
        alone.selection = None;
        alone.group_by = ast::GroupByExpr::Expressions(Vec::new(), Vec::new());
        alone.having = None;
        alone.named_window = Vec::new();
        ast::Query {
            with: self.with.clone(),
            body: Box::new(ast::SetExpr::Select(Box::new(alone))),
            order_by: None,
            limit_clause: None,
            fetch: None,
            locks: Vec::new(),
            for_clause: None,
            settings: None,
            format_clause: None,
            pipe_operators: Vec::new(),
        }
    }
}

fn compound(alias: &str, column: &str) -> ast::SelectItem {
    ast::SelectItem::UnnamedExpr(ast::Expr::CompoundIdentifier(vec![quoted(alias), quoted(column)]))
}
