//! Does a service ask for more processor time than its share? Said before a trial begins, as no distribution says it:
//! the queue of
//! an overloaded service grows for ever, and a percentile of it says how long was measured.

use crate::words::time;
use giusto_model::{Bandwidth, Duration, Server};
use serde::Serialize;

/// What a service's requests ask of its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DemandVerdict {
    /// More than the share gives, on average: the queue grows for ever.
    Overloaded,
    /// On average less, but in the busiest window more than the budget: some requests wait for the next period.
    Tight,
    /// The share is enough.
    Fits,
    /// The share is enough, and less would do.
    Generous,
}

/// A service's demand beside its share. Serialises as part of the JSON of `giusto run --trial`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Demand {
    /// Mean processor time of a request, measured under load.
    #[serde(rename = "mean_ns")]
    pub mean: Duration,
    /// What the plan was made for: the mean that was declared; `None` where it was made from measurements.
    #[serde(rename = "declared_ns")]
    pub declared: Option<Duration>,
    /// Processor time asked for, as a share of a core.
    pub utilization: f64,
    /// Greatest processor time that was asked for in a window as long as the server's period.
    #[serde(rename = "greatest_ns")]
    pub greatest: Duration,
    /// Budget of the server.
    #[serde(rename = "budget_ns")]
    pub budget: Duration,
    /// Its period.
    #[serde(rename = "period_ns")]
    pub period: Duration,
    /// Points of a core that the plan adds on purpose.
    #[serde(skip)]
    pub margin: f64,
    /// What follows.
    pub verdict: DemandVerdict,
}

/// A budget that is larger than the greatest demand and the margin by this factor is generous.
const GENEROUS: f64 = 1.1;

impl Demand {
    /// Of a service that asked for `utilization` of a core, and for `greatest` in the busiest window of the period of
    /// its `server`.
    pub fn of(
        server: &Server,
        margin: Bandwidth,
        mean: Duration,
        declared: Option<Duration>,
        utilization: f64,
        greatest: Duration,
    ) -> Demand {
        let Server { budget, period, .. } = *server;
        let share = budget.ns() as f64 / period.ns().max(1) as f64;
        let margin = margin.as_f64();
        let enough = greatest.ns() as f64 + margin * period.ns() as f64;
        let verdict = if utilization > share {
            DemandVerdict::Overloaded
        } else if greatest > budget {
            DemandVerdict::Tight
        } else if budget.ns() as f64 > GENEROUS * enough {
            DemandVerdict::Generous
        } else {
            DemandVerdict::Fits
        };
        Demand { mean, declared, utilization, greatest, budget, period, margin, verdict }
    }

    /// The budget that would do in the same period: the greatest demand and the margin.
    pub fn enough(&self) -> f64 {
        self.greatest.ns() as f64 + self.margin * self.period.ns() as f64
    }

    /// One sentence, without a full stop.
    pub fn words(&self) -> String {
        let Demand { mean, budget, period, greatest, utilization, .. } = *self;
        let ns = |time: Duration| time.ns() as f64;
        let takes = match self.declared {
            Some(declared) => {
                format!(
                    "a request takes {} of processor time here, {} were declared",
                    time(ns(mean)),
                    time(ns(declared))
                )
            }
            None => format!("a request takes {} of processor time here", time(ns(mean))),
        };
        let share = format!("{} every {}", time(ns(budget)), time(ns(period)));
        match self.verdict {
            DemandVerdict::Overloaded => format!(
                "overloaded: {takes}; all of them ask for {:.1} % of a core and the share is {:.1} % ({share}), so the queue grows for ever",
                utilization * 100.0,
                ns(budget) / ns(period) * 100.0
            ),
            DemandVerdict::Tight => format!(
                "tight: {takes}; in the busiest {} they took {}, the budget is {}",
                time(ns(period)),
                time(ns(greatest)),
                time(ns(budget))
            ),
            DemandVerdict::Generous => format!(
                "generous: {takes}; in the busiest {} they took {}, so {} every {} would do instead of {}",
                time(ns(period)),
                time(ns(greatest)),
                time(self.enough()),
                time(ns(period)),
                time(ns(budget))
            ),
            DemandVerdict::Fits => format!(
                "{takes}; in the busiest {} they took {} of the {} that the share gives",
                time(ns(period)),
                time(ns(greatest)),
                time(ns(budget))
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giusto_model::ServerKind;

    #[test]
    fn half_the_truth_is_overloaded_twice_is_generous_and_the_number_is_right() {
        let (ms, us) = (Duration::from_ms, Duration::from_us);
        let points = Bandwidth::new(1, 20).unwrap();
        // Six requests of 50 us every millisecond: 30 %, in the busiest 40 ms 13 ms.
        let of = |budget| {
            let server = Server { kind: ServerKind::ConstantBandwidth, budget, period: ms(40) };
            Demand::of(&server, points, us(50), Some(us(25)), 0.3, ms(13))
        };
        for (budget, verdict, words) in [
            (ms(8), DemandVerdict::Overloaded, "takes 50.0 us of processor time here, 25.0 us were declared"),
            (ms(12), DemandVerdict::Tight, "tight"), // a load of just the share is not above it
            (us(12_500), DemandVerdict::Tight, "in the busiest 40.0 ms they took 13.0 ms, the budget is 12.5 ms"),
            (ms(15), DemandVerdict::Fits, "13.0 ms of the 15.0 ms"),
            (ms(26), DemandVerdict::Generous, "15.0 ms every 40.0 ms would do instead of 26.0 ms"),
        ] {
            let found = of(budget);
            assert_eq!(found.verdict, verdict, "{budget}: {}", found.words());
            assert!(found.words().contains(words), "{}", found.words());
        }
    }
}
