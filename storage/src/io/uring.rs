//! The io_uring backend: one ring per thread that does IO, made on its first operation.
//!
//! Reads, writes and syncs go through the ring; names and sizes, which the ring would hand to a worker thread anyway,
//! go to the calling thread's IO thread (`blocking`).
//!
//! 1. An operation is submitted in the call that makes it, never when the thread parks: a busy thread would starve it.
//! 2. The kernel uses a slot's buffer and file until its completion. So both live in the slot; dropping the future
//!    only marks the slot as orphaned.
//! 3. The ring is dropped with its thread, and waits for every completion before it frees a slot.
//! 4. The kernel raises an eventfd for completions (DEFER_TASKRUN posts them only when asked); a task of the thread's
//!    runtime waits for it and reaps. It is started anew if the runtime it lived in is gone.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread::ThreadId;

use io_uring::{IoUring, opcode, squeue, types};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::blocking::{self, Blocking};
use super::os_file::{self, OsFile};
use super::select::ProbeFailure;
use super::{Access, Backend, Caching, Durability, IoBuffer, IoFuture, RawFile, Transfer, syscall};
use crate::base::limits::{IO_ALIGNMENT, IO_IN_FLIGHT_MAX};

const SUBMISSION_ENTRIES: u32 = 256;
const COMPLETION_ENTRIES: u32 = 1024;
const _: () = assert!(IO_IN_FLIGHT_MAX <= COMPLETION_ENTRIES as usize, "a completion always finds room");
/// `enter` flag: run the deferred completions.
const GETEVENTS: u32 = 1;

type Sqes = IoUring<squeue::Entry>;

fn build_ring() -> io::Result<Sqes> {
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_cqsize(COMPLETION_ENTRIES)
        .build(SUBMISSION_ENTRIES)
}

/// Whether this process may use a ring with everything the backend needs, shown by one durable write to `scratch`.
/// Blocks; for the start only.
pub(super) fn probe(scratch: &Path) -> Result<(), ProbeFailure> {
    let at = |step: &'static str| move |error: io::Error| ProbeFailure { step, error };
    let mut ring = build_ring().map_err(at("setting up a ring"))?;
    let mut supported = io_uring::Probe::new();
    ring.submitter().register_probe(&mut supported).map_err(at("asking for operations"))?;
    if ![opcode::Read::CODE, opcode::Write::CODE, opcode::Fsync::CODE].iter().all(|code| supported.is_supported(*code))
    {
        return Err(at("finding read, write and fsync")(io::Error::from_raw_os_error(libc::EOPNOTSUPP)));
    }
    let eventfd = syscall::eventfd().map_err(at("making an eventfd"))?;
    ring.submitter().register_eventfd(eventfd.as_raw_fd()).map_err(at("registering an eventfd"))?;
    let file = OsFile::open(scratch, Access::Create, Caching::Direct).map_err(at("opening a scratch file"))?;
    let mut buffer = IoBuffer::zeroed(IO_ALIGNMENT);
    let entry = opcode::Write::new(types::Fd(file.file.as_raw_fd()), buffer.as_pointer(), IO_ALIGNMENT as u32)
        .rw_flags(libc::RWF_DSYNC)
        .build();
    // SAFETY: buffer and file live until the completion has been seen below; should waiting fail, they are leaked.
    let pushed = unsafe { ring.submission().push(&entry) };
    let waited = match pushed {
        Ok(()) => ring.submit_and_wait(1),
        Err(_) => Err(io::Error::other("a new ring has no room")),
    };
    let completion = ring.completion().next();
    let outcome = match (waited, completion) {
        (_, Some(completion)) if completion.result() == IO_ALIGNMENT as i32 => Ok(()),
        (_, Some(completion)) if completion.result() < 0 => Err(io::Error::from_raw_os_error(-completion.result())),
        (_, Some(_)) => Err(io::Error::from(io::ErrorKind::WriteZero)),
        (waited, None) => {
            std::mem::forget((buffer, file));
            Err(waited.err().unwrap_or_else(|| io::Error::other("no completion arrived")))
        }
    };
    let _ = std::fs::remove_file(scratch);
    match outcome {
        // Durable writes then go as write and sync apart; no reason against the ring.
        Err(e) if os_file::refuses_dsync(&e) => Ok(()),
        outcome => outcome.map_err(at("a durable write")),
    }
}

