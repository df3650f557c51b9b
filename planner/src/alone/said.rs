//! What still holds of a promise under settings of another program, and what is lost, in words and numbers.

use super::again::Alone;
use super::quota::Quota;
use super::share::{Entry, Rest, Share, Way};
use super::weigh::holds;
use crate::promises;
use crate::words::{share, time};
use giusto_model::{About, Bandwidth, Cap, Certificate, Criticality, Duration, Plan, Server, ServicePlan};

/// What the kernel leaves of a second to all that is no real-time thread, at once (kernel.sched_rt_runtime_us = 950000).
const THROTTLED: Duration = Duration::from_ms(50);
const SECOND: Duration = Duration::from_secs(1);

/// What a target does for it.
pub(super) struct Means {
    /// One that has its core to itself goes before the fair class there.
    pub(super) fifo: bool,
    /// The quota that it gets, and of what that is one if it is not of this reservation alone; `None`: it gets none, and why.
    pub(super) quota: Option<Quota>,
    pub(super) quota_of: String,
    /// What else has to be so that the others of its core do not take its time; empty: nothing.
    pub(super) provided: String,
    /// Processors are given by the target, and not those of the plan.
    pub(super) others: bool,
}

/// What holds, and what does not.
pub(super) struct Said {
    pub(super) keeps: Vec<String>,
    pub(super) loses: Vec<String>,
    /// What would keep what is lost.
    pub(super) instead: Option<String>,
}

impl Said {
    /// The lines of a comment.
    pub(super) fn lines(&self) -> Vec<String> {
        let keeps = self.keeps.iter().map(|one| format!("KEPT: {one}"));
        let loses = self.loses.iter().map(|one| format!("LOST: {one}"));
        keeps.chain(loses).chain(self.instead.iter().map(|one| format!("INSTEAD: {one}"))).collect()
    }
}

/// Who it is, what it was promised, and how Giusto would keep it.
pub(super) fn head(planned: &ServicePlan) -> String {
    let Server { budget, period, .. } = planned.server;
    let part = planned.part().map_or(String::new(), |part| format!(", {part}"));
    format!(
        "{}{part}: {}. Under Giusto: core {}, {} every {} ({}), backend {}; 'giusto explain {}' says why.",
        planned.name,
        promises::of(&planned.promise).promised(planned),
        planned.core,
        time(budget),
        time(period),
        share(planned.server.bandwidth()),
        planned.backend,
        planned.name
    )
}

/// Of a reservation.
pub(super) fn of(alone: &Alone, entry: &Entry, plan: &Plan, means: &Means) -> Said {
    let planned = entry.planned;
    let mut said = match &entry.way {
        Way::Whole => whole(planned, entry.core, means),
        Way::Share(part) => shared(alone, entry, part, means),
    };
    let is_member = |modes: &giusto_model::ModesPlan| modes.members.iter().any(|one| one.service == planned.name);
    if plan.modes.iter().any(|modes| modes.on == planned.on && is_member(modes)) {
        match &entry.way {
            Way::Whole => {
                said.keeps.push("the same in all its modes: what it needs in each is less than its core".into())
            }
            Way::Share(_) => {
                said.loses
                    .push("its modes: this is set for the one in which the site begins, and nothing changes it".into());
            }
        }
    }
    if planned.adapt.is_some() {
        said.loses.push("adapt: should it ask for more than planned, nothing plans it anew".into());
    }
    said
}

/// A core to itself.
fn whole(planned: &ServicePlan, core: u32, means: &Means) -> Said {
    let Server { budget, period, .. } = planned.server;
    let promised = promises::of(&planned.promise).promised(planned);
    let (budget_words, period_words) = (time(budget), time(period));
    let (mut keeps, mut loses) = (Vec::new(), Vec::new());
    let provided = match means.provided.is_empty() {
        true => String::new(),
        false => format!(", provided that {}", means.provided),
    };
    let place = match means.others {
        true => "its processor".to_string(),
        false => format!("core {core}"),
    };
    let why = format!(
        "{place} has no other reservation, and a whole core supplies in every window no less than the {budget_words} every \
         {period_words} that are planned for it{provided}"
    );
    // A supply is promised to what is always busy, too.
    let hole = means.fifo && planned.promise.about() == About::Supply;
    let left = period.checked_sub(THROTTLED).unwrap_or(Duration::ZERO);
    let is_short = period < SECOND && left < budget;
    match hole && is_short {
        true => {
            keeps.push(format!("{promised}, as long as it is busy for no more than 95 % of a second: {why}"));
            loses.push(format!(
                "the same for one that is always busy: the kernel takes {} at once from real-time threads in every second \
                 (kernel.sched_rt_runtime_us), so it has {} in every {}",
                time(THROTTLED),
                time(SECOND.checked_sub(THROTTLED).unwrap_or(SECOND)),
                time(SECOND)
            ));
        }
        false if means.fifo && !hole => {
            let work = planned.server.bandwidth();
            keeps.push(format!(
                "{promised}{}: {why}; real-time threads are stopped where they take more than 95 % of a second \
                 (kernel.sched_rt_runtime_us), and this was planned with {}",
                predicted(planned),
                share(work)
            ));
        }
        false => keeps.push(format!("{promised}{}: {why}", predicted(planned))),
    }
    if let Some(Criticality::High { worst, .. }) = planned.criticality {
        keeps.push(format!("at its worst, {} in a period: the core is its own", time(worst)));
    }
    if planned.cap == Cap::Hard {
        let left = planned.left_for_others;
        loses.push(format!(
            "its cap of {}: it may take all of {place}, and the {} that Giusto leaves to others there are not sure",
            share(planned.server.bandwidth()),
            share(left)
        ));
    }
    Said { keeps, loses, instead: None }
}

