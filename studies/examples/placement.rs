//! The planner beside an exhaustive search, in turns, on small sites; and how long each way of placement takes on a large one:
//! `placement [SITES]`.
//!
//! Exit: 1 where the planner uses more than 3 % more cores than the least possible.

use giusto_studies::placement::fit::{best_fit, first_fit, local_search, optimum, Core, Placed};
use giusto_studies::placement::{planned, servers, services, Kind};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Services of a small site and of a large one.
const SMALL: usize = 20;
const LARGE: usize = 1000;

type Way = fn(&[u64], Core) -> Placed;

fn main() -> ExitCode {
    let sites = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(60);
    let kept = [Kind::Supplies, Kind::Deadlines, Kind::Large].map(|kind| paired(kind, sites));
    large();
    match kept {
        [true, true, true] => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Whether the planner is near the least possible.
fn paired(kind: Kind, sites: u64) -> bool {
    let (mut cores, mut times) = ([0, 0], [Duration::ZERO; 2]);
    for seed in 0..sites {
        let services = services(kind, SMALL, &mut ChaCha8Rng::seed_from_u64(seed));
        let (servers, core) = servers(&services).unwrap_or_else(|why| panic!("{why}"));
        let begin = Instant::now();
        cores[0] += planned(services).unwrap_or_else(|why| panic!("{why}"));
        times[0] += begin.elapsed();
        let begin = Instant::now();
        cores[1] += optimum(&servers, core).cores.len();
        times[1] += begin.elapsed();
    }
    let ms = times.map(|time| time.as_secs_f64() * 1e3 / sites as f64);
    println!(
        "{sites} sites of {SMALL} {kind:?}: the planner {} cores, {:.2} ms a plan; exhaustive search {} cores, {:.2} ms; \
         {:.1} % more",
        cores[0], ms[0], cores[1], ms[1], 100.0 * (cores[0] as f64 / cores[1] as f64 - 1.0)
    );
    cores[0] as f64 <= cores[1] as f64 * 1.03
}

fn large() {
    let services = services(Kind::Supplies, LARGE, &mut ChaCha8Rng::seed_from_u64(1));
    let (servers, core) = servers(&services).unwrap_or_else(|why| panic!("{why}"));
    let ways: [(&str, Way); 3] = [("first fit", first_fit), ("best fit", best_fit), ("local search", local_search)];
    for (name, way) in ways {
        let begin = Instant::now();
        let placed = way(&servers, core);
        let ms = begin.elapsed().as_secs_f64() * 1e3;
        println!("{LARGE} supplies, {name}: {} cores, {} looks, {ms:.2} ms", placed.cores.len(), placed.looks);
    }
}
