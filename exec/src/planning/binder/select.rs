//! One SELECT: its clauses in the order of their meaning, not of their writing.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Projection, Sort, SortExpr};
use sqlparser::ast;

use super::query::{renamed, sort_expr, syntax};
use super::scope::{Boundary, Context, OutColumn, Scope, ScopeColumn, ScopeRelation};
use super::{Binder, Bound, Relation, fold};
use crate::planning::types::{PgType, oid};
use crate::sql::error::{Result, SqlError, SqlState};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clause {
    Where,
    JoinOn,
    GroupBy,
    Select,
    Having,
    OrderBy,
    Values,
    Limit,
    /// Inside an aggregate's or window function's arguments.
    Aggregate,
    Window,
    From,
    Constant,
}

impl Clause {
    pub fn name(self) -> &'static str {
        match self {
            Self::Where => "WHERE",
            Self::JoinOn => "JOIN conditions",
            Self::GroupBy => "GROUP BY",
            Self::Select => "SELECT",
            Self::Having => "HAVING",
            Self::OrderBy => "ORDER BY",
            Self::Values => "VALUES",
            Self::Limit => "LIMIT",
            Self::Aggregate => "aggregate function arguments",
            Self::Window => "window definitions",
            Self::From => "functions in FROM",
            Self::Constant => "DEFAULT expressions",
        }
    }
}

/// Where an expression stands: what it may name and which calls it may make.
pub(super) struct Block {
    pub scope: Rc<Scope>,
    pub context: Context,
    pub clause: Clause,
    pub windows: Rc<HashMap<String, ast::NamedWindowExpr>>,
    /// Set once an aggregate was bound in the block's own query.
    pub aggregated: Rc<Cell<bool>>,
    /// What GROUP BY groups by, for `grouping()`.
    pub group_keys: Rc<RefCell<Vec<Expr>>>,
}

impl Block {
    pub fn empty(context: &Context, clause: Clause) -> Self {
        Self::new(Rc::new(Scope::default()), context, clause)
    }

    pub fn new(scope: Rc<Scope>, context: &Context, clause: Clause) -> Self {
        Self {
            scope,
            context: context.clone(),
            clause,
            windows: Rc::default(),
            aggregated: Rc::default(),
            group_keys: Rc::default(),
        }
    }

    pub fn over(context: &Context, clause: Clause, columns: &[OutColumn], alias: &str) -> Self {
        let columns =
            columns.iter().map(|out| ScopeColumn { out: out.clone(), hidden: false, merged: false }).collect();
        let alias = (!alias.is_empty()).then(|| alias.to_owned());
        let scope = Scope { relations: vec![ScopeRelation { alias, schema: None, columns }] };
        Self::new(Rc::new(scope), context, clause)
    }

    /// The same place, another clause.
    pub fn in_clause(&self, clause: Clause) -> Self {
        Self {
            scope: self.scope.clone(),
            context: self.context.clone(),
            clause,
            windows: self.windows.clone(),
            aggregated: self.aggregated.clone(),
            group_keys: self.group_keys.clone(),
        }
    }

    pub fn boundary(&self) -> Option<&Rc<Boundary>> {
        self.context.boundary.as_ref()
    }

    pub fn saw_outer(&self, _: &Binder<'_>) -> bool {
        self.context.boundary.as_ref().is_some_and(|b| !b.arguments.borrow().is_empty())
    }
}

/// One item of the select list.
struct Item {
    name: String,
    bound: Bound,
    table_oid: u32,
    attribute: i16,
}

