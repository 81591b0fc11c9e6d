//! The checksum of every byte at rest: xxh3-64. Part of the formats, so it never changes within a format version.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

pub fn checksum(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// With a seed made from the bytes' place, so that right bytes at a wrong place do not verify.
pub fn checksum_seeded(bytes: &[u8], seed: u64) -> u64 {
    xxh3_64_with_seed(bytes, seed)
}

/// A seed from an owner's identity and a place in what it owns.
pub fn seed_of(owner: &[u8; 16], place: u64) -> u64 {
    xxh3_64_with_seed(owner, place)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// These values stand in files: a change here would make every existing file unreadable.
    #[test]
    fn values_are_frozen() {
        assert_eq!(checksum(b""), 0x2d06_8005_38d3_94c2);
        assert_ne!(checksum_seeded(b"row", 1), checksum_seeded(b"row", 2));
        assert_ne!(seed_of(&[1; 16], 0), seed_of(&[1; 16], 4096));
    }
}
