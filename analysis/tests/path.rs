//! Paths: the sum over stages, its optimum, and what is refused.

use giusto_analysis::path::{bound, within, Flow, Net, PathError, Source, Stage, Step, Visit};
use giusto_analysis::response::{Class, Server, Share, Tail};
use giusto_analysis::Error;
use giusto_model::{Bucket, Duration, Rate, Tokens};

fn ms(n: u64) -> Duration {
    Duration::from_ms(n)
}

fn share(budget: Duration, period: Duration) -> Stage {
    Stage::Share { share: Share { server: Server::Deferrable, budget, period }, company: false }
}

fn visit(stage: usize, service: Duration) -> Visit {
    Visit { stage, service: vec![(service, 1.0)], hold: Duration::ZERO }
}

fn poisson(rate: &str) -> Source {
    Source::Poisson(rate.parse::<Rate>().unwrap())
}

fn chain(stages: Vec<Stage>, rate: &str, service: Duration) -> Net {
    let visits = (0..stages.len()).map(|stage| visit(stage, service)).collect();
    Net { stages, flows: vec![Flow::line(poisson(rate), visits)] }
}

#[test]
fn one_stage_is_its_law_alone() {
    let net = chain(vec![share(ms(2), ms(4))], "250/s", ms(1));
    let found = within(&net, 0, 0.01).unwrap();
    let service = [(ms(1), 1.0)];
    let share = Share { server: Server::Deferrable, budget: ms(2), period: ms(4) };
    let tail = Tail::new(share, &[Class { rate: 250e-9, service: &service }], &service).unwrap();
    let (time, term) = tail.least(1.0, 0.0, 0.01);
    assert!((found.within.ns() as f64 - time.ceil()).abs() <= 1.0, "{found:?} {time}");
    assert!(found.beyond <= 0.01 && (found.beyond - term).abs() < 1e-6, "{found:?} {term}");
}

#[test]
fn both_ways_agree_and_more_stages_or_fewer_late_ones_take_longer() {
    let mut before = Duration::ZERO;
    for k in 1..=6 {
        let net = chain(vec![share(ms(2), ms(4)); k], "250/s", ms(1));
        let start = std::time::Instant::now();
        let found = within(&net, 0, 0.01).unwrap();
        let took = start.elapsed();
        assert!(found.within > before && found.beyond <= 0.01, "{found:?}");
        assert_eq!(found.parts.len(), k);
        assert!(found.halved < 0.02, "{found:?}");
        before = found.within;
        let start = std::time::Instant::now();
        let back = bound(&net, 0, found.within).unwrap();
        println!("{k}: {} {:?} {} back {} {:?}", found.within, took, found.halved, back.beyond, start.elapsed());
        for part in &found.parts {
            println!("    {part:?}");
        }
        assert!(back.beyond <= 0.0101, "{k}: {} {}", found.beyond, back.beyond);
        assert!(within(&net, 0, 0.001).unwrap().within > found.within);
    }
}

#[test]
fn parts_add_up_and_rates_grow_by_what_x_says() {
    let net = chain(vec![share(ms(3), ms(5)), share(ms(2), ms(4)), share(ms(1), ms(1))], "200/s", ms(1));
    let found = within(&net, 0, 0.03).unwrap();
    let sum: f64 = found.parts.iter().map(|part| part.term).sum();
    assert!((sum - found.beyond).abs() < 1e-9 && sum <= 0.03, "{found:?}");
    let time: u64 = found.parts.iter().map(|part| part.within.ns() + part.early.ns()).sum();
    assert_eq!(time, found.within.ns());
    for two in found.parts.windows(2) {
        let grown = two[0].stretch / (1.0 - two[0].x.unwrap());
        assert!((two[1].stretch / grown - 1.0).abs() < 1e-9, "{found:?}");
    }
    assert_eq!(found.parts[2].x, None);
}

#[test]
fn each_part_is_what_the_theorem_says() {
    let net = chain(vec![share(ms(2), ms(4)), share(ms(2), ms(4))], "250/s", ms(1));
    let found = within(&net, 0, 0.01).unwrap();
    let service = [(ms(1), 1.0)];
    let share = Share { server: Server::Deferrable, budget: ms(2), period: ms(4) };
    for part in &found.parts {
        let rate = 250e-9 * part.stretch;
        let tail = Tail::new(share, &[Class { rate, service: &service }], &service).unwrap();
        let time = part.within.ns() as f64;
        let late = part.x.map_or(0.0, |x| rate / x * tail.excess(time));
        let term = tail.beyond(time) + late;
        assert!((part.term / term - 1.0).abs() < 1e-4, "{part:?} {term}");
        assert_eq!(part.x.is_some(), late > 0.0);
    }
}

