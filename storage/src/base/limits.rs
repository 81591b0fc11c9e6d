//! Every bound of the store, with the relations between them checked at compile time.

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Alignment of memory, file offset and length for direct IO. 4 KiB suits every disk; 512 B would not.
pub const IO_ALIGNMENT: usize = 4096;
/// The unit a disk writes whole or not at all.
pub const SECTOR_BYTES: usize = 512;
/// A huge page: the unit in which IO memory is taken from the system.
pub const ARENA_CHUNK_BYTES: usize = 2 * MIB as usize;
/// Chunks a thread keeps for its next buffers.
pub const ARENA_CHUNKS_KEPT: usize = 4;
/// Operations one thread may have under way; a further one waits for its turn.
pub const IO_IN_FLIGHT_MAX: usize = 512;
/// Pieces in which a file is zeroed or copied.
pub const COPY_BYTES: usize = MIB as usize;

/// One journal write. A small commit waits for at most one of these.
pub const GROUP_BYTES_MAX: usize = 256 * KIB as usize;
pub const JOURNAL_SEGMENT_BYTES_MIN: u64 = 4 * MIB;
pub const JOURNAL_SEGMENT_BYTES_MAX: u64 = 128 * MIB;
/// Journal bytes of one core whose rows are in no segment yet: what recovery must replay.
pub const JOURNAL_UNSEALED_BYTES_MAX: u64 = 256 * MIB;
/// Released journal segments kept for reuse; more are deleted.
pub const JOURNAL_SPARE_BYTES_MAX: u64 = JOURNAL_SEGMENT_BYTES_MAX;
/// Journals that take part in one commit (one per core).
pub const PARTICIPANTS_MAX: usize = 1024;

/// Rows of a transaction beyond this are staged in bulk segment files.
pub const STAGED_THRESHOLD_BYTES: usize = MIB as usize;
/// The whole payload of one commit: the threshold, one row that passes it (a row may hold 64 MiB), and edits.
pub const COMMIT_BYTES_MAX: usize = 80 * MIB as usize;
/// A tail is sealed at this size.
pub const TAIL_SEAL_BYTES: usize = 16 * MIB as usize;
/// All tails of a core; beyond, the largest is sealed.
pub const TAILS_BYTES_MAX: usize = 64 * MIB as usize;
/// Packed rows of a tail become a batch at this count.
pub const TAIL_PACKED_ROWS_MAX: usize = 1024;
/// From this many rows on a commit's payload is columns.
pub const COLUMN_PAYLOAD_ROWS_MIN: usize = 64;
pub const PART_BYTES_MAX: u64 = 1 << 30;

const _: () = assert!(SECTOR_BYTES <= IO_ALIGNMENT && IO_ALIGNMENT.is_multiple_of(SECTOR_BYTES));
const _: () = assert!(GROUP_BYTES_MAX.is_multiple_of(IO_ALIGNMENT));
const _: () = assert!(ARENA_CHUNK_BYTES.is_multiple_of(IO_ALIGNMENT) && GROUP_BYTES_MAX < ARENA_CHUNK_BYTES);
const _: () = assert!(COPY_BYTES <= ARENA_CHUNK_BYTES && COPY_BYTES.is_multiple_of(IO_ALIGNMENT));
// A segment holds its header block and several groups; otherwise most of it would be padding.
const _: () = assert!(JOURNAL_SEGMENT_BYTES_MIN >= 8 * GROUP_BYTES_MAX as u64);
const _: () = assert!(JOURNAL_SEGMENT_BYTES_MIN <= JOURNAL_SEGMENT_BYTES_MAX);
// The journal can always go on in a new segment while the old ones wait for their seals.
const _: () = assert!(JOURNAL_UNSEALED_BYTES_MAX >= 2 * JOURNAL_SEGMENT_BYTES_MAX);
// Sealing every tail frees the journal before its bound is met.
const _: () = assert!((TAILS_BYTES_MAX as u64) < JOURNAL_UNSEALED_BYTES_MAX);
const _: () = assert!(TAIL_SEAL_BYTES <= TAILS_BYTES_MAX);
const _: () = assert!(STAGED_THRESHOLD_BYTES < TAIL_SEAL_BYTES);
const _: () = assert!((COMMIT_BYTES_MAX as u64) < JOURNAL_SEGMENT_BYTES_MAX);
const _: () = assert!(STAGED_THRESHOLD_BYTES < COMMIT_BYTES_MAX);
const _: () = assert!(COLUMN_PAYLOAD_ROWS_MIN <= TAIL_PACKED_ROWS_MAX);
// One record header and its participants leave room for payload in a group.
const _: () = assert!(PARTICIPANTS_MAX * 16 < GROUP_BYTES_MAX / 2);
