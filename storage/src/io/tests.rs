//! One table of cases, run on every backend; and what each real backend must survive on its own.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::simulated::{Faults, SimulatedDisk};
use super::{Access, Caching, Directory, Durability, FileName, Io, IoBuffer, IoMode, SequentialWriter, select};
use crate::base::error::Error;
use crate::base::ids::{PartitionId, RelationId};
use crate::base::limits::{COPY_BYTES, IO_ALIGNMENT, IO_IN_FLIGHT_MAX};

/// A directory of its own for each test and backend.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("alluvium-io-{}", uuid::Uuid::new_v4())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Runs the case on each backend this machine allows.
fn on_every_backend<F: Future<Output = ()>>(case: impl Fn(Io) -> F) {
    for mode in [IoMode::Threads, IoMode::Auto] {
        let scratch = Scratch::new();
        let selected = select(&scratch.0, mode).unwrap();
        if mode == IoMode::Auto && selected.fallback_reason.is_some() {
            continue;
        }
        runtime().block_on(case(selected.io));
    }
    for seed in 0..5 {
        let faults = Faults { short_transfers_per_mille: 300, ..Faults::default() };
        runtime().block_on(case(SimulatedDisk::new(seed, faults).io()));
    }
}

fn pattern(length: usize, salt: usize) -> IoBuffer {
    let mut buffer = IoBuffer::zeroed(length);
    buffer.iter_mut().enumerate().for_each(|(i, byte)| *byte = ((i * 31 + salt) % 251) as u8);
    buffer
}

#[test]
fn what_is_written_is_read() {
    on_every_backend(|io| async move {
        for caching in [Caching::Direct, Caching::Buffered] {
            let file = io.open(&FileName::Node, Access::Create, caching).await.unwrap();
            let sent = pattern(64 * 1024, 1);
            let (written, _) = file.write_at(pattern(64 * 1024, 1), 4096, Durability::Durable).await;
            written.unwrap();
            assert_eq!(file.length().unwrap(), 4096 + 64 * 1024);
            let (read, buffer) = file.read_at(IoBuffer::for_reading(128 * 1024), 0).await;
            assert_eq!(read.unwrap(), 4096 + 64 * 1024, "a read ends with the file");
            assert!(buffer[..4096].iter().all(|byte| *byte == 0), "a hole reads as zeros");
            assert_eq!(buffer[4096..4096 + 64 * 1024], sent[..]);
            let middle = file.read_range(4096 + 777, 10_000).await.unwrap();
            assert_eq!(middle.as_slice(), &sent[777..10_777]);
            assert!(matches!(file.read_range(60_000, 20_000).await, Err(Error::Corrupted { offset: 60_000, .. })));
            file.truncate(100).await.unwrap();
            assert_eq!(file.length().unwrap(), 100);
            file.sync_data().await.unwrap();
        }
    });
}

#[test]
fn names_come_and_go() {
    on_every_backend(|io| async move {
        let (old, new) = (FileName::Catalog(1), FileName::Catalog(2));
        assert_eq!(io.list(&Directory::Catalog).await.unwrap(), Vec::<String>::new(), "a missing directory is empty");
        assert!(matches!(io.open(&old, Access::Create, Caching::Buffered).await, Err(Error::Io { .. })));
        io.create_directory(&Directory::Catalog).await.unwrap();
        io.create_directory(&Directory::Catalog).await.unwrap();
        assert!(io.open_if_exists(&old, Access::Read, Caching::Buffered).await.unwrap().is_none());
        io.replace_file(&old, b"one").await.unwrap();
        io.replace_file(&old, b"two").await.unwrap();
        assert_eq!(io.read_file(&old).await.unwrap().unwrap().as_slice(), b"two");
        io.rename(&old, &new).await.unwrap();
        io.sync_directory(&Directory::Catalog).await.unwrap();
        assert_eq!(io.list_files(&Directory::Catalog).await.unwrap(), std::slice::from_ref(&new));
        assert!(io.rename(&old, &new).await.is_err());
        io.unlink(&new).await.unwrap();
        io.unlink(&new).await.unwrap();
        assert_eq!(io.read_file(&new).await.unwrap(), None);
        io.remove_directory(&Directory::Catalog).await.unwrap();
        io.remove_directory(&Directory::Catalog).await.unwrap();
    });
}

#[test]
fn preallocated_file_is_zeros_whatever_was_there() {
    on_every_backend(|io| async move {
        let file = io.open(&FileName::Node, Access::Create, Caching::Direct).await.unwrap();
        file.preallocate_zeroed(3 * 1024 * 1024).await.unwrap();
        assert_eq!(file.length().unwrap(), 3 * 1024 * 1024);
        file.write_at(pattern(8192, 0), 4096, Durability::Durable).await.0.unwrap();
        file.write_zeros(4096..12_288, Durability::Durable).await.unwrap();
        let all = file.read_range(0, 3 * 1024 * 1024).await.unwrap();
        assert!(all.iter().all(|byte| *byte == 0));
    });
}

