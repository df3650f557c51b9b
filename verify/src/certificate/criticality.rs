//! Criticality: the worst budget of a high server is enough for its worst, and the servers of a core go together by EDF-VD (paper
//! 003, eqs. 1 to 6). U1(1), U2(1) and U2(2) are summed here from the servers; of x nothing is believed but its value.

use super::broken::Broken;
use super::entry::{self, CheckedService};
use super::exact::{of, share, whole, Exact};
use giusto_model::{About, Admission, Cap, Criticality, Duration, LocalProof, Server, ServerKind, ServicePlan, Task};

/// One entry, at its worst too if it has high criticality.
pub(super) fn check(one: &ServicePlan) -> Result<CheckedService, Broken> {
    let usual = entry::check(one)?;
    Ok(CheckedService { compared: usual.compared + worst(one)?, ..usual })
}

/// The numbers of one entry that follow from its criticality; comparisons that were made.
fn worst(one: &ServicePlan) -> Result<usize, Broken> {
    let (budget, period) = (one.server.budget, one.server.period);
    match (one.criticality, &one.pessimistic) {
        (None | Some(Criticality::Low), Some(_)) => {
            Err(Broken::new("a proof of a worst budget with high criticality only", "none", "one"))
        }
        (None | Some(Criticality::Low), None) => Ok(0),
        (Some(Criticality::High { .. }), None) => Err(Broken::new("a proof of its worst budget", "one", "none")),
        (Some(Criticality::High { worst, virtual_deadline }), Some(proof)) => {
            for (what, time) in [("a worst budget", worst), ("a virtual deadline", virtual_deadline)] {
                if time < budget || time > period {
                    let needed = format!("{budget} to {period}");
                    return Err(Broken::new(format!("{what} from its budget to its period"), needed, time));
                }
            }
            at_worst(one, worst, proof)
        }
    }
}

/// Whether the worst budget is enough for the worst of the same tasks.
fn at_worst(one: &ServicePlan, worst: Duration, proof: &LocalProof) -> Result<usize, Broken> {
    let alike = |(usual, worst): (&Task, &Task)| {
        Task { wcet: usual.wcet, ..worst.clone() } == *usual && worst.wcet >= usual.wcet
    };
    let same = one.tasks.len() == proof.tasks.len() && one.tasks.iter().zip(&proof.tasks).all(alike);
    if !same {
        return Err(Broken::new("a proof of its worst budget for its own tasks at their worst", "its tasks", "others"));
    }
    let base = ServicePlan { criticality: None, pessimistic: None, ..one.clone() };
    let server = Server { budget: worst, ..one.server };
    let checked = entry::check(&entry::with(&base, server, proof));
    checked
        .map(|checked| checked.compared)
        .map_err(|broken| Broken { what: format!("at its worst: {}", broken.what), ..broken })
}

/// Whether the servers of a core go together, if they have criticality.
pub(super) fn core(here: &[&ServicePlan], admission: &Admission) -> Result<(), Broken> {
    let Some(x) = admission.x else {
        return match here.iter().find(|one| one.criticality.is_some()) {
            Some(one) => Err(Broken::new("x, the factor of virtual deadlines, of its core", "one", "none").of(one)),
            None => Ok(()),
        };
    };
    let (x, one) = (share(x), whole(1));
    if x == whole(0) || x > one {
        return Err(Broken::new("a factor x of virtual deadlines", "more than 0, at most 1", x));
    }
    if admission.boost.is_some() {
        return Err(Broken::new("no boosts beside criticality", "none", "some"));
    }
    let [mut low, mut usual, mut worst] = [whole(0), whole(0), whole(0)];
    for entry in here {
        let broken = |what: &str, needed: &str, found: &str| Err(Broken::new(what, needed, found).of(entry));
        let Server { kind, budget, period } = entry.server;
        let part = |budget: Duration| of(budget, period).unwrap_or_else(|| whole(1));
        if kind != ServerKind::ConstantBandwidth || !entry.backend.abilities().criticality {
            return broken("a server of the mixed order", "constant_bandwidth of the manager", "another");
        }
        if entry.cap != Cap::Soft {
            return broken("what is left over goes to servers with criticality", "a soft cap", "a hard one");
        }
        if !matches!(entry.promise.about(), About::Supply | About::Deadlines) {
            return broken("criticality with a supply or every deadline", "one of these", "another promise");
        }
        match entry.criticality {
            None => return broken("criticality of all servers of its core", "one", "none"),
            Some(Criticality::Low) => low += part(budget),
            Some(Criticality::High { worst: most, virtual_deadline }) => {
                usual += part(budget);
                worst += part(most);
                let due: Exact = &x * whole(period.ns().into());
                if due != whole(virtual_deadline.ns().into()) {
                    return Err(
                        Broken::new("its virtual deadline, x times its period", due, virtual_deadline.ns()).of(entry)
                    );
                }
            }
        }
    }
    let most = share(admission.most);
    let lo = &low + usual / &x;
    if lo > most {
        return Err(Broken::new("room in LO mode for U1(1) + U2(1)/x", lo, most));
    }
    let hi = x * low + &worst;
    if hi > most {
        return Err(Broken::new("room in HI mode for x U1(1) + U2(2)", hi, most));
    }
    let told = share(admission.reserved);
    match worst > told {
        true => Err(Broken::new("what high servers at their worst reserve of it", worst, told)),
        false => Ok(()),
    }
}
