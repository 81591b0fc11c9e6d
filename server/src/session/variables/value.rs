//! What a setting may hold, and the one way each value is written. Pure: text in, normal form or error out.

use std::str::FromStr;

use alluvium_exec::{SqlError, SqlState};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Bool,
    Integer {
        min: i64,
        max: i64,
    },
    Real {
        min: f64,
        max: f64,
    },
    /// A time; a bare number is milliseconds.
    Milliseconds {
        min: i64,
        max: i64,
    },
    /// An amount of memory; a bare number is kB.
    Kilobytes {
        min: i64,
        max: i64,
    },
    Enum(&'static [&'static str]),
    /// One value alone is supported; others fail with `0A000` and the hint.
    Only {
        value: &'static str,
        hint: &'static str,
    },
    Text,
    /// Text of at most 63 bytes, printable.
    Name,
    /// Identifiers separated by commas.
    List,
    DateStyle,
    TimeZone,
    Encoding,
}

/// The value in normal form, as SHOW gives it. `current` is the value before (DateStyle keeps what is not said).
pub fn normalize(name: &str, kind: Kind, value: &str, current: &str) -> Result<String, SqlError> {
    let invalid = || invalid_value(name, value);
    match kind {
        Kind::Bool => parse_bool(value).map(|b| if b { "on" } else { "off" }.to_owned()).ok_or_else(|| {
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("parameter \"{name}\" requires a Boolean value"))
        }),
        Kind::Integer { min, max } => {
            let number = value.trim().parse::<i64>().map_err(|_| invalid())?;
            in_range(name, number, min, max, "").map(|n| n.to_string())
        }
        Kind::Real { min, max } => {
            let number = value.trim().parse::<f64>().ok().filter(|n| n.is_finite()).ok_or_else(invalid)?;
            if number < min || number > max {
                return Err(out_of_range(name, number, min, max));
            }
            Ok(number.to_string())
        }
        Kind::Milliseconds { min, max } => {
            let number = amount(value, &MILLISECOND_UNITS).ok_or_else(|| {
                invalid().hint("Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", and \"d\".")
            })?;
            in_range(name, number, min, max, " ms").map(|n| with_unit(n, &MILLISECOND_UNITS[1..]))
        }
        Kind::Kilobytes { min, max } => {
            let number = amount(value, &KILOBYTE_UNITS).ok_or_else(|| {
                invalid().hint("Valid units for this parameter are \"B\", \"kB\", \"MB\", \"GB\", and \"TB\".")
            })?;
            in_range(name, number, min, max, " kB").map(|n| with_unit(n, &KILOBYTE_UNITS[1..]))
        }
        Kind::Enum(values) => {
            let lower = value.to_ascii_lowercase();
            if let Some(known) = values.iter().find(|v| **v == lower) {
                return Ok((*known).to_owned());
            }
            // Enums with on and off take every spelling of a Boolean.
            if let Some(on) = parse_bool(value)
                && let Some(known) = values.iter().find(|v| **v == if on { "on" } else { "off" })
            {
                return Ok((*known).to_owned());
            }
            Err(invalid().hint(format!("Available values: {}.", values.join(", "))))
        }
        Kind::Only { value: only, hint } => match normalize(name, Kind::Bool, value, current)? {
            same if same == only => Ok(same),
            other => Err(SqlError::unsupported(format!("{name} = {other}")).hint(hint)),
        },
        Kind::Text | Kind::List => Ok(value.to_owned()),
        Kind::Name => {
            let printable: String =
                value.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect();
            Ok(printable.chars().take(63).collect())
        }
        Kind::DateStyle => date_style(value, current).ok_or_else(invalid),
        Kind::TimeZone => time_zone(value).ok_or_else(invalid),
        Kind::Encoding => encoding(name, value),
    }
}

pub fn invalid_value(name: &str, value: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid value for parameter \"{name}\": \"{value}\""))
}

/// As PostgreSQL: any unambiguous beginning of true, false, yes, no, and on, off, 1, 0.
pub fn parse_bool(value: &str) -> Option<bool> {
    let value = value.trim().to_ascii_lowercase();
    let starts = |word: &str, least: usize| value.len() >= least && word.starts_with(value.as_str());
    if starts("true", 1) || starts("yes", 1) || starts("on", 2) || value == "1" {
        Some(true)
    } else if starts("false", 1) || starts("no", 1) || starts("off", 2) || value == "0" {
        Some(false)
    } else {
        None
    }
}

