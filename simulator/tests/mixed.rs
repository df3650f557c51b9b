//! Services on cores of their own under mixed criticality, and beside it under the baselines: nothing is lost, no server moves,
//! and where no server is hot it is EDF.

use giusto_model::{Duration, JobRecord, Release, ServerKind, Task};
use giusto_policy::{Back, CoreMode, Kind, Mixed, Order, Params, Pool};
use giusto_simulator::baselines::{Credit, Fair};
use giusto_simulator::{
    services, simulate_with, Error, Execution, Guest, Idle, Observer, Partitioned, Scheduler, ServerSpec, Sporadic,
    Stats, System, Watch, Workload,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;

fn ns(ns: u64) -> Duration {
    Duration::from_ns(ns)
}

fn task(wcet: u64, period: u64, offset: u64) -> Task {
    let (name, release) = (String::new(), Release::Sporadic);
    Task { name, wcet: ns(wcet), period: ns(period), deadline: ns(period), offset: ns(offset), release, copies: 1 }
}

fn system(cores: u32, workloads: Vec<Option<Workload>>) -> System {
    let zero = Duration::ZERO;
    let kind = ServerKind::Unlimited;
    let spec = |workload| ServerSpec { kind, budget: zero, period: zero, first: zero, priority: 0, vcpus: 1, workload };
    System { cores, ..System::new(Order::Edf, workloads.into_iter().map(spec).collect()) }
}

fn mixed_pool() -> Pool {
    let mut pool = Pool::new(Order::MixedCriticality);
    pool.cooling(1, Back::Idle);
    pool
}

fn low(optimistic: u64, period: u64) -> Mixed {
    Mixed { optimistic, worst: None, period, virtual_deadline: period }
}

/// Loads of all kinds.
fn random_load(rng: &mut ChaCha8Rng) -> Option<Workload> {
    let cycle = rng.random_range(2..=40) * MS;
    match rng.random_range(0..4) {
        0 => None,
        1 => Some(services::requests(rng.random_range(1..=20), ns(cycle), ns(rng.random_range(1..=MS)))),
        2 => Some(services::batch(ns(rng.random_range(1..=cycle)))),
        _ => {
            let (percent, offset) = (rng.random_range(0..=100), rng.random_range(0..=cycle));
            Some(services::duty(ns(rng.random_range(1..=cycle)), ns(cycle), percent, ns(offset)))
        }
    }
}

/// Checks that a slice is on no other core at the time, and adds up processor time. `bound`: no server runs on another core than
/// its own.
struct Ledger<'a> {
    watch: Watch,
    ran: Vec<u64>,
    idle: Vec<u64>,
    core_of: Option<&'a [u32]>,
    /// Who ran, from the slices of one stretch of time.
    now: (u64, Vec<usize>),
}

impl Observer for Ledger<'_> {
    fn job(&mut self, server: usize, job: &JobRecord) -> Result<(), Error> {
        self.watch.job(server, job)
    }
    fn slice(&mut self, server: usize, job: Option<(u32, u64)>, from: u64, to: u64) -> Result<(), Error> {
        if self.now.0 != from {
            self.now = (from, Vec::new());
        }
        assert!(!self.now.1.contains(&server), "{server} has two cores at {from}");
        if let Some(core_of) = self.core_of {
            let same = |other: &usize| core_of[*other] == core_of[server];
            assert!(!self.now.1.iter().any(same), "two servers of one core run at {from}");
        }
        self.now.1.push(server);
        self.ran[server] += to - from;
        self.watch.slice(server, job, from, to)
    }
    fn idle(&mut self, core: u32, from: u64, to: u64) -> Result<(), Error> {
        self.idle[core as usize] += to - from;
        self.watch.idle(core, from, to)
    }
}

