//! What budgets and periods give to CPU-bound and to I/O-bound machines. [Asy20, § 4.1, Fig. 4].

use crate::akita::{each, memcached, percentiles, play, How, Seen, Type, Under, Vm, TYPE_2, TYPE_3, TYPE_4, TYPE_5};
use crate::vatc::{named, table, us};
use crate::{Error, Size};
use giusto_model::Duration;
use giusto_simulator::services;
use rand::RngExt;
use std::collections::BTreeMap;

/// A piece of Sysbench's work, and calls a second of a client of an RPC server.
const WORK: Duration = Duration::from_ms(500);
const CALLS: u64 = 500;
/// Clients of each RPC server: with 46 us a call 2.3, 4.6 and 9.2 % of a core; both servers have a reservation of 10 %.
const CLIENTS: [u32; 3] = [4, 2, 1];
/// Not in the paper: an RPC server of 10 % with other periods, and a CPU-bound machine with other budgets.
/// In ms; the latter are of 100, and another such machine has what they leave of 85.
const PERIODS: [u64; 4] = [20, 50, 100, 200];
const BUDGETS: [u64; 4] = [10, 20, 40, 60];

/// Tables `cpu` and `rpc`, a row for each machine of a set; `periods` and `budgets`, where only that is varied.
pub(crate) fn run(size: Size, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let found = each(&size, played, &CLIENTS, |&clients, set| one(&size, clients, set))?;
    let mut tables: [Vec<Vec<String>>; 4] = Default::default();
    for rows in found {
        tables.iter_mut().zip(rows).for_each(|(all, mut rows)| all.append(&mut rows));
    }
    let [cpu, rpc, periods, budgets] = tables;
    let rpc_columns = vec!["clients", "under", "vm", "set", "calls", "mean_us", "p99_us"];
    Ok(named(vec![
        ("cpu", table(vec!["clients", "under", "vm", "set", "execution_ms", "share"], &cpu)),
        ("rpc", table(rpc_columns, &rpc)),
        ("periods", table(vec!["clients", "period_ms", "set", "calls", "mean_us", "p99_us"], &periods)),
        ("budgets", table(vec!["clients", "budget_ms", "set", "execution_ms", "share"], &budgets)),
    ]))
}

fn one(size: &Size, clients: u32, set: u64) -> Result<[Vec<Vec<String>>; 4], Error> {
    let seed = size.stream(0, set).random();
    let second = Duration::from_ms(1000);
    let how = |under| How { cores: 1, under, length: size.length, from: second, window: second, seed };
    let rpc = |of| Vm { of, core: 0, runs: Some(memcached(clients, CALLS)) };
    let sysbench = |of| Vm { of, core: 0, runs: Some(services::batch(WORK)) };
    let [mut cpu, mut calls, mut periods, mut budgets]: [Vec<Vec<String>>; 4] = Default::default();
    let (clients, set) = (clients.to_string(), set.to_string());
    for under in [Under::Akita, Under::Fair] {
        let vms = [rpc(TYPE_4), rpc(TYPE_5), sysbench(TYPE_2), sysbench(TYPE_3)];
        let seen = play(&vms, how(under))?;
        let of = |vm: &str| vec![clients.clone(), under.name().to_string(), vm.to_string(), set.clone()];
        for (vm, name) in [(0, "type-4"), (1, "type-5")] {
            calls.push([of(name), answered(&seen, vm)].concat());
        }
        for (vm, name) in [(2, "type-2"), (3, "type-3")] {
            cpu.push([of(name), executed(&seen, vm)].concat());
        }
    }
    for period in PERIODS {
        let of = TYPE_5.in_period(period * 1000);
        let seen = play(&[rpc(of), sysbench(TYPE_2), sysbench(TYPE_3)], how(Under::Akita))?;
        periods.push([vec![clients.clone(), period.to_string(), set.clone()], answered(&seen, 0)].concat());
    }
    for optimistic in BUDGETS {
        let of = |ms: u64| sysbench(Type { optimistic: ms * 1000, ..TYPE_2 });
        let seen = play(&[rpc(TYPE_4), of(85 - optimistic), of(optimistic)], how(Under::Akita))?;
        budgets.push([vec![clients.clone(), optimistic.to_string(), set.clone()], executed(&seen, 2)].concat());
    }
    Ok([cpu, calls, periods, budgets])
}

/// Calls, their mean response time and the 99th percentile.
fn answered(seen: &Seen, vm: usize) -> Vec<String> {
    let responses = seen.watch.responses(vm);
    let counts = vec![responses.jobs().to_string(), us(responses.mean_ns() as u64)];
    [counts, percentiles(seen, vm, &[99.0])].concat()
}

/// How long a piece of work takes, and the machine's share of the core.
fn executed(seen: &Seen, vm: usize) -> Vec<String> {
    let windows = seen.watch.windows();
    let (ran, all) = windows.iter().fold((0, 0), |(ran, all), row| (ran + row[vm], all + row.iter().sum::<u64>()));
    let mean = seen.watch.responses(vm).mean_ns() / 1e6;
    vec![format!("{mean:.6}"), format!("{:.6}", ran as f64 / all as f64)]
}
