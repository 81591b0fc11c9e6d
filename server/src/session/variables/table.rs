//! The settings of a session: name, type, default and meaning. What PostgreSQL 15 clients SET and SHOW.
//! A setting whose meaning is only advice to another planner (`jit`, `geqo`) is kept and shown, and changes no result.

use super::value::Kind;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// SET by anyone.
    User,
    /// SHOW only: `55P02` when set.
    Fixed,
    /// Belongs to the transaction block: shown and set there.
    Transaction,
}

#[derive(Debug)]
pub struct Definition {
    /// As PostgreSQL spells it; found without regard to case.
    pub name: &'static str,
    pub kind: Kind,
    pub default: &'static str,
    pub access: Access,
    /// Told to the client at start and whenever it changes (ParameterStatus).
    pub reported: bool,
    pub description: &'static str,
}

const fn user(name: &'static str, kind: Kind, default: &'static str, description: &'static str) -> Definition {
    Definition { name, kind, default, access: Access::User, reported: false, description }
}

const fn told(name: &'static str, kind: Kind, default: &'static str, description: &'static str) -> Definition {
    Definition { name, kind, default, access: Access::User, reported: true, description }
}

const fn fixed(name: &'static str, default: &'static str, description: &'static str) -> Definition {
    Definition { name, kind: Kind::Text, default, access: Access::Fixed, reported: false, description }
}

const fn fixed_told(name: &'static str, default: &'static str, description: &'static str) -> Definition {
    Definition { name, kind: Kind::Text, default, access: Access::Fixed, reported: true, description }
}

const fn block(name: &'static str, kind: Kind, default: &'static str, description: &'static str) -> Definition {
    Definition { name, kind, default, access: Access::Transaction, reported: false, description }
}

const ISOLATION: Kind = Kind::Enum(&["serializable", "repeatable read", "read committed", "read uncommitted"]);
const LEVELS: Kind = Kind::Enum(&[
    "debug5", "debug4", "debug3", "debug2", "debug1", "debug", "log", "info", "notice", "warning", "error",
]);
const MILLISECONDS: Kind = Kind::Milliseconds { min: 0, max: i32::MAX as i64 };

/// The version clients compare with: PostgreSQL 15's SQL and protocol.
pub const SERVER_VERSION: &str = concat!("15.20 (alluvium ", env!("CARGO_PKG_VERSION"), ")");

