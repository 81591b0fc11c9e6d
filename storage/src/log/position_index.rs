//! Finds the chunk that holds a sequence number or a moment. Chunks follow each other without gap.

use std::sync::Arc;

use super::chunk::Chunk;
use crate::base::ids::{CommitTimestamp, SequenceNumber};

/// The chunk that holds `sn`, or the first after it; `chunks.len()` if it is past the end.
pub(crate) fn by_sequence_number(chunks: &[Arc<Chunk>], sn: SequenceNumber) -> usize {
    chunks.partition_point(|c| c.end() <= sn)
}

/// The first chunk with a row that arrived after `at`.
pub(crate) fn first_after(chunks: &[Arc<Chunk>], at: CommitTimestamp) -> usize {
    chunks.partition_point(|c| c.arrived.1 <= at)
}
