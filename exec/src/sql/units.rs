//! Durations and byte counts as settings and options write them: `1 day`, `500ms`, `64MB`.

/// Microseconds; `None` if the text is not a duration. A number alone counts seconds. Several parts add up.
pub fn parse_duration_us(text: &str) -> Option<i64> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    let mut total = 0f64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
        let number: f64 = rest[..digits].parse().ok()?;
        rest = rest[digits..].trim_start();
        let letters = rest.find(|c: char| !(c.is_alphabetic() || c == 'µ')).unwrap_or(rest.len());
        let unit = rest[..letters].to_lowercase();
        rest = rest[letters..].trim_start();
        // A number without unit stands alone, else `1 2 s` would be a sum.
        let unit_us: f64 = match unit.as_str() {
            "" if rest.is_empty() && total == 0.0 => 1e6,
            "us" | "µs" | "microsecond" | "microseconds" => 1.0,
            "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" => 1e3,
            "s" | "sec" | "secs" | "second" | "seconds" => 1e6,
            "m" | "min" | "mins" | "minute" | "minutes" => 60e6,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3_600e6,
            "d" | "day" | "days" => 86_400e6,
            "w" | "week" | "weeks" => 604_800e6,
            _ => return None,
        };
        total += number * unit_us;
    }
    (total.is_finite() && total < i64::MAX as f64).then_some(total.round() as i64)
}

/// Bytes; a unit is required, so that a bare number is never taken for one.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let number: f64 = text[..digits].parse().ok()?;
    let unit: f64 = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "b" | "bytes" => 1.0,
        "kb" | "kib" => 1_024.0,
        "mb" | "mib" => 1_048_576.0,
        "gb" | "gib" => 1_073_741_824.0,
        "tb" | "tib" => 1_099_511_627_776.0,
        _ => return None,
    };
    let bytes = number * unit;
    (bytes < u64::MAX as f64).then_some(bytes.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_bytes() {
        for (text, us) in [
            ("1 day", Some(86_400_000_000)),
            ("1s", Some(1_000_000)),
            ("0 s", Some(0)),
            ("500ms", Some(500_000)),
            ("0.5 s", Some(500_000)),
            ("1 h 30 min", Some(5_400_000_000)),
            ("0", Some(0)),
            ("3", Some(3_000_000)),
            ("", None),
            ("s", None),
            ("1 2 s", None),
            ("-1 s", None),
            ("1 parsec", None),
        ] {
            assert_eq!(parse_duration_us(text), us, "{text:?}");
        }
        for (text, bytes) in
            [("64MB", Some(67_108_864)), ("1 GB", Some(1_073_741_824)), ("12", None), ("MB", None), ("1 day", None)]
        {
            assert_eq!(parse_bytes(text), bytes, "{text:?}");
        }
    }
}
