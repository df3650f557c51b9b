//! What each server got in its periods, as its manager counts them: beside its budget, over the last minute, hour and day.

use crate::response_status::{SupplyPastStatus, SupplyStatus};
use crate::Deployment;
use giusto_model::{Duration, Percentile, Within};
use giusto_verify::{History, Past};
use std::collections::BTreeMap;
use std::time::Instant;

/// How a period ended, as a [`History`] keeps it: with all that was wanted of the budget, or without.
const SERVED: u64 = 0;
const MISSED: u64 = 1;

/// All servers whose backend counts periods.
#[derive(Debug, Default)]
pub(crate) struct Supplies {
    servers: BTreeMap<Key, Supply>,
    last: Option<Instant>,
    begun: Option<Instant>,
}

/// A service, and which of its virtual CPUs or copies.
type Key = (String, Option<u32>);

#[derive(Debug, Default)]
struct Supply {
    counts: Counts,
    history: History,
    past: Vec<SupplyPastStatus>,
    /// In which second each of them was.
    looked: [u64; 3],
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    periods: u64,
    full: u64,
    missed: u64,
}

impl Supplies {
    /// Reads the counts, if a second has passed.
    pub(crate) fn look(&mut self, deployment: &Deployment) {
        let now = Instant::now();
        if self.last.is_some_and(|last| now - last < std::time::Duration::from_secs(1)) {
            return;
        }
        self.last = Some(now);
        let second = (now - *self.begun.get_or_insert(now)).as_secs();
        let mut before = std::mem::take(&mut self.servers);
        for part in &deployment.parts {
            let Some(backend) = deployment.backends.used(part.backend) else { continue };
            let Some((_, server)) = backend.observe(part).counted else { continue };
            let counts = Counts { periods: server.replenished, full: server.full, missed: server.missed };
            let key = (part.name.clone(), part.vcpu);
            let mut supply = before.remove(&key).unwrap_or_default();
            supply.add(second, counts);
            self.servers.insert(key, supply);
        }
    }

    /// Of one server; `None`: its backend does not count.
    pub(crate) fn status(&self, service: &str, vcpu: Option<u32>) -> Option<SupplyStatus> {
        let supply = self.servers.get(&(service.to_string(), vcpu))?;
        let Counts { periods, full, missed } = supply.counts;
        Some(SupplyStatus { periods, full, missed, past: supply.past.clone() })
    }
}

impl Supply {
    fn add(&mut self, second: u64, now: Counts) {
        // One that was let go and taken again counts anew.
        let before = if now.periods < self.counts.periods { Counts::default() } else { self.counts };
        let missed = now.missed.saturating_sub(before.missed);
        let served = (now.periods - before.periods).saturating_sub(missed);
        self.history.add(second, [[SERVED, served], [MISSED, missed]].into_iter().filter(|[_, count]| *count > 0));
        self.counts = now;
        let every = Within { percentile: Percentile::EVERY, within: Duration::from_ns(SERVED) };
        for (nth, past) in Past::ALL.into_iter().enumerate() {
            // A look is as old as a sixtieth of what it is at, unless there is something bad to tell.
            if nth < self.past.len() && missed == 0 && second - self.looked[nth] < past.seconds() / 60 {
                continue;
            }
            let look = self.history.over(past);
            let standing = look.standing(&every);
            let verdict = standing.verdict(&every);
            let status = SupplyPastStatus { seconds: look.length, periods: look.jobs, missed: standing.late, verdict };
            self.looked[nth] = second;
            match self.past.get_mut(nth) {
                Some(known) => *known = status,
                None => self.past.push(status),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giusto_verify::Verdict;

    #[test]
    fn a_period_without_its_budget_is_told_in_each_window_until_it_is_over() {
        let mut supply = Supply::default();
        supply.add(0, Counts::default());
        assert_eq!(supply.past[0].verdict, Verdict::CannotTell, "no period has passed");
        supply.add(1, Counts { periods: 100, full: 40, missed: 0 });
        assert_eq!((supply.past[0].verdict, supply.past[0].periods), (Verdict::Kept, 100));
        supply.add(2, Counts { periods: 200, full: 80, missed: 3 });
        assert!(supply.past.iter().all(|past| (past.verdict, past.missed, past.periods) == (Verdict::Missed, 3, 200)));
        (3..70).for_each(|second| supply.add(second, Counts { periods: 100 * second, full: 0, missed: 3 }));
        assert_eq!((supply.past[0].verdict, supply.past[0].missed), (Verdict::Kept, 0));
        assert_eq!((supply.past[1].verdict, supply.past[1].missed), (Verdict::Missed, 3));
        supply.add(70, Counts { periods: 50, full: 0, missed: 0 });
        assert_eq!((supply.past[0].missed, supply.past[1].missed), (0, 3), "taken again, it counts anew");
    }
}
