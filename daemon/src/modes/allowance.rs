//! What those who connect may cost, in time of the thread that hears them: members a share each, strangers one
//! together. Pure.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A bucket of units that fills steadily. What is taken beyond it is owed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    each: Duration,
    most: Duration,
    /// When it is full.
    full: Instant,
}

impl Allowance {
    /// Full, with this many units, and as many more in a second as `rate` says.
    pub(super) fn new(rate: u32, units: u32, now: Instant) -> Allowance {
        let each = Duration::from_secs(1) / rate;
        Allowance { each, most: each * units, full: now }
    }

    /// How long until there is a unit; nothing: there is one.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        (self.full + self.each).saturating_duration_since(now).saturating_sub(self.most)
    }

    pub(super) fn take(&mut self, units: u32, now: Instant) {
        self.full = self.full.max(now) + self.each * units;
    }
}

/// From where a connection comes, as far as the kernel vouches for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// TCP: a host, of IPv6 its network of 64 bits.
    Address(u64, u64),
    /// vsock: a virtual machine.
    Machine(u32),
    /// A Unix socket: a user.
    User(u32),
    Unknown,
}

/// Which of so many strangers has to make room for one more: the one that has been here longest, of those that come
/// from where most of them come from. So who comes alone is not driven out by a crowd from elsewhere.
pub(super) fn gives_way(strangers: &[(Origin, Instant)]) -> Option<usize> {
    let mut crowds: BTreeMap<Origin, usize> = BTreeMap::new();
    strangers.iter().for_each(|(origin, _)| *crowds.entry(*origin).or_default() += 1);
    let most = crowds.values().copied().max()?;
    let among = (0..strangers.len()).filter(|&place| crowds[&strangers[place].0] == most);
    among.min_by_key(|&place| strangers[place].1)
}

/// Counts what happens too often for a line each: the first of a time is told at once, then a summary for each
/// interval.
#[derive(Debug)]
pub(super) struct Tally {
    what: &'static str,
    every: Duration,
    counts: BTreeMap<&'static str, u64>,
    next: Option<Instant>,
}

impl Tally {
    pub(super) fn new(what: &'static str, every: Duration) -> Tally {
        Tally { what, every, counts: BTreeMap::new(), next: None }
    }

    /// A line to be logged, if it is the first for a while.
    pub(super) fn add(&mut self, why: &'static str, now: Instant) -> Option<String> {
        *self.counts.entry(why).or_default() += 1;
        match self.next {
            Some(_) => self.due(now),
            None => {
                self.next = Some(now + self.every);
                self.counts.clear();
                Some(format!("{}: {why}", self.what))
            }
        }
    }

    /// The summary, if its time has come.
    pub(super) fn due(&mut self, now: Instant) -> Option<String> {
        if self.next.is_none_or(|next| now < next) {
            return None;
        }
        let all: u64 = self.counts.values().sum();
        self.next = (all > 0).then(|| now + self.every);
        let each: Vec<String> =
            std::mem::take(&mut self.counts).iter().map(|(why, count)| format!("{count} {why}")).collect();
        (all > 0).then(|| format!("{}: {all} more in {} s: {}", self.what, self.every.as_secs(), each.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);

    proptest! {
        /// In any window of length t at most the bucket, what t fills, and one taking more.
        #[test]
        fn what_is_taken_is_bounded_in_every_window(gaps in prop::collection::vec((0u32..40, 1u32..20), 1..200)) {
            let begun = Instant::now();
            let (mut allowance, mut now) = (Allowance::new(1000, 50, begun), begun);
            let mut taken: Vec<(Instant, u32)> = Vec::new();
            for (gap, units) in gaps {
                now += MS * gap;
                if allowance.wait(now).is_zero() {
                    allowance.take(units, now);
                    taken.push((now, units));
                } else {
                    prop_assert!(allowance.wait(now + allowance.wait(now)).is_zero(), "it says how long");
                }
            }
            for (first, (from, _)) in taken.iter().enumerate() {
                let mut sum = 0;
                for (at, units) in &taken[first..] {
                    sum += units;
                    prop_assert!(u128::from(sum) <= 50 + at.duration_since(*from).as_millis() + 20);
                }
            }
        }

        /// However many come from one place, who comes alone from another stays.
        #[test]
        fn a_crowd_drives_out_its_own(crowd in 2usize..100, alone in 0usize..100) {
            let now = Instant::now();
            let one = |nth: usize| (Origin::User(65534), now + MS * nth as u32);
            let mut all: Vec<(Origin, Instant)> = (0..crowd).map(one).collect();
            all.insert(alone.min(crowd), (Origin::User(0), now - MS));
            let gone = gives_way(&all).unwrap();
            prop_assert_eq!(all[gone], (Origin::User(65534), now), "the oldest of the crowd");
        }
    }

    #[test]
    fn a_flood_of_events_is_a_line_an_interval_with_all_counts() {
        let (begun, mut lines) = (Instant::now(), Vec::new());
        let mut tally = Tally::new("refused", Duration::from_secs(10));
        for nth in 0..24_599u32 {
            let why = if nth % 3 == 0 { "said nothing" } else { "no key" };
            lines.extend(tally.add(why, begun + MS * nth));
        }
        lines.extend(tally.due(begun + Duration::from_secs(30)));
        assert_eq!(lines[0], "refused: said nothing");
        assert_eq!(lines.len(), 4, "{lines:?}");
        let told = |line: &String| line.split(' ').nth(1).and_then(|count| count.parse::<u64>().ok()).unwrap_or(1);
        assert_eq!(lines.iter().map(told).sum::<u64>(), 24_599);
        assert_eq!(tally.due(begun + Duration::from_secs(60)), None, "nothing more, nothing said");
        assert!(tally.add("again", begun + Duration::from_secs(61)).is_some());
    }
}
