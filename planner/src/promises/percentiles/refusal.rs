//! Why percentiles cannot be kept.

use crate::words::{share, time};
use giusto_model::{Bandwidth, Duration, Interface, Within};
use std::fmt;

/// Percentiles that cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Miss {
    /// What was promised.
    pub points: Vec<Within>,
    /// What is in the way.
    pub how: Missed,
}

/// Why percentiles cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missed {
    /// All requests together need a whole core or more.
    Overload {
        /// U in percent of a core, rounded up.
        percent: u64,
    },
    /// Not even a whole core keeps one of them (M/G/1).
    WholeCore {
        /// Which.
        point: Within,
        /// What part of all it serves within that, in thousandths of a percent.
        thousandths: u32,
        /// What the percentile is there.
        at: Duration,
        /// What comes on top on a real machine.
        latency: Duration,
    },
    /// There is no room for a server that is enough.
    Room {
        /// The cheapest; `None`: of the periods that can be enforced none.
        needs: Option<Interface>,
        /// The most that a core has left for it.
        room: Bandwidth,
        /// Of a core without reservations.
        whole: Bandwidth,
        /// Cores that no as-if-alone service has to itself.
        cores: usize,
    },
}

impl Miss {
    /// Whether a core without others would be enough.
    pub(crate) fn room(&self) -> bool {
        matches!(self.how, Missed::Room { needs: Some(needs), whole, .. } if needs.bandwidth() <= whole)
    }

    /// How much is missing, in cores; `None`: no number of cores tells.
    pub(crate) fn missing(&self) -> Option<Bandwidth> {
        match &self.how {
            Missed::Room { needs: Some(needs), room, .. } => needs.bandwidth().checked_sub(*room),
            _ => None,
        }
    }
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.how {
            Missed::Overload { percent } => {
                write!(f, "its requests alone need {percent} % of one core, so that they would wait ever longer")
            }
            Missed::WholeCore { point, thousandths, at, latency } => write!(
                f,
                "{point} is out of reach: even a whole core serves only {} % within it (M/G/1), as {} is {} there, and {} of \
                 latency come on top: {} too much",
                f64::from(*thousandths) / 1000.0,
                point.percentile,
                time(*at),
                time(*latency),
                at.checked_add(*latency).and_then(|all| all.checked_sub(point.within)).map_or("much".into(), time)
            ),
            Missed::Room { needs, room, whole, cores } => {
                let points: Vec<String> = self.points.iter().map(ToString::to_string).collect();
                let points = points.join(", ");
                let Some(needs) = needs else {
                    return write!(
                        f,
                        "for {points} it needs nearly a whole core, and of the servers that can be enforced, which give up to {} \
                         of one, none is enough",
                        share(*whole)
                    );
                };
                write!(f, "it needs {needs} ({} of a core) for {points}, and ", share(needs.bandwidth()))?;
                match cores {
                    0 => write!(f, "as-if-alone services have every core to themselves"),
                    _ if needs.bandwidth() > *whole => write!(f, "a core can give {}", share(*whole)),
                    1 => write!(f, "the one core for it has {} of {} left", share(*room), share(*whole)),
                    _ => write!(f, "of {cores} cores none has more than {} of {} left", share(*room), share(*whole)),
                }
            }
        }
    }
}
