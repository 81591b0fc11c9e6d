//! The catalog as clients read it: their own queries (`catalog/*.sql`) over a few known objects, answers in `*.out`.
//! `UPDATE_ANSWERS=1` writes the answers anew; read the difference before committing it.

use std::sync::Arc;

use alluvium::pg_catalog;
use alluvium_exec::planning::cast::text_of;
use alluvium_exec::planning::datetime::{Moment, Zone};
use alluvium_exec::planning::types::{PgType, arrow_type, field, oid};
use alluvium_exec::session_context::Activity;
use alluvium_exec::{Engine, Outcome, SessionContext, SessionHost, SqlError, SqlState};
use alluvium_storage::catalog::{
    CatalogEdit, Column, ForeignSource, Relation, RelationKind, RelationOptions, Schema, Server,
};
use alluvium_storage::{ColumnId, Durability, Executor, RelationId, SchemaId, ServerId, ShardId, Store};
use arrow::array::{Array, RecordBatch};

struct Host;

impl SessionHost for Host {
    fn setting(&self, name: &str) -> Option<String> {
        let known = self.settings().into_iter().find(|(n, _, _)| n.eq_ignore_ascii_case(name));
        known.map(|(_, value, _)| value)
    }
    fn set(&self, name: &str, value: &str, _: bool) -> Result<String, SqlError> {
        match self.setting(name) {
            Some(_) => Ok(value.to_owned()),
            None => Err(SqlError::new(
                SqlState::UNDEFINED_OBJECT,
                format!("unrecognized configuration parameter \"{name}\""),
            )),
        }
    }
    fn settings(&self) -> Vec<(String, String, String)> {
        [
            ("client_encoding", "UTF8"),
            ("jit", "off"),
            ("lc_collate", "C"),
            ("lc_ctype", "C.UTF-8"),
            ("max_index_keys", "32"),
            ("search_path", "\"$user\", public"),
            ("server_version", "15.20 (alluvium)"),
            ("server_version_num", "150020"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned(), "A setting.".to_owned()))
        .into()
    }
    fn cancel_backend(&self, pid: i32) -> bool {
        pid == 7
    }
    fn terminate_backend(&self, pid: i32) -> bool {
        pid == 7
    }
    fn notify(&self, _: &str, _: &str) {}
    fn activity(&self) -> Vec<Activity> {
        vec![Activity {
            pid: 7,
            user: "postgres".into(),
            database: "postgres".into(),
            application_name: "test".into(),
            client_address: Some("127.0.0.1".into()),
            client_port: 4242,
            backend_start_us: 1_700_000_000_000_000,
            transaction_start_us: None,
            query_start_us: None,
            state: "active",
            query: "select 1".into(),
        }]
    }
}

fn session() -> SessionContext {
    SessionContext {
        user: "postgres".into(),
        database: "postgres".into(),
        search_path: Arc::from(["$user".to_owned(), "public".to_owned()]),
        timezone: "UTC".into(),
        transaction_time_us: 1_700_000_000_000_000,
        statement_time_us: 1_700_000_000_000_000,
        backend_pid: 7,
        home: ShardId(0),
        host: Arc::new(Host),
    }
}

fn moment() -> Moment {
    Moment { now_us: 1_700_000_000_000_000, zone: Zone::UTC }
}

fn column(id: u16, name: &str, t: PgType) -> Column {
    Column {
        id: ColumnId(id),
        name: name.to_owned(),
        data_type: arrow_type(t).expect("a type"),
        type_oid: t.oid,
        type_modifier: t.modifier,
        not_null: false,
        default: None,
        missing: None,
        comment: None,
        foreign_options: Default::default(),
    }
}

fn relation(id: u32, name: &str, kind: RelationKind, columns: Vec<Column>) -> Relation {
    Relation {
        id: RelationId(id),
        schema: SchemaId(2200),
        name: name.to_owned(),
        kind,
        owner: "postgres".to_owned(),
        next_column: ColumnId(columns.last().map_or(1, |c| c.id.0 + 1)),
        columns,
        partitions: 1,
        partition_by: vec![],
        order_by: vec![],
        watermark: None,
        options: RelationOptions::default(),
        query: String::new(),
        depends_on: vec![],
        foreign: None,
        comment: None,
    }
}

