//! One host with its services, asked again and again: whether they fit.

use crate::facts::Facts;
use crate::hosts::Machines;
use crate::known::{Alike, Known};
use crate::plan::{late, later, measured};
use crate::promises::percentiles::Answers;
use crate::refusal::Refusal;
use giusto_model::{Plan, Site};

/// What was found of services, kept from one [`admit`] to the next.
#[derive(Default)]
pub struct Kept {
    answers: Answers,
    known: Known,
}

/// The plan of a site of one host with services alone, as [`crate::plan()`] makes it where none runs yet; or why not, without the
/// search for what would fit, which takes many times as long.
///
/// What is `kept` may be used again as long as services of the same name are the same, and facts differ in cores alone.
/// O(services · cores), and the analysis of services that are not known yet. Errors: those of [`crate::plan()`].
pub fn admit(site: &Site, facts: &Facts, kept: &Kept) -> Result<Plan, Refusal> {
    measured(site)?;
    let latency = late(site, facts)?;
    let alike = Alike::default();
    Machines::of(site, &later(facts, latency.as_ref()), &kept.answers, &alike)?.only(&kept.known)
}
