//! The fair baseline against this kind of machine: one real point makes its one free number, another is predicted.

use crate::tables::Csv;
use crate::vatc;
use crate::{Error, Size};
use giusto_model::Duration;
use giusto_policy::Order;
use giusto_simulator::baselines::Fair;
use giusto_simulator::{services, simulate_with, Execution, ServerSpec, System, Watch};
use serde::Deserialize;

/// A real Memcached under the stock fair scheduler of Linux, pinned to one core beside endless loops.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Real {
    connections: u32,
    /// Requests a second on all connections.
    rate: u64,
    /// Processor time of a request at evenly spaced quantiles.
    service_us: Vec<f64>,
    points: Vec<Point>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Point {
    hogs: usize,
    under: String,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
}

/// Seeds of each play; their pooled response times count.
const SEEDS: u64 = 4;
/// Steps of the search: the slice is known to a part in 2^16 of the longest.
const STEPS: u32 = 16;
/// The longest slice that is tried, ns.
const LONGEST: u64 = 50_000_000;

/// A row for each real point under `fair`: what was measured, what is simulated with the slice that has the p99 of the point with
/// one hog, and how far apart they are, as a factor of 1 and more.
pub(crate) fn table(size: &Size) -> Result<Csv, Error> {
    let real: Real = serde_json::from_str(include_str!("../../akita-memcached/real.json")).map_err(Error::machine)?;
    let fair: Vec<Point> = real.points.iter().filter(|point| point.under == "fair").cloned().collect();
    let known = fair.iter().find(|point| point.hogs == 1);
    let known = known.ok_or_else(|| Error::machine("real.json has no point of one hog under fair"))?;
    let outside = fair.iter().find(|point| point.hogs == 0).map_or(0.0, |alone| {
        // What a request takes besides waiting and service: networks, wake-ups. Alone nothing else is there.
        simulated(&real, 0, 3_000_000, size).map_or(0.0, |seen| (alone.p50_us - seen[0]).max(0.0))
    });
    let (mut low, mut high) = (1, LONGEST);
    for _ in 0..STEPS {
        let slice = (low + high) / 2;
        let found = simulated(&real, 1, slice, size)?[1] + outside;
        *(if found < known.p99_us { &mut low } else { &mut high }) = slice;
    }
    let mut rows = Vec::new();
    for point in &fair {
        let seen = simulated(&real, point.hogs, high, size)?.map(|us| us + outside);
        let role = match point.hogs {
            0 => "alone",
            1 => "fitted",
            _ => "predicted",
        };
        for (name, real_us, us) in
            [("p50", point.p50_us, seen[0]), ("p99", point.p99_us, seen[1]), ("p999", point.p999_us, seen[2])]
        {
            let off = (us / real_us).max(real_us / us);
            let text = [point.hogs.to_string(), role.into(), name.into(), "0".into()];
            let numbers = [real_us, us, off, high as f64 / 1e3].map(|x| format!("{x:.3}"));
            rows.push([text.to_vec(), numbers.to_vec()].concat());
        }
    }
    let columns = ["hogs", "role", "percentile", "set", "real_us", "simulated_us", "off", "slice_us"];
    Ok(vatc::table(columns.to_vec(), &rows))
}

/// p50, p99 and p99.9 in us beside so many always-ready servers of equal weight.
fn simulated(real: &Real, hogs: usize, slice: u64, size: &Size) -> Result<[f64; 3], Error> {
    let gap = Duration::from_ns(1_000_000_000 * u64::from(real.connections) / real.rate.max(1));
    let times: Vec<u64> = real.service_us.iter().map(|us| (us * 1e3) as u64).collect();
    let longest = Duration::from_ns(times.iter().copied().max().unwrap_or(1));
    let workload = giusto_simulator::Workload {
        execution: Execution::Samples(times.into()),
        ..services::requests(real.connections, gap, longest)
    };
    let spec = |workload| ServerSpec {
        kind: giusto_model::ServerKind::Unlimited,
        budget: Duration::ZERO,
        period: Duration::ZERO,
        first: Duration::ZERO,
        priority: 0,
        vcpus: 1,
        workload,
    };
    let servers = std::iter::once(spec(Some(workload))).chain((0..hogs).map(|_| spec(None))).collect();
    let system = System::new(Order::FixedPriority, servers);
    let second = Duration::from_ms(1000);
    let mut stats = None::<giusto_simulator::Stats>;
    for seed in 0..SEEDS {
        let weights = vec![1024; hogs + 1];
        let mut fair = Fair::with_slice(1, &weights, slice).map_err(Error::machine)?;
        let mut watch = Watch::new(hogs + 1, 1, second, second);
        simulate_with(&mut fair, &system, size.length, size.seed.wrapping_add(seed), &mut watch)?;
        match &mut stats {
            None => stats = Some(watch.responses(0).clone()),
            Some(all) => all.merge(watch.responses(0)),
        }
    }
    let stats = stats.expect("there is a seed");
    Ok([50.0, 99.0, 99.9].map(|p| stats.percentile(p).ns() as f64 / 1e3))
}
