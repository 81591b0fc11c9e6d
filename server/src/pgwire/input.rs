//! What comes from the client, read ahead by a task of its own, so that a disconnect and Terminate are seen while a
//! statement runs. At most [`INPUT_BYTES_MAX`] wait (or one longer message); then the socket is left alone.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::io::AsyncReadExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use alluvium_exec::SqlError;

use crate::pgwire::ReadHalf;
use crate::pgwire::codec::{Frame, MESSAGE_BYTES_MAX, next_frame};

const INPUT_BYTES_MAX: usize = 1 << 20;
const INPUT_MESSAGES_MAX: usize = 256;
/// Neighbouring CopyData messages travel as one up to this size: psql sends one for each line.
const COPY_BYTES_JOINED: usize = 64 << 10;

/// The session's end.
pub struct Input {
    receiver: mpsc::Receiver<Item>,
}

struct Item {
    frame: Result<Frame, SqlError>,
    _room: Option<OwnedSemaphorePermit>,
}

impl Input {
    /// The next message. `None`: the client is gone. An error: the stream cannot be understood any more. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<Frame, SqlError>> {
        self.receiver.recv().await.map(|item| item.frame)
    }

    /// A message that has come already.
    pub fn try_next(&mut self) -> Option<Result<Frame, SqlError>> {
        self.receiver.try_recv().ok().map(|item| item.frame)
    }
}

/// Starts reading. `buffer` holds what was read with the startup packet. `hangup` is called once, as soon as the client
/// has said Terminate or is gone.
pub fn start(reader: ReadHalf, buffer: BytesMut, hangup: impl FnOnce() + 'static) -> Input {
    let (sender, receiver) = mpsc::channel(INPUT_MESSAGES_MAX);
    tokio::task::spawn_local(async move {
        let stopped = sender.clone();
        tokio::select! {
            biased;
            () = stopped.closed() => {}
            () = read(reader, buffer, sender) => {}
        }
        hangup();
    });
    Input { receiver }
}

async fn read(mut reader: ReadHalf, mut buffer: BytesMut, sender: mpsc::Sender<Item>) {
    let room = Arc::new(Semaphore::new(INPUT_BYTES_MAX));
    loop {
        loop {
            let frame = match next_frame(&mut buffer, MESSAGE_BYTES_MAX) {
                Ok(None) => break,
                Ok(Some(frame)) if frame.kind == b'd' => Ok(join_copy_data(frame, &mut buffer)),
                Ok(Some(frame)) => Ok(frame),
                Err(error) => Err(error),
            };
            let last = frame.as_ref().map_or(true, |f| f.kind == b'X');
            let bytes = frame.as_ref().map_or(0, |f| f.body.len()).min(INPUT_BYTES_MAX);
            let permit = room.clone().acquire_many_owned(bytes as u32).await.ok();
            if sender.send(Item { frame, _room: permit }).await.is_err() || last {
                return;
            }
        }
        buffer.reserve(16 << 10);
        match reader.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

/// One CopyData out of those that lie in the buffer next to each other.
fn join_copy_data(first: Frame, buffer: &mut BytesMut) -> Frame {
    if buffer.first() != Some(&b'd') || first.body.len() >= COPY_BYTES_JOINED {
        return first;
    }
    let mut joined = BytesMut::with_capacity(COPY_BYTES_JOINED);
    joined.extend_from_slice(&first.body);
    while joined.len() < COPY_BYTES_JOINED && buffer.first() == Some(&b'd') {
        match next_frame(buffer, COPY_BYTES_JOINED) {
            Ok(Some(frame)) => joined.extend_from_slice(&frame.body),
            Ok(None) | Err(_) => break,
        }
    }
    Frame { kind: b'd', body: Bytes::from(joined) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_copy_data_is_joined_and_nothing_else() {
        let mut buffer = BytesMut::from(&b"d\0\0\0\x06abd\0\0\0\x05cd\0\0\0\x04c\0\0\0\x04"[..]);
        let first = next_frame(&mut buffer, 100).expect("well formed").expect("whole");
        let joined = join_copy_data(first, &mut buffer);
        assert_eq!(&joined.body[..], b"abc");
        assert_eq!(&buffer[..], b"c\0\0\0\x04");
    }
}
