//! Every message in time: bounds by hand, by two ways, and against messages that come and are served as badly as can be found.

mod paths;

use giusto_analysis::path::{every, within, Arrival, Flow, Net, PathError, Source, Stage, Step, Visit};
use giusto_analysis::response::{Server, Share};
use giusto_analysis::Error;
use giusto_model::{Bucket, Duration, Tokens};
use paths::Player;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

fn us(n: u64) -> Duration {
    Duration::from_us(n)
}

fn ms(n: u64) -> Duration {
    Duration::from_ms(n)
}

fn share(budget: Duration, period: Duration) -> Stage {
    Stage::Share { share: Share { server: Server::Deferrable, budget, period }, company: false }
}

fn visit(stage: usize, least: Duration, most: Duration) -> Visit {
    Visit { stage, service: vec![(least, 0.1), (most, 0.9)], hold: Duration::ZERO }
}

fn periodic(period: Duration, jitter: Duration) -> Source {
    Source::Curve(Arrival::periodic(period, jitter, Duration::ZERO).unwrap())
}

fn one(stage: Stage, source: Source, most: Duration) -> Net {
    Net { stages: vec![stage], flows: vec![Flow::line(source, vec![visit(0, most, most)])] }
}

#[test]
fn single_stages_are_as_by_hand() {
    let of = |stage, source, most| every(&one(stage, source, most), 0).unwrap().within;
    // The budget has just been used up: 3 ms without, then 2 ms of work.
    assert_eq!(of(share(ms(2), ms(5)), periodic(ms(20), ms(0)), ms(2)), ms(5));
    // Three of them at once, since two may be late: 3 + 2 + 3 + 2 + 3 + 2.
    assert_eq!(of(share(ms(2), ms(5)), periodic(ms(20), ms(40)), ms(2)), ms(15));
    // Beside others the budget may come at the end of the next period.
    let Stage::Share { share: alone, .. } = share(ms(2), ms(5)) else { unreachable!() };
    let company = Stage::Share { share: alone, company: true };
    assert_eq!(of(company, periodic(ms(20), ms(0)), ms(2)), ms(8));
    let burst = |depth| {
        Source::Curve(Arrival::bucket(Bucket { rate: "100/s".parse().unwrap(), depth: Tokens::whole(depth) }).unwrap())
    };
    // Five at once at a core of 1 ms each; at a bucket that lets all through; and at one that lets two.
    assert_eq!(of(share(ms(1), ms(1)), burst(5), ms(1)), ms(5));
    let quick = Stage::Bucket(Bucket { rate: "101/s".parse().unwrap(), depth: Tokens::whole(5) });
    assert_eq!(of(quick, burst(5), ms(1)), ms(0));
    let slow = Stage::Bucket(Bucket { rate: "101/s".parse().unwrap(), depth: Tokens::whole(2) });
    assert_eq!(of(slow, burst(5), ms(1)), Duration::from_ns(29_702_971)); // 3/101 s, rounded up
    assert_eq!(of(Stage::Bounded(ms(7)), burst(5), ms(1)), ms(7));
}

#[test]
fn flows_that_share_a_stage_wait_for_each_other() {
    let visit = || vec![visit(0, ms(1), ms(1))];
    let flows = vec![Flow::line(periodic(ms(10), ms(0)), visit()), Flow::line(periodic(ms(10), ms(10)), visit())];
    let net = Net { stages: vec![share(ms(1), ms(1))], flows };
    // Its own, and two of the other at once.
    assert_eq!(every(&net, 0).unwrap().within, ms(3));
    assert_eq!(every(&net, 1).unwrap().within, ms(3));
}

#[test]
fn a_burst_is_paid_for_once() {
    let bucket = Bucket { rate: "100/s".parse().unwrap(), depth: Tokens::whole(8) };
    let visits = (0..3).map(|stage| visit(stage, us(10), ms(1))).collect();
    let flows = vec![Flow::line(Source::Curve(Arrival::bucket(bucket).unwrap()), visits)];
    let net = Net { stages: vec![share(ms(1), ms(1)); 3], flows };
    let found = every(&net, 0).unwrap();
    assert_eq!(found.within, ms(10)); // eight at the first, and one at each of the others
    assert!(found.sum > ms(20), "{found:?}");
}

#[test]
fn what_has_no_bound_is_refused_by_name() {
    let poisson = Source::Poisson("10/s".parse().unwrap());
    let net = one(share(ms(1), ms(1)), poisson, ms(1));
    assert_eq!(every(&net, 0), Err(PathError::NoCurve { flow: 1 }.into()));
    let net = one(share(ms(2), ms(5)), periodic(ms(5), ms(0)), ms(2));
    let error = every(&net, 0).unwrap_err();
    assert!(matches!(&error, Error::Path(PathError::Full { stage: 1, .. })), "{error}");
    assert_eq!(within(&net, 0, 0.01), Err(PathError::NotRandom { flow: 1 }.into()));
    assert!(Arrival::periodic(ms(0), ms(0), ms(0)).is_err());
}

