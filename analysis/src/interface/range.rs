//! The cheapest interface with a period in a range.

use super::question::{interface, Interface, Question, Refusal};
use crate::Error;
use giusto_model::{Duration, Task};

/// Most periods of a range.
const MOST_PERIODS: u64 = 100_000;

/// As [`interface`], among the periods from `shortest` to `longest` that are whole numbers of the quantum, one by one. Ties go to
/// the shortest. Ok(Err): there is none, and why for the last of them. Errors: as there, no such period, more than 100,000.
pub fn interface_within(
    tasks: &[Task],
    question: &Question,
    shortest: Duration,
    longest: Duration,
) -> Result<Result<Interface, Refusal>, Error> {
    if question.quantum.is_zero() {
        return Err(Error::Quantum);
    }
    let quantum = question.quantum.ns();
    let (first, last) = (shortest.ns().div_ceil(quantum).max(1), longest.ns() / quantum);
    if first > last {
        return Err(Error::Period);
    }
    if last - first >= MOST_PERIODS {
        return Err(Error::Periods { limit: MOST_PERIODS });
    }
    let at = |periods: u64| {
        let period = Some(Duration::from_ns(periods * quantum));
        interface(tasks, &Question { period, ..*question })
    };
    let mut best = at(first)?;
    for periods in first + 1..=last {
        let next = at(periods)?;
        let better = match (&next, &best) {
            (Ok(next), Ok(best)) => next.bandwidth < best.bandwidth,
            (Ok(_), Err(_)) => true,
            _ => false,
        };
        if better {
            best = next;
        }
    }
    Ok(best)
}