impl Binder<'_> {
    pub(super) fn bind_select(
        &self,
        select: &ast::Select,
        order_by: &[ast::OrderByExpr],
        context: &Context,
        wanted: Option<&[PgType]>,
    ) -> Result<Relation> {
        refuse_foreign_clauses(select)?;
        let (mut plan, scope) = self.bind_from(&select.from, context)?;
        let mut block = Block::new(Rc::new(scope), context, Clause::Where);
        if let Some(condition) = &select.selection {
            let condition = self.condition(condition, &block, "WHERE")?;
            plan = self.filter(plan, condition)?;
        }
        let mut windows = HashMap::new();
        for ast::NamedWindowDefinition(name, definition) in &select.named_window {
            windows.insert(fold(name), definition.clone());
        }
        block.windows = Rc::new(windows);

        // GROUP BY may name output columns and sees the select list's expressions.
        let select_block = block.in_clause(Clause::Select);
        let group = self.bind_group_by(select, &block)?;
        *block.group_keys.borrow_mut() = group.keys();
        let mut items = self.select_items(&select.projection, &select_block, wanted)?;
        let having = match &select.having {
            Some(expr) => Some(self.condition(expr, &block.in_clause(Clause::Having), "HAVING")?),
            None => None,
        };
        let (distinct_on, distinct) = match &select.distinct {
            None | Some(ast::Distinct::All) => (Vec::new(), false),
            Some(ast::Distinct::Distinct) => (Vec::new(), true),
            Some(ast::Distinct::On(list)) => {
                let order_block = block.in_clause(Clause::OrderBy);
                let keys = list
                    .iter()
                    .map(|e| self.order_key(e, &items, &order_block, "SELECT DISTINCT ON"))
                    .collect::<Result<Vec<_>>>()?;
                (keys, false)
            }
        };
        let order_block = block.in_clause(Clause::OrderBy);
        let mut sorts: Vec<SortExpr> = Vec::new();
        let mut sort_bounds: Vec<Bound> = Vec::new();
        for item in order_by {
            let bound = self.order_key(&item.expr, &items, &order_block, "ORDER BY")?;
            sort_bounds.push(bound.clone());
            sorts.push(sort_expr(bound, &item.options));
        }
        if distinct {
            for bound in &sort_bounds {
                if !items.iter().any(|i| i.bound.expr == bound.expr) {
                    return Err(SqlError::new(
                        SqlState::INVALID_COLUMN_REFERENCE,
                        "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
                    ));
                }
            }
        }
        if !distinct_on.is_empty() {
            for (key, sort) in distinct_on.iter().zip(&sort_bounds) {
                if !distinct_on.iter().any(|k| k.expr == sort.expr) && !sort_bounds.iter().any(|s| s.expr == key.expr) {
                    return Err(SqlError::new(
                        SqlState::INVALID_COLUMN_REFERENCE,
                        "SELECT DISTINCT ON expressions must match initial ORDER BY expressions",
                    ));
                }
            }
        }

        // Everything evaluated above the grouping, in one list so that it is rewritten alike.
        let mut above: Vec<Expr> = items.iter().map(|i| i.bound.expr.clone()).collect();
        above.extend(sorts.iter().map(|s| s.expr.clone()));
        above.extend(distinct_on.iter().map(|b| b.expr.clone()));
        above.extend(having.clone());
        if block.aggregated.get() || group.is_grouped() || having.is_some() {
            plan = self.aggregate(plan, &group, &mut above, &block.scope)?;
        }
        if having.is_some() {
            let condition = above.pop().unwrap_or_else(|| datafusion::logical_expr::lit(true));
            plan = self.filter(plan, condition)?;
        }
        plan = self.windows(plan, &mut above)?;
        plan = self.unnest_sets(plan, &mut above)?;
        let (item_exprs, rest) = above.split_at(items.len());
        let (sort_exprs, on_exprs) = rest.split_at(sorts.len());
        for (item, expr) in items.iter_mut().zip(item_exprs) {
            item.bound.expr = expr.clone();
        }
        for (sort, expr) in sorts.iter_mut().zip(sort_exprs) {
            sort.expr = expr.clone();
        }
        self.output(plan, items, sorts, on_exprs.to_vec(), distinct)
    }

    /// The projection, then DISTINCT, then ORDER BY.
    fn output(
        &self,
        plan: LogicalPlan,
        items: Vec<Item>,
        mut sorts: Vec<SortExpr>,
        distinct_on: Vec<Expr>,
        distinct: bool,
    ) -> Result<Relation> {
        let mut out = Vec::with_capacity(items.len());
        let mut projection = Vec::with_capacity(items.len());
        for item in items {
            let unique = self.fresh(&item.name);
            projection.push(renamed(item.bound.expr, &unique));
            out.push(OutColumn {
                name: item.name,
                ty: item.bound.ty,
                data_type: item.bound.data_type,
                column: Column::new_unqualified(unique),
                table_oid: item.table_oid,
                attribute: item.attribute,
            });
        }
        // Sort keys that are no output columns ride along.
        let mut position = |binder: &Self, expr: Expr, projection: &mut Vec<Expr>| -> Expr {
            let existing = projection.iter().find_map(|p| match p {
                Expr::Alias(alias) if *alias.expr == expr => Some(alias.name.clone()),
                _ => None,
            });
            let name = existing.unwrap_or_else(|| {
                let unique = binder.fresh("key");
                projection.push(renamed(expr, &unique));
                unique
            });
            Expr::Column(Column::new_unqualified(name))
        };
        let visible = projection.len();
        for sort in &mut sorts {
            sort.expr = position(self, sort.expr.clone(), &mut projection);
        }
        let on: Vec<Expr> = distinct_on.into_iter().map(|e| position(self, e, &mut projection)).collect();
        let extra = projection.len() > visible;
        let mut plan = self.project(plan, projection)?;
        if !on.is_empty() {
            plan = self.first_of_each(plan, on, sorts.clone(), &out)?;
        }
        if distinct {
            if extra {
                // Only a key derived from an output column (an interval's) gets here.
                let keys = out.iter().map(|c| super::coerce::comparison_key(c.bound()).expr).collect();
                plan = self.first_of_each(plan, keys, Vec::new(), &out)?;
            } else {
                plan = self.distinct(plan, &out)?;
            }
        }
        if !sorts.is_empty() {
            plan = LogicalPlan::Sort(Sort { expr: sorts, input: Arc::new(plan), fetch: None });
        }
        if extra {
            let kept = out.iter().map(|c| Expr::Column(c.column.clone())).collect();
            plan = LogicalPlan::Projection(Projection::try_new(kept, Arc::new(plan))?);
        }
        Ok(Relation { plan, columns: out })
    }

    fn order_key(&self, expr: &ast::Expr, items: &[Item], block: &Block, clause: &str) -> Result<Bound> {
        if let Some(n) = super::query::ordinal(expr) {
            let item = usize::try_from(n).ok().filter(|n| *n > 0).and_then(|n| items.get(n - 1));
            return match item {
                Some(item) => self.settled(item.bound.clone()),
                None => Err(SqlError::new(
                    SqlState::INVALID_COLUMN_REFERENCE,
                    format!("{clause} position {n} is not in select list"),
                )),
            };
        }
        if let ast::Expr::Identifier(ident) = expr {
            let name = fold(ident);
            let mut found = items.iter().filter(|i| i.name == name);
            if let Some(first) = found.next() {
                if found.any(|i| i.bound.expr != first.bound.expr) {
                    let message = format!("{clause} \"{name}\" is ambiguous");
                    return Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message));
                }
                return self.settled(first.bound.clone());
            }
        }
        let bound = self.expression(expr, block)?;
        self.settled(bound)
    }

    fn select_items(
        &self,
        projection: &[ast::SelectItem],
        block: &Block,
        wanted: Option<&[PgType]>,
    ) -> Result<Vec<Item>> {
        let mut items = Vec::new();
        for item in projection {
            match item {
                ast::SelectItem::UnnamedExpr(ast::Expr::CompoundFieldAccess { root, access_chain })
                    if matches!(access_chain.as_slice(), [ast::AccessExpr::Dot(ast::Expr::Wildcard(_))]) =>
                {
                    self.expand_composite(root, block, &mut items)?;
                }
                ast::SelectItem::UnnamedExpr(expr) => {
                    let name = column_name(expr);
                    self.select_item(name, expr, block, &mut items)?;
                }
                ast::SelectItem::ExprWithAlias { expr, alias } => {
                    self.select_item(fold(alias), expr, block, &mut items)?;
                }
                ast::SelectItem::Wildcard(options) => {
                    refuse_wildcard_options(options)?;
                    if block.scope.relations.is_empty() {
                        return Err(syntax("SELECT * with no tables specified is not valid"));
                    }
                    for r in &block.scope.relations {
                        push_columns(r, &mut items);
                    }
                }
                ast::SelectItem::QualifiedWildcard(kind, options) => {
                    refuse_wildcard_options(options)?;
                    match kind {
                        ast::SelectItemQualifiedWildcardKind::ObjectName(name) => {
                            let parts = super::name_parts(name)?;
                            let (alias, schema) = match parts.as_slice() {
                                [alias] => (alias, None),
                                [.., schema, alias] => (alias, Some(schema.as_str())),
                                [] => return Err(syntax("syntax error at or near \"*\"")),
                            };
                            let relation = block.scope.relation(alias, schema).ok_or_else(|| missing_from(alias))?;
                            for c in relation.columns.iter().filter(|c| !c.hidden) {
                                items.push(item_of(&c.out));
                            }
                        }
                        ast::SelectItemQualifiedWildcardKind::Expr(expr) => {
                            self.expand_composite(expr, block, &mut items)?;
                        }
                    }
                }
                ast::SelectItem::ExprWithAliases { .. } => return Err(syntax("syntax error at or near \"(\"")),
            }
        }
        if let Some(wanted) = wanted {
            for (item, t) in items.iter_mut().zip(wanted) {
                if item.bound.ty.oid == oid::UNKNOWN {
                    let bound = item.bound.clone();
                    item.bound = self.coerce(bound, *t, crate::planning::cast::CastContext::Assignment)?;
                }
            }
        }
        Ok(items)
    }

    fn select_item(&self, name: String, expr: &ast::Expr, block: &Block, items: &mut Vec<Item>) -> Result<()> {
        let (bound, origin) = self.expression_with_origin(expr, block)?;
        let (table_oid, attribute) = origin.map_or((0, 0), |c| (c.table_oid, c.attribute));
        items.push(Item { name, bound, table_oid, attribute });
        Ok(())
    }

    fn expand_composite(&self, expr: &ast::Expr, _: &Block, _: &mut Vec<Item>) -> Result<()> {
        Err(SqlError::unsupported(format_args!("expanding ({expr}).*"))
            .hint("Call the function in FROM to get its columns."))
    }

    pub(super) fn condition(&self, expr: &ast::Expr, block: &Block, clause: &str) -> Result<Expr> {
        let bound = self.expression(expr, block)?;
        if bound.ty.oid != oid::BOOL && bound.ty.oid != oid::UNKNOWN {
            return Err(SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                format!(
                    "argument of {clause} must be type boolean, not type {}",
                    crate::planning::types::format_type(PgType::of(bound.ty.oid))
                ),
            ));
        }
        let bound = self.coerce(bound, PgType::of(oid::BOOL), crate::planning::cast::CastContext::Implicit)?;
        Ok(bound.expr)
    }

    pub(super) fn filter(&self, plan: LogicalPlan, condition: Expr) -> Result<LogicalPlan> {
        let columns = plan.schema().columns();
        let mut conditions = vec![condition];
        let hoisted = self.hoist(plan, &mut conditions)?;
        let widened = hoisted.schema().fields().len() > columns.len();
        let condition = conditions.pop().unwrap_or_else(|| datafusion::logical_expr::lit(true));
        let plan = LogicalPlan::Filter(datafusion::logical_expr::Filter::try_new(condition, Arc::new(hoisted))?);
        if widened {
            let kept = columns.into_iter().map(Expr::Column).collect();
            return Ok(LogicalPlan::Projection(Projection::try_new(kept, Arc::new(plan))?));
        }
        Ok(plan)
    }

    pub(super) fn project(&self, plan: LogicalPlan, mut expressions: Vec<Expr>) -> Result<LogicalPlan> {
        let plan = self.hoist(plan, &mut expressions)?;
        Ok(LogicalPlan::Projection(Projection::try_new(expressions, Arc::new(plan))?))
    }

    /// Set-returning functions of the select list: an array a row, then its elements as rows, all in step.
    fn unnest_sets(&self, plan: LogicalPlan, expressions: &mut [Expr]) -> Result<LogicalPlan> {
        let mut plan = plan;
        // A set function whose argument is a set function comes from the inside out.
        for _ in 0..16 {
            let mut sets: Vec<(Expr, String)> = Vec::new();
            for expr in expressions.iter_mut() {
                let rewritten = expr.clone().transform_up(|e| {
                    Ok(match e {
                        Expr::Unnest(unnest) if !holds_set(&unnest.expr) => {
                            let list = *unnest.expr;
                            let name = match sets.iter().find(|(known, _)| *known == list) {
                                Some((_, name)) => name.clone(),
                                None => {
                                    let name = self.fresh("set");
                                    sets.push((list, name.clone()));
                                    name
                                }
                            };
                            Transformed::yes(Expr::Column(Column::new_unqualified(name)))
                        }
                        other => Transformed::no(other),
                    })
                })?;
                *expr = rewritten.data;
            }
            if sets.is_empty() {
                return Ok(plan);
            }
            let mut projection: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
            let names: Vec<Column> = sets.iter().map(|(_, name)| Column::new_unqualified(name.clone())).collect();
            projection.extend(sets.into_iter().map(|(list, name)| renamed(list, &name)));
            plan = self.project(plan, projection)?;
            plan = unnest(plan, names)?;
        }
        Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "set-returning functions are nested too deeply"))
    }
}

