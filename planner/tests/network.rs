//! Packets: cores and priorities within all promises, proven by another way than the planner's, or refused with what would fit.

mod common;

use common::{leftovers, plan, site, sites};
use giusto_model::{
    Bucket, Duration, HostNetwork, NetworkPlan, PacketClass, PacketUnit, Plan, Rate, Site, Tokens, Uplink, Vif, VifPlan,
    Within,
};
use giusto_planner::{explain, plan_on, Facts, PacketCause, PacketFit, PacketRefusal, Refusal};
use giusto_verify::check_plan;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

fn rate(per_second: u64) -> Rate {
    Rate::of(per_second, Duration::from_ms(1000)).unwrap()
}

fn bucket(per_second: u64, burst: u64) -> Bucket {
    Bucket { rate: rate(per_second), depth: Tokens::whole(burst) }
}

fn p99(us: u64) -> Vec<Within> {
    vec![Within { percentile: "p99".parse().unwrap(), within: Duration::from_us(us) }]
}

fn high(name: &str, per_second: u64, burst: u64, us: Option<u64>) -> Vif {
    let promise = us.map_or(Vec::new(), p99);
    Vif { name: name.into(), class: PacketClass::High, bucket: Some(bucket(per_second, burst)), promise }
}

fn low(name: &str, per_second: Option<u64>) -> Vif {
    let bucket = per_second.map(|packets| bucket(packets, 10));
    Vif { name: name.into(), class: PacketClass::Low, bucket, promise: Vec::new() }
}

/// Cores that process 50,000 packets each: 20 us a packet, 1.28 ms a poll.
fn network(cores: u32, uplinks: &[(u64, u64)]) -> HostNetwork {
    let uplink = |(nth, (packets, burst)): (usize, &(u64, u64))| Uplink {
        name: format!("eth{nth}"),
        bucket: bucket(*packets, *burst),
    };
    HostNetwork {
        cores: (1..=cores).collect(),
        uplinks: uplinks.iter().enumerate().map(uplink).collect(),
        capacity: rate(50_000),
        poll: 64,
        count: PacketUnit::Skb,
    }
}

fn of(network: HostNetwork, vifs: Vec<Vif>) -> Site {
    let mut site = site(&[0], vec![leftovers("batch", "0%")]);
    site.hosts[0].network = Some(network);
    site.services[0].network = vifs;
    site
}

fn planned(site: &Site) -> Result<NetworkPlan, PacketRefusal> {
    match plan(site, &Facts::typical(vec![0])) {
        Ok(mut plan) => Ok(plan.network.remove(0)),
        Err(Refusal::Packets(refusal)) => Err(*refusal),
        Err(other) => panic!("{other}"),
    }
}

fn bound(plan: &NetworkPlan, name: &str) -> u64 {
    let vif = plan.vifs.iter().find(|vif| vif.name == name).unwrap();
    vif.bound.unwrap().ns() / 1000
}

#[test]
fn bounds_are_a_poll_and_what_is_above_by_hand() {
    let vifs = vec![high("a", 5_000, 10, Some(2_300)), high("b", 1_000, 5, Some(1_800)), low("c", None)];
    let plan = planned(&of(network(1, &[(10_000, 20)]), vifs)).unwrap();
    let [a, b, c] = &plan.vifs[..] else { panic!("{plan:?}") };
    // The uplink is above both, b above a, and c has no priority.
    assert_eq!((plan.uplinks[0].priority, b.priority, a.priority, c.priority), (90, Some(49), Some(48), None));
    // b: (64 + 20 + 5) x 20 us, and a fifth of the time for the uplink; a: 10 more, and 11,000 of 50,000.
    assert_eq!((bound(&plan, "b"), bound(&plan, "a")), (2_225, 2_538));
}

#[test]
fn the_soonest_is_not_always_the_first() {
    // Above a, b's many packets would make it wait; below it b waits for a's few. By deadlines b would be first.
    let vifs = |b| vec![high("a", 500, 10, Some(2_000)), high("b", 20_000, 1, b)];
    let told = planned(&of(network(1, &[]), vifs(Some(1_990)))).unwrap();
    assert_eq!((told.vifs[0].priority, told.vifs[1].priority), (Some(49), Some(48)));
    let deadlines_first = 1.0 / (1.0 - 0.4) * f64::from(64 + 10 + 1) * 20.0;
    assert!(deadlines_first > 2_000.0 && bound(&told, "b") <= 1_990);
}
