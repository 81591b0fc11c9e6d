//! Memory for IO: aligned, owned, cut from 2 MiB huge-page chunks (direct IO into scattered small pages halves the
//! disk's speed). Each thread keeps a few chunks; a chunk is used again once all its buffers are gone.
//! Does not own what is in a buffer. A buffer may be dropped on any thread.

use std::alloc::Layout;
use std::cell::RefCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use arrow::buffer::Buffer;
use bytes::Bytes;

use crate::base::limits::{ARENA_CHUNK_BYTES, ARENA_CHUNKS_KEPT, IO_ALIGNMENT};

/// Bytes at an address and with a capacity that direct IO accepts.
pub struct IoBuffer {
    /// Start of a range of `capacity` bytes that belongs to this buffer alone.
    pointer: NonNull<u8>,
    length: usize,
    capacity: usize,
    /// Keeps the range mapped.
    _chunk: Arc<Chunk>,
}

// SAFETY: the range is reached through this value only (the arena never hands out a range twice while the chunk has
// another owner), and it is plain memory without ties to a thread.
unsafe impl Send for IoBuffer {}
// SAFETY: as above; `&IoBuffer` only reads.
unsafe impl Sync for IoBuffer {}

impl IoBuffer {
    /// `length` zeros.
    pub fn zeroed(length: usize) -> Self {
        let mut buffer = Self::for_reading(length);
        buffer.fill(0);
        buffer
    }

    /// `length` bytes of any (initialised) content, to be overwritten by a read.
    pub fn for_reading(length: usize) -> Self {
        let capacity = length.next_multiple_of(IO_ALIGNMENT).max(IO_ALIGNMENT);
        let (chunk, pointer) = take(capacity);
        Self { pointer, length, capacity, _chunk: chunk }
    }

    /// These bytes; the capacity beyond them, up to the next block, is zeros.
    pub fn copied_from(bytes: &[u8]) -> Self {
        let mut buffer = Self::for_reading(bytes.len().next_multiple_of(IO_ALIGNMENT));
        buffer[..bytes.len()].copy_from_slice(bytes);
        buffer[bytes.len()..].fill(0);
        buffer.set_len(bytes.len());
        buffer
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Shows another part of the capacity; never more than that.
    pub fn set_len(&mut self, length: usize) {
        assert!(length <= self.capacity, "{length} bytes do not fit into {}", self.capacity);
        self.length = length;
    }

    /// Without a copy.
    pub fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }

    /// Without a copy; arrays over it keep the memory.
    pub fn into_arrow(self) -> Buffer {
        Buffer::from(self.into_bytes())
    }

    pub(super) fn as_pointer(&mut self) -> *mut u8 {
        self.pointer.as_ptr()
    }
}

impl Deref for IoBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the range is mapped (kept by `_chunk`), initialised from its mapping on, and `length <= capacity`.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.length) }
    }
}

impl DerefMut for IoBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; this value alone reaches the range and is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.length) }
    }
}

impl AsRef<[u8]> for IoBuffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for IoBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IoBuffer({} of {} bytes)", self.length, self.capacity)
    }
}

/// Zeroed memory taken from the system in one piece.
struct Chunk {
    base: NonNull<u8>,
    bytes: usize,
    source: Source,
}

enum Source {
    #[cfg(not(miri))]
    Mapping,
    /// Where no mapping was granted.
    Heap(Layout),
}

// SAFETY: the chunk itself never touches its memory before it is dropped, and frees it from any thread.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

impl Chunk {
    fn new(bytes: usize) -> Self {
        #[cfg(not(miri))]
        if bytes >= ARENA_CHUNK_BYTES
            && let Some(base) = super::syscall::map_aligned(bytes, ARENA_CHUNK_BYTES)
        {
            return Self { base, bytes, source: Source::Mapping };
        }
        let layout = Layout::from_size_align(bytes, IO_ALIGNMENT).expect("buffer sizes are far below isize::MAX");
        assert!(bytes > 0, "an empty chunk");
        // SAFETY: the layout has a size above 0, as asserted.
        let base = unsafe { std::alloc::alloc_zeroed(layout) };
        let base = NonNull::new(base).unwrap_or_else(|| std::alloc::handle_alloc_error(layout));
        Self { base, bytes, source: Source::Heap(layout) }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        match self.source {
            // SAFETY: `base` and `bytes` are those of the mapping, and the last buffer of the chunk is gone.
            #[cfg(not(miri))]
            Source::Mapping => unsafe { super::syscall::unmap(self.base, self.bytes) },
            // SAFETY: `base` was allocated with this layout, and the last buffer of the chunk is gone.
            Source::Heap(layout) => unsafe { std::alloc::dealloc(self.base.as_ptr(), layout) },
        }
    }
}

