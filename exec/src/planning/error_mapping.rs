//! Errors of Arrow and DataFusion as PostgreSQL says them. Our own errors travel through DataFusion unchanged.

use arrow::error::ArrowError;
use datafusion::common::{DataFusionError, SchemaError};

use crate::sql::error::{SqlError, SqlState};

pub fn from_arrow(error: &ArrowError) -> SqlError {
    match error {
        ArrowError::ArithmeticOverflow(_) => {
            SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow")
        }
        ArrowError::DivideByZero => SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero"),
        ArrowError::ExternalError(inner) => match inner.downcast_ref::<DataFusionError>() {
            Some(inner) => from_datafusion(inner),
            None => match inner.downcast_ref::<SqlError>() {
                Some(inner) => inner.clone(),
                None => SqlError::new(SqlState::INTERNAL_ERROR, inner.to_string()),
            },
        },
        ArrowError::MemoryError(_) => SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory").detail(error.to_string()),
        ArrowError::OffsetOverflowError(_) => {
            SqlError::new(SqlState::OUT_OF_MEMORY, "a column of one batch exceeds 2 GB")
        }
        other => SqlError::new(SqlState::INTERNAL_ERROR, other.to_string()),
    }
}

pub fn from_datafusion(error: &DataFusionError) -> SqlError {
    use DataFusionError as E;
    match error {
        E::External(inner) => match inner.downcast_ref::<SqlError>() {
            Some(inner) => inner.clone(),
            None => match inner.downcast_ref::<DataFusionError>() {
                Some(inner) => from_datafusion(inner),
                None => SqlError::new(SqlState::INTERNAL_ERROR, inner.to_string()),
            },
        },
        E::Context(_, inner) | E::Diagnostic(_, inner) => from_datafusion(inner),
        E::Shared(inner) => from_datafusion(inner),
        E::Collection(errors) => match errors.first() {
            Some(first) => from_datafusion(first),
            None => SqlError::new(SqlState::INTERNAL_ERROR, error.to_string()),
        },
        E::ArrowError(inner, _) => from_arrow(inner),
        E::ResourcesExhausted(detail) => SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory")
            .detail(detail.clone())
            .hint("The query needs more memory than one query may use; select fewer rows, columns or groups."),
        E::IoError(inner) => SqlError::new(SqlState::IO_ERROR, inner.to_string()),
        E::NotImplemented(what) => SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, first_line(what)),
        E::SchemaError(inner, _) => from_schema(inner),
        E::Execution(text) if text.contains("more than one row") => more_than_one_row(),
        E::Execution(text) | E::Plan(text) | E::Internal(text) if text.contains("This feature is not implemented") => {
            SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, first_line(text))
        }
        other => SqlError::new(SqlState::INTERNAL_ERROR, first_line(&other.to_string())),
    }
}

pub fn more_than_one_row() -> SqlError {
    SqlError::new(SqlState::CARDINALITY_VIOLATION, "more than one row returned by a subquery used as an expression")
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

fn from_schema(error: &SchemaError) -> SqlError {
    match error {
        SchemaError::FieldNotFound { field, .. } => {
            SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{}\" does not exist", field.name))
        }
        SchemaError::AmbiguousReference { field } => {
            SqlError::new(SqlState::AMBIGUOUS_COLUMN, format!("column reference \"{}\" is ambiguous", field.name))
        }
        other => SqlError::new(SqlState::INTERNAL_ERROR, other.to_string()),
    }
}

impl From<DataFusionError> for SqlError {
    fn from(error: DataFusionError) -> Self {
        from_datafusion(&error)
    }
}

impl From<ArrowError> for SqlError {
    fn from(error: ArrowError) -> Self {
        from_arrow(&error)
    }
}
