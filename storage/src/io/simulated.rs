//! A disk in memory that fails on purpose, the same way for the same seed.
//!
//! One [`SimulatedDisk`] outlives the nodes that run on it: `io()` is what a node uses until `crash`; afterwards
//! `restart` decides what survived and the next node gets a new `io()`. Every operation is a step: it takes a seeded
//! delay (turns of the scheduler, or tokio's paused time), may be short, and enters the trace hash.
//!
//! What a crash may do, and nothing else:
//! 1. Each 512-byte sector written since its last sync has its old or its new content, by chance and on its own: so
//!    unsynced writes are lost, torn and reordered.
//! 2. A write under way at the crash, durable or not, has arrived in any subset of its sectors.
//! 3. Directory entries made, renamed or removed since the directory's sync are there or not; a rename is whole;
//!    operations on one name keep their order.
//! 4. A failed sync leaves its sectors looking written and never written later, as Linux does.
//!
//! The lock inside is for `Send`; a simulation runs on one thread.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::{Access, Backend, Caching, Durability, Io, IoBuffer, IoFuture, RawFile, Transfer};
use crate::base::checksum::{checksum, checksum_seeded};
use crate::base::limits::SECTOR_BYTES;
use crate::base::random::Random;

const SECTOR: u64 = SECTOR_BYTES as u64;
type Sector = [u8; SECTOR_BYTES];
const ZERO: Sector = [0; SECTOR_BYTES];

/// How often what goes wrong. All zero: a good disk that still may be crashed.
#[derive(Clone, Debug)]
pub struct Faults {
    /// An operation takes up to this long. For runtimes with paused time only: with real time no run repeats.
    pub delay_us_max: u64,
    /// With no delay in time, an operation lets other tasks run up to this many times before it happens.
    pub yields_max: u64,
    /// Of 1,000 transfers, how many move only a part.
    pub short_transfers_per_mille: u64,
    /// The disk's size; `u64::MAX` = endless.
    pub capacity_bytes: u64,
}

impl Default for Faults {
    fn default() -> Self {
        Self { delay_us_max: 0, yields_max: 5, short_transfers_per_mille: 10, capacity_bytes: u64::MAX }
    }
}

/// What happens at a chosen step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The operation fails with EIO; of a write any part may have arrived.
    Fails,
    /// Power is lost while the operation is under way.
    Crash,
}

/// Which operations `fail_matching` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Read,
    Write,
    Sync,
    Directory,
}

#[derive(Clone)]
pub struct SimulatedDisk {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    crashed: Notify,
}

struct State {
    random: Random,
    faults: Faults,
    /// Counts restarts; an `Io` of an earlier life never answers again.
    life: u64,
    is_down: bool,
    step: u64,
    planned: BTreeMap<u64, Fault>,
    /// Fails the next operation of the kind whose path contains the text.
    matching: Vec<(Operation, String)>,
    trace: u64,
    inodes: BTreeMap<u64, Inode>,
    next_inode: u64,
    /// What the running system sees, and what the device holds.
    names: Names,
    durable_names: Names,
    name_changes: Vec<NameChange>,
    under_way: BTreeMap<u64, WriteUnderWay>,
    next_write: u64,
    locked: BTreeSet<String>,
    /// The trace counts time from the first operation on.
    first_instant: Option<tokio::time::Instant>,
}

#[derive(Clone, Default)]
struct Names {
    files: BTreeMap<String, u64>,
    directories: BTreeSet<String>,
}

#[derive(Clone, Debug)]
enum NameChange {
    Link { path: String, inode: u64 },
    Rename { from: String, to: String },
    Unlink { path: String },
    MakeDirectory { path: String },
    RemoveDirectory { path: String },
}

/// Absent sectors are zeros.
#[derive(Default)]
struct Inode {
    current: BTreeMap<u64, Box<Sector>>,
    length: u64,
    durable: BTreeMap<u64, Box<Sector>>,
    durable_length: u64,
    /// Sectors whose current content is not durable yet.
    unsynced: BTreeSet<u64>,
    /// Blocks granted, for the full disk.
    reserved_bytes: u64,
    open_count: u64,
}

