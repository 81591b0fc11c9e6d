//! Tasks on a given thread: the only way to start one below `server`.
//! In production an `Executor` leads to one pinned thread; in simulation all of them lead to one.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// A future that need not be `Send`: it is made on the thread that runs it.
pub type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;
/// Makes the future on the target thread.
pub type Job = Box<dyn FnOnce() -> LocalFuture + Send>;

/// Sends jobs to one thread. Cheap to clone; usable from any thread. A job sent after the thread has ended is dropped.
#[derive(Clone)]
pub struct Executor(Arc<dyn Fn(Job) + Send + Sync>);

impl Executor {
    pub fn new(send: impl Fn(Job) + Send + Sync + 'static) -> Self {
        Self(Arc::new(send))
    }

    /// Runs `make()` to completion on the target thread.
    pub fn spawn<F, Fut>(&self, make: F)
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        (self.0)(Box::new(move || Box::pin(make())));
    }

    /// Jobs run on the current thread's `LocalSet` (tests and simulation).
    pub fn current_thread() -> Self {
        Self::new(|job| {
            tokio::task::spawn_local(job());
        })
    }
}