/// Messages of a flow as its curve allows, late for a while and then at once.
fn arrivals(period: f64, jitter: f64, count: usize, rng: &mut StdRng) -> Vec<f64> {
    let phase = rng.random::<f64>() * period;
    let burst = rng.random_range(0..count);
    let regular = rng.random_range(0..3);
    let mut before = 0.0f64;
    let mut at = |n: usize| {
        let late = match regular {
            0 => rng.random::<f64>(),
            _ if n < burst => 1.0,
            _ => 0.0,
        };
        before = before.max(phase + n as f64 * period + late * jitter);
        before
    };
    (0..count).map(&mut at).collect()
}

/// Random nets: a path of up to five stages, others that meet it, a fork now and then.
#[test]
fn no_message_takes_longer() {
    let soak = std::env::var_os("GIUSTO_SOAK").is_some_and(|value| value == "1");
    let (mut nearest, mut told, mut shared, mut forks, mut once) = (0.0f64, 0, 0, 0, 0);
    let mut tight = Vec::new();
    for seed in 0..if soak { 3_000 } else { 300 } {
        let mut rng = StdRng::seed_from_u64(seed);
        let length = rng.random_range(1..=5usize);
        let count = rng.random_range(1..=3usize);
        let mut flows: Vec<(u64, u64, Vec<Step>)> = Vec::new();
        for flow in 0..count {
            let (from, to) = if flow == 0 { (0, length) } else { (rng.random_range(0..length), length) };
            let to = if flow == 0 { to } else { rng.random_range(from + 1..=to) };
            let mut route = Vec::new();
            let mut stage = from;
            while stage < to {
                let mut visit = |stage| {
                    let most = rng.random_range(50..1500u64);
                    visit(stage, us(rng.random_range(1..=most)), us(most))
                };
                if flow == 0 && count == 1 && stage + 2 < to && seed % 5 == 0 {
                    route.push(Step::All(vec![vec![visit(stage)], vec![visit(stage + 1)]]));
                    stage += 2;
                } else {
                    route.push(Step::At(visit(stage)));
                    stage += 1;
                }
            }
            let period = rng.random_range(3_000..20_000u64);
            flows.push((period, period * rng.random_range(0..40) / 10, route));
        }
        let stages: Vec<Stage> = (0..length)
            .map(|_| match rng.random_range(0..8) {
                0 => Stage::Bounded(us(rng.random_range(10..3000))),
                1 => Stage::Bucket(Bucket {
                    rate: "1000/s".parse().unwrap(),
                    depth: Tokens::whole(rng.random_range(1..4)),
                }),
                kind => {
                    let period = rng.random_range(200..8000);
                    let budget = period * rng.random_range(50..=100) / 100;
                    let server = if kind < 4 { Server::Periodic } else { Server::Deferrable };
                    let share = Share { server, budget: us(budget), period: us(period) };
                    Stage::Share { share, company: kind == 7 }
                }
            })
            .collect();
        let net = Net {
            stages,
            flows: flows
                .iter()
                .map(|(period, jitter, route)| Flow {
                    source: periodic(us(*period), us(*jitter)),
                    route: route.clone(),
                })
                .collect(),
        };
        let found = match every(&net, 0) {
            Ok(found) => found,
            Err(Error::Path(PathError::Full { .. })) => continue,
            Err(error) => panic!("seed {seed}: {error}"),
        };
        told += 1;
        shared += u32::from(count > 1);
        forks += u32::from(net.flows[0].route.iter().any(|step| matches!(step, Step::All(_))));
        once += u32::from(found.within < found.sum);
        let mut longest = 0.0f64;
        for _ in 0..if soak { 200 } else { 40 } {
            let times: Vec<Vec<f64>> = flows
                .iter()
                .map(|(period, jitter, _)| arrivals(*period as f64 * 1e3, *jitter as f64 * 1e3, 24, &mut rng))
                .collect();
            let played = Player { net: &net, last_first: false }.play(&times, &mut rng);
            longest = played.into_iter().fold(longest, f64::max);
        }
        let ratio = longest / found.within.ns() as f64;
        assert!(longest <= found.within.ns() as f64 + 10.0, "seed {seed}: {longest} {found:?}\n{net:#?}");
        nearest = nearest.max(ratio);
        tight.push(ratio);
    }
    tight.sort_by(f64::total_cmp);
    println!(
        "{told} nets, {shared} shared, {forks} with a fork, {once} pay bursts once; longest over bound: median {:.2}, most \
         {nearest:.3}",
        tight[tight.len() / 2]
    );
    assert!(told > 150 && shared > 50 && forks >= 3 && once > 20, "{told} {shared} {forks} {once}");
    assert!(nearest > 0.9, "{nearest}");
}
