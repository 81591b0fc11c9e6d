//! What names mean where: the relations in sight, the query around a subquery, and common table expressions.

use std::cell::RefCell;
use std::rc::Rc;

use arrow::datatypes::DataType;
use datafusion::common::Column;
use datafusion::logical_expr::Expr;

use super::{Binder, Bound, Relation};
use crate::planning::apply::OuterCell;
use crate::planning::types::{PgType, field_ref, typed_field};
use crate::sql::error::{Result, SqlError, SqlState};

/// A column as a query gives it.
#[derive(Clone, Debug)]
pub struct OutColumn {
    pub name: String,
    pub ty: PgType,
    pub data_type: DataType,
    /// Its name in the plan.
    pub column: Column,
    /// Relation and attribute number of a plain column, else zeros.
    pub table_oid: u32,
    pub attribute: i16,
}

impl OutColumn {
    pub fn bound(&self) -> Bound {
        Bound { expr: Expr::Column(self.column.clone()), ty: self.ty, data_type: self.data_type.clone() }
    }
}

#[derive(Clone, Debug)]
pub(super) struct ScopeColumn {
    pub out: OutColumn,
    /// Selectable by name, never part of `*`.
    pub hidden: bool,
    /// Stands behind a column merged by USING: reached only with its relation's name.
    pub merged: bool,
}

#[derive(Clone, Debug)]
pub(super) struct ScopeRelation {
    /// `None`: the merged columns of a JOIN USING.
    pub alias: Option<String>,
    pub schema: Option<String>,
    pub columns: Vec<ScopeColumn>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    pub relations: Vec<ScopeRelation>,
}

/// Around a subquery: the query outside, and which of its columns the subquery reads.
pub(super) struct Boundary {
    pub outside: Scope,
    pub beyond: Option<Rc<Boundary>>,
    /// In terms of the outside.
    pub arguments: RefCell<Vec<Expr>>,
    /// Where the nested loop puts their values; `None` = DataFusion's own outer references.
    pub cell: Option<OuterCell>,
}

pub(super) struct Cte {
    pub name: String,
    pub relation: Relation,
    pub next: Option<Rc<Cte>>,
}

/// What a query inherits from where it stands.
#[derive(Clone, Default)]
pub(super) struct Context {
    pub boundary: Option<Rc<Boundary>>,
    pub ctes: Option<Rc<Cte>>,
    /// Views being expanded, so that none contains itself.
    pub search_path: Option<Rc<Vec<String>>>,
}

impl Context {
    pub fn cte(&self, name: &str) -> Option<Rc<Cte>> {
        let mut at = self.ctes.clone();
        while let Some(cte) = at {
            if cte.name == name {
                return Some(cte);
            }
            at = cte.next.clone();
        }
        None
    }
}

pub(super) enum Found {
    None,
    One(OutColumn),
    Many,
}

impl Scope {
    pub fn find(&self, relation: Option<(&str, Option<&str>)>, name: &str) -> Found {
        let mut found: Option<&OutColumn> = None;
        for r in &self.relations {
            if let Some((alias, schema)) = relation {
                let same_schema = schema.is_none() || schema == r.schema.as_deref();
                if r.alias.as_deref() != Some(alias) || !same_schema {
                    continue;
                }
            }
            for c in r.columns.iter().filter(|c| c.out.name == name) {
                if relation.is_none() && c.merged {
                    continue;
                }
                if found.is_some() {
                    return Found::Many;
                }
                found = Some(&c.out);
            }
        }
        found.map_or(Found::None, |c| Found::One(c.clone()))
    }

    pub fn relation(&self, alias: &str, schema: Option<&str>) -> Option<&ScopeRelation> {
        self.relations
            .iter()
            .find(|r| r.alias.as_deref() == Some(alias) && (schema.is_none() || schema == r.schema.as_deref()))
    }

    /// `t.a` for a column of the plan, as an error names it.
    pub fn written(&self, column: &Column) -> Option<String> {
        for r in &self.relations {
            for c in &r.columns {
                if c.out.column == *column {
                    return Some(match &r.alias {
                        Some(alias) => format!("{alias}.{}", c.out.name),
                        None => c.out.name.clone(),
                    });
                }
            }
        }
        None
    }
}

impl Binder<'_> {
    /// A column by name, here or in a query around. `None` = there is none.
    pub(super) fn find_column(
        &self,
        scope: &Scope,
        boundary: Option<&Rc<Boundary>>,
        relation: Option<(&str, Option<&str>)>,
        name: &str,
    ) -> Result<Option<(Bound, Option<OutColumn>)>> {
        match scope.find(relation, name) {
            Found::One(column) => return Ok(Some((column.bound(), Some(column)))),
            Found::Many => {
                let message = format!("column reference \"{name}\" is ambiguous");
                return Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message));
            }
            Found::None => {}
        }
        let Some(boundary) = boundary else { return Ok(None) };
        let Some((outer, _)) = self.find_column(&boundary.outside, boundary.beyond.as_ref(), relation, name)? else {
            return Ok(None);
        };
        Ok(Some((self.outer_reference(boundary, outer)?, None)))
    }

    fn outer_reference(&self, boundary: &Rc<Boundary>, outer: Bound) -> Result<Bound> {
        let mut arguments = boundary.arguments.borrow_mut();
        let at = match arguments.iter().position(|a| *a == outer.expr) {
            Some(at) => at,
            None => {
                arguments.push(outer.expr.clone());
                arguments.len() - 1
            }
        };
        let expr = match (&boundary.cell, &outer.expr) {
            (Some(cell), _) => cell.reference(at, field_of(&outer)),
            (None, Expr::Column(column)) => Expr::OuterReferenceColumn(field_of(&outer), column.clone()),
            // Further out than one level, or no plain column: for the nested loop.
            (None, _) => return Err(super::subquery::needs_nested_loop()),
        };
        Ok(Bound { expr, ..outer })
    }
}

fn field_of(bound: &Bound) -> arrow::datatypes::FieldRef {
    let plain = field_ref("outer", bound.ty);
    if plain.data_type() == &bound.data_type {
        return plain;
    }
    std::sync::Arc::new(typed_field("outer", bound.data_type.clone(), bound.ty))
}
