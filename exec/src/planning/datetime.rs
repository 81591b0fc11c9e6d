//! Dates, times, zones and intervals: calendar arithmetic, PostgreSQL's text forms in ISO style, and their reading.
//! Owns no arrays. Dates are days, timestamps microseconds since 1970; the extreme values are the infinities.

use arrow::datatypes::IntervalMonthDayNano;
use chrono::{Offset, TimeZone};

use crate::sql::error::{Result, SqlError, SqlState};

pub const DAY_US: i64 = 86_400_000_000;
pub const DATE_INFINITY: i32 = i32::MAX;
pub const DATE_MINUS_INFINITY: i32 = i32::MIN;
pub const TIMESTAMP_INFINITY: i64 = i64::MAX;
pub const TIMESTAMP_MINUS_INFINITY: i64 = i64::MIN;

pub fn out_of_range(what: &str) -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("{what} out of range"))
}

pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let of_era = y - era * 400;
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

pub fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let of_era = z - era * 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

pub fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Sunday = 0.
pub fn day_of_week(days: i64) -> i64 {
    (days + 4).rem_euclid(7)
}

/// ISO year and week.
pub fn iso_week(days: i64) -> (i64, i64) {
    let weekday = (days + 3).rem_euclid(7);
    let thursday = days - weekday + 3;
    let (year, _, _) = civil_from_days(thursday);
    (year, (thursday - days_from_civil(year, 1, 1)) / 7 + 1)
}

/// A time zone: an IANA name or a fixed offset.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Zone {
    Named(chrono_tz::Tz),
    /// Seconds east of Greenwich.
    Fixed(i32),
}

impl Zone {
    pub const UTC: Self = Self::Fixed(0);

    /// `Europe/Berlin`, `UTC`, `+02`, `UTC+3` (POSIX: west is positive), an abbreviation.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let lower = text.to_ascii_lowercase();
        match lower.as_str() {
            "utc" | "gmt" | "z" | "zulu" | "uct" => return Some(Self::UTC),
            _ => {}
        }
        if let Some(seconds) = abbreviation(&lower) {
            return Some(Self::Fixed(seconds));
        }
        let exact = text.parse::<chrono_tz::Tz>().ok();
        let any_case = || chrono_tz::TZ_VARIANTS.iter().find(|z| z.name().eq_ignore_ascii_case(text)).copied();
        if let Some(zone) = exact.or_else(any_case) {
            return Some(Self::Named(zone));
        }
        if text.starts_with(['+', '-']) || text.starts_with(|c: char| c.is_ascii_digit()) {
            return parse_offset(text).map(Self::Fixed);
        }
        let digits = text.find(['+', '-'])?;
        if digits >= 3 && text[..digits].chars().all(|c| c.is_ascii_alphabetic()) {
            return parse_offset(&text[digits..]).map(|o| Self::Fixed(-o));
        }
        None
    }

    pub fn named(text: &str) -> Result<Self> {
        Self::parse(text).ok_or_else(|| {
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("time zone \"{text}\" not recognized"))
        })
    }

    /// Seconds east of Greenwich at an instant.
    pub fn offset_at(self, utc_us: i64) -> i64 {
        match self {
            Self::Fixed(seconds) => i64::from(seconds),
            Self::Named(zone) => {
                let Some(at) = chrono::DateTime::from_timestamp(utc_us.div_euclid(1_000_000), 0) else { return 0 };
                i64::from(zone.offset_from_utc_datetime(&at.naive_utc()).fix().local_minus_utc())
            }
        }
    }

    pub fn to_local(self, utc_us: i64) -> i64 {
        match utc_us {
            TIMESTAMP_INFINITY | TIMESTAMP_MINUS_INFINITY => utc_us,
            _ => utc_us.saturating_add(self.offset_at(utc_us) * 1_000_000),
        }
    }

    /// An ambiguous local time is taken as standard time, one that does not exist by the offset before the gap.
    pub fn to_utc(self, local_us: i64) -> i64 {
        if matches!(local_us, TIMESTAMP_INFINITY | TIMESTAMP_MINUS_INFINITY) {
            return local_us;
        }
        let zone = match self {
            Self::Fixed(seconds) => return local_us.saturating_sub(i64::from(seconds) * 1_000_000),
            Self::Named(zone) => zone,
        };
        let Some(at) = chrono::DateTime::from_timestamp(local_us.div_euclid(1_000_000), 0) else { return local_us };
        let offset = match zone.offset_from_local_datetime(&at.naive_utc()) {
            chrono::LocalResult::Single(offset) => i64::from(offset.fix().local_minus_utc()),
            chrono::LocalResult::Ambiguous(a, b) => i64::from(a.fix().local_minus_utc().min(b.fix().local_minus_utc())),
            chrono::LocalResult::None => self.offset_at(local_us - DAY_US),
        };
        local_us - offset * 1_000_000
    }

    /// The abbreviation at an instant, for `to_char`'s TZ.
    pub fn abbreviation_at(self, utc_us: i64) -> String {
        match self {
            Self::Fixed(0) => "UTC".to_owned(),
            Self::Fixed(seconds) => offset_text(i64::from(seconds)),
            Self::Named(zone) => match chrono::DateTime::from_timestamp(utc_us.div_euclid(1_000_000), 0) {
                Some(at) => {
                    use chrono_tz::OffsetName;
                    let offset = zone.offset_from_utc_datetime(&at.naive_utc());
                    offset.abbreviation().map_or_else(String::new, str::to_owned)
                }
                None => String::new(),
            },
        }
    }
}

