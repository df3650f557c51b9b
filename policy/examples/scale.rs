//! What an event costs as servers grow: a change of readiness and the decision after it. `cargo run --release --example scale`

use giusto_policy::{Id, Kind, Order, Params, Pool};
use std::time::Instant;

const EVENTS: u64 = 2_000_000;

/// `count` servers of the kinds that idle without an event, with periods that differ.
fn pool(count: u32) -> (Pool, Vec<Id>) {
    let mut pool = Pool::new(Order::Edf);
    let kinds = [Kind::Deferrable, Kind::ConstantBandwidth];
    let add = |index: u32| {
        let period = 1_000_000 + u64::from(index * 7919 % count) * 1_000;
        let params = Params { budget: period / u64::from(count) / 2, period, first: 0, priority: index };
        pool.add(kinds[index as usize % 2], params, 0).expect("valid parameters")
    };
    let ids = (0..count).map(add).collect();
    (pool, ids)
}

/// ns an event over `pools` pools of `count` servers each, served in turns.
fn cost(pools: u32, count: u32) -> f64 {
    let mut all: Vec<(Pool, Vec<Id>)> = (0..pools).map(|_| pool(count)).collect();
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
    println!("pools  servers each  ns an event  ns per log2(servers)");
    let mut ends = [0.0; 2];
    for count in [4, 16, 64, 256, 1024] {
        let ns = cost(1, count);
        println!("{:5}  {count:12}  {ns:11.0}  {:20.1}", 1, ns / f64::from(count).log2());
        ends = if count == 16 { [ns, ns] } else { [ends[0], ns] };
    }
    println!("{:5}  {:12}  {:11.0}  {:20.1}", 64, 16, cost(64, 16), cost(64, 16) / 4.0);
    // log2 grows by 10 / 4; a linear core by 64.
    let ratio = ends[1] / ends[0];
    println!("1,024 servers cost {ratio:.1} times as much an event as 16 (gate: <= 5, a linear core: 64)");
    std::process::exit(i32::from(ratio > 5.0));
}