/// Ascending by name, without regard to case.
pub const DEFINITIONS: &[Definition] = &[
    told("application_name", Kind::Name, "", "Sets the application name to be reported in statistics and logs."),
    user("array_nulls", Kind::Bool, "on", "Enable input of NULL elements in arrays."),
    user(
        "backslash_quote",
        Kind::Enum(&["safe_encoding", "on", "off"]),
        "safe_encoding",
        "Sets whether \"\\'\" is allowed in string literals.",
    ),
    fixed("block_size", "8192", "Shows the size of a disk block."),
    user("bytea_output", Kind::Enum(&["escape", "hex"]), "hex", "Sets the output format for bytea."),
    user(
        "check_function_bodies",
        Kind::Bool,
        "on",
        "Check routine bodies during CREATE FUNCTION and CREATE PROCEDURE.",
    ),
    user(
        "client_connection_check_interval",
        MILLISECONDS,
        "0",
        "Sets the time interval between checks for disconnection while running queries.",
    ),
    told("client_encoding", Kind::Encoding, "UTF8", "Sets the client's character set encoding."),
    user("client_min_messages", LEVELS, "notice", "Sets the message levels that are sent to the client."),
    user(
        "constraint_exclusion",
        Kind::Enum(&["partition", "on", "off"]),
        "partition",
        "Enables the planner to use constraints to optimize queries.",
    ),
    user(
        "cursor_tuple_fraction",
        Kind::Real { min: 0.0, max: 1.0 },
        "0.1",
        "Sets the planner's estimate of the fraction of a cursor's rows that will be retrieved.",
    ),
    told("DateStyle", Kind::DateStyle, "ISO, MDY", "Sets the display format for date and time values."),
    user(
        "default_statistics_target",
        Kind::Integer { min: 1, max: 10_000 },
        "100",
        "Sets the default statistics target.",
    ),
    user("default_table_access_method", Kind::Text, "heap", "Sets the default table access method for new tables."),
    user("default_tablespace", Kind::Text, "", "Sets the default tablespace to create tables and indexes in."),
    user("default_text_search_config", Kind::Text, "pg_catalog.simple", "Sets default text search configuration."),
    user(
        "default_toast_compression",
        Kind::Enum(&["pglz", "lz4"]),
        "pglz",
        "Sets the default compression method for compressible values.",
    ),
    user(
        "default_transaction_deferrable",
        Kind::Bool,
        "off",
        "Sets the default deferrable status of new transactions.",
    ),
    user(
        "default_transaction_isolation",
        ISOLATION,
        "read committed",
        "Sets the transaction isolation level of each new transaction.",
    ),
    told("default_transaction_read_only", Kind::Bool, "off", "Sets the default read-only status of new transactions."),
    user("enable_bitmapscan", Kind::Bool, "on", "Enables the planner's use of bitmap-scan plans."),
    user("enable_hashagg", Kind::Bool, "on", "Enables the planner's use of hashed aggregation plans."),
    user("enable_hashjoin", Kind::Bool, "on", "Enables the planner's use of hash join plans."),
    user("enable_indexonlyscan", Kind::Bool, "on", "Enables the planner's use of index-only-scan plans."),
    user("enable_indexscan", Kind::Bool, "on", "Enables the planner's use of index-scan plans."),
    user("enable_material", Kind::Bool, "on", "Enables the planner's use of materialization."),
    user("enable_mergejoin", Kind::Bool, "on", "Enables the planner's use of merge join plans."),
    user("enable_nestloop", Kind::Bool, "on", "Enables the planner's use of nested-loop join plans."),
    user("enable_seqscan", Kind::Bool, "on", "Enables the planner's use of sequential-scan plans."),
    user("enable_sort", Kind::Bool, "on", "Enables the planner's use of explicit sort steps."),
    user("escape_string_warning", Kind::Bool, "on", "Warn about backslash escapes in ordinary string literals."),
    user(
        "extra_float_digits",
        Kind::Integer { min: -15, max: 3 },
        "1",
        "Sets the number of digits displayed for floating-point values.",
    ),
    user(
        "from_collapse_limit",
        Kind::Integer { min: 1, max: i32::MAX as i64 },
        "8",
        "Sets the FROM-list size beyond which subqueries are not collapsed.",
    ),
    user("geqo", Kind::Bool, "on", "Enables genetic query optimization."),
    user(
        "gin_fuzzy_search_limit",
        Kind::Integer { min: 0, max: i32::MAX as i64 },
        "0",
        "Sets the maximum allowed result for exact search by GIN.",
    ),
    user(
        "idle_in_transaction_session_timeout",
        MILLISECONDS,
        "0",
        "Sets the maximum allowed idle time between queries, when in a transaction.",
    ),
    user(
        "idle_session_timeout",
        MILLISECONDS,
        "0",
        "Sets the maximum allowed idle time between queries, when not in a transaction.",
    ),
    fixed_told("in_hot_standby", "off", "Shows whether hot standby is currently active."),
    fixed_told("integer_datetimes", "on", "Shows whether datetimes are integer based."),
    told(
        "IntervalStyle",
        Kind::Enum(&["postgres", "postgres_verbose", "sql_standard", "iso_8601"]),
        "postgres",
        "Sets the display format for interval values.",
    ),
    fixed_told("is_superuser", "on", "Shows whether the current user is a superuser."),
    user("jit", Kind::Bool, "off", "Allow JIT compilation."),
    user(
        "join_collapse_limit",
        Kind::Integer { min: 1, max: i32::MAX as i64 },
        "8",
        "Sets the FROM-list size beyond which JOIN constructs are not flattened.",
    ),
    fixed("lc_collate", "C", "Shows the collation order locale."),
    fixed("lc_ctype", "C.UTF-8", "Shows the character classification and case conversion locale."),
    user("lc_messages", Kind::Text, "C", "Sets the language in which messages are displayed."),
    user("lc_monetary", Kind::Text, "C", "Sets the locale for formatting monetary amounts."),
    user("lc_numeric", Kind::Text, "C", "Sets the locale for formatting numbers."),
    user("lc_time", Kind::Text, "C", "Sets the locale for formatting date and time values."),
    user("lock_timeout", MILLISECONDS, "0", "Sets the maximum allowed duration of any wait for a lock."),
    user(
        "log_min_duration_statement",
        Kind::Milliseconds { min: -1, max: i32::MAX as i64 },
        "-1",
        "Sets the minimum execution time above which all statements will be logged.",
    ),
    user("log_statement", Kind::Enum(&["none", "ddl", "mod", "all"]), "none", "Sets the type of statements logged."),
    user(
        "maintenance_work_mem",
        Kind::Kilobytes { min: 1024, max: i32::MAX as i64 },
        "65536",
        "Sets the maximum memory to be used for maintenance operations.",
    ),
    fixed("max_connections", "1000", "Sets the maximum number of concurrent connections."),
    fixed("max_function_args", "100", "Shows the maximum number of function arguments."),
    fixed("max_identifier_length", "63", "Shows the maximum identifier length."),
    fixed("max_index_keys", "32", "Shows the maximum number of index keys."),
    user(
        "max_parallel_workers_per_gather",
        Kind::Integer { min: 0, max: 1024 },
        "2",
        "Sets the maximum number of parallel processes per executor node.",
    ),
    fixed("max_prepared_transactions", "0", "Sets the maximum number of simultaneously prepared transactions."),
    user(
        "password_encryption",
        Kind::Enum(&["md5", "scram-sha-256"]),
        "scram-sha-256",
        "Chooses the algorithm for encrypting passwords.",
    ),
    user(
        "plan_cache_mode",
        Kind::Enum(&["auto", "force_generic_plan", "force_custom_plan"]),
        "auto",
        "Controls the planner's selection of custom or generic plan.",
    ),
    user("quote_all_identifiers", Kind::Bool, "off", "When generating SQL fragments, quote all identifiers."),
    user(
        "random_page_cost",
        Kind::Real { min: 0.0, max: f64::MAX },
        "4",
        "Sets the planner's estimate of the cost of a nonsequentially fetched disk page.",
    ),
    user("role", Kind::Text, "none", "Sets the current role."),
    user("row_security", Kind::Bool, "on", "Enable row security."),
    user(
        "search_path",
        Kind::List,
        "\"$user\", public",
        "Sets the schema search order for names that are not schema-qualified.",
    ),
    user(
        "seq_page_cost",
        Kind::Real { min: 0.0, max: f64::MAX },
        "1",
        "Sets the planner's estimate of the cost of a sequentially fetched disk page.",
    ),
    fixed_told("server_encoding", "UTF8", "Shows the server (database) character set encoding."),
    fixed_told("server_version", SERVER_VERSION, "Shows the server version."),
    fixed("server_version_num", "150020", "Shows the server version as an integer."),
    fixed_told("session_authorization", "postgres", "Sets the session user name."),
    user(
        "session_replication_role",
        Kind::Enum(&["origin", "replica", "local"]),
        "origin",
        "Sets the session's behavior for triggers and rewrite rules.",
    ),
    fixed("ssl", "off", "Enables SSL connections."),
    told(
        "standard_conforming_strings",
        Kind::Only { value: "on", hint: "Write E'…' for a literal with backslash escapes." },
        "on",
        "Causes '...' strings to treat backslashes literally.",
    ),
    user("statement_timeout", MILLISECONDS, "0", "Sets the maximum allowed duration of any statement."),
    user(
        "synchronous_commit",
        Kind::Enum(&["local", "remote_write", "remote_apply", "on", "off"]),
        "on",
        "Sets the current transaction's synchronization level.",
    ),
    user(
        "tcp_keepalives_count",
        Kind::Integer { min: 0, max: i32::MAX as i64 },
        "0",
        "Maximum number of TCP keepalive retransmits.",
    ),
    user(
        "tcp_keepalives_idle",
        Kind::Integer { min: 0, max: i32::MAX as i64 },
        "0",
        "Time between issuing TCP keepalives.",
    ),
    user(
        "tcp_keepalives_interval",
        Kind::Integer { min: 0, max: i32::MAX as i64 },
        "0",
        "Time between TCP keepalive retransmits.",
    ),
    user("temp_tablespaces", Kind::List, "", "Sets the tablespace(s) to use for temporary tables and sort files."),
    told("TimeZone", Kind::TimeZone, "UTC", "Sets the time zone for displaying and interpreting time stamps."),
    user("timezone_abbreviations", Kind::Text, "Default", "Selects a file of time zone abbreviations."),
    user("track_activities", Kind::Bool, "on", "Collects information about executing commands."),
    block(
        "transaction_deferrable",
        Kind::Bool,
        "off",
        "Whether to defer a read-only serializable transaction until it can be executed with no possible serialization failures.",
    ),
    block("transaction_isolation", ISOLATION, "read committed", "Sets the current transaction's isolation level."),
    block("transaction_read_only", Kind::Bool, "off", "Sets the current transaction's read-only status."),
    user(
        "work_mem",
        Kind::Kilobytes { min: 64, max: i32::MAX as i64 },
        "4096",
        "Sets the maximum memory to be used for query workspaces.",
    ),
    user("xmlbinary", Kind::Enum(&["base64", "hex"]), "base64", "Sets how binary values are to be encoded in XML."),
    user(
        "xmloption",
        Kind::Enum(&["content", "document"]),
        "content",
        "Sets whether XML data in implicit parsing and serialization operations is to be considered as documents or content fragments.",
    ),
];

/// PostgreSQL's old names for some settings.
pub fn find(name: &str) -> Option<&'static Definition> {
    let name = match name.to_ascii_lowercase().as_str() {
        "time zone" => "TimeZone".to_owned(),
        other => other.to_owned(),
    };
    DEFINITIONS
        .binary_search_by(|d| d.name.to_ascii_lowercase().cmp(&name.to_ascii_lowercase()))
        .ok()
        .map(|i| &DEFINITIONS[i])
}