struct WriteUnderWay {
    inode: u64,
    offset: u64,
    bytes: Vec<u8>,
}

impl SimulatedDisk {
    pub fn new(seed: u64, faults: Faults) -> Self {
        let mut names = Names::default();
        names.directories.insert(".".into());
        let state = State {
            random: Random::from_seed(seed),
            faults,
            life: 0,
            is_down: false,
            step: 0,
            planned: BTreeMap::new(),
            matching: Vec::new(),
            trace: seed,
            inodes: BTreeMap::new(),
            next_inode: 1,
            durable_names: names.clone(),
            names,
            name_changes: Vec::new(),
            under_way: BTreeMap::new(),
            next_write: 0,
            locked: BTreeSet::new(),
            first_instant: None,
        };
        Self { shared: Arc::new(Shared { state: Mutex::new(state), crashed: Notify::new() }) }
    }

    /// For the node of the current life.
    pub fn io(&self) -> Io {
        let life = self.state().life;
        Io::new(SimulatedIo { disk: self.clone(), life })
    }

    /// Operations begun so far, over all lives.
    pub fn step(&self) -> u64 {
        self.state().step
    }

    /// The `step`-th operation (counted over all lives) meets `fault`.
    pub fn plan(&self, step: u64, fault: Fault) {
        self.state().planned.insert(step, fault);
    }

    /// The next operation of this kind on a path that contains `text` fails with EIO.
    pub fn fail_matching(&self, operation: Operation, text: &str) {
        self.state().matching.push((operation, text.to_owned()));
    }

    /// No fault planned so far will happen.
    pub fn forget_faults(&self) {
        let state = &mut *self.state();
        state.planned.clear();
        state.matching.clear();
    }

    pub fn set_capacity(&self, bytes: u64) {
        self.state().faults.capacity_bytes = bytes;
    }

    pub fn used_bytes(&self) -> u64 {
        self.state().used_bytes()
    }

    /// Power is lost now: nothing of this life answers any more.
    pub fn crash(&self) {
        self.state().is_down = true;
        self.shared.crashed.notify_waiters();
    }

    /// Ends when power is lost.
    pub async fn crashed(&self) {
        let crashed = self.shared.crashed.notified();
        tokio::pin!(crashed);
        crashed.as_mut().enable();
        if !self.state().is_down {
            crashed.await;
        }
    }

    /// Decides what survived and starts the next life. The old node must be gone, or at least never act again.
    pub fn restart(&self) {
        let state = &mut *self.state();
        state.lose_power();
        state.life += 1;
        state.is_down = false;
        state.locked.clear();
    }

    /// A hash over all operations with their times, contents and outcomes: equal runs have equal hashes.
    pub fn trace_hash(&self) -> u64 {
        self.state().trace
    }

    /// Overwrites durable bytes behind the system's back (a bit flip, a torn block).
    /// Returns false if there is no such file or it is shorter.
    pub fn corrupt(&self, path: &str, offset: u64, change: impl FnOnce(&mut u8)) -> bool {
        let state = &mut *self.state();
        let Some(inode) = state.names.files.get(path).copied() else { return false };
        let Some(inode) = state.inodes.get_mut(&inode) else { return false };
        if offset >= inode.length {
            return false;
        }
        let (sector, within) = (offset / SECTOR, (offset % SECTOR) as usize);
        let byte = &mut inode.current.entry(sector).or_insert_with(|| Box::new(ZERO))[within];
        change(byte);
        let byte = *byte;
        inode.durable.entry(sector).or_insert_with(|| Box::new(ZERO))[within] = byte;
        true
    }

    /// A file's bytes as the running system sees them.
    pub fn content(&self, path: &str) -> Option<Vec<u8>> {
        let state = self.state();
        let inode = state.inodes.get(state.names.files.get(path)?)?;
        let mut bytes = vec![0; inode.length as usize];
        inode.copy_out(0, &mut bytes);
        Some(bytes)
    }

