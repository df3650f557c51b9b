//! What a resource supplies: the least processor time in any window of a length.

use super::error::ResourceError;
use super::server::{Delay, Server};
use super::table;
use giusto_model::{Bandwidth, Duration, Task};
use serde::{Deserialize, Serialize};

/// A resource model. 0 < budget ≤ period.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Resource {
    /// Θ somewhere in every Π: the periodic resource, general (Shin & Lee; [Lee11, eq. 1], "otherwise").
    Periodic {
        /// Π
        #[serde(rename = "period_ns")]
        period: Duration,
        /// Θ
        #[serde(rename = "budget_ns")]
        budget: Duration,
    },
    /// The same where windows of interest begin with a period of it or of a task, and all periods divide each other pairwise
    /// (ARINC 653; [Lee11, eq. 1], "harmonic"). The caller asserts that releases sit on its boundaries; divisibility is checked.
    Aligned {
        /// Π
        #[serde(rename = "period_ns")]
        period: Duration,
        /// Θ
        #[serde(rename = "budget_ns")]
        budget: Duration,
    },
    /// Θ within the first Δ of every Π: the explicit deadline periodic resource (EDP). budget ≤ deadline ≤ period.
    ExplicitDeadline {
        /// Π
        #[serde(rename = "period_ns")]
        period: Duration,
        /// Θ
        #[serde(rename = "budget_ns")]
        budget: Duration,
        /// Δ
        #[serde(rename = "deadline_ns")]
        deadline: Duration,
    },
    /// Fixed slots [from, to) in a table that repeats (Abe22, "Static Time Partitioning").
    Table {
        /// Its length.
        #[serde(rename = "cycle_ns")]
        cycle: Duration,
        /// Ascending, apart, within the cycle.
        slots: Vec<[Duration; 2]>,
    },
    /// α(t − Δ)⁺ (Abe22, "A Linear Approximation"), rounded down to whole ns.
    Linear {
        /// α
        bandwidth: Bandwidth,
        /// Δ
        #[serde(rename = "delay_ns")]
        delay: Duration,
    },
    /// Θ in every Π on at most `cores` processors at a time (MPR), to all of them together.
    Multi {
        /// Π
        #[serde(rename = "period_ns")]
        period: Duration,
        /// Θ ≤ cores · Π
        #[serde(rename = "budget_ns")]
        budget: Duration,
        /// m
        cores: u32,
    },
}

impl Resource {
    /// Whether it makes sense by itself.
    pub fn validate(&self) -> Result<(), ResourceError> {
        let within = |budget: Duration, whole: Duration| match () {
            () if whole.is_zero() => Err(ResourceError::NoPeriod),
            () if budget.is_zero() => Err(ResourceError::NoBudget),
            () if budget > whole => Err(ResourceError::TooMuch { budget, whole }),
            () => Ok(()),
        };
        match *self {
            Resource::Periodic { period, budget } | Resource::Aligned { period, budget } => within(budget, period),
            Resource::ExplicitDeadline { period, budget, deadline } => {
                within(budget, period)?;
                let inside = (budget..=period).contains(&deadline);
                inside.then_some(()).ok_or(ResourceError::Deadline { deadline })
            }
            Resource::Table { cycle, ref slots } => table::validate(cycle, slots),
            Resource::Linear { bandwidth, .. } if bandwidth == Bandwidth::ZERO => Err(ResourceError::NoBudget),
            Resource::Linear { bandwidth, .. } if bandwidth > Bandwidth::ONE => {
                Err(ResourceError::Bandwidth(bandwidth))
            }
            Resource::Linear { .. } => Ok(()),
            Resource::Multi { cores: 0, .. } => Err(ResourceError::NoCores),
            Resource::Multi { period, budget, cores } => {
                let whole = period.checked_mul(u64::from(cores)).filter(|whole| whole.ns() <= table::LONGEST);
                within(budget, whole.ok_or(ResourceError::Range)?)
            }
        }
    }