#[test]
fn processor_time_is_conserved_and_shares_add_up_to_one_under_all_schedulers() {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let (mut hot, mut idle, mut full, mut split) = (0, 0, 0, 0);
    for round in 0..150u64 {
        let cores = rng.random_range(1..=4u32);
        let count = rng.random_range(1..=8);
        let loads: Vec<Option<Workload>> = (0..count).map(|_| random_load(&mut rng)).collect();
        let core_of: Vec<u32> = (0..count).map(|_| rng.random_range(0..cores)).collect();
        let system = system(cores, loads);
        let horizon = rng.random_range(50..=300) * MS + rng.random_range(0..MS);
        let (from, window) = (rng.random_range(0..=30) * MS, rng.random_range(1..=20) * MS);
        let mut pools = Partitioned::new((0..cores).map(|_| mixed_pool()));
        for &core in &core_of {
            let period = rng.random_range(4..=40) * MS;
            let optimistic = rng.random_range(1..=period / 4);
            let worst = rng.random_bool(0.5).then(|| rng.random_range(optimistic..=period / 2));
            let virtual_deadline = if worst.is_some() { rng.random_range(optimistic..=period) } else { period };
            pools
                .add(core, |pool| pool.add_mixed(Mixed { optimistic, worst, period, virtual_deadline }, 0, 0))
                .unwrap();
        }
        let weights: Vec<u32> = (0..count).map(|_| rng.random_range(1..=512)).collect();
        for arm in 0..3 {
            let mut ledger = Ledger {
                watch: Watch::new(count, cores, ns(from), ns(window)),
                ran: vec![0; count],
                idle: vec![0; cores as usize],
                core_of: (arm == 0).then_some(&core_of[..]),
                now: (u64::MAX, Vec::new()),
            };
            let stats: Vec<Stats> = match arm {
                0 => simulate_with(&mut pools, &system, ns(horizon), round, &mut ledger),
                1 => simulate_with(
                    &mut Credit::new(cores, &weights, &[]).unwrap(),
                    &system,
                    ns(horizon),
                    round,
                    &mut ledger,
                ),
                _ => simulate_with(&mut Fair::new(cores, &weights).unwrap(), &system, ns(horizon), round, &mut ledger),
            }
            .unwrap();
            let consumed: Vec<u64> = stats.iter().map(|stats| stats.consumed.ns()).collect();
            assert_eq!(consumed, ledger.ran);
            let all = consumed.iter().sum::<u64>() + ledger.idle.iter().sum::<u64>();
            assert_eq!(all, horizon * u64::from(cores), "round {round}, arm {arm}");
            let rows = ledger.watch.windows();
            let whole = rows.len().saturating_sub(usize::from(!(horizon - from).is_multiple_of(window)));
            for row in &rows[..whole] {
                assert_eq!(row.iter().sum::<u64>(), window * u64::from(cores));
            }
            let seen: u64 = rows.iter().flatten().sum();
            assert_eq!(seen, (horizon - from) * u64::from(cores));
            for shares in ledger.watch.shares().take(whole) {
                assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            }
            let cores_idle = ledger.watch.idled();
            let idles: u64 = rows.iter().map(|row| row[count]).sum();
            assert_eq!(cores_idle.iter().map(|core| core.ns).sum::<u64>(), idles);
            idle += u64::from(idles > 0);
            full += u64::from(idles == 0);
            split += u64::from(cores_idle.iter().any(|core| 0 < core.deep_ns && core.deep_ns < core.ns));
        }
        hot += pools.critical().iter().map(|core| core.times).sum::<u64>();
        assert!(pools
            .critical()
            .iter()
            .all(|core| core.time <= ns(horizon) && (core.times > 0 || core.time.is_zero())));
    }
    println!("HI began {hot} times; idle in {idle} plays, full in {full}; short and long idle stretches in {split}");
    assert!(hot > 200 && idle > 100 && full > 20 && split > 50, "the interesting cases must occur");
}

