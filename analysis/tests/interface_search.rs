//! The cheapest interface: the published values, and an exhaustive search that shares no code with it.

mod oracle;

use giusto_analysis::interface::{interface, Family, Interface, Question, Refusal, Resource, ResourceError, Scheduler};
use giusto_analysis::Error;
use giusto_model::{Bandwidth, Task};
use oracle::{ns, task, Asked};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::HashMap;

const SCHEDULERS: [Scheduler; 3] = [Scheduler::Rm, Scheduler::Dm, Scheduler::Edf];

fn question(scheduler: Scheduler, supply: Family) -> Question {
    Question { scheduler, supply, quantum: ns(1), period: None, preemption: ns(0), latency: ns(0) }
}

fn found(tasks: &[Task], question: &Question) -> Interface {
    interface(tasks, question).unwrap().unwrap()
}

fn implicit(tasks: &[(u64, u64)]) -> Vec<Task> {
    tasks.iter().map(|&(period, wcet)| task(wcet, period, period, 1)).collect()
}

/// Supplies of all small resources, drawn out once.
#[derive(Default)]
struct Supplies(HashMap<(u8, u64, u64, u64), Vec<u64>>);

impl Supplies {
    fn of(&mut self, resource: &Resource, longest: u64) -> &[u64] {
        let key = match *resource {
            Resource::Periodic { period, budget } => (0, period.ns(), budget.ns(), 0),
            Resource::Aligned { period, budget } => (1, period.ns(), budget.ns(), 0),
            Resource::ExplicitDeadline { period, budget, deadline } => (2, period.ns(), budget.ns(), deadline.ns()),
            _ => panic!("drawn out are the supplies of one server, not {resource:?}"),
        };
        let drawn = self.0.entry(key).or_default();
        if drawn.len() as u64 <= longest {
            *drawn = oracle::supplies(resource, longest);
        }
        &drawn[..=longest as usize]
    }
}

/// Longest period that the exhaustive search tries under EDF.
const MOST: u64 = 48;

/// An exhaustive search.
struct Search<'a> {
    tasks: Vec<Task>, // inflated
    question: &'a Question,
    supplies: &'a mut Supplies,
    asked: Asked,
}

impl<'a> Search<'a> {
    fn new(tasks: Vec<Task>, question: &'a Question, supplies: &'a mut Supplies) -> Self {
        let longest = (1..=MOST).map(|p| oracle::horizon(&tasks, p, question.latency.ns())).max().unwrap();
        let asked = Asked::new(&tasks, question.scheduler, question.latency.ns(), longest);
        Search { tasks, question, supplies, asked }
    }

    fn longest_deadline(&self) -> u64 {
        self.tasks.iter().map(|t| t.deadline.ns()).max().unwrap()
    }

    /// As far as windows have to be looked at, and what is asked for grows.
    fn reach(&self, period: u64) -> u64 {
        match self.question.scheduler {
            Scheduler::Edf => oracle::horizon(&self.tasks, period, self.question.latency.ns()),
            _ => self.longest_deadline(),
        }
    }

    fn enough(&mut self, resource: &Resource, reach: u64) -> bool {
        self.asked.met(self.supplies.of(resource, reach))
    }

    /// The least budget for a period, with the longest deadline for it, in units; lost overhead counted.
    fn budget(&mut self, period: u64) -> Option<(u64, Option<u64>)> {
        let Question { quantum, preemption, supply, .. } = *self.question;
        let reach = self.reach(period);
        for budget in (1..=period / quantum.ns()).map(|k| k * quantum.ns()) {
            let Some(own) = budget.checked_sub(preemption.ns()).filter(|own| *own > 0) else { continue };
            let of = |deadline: u64| match supply {
                Family::General => Resource::Periodic { period: ns(period), budget: ns(own) },
                Family::Aligned => Resource::Aligned { period: ns(period), budget: ns(own) },
                Family::ExplicitDeadline => {
                    Resource::ExplicitDeadline { period: ns(period), budget: ns(own), deadline: ns(deadline) }
                }
            };
            // A budget that is due later may still be given as early: the earliest deadline is the best.
            if !self.enough(&of(budget), reach) {
                continue;
            }
            if supply != Family::ExplicitDeadline {
                return Some((budget, None));
            }
            let mut all = (budget..=period).filter(|deadline| deadline % quantum.ns() == 0).rev();
            return Some((budget, all.find(|deadline| self.enough(&of(*deadline), reach))));
        }
        None
    }

