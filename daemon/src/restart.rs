//! When a service that has ended is started again: pure.
//!
//! As systemd's users know it: at first after [`FIRST`], then after twice as long each time, up to [`LONGEST`]; one
//! that ran for [`CALM`] begins anew. There is no last time: what needs a service that is not there yet finds it in the
//! end, and its share stays reserved meanwhile.

use giusto_model::Restart;
use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(30);
const CALM: Duration = Duration::from_secs(60);

/// Of one service that Giusto starts.
#[derive(Debug)]
pub(crate) struct Restarts {
    pub(crate) policy: Restart,
    /// How often it was started again.
    pub(crate) count: u64,
    delay: Duration,
    since: Instant,
    due: Option<Instant>,
}

impl Restarts {
    /// It was started just now.
    pub(crate) fn new(policy: Restart, now: Instant) -> Restarts {
        Restarts { policy, count: 0, delay: FIRST, since: now, due: None }
    }

    /// It has ended; returns after how long it is started again, if it is.
    pub(crate) fn ended(&mut self, success: bool, now: Instant) -> Option<Duration> {
        if !self.policy.after(success) {
            self.due = None;
            return None;
        }
        if now.duration_since(self.since) >= CALM {
            self.delay = FIRST;
        }
        let delay = self.delay;
        self.delay = (delay * 2).min(LONGEST);
        self.due = Some(now + delay);
        Some(delay)
    }

    /// Another policy; it also holds for one that is `down` now.
    pub(crate) fn follow(&mut self, policy: Restart, down: bool, success: bool, now: Instant) {
        if std::mem::replace(&mut self.policy, policy) != policy && down {
            self.ended(success, now);
        }
    }

    /// It is to be started now.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// It has ended, and will be started again.
    pub(crate) fn waits(&self) -> bool {
        self.due.is_some()
    }

    /// It was started again.
    pub(crate) fn started(&mut self, now: Instant) {
        (self.since, self.due, self.count) = (now, None, self.count + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends `times` times right after each start, and once more after a calm; the delays in ms.
    fn delays(times: usize) -> Vec<u128> {
        let mut now = Instant::now();
        let mut restarts = Restarts::new(Restart::OnFailure, now);
        let mut delays = Vec::new();
        for turn in 0..=times {
            let ran = if turn == times { CALM } else { Duration::ZERO };
            let delay = restarts.ended(false, now + ran).unwrap();
            assert!(!restarts.is_due(now + ran) && restarts.is_due(now + ran + delay) && restarts.waits());
            now += ran + delay;
            restarts.started(now);
            delays.push(delay.as_millis());
        }
        assert!(!restarts.waits());
        assert_eq!(restarts.count, times as u64 + 1);
        delays
    }

    #[test]
    fn the_delay_doubles_up_to_its_bound_and_a_calm_time_ends_that() {
        assert_eq!(delays(5), [100, 200, 400, 800, 1600, 100]);
        let many = delays(40);
        assert_eq!((many[39], many[40]), (LONGEST.as_millis(), FIRST.as_millis()));
        assert!(many[..40].is_sorted());
    }

    #[test]
    fn what_restart_says_is_done() {
        let now = Instant::now();
        for (policy, after_success, after_failure) in
            [(Restart::Always, true, true), (Restart::OnFailure, false, true), (Restart::Never, false, false)]
        {
            for (success, again) in [(true, after_success), (false, after_failure)] {
                let mut restarts = Restarts::new(policy, now);
                assert_eq!(restarts.ended(success, now).is_some(), again, "{policy} {success}");
                assert_eq!(restarts.waits(), again);
            }
        }
    }

    #[test]
    fn another_policy_holds_for_one_that_is_down_and_starts_none_that_runs() {
        let now = Instant::now();
        let mut restarts = Restarts::new(Restart::Never, now);
        restarts.follow(Restart::Always, false, false, now);
        assert!(!restarts.waits(), "it runs");
        restarts.follow(Restart::Never, true, false, now);
        restarts.ended(false, now);
        assert!(!restarts.waits());
        restarts.follow(Restart::OnFailure, true, true, now);
        assert!(!restarts.waits(), "it had ended well");
        restarts.follow(Restart::Always, true, true, now);
        assert!(restarts.waits());
        restarts.follow(Restart::Never, true, true, now);
        assert!(!restarts.waits());
    }
}
