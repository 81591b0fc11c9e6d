//! How long tasks hold a shard thread. A poll above [`POLL_US_MAX`] of thread CPU time delays every commit of that core,
//! so each one is counted; a test may ask for a panic at ten times that.
//! Lives on shard threads. Costs two clock reads a poll.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use crate::node::thread;

/// The longest a shard's task may compute without giving the thread back, in µs of CPU time.
pub const POLL_US_MAX: u64 = 100;

static LONG_POLLS: AtomicU64 = AtomicU64::new(0);
static LONGEST_POLL_US: AtomicU64 = AtomicU64::new(0);
static ASSERTED: AtomicBool = AtomicBool::new(false);

/// Polls above [`POLL_US_MAX`] since the process started.
pub fn long_polls() -> u64 {
    LONG_POLLS.load(Ordering::Relaxed)
}

/// The longest poll so far, in µs.
pub fn longest_poll_us() -> u64 {
    LONGEST_POLL_US.load(Ordering::Relaxed)
}

/// In debug builds, polls above ten times the limit panic from now on.
pub fn assert_short_polls() {
    ASSERTED.store(true, Ordering::Relaxed);
}

/// A future whose polls are measured.
pub struct Measured<F> {
    what: &'static str,
    future: Pin<Box<F>>,
}

impl<F: Future> Measured<F> {
    pub fn new(what: &'static str, future: F) -> Self {
        Self { what, future: Box::pin(future) }
    }
}

impl<F: Future> Future for Measured<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let before = thread::cpu_time_us();
        let result = self.future.as_mut().poll(context);
        let took = thread::cpu_time_us().saturating_sub(before);
        if took > POLL_US_MAX {
            LONG_POLLS.fetch_add(1, Ordering::Relaxed);
            LONGEST_POLL_US.fetch_max(took, Ordering::Relaxed);
            tracing::debug!(task = self.what, took_us = took, "a task held its shard thread");
            if cfg!(debug_assertions) && ASSERTED.load(Ordering::Relaxed) {
                assert!(took <= 10 * POLL_US_MAX, "{} held its shard thread for {took} µs", self.what);
            }
        }
        result
    }
}
