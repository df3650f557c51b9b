//! Does a service ask for more processor time than was planned for? Told from what it takes, window by window, before a promise is
//! missed, and with a stated rate of false alarms.
//!
//! Tasks are judged by a law: what they take in a window is at most what tasks that keep to their word can ask for in it, so that
//! an alarm is never false. Requests at random are judged by a test: the Shiryaev-Roberts form of an e-detector (Shin, Ramdas and
//! Rinaldo 2022, "E-detectors: a nonparametric framework for sequential change detection"), which assumes no
//! distribution but that no window asks for more than planned on average: then false alarms are [`BETWEEN_FALSE_ALARMS`] apart on
//! average, or more.

use giusto_model::{Duration, Task};
use std::collections::VecDeque;

/// A window, about.
pub const WINDOW: Duration = Duration::from_ms(100);
/// Mean time between two false alarms of one service with requests at random: 100 hours.
pub const BETWEEN_FALSE_ALARMS: Duration = Duration::from_secs(360_000);
/// Above what was planned, as a part of it, demand counts as planned: of requests at random, since the windows of a queue are not
/// independent; of tasks, as the kernel books some of its own work on them.
const TOLERANCE: f64 = 0.05;
const BOOKED: f64 = 0.01;
/// Bets of the test, as parts of the largest.
const BETS: [f64; 3] = [0.2, 0.5, 0.9];
/// How long tasks are summed: so many periods of the server, within these limits.
const PERIODS: u64 = 50;
const LEAST: Duration = Duration::from_secs(2);
const MOST: Duration = Duration::from_secs(8);
/// What the demand that is told is averaged over.
const TOLD: Duration = Duration::from_secs(2);
/// An alarm ends when demand was as planned for so long.
const QUIET: Duration = Duration::from_secs(10);

/// What was planned for.
#[derive(Clone, Debug, PartialEq)]
pub enum Planned {
    /// Tasks that take their execution times at most, in a server with this period.
    Tasks {
        /// The tasks.
        tasks: Vec<Task>,
        /// The server's.
        period: Duration,
    },
    /// Requests at random that take this share of a core on average.
    Random {
        /// Above 0, below 1.
        mean: f64,
    },
}

impl Planned {
    /// Planned demand as a share of a core.
    pub fn share(&self) -> f64 {
        match self {
            Planned::Tasks { tasks, .. } => tasks.iter().map(|task| asked(task) / task.period.ns().max(1) as f64).sum(),
            Planned::Random { mean } => *mean,
        }
    }
}

fn asked(task: &Task) -> f64 {
    task.wcet.ns() as f64 * f64::from(task.copies)
}

/// One service's demand, watched.
#[derive(Clone, Debug)]
pub struct Drift {
    planned: Planned,
    /// Length and use of windows, the newest last.
    windows: VecDeque<(u64, u64)>,
    length: u64,
    used: u64,
    /// Evidence of each bet.
    evidence: [f64; BETS.len()],
    drifted: bool,
    alarms: u64,
    quiet: u64,
}

impl Drift {
    /// Watches from now on.
    pub fn new(planned: Planned) -> Drift {
        Drift {
            planned,
            windows: VecDeque::new(),
            length: 0,
            used: 0,
            evidence: [0.0; BETS.len()],
            drifted: false,
            alarms: 0,
            quiet: 0,
        }
    }

    /// In a window of `length` it took `used` of processor time. Returns whether it has drifted. O(1) amortised.
    pub fn see(&mut self, length: Duration, used: Duration) -> bool {
        self.windows.push_back((length.ns(), used.ns()));
        (self.length, self.used) = (self.length + length.ns(), self.used + used.ns());
        while let Some(&(length, used)) = self.windows.front() {
            if self.length - length < self.span() {
                break;
            }
            self.windows.pop_front();
            (self.length, self.used) = (self.length - length, self.used - used);
        }
        let beyond = match &self.planned {
            Planned::Tasks { .. } => self.length >= self.span() && self.used as f64 > self.most(),
            Planned::Random { mean } => self.bet(*mean * (1.0 + TOLERANCE), length, used),
        };
        if beyond && !self.drifted {
            (self.drifted, self.alarms) = (true, self.alarms + 1);
        }
        if self.drifted {
            self.calm(beyond, length);
        }
        self.drifted
    }

    /// Whether it asks for more than planned, as far as it was seen.
    pub fn drifted(&self) -> bool {
        self.drifted
    }

    /// How often it began to.
    pub fn alarms(&self) -> u64 {
        self.alarms
    }

    /// What was planned.
    pub fn planned(&self) -> &Planned {
        &self.planned
    }

    /// Share of a core that it took lately.
    pub fn recent(&self) -> f64 {
        let (mut length, mut used) = (0, 0);
        for (one, taken) in self.windows.iter().rev() {
            (length, used) = (length + one, used + taken);
            if length >= TOLD.ns() {
                break;
            }
        }
        used as f64 / length.max(1) as f64
    }

    /// How much is remembered.
    fn span(&self) -> u64 {
        match &self.planned {
            Planned::Tasks { period, .. } => period.checked_mul(PERIODS).unwrap_or(MOST).clamp(LEAST, MOST).ns(),
            Planned::Random { .. } => TOLD.ns(),
        }
    }

