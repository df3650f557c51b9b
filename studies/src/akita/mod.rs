//! What the studies of Akita share: its types of virtual machines, the loads they run, and three schedulers to run them under (paper
//! 003, § 4).

pub(crate) mod back;
pub(crate) mod calibrated;
pub(crate) mod memcached;
pub(crate) mod multi;
pub(crate) mod quality;
pub(crate) mod scale;
pub(crate) mod shares;

use crate::vatc::us;
use crate::{Error, Size};
use giusto_model::{Duration, ServerKind};
use giusto_policy::{Back, Mixed, Order, Pool};
use giusto_simulator::baselines::{Credit, Fair};
use giusto_simulator::{
    in_parallel, services, simulate_with, Critical, Partitioned, ServerSpec, System, Watch, Workload,
};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Budgets and period in us; not of high criticality: no worst case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Type {
    pub(crate) optimistic: u64,
    pub(crate) worst: Option<u64>,
    pub(crate) period: u64,
}

impl Type {
    /// The same shares in a period of `us`.
    pub(crate) fn in_period(self, us: u64) -> Type {
        let part = |budget: u64| budget * us / self.period;
        Type { optimistic: part(self.optimistic), worst: self.worst.map(part), period: us }
    }
}

/// A row of Table 1, in ms.
const fn of(optimistic: u64, worst: Option<u64>, period: u64) -> Type {
    let worst = match worst {
        Some(worst) => Some(worst * 1000),
        None => None,
    };
    Type { optimistic: optimistic * 1000, worst, period: period * 1000 }
}

pub(crate) const TYPE_1: Type = of(5, Some(25), 100);
pub(crate) const TYPE_2: Type = of(25, None, 100);
pub(crate) const TYPE_3: Type = of(50, None, 100);
pub(crate) const TYPE_4: Type = of(5, None, 50);
pub(crate) const TYPE_5: Type = of(10, None, 100);
pub(crate) const TYPE_6: Type = of(10, Some(50), 100);

/// What schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Under {
    /// The mixed-criticality pools of the policy core, with the virtual deadlines of the paper: x = U2(1) / (1 - U1(1)).
    Akita,
    /// The same with x = 1 where plain EDF suffices for the guarantees.
    Plain,
    /// Xen's Credit, equal weights.
    Credit,
    /// Like Linux's, equal weights.
    Fair,
}

pub(crate) const ALL: [Under; 4] = [Under::Akita, Under::Plain, Under::Credit, Under::Fair];

impl Under {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Under::Akita => "akita",
            Under::Plain => "akita-plain",
            Under::Credit => "credit",
            Under::Fair => "fair",
        }
    }
}

/// A virtual machine with one virtual CPU.
#[derive(Clone, Debug)]
pub(crate) struct Vm {
    pub(crate) of: Type,
    /// Its core, where servers are bound to one.
    pub(crate) core: u32,
    /// None: always ready.
    pub(crate) runs: Option<Workload>,
}

/// Periods in which a high machine must not ask for its worst case before it is cool. The paper does not tell its own.
const DEGREES: u32 = 1;

/// What of a type's period a virtual deadline is: the numerator and denominator of x.
fn x(types: &[Type], under: Under) -> (u64, u64) {
    // In parts of 1000 a core, which all budgets and periods of the studies are multiples of.
    let load = |budget: u64, of: &Type| budget * 1000 / of.period;
    let low: u64 = types.iter().filter(|of| of.worst.is_none()).map(|of| load(of.optimistic, of)).sum();
    let high: u64 = types.iter().filter(|of| of.worst.is_some()).map(|of| load(of.optimistic, of)).sum();
    let worst: u64 = types.iter().filter_map(|of| Some(load(of.worst?, of))).sum();
    if low + worst <= 1000 && under == Under::Plain {
        (1, 1)
    } else {
        (high, 1000 - low)
    }
}

/// What was seen.
pub(crate) struct Seen {
    pub(crate) watch: Watch,
    /// By core; empty under what knows no modes.
    pub(crate) critical: Vec<Critical>,
}

/// How machines are played.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) cores: u32,
    pub(crate) under: Under,
    pub(crate) length: Duration,
    /// Not watched before.
    pub(crate) from: Duration,
    /// Of shares.
    pub(crate) window: Duration,
    pub(crate) seed: u64,
}

