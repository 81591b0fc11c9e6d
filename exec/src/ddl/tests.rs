//! Scripts of DDL over an in-memory store: statements in, tags, notices, errors and the catalog out.
//! `TestQueries` resolves just enough queries to follow views; the planner's own tests cover the rest.

use std::sync::Arc;

use alluvium_storage::catalog::{Catalog, Retention};
use alluvium_storage::{Durability, RelationId, ShardId, Store};
use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use sqlparser::ast;

use super::*;
use crate::engine::ColumnDescription;
use crate::planning::types::{PgType, oid};
use crate::session_context::{Activity, SessionHost};
use crate::sql::statement::Statement;

struct TestQueries;

fn undefined(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist"))
}

impl Queries for TestQueries {
    fn describe(&self, query: &ast::Query, catalog: &Catalog, session: &SessionContext) -> Result<Described> {
        let ast::SetExpr::Select(select) = query.body.as_ref() else {
            return Err(SqlError::unsupported("this in a test"));
        };
        let names = Names::new(session, catalog);
        let mut from = Vec::new();
        for table in &select.from {
            for factor in std::iter::once(&table.relation).chain(table.joins.iter().map(|j| &j.relation)) {
                let ast::TableFactor::Table { name, alias, .. } = factor else {
                    return Err(SqlError::unsupported("this in a test"));
                };
                let relation = names.existing(&crate::sql::ddl::RelationName::from_ast(name)?, false)?;
                let alias = alias.as_ref().map_or_else(|| relation.name.clone(), |a| a.name.value.clone());
                from.push((alias, relation));
            }
        }
        let column = |c: &alluvium_storage::catalog::Column| ColumnDescription {
            name: c.name.clone(),
            pg_type: PgType { oid: c.type_oid, modifier: c.type_modifier },
            table_oid: 0,
            attribute: 0,
        };
        let find = |alias: Option<&str>, name: &str| {
            from.iter()
                .filter(|(a, _)| alias.is_none_or(|wanted| wanted == a))
                .find_map(|(_, r)| r.column(name).map(column))
                .ok_or_else(|| undefined(name))
        };
        let mut columns = Vec::new();
        for item in &select.projection {
            let (expr, alias) = match item {
                ast::SelectItem::Wildcard(_) => {
                    columns.extend(from.iter().flat_map(|(_, r)| r.columns.iter().map(column)));
                    continue;
                }
                ast::SelectItem::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::ObjectName(of), _) => {
                    let of = of.0[0].as_ident().map(|i| i.value.clone()).unwrap_or_default();
                    let of = from.iter().filter(|(a, _)| *a == of);
                    columns.extend(of.flat_map(|(_, r)| r.columns.iter().map(column)));
                    continue;
                }
                ast::SelectItem::UnnamedExpr(e) => (e, None),
                ast::SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias.value.clone())),
                _ => return Err(SqlError::unsupported("this in a test")),
            };
            let mut described = match expr {
                ast::Expr::Identifier(i) => find(None, &i.value)?,
                ast::Expr::CompoundIdentifier(parts) => find(Some(&parts[0].value), &parts[1].value)?,
                _ => ColumnDescription {
                    name: "?column?".into(),
                    pg_type: PgType::of(oid::INT4),
                    table_oid: 0,
                    attribute: 0,
                },
            };
            if let Some(alias) = alias {
                described.name = alias;
            }
            columns.push(described);
        }
        let mut reads: Vec<RelationId> = from.iter().map(|(_, r)| r.id).collect();
        reads.dedup();
        Ok(Described { columns, reads })
    }

    fn constant(
        &self,
        expression: &ast::Expr,
        target: PgType,
        column: &str,
        _: &Catalog,
        _: &SessionContext,
    ) -> Result<Constant> {
        let text = expression.to_string();
        let value: ArrayRef = match (target.oid, text.parse::<i32>()) {
            (oid::INT4, Ok(n)) => Arc::new(Int32Array::from(vec![n])),
            (oid::TEXT, Err(_)) => Arc::new(StringArray::from(vec![text.trim_matches('\'')])),
            (oid::INT4, Err(_)) if text == "random()" => Arc::new(Int32Array::from(vec![1])),
            _ => {
                return Err(SqlError::new(
                    SqlState::DATATYPE_MISMATCH,
                    format!("column \"{column}\" is of another type but expression is not"),
                ));
            }
        };
        Ok(Constant { value, volatile: text == "random()", stable: false })
    }

    fn run<'a>(
        &'a self,
        _: &'a ast::Query,
        _: &'a [ArrayRef],
        _: &'a SessionContext,
        _: &'a Block,
    ) -> BoxFuture<'a, Result<(Vec<ColumnDescription>, BoxStream<'static, Result<RecordBatch>>)>> {
        Box::pin(async {
            let rows: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
            let batch = RecordBatch::try_from_iter([("x", rows)])
                .map_err(|e| SqlError::new(SqlState::INTERNAL_ERROR, e.to_string()))?;
            Ok((Vec::new(), futures::stream::iter([Ok(batch)]).boxed()))
        })
    }
}