    /// Whether the periods of `tasks` and of this are such as it asserts: `Aligned` needs its own to divide all others, or all
    /// of them pairwise divisible. (If it divides all others, every release begins a period of it, and so does every window of
    /// interest.)
    pub fn validate_for(&self, tasks: &[Task]) -> Result<(), ResourceError> {
        self.validate()?;
        let Resource::Aligned { period, .. } = *self else { return Ok(()) };
        if tasks.iter().all(|task| task.period.ns().is_multiple_of(period.ns())) {
            return Ok(());
        }
        let mut periods: Vec<Duration> = tasks.iter().map(|task| task.period).chain([period]).collect();
        periods.sort_unstable();
        // Sorted, each dividing the next is all of them pairwise.
        match periods.windows(2).find(|two| two[1].ns() % two[0].ns() != 0) {
            Some(two) => Err(ResourceError::Misaligned(two[0], two[1])),
            None => Ok(()),
        }
    }

    /// sbf(t): the least that is supplied in any window of length `t`. O(1); a table of n slots O(n).
    /// Only for one that [`Resource::validate`] finds right.
    ///
    /// `Multi`: a window covers k whole periods and parts of two more, r₁ + r₂ = r = t − kΠ with each at most Π. A part of
    /// length x gets least when its period does all it can elsewhere: f(x) = max(0, Θ − m(Π − x)). f is convex, so
    /// f(r₁) + f(r₂) is least for r₁ = r₂: max(0, 2Θ − 2mΠ + m·r); a window inside one period is f(0) + f(t), which is
    /// not less. sbf(t) is the least over the k that leave 0 ≤ r ≤ 2Π, always a whole number. Exact in real time; where
    /// windows and slots are whole units an odd r cannot be split evenly, and the true minimum is up to ⌊m/2⌋ higher (for
    /// m = 1 it is the same). m = 1 is [`Resource::Periodic`]. More than 584 years of several cores show as 584 years.
    pub fn supply(&self, t: Duration) -> Duration {
        Duration::from_ns(match *self {
            Resource::Periodic { period, budget } => delayed(t, period.ns(), budget.ns(), period.ns()),
            Resource::ExplicitDeadline { period, budget, deadline } => {
                delayed(t, period.ns(), budget.ns(), deadline.ns())
            }
            Resource::Aligned { period, budget } => {
                let (full, rest) = (t.ns() / period.ns(), t.ns() % period.ns());
                full * budget.ns() + rest.saturating_sub(period.ns() - budget.ns())
            }
            Resource::Table { cycle, ref slots } => table::supply(cycle, slots, t),
            Resource::Linear { bandwidth, delay } => {
                let rest = u128::from(t.ns().saturating_sub(delay.ns()));
                // At most t, since α ≤ 1.
                (rest * u128::from(bandwidth.numer()) / u128::from(bandwidth.denom())) as u64
            }
            Resource::Multi { period, budget, cores } => shared(t.ns(), period.ns(), budget.ns(), cores),
        })
    }

    /// sbf⁻¹(w): the least t with sbf(t) ≥ w; `None` beyond 584 years. O(1); tables and several cores O(log t) supplies.
    /// Only for one that [`Resource::validate`] finds right.
    pub fn inverse(&self, work: u128) -> Option<Duration> {
        if work == 0 {
            return Some(Duration::ZERO);
        }
        let served = |period: Duration, budget: Duration, delay: Delay| {
            Server { period: period.ns(), top: budget.ns().into(), bottom: 1, delay }.inverse(work).map(u128::from)
        };
        let t = match *self {
            Resource::Periodic { period, budget } => served(period, budget, Delay::Until(period.ns())),
            Resource::ExplicitDeadline { period, budget, deadline } => {
                served(period, budget, Delay::Until(deadline.ns()))
            }
            Resource::Aligned { period, budget } => served(period, budget, Delay::None),
            Resource::Linear { bandwidth, delay } => {
                let rest = work.checked_mul(u128::from(bandwidth.denom()));
                rest.and_then(|rest| rest.div_ceil(u128::from(bandwidth.numer())).checked_add(u128::from(delay.ns())))
            }
            Resource::Table { .. } | Resource::Multi { .. } => self.searched(work),
        }?;
        u64::try_from(t).ok().map(Duration::from_ns)
    }