/// Jobs (task by task: release, length, relative deadline) under preemptive EDF, ties to the first in the list: when each is done. From the
/// definition; steps from event to event.
fn edf(jobs: &[(usize, u64, u64, u64)]) -> Vec<u64> {
    let mut left: Vec<u64> = jobs.iter().map(|job| job.2).collect();
    let mut done = vec![0; jobs.len()];
    let mut now = 0;
    while left.iter().any(|&left| left > 0) {
        let ready = (0..jobs.len()).filter(|&job| left[job] > 0 && jobs[job].1 <= now);
        let next = (0..jobs.len()).filter(|&job| jobs[job].1 > now).map(|job| jobs[job].1).min();
        let Some(first) = ready.min_by_key(|&job| (jobs[job].1 + jobs[job].3, jobs[job].0)) else {
            now = next.expect("what is left comes later");
            continue;
        };
        let ran = left[first].min(next.map_or(u64::MAX, |next| next - now));
        (left[first], now) = (left[first] - ran, now + ran);
        if left[first] == 0 {
            done[first] = now;
        }
    }
    done
}

#[test]
fn where_no_server_asks_for_more_a_mixed_pool_is_edf_by_virtual_deadlines() {
    let mut rng = ChaCha8Rng::seed_from_u64(12);
    let (mut jobs_seen, mut preempted, mut high_seen, mut virtual_first) = (0u64, 0u64, 0u64, 0u64);
    for round in 0..300u64 {
        let count = rng.random_range(2..=5usize);
        let mut pools = Partitioned::new([mixed_pool()]);
        let (mut loads, mut deadlines) = (Vec::new(), Vec::new());
        let mut shares = 0.0;
        for _ in 0..count {
            let period = rng.random_range(8..=60) * MS;
            let optimistic = rng.random_range(1..=period / count as u64);
            let high = rng.random_bool(0.5);
            let virtual_deadline = if high { rng.random_range(optimistic..=period) } else { period };
            // By density no more than the core, so that no budget ends before its job.
            shares += optimistic as f64 / virtual_deadline as f64;
            let mixed =
                Mixed { optimistic, worst: high.then_some((optimistic * 2).min(period)), period, virtual_deadline };
            pools.add(0, |pool| pool.add_mixed(mixed, 0, 0)).unwrap();
            loads.push(Some(Workload {
                tasks: vec![task(optimistic, period, rng.random_range(0..period))],
                guest: Guest::Fifo,
                execution: Execution::Uniform { percent: 30 },
                sporadic: Sporadic::Random,
            }));
            deadlines.push(virtual_deadline);
            high_seen += u64::from(high);
        }
        if shares > 1.0 {
            continue;
        }
        let mut slices: BTreeMap<(usize, u64), (u64, u64)> = BTreeMap::new();
        let mut records: Vec<(usize, JobRecord)> = Vec::new();
        struct Both<'a>(&'a mut BTreeMap<(usize, u64), (u64, u64)>, &'a mut Vec<(usize, JobRecord)>);
        impl Observer for Both<'_> {
            fn job(&mut self, server: usize, job: &JobRecord) -> Result<(), Error> {
                self.1.push((server, *job));
                Ok(())
            }
            fn slice(&mut self, server: usize, job: Option<(u32, u64)>, from: u64, to: u64) -> Result<(), Error> {
                let (_, number) = job.expect("all have jobs");
                let (ran, pieces) = self.0.entry((server, number)).or_default();
                (*ran, *pieces) = (*ran + to - from, *pieces + 1);
                Ok(())
            }
        }
        let system = system(1, loads);
        simulate_with(&mut pools, &system, ns(2000 * MS), round, &mut Both(&mut slices, &mut records)).unwrap();
        assert_eq!(pools.critical()[0].times, 0, "none asks");
        records.sort_by_key(|(server, job)| (job.release, *server));
        let jobs: Vec<(usize, u64, u64, u64)> = records
            .iter()
            .map(|&(server, job)| (server, job.release.ns(), slices[&(server, job.job)].0, deadlines[server]))
            .collect();
        let expected = edf(&jobs);
        for ((job, (server, record)), done) in jobs.iter().zip(&records).zip(expected) {
            assert_eq!(record.finish.unwrap().ns(), done, "round {round}, server {server}, {record:?} {job:?}");
            jobs_seen += 1;
            preempted += u64::from(slices[&(*server, record.job)].1 > 1);
        }
        virtual_first += u64::from(deadlines.iter().any(|d| !d.is_multiple_of(MS)));
    }
    println!("{jobs_seen} jobs, {preempted} in pieces; {high_seen} high servers, rounds with virtual deadlines {virtual_first}");
    assert!(jobs_seen > 3000 && preempted > 300 && high_seen > 100 && virtual_first > 50);
}