struct TestHost;

impl SessionHost for TestHost {
    fn setting(&self, _: &str) -> Option<String> {
        None
    }
    fn set(&self, _: &str, value: &str, _: bool) -> Result<String> {
        Ok(value.to_owned())
    }
    fn settings(&self) -> Vec<(String, String, String)> {
        Vec::new()
    }
    fn cancel_backend(&self, _: i32) -> bool {
        false
    }
    fn terminate_backend(&self, _: i32) -> bool {
        false
    }
    fn notify(&self, _: &str, _: &str) {}
    fn activity(&self) -> Vec<Activity> {
        Vec::new()
    }
}

fn session() -> SessionContext {
    SessionContext {
        user: "postgres".into(),
        database: "postgres".into(),
        search_path: vec!["$user".to_owned(), "public".to_owned()].into(),
        timezone: "UTC".into(),
        transaction_time_us: 0,
        statement_time_us: 0,
        backend_pid: 1,
        home: ShardId(0),
        host: Arc::new(TestHost),
    }
}

fn block(store: &Store) -> Block {
    Block { transaction: store.begin(ShardId(0)), snapshot: None, read_only: false, notices: Notices::default() }
}

/// Runs each line as a statement of its own block; a line's answer is its tag and what it had to say.
fn run(script: &str) -> (Store, String) {
    let store = Store::in_memory(2);
    let answers = futures::executor::block_on(async {
        let mut answers = Vec::new();
        for line in script.lines().map(str::trim).filter(|l| !l.is_empty()) {
            answers.push(one(&store, line).await);
        }
        answers.join("\n")
    });
    (store, answers)
}

async fn one(store: &Store, text: &str) -> String {
    let (session, registry) = (session(), Registry::default());
    let context = Context { session: &session, store, registry: &registry, queries: &TestQueries };
    let mut block = block(store);
    let result = match crate::sql::parse(text).map(|mut s| s.remove(0).statement) {
        Ok(Statement::Ddl(ddl)) => execute(&ddl, &context, &mut block).await,
        Ok(_) => Err(SqlError::unsupported("this in a test")),
        Err(error) => Err(error),
    };
    let mut lines: Vec<String> = block
        .notices
        .take()
        .into_iter()
        .map(|(severity, n)| format!("{severity:?}: {}{}", n.fields().message, tail(&n)))
        .collect();
    match result {
        Ok(tag) => {
            block.commit(Durability::Sync).await.expect("an in-memory commit succeeds");
            lines.push(match tag {
                Tag::Text(text) => text.to_owned(),
                Tag::Selected(n) => format!("SELECT {n}"),
                other => format!("{other:?}"),
            });
        }
        Err(error) => lines.push(format!("{} {}{}", error.state().0, error.fields().message, tail(&error))),
    }
    lines.join("\n")
}

fn tail(error: &SqlError) -> String {
    let detail = error.fields().detail.as_ref().map(|d| format!(" | {}", d.replace('\n', " / ")));
    let hint = error.fields().hint.as_ref().map(|h| format!(" | {h}"));
    format!("{}{}", detail.unwrap_or_default(), hint.unwrap_or_default())
}