    pub fn paths(&self) -> Vec<String> {
        self.state().names.files.keys().cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one operation: counts the step, waits its delay, then lets `effect` happen, unless a fault has it
    /// otherwise (`spoil` is what a failing operation leaves behind). Never returns once power is lost.
    /// Dropped during the delay, the effect happens at once: the system would carry it out too.
    async fn operate<T>(
        &self,
        life: u64,
        (operation, path, detail): (Operation, &str, u64),
        effect: impl FnOnce(&mut State) -> io::Result<T> + Send,
        spoil: impl FnOnce(&mut State) + Send,
    ) -> io::Result<T> {
        let begun = self.state().begin(life, operation, path, detail);
        let Some(begun) = begun else { return pending().await };
        let mut under_way = UnderWay { disk: self, life, effect: Some(effect) };
        match begun.delay {
            Delay::Time(delay) => tokio::time::sleep(delay).await,
            Delay::Yields(count) => {
                for _ in 0..count {
                    tokio::task::yield_now().await;
                }
            }
        }
        let effect = under_way.effect.take();
        // Dropped outside the lock, which its drop may take.
        let mut unwanted = None;
        let result = {
            let state = &mut *self.state();
            match effect {
                Some(effect) if state.is_running(life) => match begun.fault {
                    None => Some(effect(state)),
                    Some(Fault::Fails) => {
                        spoil(state);
                        Some(Err(io::Error::from_raw_os_error(libc::EIO)))
                    }
                    Some(Fault::Crash) => {
                        // A write stays under way and meets its fate in `restart`; anything else is done or not.
                        if operation != Operation::Write && state.random.chance(1, 2) {
                            unwanted = Some(effect(state));
                        }
                        state.is_down = true;
                        self.shared.crashed.notify_waiters();
                        None
                    }
                },
                _ => None,
            }
        };
        drop(unwanted);
        match result {
            Some(result) => {
                let outcome = result.as_ref().err().map_or(0, |e| 1 + e.raw_os_error().unwrap_or(0) as u64);
                self.state().note(&[begun.step, outcome]);
                result
            }
            None => pending().await,
        }
    }
}

struct Begun {
    step: u64,
    delay: Delay,
    fault: Option<Fault>,
}

enum Delay {
    Time(Duration),
    Yields(u64),
}

/// Carries the effect out if the operation's future is dropped during its delay.
struct UnderWay<'a, F: FnOnce(&mut State) -> io::Result<T>, T> {
    disk: &'a SimulatedDisk,
    life: u64,
    effect: Option<F>,
}

impl<F: FnOnce(&mut State) -> io::Result<T>, T> Drop for UnderWay<'_, F, T> {
    fn drop(&mut self) {
        if let Some(effect) = self.effect.take() {
            let unwanted = {
                let state = &mut *self.disk.state();
                state.is_running(self.life).then(|| effect(state))
            };
            // Outside the lock: what is dropped here may take it.
            drop(unwanted);
        }
    }
}

impl State {
    fn is_running(&self, life: u64) -> bool {
        !self.is_down && self.life == life
    }

    fn begin(&mut self, life: u64, operation: Operation, path: &str, detail: u64) -> Option<Begun> {
        if !self.is_running(life) {
            return None;
        }
        self.step += 1;
        let step = self.step;
        let matching =
            self.matching.iter().position(|(wanted, text)| *wanted == operation && path.contains(text.as_str()));
        let fault = match matching {
            Some(index) => {
                self.matching.remove(index);
                Some(Fault::Fails)
            }
            None => self.planned.remove(&step),
        };
        let (delay, passed_us) = match self.faults.delay_us_max {
            0 => (Delay::Yields(1 + self.random.below(self.faults.yields_max.max(1))), 0),
            max => {
                let now = crate::base::clock::monotonic();
                let first = *self.first_instant.get_or_insert(now);
                let delay = Delay::Time(Duration::from_micros(1 + self.random.below(max)));
                (delay, now.duration_since(first).as_micros() as u64)
            }
        };
        self.note(&[step, operation as u64, checksum(path.as_bytes()), detail, passed_us]);
        Some(Begun { step, delay, fault })
    }

