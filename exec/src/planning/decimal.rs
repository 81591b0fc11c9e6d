//! `numeric` arithmetic on 256-bit integers with a scale, rounded as PostgreSQL rounds.
//! Owns digits and scales; knows neither arrays nor plans.

use std::cmp::Ordering;

use arrow::datatypes::i256;

use crate::sql::error::{Result, SqlError, SqlState};

/// The scale of `numeric` without modifier.
pub const SCALE_ANY: u8 = 20;
const DIGITS_MAX: u32 = 76;
/// PostgreSQL gives a quotient at least this many significant digits.
const SIGNIFICANT_DIGITS_MIN: i32 = 16;

#[derive(Clone, Copy, Debug)]
pub struct Decimal {
    /// The value times 10^scale.
    pub digits: i256,
    pub scale: u8,
}

pub fn overflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format")
}

pub fn division_by_zero() -> SqlError {
    SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

pub fn power_of_ten(exponent: u32) -> Option<i256> {
    if exponent > DIGITS_MAX {
        return None;
    }
    let mut power = i256::ONE;
    let mut left = exponent;
    while left > 0 {
        let step = left.min(38);
        power = power.checked_mul(i256::from_i128(10_i128.pow(step)))?;
        left -= step;
    }
    Some(power)
}

/// Quotient rounded half away from zero.
fn divide_rounded(dividend: i256, divisor: i256) -> Option<i256> {
    let quotient = dividend.checked_div(divisor)?;
    let remainder = dividend.checked_rem(divisor)?.wrapping_abs();
    let half = divisor.wrapping_abs().wrapping_sub(remainder);
    if remainder >= half {
        let negative = (dividend < i256::ZERO) != (divisor < i256::ZERO);
        return if negative { quotient.checked_sub(i256::ONE) } else { quotient.checked_add(i256::ONE) };
    }
    Some(quotient)
}

impl Decimal {
    pub const ZERO: Self = Self { digits: i256::ZERO, scale: 0 };

    pub fn from_i128(value: i128) -> Self {
        Self { digits: i256::from_i128(value), scale: 0 }
    }

    /// As written: digits, one point, an exponent. `None` = no number.
    pub fn parse(text: &str) -> Option<Result<Self>> {
        let text = text.trim();
        let (negative, unsigned) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
            Some(at) => (&unsigned[..at], unsigned[at + 1..].parse::<i32>().ok()?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        if !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
            return None;
        }
        let mut digits = i256::ZERO;
        let mut scale = fraction.len() as i64 - i64::from(exponent);
        let mut kept = 0;
        let ten = i256::from_i128(10);
        for (i, b) in whole.bytes().chain(fraction.bytes()).enumerate() {
            if kept == DIGITS_MAX {
                // Digits past the greatest precision are rounded away where they are a fraction.
                let dropped = (whole.len() + fraction.len() - i) as i64;
                scale -= dropped;
                if scale < 0 {
                    return Some(Err(overflow()));
                }
                if b >= b'5' {
                    digits = digits.wrapping_add(i256::ONE);
                }
                break;
            }
            digits = digits.wrapping_mul(ten).wrapping_add(i256::from_i128(i128::from(b - b'0')));
            if kept > 0 || b != b'0' {
                kept += 1;
            }
        }
        if negative {
            digits = digits.wrapping_neg();
        }
        if scale < 0 {
            let power = u32::try_from(-scale).ok().and_then(power_of_ten);
            return Some(match power.and_then(|p| digits.checked_mul(p)).filter(|d| fits(*d)) {
                Some(digits) => Ok(Self { digits, scale: 0 }),
                None if digits == i256::ZERO => Ok(Self::ZERO),
                None => Err(overflow()),
            });
        }
        let value = if scale > i64::from(DIGITS_MAX as u8) {
            let extra = u32::try_from(scale - i64::from(DIGITS_MAX as u8)).unwrap_or(u32::MAX);
            let digits = power_of_ten(extra).and_then(|p| divide_rounded(digits, p)).unwrap_or(i256::ZERO);
            Self { digits, scale: DIGITS_MAX as u8 }
        } else {
            Self { digits, scale: scale as u8 }
        };
        Some(Ok(value))
    }

    /// The nearest decimal of 15 significant digits (17 are noise to a reader), as PostgreSQL converts float8.
    pub fn from_f64(value: f64, significant: usize) -> Result<Self> {
        if !value.is_finite() {
            return Err(SqlError::unsupported(format_args!("numeric {value}")).hint("Use double precision."));
        }
        let text = format!("{:.*e}", significant.saturating_sub(1), value);
        let parsed = Self::parse(&text).unwrap_or_else(|| Err(overflow()))?;
        Ok(parsed.without_trailing_zeros())
    }

    pub fn to_f64(self) -> f64 {
        self.to_string().parse().unwrap_or(f64::NAN)
    }

    pub fn with_scale(self, scale: u8) -> Result<Self> {
        match scale.cmp(&self.scale) {
            Ordering::Equal => Ok(self),
            Ordering::Greater => {
                let digits = power_of_ten(u32::from(scale - self.scale)).and_then(|p| self.digits.checked_mul(p));
                Ok(Self { digits: digits.filter(|d| fits(*d)).ok_or_else(overflow)?, scale })
            }
            Ordering::Less => {
                let digits = power_of_ten(u32::from(self.scale - scale)).and_then(|p| divide_rounded(self.digits, p));
                Ok(Self { digits: digits.ok_or_else(overflow)?, scale })
            }
        }
    }

    pub fn without_trailing_zeros(self) -> Self {
        let ten = i256::from_i128(10);
        let mut value = self;
        while value.scale > 0 && value.digits.wrapping_rem(ten) == i256::ZERO {
            value = Self { digits: value.digits.wrapping_div(ten), scale: value.scale - 1 };
        }
        value
    }

    fn aligned(self, other: Self) -> Result<(i256, i256, u8)> {
        let (a, b) = (self.without_trailing_zeros(), other.without_trailing_zeros());
        let scale = a.scale.max(b.scale);
        Ok((a.with_scale(scale)?.digits, b.with_scale(scale)?.digits, scale))
    }

    pub fn add(self, other: Self) -> Result<Self> {
        let (a, b, scale) = self.aligned(other)?;
        Ok(Self { digits: a.checked_add(b).filter(|d| fits(*d)).ok_or_else(overflow)?, scale })
    }

    pub fn subtract(self, other: Self) -> Result<Self> {
        self.add(Self { digits: other.digits.wrapping_neg(), scale: other.scale })
    }

    pub fn multiply(self, other: Self) -> Result<Self> {
        let (mut a, mut b) = (self.without_trailing_zeros(), other.without_trailing_zeros());
        loop {
            let scale = u32::from(a.scale) + u32::from(b.scale);
            if let Some(digits) = a.digits.checked_mul(b.digits).filter(|d| fits(*d))
                && scale <= DIGITS_MAX
            {
                return Ok(Self { digits, scale: scale as u8 });
            }
            // Too long: give up the finest digits of the finer factor.
            let finer = if a.scale >= b.scale { &mut a } else { &mut b };
            if finer.scale <= SCALE_ANY / 2 {
                return Err(overflow());
            }
            *finer = finer.with_scale(finer.scale - 1)?;
        }
    }

    /// The scale PostgreSQL gives a quotient: 16 significant digits, never fewer than an operand's.
    pub fn divide(self, other: Self) -> Result<Self> {
        if other.digits == i256::ZERO {
            return Err(division_by_zero());
        }
        let (a, b) = (self.without_trailing_zeros(), other.without_trailing_zeros());
        let quotient_weight = {
            let (first_a, weight_a) = a.leading();
            let (first_b, weight_b) = b.leading();
            weight_a - weight_b - i32::from(first_a <= first_b)
        };
        let scale = (SIGNIFICANT_DIGITS_MIN - quotient_weight * 4).max(i32::from(a.scale.max(b.scale))).max(0);
        let scale = scale.min(i32::from(SCALE_ANY) * 2) as u8;
        // a/10^sa / (b/10^sb) * 10^scale = a * 10^(scale + sb - sa) / b
        let exponent = i32::from(scale) + i32::from(b.scale) - i32::from(a.scale);
        let digits = if exponent >= 0 {
            power_of_ten(exponent as u32)
                .and_then(|p| a.digits.checked_mul(p))
                .and_then(|n| divide_rounded(n, b.digits))
        } else {
            power_of_ten((-exponent) as u32)
                .and_then(|p| b.digits.checked_mul(p))
                .and_then(|d| divide_rounded(a.digits, d))
        };
        match digits {
            Some(digits) => Ok(Self { digits, scale }),
            None => {
                // The exact dividend does not fit: divide with the scale that does.
                let digits = a.digits.checked_div(b.digits).ok_or_else(overflow)?;
                Self { digits, scale: a.scale.saturating_sub(b.scale) }.with_scale(a.scale.saturating_sub(b.scale))
            }
        }
    }

    /// First base-10000 digit and weight, as PostgreSQL's `select_div_scale` wants them.
    fn leading(self) -> (i32, i32) {
        let text = self.digits.wrapping_abs().to_string();
        if text == "0" {
            return (0, 0);
        }
        let whole = text.len() as i32 - i32::from(self.scale);
        let weight = (whole - 1).div_euclid(4);
        let in_first = (whole - weight * 4) as usize;
        let mut first: String = text.chars().take(in_first).collect();
        while first.len() < in_first {
            first.push('0');
        }
        (first.parse().unwrap_or(0), weight)
    }

    pub fn remainder(self, other: Self) -> Result<Self> {
        if other.digits == i256::ZERO {
            return Err(division_by_zero());
        }
        let (a, b, scale) = self.aligned(other)?;
        Ok(Self { digits: a.wrapping_rem(b), scale })
    }

    /// Rounds to `places` after the point, or before it when negative.
    pub fn round(self, places: i32) -> Result<Self> {
        if places >= 0 {
            let scale = u8::try_from(places).unwrap_or(u8::MAX);
            return if scale >= self.scale { Ok(self) } else { self.with_scale(scale) };
        }
        let whole = u32::from(self.scale) + places.unsigned_abs();
        let Some(power) = power_of_ten(whole) else { return Ok(Self::ZERO) };
        let rounded = divide_rounded(self.digits, power).ok_or_else(overflow)?;
        let back = power_of_ten(places.unsigned_abs()).and_then(|p| rounded.checked_mul(p)).ok_or_else(overflow)?;
        Ok(Self { digits: back, scale: 0 })
    }

    pub fn truncate(self, places: i32) -> Result<Self> {
        let drop = i32::from(self.scale) - places;
        if drop <= 0 {
            return Ok(self);
        }
        let Some(power) = power_of_ten(drop as u32) else { return Ok(Self::ZERO) };
        let digits = self.digits.wrapping_div(power);
        if places >= 0 {
            return Ok(Self { digits, scale: places as u8 });
        }
        let back = power_of_ten(places.unsigned_abs()).and_then(|p| digits.checked_mul(p)).ok_or_else(overflow)?;
        Ok(Self { digits: back, scale: 0 })
    }

    pub fn floor(self) -> Result<Self> {
        let whole = self.truncate(0)?;
        let below = self.digits < i256::ZERO && whole.compare(self)? != Ordering::Equal;
        if below { whole.subtract(Self::from_i128(1)) } else { Ok(whole) }
    }

    pub fn ceiling(self) -> Result<Self> {
        let negated = Self { digits: self.digits.wrapping_neg(), scale: self.scale }.floor()?;
        Ok(Self { digits: negated.digits.wrapping_neg(), scale: negated.scale })
    }

    /// Newton's method to 16 significant digits, as PostgreSQL's numeric `sqrt`.
    pub fn square_root(self) -> Result<Self> {
        if self.digits < i256::ZERO {
            let state = SqlState("2201F");
            return Err(SqlError::new(state, "cannot take square root of a negative number"));
        }
        if self.digits == i256::ZERO {
            return Ok(Self::ZERO);
        }
        let a = self.without_trailing_zeros();
        let (_, weight) = a.leading();
        let whole_digits = weight * 2 + 1;
        let scale = (SIGNIFICANT_DIGITS_MIN - whole_digits).max(i32::from(a.scale)).clamp(0, 30) as u8;
        let exponent = 2 * u32::from(scale) + 2 - u32::from(a.scale).min(2 * u32::from(scale) + 2);
        let target = power_of_ten(exponent).and_then(|p| a.digits.checked_mul(p)).ok_or_else(overflow)?;
        let mut x = i256::from_f64(target.to_string().parse::<f64>().unwrap_or(1.0).sqrt()).unwrap_or(i256::ONE);
        for _ in 0..64 {
            let next = x.wrapping_add(target.wrapping_div(x.max(i256::ONE))).wrapping_div(i256::from_i128(2));
            if next == x || next.wrapping_sub(x).wrapping_abs() == i256::ONE && next > x {
                break;
            }
            x = next;
        }
        Self { digits: x, scale: scale + 1 }.with_scale(scale)
    }

    pub fn compare(self, other: Self) -> Result<Ordering> {
        let (a, b, _) = self.aligned(other)?;
        Ok(a.cmp(&b))
    }

    pub fn is_negative(self) -> bool {
        self.digits < i256::ZERO
    }

    /// Rounded half away from zero; `None` = out of range.
    pub fn to_i128(self) -> Option<i128> {
        self.with_scale(0).ok()?.digits.to_i128()
    }

    /// True where the value needs no more than `precision` digits.
    pub fn fits(self, precision: u8) -> bool {
        power_of_ten(u32::from(precision)).is_none_or(|p| self.digits.wrapping_abs() < p)
    }
}

fn fits(digits: i256) -> bool {
    power_of_ten(DIGITS_MAX).is_some_and(|p| digits < p && digits > p.wrapping_neg())
}

impl std::fmt::Display for Decimal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = self.digits.wrapping_abs().to_string();
        let sign = if self.digits < i256::ZERO { "-" } else { "" };
        let scale = usize::from(self.scale);
        if scale == 0 {
            return write!(f, "{sign}{text}");
        }
        let padded = format!("{text:0>width$}", width = scale + 1);
        let (whole, fraction) = padded.split_at(padded.len() - scale);
        write!(f, "{sign}{whole}.{fraction}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Decimal {
        Decimal::parse(text).expect("a number").expect("in range")
    }

    #[test]
    fn quotients_have_postgres_digits() {
        for (a, b, quotient) in [
            ("1", "3", "0.33333333333333333333"),
            ("10", "3", "3.3333333333333333"),
            ("2", "3", "0.66666666666666666667"),
            ("10", "4", "2.5"),
            ("1000000", "7", "142857.142857142857"),
            ("-7", "2", "-3.5"),
        ] {
            let q = number(a).divide(number(b)).expect("divisible").without_trailing_zeros();
            assert_eq!(q.to_string(), quotient, "{a}/{b}");
        }
    }

    #[test]
    fn rounding_goes_away_from_zero() {
        assert_eq!(number("2.5").round(0).expect("in range").to_string(), "3");
        assert_eq!(number("-2.5").round(0).expect("in range").to_string(), "-3");
        assert_eq!(number("1250").round(-2).expect("in range").to_string(), "1300");
        assert_eq!(number("-0.5").floor().expect("in range").to_string(), "-1");
        assert_eq!(number("0.2").ceiling().expect("in range").to_string(), "1");
        assert_eq!(number("1e3").to_string(), "1000");
        assert_eq!(number("1.5e-3").to_string(), "0.0015");
        assert_eq!(number("2").square_root().expect("in range").to_string(), "1.414213562373095");
    }
}
