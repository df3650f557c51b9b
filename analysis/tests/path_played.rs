//! Evidence for the theorem of docs/decisions/0052-paths.md: random paths that are played with enough messages to tell;
//! none may be above its bound. What the theorem rests on is broken on purpose, and shows.

mod paths;

use giusto_analysis::path::{within, Bound, Flow, Net, Source, Stage, Step, Visit};
use giusto_analysis::response::{Class, Server, Share, Tail};
use giusto_model::{Bucket, Duration, Rate, Tokens};
use paths::Player;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;

/// Paths and messages of a run; under `GIUSTO_SOAK` the full campaign.
const PATHS: u64 = 40;
const PATHS_SOAK: u64 = 2_400;
const MESSAGES: usize = 12_000;
const MESSAGES_SOAK: usize = 40_000;
/// What seems to be above its bound is played for so many times as many messages.
const LONGER: usize = 50;
/// Standard errors that a bound may be passed by: of 2,400 paths one passes 4.5 by chance in 1/100 of all campaigns.
const INTERVAL: f64 = 4.5;

fn ns(time: f64) -> Duration {
    Duration::from_ns(time as u64)
}

/// Constant, exponential (as a histogram, each time rounded up) or of two or three values.
fn service(mean: f64, rng: &mut StdRng, seen: &mut BTreeMap<&'static str, u32>) -> Vec<(Duration, f64)> {
    match rng.random_range(0..3) {
        0 => {
            *seen.entry("constant").or_default() += 1;
            vec![(ns(mean), 1.0)]
        }
        1 => {
            *seen.entry("exponential").or_default() += 1;
            let beyond = |k: u32| (-f64::from(k) / 4.0).exp();
            let mut all: Vec<(Duration, f64)> =
                (1..=40).map(|k| (ns(mean * f64::from(k) / 4.6), beyond(k - 1) - beyond(k))).collect();
            all[39].1 += beyond(40);
            all
        }
        _ => {
            *seen.entry("histogram").or_default() += 1;
            let p = rng.random_range(0.5..0.95);
            vec![(ns(mean * 0.5), p), (ns(mean * (1.0 - 0.5 * p) / (1.0 - p)), 1.0 - p)]
        }
    }
}

/// A share with room for so much work, in ns a ns, at a load of it.
fn share(asked: f64, load: f64, mean: f64, rng: &mut StdRng) -> Stage {
    let speed = (asked / load).min(1.0);
    let period = mean * rng.random_range(0.1f64..1.0).powi(2) * 12.0 + 1000.0;
    let period = ns(period);
    let budget = ns((speed * period.ns() as f64).ceil()).min(period);
    let server = if rng.random_range(0..3) == 0 { Server::Periodic } else { Server::Deferrable };
    Stage::Share { share: Share { server, budget, period }, company: rng.random_range(0..8) == 0 }
}

