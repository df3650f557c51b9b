//! Whether an interface makes the host work more than its bucket allows: then its threads are demoted for a while.

use std::time::{Duration, Instant};

/// The window in which work is compared with what is allowed in it.
const WINDOW: Duration = Duration::from_secs(1);
/// How long it stays demoted at first, and at most; twice as long each time that it is soon again.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(64));

/// Some work that only grows, in the window that has begun at `since`.
#[derive(Clone, Copy, Debug)]
struct Window {
    since: Instant,
    work: u64,
}

/// The work of one interface, and its demotions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overrun {
    windows: [Option<Window>; 2],
    /// The end of its last demotion.
    until: Option<Instant>,
    pause: Duration,
}

/// Work that is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Packets of its that the host had to drop.
    Refused,
    /// Processor time of its threads, in ns.
    Time,
}

impl Overrun {
    /// `work` was done so far, of which `allowed` may be in a second. Looks may be as seldom as one likes: a longer window allows
    /// more.
    pub(crate) fn see(&mut self, kind: Work, work: u64, allowed: u64, now: Instant) {
        let window = &mut self.windows[kind as usize];
        let begun = window.get_or_insert(Window { since: now, work });
        if work < begun.work {
            *begun = Window { since: now, work }; // another interface, or other threads
        }
        let passed = now.saturating_duration_since(begun.since);
        let exceeds = (work - begun.work) as f64 > allowed as f64 * passed.as_secs_f64().max(WINDOW.as_secs_f64());
        if passed >= WINDOW || exceeds {
            *begun = Window { since: now, work };
        }
        if !exceeds {
            return;
        }
        if self.is_demoted(now) {
            self.until = self.until.max(Some(now + WINDOW)); // it goes on
            return;
        }
        let soon = self.until.is_some_and(|until| now.saturating_duration_since(until) < self.pause * 2);
        self.pause = if soon { (self.pause * 2).min(PAUSE.1) } else { PAUSE.0 };
        self.until = Some(now + self.pause);
    }

    /// Whether it is demoted now.
    pub(crate) fn is_demoted(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// The looks, one every 100 ms, at which it was demoted, for so much work before each.
    fn played(allowed: u64, work: impl Fn(u64) -> u64, turns: u64) -> Vec<u64> {
        let (begin, mut overrun, mut done) = (Instant::now(), Overrun::default(), 0);
        let demoted = (0..turns).filter(|&turn| {
            let now = begin + ms(100 * turn);
            done += work(turn);
            overrun.see(Work::Refused, done, allowed, now);
            overrun.is_demoted(now)
        });
        demoted.collect()
    }

    #[test]
    fn what_is_allowed_is_left_in_peace() {
        assert!(played(1000, |_| 100, 1000).is_empty());
        // All of a second at once, each second.
        assert!(played(1000, |turn| if turn % 10 == 0 { 1000 } else { 0 }, 1000).is_empty());
        assert!(played(1000, |_| 0, 1000).is_empty());
    }

    #[test]
    fn it_is_demoted_as_long_as_it_does_more_and_then_for_a_pause() {
        let demoted = played(1000, |turn| if (50..200).contains(&turn) { 500 } else { 0 }, 400);
        assert!((50..=53).contains(&demoted[0]), "{demoted:?}");
        assert!((200..=215).contains(demoted.last().unwrap()), "{demoted:?}");
        assert_eq!(
            demoted.len() as u64,
            demoted.last().unwrap() - demoted[0] + 1,
            "it was promoted in between: {demoted:?}"
        );
    }

    #[test]
    fn repeated_overruns_are_demoted_longer_and_longer() {
        // It does more whenever it is promoted.
        let (begin, mut overrun, mut done, mut ups) = (Instant::now(), Overrun::default(), 0, 0);
        for turn in 0..6000 {
            let now = begin + ms(100 * turn);
            let up = !overrun.is_demoted(now);
            ups += u64::from(up);
            done += if up { 2000 } else { 0 };
            overrun.see(Work::Refused, done, 1000, now);
        }
        assert!((10..40).contains(&ups), "it was up in {ups} of 6000 looks");
    }

    #[test]
    fn a_look_late_allows_more_and_another_interface_begins_anew() {
        let (begin, mut overrun) = (Instant::now(), Overrun::default());
        overrun.see(Work::Time, 0, 100, begin);
        overrun.see(Work::Time, 900, 100, begin + ms(10_000));
        overrun.see(Work::Time, 5, 100, begin + ms(10_100));
        overrun.see(Work::Time, 105, 100, begin + ms(10_200));
        assert!(!overrun.is_demoted(begin + ms(10_200)));
        overrun.see(Work::Time, 106, 100, begin + ms(10_300));
        assert!(overrun.is_demoted(begin + ms(10_300)));
    }
}
