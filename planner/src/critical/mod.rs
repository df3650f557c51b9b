//! Services with criticality: which of their servers go together on a core, by EDF-VD [Asy20, section 3.5].
//!
//! A core has servers with criticality or servers without: it is under one order. Its HI mode reserves for high ones alone, its LO
//! mode for all; what is reserved of it is the larger of the two.

mod refusal;

pub use refusal::Discord;

use crate::words::{reason, share, time};
use giusto_analysis::criticality::{judge_soonest, Level, Test, Verdict, Vm};
use giusto_model::{Bandwidth, Criticality, Duration, Interface, Reason, ServicePlan};

/// What EDF-VD has to know of a server: its usual interface, and its worst budget if it is high.
pub(crate) fn vm(interface: Interface, worst: Option<Duration>) -> Vm {
    let Interface { budget, period } = interface;
    worst.map_or(Vm::low(budget, period), |worst| Vm::high(budget, worst, period))
}

/// The same of an entry of a plan; `None`: it has no criticality.
pub(crate) fn planned(entry: &ServicePlan) -> Option<Vm> {
    let worst = match entry.criticality? {
        Criticality::Low => None,
        Criticality::High { worst, .. } => Some(worst),
    };
    Some(vm(entry.server.interface(), worst))
}

/// x of a core that can give `most`, if its servers have criticality.
pub(crate) fn x<'a>(here: impl Iterator<Item = &'a ServicePlan>, most: Bandwidth) -> Option<Bandwidth> {
    let vms: Vec<Vm> = here.map(planned).collect::<Option<_>>()?;
    judge_soonest(&vms, most).ok().map(|verdict| verdict.x)
}

/// What servers reserve of a core: in LO mode all their usual budgets, in HI mode the worst of high ones; the larger. `None` where
/// a sum needs more than 64 bits.
pub(crate) fn reserved(vms: &[Vm]) -> Option<Bandwidth> {
    let usual = |vm: &Vm| Bandwidth::of(vm.optimistic, vm.period);
    let worst =
        |vm: &Vm| if vm.level == Level::High { Bandwidth::of(vm.worst, vm.period) } else { Some(Bandwidth::ZERO) };
    let sum =
        |part: &dyn Fn(&Vm) -> Option<Bandwidth>| vms.iter().try_fold(Bandwidth::ZERO, |sum, vm| sum.add_up(part(vm)?));
    Some(sum(&usual)?.max(sum(&worst)?))
}

/// The criticality of the server at `place` of those that were judged.
pub(crate) fn criticality(vm: &Vm, place: usize, verdict: &Verdict) -> Criticality {
    match vm.level {
        Level::Low => Criticality::Low,
        Level::High => Criticality::High { worst: vm.worst, virtual_deadline: verdict.virtual_deadline(place) },
    }
}

/// Where the numbers of a server with criticality come from.
pub(crate) fn reasons(vm: &Vm, place: usize, verdict: &Verdict, most: Bandwidth, timely: bool) -> Vec<Reason> {
    let (level, why) = match vm.level {
        Level::High => ("high", "from the site; while it, or another high one of its core, needs more than usual (HI mode), low ones get what is left"),
        Level::Low => ("low", "from the site; it has its budget while no high one of its core needs more than usual (LO mode). Only another plan moves it"),
    };
    let mut reasons = vec![reason("criticality", level, why)];
    if vm.level == Level::High {
        let part = Bandwidth::of(vm.worst, vm.period).map_or(String::new(), |part| format!(" ({})", share(part)));
        let why = match timely {
            true => "required + loss as above, for the worst-wcet of its tasks and at the same period; proven as the usual budget is",
            false => "of the site, in every period in which it needs that much",
        };
        reasons.push(reason("worst", format!("{}{part}", time(vm.worst)), why));
    }
    let told = &verdict.utilizations;
    let sums = format!(
        "U1(1) = {}, U2(1) = {}, U2(2) = {} of the servers of this core, at most {}",
        told.u1_1.percent(),
        told.u2_1.percent(),
        told.u2_2.percent(),
        share(most)
    );
    let (value, why) = match (&verdict.interval, verdict.test) {
        (Some(ends), Test::EdfVd) => (
            format!("edf-vd, x = {}", verdict.x),
            format!(
                "{sums}: x from {} to {}, the least with whole virtual deadlines [Asy20, eqs. 1 to 6]",
                ends.from, ends.to
            ),
        ),
        _ => {
            let room = "plain EDF has room for all at their worst [Asy20, eqs. 1 to 3]";
            match verdict.x == Bandwidth::ONE {
                true => ("edf, x = 1".into(), format!("{sums}: {room}")),
                false => (
                    format!("edf, x = {}", verdict.x),
                    format!("{sums}: {room}, with any x up to 1; this is the least of eq. 4, for high ones not to wait behind low ones"),
                ),
            }
        }
    };
    reasons.push(reason("test", value, why));
    let deadline = time(verdict.virtual_deadline(place));
    let why = match vm.level {
        Level::High => {
            "its virtual deadline, x · period (eq. 5): a request that finds it rested and needs no more than the usual budget is done so \
             soon in LO mode; it has the worst one within its period in any case. A shorter period makes it respond sooner"
        }
        Level::Low => {
            "its period: a request that finds it rested and needs no more than its budget is done so soon in LO mode. A shorter \
             period makes it respond sooner"
        }
    };
    reasons.push(reason("waits at most", deadline, why));
    reasons
}
