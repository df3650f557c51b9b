//! Servers on cores: first fit, which the planner uses, beside best fit, a local search, the least possible and a bound.
//!
//! Services are random; their servers are what the planner computes for them beside others.

pub mod fit;

use crate::tables::Csv;
use crate::{Error, Size};
use fit::{best_fit, bound, first_fit, local_search, optimum, Core, Placed};
use giusto_model::{
    Backend, Bandwidth, Duration, GuestScheduler, Host, Interface, Origin, Promise, Release, Scheduler, Service, Site,
    Task, Unused,
};
use giusto_planner::{plan, Facts};
use rand::seq::IndexedRandom;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

/// Of a core, in which servers are counted: rounded up, so that what is counted to fit does.
const UNIT: u64 = 1_000_000_000;
/// What services are promised.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Supplies of 5 to 30 % of a core.
    Supplies,
    /// Every deadline of one to three tasks.
    Deadlines,
    /// Supplies of 20 to 60 %: few on a core.
    Large,
}

/// Kinds, and how many services: few enough to find the least possible, and many.
const CASES: [(Kind, usize); 6] = [
    (Kind::Supplies, 12),
    (Kind::Deadlines, 12),
    (Kind::Large, 12),
    (Kind::Supplies, 400),
    (Kind::Deadlines, 400),
    (Kind::Large, 400),
];
/// With more services the least possible is not looked for.
const SMALL: usize = 12;

/// Tables `cores`: a row a set and way, with the cores it takes, how many more than the bound, and its looks; `least`: the
/// same of small sets, against the least possible; `gains`: what other ways save of the cores of the first fit; `shipped`: the
/// cores of the planner's own plan against those of the first fit.
pub(crate) fn run(size: Size, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let mut cores = Csv::new(vec!["kind", "services", "set", "way", "cores", "bound", "more", "looks"]);
    let mut least = Csv::new(vec!["kind", "set", "way", "cores", "least", "more"]);
    let mut gains = Csv::new(vec!["kind", "services", "set", "way", "saved", "first_fit", "looks", "of_first_fit"]);
    let mut shipped = Csv::new(vec!["kind", "services", "set", "planned", "first_fit", "difference"]);
    let total = CASES.len() as u64 * size.sets;
    for (case, (kind, count)) in CASES.into_iter().enumerate() {
        for set in 0..size.sets {
            let services = services(kind, count, &mut size.stream(case, set));
            let (servers, core) = servers(&services)?;
            let lower = bound(&servers, core);
            let mut ways = vec![
                ("first-fit", first_fit(&servers, core)),
                ("best-fit", best_fit(&servers, core)),
                ("local-search", local_search(&servers, core)),
            ];
            if count <= SMALL {
                ways.push(("least", optimum(&servers, core)));
            }
            let of = |placed: &Placed| placed.cores.len();
            let first = (of(&ways[0].1), ways[0].1.looks);
            let fewest = ways.last().map_or(0, |(_, placed)| of(placed));
            let text = |numbers: &[usize]| numbers.iter().map(ToString::to_string).collect::<Vec<String>>();
            let (kind, set) = (format!("{kind:?}").to_lowercase(), set.to_string());
            for (way, placed) in &ways {
                let key = [kind.clone(), count.to_string(), set.clone(), way.to_string()];
                let numbers = text(&[of(placed), lower, of(placed) - lower]);
                cores.row(key.iter().chain(&numbers).chain([&placed.looks.to_string()]));
                if count <= SMALL && *way != "least" {
                    let key = [kind.clone(), set.clone(), way.to_string()];
                    least.row(key.iter().chain(&text(&[of(placed), fewest, of(placed) - fewest])));
                }
                if !["first-fit", "least"].contains(way) {
                    let saved = (first.0 as i64 - of(placed) as i64).to_string();
                    let numbers = [saved, first.0.to_string(), placed.looks.to_string(), first.1.to_string()];
                    gains.row(key.iter().chain(&numbers));
                }
            }
            let planned = planned(services)?;
            let difference = planned as i64 - first.0 as i64;
            let key = [kind, count.to_string(), set];
            let numbers = [planned.to_string(), first.0.to_string(), difference.to_string()];
            shipped.row(key.iter().chain(&numbers));
            played(total);
        }
    }
    let tables = [("cores", cores), ("least", least), ("gains", gains), ("shipped", shipped)];
    Ok(tables.into_iter().map(|(name, csv)| (name.into(), csv.text())).collect())
}