/// The script's lines and, behind `->`, their answers.
fn check(script: &str) -> Store {
    let mut statements = Vec::new();
    let mut expected = Vec::new();
    for line in script.lines().map(str::trim).filter(|l| !l.is_empty()) {
        match line.strip_prefix("-> ") {
            Some(answer) => expected.push(answer),
            None => statements.push(line),
        }
    }
    let (store, got) = run(&statements.join("\n"));
    assert_eq!(got, expected.join("\n"));
    store
}

fn find(store: &Store, name: &str) -> Arc<Relation> {
    let catalog = store.catalog();
    catalog.relations().find(|r| r.name == name).cloned().unwrap_or_else(|| panic!("no relation {name}"))
}

#[test]
fn relations_are_created_with_their_options() {
    let store = check(
        "create stream s (k text, ts timestamptz not null, x numeric(10,2) default 5) watermark for ts as ts - interval '5 s' partition by (k) order by (k, ts) with (partitions = 4, log_retention = '64MB', history_retention = '0')
        -> 42804 column \"x\" is of another type but default expression is not | You will need to rewrite or cast the expression.
        create stream s (k text, ts timestamptz not null, x int default 5) watermark for ts as ts - interval '5 s' partition by (k) order by (k, ts) with (partitions = 4, log_retention = '64MB', history_retention = '0')
        -> CREATE STREAM
        create table if not exists s (a int)
        -> Notice: relation \"s\" already exists, skipping
        -> CREATE TABLE
        create table s (a int)
        -> 42P07 relation \"s\" already exists
        create table t (a int, a text)
        -> 42701 column \"a\" specified more than once
        create table t (a nosuch)
        -> 42704 type \"nosuch\" does not exist
        create table t (_sn bigint)
        -> 42701 column name \"_sn\" conflicts with a system column name
        create table t (a int default b)
        -> 0A000 cannot use column reference in DEFAULT expression
        create table t (a int default (select 1))
        -> 0A000 cannot use subquery in DEFAULT expression
        create table t (a int) with (colour = 'red')
        -> 22023 unrecognized parameter \"colour\"
        create table t (a int) with (partitions = 0)
        -> 22023 value 0 out of bounds for option \"partitions\" | Valid values are between \"1\" and \"1024\".
        create table t (a int) with (log_retention = 'soon')
        -> 22023 invalid value for option \"log_retention\": soon | Write a time or bytes with their unit: '1 day', '64MB', or 'forever'.
        create table t (a int) with (fillfactor = 70)
        -> Notice: storage parameter \"fillfactor\" has no effect
        -> CREATE TABLE
        create table nosuch.t (a int)
        -> 3F000 schema \"nosuch\" does not exist
        create table pg_catalog.t (a int)
        -> 42501 permission denied to create \"pg_catalog.t\" | System catalog modifications are currently disallowed.
        create table other.public.t (a int)
        -> 0A000 cross-database references are not implemented: \"other.public.t\"
        create stream w (a int) watermark for a as a
        -> 42804 column \"a\" of a WATERMARK is of type integer | Use a column of type timestamptz or timestamp.
        create stream w (ts timestamptz) watermark for ts as ts - interval '1 month'
        -> 22023 the delay of a WATERMARK must not contain months or years
        create table u (like s, b int)
        -> CREATE TABLE",
    );
    let s = find(&store, "s");
    assert_eq!((s.kind, s.partitions, s.columns.len()), (RelationKind::Stream, 4, 3));
    assert_eq!(s.watermark.as_ref().map(|w| w.delay_us), Some(5_000_000));
    assert_eq!(s.options.log_retention, Retention::Bytes { bytes: 67_108_864 });
    assert_eq!(s.options.history_retention, Retention::Time { us: 0 });
    assert_eq!(s.columns[2].default.as_deref(), Some("5"));
    assert!(s.columns[1].not_null);
    assert_eq!(find(&store, "t").partitions, 2);
    let u = find(&store, "u");
    assert_eq!(u.columns.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["k", "ts", "x", "b"]);
    assert_eq!(u.columns[2].default, None);
}

