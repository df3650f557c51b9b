//! What an event costs as servers and cores grow: a change of readiness and the decision after it.
//! `cargo run --release --example scale`

use giusto_policy::{Id, Kind, Order, Params, Pool};
use std::time::Instant;

const EVENTS: u64 = 2_000_000;

/// `count` servers of the kinds that idle without an event, with periods that differ. Half of them, awake, fill the cores.
fn pool(cores: u32, count: u32) -> (Pool, Vec<Id>) {
    let mut pool = Pool::with_cores(Order::Edf, cores);
    let kinds = [Kind::Deferrable, Kind::ConstantBandwidth];
    let add = |index: u32| {
        let period = 1_000_000 + u64::from(index * 7919 % count) * 1_000;
        let budget = period * u64::from(2 * cores) / u64::from(count).max(u64::from(2 * cores));
        pool.add(kinds[index as usize % 2], Params { budget, period, first: 0, priority: index }, 0)
            .expect("valid parameters")
    };
    let ids = (0..count).map(add).collect();
    (pool, ids)
}

/// ns an event over `pools` pools of `count` servers each, served in turns.
fn cost(pools: u32, cores: u32, count: u32) -> f64 {
    let mut all: Vec<(Pool, Vec<Id>)> = (0..pools).map(|_| pool(cores, count)).collect();
    let (mut random, mut now) = (1u64, 0);
    let begin = Instant::now();
    for event in 0..EVENTS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        now += random >> 54;
        let (pool, ids) = &mut all[(event % u64::from(pools)) as usize];
        let server = ids[(random >> 33) as usize % ids.len()];
        pool.ready(server, random >> 20 & 1 == 0, now);
        std::hint::black_box(pool.decide(now));
    }
    begin.elapsed().as_nanos() as f64 / EVENTS as f64
}

fn main() {
    println!("pools  cores  servers each  ns an event");
    let row = |pools: u32, cores: u32, count: u32| {
        let ns = cost(pools, cores, count);
        println!("{pools:5}  {cores:5}  {count:12}  {ns:11.0}");
        ns
    };
    let servers = [4, 16, 64, 256, 1024].map(|count| row(1, 1, count));
    row(64, 1, 16);
    let cores = [1, 4, 16, 64].map(|cores| row(1, cores, 512));
    // log2 grows by 10 / 4; a linear core by 64.
    let ratio = servers[4] / servers[1];
    println!("1,024 servers cost {ratio:.1} times as much an event as 16 (gate: <= 5, a linear core: 64)");
    let wide = cores[3] / cores[0];
    println!("64 cores of one pool cost {wide:.1} times as much an event as 1 (gate: <= 5, if all were looked at: 64)");
    std::process::exit(i32::from(ratio > 5.0 || wide > 5.0));
}
