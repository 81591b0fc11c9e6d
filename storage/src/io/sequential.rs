//! One pass from a file's start to its end, in large aligned writes. For files written whole: segments, parts, staged.

use crate::base::error::Result;
use crate::base::limits::{COPY_BYTES, IO_ALIGNMENT};
use crate::io::{Access, Caching, Directory, Durability, File, FileName, Io, IoBuffer};

/// Collects bytes and writes them in pieces of `COPY_BYTES`. Dropped before `finish`, it leaves an unnamed part behind:
/// a file nobody has named is swept at start.
pub struct SequentialWriter {
    io: Io,
    file: File,
    /// `filled` bytes of it wait to be written at `written`.
    buffer: Option<IoBuffer>,
    filled: usize,
    written: u64,
}

impl SequentialWriter {
    pub async fn create(io: &Io, name: &FileName) -> Result<Self> {
        let file = io.open(name, Access::Create, Caching::Direct).await?;
        Ok(Self { io: io.clone(), file, buffer: None, filled: 0, written: 0 })
    }

    /// The offset of the next byte.
    pub fn position(&self) -> u64 {
        self.written + self.filled as u64
    }

    pub async fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let buffer = self.buffer.get_or_insert_with(|| IoBuffer::for_reading(COPY_BYTES));
            let piece = bytes.len().min(buffer.len() - self.filled);
            buffer[self.filled..self.filled + piece].copy_from_slice(&bytes[..piece]);
            self.filled += piece;
            bytes = &bytes[piece..];
            if self.filled == COPY_BYTES {
                self.flush(COPY_BYTES).await?;
            }
        }
        Ok(())
    }

    /// Zeros up to a multiple of `alignment` (at most a block).
    pub async fn align(&mut self, alignment: usize) -> Result<()> {
        assert!(alignment <= IO_ALIGNMENT, "alignment {alignment} is more than a block");
        let rest = self.position().next_multiple_of(alignment as u64) - self.position();
        self.write(&[0; IO_ALIGNMENT][..rest as usize]).await
    }

    /// Writes what is left and syncs data and directory entry: on return the file is as durable as it gets.
    pub async fn finish(mut self) -> Result<File> {
        let length = self.position();
        if self.filled > 0 {
            let whole = self.filled.next_multiple_of(IO_ALIGNMENT);
            if let Some(buffer) = &mut self.buffer {
                buffer[self.filled..whole].fill(0);
            }
            self.flush(whole).await?;
            self.file.truncate(length).await?;
        }
        self.file.sync_data().await?;
        self.io.sync_directory(&self.directory()).await?;
        Ok(self.file)
    }

    fn directory(&self) -> Directory {
        self.file.name().directory()
    }

    async fn flush(&mut self, bytes: usize) -> Result<()> {
        let Some(buffer) = self.buffer.take() else { return Ok(()) };
        let (written, buffer) = self.file.write_range_at(buffer, 0..bytes, self.written, Durability::Deferred).await;
        written?;
        self.buffer = Some(buffer);
        self.written += self.filled as u64;
        self.filled = 0;
        Ok(())
    }
}