/// A net in which all kinds of meeting occur, stages in the order of their numbers.
fn random(rng: &mut StdRng, seen: &mut BTreeMap<&'static str, u32>) -> Net {
    let unit = 1e6;
    let rate = |rng: &mut StdRng| rng.random_range(20.0..100.0);
    let poisson = |rate: f64| Source::Poisson(Rate::of((rate * 1000.0) as u64, Duration::from_secs(1000)).unwrap());
    let length = rng.random_range(2..=6usize);
    let mut rates = vec![rate(rng)];
    // The path, the stages that only others go through, and who goes where.
    let mut stages = 0;
    let mut routes: Vec<Vec<Vec<Vec<usize>>>> = vec![Vec::new()];
    let mut extra = Vec::new();
    let mut fork = rng.random_range(0..4) == 0;
    while stages < length {
        let own = routes[0].len();
        let kind = if own == 0 { 0 } else { rng.random_range(0..6) };
        if fork && own > 0 && stages + 2 <= length {
            *seen.entry("fork").or_default() += 1;
            let mut branches = vec![vec![stages], vec![stages + 1]];
            stages += 2;
            if rng.random::<bool>() {
                branches[1].push(stages);
                stages += 1;
            }
            routes[0].push(branches);
            fork = false;
            if stages >= length {
                *seen.entry("fork at the end").or_default() += 1;
            } else {
                *seen.entry("join").or_default() += 1;
            }
            continue;
        }
        match kind {
            // Others that enter here.
            1 => {
                *seen.entry("fresh").or_default() += 1;
                rates.push(rate(rng));
                routes.push(vec![vec![vec![stages]]]);
            }
            // Others from a stage of their own.
            2 | 3 if own > 0 => {
                *seen.entry("from elsewhere").or_default() += 1;
                rates.push(rate(rng));
                extra.push(stages);
                routes.push(vec![vec![vec![stages]], vec![vec![stages + 1]]]);
                stages += 1;
            }
            _ => {}
        }
        // Those that met the path go on with it, or not.
        let last = routes[0].last().filter(|step| step.len() == 1).map(|step| step[0][0]);
        for route in routes.iter_mut().skip(1) {
            let end = route.last().map(|step| step[0][0]);
            if end.is_some() && end == last && rng.random::<bool>() {
                *seen.entry("goes on").or_default() += 1;
                route.push(vec![vec![stages]]);
            }
        }
        if own == 1 && rng.random_range(0..3) == 0 {
            let first = routes[0][0][0][0];
            *seen.entry("together from the first").or_default() += 1;
            rates.push(rate(rng));
            let mut route = vec![vec![vec![first]]];
            if rng.random::<bool>() {
                route.push(vec![vec![stages]]);
            }
            routes.push(route);
        }
        routes[0].push(vec![vec![stages]]);
        stages += 1;
    }
    let means: Vec<f64> = (0..stages).map(|_| unit * rng.random_range(0.2..3.0)).collect();
    let kinds: Vec<u32> = (0..stages).map(|_| rng.random_range(0..9)).collect();
    let mut flows: Vec<Flow> = Vec::new();
    for (route, rate) in routes.iter().zip(&rates) {
        let mut visit = |stage: usize| Visit {
            stage,
            service: service(means[stage] * rng.random_range(0.5..1.0), rng, seen),
            hold: Duration::ZERO,
        };
        let step = |branches: &Vec<Vec<usize>>| match branches.as_slice() {
            [one] if one.len() == 1 => Step::At(visit(one[0])),
            _ => Step::All(branches.iter().map(|branch| branch.iter().map(|s| visit(*s)).collect()).collect()),
        };
        let route: Vec<Step> = route.iter().map(step).collect();
        flows.push(Flow { source: poisson(*rate), route });
    }
    let mut net = Net { stages: Vec::new(), flows };
    for stage in 0..stages {
        let there: Vec<(f64, f64)> = net
            .flows
            .iter()
            .filter_map(|flow| {
                let Source::Poisson(rate) = flow.source else { return None };
                let visits = flow.route.iter().flat_map(|step| match step {
                    Step::At(visit) => vec![visit],
                    Step::All(branches) => branches.iter().flatten().collect(),
                });
                let visit = visits.into_iter().find(|visit| visit.stage == stage)?;
                Some((rate.per_ns(), visit.service.iter().map(|(t, p)| t.ns() as f64 * p).sum::<f64>()))
            })
            .collect();
        let load = rng.random_range(0.1..0.95);
        let asked: f64 = there.iter().map(|(rate, mean)| rate * mean).sum();
        let count: f64 = there.iter().map(|(rate, _)| rate).sum();
        net.stages.push(match kinds[stage] {
            0 => {
                *seen.entry("bucket").or_default() += 1;
                let rate = Rate::of((count / load * 1e15) as u64, Duration::from_ns(1_000_000_000_000_000)).unwrap();
                Stage::Bucket(Bucket { rate, depth: Tokens::whole(rng.random_range(1..6)) })
            }
            1 if rng.random_bool(0.5) => {
                *seen.entry("measured").or_default() += 1;
                let (least, most) = (rng.random_range(0.1..1.0), rng.random_range(1.0..5.0));
                let often = rng.random_range(0.8..0.999);
                Stage::Measured(vec![(ns(means[stage] * least), often), (ns(means[stage] * most), 1.0 - often)])
            }
            1 => {
                *seen.entry("bounded").or_default() += 1;
                Stage::Bounded(ns(means[stage] * rng.random_range(0.5..5.0)))
            }
            _ => {
                let one = share(asked, load, asked / count, rng);
                if let Stage::Share { share, company } = one {
                    let whole = share.budget == share.period;
                    *seen.entry(if whole { "whole core" } else { "share" }).or_default() += 1;
                    *seen.entry(if company { "in company" } else { "alone" }).or_default() += 1;
                    let band = ["load to 30 %", "load to 60 %", "load to 80 %", "load to 95 %"];
                    let of = if load < 0.3 {
                        0
                    } else if load < 0.6 {
                        1
                    } else if load < 0.8 {
                        2
                    } else {
                        3
                    };
                    *seen.entry(band[of]).or_default() += 1;
                }
                one
            }
        });
    }
    // Now and then those from elsewhere are held.
    let late = rng.random_range(0..2) == 0;
    for flow in net.flows.iter_mut().skip(1).filter(|_| late) {
        if let (2.., Step::At(visit)) = (flow.route.len(), flow.route.last_mut().unwrap()) {
            *seen.entry("held").or_default() += 1;
            visit.hold = ns(unit * rng.random_range(5.0..60.0));
        }
    }
    net
}