fn abbreviation(lower: &str) -> Option<i32> {
    let hours = match lower {
        "est" => -5,
        "edt" => -4,
        "cst" => -6,
        "cdt" => -5,
        "mst" => -7,
        "mdt" => -6,
        "pst" => -8,
        "pdt" => -7,
        "cet" | "bst" | "wat" => 1,
        "cest" | "eet" | "sast" => 2,
        "eest" | "msk" => 3,
        "jst" => 9,
        "aest" => 10,
        "wet" => 0,
        _ => return None,
    };
    Some(hours * 3600)
}

/// `+02`, `-0530`, `+05:30:15`: seconds.
fn parse_offset(text: &str) -> Option<i32> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => (1, text),
    };
    let parts: Vec<&str> = digits.split(':').collect();
    if parts.iter().any(|p| p.is_empty() || !p.bytes().all(|b| b.is_ascii_digit())) {
        return None;
    }
    let (hours, minutes, seconds): (i32, i32, i32) = match parts.as_slice() {
        [one] if one.len() <= 2 => (one.parse().ok()?, 0, 0),
        [one] if one.len() <= 4 => {
            let at = one.len() - 2;
            (one[..at].parse().ok()?, one[at..].parse().ok()?, 0)
        }
        [one] if one.len() == 6 => (one[..2].parse().ok()?, one[2..4].parse().ok()?, one[4..].parse().ok()?),
        [h, m] => (h.parse().ok()?, m.parse().ok()?, 0),
        [h, m, s] => (h.parse().ok()?, m.parse().ok()?, s.parse().ok()?),
        _ => return None,
    };
    (hours <= 15 && minutes < 60 && seconds < 60).then_some(sign * (hours * 3600 + minutes * 60 + seconds))
}

fn offset_text(seconds: i64) -> String {
    let sign = if seconds < 0 { '-' } else { '+' };
    let s = seconds.abs();
    let mut text = format!("{sign}{:02}", s / 3600);
    if s % 3600 != 0 {
        text.push_str(&format!(":{:02}", s / 60 % 60));
    }
    if s % 60 != 0 {
        text.push_str(&format!(":{:02}", s % 60));
    }
    text
}

// ---- text out ----

pub fn date_text(days: i32) -> String {
    match days {
        DATE_INFINITY => "infinity".to_owned(),
        DATE_MINUS_INFINITY => "-infinity".to_owned(),
        _ => {
            let (y, m, d) = civil_from_days(i64::from(days));
            if y > 0 { format!("{y:04}-{m:02}-{d:02}") } else { format!("{:04}-{m:02}-{d:02} BC", 1 - y) }
        }
    }
}

fn fraction_text(us: i64) -> String {
    if us == 0 {
        return String::new();
    }
    format!(".{us:06}").trim_end_matches('0').to_owned()
}

pub fn time_text(us: i64) -> String {
    let s = us / 1_000_000;
    format!("{:02}:{:02}:{:02}{}", s / 3600, s / 60 % 60, s % 60, fraction_text(us % 1_000_000))
}

pub fn timestamp_text(us: i64) -> String {
    timestamp_with(us, "")
}

fn timestamp_with(us: i64, suffix: &str) -> String {
    match us {
        TIMESTAMP_INFINITY => return "infinity".to_owned(),
        TIMESTAMP_MINUS_INFINITY => return "-infinity".to_owned(),
        _ => {}
    }
    let (y, m, d) = civil_from_days(us.div_euclid(DAY_US));
    let time = time_text(us.rem_euclid(DAY_US));
    if y > 0 {
        format!("{y:04}-{m:02}-{d:02} {time}{suffix}")
    } else {
        format!("{:04}-{m:02}-{d:02} {time}{suffix} BC", 1 - y)
    }
}

pub fn timestamptz_text(us: i64, zone: Zone) -> String {
    match us {
        TIMESTAMP_INFINITY | TIMESTAMP_MINUS_INFINITY => timestamp_text(us),
        _ => timestamp_with(zone.to_local(us), &offset_text(zone.offset_at(us))),
    }
}

/// IntervalStyle `postgres`.
pub fn interval_text(value: IntervalMonthDayNano) -> String {
    let mut parts: Vec<String> = Vec::new();
    let (years, months) = (value.months / 12, value.months % 12);
    // After a negative part a positive one says its sign, so that the text reads back as the same value.
    let mut negative_before = false;
    let mut say = |n: i64, unit: &str, parts: &mut Vec<String>| {
        if n != 0 {
            let sign = if negative_before && n > 0 { "+" } else { "" };
            let plural = if n == 1 { "" } else { "s" };
            parts.push(format!("{sign}{n} {unit}{plural}"));
            negative_before = n < 0;
        }
    };
    say(i64::from(years), "year", &mut parts);
    say(i64::from(months), "mon", &mut parts);
    say(i64::from(value.days), "day", &mut parts);
    let us = value.nanoseconds / 1000;
    if us != 0 || parts.is_empty() {
        let sign = if us < 0 {
            "-"
        } else if negative_before {
            "+"
        } else {
            ""
        };
        let u = us.unsigned_abs() as i64;
        let s = u / 1_000_000;
        let fraction = fraction_text(u % 1_000_000);
        parts.push(format!("{sign}{:02}:{:02}:{:02}{fraction}", s / 3600, s / 60 % 60, s % 60));
    }
    parts.join(" ")
}

// ---- text in ----