#[test]
fn where_others_meet_the_path_on_its_way_its_own_rate_grows_as_theirs_has() {
    let stages = vec![share(ms(2), ms(4)), share(ms(2), ms(4)), share(ms(3), ms(4)), share(ms(2), ms(4))];
    let one = Flow::line(poisson("100/s"), vec![visit(0, ms(1)), visit(2, ms(1)), visit(3, ms(1))]);
    let other = Flow::line(poisson("100/s"), vec![visit(1, ms(1)), visit(2, ms(1))]);
    let found = within(&Net { stages, flows: vec![one, other] }, 0, 0.03).unwrap();
    let of = |stage| found.parts.iter().find(|part| part.stage == stage).unwrap();
    let grown = |part: &giusto_analysis::path::Part| part.stretch / (1.0 - part.x.unwrap());
    assert!((of(2).stretch / (grown(of(0)) * grown(of(1))) - 1.0).abs() < 1e-9, "{found:?}");
    assert!((of(3).stretch / grown(of(2)) - 1.0).abs() < 1e-9, "{found:?}");
}

#[test]
fn bounded_stages_add_their_bound_and_nothing_else() {
    let net = chain(vec![share(ms(2), ms(4)), Stage::Bounded(ms(7))], "250/s", ms(1));
    let alone = chain(vec![share(ms(2), ms(4))], "250/s", ms(1));
    let (with, without) = (within(&net, 0, 0.01).unwrap(), within(&alone, 0, 0.01).unwrap());
    assert_eq!(with.within, without.within.checked_add(ms(7)).unwrap());
    let first = chain(vec![Stage::Bounded(ms(7)), share(ms(2), ms(4))], "250/s", ms(1));
    assert_eq!(within(&first, 0, 0.01).unwrap().within, without.within.checked_add(ms(7)).unwrap());
}

#[test]
fn flows_that_come_from_elsewhere_cost_what_they_may_be_early_by() {
    let stages = vec![share(ms(2), ms(4)), share(ms(2), ms(4)), share(ms(3), ms(4))];
    let one = Flow::line(poisson("150/s"), vec![visit(0, ms(1)), visit(2, ms(1))]);
    let fresh = Flow::line(poisson("150/s"), vec![visit(2, ms(1))]);
    let other = Flow::line(poisson("150/s"), vec![visit(1, ms(1)), visit(2, ms(1))]);
    let of = |second: &Flow| Net { stages: stages.clone(), flows: vec![one.clone(), second.clone()] };
    let (cheap, dear) = (within(&of(&fresh), 0, 0.01).unwrap(), within(&of(&other), 0, 0.01).unwrap());
    assert!(dear.within > cheap.within, "{cheap:?} {dear:?}");
    let last = dear.parts.iter().find(|part| part.stage == 2).unwrap();
    let before = dear.parts.iter().find(|part| !part.on_path).unwrap();
    assert_eq!((last.early, before.stage), (before.within, 1));
    // Held until they are so old, they are not early, and the probability is all they cost.
    let mut held = of(&other);
    if let Step::At(visit) = &mut held.flows[1].route[1] {
        visit.hold = before.within;
    }
    let damped = within(&held, 0, 0.01).unwrap();
    assert!(damped.within < dear.within && damped.within >= cheap.within, "{damped:?} {dear:?}");
}

#[test]
fn flows_that_enter_together_stay_one_while_they_go_the_same_way() {
    let stages = vec![share(ms(2), ms(4)), share(ms(2), ms(4))];
    let line = |rate| Flow::line(poisson(rate), vec![visit(0, ms(1)), visit(1, ms(1))]);
    let two = Net { stages: stages.clone(), flows: vec![line("100/s"), line("150/s")] };
    let one = Net { stages, flows: vec![line("250/s")] };
    let (two, one) = (within(&two, 0, 0.01).unwrap(), within(&one, 0, 0.01).unwrap());
    assert_eq!(two.parts.len(), 2);
    assert!((two.within.ns() as f64 / one.within.ns() as f64 - 1.0).abs() < 1e-6, "{two:?} {one:?}");
}

#[test]
fn forks_count_all_branches_and_the_longest_time() {
    let stages = vec![share(ms(2), ms(4)); 4];
    let fork = Step::All(vec![vec![visit(1, ms(1))], vec![visit(2, ms(1))]]);
    let route = vec![Step::At(visit(0, ms(1))), fork, Step::At(visit(3, ms(1)))];
    let net = Net { stages: stages.clone(), flows: vec![Flow { source: poisson("250/s"), route }] };
    let found = within(&net, 0, 0.01).unwrap();
    assert_eq!(found.parts.len(), 4);
    let three = chain(stages[..3].to_vec(), "250/s", ms(1));
    let four = chain(stages, "250/s", ms(1));
    let (three, four) = (within(&three, 0, 0.01).unwrap().within, within(&four, 0, 0.01).unwrap().within);
    assert!(found.within > three && found.within < four, "{three} {found:?} {four}");
}