pub(super) fn unnest(plan: LogicalPlan, columns: Vec<Column>) -> Result<LogicalPlan> {
    // One level of each array; an array without elements gives no row.
    let options = datafusion::common::UnnestOptions::new().with_preserve_nulls(false);
    Ok(LogicalPlanBuilder::from(plan).unnest_columns_with_options(columns, options)?.build()?)
}

fn holds_set(expr: &Expr) -> bool {
    expr.exists(|e| Ok(matches!(e, Expr::Unnest(_)))).unwrap_or(false)
}

fn item_of(column: &OutColumn) -> Item {
    Item { name: column.name.clone(), bound: column.bound(), table_oid: column.table_oid, attribute: column.attribute }
}

fn push_columns(relation: &ScopeRelation, items: &mut Vec<Item>) {
    items.extend(relation.columns.iter().filter(|c| !c.hidden && !c.merged).map(|c| item_of(&c.out)));
}

pub(super) fn missing_from(alias: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_TABLE, format!("missing FROM-clause entry for table \"{alias}\""))
}

fn refuse_wildcard_options(options: &ast::WildcardAdditionalOptions) -> Result<()> {
    if options.opt_ilike.is_some()
        || options.opt_exclude.is_some()
        || options.opt_except.is_some()
        || options.opt_replace.is_some()
        || options.opt_rename.is_some()
    {
        return Err(syntax("syntax error after \"*\""));
    }
    Ok(())
}

