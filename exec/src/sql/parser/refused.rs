//! Constructs of PostgreSQL that are known and refused: `0A000` with a way around, instead of a syntax error.

use super::super::error::SqlError;

/// The refusal of a statement that begins with these words, or `None` for words that begin no statement.
pub(super) fn statement(words: &[&str]) -> Option<SqlError> {
    let first = *words.first()?;
    let second = words.get(1).copied().unwrap_or_default();
    let (what, hint): (&str, &str) = match first {
        "merge" => ("MERGE", "Use INSERT."),
        "lock" => {
            ("LOCK TABLE", "A statement reads one snapshot; use BEGIN ISOLATION LEVEL REPEATABLE READ for a block.")
        }
        "grant" => ("GRANT", "There is one role, postgres; access is granted by the server's host rules."),
        "revoke" => ("REVOKE", "There is one role, postgres; access is granted by the server's host rules."),
        "reassign" => ("REASSIGN OWNED", "There is one role, postgres."),
        "reindex" => ("REINDEX", "There are no indexes to rebuild."),
        "cluster" => ("CLUSTER", "Give ORDER BY when the relation is created."),
        "refresh" => ("REFRESH MATERIALIZED VIEW", "Materialized views are not available yet; use CREATE VIEW."),
        "do" => ("DO", "Procedural code runs in the client."),
        "call" => ("CALL", "There are no procedures."),
        "load" => ("LOAD", "The server loads no libraries."),
        "import" => ("IMPORT FOREIGN SCHEMA", "Use CREATE FOREIGN TABLE."),
        "security" => ("SECURITY LABEL", ""),
        "acknowledge" => {
            ("ACKNOWLEDGE", "Use DECLARE … CURSOR WITH HOLD, and RESUME AFTER POSITION after a disconnect.")
        }
        "create" => return create(second, words.get(2).copied().unwrap_or_default()),
        "alter" | "drop" => return alter_or_drop(first, second),
        _ => return None,
    };
    Some(refuse(what, hint))
}

/// CREATE of something that is no relation, schema or server. `None` = no such object.
pub(super) fn create(object: &str, next: &str) -> Option<SqlError> {
    let what = match (object, next) {
        ("unique", "index") => "index",
        ("constraint", "trigger") => "trigger",
        ("trusted" | "procedural", _) => "language",
        _ => object,
    };
    let (name, hint) = object_of(what, next)?;
    Some(refuse(&format!("CREATE {name}"), hint))
}

pub(super) fn alter_or_drop(verb: &str, object: &str) -> Option<SqlError> {
    let (name, hint) = object_of(object, "")?;
    Some(refuse(&format!("{} {name}", verb.to_ascii_uppercase()), hint))
}

fn object_of(object: &str, next: &str) -> Option<(&'static str, &'static str)> {
    Some(match (object, next) {
        ("index", _) => {
            ("INDEX", "Give ORDER BY when the relation is created; columns are pruned by their statistics.")
        }
        ("materialized", _) => ("MATERIALIZED VIEW", "Use CREATE VIEW; over it both bounded and live queries work."),
        ("subscription", _) => {
            ("SUBSCRIPTION", "Use DECLARE … CURSOR WITH HOLD, and RESUME AFTER POSITION after a disconnect.")
        }
        ("sequence", _) => ("SEQUENCE", "Use gen_random_uuid(), or the hidden columns _partition and _sn."),
        ("role", _) => ("ROLE", "There is one role, postgres."),
        ("user", "mapping") => ("USER MAPPING", "Give credentials as OPTIONS of the server."),
        ("user", _) => ("USER", "There is one role, postgres."),
        ("group", _) => ("GROUP", "There is one role, postgres."),
        ("database", _) => ("DATABASE", "There is one database, postgres; use CREATE SCHEMA."),
        ("type", _) => ("TYPE", "Use text with the values written out."),
        ("domain", _) => ("DOMAIN", "Use the underlying type."),
        ("function", _) => ("FUNCTION", "Use a view."),
        ("procedure", _) => ("PROCEDURE", "Procedural code runs in the client."),
        ("routine", _) => ("ROUTINE", "Procedural code runs in the client."),
        ("aggregate", _) => ("AGGREGATE", ""),
        ("operator", _) => ("OPERATOR", ""),
        ("cast", _) => ("CAST", ""),
        ("collation", _) => ("COLLATION", ""),
        ("conversion", _) => ("CONVERSION", ""),
        ("extension", _) => ("EXTENSION", "What the server has is built in."),
        ("language", _) => ("LANGUAGE", ""),
        ("trigger", _) => ("TRIGGER", "Follow the relation with a live query: SELECT … EMIT CHANGES."),
        ("event", _) => ("EVENT TRIGGER", ""),
        ("rule", _) => ("RULE", ""),
        ("policy", _) => ("POLICY", ""),
        ("publication", _) => ("PUBLICATION", "Follow the relation with a live query: SELECT … EMIT CHANGES."),
        ("statistics", _) => ("STATISTICS", "Statistics are kept by the server itself."),
        ("tablespace", _) => ("TABLESPACE", "All data lives in the data directory."),
        ("text", _) => ("TEXT SEARCH", ""),
        ("transform", _) => ("TRANSFORM", ""),
        ("access", _) => ("ACCESS METHOD", ""),
        ("large", _) => ("LARGE OBJECT", "Use bytea."),
        ("owned", _) => ("OWNED", "There is one role, postgres."),
        ("default", _) => ("DEFAULT PRIVILEGES", "There is one role, postgres."),
        ("system", _) => ("SYSTEM", "Use the configuration file or the command line."),
        _ => return None,
    })
}

pub(super) fn refuse(what: &str, hint: &str) -> SqlError {
    let error = SqlError::unsupported(what);
    if hint.is_empty() { error } else { error.hint(hint) }
}

pub(super) fn temporary() -> SqlError {
    refuse("a temporary or unlogged relation", "Use a schema of your own and drop it afterwards.")
}

pub(super) fn two_phase() -> SqlError {
    refuse("two-phase commit", "A transaction over all relations and cores commits with COMMIT.")
}

pub(super) fn key_constraint(what: &str) -> SqlError {
    refuse(what, "Keys are not enforced yet: leave the constraint out.")
}
