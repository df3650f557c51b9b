//! What each alternative would take of a core, for people.

use super::alternatives::{keep_offsets, Alternatives, Found};
use crate::backend::Chosen;
use crate::needs::Company;
use crate::words::{reason, share, time};
use giusto_model::{Bandwidth, Interface, Reason, Renewal, RestsOn, Task};

/// A row for each alternative. `periodic` is the cheapest periodic resource, or one that is dearer than another alternative;
/// it may take more than the `most` that a core can give.
pub(super) fn reasons(
    all: &Alternatives,
    tasks: &[Task],
    chosen: &Chosen,
    periodic: Option<Interface>,
    (most, company): (Bandwidth, Company),
) -> Vec<Reason> {
    let Chosen { backend, kind, limits, .. } = chosen;
    let too_much = format!("more than {}", share(most));
    let (resource, at_wake_up, whole_core) = (
        match periodic {
            None => absent("none found"),
            Some(server) if server.bandwidth() > most => {
                (share(server.bandwidth()), format!("{}: {too_much}", every(server)))
            }
            Some(server) => (share(server.bandwidth()), every(server)),
        },
        match &all.at_wake_up {
            Some(found) => priced(found),
            None if kind.renewal() != Renewal::Steady => absent(format!("a period of {kind} does not begin with work")),
            None if !backend.abilities().at_wake_up => {
                absent(format!("a period of {backend} does not begin with work"))
            }
            None => absent(format!("{too_much}, or a period below {}", time(limits.shortest))),
        },
        match &all.whole_core {
            Some(found) => priced(found),
            None if !kind.facts().whole_core => absent(format!("not proven for {kind}")),
            None => absent(format!("not enough, or {too_much}")),
        },
    );
    let few = match company {
        Company::Alone => "",
        Company::Beside => ", taken only where nothing else is enough, as there are too few cores",
    };
    let row =
        |what: &str, (value, server): (String, String), how: &str| reason(what, value, format!("{server}; {how}"));
    let aligned = keep_offsets(tasks).then(|| match &all.aligned {
        Some(found) => priced(found),
        None if kind.renewal() != Renewal::Steady || !backend.abilities().at_wake_up => at_wake_up.clone(),
        None => absent(format!(
            "{too_much}, or the time between releases has no part from {} on in which all is done",
            time(limits.shortest)
        )),
    });
    let how =
        "in each period that begins with work, as its releases are whole periods apart, beside other reservations";
    let mut rows = vec![
        row("periodic resource", resource, "anywhere in each period, beside other reservations"),
        row("at the wake-up", at_wake_up, "in each period that begins with work, beside other reservations"),
    ];
    rows.extend(aligned.map(|aligned| row("aligned releases", aligned, how)));
    rows.push(row("whole core", whole_core, &format!("on a core without other reservations{few}")));
    rows
}

/// That the cheapest is the periodic resource.
pub(super) fn periodic() -> Reason {
    reason(
        "rests on",
        RestsOn::PeriodicResource,
        "budget that may come anywhere in each period; the cheapest of the following",
    )
}

fn every(server: Interface) -> String {
    format!("{} every {}", time(server.budget), time(server.period))
}

fn priced(found: &Found) -> (String, String) {
    (share(found.server.bandwidth()), every(found.server))
}

fn absent(why: impl Into<String>) -> (String, String) {
    ("none".into(), why.into())
}
