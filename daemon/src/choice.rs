//! What is observed of a service: what its site says, or what its promise and what it does suggest.

use crate::response_status::ObservedBy;
use giusto_model::{About, Observe, Promise};

/// What is observed, and why just that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) by: ObservedBy,
    pub(crate) why: String,
}

/// What a service that says nothing of it is seen to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Where it listens, if it does.
    pub(crate) listens: Option<String>,
    /// It has been asked something that is understood.
    pub(crate) is_asked: bool,
}

/// Whether it may depend on what the service does.
pub(crate) fn is_open(asked: Option<&Observe>, promise: Option<&Promise>) -> bool {
    asked.is_none() && !matches!(promise.map(Promise::about), Some(About::Deadlines | About::Paths))
}

/// Chooses; `asked` is what the site says, and without a promise it gets what is left.
pub(crate) fn choose(asked: Option<&Observe>, promise: Option<&Promise>, seen: &Seen) -> Choice {
    let chosen = |by, why: &str| Choice { by, why: why.into() };
    if let Some(by) = asked {
        return chosen(by.into(), "the site says so");
    }
    match (promise.map(Promise::about), seen) {
        (Some(About::Deadlines), _) => chosen(ObservedBy::WakeUps, "its tasks have deadlines"),
        (Some(About::Paths), _) => chosen(ObservedBy::WakeUps, "it passes on what its paths send it"),
        (_, Seen { listens: Some(address), .. }) => chosen(ObservedBy::Requests, &format!("it listens on {address}")),
        (_, Seen { is_asked: true, .. }) => chosen(ObservedBy::Requests, "it answers requests"),
        (Some(About::Requests), _) => chosen(ObservedBy::WakeUps, "it listens on no port, and has answered no request"),
        (Some(About::Rest) | None, _) => {
            chosen(ObservedBy::None, "nothing was promised of its response times, and it listens on no port")
        }
        (Some(About::Supply), _) => chosen(ObservedBy::Supply, "it was promised a supply, and listens on no port"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giusto_model::{Duration, GuestScheduler, ServiceTime};

    #[test]
    fn the_site_goes_before_the_promise_and_that_before_what_is_seen() {
        let every = Promise::EveryDeadline { scheduler: GuestScheduler::Any, vcpus: 1, placed: vec![] };
        let supply = Promise::Supply(vec!["3ms/10ms".parse().unwrap()]);
        let service = ServiceTime::Constant { time: Duration::from_ms(1) };
        let stage = Promise::Stage { service, counted: None };
        let [idle, asked] = [false, true].map(|is_asked| Seen { listens: None, is_asked });
        let listens = Seen { listens: Some("127.0.0.1:7001".into()), is_asked: false };
        for (site, promise, seen, by) in [
            (Some(&Observe::None), Some(&every), &asked, ObservedBy::None),
            (Some(&Observe::WakeUps), None, &asked, ObservedBy::WakeUps),
            (None, Some(&every), &listens, ObservedBy::WakeUps),
            (None, None, &asked, ObservedBy::Requests),
            (None, None, &idle, ObservedBy::None),
            (None, Some(&stage), &listens, ObservedBy::WakeUps),
            (None, Some(&Promise::AsIfAlone), &listens, ObservedBy::Requests),
            (None, Some(&Promise::AsIfAlone), &idle, ObservedBy::WakeUps),
            (None, Some(&supply), &idle, ObservedBy::Supply),
            (None, Some(&supply), &listens, ObservedBy::Requests),
        ] {
            assert_eq!(choose(site, promise, seen).by, by, "{site:?} {promise:?} {seen:?}");
        }
        assert!(choose(None, None, &listens).why.contains("127.0.0.1:7001"));
        assert!(is_open(None, None) && !is_open(None, Some(&every)) && !is_open(Some(&Observe::None), None));
    }
}
