//! Queries as texts against answers that PostgreSQL 15 gave (`corpus/*.sql`, `corpus/*.out`).
//! Each file's statements run in order in one session; `corpus/record` makes the answers anew.

use std::sync::Arc;

use alluvium_exec::planning::cast::text_of;
use alluvium_exec::planning::datetime::{Moment, Zone};
use alluvium_exec::planning::types::PgType;
use alluvium_exec::planning::virtual_relation::Registry;
use alluvium_exec::session_context::Activity;
use alluvium_exec::{Engine, Outcome, SessionContext, SessionHost};
use alluvium_storage::catalog::{CatalogEdit, Column, Relation, RelationKind, RelationOptions};
use alluvium_storage::{ColumnId, Durability, Executor, RelationId, SchemaId, ShardId, Store};
use arrow::array::{Array, RecordBatch};

struct Host;

impl SessionHost for Host {
    fn setting(&self, _: &str) -> Option<String> {
        None
    }
    fn set(&self, _: &str, value: &str, _: bool) -> Result<String, alluvium_exec::SqlError> {
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
        search_path: Arc::from(["$user".to_owned(), "public".to_owned()]),
        timezone: "Europe/Berlin".into(),
        transaction_time_us: 1_700_000_000_000_000,
        statement_time_us: 1_700_000_000_000_000,
        backend_pid: 1,
        home: ShardId(0),
        host: Arc::new(Host),
    }
}

fn moment() -> Moment {
    Moment { now_us: 1_700_000_000_000_000, zone: Zone::parse("Europe/Berlin").expect("a zone") }
}

/// A result as `psql -At` prints it, or the error's SQLSTATE and message.
async fn answer(engine: &Engine, text: &str) -> String {
    match rows(engine, text).await {
        Ok(lines) => lines,
        Err(error) => format!("ERROR {}: {}\n", error.state().0, error.fields().message),
    }
}

async fn rows(engine: &Engine, text: &str) -> Result<String, alluvium_exec::SqlError> {
    let session = session();
    let mut out = String::new();
    for parsed in engine.parse(text).await? {
        let mut block = engine.begin(&session);
        let prepared = engine.prepare(Arc::new(parsed), &[], &session, Some(&block)).await?;
        let Outcome::Rows(execution) = engine.execute(&prepared, vec![], &session, &mut block).await? else { continue };
        let columns = execution.columns.clone();
        let mut rows = execution.start(2, |batch| Ok(batch.clone()));
        while let Some(batch) = rows.next().await {
            out.push_str(&print(&batch?, &columns.iter().map(|c| c.pg_type).collect::<Vec<_>>())?);
        }
    }
    Ok(out)
}

fn print(batch: &RecordBatch, types: &[PgType]) -> Result<String, alluvium_exec::SqlError> {
    let columns = batch
        .columns()
        .iter()
        .zip(types)
        .map(|(array, t)| text_of(array, *t, moment()))
        .collect::<Result<Vec<_>, _>>()?;
    let mut out = String::new();
    for row in 0..batch.num_rows() {
        let cells: Vec<&str> = columns
            .iter()
            .zip(types)
            .map(|(c, t)| match (c.is_null(row), t.oid) {
                (true, _) => "",
                (false, 16) => &c.value(row)[..1],
                (false, _) => c.value(row),
            })
            .collect();
        out.push_str(&cells.join("|"));
        out.push('\n');
    }
    Ok(out)
}

fn with_store(cores: u16, test: impl AsyncFnOnce(Engine)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let store = Store::in_memory(cores);
        fill(&store).await;
        let compute = (0..cores).map(|_| Executor::current_thread()).collect();
        test(Engine::new(store, compute, Registry::default())).await;
    });
}

