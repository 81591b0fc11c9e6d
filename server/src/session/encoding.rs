//! Values of a session: rows to messages and parameters to arrays, in the session's style.
//! The formats themselves are `pgwire::values`.

use alluvium_exec::planning::types::PgType;
use alluvium_exec::sql::error::Result;
use alluvium_exec::{ColumnDescription, SqlError};
use alluvium_storage::Executor;
use arrow::array::{ArrayRef, RecordBatch};

use crate::session::row_source::EncodedRows;
use crate::session::session::Session;

/// Rows up to here are encoded where they are; more go to a compute thread.
const ROWS_ON_SHARD: usize = 64;

/// DateStyle, TimeZone and the like, as they stand when a statement runs.
#[derive(Clone, Debug, Default)]
pub struct Style {
    pub timezone: String,
}

impl Session {
    pub(super) fn style(&self) -> Style {
        Style { timezone: self.shared.variables().known("TimeZone") }
    }
}

pub fn encoder(
    _columns: &[ColumnDescription],
    _formats: &[i16],
    _style: &Style,
) -> Result<impl FnMut(&RecordBatch) -> Result<EncodedRows> + Send + use<>> {
    Ok(|_: &RecordBatch| Err(SqlError::unsupported("sending rows")))
}

/// One batch of a cursor, in the formats of one FETCH.
pub async fn encode_once(
    batch: RecordBatch,
    columns: &[ColumnDescription],
    formats: &[i16],
    style: &Style,
    compute: &Executor,
) -> Result<EncodedRows> {
    let mut encode = encoder(columns, formats, style)?;
    if batch.num_rows() <= ROWS_ON_SHARD {
        return encode(&batch);
    }
    let (sender, receiver) = tokio::sync::oneshot::channel();
    compute.spawn(move || async move {
        let _ = sender.send(encode(&batch));
    });
    receiver.await.unwrap_or_else(|_| Err(alluvium_storage::Error::Shutdown.into()))
}

pub fn decode_parameter(pg_type: PgType, _format: i16, _value: Option<&[u8]>, _style: &Style) -> Result<ArrayRef> {
    Err(SqlError::unsupported(format!("a parameter of type {}", pg_type.oid)))
}