/// What sqlparser reads for other databases.
fn refuse_foreign_clauses(select: &ast::Select) -> Result<()> {
    let foreign = [
        (select.top.is_some(), "TOP"),
        (select.into.is_some(), "INTO"),
        (!select.lateral_views.is_empty(), "LATERAL VIEW"),
        (select.prewhere.is_some(), "PREWHERE"),
        (!select.cluster_by.is_empty(), "CLUSTER BY"),
        (!select.distribute_by.is_empty(), "DISTRIBUTE BY"),
        (!select.sort_by.is_empty(), "SORT BY"),
        (select.qualify.is_some(), "QUALIFY"),
        (!select.connect_by.is_empty(), "CONNECT BY"),
        (select.value_table_mode.is_some(), "AS STRUCT"),
    ];
    match foreign.into_iter().find(|(given, _)| *given) {
        Some((_, "INTO")) => Err(SqlError::unsupported("SELECT INTO").hint("Use CREATE TABLE and INSERT … SELECT.")),
        Some((_, word)) => Err(syntax(format!("syntax error at or near \"{word}\""))),
        None => Ok(()),
    }
}

/// PostgreSQL's name for an expression without alias.
pub(super) fn column_name(expr: &ast::Expr) -> String {
    figure_name(expr).0
}

/// The name, and how sure it is: 2 = a column's or function's, 1 = a type's.
fn figure_name(expr: &ast::Expr) -> (String, u8) {
    use ast::Expr as E;
    let sure = |name: &str| (name.to_owned(), 2);
    match expr {
        E::Identifier(ident) => (fold(ident), 2),
        E::CompoundIdentifier(parts) => parts.last().map_or_else(|| sure("?column?"), |p| (fold(p), 2)),
        E::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|a| match a {
                ast::AccessExpr::Dot(E::Identifier(ident)) => Some(fold(ident)),
                _ => None,
            });
            field.map_or_else(|| figure_name(root), |f| (f, 2))
        }
        E::Function(f) => match f.name.0.last().and_then(|p| p.as_ident()) {
            Some(ident) => (fold(ident), 2),
            None => sure("?column?"),
        },
        E::Cast { expr, data_type, .. } => {
            let inner = figure_name(expr);
            if inner.1 > 0 { inner } else { (type_column_name(data_type), 1) }
        }
        E::TypedString(ts) => (type_column_name(&ts.data_type), 1),
        E::Interval(_) => ("interval".to_owned(), 1),
        E::Nested(inner) | E::Collate { expr: inner, .. } => figure_name(inner),
        E::Case { else_result, .. } => match else_result.as_ref().map(|e| figure_name(e)) {
            Some((name, 2)) => (name, 2),
            _ => ("case".to_owned(), 1),
        },
        E::Value(v) if matches!(v.value, ast::Value::Boolean(_)) => ("bool".to_owned(), 1),
        E::Exists { negated: false, .. } => sure("exists"),
        E::Subquery(query) => match query.body.as_ref() {
            ast::SetExpr::Select(select) => match select.projection.first() {
                Some(ast::SelectItem::UnnamedExpr(e)) => figure_name(e),
                Some(ast::SelectItem::ExprWithAlias { alias, .. }) => (fold(alias), 2),
                _ => ("?column?".to_owned(), 0),
            },
            _ => ("?column?".to_owned(), 0),
        },
        E::Array(_) => sure("array"),
        E::Tuple(_) => sure("row"),
        E::Extract { .. } => sure("extract"),
        E::Ceil { .. } => sure("ceil"),
        E::Floor { .. } => sure("floor"),
        E::Position { .. } => sure("position"),
        E::Substring { .. } => sure("substring"),
        E::Overlay { .. } => sure("overlay"),
        E::AtTimeZone { .. } => sure("timezone"),
        E::Trim { trim_where, .. } => sure(match trim_where {
            Some(ast::TrimWhereField::Leading) => "ltrim",
            Some(ast::TrimWhereField::Trailing) => "rtrim",
            _ => "btrim",
        }),
        _ => ("?column?".to_owned(), 0),
    }
}

fn type_column_name(data_type: &ast::DataType) -> String {
    match crate::planning::types::from_sql(data_type) {
        Ok(t) => {
            let base = crate::planning::types::element_of(t.oid).filter(|_| t.oid != oid::INT2VECTOR).unwrap_or(t.oid);
            crate::planning::types::type_name(base)
        }
        Err(_) => "?column?".to_owned(),
    }
}