/// What a date or timestamp text says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Fields {
    date: Option<(i64, i64, i64)>,
    time_us: Option<i64>,
    zone: Option<ZoneField>,
    special: Option<Special>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Special {
    Infinity,
    MinusInfinity,
    Epoch,
    Now,
    Today,
    Tomorrow,
    Yesterday,
}

type ZoneField = Zone;

impl Default for Zone {
    fn default() -> Self {
        Self::UTC
    }
}

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

fn month_by_name(word: &str) -> Option<i64> {
    const LONG: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let at = MONTHS.iter().position(|m| *m == word).or_else(|| LONG.iter().position(|m| *m == word));
    at.or_else(|| (word == "sept").then_some(8)).map(|i| i as i64 + 1)
}

fn invalid(type_name: &str, text: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_DATETIME_FORMAT, format!("invalid input syntax for type {type_name}: \"{text}\""))
}

fn field_overflow(text: &str) -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("date/time field value out of range: \"{text}\""))
}

/// `hh:mm[:ss[.fraction]]`, `hhmmss`; microseconds, up to 24:00:00.
fn clock(text: &str) -> Option<std::result::Result<i64, ()>> {
    let parts: Vec<&str> = text.split(':').collect();
    let number = |t: &str| (!t.is_empty() && t.bytes().all(|b| b.is_ascii_digit())).then(|| t.parse::<i64>().ok())?;
    let (h, m, s_text) = match parts.as_slice() {
        [h, m] => (number(h)?, number(m)?, "0"),
        [h, m, s] => (number(h)?, number(m)?, *s),
        _ => return None,
    };
    let (s, us) = seconds(s_text)?;
    if h > 24 || m > 59 || s > 60 {
        return Some(Err(()));
    }
    let total = ((h * 60 + m) * 60 + s) * 1_000_000 + us;
    Some(if total > DAY_US { Err(()) } else { Ok(total) })
}

/// Seconds and microseconds of `12.345`, rounded.
fn seconds(text: &str) -> Option<(i64, i64)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() && fraction.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        return None;
    }
    let s: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let padded = format!("{fraction:0<7}");
    let mut us: i64 = padded[..6].parse().ok()?;
    if padded.as_bytes()[6] >= b'5' {
        us += 1;
    }
    Some((s + us / 1_000_000, us % 1_000_000))
}

fn parse_fields(type_name: &str, text: &str) -> Result<Fields> {
    let bad = || invalid(type_name, text);
    let mut fields = Fields::default();
    let mut numbers: Vec<i64> = Vec::new();
    let mut month_name: Option<i64> = None;
    let mut afternoon: Option<bool> = None;
    let mut before_christ = false;
    let spaced = text.trim().replace(',', " ");
    if spaced.is_empty() {
        return Err(bad());
    }
    for word in spaced.split_ascii_whitespace() {
        let mut rest = word;
        // `2024-01-15T10:20:30Z`: the T parts date and time.
        if fields.date.is_none()
            && let Some(at) = word.find(['T', 't'])
            && at >= 8
            && word[..at].bytes().all(|b| b.is_ascii_digit() || b == b'-')
        {
            fields.date = Some(iso_date(&word[..at]).ok_or_else(bad)?);
            rest = &word[at + 1..];
        }
        let first = rest.as_bytes().first().copied().unwrap_or(b' ');
        if rest.contains(':') && first.is_ascii_digit() {
            let end = rest.find(|c: char| !(c.is_ascii_digit() || c == ':' || c == '.')).unwrap_or(rest.len());
            fields.time_us = Some(clock(&rest[..end]).ok_or_else(bad)?.map_err(|()| field_overflow(text))?);
            let tail = &rest[end..];
            match tail.to_ascii_lowercase().as_str() {
                "" => {}
                "am" => afternoon = Some(false),
                "pm" => afternoon = Some(true),
                _ => fields.zone = Some(Zone::parse(tail).ok_or_else(bad)?),
            }
        } else if fields.time_us.is_some() && (first == b'+' || first == b'-') {
            fields.zone = Some(Zone::parse(rest).ok_or_else(bad)?);
        } else if first.is_ascii_digit() {
            if let Some(date) = iso_date(rest) {
                fields.date = Some(date);
            } else if rest.len() == 8 && rest.bytes().all(|b| b.is_ascii_digit()) {
                let n: i64 = rest.parse().map_err(|_| bad())?;
                fields.date = Some((n / 10_000, n / 100 % 100, n % 100));
            } else if rest.len() == 6 && rest.bytes().all(|b| b.is_ascii_digit()) && fields.date.is_some() {
                let n: i64 = rest.parse().map_err(|_| bad())?;
                fields.time_us = Some(((n / 10_000 * 60 + n / 100 % 100) * 60 + n % 100) * 1_000_000);
            } else {
                // `1/15/2024`, `15-Jan-2024`, `15.1.2024`, or one number of a longer date.
                for piece in rest.split(['/', '-', '.']) {
                    match (piece.parse::<i64>(), month_by_name(&piece.to_ascii_lowercase())) {
                        (Ok(n), _) => numbers.push(n),
                        (_, Some(m)) => month_name = Some(m),
                        _ => return Err(bad()),
                    }
                }
            }
        } else {
            match rest.to_ascii_lowercase().as_str() {
                "infinity" | "+infinity" => fields.special = Some(Special::Infinity),
                "-infinity" => fields.special = Some(Special::MinusInfinity),
                "epoch" => fields.special = Some(Special::Epoch),
                "now" => fields.special = Some(Special::Now),
                "today" => fields.special = Some(Special::Today),
                "tomorrow" => fields.special = Some(Special::Tomorrow),
                "yesterday" => fields.special = Some(Special::Yesterday),
                "allballs" => fields.time_us = Some(0),
                "bc" => before_christ = true,
                "ad" => {}
                "am" => afternoon = Some(false),
                "pm" => afternoon = Some(true),
                "" | "t" => {}
                lower => {
                    if let Some(m) = month_by_name(lower) {
                        month_name = Some(m);
                    } else if WEEKDAYS
                        .iter()
                        .any(|d| d.eq_ignore_ascii_case(lower) || d[..3].eq_ignore_ascii_case(lower))
                    {
                    } else {
                        fields.zone = Some(Zone::parse(rest).ok_or_else(bad)?);
                    }
                }
            }
        }
    }
    if !numbers.is_empty() || month_name.is_some() {
        fields.date = Some(match (month_name, numbers.as_slice()) {
            (Some(m), [a, b]) if *a > 31 => (*a, m, *b),
            (Some(m), [a, b]) => (two_digit_year(*b), m, *a),
            (None, [a, b, c]) if *a > 31 => (*a, *b, *c),
            (None, [a, b, c]) => (two_digit_year(*c), *a, *b),
            _ => return Err(bad()),
        });
    }
    if let Some(is_pm) = afternoon {
        let t = fields.time_us.ok_or_else(bad)?;
        let hour = t / 3_600_000_000;
        if !(1..=12).contains(&hour) {
            return Err(field_overflow(text));
        }
        let of_hour = t % 3_600_000_000;
        fields.time_us = Some((hour % 12 + if is_pm { 12 } else { 0 }) * 3_600_000_000 + of_hour);
    }
    if let Some((y, m, d)) = fields.date {
        let y = if before_christ { 1 - y } else { y };
        if !(1..=12).contains(&m) || d < 1 || d > days_in_month(y, m) || (y == 0 && !before_christ) {
            return Err(field_overflow(text));
        }
        fields.date = Some((y, m, d));
    }
    Ok(fields)
}