#[test]
fn no_path_is_above_its_bound() {
    let soak = std::env::var_os("GIUSTO_SOAK").is_some_and(|value| value == "1");
    let (paths, messages) = if soak { (PATHS_SOAK, MESSAGES_SOAK) } else { (PATHS, MESSAGES) };
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    let mut computed = 0.0;
    let (mut told, mut ratios, mut refused) = (0, Vec::new(), BTreeMap::<String, u32>::new());
    for seed in 0..paths {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut here = BTreeMap::new();
        let net = random(&mut rng, &mut here);
        let most = [0.3, 0.1, 0.03, 0.01][seed as usize % 4];
        let begin = std::time::Instant::now();
        let found = within(&net, 0, most);
        computed += begin.elapsed().as_secs_f64();
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                let text = error.to_string();
                *refused.entry(text.split([';', ':', ',']).next().unwrap().into()).or_default() += 1;
                continue;
            }
        };
        here.into_iter().for_each(|(key, count)| *seen.entry(key).or_default() += count);
        told += 1;
        let time = found.within.ns() as f64;
        let mut play = |messages: usize| {
            let arrivals = at_random(&net, messages, &mut rng);
            let played = Player { net: &net, last_first: false }.play(&arrivals, &mut rng);
            // What begins empty is left out.
            let played = &played[messages / 10..];
            let (share, error) = beyond(played, time);
            let ratio = quantile(played, 1.0 - most) / time.max(1.0);
            (share, error, ratio, share - INTERVAL * error <= found.beyond && ratio <= 1.05)
        };
        // Near a load of 1 a queue that has grown long once may be most of what is played.
        let (share, error, ratio, holds) = match play(messages) {
            (.., false) => play(LONGER * messages),
            found => found,
        };
        ratios.push(ratio);
        assert!(
            holds,
            "seed {seed}: {share} ± {error} beyond {}, bound {}\n{net:#?}\n{found:#?}",
            found.within, found.beyond
        );
    }
    ratios.sort_by(f64::total_cmp);
    let at = |part: f64| ratios[((ratios.len() - 1) as f64 * part) as usize];
    println!(
        "{told} paths; percentile over its bound: least {:.2}, median {:.2}, p90 {:.2}, most {:.2}",
        at(0.0),
        at(0.5),
        at(0.9),
        at(1.0)
    );
    println!("computed in {computed:.1} s");
    println!("{seen:?}\nrefused: {refused:?}");
    let wanted = [
        "constant",
        "exponential",
        "histogram",
        "share",
        "whole core",
        "in company",
        "bucket",
        "bounded",
        "measured",
        "fresh",
        "from elsewhere",
        "goes on",
        "together from the first",
        "fork",
        "fork at the end",
        "join",
        "held",
        "load to 30 %",
        "load to 60 %",
        "load to 80 %",
        "load to 95 %",
    ];
    for case in wanted {
        assert!(seen.get(case).is_some_and(|count| *count >= 3), "{case} hardly occurs: {seen:?}");
    }
    assert!(told as f64 >= 0.8 * paths as f64, "{refused:?}");
}

