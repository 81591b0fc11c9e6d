//! The only speller of paths in the data directory.
//!
//! ```text
//! lock  node  io-probe
//! catalog/<version>                  manifest/<generation>
//! journals/<uuid>/<segment>
//! partitions/<relation>-<index>/<generation>.manifest  <id>.segment  <id>.part  <transaction>-<number>.staged
//! ```
//! A name with `.new` behind is a file on its way: it counts for nothing until renamed, and is swept at start.

use std::fmt;

use uuid::Uuid;

use crate::base::ids::{PartitionId, RelationId, TransactionId};

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Directory {
    Root,
    Catalog,
    Manifest,
    Journals,
    Journal(Uuid),
    Partitions,
    Partition(PartitionId),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileName {
    /// Held locked by the running process.
    Lock,
    /// What this data directory is: format version, node identity, its journals.
    Node,
    /// Scratch file of the start-up probe.
    IoProbe,
    Catalog(u64),
    /// The node's manifest.
    Manifest(u64),
    JournalSegment {
        journal: Uuid,
        number: u64,
    },
    PartitionManifest {
        partition: PartitionId,
        generation: u64,
    },
    Segment {
        partition: PartitionId,
        id: u64,
    },
    Part {
        partition: PartitionId,
        id: u64,
    },
    /// A bulk segment file of one transaction.
    Staged {
        partition: PartitionId,
        transaction: TransactionId,
        number: u32,
    },
    /// The same file before its rename.
    Temporary(Box<FileName>),
}

impl Directory {
    pub fn parent(&self) -> Option<Directory> {
        match self {
            Self::Root => None,
            Self::Catalog | Self::Manifest | Self::Journals | Self::Partitions => Some(Self::Root),
            Self::Journal(_) => Some(Self::Journals),
            Self::Partition(_) => Some(Self::Partitions),
        }
    }

    /// The directory that `name` stands for within this one.
    pub fn parse(&self, name: &str) -> Option<Directory> {
        let child = match (self, name) {
            (Self::Root, "catalog") => Self::Catalog,
            (Self::Root, "manifest") => Self::Manifest,
            (Self::Root, "journals") => Self::Journals,
            (Self::Root, "partitions") => Self::Partitions,
            (Self::Journals, uuid) => Self::Journal(Uuid::parse_str(uuid).ok()?),
            (Self::Partitions, partition) => {
                let (relation, index) = partition.split_once('-')?;
                let relation = RelationId(relation.parse().ok()?);
                Self::Partition(PartitionId { relation, index: index.parse().ok()? })
            }
            _ => return None,
        };
        // Only the one spelling counts: `+7` or upper case would name another file.
        (child.last_component() == name).then_some(child)
    }

    fn last_component(&self) -> String {
        let path = self.to_string();
        path.rsplit('/').next().unwrap_or_default().to_owned()
    }
}

impl fmt::Display for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("."),
            Self::Catalog => f.write_str("catalog"),
            Self::Manifest => f.write_str("manifest"),
            Self::Journals => f.write_str("journals"),
            Self::Journal(uuid) => write!(f, "journals/{uuid}"),
            Self::Partitions => f.write_str("partitions"),
            Self::Partition(p) => write!(f, "partitions/{}-{}", p.relation.0, p.index),
        }
    }
}

impl FileName {
    pub fn temporary(&self) -> FileName {
        Self::Temporary(Box::new(self.clone()))
    }

    pub fn directory(&self) -> Directory {
        match self {
            Self::Lock | Self::Node | Self::IoProbe => Directory::Root,
            Self::Catalog(_) => Directory::Catalog,
            Self::Manifest(_) => Directory::Manifest,
            Self::JournalSegment { journal, .. } => Directory::Journal(*journal),
            Self::PartitionManifest { partition, .. }
            | Self::Segment { partition, .. }
            | Self::Part { partition, .. }
            | Self::Staged { partition, .. } => Directory::Partition(*partition),
            Self::Temporary(name) => name.directory(),
        }
    }