pub const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

fn two_digit_year(year: i64) -> i64 {
    match year {
        0..70 => year + 2000,
        70..100 => year + 1900,
        _ => year,
    }
}

/// `2024-1-5`, year of four digits or more.
fn iso_date(text: &str) -> Option<(i64, i64, i64)> {
    let mut parts = text.split('-');
    let (y, m, d) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || y.len() < 3 || m.len() > 2 || d.len() > 2 {
        return None;
    }
    Some((y.parse().ok()?, m.parse().ok()?, d.parse().ok()?))
}

/// What `now` and `today` mean, and the zone of texts that name none.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub now_us: i64,
    pub zone: Zone,
}

pub fn parse_date(text: &str, moment: Moment) -> Result<i32> {
    let fields = parse_fields("date", text)?;
    let today = moment.zone.to_local(moment.now_us).div_euclid(DAY_US);
    let days = match fields.special {
        Some(Special::Infinity) => return Ok(DATE_INFINITY),
        Some(Special::MinusInfinity) => return Ok(DATE_MINUS_INFINITY),
        Some(Special::Epoch) => 0,
        Some(Special::Now | Special::Today) => today,
        Some(Special::Tomorrow) => today + 1,
        Some(Special::Yesterday) => today - 1,
        None => {
            let (y, m, d) = fields.date.ok_or_else(|| invalid("date", text))?;
            days_from_civil(y, m, d)
        }
    };
    i32::try_from(days)
        .ok()
        .filter(|d| (-2_440_588..=2_145_031_948).contains(d))
        .ok_or_else(|| SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("date out of range: \"{text}\"")))
}

pub fn parse_time(text: &str) -> Result<i64> {
    let fields = parse_fields("time", text)?;
    fields.time_us.ok_or_else(|| invalid("time", text))
}

pub fn parse_timestamp(text: &str, moment: Moment) -> Result<i64> {
    Ok(parse_instant("timestamp", text, moment)?.0)
}

pub fn parse_timestamptz(text: &str, moment: Moment) -> Result<i64> {
    let (local, zone) = parse_instant("timestamp with time zone", text, moment)?;
    Ok(zone.unwrap_or(moment.zone).to_utc(local))
}

fn parse_instant(type_name: &str, text: &str, moment: Moment) -> Result<(i64, Option<Zone>)> {
    let fields = parse_fields(type_name, text)?;
    let now = moment.zone.to_local(moment.now_us);
    let today = now.div_euclid(DAY_US);
    let time = fields.time_us.unwrap_or(0);
    let us = match fields.special {
        Some(Special::Infinity) => return Ok((TIMESTAMP_INFINITY, None)),
        Some(Special::MinusInfinity) => return Ok((TIMESTAMP_MINUS_INFINITY, None)),
        Some(Special::Epoch) => return Ok((0, Some(Zone::UTC))),
        Some(Special::Now) => now,
        Some(Special::Today) => today * DAY_US + time,
        Some(Special::Tomorrow) => (today + 1) * DAY_US + time,
        Some(Special::Yesterday) => (today - 1) * DAY_US + time,
        None => {
            let (y, m, d) = fields.date.ok_or_else(|| invalid(type_name, text))?;
            days_from_civil(y, m, d).checked_mul(DAY_US).and_then(|t| t.checked_add(time)).ok_or_else(|| {
                SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("timestamp out of range: \"{text}\""))
            })?
        }
    };
    Ok((us, fields.zone))
}

