//! Files of the operating system, by blocking calls. Shared by both real backends; runs on their IO threads only.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Access, Caching, Durability, syscall};

/// Data is for the server's own user only.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

pub(super) struct OsFile {
    pub(super) file: File,
    pub(super) caching: Caching,
    /// Set once the file system has refused RWF_DSYNC; a durable write is then followed by fdatasync.
    without_dsync: AtomicBool,
}

impl OsFile {
    pub(super) fn open(path: &Path, access: Access, caching: Caching) -> io::Result<Self> {
        let open = |flags: i32| {
            let mut options = File::options();
            options.read(true).mode(FILE_MODE).custom_flags(flags | libc::O_CLOEXEC);
            match access {
                Access::Read => {}
                Access::ReadWrite => {
                    options.write(true);
                }
                Access::Create => {
                    options.write(true).create(true).truncate(true);
                }
            }
            options.open(path)
        };
        let (file, caching) = match caching {
            Caching::Buffered => (open(0)?, Caching::Buffered),
            Caching::Direct => match open(libc::O_DIRECT) {
                // tmpfs, overlay and network file systems may know no direct IO.
                Err(e) if e.raw_os_error() == Some(libc::EINVAL) => (open(0)?, Caching::Buffered),
                opened => (opened?, Caching::Direct),
            },
        };
        Ok(Self { file, caching, without_dsync: AtomicBool::new(false) })
    }

    pub(super) fn write(&self, bytes: &[u8], offset: u64, durability: Durability) -> io::Result<usize> {
        let durable = durability == Durability::Durable;
        let flagged = durable && !self.must_sync_apart();
        match retry(|| syscall::pwrite(self.file.as_fd(), bytes, offset, flagged)) {
            Err(e) if flagged && refuses_dsync(&e) => {
                self.sync_apart_from_now();
                self.write(bytes, offset, durability)
            }
            Ok(moved) if durable && !flagged => {
                self.file.sync_data()?;
                Ok(moved)
            }
            done => done,
        }
    }

    pub(super) fn read(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        retry(|| self.file.read_at(bytes, offset))
    }

    pub(super) fn must_sync_apart(&self) -> bool {
        self.without_dsync.load(Ordering::Relaxed)
    }

    pub(super) fn sync_apart_from_now(&self) {
        self.without_dsync.store(true, Ordering::Relaxed);
    }
}

/// Whether a flagged write failed for its flag alone.
pub(super) fn refuses_dsync(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS))
}

fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

pub(super) fn create_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(DIRECTORY_MODE).create(path)
}

pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    // Some file systems refuse fsync on directories and need none.
    match File::open(path)?.sync_all() {
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        done => done,
    }
}

pub(super) fn list(path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        // A name that is no text is none of ours.
        if let Ok(name) = entry?.file_name().into_string() {
            names.push(name);
        }
    }
    Ok(names)
}

/// An advisory lock for as long as the result lives.
pub(super) fn lock(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).write(true).create(true).truncate(false).mode(FILE_MODE).open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
        Err(TryLockError::Error(e)) => Err(e),
    }
}