    fn note(&mut self, words: &[u64]) {
        for word in words {
            self.trace = checksum_seeded(&word.to_le_bytes(), self.trace);
        }
    }

    /// How much of a transfer of `length` bytes happens: all, or some whole sectors.
    fn granted(&mut self, length: usize) -> usize {
        let sectors = (length / SECTOR_BYTES) as u64;
        if sectors < 2 || !self.random.chance(self.faults.short_transfers_per_mille, 1_000) {
            return length;
        }
        (1 + self.random.below(sectors - 1)) as usize * SECTOR_BYTES
    }

    fn used_bytes(&self) -> u64 {
        let linked: BTreeSet<u64> = self.names.files.values().copied().collect();
        let counts = |(id, inode): &(&u64, &Inode)| linked.contains(id) || inode.open_count > 0;
        self.inodes.iter().filter(counts).map(|(_, inode)| inode.reserved_bytes).sum()
    }

    /// Room for `inode` up to `end`, or ENOSPC.
    fn reserve(&mut self, inode: u64, end: u64) -> io::Result<()> {
        let wanted = end.next_multiple_of(8 * SECTOR);
        let has = self.inode(inode)?.reserved_bytes;
        if wanted <= has {
            return Ok(());
        }
        if self.faults.capacity_bytes != u64::MAX && self.used_bytes() + (wanted - has) > self.faults.capacity_bytes {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        self.inode(inode)?.reserved_bytes = wanted;
        Ok(())
    }

    fn inode(&mut self, id: u64) -> io::Result<&mut Inode> {
        self.inodes.get_mut(&id).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn open(&mut self, path: &str, access: Access) -> io::Result<u64> {
        let existing = self.names.files.get(path).copied();
        let id = match (existing, access) {
            (Some(id), Access::Create) => {
                let inode = self.inode(id)?;
                inode.set_length(0);
                inode.reserved_bytes = 0;
                id
            }
            (Some(id), _) => id,
            (None, Access::Create) => {
                self.needs_directory(parent(path))?;
                let id = self.next_inode;
                self.next_inode += 1;
                self.inodes.insert(id, Inode::default());
                self.change_names(NameChange::Link { path: path.to_owned(), inode: id });
                id
            }
            (None, _) => return Err(io::ErrorKind::NotFound.into()),
        };
        self.inode(id)?.open_count += 1;
        Ok(id)
    }

    fn needs_directory(&self, path: &str) -> io::Result<()> {
        if self.names.directories.contains(path) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    fn change_names(&mut self, change: NameChange) {
        self.names.apply(&change);
        self.name_changes.push(change);
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        self.needs_directory(path)?;
        let all = self.names.files.keys().chain(self.names.directories.iter().filter(|name| *name != "."));
        Ok(all.filter(|name| parent(name) == path).map(|name| last(name).to_owned()).collect())
    }

    fn sync_directory(&mut self, path: &str) -> io::Result<()> {
        self.needs_directory(path)?;
        // Backwards: a durable change needs the earlier ones on its names.
        let mut needed: BTreeSet<String> = BTreeSet::new();
        let mut durable = vec![false; self.name_changes.len()];
        for (index, change) in self.name_changes.iter().enumerate().rev() {
            let names = change.names();
            if names.iter().any(|name| parent(name) == path || needed.contains(*name)) {
                durable[index] = true;
                needed.extend(names.iter().map(|name| (*name).to_owned()));
            }
        }
        let mut index = 0;
        let durable_names = &mut self.durable_names;
        self.name_changes.retain(|change| {
            index += 1;
            if durable[index - 1] {
                durable_names.apply(change);
            }
            !durable[index - 1]
        });
        Ok(())
    }

    fn write(&mut self, write: u64, length: usize, durability: Durability) -> io::Result<usize> {
        let Some(WriteUnderWay { inode: id, offset, bytes }) = self.under_way.remove(&write) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        self.reserve(id, offset + length as u64)?;
        let granted = self.granted(length);
        let bytes = &bytes[..granted];
        let inode = self.inode(id)?;
        inode.copy_in(offset, bytes);
        if durability == Durability::Durable {
            inode.make_durable(offset, granted as u64);
        }
        self.note(&[checksum(bytes), granted as u64]);
        Ok(granted)
    }

    /// A failed write: each sector has arrived on the device, in memory only, or nowhere.
    fn spoil_write(&mut self, write: u64) {
        let Some(WriteUnderWay { inode: id, offset, bytes }) = self.under_way.remove(&write) else { return };
        for (at, piece) in sectors_of(offset, &bytes) {
            let fate = self.random.below(3);
            let Ok(inode) = self.inode(id) else { return };
            if fate > 0 {
                inode.copy_in(at, piece);
            }
            if fate > 1 {
                inode.make_durable(at, piece.len() as u64);
            }
        }
    }

    /// A failed sync: some sectors made it; the others look clean and never will.
    fn spoil_sync(&mut self, id: u64) {
        let Self { inodes, random, .. } = self;
        let Some(inode) = inodes.get_mut(&id) else { return };
        for sector in std::mem::take(&mut inode.unsynced) {
            if random.chance(1, 2) {
                inode.sector_durable(sector);
            }
        }
    }

    fn lose_power(&mut self) {
        for (_, write) in std::mem::take(&mut self.under_way) {
            for (at, piece) in sectors_of(write.offset, &write.bytes) {
                let arrives = self.random.chance(1, 2);
                if let Some(inode) = self.inodes.get_mut(&write.inode)
                    && arrives
                {
                    inode.copy_in(at, piece);
                    inode.make_durable(at, piece.len() as u64);
                }
            }
        }
        let mut lost: BTreeSet<String> = BTreeSet::new();
        for change in std::mem::take(&mut self.name_changes) {
            let names = change.names();
            let blocked = names.iter().any(|name| lost.contains(*name)) || !self.durable_names.allows(&change);
            if blocked || self.random.chance(1, 2) {
                lost.extend(names.iter().map(|name| (*name).to_owned()));
            } else {
                self.durable_names.apply(&change);
            }
        }
        self.names = self.durable_names.clone();
        let linked: BTreeSet<u64> = self.names.files.values().copied().collect();
        self.inodes.retain(|id, _| linked.contains(id));
        let Self { inodes, random, .. } = self;
        for inode in inodes.values_mut() {
            inode.lose_power(random);
        }
        let survived: Vec<u64> = self.inodes.values().map(Inode::content_hash).collect();
        self.note(&survived);
    }
}

impl Names {
    fn apply(&mut self, change: &NameChange) {
        match change {
            NameChange::Link { path, inode } => {
                self.files.insert(path.clone(), *inode);
            }
            NameChange::Rename { from, to } => {
                if let Some(inode) = self.files.remove(from) {
                    self.files.insert(to.clone(), inode);
                }
            }
            NameChange::Unlink { path } => {
                self.files.remove(path);
            }
            NameChange::MakeDirectory { path } => {
                self.directories.insert(path.clone());
            }
            NameChange::RemoveDirectory { path } => {
                self.directories.remove(path);
            }
        }
    }

    /// Whether what the change builds on is there.
    fn allows(&self, change: &NameChange) -> bool {
        match change {
            NameChange::Rename { from, to } => self.files.contains_key(from) && self.directories.contains(parent(to)),
            NameChange::Link { path, .. } | NameChange::MakeDirectory { path } => {
                self.directories.contains(parent(path))
            }
            NameChange::Unlink { .. } => true,
            NameChange::RemoveDirectory { path } => !self.files.keys().any(|file| parent(file) == path),
        }
    }
}

impl NameChange {
    fn names(&self) -> Vec<&str> {
        match self {
            Self::Rename { from, to } => vec![from, to],
            Self::Link { path, .. }
            | Self::Unlink { path }
            | Self::MakeDirectory { path }
            | Self::RemoveDirectory { path } => vec![path],
        }
    }
}

impl Inode {
    fn copy_in(&mut self, offset: u64, bytes: &[u8]) {
        for (at, piece) in sectors_of(offset, bytes) {
            let (sector, within) = (at / SECTOR, (at % SECTOR) as usize);
            let mut content = self.current.get(&sector).map_or(ZERO, |content| **content);
            content[within..within + piece.len()].copy_from_slice(piece);
            self.set_sector(sector, content);
        }
        self.length = self.length.max(offset + bytes.len() as u64);
    }

    fn set_sector(&mut self, sector: u64, content: Sector) {
        // Zeros are not stored, so that a preallocated file costs nothing.
        if content == ZERO {
            if self.current.remove(&sector).is_none() && !self.durable.contains_key(&sector) {
                return;
            }
        } else {
            self.current.insert(sector, Box::new(content));
        }
        self.unsynced.insert(sector);
    }

    fn copy_out(&self, offset: u64, bytes: &mut [u8]) -> usize {
        let available = self.length.saturating_sub(offset).min(bytes.len() as u64) as usize;
        let mut done = 0;
        while done < available {
            let at = offset + done as u64;
            let (sector, within) = (at / SECTOR, (at % SECTOR) as usize);
            let piece = (SECTOR_BYTES - within).min(available - done);
            let content = self.current.get(&sector).map_or(&ZERO, |content| content);
            bytes[done..done + piece].copy_from_slice(&content[within..within + piece]);
            done += piece;
        }
        available
    }

    fn set_length(&mut self, length: u64) {
        if length < self.length {
            let keep = length.div_ceil(SECTOR);
            let cut: Vec<u64> = self.current.range(keep..).map(|(sector, _)| *sector).collect();
            for sector in cut {
                self.set_sector(sector, ZERO);
            }
            if !length.is_multiple_of(SECTOR)
                && let Some(content) = self.current.get(&(length / SECTOR))
            {
                let mut content = **content;
                content[(length % SECTOR) as usize..].fill(0);
                self.set_sector(length / SECTOR, content);
            }
        }
        self.length = length;
    }

    fn make_durable(&mut self, offset: u64, bytes: u64) {
        for sector in offset / SECTOR..(offset + bytes).div_ceil(SECTOR) {
            self.sector_durable(sector);
        }
        self.durable_length = self.durable_length.max(offset + bytes);
    }

    fn sector_durable(&mut self, sector: u64) {
        match self.current.get(&sector) {
            Some(content) => self.durable.insert(sector, content.clone()),
            None => self.durable.remove(&sector),
        };
        self.unsynced.remove(&sector);
    }

    fn sync(&mut self) {
        while let Some(sector) = self.unsynced.first().copied() {
            self.sector_durable(sector);
        }
        self.durable_length = self.length;
    }

    fn lose_power(&mut self, random: &mut Random) {
        if random.chance(1, 2) {
            self.durable_length = self.length;
        }
        for sector in std::mem::take(&mut self.unsynced) {
            if random.chance(1, 2) {
                self.sector_durable(sector);
            }
        }
        self.current = self.durable.clone();
        // Beyond its end a file is zeros, whatever arrived there.
        self.length = u64::MAX;
        self.set_length(self.durable_length);
        self.durable = self.current.clone();
        self.unsynced.clear();
        self.open_count = 0;
        self.reserved_bytes = self.durable_length.next_multiple_of(8 * SECTOR);
    }

    fn content_hash(&self) -> u64 {
        self.durable
            .iter()
            .fold(self.durable_length, |hash, (sector, content)| checksum_seeded(&content[..], hash ^ sector))
    }
}

/// The pieces of `bytes` that lie in one sector each, with their offsets.
fn sectors_of(offset: u64, bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == bytes.len() {
            return None;
        }
        let at = offset + done as u64;
        let piece = (SECTOR_BYTES - (at % SECTOR) as usize).min(bytes.len() - done);
        done += piece;
        Some((at, &bytes[done - piece..done]))
    })
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or(".", |(parent, _)| parent)
}

fn last(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, last)| last)
}