/// One thread's chunks. `used` bytes from a chunk's start have been handed out.
#[derive(Default)]
struct Arena {
    chunks: Vec<(Arc<Chunk>, usize)>,
    current: usize,
}

thread_local! {
    // Per thread, so that no buffer needs a lock; it holds memory only, so no result depends on it.
    static ARENA: RefCell<Arena> = const { RefCell::new(Arena { chunks: Vec::new(), current: 0 }) };
}

/// A range of `capacity` bytes that nothing else refers to.
fn take(capacity: usize) -> (Arc<Chunk>, NonNull<u8>) {
    if capacity <= ARENA_CHUNK_BYTES / 2
        && let Ok(taken) = ARENA.try_with(|arena| arena.borrow_mut().take(capacity))
    {
        return taken;
    }
    let chunk = Arc::new(Chunk::new(capacity));
    let base = chunk.base;
    (chunk, base)
}

impl Arena {
    fn take(&mut self, capacity: usize) -> (Arc<Chunk>, NonNull<u8>) {
        let room = |used: usize| used + capacity <= ARENA_CHUNK_BYTES;
        if !self.chunks.get(self.current).is_some_and(|(_, used)| room(*used)) {
            self.turn();
        }
        let (chunk, used) = &mut self.chunks[self.current];
        assert!(room(*used), "{capacity} bytes do not fit into a fresh chunk");
        // SAFETY: `used + capacity` lies within the chunk.
        let pointer = unsafe { chunk.base.add(*used) };
        *used += capacity;
        (Arc::clone(chunk), pointer)
    }

    /// Makes a chunk without live buffers the current one.
    fn turn(&mut self) {
        // `get_mut` succeeds only if no buffer holds the chunk, and synchronises with the drop of the last one.
        let free = self.chunks.iter_mut().position(|(chunk, _)| Arc::get_mut(chunk).is_some());
        self.current = match free {
            Some(index) => index,
            None if self.chunks.len() < ARENA_CHUNKS_KEPT => {
                self.chunks.push((Arc::new(Chunk::new(ARENA_CHUNK_BYTES)), 0));
                self.chunks.len() - 1
            }
            None => {
                // Its buffers keep the old chunk alive; it is unmapped with the last of them.
                let index = (self.current + 1) % self.chunks.len();
                self.chunks[index].0 = Arc::new(Chunk::new(ARENA_CHUNK_BYTES));
                index
            }
        };
        self.chunks[self.current].1 = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_buffers_never_share_memory() {
        let mut live: Vec<(IoBuffer, u8)> = Vec::new();
        for round in 0..2_000usize {
            let tag = (round % 251) as u8;
            let mut buffer = IoBuffer::for_reading(1 + (round * 7_919) % 70_000);
            assert!(buffer.as_pointer().align_offset(IO_ALIGNMENT) == 0);
            buffer.fill(tag);
            live.push((buffer, tag));
            if live.len() > 100 {
                let (gone, tag) = live.swap_remove((round * 31) % live.len());
                assert!(gone.iter().all(|byte| *byte == tag));
            }
        }
        assert!(live.iter().all(|(buffer, tag)| buffer.iter().all(|byte| byte == tag)));
    }

    #[test]
    fn arrow_buffer_has_the_same_memory_and_outlives_the_thread() {
        let arrow = std::thread::spawn(|| {
            let mut buffer = IoBuffer::copied_from(b"kept");
            let address = buffer.as_pointer() as usize;
            let arrow = buffer.into_arrow();
            assert_eq!(arrow.as_ptr() as usize, address);
            arrow
        });
        assert_eq!(arrow.join().unwrap().as_slice(), b"kept");
    }

    #[test]
    fn zeroed_is_zero_in_used_memory_and_large_buffers_work() {
        drop({
            let mut dirty = IoBuffer::for_reading(ARENA_CHUNK_BYTES / 2);
            dirty.fill(7);
            dirty
        });
        for length in [0, 1, 4096, ARENA_CHUNK_BYTES / 2, ARENA_CHUNK_BYTES * 3 + 5] {
            let buffer = IoBuffer::zeroed(length);
            assert!(buffer.len() == length && buffer.iter().all(|byte| *byte == 0));
        }
    }
}