#[test]
fn drop_follows_dependants_and_kinds() {
    check(
        "create table t (a int, b int)
        -> CREATE TABLE
        create view v as select a from t
        -> CREATE VIEW
        create view w as select a from v
        -> CREATE VIEW
        drop table t
        -> 2BP01 cannot drop table t because other objects depend on it | view v depends on table t / view w depends on view v | Use DROP ... CASCADE to drop the dependent objects too.
        drop view t
        -> 42809 \"t\" is not a view | Use DROP TABLE to remove a table.
        drop table v
        -> 42809 \"v\" is not a table | Use DROP VIEW to remove a view.
        drop stream t
        -> 42809 \"t\" is not a stream | Use DROP TABLE to remove a table.
        drop table nosuch
        -> 42P01 table \"nosuch\" does not exist
        drop table if exists nosuch, nosuch.t
        -> Notice: table \"nosuch\" does not exist, skipping
        -> Notice: schema \"nosuch\" does not exist, skipping
        -> DROP TABLE
        alter table t drop column a
        -> 2BP01 cannot drop column a of table t because other objects depend on it | view v depends on column a of table t | Use DROP ... CASCADE to drop the dependent objects too.
        alter table t drop column b
        -> ALTER TABLE
        drop table t cascade
        -> Notice: drop cascades to 2 other objects | drop cascades to view v / drop cascades to view w
        -> DROP TABLE
        drop view v
        -> 42P01 view \"v\" does not exist",
    );
}

#[test]
fn alter_changes_columns_names_and_options() {
    let store = check(
        "create table t (a int)
        -> CREATE TABLE
        alter table t add column b int default 7, add column c text
        -> ALTER TABLE
        alter table t add column b int
        -> 42701 column \"b\" of relation \"t\" already exists
        alter table t add column if not exists b int
        -> Notice: column \"b\" of relation \"t\" already exists, skipping
        -> ALTER TABLE
        alter table t add column d int default random()
        -> 0A000 adding a column with a volatile default is not supported | Add the column without default, then ALTER COLUMN … SET DEFAULT for the rows to come.
        alter table t rename column a to b
        -> 42701 column \"b\" of relation \"t\" already exists
        alter table t rename column nosuch to x
        -> 42703 column \"nosuch\" does not exist
        alter table t rename a to aa
        -> ALTER TABLE
        alter table t drop column nosuch
        -> 42703 column \"nosuch\" of relation \"t\" does not exist
        alter table t drop column if exists nosuch
        -> Notice: column \"nosuch\" of relation \"t\" does not exist, skipping
        -> ALTER TABLE
        alter table t drop column c, alter column aa set default 3
        -> ALTER TABLE
        alter table t set (log_retention = '2 days')
        -> ALTER TABLE
        alter table t set (partitions = 9)
        -> 0A000 changing partitions is not supported | Create a relation with the wanted partitions and INSERT … SELECT into it.
        alter stream t rename to u
        -> 42809 \"t\" is not a stream
        alter table t rename to u
        -> ALTER TABLE
        alter table t rename to u
        -> 42P01 relation \"t\" does not exist
        alter table if exists t rename to u
        -> Notice: relation \"t\" does not exist, skipping
        -> ALTER TABLE
        alter table u owner to nobody
        -> 42704 role \"nobody\" does not exist
        comment on column u.aa is 'words'
        -> COMMENT
        comment on table u is 'more'
        -> COMMENT
        truncate u
        -> TRUNCATE TABLE
        truncate nosuch
        -> 42P01 relation \"nosuch\" does not exist
        vacuum analyze u
        -> VACUUM
        create table e as select a from u
        -> 42703 column \"a\" does not exist
        create table e (x) as select aa from u
        -> SELECT 3
        alter table e add column n int not null
        -> 23502 column \"n\" of relation \"e\" contains null values
        alter table e add column n int not null default 1
        -> ALTER TABLE
        alter table u add column n int not null
        -> ALTER TABLE",
    );
    let u = find(&store, "u");
    let columns: Vec<_> = u.columns.iter().map(|c| (c.id.0, c.name.as_str(), c.default.as_deref())).collect();
    assert_eq!(columns, [(1, "aa", Some("3")), (2, "b", Some("7")), (4, "n", None)]);
    assert!(u.columns[1].missing.is_some());
    assert_eq!(u.columns[0].comment.as_deref(), Some("words"));
    assert_eq!(u.options.log_retention, Retention::Time { us: 172_800_000_000 });
}

