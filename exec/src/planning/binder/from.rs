//! FROM: relations by name, subqueries, functions, and joins of them.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use alluvium_storage::catalog::{self, RelationKind};
use alluvium_storage::{RelationId, ScanColumn};
use arrow::datatypes::{DataType, Schema};
use datafusion::common::Column;
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Case, Expr, JoinType, LogicalPlan, LogicalPlanBuilder, Operator};
use sqlparser::ast;

use super::query::{rename, renamed, syntax};
use super::scope::{Boundary, Context, OutColumn, Scope, ScopeColumn, ScopeRelation};
use super::select::{Block, Clause, unnest};
use super::{Binder, Bound, Relation, fold, name_parts};
use crate::batch::shard_scan::ShardTable;
use crate::batch::virtual_scan::VirtualTable;
use crate::planning::apply::OuterCell;
use crate::planning::types::{PgType, oid, typed_field};
use crate::planning::virtual_relation::VirtualRelation;
use crate::sql::error::{Result, SqlError, SqlState};

/// A FROM item: its rows and what can be named.
struct Item {
    plan: LogicalPlan,
    relations: Vec<ScopeRelation>,
}

/// What a relation's name means.
pub enum Named {
    Stored(Arc<catalog::Relation>),
    Virtual(Arc<dyn VirtualRelation>),
}