/// Two relations with known rows: `city(id, name, area, founded, tags)`, `reading(city, at, value, amount)`.
async fn fill(store: &Store) {
    use alluvium_exec::planning::types::{arrow_type, oid};
    let mut transaction = store.begin(ShardId(0));
    let columns = |list: &[(&str, u32)]| -> Vec<Column> {
        list.iter()
            .enumerate()
            .map(|(i, (name, type_oid))| Column {
                id: ColumnId(i as u16 + 1),
                name: (*name).to_owned(),
                data_type: arrow_type(PgType::of(*type_oid)).expect("a type"),
                type_oid: *type_oid,
                type_modifier: -1,
                not_null: false,
                default: None,
                missing: None,
                comment: None,
                foreign_options: Default::default(),
            })
            .collect()
    };
    let mut relations = Vec::new();
    for (name, list) in [
        ("city", vec![("id", oid::INT4), ("name", oid::TEXT), ("area", oid::FLOAT8), ("founded", oid::DATE)]),
        ("reading", vec![("city", oid::INT4), ("at", oid::TIMESTAMP), ("value", oid::INT8), ("amount", oid::NUMERIC)]),
    ] {
        let relation = Relation {
            id: RelationId(transaction.allocate_oid()),
            schema: SchemaId(2200),
            name: name.to_owned(),
            kind: RelationKind::Stream,
            owner: "postgres".to_owned(),
            next_column: ColumnId(list.len() as u16 + 1),
            columns: columns(&list),
            partitions: 2,
            partition_by: vec![],
            order_by: vec![],
            watermark: None,
            options: RelationOptions::default(),
            query: String::new(),
            depends_on: vec![],
            foreign: None,
            comment: None,
        };
        transaction.edit_catalog(CatalogEdit::PutRelation(Box::new(relation.clone()))).await.expect("a new name");
        relations.push(Arc::new(relation));
    }
    transaction.commit(Durability::Sync).await.expect("committed");
    let city = ["1|Berlin|891.7|1237-10-28", "2|Paris|105.4|", "3|Oslo|454|1040-01-01", "4|Rome|1285|0753-04-21"];
    let reading: Vec<String> = (0..40)
        .map(|i| {
            let value = if i % 7 == 0 { String::new() } else { (i * 37 % 101).to_string() };
            format!("{}|2024-03-{:02} 0{}:30:00|{value}|{}.{}", i % 5, 1 + i / 2, i % 10, i * 3, i % 10)
        })
        .collect();
    for (relation, lines) in [(&relations[0], city.map(str::to_owned).to_vec()), (&relations[1], reading)] {
        // Several commits, so that rows lie on both partitions.
        for chunk in lines.chunks(3) {
            let mut transaction = store.begin(ShardId(0));
            transaction.append(relation, batch(relation, chunk)).await.expect("rows fit");
            transaction.commit(Durability::Sync).await.expect("committed");
        }
    }
}

fn batch(relation: &Relation, lines: &[String]) -> RecordBatch {
    use alluvium_exec::planning::cast::parse_array;
    use alluvium_exec::planning::types::field;
    let cells: Vec<Vec<&str>> = lines.iter().map(|l| l.split('|').collect()).collect();
    let mut fields = Vec::new();
    let mut arrays = Vec::new();
    for (i, c) in relation.columns.iter().enumerate() {
        let t = PgType { oid: c.type_oid, modifier: c.type_modifier };
        let texts = cells.iter().map(|r| (!r[i].is_empty()).then(|| r[i].to_owned()));
        arrays.push(parse_array(&texts.collect(), t, moment()).expect("good cells"));
        fields.push(field(&c.name, t));
    }
    RecordBatch::try_new(Arc::new(arrow::datatypes::Schema::new(fields)), arrays).expect("equal lengths")
}

/// The statements of a file, one a line; `--` starts a comment line.
fn statements(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with("--"))
}

#[test]
fn answers_are_those_of_postgres() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the corpus")
        .map(|e| e.expect("a file").path())
        .filter(|p| p.extension().is_some_and(|e| e == "sql"))
        .collect();
    files.sort();
    let mut wrong = String::new();
    let mut count = 0;
    for cores in [1, 2] {
        with_store(cores, async |engine| {
            for file in &files {
                let queries = std::fs::read_to_string(file).expect("queries");
                let answers = std::fs::read_to_string(file.with_extension("out")).expect("answers");
                let mut answers = answers.split("====\n");
                for query in statements(&queries) {
                    count += 1;
                    let want = answers.next().unwrap_or_default();
                    let got = answer(&engine, query).await;
                    if got != want {
                        wrong.push_str(&format!("{cores} cores: {query}\n  want: {want:?}\n  got:  {got:?}\n"));
                    }
                }
            }
        });
    }
    assert!(count > 0, "the corpus is empty");
    let bad = wrong.lines().filter(|l| l.contains("cores: ")).count();
    assert!(wrong.is_empty(), "{bad} of {count} differ\n{wrong}");
}