/// Stream `t` with a dropped column, view `v` over it, table `s2.u`, foreign table `Feed` of server `gen`.
async fn fill(store: &Store) {
    let mut t = relation(
        16_384,
        "t",
        RelationKind::Stream,
        vec![
            Column { not_null: true, ..column(1, "a", PgType::of(oid::INT4)) },
            Column {
                default: Some("'x'::text".into()),
                comment: Some("bee".into()),
                ..column(2, "b", PgType::of(oid::TEXT))
            },
            column(4, "c", PgType { oid: oid::VARCHAR, modifier: 14 }),
            column(5, "d", PgType { oid: oid::NUMERIC, modifier: 524_294 }),
            column(6, "e", PgType::of(oid::TIMESTAMPTZ)),
            column(7, "f", PgType::of(1007)),
        ],
    );
    t.comment = Some("hello".into());
    t.options.given.insert("partitions".into(), "4".into());
    let mut v = relation(16_385, "v", RelationKind::View, vec![column(1, "a", PgType::of(oid::INT4))]);
    v.query = "SELECT a FROM public.t WHERE a > 1".into();
    v.depends_on = vec![RelationId(16_384)];
    let mut u = relation(16_387, "u", RelationKind::Table, vec![column(1, "X y", PgType::of(oid::INT8))]);
    u.schema = SchemaId(16_386);
    let mut feed = relation(16_389, "Feed", RelationKind::Foreign, vec![column(1, "n", PgType::of(oid::INT8))]);
    let options = [("seed".to_owned(), "1".to_owned())];
    feed.foreign = Some(ForeignSource {
        server: ServerId(16_388),
        wrapper: "generator".into(),
        options: [("rate".to_owned(), "10".to_owned())].into_iter().chain(options.clone()).collect(),
    });
    let mut transaction = store.begin(ShardId(0));
    for edit in [
        CatalogEdit::PutRelation(Box::new(t)),
        CatalogEdit::PutRelation(Box::new(v)),
        CatalogEdit::PutSchema(Schema { id: SchemaId(16_386), name: "s2".into(), owner: "postgres".into() }),
        CatalogEdit::PutRelation(Box::new(u)),
        CatalogEdit::PutServer(Server {
            id: ServerId(16_388),
            name: "gen".into(),
            owner: "postgres".into(),
            wrapper: "generator".into(),
            options: options.into(),
        }),
        CatalogEdit::PutRelation(Box::new(feed)),
    ] {
        transaction.edit_catalog(edit).await.expect("a new name");
    }
    transaction.commit(Durability::Sync).await.expect("committed");
}

fn with_engine(test: impl AsyncFnOnce(Engine, Store)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let store = Store::in_memory(1);
        fill(&store).await;
        let engine = Engine::new(store.clone(), vec![Executor::current_thread()], pg_catalog::registry());
        test(engine, store).await;
    });
}

async fn rows(engine: &Engine, text: &str) -> Result<String, SqlError> {
    let session = session();
    let mut out = String::new();
    for parsed in engine.parse(text).await? {
        let mut block = engine.begin(&session);
        let prepared = engine.prepare(Arc::new(parsed), &[], &session, Some(&block)).await?;
        let Outcome::Rows(execution) = engine.execute(&prepared, vec![], &session, &mut block).await? else { continue };
        let types: Vec<PgType> = execution.columns.iter().map(|c| c.pg_type).collect();
        let mut rows = execution.start(2, |batch| Ok(batch.clone()));
        while let Some(batch) = rows.next().await {
            out.push_str(&print(&batch?, &types)?);
        }
    }
    Ok(out)
}