#[test]
fn views_keep_their_meaning() {
    let store = check(
        "create table t (a int, b int)
        -> CREATE TABLE
        create view v as select * from t
        -> CREATE VIEW
        create view j as select x.*, y.b as bb from t x join t y on x.a = y.a
        -> CREATE VIEW
        create view jj as select * from t x join t y on x.a = y.a
        -> 42701 column \"a\" specified more than once
        alter table t add column c int
        -> ALTER TABLE
        create schema s
        -> CREATE SCHEMA
        alter table t set schema s
        -> ALTER TABLE
        alter table s.t rename to u
        -> ALTER TABLE
        alter schema s rename to r
        -> ALTER SCHEMA
        alter table r.u rename column a to z
        -> 0A000 renaming column \"a\", which view v uses, is not supported | Drop the view, rename the column, and create the view again.
        alter table r.u rename column c to z
        -> ALTER TABLE
        create or replace view v as select a from r.u
        -> 42P16 cannot drop columns from view
        create or replace view v as select a, b as d from r.u
        -> 42P16 cannot change name of view column \"b\" to \"d\" | Use ALTER VIEW ... RENAME COLUMN ... to change name of view column instead.
        create or replace view v as select a, b, z from r.u
        -> CREATE VIEW
        create or replace view v as select a, b, z from v
        -> 42P17 infinite recursion detected in rules for relation \"v\"
        create view v as select 1
        -> 42P07 relation \"v\" already exists
        create or replace view u as select 1
        -> CREATE VIEW
        create view n (x, y) as select 1
        -> 42601 CREATE VIEW specifies more column names than columns
        drop schema r
        -> 2BP01 cannot drop schema r because other objects depend on it | table r.u depends on schema r / view v depends on table r.u / view j depends on table r.u | Use DROP ... CASCADE to drop the dependent objects too.
        drop schema r cascade
        -> Notice: drop cascades to 3 other objects | drop cascades to table r.u / drop cascades to view v / drop cascades to view j
        -> DROP SCHEMA",
    );
    assert!(store.catalog().relations().all(|r| r.name != "v"));
    let store = check(
        "create table t (a int, b int)
        -> CREATE TABLE
        create view v as select * from t
        -> CREATE VIEW
        alter table t rename to u
        -> ALTER TABLE",
    );
    assert_eq!(find(&store, "v").query, "SELECT \"a\", \"b\" FROM \"public\".\"u\" AS \"t\"");
    assert_eq!(find(&store, "v").depends_on, [find(&store, "u").id]);
}

#[test]
fn schemas_and_servers() {
    check(
        "create schema s
        -> CREATE SCHEMA
        create schema s
        -> 42P06 schema \"s\" already exists
        create schema if not exists s
        -> Notice: schema \"s\" already exists, skipping
        -> CREATE SCHEMA
        create schema pg_x
        -> 42939 unacceptable schema name \"pg_x\" | The prefix \"pg_\" is reserved for system schemas.
        drop schema nosuch
        -> 3F000 schema \"nosuch\" does not exist
        drop schema if exists nosuch, s
        -> Notice: schema \"nosuch\" does not exist, skipping
        -> DROP SCHEMA
        create server k foreign data wrapper kafka
        -> 0A000 foreign data wrapper \"kafka\" is not supported | Use the wrapper generator.
        create server k foreign data wrapper nosuch
        -> 42704 foreign-data wrapper \"nosuch\" does not exist
        create foreign table f (a int) server nosuch
        -> 42704 server \"nosuch\" does not exist
        drop server nosuch
        -> 42704 server \"nosuch\" does not exist",
    );
}