fn quantile(samples: &[f64], part: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * part) as usize]
}

fn constant(stage: usize, time: Duration) -> Visit {
    Visit { stage, service: vec![(time, 1.0)], hold: Duration::ZERO }
}

fn line(rate: &str, visits: Vec<Visit>) -> Flow {
    Flow::line(Source::Poisson(rate.parse().unwrap()), visits)
}

/// The share beyond its bound when played, with its standard error.
fn played(net: &Net, bound: &Bound, last_first: bool, messages: usize) -> (f64, f64) {
    let mut rng = StdRng::seed_from_u64(7);
    let arrivals = at_random(net, messages, &mut rng);
    let all = Player { net, last_first }.play(&arrivals, &mut rng);
    beyond(&all[messages / 10..], bound.within.ns() as f64)
}

#[test]
fn last_in_first_out_is_beyond_the_bound() {
    let half = Share { server: Server::Deferrable, budget: Duration::from_ms(2), period: Duration::from_ms(4) };
    let stages = vec![Stage::Share { share: half, company: false }];
    let net = Net { stages, flows: vec![line("400/s", vec![constant(0, Duration::from_ms(1))])] };
    let bound = within(&net, 0, 0.003).unwrap();
    let (share, error) = played(&net, &bound, false, 200_000);
    assert!(share - INTERVAL * error <= bound.beyond, "{share} {error} {bound:?}");
    let (share, error) = played(&net, &bound, true, 200_000);
    println!("last in, first out: {share} ± {error} beyond {}, bound {}", bound.within, bound.beyond);
    assert!(share - INTERVAL * error > bound.beyond, "{share} {error} {bound:?}");
}

/// Who comes from elsewhere is early, in bursts: added as if it entered here, the sum is too small.
#[test]
fn without_damper_or_growth_early_messages_break_the_bound() {
    let whole = Share { server: Server::Deferrable, budget: Duration::from_ms(1), period: Duration::from_ms(1) };
    let stages = vec![Stage::Bounded(Duration::from_ms(60)), Stage::Share { share: whole, company: false }];
    let own = line("100/s", vec![constant(1, Duration::from_ms(1))]);
    let mut other = line("500/s", vec![constant(0, Duration::from_ms(1)), constant(1, Duration::from_ms(1))]);
    let net = Net { stages: stages.clone(), flows: vec![own.clone(), other.clone()] };
    let sound = within(&net, 0, 0.03).unwrap();
    let (share, error) = played(&net, &sound, false, 60_000);
    assert!(share - INTERVAL * error <= sound.beyond, "{share} {error} {sound:?}");
    other.route.remove(0);
    let naive = within(&Net { stages, flows: vec![own, other] }, 0, 0.03).unwrap();
    let (share, error) = played(&net, &naive, false, 60_000);
    println!("early ones as if they entered here: {share} ± {error} beyond {}, bound {}", naive.within, naive.beyond);
    assert!(share - INTERVAL * error > naive.beyond, "{share} {error} {naive:?}");
}