/// An interval in PostgreSQL's verbose, SQL or ISO 8601 form. `unit` is that of a bare number (seconds when absent).
pub fn parse_interval(text: &str, unit: Option<&str>) -> Result<IntervalMonthDayNano> {
    let bad = || invalid("interval", text);
    let trimmed = text.trim();
    if trimmed.starts_with('P') || trimmed.starts_with('p') {
        return iso_interval(trimmed).ok_or_else(bad);
    }
    let mut total = IntervalParts::default();
    let mut pending: Option<f64> = None;
    let mut any = false;
    let mut ago = false;
    let spaced = separate_units(trimmed);
    for word in spaced.split_ascii_whitespace() {
        let lower = word.to_ascii_lowercase();
        if lower == "@" {
            continue;
        }
        if lower == "ago" {
            ago = true;
            continue;
        }
        if lower.contains(':') {
            if let Some(days) = pending.take() {
                total.add("day", days).ok_or_else(bad)?;
            }
            let (sign, digits) = match lower.as_bytes()[0] {
                b'-' => (-1, &lower[1..]),
                b'+' => (1, &lower[1..]),
                _ => (1, lower.as_str()),
            };
            total.us += sign as f64 * interval_clock(digits, unit).ok_or_else(bad)? as f64;
            any = true;
        } else if let Ok(number) = lower.parse::<f64>() {
            if pending.is_some() {
                return Err(bad());
            }
            pending = Some(number);
        } else if let Some((years, months)) = year_month(&lower) {
            total.months += years * 12.0 + months;
            any = true;
        } else {
            let number = pending.take().ok_or_else(bad)?;
            total.add(&lower, number).ok_or_else(bad)?;
            any = true;
        }
    }
    if let Some(number) = pending {
        total.add(unit.unwrap_or("second"), number).ok_or_else(bad)?;
        any = true;
    }
    if !any {
        return Err(bad());
    }
    if ago {
        total = IntervalParts { months: -total.months, days: -total.days, us: -total.us };
    }
    let value = total.finish().ok_or_else(|| out_of_range("interval"))?;
    Ok(match unit {
        Some(unit) => truncate_interval(value, unit),
        None => value,
    })
}

/// `1day2h` → `1 day 2 h`; numbers, signs, points and colons stay together.
fn separate_units(text: &str) -> String {
    let mut spaced = String::with_capacity(text.len() + 8);
    let mut previous = ' ';
    for c in text.chars() {
        let letter_after_digit = c.is_ascii_alphabetic() && previous.is_ascii_digit();
        let digit_after_letter = (c.is_ascii_digit() || c == '-' || c == '+') && previous.is_ascii_alphabetic();
        if letter_after_digit || digit_after_letter {
            spaced.push(' ');
        }
        spaced.push(c);
        previous = c;
    }
    spaced
}

fn year_month(text: &str) -> Option<(f64, f64)> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1.0, &text[1..]),
        b'+' => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    let (y, m) = digits.split_once('-')?;
    Some((sign * y.parse::<u32>().ok()? as f64, sign * m.parse::<u32>().ok()? as f64))
}

fn interval_clock(text: &str, unit: Option<&str>) -> Option<i64> {
    let parts: Vec<&str> = text.split(':').collect();
    let n = |t: &str| t.parse::<i64>().ok();
    let (h, m, s) = match parts.as_slice() {
        [a, b] if unit == Some("minute to second") || b.contains('.') => (0, n(a)?, *b),
        [a, b] => (n(a)?, n(b)?, "0"),
        [a, b, c] => (n(a)?, n(b)?, *c),
        _ => return None,
    };
    let (s, us) = seconds(s)?;
    if m > 59 && parts.len() == 3 || s > 60 {
        return None;
    }
    Some(((h * 60 + m) * 60 + s) * 1_000_000 + us)
}

#[derive(Clone, Copy, Default)]
struct IntervalParts {
    months: f64,
    days: f64,
    us: f64,
}

impl IntervalParts {
    fn add(&mut self, unit: &str, n: f64) -> Option<()> {
        match unit {
            "millennium" | "millennia" | "mil" | "mils" => self.months += n * 12_000.0,
            "century" | "centuries" | "cent" | "c" => self.months += n * 1200.0,
            "decade" | "decades" | "dec" | "decs" => self.months += n * 120.0,
            "year" | "years" | "yr" | "yrs" | "y" | "year to month" => self.months += n * 12.0,
            "quarter" | "quarters" => self.months += n * 3.0,
            "month" | "months" | "mon" | "mons" => self.add_months(n),
            "week" | "weeks" | "w" => self.days += n * 7.0,
            "day" | "days" | "d" | "day to hour" | "day to minute" | "day to second" => self.days += n,
            "hour" | "hours" | "hr" | "hrs" | "h" | "hour to minute" | "hour to second" => self.us += n * 3.6e9,
            "minute" | "minutes" | "min" | "mins" | "m" | "minute to second" => self.us += n * 6e7,
            "second" | "seconds" | "sec" | "secs" | "s" => self.us += n * 1e6,
            "millisecond" | "milliseconds" | "msec" | "msecs" | "ms" => self.us += n * 1e3,
            "microsecond" | "microseconds" | "usec" | "usecs" | "us" => self.us += n,
            _ => return None,
        }
        Some(())
    }

    /// A fraction of a month goes to days of a month of 30.
    fn add_months(&mut self, n: f64) {
        self.months += n.trunc();
        self.days += n.fract() * 30.0;
    }

