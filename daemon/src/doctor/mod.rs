//! What this machine can enforce, what it lacks, and what to do about it.
//!
//! Called by `giusto doctor`. Reads the machine and asks the kernel for SCHED_FIFO in a thread that ends at once;
//! changes nothing. It never fails: what cannot be read is told as a check.

mod around;
mod check;
mod cores;
mod left;
mod rights;

pub use check::{Check, Standing};

use giusto_compute::{Lack, Machine};
use giusto_model::Backend;
use serde::Serialize;

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

/// Backends that the planner chooses among, its first choice for a supply first.
fn reserving() -> Vec<Backend> {
    let mut all: Vec<Backend> = Backend::ALL.into_iter().filter(|one| one.abilities().order[1].is_some()).collect();
    all.sort_by_key(|one| one.abilities().order[1]);
    all
}

fn of(machine: &Machine) -> Doctor {
    let usable: Vec<Backend> = reserving().into_iter().filter(|one| machine.lacks(*one).is_empty()).collect();
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
    // Another kernel is no remedy where a stock one can do.
    let fatal = none && reserving().contains(&backend) && backend.abilities().beyond_stock.is_none();
    let told = |Lack { what, how }: &Lack| match fatal {
        true => Check::missing(&name, format!("lacks {what}"), how.as_str()),
        false => Check::note(&name, format!("lacks {what}"), how.as_str()),
    };
    match lacks {
        [] => vec![Check::ok(&name, backend.abilities().purpose)],
        lacks => lacks.iter().map(told).collect(),
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
        let lacks = |names: &[Backend]| Machine {
            lacks: names.iter().map(|name| (*name, lack("btf"))).collect(),
            ..giusto_compute::probe()
        };
        let machine = lacks(&[Backend::Manager]);
        let one = standing(&machine, Backend::Manager, false);
        assert_eq!((one[0].state, one[0].found.as_str()), (Standing::Note, "lacks btf"));
        assert_eq!(standing(&machine, Backend::Deadline, false)[0].state, Standing::Ok);
        assert_eq!(of(&machine).backends, [Backend::Deadline, Backend::RtGroup]);
        let machine = lacks(&Backend::ALL);
        let doctor = of(&machine);
        assert!(!doctor.can_enforce && doctor.backends.is_empty());
        let state = |backend| standing(&machine, backend, true)[0].state;
        assert_eq!(state(Backend::Manager), Standing::Missing);
        assert_eq!(state(Backend::Deadline), Standing::Missing);
        assert_eq!(state(Backend::Quota), Standing::Note, "a cap is no reservation");
        assert_eq!(state(Backend::RtGroup), Standing::Note, "a stock kernel can do");
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
