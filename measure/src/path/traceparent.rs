//! Names of traces (W3C Trace Context), by which spans of services tell of which message they are.

use std::time::{SystemTime, UNIX_EPOCH};

/// Of all messages that are sent over the ends of one path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traces {
    /// The first half of each, never 0.
    begin: u64,
    key: u64,
}

impl Traces {
    /// Others each time, also with the same seed: spans of an earlier run may come late.
    pub(super) fn new(seed: u64) -> Traces {
        let begun = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        Traces::at(seed, begun ^ u64::from(std::process::id()).rotate_left(48))
    }

    fn at(seed: u64, begun: u64) -> Traces {
        let key = mixed(seed ^ mixed(begun));
        Traces { begin: mixed(key).max(1), key }
    }

    /// How all of them begin.
    pub(super) fn begin(&self) -> String {
        format!("{:016x}", self.begin)
    }

    /// The trace of a message.
    pub(super) fn trace(&self, number: u64) -> String {
        format!("{:016x}{:016x}", self.begin, mixed(self.key ^ number))
    }

    /// The header of its request, without its line end.
    pub(super) fn header(&self, number: u64) -> String {
        let span = mixed(!self.key ^ number).max(1);
        format!("traceparent: 00-{}-{span:016x}-01", self.trace(number))
    }
}

/// SplitMix64: other numbers for other numbers.
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn headers_are_those_of_the_standard_and_never_the_same_or_zero() {
        let (mut traces, mut spans) = (HashSet::new(), HashSet::new());
        for (seed, begun) in [(1, 1), (1, 2), (2, 1), (0, 0), (u64::MAX, u64::MAX)] {
            let of = Traces::at(seed, begun);
            for number in 0..10_000 {
                let header = of.header(number);
                let parts: Vec<&str> = header.strip_prefix("traceparent: ").unwrap().split('-').collect();
                let [version, trace, span, flags] = parts[..] else { panic!("{header}") };
                assert_eq!((version, flags, trace.len(), span.len()), ("00", "01", 32, 16));
                let is_hex =
                    |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
                assert!(is_hex(trace) && is_hex(span) && trace[..16] != *"0".repeat(16) && span != "0".repeat(16));
                assert_eq!((trace, &trace[..16]), (&*of.trace(number), &*of.begin()));
                assert!(traces.insert(trace.to_string()) && spans.insert(span.to_string()), "{header}");
            }
        }
        assert_ne!(Traces::new(1).begin(), Traces::new(1).begin(), "two runs with one seed");
    }
}