/// Of what a bucket drops none comes to the end, and what it costs is no more than its part.
#[test]
fn what_finds_no_token_is_lost_and_counts_as_late() {
    let half = Share { server: Server::Deferrable, budget: Duration::from_ms(2), period: Duration::from_ms(4) };
    let share = || Stage::Share { share: half, company: false };
    let policed = |depth| Stage::Policed(Bucket { rate: "300/s".parse().unwrap(), depth: Tokens::whole(depth) });
    let visits: Vec<Visit> = (0..3).map(|stage| constant(stage, Duration::from_ms(1))).collect();
    let net =
        |depth| Net { stages: vec![share(), policed(depth), share()], flows: vec![line("150/s", visits.clone())] };
    for (depth, lost) in [(7, true), (40, false)] {
        let net = net(depth);
        let bound = within(&net, 0, 0.03).unwrap();
        assert_eq!(bound.parts[1].within, Duration::ZERO, "{bound:?}");
        let mut rng = StdRng::seed_from_u64(5);
        let arrivals = at_random(&net, 400_000, &mut rng);
        let all = Player { net: &net, last_first: false }.play(&arrivals, &mut rng);
        let dropped = all.iter().filter(|time| time.is_infinite()).count() as f64 / all.len() as f64;
        println!("depth {depth}: {dropped} are lost, part {}", bound.parts[1].term);
        assert!(dropped <= bound.parts[1].term && (dropped > 0.0) == lost, "{dropped} {bound:?}");
        let (share, error) = beyond(&all[40_000..], bound.within.ns() as f64);
        assert!(share - INTERVAL * error <= bound.beyond, "{share} {error} {bound:?}");
    }
    // Of one token every seventh is lost, and no time makes up for it.
    assert!(within(&net(1), 0, 0.03).is_err());
    let every = giusto_analysis::path::every(&net(40), 0);
    assert!(every.is_err(), "{every:?}");
}

/// A server in company gives nothing for a while, and then all at once: a bucket that would hold the messages as they come to the
/// path drops many of them.
#[test]
fn what_a_server_sends_at_once_finds_no_tokens() {
    let share = |budget: u64, period: u64| {
        let (budget, period) = (Duration::from_ms(budget), Duration::from_ms(period));
        Stage::Share { share: Share { server: Server::Deferrable, budget, period }, company: true }
    };
    let policed = |depth| Stage::Policed(Bucket { rate: "300/s".parse().unwrap(), depth: Tokens::whole(depth) });
    let visits: Vec<Visit> = (0..3).map(|stage| constant(stage, Duration::from_ms(1))).collect();
    let net = |depth| {
        let flows = vec![line("150/s", visits.clone())];
        Net { stages: vec![share(100, 400), policed(depth), share(2, 4)], flows }
    };
    let dropped = |depth| {
        let net = net(depth);
        let mut rng = StdRng::seed_from_u64(5);
        let arrivals = at_random(&net, 200_000, &mut rng);
        let all = Player { net: &net, last_first: false }.play(&arrivals, &mut rng);
        all.iter().filter(|time| time.is_infinite()).count() as f64 / all.len() as f64
    };
    // Of messages as they come to the path hardly one would wait.
    let rate = "150/s".parse().unwrap();
    let alone = giusto_analysis::bucket::dropped(rate, net_bucket(&net(40)), Duration::ZERO).unwrap();
    assert!(alone < 1e-8 && dropped(40) > 0.1, "{alone} {}", dropped(40));
    assert!(within(&net(40), 0, 0.03).is_err());
    let bound = within(&net(400), 0, 0.03).unwrap();
    assert!(dropped(400) <= bound.parts[1].term && bound.parts[1].x.is_none(), "{bound:?}");
}

fn net_bucket(net: &Net) -> Bucket {
    let bucket = net.stages.iter().find_map(|stage| match stage {
        Stage::Policed(bucket) => Some(*bucket),
        _ => None,
    });
    bucket.unwrap()
}

/// A server whose period begins with a wake-up is not monotone: the first request comes earlier, and the last is done later.
#[test]
fn a_reanchored_server_is_not_monotone() {
    // SCHED_DEADLINE's rule: on a wake-up (left, deadline) is kept unless left / (deadline − now) > B/P.
    fn last_done(jobs: &[(i64, i64)], budget: i64, period: i64) -> i64 {
        let (mut now, mut left, mut deadline) = (0, 0, 0);
        for &(at, work) in jobs {
            if at > now {
                now = at;
                if deadline <= now || left * period > budget * (deadline - now) {
                    (left, deadline) = (budget, now + period);
                }
            }
            let mut work = work;
            while work > left {
                work -= left;
                now = (now + left).max(deadline);
                (left, deadline) = (budget, deadline + period);
            }
            (now, left) = (now + work, left - work);
        }
        now
    }
    // Exhaustive: two requests of each length, one moved earlier.
    let (budget, period) = (2, 6);
    let mut worse = None;
    for work in 1..=3 {
        for second in 1..12 {
            for more in 1..=4 {
                for earlier in 0..second {
                    let done = |at| last_done(&[(0, 1), (at, work), (second.max(at) + 4, more)], budget, period);
                    if done(earlier) > done(second) {
                        let of = |at: i64| last_done(&[(0, 1), (at, work), (second + 4, more)], budget, period);
                        if of(earlier) > of(second) {
                            worse = Some((work, second, more, earlier, of(earlier), of(second)));
                        }
                    }
                }
            }
        }
    }
    println!("work, at, next, earlier at, done, done before: {worse:?}");
    assert!(worse.is_some());
    let anew = Share { server: Server::ConstantBandwidth, budget: Duration::from_ms(2), period: Duration::from_ms(6) };
    let stages = vec![Stage::Share { share: anew, company: false }];
    let net = Net { stages, flows: vec![line("100/s", vec![constant(0, Duration::from_ms(1))])] };
    assert!(within(&net, 0, 0.01).is_err());
}

