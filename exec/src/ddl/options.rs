//! `WITH (…)` of streams and tables: names, types, units, defaults.

use alluvium_storage::catalog::{RelationOptions, Retention};

use super::Notices;
use crate::sql::error::{Result, SqlError, SqlState};
use crate::sql::units::{parse_bytes, parse_duration_us};

/// A relation has no more partitions than this.
pub const PARTITIONS_MAX: u32 = 1_024;

/// PostgreSQL's storage parameters: taken, so that its tools work, and without effect here.
const WITHOUT_EFFECT: &[&str] = &["fillfactor", "parallel_workers", "toast_tuple_target", "user_catalog_table"];

/// Sets one option. `partitions` is `None` where it can no longer be changed.
pub fn set(
    options: &mut RelationOptions,
    partitions: Option<&mut u32>,
    name: &str,
    value: &str,
    notices: &mut Notices,
) -> Result<()> {
    match name {
        "partitions" => {
            let Some(partitions) = partitions else {
                return Err(SqlError::unsupported("changing partitions")
                    .hint("Create a relation with the wanted partitions and INSERT … SELECT into it."));
            };
            *partitions = integer(name, value, 1, PARTITIONS_MAX)?;
        }
        "log_retention" => options.log_retention = retention(name, value)?,
        "log_retention_max" => options.log_retention_max = Some(retention(name, value)?),
        "history_retention" => match retention(name, value)? {
            Retention::Bytes { .. } => return Err(invalid(name, value).hint("history_retention is a time: '30 days'.")),
            retention => options.history_retention = retention,
        },
        "idle_timeout" => {
            options.idle_timeout_us = parse_duration_us(value).ok_or_else(|| invalid(name, value).hint(TIME_HINT))?;
        }
        "synchronous_commit" => options.synchronous_commit = Some(boolean(name, value)?),
        "compression" => match value.to_ascii_lowercase().as_str() {
            "auto" => {}
            "lz4" | "zstd" | "none" => {
                return Err(SqlError::unsupported(format!("compression = '{value}'"))
                    .hint("Leave it at 'auto': each column is compressed as it suits its values."));
            }
            _ => return Err(invalid(name, value).hint("Valid values are \"auto\", \"lz4\", \"zstd\" and \"none\".")),
        },
        "history_ttl_column" | "on_conflict" => {
            return Err(SqlError::unsupported(format!("option \"{name}\"")));
        }
        _ if WITHOUT_EFFECT.contains(&name) || name.starts_with("autovacuum_") || name.starts_with("toast.") => {
            if name == "fillfactor" {
                integer(name, value, 10, 100)?;
            }
            notices.notice(format!("storage parameter \"{name}\" has no effect"));
        }
        _ => return Err(unknown(name)),
    }
    options.given.insert(name.to_owned(), value.to_owned());
    Ok(())
}

/// Gives one option its default again.
pub fn reset(options: &mut RelationOptions, name: &str) -> Result<()> {
    let defaults = RelationOptions::default();
    match name {
        "partitions" => return Err(SqlError::unsupported("changing partitions")),
        "log_retention" => options.log_retention = defaults.log_retention,
        "log_retention_max" => options.log_retention_max = defaults.log_retention_max,
        "history_retention" => options.history_retention = defaults.history_retention,
        "idle_timeout" => options.idle_timeout_us = defaults.idle_timeout_us,
        "synchronous_commit" => options.synchronous_commit = defaults.synchronous_commit,
        "compression" => {}
        _ if WITHOUT_EFFECT.contains(&name) || name.starts_with("autovacuum_") || name.starts_with("toast.") => {}
        _ => return Err(unknown(name)),
    }
    options.given.remove(name);
    Ok(())
}

const TIME_HINT: &str = "Write a time with its unit: '10 s', '1 day'.";

fn retention(name: &str, value: &str) -> Result<Retention> {
    if matches!(value.to_ascii_lowercase().as_str(), "forever" | "infinite" | "infinity") {
        return Ok(Retention::Forever);
    }
    if let Some(bytes) = parse_bytes(value) {
        return Ok(Retention::Bytes { bytes });
    }
    // A bare number other than zero would leave open what it counts.
    match parse_duration_us(value) {
        Some(us) if us == 0 || value.contains(char::is_alphabetic) => Ok(Retention::Time { us }),
        _ => Err(invalid(name, value).hint("Write a time or bytes with their unit: '1 day', '64MB', or 'forever'.")),
    }
}

fn integer(name: &str, value: &str, min: u32, max: u32) -> Result<u32> {
    let number: i64 = value.trim().parse().map_err(|_| {
        SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("invalid value for integer option \"{name}\": {value}"),
        )
    })?;
    u32::try_from(number).ok().filter(|n| (min..=max).contains(n)).ok_or_else(|| {
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("value {value} out of bounds for option \"{name}\""))
            .detail(format!("Valid values are between \"{min}\" and \"{max}\"."))
    })
}

fn boolean(name: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "on" | "yes" | "1" => Ok(true),
        "false" | "off" | "no" | "0" => Ok(false),
        _ => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("invalid value for boolean option \"{name}\": {value}"),
        )),
    }
}

fn invalid(name: &str, value: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid value for option \"{name}\": {value}"))
}

fn unknown(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("unrecognized parameter \"{name}\""))
}