    /// Period, budget and deadline of the best, the shortest period first; and how many others are as good.
    fn best(&mut self) -> (Option<(u64, u64, Option<u64>)>, u32) {
        let quantum = self.question.quantum.ns();
        // Nothing supplies more than a whole core.
        if !self.enough(&Resource::Periodic { period: ns(1), budget: ns(1) }, self.reach(1)) {
            return (None, 0);
        }
        let most = match self.question.scheduler {
            Scheduler::Edf => MOST,
            _ if self.question.supply == Family::Aligned => 2 * 16 * quantum,
            _ => self.longest_deadline() + 2 * quantum + 4, // and a little beyond what can matter
        };
        let (mut best, mut ties): (Option<(u64, u64, Option<u64>)>, u32) = (None, 0);
        for period in (1..=most / quantum).map(|k| k * quantum) {
            // A period holds back less than the shortest deadline, so longer ones are no better from here on.
            let shortest = self.tasks.iter().map(|t| t.deadline.ns()).min().unwrap() + self.question.preemption.ns();
            if best.is_some_and(|(p, b, _)| (p - b) * period >= shortest * p && p > b) {
                break;
            }
            if self.question.supply == Family::Aligned
                && self.tasks.iter().any(|t| t.period.ns() % period != 0 && period % t.period.ns() != 0)
            {
                continue;
            }
            let Some((budget, deadline)) = self.budget(period) else { continue };
            match best {
                Some((p, b, _)) if budget * p > b * period => {}
                Some((p, b, _)) if budget * p == b * period => ties += 1,
                _ => (best, ties) = (Some((period, budget, deadline)), 0),
            }
        }
        (best, ties)
    }
}