/// Name and factor over the first but one, which is what a bare number counts. Ascending.
type Units = [(&'static str, f64); 6];
const MILLISECOND_UNITS: Units =
    [("us", 0.001), ("ms", 1.0), ("s", 1e3), ("min", 60e3), ("h", 3_600e3), ("d", 86_400e3)];
const KILOBYTE_UNITS: Units =
    [("B", 1.0 / 1024.0), ("kB", 1.0), ("MB", 1024.0), ("GB", 1_048_576.0), ("TB", 1_073_741_824.0), ("", f64::NAN)];

fn amount(text: &str, units: &Units) -> Option<i64> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+'))).unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    let unit = text[end..].trim();
    let factor = if unit.is_empty() { 1.0 } else { units.iter().find(|(n, _)| *n == unit)?.1 };
    let scaled = (number * factor).round();
    (scaled.is_finite() && scaled.abs() < 9e15).then_some(scaled as i64)
}

/// `90000` → `90s`: the largest unit that divides it.
fn with_unit(number: i64, units: &[(&str, f64)]) -> String {
    if number <= 0 {
        return number.to_string();
    }
    let fits = |factor: f64| factor >= 1.0 && number % (factor as i64) == 0;
    let unit = units.iter().rev().find(|(_, factor)| fits(*factor));
    unit.map_or_else(|| number.to_string(), |(name, factor)| format!("{}{name}", number / *factor as i64))
}

/// Milliseconds of a value in normal form.
pub fn milliseconds(normal: &str) -> i64 {
    amount(normal, &MILLISECOND_UNITS).unwrap_or(0)
}

fn in_range(name: &str, number: i64, min: i64, max: i64, unit: &str) -> Result<i64, SqlError> {
    if (min..=max).contains(&number) {
        return Ok(number);
    }
    Err(SqlError::new(
        SqlState::INVALID_PARAMETER_VALUE,
        format!("{number}{unit} is outside the valid range for parameter \"{name}\" ({min} .. {max})"),
    ))
}

fn out_of_range(name: &str, number: f64, min: f64, max: f64) -> SqlError {
    SqlError::new(
        SqlState::INVALID_PARAMETER_VALUE,
        format!("{number} is outside the valid range for parameter \"{name}\" ({min} .. {max:e})"),
    )
}

fn date_style(value: &str, current: &str) -> Option<String> {
    let (mut style, mut order) = current.split_once(", ").unwrap_or(("ISO", "MDY"));
    for word in value.split(',') {
        match word.trim().to_ascii_lowercase().as_str() {
            "iso" => style = "ISO",
            "sql" => style = "SQL",
            "german" => style = "German",
            word if word.starts_with("postgres") => style = "Postgres",
            "mdy" | "us" | "noneuro" | "noneuropean" => order = "MDY",
            "dmy" | "euro" | "european" => order = "DMY",
            "ymd" => order = "YMD",
            "default" => (style, order) = ("ISO", "MDY"),
            _ => return None,
        }
    }
    Some(format!("{style}, {order}"))
}

/// An IANA name in its own spelling. Whole-hour offsets have one too (`-7` is west of UTC: `Etc/GMT+7`).
fn time_zone(value: &str) -> Option<String> {
    let value = value.trim();
    if matches!(value.to_ascii_lowercase().as_str(), "utc" | "z" | "zulu" | "default" | "local") {
        return Some("UTC".into());
    }
    if let Ok(hours) = value.parse::<f64>() {
        let whole = hours.round() as i32;
        if (hours - f64::from(whole)).abs() > f64::EPSILON || !(-12..=14).contains(&whole) {
            return None;
        }
        return Some(match whole {
            0 => "UTC".into(),
            east if east > 0 => format!("Etc/GMT-{east}"),
            west => format!("Etc/GMT+{}", -west),
        });
    }
    chrono_tz::Tz::from_str_insensitive(value).ok().map(|zone| zone.name().to_owned())
}

fn encoding(name: &str, value: &str) -> Result<String, SqlError> {
    let plain: String = value.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    match plain.as_str() {
        "utf8" | "unicode" => Ok("UTF8".into()),
        // No conversion, as PostgreSQL.
        "sqlascii" => Ok("SQL_ASCII".into()),
        other if is_encoding(other) => Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("conversion between {} and UTF8 is not supported", value.to_ascii_uppercase()),
        )
        .hint("Use client_encoding UTF8.")),
        _ => Err(invalid_value(name, value)),
    }
}

fn is_encoding(plain: &str) -> bool {
    plain.starts_with("latin")
        || plain.starts_with("win")
        || plain.starts_with("iso8859")
        || matches!(
            plain,
            "big5" | "euccn" | "eucjp" | "euckr" | "euctw" | "gb18030" | "gbk" | "johab" | "koi8r" | "koi8u"
        )
        || matches!(plain, "mskanji" | "sjis" | "shiftjis2004" | "uhc" | "tcvn" | "muleinternal")
}

/// Identifiers of a list: unquoted ones in lower case. `None`: not a list.
pub fn split_list(text: &str) -> Option<Vec<String>> {
    let mut items = Vec::new();
    let mut rest = text.trim();
    if rest.is_empty() {
        return Some(items);
    }
    loop {
        rest = rest.trim_start();
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut item = String::new();
            let mut characters = quoted.char_indices().peekable();
            let end = loop {
                let (at, c) = characters.next()?;
                match c {
                    '"' if characters.peek().is_some_and(|(_, next)| *next == '"') => {
                        characters.next();
                        item.push('"');
                    }
                    '"' => break at + 1,
                    c => item.push(c),
                }
            };
            items.push(item);
            rest = &quoted[end..];
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            let item = rest[..end].trim_end();
            if item.is_empty() || item.contains(char::is_whitespace) {
                return None;
            }
            items.push(item.to_lowercase());
            rest = &rest[end..];
        }
        rest = rest.trim_start();
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None if rest.is_empty() => return Some(items),
            None => return None,
        }
    }
}

/// An identifier, quoted where it has to be.
pub fn quote_identifier(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

impl Kind {
    /// `pg_settings.vartype`.
    pub fn type_name(self) -> &'static str {
        match self {
            Kind::Bool | Kind::Only { .. } => "bool",
            Kind::Integer { .. } | Kind::Milliseconds { .. } | Kind::Kilobytes { .. } => "integer",
            Kind::Real { .. } => "real",
            Kind::Enum(_) => "enum",
            Kind::Text | Kind::Name | Kind::List | Kind::DateStyle | Kind::TimeZone | Kind::Encoding => "string",
        }
    }
}

trait FromStrInsensitive: Sized {
    fn from_str_insensitive(name: &str) -> Result<Self, ()>;
}

impl FromStrInsensitive for chrono_tz::Tz {
    fn from_str_insensitive(name: &str) -> Result<Self, ()> {
        if let Ok(zone) = Self::from_str(name) {
            return Ok(zone);
        }
        chrono_tz::TZ_VARIANTS.iter().find(|z| z.name().eq_ignore_ascii_case(name)).copied().ok_or(())
    }
}
