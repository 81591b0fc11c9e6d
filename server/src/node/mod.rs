//! A node: the one place that assembles. Starts, for each core, a shard thread and a compute thread, gives every shard a
//! listening socket, and ends all of it in order.
//!
//! Start: sockets are bound (so that a taken port is found before anything else) → compute threads → shard threads →
//! store → engine → accepting. Stop: no new connection, idle sessions end, running statements have `drain_timeout`, then
//! are cancelled; then the threads end. A second signal skips the wait.

pub mod thread;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use alluvium_exec::Engine;
use alluvium_storage::base::spawn::Job;
use alluvium_storage::{Executor, ShardId, Store};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};

use crate::access::Roles;
use crate::config::{Config, ConfigError};
use crate::pgwire::error_response::{Severity, error_response};
use crate::pgwire::input;
use crate::pgwire::startup::{Client, Opening, open};
use crate::pgwire::tls::Tls;
use crate::session::registry::Registry;
use crate::session::variables::Variables;
use crate::session::{Server, Session, SessionShared};
use crate::telemetry::poll::Measured;

/// Jobs waiting for a thread. A session has a few at most, so this holds for every `max_connections` in use.
const JOBS_MAX: usize = 1 << 17;
const BACKLOG: u32 = 1024;
const COMPUTE_NICE: i32 = 5;
/// tokio looks at sockets after this many task polls.
const SHARD_EVENT_INTERVAL: u32 = 16;
/// How long sessions may take to say farewell once they are told to end.
const TERMINATION: Duration = Duration::from_secs(5);

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("cannot listen on {address}: {reason}")]
    Listen { address: SocketAddr, reason: std::io::Error },
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// A running node. Dropping it without [`NodeHandle::stop`] leaves its threads running until the process ends.
pub struct NodeHandle {
    addresses: Vec<SocketAddr>,
    server: Arc<Server>,
    drain_timeout: Duration,
    stopping: watch::Sender<bool>,
    shards: Vec<std::thread::JoinHandle<()>>,
    compute: Vec<std::thread::JoinHandle<()>>,
    ends: Vec<mpsc::Sender<Job>>,
}

/// Starts a node and returns when clients can connect.
pub fn start(config: Config) -> Result<NodeHandle, StartError> {
    let tls = config.tls.as_ref().map(Tls::load).transpose()?;
    let (addresses, sockets) = bind(&config)?;
    let cores = usize::from(config.cores);
    let mut ends = Vec::new();
    let mut compute_threads = Vec::new();
    let mut compute = Vec::new();
    for core in 0..cores {
        let (executor, end, jobs) = executor();
        ends.push(end);
        compute.push(executor);
        compute_threads.push(spawn_thread(format!("compute-{core}"), move || {
            settle(core, COMPUTE_NICE);
            run_jobs(jobs, None, |_| {});
        })?);
    }
    let store = Store::in_memory(config.cores);
    let engine = Engine::new(store, compute, crate::pg_catalog::registry());
    let server = Arc::new(Server {
        engine,
        sessions: Registry::new(config.max_connections),
        notifications: crate::session::notify::Notifications::default(),
        roles: Roles::new(&config, tls.as_ref().map(|t| &*t.certificate_pem)),
        tls,
    });
    let (stopping, stop) = watch::channel(false);
    let (listening, listened) = std::sync::mpsc::channel::<Result<(), StartError>>();
    let mut shards = Vec::new();
    for (core, sockets) in sockets.into_iter().enumerate() {
        let (_, end, jobs) = executor();
        ends.push(end);
        let (server, stop, listening) = (server.clone(), stop.clone(), listening.clone());
        let started = spawn_thread(format!("shard-{core}"), move || {
            settle(core, 0);
            run_jobs(jobs, Some(SHARD_EVENT_INTERVAL), move |_| {
                let listen = sockets.into_iter().try_for_each(|(address, socket)| {
                    let listener = socket.listen(BACKLOG).map_err(|reason| StartError::Listen { address, reason })?;
                    let accepting = accept(listener, ShardId(core as u16), server.clone(), stop.clone());
                    tokio::task::spawn_local(accepting);
                    Ok(())
                });
                // Nobody waits any more when another shard has failed.
                let _ = listening.send(listen);
            });
        })?;
        shards.push(started);
    }
    drop(listening);
    for _ in 0..cores {
        listened.recv().map_err(|_| StartError::Thread(std::io::Error::other("a shard has ended")))??;
    }
    tracing::info!(addresses = ?addresses, cores, data_dir = %config.data_dir.display(), "ready for connections");
    Ok(NodeHandle {
        addresses,
        server,
        drain_timeout: config.drain_timeout,
        stopping,
        shards,
        compute: compute_threads,
        ends,
    })
}

impl NodeHandle {
    /// Where clients connect; a port of 0 has become a real one.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// Ends the node. `at_once` resolving skips the time given to running statements. Blocks until all threads are gone.
    pub async fn stop(self, at_once: impl Future<Output = ()>) {
        self.stopping.send_replace(true);
        self.server.sessions.stop();
        tracing::info!(sessions = self.server.sessions.count(), "stopping: no new connections");
        tokio::select! {
            biased;
            () = self.server.sessions.emptied() => {}
            () = at_once => tracing::warn!("stopping at once"),
            () = tokio::time::sleep(self.drain_timeout) => {
                tracing::warn!(sessions = self.server.sessions.count(), "statements still run: they are ended");
            }
        }
        self.server.sessions.terminate_all();
        if tokio::time::timeout(TERMINATION, self.server.sessions.emptied()).await.is_err() {
            tracing::error!(sessions = self.server.sessions.count(), "sessions do not end");
        }
        drop(self.ends);
        for thread in self.shards.into_iter().chain(self.compute) {
            if thread.join().is_err() {
                tracing::error!("a thread has panicked");
            }
        }
        tracing::info!("stopped");
    }
}

