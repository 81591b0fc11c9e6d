//! Files of the data directory, behind one handle.
//!
//! Owns: reading, writing and syncing files and directory entries; aligned buffers; the spelling of paths.
//! Does not own: any file's content. Three backends do the work: `uring` (one ring per thread), `blocking` (one
//! thread of system calls per calling thread) and `simulated` (memory, with seeded faults). `select` chooses at start.
//! A handle is usable from any thread; an operation runs on behalf of the thread that first polls it.
//!
//! Every operation may be dropped before it ends: it then still runs, its result is lost, its memory stays valid.

mod blocking;
mod buffer;
mod file_name;
mod os_file;
mod select;
mod sequential;
pub mod simulated;
mod syscall;
#[cfg(test)]
mod tests;
mod uring;

use std::future::Future;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use arrow::buffer::Buffer;

use crate::base::error::{Error, Result};
use crate::base::limits::{COPY_BYTES, IO_ALIGNMENT};

pub use buffer::IoBuffer;
pub use file_name::{Directory, FileName};
pub use select::{IoMode, Selected, select};
pub use sequential::SequentialWriter;

/// A boxed future: its allocation is nothing beside a disk access, and generics would colour every type above.
pub(crate) type IoFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
/// Bytes moved (maybe fewer than asked for), and the buffer again.
pub(crate) type Transfer = (io::Result<usize>, IoBuffer);

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    ReadWrite,
    /// Made new; an existing file of the name is emptied.
    Create,
}

/// Whether the page cache takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caching {
    /// O_DIRECT: offsets, lengths and memory are multiples of `IO_ALIGNMENT`. Where the file system refuses, buffered.
    Direct,
    Buffered,
}

/// When a write counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The bytes and what is needed to read them back are on the device (RWF_DSYNC).
    Durable,
    /// The system has them; a crash may lose any sector of them until `sync_data`.
    Deferred,
}

/// What a backend can do. Paths are relative to the data directory.
pub(crate) trait Backend: Send + Sync {
    fn name(&self) -> &'static str;
    fn open(&self, path: String, access: Access, caching: Caching) -> IoFuture<io::Result<Arc<dyn RawFile>>>;
    fn rename(&self, from: String, to: String) -> IoFuture<io::Result<()>>;
    fn unlink(&self, path: String) -> IoFuture<io::Result<()>>;
    fn create_directory(&self, path: String) -> IoFuture<io::Result<()>>;
    fn remove_directory(&self, path: String) -> IoFuture<io::Result<()>>;
    fn list(&self, path: String) -> IoFuture<io::Result<Vec<String>>>;
    fn sync_directory(&self, path: String) -> IoFuture<io::Result<()>>;
    /// `WouldBlock` if another process holds it.
    fn lock(&self, path: String) -> IoFuture<io::Result<Box<dyn Send + Sync>>>;
}

/// One open file. `range` is the part of the buffer to move; a transfer may be short.
pub(crate) trait RawFile: Send + Sync {
    fn write(
        self: Arc<Self>,
        buffer: IoBuffer,
        range: Range<usize>,
        offset: u64,
        durability: Durability,
    ) -> IoFuture<Transfer>;
    fn read(self: Arc<Self>, buffer: IoBuffer, range: Range<usize>, offset: u64) -> IoFuture<Transfer>;
    fn sync_data(self: Arc<Self>) -> IoFuture<io::Result<()>>;
    fn preallocate(self: Arc<Self>, length: u64) -> IoFuture<io::Result<()>>;
    fn truncate(self: Arc<Self>, length: u64) -> IoFuture<io::Result<()>>;
    fn length(&self) -> io::Result<u64>;
    fn caching(&self) -> Caching;
}

/// The data directory of one node. Cheap to clone, usable from any thread.
#[derive(Clone)]
pub struct Io(Arc<dyn Backend>);

