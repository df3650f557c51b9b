//! Plays a system of mixed criticality ns by ns, and watches what each server was promised.

use super::system::System;
use giusto_policy::{Back, CoreMode, Id, Mixed, Order, Pool, When};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// What goes on besides.
#[derive(Clone, Copy, Default)]
pub(crate) struct Trouble {
    /// Decisions come up to so many ns late.
    pub(crate) lateness: u64,
    /// Probability that a ns is stolen.
    pub(crate) steal: f64,
    /// Probability per ns of a boost.
    pub(crate) boost: f64,
    /// Probability per ns of a change, to budgets that are no larger than those that passed.
    pub(crate) change: f64,
}

/// How a server behaves.
#[derive(Clone, Copy, Debug)]
enum Habit {
    Always,
    /// Probabilities per ns to fall asleep and to wake.
    Random(f64, f64),
    /// Falls asleep with the budget that it has, and wakes at its deadline or later: it never asks.
    Modest,
    /// Falls asleep whenever it has run this long, and wakes so long after.
    Rhythm(u64, u64),
}

/// How often what was seen.
#[derive(Default, Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) to_hi: u64,
    pub(crate) to_lo: u64,
    pub(crate) kept: u64,
    pub(crate) renewed: u64,
    /// Woken between, a high one waits for the release of its next job.
    pub(crate) deferred: u64,
    pub(crate) high_in_lo: u64,
    pub(crate) high_through_hi: u64,
    pub(crate) low: u64,
    /// A promise kept at its very deadline.
    pub(crate) just_in_time: u64,
    pub(crate) beyond_worst: u64,
    pub(crate) long_windows: u64,
    pub(crate) disturbed: u64,
    pub(crate) changes: u64,
    pub(crate) boosts: u64,
    pub(crate) misses: u64,
}

impl Seen {
    fn counts(&mut self) -> [&mut u64; 15] {
        let Seen { to_hi, to_lo, kept, renewed, deferred, high_in_lo, high_through_hi, low, .. } = self;
        let Seen { just_in_time, beyond_worst, long_windows, disturbed, changes, boosts, misses, .. } = self;
        [
            to_hi,
            to_lo,
            kept,
            renewed,
            deferred,
            high_in_lo,
            high_through_hi,
            low,
            just_in_time,
            beyond_worst,
            long_windows,
            disturbed,
            changes,
            boosts,
            misses,
        ]
    }

    pub(crate) fn add(&mut self, other: &Seen) {
        let mut other = *other;
        for (sum, count) in self.counts().into_iter().zip(other.counts()) {
            *sum += *count;
        }
    }
}

/// A job that has been ready from its release on.
struct Job {
    release: u64,
    period: u64,
    budget: u64,
    had: u64,
    saw_hi: bool,
}

struct Server {
    id: Id,
    now: Mixed,
    /// What may be in force: changes that wait, besides.
    maybe: Vec<Mixed>,
    most: Mixed,
    habit: Habit,
    ready: bool,
    woke: u64,
    slept: u64,
    had_when_woken: u64,
    supplied: u64,
    deadline: u64,
    boosted: u64,
    job: Option<Job>,
}

pub(crate) struct Play<'a> {
    random: &'a mut ChaCha8Rng,
    trouble: Trouble,
    back: Back,
    pool: Pool,
    servers: Vec<Server>,
    mode: CoreMode,
    lo_since: u64,
    /// Stolen, late or boosted ns, and how many there were when the core was last idle.
    disturbed: u64,
    disturbed_before: u64,
    ran: u64,
    seen: Seen,
    log: String,
}

fn habit(random: &mut ChaCha8Rng) -> Habit {
    match random.random_range(0..8) {
        0 | 1 => Habit::Always,
        2 | 3 => Habit::Random(random.random_range(0.01..0.5), random.random_range(0.01..0.5)),
        4..=6 => Habit::Modest,
        _ => Habit::Rhythm(random.random_range(1..8), random.random_range(1..30)),
    }
}