#[test]
fn sequential_writer_writes_every_byte_once() {
    on_every_backend(|io| async move {
        let partition = PartitionId { relation: RelationId(1), index: 0 };
        io.create_directory(&Directory::Partitions).await.unwrap();
        io.create_directory(&Directory::Partition(partition)).await.unwrap();
        let name = FileName::Segment { partition, id: 1 };
        for length in [0, 1, 4096, COPY_BYTES, 2 * COPY_BYTES + 12_345] {
            let bytes = pattern(length, 5);
            let mut writer = SequentialWriter::create(&io, &name).await.unwrap();
            for piece in bytes.chunks(100_003) {
                writer.write(piece).await.unwrap();
            }
            writer.align(64).await.unwrap();
            assert_eq!(writer.position(), length.next_multiple_of(64) as u64);
            let file = writer.finish().await.unwrap();
            assert_eq!(file.length().unwrap(), length.next_multiple_of(64) as u64);
            let read = file.read_range(0, length).await.unwrap();
            assert!(read.as_slice() == &bytes[..], "{length} bytes differ");
        }
    });
}

#[test]
fn data_directory_is_locked_by_one() {
    on_every_backend(|io| async move {
        let held = io.lock_data_directory().await.unwrap();
        let refused = io.lock_data_directory().await.err().unwrap().to_string();
        assert!(refused.contains("another process"), "{refused}");
        drop(held);
        io.lock_data_directory().await.unwrap();
    });
}

#[test]
fn many_operations_at_once_all_end() {
    on_every_backend(|io| async move {
        let file = io.open(&FileName::Node, Access::Create, Caching::Direct).await.unwrap();
        let writes = (0..2 * IO_IN_FLIGHT_MAX).map(|i| {
            let file = file.clone();
            async move {
                let buffer = pattern(IO_ALIGNMENT, i);
                let durability = if i % 7 == 0 { Durability::Durable } else { Durability::Deferred };
                file.write_at(buffer, (i * IO_ALIGNMENT) as u64, durability).await.0.unwrap();
            }
        });
        futures::future::join_all(writes).await;
        for i in 0..2 * IO_IN_FLIGHT_MAX {
            let read = file.read_range((i * IO_ALIGNMENT) as u64, IO_ALIGNMENT).await.unwrap();
            assert!(read.as_slice() == &pattern(IO_ALIGNMENT, i)[..], "block {i}");
        }
    });
}

#[test]
fn dropped_operations_harm_nobody() {
    on_every_backend(|io| async move {
        let file = io.open(&FileName::Node, Access::Create, Caching::Direct).await.unwrap();
        file.write_at(pattern(COPY_BYTES, 9), 0, Durability::Deferred).await.0.unwrap();
        for round in 0..200u64 {
            // Polled once, so it is under way, then dropped; its memory must not reach later buffers.
            let mut read = Box::pin(file.read_at(IoBuffer::for_reading(COPY_BYTES), 0));
            let _ = futures::poll!(read.as_mut());
            drop(read);
            let mut write = Box::pin(file.write_at(
                pattern(IO_ALIGNMENT, round as usize),
                COPY_BYTES as u64 + round * IO_ALIGNMENT as u64,
                Durability::Durable,
            ));
            let _ = futures::poll!(write.as_mut());
            drop(write);
            let fresh = pattern(IO_ALIGNMENT, 77);
            tokio::task::yield_now().await;
            assert!(fresh[..] == pattern(IO_ALIGNMENT, 77)[..]);
        }
        drop(io);
        let all = file.read_range(0, COPY_BYTES).await.unwrap();
        assert!(all.as_slice() == &pattern(COPY_BYTES, 9)[..]);
    });
}

#[test]
fn runtime_may_end_with_operations_under_way() {
    let scratch = Scratch::new();
    let io = select(&scratch.0, IoMode::Auto).unwrap().io;
    std::thread::spawn(move || {
        // Several runtimes on one thread: each needs the ring's completions, and the last one leaves some behind.
        for _ in 0..5 {
            let io = io.clone();
            runtime().block_on(async move {
                let file = io.open(&FileName::Node, Access::Create, Caching::Direct).await.unwrap();
                file.write_at(pattern(COPY_BYTES, 1), 0, Durability::Durable).await.0.unwrap();
                for _ in 0..16 {
                    let mut read = Box::pin(file.read_at(IoBuffer::for_reading(COPY_BYTES), 0));
                    let _ = futures::poll!(read.as_mut());
                }
                let mut kept = Box::pin(file.read_at(IoBuffer::for_reading(COPY_BYTES), 0));
                let _ = futures::poll!(kept.as_mut());
                file.read_range(0, 100).await.unwrap();
            });
        }
    })
    .join()
    .unwrap();
}

#[test]
fn busy_thread_does_not_starve_its_io() {
    on_every_backend(|io| async move {
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        {
            let stop = Arc::clone(&stop);
            tokio::spawn(async move {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    tokio::task::yield_now().await;
                }
            });
        }
        let file = io.open(&FileName::Node, Access::Create, Caching::Direct).await.unwrap();
        let writes = async {
            for i in 0..20 {
                file.write_at(pattern(4096, i), 4096 * i as u64, Durability::Durable).await.0.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(60), writes).await.expect("the ready queue was never empty");
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn auto_and_uring_agree_on_this_machine() {
    let scratch = Scratch::new();
    let auto = select(&scratch.0, IoMode::Auto).unwrap();
    match select(&scratch.0, IoMode::Uring) {
        Ok(uring) => assert_eq!((auto.io.backend_name(), uring.io.backend_name()), ("uring", "uring")),
        Err(refused) => {
            assert_eq!(auto.io.backend_name(), "threads");
            let reason = auto.fallback_reason.unwrap();
            assert!(!reason.contains('\n') && refused.to_string().contains("io_uring is required"), "{reason}");
        }
    }
    assert!(!scratch.0.join("io-probe").exists(), "the probe leaves nothing behind");
}