/// A part of a core.
fn shared(alone: &Alone, entry: &Entry, part: &Share, means: &Means) -> Said {
    let planned = entry.planned;
    let Server { budget, period, .. } = planned.server;
    let bandwidth = planned.server.bandwidth();
    let promised = promises::of(&planned.promise).promised(planned);
    let (mut keeps, mut loses) = (Vec::new(), Vec::new());
    let provided = match means.provided.is_empty() {
        true => String::new(),
        false => format!("; provided that {}", means.provided),
    };
    match &part.floor {
        Ok(floor) if holds(floor.least, bandwidth) => keeps.push(format!(
            "{} of core {} over time, while it is busy (planned again as 'promise: leftovers, at-least: {}', of {} that are \
             left to all here; by its weight at least {}){provided}",
            share(bandwidth),
            entry.core,
            percent(bandwidth),
            share(floor.available),
            share(floor.least)
        )),
        Ok(floor) => {
            keeps.push(format!("{} of core {}, while it is busy, by its weight{provided}", share(floor.least), entry.core));
            loses.push(format!(
                "{} of core {} over time: a weight is one for all cores, and those of services that may run on several, this or \
                 others of core {}, may be on one of them",
                share(bandwidth),
                entry.core,
                entry.core
            ));
        }
        Err(why) => loses.push(format!("even a share over time (planned again as leftovers: {why})")),
    }
    if planned.cap == Cap::Hard {
        match means.quota {
            Some(quota) if quota == Quota::of(planned.server) => keeps.push(format!(
                "its cap: at most {}, and up to a tick of the kernel more, which is paid back",
                every(quota)
            )),
            Some(quota) => loses.push(format!(
                "its cap of {}: the quota is one for {}, {} at most",
                share(bandwidth),
                means.quota_of,
                every(quota)
            )),
            None => loses.push(format!("its cap of {}: {}", share(bandwidth), means.quota_of)),
        }
    }
    let refused = if part.refused.is_empty() {
        String::new()
    } else {
        format!(" ('giusto plan --backend quota': {})", part.refused)
    };
    loses.push(format!(
        "{promised}{refused}: a quota and a weight say how much, not when. It may get nothing for a while, and {} every {} bound \
         nothing",
        time(budget),
        time(period)
    ));
    if planned.criticality.is_some() {
        loses.push("its criticality: nothing gives way to those of high criticality at their worst".into());
    }
    let cores = if alone.missing == 1 { "core" } else { "cores" };
    let more = format!(
        "{} {cores} more for {1} (hosts: {{{1}: {{cores: ...}}}}), so that each has one to itself, which is enough for one that is \
         not always busy; or Giusto",
        alone.missing, alone.host.name
    );
    Said { keeps, loses, instead: Some(if alone.missing > 0 { more } else { "Giusto".into() }) }
}

/// `, p90 at most 21 ms`
fn predicted(planned: &ServicePlan) -> String {
    let Certificate::Percentiles { predicted, .. } = &planned.certificate else { return String::new() };
    predicted.iter().map(|one| format!(", {} {} as predicted", one.percentile, time(one.at))).collect()
}

/// As a site file writes it.
fn percent(share: Bandwidth) -> String {
    share.percent().replace(' ', "")
}

/// Who gets leftovers.
pub(super) fn rest_head(rest: &Rest) -> String {
    let planned = rest.planned;
    let most = planned.at_most.map_or(String::new(), |most| format!(", at most {}", share(most)));
    format!(
        "{}: what the others leave, at least {}{most}. 'giusto explain {}' says why.",
        planned.name,
        share(planned.at_least),
        planned.name
    )
}

/// `3 ms in every 10 ms`
fn every(Quota { quota, period }: Quota) -> String {
    format!("{} in every {}", time(Duration::from_us(quota)), time(Duration::from_us(period)))
}

/// Of one that gets leftovers; `provided`: as of [`Means`].
pub(super) fn rest(rest: &Rest, provided: &str) -> Said {
    let (mut keeps, mut loses) = (Vec::new(), Vec::new());
    let planned = rest.planned;
    let provided = if provided.is_empty() { String::new() } else { format!("; provided that {provided}") };
    if planned.at_least > Bandwidth::ZERO {
        match &rest.floor {
            Ok(floor) => {
                let least = if holds(floor.least, planned.at_least) { planned.at_least } else { floor.least };
                let (least, available) = (share(least), share(floor.available));
                keeps.push(match rest.shares {
                    true => format!("at least {least} over time, of {available} that all share here{provided}"),
                    false => format!(
                        "at least {least}, of {available} that are left on cores without a reservation, provided that nothing \
                         else is busy there"
                    ),
                });
                if !holds(floor.least, planned.at_least) {
                    loses.push(format!(
                        "at least {}: its weight beside that of others on one core gives {least} of that core, and it is sure of \
                         no more where it is busy on one alone",
                        share(planned.at_least)
                    ));
                }
            }
            Err(why) => loses.push(format!("at least {}: {why}", share(planned.at_least))),
        }
    }
    if let Some(most) = planned.at_most {
        keeps.push(format!("at most {} of a core, all its processes together", share(most)));
    }
    Said { keeps, loses, instead: None }
}