fn print(batch: &RecordBatch, types: &[PgType]) -> Result<String, SqlError> {
    let columns = batch.columns().iter().zip(types).map(|(array, t)| text_of(array, *t, moment()));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let mut out = String::new();
    for row in 0..batch.num_rows() {
        let cells = columns.iter().map(|c| if c.is_null(row) { "∅" } else { c.value(row) });
        out.push_str(&cells.collect::<Vec<_>>().join("|"));
        out.push('\n');
    }
    Ok(out)
}

/// A file's statements: each ends with `;` at the end of a line, `--` starts a comment line between them.
fn statements(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut current = String::new();
    for line in text.lines() {
        if current.is_empty() && (line.trim().is_empty() || line.starts_with("--")) {
            continue;
        }
        current.push_str(line);
        current.push('\n');
        if line.ends_with(';') {
            all.push(std::mem::take(&mut current));
        }
    }
    all
}

#[test]
fn clients_queries_are_answered() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/catalog");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the queries")
        .map(|e| e.expect("a file").path())
        .filter(|p| p.extension().is_some_and(|e| e == "sql"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "there are no queries");
    let update = std::env::var_os("UPDATE_ANSWERS").is_some();
    let mut wrong = String::new();
    with_engine(async |engine, _| {
        for file in &files {
            let queries = std::fs::read_to_string(file).expect("queries");
            let answers_path = file.with_extension("out");
            let mut said = String::new();
            for query in statements(&queries) {
                let answer = match rows(&engine, &query).await {
                    Ok(lines) => lines,
                    Err(e) => format!("ERROR {}: {}\n", e.state().0, e.fields().message),
                };
                said.push_str(&format!("{query}----\n{answer}====\n"));
            }
            if update {
                std::fs::write(&answers_path, &said).expect("answers written");
                continue;
            }
            let answers = std::fs::read_to_string(&answers_path).expect("answers");
            for (want, got) in answers.split("====\n").zip(said.split("====\n")) {
                if want != got {
                    wrong.push_str(&format!("want:\n{want}got:\n{got}\n"));
                }
            }
            assert_eq!(answers.matches("====\n").count(), said.matches("====\n").count(), "{}", file.display());
        }
    });
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn every_relation_gives_its_declared_columns() {
    with_engine(async |engine, store| {
        let (session, catalog) = (session(), store.catalog());
        let registry = pg_catalog::registry();
        for relation in &registry.relations {
            let name = format!("{}.{}", relation.schema_name(), relation.name());
            let rows = relation.rows(&session, &catalog).unwrap_or_else(|e| panic!("{name}: {e}"));
            let declared = relation.columns();
            assert_eq!(rows.num_columns(), declared.len(), "{name}");
            for (column, array) in declared.iter().zip(rows.columns()) {
                assert_eq!(array.data_type(), field(column.name, column.pg_type).data_type(), "{name}.{}", column.name);
            }
            let read = rows_of(&engine, &format!("select * from {name}")).await;
            assert_eq!(read, rows.num_rows(), "{name}");
        }
        for wanted in ["pg_class", "pg_attribute", "pg_type", "pg_proc", "pg_namespace", "pg_database"] {
            assert!(registry.relations.iter().any(|r| r.name() == wanted), "{wanted}");
        }
    });
}

async fn rows_of(engine: &Engine, query: &str) -> usize {
    let session = session();
    let parsed = engine.parse(query).await.unwrap_or_else(|e| panic!("{query}: {e}")).remove(0);
    let mut block = engine.begin(&session);
    let prepared = engine.prepare(Arc::new(parsed), &[], &session, Some(&block)).await;
    let prepared = prepared.unwrap_or_else(|e| panic!("{query}: {e}"));
    let outcome = engine.execute(&prepared, vec![], &session, &mut block).await;
    let Outcome::Rows(execution) = outcome.unwrap_or_else(|e| panic!("{query}: {e}")) else {
        panic!("{query}: no rows")
    };
    let mut rows = execution.start(2, |batch| Ok(batch.clone()));
    let mut count = 0;
    while let Some(batch) = rows.next().await {
        count += batch.unwrap_or_else(|e| panic!("{query}: {e}")).num_rows();
    }
    count
}