struct SimulatedIo {
    disk: SimulatedDisk,
    life: u64,
}

impl SimulatedIo {
    /// An operation on names: nothing happens if it fails.
    fn on_names<T: Send + 'static>(
        &self,
        operation: Operation,
        path: String,
        effect: impl FnOnce(&mut State, &str) -> io::Result<T> + Send + 'static,
    ) -> IoFuture<io::Result<T>> {
        let (disk, life) = (self.disk.clone(), self.life);
        Box::pin(async move { disk.operate(life, (operation, &path, 0), |state| effect(state, &path), |_| ()).await })
    }
}

impl Backend for SimulatedIo {
    fn name(&self) -> &'static str {
        "simulated"
    }

    fn open(&self, path: String, access: Access, caching: Caching) -> IoFuture<io::Result<Arc<dyn RawFile>>> {
        let (disk, life) = (self.disk.clone(), self.life);
        Box::pin(async move {
            let what = (Operation::Directory, path.as_str(), access as u64);
            let inode = disk.operate(life, what, |state| state.open(&path, access), |_| ()).await?;
            Ok(Arc::new(SimulatedFile { disk: disk.clone(), life, inode, path, caching }) as Arc<dyn RawFile>)
        })
    }

    fn rename(&self, from: String, to: String) -> IoFuture<io::Result<()>> {
        self.on_names(Operation::Directory, from, move |state, from| {
            state.needs_directory(parent(&to))?;
            if !state.names.files.contains_key(from) {
                return Err(io::ErrorKind::NotFound.into());
            }
            state.change_names(NameChange::Rename { from: from.to_owned(), to });
            Ok(())
        })
    }

    fn unlink(&self, path: String) -> IoFuture<io::Result<()>> {
        self.on_names(Operation::Directory, path, |state, path| {
            if !state.names.files.contains_key(path) {
                return Err(io::ErrorKind::NotFound.into());
            }
            state.change_names(NameChange::Unlink { path: path.to_owned() });
            Ok(())
        })
    }

    fn create_directory(&self, path: String) -> IoFuture<io::Result<()>> {
        self.on_names(Operation::Directory, path, |state, path| {
            state.needs_directory(parent(path))?;
            if state.names.directories.contains(path) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            state.change_names(NameChange::MakeDirectory { path: path.to_owned() });
            Ok(())
        })
    }

    fn remove_directory(&self, path: String) -> IoFuture<io::Result<()>> {
        self.on_names(Operation::Directory, path, |state, path| {
            if !state.list(path)?.is_empty() {
                return Err(io::ErrorKind::DirectoryNotEmpty.into());
            }
            state.change_names(NameChange::RemoveDirectory { path: path.to_owned() });
            Ok(())
        })
    }

    fn list(&self, path: String) -> IoFuture<io::Result<Vec<String>>> {
        self.on_names(Operation::Directory, path, |state, path| state.list(path))
    }

    fn sync_directory(&self, path: String) -> IoFuture<io::Result<()>> {
        self.on_names(Operation::Sync, path, |state, path| state.sync_directory(path))
    }

    fn lock(&self, path: String) -> IoFuture<io::Result<Box<dyn Send + Sync>>> {
        let (disk, life) = (self.disk.clone(), self.life);
        self.on_names(Operation::Directory, path, move |state, path| {
            if !state.locked.insert(path.to_owned()) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(Box::new(SimulatedLock { disk, life, path: path.to_owned() }) as Box<dyn Send + Sync>)
        })
    }
}

