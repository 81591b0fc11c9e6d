//! Which segments the log may drop: a pure choice, oldest first, whole files only.

use crate::base::ids::{CommitTimestamp, SequenceNumber};
use crate::catalog::Retention;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentAge {
    pub end: SequenceNumber,
    pub last_arrived: CommitTimestamp,
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct RetentionPolicy {
    pub log_retention: Retention,
    /// Beyond this a registered reader does not hold rows back any more.
    pub log_retention_max: Option<Retention>,
    /// Rows below this are in parts, or need not be (`history_retention = '0'`: a row ends with the log, so all of
    /// them), or cannot be seen any more. Only such rows may go.
    pub settled: SequenceNumber,
    /// The first row that some registered reader still needs.
    pub held_from: Option<SequenceNumber>,
    pub now: CommitTimestamp,
}

/// How many of the oldest segments to drop.
pub(crate) fn choose_drops(segments: &[SegmentAge], policy: &RetentionPolicy) -> usize {
    let mut kept_bytes: u64 = segments.iter().map(|s| s.bytes).sum();
    let mut count = 0;
    for segment in segments {
        let expired = |retention: Retention| match retention {
            Retention::Forever => false,
            Retention::Time { us } => policy.now.0.saturating_sub(segment.last_arrived.0) >= us,
            // Bytes that are kept: the oldest goes once the younger ones alone fill the bound.
            Retention::Bytes { bytes } => kept_bytes - segment.bytes >= bytes,
        };
        let held = policy.held_from.is_some_and(|held| segment.end > held);
        let forced = policy.log_retention_max.is_some_and(expired);
        if segment.end > policy.settled || !(forced || (expired(policy.log_retention) && !held)) {
            break;
        }
        kept_bytes -= segment.bytes;
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_of_what_to_drop() {
        // Three segments of 100 bytes that end at rows 10, 20, 30 and arrived at 1,000, 2,000, 3,000 µs.
        let segments: Vec<SegmentAge> = (1..=3)
            .map(|i| SegmentAge {
                end: SequenceNumber(i * 10),
                last_arrived: CommitTimestamp(i as i64 * 1_000),
                bytes: 100,
            })
            .collect();
        let all = SequenceNumber(u64::MAX);
        let time = |us| Retention::Time { us };
        let bytes = |bytes| Retention::Bytes { bytes };
        let sn = |n| Some(SequenceNumber(n));
        let table = [
            ("for ever", Retention::Forever, None, all, None, 0),
            ("younger than the bound", time(10_000), None, all, None, 0),
            ("two are old enough", time(3_000), None, all, None, 2),
            ("nothing is settled", time(0), None, SequenceNumber(0), None, 0),
            ("one is settled", time(0), None, SequenceNumber(19), None, 1),
            ("no time at all", time(0), None, all, None, 3),
            ("bytes: the bound is kept full", bytes(150), None, all, None, 1),
            ("bytes: exactly", bytes(200), None, all, None, 1),
            ("bytes: room left", bytes(301), None, all, None, 0),
            ("a reader holds rows", time(0), None, all, sn(15), 1),
            ("a reader holds rows until the last bound", time(0), Some(time(3_000)), all, sn(5), 2),
            ("the last bound frees no unsettled rows", time(0), Some(time(0)), SequenceNumber(10), sn(0), 1),
        ];
        for (what, log_retention, log_retention_max, settled, held_from, expected) in table {
            let now = CommitTimestamp(5_000);
            let policy = RetentionPolicy { log_retention, log_retention_max, settled, held_from, now };
            assert_eq!(choose_drops(&segments, &policy), expected, "{what}");
        }
    }
}
