//! What would make a change possible, or fast enough. Every change of the site is tried before it is told.

use super::change::promises;
use super::refusal::{ModeCause, ModeFit, ModeRefusal};
use crate::facts::{known, Facts};
use crate::hosts::attempt;
use crate::known::Alike;
use crate::promises::percentiles::Answers;
use crate::refusal::Refusal;
use giusto_model::{ChangePolicy, Plan, Site, SiteModes, Transition};

/// More cores than this are not suggested.
const MOST_CORES: usize = 4;

/// `plan`, with how long changes of mode take on each of its hosts. Errors: one that cannot be made as promised.
pub(crate) fn promised(
    plan: Plan,
    site: &Site,
    facts: &Facts,
    only: Option<usize>,
    answers: &Answers,
) -> Result<Plan, Refusal> {
    let trial = Trial { site, facts, only, answers };
    trial.told(plan)?.map_err(|mut refusal| {
        refusal.nearest = trial.nearest(&refusal);
        Refusal::Modes(refusal)
    })
}

struct Trial<'a> {
    site: &'a Site,
    facts: &'a Facts,
    only: Option<usize>,
    answers: &'a Answers,
}

impl Trial<'_> {
    /// Each host by itself. Errors: the site is not for this machine.
    fn told(&self, mut plan: Plan) -> Result<Result<Plan, Box<ModeRefusal>>, Refusal> {
        let here = self.facts.place(self.site)?;
        let mut all = Vec::new();
        for modes in std::mem::take(&mut plan.modes) {
            let Some(index) = self.site.hosts.iter().position(|host| host.name == modes.on) else { continue };
            let facts = known(self.site, self.facts, here, index).0;
            let Some(part) = plan.on(&modes.on) else { continue };
            let mut part = Plan { modes: vec![modes], ..part };
            if let Err(refusal) = promises(&mut part, &facts) {
                return Ok(Err(refusal));
            }
            all.append(&mut part.modes);
        }
        plan.modes = all;
        Ok(Ok(plan))
    }

    fn nearest(&self, refusal: &ModeRefusal) -> Vec<ModeFit> {
        let modes = self.site.modes.as_ref();
        let policy = modes.and_then(|modes| modes.changes.policy);
        let quicker = [ModeFit::Policy(ChangePolicy::Boost), ModeFit::Transition(Transition::Fast)];
        let other = |fit: &ModeFit| match *fit {
            ModeFit::Policy(boost) => policy.is_some_and(|policy| policy != boost),
            ModeFit::Transition(fast) => modes.is_some_and(|modes| modes.changes.transition != fast),
            _ => false,
        };
        let more: Vec<ModeFit> = match refusal.cause {
            ModeCause::Late { bound, .. } => {
                quicker.into_iter().filter(other).chain([ModeFit::Within(bound)]).collect()
            }
            ModeCause::NoOrder { .. } => (1..=MOST_CORES).map(ModeFit::MoreCores).collect(),
            ModeCause::Silent { .. } | ModeCause::Endless => quicker.into_iter().filter(other).collect(),
        };
        let mut found = more.into_iter().filter(|fit| self.does(refusal, *fit));
        match refusal.cause {
            ModeCause::NoOrder { .. } => found.next().into_iter().collect(),
            _ => found.collect(),
        }
    }

    /// Whether this change of the site helps: there is a plan, or another change is refused.
    fn does(&self, refusal: &ModeRefusal, fit: ModeFit) -> bool {
        let (mut site, mut facts) = (self.site.clone(), self.facts.clone());
        let Some(SiteModes { changes, modes }) = &mut site.modes else { return false };
        match fit {
            ModeFit::Policy(policy) => changes.policy = Some(policy),
            ModeFit::Transition(transition) => changes.transition = transition,
            ModeFit::Within(within) => {
                modes.iter_mut().filter(|mode| mode.name == refusal.to).for_each(|mode| mode.within = Some(within));
            }
            ModeFit::MoreCores(more) => {
                let Some(host) = site.hosts.iter_mut().find(|host| host.name == refusal.host) else { return false };
                let next = facts.cores.iter().chain(&host.cores).max().map_or(0, |core| core + 1);
                let added: Vec<u32> = (next..).take(more).collect();
                facts.cores.extend(&added);
                host.cores.extend(&added);
            }
        }
        let trial = Trial { site: &site, facts: &facts, ..*self };
        let Ok(plan) = attempt(&site, &facts, self.only, self.answers, &Alike::default()) else { return false };
        match trial.told(plan) {
            Ok(Ok(_)) => true,
            Ok(Err(other)) => (&other.host, &other.from, &other.to) != (&refusal.host, &refusal.from, &refusal.to),
            Err(_) => false,
        }
    }
}