impl Binder<'_> {
    pub(super) fn bind_from(&self, from: &[ast::TableWithJoins], context: &Context) -> Result<(LogicalPlan, Scope)> {
        let mut all: Option<Item> = None;
        for tables in from {
            let next = self.joined(tables, all.as_ref(), context)?;
            all = Some(match (all, next) {
                (None, (item, None)) => item,
                (Some(left), (right, None)) => self.join(left, right, JoinType::Inner, Vec::new())?,
                // A lateral item has taken the ones before it in.
                (_, (item, Some(()))) => item,
            });
            if let Some(item) = &all {
                check_aliases(&item.relations)?;
            }
        }
        match all {
            Some(item) => Ok((item.plan, Scope { relations: item.relations })),
            None => Ok((LogicalPlanBuilder::empty(true).build()?, Scope::default())),
        }
    }

    /// One comma-separated item with its joins. `Some(())` = `before` is already part of it.
    fn joined(
        &self,
        tables: &ast::TableWithJoins,
        before: Option<&Item>,
        context: &Context,
    ) -> Result<(Item, Option<()>)> {
        let (mut left, mut absorbed) = match self.factor(&tables.relation, before, context, false)? {
            Factor::Item(item) => (item, None),
            Factor::Lateral(item) => (item, Some(())),
        };
        for join in &tables.joins {
            // Inside a join the items before the comma are visible to LATERAL too.
            let combined = match (before, absorbed) {
                (Some(b), None) if is_lateral(&join.relation) => {
                    absorbed = Some(());
                    let b = Item { plan: b.plan.clone(), relations: b.relations.clone() };
                    self.join(b, left, JoinType::Inner, Vec::new())?
                }
                _ => left,
            };
            left = self.join_with(combined, join, context)?;
        }
        Ok((left, absorbed))
    }

    fn join_with(&self, left: Item, join: &ast::Join, context: &Context) -> Result<Item> {
        use ast::JoinOperator as J;
        let (kind, constraint) = match &join.join_operator {
            J::Join(c) | J::Inner(c) => (JoinType::Inner, c),
            J::Left(c) | J::LeftOuter(c) => (JoinType::Left, c),
            J::Right(c) | J::RightOuter(c) => (JoinType::Right, c),
            J::FullOuter(c) => (JoinType::Full, c),
            J::CrossJoin(c) => (JoinType::Inner, c),
            other => return Err(SqlError::unsupported(format_args!("the join {other:?}"))),
        };
        let cross = matches!(&join.join_operator, J::CrossJoin(_));
        if matches!(constraint, ast::JoinConstraint::None) && !cross {
            return Err(syntax("syntax error: a JOIN needs ON or USING"));
        }
        let outer = kind == JoinType::Left;
        let right = match self.factor(&join.relation, Some(&left), context, outer)? {
            Factor::Item(item) => item,
            Factor::Lateral(item) => {
                if matches!(kind, JoinType::Right | JoinType::Full) {
                    return Err(SqlError::new(
                        SqlState::INVALID_COLUMN_REFERENCE,
                        "invalid reference to FROM-clause entry: the combining JOIN type must be INNER or LEFT for a LATERAL reference",
                    ));
                }
                let mut item = item;
                match constraint {
                    ast::JoinConstraint::None => {}
                    ast::JoinConstraint::On(condition) if is_true(condition) => {}
                    ast::JoinConstraint::On(condition) if !outer => {
                        let scope = Scope { relations: item.relations.clone() };
                        let block = Block::new(Rc::new(scope), context, Clause::JoinOn);
                        let condition = self.condition(condition, &block, "JOIN/ON")?;
                        item.plan = self.filter(item.plan, condition)?;
                    }
                    _ => {
                        return Err(SqlError::unsupported("LEFT JOIN LATERAL with a condition")
                            .hint("Write the condition inside the subquery and ON true here."));
                    }
                }
                return Ok(item);
            }
        };
        let mut both = left.relations.clone();
        both.extend(right.relations.iter().cloned());
        check_aliases(&both)?;
        match constraint {
            ast::JoinConstraint::None => self.join(left, right, kind, Vec::new()),
            ast::JoinConstraint::On(condition) => {
                let block = Block::new(Rc::new(Scope { relations: both }), context, Clause::JoinOn);
                let condition = self.condition(condition, &block, "JOIN/ON")?;
                if super::subquery::has_marker(&condition) {
                    if kind != JoinType::Inner {
                        return Err(SqlError::unsupported("a correlated subquery in the condition of an outer join"));
                    }
                    let mut item = self.join(left, right, kind, Vec::new())?;
                    item.plan = self.filter(item.plan, condition)?;
                    return Ok(item);
                }
                self.join(left, right, kind, vec![condition])
            }
            ast::JoinConstraint::Using(names) => {
                let names =
                    names.iter().map(|n| Ok(name_parts(n)?.pop().unwrap_or_default())).collect::<Result<Vec<_>>>()?;
                self.join_using(left, right, kind, &names)
            }
            ast::JoinConstraint::Natural => {
                let visible = |item: &Item| -> Vec<String> {
                    let columns = item.relations.iter().flat_map(|r| &r.columns);
                    columns.filter(|c| !c.hidden && !c.merged).map(|c| c.out.name.clone()).collect()
                };
                let rights = visible(&right);
                let names: Vec<String> = visible(&left).into_iter().filter(|n| rights.contains(n)).collect();
                self.join_using(left, right, kind, &names)
            }
        }
    }

    fn join(&self, left: Item, right: Item, kind: JoinType, on: Vec<Expr>) -> Result<Item> {
        let plan = LogicalPlanBuilder::from(left.plan).join_on(right.plan, kind, on)?.build()?;
        let mut relations = left.relations;
        relations.extend(right.relations);
        Ok(Item { plan, relations })
    }

    fn join_using(&self, left: Item, right: Item, kind: JoinType, names: &[String]) -> Result<Item> {
        let find = |item: &Item, side: &str, name: &str| -> Result<OutColumn> {
            match (Scope { relations: item.relations.clone() }).find(None, name) {
                super::scope::Found::One(c) => Ok(c),
                super::scope::Found::None => Err(SqlError::new(
                    SqlState::UNDEFINED_COLUMN,
                    format!("column \"{name}\" specified in USING clause does not exist in {side} table"),
                )),
                super::scope::Found::Many => Err(SqlError::new(
                    SqlState::AMBIGUOUS_COLUMN,
                    format!("common column name \"{name}\" appears more than once in {side} table"),
                )),
            }
        };
        let mut on = Vec::new();
        let mut merged = Vec::new();
        for name in names {
            let (l, r) = (find(&left, "left", name)?, find(&right, "right", name)?);
            on.push(self.compare(Operator::Eq, l.bound(), r.bound())?.expr);
            let (ty, data_type) = self.common_type(&[&l.bound(), &r.bound()], "JOIN/USING")?;
            let same = l.ty == r.ty;
            let column = match kind {
                JoinType::Right if same => r.clone(),
                JoinType::Full => {
                    let cast = |c: &OutColumn| {
                        self.cast_to(c.bound(), ty, &data_type, crate::planning::cast::CastContext::Implicit)
                    };
                    let (a, b) = (cast(&l)?.expr, cast(&r)?.expr);
                    let whens = vec![(Box::new(Expr::IsNotNull(Box::new(a.clone()))), Box::new(a))];
                    let unique = self.fresh(name);
                    merged.push((
                        Some((Expr::Case(Case::new(None, whens, Some(Box::new(b)))), unique.clone())),
                        OutColumn {
                            name: name.clone(),
                            ty,
                            data_type,
                            column: Column::new_unqualified(unique),
                            table_oid: 0,
                            attribute: 0,
                        },
                    ));
                    continue;
                }
                _ => l.clone(),
            };
            merged.push((None, column));
        }
        let hide = |item: &mut Item| {
            for c in item.relations.iter_mut().flat_map(|r| &mut r.columns) {
                if names.contains(&c.out.name) {
                    c.merged = true;
                }
            }
        };
        let (mut left, mut right) = (left, right);
        hide(&mut left);
        hide(&mut right);
        let mut item = self.join(left, right, kind, on)?;
        if merged.iter().any(|(computed, _)| computed.is_some()) {
            let mut projection: Vec<Expr> = item.plan.schema().columns().into_iter().map(Expr::Column).collect();
            for (computed, _) in &merged {
                if let Some((expr, name)) = computed {
                    projection.push(renamed(expr.clone(), name));
                }
            }
            item.plan = self.project(item.plan, projection)?;
        }
        let columns = merged.into_iter().map(|(_, out)| ScopeColumn { out, hidden: false, merged: false }).collect();
        item.relations.insert(0, ScopeRelation { alias: None, schema: None, columns });
        Ok(item)
    }

    fn factor(&self, factor: &ast::TableFactor, left: Option<&Item>, context: &Context, outer: bool) -> Result<Factor> {
        match factor {
            ast::TableFactor::Table {
                name, alias, args: None, version, sample, with_hints, with_ordinality, ..
            } => {
                if sample.is_some() {
                    return Err(SqlError::unsupported("TABLESAMPLE").hint("Use WHERE random() < 0.01."));
                }
                if version.is_some() {
                    return Err(SqlError::unsupported("FOR SYSTEM_TIME in a bounded query"));
                }
                if !with_hints.is_empty() || *with_ordinality {
                    return Err(syntax("syntax error at or near \"WITH\""));
                }
                let mut item = self.table(name, context)?;
                self.alias(&mut item, alias.as_ref())?;
                Ok(Factor::Item(item))
            }
            ast::TableFactor::Table { name, alias, args: Some(args), with_ordinality, sample: None, .. } => {
                self.function_factor(name, &args.args, alias.as_ref(), *with_ordinality, left, context, outer)
            }
            ast::TableFactor::Function { name, args, alias, with_ordinality, .. } => {
                self.function_factor(name, args, alias.as_ref(), *with_ordinality, left, context, outer)
            }
            ast::TableFactor::UNNEST { alias, array_exprs, with_ordinality, .. } => {
                let block = self.lateral_block(left, context);
                let mut bounds = Vec::new();
                for e in array_exprs {
                    let array = self.expression(e, &block.0)?;
                    bounds.push(self.call_named("unnest", vec![array])?);
                }
                self.set_factor("unnest", bounds, alias.as_ref(), *with_ordinality, left, &block.1, outer)
            }
            ast::TableFactor::Derived { lateral, subquery, alias, sample } => {
                if sample.is_some() {
                    return Err(SqlError::unsupported("TABLESAMPLE"));
                }
                if alias.is_none() {
                    return Err(
                        syntax("subquery in FROM must have an alias").hint("For example, FROM (SELECT ...) [AS] foo.")
                    );
                }
                match left.filter(|_| *lateral) {
                    Some(left) => self.lateral_factor(left, subquery, alias.as_ref(), context, outer),
                    None => {
                        let relation = self.bind_query(subquery, context, None)?;
                        let relation = self.without_unknown(relation)?;
                        let mut item = item_of(relation, "");
                        self.alias(&mut item, alias.as_ref())?;
                        Ok(Factor::Item(item))
                    }
                }
            }
            ast::TableFactor::NestedJoin { table_with_joins, alias } => {
                let (mut item, _) = self.joined(table_with_joins, None, context)?;
                if let Some(alias) = alias {
                    let columns = item
                        .relations
                        .iter()
                        .flat_map(|r| r.columns.iter().filter(|c| !c.merged && !c.hidden).cloned())
                        .collect();
                    item.relations = vec![ScopeRelation { alias: None, schema: None, columns }];
                    self.alias(&mut item, Some(alias))?;
                }
                Ok(Factor::Item(item))
            }
            other => Err(SqlError::unsupported(format_args!("{other} in FROM"))),
        }
    }

    fn lateral_boundary(&self, left: Option<&Item>, context: &Context) -> Rc<Boundary> {
        Rc::new(Boundary {
            outside: Scope { relations: left.map(|l| l.relations.clone()).unwrap_or_default() },
            beyond: context.boundary.clone(),
            arguments: RefCell::default(),
            cell: Some(OuterCell::default()),
        })
    }

    fn lateral_factor(
        &self,
        left: &Item,
        query: &ast::Query,
        alias: Option<&ast::TableAlias>,
        context: &Context,
        outer: bool,
    ) -> Result<Factor> {
        let boundary = self.lateral_boundary(Some(left), context);
        let inner = Context { boundary: Some(boundary.clone()), ..context.clone() };
        let relation = self.bind_query(query, &inner, None)?;
        let relation = self.without_unknown(relation)?;
        let mut item = item_of(relation.clone(), "");
        self.alias(&mut item, alias)?;
        if boundary.arguments.borrow().is_empty() {
            return Ok(Factor::Item(item));
        }
        let plan = self.lateral(left.plan.clone(), &boundary, &relation, outer)?;
        let mut relations = left.relations.clone();
        relations.extend(item.relations);
        Ok(Factor::Lateral(Item { plan, relations }))
    }

    /// Where a function's arguments are bound: over the items to the left.
    fn lateral_block(&self, left: Option<&Item>, context: &Context) -> (Block, Scope) {
        let scope = Scope { relations: left.map(|l| l.relations.clone()).unwrap_or_default() };
        (Block::new(Rc::new(scope.clone()), context, Clause::From), scope)
    }

    #[allow(clippy::too_many_arguments)]
    fn function_factor(
        &self,
        name: &ast::ObjectName,
        arguments: &[ast::FunctionArg],
        alias: Option<&ast::TableAlias>,
        ordinality: bool,
        left: Option<&Item>,
        context: &Context,
        outer: bool,
    ) -> Result<Factor> {
        let parts = name_parts(name)?;
        let function = parts.last().cloned().unwrap_or_default();
        if function == "table" && parts.len() == 1 {
            // A bounded read of a stream, as other streaming databases write it.
            if let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Identifier(ident)))] = arguments {
                let name = ast::ObjectName::from(vec![ident.clone()]);
                let mut item = self.table(&name, context)?;
                self.alias(&mut item, alias)?;
                return Ok(Factor::Item(item));
            }
        }
        let (block, scope) = self.lateral_block(left, context);
        let bound = self.table_call(&function, arguments, &block)?;
        self.set_factor(&function, vec![bound], alias, ordinality, left, &scope, outer)
    }

    /// Set-returning calls side by side as one FROM item.
    #[allow(clippy::too_many_arguments)]
    fn set_factor(
        &self,
        name: &str,
        bounds: Vec<Bound>,
        alias: Option<&ast::TableAlias>,
        ordinality: bool,
        left: Option<&Item>,
        scope: &Scope,
        outer: bool,
    ) -> Result<Factor> {
        let local: Vec<Column> =
            scope.relations.iter().flat_map(|r| &r.columns).map(|c| c.out.column.clone()).collect();
        let lateral = bounds.iter().any(|b| {
            let inner = match &b.expr {
                Expr::Unnest(u) => u.expr.as_ref(),
                e => e,
            };
            inner.column_refs().iter().any(|c| local.contains(c))
        });
        let base = match left.filter(|_| lateral) {
            Some(left) => left.plan.clone(),
            None => LogicalPlanBuilder::empty(true).build()?,
        };
        let mut projection: Vec<Expr> =
            if lateral { base.schema().columns().into_iter().map(Expr::Column).collect() } else { Vec::new() };
        let mut sets = Vec::new();
        let mut columns = Vec::new();
        let one_column_alias = alias.filter(|_| bounds.len() == 1).map(|a| fold(&a.name));
        let mut record: Option<Vec<OutColumn>> = None;
        for bound in bounds {
            let column_name = one_column_alias.clone().unwrap_or_else(|| name.to_owned());
            let unique = self.fresh(&column_name);
            let (expr, is_set) = match bound.expr {
                Expr::Unnest(u) => (*u.expr, true),
                other => (other, false),
            };
            projection.push(renamed(expr, &unique));
            let column = Column::new_unqualified(unique);
            if is_set {
                sets.push(column.clone());
            }
            if let DataType::Struct(fields) = &bound.data_type {
                // A set of records: its fields are the columns.
                let outs = fields
                    .iter()
                    .map(|f| OutColumn {
                        name: f.name().clone(),
                        ty: crate::planning::types::pg_type(f),
                        data_type: f.data_type().clone(),
                        column: Column::new_unqualified(format!("{}.{}", column.name, f.name())),
                        table_oid: 0,
                        attribute: 0,
                    })
                    .collect();
                record = Some(outs);
                sets.push(column);
                continue;
            }
            columns.push(OutColumn {
                name: column_name,
                ty: bound.ty,
                data_type: bound.data_type,
                column,
                table_oid: 0,
                attribute: 0,
            });
        }
        if ordinality {
            // The number of an element is its place in the array, so an array of numbers is unnested beside it.
            let Some(first) = sets.first().cloned() else {
                return Err(SqlError::unsupported("WITH ORDINALITY of a function that returns one value"));
            };
            let unique = self.fresh("ordinality");
            let list = projection.iter().find_map(|e| match e {
                Expr::Alias(a) if a.name == first.name => Some((*a.expr).clone()),
                _ => None,
            });
            if let Some(list) = list {
                projection.push(renamed(super::super::ordinality::numbers(list), &unique));
                let column = Column::new_unqualified(unique);
                sets.push(column.clone());
                columns.push(OutColumn {
                    name: "ordinality".to_owned(),
                    ty: PgType::of(oid::INT8),
                    data_type: DataType::Int64,
                    column,
                    table_oid: 0,
                    attribute: 0,
                });
            }
        }
        let mut plan = self.project(base, projection)?;
        if !sets.is_empty() {
            if outer && lateral {
                return Err(SqlError::unsupported("LEFT JOIN of a set-returning function over its left side")
                    .hint("Use LEFT JOIN LATERAL (SELECT … FROM f(…)) x ON true."));
            }
            plan = unnest(plan, sets.clone())?;
            if record.is_some() {
                plan = unnest(plan, vec![sets[0].clone()])?;
            }
        }
        if let Some(record) = record {
            columns = record.into_iter().chain(columns).collect();
        }
        let mut item = item_of(Relation { plan, columns }, name);
        self.alias(&mut item, alias)?;
        match left.filter(|_| lateral) {
            Some(left) => {
                let mut relations = left.relations.clone();
                relations.extend(item.relations);
                Ok(Factor::Lateral(Item { plan: item.plan, relations }))
            }
            None => Ok(Factor::Item(item)),
        }
    }

    fn alias(&self, item: &mut Item, alias: Option<&ast::TableAlias>) -> Result<()> {
        let Some(alias) = alias else { return Ok(()) };
        let name = fold(&alias.name);
        let Some(relation) = item.relations.first_mut() else { return Ok(()) };
        relation.alias = Some(name.clone());
        relation.schema = None;
        let names: Vec<String> = alias.columns.iter().map(|c| fold(&c.name)).collect();
        if names.is_empty() {
            return Ok(());
        }
        let visible: Vec<usize> = (0..relation.columns.len())
            .filter(|i| !relation.columns[*i].hidden && !relation.columns[*i].merged)
            .collect();
        let mut outs: Vec<OutColumn> = visible.iter().map(|i| relation.columns[*i].out.clone()).collect();
        rename(&mut outs, &names, &name)?;
        for (i, out) in visible.into_iter().zip(outs) {
            relation.columns[i].out = out;
        }
        Ok(())
    }

    pub(super) fn bind_whole_table(&self, name: &ast::ObjectName, context: &Context) -> Result<Relation> {
        let item = self.table(name, context)?;
        let columns: Vec<OutColumn> =
            item.relations.iter().flat_map(|r| r.columns.iter().filter(|c| !c.hidden).map(|c| c.out.clone())).collect();
        let kept = columns.iter().map(|c| Expr::Column(c.column.clone())).collect();
        Ok(Relation { plan: self.project(item.plan, kept)?, columns })
    }

    fn table(&self, name: &ast::ObjectName, context: &Context) -> Result<Item> {
        let parts = name_parts(name)?;
        if let [only] = parts.as_slice()
            && let Some(cte) = context.cte(only)
        {
            return self.cte_reference(&cte.relation, only);
        }
        match self.resolve_relation(&parts, context.search_path.as_ref().map(|p| p.as_slice()))? {
            Named::Stored(relation) => self.stored(&relation, context),
            Named::Virtual(relation) => self.virtual_relation(&relation),
        }
    }

    /// Each reference gets names of its own, so that one CTE can be joined with itself.
    fn cte_reference(&self, relation: &Relation, name: &str) -> Result<Item> {
        let mut columns = Vec::with_capacity(relation.columns.len());
        let mut projection = Vec::with_capacity(relation.columns.len());
        for c in &relation.columns {
            let unique = self.fresh(&c.name);
            projection.push(renamed(Expr::Column(c.column.clone()), &unique));
            columns.push(OutColumn {
                column: Column::new_unqualified(unique),
                table_oid: 0,
                attribute: 0,
                ..c.clone()
            });
        }
        let plan = self.project(relation.plan.clone(), projection)?;
        Ok(item_of(Relation { plan, columns }, name))
    }

    /// A relation by name, through the search path. `42P01` where there is none.
    pub fn resolve_relation(&self, parts: &[String], search_path: Option<&[String]>) -> Result<Named> {
        let undefined =
            || SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{}\" does not exist", parts.join(".")));
        let (schema, name) = match parts {
            [name] => (None, name),
            [schema, name] => (Some(schema), name),
            [database, schema, name] => {
                self.check_database(database)?;
                (Some(schema), name)
            }
            _ => {
                let written = parts.join(".");
                return Err(syntax(format!("improper qualified name (too many dotted names): {written}")));
            }
        };
        let look_in = |schema: &str| -> Option<Named> {
            let found = self.registry.relations.iter().find(|r| r.schema_name() == schema && r.name() == name);
            if let Some(relation) = found {
                return Some(Named::Virtual(relation.clone()));
            }
            let schema = self.env.catalog.schema_by_name(schema)?;
            self.env.catalog.relation_by_name(schema.id, name).cloned().map(Named::Stored)
        };
        if let Some(schema) = schema {
            return look_in(schema).ok_or_else(undefined);
        }
        let path = match search_path {
            Some(path) => path.to_vec(),
            None => self.env.session.search_path.to_vec(),
        };
        if !path.iter().any(|s| s == "pg_catalog")
            && let Some(found) = look_in("pg_catalog")
        {
            return Ok(found);
        }
        for schema in &path {
            let schema = if schema == "$user" { self.env.session.user.as_ref() } else { schema.as_str() };
            if let Some(found) = look_in(schema) {
                return Ok(found);
            }
        }
        Err(undefined())
    }

    fn stored(&self, relation: &Arc<catalog::Relation>, context: &Context) -> Result<Item> {
        match relation.kind {
            RelationKind::Stream | RelationKind::Table => self.scan(relation),
            RelationKind::View => self.view(relation, context),
            RelationKind::Foreign => {
                Err(SqlError::unsupported(format_args!("a bounded SELECT from foreign table \"{}\"", relation.name))
                    .hint("It never ends: read it live with EMIT."))
            }
        }
    }

    fn scan(&self, relation: &Arc<catalog::Relation>) -> Result<Item> {
        let qualifier = self.fresh(&relation.name);
        let mut fields = Vec::new();
        let mut scanned = Vec::new();
        let mut columns = Vec::new();
        let mut push = |name: &str, ty: PgType, data_type: DataType, scan: ScanColumn, attribute: i16, hidden: bool| {
            let unique = self.fresh(name);
            fields.push(typed_field(&unique, data_type.clone(), ty));
            scanned.push(scan);
            let out = OutColumn {
                name: name.to_owned(),
                ty,
                data_type,
                column: Column::new(Some(qualifier.clone()), unique),
                table_oid: relation.id.0,
                attribute,
            };
            columns.push(ScopeColumn { out, hidden, merged: false });
        };
        for c in &relation.columns {
            let ty = PgType { oid: c.type_oid, modifier: c.type_modifier };
            push(&c.name, ty, c.data_type.clone(), ScanColumn::Column(c.id), c.id.0 as i16, false);
        }
        let stamp = DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, Some("UTC".into()));
        let hidden = [
            ("_sn", oid::INT8, DataType::Int64, ScanColumn::SequenceNumber),
            ("_partition", oid::INT4, DataType::Int32, ScanColumn::Partition),
            ("_arrived", oid::TIMESTAMPTZ, stamp.clone(), ScanColumn::Arrived),
            ("_watermark", oid::TIMESTAMPTZ, stamp, ScanColumn::Watermark),
        ];
        for (name, type_oid, data_type, scan) in hidden {
            push(name, PgType::of(type_oid), data_type, scan, 0, true);
        }
        let table = Arc::new(ShardTable::new(relation.clone(), Arc::new(Schema::new(fields)), scanned));
        let reference = datafusion::common::TableReference::bare(qualifier);
        let plan = LogicalPlanBuilder::scan(reference, provider_as_source(table), None)?.build()?;
        let schema = self.env.catalog.schema(relation.schema).map(|s| s.name.clone());
        let relations = vec![ScopeRelation { alias: Some(relation.name.clone()), schema, columns }];
        Ok(Item { plan, relations })
    }

    fn view(&self, relation: &Arc<catalog::Relation>, context: &Context) -> Result<Item> {
        self.deeper(|| {
            let query = crate::sql::parse_query(&relation.query)?;
            // A view reads nothing of the query around it.
            let inner = Context { boundary: None, ctes: None, search_path: context.search_path.clone() };
            let bound = self.bind_query(&query, &inner, None)?;
            let mut bound = self.without_unknown(bound)?;
            if bound.columns.len() < relation.columns.len() {
                return Err(SqlError::new(
                    SqlState::INVALID_OBJECT_DEFINITION,
                    format!("view \"{}\" has fewer columns than it declares", relation.name),
                ));
            }
            bound.columns.truncate(relation.columns.len());
            for (out, declared) in bound.columns.iter_mut().zip(&relation.columns) {
                out.name.clone_from(&declared.name);
                out.table_oid = relation.id.0;
                out.attribute = declared.id.0 as i16;
            }
            let schema = self.env.catalog.schema(relation.schema).map(|s| s.name.clone());
            let mut item = item_of(bound, &relation.name);
            item.relations[0].schema = schema;
            Ok(item)
        })
    }

    fn virtual_relation(&self, relation: &Arc<dyn VirtualRelation>) -> Result<Item> {
        self.use_once();
        let qualifier = self.fresh(relation.name());
        let mut fields = Vec::new();
        let mut columns = Vec::new();
        for (i, c) in relation.columns().into_iter().enumerate() {
            let unique = self.fresh(c.name);
            let field = crate::planning::types::field(&unique, c.pg_type);
            let out = OutColumn {
                name: c.name.to_owned(),
                ty: c.pg_type,
                data_type: field.data_type().clone(),
                column: Column::new(Some(qualifier.clone()), unique),
                table_oid: relation.oid(),
                attribute: i as i16 + 1,
            };
            fields.push(field);
            columns.push(ScopeColumn { out, hidden: false, merged: false });
        }
        let table = VirtualTable::new(relation.clone(), Arc::new(Schema::new(fields)), self.env.clone());
        let reference = datafusion::common::TableReference::bare(qualifier);
        let plan = LogicalPlanBuilder::scan(reference, provider_as_source(Arc::new(table)), None)?.build()?;
        let alias = Some(relation.name().to_owned());
        let schema = Some(relation.schema_name().to_owned());
        Ok(Item { plan, relations: vec![ScopeRelation { alias, schema, columns }] })
    }

    /// The stored relation of a name, for statements that write.
    pub fn stored_relation(&self, name: &ast::ObjectName) -> Result<Arc<catalog::Relation>> {
        let parts = name_parts(name)?;
        match self.resolve_relation(&parts, None)? {
            Named::Stored(relation) => Ok(relation),
            Named::Virtual(relation) => Err(SqlError::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                format!("permission denied: \"{}\" is a system catalog", relation.name()),
            )),
        }
    }
}

