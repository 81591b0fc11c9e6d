//! The meaning of queries: text to plan, plan to rows, over the past or followed for ever.
//! Never sockets, never file names. DataFusion stays behind `planning` and `batch`.

pub mod batch;
pub mod ddl;
pub mod engine;
pub mod execution;
pub mod planning;
pub mod session_context;
pub mod sql;
pub mod streaming;

pub use engine::{Block, ColumnDescription, Engine, Outcome, Prepared, Tag};
pub use execution::{Execution, ProgressReader, ProgressSource, Ready, Rows, progress};
pub use session_context::{SessionContext, SessionHost};
pub use sql::error::{SqlError, SqlState};