/// Plays `vms`. The same seed sends the same requests to a machine, whatever runs beside it.
pub(crate) fn play(vms: &[Vm], how: How) -> Result<Seen, Error> {
    let spec = |vm: &Vm| ServerSpec {
        kind: ServerKind::Unlimited,
        budget: Duration::ZERO,
        period: Duration::ZERO,
        first: Duration::ZERO,
        priority: 0,
        vcpus: 1,
        workload: vm.runs.clone(),
    };
    let system = System { cores: how.cores, ..System::new(Order::Edf, vms.iter().map(spec).collect()) };
    let mut watch = Watch::new(vms.len(), how.cores, how.from, how.window);
    let weights = vec![256; vms.len()];
    let critical = match how.under {
        Under::Credit => {
            let mut credit = Credit::new(how.cores, &weights, &[]).map_err(refused)?;
            simulate_with(&mut credit, &system, how.length, how.seed, &mut watch)?;
            Vec::new()
        }
        Under::Fair => {
            let mut fair = Fair::new(how.cores, &weights).map_err(refused)?;
            simulate_with(&mut fair, &system, how.length, how.seed, &mut watch)?;
            Vec::new()
        }
        Under::Akita | Under::Plain => {
            let mut pools = partitioned(vms, how.cores, how.under)?;
            simulate_with(&mut pools, &system, how.length, how.seed, &mut watch)?;
            pools.critical()
        }
    };
    Ok(Seen { watch, critical })
}

fn refused(why: giusto_simulator::baselines::Error) -> Error {
    Error::Simulator(giusto_simulator::Error::Server { index: 0, why: why.to_string() })
}

fn partitioned(vms: &[Vm], cores: u32, under: Under) -> Result<Partitioned, Error> {
    let pool = |_| {
        let mut pool = Pool::new(Order::MixedCriticality);
        pool.cooling(DEGREES, Back::Idle);
        pool
    };
    let mut pools = Partitioned::new((0..cores).map(pool));
    for vm in vms {
        let types: Vec<Type> = vms.iter().filter(|other| other.core == vm.core).map(|other| other.of).collect();
        let (part, of) = x(&types, under);
        let ns = |us: u64| Duration::from_us(us).ns();
        let period = ns(vm.of.period);
        let virtual_deadline = if vm.of.worst.is_some() { (period * part).div_ceil(of) } else { period };
        let mixed = Mixed { optimistic: ns(vm.of.optimistic), worst: vm.of.worst.map(ns), period, virtual_deadline };
        pools.add(vm.core, |pool| pool.add_mixed(mixed, 0, 0))?;
    }
    Ok(pools)
}

/// Memcached behind this many connections, each asking so often a second.
pub(crate) fn memcached(connections: u32, rate: u64) -> Workload {
    services::requests(connections, Duration::from_ns(1_000_000_000 / rate), services::MEMCACHED_REQUEST)
}

/// Lookbusy at 25 %: runs 25 ms, sleeps 75 ms ± 20 %, and begins anywhere in its cycle.
pub(crate) fn lookbusy(rng: &mut ChaCha8Rng) -> Workload {
    let cycle = Duration::from_ms(100);
    services::duty(Duration::from_ms(25), cycle, 20, Duration::from_ns(rng.random_range(0..cycle.ns())))
}

/// Does `one` for each set of each case, in that order; the first of its arguments is the case.
pub(crate) fn each<C: Sync, T: Send>(
    size: &Size,
    played: &(dyn Fn(u64) + Sync),
    cases: &[C],
    one: impl Fn(&C, u64) -> Result<T, Error> + Sync,
) -> Result<Vec<T>, Error> {
    let cases = &cases[..size.cases.map_or(cases.len(), |count| (count as usize).min(cases.len()))];
    let all = cases.len() as u64 * size.sets;
    in_parallel(all as usize, |index| {
        let (case, set) = (index / size.sets as usize, index as u64 % size.sets);
        let seen = one(&cases[case], set);
        played(all);
        seen
    })
}

/// Percentiles of a machine's response times in us.
pub(crate) fn percentiles(seen: &Seen, vm: usize, of: &[f64]) -> Vec<String> {
    of.iter().map(|p| us(seen.watch.responses(vm).percentile(*p).ns())).collect()
}

/// Share of the time in which a core was in HI mode.
pub(crate) fn critical(seen: &Seen, core: usize, how: How) -> String {
    format!("{:.6}", seen.critical.get(core).map_or(0.0, |c| c.time.ns() as f64 / how.length.ns() as f64))
}