/// Random services of a kind.
pub fn services(kind: Kind, count: usize, rng: &mut ChaCha8Rng) -> Vec<Service> {
    (0..count).map(|number| service(format!("s{number}"), kind, rng)).collect()
}

fn service(name: String, kind: Kind, rng: &mut ChaCha8Rng) -> Service {
    let us = |period: u64, share: f64| Duration::from_us((period as f64 * 1000.0 * share) as u64);
    let mut supply = |from: f64, to: f64| {
        let period = [10, 20, 40, 50].choose(rng).copied().unwrap_or(10);
        let budget = us(period, rng.random_range(from..to));
        (Promise::Supply(vec![Interface { budget, period: Duration::from_ms(period) }]), Vec::new())
    };
    let (promise, tasks) = match kind {
        Kind::Supplies => supply(0.05, 0.3),
        Kind::Large => supply(0.2, 0.6),
        Kind::Deadlines => {
            let count = rng.random_range(1..=3);
            let task = |number: u32| {
                let period = [10, 20, 40, 50, 100, 200].choose(rng).copied().unwrap_or(10);
                let wcet = us(period, rng.random_range(0.01..0.06));
                let period = Duration::from_ms(period);
                let (deadline, offset, release) = (period, Duration::ZERO, Release::Sporadic);
                Task { name: format!("t{number}"), wcet, period, deadline, offset, release, copies: 1 }
            };
            let scheduler = GuestScheduler::Own(Scheduler::Edf);
            (Promise::EveryDeadline { scheduler, vcpus: 1, placed: Vec::new() }, (0..count).map(task).collect())
        }
    };
    Service { tasks, ..Service::plain(name, Origin::Start(vec!["work".into()]), promise) }
}

/// A site with so many hosts of one core.
fn site(hosts: usize, services: Vec<Service>) -> Site {
    let host = |number: usize| Host {
        name: format!("h{number}"),
        cores: vec![0],
        keep_free: Bandwidth::new(1, 20).unwrap_or(Bandwidth::ZERO),
        network: None,
        unused: Unused::Leave,
        xen: None,
    };
    Site {
        hosts: (0..hosts).map(host).collect(),
        services,
        topics: Vec::new(),
        coordination: None,
        paths: Default::default(),
        modes: None,
    }
}

fn facts() -> Facts {
    Facts { host: None, ..Facts::typical(vec![0]) }
}

/// What the planner reserves for each service beside others on its core, and what a core has for all: each is planned with
/// another one, a tiny one, on one core.
pub fn servers(services: &[Service]) -> Result<(Vec<u64>, Core), Error> {
    let (budget, period) = (Duration::from_ms(1), Duration::from_secs(1));
    let mut core = Core { most: 0, servers: Backend::MANAGED };
    let mut server = |service: &Service| {
        let tiny = Service {
            name: "tiny".into(),
            promise: Promise::Supply(vec![Interface { budget, period }]),
            tasks: Vec::new(),
            ..service.clone()
        };
        let plan = plan(&site(1, vec![service.clone(), tiny]), &facts()).map_err(refused)?;
        core.most = units(plan.hosts[0].admission[0].most, false);
        Ok(units(plan.services[0].server.bandwidth(), true))
    };
    let all = services.iter().map(&mut server).collect::<Result<_, Error>>()?;
    Ok((all, core))
}

/// Cores with reservations in the planner's own plan, on more hosts than needed, of one core each: on a host with more of them
/// than it needs, the planner gives servers a core of their own that are cheaper there.
pub fn planned(services: Vec<Service>) -> Result<usize, Error> {
    let plan = plan(&site(services.len(), services), &facts()).map_err(refused)?;
    Ok(plan.hosts.iter().map(|host| host.admission.len()).sum())
}

fn refused(why: giusto_planner::Refusal) -> Error {
    Error::Size(format!("a generated service has no plan: {why}"))
}

fn units(share: Bandwidth, up: bool) -> u64 {
    let (top, bottom) = (u128::from(share.numer()) * u128::from(UNIT), u128::from(share.denom()));
    (if up { top.div_ceil(bottom) } else { top / bottom }) as u64
}