thread_local! {
    static RING: RefCell<Option<Ring>> = const { RefCell::new(None) };
}

struct Ring {
    ring: Sqes,
    eventfd: Arc<OwnedFd>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    in_flight: usize,
    /// Entries pushed that the kernel has not taken yet.
    unsubmitted: bool,
    /// Operations that wait for a free slot.
    waiting: Vec<Waker>,
    reaper_runs: bool,
}

enum Slot {
    Free,
    /// The kernel may use `held` until the completion.
    InFlight {
        held: Held,
        waker: Option<Waker>,
        is_orphan: bool,
    },
    Done {
        held: Held,
        result: i32,
    },
}

/// What an operation uses.
struct Held {
    file: Arc<OsFile>,
    buffer: Option<IoBuffer>,
}

/// What to do, apart from the memory.
enum Request {
    Read { range: Range<usize>, offset: u64 },
    Write { range: Range<usize>, offset: u64, is_durable: bool },
    SyncData,
}

impl Ring {
    fn new() -> io::Result<Self> {
        let ring = build_ring()?;
        let eventfd = Arc::new(syscall::eventfd()?);
        ring.submitter().register_eventfd(eventfd.as_raw_fd())?;
        Ok(Self {
            ring,
            eventfd,
            slots: Vec::new(),
            free: Vec::new(),
            in_flight: 0,
            unsubmitted: false,
            waiting: Vec::new(),
            reaper_runs: false,
        })
    }

