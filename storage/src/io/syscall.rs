//! The system calls that the standard library lacks. No state, no policy.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// `pwritev2` of one slice; with `durable` the write returns after the device has it (RWF_DSYNC).
/// `Unsupported` where kernel or file system know no RWF_DSYNC.
pub(super) fn pwrite(file: BorrowedFd<'_>, bytes: &[u8], offset: u64, durable: bool) -> io::Result<usize> {
    let flags = if durable { libc::RWF_DSYNC } else { 0 };
    let vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let offset = to_offset(offset)?;
    // SAFETY: `vector` describes `bytes`, which outlives the call; the kernel only reads it. The file is borrowed.
    let moved = unsafe { libc::pwritev2(file.as_raw_fd(), &vector, 1, offset, flags) };
    usize::try_from(moved).map_err(|_| io::Error::last_os_error())
}

/// Reserves blocks for `0..length` and extends the file. File systems without it are left as they are: the zeros
/// written next reserve the blocks as well.
pub(super) fn preallocate(file: BorrowedFd<'_>, length: u64) -> io::Result<()> {
    let length = to_offset(length)?;
    loop {
        // SAFETY: no memory is passed; the file is borrowed.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, length) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EOPNOTSUPP) => return Ok(()),
            _ => return Err(error),
        }
    }
}

/// A counter the kernel raises when a completion arrives.
pub(super) fn eventfd() -> io::Result<OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call above has just made `fd`, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Raises an eventfd from this side.
pub(super) fn raise(eventfd: &OwnedFd) {
    let one = 1u64.to_ne_bytes();
    // SAFETY: `one` is 8 readable bytes; the descriptor is open. A full counter is raised already.
    unsafe { libc::write(eventfd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
}

/// Anonymous zeroed memory of `bytes`, aligned to `alignment` (a power of two, at least a page), asking for huge pages.
#[cfg(not(miri))]
pub(super) fn map_aligned(bytes: usize, alignment: usize) -> Option<std::ptr::NonNull<u8>> {
    let whole = bytes.checked_add(alignment)?;
    let (read_write, anonymous) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches no memory in use.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), whole, read_write, anonymous, -1, 0) };
    if base == libc::MAP_FAILED {
        return None;
    }
    let base: *mut u8 = base.cast();
    let lead = base.align_offset(alignment);
    // SAFETY: `lead < alignment`, so both trimmed ranges and the kept one lie within the mapping just made, and the
    // trimmed ranges are used by nobody. Page alignment: `alignment` and `bytes` are multiples of the page size.
    unsafe {
        let kept = base.add(lead);
        if lead > 0 {
            libc::munmap(base.cast(), lead);
        }
        if lead < alignment {
            libc::munmap(kept.add(bytes).cast(), alignment - lead);
        }
        libc::madvise(kept.cast(), bytes, libc::MADV_HUGEPAGE);
        std::ptr::NonNull::new(kept)
    }
}

/// # Safety
/// `base` came from `map_aligned(bytes, _)` and nothing uses the memory any more.
#[cfg(not(miri))]
pub(super) unsafe fn unmap(base: std::ptr::NonNull<u8>, bytes: usize) {
    // SAFETY: by the contract above.
    unsafe { libc::munmap(base.as_ptr().cast(), bytes) };
}

fn to_offset(offset: u64) -> io::Result<libc::off_t> {
    libc::off_t::try_from(offset).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}