impl Play<'_> {
    pub(crate) fn run(random: &mut ChaCha8Rng, system: &System, trouble: Trouble, back: Back, length: u64) -> Seen {
        let mut pool = Pool::new(Order::MixedCriticality);
        pool.cooling(random.random_range(0..3), back);
        let calm = random.random_bool(0.4);
        let servers = system.vms.iter().map(|&vm| Server {
            id: pool.add_mixed(vm, 0, 0).unwrap(),
            now: vm,
            maybe: vec![vm],
            most: vm,
            habit: if calm && vm.worst.is_some() { Habit::Modest } else { habit(random) },
            ready: false,
            woke: 0,
            slept: 0,
            had_when_woken: 0,
            supplied: 0,
            deadline: 0,
            boosted: 0,
            job: None,
        });
        let servers = servers.collect();
        let (seen, log) = (Seen::default(), format!("{system:?}\n"));
        let mut play = Play {
            random,
            trouble,
            back,
            pool,
            servers,
            mode: CoreMode::Lo,
            lo_since: 0,
            disturbed: 0,
            disturbed_before: 0,
            ran: 0,
            seen,
            log,
        };
        let (mut until, mut late) = (0, 0);
        for t in 0..length {
            if until <= t && late > 0 {
                late -= 1;
                play.disturbed += 1;
            } else {
                let changed = play.events(t);
                if changed || until <= t || play.random.random_bool(0.02) {
                    until = play.decide(t).unwrap_or(u64::MAX);
                    late = play.random.random_range(0..=trouble.lateness);
                }
            }
            play.pass(t);
            play.judge(t + 1);
        }
        play.seen.disturbed += u64::from(play.disturbed > 0);
        play.seen
    }

    fn charge(&mut self, t: u64) {
        self.pool.charge(0, self.ran, t);
        self.ran = 0;
    }

    /// Wakes servers or puts them to sleep at t, changes or boosts them; whether it did so to any.
    fn events(&mut self, t: u64) -> bool {
        let wake_all = self.random.random_bool(0.01);
        let all_in = wake_all && self.random.random_bool(0.5);
        let mut any = false;
        for i in 0..self.servers.len() {
            if self.random.random_bool(0.01) || all_in {
                self.servers[i].habit = if all_in { Habit::Always } else { habit(self.random) };
            }
            let s = &self.servers[i];
            let (running, left) = (self.pool.running(0) == Some(s.id), self.pool.left_ns(s.id) - self.ran as i64);
            let turns = match (s.habit, s.ready) {
                (Habit::Always, ready) => !ready,
                (Habit::Random(sleeps, wakes), ready) => self.random.random_bool(if ready { sleeps } else { wakes }),
                // What HI gives it is not its own.
                (Habit::Modest, true) => {
                    let beyond = s.now.worst.map_or(0, |worst| worst - s.now.optimistic) as i64;
                    running && left <= if self.mode == CoreMode::Hi { beyond } else { 0 }
                }
                (Habit::Modest, false) => t >= self.pool.deadline_ns(s.id) && self.random.random_bool(0.7),
                (Habit::Rhythm(ran, _), true) => s.supplied - s.had_when_woken >= ran,
                (Habit::Rhythm(_, asleep), false) => t >= s.slept + asleep,
            };
            if turns || (wake_all && !s.ready) {
                if !any {
                    self.charge(t);
                }
                any = true;
                self.turn(i, t);
            }
        }
        let i = self.random.random_range(0..self.servers.len());
        if self.random.random_bool(self.trouble.boost) {
            self.charge(t);
            let until = t + self.random.random_range(0..20);
            if self.pool.boost(self.servers[i].id, until, t).is_ok() {
                self.servers[i].boosted = until;
                self.seen.boosts += 1;
                any = true;
            }
        }
        if self.random.random_bool(self.trouble.change) {
            self.charge(t);
            self.change(i, t);
            any = true;
        }
        any
    }

    fn turn(&mut self, i: usize, t: u64) {
        let before = self.pool.deadline_ns(self.servers[i].id);
        let left = self.pool.left_ns(self.servers[i].id);
        let s = &mut self.servers[i];
        s.ready = !s.ready;
        self.pool.ready(s.id, s.ready, t);
        self.log += &format!("{t}: {i} {}\n", if s.ready { "wakes" } else { "sleeps" });
        if !s.ready {
            (s.job, s.slept) = (None, t);
            return;
        }
        (s.woke, s.had_when_woken) = (t, s.supplied);
        s.deadline = 0; // a job may begin with this
        let after = self.pool.deadline_ns(s.id);
        if left > 0 && self.pool.left_ns(s.id) == 0 {
            self.seen.deferred += 1;
        } else if after == before {
            self.seen.kept += 1;
        } else if after == t + s.now.period {
            self.seen.renewed += 1;
        }
    }

    /// Budgets between half of those that passed and all of them; period and virtual deadline stay.
    fn change(&mut self, i: usize, t: u64) {
        let s = &mut self.servers[i];
        let optimistic = self.random.random_range(s.most.optimistic.div_ceil(2)..=s.most.optimistic);
        let worst = s.most.worst.map(|most| self.random.random_range(most.div_ceil(2).max(optimistic)..=most));
        let when = if self.random.random_bool(0.5) { When::Now } else { When::NextPeriod };
        let new = Mixed { optimistic, worst, ..s.most };
        self.log += &format!("{t}: {i} {when:?} {new:?}\n");
        self.pool.set_mixed(s.id, new, when, t).unwrap();
        if when == When::Now {
            s.job = None; // its budget is another one
            s.maybe.clear();
        }
        s.maybe.push(new);
        s.now = new;
        self.seen.changes += 1;
    }

    fn decide(&mut self, t: u64) -> Option<u64> {
        self.charge(t);
        let until = self.pool.decide(t).until;
        let mode = self.pool.core_mode(0);
        if mode != self.mode {
            self.log += &format!("{t}: {mode:?}\n");
            (self.seen.to_hi, self.seen.to_lo) = match mode {
                CoreMode::Hi => (self.seen.to_hi + 1, self.seen.to_lo),
                CoreMode::Lo => (self.seen.to_hi, self.seen.to_lo + 1),
            };
            (self.mode, self.lo_since) = (mode, t);
        }
        self.releases(t);
        self.who_runs(t);
        until
    }

    /// Jobs that are released at t.
    fn releases(&mut self, t: u64) {
        for s in &mut self.servers {
            let deadline = self.pool.deadline_ns(s.id);
            let moved = deadline != s.deadline;
            s.deadline = deadline;
            let high = s.now.worst.is_some();
            if let Some(job) = &mut s.job {
                job.saw_hi |= self.mode == CoreMode::Hi;
                if job.saw_hi && !high {
                    s.job = None;
                }
            }
            if !s.ready || !moved || deadline != t + s.now.period || (!high && self.mode == CoreMode::Hi) {
                continue;
            }
            // With its whole budget: one in debt has less to come.
            let (hi, left) = (self.mode == CoreMode::Hi, self.pool.left_ns(s.id));
            let full = |vm: &&Mixed| left == vm.worst.filter(|_| hi).unwrap_or(vm.optimistic) as i64;
            if let Some(budget) = s.maybe.iter().filter(full).map(|vm| vm.worst.unwrap_or(vm.optimistic)).min() {
                s.job = Some(Job { release: t, period: s.now.period, budget, had: s.supplied, saw_hi: hi });
            }
        }
    }

    /// The core is never idle while anybody is ready; in HI no low server runs while a high one is eligible.
    fn who_runs(&mut self, t: u64) {
        let runs = self.servers.iter().find(|s| self.pool.running(0) == Some(s.id));
        assert!(runs.is_some() || self.servers.iter().all(|s| !s.ready), "idle at {t}: {}", self.log);
        let Some(runs) = runs else { return };
        assert!(runs.ready, "an idle one runs at {t}: {}", self.log);
        let eligible =
            |s: &Server| s.ready && s.now.worst.is_some() && self.pool.left_ns(s.id) > 0 && self.mode == CoreMode::Hi;
        let low_runs = runs.now.worst.is_none() && runs.boosted <= t;
        assert!(!low_runs || !self.servers.iter().any(eligible), "a low one runs in HI at {t}: {}", self.log);
    }

    fn pass(&mut self, t: u64) {
        if self.servers.iter().all(|s| !s.ready) {
            self.disturbed_before = self.disturbed;
        }
        let runs = self.pool.running(0);
        let stolen = self.random.random_bool(self.trouble.steal);
        if stolen {
            self.disturbed += 1;
            self.charge(t); // what ran counts as the last part of the time passed
            self.pool.charge(0, 0, t + 1);
            return;
        }
        self.ran += 1;
        for s in self.servers.iter_mut().filter(|s| Some(s.id) == runs) {
            s.supplied += 1;
            self.disturbed += u64::from(t < s.boosted);
            self.seen.beyond_worst += u64::from(s.now.worst.is_some() && self.pool.payer(0).is_none());
        }
    }

    /// What was promised by t.
    fn judge(&mut self, t: u64) {
        let grace = self.disturbed - self.disturbed_before;
        for s in &mut self.servers {
            if let Some(job) = s.job.take_if(|job| s.supplied - job.had >= job.budget) {
                self.seen.just_in_time += u64::from(t == job.release + job.period);
                match (s.now.worst.is_some(), job.saw_hi) {
                    (true, true) => self.seen.high_through_hi += 1,
                    (true, false) => self.seen.high_in_lo += 1,
                    (false, _) => self.seen.low += 1,
                }
            }
            if let Some(job) = s.job.take_if(|job| t >= job.release + job.period + grace) {
                let got = s.supplied - job.had;
                self.seen.misses += 1;
                let what = format!("{:?} released at {} got {got} of {} by {t}", s.now, job.release, job.budget);
                assert!(self.back == Back::Temperature, "{what}, with {grace} ns of trouble\n{}", self.log);
            }
            // Ready for k + 1 periods, it gets k budgets, whatever job it had when it woke.
            let since = if s.now.worst.is_some() { s.woke } else { s.woke.max(self.lo_since) };
            let judged = s.now.worst.is_some() || self.mode == CoreMode::Lo;
            if s.ready && judged && since == s.woke && grace == 0 && self.trouble.change == 0.0 {
                let least = (t - since) / s.now.period;
                let least = least.saturating_sub(1) * s.now.worst.unwrap_or(s.now.optimistic);
                self.seen.long_windows += u64::from(least > 0);
                let enough = s.supplied - s.had_when_woken >= least || self.back == Back::Temperature;
                assert!(enough, "{:?} got less than {least} in [{since}, {t})\n{}", s.now, self.log);
            }
        }
    }
}
