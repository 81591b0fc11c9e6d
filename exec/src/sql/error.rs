//! Errors in PostgreSQL's form: SQLSTATE, one lower-case line without full stop, DETAIL, HINT, position.

use std::fmt;

/// A five-character SQLSTATE.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SqlState(pub &'static str);

macro_rules! states {
    ($($name:ident = $code:literal),* $(,)?) => { impl SqlState { $(pub const $name: Self = Self($code);)* } };
}

states! {
    SUCCESSFUL_COMPLETION = "00000",
    WARNING = "01000",
    PROTOCOL_VIOLATION = "08P01",
    TRANSACTION_RESOLUTION_UNKNOWN = "08007",
    FEATURE_NOT_SUPPORTED = "0A000",
    CARDINALITY_VIOLATION = "21000",
    NUMERIC_VALUE_OUT_OF_RANGE = "22003",
    STRING_DATA_RIGHT_TRUNCATION = "22001",
    NULL_VALUE_NOT_ALLOWED = "22004",
    INVALID_DATETIME_FORMAT = "22007",
    DATETIME_FIELD_OVERFLOW = "22008",
    DIVISION_BY_ZERO = "22012",
    CHARACTER_NOT_IN_REPERTOIRE = "22021",
    INVALID_PARAMETER_VALUE = "22023",
    INVALID_TEXT_REPRESENTATION = "22P02",
    INVALID_BINARY_REPRESENTATION = "22P03",
    BAD_COPY_FILE_FORMAT = "22P04",
    NOT_NULL_VIOLATION = "23502",
    INVALID_CURSOR_STATE = "24000",
    INVALID_TRANSACTION_STATE = "25000",
    ACTIVE_SQL_TRANSACTION = "25001",
    READ_ONLY_SQL_TRANSACTION = "25006",
    NO_ACTIVE_SQL_TRANSACTION = "25P01",
    IN_FAILED_SQL_TRANSACTION = "25P02",
    INVALID_SQL_STATEMENT_NAME = "26000",
    INVALID_AUTHORIZATION = "28000",
    INVALID_PASSWORD = "28P01",
    DEPENDENT_OBJECTS_STILL_EXIST = "2BP01",
    INVALID_CURSOR_NAME = "34000",
    INVALID_SAVEPOINT = "3B001",
    INVALID_CATALOG_NAME = "3D000",
    INVALID_SCHEMA_NAME = "3F000",
    SERIALIZATION_FAILURE = "40001",
    SYNTAX_ERROR = "42601",
    INVALID_NAME = "42602",
    INSUFFICIENT_PRIVILEGE = "42501",
    GROUPING_ERROR = "42803",
    DATATYPE_MISMATCH = "42804",
    WRONG_OBJECT_TYPE = "42809",
    INDETERMINATE_DATATYPE = "42P18",
    UNDEFINED_COLUMN = "42703",
    UNDEFINED_FUNCTION = "42883",
    UNDEFINED_TABLE = "42P01",
    UNDEFINED_PARAMETER = "42P02",
    UNDEFINED_OBJECT = "42704",
    DUPLICATE_COLUMN = "42701",
    DUPLICATE_CURSOR = "42P03",
    DUPLICATE_PREPARED_STATEMENT = "42P05",
    DUPLICATE_SCHEMA = "42P06",
    DUPLICATE_TABLE = "42P07",
    DUPLICATE_ALIAS = "42712",
    DUPLICATE_OBJECT = "42710",
    AMBIGUOUS_COLUMN = "42702",
    INVALID_COLUMN_REFERENCE = "42P10",
    INVALID_CURSOR_DEFINITION = "42P11",
    INVALID_TABLE_DEFINITION = "42P16",
    INVALID_OBJECT_DEFINITION = "42P17",
    CANNOT_COERCE = "42846",
    DISK_FULL = "53100",
    OUT_OF_MEMORY = "53200",
    TOO_MANY_CONNECTIONS = "53300",
    CONFIGURATION_LIMIT_EXCEEDED = "53400",
    STATEMENT_TOO_COMPLEX = "54001",
    TOO_MANY_COLUMNS = "54011",
    OBJECT_NOT_IN_PREREQUISITE_STATE = "55000",
    CANT_CHANGE_RUNTIME_PARAM = "55P02",
    QUERY_CANCELED = "57014",
    ADMIN_SHUTDOWN = "57P01",
    CANNOT_CONNECT_NOW = "57P03",
    IO_ERROR = "58030",
    SNAPSHOT_TOO_OLD = "72000",
    INTERNAL_ERROR = "XX000",
    DATA_CORRUPTED = "XX001",
}

/// One error, boxed so that `Result` stays small.
#[derive(Clone, Debug)]
pub struct SqlError(Box<Fields>);

#[derive(Clone, Debug)]
pub struct Fields {
    pub state: SqlState,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
    /// Character index in the statement's text, from 1.
    pub position: Option<usize>,
    /// CONTEXT, e.g. `COPY t, line 3, column a: "x"`.
    pub context: Option<String>,
}

pub type Result<T> = std::result::Result<T, SqlError>;

impl SqlError {
    pub fn new(state: SqlState, message: impl Into<String>) -> Self {
        let message = message.into();
        Self(Box::new(Fields { state, message, detail: None, hint: None, position: None, context: None }))
    }

    /// `0A000` naming what is missing; add a hint with a way around.
    pub fn unsupported(what: impl fmt::Display) -> Self {
        Self::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{what} is not supported"))
    }

    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// The same error in other words.
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.0.message = message.into();
        self
    }

    pub fn position(mut self, position: usize) -> Self {
        self.0.position = Some(position);
        self
    }

    pub fn context(mut self, context: impl Into<String>) -> Self {
        self.0.context = Some(context.into());
        self
    }

    pub fn state(&self) -> SqlState {
        self.0.state
    }

    pub fn fields(&self) -> &Fields {
        &self.0
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.0.message, self.0.state.0)
    }
}

impl std::error::Error for SqlError {}

impl From<alluvium_storage::Error> for SqlError {
    fn from(error: alluvium_storage::Error) -> Self {
        use alluvium_storage::Error as E;
        let state = match &error {
            E::Full { .. } => SqlState::CONFIGURATION_LIMIT_EXCEEDED,
            E::DiskFull { .. } => SqlState::DISK_FULL,
            E::OutcomeUnknown(_) => SqlState::TRANSACTION_RESOLUTION_UNKNOWN,
            E::ReadOnly { .. } => SqlState::READ_ONLY_SQL_TRANSACTION,
            E::Corrupted { .. } => SqlState::DATA_CORRUPTED,
            E::PositionGone { .. } => SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            E::Undefined { .. } => SqlState::UNDEFINED_TABLE,
            E::Duplicate { .. } => SqlState::DUPLICATE_TABLE,
            E::Io { .. } => SqlState::IO_ERROR,
            E::Shutdown => SqlState::ADMIN_SHUTDOWN,
        };
        let sql = SqlError::new(state, error.to_string());
        match error {
            E::PositionGone { partition, oldest, .. } => {
                sql.detail(format!("the oldest position of partition {partition} is {}", oldest.0))
            }
            _ => sql,
        }
    }
}
