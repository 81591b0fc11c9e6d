//! What goes to the client: messages gather in a buffer and leave when it is flushed.
//! A flush that is dropped half-way has lost nothing: what was not written is still in the buffer.

use bytes::{Buf, BufMut, BytesMut};
use pgwire::messages::Message;
use tokio::io::AsyncWriteExt;

use crate::pgwire::WriteHalf;

/// Rows in the buffer beyond this are flushed before more are added.
pub const OUTPUT_BYTES_MAX: usize = 64 << 10;

pub struct Output {
    writer: WriteHalf,
    buffer: BytesMut,
}

impl Output {
    pub fn new(writer: WriteHalf) -> Self {
        Self { writer, buffer: BytesMut::with_capacity(8 << 10) }
    }

    /// Adds a message.
    pub fn put(&mut self, message: &impl Message) {
        let before = self.buffer.len();
        if let Err(error) = message.encode(&mut self.buffer) {
            // Only a message beyond the protocol's length limit comes here; half of it must not go out.
            self.buffer.truncate(before);
            tracing::error!(%error, "a message could not be encoded");
        }
    }

    /// Adds whole messages, already encoded.
    pub fn put_encoded(&mut self, messages: &[u8]) {
        self.buffer.put_slice(messages);
    }

    /// True once rows should be flushed before more are added.
    pub fn is_full(&self) -> bool {
        self.buffer.len() >= OUTPUT_BYTES_MAX
    }

    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Writes everything out. Cancel-safe.
    pub async fn flush(&mut self) -> std::io::Result<()> {
        while !self.buffer.is_empty() {
            let written = self.writer.write(&self.buffer).await?;
            if written == 0 {
                return Err(std::io::ErrorKind::WriteZero.into());
            }
            self.buffer.advance(written);
        }
        if self.buffer.capacity() > 4 * OUTPUT_BYTES_MAX {
            self.buffer = BytesMut::with_capacity(8 << 10);
        }
        self.writer.flush().await
    }

    /// Ends the connection in order (TLS says so too).
    pub async fn shutdown(&mut self) {
        let _ = self.writer.shutdown().await;
    }
}