    /// Queues and submits. Gives everything back if all slots are taken.
    fn start(&mut self, request: &Request, mut held: Held) -> Result<u32, Held> {
        if self.in_flight == IO_IN_FLIGHT_MAX {
            return Err(held);
        }
        if self.ring.submission().is_full() {
            self.submit();
            if self.ring.submission().is_full() {
                return Err(held);
            }
        }
        let fd = types::Fd(held.file.file.as_raw_fd());
        let pointer = |held: &mut Held, range: &Range<usize>| {
            let Some(buffer) = &mut held.buffer else { panic!("a transfer without a buffer") };
            assert!(range.start <= range.end && range.end <= buffer.capacity(), "{range:?} is outside {buffer:?}");
            (buffer.as_pointer().wrapping_add(range.start), range.len() as u32)
        };
        let entry = match request {
            Request::Read { range, offset } => {
                let (pointer, length) = pointer(&mut held, range);
                opcode::Read::new(fd, pointer, length).offset(*offset).build()
            }
            Request::Write { range, offset, is_durable } => {
                let (pointer, length) = pointer(&mut held, range);
                let flags = if *is_durable { libc::RWF_DSYNC } else { 0 };
                opcode::Write::new(fd, pointer, length).offset(*offset).rw_flags(flags).build()
            }
            Request::SyncData => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::Free);
            (self.slots.len() - 1) as u32
        });
        let entry = entry.user_data(u64::from(slot));
        // SAFETY: buffer and file of the entry move into the slot, which keeps them until the completion arrives
        // (`complete`, or `Drop` of the ring). The range was checked against the buffer's capacity above.
        if unsafe { self.ring.submission().push(&entry) }.is_err() {
            self.free.push(slot);
            return Err(held);
        }
        self.slots[slot as usize] = Slot::InFlight { held, waker: None, is_orphan: false };
        self.in_flight += 1;
        self.submit();
        Ok(slot)
    }

    /// Hands queued entries to the kernel. If it takes none now, they stay queued and the reaper tries again.
    fn submit(&mut self) {
        self.unsubmitted = match self.ring.submit() {
            Ok(_) => !self.ring.submission().is_empty(),
            Err(_) => true,
        };
        if self.unsubmitted {
            self.raise();
        }
    }

    /// Wakes the reaper.
    fn raise(&self) {
        syscall::raise(&self.eventfd);
    }

    /// Takes what has completed; returns whom to wake and what to drop once the ring is no longer borrowed.
    #[must_use]
    fn reap(&mut self) -> (Vec<Waker>, Vec<Held>) {
        if self.unsubmitted {
            self.submit();
        }
        // SAFETY: no argument is passed.
        let _ = unsafe { self.ring.submitter().enter::<libc::sigset_t>(0, 0, GETEVENTS, None) };
        let (mut wake, mut gone) = (Vec::new(), Vec::new());
        while let Some(completion) = self.ring.completion().next() {
            let index = completion.user_data() as usize;
            match std::mem::replace(&mut self.slots[index], Slot::Free) {
                Slot::InFlight { held, is_orphan: true, .. } => {
                    gone.push(held);
                    self.free.push(index as u32);
                }
                Slot::InFlight { held, waker, is_orphan: false } => {
                    wake.extend(waker);
                    self.slots[index] = Slot::Done { held, result: completion.result() };
                }
                Slot::Free | Slot::Done { .. } => panic!("completion for slot {index}, which is not in flight"),
            }
            self.in_flight -= 1;
        }
        if self.in_flight < IO_IN_FLIGHT_MAX {
            wake.append(&mut self.waiting);
        }
        (wake, gone)
    }

    fn poll(&mut self, index: u32, context: &Context<'_>) -> Poll<(i32, Held)> {
        let slot = &mut self.slots[index as usize];
        match slot {
            Slot::InFlight { waker, .. } => {
                match waker {
                    Some(waker) => waker.clone_from(context.waker()),
                    None => *waker = Some(context.waker().clone()),
                }
                Poll::Pending
            }
            Slot::Done { .. } => {
                let Slot::Done { held, result } = std::mem::replace(slot, Slot::Free) else { unreachable!() };
                self.free.push(index);
                Poll::Ready((result, held))
            }
            Slot::Free => panic!("slot {index} polled after its end"),
        }
    }

    /// The future is gone. Returns what may be dropped at once.
    fn abandon(&mut self, index: u32) -> (Option<Held>, Option<Waker>) {
        let slot = &mut self.slots[index as usize];
        match slot {
            Slot::InFlight { is_orphan, waker, .. } => {
                *is_orphan = true;
                (None, waker.take())
            }
            Slot::Done { .. } => {
                let Slot::Done { held, .. } = std::mem::replace(slot, Slot::Free) else { unreachable!() };
                self.free.push(index);
                (Some(held), None)
            }
            Slot::Free => panic!("slot {index} abandoned after its end"),
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        while self.in_flight > 0 {
            // EINTR and its like: ask again. Nothing may be freed before the kernel is done with it.
            let waited = self.ring.submit_and_wait(1);
            let (wake, gone) = self.reap();
            drop((wake, gone));
            if let Err(e) = waited
                && self.in_flight > 0
                && !matches!(e.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY))
            {
                // The ring itself is broken. Leaking the slots is the only safe way out.
                tracing::error!(error = %e, in_flight = self.in_flight, "io_uring failed while its thread ended");
                std::mem::forget(std::mem::take(&mut self.slots));
                return;
            }
        }
    }
}

/// Borrows this thread's ring, made if missing, with a reaper running in the current runtime.
fn with_ring<T>(work: impl FnOnce(&mut Ring) -> T) -> io::Result<T> {
    RING.with_borrow_mut(|ring| {
        let ring = match ring {
            Some(ring) => ring,
            None => ring.insert(Ring::new()?),
        };
        if !ring.reaper_runs {
            start_reaper(ring)?;
        }
        Ok(work(ring))
    })
}

fn start_reaper(ring: &mut Ring) -> io::Result<()> {
    // SAFETY: `EventFd` owns a share of the descriptor, so it stays open and the same as long as the `AsyncFd` lives.
    let registered = unsafe { AsyncFd::register_with_interest(EventFd(Arc::clone(&ring.eventfd)), Interest::READABLE) };
    let eventfd = registered.map_err(io::Error::from)?;
    ring.reaper_runs = true;
    let guard = ReaperGuard { owner: std::thread::current().id() };
    // A thread's runtime is a current-thread one, so the task stays here; `ReaperGuard` checks it.
    tokio::task::spawn(async move {
        let guard = guard;
        loop {
            let Ok(mut ready) = eventfd.readable().await else { break };
            // Before reaping: a completion that arrives meanwhile then raises it again.
            ready.clear_ready();
            drop(ready);
            guard.assert_home();
            let reaped = RING.with_borrow_mut(|ring| ring.as_mut().map(Ring::reap));
            let Some((wake, gone)) = reaped else { break };
            drop(gone);
            wake.into_iter().for_each(Waker::wake);
        }
    });
    // What completed under an earlier runtime's reaper raises nothing again.
    ring.raise();
    Ok(())
}

