//! The payload of a commit record: what the transaction does in this journal's partitions, in order.
//!
//! count u32, then each action: kind u8 │ format u8 │ zeros 2 │ relation u32 │ partition u32 │ zeros 4 │ rows u64 │
//! length u64 │ bytes, padded to 8. Rows and edits are opaque here: `columns` and `catalog` know them.

use bytes::Bytes;

use crate::base::ids::{PartitionId, RelationId};

/// How rows of an append are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsFormat {
    Packed,
    Columns,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Append {
        partition: PartitionId,
        format: RowsFormat,
        rows: u64,
        bytes: Bytes,
    },
    /// Rows in a finished bulk segment file; `file` is its path in the data directory.
    Staged {
        partition: PartitionId,
        rows: u64,
        file: String,
    },
    /// Every row of the partition up to here is gone.
    Truncate {
        partition: PartitionId,
    },
    /// An edit of the catalog.
    Catalog {
        edit: Bytes,
    },
    /// Something of the owner that is none of these.
    Other {
        bytes: Bytes,
    },
}

/// The actions of one commit.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct CommitBody {
    pub actions: Vec<Action>,
}

const ACTION_HEAD_BYTES: usize = 32;
const NO_PARTITION: PartitionId = PartitionId { relation: RelationId(0), index: 0 };

impl CommitBody {
    pub fn encode(&self) -> Bytes {
        let content = self.actions.iter().map(|action| ACTION_HEAD_BYTES + action.bytes().len().next_multiple_of(8));
        let mut out = Vec::with_capacity(8 + content.sum::<usize>());
        out.extend_from_slice(&(self.actions.len() as u64).to_le_bytes());
        for action in &self.actions {
            let (kind, format, partition, rows) = match action {
                Action::Append { partition, format: RowsFormat::Packed, rows, .. } => (1, 1, *partition, *rows),
                Action::Append { partition, format: RowsFormat::Columns, rows, .. } => (1, 2, *partition, *rows),
                Action::Staged { partition, rows, .. } => (2, 0, *partition, *rows),
                Action::Truncate { partition } => (3, 0, *partition, 0),
                Action::Catalog { .. } => (4, 0, NO_PARTITION, 0),
                Action::Other { .. } => (5, 0, NO_PARTITION, 0),
            };
            let bytes = action.bytes();
            out.extend_from_slice(&[kind, format, 0, 0]);
            out.extend_from_slice(&partition.relation.0.to_le_bytes());
            out.extend_from_slice(&partition.index.to_le_bytes());
            out.extend_from_slice(&[0; 4]);
            out.extend_from_slice(&rows.to_le_bytes());
            out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
            out.extend_from_slice(bytes);
            out.resize(out.len().next_multiple_of(8), 0);
        }
        out.into()
    }

    /// `None` if the bytes are no commit. The actions share the payload's memory.
    pub fn decode(payload: &Bytes) -> Option<Self> {
        let count = u64::from_le_bytes(array(payload, 0)?);
        let mut actions = Vec::new();
        let mut at = 8;
        for _ in 0..count {
            let [kind, format, ..]: [u8; 4] = array(payload, at)?;
            let partition = PartitionId {
                relation: RelationId(u32::from_le_bytes(array(payload, at + 4)?)),
                index: u32::from_le_bytes(array(payload, at + 8)?),
            };
            let rows = u64::from_le_bytes(array(payload, at + 16)?);
            let length = usize::try_from(u64::from_le_bytes(array(payload, at + 24)?)).ok()?;
            at += ACTION_HEAD_BYTES;
            let end = at.checked_add(length).filter(|end| *end <= payload.len())?;
            let bytes = payload.slice(at..end);
            at = end.next_multiple_of(8);
            actions.push(match (kind, format) {
                (1, 1) => Action::Append { partition, format: RowsFormat::Packed, rows, bytes },
                (1, 2) => Action::Append { partition, format: RowsFormat::Columns, rows, bytes },
                (2, _) => Action::Staged { partition, rows, file: String::from_utf8(bytes.to_vec()).ok()? },
                (3, _) => Action::Truncate { partition },
                (4, _) => Action::Catalog { edit: bytes },
                (5, _) => Action::Other { bytes },
                _ => return None,
            });
        }
        (at == payload.len()).then_some(Self { actions })
    }
}

impl Action {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Append { bytes, .. } | Self::Other { bytes } => bytes,
            Self::Staged { file, .. } => file.as_bytes(),
            Self::Truncate { .. } => &[],
            Self::Catalog { edit } => edit,
        }
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body() -> CommitBody {
        let partition = PartitionId { relation: RelationId(16_400), index: 7 };
        let bytes = Bytes::from_static(b"packed rows");
        CommitBody {
            actions: vec![
                Action::Append { partition, format: RowsFormat::Packed, rows: 2, bytes: bytes.clone() },
                Action::Append { partition, format: RowsFormat::Columns, rows: 64, bytes: Bytes::new() },
                Action::Staged { partition, rows: 1 << 40, file: "partitions/16400-7/x.staged".into() },
                Action::Truncate { partition },
                Action::Catalog { edit: bytes.clone() },
                Action::Other { bytes },
            ],
        }
    }

    #[test]
    fn a_body_reads_back() {
        assert_eq!(CommitBody::decode(&body().encode()), Some(body()));
        assert_eq!(CommitBody::decode(&CommitBody::default().encode()), Some(CommitBody::default()));
    }

    #[test]
    fn damaged_bodies_are_refused_or_read_without_panic() {
        let good = body().encode();
        for cut in 0..good.len() {
            assert_eq!(CommitBody::decode(&good.slice(..cut)), None, "cut at {cut}");
        }
        let mut random = crate::base::random::Random::from_seed(3);
        for _ in 0..20_000 {
            let mut bytes = good.to_vec();
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.next_u64() as u8;
            }
            let _ = CommitBody::decode(&bytes.into());
        }
    }
}