enum Factor {
    Item(Item),
    /// Already joined with what stands to its left.
    Lateral(Item),
}

fn is_lateral(factor: &ast::TableFactor) -> bool {
    matches!(
        factor,
        ast::TableFactor::Derived { lateral: true, .. }
            | ast::TableFactor::Function { .. }
            | ast::TableFactor::UNNEST { .. }
            | ast::TableFactor::Table { args: Some(_), .. }
    )
}

fn is_true(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Value(v) if v.value == ast::Value::Boolean(true))
}

fn item_of(relation: Relation, alias: &str) -> Item {
    let columns = relation.columns.into_iter().map(|out| ScopeColumn { out, hidden: false, merged: false }).collect();
    let alias = (!alias.is_empty()).then(|| alias.to_owned());
    Item { plan: relation.plan, relations: vec![ScopeRelation { alias, schema: None, columns }] }
}

fn check_aliases(relations: &[ScopeRelation]) -> Result<()> {
    for (i, r) in relations.iter().enumerate() {
        let Some(alias) = &r.alias else { continue };
        let twice = relations[..i].iter().any(|o| o.alias.as_ref() == Some(alias) && o.schema == r.schema);
        if twice {
            let message = format!("table name \"{alias}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_ALIAS, message));
        }
    }
    Ok(())
}

/// Relations a plan reads, for the permission and dependency checks of others.
pub fn relations_read(plan: &LogicalPlan) -> Vec<RelationId> {
    use datafusion::common::tree_node::TreeNodeRecursion;
    let mut found = Vec::new();
    let _ = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = datafusion::datasource::source_as_provider(&scan.source)
            && let Some(table) = provider.downcast_ref::<ShardTable>()
            && !found.contains(&table.relation().id)
        {
            found.push(table.relation().id);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    found
}
