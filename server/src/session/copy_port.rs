//! The protocol of COPY: the client's bytes in, ours out. What the bytes mean is in `copy` and the codecs.

use alluvium_exec::{SqlError, SqlState};
use bytes::Bytes;
use pgwire::messages::copy::{CopyDone, CopyInResponse, CopyOutResponse};

use crate::pgwire::codec::{self, Frontend, violation};
use crate::session::failure::{Failure, Result};
use crate::session::interrupt::{EndedBy, at, canceled};
use crate::session::session::Session;

impl Session {
    /// Tells the client to send.
    pub(super) async fn begin_copy_in(&mut self, binary: bool, columns: usize) -> Result<()> {
        let (format, count, formats) = copy_formats(binary, columns);
        self.output.put(&CopyInResponse::new(format, count, formats));
        self.flush().await
    }

    /// The next bytes of the client, of any length; a part of a row as well. `None`: CopyDone. Cancel-safe.
    pub(super) async fn next_copy_data(&mut self) -> Result<Option<Bytes>> {
        loop {
            let frame = tokio::select! {
                biased;
                failure = self.shared.interrupts.wait(EndedBy::Signals) => return Err(failure),
                () = at(self.deadline) => return Err(canceled("statement timeout").into()),
                frame = self.input.next() => frame,
            };
            let Some(frame) = frame else { return Err(Failure::Gone) };
            let frame = frame.map_err(Failure::Fatal)?;
            let kind = frame.kind;
            match codec::decode(frame)? {
                Frontend::CopyData(data) => return Ok(Some(data)),
                Frontend::CopyDone => return Ok(None),
                Frontend::CopyFail(why) => {
                    return Err(
                        SqlError::new(SqlState::QUERY_CANCELED, format!("COPY from stdin failed: {why}")).into()
                    );
                }
                // A client of the extended protocol may have sent them right after Execute.
                Frontend::Flush | Frontend::Sync => {}
                Frontend::Terminate => return Err(Failure::Gone),
                _ => {
                    return Err(Failure::Fatal(violation(format!(
                        "unexpected message type 0x{kind:02X} during COPY from stdin"
                    ))));
                }
            }
        }
    }

    /// Tells the client that data comes.
    pub(super) fn begin_copy_out(&mut self, binary: bool, columns: usize) {
        let (format, count, formats) = copy_formats(binary, columns);
        self.output.put(&CopyOutResponse::new(format, count, formats));
    }

    /// Sends whole CopyData messages, already encoded (PostgreSQL makes one a row).
    pub(super) async fn put_copy_data(&mut self, messages: &[u8]) -> Result<()> {
        self.output.put_encoded(messages);
        if self.output.is_full() {
            let (shared, deadline) = (self.shared.clone(), self.deadline);
            shared.interrupts.run(EndedBy::SignalsAndHangup, deadline, self.output.flush()).await??;
        }
        Ok(())
    }

    pub(super) fn end_copy_out(&mut self) {
        self.output.put(&CopyDone::new());
    }
}

fn copy_formats(binary: bool, columns: usize) -> (i8, i16, Vec<i16>) {
    let format = i16::from(binary);
    (format as i8, columns as i16, vec![format; columns])
}