type Sockets = Vec<Vec<(SocketAddr, TcpSocket)>>;

/// One socket a shard for each address: the kernel deals connections out (SO_REUSEPORT).
fn bind(config: &Config) -> Result<(Vec<SocketAddr>, Sockets), StartError> {
    let mut sockets: Sockets = (0..config.cores).map(|_| Vec::new()).collect();
    let mut addresses = Vec::new();
    for given in &config.listen {
        let failed = |reason| StartError::Listen { address: *given, reason };
        if given.port() != 0 {
            // SO_REUSEPORT would let a second node share the port in silence; this bind does not.
            let alone = socket_for(given).map_err(failed)?;
            alone.set_reuseaddr(true).and_then(|()| alone.bind(*given)).map_err(failed)?;
        }
        let mut address = *given;
        for shard in &mut sockets {
            let socket = socket_for(&address).map_err(failed)?;
            socket.set_reuseaddr(true).map_err(failed)?;
            socket.set_reuseport(true).map_err(failed)?;
            socket.bind(address).map_err(failed)?;
            address = socket.local_addr().map_err(failed)?;
            shard.push((address, socket));
        }
        addresses.push(address);
    }
    Ok((addresses, sockets))
}

fn socket_for(address: &SocketAddr) -> std::io::Result<TcpSocket> {
    if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }
}

fn executor() -> (Executor, mpsc::Sender<Job>, mpsc::Receiver<Job>) {
    let (sender, receiver) = mpsc::channel::<Job>(JOBS_MAX);
    // The executor must not keep the thread alive once the node lets go of it.
    let weak = sender.downgrade();
    let executor = Executor::new(move |job| {
        if let Some(sender) = weak.upgrade()
            && let Err(mpsc::error::TrySendError::Full(_)) = sender.try_send(job)
        {
            tracing::error!(jobs = JOBS_MAX, "a thread's queue is full: a job was dropped");
        }
    });
    (executor, sender, receiver)
}

fn spawn_thread(name: String, body: impl FnOnce() + Send + 'static) -> Result<std::thread::JoinHandle<()>, StartError> {
    std::thread::Builder::new().name(name).spawn(body).map_err(StartError::Thread)
}

/// Puts the thread on its core.
fn settle(core: usize, nice: i32) {
    if let Err(error) = thread::pin_to(core) {
        tracing::warn!(%error, core, "cannot pin a thread to its core");
    }
    if nice != 0
        && let Err(error) = thread::set_nice(nice)
    {
        tracing::warn!(%error, nice, "cannot lower a thread's priority");
    }
}

/// The body of a thread: its runtime, until all senders of jobs are gone.
fn run_jobs(mut jobs: mpsc::Receiver<Job>, shard: Option<u32>, begin: impl FnOnce(&())) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all();
    if let Some(interval) = shard {
        builder.event_interval(interval);
    }
    let runtime = match builder.build_local(Default::default()) {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "a thread's runtime cannot start");
            return;
        }
    };
    runtime.block_on(async move {
        begin(&());
        while let Some(job) = jobs.recv().await {
            let future = job();
            if shard.is_some() {
                tokio::task::spawn_local(Measured::new("job", future));
            } else {
                tokio::task::spawn_local(future);
            }
        }
    });
}

async fn accept(listener: TcpListener, home: ShardId, server: Arc<Server>, mut stop: watch::Receiver<bool>) {
    loop {
        let accepted = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => {
                let serving = serve(stream, address, home, server.clone());
                tokio::task::spawn_local(Measured::new("session", serving));
            }
            Err(error) => {
                // Out of file descriptors, usually: waiting lets some be closed.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// One connection from its first byte to its last.
async fn serve(stream: TcpStream, address: SocketAddr, home: ShardId, server: Arc<Server>) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let client = match open(stream, server.tls.as_ref(), &server.roles).await {
        Opening::Client(client) => *client,
        Opening::Cancel { pid, key } => return server.sessions.cancel_by_key(pid, &key),
        Opening::Closed => return,
    };
    let Client { reader, mut output, buffer, user, database, settings } = client;
    let joined = server.sessions.join(|pid| {
        let mut variables = Variables::default();
        variables.fix("session_authorization", user.clone());
        variables.fix("ssl", if server.tls.is_some() { "on" } else { "off" }.into());
        for (name, value) in &settings {
            variables.start_with(name, value)?;
        }
        Ok(SessionShared::new(pid, server.clone(), &user, &database, Some(address), variables))
    });
    match joined {
        Ok(shared) => {
            tracing::debug!(pid = shared.pid, %address, user, "session begins");
            let hung_up = shared.clone();
            let input = input::start(reader, buffer, move || hung_up.interrupts.hang_up());
            let pid = shared.pid;
            Session::new(shared, home, input, output).run().await;
            tracing::debug!(pid, "session ends");
        }
        Err(error) => {
            output.put(&error_response(Severity::Fatal, &error));
            let _ = tokio::time::timeout(Duration::from_secs(1), output.flush()).await;
            output.shutdown().await;
        }
    }
}