struct EventFd(Arc<OwnedFd>);

impl AsRawFd for EventFd {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.0.as_raw_fd()
    }
}

/// Tells the ring when its reaper has ended with its runtime.
struct ReaperGuard {
    owner: ThreadId,
}

impl ReaperGuard {
    fn assert_home(&self) {
        assert_eq!(self.owner, std::thread::current().id(), "a ring's reaper has left its thread");
    }
}

impl Drop for ReaperGuard {
    fn drop(&mut self) {
        if self.owner == std::thread::current().id() {
            let _ = RING.try_with(|ring| {
                if let Ok(mut ring) = ring.try_borrow_mut()
                    && let Some(ring) = ring.as_mut()
                {
                    ring.reaper_runs = false;
                }
            });
        }
    }
}

/// One operation; must stay on the thread of its first poll.
struct Operation {
    request: Request,
    state: OperationState,
}

enum OperationState {
    New(Held),
    Running { slot: u32, owner: ThreadId },
    Over,
}

impl Operation {
    fn new(file: &Arc<OsFile>, buffer: Option<IoBuffer>, request: Request) -> Self {
        Self { request, state: OperationState::New(Held { file: Arc::clone(file), buffer }) }
    }
}

impl Future for Operation {
    type Output = (io::Result<usize>, Option<IoBuffer>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let slot = match std::mem::replace(&mut self.state, OperationState::Over) {
            OperationState::New(held) => {
                let mut unsent = Some(held);
                let started = with_ring(|ring| {
                    let held = unsent.take()?;
                    match ring.start(&self.request, held) {
                        Ok(slot) => Some(slot),
                        Err(held) => {
                            unsent = Some(held);
                            ring.waiting.push(context.waker().clone());
                            None
                        }
                    }
                });
                match (started, unsent) {
                    (Ok(Some(slot)), _) => {
                        self.state = OperationState::Running { slot, owner: std::thread::current().id() };
                        slot
                    }
                    (Ok(None), Some(held)) => {
                        self.state = OperationState::New(held);
                        return Poll::Pending;
                    }
                    (Ok(None), None) => unreachable!("an operation neither started nor waiting"),
                    (Err(e), unsent) => return Poll::Ready((Err(e), unsent.and_then(|held| held.buffer))),
                }
            }
            OperationState::Running { slot, owner } => {
                assert_eq!(owner, std::thread::current().id(), "an IO operation was polled on another thread");
                self.state = OperationState::Running { slot, owner };
                slot
            }
            OperationState::Over => panic!("an IO operation was polled after its end"),
        };
        let polled = RING.with_borrow_mut(|ring| match ring {
            Some(ring) => ring.poll(slot, context),
            None => unreachable!("a ring lives as long as its thread"),
        });
        polled.map(|(result, held)| {
            self.state = OperationState::Over;
            let result = match result {
                0.. => Ok(result as usize),
                _ => Err(io::Error::from_raw_os_error(-result)),
            };
            (result, held.buffer)
        })
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if let OperationState::Running { slot, owner } = self.state {
            if owner != std::thread::current().id() {
                // Its slot stays taken, and buffer and file with it, until that thread ends: safe, but a mistake.
                tracing::error!("an IO operation was dropped on another thread");
                return;
            }
            // After the thread's ring is gone there is nothing to give back: it waited for every completion.
            let _ = RING.try_with(|ring| {
                let abandoned = ring.try_borrow_mut().ok().and_then(|mut ring| ring.as_mut().map(|r| r.abandon(slot)));
                drop(abandoned);
            });
        }
    }
}

pub(super) struct Uring {
    names: Blocking,
}

