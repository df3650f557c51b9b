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
        /// U in percent of a core, rounded up, if every request takes the longest time that is possible.
        percent: u64,
        /// That time, and U in percent if each takes the mean, where all that is known of them is a mean and a bound.
        bounded: Option<(Duration, u64)>,
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
        /// Whether beside others no server is enough, or none that there is room for.
        alone: bool,
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
            Missed::Overload { percent, bounded: None } => {
                write!(f, "its requests alone need {percent} % of one core, so that they would wait ever longer")
            }
            Missed::Overload { percent, bounded: Some((wcet, mean)) } => write!(
                f,
                "its requests alone need {percent} % of one core if each takes its wcet of {}, so that they would wait ever \
                 longer ({mean} % if each takes the mean; with 'histogram' the times that were measured count instead)",
                time(*wcet)
            ),
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
            Missed::Room { needs, room, whole, cores, alone } => {
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
                write!(f, "it needs {needs} ({} of a core) for {points}, ", share(needs.bandwidth()))?;
                if *alone && *cores > 0 && needs.bandwidth() <= *whole {
                    let none = match cores {
                        1 => "the one core for it has others".into(),
                        _ => format!("each of {cores} cores has others"),
                    };
                    return write!(
                        f,
                        "on a core without others, whose work may go first for up to a period of {}; {none}",
                        time(needs.period)
                    );
                }
                write!(f, "and ")?;
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
