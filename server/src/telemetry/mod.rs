//! Logs and counters for the operator. Owns their names and formats; decides nothing.

pub mod poll;

use tracing_subscriber::EnvFilter;

use crate::config::{ConfigError, LogConfig, LogFormat};

/// Sends log lines to standard error from now on. Called once, by the binary.
pub fn start_logging(config: &LogConfig) -> Result<(), ConfigError> {
    let filter = EnvFilter::try_new(&config.level)
        .map_err(|e| ConfigError(format!("invalid value for \"log-level\": \"{}\" ({e})", config.level)))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match config.format {
        LogFormat::Text => builder.with_ansi(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    started.map_err(|e| ConfigError(format!("logging cannot start: {e}")))
}