struct SimulatedLock {
    disk: SimulatedDisk,
    life: u64,
    path: String,
}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        let state = &mut *self.disk.state();
        if state.life == self.life {
            state.locked.remove(&self.path);
        }
    }
}

struct SimulatedFile {
    disk: SimulatedDisk,
    life: u64,
    inode: u64,
    /// As it was opened; for the trace and for `fail_matching`.
    path: String,
    caching: Caching,
}

impl Drop for SimulatedFile {
    fn drop(&mut self) {
        let state = &mut *self.disk.state();
        if state.life == self.life
            && let Some(inode) = state.inodes.get_mut(&self.inode)
        {
            inode.open_count = inode.open_count.saturating_sub(1);
        }
    }
}

impl RawFile for SimulatedFile {
    fn write(
        self: Arc<Self>,
        buffer: IoBuffer,
        range: Range<usize>,
        offset: u64,
        durability: Durability,
    ) -> IoFuture<Transfer> {
        Box::pin(async move {
            let length = range.len();
            let write = {
                let state = &mut *self.disk.state();
                let write = state.next_write;
                if state.is_running(self.life) {
                    state.next_write += 1;
                    let under_way = WriteUnderWay { inode: self.inode, offset, bytes: buffer[range].to_vec() };
                    state.under_way.insert(write, under_way);
                }
                write
            };
            let what = (Operation::Write, self.path.as_str(), offset);
            let effect = move |state: &mut State| state.write(write, length, durability);
            let spoil = move |state: &mut State| state.spoil_write(write);
            let moved = self.disk.operate(self.life, what, effect, spoil).await;
            (moved, buffer)
        })
    }