/// Held by the running node; released when dropped or when the process ends.
pub struct DataDirectoryLock(#[allow(dead_code)] Box<dyn Send + Sync>);

impl Io {
    pub(crate) fn new(backend: impl Backend + 'static) -> Self {
        Self(Arc::new(backend))
    }

    /// The thread backend on `root`, for tests and tools; a node takes what [`select`] gives.
    pub fn threads(root: &Path) -> Self {
        Self::new(blocking::Blocking::new(root))
    }

    /// `uring`, `threads` or `simulated`.
    pub fn backend_name(&self) -> &'static str {
        self.0.name()
    }

    pub async fn open(&self, name: &FileName, access: Access, caching: Caching) -> Result<File> {
        let raw = self.0.open(name.to_string(), access, caching).await.map_err(|e| failed("open", name, &e))?;
        Ok(File { raw, name: name.clone() })
    }

    /// Like `open` for reading, but a missing file is no error.
    pub async fn open_if_exists(&self, name: &FileName, access: Access, caching: Caching) -> Result<Option<File>> {
        match self.0.open(name.to_string(), access, caching).await {
            Ok(raw) => Ok(Some(File { raw, name: name.clone() })),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(failed("open", name, &e)),
        }
    }

    /// Replaces `to` in one step. Durable only after `sync_directory` of both parents.
    pub async fn rename(&self, from: &FileName, to: &FileName) -> Result<()> {
        self.0.rename(from.to_string(), to.to_string()).await.map_err(|e| failed("rename", from, &e))
    }

    /// A missing file is no error: an earlier unlink may have been cut off by a crash.
    pub async fn unlink(&self, name: &FileName) -> Result<()> {
        match self.0.unlink(name.to_string()).await {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(failed("delete", name, &e)),
            _ => Ok(()),
        }
    }

    /// Makes one level; an existing directory is no error. The entry in its parent is durable on return.
    pub async fn create_directory(&self, directory: &Directory) -> Result<()> {
        match self.0.create_directory(directory.to_string()).await {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed("create directory", directory, &e));
            }
            _ => {}
        }
        match directory.parent() {
            Some(parent) => self.sync_directory(&parent).await,
            None => Ok(()),
        }
    }

    /// Removes an empty directory; a missing one is no error.
    pub async fn remove_directory(&self, directory: &Directory) -> Result<()> {
        match self.0.remove_directory(directory.to_string()).await {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(failed("remove directory", directory, &e)),
            _ => Ok(()),
        }
    }

    /// The names in a directory, sorted; a missing directory is empty.
    pub async fn list(&self, directory: &Directory) -> Result<Vec<String>> {
        let mut names = match self.0.list(directory.to_string()).await {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
            listed => listed.map_err(|e| failed("list", directory, &e))?,
        };
        names.sort_unstable();
        Ok(names)
    }

    /// Those names in a directory that this program could have given, in order.
    pub async fn list_files(&self, directory: &Directory) -> Result<Vec<FileName>> {
        let names = self.list(directory).await?;
        Ok(names.iter().filter_map(|name| FileName::parse(directory, name)).collect())
    }

    /// Makes creations, renames and unlinks in `directory` durable.
    pub async fn sync_directory(&self, directory: &Directory) -> Result<()> {
        self.0.sync_directory(directory.to_string()).await.map_err(|e| failed("sync directory", directory, &e))
    }

    /// Fails with [`Error::Io`] if another process uses the data directory.
    pub async fn lock_data_directory(&self) -> Result<DataDirectoryLock> {
        let held = self.0.lock(FileName::Lock.to_string()).await.map_err(|e| match e.kind() {
            io::ErrorKind::WouldBlock => Error::Io {
                what: "could not lock the data directory".into(),
                reason: "another process is using it".into(),
            },
            _ => failed("lock", &FileName::Lock, &e),
        })?;
        Ok(DataDirectoryLock(held))
    }

    /// A whole small file, or `None` if it is missing.
    pub async fn read_file(&self, name: &FileName) -> Result<Option<Buffer>> {
        let Some(file) = self.open_if_exists(name, Access::Read, Caching::Buffered).await? else { return Ok(None) };
        let length = file.length()?;
        file.read_range(0, length as usize).await.map(Some)
    }

    /// Replaces a whole small file: after a crash it holds either the old or the new bytes.
    pub async fn replace_file(&self, name: &FileName, content: &[u8]) -> Result<()> {
        let aside = name.temporary();
        let file = self.open(&aside, Access::Create, Caching::Buffered).await?;
        let (written, _) = file.write_at(IoBuffer::copied_from(content), 0, Durability::Deferred).await;
        written?;
        file.sync_data().await?;
        drop(file);
        self.rename(&aside, name).await?;
        self.sync_directory(&name.directory()).await
    }
}

