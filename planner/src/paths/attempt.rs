//! Paths of a site planned, and then all its services, with periods for which managers have the time.

use super::given::Periods;
use super::plan::{is_over_hosts, planned, stock, Networks, Resolved};
use crate::facts::Facts;
use crate::hosts::attempt;
use crate::known::Alike;
use crate::promises::percentiles::Answers;
use crate::refusal::{Cause, Refusal};
use giusto_model::{Plan, Site};

/// Plans the paths of `site`, and then all its services: where managers do not have the time for the periods of stages, with
/// longer ones. The first result is that of the paths, `None` where there are none; without it the second says what could not
/// be placed.
///
/// Errors: as [`planned`].
pub(crate) fn attempted(
    site: &Site,
    facts: &Facts,
    networks: Networks,
    only: Option<usize>,
    (answers, known): (&Answers, &Alike),
) -> Result<(Option<Resolved>, Result<Plan, Refusal>), Refusal> {
    let with = |facts: &Facts, networks: Networks, only: Option<usize>, periods: Periods| {
        let resolved = planned(site, facts, networks, answers, periods)?;
        let on = resolved.as_ref().map_or(site, |resolved| &resolved.site);
        let plan = attempt(on, facts, only, answers, known);
        Ok((resolved, plan))
    };
    let too_short = |found: &(Option<Resolved>, Result<Plan, Refusal>)| match found {
        (Some(_), Err(refusal)) => is_of_periods(refusal),
        (Some(_) | None, _) => false,
    };
    if facts.place(site)?.is_some() && site.paths.all.iter().any(|path| is_over_hosts(site, path)) {
        // Whether it fits on this host is no matter of the others.
        let stock = stock(facts);
        let alike = with(&stock, Networks { own: networks.alike, ..networks }, None, Periods::Short);
        let is_too_short = alike.as_ref().is_ok_and(too_short);
        return with(facts, networks, only, if is_too_short { Periods::Usual } else { Periods::Short });
    }
    let found = with(facts, networks, only, Periods::Short)?;
    match too_short(&found) {
        true => with(facts, networks, only, Periods::Usual),
        false => Ok(found),
    }
}

fn is_of_periods(refusal: &Refusal) -> bool {
    match refusal {
        Refusal::DoesNotFit(witness) => matches!(witness.cause, Cause::Upkeep { .. }),
        Refusal::On { refusal, .. } => is_of_periods(refusal),
        _ => false,
    }
}