    fn read(self: Arc<Self>, mut buffer: IoBuffer, range: Range<usize>, offset: u64) -> IoFuture<Transfer> {
        Box::pin(async move {
            let what = (Operation::Read, self.path.as_str(), offset);
            let inode = self.inode;
            let target = &mut buffer;
            let effect = move |state: &mut State| {
                let granted = state.granted(range.len());
                let start = range.start;
                Ok(state.inode(inode)?.copy_out(offset, &mut target[start..start + granted]))
            };
            let moved = self.disk.operate(self.life, what, effect, |_| ()).await;
            (moved, buffer)
        })
    }

    fn sync_data(self: Arc<Self>) -> IoFuture<io::Result<()>> {
        Box::pin(async move {
            let inode = self.inode;
            let what = (Operation::Sync, self.path.as_str(), 0);
            let effect = move |state: &mut State| {
                state.inode(inode)?.sync();
                Ok(())
            };
            self.disk.operate(self.life, what, effect, move |state| state.spoil_sync(inode)).await
        })
    }

    fn preallocate(self: Arc<Self>, length: u64) -> IoFuture<io::Result<()>> {
        Box::pin(async move {
            let id = self.inode;
            let what = (Operation::Write, self.path.as_str(), length);
            let effect = move |state: &mut State| {
                state.reserve(id, length)?;
                let inode = state.inode(id)?;
                inode.set_length(inode.length.max(length));
                Ok(())
            };
            self.disk.operate(self.life, what, effect, |_| ()).await
        })
    }

    fn truncate(self: Arc<Self>, length: u64) -> IoFuture<io::Result<()>> {
        Box::pin(async move {
            let id = self.inode;
            let what = (Operation::Write, self.path.as_str(), length);
            let effect = move |state: &mut State| {
                let inode = state.inode(id)?;
                inode.set_length(length);
                inode.reserved_bytes = inode.reserved_bytes.min(length.next_multiple_of(8 * SECTOR));
                Ok(())
            };
            self.disk.operate(self.life, what, effect, |_| ()).await
        })
    }

    fn length(&self) -> io::Result<u64> {
        self.disk.state().inode(self.inode).map(|inode| inode.length)
    }

    fn caching(&self) -> Caching {
        self.caching
    }
}
