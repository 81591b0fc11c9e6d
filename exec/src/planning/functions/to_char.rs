//! Templates of `to_char` and `to_date`: numbers, dates and times.