#[test]
fn it_does_not_matter_which_branch_of_a_fork_is_named_first() {
    let stages = vec![share(ms(2), ms(4)), Stage::Bounded(ms(50)), Stage::Bounded(ms(3)), share(ms(2), ms(4))];
    let net = |branches: Vec<Vec<Visit>>| {
        let route = vec![Step::At(visit(0, ms(1))), Step::All(branches), Step::At(visit(3, ms(1)))];
        Net { stages: stages.clone(), flows: vec![Flow { source: poisson("150/s"), route }] }
    };
    let (long, short) = (vec![visit(1, ms(1))], vec![visit(2, ms(1))]);
    let line = |most: Duration| {
        let stages = vec![share(ms(2), ms(4)), Stage::Bounded(most), share(ms(2), ms(4))];
        within(&chain(stages, "150/s", ms(1)), 0, 0.01).unwrap().within
    };
    // As through the longest of them.
    for branches in [vec![long.clone(), short.clone()], vec![short, long]] {
        assert_eq!(within(&net(branches), 0, 0.01).unwrap().within, line(ms(50)));
    }
    assert!(line(ms(3)) < line(ms(50)));
}

#[test]
fn what_is_no_path_is_refused_by_name() {
    let anew = Share { server: Server::ConstantBandwidth, budget: ms(2), period: ms(4) };
    let net = chain(vec![share(ms(2), ms(4)), Stage::Share { share: anew, company: false }], "250/s", ms(1));
    let error = within(&net, 0, 0.01).unwrap_err();
    assert_eq!(error, Error::Path(PathError::Reanchored { stage: 2 }));
    assert!(error.to_string().contains("SCHED_DEADLINE"), "{error}");
    let stages = vec![share(ms(2), ms(4)); 2];
    let there = Flow::line(poisson("50/s"), vec![visit(0, ms(1)), visit(1, ms(1))]);
    let back = Flow::line(poisson("50/s"), vec![visit(1, ms(1)), visit(0, ms(1))]);
    let net = Net { stages: stages.clone(), flows: vec![there.clone(), back] };
    assert!(matches!(within(&net, 0, 0.01), Err(Error::Path(PathError::Cycle { .. }))));
    let twice = Flow::line(poisson("50/s"), vec![visit(0, ms(1)), visit(1, ms(1)), visit(0, ms(1))]);
    let net = Net { stages: stages.clone(), flows: vec![twice] };
    assert_eq!(within(&net, 0, 0.01), Err(PathError::Twice { flow: 1, stage: 1 }.into()));
    let full = chain(stages.clone(), "501/s", ms(1));
    let error = within(&full, 0, 0.01).unwrap_err();
    assert!(matches!(&error, Error::Path(PathError::Stage { stage: 1, .. })), "{error}");
    let net = Net { stages: stages.clone(), flows: vec![there.clone()] };
    assert!(matches!(bound(&net, 0, ms(1)), Err(Error::Path(PathError::TooShort { .. }))));
    assert!(matches!(within(&net, 0, 1.0), Err(Error::Path(PathError::Probability { .. }))));
    let fork =
        Flow { source: poisson("9/s"), route: vec![Step::All(vec![vec![visit(0, ms(1))], vec![visit(0, ms(1))]])] };
    let net = Net { stages, flows: vec![fork] };
    assert_eq!(within(&net, 0, 0.01), Err(PathError::Branches { stage: 1 }.into()));
    // Both part at stage 1 and meet at stage 4.
    let stages = vec![share(ms(2), ms(4)); 4];
    let upper = Flow::line(poisson("50/s"), vec![visit(0, ms(1)), visit(1, ms(1)), visit(3, ms(1))]);
    let lower = Flow::line(poisson("50/s"), vec![visit(0, ms(1)), visit(2, ms(1)), visit(3, ms(1))]);
    let net = Net { stages, flows: vec![upper, lower] };
    assert_eq!(within(&net, 0, 0.01), Err(PathError::Parted { stage: 1 }.into()));
}

#[test]
fn a_bucket_on_the_way_delays_by_its_own_law() {
    let bucket = Bucket { rate: "300/s".parse().unwrap(), depth: Tokens::whole(4) };
    let net = chain(vec![share(ms(2), ms(4)), Stage::Bucket(bucket)], "250/s", ms(1));
    let found = within(&net, 0, 0.01).unwrap();
    assert!((found.parts[1].load - 250.0 / 300.0).abs() < 1e-9, "{found:?}");
    let alone = chain(vec![Stage::Bucket(bucket)], "250/s", ms(1));
    let wait = within(&alone, 0, 0.01).unwrap().within;
    let arrivals = giusto_model::Arrivals { rate: "250/s".parse().unwrap(), batch: 1 };
    let exact = giusto_analysis::bucket::wait(arrivals, bucket, 1, &["p99".parse().unwrap()]).unwrap().percentiles[0];
    let near = wait.ns() as f64 / exact.ns() as f64;
    assert!((1.0..1.03).contains(&near), "{wait} {exact}");
    assert!(found.within > wait, "{found:?}");
}