impl Uring {
    pub(super) fn new(root: &Path) -> Self {
        Self { names: Blocking::new(root) }
    }
}

impl Backend for Uring {
    fn name(&self) -> &'static str {
        "uring"
    }

    fn open(&self, path: String, access: Access, caching: Caching) -> IoFuture<io::Result<Arc<dyn RawFile>>> {
        let path = self.names.path(&path);
        Box::pin(async move {
            let file = blocking::run_fallible(move || OsFile::open(&path, access, caching)).await?;
            Ok(Arc::new(UringFile { file: Arc::new(file) }) as Arc<dyn RawFile>)
        })
    }

    fn rename(&self, from: String, to: String) -> IoFuture<io::Result<()>> {
        self.names.rename(from, to)
    }

    fn unlink(&self, path: String) -> IoFuture<io::Result<()>> {
        self.names.unlink(path)
    }

    fn create_directory(&self, path: String) -> IoFuture<io::Result<()>> {
        self.names.create_directory(path)
    }

    fn remove_directory(&self, path: String) -> IoFuture<io::Result<()>> {
        self.names.remove_directory(path)
    }

    fn list(&self, path: String) -> IoFuture<io::Result<Vec<String>>> {
        self.names.list(path)
    }

    fn sync_directory(&self, path: String) -> IoFuture<io::Result<()>> {
        self.names.sync_directory(path)
    }

    fn lock(&self, path: String) -> IoFuture<io::Result<Box<dyn Send + Sync>>> {
        self.names.lock(path)
    }
}

struct UringFile {
    file: Arc<OsFile>,
}

impl UringFile {
    async fn transfer(&self, mut buffer: IoBuffer, request: impl Fn() -> Request) -> Transfer {
        loop {
            let (moved, returned) = Operation::new(&self.file, Some(buffer), request()).await;
            buffer = returned.unwrap_or_else(|| IoBuffer::for_reading(0));
            match moved {
                Err(e) if matches!(e.raw_os_error(), Some(libc::EINTR | libc::EAGAIN)) && !buffer.is_empty() => {}
                moved => return (moved, buffer),
            }
        }
    }

    async fn sync(&self) -> io::Result<()> {
        Operation::new(&self.file, None, Request::SyncData).await.0.map(|_| ())
    }
}

impl RawFile for UringFile {
    fn write(
        self: Arc<Self>,
        buffer: IoBuffer,
        range: Range<usize>,
        offset: u64,
        durability: Durability,
    ) -> IoFuture<Transfer> {
        Box::pin(async move {
            let wants_durable = durability == Durability::Durable;
            let mut buffer = buffer;
            if wants_durable && !self.file.must_sync_apart() {
                let flagged = || Request::Write { range: range.clone(), offset, is_durable: true };
                match self.transfer(buffer, flagged).await {
                    (Err(e), returned) if os_file::refuses_dsync(&e) => {
                        self.file.sync_apart_from_now();
                        buffer = returned;
                    }
                    done => return done,
                }
            }
            let plain = || Request::Write { range: range.clone(), offset, is_durable: false };
            match self.transfer(buffer, plain).await {
                (Ok(moved), buffer) if wants_durable => (self.sync().await.map(|()| moved), buffer),
                done => done,
            }
        })
    }

    fn read(self: Arc<Self>, buffer: IoBuffer, range: Range<usize>, offset: u64) -> IoFuture<Transfer> {
        Box::pin(async move { self.transfer(buffer, || Request::Read { range: range.clone(), offset }).await })
    }

    fn sync_data(self: Arc<Self>) -> IoFuture<io::Result<()>> {
        Box::pin(async move { self.sync().await })
    }

    fn preallocate(self: Arc<Self>, length: u64) -> IoFuture<io::Result<()>> {
        Arc::clone(&self.file).preallocate(length)
    }

    fn truncate(self: Arc<Self>, length: u64) -> IoFuture<io::Result<()>> {
        Arc::clone(&self.file).truncate(length)
    }

    fn length(&self) -> io::Result<u64> {
        RawFile::length(&*self.file)
    }

    fn caching(&self) -> Caching {
        self.file.caching
    }
}
