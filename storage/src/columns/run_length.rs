//! Equal neighbours as one: run ends (u32), then the value of each run. For fixed-width values without nulls, such as
//! the commit timestamps of many rows that came together.

use arrow::buffer::{Buffer, MutableBuffer};

use super::{Malformed, align_up};

/// The two buffers, if they take at most half of what the values take as they are.
pub(crate) fn encode(values: &[u8], width: usize) -> Option<[Buffer; 2]> {
    let rows = values.len() / width;
    let runs_max = values.len() / 2 / (width + size_of::<u32>());
    let mut ends: Vec<u32> = Vec::new();
    let mut kept = Vec::new();
    for row in 0..rows {
        let value = &values[row * width..][..width];
        let end = u32::try_from(row + 1).ok()?;
        let full = ends.len() == runs_max;
        match ends.last_mut() {
            Some(last) if kept[kept.len() - width..] == *value => *last = end,
            _ if full => return None,
            _ => {
                ends.push(end);
                kept.extend_from_slice(value);
            }
        }
    }
    let encoded = [Buffer::from_vec(ends), Buffer::from_vec(kept)];
    (2 * encoded.iter().map(|b| align_up(b.len())).sum::<usize>() <= values.len()).then_some(encoded)
}

/// The values. `rows` is checked against the page's bound by the caller, so a hostile one cannot allocate much.
pub(crate) fn decode(buffers: &[Buffer], width: usize, rows: usize) -> Result<Buffer, Malformed> {
    let [ends, kept] = buffers else { return Err(Malformed("run length page without its two buffers")) };
    if !ends.len().is_multiple_of(4) || ends.len() / 4 * width != kept.len() {
        return Err(Malformed("run ends do not match their values"));
    }
    let mut values = MutableBuffer::with_capacity(rows * width);
    let mut row = 0usize;
    for (end, value) in ends.chunks_exact(4).zip(kept.chunks_exact(width)) {
        let end = u32::from_le_bytes([end[0], end[1], end[2], end[3]]) as usize;
        if end <= row || end > rows {
            return Err(Malformed("run ends do not ascend"));
        }
        for _ in row..end {
            values.extend_from_slice(value);
        }
        row = end;
    }
    if row == rows { Ok(values.into()) } else { Err(Malformed("runs end before the page's rows")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_come_back_and_bad_ones_are_refused() {
        let values: Vec<u8> = (0..4096u32).flat_map(|i| u64::from(i / 100).to_le_bytes()).collect();
        let encoded = encode(&values, 8).unwrap();
        assert_eq!(decode(&encoded, 8, 4096).unwrap().as_slice(), values.as_slice());
        for rows in [0, 4095, 4097] {
            assert!(decode(&encoded, 8, rows).is_err());
        }
        let distinct: Vec<u8> = (0..4096u64).flat_map(u64::to_le_bytes).collect();
        assert!(encode(&distinct, 8).is_none());
    }
}
