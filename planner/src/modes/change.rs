//! Changes from each mode of a host to each other: whether every set of servers on the way fits, and how long they
//! take.

use super::admit::{fits, servers, ModesRefusal};
use super::refusal::{ModeCause, ModeRefusal};
use crate::facts::Facts;
use crate::words::{reason, time};
use giusto_analysis::modes::{bound, response, Course, Responder, Step};
use giusto_model::{Bandwidth, Certificate, Duration, Interface, LocalPlan, ModesPlan, Plan, Server, Transition};

/// A member that does something else after the change.
struct Changing<'a> {
    member: usize,
    old: &'a LocalPlan,
    new: &'a LocalPlan,
}

/// Fills in how long changes to each mode of `plan`, of one host, take at most, and what that rests on.
///
/// Errors: one that takes longer than was promised; two modes of which no order of the members leads from one to the
/// other without asking for too much of a core on the way. O(modes² · members²) tests of cores.
pub(crate) fn promises(plan: &mut Plan, facts: &Facts) -> Result<(), Box<ModeRefusal>> {
    let [modes] = plan.modes.as_slice() else { return Ok(()) };
    let count = modes.modes.len();
    let mut takes = vec![vec![Duration::ZERO; count]; count];
    let pairs = (0..count).flat_map(|to| (0..count).filter(move |from| *from != to).map(move |from| (from, to)));
    for (from, to) in pairs {
        takes[from][to] = takes_at_most(plan, modes, facts, from, to)?;
    }
    // What was worst for a change to each: how long it takes, from where, and what it took over from.
    let mut worst: Vec<Option<(Duration, usize, Option<usize>)>> = vec![None; count];
    for (to, worst) in worst.iter_mut().enumerate() {
        for from in (0..count).filter(|from| *from != to) {
            let mut ways = vec![(takes[from][to], None)];
            if modes.modes[to].urgent {
                // One under way towards `from` is left at once, or, where no order leads on from within it, first
                // ended. The former is no longer than the latter: who has something to do has it in one of the two,
                // and who was told already in both.
                let before = (0..count).filter(|before| *before != from);
                ways.extend(before.filter_map(|x| Some((takes[x][from].checked_add(takes[from][to])?, Some(x)))));
            }
            // Of equal ones the first.
            let Some((takes, before)) = ways.into_iter().rev().max_by_key(|(takes, _)| *takes) else { continue };
            if let Some(within) = modes.modes[to].within.filter(|within| takes > *within) {
                return Err(late(modes, facts, (from, to), takes, within));
            }
            if worst.is_none_or(|(longest, ..)| takes > longest) {
                *worst = Some((takes, from, before));
            }
        }
    }
    let Some(modes) = plan.modes.first_mut() else { return Ok(()) };
    modes.reasons.push(reason(
        "signalling",
        time(Facts::SIGNALLING),
        "for each service that changes: a command, an answer and a reservation, 100 us each [LiH21, § 2.5.3]",
    ));
    let names: Vec<String> = modes.modes.iter().map(|mode| mode.name.clone()).collect();
    for (to, found) in worst.into_iter().enumerate() {
        let Some((takes, from, before)) = found else { continue };
        modes.modes[to].bound = takes;
        let within = modes.modes[to].within.map_or(String::new(), |within| format!("; {} promised", time(within)));
        let how = why(modes, from, to);
        let on_the_way = before.map_or(String::new(), |x| format!(" on the way there from '{}'", names[x]));
        let why = format!("at most, from '{}'{on_the_way}: {how}{within}", names[from]);
        modes.reasons.push(reason(&format!("change to {}", names[to]), time(takes), why));
    }
    Ok(())
}

/// How long a change takes at most that no other one meets.
fn takes_at_most(
    plan: &Plan,
    modes: &ModesPlan,
    facts: &Facts,
    from: usize,
    to: usize,
) -> Result<Duration, Box<ModeRefusal>> {
    let changing = changing(modes, from, to);
    let refused = |cause| refusal(modes, (from, to), cause);
    ordered(plan, modes, from, &changing).map_err(refused)?;
    let course = course(modes, facts);
    let steps: Vec<Step> = changing.iter().map(|one| step(modes, one)).collect();
    let timeout = modes.changes.timeout;
    for (one, step) in changing.iter().zip(&steps) {
        let takes = step.agent.and_then(|agent| response(agent, modes.boosts(), course.latency));
        if let Some(takes) = takes.filter(|takes| *takes > timeout) {
            let service = modes.members[one.member].service.clone();
            return Err(refused(ModeCause::Silent { service, takes, timeout }));
        }
    }
    bound(&steps, course).ok_or_else(|| refused(ModeCause::Endless))
}

fn refusal(modes: &ModesPlan, (from, to): (usize, usize), cause: ModeCause) -> Box<ModeRefusal> {
    let (from, to) = (modes.modes[from].name.clone(), modes.modes[to].name.clone());
    Box::new(ModeRefusal { host: modes.on.clone(), from, to, cause, nearest: Vec::new() })
}