    fn finish(self) -> Option<IntervalMonthDayNano> {
        let months = self.months.round();
        let us = self.us + self.days.fract() * DAY_US as f64;
        let days = self.days.trunc();
        let us = us.round();
        if months.abs() > f64::from(i32::MAX) || days.abs() > f64::from(i32::MAX) || us.abs() > 9.2e15 {
            return None;
        }
        Some(IntervalMonthDayNano::new(months as i32, days as i32, us as i64 * 1000))
    }
}

/// An interval literal's field drops what is finer than it.
fn truncate_interval(value: IntervalMonthDayNano, unit: &str) -> IntervalMonthDayNano {
    let last = unit.rsplit(' ').next().unwrap_or(unit);
    let step = |ns: i64| value.nanoseconds / ns * ns;
    match last {
        "year" => IntervalMonthDayNano::new(value.months / 12 * 12, 0, 0),
        "month" => IntervalMonthDayNano::new(value.months, 0, 0),
        "day" => IntervalMonthDayNano::new(value.months, value.days, 0),
        "hour" => IntervalMonthDayNano::new(value.months, value.days, step(3_600_000_000_000)),
        "minute" => IntervalMonthDayNano::new(value.months, value.days, step(60_000_000_000)),
        _ => value,
    }
}

fn iso_interval(text: &str) -> Option<IntervalMonthDayNano> {
    let mut parts = IntervalParts::default();
    let mut in_time = false;
    let mut number = String::new();
    for c in text.chars().skip(1) {
        match c {
            'T' | 't' => in_time = true,
            '0'..='9' | '.' | '-' | '+' => number.push(c),
            _ => {
                let n: f64 = number.parse().ok()?;
                number.clear();
                let unit = match (c.to_ascii_uppercase(), in_time) {
                    ('Y', false) => "year",
                    ('M', false) => "month",
                    ('W', false) => "week",
                    ('D', false) => "day",
                    ('H', true) => "hour",
                    ('M', true) => "minute",
                    ('S', true) => "second",
                    _ => return None,
                };
                parts.add(unit, n)?;
            }
        }
    }
    if number.is_empty() { parts.finish() } else { None }
}

// ---- arithmetic ----

/// Months first (clamped to the month's end), then days, then time.
pub fn add_interval(us: i64, interval: IntervalMonthDayNano) -> Result<i64> {
    if matches!(us, TIMESTAMP_INFINITY | TIMESTAMP_MINUS_INFINITY) {
        return Ok(us);
    }
    let mut value = us;
    if interval.months != 0 {
        let days = value.div_euclid(DAY_US);
        let (y, m, d) = civil_from_days(days);
        let index = y * 12 + m - 1 + i64::from(interval.months);
        let (y, m) = (index.div_euclid(12), index.rem_euclid(12) + 1);
        let moved = days_from_civil(y, m, d.min(days_in_month(y, m)));
        value = moved.checked_mul(DAY_US).ok_or_else(|| out_of_range("timestamp"))? + value.rem_euclid(DAY_US);
    }
    value
        .checked_add(i64::from(interval.days).checked_mul(DAY_US).ok_or_else(|| out_of_range("timestamp"))?)
        .and_then(|v| v.checked_add(interval.nanoseconds / 1000))
        .ok_or_else(|| out_of_range("timestamp"))
}

/// As [`add_interval`], with months and days counted in the zone's local time.
pub fn add_interval_in(us: i64, interval: IntervalMonthDayNano, zone: Zone) -> Result<i64> {
    let calendar = IntervalMonthDayNano::new(interval.months, interval.days, 0);
    let moved = if interval.months == 0 && interval.days == 0 {
        us
    } else {
        zone.to_utc(add_interval(zone.to_local(us), calendar)?)
    };
    add_interval(moved, IntervalMonthDayNano::new(0, 0, interval.nanoseconds))
}

pub fn negate_interval(v: IntervalMonthDayNano) -> IntervalMonthDayNano {
    IntervalMonthDayNano::new(v.months.wrapping_neg(), v.days.wrapping_neg(), v.nanoseconds.wrapping_neg())
}

/// An interval of microseconds only.
pub fn from_us(us: i64) -> Result<IntervalMonthDayNano> {
    let ns = us.checked_mul(1000).ok_or_else(|| out_of_range("interval"))?;
    Ok(IntervalMonthDayNano::new(0, 0, ns))
}

/// What two intervals are compared by: a month is 30 days, a day 24 hours. Microseconds.
pub fn comparison_key(v: IntervalMonthDayNano) -> i128 {
    (i128::from(v.months) * 30 + i128::from(v.days)) * i128::from(DAY_US) + i128::from(v.nanoseconds / 1000)
}

/// Difference of two timestamps: days and time.
pub fn difference(a: i64, b: i64) -> Result<IntervalMonthDayNano> {
    let us = a.checked_sub(b).ok_or_else(|| out_of_range("interval"))?;
    Ok(IntervalMonthDayNano::new(0, (us / DAY_US) as i32, us % DAY_US * 1000))
}

/// `age`: years, months, days and time that lead from `b` to `a`.
pub fn age(a: i64, b: i64) -> IntervalMonthDayNano {
    if a < b {
        return negate_interval(age(b, a));
    }
    let ((ya, ma, da), (yb, mb, db)) = (civil_from_days(a.div_euclid(DAY_US)), civil_from_days(b.div_euclid(DAY_US)));
    let mut us = a.rem_euclid(DAY_US) - b.rem_euclid(DAY_US);
    let mut days = da - db;
    let mut months = (ya * 12 + ma) - (yb * 12 + mb);
    if us < 0 {
        us += DAY_US;
        days -= 1;
    }
    if days < 0 {
        days += days_in_month(yb, mb);
        months -= 1;
    }
    IntervalMonthDayNano::new(months as i32, days as i32, us * 1000)
}

