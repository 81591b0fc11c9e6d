//! The only source of time. In simulation tokio's paused clock moves it, from a start fixed by the seed.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// Simulation only: wall time at the runtime's start, in µs; 0 = real time.
static SIMULATED_START_US: AtomicI64 = AtomicI64::new(0);

thread_local! {
    static SIMULATED_ORIGIN: std::cell::Cell<Option<tokio::time::Instant>> = const { std::cell::Cell::new(None) };
}

/// Microseconds since the Unix epoch. May step back with the system's clock; commit timestamps never do.
#[allow(clippy::disallowed_methods)]
pub fn now_us() -> i64 {
    if let Some(origin) = SIMULATED_ORIGIN.get() {
        let passed = tokio::time::Instant::now().duration_since(origin).as_micros();
        return SIMULATED_START_US.load(Ordering::Relaxed) + i64::try_from(passed).unwrap_or(i64::MAX);
    }
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// A point of monotonic time; follows the paused clock in simulation.
pub fn monotonic() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// Makes this thread's wall clock follow tokio's paused clock.
pub fn simulate_from(start_us: i64) {
    SIMULATED_START_US.store(start_us, Ordering::Relaxed);
    SIMULATED_ORIGIN.set(Some(tokio::time::Instant::now()));
}
