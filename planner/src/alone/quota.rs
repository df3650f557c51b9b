//! A part of a core as the fair scheduler has it: quotas and weights.

use super::share::Share;
use giusto_model::{Bandwidth, Duration, Server};

/// A quota of the fair scheduler, in its units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quota {
    /// In us.
    pub(super) quota: u64,
    /// In us.
    pub(super) period: u64,
}

impl Quota {
    /// The kernel takes no smaller quota or period, in us.
    const LEAST: u64 = 1000;
    /// Nor a longer period.
    const LONGEST: u64 = 1_000_000;

    /// A server's budget and period, or a multiple or part of both where the kernel does not take them: no less of a core,
    /// and no more than us make of it.
    pub(super) fn of(server: Server) -> Quota {
        Quota::part(server.budget.ns(), server.period.ns())
    }

    /// Such a share of a core, every 100 ms as is usual.
    pub(super) fn share(share: Bandwidth) -> Quota {
        let period = Duration::from_ms(100).ns();
        Quota::part(share.times_ceil(Duration::from_ns(period)).map_or(period, Duration::ns), period)
    }

    /// What several servers have together: that of one, or their shares in the longest of their periods.
    pub(super) fn together(servers: impl Iterator<Item = Server> + Clone) -> Quota {
        let quotas = servers.map(Quota::of);
        let period = quotas.clone().map(|one| one.period).max().unwrap_or(Quota::LONGEST);
        Quota { quota: quotas.map(|one| (one.quota * period).div_ceil(one.period)).sum(), period }
    }

    /// `budget` of every `period`, both in ns.
    fn part(budget: u64, period: u64) -> Quota {
        let (budget, period) = (u128::from(budget.max(1)), u128::from(period.max(1)));
        let (least, longest) = (u128::from(Quota::LEAST) * 1000, u128::from(Quota::LONGEST) * 1000);
        let times = least.div_ceil(budget);
        let wanted = (period * times).min(longest);
        // Whole us; a period that is cut keeps the share.
        let us = (wanted / 1000).max(u128::from(Quota::LEAST));
        let quota = (budget * us).div_ceil(period).max(u128::from(Quota::LEAST));
        Quota { quota: quota as u64, period: us as u64 } // at most a second, or a core
    }
}

/// The share of [`Share::WEIGHTS`] that a bandwidth is.
pub(super) fn weight(of: Bandwidth) -> u64 {
    let whole = u128::from(of.numer()) * u128::from(Share::WEIGHTS);
    whole.div_ceil(u128::from(of.denom().max(1))).clamp(1, u128::from(Share::WEIGHTS)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use giusto_model::ServerKind;

    #[test]
    fn a_quota_is_no_less_than_the_server_and_one_that_the_kernel_takes() {
        let us = Duration::from_us;
        let quota = |budget, period| Quota::of(Server { kind: ServerKind::Deferrable, budget, period });
        assert_eq!(quota(us(3000), us(10_000)), Quota { quota: 3000, period: 10_000 });
        assert_eq!(quota(us(300), us(1000)), Quota { quota: 1200, period: 4000 }, "below a millisecond: a multiple");
        assert_eq!(
            quota(us(1_000_000), us(4_000_000)),
            Quota { quota: 250_000, period: 1_000_000 },
            "at most a second"
        );
        assert_eq!(quota(Duration::from_ns(1), us(4_000_000)), Quota { quota: 1000, period: 1_000_000 });
        for (budget, period) in [(1, 1), (1500, 3001), (999_999, 1_000_001), (1 << 40, 1 << 41), (7, 1 << 62)] {
            let server = Server {
                kind: ServerKind::Deferrable,
                budget: Duration::from_ns(budget),
                period: Duration::from_ns(period),
            };
            let Quota { quota, period } = Quota::of(server);
            assert!(quota >= 1000 && (1000..=1_000_000).contains(&period), "{quota} {period}");
            assert!(Bandwidth::new(quota, period).unwrap() >= server.bandwidth());
        }
        assert_eq!(Quota::share(Bandwidth::new(2, 5).unwrap()), Quota { quota: 40_000, period: 100_000 });
        assert_eq!(
            (weight(Bandwidth::new(1, 3).unwrap()), weight(Bandwidth::ZERO), weight(Bandwidth::ONE)),
            (3334, 1, 10_000)
        );
    }
}
