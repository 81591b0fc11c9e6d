//! The backend of system calls: for each thread that does IO, one thread that waits for the disk in its place.
//! As good as a ring for journal writes; needs no permission that a container may refuse.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::os_file::{self, OsFile};
use super::{Access, Backend, Caching, Durability, IoBuffer, IoFuture, RawFile, Transfer, syscall};
use crate::base::limits::IO_IN_FLIGHT_MAX;

pub(super) struct Blocking {
    root: PathBuf,
}

impl Blocking {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }
}

type Job = Box<dyn FnOnce() + Send>;

thread_local! {
    // The calling thread's IO thread; ends when the calling thread does.
    static WORKER: RefCell<Option<mpsc::Sender<Job>>> = const { RefCell::new(None) };
}

/// Runs `job` on the calling thread's IO thread. Jobs of one thread run one after the other. A dropped future leaves
/// its job in place.
pub(super) async fn run<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let worker = worker()?;
    let (reply, result) = oneshot::channel();
    // A full queue makes the caller wait.
    let sent = worker.send(Box::new(move || {
        let _ = reply.send(job());
    }));
    let ended = || io::Error::other("the IO thread has ended");
    sent.await.map_err(|_| ended())?;
    result.await.map_err(|_| ended())
}

fn worker() -> io::Result<mpsc::Sender<Job>> {
    WORKER.with_borrow_mut(|worker| {
        if let Some(sender) = worker {
            return Ok(sender.clone());
        }
        let (sender, mut jobs) = mpsc::channel::<Job>(IO_IN_FLIGHT_MAX);
        std::thread::Builder::new().name("io".into()).spawn(move || {
            while let Some(job) = jobs.blocking_recv() {
                job();
            }
        })?;
        *worker = Some(sender.clone());
        Ok(sender)
    })
}

/// `run` for a job that can fail itself.
pub(super) async fn run_fallible<T: Send + 'static>(
    job: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    run(job).await?
}

impl Backend for Blocking {
    fn name(&self) -> &'static str {
        "threads"
    }

    fn open(&self, path: String, access: Access, caching: Caching) -> IoFuture<io::Result<Arc<dyn RawFile>>> {
        let path = self.path(&path);
        Box::pin(async move {
            let file = run_fallible(move || OsFile::open(&path, access, caching)).await?;
            Ok(Arc::new(file) as Arc<dyn RawFile>)
        })
    }

    fn rename(&self, from: String, to: String) -> IoFuture<io::Result<()>> {
        let (from, to) = (self.path(&from), self.path(&to));
        Box::pin(run_fallible(move || fs::rename(from, to)))
    }

    fn unlink(&self, path: String) -> IoFuture<io::Result<()>> {
        let path = self.path(&path);
        Box::pin(run_fallible(move || fs::remove_file(path)))
    }

    fn create_directory(&self, path: String) -> IoFuture<io::Result<()>> {
        let path = self.path(&path);
        Box::pin(run_fallible(move || os_file::create_directory(&path)))
    }

    fn remove_directory(&self, path: String) -> IoFuture<io::Result<()>> {
        let path = self.path(&path);
        Box::pin(run_fallible(move || fs::remove_dir(path)))
    }

    fn list(&self, path: String) -> IoFuture<io::Result<Vec<String>>> {
        let path = self.path(&path);
        Box::pin(run_fallible(move || os_file::list(&path)))
    }

    fn sync_directory(&self, path: String) -> IoFuture<io::Result<()>> {
        let path = self.path(&path);
        Box::pin(run_fallible(move || os_file::sync_directory(&path)))
    }

    fn lock(&self, path: String) -> IoFuture<io::Result<Box<dyn Send + Sync>>> {
        let path = self.path(&path);
        Box::pin(run_fallible(move || Ok(Box::new(os_file::lock(&path)?) as Box<dyn Send + Sync>)))
    }
}

impl RawFile for OsFile {
    fn write(
        self: Arc<Self>,
        buffer: IoBuffer,
        range: Range<usize>,
        offset: u64,
        durability: Durability,
    ) -> IoFuture<Transfer> {
        transfer(buffer, move |buffer| OsFile::write(&self, &buffer[range], offset, durability))
    }

    fn read(self: Arc<Self>, buffer: IoBuffer, range: Range<usize>, offset: u64) -> IoFuture<Transfer> {
        transfer(buffer, move |buffer| OsFile::read(&self, &mut buffer[range], offset))
    }

    fn sync_data(self: Arc<Self>) -> IoFuture<io::Result<()>> {
        Box::pin(run_fallible(move || self.file.sync_data()))
    }

    fn preallocate(self: Arc<Self>, length: u64) -> IoFuture<io::Result<()>> {
        Box::pin(run_fallible(move || syscall::preallocate(std::os::fd::AsFd::as_fd(&self.file), length)))
    }

    fn truncate(self: Arc<Self>, length: u64) -> IoFuture<io::Result<()>> {
        Box::pin(run_fallible(move || self.file.set_len(length)))
    }

    fn length(&self) -> io::Result<u64> {
        // The inode of an open file is in memory: no wait.
        self.file.metadata().map(|metadata| metadata.len())
    }

    fn caching(&self) -> Caching {
        self.caching
    }
}

fn transfer(
    mut buffer: IoBuffer,
    job: impl FnOnce(&mut IoBuffer) -> io::Result<usize> + Send + 'static,
) -> IoFuture<Transfer> {
    Box::pin(async move {
        let done = run(move || {
            let moved = job(&mut buffer);
            (moved, buffer)
        });
        match done.await {
            Ok(transfer) => transfer,
            // The buffer is lost with the thread; the caller gets an empty one beside the error.
            Err(e) => (Err(e), IoBuffer::for_reading(0)),
        }
    })
}