    /// The file that `name` stands for in `directory`; `None` for what this program would never write.
    pub fn parse(directory: &Directory, name: &str) -> Option<FileName> {
        if let Some(stem) = name.strip_suffix(".new") {
            return Self::parse(directory, stem).map(|file| file.temporary());
        }
        let file = match directory {
            Directory::Root => match name {
                "lock" => Self::Lock,
                "node" => Self::Node,
                "io-probe" => Self::IoProbe,
                _ => return None,
            },
            Directory::Catalog => Self::Catalog(name.parse().ok()?),
            Directory::Manifest => Self::Manifest(name.parse().ok()?),
            Directory::Journal(journal) => Self::JournalSegment { journal: *journal, number: name.parse().ok()? },
            Directory::Partition(partition) => {
                let partition = *partition;
                let (stem, kind) = name.split_once('.')?;
                match kind {
                    "manifest" => Self::PartitionManifest { partition, generation: stem.parse().ok()? },
                    "segment" => Self::Segment { partition, id: stem.parse().ok()? },
                    "part" => Self::Part { partition, id: stem.parse().ok()? },
                    "staged" => {
                        let (transaction, number) = stem.split_once('-')?;
                        let transaction = TransactionId(u128::from_str_radix(transaction, 16).ok()?);
                        Self::Staged { partition, transaction, number: number.parse().ok()? }
                    }
                    _ => return None,
                }
            }
            Directory::Journals | Directory::Partitions => return None,
        };
        (file.last_component() == name).then_some(file)
    }

    /// The path relative to the data directory, read back.
    pub fn parse_path(path: &str) -> Option<FileName> {
        let mut directory = Directory::Root;
        let mut components = path.split('/').peekable();
        while let Some(component) = components.next() {
            if components.peek().is_none() {
                return Self::parse(&directory, component);
            }
            directory = directory.parse(component)?;
        }
        None
    }

    pub fn last_component(&self) -> String {
        match self {
            Self::Lock => "lock".into(),
            Self::Node => "node".into(),
            Self::IoProbe => "io-probe".into(),
            // Fixed width, so that the order of names is the order of numbers.
            Self::Catalog(number) | Self::Manifest(number) | Self::JournalSegment { number, .. } => {
                format!("{number:012}")
            }
            Self::PartitionManifest { generation, .. } => format!("{generation:012}.manifest"),
            Self::Segment { id, .. } => format!("{id:012}.segment"),
            Self::Part { id, .. } => format!("{id:012}.part"),
            Self::Staged { transaction, number, .. } => format!("{:032x}-{number}.staged", transaction.0),
            Self::Temporary(name) => format!("{}.new", name.last_component()),
        }
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.directory() {
            Directory::Root => f.write_str(&self.last_component()),
            directory => write!(f, "{directory}/{}", self.last_component()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        let partition = PartitionId { relation: RelationId(16_384), index: 3 };
        let journal = Uuid::from_u128(0x1234_5678_9abc_def0_1234_5678_9abc_def0);
        let names = [
            (FileName::Lock, "lock"),
            (FileName::Node, "node"),
            (FileName::IoProbe, "io-probe"),
            (FileName::Catalog(7), "catalog/000000000007"),
            (FileName::Manifest(1), "manifest/000000000001"),
            (
                FileName::JournalSegment { journal, number: 12 },
                "journals/12345678-9abc-def0-1234-56789abcdef0/000000000012",
            ),
            (FileName::PartitionManifest { partition, generation: 2 }, "partitions/16384-3/000000000002.manifest"),
            (FileName::Segment { partition, id: u64::MAX }, "partitions/16384-3/18446744073709551615.segment"),
            (FileName::Part { partition, id: 9 }, "partitions/16384-3/000000000009.part"),
            (
                FileName::Staged { partition, transaction: TransactionId(0xab), number: 1 },
                "partitions/16384-3/000000000000000000000000000000ab-1.staged",
            ),
        ];
        for (name, path) in names {
            assert_eq!(name.to_string(), path);
            assert_eq!(FileName::parse_path(path).as_ref(), Some(&name));
            let aside = name.temporary();
            assert_eq!(FileName::parse_path(&format!("{path}.new")), Some(aside));
        }
    }

    #[test]
    fn foreign_names_are_nobody() {
        for path in ["", "x", "lock/x", "catalog/7", "catalog/+00000000007", "partitions/1-2/3", "../lock", ".", "a//b"]
        {
            assert_eq!(FileName::parse_path(path), None, "{path}");
        }
    }
}