    /// The most that tasks ask for in the time remembered. Work that was left at its beginning came in the two periods before: by the
    /// end of a period the server has given what a whole core would have (Theorem 2 of as-if-alone), or a deadline was missed.
    fn most(&self) -> f64 {
        let Planned::Tasks { tasks, period } = &self.planned else { return f64::INFINITY };
        let time = self.length + 2 * period.ns();
        let jobs = |task: &Task| (time.div_ceil(task.period.ns().max(1)) + 1) as f64;
        tasks.iter().map(|task| asked(task) * jobs(task)).sum::<f64>() * (1.0 + BOOKED)
    }

    /// Bets on more than `mean`.
    fn bet(&mut self, mean: f64, length: Duration, used: Duration) -> bool {
        // No more than a whole core; several threads on several cores count as one that is full.
        let share = (used.ns() as f64 / length.ns().max(1) as f64).min(1.0);
        let limit = BETWEEN_FALSE_ALARMS.ns() as f64 / WINDOW.ns() as f64;
        let mut sum = 0.0;
        for (evidence, part) in self.evidence.iter_mut().zip(BETS) {
            *evidence = ((*evidence + 1.0) * (1.0 + part / mean * (share - mean))).min(1e100);
            sum += *evidence / BETS.len() as f64;
        }
        let found = sum >= limit;
        if found {
            self.evidence = [0.0; BETS.len()];
        }
        found
    }

    fn calm(&mut self, beyond: bool, length: Duration) {
        let above = beyond || self.recent() > self.planned.share() * (1.0 + TOLERANCE);
        self.quiet = if above { 0 } else { self.quiet + length.ns() };
        if self.quiet >= QUIET.ns() {
            (self.drifted, self.quiet) = (false, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn tasks() -> Planned {
        let task: Task = "50us/1ms".parse().unwrap();
        Planned::Tasks { tasks: vec![Task { copies: 6, ..task }], period: Duration::from_ms(40) }
    }

    /// Windows until an alarm.
    fn until(drift: &mut Drift, most: u64, mut used: impl FnMut() -> u64) -> Option<u64> {
        (1..=most).find(|_| drift.see(WINDOW, Duration::from_ns(used())))
    }

    #[test]
    fn tasks_that_keep_to_their_word_are_never_told_and_five_points_more_within_seconds() {
        let mut drift = Drift::new(tasks());
        let mut odd = 0;
        // 30 % on average, in a rhythm that does not fit the windows.
        let steady = || {
            odd ^= 1;
            if odd == 1 {
                24_000_000
            } else {
                36_000_000
            }
        };
        assert_eq!(until(&mut drift, 3_600_000, steady), None);
        // The server's limit, where the margin is 5 points.
        let found = until(&mut drift, 100, || 35_000_000).expect("told");
        assert!(found <= 21, "{found}");
        assert!((drift.recent() - 0.35).abs() < 0.01 && drift.alarms() == 1);
        // As planned again: it ends.
        for _ in 0..130 {
            drift.see(WINDOW, Duration::from_ms(30));
        }
        assert!(!drift.drifted() && drift.alarms() == 1);
    }

    /// A queue of requests at random, each on a whole core: what is taken in a window.
    struct Queue {
        rng: ChaCha8Rng,
        backlog: f64,
        rate: f64,
        mean: f64,
    }

    impl Queue {
        fn window(&mut self) -> u64 {
            let mut left = 0.1;
            let mut taken = 0.0;
            while left > 0.0 {
                let gap = -(1.0 - self.rng.random::<f64>()).ln() / self.rate;
                let passed = gap.min(left);
                taken += self.backlog.min(passed);
                self.backlog = (self.backlog - passed).max(0.0);
                left -= gap;
                if left > 0.0 {
                    self.backlog += -(1.0 - self.rng.random::<f64>()).ln() * self.mean;
                }
            }
            (taken * 1e9) as u64
        }
    }

    #[test]
    fn a_hundred_hours_of_requests_at_random_give_no_more_false_alarms_than_stated_and_twice_the_time_is_told_in_seconds(
    ) {
        let (mut alarms, mut hours, mut longest) = (0, 0, 0);
        for (seed, load) in [0.1, 0.32, 0.32, 0.5, 0.5, 0.7, 0.7, 0.8].into_iter().enumerate() {
            let mut queue =
                Queue { rng: ChaCha8Rng::seed_from_u64(seed as u64), backlog: 0.0, rate: 40.0, mean: load / 40.0 };
            let mut drift = Drift::new(Planned::Random { mean: load });
            for _ in 0..3_600_000 / 8 {
                drift.see(WINDOW, Duration::from_ns(queue.window()));
            }
            (alarms, hours) = (alarms + drift.alarms(), hours + 100 / 8);
            if load > 0.5 {
                continue; // twice that is more than a core
            }
            queue.mean *= 2.0;
            let found = until(&mut drift, 1000, || queue.window()).expect("told");
            longest = longest.max(found);
        }
        println!(
            "{alarms} false alarms in {hours} hours; twice the time was told within {:.1} s",
            longest as f64 / 10.0
        );
        assert!(alarms <= 1, "{alarms}");
        assert!(longest <= 100, "{longest} windows");
    }

    #[test]
    fn evidence_is_worth_nothing_where_the_mean_is_as_planned() {
        // Half of the windows full, half empty: each bet's factor is 1 on average.
        for part in BETS {
            let mean = 0.5 * (1.0 + TOLERANCE);
            let factor = |share: f64| 1.0 + part / mean * (share - mean);
            assert!(0.5 * factor(1.0) + 0.5 * factor(0.0) <= 1.0 && factor(0.0) > 0.0);
        }
    }
}