    /// α: what it supplies in the long run. Only for one that [`Resource::validate`] finds right.
    pub fn bandwidth(&self) -> Bandwidth {
        let share = match *self {
            Resource::Periodic { period, budget }
            | Resource::Aligned { period, budget }
            | Resource::ExplicitDeadline { period, budget, .. }
            | Resource::Multi { period, budget, .. } => Bandwidth::of(budget, period),
            Resource::Table { cycle, ref slots } => Bandwidth::new(table::total(slots), cycle.ns()),
            Resource::Linear { bandwidth, .. } => Some(bandwidth),
        };
        share.unwrap_or(Bandwidth::ZERO)
    }

    /// Δ: the least whole number of ns with sbf(t) ≥ α(t − Δ) for all t (Abe22, "A Linear Approximation"; for the
    /// periodic resource 2(Π − Θ)). Only for one that [`Resource::validate`] finds right.
    pub fn delay(&self) -> u128 {
        let wide = |d: Duration| u128::from(d.ns());
        match *self {
            Resource::Periodic { period, budget } => 2 * (wide(period) - wide(budget)),
            Resource::Aligned { period, budget } => wide(period) - wide(budget),
            Resource::ExplicitDeadline { period, budget, deadline } => wide(period) + wide(deadline) - 2 * wide(budget),
            Resource::Table { cycle, ref slots } => table::delay(cycle, slots),
            Resource::Linear { delay, .. } => wide(delay),
            // Nothing for 2Π − 2Θ/m, and no later corner of it lies further under its line.
            Resource::Multi { period, budget, cores } => 2 * wide(period) - 2 * wide(budget) / u128::from(cores),
        }
    }

    /// After how long what it supplies repeats itself.
    pub(super) fn repeats(&self) -> u64 {
        match *self {
            Resource::Periodic { period, .. }
            | Resource::Aligned { period, .. }
            | Resource::ExplicitDeadline { period, .. }
            | Resource::Multi { period, .. } => period.ns(),
            Resource::Table { cycle, .. } => cycle.ns(),
            Resource::Linear { bandwidth, .. } => bandwidth.denom(),
        }
    }

    /// sbf⁻¹ by halving.
    fn searched(&self, work: u128) -> Option<u128> {
        let share = self.bandwidth();
        let most = work.checked_mul(u128::from(share.denom()))?.div_ceil(u128::from(share.numer()));
        let (mut low, mut high) = (0, most.checked_add(self.delay())?); // short, enough
        high = high.min(u128::from(u64::MAX));
        let enough = |t: u128| u128::from(self.supply(Duration::from_ns(t as u64)).ns()) >= work;
        if !enough(high) {
            return None;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if enough(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        Some(high)
    }
}

/// EDP (Easwaran, Anand, Lee 2007, eq. 7); with Δ = Π the general periodic resource of [Lee11, eq. 1].
fn delayed(t: Duration, period: u64, budget: u64, deadline: u64) -> u64 {
    let Some(rest) = t.ns().checked_sub(deadline - budget) else { return 0 };
    let full = rest / period;
    full * budget + (rest % period).saturating_sub(period - budget)
}

/// The least over the split of a window on `cores` processors; see [`Resource::supply`].
fn shared(t: u64, period: u64, budget: u64, cores: u32) -> u64 {
    let (t, period, budget, cores) = (i128::from(t), i128::from(period), i128::from(budget), i128::from(cores));
    let full = t / period;
    let least = (0.max(full - 2)..=full)
        .filter(|k| t - k * period <= 2 * period)
        .map(|k| k * budget + 0.max(2 * budget - 2 * cores * period + cores * (t - k * period)))
        .min();
    u64::try_from(least.unwrap_or(0)).unwrap_or(u64::MAX)
}

/// sbf(t − L).
pub(super) fn supplied(resource: &Resource, latency: Duration, t: Duration) -> Duration {
    t.checked_sub(latency).map_or(Duration::ZERO, |t| resource.supply(t))
}
