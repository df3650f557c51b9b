//! Which servers may have the core at once, and in which order: what the policy core decided for this instant, and what it
//! would decide if those above fell asleep.
//!
//! The kernel's real-time class then carries the order out without asking: when a server's threads sleep, the next one runs at
//! once, and when they wake, they preempt.

use giusto_model::{Criticality, ServerKind};

/// A server as the policy core sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    pub(super) kind: ServerKind,
    /// Lower classes go first, whatever their ranks; `None`: it has no budget.
    pub(super) class: Option<u8>,
    /// Its place in the pool's order: priority or deadline; ties go to who came first.
    pub(super) rank: (u64, usize),
    pub(super) is_ready: bool,
    /// Its place among the boosted.
    pub(super) boost: Option<u64>,
}

/// Servers that may run, highest first; `runs` is the policy core's choice. The others have to be kept off the core.
///
/// Boosted ready ones come first. Below an idle `periodic_strict` server whose turn it is, no server may run (PTPS of Lee11);
/// a server that runs on what another lends (CRPS) is last.
pub(super) fn may_run(servers: &[Standing], runs: Option<usize>) -> Vec<usize> {
    let boosted = |&index: &usize| servers[index].boost.is_some() && servers[index].is_ready;
    let all = || 0..servers.len();
    let mut order: Vec<usize> = all().filter(boosted).collect();
    order.sort_by_key(|&index| servers[index].boost);
    let mut others: Vec<usize> = all().filter(|index| servers[*index].class.is_some() && !boosted(index)).collect();
    others.sort_by_key(|&index| (servers[index].class, servers[index].rank));
    let strict = |index: &usize| servers[*index].kind == ServerKind::PeriodicStrict && !servers[*index].is_ready;
    let periodic = |kind| {
        matches!(kind, ServerKind::PeriodicStrict | ServerKind::PeriodicConserving | ServerKind::PeriodicReclaiming)
    };
    let turn = others.iter().position(|&index| servers[index].is_ready || periodic(servers[index].kind));
    if let Some(turn) = turn.filter(|&turn| strict(&others[turn])) {
        others.truncate(turn + 1);
    }
    order.extend(others);
    // Whoever the policy core chose is the first of the ready ones: it pays for what is consumed.
    if let Some(runs) = runs {
        order.retain(|&index| index != runs);
        let first = order.iter().position(|&index| servers[index].is_ready).unwrap_or(order.len());
        order.insert(first, runs);
    }
    order
}

/// The class of a server with criticality [Asy20, section 3.4]: in LO all with budget, then high ones without; in HI high ones,
/// with budget or without, then low ones with budget. A low one without has no place: it gets what is left, like everybody who
/// has no server.
pub(super) fn class(criticality: Criticality, is_hi: bool, has_budget: bool) -> Option<u8> {
    match criticality {
        Criticality::High { .. } => Some(u8::from(!has_budget)),
        Criticality::Low => has_budget.then_some(if is_hi { 2 } else { 0 }),
    }
}

/// Falling priorities from `highest` on for servers in their order, which have `now`. As few change as a walk down finds: each
/// change is a system call a thread.
pub(super) fn priorities(now: &[Option<u32>], highest: u32) -> Vec<u32> {
    let mut last = highest + 1;
    let mut given = Vec::new();
    for (index, current) in now.iter().enumerate() {
        let below = (now.len() - 1 - index) as u32; // so many have to find room below
        last = current.filter(|&current| current < last && current > below).unwrap_or(last - 1);
        if last <= below {
            return (0..given.len() + below as usize + 1).map(|index| highest - index as u32).collect();
        }
        given.push(last);
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;
    use ServerKind::*;

    fn server(kind: ServerKind, rank: u64, has_budget: bool, is_ready: bool) -> Standing {
        Standing { kind, class: has_budget.then_some(0), rank: (rank, 0), is_ready, boost: None }
    }

    #[test]
    fn those_with_budget_may_run_by_rank_and_ties_go_to_the_earlier() {
        let servers =
            [server(Deferrable, 7, true, true), server(Deferrable, 3, true, false), server(Sporadic, 7, true, true)];
        assert_eq!(may_run(&servers, Some(0)), [1, 0, 2]);
        let dry = [server(Deferrable, 1, false, true), server(Unlimited, 2, true, true)];
        assert_eq!(may_run(&dry, Some(1)), [1]);
    }

    #[test]
    fn an_idle_strict_server_keeps_those_below_it_off_in_its_turn_only() {
        let servers = [
            server(Deferrable, 1, true, false),
            server(PeriodicStrict, 2, true, false),
            server(Deferrable, 3, true, true),
        ];
        assert_eq!(may_run(&servers, None), [0, 1], "one above that wakes may run");
        let ready = [server(PeriodicStrict, 2, true, true), server(Deferrable, 3, true, true)];
        assert_eq!(may_run(&ready, Some(0)), [0, 1], "should it sleep, the policy core is asked again at once");
        let below = [
            server(PeriodicConserving, 1, true, false),
            server(PeriodicStrict, 2, true, false),
            server(Polling, 3, true, true),
        ];
        assert_eq!(may_run(&below, Some(2)), [0, 1, 2], "it is not its turn");
    }

    #[test]
    fn a_borrower_is_last_and_the_boosted_are_first_come_first_served() {
        let lent = [server(PeriodicReclaiming, 1, true, false), server(PeriodicReclaiming, 2, false, true)];
        assert_eq!(may_run(&lent, Some(1)), [0, 1]);
        let mut boosted =
            [server(Deferrable, 1, true, true), server(Deferrable, 2, false, true), server(Deferrable, 3, true, true)];
        (boosted[1].boost, boosted[2].boost) = (Some(9), Some(4));
        assert_eq!(may_run(&boosted, Some(2)), [2, 1, 0]);
        boosted[2].is_ready = false;
        assert_eq!(may_run(&boosted, Some(1)), [1, 0, 2], "idle, it is like one that is not boosted");
    }

    #[test]
    fn in_hi_low_ones_go_after_high_ones_and_without_budget_they_have_no_place() {
        let high = Criticality::High { worst: Default::default(), virtual_deadline: Default::default() };
        let standing = |(one, rank, has_budget), is_hi| Standing {
            class: class(one, is_hi, has_budget),
            ..server(ConstantBandwidth, rank, has_budget, true)
        };
        let all = [(Criticality::Low, 1, true), (high, 2, false), (high, 3, true), (Criticality::Low, 0, false)];
        let order = |is_hi| may_run(&all.map(|one| standing(one, is_hi)), None);
        assert_eq!(order(false), [0, 2, 1]);
        assert_eq!(order(true), [2, 1, 0]);
    }

    #[test]
    fn priorities_fall_and_change_little() {
        assert_eq!(priorities(&[None, Some(79), Some(78)], 80), [80, 79, 78], "one comes at the top");
        assert_eq!(priorities(&[Some(79), None, Some(78)], 80), [79, 78, 77], "one comes between");
        assert_eq!(priorities(&[Some(78), Some(80)], 80), [78, 77], "two change places");
        assert_eq!(priorities(&[Some(2), None, None], 80), [80, 79, 78], "no room below");
        assert_eq!(priorities(&[Some(3), Some(2), Some(1)], 3), [3, 2, 1]);
        assert_eq!(priorities(&[], 80), []);
    }
}