/// Open: whether Σ P(R_i > d_i) at the source's own rate, without the correction, is a bound too. The nearest that was found.
#[test]
fn without_the_correction_nothing_was_seen_to_break_and_nothing_is_promised() {
    let mut most = 0.0f64;
    for seed in 0..24 {
        let mut rng = StdRng::seed_from_u64(seed);
        let (budget, period) = (Duration::from_us(rng.random_range(500..2000)), Duration::from_ms(2));
        let stage = Share { server: Server::Deferrable, budget, period };
        let load = rng.random_range(0.5..0.9);
        let service = [(Duration::from_us(500), 1.0)];
        let rate = load * budget.ns() as f64 / period.ns() as f64 / 500e3;
        let tail = Tail::new(stage, &[Class { rate, service: &service }], &service).unwrap();
        let parts = [0.4, 0.2, 0.1, 0.05].map(|p| (tail.least(1.0, 0.0, p).0, p));
        let source = Source::Poisson(Rate::of((rate * 1e15) as u64, Duration::from_ns(1_000_000_000_000_000)).unwrap());
        let visits = vec![constant(0, Duration::from_us(500)), constant(1, Duration::from_us(500))];
        let stages = vec![Stage::Share { share: stage, company: false }; 2];
        let net = Net { stages, flows: vec![Flow::line(source, visits)] };
        let arrivals = at_random(&net, 20_000, &mut rng);
        let all = Player { net: &net, last_first: false }.play(&arrivals, &mut rng);
        for (first, p) in parts {
            for (second, q) in parts {
                most = most.max(beyond(&all[2_000..], first + second).0 / (p + q));
            }
        }
    }
    println!("without the correction: at most {most:.2} of the sum");
    assert!(most < 1.0, "a violation: write it into docs/decisions/0052-paths.md, {most}");
}

/// Arrivals of Poisson sources, `count` of flow 0 and of the others as many as come in that time.
fn at_random(net: &Net, count: usize, rng: &mut StdRng) -> Vec<Vec<f64>> {
    let mut end = f64::INFINITY;
    let mut all = Vec::new();
    for flow in &net.flows {
        let Source::Poisson(rate) = flow.source else { panic!("expected a Poisson source") };
        let (mut at, mut times) = (0.0, Vec::new());
        loop {
            at += -(1.0 - rng.random::<f64>()).ln() / rate.per_ns();
            if at > end || end.is_infinite() && times.len() == count {
                break;
            }
            times.push(at);
        }
        end = end.min(*times.last().unwrap_or(&0.0)).max(if end.is_infinite() { 0.0 } else { end });
        all.push(times);
    }
    all
}

/// A share of samples beyond a time, and its standard error by batches of neighbours.
fn beyond(samples: &[f64], time: f64) -> (f64, f64) {
    const BATCHES: usize = 40;
    let size = samples.len() / BATCHES;
    let means: Vec<f64> = samples
        .chunks_exact(size)
        .map(|batch| batch.iter().filter(|response| **response > time).count() as f64 / size as f64)
        .collect();
    let mean = means.iter().sum::<f64>() / means.len() as f64;
    let spread = means.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (means.len() - 1) as f64;
    (mean, (spread / means.len() as f64).sqrt())
}
