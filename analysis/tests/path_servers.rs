//! The cheapest servers of a path against looking at all of them.

use giusto_analysis::path::{cheapest, within, Flow, Net, Promise, Source, Stage, Visit};
use giusto_analysis::response::{Server, Share};
use giusto_model::{Bandwidth, Duration};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

fn us(n: u64) -> Duration {
    Duration::from_us(n)
}

fn share(budget: u64, period: u64) -> Share {
    Share { server: Server::Deferrable, budget: us(budget), period: us(period) }
}

fn bandwidth(shares: &[Share]) -> Bandwidth {
    let each = shares.iter().map(|share| Bandwidth::of(share.budget, share.period).unwrap());
    each.fold(Bandwidth::ZERO, |sum, one| sum.checked_add(one).unwrap())
}

fn with(net: &Net, shares: &[Share]) -> Net {
    let mut net = net.clone();
    for (stage, share) in net.stages.iter_mut().zip(shares) {
        *stage = Stage::Share { share: *share, company: false };
    }
    net
}

/// The least that keeps all promises, of all there are.
fn exhaustive(net: &Net, promises: &[Promise], candidates: &[Vec<Share>]) -> Option<Bandwidth> {
    let mut all: Vec<Vec<Share>> = vec![Vec::new()];
    for stage in candidates {
        all = all.iter().flat_map(|head| stage.iter().map(|share| [head.clone(), vec![*share]].concat())).collect();
    }
    all.sort_by_key(|shares| bandwidth(shares));
    let kept = |shares: &Vec<Share>| {
        let net = with(net, shares);
        promises.iter().all(|promise| within(&net, 0, promise.beyond).is_ok_and(|found| found.within <= promise.within))
    };
    all.into_iter().find(kept).map(|shares| bandwidth(&shares))
}

#[test]
fn on_small_grids_nothing_cheaper_is_left() {
    let (mut found, mut none) = (0, 0);
    for seed in 0..10 {
        let mut rng = StdRng::seed_from_u64(seed);
        let length = rng.random_range(2..=3);
        let visits = (0..length).map(|stage| {
            let time = us(rng.random_range(200..2000));
            Visit { stage, service: vec![(time, 1.0)], hold: Duration::ZERO }
        });
        let source = Source::Poisson("100/s".parse().unwrap());
        let flow = Flow::line(source, visits.collect());
        let candidates: Vec<Vec<Share>> = (0..length)
            .map(|_| {
                let periods = [rng.random_range(1000..3000u64), rng.random_range(3000..9000)];
                let of = |period: &u64| {
                    (3..=9u64).step_by(2).map(|tenth| share(period * tenth / 10, *period)).collect::<Vec<_>>()
                };
                periods.iter().flat_map(of).collect()
            })
            .collect();
        let stages = candidates.iter().map(|all| Stage::Share { share: all[0], company: false }).collect();
        let net = Net { stages, flows: vec![flow] };
        let promises = [Promise { beyond: 0.03, within: us(rng.random_range(3_000..30_000)) }];
        let best = exhaustive(&net, &promises, &candidates);
        let servers = cheapest(&net, 0, &promises, &candidates).unwrap();
        match &servers {
            Some(servers) => {
                found += 1;
                let shares: Vec<Share> = servers.shares.iter().map(|share| share.unwrap()).collect();
                assert_eq!(servers.bandwidth, bandwidth(&shares));
                assert!(within(&with(&net, &shares), 0, 0.03).unwrap().within <= promises[0].within);
            }
            None => none += 1,
        }
        assert_eq!(servers.map(|servers| servers.bandwidth), best, "seed {seed}");
    }
    println!("{found} found, {none} have none");
    assert!(found >= 5 && none >= 1, "{found} {none}");
}