pub fn justify_hours(v: IntervalMonthDayNano) -> IntervalMonthDayNano {
    let us = v.nanoseconds / 1000;
    let (mut days, mut left) = (i64::from(v.days) + us / DAY_US, us % DAY_US);
    if days > 0 && left < 0 {
        left += DAY_US;
        days -= 1;
    } else if days < 0 && left > 0 {
        left -= DAY_US;
        days += 1;
    }
    IntervalMonthDayNano::new(v.months, days as i32, left * 1000)
}

pub fn justify_days(v: IntervalMonthDayNano) -> IntervalMonthDayNano {
    let (mut months, mut days) = (v.months + v.days / 30, v.days % 30);
    if months > 0 && days < 0 {
        days += 30;
        months -= 1;
    } else if months < 0 && days > 0 {
        days -= 30;
        months += 1;
    }
    IntervalMonthDayNano::new(months, days, v.nanoseconds)
}

pub fn justify_interval(v: IntervalMonthDayNano) -> IntervalMonthDayNano {
    let mut v = justify_days(justify_hours(v));
    let us = v.nanoseconds / 1000;
    let negative_tail = v.days < 0 || v.days == 0 && us < 0;
    if v.months > 0 && negative_tail {
        v = IntervalMonthDayNano::new(v.months - 1, v.days + 30, v.nanoseconds);
    } else if v.months < 0 && (v.days > 0 || v.days == 0 && us > 0) {
        v = IntervalMonthDayNano::new(v.months + 1, v.days - 30, v.nanoseconds);
    }
    if v.days > 0 && v.nanoseconds < 0 {
        v = IntervalMonthDayNano::new(v.months, v.days - 1, v.nanoseconds + DAY_US * 1000);
    } else if v.days < 0 && v.nanoseconds > 0 {
        v = IntervalMonthDayNano::new(v.months, v.days + 1, v.nanoseconds - DAY_US * 1000);
    }
    v
}

/// `date_trunc` on local time.
pub fn truncate(unit: &str, us: i64) -> Result<i64> {
    if matches!(us, TIMESTAMP_INFINITY | TIMESTAMP_MINUS_INFINITY) {
        return Ok(us);
    }
    let days = us.div_euclid(DAY_US);
    let (y, m, _) = civil_from_days(days);
    let floor = |step: i64| us.div_euclid(step) * step;
    let year = |y: i64| days_from_civil(y, 1, 1) * DAY_US;
    Ok(match unit.to_ascii_lowercase().as_str() {
        "microsecond" | "microseconds" => us,
        "millisecond" | "milliseconds" => floor(1000),
        "second" | "seconds" => floor(1_000_000),
        "minute" | "minutes" => floor(60_000_000),
        "hour" | "hours" => floor(3_600_000_000),
        "day" | "days" => days * DAY_US,
        "week" | "weeks" => (days - (days + 3).rem_euclid(7)) * DAY_US,
        "month" | "months" => days_from_civil(y, m, 1) * DAY_US,
        "quarter" | "quarters" => days_from_civil(y, (m - 1) / 3 * 3 + 1, 1) * DAY_US,
        "year" | "years" => year(y),
        "decade" | "decades" => year(y.div_euclid(10) * 10),
        "century" | "centuries" => year((y - 1).div_euclid(100) * 100 + 1),
        "millennium" | "millennia" => year((y - 1).div_euclid(1000) * 1000 + 1),
        _ => return Err(unknown_unit(unit, "timestamp without time zone")),
    })
}