/// An open file; cheap to clone, closed with its last clone.
#[derive(Clone)]
pub struct File {
    raw: Arc<dyn RawFile>,
    name: FileName,
}

impl File {
    pub fn name(&self) -> &FileName {
        &self.name
    }

    /// What was granted, which may be less than asked for (see [`Caching::Direct`]).
    pub fn caching(&self) -> Caching {
        self.raw.caching()
    }

    pub fn length(&self) -> Result<u64> {
        self.raw.length().map_err(|e| failed("stat", &self.name, &e))
    }

    /// Writes the whole buffer. On an error any sector of it may or may not have been written.
    pub async fn write_at(&self, buffer: IoBuffer, offset: u64, durability: Durability) -> (Result<()>, IoBuffer) {
        let range = 0..buffer.len();
        self.write_range_at(buffer, range, offset, durability).await
    }

    /// Writes a part of the buffer at `offset`.
    pub async fn write_range_at(
        &self,
        mut buffer: IoBuffer,
        range: Range<usize>,
        offset: u64,
        durability: Durability,
    ) -> (Result<()>, IoBuffer) {
        assert!(range.end <= buffer.len(), "write of {range:?} from a buffer of {} bytes", buffer.len());
        if self.raw.caching() == Caching::Direct {
            assert_aligned(&range, offset);
        }
        let mut progress = TransferProgress::new(self.raw.caching());
        while progress.done < range.len() {
            let rest = range.start + progress.done..range.end;
            let at = offset + progress.done as u64;
            let (moved, returned) = Arc::clone(&self.raw).write(buffer, rest, at, durability).await;
            buffer = returned;
            if let Err(e) = moved.and_then(|moved| progress.advance(moved, range.len())) {
                return (Err(failed("write", &self.name, &e)), buffer);
            }
        }
        (Ok(()), buffer)
    }

    /// Fills the buffer from `offset`; fewer bytes only where the file ends.
    pub async fn read_at(&self, mut buffer: IoBuffer, offset: u64) -> (Result<usize>, IoBuffer) {
        let length = buffer.len();
        if self.raw.caching() == Caching::Direct {
            assert_aligned(&(0..length), offset);
        }
        let mut progress = TransferProgress::new(self.raw.caching());
        while progress.done < length {
            let at = offset + progress.done as u64;
            let (moved, returned) = Arc::clone(&self.raw).read(buffer, progress.done..length, at).await;
            buffer = returned;
            let moved = match moved {
                Ok(moved) => moved,
                Err(e) => return (Err(failed("read", &self.name, &e)), buffer),
            };
            // Fewer bytes mean the end, or nothing at all: only the length tells.
            if progress.done + moved < length {
                match self.length() {
                    Ok(end) if at + moved as u64 >= end => return (Ok(progress.done + moved), buffer),
                    Ok(_) => {}
                    Err(e) => return (Err(e), buffer),
                }
            }
            if let Err(e) = progress.advance(moved, length) {
                return (Err(failed("read", &self.name, &e)), buffer);
            }
        }
        (Ok(progress.done), buffer)
    }