#[test]
fn memcached_alone_waits_as_pollaczek_and_khinchine_say_whatever_schedules() {
    for (connections, rate) in [(50u32, 100u64), (50, 70), (10, 1500)] {
        let memcached = services::requests(connections, ns(1_000_000_000 / rate), services::MEMCACHED_REQUEST);
        let system = system(1, vec![Some(memcached)]);
        let service = services::MEMCACHED_REQUEST.ns() as f64;
        let rho = service * (u64::from(connections) * rate) as f64 / 1e9;
        let expected = service * (1.0 + rho / (2.0 * (1.0 - rho)));
        let second = ns(1000 * MS);
        let mut seen = Vec::new();
        for arm in 0..3 {
            let mut watch = Watch::new(1, 1, second, second);
            let (length, seed) = (ns(60_000 * MS), 5);
            match arm {
                0 => {
                    let mut pools = Partitioned::new([mixed_pool()]);
                    let mixed = Mixed { worst: Some(25 * MS), virtual_deadline: 20 * MS, ..low(5 * MS, 100 * MS) };
                    pools.add(0, |pool| pool.add_mixed(mixed, 0, 0)).unwrap();
                    simulate_with(&mut pools, &system, length, seed, &mut watch)
                }
                1 => simulate_with(&mut Credit::new(1, &[256], &[]).unwrap(), &system, length, seed, &mut watch),
                _ => simulate_with(&mut Fair::new(1, &[256]).unwrap(), &system, length, seed, &mut watch),
            }
            .unwrap();
            let stats = watch.responses(0);
            let error = (stats.mean_ns() / expected - 1.0).abs();
            println!("load {rho:.3}: mean {} of {expected}, {} requests", stats.mean_ns(), stats.jobs());
            assert!(error < 0.02 && stats.jobs() > 200_000, "load {rho}: off by {error}");
            seen.push((stats.mean_ns(), stats.max(), stats.jobs()));
        }
        assert!(seen.iter().all(|one| *one == seen[0]), "alone, no scheduler matters");
    }
}

#[test]
fn closed_loops_sleep_as_long_as_they_say_after_each_job_and_have_their_duty_alone() {
    let mut rng = ChaCha8Rng::seed_from_u64(13);
    let (mut held_up, mut gaps, mut back_to_back) = (0u64, 0u64, 0u64);
    for round in 0..100u64 {
        let (cycle, percent) = (rng.random_range(2..=50) * MS, rng.random_range(0..=100u32));
        let work = if round % 5 == 0 { cycle } else { rng.random_range(1..=cycle) };
        let one = || services::duty(ns(work), ns(cycle), percent, ns(0));
        for others in [0, 2] {
            let loads = (0..=others).map(|_| Some(one())).collect();
            let mut jobs: Vec<Vec<JobRecord>> = vec![Vec::new(); others + 1];
            let mut keep = |server: usize, job: &JobRecord| jobs[server].push(*job);
            let (mut fair, horizon) = (Fair::new(1, &vec![1; others + 1]).unwrap(), 400 * cycle);
            let stats = simulate_with(&mut fair, &system(1, loads), ns(horizon), round, &mut keep).unwrap();
            let sleep = cycle - work;
            let half = (u128::from(sleep) * u128::from(percent) / 100) as u64;
            for pair in jobs.iter().flat_map(|jobs| jobs.windows(2)) {
                let slept = pair[1].release.ns() - pair[0].finish.unwrap().ns();
                assert!(slept.abs_diff(sleep) <= half, "{slept} of {sleep} ± {half}");
                held_up += u64::from(pair[1].response_ns().unwrap() > work);
                back_to_back += u64::from(slept == 0);
                gaps += 1;
            }
            if others == 0 {
                let duty = stats[0].consumed.ns() as f64 / horizon as f64;
                let expected = work as f64 / cycle as f64;
                assert!((duty / expected - 1.0).abs() < 0.15, "{duty} of {expected}");
            }
        }
    }
    println!("{gaps} sleeps, {back_to_back} of nothing, {held_up} jobs held up");
    assert!(gaps > 10_000 && held_up > 5_000 && back_to_back > 1_000);
    let error = simulate_with(
        &mut Fair::new(1, &[1]).unwrap(),
        &system(1, vec![Some(services::duty(ns(1), ns(2), 101, ns(0)))]),
        ns(10),
        0,
        &mut giusto_simulator::Unobserved,
    );
    let error = error.unwrap_err().to_string();
    assert!(error.contains("101 %") && error.contains("expected at most 100"), "{error}");
}