pub fn unknown_unit(unit: &str, type_name: &str) -> SqlError {
    let message = format!("unit \"{}\" not recognized for type {type_name}", unit.to_ascii_lowercase());
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// A field of a local timestamp, times 10^scale with its scale. `offset` is the zone's at that instant, seconds.
pub fn extract(unit: &str, us: i64, offset: i64) -> Option<(i128, u8)> {
    let days = us.div_euclid(DAY_US);
    let of_day = us.rem_euclid(DAY_US);
    let (y, m, d) = civil_from_days(days);
    let whole = |v: i64| Some((i128::from(v), 0));
    match unit.to_ascii_lowercase().as_str() {
        "microsecond" | "microseconds" => whole(of_day % 60_000_000),
        "millisecond" | "milliseconds" => Some((i128::from(of_day % 60_000_000), 3)),
        "second" | "seconds" => Some((i128::from(of_day % 60_000_000), 6)),
        "minute" | "minutes" => whole(of_day / 60_000_000 % 60),
        "hour" | "hours" => whole(of_day / 3_600_000_000),
        "day" | "days" => whole(d),
        "month" | "months" => whole(m),
        "quarter" => whole((m - 1) / 3 + 1),
        "year" | "years" => whole(if y > 0 { y } else { y - 1 }),
        "decade" | "decades" => whole(y.div_euclid(10)),
        "century" | "centuries" => whole(if y > 0 { (y + 99) / 100 } else { -((99 - (y - 1)) / 100) }),
        "millennium" | "millennia" => whole(if y > 0 { (y + 999) / 1000 } else { -((999 - (y - 1)) / 1000) }),
        "week" => whole(iso_week(days).1),
        "isoyear" => whole(iso_week(days).0),
        "dow" => whole(day_of_week(days)),
        "isodow" => whole((days + 3).rem_euclid(7) + 1),
        "doy" => whole(days - days_from_civil(y, 1, 1) + 1),
        "epoch" => Some((i128::from(us) - i128::from(offset) * 1_000_000, 6)),
        "julian" => {
            let julian = i128::from(days + 2_440_588) * i128::from(DAY_US) + i128::from(of_day);
            if of_day == 0 {
                return whole(days + 2_440_588);
            }
            Some((julian * 1_000_000_000 / i128::from(DAY_US), 9))
        }
        "timezone" => whole(offset),
        "timezone_hour" => whole(offset / 3600),
        "timezone_minute" => whole(offset / 60 % 60),
        _ => None,
    }
}

/// A field of an interval.
pub fn extract_interval(unit: &str, v: IntervalMonthDayNano) -> Option<(i128, u8)> {
    let us = v.nanoseconds / 1000;
    let (years, months) = (i64::from(v.months / 12), i64::from(v.months % 12));
    let whole = |v: i64| Some((i128::from(v), 0));
    match unit.to_ascii_lowercase().as_str() {
        "microsecond" | "microseconds" => whole(us % 60_000_000),
        "millisecond" | "milliseconds" => Some((i128::from(us % 60_000_000), 3)),
        "second" | "seconds" => Some((i128::from(us % 60_000_000), 6)),
        "minute" | "minutes" => whole(us / 60_000_000 % 60),
        "hour" | "hours" => whole(us / 3_600_000_000),
        "day" | "days" => whole(i64::from(v.days)),
        "month" | "months" => whole(months),
        "quarter" => whole(months / 3 + 1),
        "year" | "years" => whole(years),
        "decade" | "decades" => whole(years / 10),
        "century" | "centuries" => whole(years / 100),
        "millennium" | "millennia" => whole(years / 1000),
        "epoch" => {
            // A year is 365.25 days, a month 30 days.
            let days =
                i128::from(years) * 36_525 * 864 + i128::from(months) * 30 * 86_400 + i128::from(v.days) * 86_400;
            Some((days * 1_000_000 + i128::from(us), 6))
        }
        _ => None,
    }
}

/// The start of the bin of `stride` that holds `us`, counted from `origin`.
pub fn bin(stride: IntervalMonthDayNano, us: i64, origin: i64) -> Result<i64> {
    if stride.months != 0 {
        return Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "timestamps cannot be binned into intervals containing months or years",
        ));
    }
    let step = i64::from(stride.days) * DAY_US + stride.nanoseconds / 1000;
    if step <= 0 {
        return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "stride must be greater than zero"));
    }
    let since = us.checked_sub(origin).ok_or_else(|| out_of_range("timestamp"))?;
    Ok(origin + since.div_euclid(step) * step)
}

/// Divided with what months and days leave over carried down, as PostgreSQL does.
pub fn divide_interval(v: IntervalMonthDayNano, by: f64) -> Result<IntervalMonthDayNano> {
    scale_interval(v, 1.0 / by, by)
}

pub fn multiply_interval(v: IntervalMonthDayNano, by: f64) -> Result<IntervalMonthDayNano> {
    scale_interval(v, by, 0.0)
}

/// `divisor` of zero: multiply by `factor`.
fn scale_interval(v: IntervalMonthDayNano, factor: f64, divisor: f64) -> Result<IntervalMonthDayNano> {
    let scaled = |n: f64| if divisor == 0.0 { n * factor } else { n / divisor };
    let clean = |n: f64| (n * 1e6).round() / 1e6;
    let months = scaled(f64::from(v.months));
    let days = scaled(f64::from(v.days));
    if !months.is_finite() || months.abs() > f64::from(i32::MAX) || days.abs() > f64::from(i32::MAX) {
        return Err(out_of_range("interval"));
    }
    let month_days = clean(months.fract() * 30.0);
    let mut whole_days = days.trunc() + month_days.trunc();
    let mut seconds = clean((days.fract() + month_days.fract()) * 86_400.0);
    if seconds.abs() >= 86_400.0 {
        whole_days += (seconds / 86_400.0).trunc();
        seconds %= 86_400.0;
    }
    let us = (scaled((v.nanoseconds / 1000) as f64) + seconds * 1e6).round();
    if us.abs() > 9.2e15 {
        return Err(out_of_range("interval"));
    }
    Ok(IntervalMonthDayNano::new(months.trunc() as i32, whole_days as i32, us as i64 * 1000))
}

/// The interval `share` of the way from `a` to `b`.
pub fn interpolate(a: IntervalMonthDayNano, b: IntervalMonthDayNano, share: f64) -> Result<IntervalMonthDayNano> {
    let step = multiply_interval(subtract_intervals(b, a)?, share)?;
    add_intervals(a, step)
}

pub fn add_intervals(a: IntervalMonthDayNano, b: IntervalMonthDayNano) -> Result<IntervalMonthDayNano> {
    let overflow = || out_of_range("interval");
    Ok(IntervalMonthDayNano::new(
        a.months.checked_add(b.months).ok_or_else(overflow)?,
        a.days.checked_add(b.days).ok_or_else(overflow)?,
        a.nanoseconds.checked_add(b.nanoseconds).ok_or_else(overflow)?,
    ))
}

pub fn subtract_intervals(a: IntervalMonthDayNano, b: IntervalMonthDayNano) -> Result<IntervalMonthDayNano> {
    add_intervals(a, negate_interval(b))
}