    /// Exactly these bytes, at any alignment, without a copy. A file that ends before them is [`Error::Corrupted`].
    pub async fn read_range(&self, offset: u64, length: usize) -> Result<Buffer> {
        let align = IO_ALIGNMENT as u64;
        let start = offset - offset % align;
        let lead = (offset - start) as usize;
        let whole = (lead + length).next_multiple_of(IO_ALIGNMENT);
        let (read, buffer) = self.read_at(IoBuffer::for_reading(whole), start).await;
        if read? < lead + length {
            return Err(Error::Corrupted {
                file: self.name.to_string(),
                offset,
                reason: format!("the file ends before the {length} bytes expected here"),
            });
        }
        Ok(buffer.into_arrow().slice_with_length(lead, length))
    }

    /// Fails for good: after an error the system may have dropped the pages, so a second try proves nothing.
    pub async fn sync_data(&self) -> Result<()> {
        Arc::clone(&self.raw).sync_data().await.map_err(|e| failed("sync", &self.name, &e))
    }

    /// Longer: zeros. Shorter: the rest is gone. Durable after `sync_data`.
    pub async fn truncate(&self, length: u64) -> Result<()> {
        Arc::clone(&self.raw).truncate(length).await.map_err(|e| failed("truncate", &self.name, &e))
    }

    /// Gives the file `length` bytes of room, all written with zeros and synced: later writes into it change no
    /// metadata and cannot meet a full disk.
    pub async fn preallocate_zeroed(&self, length: u64) -> Result<()> {
        Arc::clone(&self.raw).preallocate(length).await.map_err(|e| failed("preallocate", &self.name, &e))?;
        self.write_zeros(0..length, Durability::Deferred).await?;
        self.sync_data().await
    }

    pub async fn write_zeros(&self, range: Range<u64>, durability: Durability) -> Result<()> {
        let mut offset = range.start;
        let mut zeros = IoBuffer::zeroed(COPY_BYTES.min((range.end - range.start) as usize));
        while offset < range.end {
            let piece = (range.end - offset).min(zeros.len() as u64);
            let (written, returned) = self.write_range_at(zeros, 0..piece as usize, offset, durability).await;
            written?;
            zeros = returned;
            offset += piece;
        }
        Ok(())
    }
}

/// How far a transfer has come that the system cuts into pieces.
struct TransferProgress {
    caching: Caching,
    done: usize,
    stuck: u32,
}

/// So often in a row a device may move nothing usable.
const STUCK_MAX: u32 = 16;

impl TransferProgress {
    fn new(caching: Caching) -> Self {
        Self { caching, done: 0, stuck: 0 }
    }

    /// Direct transfers go on at a block's start, so a torn block is moved again.
    fn advance(&mut self, moved: usize, whole: usize) -> io::Result<()> {
        self.done += moved;
        if self.done < whole && self.caching == Caching::Direct {
            self.done -= self.done % IO_ALIGNMENT;
        }
        self.stuck = if moved >= IO_ALIGNMENT || self.done == whole { 0 } else { self.stuck + 1 };
        if self.stuck > STUCK_MAX {
            return Err(io::Error::new(io::ErrorKind::WriteZero, "the device moves no bytes"));
        }
        Ok(())
    }
}

fn assert_aligned(range: &Range<usize>, offset: u64) {
    assert!(
        range.start.is_multiple_of(IO_ALIGNMENT)
            && range.len().is_multiple_of(IO_ALIGNMENT)
            && offset.is_multiple_of(IO_ALIGNMENT as u64),
        "direct IO of {range:?} at {offset} is not aligned to {IO_ALIGNMENT}"
    );
}

/// Names the file once; full disks apart, because the caller waits for room there.
fn failed(operation: &str, name: &dyn std::fmt::Display, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::DiskFull { file: name.to_string() },
        _ => Error::Io { what: format!("could not {operation} \"{name}\""), reason: error.to_string() },
    }
}
