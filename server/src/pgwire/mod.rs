//! Messages ↔ bytes: framing, startup, TLS, errors and values. No SQL and no session state.
//! Lives on the shard thread of the connection; value encoding also on compute threads.

pub mod codec;
pub mod error_response;
pub mod input;
pub mod output;
pub mod startup;
pub mod tls;

use tokio::io::{AsyncRead, AsyncWrite};

/// The two halves of a connection, plain or TLS.
pub type ReadHalf = Box<dyn AsyncRead + Unpin>;
pub type WriteHalf = Box<dyn AsyncWrite + Unpin>;