/// It takes longer than was promised, and who takes longest in it.
fn late(
    modes: &ModesPlan,
    facts: &Facts,
    (from, to): (usize, usize),
    takes: Duration,
    within: Duration,
) -> Box<ModeRefusal> {
    let course = course(modes, facts);
    let own = |step: &Step| bound(std::slice::from_ref(step), course).unwrap_or(Duration::ZERO);
    let changing = changing(modes, from, to);
    let longest = changing.iter().map(|one| (one, own(&step(modes, one)))).max_by_key(|(_, own)| *own);
    let (slowest, alone) =
        longest.map_or((String::new(), Duration::ZERO), |(one, own)| (modes.members[one.member].service.clone(), own));
    let policy = modes.changes.policy;
    refusal(modes, (from, to), ModeCause::Late { bound: takes, within, slowest, alone, policy })
}

/// Where the bound of a change comes from.
fn why(modes: &ModesPlan, from: usize, to: usize) -> String {
    let count = changing(modes, from, to).len();
    let services = if count == 1 { "1 service".into() } else { format!("{count} services") };
    let how = match (modes.boosts(), modes.changes.policy) {
        (true, _) => "one after the other, the work of each agent, which waits for no budget, and what may come late",
        (_, giusto_model::ChangePolicy::Sequential) => {
            "one after the other, the work of each agent on what is left of its budget, up to 2(P − B) later for each"
        }
        _ => "those that give up something, then the others, each group as long as its slowest agent, up to 2(P − B) and its work",
    };
    let kept = match modes.changes.transition {
        Transition::Fast => "",
        Transition::Guaranteed => "; what is given up counts a period later, and servers grow at their next period",
    };
    format!("{services}, {how}{kept}; signalling for each")
}

fn course(modes: &ModesPlan, facts: &Facts) -> Course {
    let (policy, transition) = (modes.changes.policy, modes.changes.transition);
    Course { policy, transition, signalling: Facts::SIGNALLING, latency: facts.lateness }
}

/// Who does something else in mode `to` than in `from`: the largest decrease first, of equal ones in the order of the
/// site.
fn changing(modes: &ModesPlan, from: usize, to: usize) -> Vec<Changing<'_>> {
    let local = |mode: usize, member: usize| modes.local(member, &modes.modes[mode].locals[member]);
    let one = |member: usize| {
        let (old, new) = (local(from, member)?, local(to, member)?);
        (old.name != new.name).then_some(Changing { member, old, new })
    };
    let mut all: Vec<Changing<'_>> = (0..modes.members.len()).filter_map(one).collect();
    all.sort_by_key(|one| parts(one.new) - parts(one.old));
    all
}

/// Σ B/P in 10^-12 of a core, rounded down: for an order alone.
fn parts(local: &LocalPlan) -> i128 {
    let part = |share: Bandwidth| i128::from(share.numer()) * 1_000_000_000_000 / i128::from(share.denom());
    local.servers.iter().map(|server| part(server.bandwidth())).sum()
}

fn step(modes: &ModesPlan, one: &Changing<'_>) -> Step {
    let both = || one.old.servers.iter().zip(&one.new.servers);
    let agent = modes.members[one.member].agent.as_ref().zip(one.old.servers.first().zip(one.old.proofs.first()));
    let agent = agent.map(|(agent, (server, proof))| {
        let budget = match proof.certificate {
            Certificate::EveryDeadline { budget, .. } => budget,
            _ => server.budget,
        };
        // Two changes that meet are two commands that it has to work for.
        let cost = agent.cost.checked_mul(modes.at_once()).unwrap_or(agent.cost);
        Responder { cost, server: Interface { budget, period: server.period } }
    });
    let changes = both().filter(|(old, new)| old.budget != new.budget);
    Step {
        agent,
        shrinks: both().any(|(old, new)| new.budget < old.budget),
        grows: both().any(|(old, new)| new.budget > old.budget),
        period: changes.map(|(old, _)| old.period).max().unwrap_or(Duration::ZERO),
    }
}

/// Whether the members can change one after the other: each time the first in the order whose change fits. While one
/// changes, each of its servers has the larger of its two budgets.
fn ordered(plan: &Plan, modes: &ModesPlan, from: usize, changing: &[Changing<'_>]) -> Result<(), ModeCause> {
    let mut now: Vec<&LocalPlan> =
        modes.modes[from].locals.iter().enumerate().filter_map(|(place, name)| modes.local(place, name)).collect();
    let Some(host) = plan.only_host() else { return Ok(()) };
    let mut left: Vec<&Changing<'_>> = changing.iter().collect();
    while !left.is_empty() {
        let tried: Vec<Result<(), ModesRefusal>> = left
            .iter()
            .map(|one| {
                let larger = |(a, b): (&Server, &Server)| if a.budget > b.budget { *a } else { *b };
                let both = one.old.servers.iter().zip(&one.new.servers).map(larger).collect();
                let local = LocalPlan { servers: both, ..one.new.clone() };
                let with: Vec<&LocalPlan> = now
                    .iter()
                    .enumerate()
                    .map(|(place, old)| if place == one.member { &local } else { *old })
                    .collect();
                fits(host, &servers(plan, modes, &with))
            })
            .collect();
        let Some(next) = tried.iter().position(Result::is_ok) else {
            let mut cores: Vec<u32> = tried.iter().filter_map(|one| one.as_ref().err()?.core()).collect();
            cores.sort_unstable();
            cores.dedup();
            let services = left.iter().map(|one| modes.members[one.member].service.clone()).collect();
            return Err(ModeCause::NoOrder { cores, services });
        };
        let one = left.remove(next);
        now[one.member] = one.new;
    }
    Ok(())
}