#[test]
fn stretches_without_work_are_joined_where_they_touch_and_cut_where_the_watch_begins() {
    let us = 1_000;
    let mut watch = Watch::new(1, 2, ns(100 * us), ns(MS));
    for (core, from, to) in [(0, 0, 50), (0, 50, 400), (1, 90, 100), (0, 400, 700), (1, 200, 799), (0, 900, 950)] {
        Observer::idle(&mut watch, core, from * us, to * us).unwrap();
    }
    let idled = |ns, deep_ns, stretches| Idle { ns: ns * us, deep_ns: deep_ns * us, stretches };
    // 600 us is deep, 599 is not.
    assert_eq!(watch.idled(), [idled(650, 600, 2), idled(599, 0, 1)]);
    assert_eq!(watch.windows(), [[0, 1249 * us]]);
}

#[test]
fn a_server_is_refused_with_its_number_where_its_core_or_reservation_makes_no_sense() {
    let mut pools = Partitioned::new([mixed_pool(), mixed_pool()]);
    pools.add(1, |pool| pool.add_mixed(low(MS, 2 * MS), 0, 0)).unwrap();
    let beyond = pools.add(2, |pool| pool.add_mixed(low(MS, 2 * MS), 0, 0)).unwrap_err().to_string();
    assert_eq!(beyond, "server 1: core 2; expected one of 2, from 0");
    let refused = pools.add(0, |pool| pool.add_mixed(low(2 * MS, MS), 0, 0)).unwrap_err().to_string();
    assert!(refused.starts_with("server 1: ") && refused.contains("expected"), "{refused}");
    let mut others = mixed_pool();
    others.add(Kind::Unlimited, Params { budget: 0, period: 0, first: 0, priority: 0 }, 0).unwrap();
    let mut pools = Partitioned::new([others]);
    assert!(pools
        .add(0, |pool| pool.add_mixed(low(MS, 2 * MS), 0, 0))
        .unwrap_err()
        .to_string()
        .contains("other servers"));
}

#[test]
fn the_time_in_hi_is_that_between_the_moments_at_which_the_core_enters_and_leaves_it() {
    // A high server of 2 (4) in 10, always ready, beside a low one: LO until it has used 2, then HI for ever.
    let mut pools = Partitioned::new([mixed_pool()]);
    let high = Mixed { optimistic: 2 * MS, worst: Some(4 * MS), period: 10 * MS, virtual_deadline: 5 * MS };
    pools.add(0, |pool| pool.add_mixed(high, 0, 0)).unwrap();
    pools.add(0, |pool| pool.add_mixed(low(3 * MS, 10 * MS), 0, 0)).unwrap();
    simulate_with(&mut pools, &system(1, vec![None, None]), ns(1000 * MS), 0, &mut giusto_simulator::Unobserved)
        .unwrap();
    let seen = pools.critical()[0];
    assert_eq!((seen.times, seen.time), (1, ns(998 * MS)));
    // No server has asked for anything: the mode is LO.
    let mut pool = mixed_pool();
    assert_eq!((pool.core_mode(0), pool.decide(0).until), (CoreMode::Lo, None));
    let mut pools = Partitioned::new([pool]);
    assert_eq!((pools.decide(5), pools.running(0), pools.running(7)), (None, None, None));
}
