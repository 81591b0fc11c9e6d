//! Amounts with units, as settings give them.

use std::time::Duration;

/// `512MB`, `1 GB`, `1048576`: powers of 1024.
pub fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "" | "B" => 1,
        "kB" | "KB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        "TB" => 1 << 40,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// `500ms`, `10 s`, `1min`; a bare number is seconds.
pub fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let milliseconds = match unit {
        "ms" => 1,
        "" | "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    number.checked_mul(milliseconds).map(Duration::from_millis)
}

fn split(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..digits].parse().ok()?, text[digits..].trim()))
}
