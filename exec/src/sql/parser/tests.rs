//! Text to statement, as tables: `statements.txt` holds one case a paragraph.

use super::*;
use crate::sql::statement::*;

/// The statement's variant in one line.
fn shape(parsed: &Parsed) -> String {
    match &parsed.statement {
        Statement::Query(q) => match &q.live {
            None => format!("Query {}", q.body),
            Some(live) => format!(
                "Live {} | {:?} since {} resume {} until {} with {:?}",
                q.body,
                live.emit,
                bound(live.since.as_ref()),
                live.resume_after.as_deref().unwrap_or("-"),
                bound(live.until.as_ref()),
                live.options
            ),
        },
        Statement::Explain(e) => format!(
            "Explain analyze={} verbose={} costs={} timing={} summary={} {:?} ({})",
            e.analyze,
            e.verbose,
            e.costs,
            e.timing,
            e.summary,
            e.format,
            shape(&e.statement)
        ),
        Statement::Insert(i) => {
            let source = match &i.source {
                InsertSource::DefaultValues => "default values".to_owned(),
                InsertSource::Values(rows) => {
                    let rows: Vec<String> = rows
                        .iter()
                        .map(|r| r.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
                        .map(|r| format!("({r})"))
                        .collect();
                    rows.join(" ")
                }
                InsertSource::Query(q) => q.to_string(),
            };
            let returning: Vec<String> = i.returning.iter().map(ToString::to_string).collect();
            format!("Insert {} as {:?} {:?} {source} returning {returning:?}", i.table, i.alias, i.columns)
        }
        Statement::Update(s) => format!("Update {s}"),
        Statement::Delete(s) => format!("Delete {s}"),
        Statement::Copy(c) => {
            let source = match &c.source {
                CopySource::Relation { name, columns } => format!("{name} {columns:?}"),
                CopySource::Query(q) => format!("({}) [{}]", shape(q), q.text),
            };
            let filter = c.filter.as_ref().map(ToString::to_string);
            format!("Copy {source} from={} {:?} {:?} where {filter:?}", c.from, c.target, c.options)
        }
        Statement::Session(SessionStatement::Declare { name, binary, scroll, hold, query }) => {
            format!("Declare {name} binary={binary} scroll={scroll:?} hold={hold} ({}) [{}]", shape(query), query.text)
        }
        Statement::Session(SessionStatement::Prepare { name, parameter_types, statement }) => {
            format!("Prepare {name} {parameter_types:?} ({}) [{}]", shape(statement), statement.text)
        }
        Statement::Session(SessionStatement::Execute { name, arguments }) => {
            format!("Execute {name} {:?}", arguments.iter().map(ToString::to_string).collect::<Vec<_>>())
        }
        Statement::Session(s) => format!("{s:?}"),
        Statement::Ddl(d) => ddl_shape(d),
    }
}

fn bound(bound: Option<&Bound>) -> String {
    match bound {
        None => "-".to_owned(),
        Some(Bound::Timestamp(e)) => format!("Timestamp({e})"),
        Some(other) => format!("{other:?}"),
    }
}

fn ddl_shape(ddl: &crate::sql::ddl::Ddl) -> String {
    use crate::sql::ddl::*;
    let columns = |columns: &[ColumnDefinition]| {
        columns
            .iter()
            .map(|c| {
                let not_null = if c.not_null { " not null" } else { "" };
                let default = c.default.as_ref().map(|d| format!(" default [{}]", d.text)).unwrap_or_default();
                format!("{} {}{not_null}{default}", c.name, c.data_type)
            })
            .collect::<Vec<_>>()
            .join(", ")
    };
    let watermark = |w: &Option<WatermarkDefinition>| {
        w.as_ref().map(|w| format!(" watermark {} as {} per {:?}", w.column, w.expression, w.per)).unwrap_or_default()
    };
    match ddl {
        Ddl::CreateRelation(c) => format!(
            "Create {:?} {} exists_ok={} ({}){}{} partition by {:?} order by {:?} with {:?}",
            c.kind,
            c.name,
            c.if_not_exists,
            columns(&c.columns),
            c.like.iter().map(|(i, n)| format!(" like {n} at {i}")).collect::<String>(),
            watermark(&c.watermark),
            c.partition_by,
            c.order_by,
            c.options
        ),
        Ddl::CreateTableAs(c) => format!(
            "CreateAs {} exists_ok={} {:?} with {:?} data={} into={} {}",
            c.name, c.if_not_exists, c.columns, c.options, c.with_data, c.select_into, c.query
        ),
        Ddl::CreateView(v) => format!("CreateView {} replace={} {:?} [{}]", v.name, v.or_replace, v.columns, v.text),
        Ddl::CreateForeignTable(f) => format!(
            "CreateForeign {} exists_ok={} ({}){} server {} {:?}",
            f.name,
            f.if_not_exists,
            columns(&f.columns),
            watermark(&f.watermark),
            f.server,
            f.options
        ),
        Ddl::Drop { kind, names, if_exists, cascade } => format!(
            "Drop {kind:?} {} if_exists={if_exists} cascade={cascade}",
            names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        ),
        Ddl::AlterRelation { kind, name, if_exists, actions } => {
            let actions: Vec<String> = actions
                .iter()
                .map(|a| match a {
                    AlterAction::AddColumn { column, if_not_exists } => {
                        format!("Add {} if_not_exists={if_not_exists}", columns(std::slice::from_ref(column)))
                    }
                    AlterAction::SetDefault { column, default } => {
                        format!("SetDefault {column} {:?}", default.as_ref().map(|d| &d.text))
                    }
                    other => format!("{other:?}"),
                })
                .collect();
            format!("Alter {kind:?} {name} if_exists={if_exists} {}", actions.join("; "))
        }
        Ddl::Truncate { names, cascade } => format!(
            "Truncate {} cascade={cascade}",
            names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        ),
        other => format!("{other:?}"),
    }
}

fn answer(text: &str) -> String {
    match parse(text) {
        Ok(statements) if statements.is_empty() => "nothing".to_owned(),
        Ok(statements) => statements.iter().map(shape).collect::<Vec<_>>().join("\n"),
        Err(error) => {
            let f = error.fields();
            let position = f.position.map(|p| format!(" @{p}")).unwrap_or_default();
            let hint = f.hint.as_ref().map(|h| format!("\nhint: {h}")).unwrap_or_default();
            format!("error {} {}{position}{hint}", f.state.0, f.message)
        }
    }
}

/// Cases are paragraphs: the text, a line `----`, what it means. `UPDATE_CASES=1` writes the file anew, to be read
/// before it is committed.
#[test]
fn texts_become_statements() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/sql/parser/statements.txt");
    let cases = std::fs::read_to_string(path).expect("the cases are beside this file");
    let mut wrong = Vec::new();
    let mut fresh = String::new();
    let mut count = 0;
    for case in cases.split("\n\n").filter(|c| !c.trim().is_empty()) {
        if case.trim_start().starts_with("## ") {
            fresh.push_str(&format!("{}\n\n", case.trim()));
            continue;
        }
        let (text, expected) = case.split_once("\n----\n").unwrap_or((case, ""));
        let text = text.trim_start_matches('\n');
        let (expected, got) = (expected.trim_end(), answer(text));
        if expected != got {
            wrong.push(format!("{text}\n  expected: {expected}\n  got:      {got}"));
        }
        fresh.push_str(&format!("{text}\n----\n{got}\n\n"));
        count += 1;
    }
    if std::env::var_os("UPDATE_CASES").is_some() {
        std::fs::write(path, fresh).expect("the cases can be written");
        return;
    }
    assert!(count > 200, "only {count} cases were found");
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n\n"));
}