#[test]
fn the_reference_values() {
    // vectors/interface.json: (period, wcet); for RM and EDF: the best, the least budgets from period 1 on; for RM, general:
    // the exact budgets from period 1 on.
    type Exact = &'static [&'static str];
    type Case = (&'static [(u64, u64)], &'static str, [((u64, u64), &'static [u64]); 2], Exact);
    let cases: [Case; 3] = [
        (
            &[(7, 2), (8, 1), (10, 1)],
            "143/280",
            [
                ((3, 2), &[1, 2, 2, 3, 4, 5, 6, 7, 8, 9]),
                ((5, 3), &[1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]),
            ],
            &["5/8", "4/3", "2", "3", "4", "9/2", "11/2"],
        ),
        (
            &[(4, 1), (8, 2)],
            "1/2",
            [((3, 2), &[1, 2, 2, 3, 4, 5, 6, 7]), ((3, 2), &[1, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10])],
            &["5/9", "6/5", "2", "8/3"],
        ),
        (
            &[(5, 1), (7, 1), (11, 2)],
            "202/385",
            [((3, 2), &[1, 2, 2, 3, 4, 5, 6, 6, 7, 8, 9]), ((5, 3), &[1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 10])],
            &["7/11", "4/3", "2", "3", "11/3"],
        ),
    ];
    for (set, utilization, best, exact) in cases {
        let tasks = implicit(set);
        for (scheduler, ((period, budget), budgets)) in [Scheduler::Rm, Scheduler::Edf].into_iter().zip(best) {
            let answer = found(&tasks, &question(scheduler, Family::General));
            assert_eq!((answer.period, answer.budget), (ns(period), ns(budget)), "{scheduler} {set:?}");
            assert_eq!(answer.bandwidth, Bandwidth::new(budget, period).unwrap());
            assert_eq!(answer.at_least, answer.bandwidth);
            assert_eq!(answer.utilization.to_string(), utilization);
            for (period, budget) in (1..).zip(budgets) {
                let fixed = Question { period: Some(ns(period)), ..question(scheduler, Family::General) };
                let answer = found(&tasks, &fixed);
                assert_eq!((answer.period, answer.budget), (ns(period), ns(*budget)), "{scheduler} {set:?}");
                if let Some(exact) = exact.get(period as usize - 1).filter(|_| scheduler == Scheduler::Rm) {
                    assert_eq!(answer.exact_budget.unwrap().to_string(), **exact, "{period} {set:?}");
                }
            }
        }
    }
    // The one harmonic workload.
    let tasks = implicit(&[(4, 1), (8, 2)]);
    for scheduler in [Scheduler::Rm, Scheduler::Edf] {
        let answer = found(&tasks, &question(scheduler, Family::Aligned));
        assert_eq!((answer.period, answer.budget, answer.bandwidth), (ns(2), ns(1), Bandwidth::new(1, 2).unwrap()));
        for (period, budget) in [(1, 1), (2, 1), (4, 2), (8, 5)] {
            if (scheduler, period) == (Scheduler::Edf, 8) {
                continue; // beyond what the vectors list
            }
            let fixed = Question { period: Some(ns(period)), ..question(scheduler, Family::Aligned) };
            assert_eq!(found(&tasks, &fixed).budget, ns(budget), "{scheduler} {period}");
        }
    }
    for (period, exact) in [(1, "1/2"), (2, "1"), (4, "2")] {
        let fixed = Question { period: Some(ns(period)), ..question(Scheduler::Rm, Family::Aligned) };
        assert_eq!(found(&tasks, &fixed).exact_budget.unwrap().to_string(), exact);
    }
}

#[test]
fn the_unsafe_example_is_refused() {
    // It passes the harmonic test on (7, 4) and misses at 10: the periods do not divide each other.
    let tasks = implicit(&[(5, 1), (15, 5)]);
    for scheduler in SCHEDULERS {
        let fixed = Question { period: Some(ns(7)), ..question(scheduler, Family::Aligned) };
        assert_eq!(
            interface(&tasks, &fixed),
            Err(Error::Resource(ResourceError::Misaligned(ns(5), ns(7)))),
            "{scheduler}"
        );
        let answer = found(&tasks, &question(scheduler, Family::Aligned));
        assert!(answer.period != ns(7) && (5 % answer.period.ns() == 0 || answer.period.ns().is_multiple_of(5)));
    }
    let coprime = implicit(&[(5, 1), (7, 1)]);
    let refused = interface(&coprime, &question(Scheduler::Rm, Family::Aligned));
    assert_eq!(refused, Err(Error::Resource(ResourceError::Misaligned(ns(5), ns(7)))));
}

/// What the random sets were to contain.
#[derive(Debug, Default)]
struct Seen {
    found: u32,
    none: u32,
    overload: u32,
    ties: u32,
    equal: u32,
    whole: u32,
    constrained: u32,
    copies: u32,
    coarse: u32,
    late: u32,
    costly: u32,
    longer: u32,
    beyond: u32,
}

#[test]
fn the_best_is_that_of_an_exhaustive_search() {
    let mut rng = StdRng::seed_from_u64(11);
    let mut supplies = Supplies::default();
    for supply in [Family::General, Family::Aligned, Family::ExplicitDeadline] {
        for scheduler in SCHEDULERS {
            let mut seen = Seen::default();
            for _ in 0..10_500 {
                let periods: &[u64] = match (supply, rng.random_range(0..3)) {
                    (Family::Aligned, 0) => &[2, 4, 8, 16],
                    (Family::Aligned, 1) => &[3, 6, 12],
                    (Family::Aligned, _) => &[5, 10],
                    (_, 0) => &[4, 6, 8, 12],
                    (_, 1) => &[5, 6, 10, 15],
                    _ => &[3, 7, 9],
                };
                let load = [0.15, 0.3, 0.5][rng.random_range(0..3)];
                let tasks = oracle::random_set(&mut rng, periods, load);
                let question = Question {
                    quantum: ns(if rng.random_bool(0.2) { rng.random_range(2..=3) } else { 1 }),
                    latency: ns(if rng.random_bool(0.15) { rng.random_range(1..=2) } else { 0 }),
                    preemption: ns(u64::from(rng.random_bool(0.1))),
                    ..question(scheduler, supply)
                };
                compare(&tasks, &question, &mut supplies, &mut seen);
            }
            println!("{scheduler} {supply}: {seen:?}");
            let Seen { found, none, overload, ties, equal, whole, constrained, copies, coarse, late, costly, .. } =
                seen;
            assert!([found, none, overload].iter().all(|n| *n > 300), "{seen:?}");
            assert!([ties, whole, constrained, copies, coarse, late, costly].iter().all(|n| *n > 100), "{seen:?}");
            // U itself, without a whole core: possible unless windows wait for their first budget.
            assert!(if supply == Family::General { equal == 0 } else { equal > 100 }, "{seen:?}");
            assert!(seen.longer > 100 || supply != Family::ExplicitDeadline, "{seen:?}");
            assert!(seen.beyond < 20, "{seen:?}");
        }
    }
}

/// One set, compared with the exhaustive search.
fn compare(tasks: &[Task], question: &Question, supplies: &mut Supplies, seen: &mut Seen) {
    let inflated: Vec<Task> =
        tasks.iter().map(|t| Task { wcet: ns(t.wcet.ns() + question.preemption.ns()), ..t.clone() }).collect();
    let sum = |tasks: &[Task]| -> u64 {
        tasks.iter().map(|t| t.wcet.ns() * u64::from(t.copies) * 5040 / t.period.ns()).sum()
    };
    let answer = interface(tasks, question).unwrap_or_else(|error| panic!("{error} {question:?} {tasks:?}"));
    let case = format!("{question:?} {tasks:?}");
    if sum(&inflated) > 5040 {
        assert!(matches!(answer, Err(Refusal::Overload(_))), "{case}");
        seen.overload += 1;
        return;
    }
    let mut search = Search::new(inflated.clone(), question, supplies);
    let (best, ties) = search.best();
    let latency = question.latency.ns();
    let answer = match answer {
        Ok(answer) => answer,
        Err(refusal) => {
            assert_eq!(best, None, "{refusal:?} {case}");
            let Refusal::Short { resource, shortfall, .. } = refusal else { panic!("{refusal:?} {case}") };
            let repeats = match resource {
                Resource::ExplicitDeadline { period, .. }
                | Resource::Periodic { period, .. }
                | Resource::Aligned { period, .. } => period.ns(),
                _ => unreachable!(),
            };
            let reach = oracle::horizon(&inflated, repeats, latency);
            let supply = oracle::supplies(&resource, reach);
            oracle::falls_short(&shortfall, &inflated, question.scheduler, &supply, latency);
            seen.none += 1;
            return;
        }
    };
    let Interface { period, budget, deadline, ref certificate, .. } = answer;
    if question.scheduler == Scheduler::Edf && period.ns() > MOST {
        // Only with so little slack that nothing shorter does: the search cannot see that far.
        assert!(best.is_none_or(|(p, b, _)| b * period.ns() > budget.ns() * p), "{answer:?} {case}");
        seen.beyond += 1;
        return;
    }
    assert_eq!(Some((period.ns(), budget.ns(), deadline.map(|d| d.ns()))), best, "{case}");
    assert_eq!(answer.bandwidth, Bandwidth::of(budget, period).unwrap());
    assert_eq!(answer.at_least, answer.bandwidth, "{case}");
    assert!(answer.searched.is_some());
    // What is beyond the work, and why it is enough.
    let (own, whole) = (sum(tasks), period.ns() * 5040);
    let beyond = format!("{}/{whole}", budget.ns() * 5040 - own * period.ns()).parse();
    assert_eq!(Ok(answer.overhead_bandwidth.clone()), beyond, "{case}");
    let reach = oracle::horizon(&inflated, period.ns(), latency);
    oracle::verify(certificate, &inflated, search.supplies.of(&certificate.resource, reach));
    assert_eq!((certificate.scheduler, certificate.latency), (question.scheduler, question.latency));
    seen.found += 1;
    seen.ties += u32::from(ties > 0);
    seen.equal += u32::from(budget.ns() * 5040 == own * period.ns() && budget < period);
    seen.whole += u32::from(budget == period);
    seen.constrained += u32::from(tasks.iter().any(|t| t.deadline < t.period));
    seen.copies += u32::from(tasks.iter().any(|t| t.copies > 1));
    seen.coarse += u32::from(question.quantum > ns(1));
    seen.late += u32::from(latency > 0);
    seen.costly += u32::from(!question.preemption.is_zero());
    seen.longer += u32::from(deadline.is_some_and(|d| d > budget));
}
