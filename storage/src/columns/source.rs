//! What a column file needs of the outside: bytes at an offset, and a place to append them.
//! The Io handle stands behind these in the product, memory in tests.

use std::future::Future;
use std::pin::Pin;

use arrow::buffer::Buffer;

use crate::base::error::Result;

pub(crate) type IoFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// An open, immutable file. Stays readable after its name is gone.
pub(crate) trait FileSource: Send + Sync {
    /// For error messages.
    fn name(&self) -> &str;

    fn size_bytes(&self) -> u64;

    /// Exactly these bytes, which lie inside the file; a byte at a multiple of 64 in the file is so aligned in memory.
    /// Cancel-safe.
    fn read(&self, offset: u64, length: usize) -> IoFuture<'_, Buffer>;
}

/// A new file, written from its start to its end.
pub(crate) trait FileSink: Send {
    fn append(&mut self, bytes: Vec<u8>) -> IoFuture<'_, ()>;

    /// Makes data and directory entry durable and opens the file for reading.
    fn finish(self: Box<Self>) -> IoFuture<'static, std::sync::Arc<dyn FileSource>>;
}

#[cfg(test)]
pub(crate) mod memory {
    //! A file in memory.

    use std::sync::Arc;

    use super::*;

    pub(crate) struct MemoryFile {
        pub bytes: Buffer,
    }

    impl MemoryFile {
        pub(crate) fn of(bytes: &[u8]) -> Arc<dyn FileSource> {
            Arc::new(Self { bytes: Buffer::from(bytes) })
        }
    }

    impl FileSource for MemoryFile {
        fn name(&self) -> &str {
            "memory"
        }

        fn size_bytes(&self) -> u64 {
            self.bytes.len() as u64
        }

        fn read(&self, offset: u64, length: usize) -> IoFuture<'_, Buffer> {
            let offset = offset as usize;
            assert!(offset + length <= self.bytes.len(), "read {length} bytes at {offset} of {}", self.bytes.len());
            Box::pin(async move { Ok(self.bytes.slice_with_length(offset, length)) })
        }
    }

    #[derive(Default)]
    pub(crate) struct MemorySink(pub Vec<u8>);

    impl FileSink for MemorySink {
        fn append(&mut self, bytes: Vec<u8>) -> IoFuture<'_, ()> {
            self.0.extend_from_slice(&bytes);
            Box::pin(async { Ok(()) })
        }

        fn finish(self: Box<Self>) -> IoFuture<'static, Arc<dyn FileSource>> {
            Box::pin(async move { Ok(MemoryFile::of(&self.0)) })
        }
    }
}
