//! What this machine can enforce, what it lacks, and what to do about it.
//!
//! Called by `giusto doctor`. Reads the machine and asks the kernel for SCHED_FIFO in a thread that ends at once;
//! changes nothing. It never fails: what cannot be read is told as a check.

mod around;
mod cores;
mod left;
mod rights;

use giusto_compute::{Lack, Machine};
use giusto_model::Backend;
use serde::Serialize;

/// How one thing stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// As it should be.
    Ok,
    /// Something works less well or not at all, but `giusto run` can enforce without it.
    Note,
    /// `giusto run` cannot enforce without it.
    Missing,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What it is about.
    pub check: String,
    /// How it stands.
    pub state: Standing,
    /// What is there.
    pub found: String,
    /// What to do; where it is `ok`, nothing.
    pub remedy: Option<String>,
}

impl Check {
    fn ok(check: &str, found: impl Into<String>) -> Check {
        Check { check: check.into(), state: Standing::Ok, found: found.into(), remedy: None }
    }
    fn note(check: &str, found: impl Into<String>, remedy: impl Into<String>) -> Check {
        Check { check: check.into(), state: Standing::Note, found: found.into(), remedy: Some(remedy.into()) }
    }
    fn missing(check: &str, found: impl Into<String>, remedy: impl Into<String>) -> Check {
        Check { state: Standing::Missing, ..Check::note(check, found, remedy) }
    }
}

/// All that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Doctor {
    /// Whether `giusto run` can enforce reservations here: nothing is `missing`.
    pub can_enforce: bool,
    /// The backends that enforce reservations and are usable, the planner's first choice first.
    pub backends: Vec<Backend>,
    /// In the order in which they are to be read.
    pub checks: Vec<Check>,
}

/// Looks at this machine.
pub fn doctor() -> Doctor {
    of(&giusto_compute::probe())
}

/// Backends that give what was promised; a quota only caps, and `rt-group` is used only where it is asked for.
const RESERVING: [Backend; 2] = [Backend::Manager, Backend::Deadline];

fn of(machine: &Machine) -> Doctor {
    let usable: Vec<Backend> = RESERVING.into_iter().filter(|one| machine.lacks(*one).is_empty()).collect();
    let mut checks = vec![rights::root(), rights::namespace(), rights::capabilities()];
    checks.extend([
        rights::fifo(),
        rights::deadline(machine),
        cores::online(machine),
        cores::kernel(),
        cores::cgroups(machine),
    ]);
    checks.extend(Backend::ALL.into_iter().flat_map(|backend| standing(machine, backend, usable.is_empty())));
    checks.extend(cores::others(machine));
    checks.extend([around::container(), around::hypervisor(&machine.cores), left::state_folder(), left::journal()]);
    let can_enforce = checks.iter().all(|check| check.state != Standing::Missing);
    Doctor { can_enforce, backends: usable, checks }
}

/// A line for a backend that works, or one for each thing that it lacks. `none`: no backend works that reserves.
fn standing(machine: &Machine, backend: Backend, none: bool) -> Vec<Check> {
    let name = format!("backend {backend}");
    let lacks = machine.lacks(backend);
    let fatal = none && RESERVING.contains(&backend);
    let told = |Lack { what, how }: &Lack| match fatal {
        true => Check::missing(&name, format!("lacks {what}"), how.as_str()),
        false => Check::note(&name, format!("lacks {what}"), how.as_str()),
    };
    match lacks {
        [] => vec![Check::ok(&name, purpose(backend))],
        lacks => lacks.iter().map(told).collect(),
    }
}

/// What a backend that works is good for.
fn purpose(backend: Backend) -> String {
    match backend {
        Backend::Manager => "usable: reservations of all kinds".into(),
        Backend::Deadline => "usable: one thread a service".into(),
        Backend::RtGroup => "usable, where --backend asks for it".into(),
        Backend::Quota => "usable: caps by at-most".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lack(what: &str) -> Vec<Lack> {
        vec![Lack { what: what.into(), how: "get it".into() }]
    }

    #[test]
    fn one_backend_that_reserves_is_enough_and_without_any_both_are_missing() {
        let machine = Machine { manager: lack("btf"), missing: vec![], ..giusto_compute::probe() };
        let one = standing(&machine, Backend::Manager, false);
        assert_eq!((one[0].state, one[0].found.as_str()), (Standing::Note, "lacks btf"));
        assert_eq!(standing(&machine, Backend::Deadline, false)[0].state, Standing::Ok);
        let machine = Machine { missing: lack("cpusets"), quota: lack("cpu"), ..machine };
        let doctor = of(&machine);
        assert!(!doctor.can_enforce && doctor.backends.is_empty());
        let state = |backend| standing(&machine, backend, true)[0].state;
        assert_eq!(state(Backend::Manager), Standing::Missing);
        assert_eq!(state(Backend::Deadline), Standing::Missing);
        assert_eq!(state(Backend::Quota), Standing::Note, "a cap is no reservation");
    }

    #[test]
    fn whatever_is_not_in_order_says_what_to_do() {
        for check in doctor().checks {
            assert!(!check.check.is_empty() && !check.found.is_empty(), "{check:?}");
            assert_eq!(check.remedy.is_none(), check.state == Standing::Ok, "{check:?}");
            assert!(check.remedy.is_none_or(|remedy| !remedy.is_empty()));
        }
    }
}
